package transcode

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/symcache"
)

// probePDB is a small PDB for probes of programs: that of a program with one
// function, built with clang and lld-link.
//
//go:embed probe.pdb.gz
var probePDB []byte

const probeName = "hello-x64.pdb"

var probeID = debugid.ID{
	GUID: debugid.GUID{0xf9, 0xef, 0xe0, 0xb6, 0xae, 0x75, 0x00, 0x39, 0x4c, 0x4c, 0x44, 0x20, 0x50, 0x44, 0x42, 0x2e},
	Age:  1,
}

// Transcoders are the programs of one machine. Their methods may be called by
// many goroutines.
type Transcoders struct {
	room *Workspace
	log  *slog.Logger
	list []*transcoder
}

// transcoder is a program and the result of its last probe.
type transcoder struct {
	Program
	probing sync.Mutex // one probe at a time

	mu      sync.Mutex       // guards what follows
	version symcache.Version // that it makes; zero while err is set or before the first probe
	err     error            // why it cannot be used
	seen    []fileMark       // its files at the last probe
	probed  time.Time        // time of the last probe
}

// same reports whether the last probe had the same error.
func (p *transcoder) same(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil && p.err.Error() == err.Error()
}

// probeAgain is after what time a program that cannot be used is probed again,
// unless its files change.
const probeAgain = time.Minute

// fileMark identifies one state of a file.
type fileMark struct {
	name    string
	size    int64
	changed time.Time
	sum     [sha256.Size]byte
}

// NewTranscoders returns the programs, which work in a workspace. None can be used
// before Probe. A nil log discards.
func NewTranscoders(room *Workspace, log *slog.Logger, programs ...Program) *Transcoders {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &Transcoders{room: room, log: log}
	for _, p := range programs {
		t.list = append(t.list, &transcoder{Program: p})
	}
	return t
}

// Workspace returns the workspace of the programs.
func (t *Transcoders) Workspace() *Workspace { return t.room }

// Probe runs each program on a small PDB to learn the version that it makes.
// The error joins those of the programs that cannot be used; the others can.
func (t *Transcoders) Probe(ctx context.Context) error {
	var errs []error
	for _, p := range t.list {
		p.probing.Lock()
		errs = append(errs, t.probe(ctx, p))
		p.probing.Unlock()
	}
	return errors.Join(errs...)
}

// probe learns the version of one program. The caller holds p.probing.
func (t *Transcoders) probe(ctx context.Context, p *transcoder) error {
	marks, err := p.marks()
	var v symcache.Version
	if err == nil {
		v, err = t.tryOut(ctx, p)
	}
	if ctx.Err() != nil {
		return ctx.Err() // the old result of the probe stays
	}
	if err == nil && p.Version != "" {
		if want, perr := symcache.ParseVersion(p.Version); perr != nil {
			err = perr
		} else if want != v {
			err = fmt.Errorf("the program makes version %s, but is configured to make %s; correct its version=", v, want)
		}
	}
	if err != nil {
		pe := &ProgramError{Class: ClassInfra, Program: p.Name, Err: fmt.Errorf("test run failed: %w", err)}
		if e, ok := errors.AsType[*ProgramError](err); ok {
			pe.Err, pe.Output = fmt.Errorf("test run failed: %w", e.Err), e.Output
		}
		err = pe
		if !p.same(err) { // one line for each change, not for each probe
			t.log.Error("a transcoder cannot be used", "transcoder", p.Name, "program", p.shown(), "error", err, "output", pe.Output)
		}
	} else {
		t.log.Info("a transcoder can be used", "transcoder", p.Name, "version", v.String())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version, p.err, p.seen, p.probed = v, err, marks, time.Now()
	if err != nil {
		p.version = symcache.Version{}
	}
	return err
}

// tryOut runs a program on the small PDB and returns the version that it makes.
func (t *Transcoders) tryOut(ctx context.Context, p *transcoder) (symcache.Version, error) {
	none := symcache.Version{}
	sc, err := t.room.New(probeName)
	if err != nil {
		return none, err
	}
	defer sc.Remove()
	z, err := gzip.NewReader(bytes.NewReader(probePDB))
	if err != nil {
		return none, err
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return none, err
	}
	if err := os.WriteFile(sc.PDB(), b, 0o600); err != nil {
		return none, err
	}
	m, err := p.make(ctx, sc, probeID.GUID, []uint32{probeID.Age})
	if err != nil {
		return none, err
	}
	return m.Version, nil
}

// make runs the program and finds its result.
func (p *Program) make(ctx context.Context, sc *Scratch, guid debugid.GUID, ages []uint32) (*Made, error) {
	info, err := os.Stat(sc.PDB())
	if err != nil {
		return nil, &ProgramError{Class: ClassInfra, Program: p.Name, Err: err}
	}
	began := time.Now()
	out, err := p.run(ctx, sc, info.Size())
	var m *Made
	if err == nil {
		if sc.written(p.Limits.output(info.Size())) > p.Limits.output(info.Size()) {
			err = fault(ClassTooLarge, "the program exceeded its output limit")
		} else {
			if p.AnyAge {
				ages = nil
			}
			m, err = sc.result(guid, ages)
		}
	}
	if err != nil {
		e, ok := errors.AsType[*ProgramError](err)
		if !ok {
			e = &ProgramError{Class: ClassInfra, Err: err}
		}
		if e.Class == ClassExit && sc.written(p.Limits.output(info.Size())) >= p.Limits.output(info.Size()) {
			e = fault(ClassTooLarge, "the program reached its output limit and failed")
		}
		if free, ferr := sc.room.Free(); ferr == nil && free < fullDisk && e.Class != ClassTimeout {
			e = fault(ClassInfra, "the disk of the scratch folder is full: %w", e.Err)
		}
		e.Program, e.Output = p.Name, out
		return nil, e
	}
	m.Program, m.Output, m.Took = p.Name, out, time.Since(began)
	return m, nil
}

// fullDisk is how many free bytes make a failure one of the disk.
const fullDisk = 16 << 20

// marks returns the present state of the program's files.
func (p *transcoder) marks() ([]fileMark, error) {
	exe, err := p.executable()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	seen := p.seen
	p.mu.Unlock()
	var list []fileMark
	for _, name := range p.files(exe) {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		m := fileMark{name: name, size: info.Size(), changed: info.ModTime()}
		i := slices.IndexFunc(seen, func(s fileMark) bool { return s.name == m.name && s.size == m.size && s.changed.Equal(m.changed) })
		if i >= 0 {
			m.sum = seen[i].sum
		} else if m.sum, err = sumFile(name); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

func sumFile(name string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// current returns the version that a program makes, after a new probe if its
// files have changed since the last one.
func (t *Transcoders) current(ctx context.Context, p *transcoder) (symcache.Version, error) {
	p.probing.Lock()
	defer p.probing.Unlock()
	marks, err := p.marks()
	p.mu.Lock()
	same := err == nil && slices.EqualFunc(marks, p.seen, func(a, b fileMark) bool { return a.name == b.name && a.sum == b.sum })
	if same {
		p.seen = marks
	}
	v, old, soon := p.version, p.err, time.Since(p.probed) < probeAgain
	p.mu.Unlock()
	if old == nil && same || old != nil && soon && (same || err != nil) {
		return v, old
	}
	if err := t.probe(ctx, p); err != nil {
		return symcache.Version{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version, p.err
}

// Refresh looks for programs that have changed, and probes those again.
func (t *Transcoders) Refresh(ctx context.Context) {
	for _, p := range t.list {
		_, _ = t.current(ctx, p) // logs an error
	}
}

// Versions returns the versions that can be made, the newest of each major one,
// in ascending order.
func (t *Transcoders) Versions() []symcache.Version {
	if t == nil {
		return nil
	}
	var all []symcache.Version
	for _, p := range t.list {
		p.mu.Lock()
		if p.version != (symcache.Version{}) {
			all = append(all, p.version)
		}
		p.mu.Unlock()
	}
	return Newest(all)
}

// Newest returns the newest version of each major one, in ascending order.
func Newest(all []symcache.Version) []symcache.Version {
	all = slices.Clone(all)
	sorting.By(all, symcache.Version.Compare)
	var list []symcache.Version
	for i, v := range all {
		if i+1 == len(all) || all[i+1].Major != v.Major {
			list = append(list, v)
		}
	}
	return list
}

// Transcode makes the SymCache file of the PDB that was put into sc, with the
// program of the newest version of that major one. Other programs are used if it
// cannot be used. The error is a *ProgramError.
func (t *Transcoders) Transcode(ctx context.Context, sc *Scratch, job Job) (*Made, error) {
	ages, err := CheckPDB(sc.PDB(), job.ID.GUID)
	if err != nil {
		return nil, err
	}
	type candidate struct {
		p *transcoder
		v symcache.Version
	}
	var able []candidate
	var unable []error
	for _, p := range t.list {
		v, err := t.current(ctx, p)
		switch {
		case ctx.Err() != nil:
			return nil, &ProgramError{Class: ClassInfra, Err: ctx.Err()}
		case err != nil:
			unable = append(unable, err)
		case int(v.Major) == job.Major:
			able = append(able, candidate{p, v})
		}
	}
	if len(able) == 0 {
		unable = append(unable, fmt.Errorf("no transcoder for version %d can be used now", job.Major))
		return nil, &ProgramError{Class: ClassInfra, Err: errors.Join(unable...)}
	}
	best := slices.MaxFunc(able, func(a, b candidate) int { return a.v.Compare(b.v) })
	m, err := best.p.make(ctx, sc, job.ID.GUID, append(ages, job.ID.Age))
	if err == nil && (m.Version.Major != best.v.Major || best.p.Version != "" && m.Version != best.v) {
		err = &ProgramError{Class: ClassBadOutput, Program: best.p.Name, Output: m.Output,
			Err: fmt.Errorf("the program made version %s, but made %s in its probe", m.Version, best.v)}
	}
	if err != nil {
		if e, ok := errors.AsType[*ProgramError](err); ok {
			e.Version = best.v
		}
		return nil, err
	}
	if m.Age != job.ID.Age {
		t.log.Warn("the result of a transcoder has a different age", "transcoder", best.p.Name, "pdb", job.Name,
			"age", job.ID.Age, "result", m.Age)
	}
	return m, nil
}

// Status is what is known of a program since its last test run.
type Status struct {
	Name    string
	Version symcache.Version // that it makes; zero before the first test run and while Err is set
	Err     error            // why it cannot be used
	Tested  time.Time        // zero: its first test run has not ended
}

// Status returns what is known of each program, in the order of the configuration.
func (t *Transcoders) Status() (list []Status) {
	if t == nil {
		return nil
	}
	for _, p := range t.list {
		p.mu.Lock()
		list = append(list, Status{p.Name, p.version, p.err, p.probed})
		p.mu.Unlock()
	}
	return list
}

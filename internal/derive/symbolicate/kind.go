package symbolicate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/symdepot/symdepot/breakpad"
	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/gsym"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// kind is the kind of job that makes symbol files. It implements jobs.Kind.
type kind struct{ svc *Service }

// read returns the files of a job.
func (k kind) read(j jobs.Job) (*files, Format, error) {
	var p payload
	err := json.Unmarshal(j.Payload, &p)
	if err == nil && (len(p.Files) == 0 || p.Format != Breakpad && p.Format != GSYM) {
		err = errors.New("no files or an unknown format")
	}
	if err == nil && p.Version != Version {
		err = fmt.Errorf("version %d is wanted, this program makes version %d", p.Version, Version)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("job %d: %w", j.ID, err)
	}
	f := &files{name: p.Name, code: p.Code}
	if p.ID != "" {
		f.id, _ = debugid.ParseBreakpad(p.ID) // as the job was entered
	}
	for _, s := range p.Files {
		x := &piece{path: s.Path, name: s.Name, kind: symfile.ParseKind(s.Kind), tag: s.Tag, size: s.Size}
		if s.Ref != "" {
			ref, err := blob.ParseRef(s.Ref)
			if err != nil {
				return nil, 0, fmt.Errorf("job %d: %w", j.ID, err)
			}
			x.tag = ref.String()
			x.hit = &record.Hit{Stored: record.Stored{Ref: ref, Size: s.Size, Object: symfile.Object{Name: s.Name, Kind: x.kind}}}
		}
		f.list = append(f.list, x)
	}
	return f, p.Format, nil
}

// Name implements jobs.Kind.
func (kind) Name() string { return Kind }

// Abilities implements jobs.Kind.
func (k kind) Abilities() []jobs.Ability {
	if !k.svc.Makes() {
		return nil
	}
	return []jobs.Ability{ability(int(Breakpad)), ability(int(GSYM))}
}

// variants are all variants, as workers do them.
var variants = []int{int(Breakpad), int(GSYM), int(Breakpad) + largeVariant, int(GSYM) + largeVariant}

// CanStart implements jobs.Kind.
func (kind) CanStart() bool { return true }

// Input implements jobs.Kind.
func (k kind) Input(_ context.Context, j jobs.Job) (jobs.Input, error) {
	f, format, err := k.read(j)
	if err != nil {
		return jobs.Input{}, err
	}
	in := jobs.Input{Version: f.version(format), Source: f.content()}
	m := message{Format: format, Name: f.name, Code: f.code}
	for _, p := range f.list {
		m.Files = append(m.Files, messageFile{p.name, p.size})
	}
	in.Message, err = json.Marshal(m)
	return in, err
}

// message is the input of a job for workers. The input file is all files, one after
// the other.
type message struct {
	Format Format        `json:"format"`
	Name   string        `json:"name"`
	Code   string        `json:"code,omitempty"`
	Files  []messageFile `json:"files"`
}

type messageFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Existing implements jobs.Kind.
func (k kind) Existing(ctx context.Context, j jobs.Job) (*jobs.Outcome, error) {
	f, format, err := k.read(j)
	if err != nil {
		return nil, err
	}
	a, err := k.svc.made(ctx, f, format)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &jobs.Outcome{Class: "ok", Detail: "as made before", Result: &a.Content.Ref}, nil
}

// Open implements jobs.Kind.
func (k kind) Open(ctx context.Context, j jobs.Job) (jobs.File, error) {
	f, _, err := k.read(j)
	if err != nil {
		return nil, err
	}
	list, err := k.svc.openAll(ctx, f)
	if err != nil {
		return nil, openFailure(err)
	}
	c, err := newConcat(list)
	if err != nil {
		return nil, errors.Join(err, closeAll(list))
	}
	return c, nil
}

// openFailure is the failure of a job whose files cannot be opened.
func openFailure(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return jobs.Failure{Class: classNotFound, Detail: "a file of the module is no longer found: " + err.Error()}
	}
	return err
}

// timeFor is how long the files of a module may be read: a minute for each GiB, and
// at least one.
func timeFor(size int64) time.Duration {
	return time.Minute + time.Duration(float64(size)/(1<<30)*float64(time.Minute))
}

// Make implements jobs.Kind.
func (k kind) Make(ctx context.Context, j jobs.Job) (_ jobs.Outcome, err error) {
	none, svc := jobs.Outcome{}, k.svc
	f, format, err := k.read(j)
	if err != nil {
		return none, err
	}
	start := svc.Now()
	defer func() {
		svc.clients.charge(j.Key, svc.Now().Sub(start))
		if err == nil {
			svc.clients.done(j.Key)
		}
	}()
	list, err := svc.openAll(ctx, f)
	if err != nil {
		return none, openFailure(err)
	}
	defer func() { _ = closeAll(list) }()
	limited, cancel := context.WithTimeout(ctx, timeFor(f.size()))
	defer cancel()
	table, err := readIn(limited, svc.Scratch, f.inputs(list), format)
	if err != nil {
		return none, k.readFailure(ctx, f, format, err)
	}
	c, err := k.write(limited, f, format, table)
	if err != nil {
		return none, k.readFailure(ctx, f, format, err)
	}
	k.logMade(j, f, c, table, svc.Now().Sub(start))
	return jobs.Outcome{
		Class: "ok", Detail: fmt.Sprintf("%s of %s in %s", format, f.from(), svc.Now().Sub(start).Round(time.Millisecond)),
		Result: &c.Ref,
	}, nil
}

// inputs returns the opened files as inputs of Read.
func (f *files) inputs(list []File) []Input {
	inputs := make([]Input, len(list))
	for i, file := range list {
		inputs[i] = Input{ReaderAt: file, Size: f.list[i].size, Name: f.list[i].name}
	}
	return inputs
}

func (k kind) logMade(j jobs.Job, f *files, c record.Content, table *functab.Table, took time.Duration) {
	n := table.Counts()
	k.svc.Log.Info("a symbol file was made", "job", j.ID, "module", j.Key, "of", f.from(), "functions", n.Functions,
		"bytes", c.Size, "took", took)
	for i, w := range table.Warnings() {
		if i == 10 {
			break
		}
		k.svc.Log.Warn("a symbol file lacks a part of its debug file", "job", j.ID, "module", j.Key, "missing", w)
	}
}

// readFailure describes why files cannot be read. An error of the machine remains what
// it is.
func (k kind) readFailure(ctx context.Context, f *files, format Format, err error) error {
	if ctx.Err() != nil {
		return err
	}
	fail := jobs.Failure{Version: f.version(format), Source: f.content(), Detail: f.from() + ": " + err.Error()}
	if fail.Class = classOf(err); fail.Class == "" {
		return err
	}
	return fail
}

// classOf returns the class of an error of reading or writing tables that will repeat
// with the same files; empty for an error of the machine.
func classOf(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return classTimeout
	case errors.Is(err, functab.ErrLimit), errors.Is(err, breakpad.ErrTooLarge), errors.Is(err, gsym.ErrTooLarge):
		return classLimit
	case isBadSource(err):
		return classBad
	}
	return ""
}

// write writes a table in a format and stores the result.
func (k kind) write(ctx context.Context, f *files, format Format, table *functab.Table) (record.Content, error) {
	pr, pw := io.Pipe()
	defer pr.Close()
	go func() {
		b := bufio.NewWriterSize(pw, 64<<10)
		err := Write(ctx, b, format, table)
		if err == nil {
			err = b.Flush()
		}
		pw.CloseWithError(err)
	}()
	return k.keep(ctx, f, format, -1, nil, pr)
}

// maxSize is the size of the largest result, in bytes.
func (f Format) maxSize() int64 {
	if f == GSYM {
		return 4 << 30
	}
	return 8 << 30
}

// Keep implements jobs.Kind.
func (k kind) Keep(ctx context.Context, j jobs.Job, r jobs.Result, body io.Reader) (jobs.Outcome, error) {
	none := jobs.Outcome{}
	f, format, err := k.read(j)
	if err != nil {
		return none, err
	}
	if r.Version != fmt.Sprint(Version) || r.Size == 0 || r.Size > format.maxSize() {
		return none, fmt.Errorf("%w: version %q, %d bytes", jobs.ErrBadResult, r.Version, r.Size)
	}
	c, err := k.keep(ctx, f, format, r.Size, &r.SHA256, body)
	if errors.Is(err, blob.ErrMismatch) || errors.Is(err, errForeign) {
		return none, fmt.Errorf("%w: %w", jobs.ErrBadResult, err)
	}
	if err != nil {
		return none, err
	}
	k.svc.clients.done(j.Key) // this machine did no work
	k.svc.Log.Info("a worker made a symbol file", "job", j.ID, "module", j.Key, "worker", j.Worker, "bytes", c.Size)
	return jobs.Outcome{Class: "ok", Detail: r.Detail, Result: &c.Ref}, nil
}

// errForeign means that a worker's result is not of the format or not of the module.
var errForeign = errors.New("not the symbol file of the module")

// check checks the start of a result.
func (f *files) check(format Format, head []byte) error {
	if format == GSYM {
		if !bytes.HasPrefix(head, []byte("MYSG")) && !bytes.HasPrefix(head, []byte("GSYM")) {
			return fmt.Errorf("%w: no GSYM file", errForeign)
		}
		return nil
	}
	h, err := breakpad.ParseHeader(bytes.NewReader(head))
	if err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	if !f.id.IsZero() && h.ID != f.id {
		return fmt.Errorf("%w: it has the id %s, expected %s", errForeign, h.ID.Breakpad(), f.id.Breakpad())
	}
	return nil
}

// keep stores a result and records it. claimed, if not nil, is the SHA-256 that the
// content must have.
func (k kind) keep(ctx context.Context, f *files, format Format, size int64, claimed *blob.Ref, r io.Reader) (record.Content, error) {
	none := record.Content{}
	batch, err := k.svc.Blobs.Begin(ctx)
	if err != nil {
		return none, err
	}
	defer batch.Abort()
	limit := &io.LimitedReader{R: r, N: format.maxSize() + 1}
	peek := bufio.NewReaderSize(limit, 64<<10)
	head, err := peek.Peek(4 << 10)
	if err != nil && err != io.EOF {
		return none, err
	}
	if err := f.check(format, head); err != nil {
		return none, err
	}
	ref, n, err := batch.Put(ctx, size, peek)
	switch {
	case err != nil:
		return none, err
	case limit.N <= 0:
		return none, fmt.Errorf("%w: the result has more than %d bytes", functab.ErrLimit, format.maxSize())
	case claimed != nil && *claimed != ref:
		return none, fmt.Errorf("%w: SHA-256 %s", blob.ErrMismatch, ref)
	}
	if err := batch.Commit(ctx); err != nil {
		return none, err
	}
	c := record.Content{Ref: ref, Size: n}
	return c, k.record(ctx, f, format, c)
}

// record enters a stored result into the index: as derived of a content, or as a
// cached file if it was made of files in trees.
func (k kind) record(ctx context.Context, f *files, format Format, c record.Content) error {
	defer k.svc.replaceMade(ctx, f)
	if source := f.source(); source != (blob.Ref{}) {
		return k.svc.DB.PutDerived(ctx, source, f.tool(format), &c)
	}
	ids := []string{madeID(f, format)}
	if !f.id.IsZero() {
		ids = append(ids, madeOf+symfile.Fold(f.id.Breakpad()))
	}
	return k.svc.DB.Cached.PutMade(ctx, contents.MadeFile{
		Maker: madeSource, Name: f.name + format.Ext(), Kind: symfile.Breakpad, IDs: ids, Ref: c.Ref, Size: c.Size, Made: k.svc.Now(),
	}, func(ctx context.Context, _ []blob.Ref) error {
		_, err := k.svc.Blobs.Stat(ctx, c.Ref)
		return err
	})
}

// CheckAbility implements jobs.Kind.
func (kind) CheckAbility(a jobs.Ability) (jobs.Ability, error) {
	if a.Version != fmt.Sprint(Version) || !slices.Contains(variants, a.Variant) {
		return a, fmt.Errorf("%w: version %q of variant %d", jobs.ErrBadWorker, a.Version, a.Variant)
	}
	return a, nil
}

// CheckFailure implements jobs.Kind.
func (kind) CheckFailure(f jobs.Failure) (jobs.Failure, error) {
	if f.Class != jobs.ClassInfra && !slices.Contains(classes, f.Class) {
		return f, fmt.Errorf("%w: class %q", jobs.ErrBadWorker, f.Class)
	}
	f.Version = "" // that of the job
	return f, nil
}

const day = 24 * time.Hour

// Rule implements jobs.Kind.
func (kind) Rule(class string) jobs.Rule {
	switch class {
	case classBad, classLimit:
		return jobs.Rule{ByContent: 30 * day, ByKey: 30 * day, Versioned: true}
	case classTimeout:
		return jobs.Rule{Retries: 1, Backoff: []time.Duration{10 * time.Second}, ByContent: day, ByKey: day, Versioned: true}
	case classNotFound:
		return jobs.Rule{}
	}
	return jobs.Rule{Retries: 2, Backoff: []time.Duration{5 * time.Second, 30 * time.Second}}
}

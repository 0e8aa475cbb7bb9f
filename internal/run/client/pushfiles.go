package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// PushEvent reports what happened to a file. Its JSON form is part of the
// command's output.
type PushEvent struct {
	Event      string `json:"event"` // found, refused or skipped
	Path       string `json:"path"`
	Size       int64  `json:"size,omitempty"`
	SHA256     string `json:"sha256,omitempty"`
	Answer     string `json:"answer,omitempty"` // have or send
	Reason     string `json:"reason,omitempty"`
	Unreadable bool   `json:"unreadable,omitempty"`
	NotSymbols bool   `json:"not_symbols,omitempty"`
}

// PushOptions say what is pushed.
type PushOptions struct {
	wire.PushSpec
	// Open only opens a stage that several jobs push into.
	Open bool
	// Commit is a stage that is only committed, if it has ExpectFiles files; 0 is
	// any number.
	Commit      string
	ExpectFiles int64
	// Stage is an open stage to push into; it is not committed. Empty: a new
	// stage, which is committed.
	Stage string
	// OwnKey: the key was not chosen by a person. If the stage of that key has
	// other files, the push begins again without a key.
	OwnKey bool
	Paths  []string
	// Partial commits without the files that the server refuses.
	Partial bool
	// Anew makes a transaction even if an equal one exists.
	Anew bool
	// Needs are transactions that the server keeps as long as this one.
	Needs []int64
	// SkipUnreadable skips files and folders that cannot be read.
	SkipUnreadable bool
	// Strict pushes nothing if a file is left out because it is damaged, encrypted, too
	// large, or not the one of the build.
	Strict bool
	// Sources are folders with the sources of the pushed files.
	Sources []sources.Root
}

// PushResult is the result of a push.
type PushResult struct {
	Stage string `json:"stage"`
	wire.PushCommitted
	Bytes      int64 `json:"bytes"`      // of all files
	SentFiles  int64 `json:"sent_files"` // contents that were sent
	SentBytes  int64 `json:"sent_bytes"` // of them, without parts that had arrived
	WireBytes  int64 `json:"wire_bytes"` // as they were sent, perhaps compressed
	Skipped    int64 `json:"skipped"`    // files that were not pushed
	NotSymbols int64 `json:"not_symbols"`
	Unreadable int64 `json:"unreadable"`
	// Tally is what became of the names of source files in debug information.
	sources.Tally
	// Notable are the first of the skipped and refused files, with the reason.
	Notable []string `json:"-"`
	opened  bool     // only a stage was opened
}

const (
	// maxRounds is how often the files are checked again because a commit says
	// that contents are missing.
	maxRounds = 5
	// flushBytes and flushAfter are when files are checked although there are
	// fewer than a batch, so that uploads begin while the walk goes on.
	flushBytes = 64 << 20
	flushAfter = 500 * time.Millisecond
	// maxCheckBytes bounds the body of a check.
	maxCheckBytes = 4 << 20
	maxNotable    = 20
)

// check returns an error of the command line.
func (o *PushOptions) check(parallel int) error {
	steps := 0
	for _, is := range []bool{o.Open, o.Stage != "", o.Commit != ""} {
		if is {
			steps++
		}
	}
	switch {
	case steps > 1:
		return term.UsageError("--open, --stage and --commit exclude each other")
	case o.Open && o.OwnKey:
		return term.UsageError("--open needs --key, by which the jobs of the build know it")
	case (o.Open || o.Commit != "") != (len(o.Paths) == 0):
		return term.UsageError("paths are needed, except with --open and --commit")
	case o.ExpectFiles < 0 || o.ExpectFiles > 0 && o.Commit == "":
		return term.UsageError("--expect-files needs --commit and a number above 0")
	case len(o.Needs) > 0 && (o.Open || o.Stage != ""):
		return term.UsageError("--needs belongs to the commit, not to --open and --stage")
	case slices.ContainsFunc(o.Needs, func(n int64) bool { return n < 1 }):
		return term.UsageError("--needs: the number of a build is expected")
	case parallel < 1 || parallel > 64:
		return term.UsageError("--parallel: expected 1 to 64")
	}
	return nil
}

// Do pushes, or opens or commits a stage of several jobs.
func (p *Pusher) Do(ctx context.Context, opt PushOptions) (r PushResult, err error) {
	if err := opt.check(cmp.Or(p.Parallel, defaultParallel)); err != nil {
		return r, err
	}
	switch {
	case opt.Open:
		st, err := p.Open(ctx, opt.PushSpec)
		return PushResult{Stage: st.ID, opened: true}, err
	case opt.Commit != "":
		r.Stage = opt.Commit
		ask := wire.PushCommit{Files: opt.ExpectFiles, Partial: opt.Partial, Anew: opt.Anew, Needs: opt.Needs}
		r.PushCommitted, err = p.Commit(ctx, opt.Commit, ask)
		if err == nil && len(r.Refused) > 0 {
			err = fmt.Errorf("%w: %d", ErrPartial, len(r.Refused))
		}
		return r, err
	}
	return p.Push(ctx, opt)
}

// Push pushes the symbol files below paths as one transaction, or none.
func (p *Pusher) Push(ctx context.Context, opt PushOptions) (PushResult, error) {
	for _, path := range opt.Paths {
		if _, err := os.Lstat(path); err != nil {
			return PushResult{}, &endpoint.LocalError{What: "read " + path, Err: err}
		}
	}
	limits, err := p.Limits(ctx)
	if err != nil {
		return PushResult{}, err
	}
	res, err := p.push(ctx, opt, limits)
	if errors.Is(err, errConflict) && opt.Key != "" && opt.OwnKey && opt.Stage == "" {
		opt.Key = ""
		res, err = p.push(ctx, opt, limits)
	}
	return res, err
}

// push pushes with one key.
func (p *Pusher) push(ctx context.Context, opt PushOptions, limits wire.PushLimits) (PushResult, error) {
	key := opt.Key
	var sent *run
	for round := 0; ; round++ {
		r := newRun(p, opt, limits)
		if sent != nil {
			r.res.SentFiles, r.res.SentBytes, r.res.WireBytes = sent.res.SentFiles, sent.res.SentBytes, sent.res.WireBytes
			p = &Pusher{
				URL: p.URL, Token: p.Token, HTTP: p.HTTP,
				Retrying: p.Retrying, RetryFor: p.RetryFor, Backoff: p.Backoff, Parallel: p.Parallel, Plain: p.Plain, NoDelta: p.NoDelta,
				Hashes: p.Hashes,
			}
			r.p = p // each file is reported once
		}
		err := r.walk(ctx)
		if err == nil && len(r.entries) == 0 {
			return r.res, ErrNothing
		}
		if err != nil {
			if opt.Key == "" { // nobody will find the stage again
				r.abandon(ctx)
			}
			return r.res, err
		}
		if r.refused > 0 && !opt.Partial {
			r.abandon(ctx)
			return r.res, fmt.Errorf("%w: the server refuses %d of %d files; nothing was committed (--partial commits the rest)",
				endpoint.ErrRefused, r.refused, len(r.entries))
		}
		if opt.Stage != "" {
			return r.res, nil
		}
		r.res.PushCommitted, err = p.Commit(ctx, r.res.Stage, wire.PushCommit{
			Files: int64(len(r.entries)), Manifest: r.manifest(), Partial: opt.Partial, Anew: opt.Anew, Needs: opt.Needs,
		})
		answer, _ := errors.AsType[*answerError](err)
		switch {
		case err == nil && len(r.res.Refused) > 0:
			return r.res, fmt.Errorf("%w: %d of %d", ErrPartial, len(r.res.Refused), len(r.entries))
		case err == nil:
			return r.res, nil
		case round == maxRounds:
			return r.res, err
		case answer != nil && answer.Status == http.StatusConflict && len(answer.Missing) > 0 && !r.committed:
			sent = r // the server lost contents, with a node for instance
		case answer != nil && answer.Status == http.StatusConflict && r.committed:
			// The key was used for different files.
			opt.Key = key + "/" + strconv.Itoa(round+2)
			sent = r
		default:
			if opt.Key == "" {
				r.abandon(ctx)
			}
			return r.res, err
		}
	}
}

// abandonTime is how long deleting a stage may take when a push fails.
const abandonTime = 5 * time.Second

// abandon deletes the stage of a push that failed, if it is the push's own.
// Otherwise it expires.
func (r *run) abandon(ctx context.Context) {
	if r.opt.Stage != "" || r.committed || r.res.Stage == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTime)
	defer cancel()
	_ = r.p.Abandon(ctx, r.res.Stage)
}

// run is one walk over the files of a push.
type run struct {
	p       *Pusher
	opt     PushOptions
	limits  wire.PushLimits
	labels  scan.Labels
	bytes   atomic.Int64 // read and sent
	uploads uploads
	wanted  *sources.Collector

	mu        sync.Mutex // guards the fields below, and calls of Pusher.Event
	res       PushResult
	entries   map[string]entry // by path
	refused   int
	committed bool     // the stage of the key was committed before; nothing is checked
	unread    []string // the first files that could not be read
	faulty    []string // the first files that PushOptions.Strict does not leave out
}

// entry is a file in the manifest.
type entry struct {
	ref  blob.Ref
	size int64
}

func newRun(p *Pusher, opt PushOptions, limits wire.PushLimits) *run {
	r := &run{
		p: p, opt: opt, limits: limits,
		entries: map[string]entry{}, labels: scan.NewLabels(opt.Paths), wanted: &sources.Collector{Roots: opt.Sources},
	}
	r.uploads.init(r)
	r.res.Stage = opt.Stage
	return r
}

// found is a symbol file of the walk.
type found struct {
	wire.PushEntry
	ref  blob.Ref
	file *scan.File
	base string // the SHA-256 of a content of the server that may be much like it, or empty
}

// walk finds, checks and sends the files.
func (r *run) walk(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	files := make(chan *scan.File)
	hashed := make(chan *found)
	batches := make(chan []*found)
	g.Go(func() error {
		defer close(files)
		return r.scan(ctx, files)
	})
	var hashers sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		hashers.Add(1)
		g.Go(func() error {
			defer hashers.Done()
			return r.hash(ctx, files, hashed)
		})
	}
	g.Go(func() error {
		defer close(hashed)
		hashers.Wait()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return r.sources(ctx, hashed)
	})
	g.Go(func() error {
		defer close(batches)
		return r.batch(ctx, hashed, batches)
	})
	g.Go(func() error {
		defer r.uploads.end()
		for batch := range batches {
			if err := r.check(ctx, batch); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	for range cmp.Or(r.p.Parallel, defaultParallel) {
		g.Go(func() error { return r.uploads.work(ctx) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if n := r.res.Unreadable; n > 0 && !r.opt.SkipUnreadable {
		unread := errors.New(strings.Join(r.unread, "; "))
		return &endpoint.LocalError{What: "read part of the input (--skip-unreadable pushes the rest)", Err: unread}
	}
	if r.opt.Strict && len(r.faulty) > 0 {
		return fmt.Errorf("files would be left out: %s; nothing was committed (without --strict the rest is)", strings.Join(r.faulty, "; "))
	}
	return nil
}

func (r *run) progress(n int64) {
	if done := r.bytes.Add(n); r.p.Progress != nil {
		r.p.Progress(done)
	}
}

// scan walks the files.
func (r *run) scan(ctx context.Context, files chan<- *scan.File) error {
	opt := scan.Options{Want: objfile.Detect, Beside: true}
	return scan.Send(ctx, r.opt.Paths, opt, files, func(s *scan.Skip) { r.skipped(s.Path, s) }, nil)
}

// skipped counts a file that is not pushed.
func (r *run) skipped(path string, err error) {
	e, member := PushEvent{Event: "skipped", Path: path, Reason: err.Error()}, false
	if skip, ok := errors.AsType[*scan.Skip](err); ok {
		e.NotSymbols, e.Unreadable = !skip.Reason.Notable(), skip.Reason.Unreadable()
		member = skip.Reason == scan.ReasonUnwanted
	} else if errors.Is(err, objfile.ErrNotSymbolFile) {
		e.NotSymbols, member = true, true
	} else if _, ok := errors.AsType[*fs.PathError](err); ok && scan.IsReadError(err) {
		e.Unreadable = true
	}
	if member {
		r.wanted.Member(path)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.res.Skipped++
	switch {
	case e.NotSymbols:
		r.res.NotSymbols++
	case e.Unreadable:
		if r.res.Unreadable++; len(r.unread) < 3 {
			r.unread = append(r.unread, e.Reason)
		}
		fallthrough
	default:
		r.note(path, e.Reason)
		if !errors.Is(err, errNoID) && len(r.faulty) < 3 {
			r.faulty = append(r.faulty, noted(path, e.Reason))
		}
	}
	r.event(e)
}

// note keeps the first files that were not pushed. r.mu is held.
func (r *run) note(path, reason string) {
	if len(r.res.Notable) < maxNotable {
		r.res.Notable = append(r.res.Notable, noted(path, reason))
	}
}

// noted is a file with the reason why it was not pushed.
func noted(path, reason string) string {
	if strings.HasPrefix(reason, path) {
		return reason
	}
	return path + ": " + reason
}

// event reports a file. r.mu is held.
func (r *run) event(e PushEvent) {
	if r.p.Event != nil {
		r.p.Event(e)
	}
}

// errNoID is the reason for not pushing a symbol file.
var errNoID = errors.New("it has no id that a debugger could ask for")

// hash identifies and hashes files.
func (r *run) hash(ctx context.Context, files <-chan *scan.File, hashed chan<- *found) error {
	for f := range files {
		one, err := r.one(ctx, f)
		if errors.Is(err, errChanged) {
			one, err = r.one(ctx, f) // a build may still be writing the file; a second try decides
		}
		if err != nil {
			f.Discard()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.skipped(f.Path, err)
			continue
		}
		select {
		case hashed <- one:
		case <-ctx.Done():
			f.Discard()
			return ctx.Err()
		}
	}
	return nil
}

// sources sends the source files that the pushed files name. Their kind is sha1: any
// file under the hash of its bytes.
func (r *run) sources(ctx context.Context, hashed chan<- *found) error {
	err := r.wanted.Files(ctx, func(t sources.Text) error {
		if t.Err != nil {
			t.File.Discard()
			r.skipped(t.File.Path, t.Err)
			return nil
		}
		ref := blob.Sum(t.Bytes)
		r.progress(int64(len(t.Bytes)))
		defer t.File.Discard()
		for _, n := range t.Names {
			f := newFound(t.File.Share(), scan.Label(n.Name), ref, int64(len(t.Bytes)))
			f.As = "sha1"
			select {
			case hashed <- f:
			case <-ctx.Done():
				f.file.Discard()
				return ctx.Err()
			}
		}
		return nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.res.Tally = r.wanted.Tally()
	return err
}

// errChanged is the reason for not pushing a file.
var errChanged = errors.New("it changed while it was read")

// one identifies and hashes a file.
func (r *run) one(ctx context.Context, f *scan.File) (*found, error) {
	c, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	path := r.labels.Of(f.Path, f.Name)
	objs, err := objfile.Identify(c, c.Size(), path, objfile.Options{Script: f.Script(), IDs: true})
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(objs, func(o objfile.Object) bool { return len(o.Aliases()) > 0 && symfile.ValidName(o.Name) }) {
		return nil, errNoID
	}
	ref, n, err := r.p.sum(ctx, c, objs)
	if err != nil {
		return nil, scan.ReadError{Err: err}
	}
	if c.Changed() || n != c.Size() {
		return nil, errChanged
	}
	r.progress(n)
	for _, o := range objs {
		if err := r.wanted.Object(ctx, f, c, o); err != nil {
			return nil, err
		}
	}
	return newFound(f, path, ref, n), nil
}

// newFound describes a file to the server.
func newFound(f *scan.File, path string, ref blob.Ref, n int64) *found {
	e := wire.PushEntry{Path: path, Size: n, SHA256: ref.String()}
	if y := f.ModTime.UTC().Year(); y >= 1970 && y <= 9999 { // archives have any times
		e.MTime = f.ModTime.UTC()
	}
	return &found{PushEntry: e, ref: ref, file: f}
}

// batch collects files for checks.
func (r *run) batch(ctx context.Context, hashed <-chan *found, batches chan<- []*found) error {
	var list []*found
	var bytes, body int64
	send := func() error {
		if len(list) == 0 {
			return nil
		}
		select {
		case batches <- list:
			list, bytes, body = nil, 0, 0
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	timer := time.NewTimer(flushAfter)
	defer timer.Stop()
	for {
		select {
		case f, ok := <-hashed:
			if !ok {
				return send()
			}
			if !r.enter(f) {
				f.file.Discard()
				continue
			}
			list, bytes, body = append(list, f), bytes+f.Size, body+int64(len(f.Path))+256
			if len(list) < r.limits.CheckBatch && bytes < flushBytes && body < maxCheckBytes {
				continue
			}
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := send(); err != nil {
			return err
		}
		timer.Reset(flushAfter)
	}
}

// enter records a file in the manifest. It returns false if that has the same
// file already.
func (r *run) enter(f *found) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := entry{f.ref, f.Size}
	plain := f.Path
	for n := 2; ; n++ {
		old, ok := r.entries[f.Path]
		if !ok {
			break
		}
		if old == e {
			return false
		}
		f.Path = "~" + strconv.Itoa(n) + "/" + plain
	}
	r.entries[f.Path] = e
	r.res.Bytes += f.Size
	return true
}

// manifest returns the hash of the manifest: of the sorted lines "SHA256 SIZE
// PATH\n".
func (r *run) manifest() string {
	lines := make([]string, 0, len(r.entries))
	for path, e := range r.entries {
		lines = append(lines, e.ref.String()+" "+strconv.FormatInt(e.size, 10)+" "+path+"\n")
	}
	slices.Sort(lines)
	h := sha256.New()
	for _, l := range lines {
		_, _ = io.WriteString(h, l)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// open opens the stage with the first batch: without symbol files there is none.
func (r *run) open(ctx context.Context) error {
	if r.res.Stage != "" {
		return nil
	}
	st, err := r.p.Open(ctx, r.opt.PushSpec)
	if err != nil {
		return err
	}
	r.res.Stage, r.committed = st.ID, st.State == wire.StageCommitted
	return nil
}

// check asks which contents to send, and queues them.
func (r *run) check(ctx context.Context, batch []*found) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	if r.committed {
		for _, f := range batch {
			f.file.Discard()
			r.answered(f, wire.PushVerdict{Answer: wire.PushHave})
		}
		return nil
	}
	list := make([]wire.PushEntry, len(batch))
	for i, f := range batch {
		list[i] = f.PushEntry
	}
	var verdicts []wire.PushVerdict
	if _, err := r.p.post(ctx, stagePath(r.res.Stage)+"/check", 10*time.Minute, list, &verdicts); err != nil {
		return err
	}
	if len(verdicts) != len(batch) {
		return &endpoint.LocalError{What: "use the answer of the server", Err: fmt.Errorf("%d verdicts for %d files", len(verdicts), len(batch))}
	}
	var send []*found
	for i, f := range batch {
		v := verdicts[i]
		r.answered(f, v)
		if f.base = v.Base; v.Answer == wire.PushSend && r.uploads.isNew(f) {
			send = append(send, f)
		} else {
			f.file.Discard()
		}
	}
	return r.uploads.add(ctx, send)
}

// answered reports the server's answer for a file.
func (r *run) answered(f *found, v wire.PushVerdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := PushEvent{Event: "found", Path: f.Path, Size: f.Size, SHA256: f.SHA256, Answer: v.Answer}
	if v.Answer != wire.PushHave && v.Answer != wire.PushSend {
		e.Event, e.Answer, e.Reason = "refused", "", endpoint.Printable(v.Reason)
		r.refused++
		r.note(f.Path, "refused: "+e.Reason)
	}
	r.event(e)
}

package intake

import (
	"context"
	"crypto/sha1" //nolint:gosec // the protocol names chunks by SHA-1; contents are named by SHA-256
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/depot/stage"
)

// A run of sentry-cli has no id and no end of its own: it asks for all its files,
// sends chunks, and asks again for those that were not ok. So the first assemble
// request opens a run with a stage, later ones belong to the run that has their
// files, and the last file that is ok or wrong commits the stage. A run and its
// chunks survive the process.
//
// Chunks wait in a folder of the principal and the organization: a chunk of one
// principal is never part of another's file, and principals of one name are two. The
// request with a chunk names no project.

const (
	chunkIdle   = 24 * time.Hour
	runIdle     = 2 * time.Hour
	maxRuns     = 1000
	maxRunFiles = 500_000 // of all runs
	chunkFolder = "chunks"
)

// sentryState has the runs and chunks of a handler.
type sentryState struct {
	*service
	root *os.Root // of the chunks

	waking sync.Mutex // held while runs of earlier processes are loaded

	mu   sync.Mutex
	runs []*sentryRun // by last use, newest last
}

func newSentryState(h *service) (*sentryState, error) {
	dir := filepath.Join(h.cfg.Dir, chunkFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the folder for chunks: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("the folder for chunks: %w", err)
	}
	s := &sentryState{service: h, root: root}
	s.each(func(_ string, info fs.FileInfo) { h.spooled.Add(info.Size()) })
	return s, nil
}

// each visits the chunks.
func (s *sentryState) each(visit func(path string, info fs.FileInfo)) {
	_ = fs.WalkDir(s.root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // removed meanwhile
		}
		if info, err := d.Info(); err == nil {
			visit(path, info)
		}
		return nil
	})
}

// expire removes chunks and runs that were not used for long.
func (s *sentryState) expire() {
	s.resume()
	now := s.now()
	s.each(func(path string, info fs.FileInfo) {
		if now.Sub(info.ModTime()) > chunkIdle {
			s.remove(path)
		}
	})
	s.mu.Lock()
	var gone []*sentryRun
	s.runs = slices.DeleteFunc(s.runs, func(r *sentryRun) bool {
		old := now.Sub(r.used) > runIdle
		if old {
			gone = append(gone, r)
		}
		return old
	})
	s.mu.Unlock()
	for _, r := range gone {
		r.end(s)
	}
}

// remove deletes a chunk.
func (s *sentryState) remove(path string) {
	info, err := s.root.Stat(path)
	if err != nil {
		return
	}
	if s.root.Remove(path) == nil {
		s.spooled.Add(-info.Size())
	}
}

// shelf is the folder of the chunks of a principal, given by its id.
func shelf(principal, org string) string {
	sum := sha256.Sum256([]byte(principal + "\x00" + org))
	return hex.EncodeToString(sum[:16])
}

func chunkPath(shelf, sum string) string { return shelf + "/" + sum }

// has reports whether a chunk has arrived.
func (s *sentryState) has(shelf, sum string) bool {
	_, err := s.root.Stat(chunkPath(shelf, sum))
	return err == nil
}

// keep writes a chunk as its bytes arrive, and checks its SHA-1. It returns its size.
func (s *sentryState) keep(shelf string, sum [sha1.Size]byte, from io.Reader) (int64, error) {
	path := chunkPath(shelf, hex.EncodeToString(sum[:]))
	tmp := path + "." + newKey()
	err := s.root.Mkdir(shelf, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return 0, err
	}
	f, err := s.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	w := &chunkWriter{h: s.service, f: f, sum: sha1.New()} //nolint:gosec // the protocol's
	n, err := io.Copy(w, io.LimitReader(from, chunkSize+1))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	var kept bool
	switch got := w.sum.Sum(nil); {
	case err != nil:
	case n > chunkSize:
		err = &failure{http.StatusBadRequest, "Chunk size too large"}
	case [sha1.Size]byte(got) != sum:
		err = &failure{http.StatusBadRequest, fmt.Sprintf("the chunk %x has the SHA-1 %x", sum, got)}
	default:
		kept, err = s.link(tmp, path)
	}
	_ = s.root.Remove(tmp) // it has its final name, or is not needed
	if !kept {
		s.spooled.Add(-w.size)
	}
	return n, err
}

// link gives a chunk its final name. It reports whether there was none of this name.
func (s *sentryState) link(tmp, path string) (bool, error) {
	err := s.root.Link(tmp, path)
	if errors.Is(err, fs.ErrExist) {
		now := s.now()
		_ = s.root.Chtimes(path, now, now) // it only expires earlier
		return false, nil
	}
	return err == nil, err
}

// chunkWriter counts the bytes of a chunk against the limit for all bodies.
type chunkWriter struct {
	h    *service
	f    *os.File
	sum  hash.Hash
	size int64
}

func (w *chunkWriter) Write(b []byte) (int, error) {
	if err := w.h.reserve(int64(len(b))); err != nil {
		return 0, err
	}
	w.size += int64(len(b))
	w.sum.Write(b)
	return w.f.Write(b)
}

// serveSentryChunks accepts chunks.
func serveSentryChunks(x *exchange) error {
	if err := x.take(); err != nil {
		return err
	}
	m, err := x.multipart()
	if err != nil {
		return err
	}
	where := shelf(x.who.ID, x.t.args[0])
	var total int64
	for n := 0; ; n++ {
		p, err := m.NextRawPart()
		if errors.Is(err, io.EOF) {
			return x.json(http.StatusOK, struct{}{})
		}
		if err != nil {
			return badForm(err)
		}
		if n == chunksPerRequest {
			return &failure{http.StatusBadRequest, "Too many chunks"}
		}
		coding := ""
		switch p.FormName() {
		case "file":
		case "file_gzip":
			coding = "gzip"
		default:
			return &failure{http.StatusBadRequest, fmt.Sprintf("the part %q is neither file nor file_gzip", truncate.Text(p.FormName()))}
		}
		sum, ok := sha1Of(p.FileName())
		if !ok {
			return &failure{http.StatusBadRequest, fmt.Sprintf("the file name %q of a chunk is not a SHA-1", truncate.Text(p.FileName()))}
		}
		size, err := x.keepChunk(where, sum, partReader{p}, coding)
		if err != nil {
			return err
		}
		if total += size; total > maxChunkRequest {
			return &failure{http.StatusBadRequest, "Request too large"}
		}
	}
}

// keepChunk writes a chunk of a request.
func (x *exchange) keepChunk(shelf string, sum [sha1.Size]byte, r io.Reader, coding string) (int64, error) {
	plain, err := x.decoded(r, coding)
	if err != nil {
		return 0, err
	}
	defer plain.Close()
	return x.sentry.keep(shelf, sum, plain)
}

// sentryRun is one run of the client.
type sentryRun struct {
	key    string // principal, organization and project
	shelf  string
	caller stage.Caller
	stage  string
	path   string // of its file, from which another process goes on

	credential atomic.Pointer[string] // Who.Credential of the latest request

	used time.Time // guarded by sentryState.mu

	unowned bool // by a credential: an earlier version began it

	mu      sync.Mutex
	logged  int64                    // bytes of its file
	mute    bool                     // its file is not written any more
	left    map[string]*assembleFile // files that an earlier process worked on; may be nil
	files   map[string]*sentryFile   // by SHA-1
	ended   bool                     // committed or abandoned
	stirred chan struct{}            // closed and replaced when a state changes
	queue   []string
	working bool
}

type sentryFile struct {
	assembleFile
	state     string // ok, error, not_found or assembling
	detail    string
	dif       *dif
	receipt   *stage.Receipt // of a file that is ok
	delivered bool           // the client knows that it is ok or wrong
}

func (f *sentryFile) final() bool { return f.state == stateOK || f.state == stateError }

func newSentryRun(h *sentryState, f *runFacts) *sentryRun {
	r := &sentryRun{
		key: f.Key, shelf: f.Shelf, stage: f.Stage, path: runPath(h, f), used: h.now(),
		files: map[string]*sentryFile{}, stirred: make(chan struct{}),
	}
	r.credential.Store(&f.Credential)
	r.caller = f.caller(h.service, f.Product, func() string { return *r.credential.Load() })
	return r
}

// resumed records the credentials of a request for a run: a job that runs again has
// others than before.
func (r *sentryRun) resumed(h *sentryState, credential string) {
	if old := r.credential.Swap(&credential); *old == credential {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record(h, runEvent{Credential: credential})
}

// end abandons a run that has not ended.
func (r *sentryRun) end(h *sentryState) {
	r.mu.Lock()
	ended := r.ended
	r.ended = true
	r.drop(h)
	r.mu.Unlock()
	if !ended {
		h.abandon(r.caller, r.stage)
	}
}

// serveSentryAssemble answers the states of files, and makes files of chunks.
func serveSentryAssemble(x *exchange) error {
	if err := x.take(); err != nil {
		return err
	}
	l, err := x.sentryLabels()
	if err != nil {
		return err
	}
	var q map[string]*assembleFile
	if err := x.readJSON(maxAssemble, &q); err != nil {
		return err
	}
	if err := checkAssemble(q); err != nil {
		return err
	}
	if len(q) == 0 {
		return x.json(http.StatusOK, struct{}{})
	}
	r, err := x.runOf(l, q)
	if err != nil {
		return err
	}
	r.begin(x.sentry, q)
	r.wait(x, q)
	answer := r.answer(x.sentry, q)
	x.sentry.forget(r)
	return x.json(http.StatusOK, answer)
}

func checkAssemble(q map[string]*assembleFile) error {
	bad := func(format string, args ...any) error {
		return &failure{http.StatusBadRequest, fmt.Sprintf(format, args...)}
	}
	if len(q) > maxAssembleFiles {
		return bad("the request names more than %d files; upload them in several runs", maxAssembleFiles)
	}
	chunks := 0
	for sum, f := range q {
		if _, ok := sha1Of(sum); !ok || f == nil {
			return bad("%q is not the SHA-1 of a file", truncate.Text(sum))
		}
		if chunks += len(f.Chunks); chunks > maxAssembleChunks {
			return bad("the request names more than %d chunks", maxAssembleChunks)
		}
		for _, c := range f.Chunks {
			if _, ok := sha1Of(c); !ok {
				return bad("%q is not the SHA-1 of a chunk", truncate.Text(c))
			}
		}
		if len(f.Name) > maxPath || len(f.DebugID) > 64 {
			return bad("the name or debug id of %s is too long", sum)
		}
	}
	return nil
}

// runOf returns the run to which a request belongs: a run that has files of the request, if
// the client was told of none of them yet that it is stored, otherwise a new run.
func (x *exchange) runOf(l stage.Labels, q map[string]*assembleFile) (*sentryRun, error) {
	s := x.sentry
	key := fmt.Sprintf("%q %q %q %v", x.who.ID, x.t.args[0], x.t.args[1], l)
	r := s.find(key, q)
	if r == nil && s.wake(runName(key)+"*", 0) > 0 {
		r = s.find(key, q)
	}
	if r != nil {
		r.resumed(x.sentry, x.who.Credential)
		return r, nil
	}
	ctx := x.r.Context()
	st, _, err := x.stages.Open(ctx, x.who.Caller, stage.Spec{Labels: l, Build: x.who.Build})
	if err != nil {
		return nil, err
	}
	facts := &runFacts{Key: key, Shelf: shelf(x.who.ID, x.t.args[0]), keeper: keeperOf(&x.who), Product: l.Product, Stage: st.ID}
	r = newSentryRun(x.sentry, facts)
	if err := r.enterKnown(ctx, x, q); err != nil {
		x.abandon(r.caller, r.stage)
		return nil, err
	}
	events := []runEvent{{Run: facts}}
	for sum, f := range r.files {
		e := runEvent{File: sum, Ask: &f.assembleFile}
		if f.final() {
			e.State, e.DIF, e.Receipt = f.state, f.dif, f.receipt
		}
		events = append(events, e)
	}
	r.record(x.sentry, events...)
	var gone []*sentryRun
	s.mu.Lock()
	s.runs = append(s.runs, r)
	files := 0
	for i, r := range slices.Backward(s.runs) {
		if files += len(r.files); len(s.runs)-i > 1 && (files > maxRunFiles || len(s.runs)-i > maxRuns) { // the newest stays
			gone, s.runs = s.runs[:i+1:i+1], slices.Clone(s.runs[i+1:])
			break
		}
	}
	s.mu.Unlock()
	for _, r := range gone {
		r.end(x.sentry)
	}
	return r, nil
}

// find returns the run with a key that has the files of a request, or nil.
func (s *sentryState) find(key string, q map[string]*assembleFile) *sentryRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range slices.Backward(s.runs) {
		if r.key == key && r.has(q) {
			r.used = s.now()
			s.runs = append(slices.Delete(s.runs, i, i+1), r)
			return r
		}
	}
	return nil
}

// has reports whether the run has all files of a request and the client waits for
// them.
func (r *sentryRun) has(q map[string]*assembleFile) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for sum := range q {
		if f, ok := r.files[sum]; !ok || f.delivered {
			return false
		}
	}
	return true
}

// enterKnown enters the files that the depot has and the caller may read: the
// client will not send them.
func (r *sentryRun) enterKnown(ctx context.Context, x *exchange, q map[string]*assembleFile) error {
	for text, ask := range q {
		f := &sentryFile{assembleFile: *ask, state: stateNotFound}
		r.files[text] = f
		list, err := x.stages.Find(x.r.Context(), x.who.Caller, stage.Query{SHA1: text})
		if err != nil {
			return err
		}
		if len(list) == 0 {
			continue
		}
		path, err := cleanPath(f.Name)
		if err != nil {
			path = nameOf(list[0], text)
		}
		receipt, ok, err := x.enter(ctx, x.who.Caller, r.stage, path, list[0])
		if err != nil {
			return err
		}
		if ok {
			f.state, f.dif, f.receipt = stateOK, difOfFound(list[0], text, x.now()), &receipt
		}
	}
	return nil
}

// begin starts the work on the files of a request whose chunks have all arrived.
func (r *sentryRun) begin(h *sentryState, q map[string]*assembleFile) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var events []runEvent
	for sum, ask := range q {
		f := r.files[sum]
		if len(ask.Chunks) > 0 && !slices.Equal(f.Chunks, ask.Chunks) {
			f.Chunks = ask.Chunks
			events = append(events, runEvent{File: sum, Ask: &f.assembleFile})
		}
		if f.state == stateNotFound && len(f.Chunks) > 0 && len(r.missing(h, f)) == 0 {
			f.state = stateAssembling
			r.queue = append(r.queue, sum)
			events = append(events, runEvent{File: sum, State: f.state})
		}
	}
	r.record(h, events...)
	if !r.working && (len(r.queue) > 0 || r.complete() && !r.ended) {
		r.working = true
		h.work.Go(func() { r.assemble(h) })
	}
}

// missing lists the chunks of a file that are not there. A file of no bytes has no
// chunks.
func (r *sentryRun) missing(h *sentryState, f *sentryFile) []string {
	list := []string{}
	seen := map[string]bool{}
	for _, c := range f.Chunks {
		if !seen[c] && !h.has(r.shelf, c) {
			list = append(list, c)
		}
		seen[c] = true
	}
	return list
}

// complete reports whether all files are ok or wrong.
func (r *sentryRun) complete() bool {
	for _, f := range r.files {
		if !f.final() {
			return false
		}
	}
	return true
}

// assemble works until the queue is empty, and commits the run if that was the
// last file.
func (r *sentryRun) assemble(h *sentryState) {
	for {
		r.mu.Lock()
		if len(r.queue) == 0 || h.ctx.Err() != nil {
			ends := r.complete() && !r.ended && h.ctx.Err() == nil
			if ends {
				r.commit(h)
				ended := r.ended
				r.mu.Unlock()
				if ended {
					r.freeChunks(h)
				}
				r.mu.Lock()
			}
			r.working = false
			r.stir()
			r.mu.Unlock()
			return
		}
		sum := r.queue[0]
		r.queue = r.queue[1:]
		f := r.files[sum]
		ask := f.assembleFile
		r.mu.Unlock()

		a, err := r.store(h, sum, &ask)

		r.mu.Lock()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			f.state = stateNotFound // a chunk has expired
		case err != nil && h.ctx.Err() != nil:
			f.state = stateNotFound // the next process continues
		case err != nil:
			f.state, f.detail = stateError, h.detail(err)
		default:
			f.state, f.dif, f.receipt = stateOK, difOf(a, sum, h.now()), &a.Receipt
		}
		if f.final() {
			r.record(h, runEvent{File: sum, State: f.state, Detail: f.detail, DIF: f.dif, Receipt: f.receipt})
		}
		r.stir()
		r.mu.Unlock()
	}
}

// stir wakes the requests that wait for a state.
func (r *sentryRun) stir() {
	close(r.stirred)
	r.stirred = make(chan struct{})
}

// detail is the text of an error for the client.
func (h *service) detail(err error) string {
	x := &exchange{service: h, t: &target{face: sentryFace}}
	status, text := x.statusOf(err)
	if status == http.StatusInternalServerError {
		h.log.Error("an uploaded file could not be stored", "protocol", "sentry", "error", err)
	}
	return text
}

// store makes a file of its chunks.
func (r *sentryRun) store(h *sentryState, sum string, f *assembleFile) (stage.Arrived, error) {
	path, err := cleanPath(f.Name)
	if err != nil {
		return stage.Arrived{}, err
	}
	chunks := &chunkReader{s: h, shelf: r.shelf, left: f.Chunks}
	defer chunks.close()
	e := stage.Entry{Path: path, Size: -1}
	if isMapping(path) && f.DebugID == "" {
		e.As = asProGuard
	}
	return h.stages.PutClaimed(h.ctx, r.caller, r.stage, e, chunks, func(a stage.Arrived) error {
		return checkAssembly(sum, f, a)
	})
}

// chunkReader reads chunks one after the other.
type chunkReader struct {
	s     *sentryState
	shelf string
	left  []string
	f     *os.File
}

func (c *chunkReader) Read(b []byte) (int, error) {
	for {
		if c.f == nil {
			if len(c.left) == 0 {
				return 0, io.EOF
			}
			f, err := c.s.root.Open(chunkPath(c.shelf, c.left[0]))
			if err != nil {
				return 0, err
			}
			c.f = f
			c.left = c.left[1:]
		}
		n, err := c.f.Read(b)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		c.close()
	}
}

func (c *chunkReader) close() {
	if c.f != nil {
		_ = c.f.Close() // it was only read
		c.f = nil
	}
}

// commit makes the transaction of a run, whose mutex is held. If that fails, none
// of its files is kept, and all are wrong.
func (r *sentryRun) commit(h *sentryState) {
	r.ended = true
	var events []runEvent
	kept := 0
	var accepted []stage.Receipt
	for _, f := range r.files {
		if f.state == stateOK {
			kept++
			if f.receipt != nil {
				accepted = append(accepted, *f.receipt)
			}
		}
	}
	ask := stage.Commit{Partial: true, Accepted: accepted}
	if kept == 0 {
		h.abandon(r.caller, r.stage)
	} else if _, err := h.stages.Commit(h.ctx, r.caller, r.stage, ask); err != nil && h.ctx.Err() != nil {
		r.ended = false // the next process continues: a commit can be repeated
		return
	} else if err != nil {
		text := "the upload could not be committed: " + h.detail(err)
		for sum, f := range r.files {
			if f.state == stateOK {
				f.state, f.detail, f.dif = stateError, text, nil
				events = append(events, runEvent{File: sum, State: f.state, Detail: text})
			}
		}
		h.abandon(r.caller, r.stage)
	}
	r.record(h, append(events, runEvent{Ended: true})...)
}

// freeChunks removes the chunks of a run that no other run waits for.
func (r *sentryRun) freeChunks(h *sentryState) {
	s := h
	s.mu.Lock()
	others := slices.Clone(s.runs)
	s.mu.Unlock()
	wanted, own := map[string]bool{}, map[string]bool{}
	for _, o := range others {
		if o != r && o.shelf == r.shelf {
			o.addChunks(wanted, true)
		}
	}
	r.addChunks(own, false)
	for c := range own {
		if !wanted[c] {
			s.remove(chunkPath(r.shelf, c))
		}
	}
}

// addChunks adds the chunks of the run to a set; open leaves out those of files
// that are ok or wrong.
func (r *sentryRun) addChunks(set map[string]bool, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.files {
		if open && f.final() {
			continue
		}
		for _, c := range f.Chunks {
			set[c] = true
		}
	}
}

// forget removes a run that has ended and that the client knows to have ended.
func (s *sentryState) forget(r *sentryRun) {
	r.mu.Lock()
	done := r.ended
	for _, f := range r.files {
		done = done && f.delivered
	}
	r.mu.Unlock()
	if done {
		r.mu.Lock()
		r.drop(s)
		r.mu.Unlock()
		s.mu.Lock()
		s.runs = slices.DeleteFunc(s.runs, func(o *sentryRun) bool { return o == r })
		s.mu.Unlock()
	}
}

// wait waits until the files of a request are ok or wrong, or chunks are missing,
// but not for longer than clients and proxies do.
func (r *sentryRun) wait(x *exchange, q map[string]*assembleFile) {
	timeout := time.NewTimer(x.cfg.AssembleWait)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		busy := false
		for sum := range q {
			busy = busy || r.files[sum].state == stateAssembling
		}
		busy = r.working && (busy || r.complete())
		stirred := r.stirred
		r.mu.Unlock()
		if !busy {
			return
		}
		select {
		case <-stirred:
		case <-timeout.C:
			return
		case <-x.r.Context().Done():
			return
		case <-x.ctx.Done():
			return
		}
	}
}

// answer returns the state of each file. When all files have arrived, they are
// "assembling" until the transaction is committed, and "ok" then; as long as some are
// missing, those that have arrived are "ok".
func (r *sentryRun) answer(h *sentryState, q map[string]*assembleFile) map[string]assembled {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]assembled, len(q))
	var events []runEvent
	pendingCommit := r.complete() && !r.ended
	for sum := range q {
		f := r.files[sum]
		a := assembled{State: f.state, Missing: []string{}}
		if pendingCommit && f.state == stateOK {
			a.State = stateAssembling
		}
		if !f.delivered && (a.State == stateOK || a.State == stateError) {
			events = append(events, runEvent{File: sum, Delivered: true})
		}
		switch a.State {
		case stateOK:
			a.DIF, f.delivered = f.dif, true
		case stateError:
			a.Detail, f.delivered = &f.detail, true
		case stateNotFound:
			a.Missing = r.missing(h, f)
		}
		out[sum] = a
	}
	r.record(h, events...)
	return out
}

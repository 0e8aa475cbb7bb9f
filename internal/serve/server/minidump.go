package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/base/body"
	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/dumps"
	"github.com/symdepot/symdepot/internal/derive/crash"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/serve/web"
)

const (
	// maxDumps is the size of all dumps that are there at the same time, in bytes, and clientDumps
	// that of the dumps of one client.
	maxDumps    = 4 * clientDumps
	clientDumps = web.MaxWhole + 32*maxField
	// maxField is the size of the largest field beside the dump.
	maxField = 1 << 20
	// maxResults is how many answers wait for their clients, and resultTime how long.
	maxResults = 64 // of one client an eighth
	resultTime = 5 * time.Minute
	// maxResultBytes is the size of all answers that wait, as JSON. The oldest go first, those of the client whose
	// answer is new as soon as it has clientResultBytes.
	maxResultBytes    = 64 << 20
	clientResultBytes = maxResultBytes / 4
	// keptWait is how long files of modules are waited for if the client asks for the answer later.
	keptWait = 2 * time.Minute
	// dumpTime is how long the walk of a dump may take, beside the time in which the files of
	// modules are made.
	dumpTime = 30 * time.Second
)

// dumpFields are the fields with the dump or the crash report, by the names of the APIs that take one.
var dumpFields = map[string]string{"minidump": "upload_file_minidump", "applecrashreport": "apple_crash_report"}

// isMinidump reports whether minidumps answers an API.
func isMinidump(api string) bool { return dumpFields[api] != "" || api == "requests" }

// minidumps answers POST /minidump, POST /applecrashreport and GET /requests/ID of Symbolicator.
type minidumps struct {
	*symbolication
	bytes *body.Memory // of the dumps that are there

	mu      sync.Mutex
	results map[string]*dumpResult // guarded by mu; those that clients may ask for, by request id
	bytesOf map[string]int64       // guarded by mu; the sizes of the answers among them, by client
	stored  int64                  // guarded by mu; the sum of these
}

func newMinidumps(s *symbolication) *minidumps {
	return &minidumps{
		symbolication: s, results: map[string]*dumpResult{}, bytesOf: map[string]int64{},
		bytes: body.NewMemory(body.Limits{Total: maxDumps, Client: clientDumps, Slow: slowBody, Wait: s.cfg.Wait}),
	}
}

// dumpResult is the answer for a dump, which may not be there yet.
type dumpResult struct {
	id     string
	caller string // who may ask for it
	client string // whose share of the kept results it counts for
	began  time.Time
	done   chan struct{} // closed when answer and err are set
	answer any
	err    error
	size   int64 // of the answer if that waits for the client; guarded by minidumps.mu
}

// storedAnswer is an answer as JSON. It implements jsonAppender.
type storedAnswer []byte

// AppendJSON implements jsonAppender.
func (a storedAnswer) AppendJSON(b []byte) ([]byte, error) { return append(b, a...), nil }

// failedDump is the answer for a dump that cannot be read.
type failedDump struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// pendingDump is the answer while a dump is being walked.
type pendingDump struct {
	Status     string `json:"status"`
	RequestID  string `json:"request_id"`
	RetryAfter int    `json:"retry_after"` // seconds
}

// serve answers a request.
func (m *minidumps) serve(x *exchange, r *http.Request, p *place) {
	x.protocol = protocolSymbolicate
	x.Header()["Cache-Control"] = noStore
	m.allowOrigin(x.Header(), r)
	timeout, err := timeoutOf(r)
	if err != nil {
		m.refuse(x, http.StatusBadRequest, err.Error())
		return
	}
	if p.name == "requests" {
		m.poll(x, r, p, timeout)
		return
	}
	if r.Method != http.MethodPost {
		x.Header().Set("Allow", "POST, OPTIONS")
		m.refuse(x, http.StatusMethodNotAllowed, "use POST with a multipart form that has the field "+dumpFields[p.name])
		return
	}
	from, allow := m.longBody(x, r)
	memory := m.account(m.bytes, x, r)
	d, err := m.receive(r, memory, from, dumpFields[p.name])
	if err != nil {
		memory.Free()
		m.refuseDump(x, r, err)
		return
	}
	allow(m.cfg.Symbols.Wait + dumpTime)
	res, err := m.begin(x, r, d, memory.Free, timeout >= 0)
	if err != nil {
		m.fail(x, err)
		return
	}
	m.answerDump(x, r, res, timeout)
}

// timeoutOf returns the parameter timeout of a request; less than 0 if there is none.
func timeoutOf(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("timeout")
	if text == "" {
		return -1, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, errors.New("timeout takes a number of seconds")
	}
	return time.Duration(n) * time.Second, nil
}

// sentDump is a form with a dump that a client has sent. It is not kept.
type sentDump struct {
	file interface { // nil: the form has no dump
		io.ReaderAt
		Size() int64
		Close()
	}
	name       string // of the file
	candidates bool   // the client wants the files of modules listed
}

// close deletes the dump.
func (d *sentDump) close() {
	if d.file != nil {
		d.file.Close()
	}
}

// receive reads a form with a dump in a field. Of the other fields, options count: the depot is the
// only source.
func (m *minidumps) receive(r *http.Request, memory *body.Account, from io.Reader, field string) (d *sentDump, err error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, errors.New("the body is not a multipart form")
	}
	d = &sentDump{}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	limited := &io.LimitedReader{R: memory.Counted(r.Context(), from), N: web.MaxWhole + 16*maxField}
	form := multipart.NewReader(limited, params["boundary"])
	for {
		part, err := form.NextPart()
		switch {
		case err == io.EOF && d.file == nil:
			return d, errors.New("the form has no field " + field)
		case err == io.EOF:
			return d, nil
		case err != nil && limited.N <= 0:
			return d, body.ErrLong
		case err != nil:
			return d, err
		}
		if part.FormName() == field && d.file == nil {
			whole, err := web.ReadWhole(part, m.depot.Symbols.Scratch)
			if err != nil {
				return d, err
			}
			d.file, d.name = whole, cmp.Or(part.FileName(), field)
			continue
		}
		text, err := io.ReadAll(io.LimitReader(part, maxField+1))
		if err == nil && len(text) > maxField {
			err = body.ErrLong
		}
		if err != nil {
			return d, err
		}
		if part.FormName() == "options" {
			var opt struct {
				Candidates bool `json:"dif_candidates"`
			}
			if err := json.Unmarshal(text, &opt); err != nil {
				return d, errors.New("the field options is not valid JSON")
			}
			d.candidates = opt.Candidates
		}
	}
}

// refuseDump answers a request whose body is not a form with a dump.
func (m *minidumps) refuseDump(x *exchange, r *http.Request, err error) {
	switch {
	case errors.Is(err, body.ErrLong), errors.As(err, new(*web.Problem)):
		m.refuse(x, http.StatusRequestEntityTooLarge, "the dump is too long; symdepot stack --server reads it on your machine")
	case errors.Is(err, body.ErrBusy), errors.Is(err, body.ErrShare), errors.Is(err, os.ErrDeadlineExceeded), r.Context().Err() != nil:
		m.refuseBody(x, r, err)
	case errors.As(err, new(*os.PathError)):
		m.fail(x, err)
	default:
		m.refuse(x, http.StatusBadRequest, err.Error())
	}
}

// callerOf is who may ask for the answer to a request.
func callerOf(x *exchange) string {
	id := &x.caller.id
	if id.Anonymous() {
		return ""
	}
	return id.Maker()
}

// begin begins to walk a dump, and deletes it in the end. kept says that the client may ask for the
// answer later; else the walk ends with the request.
func (m *minidumps) begin(x *exchange, r *http.Request, d *sentDump, free func(), kept bool) (*dumpResult, error) {
	var number [16]byte
	_, _ = rand.Read(number[:]) // never fails
	res := &dumpResult{
		id: hex.EncodeToString(number[:]), caller: callerOf(x), client: m.limitKey(r), began: time.Now(), done: make(chan struct{}),
	}
	ctx := r.Context()
	if kept {
		ctx = context.WithoutCancel(ctx)
		if !m.keep(res) {
			d.close()
			free()
			return nil, limit.ErrBusy
		}
	}
	most := m.cfg.Wait + m.cfg.Symbols.Wait + dumpTime
	if kept {
		most += keptWait + m.cfg.Symbols.Wait + dumpTime
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	stop := context.AfterFunc(m.waits, cancel) // the server stops
	work := limit.NewShare(m.works, m.sends)
	who := m.asker(x, r)
	j := m.crashWork(x, r)
	j.candidates, j.kept = d.candidates, kept
	go func() {
		defer close(res.done)
		defer cancel()
		defer stop()
		defer free()
		defer d.close()
		defer work.End()
		if res.err = work.Enter(ctx, j.until); res.err == nil {
			res.answer, res.err = m.walk(ctx, j, d, who, work)
		}
		if kept && res.err == nil {
			res.err = m.store(res)
		}
		if kept {
			time.AfterFunc(resultTime, func() { m.forget(res) })
		}
	}()
	return res, nil
}

// walk walks a dump; again, if files of modules have come that it had to do without.
func (m *minidumps) walk(ctx context.Context, j crashWork, d *sentDump, who asker, work *limit.Share) (any, error) {
	until := time.Now().Add(keptWait)
	a, err := m.walkOnce(ctx, j, d, who, work)
	if j.kept && err == nil && a.Pending() && m.await(ctx, a.Waiting(), who, work, until) {
		a, err = m.walkOnce(ctx, j, d, who, work)
	}
	switch bad, large := errors.AsType[symbolicate.RequestError](err); {
	case large:
		return failedDump{"failed", bad.Title}, nil
	case errors.Is(err, dump.ErrNotDump), errors.Is(err, dump.ErrBroken), errors.Is(err, crash.ErrLimit):
		return failedDump{"failed", err.Error()}, nil
	case errors.Is(err, crash.ErrBusy):
		return nil, limit.ErrBusy
	case err != nil:
		return nil, err
	}
	m.wish(ctx, j, a)
	if m.depot.Dumps.Keeps() {
		keepDump(ctx, m.symbolication, j, a.Stacks(), d.name, io.NewSectionReader(d.file, 0, d.file.Size()))
	}
	return a.Native(), nil
}

func (m *minidumps) walkOnce(ctx context.Context, j crashWork, d *sentDump, who asker, work *limit.Share) (*crash.Analysis, error) {
	ask, end := m.holding(ctx, who.ask, work)
	defer end()
	return m.analyze(ctx, j, d.file, d.file.Size(), m.sourceOf(asker{ask, who.public, who.outside}), ask)
}

// await waits for the files of modules, which upstreams or jobs are to bring, without a child process. It reports whether one has
// come.
func (m *minidumps) await(ctx context.Context, list []symbolicate.ModuleQuery, who asker, work *limit.Share, until time.Time) (come bool) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for _, q := range list {
		for ctx.Err() == nil {
			ask, end := m.holding(ctx, who.ask, work)
			err := open(ctx, m.sourceOf(asker{ask, who.public, who.outside}), q)
			end()
			if symbolicate.StateOf(err) != "timeout" {
				come = true
				break
			}
			_ = ctxio.Pause(ctx, time.Second) // where all places for requests that wait are taken
		}
	}
	return come
}

// open opens what a walk opens of a module. The error says if it is not there yet.
func open(ctx context.Context, src crash.Source, q symbolicate.ModuleQuery) error {
	names, err := src.Module(ctx, q)
	if err == nil {
		names.Done()
	}
	rules, uerr := src.Unwind(ctx, q)
	if uerr == nil {
		rules.Done()
	}
	if symbolicate.StateOf(uerr) == "timeout" {
		return uerr
	}
	return err
}

// keep keeps a result for its client. It reports false if there are too many.
func (m *minidumps) keep(res *dumpResult) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := 0
	for _, o := range m.results {
		if o.client == res.client {
			own++
		}
	}
	if len(m.results) >= maxResults || own >= maxResults/8 {
		return false
	}
	m.results[res.id] = res
	return true
}

// store turns an answer into JSON, which takes a known number of bytes while it waits for its client, and ends the keeping of
// older ones that are too much.
func (m *minidumps) store(res *dumpResult) error {
	text, err := json.Marshal(res.answer)
	if err != nil {
		return err
	}
	if len(text) > maxResultBytes {
		text, err = json.Marshal(failedDump{"failed", "the answer is too long to be kept for you; ask without timeout"})
		if err != nil {
			return err
		}
	}
	res.answer = storedAnswer(text)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.results[res.id] != res {
		return nil // its time is over
	}
	res.size = int64(len(text))
	m.stored += res.size
	m.bytesOf[res.client] += res.size
	for m.bytesOf[res.client] > clientResultBytes || m.stored > maxResultBytes {
		own := m.bytesOf[res.client] > clientResultBytes
		var oldest *dumpResult
		for _, o := range m.results {
			if o != res && o.size > 0 && (!own || o.client == res.client) && (oldest == nil || o.began.Before(oldest.began)) {
				oldest = o
			}
		}
		if oldest == nil {
			break // one answer is within the limit of all
		}
		m.drop(oldest)
	}
	return nil
}

// forget ends the keeping of a result.
func (m *minidumps) forget(res *dumpResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(res)
}

// drop is forget with mu locked.
func (m *minidumps) drop(res *dumpResult) {
	if m.results[res.id] != res {
		return
	}
	delete(m.results, res.id)
	m.stored -= res.size
	if m.bytesOf[res.client] -= res.size; m.bytesOf[res.client] == 0 {
		delete(m.bytesOf, res.client)
	}
}

// poll answers GET /requests/ID.
func (m *minidumps) poll(x *exchange, r *http.Request, p *place, timeout time.Duration) {
	if r.Method != http.MethodGet {
		x.Header().Set("Allow", "GET, OPTIONS")
		m.refuse(x, http.StatusMethodNotAllowed, "use GET")
		return
	}
	m.mu.Lock()
	res := m.results[p.path[strings.LastIndexByte(p.path, '/')+1:]]
	m.mu.Unlock()
	if res == nil || res.caller != callerOf(x) {
		m.refuse(x, http.StatusNotFound, "no such request: it has been answered, or it is too old, or too much waits")
		return
	}
	m.answerDump(x, r, res, timeout)
}

// answerDump answers with a result; as pending, if it is not there in time.
func (m *minidumps) answerDump(x *exchange, r *http.Request, res *dumpResult, timeout time.Duration) {
	var late <-chan time.Time
	if timeout >= 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-res.done:
	case <-late:
		x.result = resultMiss
		m.json(x, http.StatusOK, pendingDump{"pending", res.id, 1})
		return
	case <-r.Context().Done():
		if timeout < 0 && !m.kept(res) {
			<-res.done // it ends with the request, and uses what belongs to it
		}
		m.fail(x, context.Cause(r.Context()))
		return
	}
	m.forget(res)
	if res.err != nil {
		m.fail(x, res.err)
		return
	}
	x.result = resultHit
	rc := http.NewResponseController(x.w)
	m.jsonBy(x, http.StatusOK, res.answer, func(text []byte) (int, error) {
		return m.sends.Send(text, x.Write, func() { m.allow(rc, body.Part) }, func() { _ = rc.SetWriteDeadline(time.Now()) })
	})
}

// kept reports whether a result is kept.
func (m *minidumps) kept(res *dumpResult) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.results[res.id] == res
}

// crashWork is what a walk of a dump is done for.
type crashWork struct {
	owner      string    // whose share of the wishes those of the dump are
	who        string    // who sent the dump; empty: nobody that is named
	begun      time.Time // before its files were looked up
	client     string    // whose share of the child processes it takes
	until      time.Time // how long it waits for one
	candidates bool      // the files of modules are listed
	kept       bool      // the client asks for the answer later
}

func (s *symbolication) crashWork(x *exchange, r *http.Request) crashWork {
	client := s.limitKey(r)
	owner := cmp.Or(callerOf(x), "address "+client)
	return crashWork{owner: owner, who: x.caller.id.Name, begun: x.start, client: client, until: x.start.Add(s.cfg.Wait)}
}

// analyze walks a dump.
func (s *symbolication) analyze(
	ctx context.Context, j crashWork, d io.ReaderAt, size int64, src crash.Source, ask depot.SymbolsAsk,
) (*crash.Analysis, error) {
	return crash.Analyze(ctx, func(ctx context.Context, res crash.Resolver) (*crash.Walk, error) {
		return s.dumps.Walk(ctx, j.client, j.until, d, size, res)
	}, src, s.depot.Symbols.Texts(ask), j.candidates)
}

// wish remembers what the stacks of a dump lack as wishes.
func (s *symbolication) wish(ctx context.Context, j crashWork, a *crash.Analysis) {
	lacking := a.Lacking()
	if len(lacking) == 0 {
		return
	}
	if err := s.depot.Arrivals.Wish(ctx, j.owner, lacking, j.begun); err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("what the stacks of a dump lack is not remembered", "error", err)
	}
}

// keepDump keeps a dump that was walked, if the server keeps dumps, and notes it in its stacks.
func keepDump(ctx context.Context, s *symbolication, j crashWork, stacks *wire.Stacks, name string, d *io.SectionReader) {
	if !s.depot.Dumps.Keeps() {
		return
	}
	k := dumps.Dump{Name: web.Clip(name), Who: j.who, Key: stacks.Key}
	if stacks.Crash != nil {
		k.Reason = web.Clip(stacks.Crash.Reason)
	}
	k, err := s.depot.Dumps.Keep(ctx, k, d, d.Size())
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Log.Error("a dump is not kept", "error", err)
		}
		stacks.Problems = append(stacks.Problems, "the dump could not be kept")
		return
	}
	kept := web.DescribeDump(k)
	stacks.Kept = &kept
}

// stacksOf walks a dump for a request of the JSON API or of a page.
func (s *symbolication) stacksOf(
	ctx context.Context, x *exchange, r *http.Request, d io.ReaderAt, size int64,
) (stacks *wire.Stacks, note web.NoteDump, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Wait+s.cfg.Symbols.Wait+dumpTime)
	defer cancel()
	ask, end, err := s.forPage(ctx, x, r)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	j := s.crashWork(x, r)
	a, err := s.analyze(ctx, j, d, size, s.source(x, r, ask), ask)
	if err != nil {
		return nil, nil, err
	}
	stacks = a.Stacks()
	return stacks, func(ctx context.Context, keep string) {
		s.wish(ctx, j, a)
		if keep != "" {
			keepDump(ctx, s, j, stacks, keep, io.NewSectionReader(d, 0, size))
		}
	}, nil
}

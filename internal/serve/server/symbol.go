package server

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// symbols answers requests for symbol files, in every layout.
type symbols struct {
	*access
	making limit.Semaphore // requests that wait for a file to be made
}

// serve answers a request for a symbol file.
func (s *symbols) serve(x *exchange, r *http.Request, p *place) {
	req := &p.req
	x.protocol = req.Layout.Name()
	h := x.Header()
	s.allowOrigin(h, r)
	if x.caller.scope.Products == nil && !s.audits(x) && s.fromMemory(x, r, p.path) {
		return
	}
	if acceptsMSFZ(r.Header["Accept"]) {
		req.AcceptMSFZ()
	}
	f, public, err := s.open(x, r, req)
	if err != nil {
		x.result = resultError
		if errors.Is(err, fs.ErrNotExist) {
			x.result = resultMiss
		}
		if p, ok := errors.AsType[errPending](err); ok {
			pendingHeader(h, p)
		}
		s.fail(x, err)
		return
	}
	defer func() { _ = f.Close() }()
	x.result = resultHit
	if f.Redirect != "" {
		s.redirect(x, r, x.place.below()+req.Prefix+"/"+f.Redirect)
		return
	}
	if req.Layout == layout.Debuginfod {
		if err := debuginfodHeaders(h, r, f, s.cfg.Paths); err != nil {
			s.fail(x, err)
			return
		}
	}
	s.deliver(x, r, &delivery{
		file: f, encode: req.Form != layout.FormCabinet, modified: true, refusal: noCache, keep: !f.Substitute && !f.Made && !f.InPlace,
		header: func(h http.Header, body *answer.File) {
			s.fileHeaders(h, req, body)
			if public { // the caller may get the whole file at any time, or nothing
				h["Cache-Control"] = s.cacheControl(askAgain)
			}
		},
		sent: func() { s.audit(x, r, req, f, public) },
	})
}

// describe returns the header fields of the answer with a file to a request without
// conditions, ranges and content codings.
func (s *symbols) describe(req *layout.Request, f *answer.File) map[string][]string {
	h := http.Header{}
	if req.Layout == layout.Debuginfod {
		_ = debuginfodHeaders(h, &http.Request{}, f, s.cfg.Paths) // it fails only for a request with a limit
	}
	d := delivery{file: f, modified: true, header: func(h http.Header, body *answer.File) { s.fileHeaders(h, req, body) }}
	d.describe(h, f)
	if f.Size >= 0 {
		h["Content-Length"] = contentLength(f.Size)
	}
	return h
}

// fileHeaders sets the fields that are the same for every answer of a file.
func (s *symbols) fileHeaders(h http.Header, req *layout.Request, body *answer.File) {
	o := &body.Object
	isPDB := o.Kind == symfile.PDB || o.Kind == symfile.MSFZ
	h["Content-Type"] = octetStream
	record := req.Form == layout.FormAdmin || req.Form == layout.FormPointer
	switch {
	case req.Form == layout.FormPointer:
		h["Content-Type"] = barePlainText
	case o.Kind == symfile.Breakpad || record:
		h["Content-Type"] = plainText
	}
	switch {
	case record:
		h["Cache-Control"] = noCache
	case body.Volatile, body.Substitute, body.Made:
		h["Cache-Control"] = s.cacheControl(shortLived) // a better file may take its place at any time
	case req.Age != nil && isPDB && o.DebugID.GUID == req.Age.GUID && o.DebugID.Age != req.Age.Age && o.InfoAge != req.Age.Age && !o.NoDBI:
		// A PDB of a higher age answers only until the exact one is added.
		h["Cache-Control"] = s.cacheControl(shortLived)
	default:
		h["Cache-Control"] = s.cacheControl(immutable)
	}
	if req.Form != layout.FormSection && req.Form != layout.FormCabinet && (body.Size < 0 || body.Size >= encodeMin || body.Encoding != "") {
		addVary(h, "Accept-Encoding")
	}
	if req.Name != "" && isPDB {
		addVary(h, "Accept")
	}
}

// open looks a request up in the depot and then in the upstreams. Lookups in the
// depot are limited, and further requests wait; a request that waits for an upstream
// does not count. public: the answer is a public form, in place of a file that the caller may not
// read.
func (s *symbols) open(x *exchange, r *http.Request, req *layout.Request) (f *answer.File, public bool, err error) {
	if s.cfg.ID != "" && r.Header[wire.Hop] != nil {
		x.Header()[wire.Hop] = []string{s.cfg.ID}
	}
	if !asksForPublic(r) {
		f, err = s.ask(x, r, req)
	} else {
		err = fs.ErrNotExist
	}
	if isMiss(err) && !x.caller.public.IsEmpty() {
		if f, err = s.askPublic(x, r, req); err == nil {
			return f, true, nil
		}
	}
	if isMiss(err) && req.Form == layout.FormFile {
		s.depot.CountMissing(req, clientKind(r.UserAgent()))
	}
	return f, false, err
}

// isMiss reports whether an error says that there is no file, now or later.
func isMiss(err error) bool {
	_, pending := errors.AsType[errPending](err)
	return !pending && errors.Is(err, fs.ErrNotExist)
}

// checksumHeader is SymbolChecksum as net/http spells it: in any other spelling, each look at it
// makes a new text.
const checksumHeader = "Symbolchecksum"

// question returns a request as the depot is asked it. Its turn must be ended.
func (s *symbols) question(x *exchange, r *http.Request, req *layout.Request) answer.Question {
	via, loop := s.via(r)
	q := answer.Question{
		Scope: x.caller.scope, Request: *req, Checksum: r.Header.Get(checksumHeader), Via: via, Client: s.limitKey(r), Local: loop,
		Turn: s.turn(x, r, s.making, s.cfg.Symbols.Wait), Held: r.Method != http.MethodHead,
	}
	if s.depot.Fetches() {
		q.Origin = origin(r)
	}
	if r.URL.RawQuery != "" {
		v := r.URL.Query()
		q.CodeFile, q.CodeID = v.Get("code_file"), v.Get("code_id")
	}
	return q
}

// ask asks the depot, and holds the request while a file is made for it.
func (s *symbols) ask(x *exchange, r *http.Request, req *layout.Request) (*answer.File, error) {
	ctx := r.Context()
	if s.files.Lacks(ctx, x.caller.scope, req) && ctx.Err() == nil {
		return nil, fs.ErrNotExist // most answers: the question is not even written down
	}
	q := s.question(x, r, req)
	defer q.Turn.End()
	f, err := s.files.Get(ctx, q)
	switch {
	case err == nil && f.Made:
		s.allow(http.NewResponseController(x.w), 0) // the request may have been held for long
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist) && q.Local && s.depot.Fetches():
		x.Header()[wire.Loop] = []string{"1"}
		return nil, errLoop
	}
	if _, ok := errors.AsType[symbolicate.NoWorkerError](err); ok {
		return nil, missError{notFoundText + ": " + err.Error()}
	}
	return f, asPending(err, func() time.Duration { return s.depot.Symbols.Retry(ctx) })
}

// askPublic is ask for the public form of a file.
func (s *symbols) askPublic(x *exchange, r *http.Request, req *layout.Request) (*answer.File, error) {
	ctx := r.Context()
	q := s.question(x, r, req)
	defer q.Turn.End()
	f, err := s.depot.Public(ctx, x.caller.public, q)
	switch {
	case err == nil:
		s.allow(http.NewResponseController(x.w), 0)
		delete(x.Header(), wire.Loop)
		return f.Answer(), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fs.ErrNotExist // whatever the reason is
	}
	return nil, asPending(err, func() time.Duration { return s.depot.PublicRetry(ctx) })
}

// asPending returns the error for a client whose file is being made, or is not made because too
// many others are; any other error stays what it is.
func asPending(err error, retry func() time.Duration) error {
	if _, ok := errors.AsType[symbolicate.PendingError](err); ok {
		return errPending{retry()}
	}
	if errors.Is(err, symbolicate.ErrBusy) {
		return limit.ErrBusy
	}
	return err
}

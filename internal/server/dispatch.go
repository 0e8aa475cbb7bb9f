package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/symdepot/symdepot/layout"
)

// The results of a lookup, as metrics and the access log call them.
const (
	resultNone  = ""
	resultHit   = "hit"
	resultMiss  = "miss"
	resultError = "error"
)

// exchange is one request and what became of it.
type exchange struct {
	w        http.ResponseWriter
	start    time.Time
	status   int   // 0 until the header is written
	bytes    int64 // of the body
	head     bool  // the body is left away
	protocol string
	result   string
	err      error // why the answer was cut short
	// notSoon is set on answers that may be another one soon, although the
	// depot stays the same.
	notSoon bool
	// quick is set on requests that are answered at once or by net/http.
	quick bool
	// who asks, and what they see.
	who asker
	// wanted is what was asked for and is not there.
	wanted *layout.Request
	// abort breaks the connection: what was sent of a file is not to be
	// taken for the whole.
	abort bool
}

// Header returns the header to be sent.
func (x *exchange) Header() http.Header { return x.w.Header() }

// WriteHeader sends the header.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
	x.w.WriteHeader(status)
}

// Write sends part of the body.
func (x *exchange) Write(p []byte) (int, error) {
	if x.head {
		return len(p), nil
	}
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.w.Write(p)
	x.bytes += int64(n)
	return n, err
}

// ReadFrom sends part of the body from a file, which lets the kernel copy it.
func (x *exchange) ReadFrom(r io.Reader) (int64, error) {
	rf, ok := x.w.(io.ReaderFrom)
	if !ok {
		return io.Copy(writerOnly{x}, r)
	}
	n, err := rf.ReadFrom(r)
	x.bytes += n
	return n, err
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }

type writerOnly struct{ io.Writer }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	x := &exchange{w: w, start: time.Now(), protocol: protocolNone, head: r.Method == http.MethodHead}
	w.Header()["X-Content-Type-Options"] = nosniff
	deadline := x.start.Add(s.cfg.Wait)
	if err := s.slots.enter(r.Context(), deadline); err != nil {
		s.fail(x, err)
	} else {
		func() {
			defer s.slots.leave()
			s.serve(x, r)
		}()
	}
	s.account(x, &record{method: r.Method, path: target(r), remote: r.RemoteAddr, agent: r.UserAgent(), who: &x.who})
	if x.abort {
		if c := connOf(r); c != nil && r.ProtoMajor == 1 {
			c.reset.Store(true)
		}
		panic(http.ErrAbortHandler)
	}
}

// serve answers a request that may be under way.
func (s *Server) serve(x *exchange, r *http.Request) {
	h := x.Header()
	if !s.hostAllowed(r.Host) {
		s.fail(x, errHost)
		return
	}
	token, path := s.path(r)
	if job, ok := s.jobsPath(path); ok {
		s.jobs(x, r, token, job)
		return
	}
	if r.ContentLength != 0 {
		h.Set("Connection", "close")
	}
	if r.Method == http.MethodOptions && r.ContentLength == 0 {
		s.options(x, r) // browsers ask without credentials
		return
	}
	segs, err := layout.Segments(path)
	base, name, own := "", "", false
	if err == nil {
		base, name, own = s.ownPath(segs)
	}
	if s.cfg.Gate != nil && !(own && isOpen(name) && token == "") && !s.admit(x, r, token) {
		return
	}
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions:
		h.Set("Allow", s.methods(r))
		s.fail(x, errMethod)
		return
	case r.ContentLength != 0:
		s.fail(x, errBody)
		return
	case err != nil:
		s.fail(x, err)
		return
	case own:
		s.own(x, r, base, name)
		return
	}
	req, err := layout.Route(segs, s.cfg.Prefixes...)
	if err != nil {
		req, err = layout.RouteAdmin(segs, s.cfg.Prefixes...)
	}
	if err != nil {
		allowOrigin(h)
		s.fail(x, err)
		return
	}
	x.protocol = req.Layout.Name()
	if req.Form == layout.FormSymCache {
		s.symCache(x, r, &req)
		return
	}
	s.symbol(x, r, &req)
}

const allowed = "GET, HEAD, OPTIONS"

// options answers what a browser asks before it fetches from another page, and
// what anybody asks who wants to know the methods.
func (s *Server) options(x *exchange, r *http.Request) {
	h := x.Header()
	h.Set("Allow", allowed)
	_, path := s.path(r)
	if segs, err := layout.Segments(path); err == nil {
		if _, _, own := s.ownPath(segs); !own && len(segs) > 1 {
			allowOrigin(h)
			h.Set("Access-Control-Allow-Methods", "GET, HEAD")
			h.Set("Access-Control-Allow-Headers", "*")
			h.Set("Access-Control-Max-Age", "86400")
		}
	}
	x.WriteHeader(http.StatusNoContent)
}

// path returns the escaped path of a request without the token in front of it,
// and the token. Without a gate, nothing is a token.
func (s *Server) path(r *http.Request) (token, path string) {
	path = target(r)
	if s.cfg.Gate == nil {
		return "", path
	}
	return cutToken(path)
}

// target returns the escaped path of a request as the client sent it: neither
// cleaned nor decoded, without the query.
func target(r *http.Request) string {
	t := r.RequestURI
	if !strings.HasPrefix(t, "/") {
		// An absolute URI, or a request that did not come over the wire.
		return r.URL.EscapedPath()
	}
	if i := strings.IndexByte(t, '?'); i >= 0 {
		t = t[:i]
	}
	return t
}

// own are the server's own paths of one segment.
var own = map[string]bool{
	"healthz": true, "readyz": true, "metrics": true, "metadata": true, "index2.txt": true, "pingme.txt": true,
	"favicon.ico": true, "robots.txt": true,
}

// ownPath reports whether a path is the server's own and not a symbol file's:
// the root, or one segment, with or without a prefix in front. base is that
// prefix, name is "" for the root.
func (s *Server) ownPath(segs []string) (base, name string, ok bool) {
	if isJobs(segs) {
		return "", "-", true // nothing to be answered from memory
	}
	for _, list := range [][]string{s.cfg.Prefixes, layout.Prefixes} {
		for _, p := range list {
			n := strings.Count(p, "/") + 1
			if rest := len(segs) - n; rest != 0 && rest != 1 || !strings.EqualFold(strings.Join(segs[:n], "/"), p) {
				continue
			}
			base = "/" + strings.Join(segs[:n], "/")
			if len(segs) == n {
				return base, "", true
			}
			if own[segs[n]] {
				return base, segs[n], true
			}
		}
	}
	switch len(segs) {
	case 0:
		return "", "", true
	case 1:
		return "", segs[0], true
	}
	return "", "", false
}

// fail answers with the status of an error. It writes nothing to a client that
// went away.
func (s *Server) fail(x *exchange, err error) {
	status, text := classify(err)
	if absent, ok := errors.AsType[absentError](err); ok {
		text = absent.text
	}
	if status == statusGone {
		x.status, x.err = status, err
		return
	}
	if status >= 500 && !errors.Is(err, errBusy) && !errors.Is(err, errStopped) {
		s.cfg.Log.Error("a request failed", "error", err)
	}
	h := x.Header()
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "5")
	}
	// An absence ends with the next add: nobody may remember it for us.
	h["Cache-Control"] = noCache
	s.text(x, status, text+"\n")
}

// text answers with a short plain text.
func (s *Server) text(x *exchange, status int, body string) {
	if status == http.StatusNotFound && x.who.scope.Products != nil {
		even(x.start)
	}
	h := x.Header()
	h["Content-Type"] = plainText
	h["Content-Length"] = []string{itoa(int64(len(body)))}
	x.WriteHeader(status)
	_, x.err = io.WriteString(x, body)
}

// Header values that do not change, ready for use.
var (
	nosniff     = []string{"nosniff"}
	noCache     = []string{"no-cache"}
	immutable   = []string{"public, max-age=31536000, immutable"}
	shortLived  = []string{"public, max-age=300"}
	plainText   = []string{"text/plain; charset=utf-8"}
	octetStream = []string{"application/octet-stream"}
	anyOrigin   = []string{"*"}
	exposed     = []string{"ETag, Content-Encoding, Content-Range, X-DEBUGINFOD-SIZE, X-DEBUGINFOD-FILE, X-DEBUGINFOD-ARCHIVE"}
	bytesUnit   = []string{"bytes"}
)

// allowOrigin lets pages of other sites read a symbol answer, as profilers in
// the browser need. The ids in a path are not to be guessed; the search, the
// page and the metrics are not given away like this.
func allowOrigin(h http.Header) {
	h["Access-Control-Allow-Origin"] = anyOrigin
	h["Access-Control-Expose-Headers"] = exposed
}

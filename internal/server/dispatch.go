package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/wire"
	"github.com/symdepot/symdepot/layout"
)

// The results of a lookup, as metrics and the access log call them.
const (
	resultNone  = ""
	resultHit   = "hit"
	resultMiss  = "miss"
	resultError = "error"
)

// exchange is one request and the state of its answer.
type exchange struct {
	w        http.ResponseWriter
	r        *http.Request
	start    time.Time
	status   int   // 0 until the header is written
	bytes    int64 // of the body
	head     bool  // the body is omitted
	protocol string
	result   string
	err      error     // why the answer was cut short
	caller   caller    // who asks, and what they may read
	memory   *memory   // set if the answer may be kept in memory
	counters *counters // of this kind of request, if already known
	// abort breaks the connection, so that a partial file is not taken for the
	// whole.
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

// WriteString sends part of the body.
func (x *exchange) WriteString(p string) (int, error) {
	if x.head {
		return len(p), nil
	}
	n, err := io.WriteString(x.w, p)
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
	x := &exchange{w: w, r: r, start: time.Now(), protocol: protocolNone, head: r.Method == http.MethodHead}
	w.Header()["X-Content-Type-Options"] = nosniff
	s.serve(x, r)
	s.account(x, &record{method: r.Method, path: rawPath(r), remote: r.RemoteAddr, agent: r.UserAgent(), caller: &x.caller})
	if x.abort {
		if tcp, ok := rawConn(connOf(r)).(*net.TCPConn); ok && r.ProtoMajor == 1 {
			_ = tcp.SetLinger(0) // HTTP/1.0 clients take a clean end for the end of the file
		}
		panic(http.ErrAbortHandler)
	}
}

// serve finds out what a request is for and who sends it, and answers it.
func (s *Server) serve(x *exchange, r *http.Request) {
	if !s.hostAllowed(r.Host) {
		s.fail(x, errHost)
		return
	}
	p := s.place(r)
	e := p.endpoint
	h := x.Header()
	if !e.body && r.ContentLength != 0 {
		h.Set("Connection", "close") // the body is not read
	}
	if err := s.crossSite(r, p); err != nil {
		s.fail(x, err)
		return
	}
	if e.options && r.Method == http.MethodOptions && r.ContentLength == 0 {
		s.options(x, r, p) // browsers send it without credentials
		return
	}
	// Credentials are judged before a request counts as being answered: checks
	// of passwords, which take long, must not keep others from being answered.
	if !e.admit(s, x, r, p) {
		return
	}
	if err := s.slots.enter(r.Context(), x.start.Add(s.cfg.Wait)); err != nil {
		s.fail(x, err)
		return
	}
	defer s.slots.leave()
	switch {
	case e.methods != "" && r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions:
		h.Set("Allow", e.methods)
		s.fail(x, errMethod)
	case !e.body && r.ContentLength != 0:
		s.fail(x, errBody)
	default:
		e.serve(s, x, r, p)
	}
}

// place is what the path of a request names. It is found once.
type place struct {
	token string // the path token in front, or ""
	path  string // escaped, without the token
	endpoint
	err        error          // why the path names nothing
	base, name string         // an own path: the prefix in front, and the name; "" is the root
	job        []string       // what follows the path of the job API
	req        layout.Request // a symbol path
}

// endpoint says how the requests for one kind of path are answered.
type endpoint struct {
	methods string // for the Allow header; "": serve looks at the method
	options bool   // OPTIONS is answered for it
	body    bool   // takes a body
	origins bool   // scripts of the configured origins may read it
	links   bool   // links on pages of other sites may open it
	admit   func(s *Server, x *exchange, r *http.Request, p *place) bool
	serve   func(s *Server, x *exchange, r *http.Request, p *place)
}

const readMethods = "GET, HEAD, OPTIONS"

// The endpoints. They are variables of functions, as the functions refer to
// them in turn.
var (
	jobEndpoint = endpoint{body: true,
		admit: (*Server).admitWorker,
		serve: (*Server).jobs}
	ownEndpoint = endpoint{methods: readMethods, options: true, links: true,
		admit: func(s *Server, x *exchange, r *http.Request, p *place) bool {
			return p.token == "" && isOpen(p.name) || s.admit(x, r, p)
		},
		serve: (*Server).own}
	symbolEndpoint = endpoint{methods: readMethods, options: true, origins: true,
		admit: (*Server).admit,
		serve: (*Server).symbol}
	symCacheEndpoint = endpoint{methods: "GET, HEAD", options: true, origins: true,
		admit: (*Server).admit,
		serve: (*Server).symCache}
	noEndpoint = endpoint{methods: readMethods, options: true, origins: true,
		admit: (*Server).admit,
		serve: func(s *Server, x *exchange, _ *http.Request, p *place) { s.fail(x, p.err) }}
)

// place finds out what the path of a request names.
func (s *Server) place(r *http.Request) *place {
	p := &place{path: rawPath(r), endpoint: noEndpoint}
	if s.cfg.Gate != nil { // else nothing is a token
		p.token, p.path = cutToken(p.path)
	}
	segs, err := layout.Segments(p.path)
	if err != nil {
		p.err = err
		return p
	}
	var ok bool
	if p.job, ok = s.jobPath(segs); ok {
		p.endpoint = jobEndpoint
		return p
	}
	if p.base, p.name, ok = s.ownPath(segs); ok {
		p.endpoint = ownEndpoint
		return p
	}
	if p.req, err = layout.Route(segs, s.cfg.Prefixes...); err != nil {
		p.req, p.err = layout.RouteAdmin(segs, s.cfg.Prefixes...)
	}
	switch {
	case p.err != nil:
	case p.req.Form == layout.FormSymCache:
		p.endpoint = symCacheEndpoint
	default:
		p.endpoint = symbolEndpoint
	}
	return p
}

// options answers the request that a browser sends before it fetches for a page
// of another site, and anybody who wants to know the methods.
func (s *Server) options(x *exchange, r *http.Request, p *place) {
	h := x.Header()
	h.Set("Allow", readMethods)
	if p.origins && s.allowOrigin(h, r) {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD")
		h.Set("Access-Control-Allow-Headers", "*")
		h.Set("Access-Control-Max-Age", "86400")
	}
	x.WriteHeader(http.StatusNoContent)
}

// rawPath returns the escaped path of a request as the client sent it: neither
// cleaned nor decoded, without the query.
func rawPath(r *http.Request) string {
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

// builtIn are the server's own paths of one segment.
var builtIn = map[string]bool{
	"healthz": true, "readyz": true, "metrics": true, "metadata": true, "index2.txt": true, "pingme.txt": true,
	"favicon.ico": true, "robots.txt": true,
}

// ownPath reports whether a path is the server's own and not a symbol file's:
// the root, or one segment, with or without a prefix in front. base is that
// prefix, name is "" for the root.
func (s *Server) ownPath(segs []string) (base, name string, ok bool) {
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
			if builtIn[segs[n]] {
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

// jobPath returns what follows the path of the job API, which may have a
// configured prefix in front.
func (s *Server) jobPath(segs []string) ([]string, bool) {
	for _, p := range s.cfg.Prefixes {
		if n := strings.Count(p, "/") + 1; len(segs) > n && strings.EqualFold(strings.Join(segs[:n], "/"), p) && isJobs(segs[n:]) {
			return segs[n+2:], true
		}
	}
	if isJobs(segs) {
		return segs[2:], true
	}
	return nil, false
}

func isJobs(segs []string) bool { return len(segs) >= 2 && segs[0] == "-" && segs[1] == "jobs" }

// fail answers with the status of an error. It writes nothing to a client that
// went away.
func (s *Server) fail(x *exchange, err error) {
	status, text := classify(err)
	if miss, ok := errors.AsType[missError](err); ok {
		text = miss.text
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
	// A later add may create the file, so a 404 must not be cached.
	h["Cache-Control"] = noCache
	s.text(x, status, text+"\n")
}

// text answers with a short plain text.
func (s *Server) text(x *exchange, status int, body string) {
	h := x.Header()
	h["Content-Type"] = plainText
	h["Content-Length"] = []string{itoa(int64(len(body)))}
	x.WriteHeader(status)
	_, x.err = x.WriteString(body)
}

// Header values that do not change, ready for use.
var (
	nosniff     = []string{"nosniff"}
	noCache     = []string{"no-cache"}
	immutable   = []string{"public, max-age=31536000, immutable"}
	shortLived  = []string{"public, max-age=300"}
	plainText   = []string{"text/plain; charset=utf-8"}
	octetStream = []string{"application/octet-stream"}
	exposed     = []string{"ETag, Content-Encoding, Content-Range, " + wire.DebuginfodSize + ", " + wire.DebuginfodFile + ", " + wire.DebuginfodArchive}
	bytesUnit   = []string{"bytes"}
)

// addVary adds request header fields that an answer depends on.
func addVary(h http.Header, fields string) {
	if old := h["Vary"]; len(old) > 0 {
		fields = old[0] + ", " + fields
	}
	h["Vary"] = []string{fields}
}

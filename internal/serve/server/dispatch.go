package server

import (
	"net"
	"net/http"
	"strings"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/depot"
)

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.metrics.InFlight.Inc()
	defer s.metrics.InFlight.Dec()
	if s.inDatabase {
		r = r.WithContext(depot.OneWait(r.Context()))
	}
	ctx, traced := s.cfg.Tracer.Start(s.cfg.Tracer.Extract(r.Context(), r.RemoteAddr, r.Header), methodLabel(r.Method), span.Server)
	if traced != nil {
		r = r.WithContext(ctx)
		defer traced.End()
	}
	x := newExchange(w, r)
	w.Header()["X-Content-Type-Options"] = nosniff
	s.serve(x, r)
	s.account(x, r)
	if traced != nil {
		x.describe(traced, methodLabel(r.Method))
	}
	if x.abort {
		if tcp, ok := rawConn(connOf(r)).(*net.TCPConn); ok && r.ProtoMajor == 1 {
			_ = tcp.SetLinger(0) // HTTP/1.0 clients take a clean end for the end of the file
		}
		panic(http.ErrAbortHandler)
	}
	x.free()
}

// describe says in the span of the request what became of it: the shape of its path, never
// the path, which names files and may have a token.
func (x *exchange) describe(s *span.Span, method string) {
	s.Name(method + " " + x.protocol)
	s.Text("http.request.method", method)
	s.Text("http.route", x.protocol)
	s.Number("http.response.status_code", int64(x.status))
	s.Number("http.response.body.size", x.bytes)
	if x.result != resultNone {
		s.Text("symdepot.result", x.result)
	}
	if x.status >= 500 || x.abort {
		s.Fail("the server could not answer")
	}
}

// quick answers a request for a symbol file from memory, if the answer is kept
// and the request needs no authorization: then only the path matters.
func (s *Server) quick(x *exchange, r *http.Request) bool {
	path := rawPath(r)
	if r.ContentLength != 0 || r.Header["Sec-Fetch-Site"] != nil || strings.Count(path, "/") < symbolSlashes {
		return false
	}
	if !s.cfg.Gate.Off() {
		if token, _ := cutToken(path); token != "" || !s.cfg.Gate.OpenTo(r) {
			return false
		}
	}
	if !s.slots.Try() {
		return false
	}
	defer s.slots.Leave()
	return s.fromMemory(x, r, path)
}

// symbolSlashes is how many slashes the path of a symbol file has at least. The
// server's own paths have fewer; health checks must not depend on the depot.
const symbolSlashes = 3

// serve finds out what a request is for and who sends it, and answers it.
func (s *Server) serve(x *exchange, r *http.Request) {
	if !s.hostAllowed(r.Host) {
		s.fail(x, errHost)
		return
	}
	if s.quick(x, r) {
		return
	}
	p := &x.place
	s.routes.place(p, r)
	e := p.endpoint
	h := x.Header()
	if !e.body && r.ContentLength != 0 {
		h.Set("Connection", "close") // the body is not read
	}
	if !e.judgesSites {
		if err := s.crossSite(r, p); err != nil {
			s.fail(x, err)
			return
		}
	}
	if e.options && r.Method == http.MethodOptions && r.ContentLength == 0 {
		s.options(x, r, p) // browsers send it without credentials
		return
	}
	// Credentials are judged before a request counts as being answered: checks
	// of passwords, which take long, must not keep others from being answered.
	if !e.admit(x, r, p) {
		return
	}
	if err := s.slots.Enter(r.Context(), x.start.Add(s.cfg.Wait)); err != nil {
		s.fail(x, err)
		return
	}
	defer s.slots.Leave()
	switch {
	case e.methods != "" && r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions:
		h.Set("Allow", e.methods)
		s.fail(x, errMethod)
	case !e.body && r.ContentLength != 0:
		s.fail(x, errBody)
	default:
		e.serve(x, r, p)
	}
}

// options answers the request that a browser sends before it fetches for a page
// of another site, and anybody who wants to know the methods.
func (s *Server) options(x *exchange, r *http.Request, p *place) {
	h := x.Header()
	all, scripts := p.preflightMethods()
	h.Set("Allow", all)
	if p.origins && s.allowOrigin(h, r) {
		h.Set("Access-Control-Allow-Methods", scripts)
		h.Set("Access-Control-Allow-Headers", "*")
		h.Set("Access-Control-Max-Age", "86400")
	}
	x.WriteHeader(http.StatusNoContent)
}

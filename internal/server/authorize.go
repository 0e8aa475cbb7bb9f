package server

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/layout"
)

// asker is who sends a request and what they may see. The zero asker, on a
// server without a gate, sees everything.
type asker struct {
	id     auth.Identity
	rights auth.Rights
	scope  depot.Scope
	token  string // from the path, or ""
	why    string // for the log: why credentials do not count
}

// below is what stands in front of every path for who asks: nothing, or the
// token. It goes into answers to the asker only, never into a text or a log.
func (a *asker) below() string {
	if a.token == "" {
		return ""
	}
	return "/t/" + a.token
}

// cutToken takes a path token off an escaped path, as in /t/TOKEN/app.pdb/…,
// before anything else is made of it. What is not exactly a token stays: a
// module may be called "t".
func cutToken(escaped string) (token, rest string) {
	first, more := firstSegment(escaped)
	if first != "t" {
		return "", escaped
	}
	second, more := firstSegment(more)
	if token, _, ok := auth.PathToken([]string{first, second}); ok {
		return token, more
	}
	return "", escaped
}

// firstSegment returns the first segment of an escaped path that is not empty,
// decoded, and what follows it.
func firstSegment(escaped string) (seg, rest string) {
	escaped = strings.TrimLeft(escaped, "/")
	if i := strings.IndexByte(escaped, '/'); i >= 0 {
		escaped, rest = escaped[:i], escaped[i:]
	}
	seg, err := url.PathUnescape(escaped)
	if err != nil {
		return escaped, rest
	}
	return seg, rest
}

// mayHaveToken reports whether a path may begin with a token. It is quick, and
// right when it says no.
func mayHaveToken(path []byte) bool {
	for len(path) > 0 && path[0] == '/' {
		path = path[1:]
	}
	return len(path) > 1 && (path[0] == '%' || path[0] == 't' && path[1] == '/')
}

// closed reports whether there is something that not everybody may read.
func closed(g *auth.Gate) bool {
	if g == nil {
		return false
	}
	_, open := g.Open()
	return !open
}

// admit finds out who asks, before anything is looked up. If that is nobody who
// may come in, it answers and returns false.
func (s *Server) admit(x *exchange, r *http.Request, token string) bool {
	id, rights, challenge := s.cfg.Gate.Authenticate(r, token)
	if challenge != nil {
		if challenge.Status == http.StatusNotFound {
			x.who.why = challenge.Reason
			allowOrigin(x.Header())
			s.fail(x, absentError{"not found"})
			return false
		}
		s.challenge(x, challenge)
		return false
	}
	x.who = asker{id: id, rights: rights, scope: scopeOf(&rights), token: token, why: id.Failure}
	if id.Reply != "" {
		x.Header()["Www-Authenticate"] = []string{id.Reply}
	}
	return true
}

// scopeOf is what somebody with these rights sees.
func scopeOf(r *auth.Rights) depot.Scope {
	if r.All {
		return depot.Scope{}
	}
	// Never nil, which would be all.
	return depot.Scope{Products: append([]string{}, r.Products...)}
}

// challenge turns a request away.
func (s *Server) challenge(x *exchange, c *auth.Challenge) {
	x.who.why = c.Reason
	h := x.Header()
	if len(c.Header) > 0 {
		h["Www-Authenticate"] = c.Header
	}
	if c.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "5")
	}
	h["Cache-Control"] = noStore
	s.text(x, c.Status, c.Text+"\n")
}

// seesAll reports whether who asks may see what belongs to no product, such as
// the metrics. If not, it answers: strangers are asked for credentials.
func (s *Server) seesAll(x *exchange) bool {
	switch {
	case x.who.scope.Products == nil:
		return true
	case x.who.id.Anonymous():
		s.challenge(x, s.cfg.Gate.Ask())
	default:
		s.fail(x, absentError{"not found"})
	}
	return false
}

// lasting is what a file's answer says of how long it may be kept: by nobody
// but the client where not everybody may read everything.
func (s *Server) lasting(control []string) []string {
	if !s.closed {
		return control
	}
	return []string{strings.Replace(control[0], "public", "private", 1)}
}

// isOpen reports whether one of our own paths is answered to everybody: those
// by which a supervisor sees that the server is alive.
func isOpen(name string) bool { return name == "healthz" || name == "readyz" }

// missStep is a little more than it takes to find out that something is not
// there.
const missStep = time.Millisecond

// even waits until an absence has taken a whole number of steps since start.
// It takes the index some microseconds longer to say no where there is
// something that who asks must not see, and that must not show.
func even(start time.Time) {
	time.Sleep(missStep - time.Since(start)%missStep)
}

// auditTimeout is how long the depot may take to say whose a file is.
const auditTimeout = 2 * time.Second

// audit writes down that somebody has read a file that not everybody may read.
func (s *Server) audit(x *exchange, r *http.Request, req *layout.Request, f *depot.File) {
	if s.cfg.Audit == nil || !s.closed || x.who.id.Anonymous() {
		return // what strangers are given is not private
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), auditTimeout)
	defer cancel()
	products, err := s.symbols.Products(ctx, f)
	if err != nil {
		s.cfg.Log.Error("whose a file is could not be looked up; it counts as private", "error", err)
	}
	everybody, _ := s.cfg.Gate.Open()
	if slices.ContainsFunc(products, everybody.MayRead) {
		return
	}
	e := auth.Event{
		Remote: r.RemoteAddr, Agent: r.UserAgent(), Action: "read", Protocol: x.protocol,
		Name: f.Object.Name, ID: shownID(f.Object), Products: products, Status: x.status, Bytes: x.bytes,
	}
	e.By(&x.who.id)
	if e.Name == "" {
		e.Name = req.Name
	}
	if e.ID == "" && len(req.Lookups) > 0 {
		e.ID = req.Lookups[0].ID // nobody has looked into the file yet
	}
	if !f.Volatile {
		e.Content = f.Ref.String()
	}
	s.cfg.Audit.Record(e)
}

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
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/web"
	"github.com/symdepot/symdepot/layout"
)

// caller is the principal that sends a request, and what it may see. The zero
// caller, on a server without a gate, sees everything.
type caller struct {
	id     auth.Identity
	rights auth.Rights
	scope  depot.Scope
	token  string // from the path, or ""
	why    string // for the log: why the credentials were rejected
}

// below returns what precedes every path for the caller: nothing, or the token.
// It is part of redirects only, never of a text or a log.
func (a *caller) below() string {
	if a.token == "" {
		return ""
	}
	return "/t/" + a.token
}

// cutToken removes a path token from an escaped path, as in /t/TOKEN/app.pdb/…,
// before the path is read. Anything that is not exactly a token stays: a module
// may be called "t".
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

// access decides who may read what. The handlers of all protocols embed it.
type access struct {
	*service
	origins []string // whose scripts may read answers
}

// isRestricted reports whether some content needs authorization.
func isRestricted(g *auth.Gate) bool {
	_, open := g.Open()
	return !open
}

// admit finds out who sends a request, before anything is looked up. If the
// caller may not come in, it answers and returns false.
func (s *access) admit(x *exchange, r *http.Request, p *place) bool {
	challenge := s.authenticate(x, r, p)
	switch {
	case challenge == nil:
		return true
	case challenge.Status == http.StatusNotFound:
		x.caller.why = challenge.Reason
		if p.origins {
			s.allowOrigin(x.Header(), r)
		}
		s.fail(x, missError{notFoundText})
	default:
		s.challenge(x, challenge)
	}
	return false
}

// authenticate determines the client's identity and rights. It returns a challenge
// if the client is not admitted.
func (s *access) authenticate(x *exchange, r *http.Request, p *place) *auth.Challenge {
	signIn := ""
	if p.signIn || p.root && p.name == "" {
		signIn = s.transport(r).SignIn(r)
	}
	id, rights, challenge := s.cfg.Gate.AuthenticateBrowser(s.withoutProxies(r), p.token, signIn)
	if challenge != nil {
		return challenge
	}
	x.caller = caller{id: id, rights: rights, scope: scopeOf(&rights), token: p.token, why: id.Failure}
	if id.Reply != "" {
		x.Header()["Www-Authenticate"] = []string{id.Reply}
	}
	return nil
}

// scopeOf returns the scope of a caller with these rights.
func scopeOf(r *auth.Rights) depot.Scope {
	if r.All {
		return depot.Scope{}
	}
	// Never nil, which stands for all products.
	return depot.Scope{Products: append([]string{}, r.Products...)}
}

// challenge refuses a request.
func (s *access) challenge(x *exchange, c *auth.Challenge) {
	x.caller.why = c.Reason
	h := x.Header()
	if len(c.Header) > 0 {
		h["Www-Authenticate"] = c.Header
	}
	if c.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "5")
	}
	h["Cache-Control"] = noStore
	text := c.Text + "\n"
	if c.Status == http.StatusUnauthorized {
		text += web.TokenText(baseURL(x.r)) + "\n"
	}
	s.text(x, c.Status, text)
}

// seesAll reports whether the caller may see what belongs to no product, such as
// the metrics. If not, it answers; anonymous callers are asked for credentials.
func (s *access) seesAll(x *exchange) bool {
	switch {
	case x.caller.scope.Products == nil:
		return true
	case x.caller.id.Anonymous():
		s.challenge(x, s.cfg.Gate.NewChallenge())
	default:
		s.fail(x, missError{notFoundText})
	}
	return false
}

// cacheControl returns the Cache-Control of a file: on a restricted server only
// the client itself may cache it.
func (s *access) cacheControl(public []string) []string {
	if !s.restricted {
		return public
	}
	return []string{strings.Replace(public[0], "public", "private", 1)}
}

// isHealthCheck reports whether an own path is answered without credentials: the
// health checks are.
func isHealthCheck(name string) bool { return name == "healthz" || name == "readyz" }

// auditTimeout is how long the lookup of a file's products may take.
const auditTimeout = 2 * time.Second

// audits reports whether the caller's downloads are recorded. Downloads of
// anonymous callers are not private.
func (s *access) audits(x *exchange) bool {
	return !s.cfg.Audit.Off() && s.restricted && !x.caller.id.Anonymous()
}

// audit records a download that needed credentials.
func (s *access) audit(x *exchange, r *http.Request, req *layout.Request, f *depot.File) {
	if !s.audits(x) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), auditTimeout)
	defer cancel()
	products, err := s.depot.Products(ctx, f)
	if err != nil {
		s.cfg.Log.Error("the products of a file cannot be looked up; the download is recorded as private", "error", err)
	}
	everybody, _ := s.cfg.Gate.Open()
	if slices.ContainsFunc(products, everybody.MayRead) {
		return
	}
	e := auth.Event{
		Remote: r.RemoteAddr, Agent: r.UserAgent(), Action: auth.ActionRead, Protocol: x.protocol,
		Name: f.Object.Name, ID: report.ObjectID(f.Object), Products: products, Status: x.status, Bytes: x.bytes,
	}
	e.By(&x.caller.id)
	if e.Name == "" {
		e.Name = req.Name
	}
	if e.ID == "" && len(req.Lookups) > 0 {
		e.ID = req.Lookups[0].ID // the file has not been identified yet
	}
	if !f.Volatile {
		e.Content = f.Ref.String()
	}
	s.cfg.Audit.Record(e)
}

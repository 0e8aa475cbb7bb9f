package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/audience"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
)

// access decides who may read what. The handlers of all protocols embed it.
type access struct {
	*service
	origins []string // whose scripts may read answers
}

// restricted reports whether some content needs authorization, by the rights in force.
func (s *service) restricted() bool {
	_, open := s.cfg.Gate.Open()
	return !open
}

// admit finds out who sends a request, before anything is looked up. If the
// caller may not come in, it answers and returns false.
func (s *access) admit(x *exchange, r *http.Request, p *place) bool {
	challenge := s.authenticate(x, r, p)
	if challenge == nil {
		return true
	}
	if p.origins {
		s.allowOrigin(x.Header(), r)
	}
	s.challenge(x, challenge)
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
	// Where anonymous callers may read some products, 401 for the rest would ask each of
	// them to sign in at every file that is missing, system libraries first. So they get
	// 404 there, and are asked only below web.AskingPrefix.
	if challenge == nil && p.asks && s.restricted() && id.Anonymous() {
		challenge = s.cfg.Gate.NewChallenge()
	}
	if challenge != nil {
		return challenge
	}
	if s.cfg.OnlyPublic {
		rights = rights.OnlyPublic()
	}
	x.caller = caller{
		id: id, rights: rights, scope: scopeOf(&rights), public: audience.ScopeOf(rights.PublicAll, rights.Public), token: p.token,
		why: id.Failure,
	}
	if asksForPublic(r) {
		all := rights.OnlyPublic()
		x.caller.public = audience.ScopeOf(all.PublicAll, all.Public)
	}
	if id.Reply != "" {
		x.Header()["Www-Authenticate"] = []string{id.Reply}
	}
	return nil
}

// scopeOf returns the scope of a caller with these rights.
func scopeOf(r *auth.Rights) answer.Scope {
	if r.All {
		return answer.Scope{}
	}
	// Never nil, which stands for all products.
	return answer.Scope{Products: append([]string{}, r.Products...)}
}

// asksForPublic reports whether a request asks for the public form of a file that the caller may
// perhaps read.
func asksForPublic(r *http.Request) bool {
	return r.URL.RawQuery != "" && r.URL.Query().Get(web.Audience) == web.AudiencePublic
}

// challenge refuses a request. On the paths of symbol files it knows two answers, whatever
// is requested, since nothing has been looked up. Callers without valid credentials get 401,
// which starts a sign-in in debuggers. Somebody who is known and has no rights gets the 404
// of a miss: 403, like 407, makes debuggers give the server up for the session.
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
	switch {
	case c.Status == http.StatusUnauthorized:
		base := baseURL(x.r)
		s.text(x, c.Status, web.SignInText(base)+"\n"+c.Text+"\n"+web.TokenText(base)+"\n")
	case c.Status == http.StatusForbidden && x.place.isForReaders():
		s.text(x, http.StatusNotFound, notFoundText+": "+c.Text+"\n")
	default:
		s.text(x, c.Status, c.Text+"\n")
	}
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
	if !s.restricted() {
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
	return !s.cfg.Audit.Off() && s.restricted() && !x.caller.id.Anonymous()
}

// audit records a download that needed credentials: of a whole file, or of its public form.
func (s *access) audit(x *exchange, r *http.Request, req *layout.Request, f *answer.File, public bool) {
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
	may, seen := everybody.MayRead, ""
	if public {
		may, seen = everybody.MayReadPublic, web.AudiencePublic
	}
	if slices.ContainsFunc(products, may) {
		return
	}
	e := auth.Event{
		Remote: r.RemoteAddr, Agent: r.UserAgent(), Action: auth.ActionRead, Protocol: x.protocol,
		Name: f.Object.Name, ID: display.ObjectID(f.Object), Products: products, Status: x.status, Bytes: x.bytes,
		Audience: seen,
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

// originAllowed reports whether scripts of the page that sends a request may
// read the answer.
func (s *access) originAllowed(r *http.Request) bool {
	o := r.Header["Origin"]
	return len(o) == 1 && (slices.Contains(s.origins, anyOrigin) || slices.Contains(s.origins, strings.ToLower(o[0])))
}

// allowOrigin lets a configured origin read an answer, and reports whether the
// request came from one.
func (s *access) allowOrigin(h http.Header, r *http.Request) bool {
	if len(s.origins) == 0 {
		return false
	}
	addVary(h, "Origin")
	if !s.originAllowed(r) {
		return false
	}
	h["Access-Control-Allow-Origin"] = r.Header["Origin"]
	h["Access-Control-Expose-Headers"] = exposed
	return true
}

// crossSite is an error if a browser sends the request for a page of another
// site whose origin is not configured. Links to the server's own pages work:
// a page cannot read what a link of it opens.
func (s *access) crossSite(r *http.Request, p *place) error {
	if site := r.Header["Sec-Fetch-Site"]; len(site) == 0 || site[0] != "cross-site" {
		return nil
	}
	if p.origins && s.originAllowed(r) {
		return nil
	}
	if p.links && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return nil
	}
	return errCrossSite
}

// transport says how the client of a request reaches this server: over TLS, also where a
// proxy has the certificate, or from the same machine.
func (s *service) transport(r *http.Request) web.Transport {
	public := s.cfg.API.Origin.Public(r.Host, len(r.Header["X-Forwarded-For"])+len(r.Header["Forwarded"]) > 0)
	if public || strings.HasPrefix(baseURL(r), "https:") {
		return web.Secure
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	local := strings.EqualFold(host, "localhost") || hasSuffixFold(host, ".localhost")
	if a, err := netip.ParseAddr(host); err == nil {
		local = a.Unmap().IsLoopback()
	}
	if peer := s.clientOf(r); local && peer.IsValid() && peer.IsLoopback() &&
		len(r.Header["X-Forwarded-For"])+len(r.Header["Forwarded"]) == 0 {
		return web.Loopback
	}
	return web.Insecure
}

package server

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/oauth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/api"
	"github.com/symdepot/symdepot/internal/serve/web/pages"
	"github.com/symdepot/symdepot/layout"
)

// protocolAPI is the JSON API, as metrics and the access log call it.
const protocolAPI = "api"

// leaveTime is how long the rest of a body may come that is not needed.
const leaveTime = 5 * time.Second

// webAPI answers the JSON API below /-/api. It refuses requests with problems
// (RFC 9457) instead of texts.
type webAPI struct {
	*access
	symbolication *symbolication // nil: requests look nothing up
}

// admit authorizes a request. Which rights it needs, package web decides. If the
// caller may not come in, it answers and returns false.
func (s *webAPI) admit(x *exchange, r *http.Request, p *place) bool {
	x.protocol = protocolAPI
	x.request = web.NewRequestID()
	if err := s.foreign(r, p); err != nil {
		s.refuse(x, r, p, err)
		return false
	}
	if api.Unauthenticated(r.Method, p.own) {
		return true
	}
	c := s.authenticate(x, r, p)
	if c == nil {
		return true
	}
	x.caller.why = c.Reason
	x.Header()["Www-Authenticate"] = c.Header
	problem := problemOf(c)
	if c.Status == http.StatusUnauthorized {
		problem.Detail = web.SignInText(baseURL(r)) + "; " + problem.Detail
	}
	s.refuse(x, r, p, problem)
	return false
}

// problemOf returns a challenge as a problem.
func problemOf(c *auth.Challenge) *web.Problem {
	switch c.Status {
	case http.StatusForbidden:
		return &web.Problem{Word: "forbidden", Detail: c.Text}
	case http.StatusServiceUnavailable:
		return &web.Problem{Word: "busy", Detail: c.Text}
	}
	return &web.Problem{Word: "credentials", Detail: c.Text}
}

// foreign returns a problem if a browser sends the request for a page of another site.
// It is judged before the credentials: a browser may send them or not.
func (s *webAPI) foreign(r *http.Request, p *place) *web.Problem {
	if err := s.crossSite(r, p); err != nil {
		return &web.Problem{Word: "forbidden", Detail: err.Error()}
	}
	return s.cfg.API.Origin.Check(r)
}

// serve answers a request.
func (s *webAPI) serve(x *exchange, r *http.Request, p *place) {
	q := s.request(x, r, p)
	defer q.Memory.Free()
	s.note(x, s.cfg.API.Serve(x, q))
}

func (s *webAPI) refuse(x *exchange, r *http.Request, p *place, problem *web.Problem) {
	q := s.request(x, r, p)
	q.Challenges = x.Header()["Www-Authenticate"]
	s.note(x, s.cfg.API.Refuse(x, q, problem))
}

// oauthEndpoints answers programs that log in. Their requests carry no credentials but those in
// the form.
type oauthEndpoints struct{ webAPI }

// admit admits everybody, apart from pages of other sites.
func (s *oauthEndpoints) admit(x *exchange, r *http.Request, p *place) bool {
	x.protocol = protocolAPI
	x.request = web.NewRequestID()
	if p.token != "" {
		if s.access.admit(x, r, p) {
			s.missing(x, r, p, missError{notFoundText})
		}
		return false
	}
	if err := s.foreign(r, p); err != nil {
		s.refuse(x, r, p, err)
		return false
	}
	if s.cfg.OnlyPublic {
		s.refuse(x, r, p, errNoLogins)
		return false
	}
	return true
}

// errNoLogins refuses programs that log in at a server for people outside: their tokens would be
// worth more at the other servers of the depot than the person at this one was told.
var errNoLogins = &web.Problem{
	Word: "not-found", Detail: "nobody logs in at a server for people outside; use the other server of the depot",
}

// serve answers a request.
func (s *oauthEndpoints) serve(x *exchange, r *http.Request, p *place) {
	q := s.request(x, r, p)
	defer q.Memory.Free()
	s.note(x, oauth.Serve(s.cfg.Gate, x, q))
}

// protocolPages are the pages below /-, as metrics and the access log call them.
const protocolPages = "pages"

// webPages answers the pages below /-/, with errors in HTML.
type webPages struct{ webAPI }

// refusePage answers with a page that says what is wrong, or with a problem where there are
// no pages.
func (s *webAPI) refusePage(x *exchange, q *web.Request, problem *web.Problem) {
	if s.cfg.Pages == nil {
		s.note(x, s.cfg.API.Refuse(x, q, problem))
		return
	}
	s.note(x, s.cfg.Pages.Refuse(x, q, problem))
}

// admit authorizes a request. Assets and the documentation need no credentials.
func (s *webPages) admit(x *exchange, r *http.Request, p *place) bool {
	x.protocol = protocolPages
	x.request = web.NewRequestID()
	if err := s.foreign(r, p); err != nil {
		s.refusePage(x, s.request(x, r, p), err)
		return false
	}
	switch login := web.IsSignIn(p.own); {
	case pages.IsAsset(p.own):
		return true
	case s.cfg.OnlyPublic && oauth.IsPage(p.own):
		s.refusePage(x, s.request(x, r, p), errNoLogins)
		return false
	case p.token != "" && (!login || r.Method != http.MethodPost || len(p.own) != 2):
		// Pages show their address, and so the token: there is only the button of the root
		// page.
		if s.access.admit(x, r, p) {
			s.missing(x, r, p, missError{notFoundText})
		}
		return false
	case login:
		return s.admitLogin(x, r, p)
	case pages.IsDocs(p.own):
		_ = s.authenticate(x, r, p) // the page has the name of who is signed in
		return true
	}
	return s.admitBrowser(x, r, p)
}

// admitLogin admits everybody to the pages for signing in and out, which judge
// credentials themselves. A token in the path must be valid.
func (s *webAPI) admitLogin(x *exchange, r *http.Request, p *place) bool {
	if p.token != "" {
		return s.access.admit(x, r, p)
	}
	// A sign-in that has ended can be signed out from, too.
	anonymous := *r
	anonymous.Header = r.Header.Clone()
	for _, h := range []string{"Authorization", wire.Token, "Auth-Token"} {
		anonymous.Header.Del(h)
	}
	_ = s.authenticate(x, &anonymous, p)
	return true
}

// admitBrowser authorizes a request of a browser for a page. One without credentials is
// led to the page for signing in, instead of being asked by a box of the browser.
func (s *webAPI) admitBrowser(x *exchange, r *http.Request, p *place) bool {
	if !wantsHTML(r) || s.cfg.Pages == nil || !s.cfg.Pages.SignsIn() {
		return s.access.admit(x, r, p)
	}
	c := s.authenticate(x, r, p)
	if c == nil {
		return true
	}
	x.caller.why = c.Reason
	q := s.request(x, r, p)
	q.Base = s.pageBase(p)
	s.refusePage(x, q, problemOf(c))
	return false
}

// pageBase returns the prefix in front of the pages: only a configured one has some.
func (s *service) pageBase(p *place) string {
	if slices.ContainsFunc(s.cfg.Prefixes, func(prefix string) bool { return strings.EqualFold("/"+prefix, p.base) }) {
		return p.base
	}
	return ""
}

// serve answers a request.
func (s *webPages) serve(x *exchange, r *http.Request, p *place) {
	if s.cfg.Pages == nil {
		s.missing(x, r, p, missError{notFoundText})
		return
	}
	q := s.request(x, r, p)
	defer q.Memory.Free()
	s.note(x, s.cfg.Pages.Serve(x, q))
}

// downloads sends symbol files to browsers that are signed in: their cookie does not
// count on the paths of symbol files.
type downloads struct {
	webAPI
	symbols *symbols
}

// admit authorizes a request. One with a token in its path needs no cookie.
func (s *downloads) admit(x *exchange, r *http.Request, p *place) bool {
	x.protocol = protocolPages
	if p.token != "" {
		if s.access.admit(x, r, p) {
			s.missing(x, r, p, missError{notFoundText})
		}
		return false
	}
	return s.admitBrowser(x, r, p)
}

// serve answers a request as one for the path in the parameter path.
func (s *downloads) serve(x *exchange, r *http.Request, p *place) {
	p.path = layout.Escape(r.URL.Query().Get("path"))
	segs, err := layout.Segments(p.path)
	if err == nil {
		p.req, err = layout.Route(segs, s.cfg.Prefixes...)
	}
	if err != nil || p.req.Form == layout.FormSymCache {
		s.missing(x, r, p, missError{notFoundText})
		return
	}
	x.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": segs[len(segs)-1]}))
	s.symbols.serve(x, r, p)
}

// finding returns what finds files for a page: as for a request of a debugger of this client, and
// recorded like one.
func (s *webAPI) finding(x *exchange, r *http.Request) func(context.Context, layout.Request) (*answer.File, error) {
	sy := &symbols{s.access, s.symbolication.making}
	return func(ctx context.Context, req layout.Request) (*answer.File, error) {
		f, err := sy.ask(x, r.WithContext(ctx), &req)
		if errors.Is(err, limit.ErrBusy) {
			err = &web.Problem{Word: "busy"}
		}
		if err != nil {
			return nil, err
		}
		f.Closer = recorded{f.Closer, func() { s.audit(x, r, &req, f, false) }}
		return f, nil
	}
}

// recorded calls record before a file is closed.
type recorded struct {
	io.Closer // may be nil
	record    func()
}

// Close implements io.Closer.
func (c recorded) Close() error {
	c.record()
	if c.Closer == nil {
		return nil
	}
	return c.Closer.Close()
}

// note records why an answer was cut short.
func (s *webAPI) note(x *exchange, err error) {
	x.abort = errors.Is(err, web.ErrCut)
	if x.err = err; x.status == 0 && errors.Is(err, context.Canceled) {
		x.status = statusGone
	}
}

// request describes a request to package web.
func (s *webAPI) request(x *exchange, r *http.Request, p *place) *web.Request {
	rights := x.caller.rights // x is reused
	q := &web.Request{Request: r, Segments: p.own, ID: x.request, Principal: web.Principal{
		Name: x.caller.id.Name, Anonymous: x.caller.id.Anonymous(), Read: rights.MayRead, Write: rights.MayWrite, WritesAny: rights.Write,
		Identity: x.caller.id, Rights: rights,
	}}
	q.Stopping = s.waits
	q.Transport, q.Remote, q.PathToken = s.transport(r), s.withoutProxies(r).RemoteAddr, p.token
	if g := s.cfg.Gate; !g.Off() {
		client, cookie := s.withoutProxies(r), q.Transport.SignIn(r)
		if rights.Write {
			credential := g.Credential(&x.caller.id)
			q.StillWrites = func(ctx context.Context, product string) error { return StillWrites(g)(ctx, credential, product) }
		}
		q.Valid = func() bool { return g.Again(client, p.token, cookie, &x.caller.id) }
	}
	q.Usage, q.Lookups = s.metrics.Usage.ForPage, s.metrics.Hours.Each
	q.Base, q.BaseURL, q.Open, q.Holdings = p.base, baseURL(r), !s.restricted(), s.metrics.Holdings.Stats
	q.Challenges = s.cfg.Gate.NewChallenge().Header
	q.FileHeaders = (&symbols{access: s.access}).describe
	q.Body, q.Allow = s.longBody(x, r)
	if s.symbolication != nil {
		q.Find, q.Symbols = s.finding(x, r), func(ctx context.Context) (depot.SymbolsAsk, func(), error) {
			q.Allow(s.cfg.Symbols.Wait)
			return s.symbolication.forPage(ctx, x, r)
		}
		q.Dump = func(ctx context.Context, d io.ReaderAt, size int64) (*wire.Stacks, web.NoteDump, error) {
			q.Allow(s.cfg.Symbols.Wait + dumpTime)
			return s.symbolication.stacksOf(ctx, x, r, d, size)
		}
	}
	q.Memory = s.account(s.bodies, x, r)
	q.Leave = func() {
		rc := http.NewResponseController(x.w)
		// Writers in tests have no deadlines. The rest of a short body is read before
		// the connection is closed.
		_ = rc.SetReadDeadline(time.Now().Add(leaveTime))
		_ = rc.SetWriteDeadline(time.Now().Add(s.cfg.WriteTimeout))
	}
	return q
}

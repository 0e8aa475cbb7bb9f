package web

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/auth"
)

// SignIns is the part of the gate that lets browsers sign in. Its methods are those of
// Gate of package auth.
type SignIns interface {
	SignInOffers() auth.SignInOffers
	SignInPassword(r *http.Request, user, password string) (auth.SignIn, *auth.Challenge)
	SignInTicket(r *http.Request) (auth.SignIn, *auth.Challenge)
	BeginOIDC(r *http.Request, redirect, next string) (to, kept string, c *auth.Challenge)
	FinishOIDC(r *http.Request, kept string) (in auth.SignIn, next string, c *auth.Challenge)
	SignOut(ctx context.Context, id *auth.Identity) error
}

// Transport says how a browser reaches the server.
type Transport int

const (
	// Insecure is over a network without TLS. Cookies with secrets are not sent.
	Insecure Transport = iota
	// Loopback is without TLS, on the same machine.
	Loopback
	// Secure is over TLS.
	Secure
)

// The names of cookies, without the prefix that binds a cookie to this host and to TLS.
const (
	signInCookie = "sd"
	flowCookie   = "sd-oidc" // of a sign-in at the OpenID provider
	newCookie    = "sd-new"  // a new token, until its page has been shown
)

// name returns the name of a cookie.
func (t Transport) name(cookie string) string {
	if t == Secure {
		return "__Host-" + cookie
	}
	return cookie
}

// cookie returns the value of a cookie of a request, or "".
func (t Transport) cookie(r *http.Request, name string) string {
	c, err := r.Cookie(t.name(name))
	if err != nil {
		return ""
	}
	return c.Value
}

// SignIn returns the value of the cookie of a request that holds its sign-in, or "".
// Over a network without TLS there is none.
func (t Transport) SignIn(r *http.Request) string {
	if t == Insecure {
		return ""
	}
	return t.cookie(r, signInCookie)
}

// set sets a cookie until a time; in the past: it is deleted.
func (t Transport) set(w http.ResponseWriter, name, value string, life time.Duration) {
	c := &http.Cookie{Name: t.name(name), Value: value, Path: "/", HttpOnly: true, Secure: t == Secure, SameSite: http.SameSiteLaxMode, MaxAge: int(life / time.Second)}
	if life <= 0 {
		c.Value, c.MaxAge = "", -1
	}
	http.SetCookie(w, c)
}

// IsSignIn reports whether a claimed path is one at which browsers sign in or out: the
// server lets everybody ask for it, with whatever credentials.
func IsSignIn(segs []string) bool {
	return Claims(segs) && len(segs) > 1 && (segs[1] == "login" || segs[1] == "logout")
}

// SignsIn reports whether browsers can sign in.
func (p *Pages) SignsIn() bool { return p.Exist() && p.api.cfg.SignIns != nil }

// Public reports whether a request came to the base URL, if that is one with TLS: by
// its Host, or through a proxy (forwarded).
func (a *API) Public(host string, forwarded bool) bool {
	o, ok := strings.CutPrefix(origin(a.cfg.BaseURL), "https://")
	return ok && (forwarded || strings.EqualFold(o, host))
}

// downloadWord is the last segment of /-/object/get, where browsers that are signed in
// download symbol files: the parameter path is the path that tools ask for.
const downloadWord = "get"

// IsDownload reports whether a claimed path is one at which the server answers as to
// the path of a symbol file, which the parameter path has.
func IsDownload(segs []string) bool {
	return Claims(segs) && len(segs) == 3 && segs[1] == "object" && segs[2] == downloadWord
}

// errInsecure says why nobody can sign in without TLS.
var errInsecure = &Problem{Word: "forbidden", Detail: "browsers sign in over HTTPS only: set a certificate (tls), or base_url if a proxy has one"}

// client is the request as its client has sent it.
func (r *Request) client() *http.Request {
	c := *r.Request
	if r.Remote != "" {
		c.RemoteAddr = r.Remote
	}
	return &c
}

// signIns returns the ways to sign in, or a problem if there are none here.
func (s accountPages) signIns(r *Request) (SignIns, error) {
	switch {
	case s.p.api.cfg.SignIns == nil || len(r.Challenges) == 0:
		return nil, &Problem{Word: "not-found", Detail: "nobody needs to sign in here"}
	case r.Transport == Insecure:
		return nil, errInsecure
	}
	return s.p.api.cfg.SignIns, nil
}

// loginView is what the page for signing in shows.
type loginView struct {
	auth.SignInOffers
	Next     string
	Ticket   string // the address of the sign-in with a ticket, or ""
	OIDCLink string
	User     string // as it was given
	Error    string
	Insecure bool
}

// showLogin answers GET login.
func (s accountPages) showLogin(w *reply, r *Request, _ []string) error {
	if _, err := s.signIns(r); err != nil && !errors.Is(err, errInsecure) {
		return err
	}
	return s.login(w, r, http.StatusOK, r.URL.Query().Get("next"), loginView{})
}

// login shows the page for signing in.
func (s accountPages) login(w *reply, r *Request, status int, next string, v loginView) error {
	v.Next = local(next, r.Base+"/")
	v.SignInOffers, v.Insecure = s.p.api.cfg.SignIns.SignInOffers(), r.Transport == Insecure
	if v.SignInOffers.Ticket {
		v.Ticket = link(r.Base, "login", []string{"ticket"}, values("next", v.Next))
	}
	if v.OIDC != "" {
		v.OIDCLink = link(r.Base, "login", []string{"oidc"}, values("next", v.Next))
	}
	f := s.p.frame(r, "Sign in", v)
	if f.SignIn = ""; !r.Rights.Admitted { // this is the page
		f.Nav = nil
	}
	return s.p.print(w, r, status, "login", f)
}

// refused shows the page for signing in again, with the reason.
func (s accountPages) refused(w *reply, r *Request, next string, c *auth.Challenge, v loginView) error {
	v.Error = c.Text
	switch c.Status {
	case http.StatusNotFound:
		return &Problem{Word: "not-found", Detail: "this server does not offer this way to sign in"}
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "5")
	}
	s.p.api.cfg.Log.Info("a browser could not sign in", "request", r.ID, "reason", c.Reason, "remote", r.Remote)
	return s.login(w, r, c.Status, next, v)
}

// signedIn gives the browser the cookie and leads it to the page that it wants.
func (s accountPages) signedIn(w *reply, r *Request, in auth.SignIn, next string) error {
	if in.Reply != "" {
		w.Header()["Www-Authenticate"] = []string{in.Reply}
	}
	r.Transport.set(w, signInCookie, in.Secret, in.Expires.Sub(s.p.api.cfg.Now()))
	return seeOther(w, r, local(next, r.Base+"/"))
}

// doLogin answers POST login: a user name and a password, or a token.
func (s accountPages) doLogin(w *reply, r *Request, _ []string) error {
	gate, err := s.signIns(r)
	if err != nil {
		return err
	}
	form, err := readForm(r)
	if err != nil {
		return err
	}
	user, password := form.Get("user"), form.Get("password")
	if r.PathToken != "" {
		user, password = "", r.PathToken // the button of the root page below a token
	}
	in, c := gate.SignInPassword(r.client(), user, password)
	if c == nil {
		return s.signedIn(w, r, in, form.Get("next"))
	}
	if c.Status == http.StatusUnauthorized {
		c.Text = "The user name or the password is wrong, or the token is not valid."
	}
	return s.refused(w, r, form.Get("next"), c, loginView{User: auth.Redact(user)})
}

// ticketLogin answers GET login/ticket: the browser is asked for its Kerberos ticket.
func (s accountPages) ticketLogin(w *reply, r *Request, _ []string) error {
	gate, err := s.signIns(r)
	if err != nil {
		return err
	}
	next := r.URL.Query().Get("next")
	in, c := gate.SignInTicket(r.client())
	if c == nil {
		return s.signedIn(w, r, in, next)
	}
	if c.Status == http.StatusUnauthorized {
		w.Header()["Www-Authenticate"] = c.Header
		c.Text = "The browser sent no Kerberos ticket that this server accepts. It must be allowed to send tickets to this server, and know it by its DNS name."
	}
	return s.refused(w, r, next, c, loginView{})
}

// oidcLogin answers GET login/oidc: it leads the browser to the OpenID provider.
func (s accountPages) oidcLogin(w *reply, r *Request, _ []string) error {
	gate, err := s.signIns(r)
	if err != nil {
		return err
	}
	next := local(r.URL.Query().Get("next"), r.Base+"/")
	home := r.BaseURL + r.Base
	if s.p.api.cfg.BaseURL != "" {
		home = s.p.api.cfg.BaseURL
	}
	to, kept, c := gate.BeginOIDC(r.client(), home+"/-/login/oidc/callback", next)
	if c != nil {
		return s.refused(w, r, next, c, loginView{})
	}
	r.Transport.set(w, flowCookie, kept, 10*time.Minute)
	return seeOther(w, r, to)
}

// oidcBack answers GET login/oidc/callback, to which the OpenID provider sends the
// browser back.
func (s accountPages) oidcBack(w *reply, r *Request, _ []string) error {
	gate, err := s.signIns(r)
	if err != nil {
		return err
	}
	kept := r.Transport.cookie(r.Request, flowCookie)
	r.Transport.set(w, flowCookie, "", 0)
	in, next, c := gate.FinishOIDC(r.client(), kept)
	if c != nil {
		return s.refused(w, r, next, c, loginView{})
	}
	return s.signedIn(w, r, in, next)
}

// logout answers POST logout.
func (s accountPages) logout(w *reply, r *Request, _ []string) error {
	gate, err := s.signIns(r)
	if err != nil {
		return err
	}
	if err := gate.SignOut(r.Context(), &r.Identity); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.Transport.set(w, signInCookie, "", 0)
	return seeOther(w, r, r.Base+"/")
}

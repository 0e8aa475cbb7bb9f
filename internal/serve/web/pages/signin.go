package pages

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// loginPages are the pages for signing in and out. Checks of credentials take long and have
// limits of their own.
type loginPages struct {
	gate    *auth.Gate // nil: browsers cannot sign in
	baseURL string     // of the configuration; or ""
	now     func() time.Time
	log     *slog.Logger
}

func (s loginPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "login", web.Anyone, "Account/Sign in", s.showLogin).explainedIn("auth"),
		longPage(http.MethodPost, "login", web.Anyone, s.doLogin),
		longPage(http.MethodGet, "login/ticket", web.Anyone, s.ticketLogin),
		longPage(http.MethodGet, "login/oidc", web.Anyone, s.oidcLogin),
		longPage(http.MethodGet, "login/oidc/callback", web.Anyone, s.oidcBack),
		page(http.MethodPost, "logout", web.Anyone, "", s.logout),
	}
}

// errInsecure says why nobody can sign in without TLS.
var errInsecure = &web.Problem{
	Word:   "forbidden",
	Detail: "browsers sign in over HTTPS only: set a certificate (tls), or base_url if a proxy has one",
}

// signIns returns the ways to sign in, or a problem if there are none here.
func (s loginPages) signIns(r *web.Request) (*auth.Gate, error) {
	switch {
	case s.gate == nil || len(r.Challenges) == 0:
		return nil, &web.Problem{Word: "not-found", Detail: "nobody needs to sign in here"}
	case r.Transport == web.Insecure:
		return nil, errInsecure
	}
	return s.gate, nil
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
func (s loginPages) showLogin(w *reply, r *web.Request, _ []string) error {
	if _, err := s.signIns(r); err != nil && !errors.Is(err, errInsecure) {
		return err
	}
	return s.login(w, r, http.StatusOK, r.URL.Query().Get("next"), loginView{})
}

// login shows the page for signing in.
func (s loginPages) login(w *reply, r *web.Request, status int, next string, v loginView) error {
	v.Next = local(next, r.Base+"/")
	v.SignInOffers, v.Insecure = s.gate.SignInOffers(), r.Transport == web.Insecure
	if v.SignInOffers.Ticket {
		v.Ticket = link(r.Base, "login", []string{"ticket"}, values("next", v.Next))
	}
	if v.OIDC != "" {
		v.OIDCLink = link(r.Base, "login", []string{"oidc"}, values("next", v.Next))
	}
	f := w.frame(r, "Sign in", v)
	return w.print(r, status, "login", f)
}

// refused shows the page for signing in again, with the reason.
func (s loginPages) refused(w *reply, r *web.Request, next string, c *auth.Challenge, v loginView) error {
	v.Error = c.Text
	switch c.Status {
	case http.StatusNotFound:
		return &web.Problem{Word: "not-found", Detail: "this server does not offer this way to sign in"}
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "5")
	}
	s.log.Info("a browser could not sign in", "request", r.ID, "reason", c.Reason, "remote", r.Remote)
	return s.login(w, r, c.Status, next, v)
}

// signedIn gives the browser the cookie and leads it to the page that it wants.
func (s loginPages) signedIn(w *reply, r *web.Request, in auth.SignIn, next string) error {
	if in.Reply != "" {
		w.Header()["Www-Authenticate"] = []string{in.Reply}
	}
	r.Transport.SetCookie(w, web.SignInCookie, in.Secret, in.Expires.Sub(s.now()))
	return seeOther(w, r, local(next, r.Base+"/"))
}

// doLogin answers POST login: a user name and a password, or a token.
func (s loginPages) doLogin(w *reply, r *web.Request, _ []string) error {
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
	in, c := gate.SignInPassword(r.Client(), user, password)
	if c == nil {
		return s.signedIn(w, r, in, form.Get("next"))
	}
	if c.Status == http.StatusUnauthorized {
		c.Text = "The token is wrong, has expired or was revoked."
		if gate.SignInOffers().Password {
			c.Text = "The user name or the password is wrong, or the token is not valid."
		}
	}
	return s.refused(w, r, form.Get("next"), c, loginView{User: auth.Redact(user)})
}

// ticketLogin answers GET login/ticket: the browser is asked for its Kerberos ticket.
func (s loginPages) ticketLogin(w *reply, r *web.Request, _ []string) error {
	gate, err := s.signIns(r)
	if err != nil {
		return err
	}
	next := r.URL.Query().Get("next")
	in, c := gate.SignInTicket(r.Client())
	if c == nil {
		return s.signedIn(w, r, in, next)
	}
	if c.Status == http.StatusUnauthorized {
		w.Header()["Www-Authenticate"] = c.Header
		c.Text = "The browser sent no Kerberos ticket that this server accepts. " +
			"It must be allowed to send tickets to this server, and know it by its DNS name."
	}
	return s.refused(w, r, next, c, loginView{})
}

// oidcLogin answers GET login/oidc: it leads the browser to the OpenID provider.
func (s loginPages) oidcLogin(w *reply, r *web.Request, _ []string) error {
	gate, err := s.signIns(r)
	if err != nil {
		return err
	}
	next := local(r.URL.Query().Get("next"), r.Base+"/")
	home := r.BaseURL + r.Base
	if s.baseURL != "" {
		home = s.baseURL
	}
	to, kept, c := gate.BeginOIDC(r.Client(), home+"/-/login/oidc/callback", next)
	if c != nil {
		return s.refused(w, r, next, c, loginView{})
	}
	r.Transport.SetCookie(w, web.FlowCookie, kept, 10*time.Minute)
	return seeOther(w, r, to)
}

// oidcBack answers GET login/oidc/callback, to which the OpenID provider sends the
// browser back.
func (s loginPages) oidcBack(w *reply, r *web.Request, _ []string) error {
	gate, err := s.signIns(r)
	if err != nil {
		return err
	}
	kept := r.Transport.Cookie(r.Request, web.FlowCookie)
	r.Transport.SetCookie(w, web.FlowCookie, "", 0)
	in, next, c := gate.FinishOIDC(r.Client(), kept)
	if c != nil {
		return s.refused(w, r, next, c, loginView{})
	}
	return s.signedIn(w, r, in, next)
}

// logout answers POST logout.
func (s loginPages) logout(w *reply, r *web.Request, _ []string) error {
	gate, err := s.signIns(r)
	if err != nil {
		return err
	}
	if err := gate.SignOut(r.Context(), &r.Identity); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.Transport.SetCookie(w, web.SignInCookie, "", 0)
	return seeOther(w, r, r.Base+"/")
}

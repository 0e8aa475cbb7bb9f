package oidc

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/truncate"
)

const (
	// flowLife is how long a person may take at the provider.
	flowLife = 10 * time.Minute
	// providerFresh is how long the metadata of the provider are used, providerPause the
	// least time between two attempts to read them.
	providerFresh, providerPause = time.Hour, 10 * time.Second
	// codeTimeout limits the exchange of a code, maxCodes is how many run at once.
	codeTimeout = 15 * time.Second
	maxCodes    = 16
	maxCode     = 4 << 10   // bytes of a code
	maxAnswer   = 256 << 10 // bytes of the answer to it
	maxGroups   = 1000
)

// LoginConfig configures the sign-in of people at an OpenID provider (OpenID Connect
// Core 1.0, authorization code with PKCE).
type LoginConfig struct {
	Issuer string
	// ClientID and ClientSecret are those that the provider gave this server; a public
	// client has no secret.
	ClientID, ClientSecret string
	// Scopes are asked for in addition to openid; nil: profile and email.
	Scopes []string
	// Name is the claim that is the name of the principal; empty is email, which counts
	// only if the provider has verified it.
	Name string
	// Groups is the claim with the person's groups; empty: there is none.
	Groups string
	// Title is what the link to the provider says; empty: its host.
	Title string
}

// nameClaim returns the claim with the name.
func (c *LoginConfig) nameClaim() string { return cmp.Or(c.Name, "email") }

// Check returns an error if the configuration is not valid. It names the key.
func (c *LoginConfig) Check() error {
	if err := checkIssuer(c.Issuer, "https://login.example.com", false); err != nil {
		return err
	}
	if c.ClientID == "" || len(c.ClientID) > maxLabel || !truncate.Printable(c.ClientID) {
		return errors.New("client_id: the id is expected that the provider gave this server")
	}
	for what, s := range map[string]string{"name": c.Name, "groups": c.Groups, "title": c.Title} {
		if len(s) > maxLabel || !truncate.Printable(s) {
			return fmt.Errorf("%s: at most %d printable bytes are expected", what, maxLabel)
		}
	}
	for _, s := range c.Scopes {
		if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			return fmt.Errorf("scopes: %q is not a scope", s)
		}
	}
	return nil
}

// Login signs people in at one provider. It is safe for concurrent use.
type Login struct {
	cfg   LoginConfig
	keys  *keySet
	now   func() time.Time
	codes chan struct{} // a semaphore

	mu    sync.Mutex
	known provider
	since time.Time // when known was read; zero: never
	tried time.Time // when that was last tried
}

// provider is what the metadata of a provider say.
type provider struct {
	Issuer    string   `json:"issuer"`
	Authorize string   `json:"authorization_endpoint"`
	Token     string   `json:"token_endpoint"`
	UserInfo  string   `json:"userinfo_endpoint"` // empty: there is none
	Methods   []string `json:"token_endpoint_auth_methods_supported"`
}

// NewLogin returns a Login. The provider is not asked yet.
func NewLogin(cfg LoginConfig, opt Options) (*Login, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("sign-in: %w", err)
	}
	if opt.Client == nil {
		return nil, errors.New("sign-in: this server makes no connections, so it cannot ask the provider")
	}
	opt = opt.withDefaults()
	return &Login{cfg: cfg, keys: newKeySet(cfg.Issuer, "", opt), now: opt.Now, codes: make(chan struct{}, maxCodes)}, nil
}

// Issuer returns the issuer.
func (l *Login) Issuer() string { return l.cfg.Issuer }

// Title returns what the link to the provider says.
func (l *Login) Title() string {
	if l.cfg.Title != "" {
		return l.cfg.Title
	}
	u, err := url.Parse(l.cfg.Issuer)
	if err != nil {
		return l.cfg.Issuer
	}
	return u.Host
}

// Flow is what a browser keeps, and shows to nobody but this server, while its person
// is at the provider.
type Flow struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"` // of PKCE (RFC 7636)
	Redirect string    `json:"r"` // where the provider sends the browser
	Begun    time.Time `json:"t"`
}

// Person is who has signed in.
type Person struct {
	Name   string
	Groups []string
}

// Begin returns the URL to which the browser goes. redirect is the URL of this server
// to which the provider sends it back. The error wraps ErrUnavailable.
func (l *Login) Begin(ctx context.Context, redirect string) (to string, f Flow, err error) {
	p, err := l.provider(ctx)
	if err != nil {
		return "", f, err
	}
	f = Flow{
		State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), Redirect: redirect,
		Begun: l.now().Truncate(time.Second),
	}
	scopes := l.cfg.Scopes
	if scopes == nil {
		scopes = []string{"profile", "email"}
	}
	challenge := sha256.Sum256([]byte(f.Verifier))
	u, err := url.Parse(p.Authorize)
	if err != nil {
		return "", f, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	q := u.Query()
	for k, v := range map[string]string{
		"response_type": "code", "client_id": l.cfg.ClientID, "redirect_uri": redirect, "state": f.State, "nonce": f.Nonce,
		"scope": strings.Join(append([]string{"openid"}, scopes...), " "), "code_challenge_method": "S256",
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]),
	} {
		q.Set(k, v)
	}
	u.RawQuery = q.Encode()
	return u.String(), f, nil
}

// Finish checks the parameters with which the browser came back, and exchanges the
// code. The error is a *Refusal, wraps ErrUnavailable, or is that of the context.
func (l *Login) Finish(ctx context.Context, f Flow, q url.Values) (Person, error) {
	age := l.now().Sub(f.Begun)
	switch {
	case f.State == "" || subtle.ConstantTimeCompare([]byte(f.State), []byte(q.Get("state"))) != 1:
		return Person{}, refuse("the answer of the provider does not belong to this browser's sign-in; begin again")
	case age < 0 || age > flowLife:
		return Person{}, refuse("the sign-in took longer than %d minutes; begin again", int(flowLife/time.Minute))
	case q.Has("iss") && q.Get("iss") != l.cfg.Issuer: // RFC 9207
		return Person{}, refuse("the answer is that of another provider")
	case q.Get("error") != "":
		return Person{}, refuse("the provider did not sign you in: %.200q", cmp.Or(q.Get("error_description"), q.Get("error")))
	case q.Get("code") == "" || len(q.Get("code")) > maxCode:
		return Person{}, refuse("the answer of the provider has no code")
	}
	select {
	case l.codes <- struct{}{}:
		defer func() { <-l.codes }()
	default:
		return Person{}, fmt.Errorf("%w: too many sign-ins at the same time", ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, codeTimeout)
	defer cancel()
	answer, err := l.exchange(ctx, f, q.Get("code"))
	if err != nil {
		return Person{}, err
	}
	h, unverified, sig, err := parse(answer.IDToken)
	if err != nil {
		return Person{}, err
	}
	if iss := unverified.text("iss"); iss != l.cfg.Issuer {
		return Person{}, refuse("the id token is of the issuer %.200q", iss)
	}
	c, err := l.keys.verified(ctx, h, sig)
	if err != nil {
		return Person{}, err
	}
	if _, err := timely(c, l.now()); err != nil {
		return Person{}, err
	}
	if err := l.ours(c, f.Nonce); err != nil {
		return Person{}, err
	}
	more, err := l.userInfo(ctx, c, answer.AccessToken)
	if err != nil {
		return Person{}, err
	}
	return l.person(c, more)
}

// ours returns an error unless verified claims are for this server and this sign-in.
func (l *Login) ours(c Claims, nonce string) error {
	aud, azp := c.texts("aud"), c.text("azp")
	switch {
	case !slices.Contains(aud, l.cfg.ClientID), len(aud) > 1 && azp == "", azp != "" && azp != l.cfg.ClientID:
		return refuse("the id token is for the audience %.300q, not for this server", strings.Join(aud, " "))
	case subtle.ConstantTimeCompare([]byte(nonce), []byte(c.text("nonce"))) != 1:
		return refuse("the id token does not belong to this sign-in")
	case c.text("sub") == "":
		return refuse("the id token has no subject (sub)")
	}
	return nil
}

// person returns whom claims name. A claim that c lacks is read from more.
func (l *Login) person(c, more Claims) (Person, error) {
	claim := l.cfg.nameClaim()
	named := c.or(more, claim)
	p := Person{Name: named.text(claim)}
	switch {
	case p.Name == "":
		return Person{}, &Refusal{Forbidden: true, Text: fmt.Sprintf("the provider does not say the claim %q, which is the name here", claim)}
	case claim == "email" && named.text("email_verified") != "true":
		return Person{}, &Refusal{Forbidden: true, Text: "the provider has not verified the mail address"}
	case len(p.Name) > maxName || !truncate.Printable(p.Name):
		return Person{}, &Refusal{Forbidden: true, Text: fmt.Sprintf("the name has more than %d bytes or cannot be printed", maxName)}
	}
	if l.cfg.Groups != "" {
		groups := c.or(more, l.cfg.Groups).texts(l.cfg.Groups)
		p.Groups = slices.DeleteFunc(groups, func(s string) bool { return s == "" || len(s) > maxName || !truncate.Printable(s) })
		p.Groups = p.Groups[:min(len(p.Groups), maxGroups)]
	}
	return p, nil
}

// or returns c if it has the claim, else more.
func (c Claims) or(more Claims, claim string) Claims {
	if _, ok := c[claim]; ok {
		return c
	}
	return more
}

// userInfo returns the claims of the user info endpoint (OpenID Connect Core 1.0 section 5.3), if
// the id token c lacks the name or the groups: a provider may keep the claims of scopes there.
// Without the endpoint there are none. A person whose name is known signs in without groups if
// the endpoint does not answer.
func (l *Login) userInfo(ctx context.Context, c Claims, accessToken string) (Claims, error) {
	_, named := c[l.cfg.nameClaim()]
	_, grouped := c[l.cfg.Groups]
	if named && (grouped || l.cfg.Groups == "") {
		return nil, nil
	}
	p, err := l.provider(ctx)
	if err != nil || p.UserInfo == "" || accessToken == "" {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.UserInfo, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	r.Header.Set("Authorization", "Bearer "+accessToken)
	r.Header.Set("Accept", "application/json")
	status, b, err := l.ask(ctx, r)
	var more Claims
	if err == nil && status == http.StatusOK {
		more, err = parseClaims(b)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return nil, err
	case err == nil && status == http.StatusOK && more.text("sub") == c.text("sub"):
		return more, nil
	}
	l.keys.log.Warn("the OpenID provider does not say the claims of a person",
		"issuer", l.cfg.Issuer, "endpoint", p.UserInfo, "status", status, "error", err)
	if named {
		return nil, nil
	}
	return nil, fmt.Errorf("%w: the user info endpoint of the provider has no claims of this person", ErrUnavailable)
}

// tokens is the answer to a code.
type tokens struct {
	IDToken     string `json:"id_token"`
	AccessToken string `json:"access_token"`
}

// exchange exchanges a code for an id token.
func (l *Login) exchange(ctx context.Context, f Flow, code string) (tokens, error) {
	p, err := l.provider(ctx)
	if err != nil {
		return tokens{}, err
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {f.Redirect}, "code_verifier": {f.Verifier}}
	basic := l.cfg.ClientSecret != "" && (len(p.Methods) == 0 || slices.Contains(p.Methods, "client_secret_basic"))
	if !basic {
		form.Set("client_id", l.cfg.ClientID)
		if l.cfg.ClientSecret != "" {
			form.Set("client_secret", l.cfg.ClientSecret)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return tokens{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if basic {
		r.SetBasicAuth(url.QueryEscape(l.cfg.ClientID), url.QueryEscape(l.cfg.ClientSecret)) // RFC 6749 section 2.3.1
	}
	status, b, err := l.ask(ctx, r)
	if err != nil {
		return tokens{}, err
	}
	var answer struct {
		tokens
		Error string `json:"error"`
		Why   string `json:"error_description"`
	}
	err = json.Unmarshal(b, &answer)
	switch {
	case err == nil && answer.Error == "invalid_grant":
		return tokens{}, refuse("the provider does not accept the code: %.200q", cmp.Or(answer.Why, answer.Error))
	case err != nil || status != http.StatusOK || answer.IDToken == "":
		l.keys.log.Warn("the OpenID provider does not exchange a code", "issuer", l.cfg.Issuer, "status", status, "error", answer.Error)
		return tokens{}, fmt.Errorf("%w: the provider answered the code with status %d", ErrUnavailable, status)
	}
	return answer.tokens, nil
}

// ask sends a request with a secret to the provider, and follows it nowhere else. The error wraps
// ErrUnavailable, or is that of the context.
func (l *Login) ask(ctx context.Context, r *http.Request) (status int, body []byte, err error) {
	client := *l.keys.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(r)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return 0, nil, ctx.Err()
		}
		return 0, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer resp.Body.Close()
	if body, err = readAll(resp.Body, maxAnswer); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return resp.StatusCode, body, nil
}

// provider returns the metadata of the provider. It reads them at most once an hour,
// and after a failure at most every ten seconds.
func (l *Login) provider(ctx context.Context) (provider, error) {
	l.mu.Lock()
	defer l.mu.Unlock() // others wait for the same answer
	now := l.now()
	ago := func(t time.Time) time.Duration {
		if t.IsZero() {
			return 1 << 62
		}
		return now.Sub(t).Abs()
	}
	if ago(l.since) < providerFresh {
		return l.known, nil
	}
	if ago(l.tried) < providerPause {
		if !l.since.IsZero() {
			return l.known, nil
		}
		return provider{}, ErrUnavailable
	}
	l.tried = now
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysTimeout)
	defer cancel()
	var p provider
	b, err := l.keys.discovery(ctx)
	if err == nil {
		p, err = parseProvider(b, l.cfg.Issuer)
	}
	switch {
	case err == nil:
		l.known, l.since = p, now
	case l.since.IsZero():
		l.keys.log.Warn("cannot read the metadata of the OpenID provider", "issuer", l.cfg.Issuer, "error", err)
		return provider{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	default:
		l.keys.log.Warn("cannot read the metadata of the OpenID provider; the last ones stay in use", "issuer", l.cfg.Issuer, "error", err)
	}
	return l.known, nil
}

// parseProvider reads the metadata of a provider (OpenID Connect Discovery 1.0 section
// 3).
func parseProvider(b []byte, issuer string) (p provider, err error) {
	if err := json.Unmarshal(b, &p); err != nil {
		return provider{}, fmt.Errorf("the metadata of the issuer are no JSON: %w", err)
	}
	if p.Issuer != issuer {
		return provider{}, fmt.Errorf("the metadata are those of the issuer %.200q", p.Issuer)
	}
	for what, u := range map[string]string{"authorization_endpoint": p.Authorize, "token_endpoint": p.Token} {
		if !isEndpoint(u, issuer) {
			return provider{}, fmt.Errorf("the metadata have no %s with https, but %.200q", what, u)
		}
	}
	if !isEndpoint(p.UserInfo, issuer) {
		p.UserInfo = ""
	}
	return p, nil
}

package login

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/keyring"
)

const (
	maxDevice = 100 // characters of the name of this machine
	maxPerson = 256 // bytes of a name
)

// metadata is what a server says of its sign-in.
type metadata wire.LoginMetadata

// whole is the transport of requests to one server. Each request ends within requestTime, body and
// all, or with ctx: package oauth2 neither closes all bodies, nor gives all requests a context.
type whole struct {
	ctx  context.Context
	next http.RoundTripper
}

func (t whole) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	r = r.Clone(ctx)
	r.Header.Set("User-Agent", "symdepot login")
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	resp.Body = io.NopCloser(bytes.NewReader(b))
	return resp, err
}

// client returns the HTTP client for a server. It follows no redirect: what is sent is for this
// server only.
func (s *Logins) client(ctx context.Context, server string) *http.Client {
	c := *s.HTTP(server)
	c.Transport = whole{ctx, c.Transport}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// send sends a request to a server: with a form, or with a bearer token, or with neither. The
// error is ErrAway if the server does not answer now, and ErrNoSignIn if it sends elsewhere.
func (s *Logins) send(
	ctx context.Context, server, method, address string, form url.Values, bearer string,
) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Accept", "application/json")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if bearer != "" {
		req.Header.Set("Authorization", wire.Bearer+" "+bearer)
	}
	resp, err := s.client(ctx, server).Do(req)
	if err != nil {
		return 0, nil, away(ctx, server, err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return 0, nil, away(ctx, server, err)
	case resp.StatusCode/100 == 3:
		return 0, nil, fmt.Errorf("%s: %w: it answers with a redirect to %s; use the address that it sends to, if that is right",
			server, ErrNoSignIn, term.Printable(resp.Header.Get("Location")))
	case isAway(resp.StatusCode):
		return 0, nil, away(ctx, server, fmt.Errorf("it answers with status %d", resp.StatusCode))
	}
	return resp.StatusCode, body, nil
}

// isAway reports whether a status says that a server does not answer now.
func isAway(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// discover asks a server how it signs in.
func (s *Logins) discover(ctx context.Context, server string) (m metadata, err error) {
	status, body, err := s.send(ctx, server, http.MethodGet, server+wire.LoginPath+wire.LoginDiscovery, nil, "")
	if err != nil {
		return m, err
	}
	var refused wire.LoginFailure
	switch {
	case status == http.StatusOK && json.Unmarshal(body, &m) == nil:
		return m, m.check(server)
	case json.Unmarshal(body, &refused) == nil && refused.Description != "":
		return m, fmt.Errorf("%s: %w: it says: %s", server, ErrNoSignIn, term.PrintableText(refused.Description, 200))
	}
	return m, fmt.Errorf("%s: %w: it is another program, or an older version (status %d); "+
		"if it wants a token, use `symdepot login %s --token-file FILE`", server, ErrNoSignIn, status, server)
}

// check checks that a server speaks for itself only: each address has its origin.
func (m metadata) check(server string) error {
	if own, err := Canonical(m.Issuer); err != nil || own != server+wire.LoginPath {
		if base, ok := strings.CutSuffix(own, wire.LoginPath); ok && err == nil {
			return fmt.Errorf("%s: the server says that its address is %s: use symdepot login %s, or correct its key base_url",
				server, base, base)
		}
		return fmt.Errorf("%s: %w: it is no symdepot server, its issuer is %s", server, ErrNoSignIn, term.Printable(m.Issuer))
	}
	for _, address := range []string{m.Authorization, m.Token, m.Device, m.Revocation} {
		if err := sameOrigin(server, address); err != nil {
			return err
		}
	}
	return nil
}

// sameOrigin checks that an address that a server has named is one of the server.
func sameOrigin(server, address string) error {
	u, err := url.Parse(address)
	own, ownErr := url.Parse(server)
	if err != nil || ownErr != nil || u.User != nil || origin(u) != origin(own) {
		return fmt.Errorf("%s: the server names an address of another server: %s; ask its administrator to correct its key base_url",
			server, term.Printable(address))
	}
	return nil
}

// config returns the OAuth 2.0 client for a server.
func (m metadata) config() *oauth2.Config {
	return &oauth2.Config{ClientID: wire.LoginClient, Endpoint: oauth2.Endpoint{
		AuthURL: m.Authorization, TokenURL: m.Token, DeviceAuthURL: m.Device, AuthStyle: oauth2.AuthStyleInParams,
	}}
}

// with returns a context in which package oauth2 asks a server.
func (s *Logins) with(ctx context.Context, server string) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, s.client(ctx, server))
}

// device is the parameter with the name of this machine.
func (s *Logins) device() oauth2.AuthCodeOption {
	name := s.Machine
	if name == "" {
		name, _ = os.Hostname() // the name is for people: none is better than an error
	}
	letters := []rune(term.Printable(name))
	return oauth2.SetAuthURLParam(wire.LoginMachine, string(letters[:min(len(letters), maxDevice)]))
}

// away says that a server does not answer.
func away(ctx context.Context, server string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s: %w: %w", server, ErrAway, endpoint.Describe(err))
}

// refusal gives an error of package oauth2 its meaning: away; or refused, with what the server
// says. refused is ErrSignIn or ErrDenied.
func refusal(ctx context.Context, server string, refused, err error) error {
	answer, answered := errors.AsType[*oauth2.RetrieveError](err)
	if !answered {
		return away(ctx, server, err)
	}
	status := answer.Response.StatusCode
	if isAway(status) {
		return away(ctx, server, fmt.Errorf("it answers with status %d", status))
	}
	text := fmt.Sprintf("status %d", status)
	if answer.ErrorCode != "" {
		text = said(answer.ErrorCode, answer.ErrorDescription)
	}
	if refused != ErrDenied && answer.ErrorCode != "invalid_grant" {
		return away(ctx, server, fmt.Errorf("it answers with %s", text)) // not a word about the login
	}
	return fmt.Errorf("%s: %w: the server says %s", server, refused, text)
}

// said is an error of OAuth 2.0 as text.
func said(code, description string) string {
	return term.PrintableText(strings.TrimSuffix(code+": "+description, ": "), 200)
}

// secrets are the tokens of a login, as a keyring has them.
type secrets struct {
	Access     string    `json:"access_token"`
	AccessEnds time.Time `json:"access_ends"`
	Refresh    string    `json:"refresh_token"`
}

// read reads the answer of a server to a sign-in or a refresh, which has all that the contract
// of these servers says, into l and secrets.
func (l *Login) read(token *oauth2.Token) (k secrets, err error) {
	k = secrets{token.AccessToken, token.Expiry.UTC(), token.RefreshToken}
	if !isPlain(k.Access) || !isPlain(k.Refresh) || token.Expiry.IsZero() || token.Type() != wire.Bearer {
		return k, fmt.Errorf("%s: %w: its answer has no tokens that this version understands", l.Server, ErrNoSignIn)
	}
	if name, ok := token.Extra(wire.LoginName).(string); ok && len(name) <= maxPerson {
		l.Person = name
	}
	if id, ok := token.Extra(wire.LoginID).(string); ok && len(id) <= maxPerson {
		l.ID = id
	}
	if seconds, ok := token.Extra(wire.LoginEnds).(float64); ok && seconds > 0 && seconds < 1e10 {
		l.Ends = time.Now().Add(time.Duration(seconds) * time.Second).UTC().Truncate(time.Second)
	}
	l.Ended = false
	return k, nil
}

// isPlain reports whether a token can stand in a header field and on a line.
func isPlain(token string) bool {
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return token != "" && len(token) <= keyring.MaxSecret/4
}

// revoke ends a login at its server, by one of its tokens (RFC 7009).
func (s *Logins) revoke(ctx context.Context, server, token string) error {
	m, err := s.discover(ctx, server)
	if err != nil {
		return err
	}
	status, _, err := s.send(ctx, server, http.MethodPost, m.Revocation, url.Values{"token": {token}, "client_id": {wire.LoginClient}}, "")
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("%s: %w: it answers with status %d", server, ErrAway, status)
	}
	return err
}

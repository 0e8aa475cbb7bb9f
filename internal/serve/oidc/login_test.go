package oidc

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/serve/oidc/oidctest"
)

const back = "https://symbols.example.com/-/login/oidc/callback"

func newLogin(t testing.TB, c *clock, cfg LoginConfig) *Login {
	t.Helper()
	l, err := NewLogin(cfg, Options{Client: client, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// visit goes to the provider and returns the parameters with which it sends the
// browser back.
func visit(t *testing.T, to string) url.Values {
	t.Helper()
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Get(to)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	at, err := resp.Location()
	if err != nil || !strings.HasPrefix(at.String(), back+"?") {
		t.Fatalf("the provider answers %s and sends the browser to %v (%v), want %s", resp.Status, at, err, back)
	}
	return at.Query()
}

// TestLogin: a person signs in at a local provider, with the name and the groups that
// the claims say. What was sent for another browser, another client, another sign-in,
// by somebody else, late or twice is refused.
func TestLogin(t *testing.T) {
	t.Parallel()
	alice := func() map[string]any {
		return map[string]any{"email": "alice@corp.example", "email_verified": true, "groups": []string{"tools", "", "all staff"}, "upn": "alice"}
	}
	for _, tt := range []struct {
		name    string
		prepare func(c *oidctest.Client, cfg *LoginConfig)
		between func(f *Flow, q url.Values, c *clock)
		want    string // a part of the refusal; "" is success
		person  Person
	}{
		{name: "email", person: Person{Name: "alice@corp.example"}},
		{name: "groups and another name", prepare: func(_ *oidctest.Client, cfg *LoginConfig) { cfg.Name, cfg.Groups = "upn", "groups" },
			person: Person{Name: "alice", Groups: []string{"tools", "all staff"}}},
		{name: "a public client", prepare: func(c *oidctest.Client, cfg *LoginConfig) { c.Secret, cfg.ClientSecret = "", "" }, person: Person{Name: "alice@corp.example"}},
		{name: "several audiences", prepare: func(c *oidctest.Client, _ *LoginConfig) {
			c.Change = func(m map[string]any) { m["aud"], m["azp"] = []string{"other", "depot"}, "depot" }
		}, person: Person{Name: "alice@corp.example"}},
		{name: "refused by the person", prepare: func(c *oidctest.Client, _ *LoginConfig) { c.Person = nil }, want: "access_denied"},
		{name: "an address that is not verified", prepare: func(c *oidctest.Client, _ *LoginConfig) { c.Person["email_verified"] = false }, want: "not verified"},
		{name: "an address of which nobody says so", prepare: func(c *oidctest.Client, _ *LoginConfig) { delete(c.Person, "email_verified") }, want: "not verified"},
		{name: "no name", prepare: func(_ *oidctest.Client, cfg *LoginConfig) { cfg.Name = "nick" }, want: `does not say the claim "nick"`},
		{name: "a name with a line", prepare: func(c *oidctest.Client, _ *LoginConfig) { c.Person["email"] = "a\nb" }, want: "cannot be printed"},
		{name: "claims of the user info endpoint", prepare: func(c *oidctest.Client, cfg *LoginConfig) {
			cfg.Groups = "groups"
			c.Person, c.UserInfo = map[string]any{"email_verified": false, "groups": []string{"a"}}, map[string]any{"sub": "1234", "email": "al@corp.example", "email_verified": true, "groups": []string{"b"}}
		}, person: Person{Name: "al@corp.example", Groups: []string{"a"}}},
		{name: "groups of the user info endpoint", prepare: func(c *oidctest.Client, cfg *LoginConfig) {
			cfg.Groups = "teams"
			c.UserInfo = map[string]any{"sub": "1234", "email": "other@corp.example", "email_verified": true, "teams": []string{"b"}}
		}, person: Person{Name: "alice@corp.example", Groups: []string{"b"}}},
		{name: "groups of somebody else", prepare: func(c *oidctest.Client, cfg *LoginConfig) {
			cfg.Groups, c.UserInfo = "teams", map[string]any{"sub": "other", "teams": []string{"b"}}
		}, person: Person{Name: "alice@corp.example"}},
		{name: "an address that the user info endpoint has not verified", prepare: func(c *oidctest.Client, _ *LoginConfig) {
			c.Person, c.UserInfo = map[string]any{"email_verified": true}, map[string]any{"sub": "1234", "email": "al@corp.example"}
		}, want: "not verified"},
		{name: "another nonce", prepare: func(c *oidctest.Client, _ *LoginConfig) { c.Change = func(m map[string]any) { m["nonce"] = "x" } }, want: "does not belong"},
		{name: "no nonce", prepare: func(c *oidctest.Client, _ *LoginConfig) { c.Change = func(m map[string]any) { delete(m, "nonce") } }, want: "does not belong"},
		{name: "another audience", prepare: func(c *oidctest.Client, _ *LoginConfig) { c.Change = func(m map[string]any) { m["aud"] = "other" } }, want: "audience"},
		{name: "another party", prepare: func(c *oidctest.Client, _ *LoginConfig) { c.Change = func(m map[string]any) { m["azp"] = "other" } }, want: "audience"},
		{name: "another issuer in the token", prepare: func(c *oidctest.Client, _ *LoginConfig) {
			c.Change = func(m map[string]any) { m["iss"] = "https://evil.example" }
		}, want: "issuer"},
		{name: "an old token", prepare: func(c *oidctest.Client, _ *LoginConfig) {
			c.Change = func(m map[string]any) { m["exp"] = start.Add(-time.Hour).Unix() }
		}, want: "expired"},
		{name: "another browser", between: func(f *Flow, _ url.Values, _ *clock) { f.State = "x" }, want: "does not belong"},
		{name: "no flow", between: func(f *Flow, _ url.Values, _ *clock) { *f = Flow{} }, want: "does not belong"},
		{name: "no flow and no state", between: func(f *Flow, q url.Values, _ *clock) { *f = Flow{}; q.Del("state") }, want: "does not belong"},
		{name: "another issuer in the answer", between: func(_ *Flow, q url.Values, _ *clock) { q.Set("iss", "https://evil.example") }, want: "another provider"},
		{name: "no code", between: func(_ *Flow, q url.Values, _ *clock) { q.Del("code") }, want: "no code"},
		{name: "a wrong code", between: func(_ *Flow, q url.Values, _ *clock) { q.Set("code", "x") }, want: "invalid_grant"},
		{name: "a code for another verifier", between: func(f *Flow, _ url.Values, _ *clock) { f.Verifier += "x" }, want: "invalid_grant"},
		{name: "a code for another address", between: func(f *Flow, _ url.Values, _ *clock) { f.Redirect += "x" }, want: "invalid_grant"},
		{name: "late", between: func(_ *Flow, _ url.Values, c *clock) { c.add(11 * time.Minute) }, want: "10 minutes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			i := oidctest.New(t, "/realms/corp")
			to := &oidctest.Client{ID: "depot", Secret: "ge:heim&", Redirect: back, Person: alice(), Now: c.now}
			cfg := LoginConfig{Issuer: i.URL, ClientID: "depot", ClientSecret: "ge:heim&"}
			if tt.prepare != nil {
				tt.prepare(to, &cfg)
			}
			// The test's provider reads a secret as it is, without decoding it.
			to.Secret = url.QueryEscape(to.Secret)
			i.SetClient(to)
			l := newLogin(t, c, cfg)
			where, f, err := l.Begin(t.Context(), back)
			if err != nil {
				t.Fatal(err)
			}
			q := visit(t, where)
			if tt.between != nil {
				tt.between(&f, q, c)
			}
			p, err := l.Finish(t.Context(), f, q)
			refusal, refused := errors.AsType[*Refusal](err)
			switch {
			case tt.want == "" && (err != nil || p.Name != tt.person.Name || !slices.Equal(p.Groups, tt.person.Groups)):
				t.Errorf("got %+v, %v; want %+v", p, err, tt.person)
			case tt.want != "" && (!refused || !strings.Contains(refusal.Text, tt.want)):
				t.Errorf("got %+v, %v; want a refusal with %q", p, err, tt.want)
			}
			if tt.want == "" {
				if _, err := l.Finish(t.Context(), f, q); err == nil {
					t.Error("the same code is accepted twice")
				}
			}
		})
	}
}

// TestLoginUserInfo: without the name in the id token, a user info endpoint must answer, for the
// same person; and it gets the access token, which goes nowhere else.
func TestLoginUserInfo(t *testing.T) {
	t.Parallel()
	elsewhere := oidctest.New(t, "")
	for what, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"refuses": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("eyJ.e30.x")) },
		"names somebody else": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"sub":"5678","email":"a@b","email_verified":true}`))
		},
		"names nobody": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"email":"a@b","email_verified":true}`))
		},
		"sends to another host": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) },
	} {
		c, i := newClock(), oidctest.New(t, "")
		i.SetClient(&oidctest.Client{ID: "depot", Redirect: back, Person: map[string]any{}, UserInfo: map[string]any{}, Now: c.now})
		i.Answer(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/userinfo" {
				return false
			}
			answer(w, r)
			return true
		})
		l := newLogin(t, c, LoginConfig{Issuer: i.URL, ClientID: "depot"})
		where, f, err := l.Begin(t.Context(), back)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := l.Finish(t.Context(), f, visit(t, where)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a user info endpoint that %s: %+v, %v; want ErrUnavailable", what, p, err)
		}
	}
	if n := elsewhere.Requests(); n != 0 {
		t.Errorf("another host got %d requests, want none", n)
	}
}

// TestLoginUnavailable: a provider that does not answer, or answers nonsense, is asked
// once in ten seconds, and the last metadata stay in use.
func TestLoginUnavailable(t *testing.T) {
	t.Parallel()
	c := newClock()
	i := oidctest.New(t, "")
	i.SetClient(&oidctest.Client{ID: "depot", Redirect: back, Person: map[string]any{"sub": "a"}, Now: c.now})
	l := newLogin(t, c, LoginConfig{Issuer: i.URL, ClientID: "depot", Name: "sub"})
	i.SetDown(true)
	for range 3 {
		if _, _, err := l.Begin(t.Context(), back); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a provider that is down: %v, want ErrUnavailable", err)
		}
	}
	if n := i.Requests(); n != 1 {
		t.Errorf("the provider got %d requests within ten seconds, want 1", n)
	}
	i.SetDown(false)
	c.add(10 * time.Second)
	where, f, err := l.Begin(t.Context(), back)
	if err != nil {
		t.Fatal(err)
	}
	q := visit(t, where)
	i.SetDown(true)
	if _, err := l.Finish(t.Context(), f, q); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a provider that is down at the code: %v, want ErrUnavailable", err)
	}
	c.add(2 * time.Hour)
	if _, _, err := l.Begin(t.Context(), back); err != nil {
		t.Errorf("with the metadata of two hours ago: %v, want no error", err)
	}
	i.SetDown(false)
	for what, answer := range map[string]string{
		"no JSON": "<html>", "another issuer": `{"issuer":"https://evil.example","authorization_endpoint":"https://a/","token_endpoint":"https://a/"}`,
		"no address": `{"issuer":"` + i.URL + `","token_endpoint":"https://a/"}`, "a script": `{"issuer":"` + i.URL + `","authorization_endpoint":"javascript:alert(1)","token_endpoint":"https://a/"}`,
		"a file": `{"issuer":"` + i.URL + `","authorization_endpoint":"https://a/","token_endpoint":"file:///etc/passwd"}`,
	} {
		i.Answer(func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write([]byte(answer)); return true })
		if _, _, err := newLogin(t, newClock(), LoginConfig{Issuer: i.URL, ClientID: "depot"}).Begin(t.Context(), back); !errors.Is(err, ErrUnavailable) {
			t.Errorf("metadata with %s: %v, want ErrUnavailable", what, err)
		}
	}
}

func TestLoginConfig(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		cfg  LoginConfig
		want string
	}{
		"good":                 {LoginConfig{Issuer: "https://login.example.com/realms/x", ClientID: "a"}, ""},
		"no issuer":            {LoginConfig{ClientID: "a"}, "issuer:"},
		"plain HTTP":           {LoginConfig{Issuer: "http://login.example.com", ClientID: "a"}, "issuer:"},
		"no client":            {LoginConfig{Issuer: "https://login.example.com"}, "client_id:"},
		"a bad scope":          {LoginConfig{Issuer: "https://login.example.com", ClientID: "a", Scopes: []string{"a b"}}, "scopes:"},
		"a title of two lines": {LoginConfig{Issuer: "https://login.example.com", ClientID: "a", Title: "a\nb"}, "title:"},
	} {
		if err := tt.cfg.Check(); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", what, err, tt.want)
		}
	}
	if _, err := NewLogin(LoginConfig{Issuer: "https://login.example.com", ClientID: "a"}, Options{}); err == nil {
		t.Error("a server without connections signs people in at a provider, want an error")
	}
}

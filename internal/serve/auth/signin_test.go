package auth

import (
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/serve/oidc"
	"github.com/symdepot/symdepot/internal/serve/oidc/oidctest"
)

// browser is a request of a browser for a page.
func browser(path string, h ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("User-Agent", "Mozilla/5.0")
	for i := 0; i < len(h); i += 2 {
		r.Header.Add(h[i], h[i+1])
	}
	return r
}

// TestSignIn: a password, a token and a ticket begin sign-ins that do what the
// credentials may do.
func TestSignIn(t *testing.T) {
	t.Parallel()
	c, s := newClock(), newStore()
	kt := testKeytab(t, "pw", "HTTP/sym.unit.test")
	users := usersFile(t, "alice", "secret", "mallory", "m")
	g := newGate(t, Config{
		Now: c.now, Users: users, Started: c.now().Add(-time.Hour), Keytab: writeKeytab(t, kt, ""),
		Policy: PolicyConfig{Grants: []Grant{{Who: []string{"basic:alice"}, Read: []string{"App"}}, {Who: []string{"carol@" + testRealm}, Write: []string{"Tool"}}}},
	}, s)
	secret, row := s.issue(t, c, TokenSpec{Name: "ci", Products: []string{"Game"}})
	if o := g.SignInOffers(); !o.Password || !o.Ticket || o.OIDC != "" {
		t.Errorf("offered are %+v, want passwords and tickets", o)
	}
	ticket := func() *http.Request {
		b, _, _ := forge{kt: kt, cname: []string{"carol"}}.token(t, c)
		return negotiate(b)
	}
	for _, tt := range []struct {
		what   string
		begin  func() (SignIn, *Challenge)
		who    string
		method Method
		life   time.Duration
		may    func(r *Rights) bool
	}{
		{"password", func() (SignIn, *Challenge) { return g.SignInPassword(browser("/"), " alice ", "secret") }, "alice", MethodBasic, 7 * 24 * time.Hour,
			func(r *Rights) bool { return r.MayRead("App") && !r.MayRead("Game") }},
		{"token", func() (SignIn, *Challenge) { return g.SignInPassword(browser("/"), "", " "+secret+"\n") }, "ci", MethodToken, 7 * 24 * time.Hour,
			func(r *Rights) bool { return r.MayRead("Game") && !r.MayRead("App") }},
		{"ticket", func() (SignIn, *Challenge) { return g.SignInTicket(ticket()) }, "carol@UNIT.TEST", MethodNegotiate, time.Hour,
			func(r *Rights) bool { return r.MayWrite("Tool") && !r.MayRead("Tool") }},
	} {
		in, ch := tt.begin()
		if ch != nil {
			t.Fatalf("%s: %+v, want a sign-in", tt.what, ch)
		}
		if in.Name != tt.who || !in.Expires.Equal(c.now().Add(tt.life)) || IsToken(in.Secret) {
			t.Errorf("%s: %+v; want one of %s for %v, whose secret is no token", tt.what, in, tt.who, tt.life)
		}
		id, rights, ch := g.AuthenticateBrowser(browser("/-/me"), "", in.Secret)
		if ch != nil || id.Name != tt.who || id.Method != tt.method || id.Carrier != "cookie" || id.SignIn != in.ID || !tt.may(&rights) {
			t.Errorf("%s: %+v, %+v, %+v; want %s by %s with its rights", tt.what, id, rights, ch, tt.who, tt.method)
		}
		if tt.method == MethodToken && id.TokenID != row.ID {
			t.Errorf("%s: the id of the token is %q, want %q", tt.what, id.TokenID, row.ID)
		}
		if tt.method != MethodNegotiate {
			used := maps.Clone(g.tokens.touched)
			if !g.Again(browser("/"), "", in.Secret, &id) || !maps.Equal(used, g.tokens.touched) && tt.method != MethodToken {
				t.Errorf("%s: the sign-in does not go on, or was used by that", tt.what)
			}
		}
		// The secret counts as a cookie only, and only where the server says so.
		for _, r := range []*http.Request{browser("/"), get("Cookie", "__Host-sd="+in.Secret), get("Authorization", "Bearer "+in.Secret), get("Authorization", basic("x", in.Secret)), get("X-Symdepot-Token", in.Secret)} {
			if id, _, ch := g.Authenticate(r, ""); ch == nil {
				t.Errorf("%s: the secret as %v: %+v, want a challenge", tt.what, r.Header, id)
			}
		}
		// Other credentials take precedence.
		if id, _, ch := g.AuthenticateBrowser(browser("/-/me", "Authorization", "Bearer "+secret), "", in.Secret); ch != nil || id.SignIn != "" || id.Method != MethodToken {
			t.Errorf("%s, with a bearer token: %+v, %+v; want the token", tt.what, id, ch)
		}
		for h, r := range s.rows {
			if r.Kind != KindSignIn {
				continue
			}
			info, ok := DescribeSignIn(&r, c.now())
			if !ok || info.Name == "" || info.Remote != "192.0.2.1" || strings.Contains(r.Facts, "secret") || strings.Contains(r.Facts+r.Name+r.CreatedBy, in.Secret) || h == HashToken(in.Secret) {
				t.Errorf("%s: stored is %+v, %+v; want the facts without a secret", tt.what, info, r)
			}
		}
		if err := g.SignOut(t.Context(), &id); err != nil {
			t.Errorf("%s: the end: %v", tt.what, err)
		}
		if g.Again(browser("/"), "", in.Secret, &id) {
			t.Errorf("%s: it goes on after its end", tt.what)
		}
		if _, _, ch := g.AuthenticateBrowser(browser("/-/me"), "", in.Secret); ch == nil || ch.Status != http.StatusUnauthorized || !strings.Contains(ch.Reason, "ended") {
			t.Errorf("%s, after the end: %+v, want 401", tt.what, ch)
		}
		if err := g.EndSignIn(t.Context(), in.ID); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a second end: %v, want ErrNotExist", tt.what, err)
		}
	}
	if s.limits != (SignInLimits{Idle: 12 * time.Hour, Each: 20, All: 10_000}) {
		t.Errorf("the limits are %+v", s.limits)
	}
	for what, tt := range map[string]struct {
		begin  func() (SignIn, *Challenge)
		status int
	}{
		"a wrong password":        {func() (SignIn, *Challenge) { return g.SignInPassword(browser("/"), "alice", "x") }, 401},
		"nothing":                 {func() (SignIn, *Challenge) { return g.SignInPassword(browser("/"), "", "") }, 401},
		"an unknown token":        {func() (SignIn, *Challenge) { return g.SignInPassword(browser("/"), "", NewToken()) }, 401},
		"somebody without rights": {func() (SignIn, *Challenge) { return g.SignInPassword(browser("/"), "mallory", "m") }, 403},
		"no ticket":               {func() (SignIn, *Challenge) { return g.SignInTicket(browser("/")) }, 401},
		"a password as ticket":    {func() (SignIn, *Challenge) { return g.SignInTicket(get("Authorization", basic("alice", "secret"))) }, 401},
		"no OpenID provider":      {func() (SignIn, *Challenge) { in, _, ch := g.FinishOIDC(browser("/"), ""); return in, ch }, 404},
	} {
		in, ch := tt.begin()
		if ch == nil || ch.Status != tt.status || in.Secret != "" {
			t.Errorf("%s: %+v, %+v; want status %d", what, in, ch, tt.status)
		}
		if strings.Contains(what, "ticket") && (ch == nil || !slices.Equal(ch.Header, []string{"Negotiate"})) {
			t.Errorf("%s: %+v, want Negotiate alone", what, ch)
		}
	}
	s.full = true
	if _, ch := g.SignInPassword(browser("/"), "alice", "secret"); ch == nil || ch.Status != http.StatusTooManyRequests {
		t.Errorf("too many sign-ins: %+v, want 429", ch)
	}
}

// TestSignInEnds: a sign-in ends after twelve hours without a use, after a week, and
// with the credentials that it was begun with.
func TestSignInEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, c *clock, s *memStore, g *Gate, token *TokenRow, users string)
		// which sign-ins have ended then
		password, token, ticket bool
	}{
		{"nothing", func(*testing.T, *clock, *memStore, *Gate, *TokenRow, string) {}, false, false, false},
		{"the ticket", func(_ *testing.T, c *clock, _ *memStore, _ *Gate, _ *TokenRow, _ string) { c.add(2 * time.Hour) }, false, false, true},
		{"idleness", func(_ *testing.T, c *clock, _ *memStore, _ *Gate, _ *TokenRow, _ string) { c.add(12 * time.Hour) }, true, true, true},
		{"a revoked token", func(_ *testing.T, c *clock, s *memStore, _ *Gate, token *TokenRow, _ string) {
			token.Revoked = c.now()
			s.mu.Lock()
			s.rows[token.Hash] = *token
			s.mu.Unlock()
			c.add(3 * time.Second)
		}, false, true, false},
		{"an expired token", func(_ *testing.T, c *clock, s *memStore, _ *Gate, token *TokenRow, _ string) {
			token.Expires = c.now().Add(time.Second)
			s.mu.Lock()
			s.rows[token.Hash] = *token
			s.mu.Unlock()
			c.add(3 * time.Second)
		}, false, true, false},
		{"another password", func(t *testing.T, _ *clock, _ *memStore, g *Gate, _ *TokenRow, users string) {
			b, err := os.ReadFile(usersFile(t, "alice", "secret")) // of another hash
			if err == nil {
				err = os.WriteFile(users, b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			g.tick()
		}, true, false, false},
		{"a user who is gone", func(t *testing.T, _ *clock, _ *memStore, g *Gate, _ *TokenRow, users string) {
			if err := os.WriteFile(users, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			g.tick()
		}, true, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, s := newClock(), newStore()
			kt := testKeytab(t, "pw", "HTTP/sym.unit.test")
			users := usersFile(t, "alice", "secret")
			g := newGate(t, Config{Now: c.now, Users: users, Started: c.now().Add(-time.Hour), Keytab: writeKeytab(t, kt, "")}, s)
			secret, row := s.issue(t, c, TokenSpec{Name: "ci"})
			password, ch1 := g.SignInPassword(browser("/"), "alice", "secret")
			token, ch2 := g.SignInPassword(browser("/"), "", secret)
			b, _, _ := forge{kt: kt, cname: []string{"carol"}}.token(t, c)
			ticket, ch3 := g.SignInTicket(negotiate(b))
			if ch1 != nil || ch2 != nil || ch3 != nil {
				t.Fatalf("%+v, %+v, %+v; want three sign-ins", ch1, ch2, ch3)
			}
			valid := func(in SignIn) bool {
				_, _, ch := g.AuthenticateBrowser(browser("/-/me"), "", in.Secret)
				return ch == nil
			}
			if !valid(password) || !valid(token) || !valid(ticket) {
				t.Fatal("a sign-in does not count, want all three")
			}
			tt.end(t, c, s, g, &row, users)
			if got := [3]bool{!valid(password), !valid(token), !valid(ticket)}; got != [3]bool{tt.password, tt.token, tt.ticket} {
				t.Errorf("ended are those by password, token and ticket: %v; want %v, %v, %v", got, tt.password, tt.token, tt.ticket)
			}
		})
	}
}

// TestSignInUse: uses keep a sign-in alive, also those at other servers, but not for
// longer than a week.
func TestSignInUse(t *testing.T) {
	t.Parallel()
	c, s := newClock(), newStore()
	g := newGate(t, Config{Now: c.now, Users: usersFile(t, "alice", "secret")}, s)
	in, ch := g.SignInPassword(browser("/"), "alice", "secret")
	if ch != nil {
		t.Fatalf("%+v, want a sign-in", ch)
	}
	valid := func() bool {
		_, _, ch := g.AuthenticateBrowser(browser("/"), "", in.Secret)
		return ch == nil
	}
	for c.add(11 * time.Hour); c.now().Before(in.Expires); c.add(11 * time.Hour) {
		if !valid() {
			t.Fatalf("the sign-in ends %v before its end although it is used", in.Expires.Sub(c.now()))
		}
		if err := g.tokens.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		row := s.rows[hashSignIn(in.Secret)]
		row.LastUsed = s.touched[row.ID]
		s.rows[row.Hash] = row
	}
	if valid() {
		t.Error("the sign-in counts after a week")
	}
}

// TestSignInGuesses: wrong passwords at the form are slowed down as those of Basic.
func TestSignInGuesses(t *testing.T) {
	t.Parallel()
	c := newClock()
	g := newGate(t, Config{Now: c.now, Users: usersFile(t, "alice", "secret")}, newStore())
	var last *Challenge
	for i := range freeByAddress + 2 {
		_, last = g.SignInPassword(browser("/"), "alice", "guess"+strings.Repeat("x", i))
	}
	if last == nil || last.Status != http.StatusServiceUnavailable || !strings.Contains(last.Text, "too many wrong passwords") {
		t.Errorf("after %d wrong passwords: %+v, want 503 and the reason", freeByAddress+1, last)
	}
	if _, ch := g.SignInPassword(browser("/"), "alice", "secret"); ch == nil || ch.Status != http.StatusServiceUnavailable {
		t.Errorf("the correct password at that address: %+v, want 503", ch)
	}
	if _, _, ch := g.Authenticate(get("Authorization", basic("alice", "secret")), ""); ch == nil || ch.Status != http.StatusServiceUnavailable {
		t.Errorf("the correct password by Basic: %+v, want 503: both count together", ch)
	}
}

const redirect = "https://symbols.example.com/-/login/oidc/callback"

// provider starts an OpenID provider and returns a gate that trusts it.
func provider(t *testing.T, c *clock, s *memStore, policy PolicyConfig) (*Gate, *oidctest.Issuer, *oidctest.Client) {
	t.Helper()
	i := oidctest.New(t, "")
	to := &oidctest.Client{ID: "depot", Secret: "s", Redirect: redirect, Now: c.now, Person: map[string]any{"email": "alice@corp.example", "email_verified": true, "groups": []string{"tools"}}}
	i.SetClient(to)
	g := newGate(t, Config{Now: c.now, Policy: policy, OIDCClient: func(string) *http.Client { return http.DefaultClient },
		SignIn: &oidc.LoginConfig{Issuer: i.URL, ClientID: "depot", ClientSecret: "s", Groups: "groups", Title: "Corp"}}, s)
	return g, i, to
}

// visit is what the browser does at the provider.
func visit(t *testing.T, to string) *http.Request {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(to)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	at, err := resp.Location()
	if err != nil {
		t.Fatalf("the provider answers %s", resp.Status)
	}
	return browser(at.RequestURI())
}

// TestSignInOIDC: people sign in at an OpenID provider. Their groups are those of the
// policy, and names that the provider chooses match no pattern that was written for
// others.
func TestSignInOIDC(t *testing.T) {
	t.Parallel()
	c, s := newClock(), newStore()
	g, i, to := provider(t, c, s, PolicyConfig{Grants: []Grant{
		{Who: []string{"oidc-group:tools"}, Read: []string{"App"}},
		{Who: []string{"oidc:*@corp.example"}, Read: []string{"Docs"}},
		{Who: []string{"*@corp.example", "basic:*", "kerberos:*@corp.example", "alice@corp.example", "sid:tools"}, Admin: true},
		{Who: []string{"oidc-group:admins"}, Admin: true},
	}})
	if o := g.SignInOffers(); o.OIDC != "Corp" || o.Password || o.Ticket {
		t.Errorf("offered are %+v, want the provider Corp", o)
	}
	where, kept, ch := g.BeginOIDC(browser("/"), redirect, "/-/builds/17?a=b")
	if ch != nil {
		t.Fatalf("%+v, want the provider's address", ch)
	}
	back := visit(t, where)
	in, next, ch := g.FinishOIDC(back, kept)
	if ch != nil || next != "/-/builds/17?a=b" || in.Name != "alice@corp.example" {
		t.Fatalf("%+v, %q, %+v; want a sign-in of alice@corp.example, and /-/builds/17?a=b", in, next, ch)
	}
	id, rights, ch := g.AuthenticateBrowser(browser("/-/me"), "", in.Secret)
	if ch != nil || id.Method != MethodOIDC || id.Maker() != "oidc:alice@corp.example" || rights.Admin || !slices.Equal(rights.Products, []string{"App", "Docs"}) {
		t.Errorf("%+v, %+v, %+v; want alice with App and Docs", id, rights, ch)
	}
	// Without the flow of this browser the answer is worth nothing, and not twice.
	for what, kept := range map[string]string{"no flow": "", "nonsense": "!", "again": kept} {
		if _, _, ch := g.FinishOIDC(back, kept); ch == nil || ch.Status != http.StatusUnauthorized {
			t.Errorf("%s: %+v, want 401", what, ch)
		}
	}
	// A person without any right.
	to.Person = map[string]any{"email": "eve@evil.example", "email_verified": true}
	where, kept, ch = g.BeginOIDC(browser("/"), redirect, strings.Repeat("/x", 4000))
	if ch != nil {
		t.Fatal(ch)
	}
	if _, next, ch := g.FinishOIDC(visit(t, where), kept); ch == nil || ch.Status != http.StatusForbidden || next != "" {
		t.Errorf("a stranger with a long page: %+v, %q; want 403 and no page", ch, next)
	}
	// A provider that is not configured any more.
	other := newGate(t, Config{Now: c.now, OIDCClient: func(string) *http.Client { return http.DefaultClient },
		SignIn: &oidc.LoginConfig{Issuer: "https://login.example.com", ClientID: "x"}}, s)
	if _, _, ch := other.AuthenticateBrowser(browser("/-/me"), "", in.Secret); ch == nil {
		t.Error("a sign-in at another provider counts")
	}
	// Attempts are slowed down.
	where, kept, _ = g.BeginOIDC(browser("/"), redirect, "")
	good := visit(t, where)
	for range freeByAddress + 1 {
		bad := good.Clone(t.Context())
		bad.URL.RawQuery = url.Values{"state": {"x"}}.Encode()
		_, _, _ = g.FinishOIDC(bad, kept)
	}
	if _, _, ch := g.FinishOIDC(good, kept); ch == nil || ch.Status != http.StatusServiceUnavailable {
		t.Errorf("after many failures: %+v, want 503", ch)
	}
	good.RemoteAddr = "198.51.100.7:1"
	if _, _, ch := g.FinishOIDC(good, kept); ch == nil || ch.Status != http.StatusForbidden {
		t.Errorf("the stranger from another address: %+v, want 403: the failures of others do not count", ch)
	}
	i.SetDown(true)
	c.add(2 * time.Hour)
	if _, _, ch := g.BeginOIDC(browser("/"), redirect, ""); ch != nil {
		t.Errorf("a provider that is down, with the metadata of two hours ago: %+v, want no error", ch)
	}
}

// TestSignInGroups: of many groups those are kept that the policy names.
func TestSignInGroups(t *testing.T) {
	t.Parallel()
	p, err := NewPolicy(PolicyConfig{Grants: []Grant{{Who: []string{"oidc-group:last"}, Admin: true}, {Who: []string{"sid:S-1-5-21"}, Admin: true}}})
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for i := range 1000 {
		groups = append(groups, strings.Repeat("g", i%50))
	}
	groups = append(groups, "S-1-5-21", "last")
	got := p.namedFirst(groups, func(p *pattern) bool { return p.claim }, func(a, b string) bool { return a == b })
	if len(got) != maxSignInGroups || got[0] != "last" || slices.Contains(got, "S-1-5-21") {
		t.Errorf("kept are %d groups, first %q; want %d, first last", len(got), got[0], maxSignInGroups)
	}
}

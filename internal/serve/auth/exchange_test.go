package auth

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/serve/oidc"
	"github.com/symdepot/symdepot/internal/serve/oidc/oidctest"
)

const audience = "https://symbols.example.com"

func oidcRule(issuer string) oidc.Rule {
	return oidc.Rule{Issuer: issuer, Audience: audience, Match: map[string]string{"repository_id": "74"}, Write: []string{"Game"}, Class: "nightly"}
}

// TestExchange: an id token is exchanged once, for a token with the rights of the
// rule for an hour.
func TestExchange(t *testing.T) {
	t.Parallel()
	c, store, issuer := newClock(), newStore(), oidctest.New(t, "")
	g := newGate(t, Config{Now: c.now, OIDC: []oidc.Rule{oidcRule(issuer.URL)}, OIDCClient: func(string) *http.Client { return http.DefaultClient }}, store)
	idToken := issuer.Sign(issuer.GitHub(audience, c.now(), nil))
	secret, row, challenge := g.Exchange(t.Context(), idToken)
	if challenge != nil {
		t.Fatalf("challenge %+v, want none", challenge)
	}
	if row.Name != "oidc:github:octo/game@refs/heads/main" || !slices.Equal(row.Scopes, []string{ScopeWrite}) || !slices.Equal(row.Products, []string{"Game"}) ||
		!row.Expires.Equal(c.now().Add(time.Hour)) || !row.Keep.After(row.Expires) || row.CreatedBy != "oidc" {
		t.Errorf("the token is %+v, want one made by oidc that ends in an hour and is kept longer", row)
	}
	id, rights, challenge := g.Authenticate(get("Authorization", "Bearer "+secret), "")
	if challenge != nil || !rights.MayWrite("Game") || rights.MayWrite("other") || rights.Admin {
		t.Errorf("the rights are %+v (%+v); want to write Game", rights, challenge)
	}
	if u := id.Uploads; u.Class != "nightly" || u.Build == nil || u.Build.Commit != "2f1c0ffee" || u.Build.CI != "github" {
		t.Errorf("uploads with the token: %+v, want those of the nightly build 2f1c0ffee from github", u)
	}
	if in, challenge := g.SignInPassword(get(), "", secret); challenge == nil || challenge.Status != 403 || !strings.Contains(challenge.Text, "CI job") || in.Secret != "" {
		t.Errorf("a sign-in with the job's token: %+v, %+v; want 403 that says why", in, challenge)
	}
	if _, _, challenge := g.Exchange(t.Context(), idToken); challenge == nil || challenge.Status != 401 || !strings.Contains(challenge.Text, "once") {
		t.Errorf("the same id token again: %+v, want 401", challenge)
	}
	for what, tt := range map[string]struct {
		token  string
		status int
	}{
		"not an id token":    {"nonsense", 401},
		"another audience":   {issuer.Sign(issuer.GitHub("https://github.com/octo", c.now(), nil)), 401},
		"another repository": {issuer.Sign(issuer.GitHub(audience, c.now(), map[string]any{"repository_id": "75"})), 403},
	} {
		if _, _, challenge := g.Exchange(t.Context(), tt.token); challenge == nil || challenge.Status != tt.status || challenge.Text == "" {
			t.Errorf("%s: %+v, want %d with a text", what, challenge, tt.status)
		}
	}
	c.add(time.Hour)
	if _, _, challenge := g.Authenticate(get("Authorization", "Bearer "+secret), ""); challenge == nil && g.policy().anonymous.All {
		if id, rights, _ := g.Authenticate(get("Authorization", "Bearer "+secret), ""); !id.Anonymous() || rights.Write {
			t.Errorf("an hour later the token still gives %+v", rights)
		}
	}
	store.full = true
	if _, _, challenge := g.Exchange(t.Context(), issuer.Sign(issuer.GitHub(audience, c.now(), nil))); challenge == nil || challenge.Status != 429 {
		t.Errorf("a full store: %+v, want 429", challenge)
	}
	if _, _, challenge := newGate(t, Config{}, store).Exchange(t.Context(), idToken); challenge == nil || challenge.Status != 404 {
		t.Errorf("without rules: %+v, want 404", challenge)
	}
	issuer.SetDown(true)
	down := newGate(t, Config{Now: c.now, OIDC: []oidc.Rule{oidcRule(issuer.URL)}, OIDCClient: func(string) *http.Client { return http.DefaultClient }}, store)
	if _, _, challenge := down.Exchange(t.Context(), idToken); challenge == nil || challenge.Status != 503 {
		t.Errorf("an issuer that is down: %+v, want 503", challenge)
	}
}

// TestExchangePublic: the job of somebody outside gets a token for the public forms of the
// products of its rule, and for nothing else.
func TestExchangePublic(t *testing.T) {
	t.Parallel()
	c, issuer := newClock(), oidctest.New(t, "")
	for _, tt := range []struct{ public, products []string }{{[]string{"Game", "Tool"}, []string{"Game", "Tool"}}, {[]string{AllProducts}, nil}} {
		rule := oidcRule(issuer.URL)
		rule.Write, rule.Class, rule.Public = nil, "", tt.public
		g := newGate(t, Config{
			Policy: PolicyConfig{Demand: true}, Now: c.now, OIDC: []oidc.Rule{rule},
			OIDCClient: func(string) *http.Client { return http.DefaultClient },
		}, newStore())
		secret, row, challenge := g.Exchange(t.Context(), issuer.Sign(issuer.GitHub(audience, c.now(), nil)))
		if challenge != nil || !slices.Equal(row.Scopes, []string{ScopeReadPublic}) || !slices.Equal(row.Products, tt.products) {
			t.Fatalf("public %q: the token is %+v (%+v), want the scope %s", tt.public, row, challenge, ScopeReadPublic)
		}
		_, rights, challenge := g.Authenticate(get(), secret)
		want := (&Grant{Public: tt.public}).rights()
		if challenge != nil || !rights.equal(&want) {
			t.Errorf("public %q: the rights are %+v (%+v), want %+v", tt.public, rights, challenge, want)
		}
	}
}

// TestMakeFor: nobody makes a token beyond its own rights.
func TestMakeFor(t *testing.T) {
	t.Parallel()
	now := newClock().now()
	user := &Identity{Name: "alice", Method: MethodBasic}
	token := &Identity{Name: "ci", Method: MethodToken, TokenID: "0123456789ab"}
	reader := &Rights{Admitted: true, Products: []string{"app"}}
	writer := &Rights{Admitted: true, Products: []string{"app"}, Write: true, WriteProducts: []string{"app"}}
	all := &Rights{Admitted: true, All: true, Write: true, WriteAll: true}
	admin := &Rights{Admitted: true, All: true, Write: true, WriteAll: true, Admin: true}
	for _, tt := range []struct {
		what   string
		id     *Identity
		rights *Rights
		spec   TokenSpec
		ok     bool
	}{
		{"anonymous", &Identity{}, all, TokenSpec{Name: "x"}, false},
		{"read of the own product", user, reader, TokenSpec{Name: "x", Products: []string{"app"}}, true},
		{"read of all", user, reader, TokenSpec{Name: "x"}, false},
		{"read of another", user, reader, TokenSpec{Name: "x", Products: []string{"app", "driver"}}, false},
		{"write of a reader", user, reader, TokenSpec{Name: "x", Scopes: []string{ScopeWrite}, Products: []string{"app"}}, false},
		{"write", user, writer, TokenSpec{Name: "x", Scopes: []string{ScopeWrite, ScopeRead}, Products: []string{"app"}, Uploads: Uploads{Class: "nightly"}}, true},
		{"write of all", user, writer, TokenSpec{Name: "x", Scopes: []string{ScopeWrite}}, false},
		{"all", user, all, TokenSpec{Name: "x", Scopes: []string{ScopeWrite, ScopeRead}}, true},
		{"admin", user, all, TokenSpec{Name: "x", Scopes: []string{ScopeAdmin}}, false},
		{"admin of an admin", user, admin, TokenSpec{Name: "x", Scopes: []string{ScopeAdmin}}, true},
		{"a token", token, all, TokenSpec{Name: "x"}, false},
		{"an admin's token", token, admin, TokenSpec{Name: "x"}, true},
		{"ten years", user, all, TokenSpec{Name: "x", Lifetime: 10 * madeLife}, false},
		{"ten years of an admin", user, admin, TokenSpec{Name: "x", Lifetime: 10 * madeLife}, true},
	} {
		_, row, err := MakeFor(tt.id, tt.rights, tt.spec, now)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v, want success: %v", tt.what, err, tt.ok)
			continue
		}
		if err != nil {
			continue
		}
		if !tt.rights.Admin && (row.Name != "alice/x" || row.Expires.IsZero() || row.Expires.After(now.Add(madeLife))) {
			t.Errorf("%s: the token is named %q and ends %v; want alice/x and an end within a year", tt.what, row.Name, row.Expires)
		}
		if !MayManage(tt.id, tt.rights, &row) {
			t.Errorf("%s: the maker may not revoke the token", tt.what)
		}
		if MayManage(&Identity{Name: "alice", Method: MethodNegotiate}, reader, &row) || MayManage(&Identity{}, reader, &row) {
			t.Errorf("%s: others may revoke the token, want only its manager", tt.what)
		}
	}
	for what, spec := range map[string]TokenSpec{
		"class without write":     {Name: "x", Uploads: Uploads{Class: "nightly"}},
		"a product of others":     {Name: "x", Scopes: []string{ScopeWrite}, Products: []string{"app"}, Uploads: Uploads{Product: "driver"}},
		"a class with a line end": {Name: "x", Scopes: []string{ScopeWrite}, Uploads: Uploads{Class: "a\n"}},
	} {
		if _, _, err := MakeToken(spec, now); err == nil {
			t.Errorf("%s: the token is made, want an error", what)
		}
	}
}

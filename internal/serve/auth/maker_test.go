package auth

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// TestRightsOfMakers: the rights of a token are those that it has in common with whoever
// made it, looked up by method and name.
func TestRightsOfMakers(t *testing.T) {
	t.Parallel()
	policy, err := NewPolicy(PolicyConfig{Demand: true, Grants: []Grant{
		{Who: []string{"alice"}, Read: []string{"a", "b"}, Write: []string{"b"}},
		{Who: []string{"kerberos:*@CORP"}, Read: []string{"*"}},
		{Who: []string{"sid:S-1-5-7"}, Write: []string{"a"}},
		{Who: []string{"oidc:boss@corp"}, Admin: true},
		{Who: []string{"oidc-group:tools"}, Read: []string{"a"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	m := &makers{policy: func() *Policy { return policy }, user: func(name string) bool { return name == "alice" || name == "carl" }, tickets: true, signIn: true}
	for _, tt := range []struct {
		createdBy string
		facts     tokenFacts
		want      Rights // of a token that may read and write all
		gone      bool
	}{
		{"basic:alice", tokenFacts{}, Rights{Admitted: true, Products: []string{"a", "b"}, Write: true, WriteProducts: []string{"b"}}, false},
		{"basic:Alice", tokenFacts{}, Rights{}, true},
		{"basic:bob", tokenFacts{}, Rights{}, true},
		{"basic:carl", tokenFacts{}, Rights{}, true},        // in the file, but in no grant
		{"certificate:alice", tokenFacts{}, Rights{}, true}, // no certificates are accepted
		{"negotiate:alice@CORP", tokenFacts{}, Rights{Admitted: true, All: true}, false},
		{"negotiate:alice@CORP", tokenFacts{SIDs: []string{"s-1-5-7"}}, Rights{Admitted: true, All: true, Write: true, WriteProducts: []string{"a"}}, false},
		{"negotiate:x@ELSE", tokenFacts{SIDs: []string{"S-1-5-8"}}, Rights{}, true},
		{"oidc:alice", tokenFacts{}, Rights{}, true}, // the provider chooses names
		{"oidc:boss@corp", tokenFacts{}, Rights{Admitted: true, All: true, Write: true, WriteAll: true}, false},
		{"oidc:x", tokenFacts{Groups: []string{"tools"}}, Rights{Admitted: true, Products: []string{"a"}}, false},
	} {
		its, err := m.rights(tt.createdBy, &tt.facts)
		if gone := errors.Is(err, errMaker); gone != tt.gone || err != nil && !gone || !errors.Is(err, errNoToken) && gone {
			t.Errorf("%s with %+v: error %v, want refused: %v", tt.createdBy, tt.facts, err, tt.gone)
			continue
		}
		all := policy.Decide(&Identity{Method: MethodToken, Scopes: []string{ScopeRead, ScopeWrite}})
		if got := all.both(&its); !got.equal(&tt.want) || got.Write != tt.want.Write {
			t.Errorf("%s with %+v: %+v, want %+v", tt.createdBy, tt.facts, got, tt.want)
		}
	}
	for _, createdBy := range []string{"", "alice", "CORP\\alice", "oidc", "basic:", "name:alice", "kerberos:alice"} {
		if m := (root{createdBy: createdBy}); m.limited() {
			t.Errorf("%q limits its tokens, want the operator", createdBy)
		}
	}
}

// TestRoots: the maker of a token is found through the tokens that made each other.
func TestRoots(t *testing.T) {
	t.Parallel()
	c, s := newClock(), newStore()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(t.TempDir(), "users")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c.add(2 * time.Second)
	}
	write("root:" + string(hash) + "\n")
	cfg := Config{Now: c.now, Users: users, Policy: PolicyConfig{Demand: true, Grants: []Grant{{Who: []string{"root"}, Admin: true}}}}
	g := newGate(t, cfg, s)
	first, _ := s.issue(t, c, TokenSpec{Name: "first", Scopes: []string{ScopeAdmin}, CreatedBy: "basic:root"})
	secret, made := first, []string{first}
	for range 3 {
		secret, _ = s.issue(t, c, TokenSpec{Name: "x", Scopes: []string{ScopeAdmin}, CreatedBy: "token:" + TokenID(secret)})
		made = append(made, secret)
	}
	orphan, _ := s.issue(t, c, TokenSpec{Name: "orphan", CreatedBy: "token:000000000000"})
	operators, _ := s.issue(t, c, TokenSpec{Name: "op", Scopes: []string{ScopeAdmin}, CreatedBy: "root"})
	childOfOperators, _ := s.issue(t, c, TokenSpec{Name: "child", CreatedBy: "token:" + TokenID(operators)})
	want := func(what string, good bool, secrets ...string) {
		t.Helper()
		for _, secret := range secrets {
			if _, _, ch := g.Authenticate(get("Authorization", "Bearer "+secret), ""); (ch == nil) != good {
				t.Errorf("%s: the token %s: %+v, want accepted: %v", what, TokenID(secret), ch, good)
			}
		}
	}
	want("at first", true, slices.Concat(made, []string{operators, childOfOperators})...)
	want("a maker that is not known", false, orphan)
	// What a token made does not end with the token itself: it is listed, and revoked.
	row := s.rows[HashToken(first)]
	row.Revoked = c.now()
	s.rows[row.Hash] = row
	c.add(5 * time.Second)
	want("the first revoked", false, first)
	want("the first revoked", true, made[1:]...)
	write("other:" + string(hash) + "\n")
	c.add(5 * time.Second)
	want("without the user", false, made...)
	want("without the user", true, operators, childOfOperators)
	less, err := cfg.Lessened(slices.Collect(valuesOf(s.rows)), c.now())
	if err != nil {
		t.Fatal(err)
	}
	var ids, wantIDs []string
	for _, l := range less {
		ids = append(ids, l.Row.ID)
		if !l.Gone || l.Row.ID != TokenID(orphan) && l.Maker != "basic:root" {
			t.Errorf("%s: %+v, want the maker root to be gone", l.Row.ID, l)
		}
	}
	for _, secret := range append(made[1:], orphan) {
		wantIDs = append(wantIDs, TokenID(secret))
	}
	slices.Sort(ids)
	slices.Sort(wantIDs)
	if !slices.Equal(ids, wantIDs) {
		t.Errorf("the tokens %q are worth less, want %q", ids, wantIDs)
	}
	s.err = errors.New("down")
	c.add(5 * time.Second)
	if _, _, ch := g.Authenticate(get("Authorization", "Bearer "+childOfOperators), ""); ch == nil || ch.Status != 503 {
		t.Errorf("a store that does not answer: %+v, want 503", ch)
	}
}

func valuesOf(m map[[32]byte]TokenRow) func(func(TokenRow) bool) {
	return func(yield func(TokenRow) bool) {
		for _, r := range m {
			if !yield(r) {
				return
			}
		}
	}
}

// TestMakeForGroups: rights that come from a group last 90 days in a token.
func TestMakeForGroups(t *testing.T) {
	t.Parallel()
	c := newClock()
	g := newGate(t, Config{Now: c.now, Policy: PolicyConfig{Demand: true, Grants: []Grant{
		{Who: []string{"*@CORP"}, Read: []string{"a"}}, {Who: []string{"sid:S-1"}, Read: []string{"b"}, Write: []string{"b"}}, {Who: []string{"sid:S-2"}, Admin: true},
	}}}, newStore())
	for _, tt := range []struct {
		what  string
		id    Identity
		spec  TokenSpec
		life  time.Duration
		facts string
	}{
		{"by name", Identity{Name: "x@CORP", Method: MethodNegotiate, SIDs: []string{"S-1"}}, TokenSpec{Name: "n", Products: []string{"a"}}, madeLife, ""},
		{"by group", Identity{Name: "x@CORP", Method: MethodNegotiate, SIDs: []string{"S-1"}}, TokenSpec{Name: "n", Products: []string{"a", "b"}}, groupLife, `{"sids":["S-1"]}`},
		{"admin by group, without an end", Identity{Name: "x@CORP", Method: MethodNegotiate, SIDs: []string{"S-2"}}, TokenSpec{Name: "n", Scopes: []string{ScopeAdmin}}, groupLife, `{"sids":["S-2"]}`},
		{"by group, shorter", Identity{Name: "x@CORP", Method: MethodNegotiate, SIDs: []string{"S-1"}}, TokenSpec{Name: "n", Scopes: []string{ScopeWrite}, Products: []string{"b"}, Lifetime: time.Hour}, time.Hour, `{"sids":["S-1"]}`},
		{"by group, longer", Identity{Name: "x@CORP", Method: MethodNegotiate, SIDs: []string{"S-1"}}, TokenSpec{Name: "n", Scopes: []string{ScopeWrite}, Products: []string{"b"}, Lifetime: groupLife + 1}, 0, ""},
	} {
		rights := g.policy().Decide(&tt.id)
		_, row, err := g.MakeFor(&tt.id, &rights, tt.spec, c.now())
		if tt.life == 0 {
			if _, ok := errors.AsType[*NotAllowedError](err); !ok || !strings.Contains(err.Error(), "90 days") {
				t.Errorf("%s: %v, want an error with the limit", tt.what, err)
			}
			continue
		}
		if err != nil || row.Expires.Sub(c.now()) != tt.life || row.Facts != tt.facts {
			t.Errorf("%s: error %v, an end in %v and the facts %s; want %v and %s", tt.what, err, row.Expires.Sub(c.now()), row.Facts, tt.life, tt.facts)
		}
	}
}

// TestCredential: what is kept of credentials tells later whether they still count, at
// another server too, and has no secret.
func TestCredential(t *testing.T) {
	t.Parallel()
	c, s := newClock(), newStore()
	users := filepath.Join(t.TempDir(), "users")
	hash := func() string {
		b, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c.add(5 * time.Second)
	}
	one := "alice:" + hash() + "\n"
	write(one)
	cfg := Config{Now: c.now, Users: users, Policy: PolicyConfig{Demand: true, Grants: []Grant{{Who: []string{"alice"}, Write: []string{"a"}}}}}
	g, other := newGate(t, cfg, s), newGate(t, cfg, s)
	secret, row := s.issue(t, c, TokenSpec{Name: "ci", Scopes: []string{ScopeWrite}, Products: []string{"b"}})
	of := func(header string) string {
		t.Helper()
		id, _, ch := g.Authenticate(get("Authorization", header), "")
		if ch != nil {
			t.Fatalf("%+v, want accepted", ch)
		}
		return g.Credential(&id)
	}
	token, user := of("Bearer "+secret), of(basic("alice", "secret"))
	if strings.Contains(token+user, "secret") || strings.Contains(token+user, strings.TrimPrefix(secret, tokenPrefix)) {
		t.Errorf("kept is %s and %s, want no secrets", token, user)
	}
	want := func(what, credential, product string, ended bool) {
		t.Helper()
		for _, g := range []*Gate{g, other} {
			_, rights, err := g.Still(t.Context(), credential)
			if errors.Is(err, ErrEnded) != ended || err == nil && ended || !ended && !rights.MayWrite(product) {
				t.Errorf("%s: error %v, rights %+v; want ended: %v", what, err, rights, ended)
			}
		}
	}
	want("a token", token, "b", false)
	want("a user", user, "a", false)
	for _, text := range []string{"", "{}", "x", `{"method":"token"}`, `{"method":"token","token":"00"}`, `{"name":"alice","method":"basic"}`, `{"name":"x","method":"certificate"}`, `{"name":"x","method":"oidc"}`, `{"name":"x","method":"negotiate"}`} {
		want(text, text, "", true)
	}
	row.Revoked = c.now()
	s.rows[row.Hash] = row
	write("bob:" + hash() + "\n")
	want("a revoked token", token, "", true)
	want("a user who was removed", user, "", true)
	write("alice:" + hash() + "\n")
	want("a user with another password", user, "", true)
	write(one)
	want("the user again", user, "a", false)
	s.err = errors.New("down")
	c.add(5 * time.Second)
	if _, _, err := g.Still(t.Context(), token); err == nil || errors.Is(err, ErrEnded) {
		t.Errorf("a store that does not answer: %v, want an error that is not ErrEnded", err)
	}
	if text := g.Credential(&Identity{}); text != "" {
		t.Errorf("of an anonymous client %q is kept, want nothing", text)
	}
}

// TestJob: tokens of one subject with the same rights are one principal.
func TestJob(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for what, tt := range map[string]struct {
		facts    tokenFacts
		products []string
	}{
		"one":             {tokenFacts{Issuer: "https://i", Subject: "a b"}, []string{"x"}},
		"other products":  {tokenFacts{Issuer: "https://i", Subject: "a b"}, []string{"x", "y"}},
		"joined products": {tokenFacts{Issuer: "https://i", Subject: "a b"}, []string{`x" "y`}},
		"all products":    {tokenFacts{Issuer: "https://i", Subject: "a b"}, nil},
		"other issuer":    {tokenFacts{Issuer: "https://j", Subject: "a b"}, []string{"x"}},
		"other subject":   {tokenFacts{Issuer: "https://i", Subject: "a"}, []string{"x"}},
		"long":            {tokenFacts{Issuer: "https://i", Subject: strings.Repeat("a", 2000)}, []string{"x"}},
		"longer":          {tokenFacts{Issuer: "https://i", Subject: strings.Repeat("a", 2001)}, []string{"x"}},
	} {
		got := tt.facts.job(tt.products)
		if got == "" || len(got) > maxSubject+300 {
			t.Errorf("%s: %q, want a short text", what, got)
		}
		if old, ok := seen[got]; ok {
			t.Errorf("%s and %s are the same %q", what, old, got)
		}
		seen[got] = what
	}
	if got := (&tokenFacts{Issuer: "https://i"}).job(nil); got != "" {
		t.Errorf("without a subject: %q, want nothing", got)
	}
}

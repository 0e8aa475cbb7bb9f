package auth

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// What a grant of these tests says of one product.
const (
	nothing = iota
	publicForms
	everything
)

// grantOf returns a grant that says something of the products A, B, and of all.
func grantOf(levels [3]int) Grant {
	g := Grant{Who: []string{"*"}}
	for i, product := range []string{"A", "B", AllProducts} {
		switch levels[i] {
		case publicForms:
			g.Public = append(g.Public, product)
		case everything:
			g.Read = append(g.Read, product)
		}
	}
	return g
}

// combinations calls each for all lists of n levels of three products.
func combinations(n int, each func([][3]int)) {
	list := make([][3]int, n)
	var fill func(at int)
	fill = func(at int) {
		if at == 3*n {
			each(list)
			return
		}
		for level := nothing; level <= everything; level++ {
			list[at/3][at%3] = level
			fill(at + 1)
		}
	}
	fill(0)
}

// checkLevels fails unless rights are the best of what grants say of each product.
func checkLevels(t *testing.T, what string, r *Rights, list [][3]int) {
	t.Helper()
	for i, product := range []string{"A", "B", "other"} {
		want := nothing
		for _, levels := range list {
			want = max(want, levels[i], levels[2])
		}
		got := nothing
		switch {
		case r.MayRead(product):
			got = everything
		case r.MayReadPublic(product):
			got = publicForms
		}
		if got != want {
			t.Fatalf("%s: product %s: level %d, want %d: %+v", what, product, got, want, r)
		}
	}
	if r.All && (r.PublicAll || r.Products != nil) || (r.All || r.PublicAll) && r.Public != nil || slices.ContainsFunc(r.Public, r.MayRead) {
		t.Fatalf("%s: the rights say something twice: %+v", what, r)
	}
}

// TestUnionOfGrants: a principal has the best of what all its grants say of a product, for all
// combinations of one, two and three grants, in every order. The worse never wins.
func TestUnionOfGrants(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 3; n++ {
		combinations(n, func(list [][3]int) {
			c := PolicyConfig{Demand: true}
			for _, levels := range list {
				c.Grants = append(c.Grants, grantOf(levels))
			}
			p, err := NewPolicy(c)
			if err != nil {
				t.Fatal(err)
			}
			r := p.Decide(&Identity{Name: "alice", Method: MethodBasic})
			checkLevels(t, fmt.Sprint(list), &r, list)
		})
	}
}

// TestUnionWithAnonymous: what everybody may read is added to the grants and to a token.
func TestUnionWithAnonymous(t *testing.T) {
	t.Parallel()
	combinations(2, func(list [][3]int) {
		open, granted := grantOf(list[0]), grantOf(list[1])
		c := PolicyConfig{Anonymous: append([]string{}, open.Read...), Public: open.Public, Grants: []Grant{granted}}
		p, err := NewPolicy(c)
		if err != nil {
			t.Fatal(err)
		}
		anonymous := p.Decide(&Identity{})
		checkLevels(t, fmt.Sprint("anonymous ", list[0]), &anonymous, list[:1])
		alice := p.Decide(&Identity{Name: "alice", Method: MethodBasic})
		checkLevels(t, fmt.Sprint(list), &alice, list)
		for scope, level := range map[string]int{ScopeRead: everything, ScopeReadPublic: publicForms} {
			token := p.Decide(&Identity{Name: "t", Method: MethodToken, Scopes: []string{scope}, Products: []string{"A"}})
			checkLevels(t, fmt.Sprint(list[0], " token ", scope), &token, [][3]int{list[0], {level}})
		}
	})
}

// TestBothRights: a token has no more rights than its maker has now: of each product the worse.
func TestBothRights(t *testing.T) {
	t.Parallel()
	combinations(2, func(list [][3]int) {
		a, b := grantOf(list[0]), grantOf(list[1])
		x, y := a.rights(), b.rights()
		both := x.both(&y)
		var least [3]int
		for i := range least {
			least[i] = min(max(list[0][i], list[0][2]), max(list[1][i], list[1][2]))
		}
		checkLevels(t, fmt.Sprint("both of ", list), &both, [][3]int{least})
		only := x.OnlyPublic()
		if only.MayRead("A") || only.All || only.Admin || only.Write || only.MayReadPublic("A") != x.MayReadPublic("A") ||
			only.MayReadPublic("other") != x.MayReadPublic("other") {
			t.Fatalf("only public of %v: %+v", list[0], only)
		}
	})
}

// TestPublicTokens: who may read public forms only makes no token that reads more.
func TestPublicTokens(t *testing.T) {
	t.Parallel()
	id := &Identity{Name: "alice", Method: MethodBasic}
	rights := (&Grant{Read: []string{"A"}, Public: []string{"B"}}).rights()
	for _, c := range []struct {
		scope    string
		products []string
		want     bool
	}{
		{ScopeRead, []string{"A"}, true},
		{ScopeRead, []string{"B"}, false},
		{ScopeRead, []string{"A", "B"}, false},
		{ScopeReadPublic, []string{"A", "B"}, true},
		{ScopeReadPublic, []string{"C"}, false},
		{ScopeReadPublic, nil, false},
		{ScopeRead, nil, false},
	} {
		_, row, err := MakeFor(id, &rights, TokenSpec{Name: "x", Scopes: []string{c.scope}, Products: c.products}, time.Now())
		if (err == nil) != c.want || c.want && !slices.Equal(row.Scopes, []string{c.scope}) {
			t.Errorf("token with %s for %q: %+v, %v; want one: %v", c.scope, c.products, row.Scopes, err, c.want)
		}
	}
	if r := tokenRights(&Identity{Scopes: []string{ScopeReadPublic}}); r.All || !r.PublicAll {
		t.Errorf("a token with %s has the rights %+v", ScopeReadPublic, r)
	}
}

// TestPublicPolicy: the key public demands no credentials, and gives nothing but public forms.
func TestPublicPolicy(t *testing.T) {
	t.Parallel()
	p, err := NewPolicy(PolicyConfig{Public: []string{"A"}})
	if err != nil {
		t.Fatal(err)
	}
	r := p.Decide(&Identity{})
	if p.Demands() || !r.Admitted || r.MayRead("A") || !r.MayReadPublic("A") || r.MayReadPublic("B") {
		t.Errorf("anonymous with public: %+v, demands credentials: %v", r, p.Demands())
	}
	if _, err := NewPolicy(PolicyConfig{Demand: true, Public: []string{"A"}}); err == nil {
		t.Error("demand and public were accepted together")
	}
}

// TestUsePolicy: another policy decides about each request that comes after it, whatever its
// credentials are: also about tokens that are remembered, and about those that people have made.
func TestUsePolicy(t *testing.T) {
	t.Parallel()
	store, c := newStore(), newClock()
	g := newGate(t, Config{Policy: PolicyConfig{Demand: true}, Now: c.now}, store)
	secret, row, err := MakeToken(TokenSpec{Name: "x", Scopes: []string{ScopeReadPublic}, Products: []string{"A"}}, c.now())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.PutToken(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	var offered []Rights
	may := func(r Rights) error { offered = append(offered, r); return nil }
	use := func(c PolicyConfig, want bool) {
		t.Helper()
		if changed, err := g.UsePolicy(c, may); err != nil || changed != want {
			t.Fatalf("policy %+v: changed %v, %v; want %v", c, changed, err, want)
		}
	}
	rights := func(secret string) (Rights, *Challenge) {
		_, r, challenge := g.Authenticate(get(), secret)
		return r, challenge
	}
	combinations(2, func(list [][3]int) {
		for _, levels := range list {
			open := grantOf(levels)
			if _, err := g.UsePolicy(PolicyConfig{Anonymous: append([]string{}, open.Read...), Public: open.Public}, may); err != nil {
				t.Fatal(err)
			}
			r, challenge := rights("")
			if challenge != nil {
				t.Fatalf("anonymous: %+v", challenge)
			}
			checkLevels(t, fmt.Sprint("anonymous ", levels), &r, [][3]int{levels})
			if offered[len(offered)-1].All != r.All {
				t.Fatalf("anonymous %v: may was asked about %+v, the rights are %+v", levels, offered[len(offered)-1], r)
			}
			r, _ = rights(secret)
			checkLevels(t, fmt.Sprint("token with anonymous ", levels), &r, [][3]int{levels, {publicForms}})
		}
	})
	use(PolicyConfig{Demand: true}, true)
	use(PolicyConfig{Demand: true}, false)
	if _, challenge := rights(""); challenge == nil || challenge.Status != 401 {
		t.Errorf("anonymous after demand: %+v, want 401", challenge)
	}
	if _, err := g.UsePolicy(PolicyConfig{Demand: true, Public: []string{"A"}}, may); err == nil {
		t.Error("a policy that is not valid was taken")
	}
	if _, err := g.UsePolicy(PolicyConfig{}, func(Rights) error { return errNothing }); !errors.Is(err, errNothing) {
		t.Errorf("a policy that may not be used: %v, want the error", err)
	}
	if _, challenge := rights(""); challenge == nil {
		t.Error("a refused policy is in force")
	}
}

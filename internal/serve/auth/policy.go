package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/glob"
)

// AllProducts is the name that stands for all products in a grant.
const AllProducts = "*"

// PolicyConfig configures rights. The zero value lets all clients read
// everything.
//
// Patterns match the names of principals. In a pattern, * matches any characters
// except @, so *@CORP.EXAMPLE matches all principals of that realm and of no
// other; * alone matches every authenticated principal. The prefixes "kerberos:",
// "basic:" and "cert:" limit a pattern to one method; without a prefix it applies
// to all three. "oidc:NAME" are principals that signed in at the OpenID provider: no
// other pattern but * matches those, because the provider chooses their names.
// "oidc-group:NAME" is a group that the provider says, "group:NAME" a group of this
// configuration, "sid:S-1-…" a Windows group, if groups are read from tickets. Tokens
// need no pattern: their rights are stored with them.
type PolicyConfig struct {
	// Demand requires credentials from all clients. It is implied if Admit or
	// Grants are set and neither Anonymous nor Public is.
	Demand bool `yaml:"demand"`
	// Anonymous are the products that all clients can read without credentials.
	Anonymous []string `yaml:"anonymous"`
	// Public are the products whose public forms all clients can read without credentials,
	// in addition.
	Public []string `yaml:"public"`
	// Admit are the principals that may use the server, in addition to those
	// that a grant names.
	Admit []string `yaml:"admit"`
	// Grants give rights; a principal has the sum of all grants that match.
	// Without any grant, all admitted principals read everything.
	Grants []Grant `yaml:"grants"`
	// Groups are lists of patterns by name.
	Groups map[string][]string `yaml:"groups"`
}

// Grant gives rights to the principals that its patterns match.
type Grant struct {
	Who    []string `yaml:"who"`    // patterns
	Read   []string `yaml:"read"`   // products; "*" is all, "" files without a product
	Public []string `yaml:"public"` // likewise, whose public forms may be read
	Write  []string `yaml:"write"`  // likewise
	Admin  bool     `yaml:"admin"`  // everything
}

// Rights are what a principal may do. Products are compared exactly.
type Rights struct {
	// Admitted: it may use the server at all.
	Admitted bool
	// All: it may read every product; otherwise these Products. The list is
	// sorted and must not be changed.
	All      bool
	Products []string
	// PublicAll: it may read the public form of every product that it may not read;
	// otherwise of these Public. The list has none of Products, is sorted and must not be
	// changed.
	PublicAll bool
	Public    []string
	// Write says that the principal may add files: to every product with
	// WriteAll, otherwise to WriteProducts.
	Write         bool
	WriteAll      bool
	WriteProducts []string
	Admin         bool
}

// MayWrite reports whether the rights include adding to a product.
func (r *Rights) MayWrite(product string) bool {
	return r.WriteAll || slices.Contains(r.WriteProducts, product)
}

// SoleProduct returns the product of uploads that name none: the only one that the
// rights include adding to. It is empty if there are several, or all.
func (r *Rights) SoleProduct() string {
	if !r.Write || r.WriteAll || len(r.WriteProducts) != 1 {
		return ""
	}
	return r.WriteProducts[0]
}

// MayRead reports whether the rights include reading a product.
func (r *Rights) MayRead(product string) bool {
	return r.All || slices.Contains(r.Products, product)
}

// MayReadPublic reports whether the rights include reading the public form of a product,
// or all of it.
func (r *Rights) MayReadPublic(product string) bool {
	return r.MayRead(product) || r.PublicAll || slices.Contains(r.Public, product)
}

// ReadsPublic reports whether there may be a file of which the rights include only the
// public form.
func (r *Rights) ReadsPublic() bool { return r.PublicAll || len(r.Public) > 0 }

// OnlyPublic returns rights to the public forms of what r includes reading, and to nothing
// else.
func (r *Rights) OnlyPublic() Rights {
	return Rights{Admitted: r.Admitted, PublicAll: r.All || r.PublicAll, Public: r.publicList()}
}

// publicList returns the products of which the rights include at least the public form; nil
// where all are meant.
func (r *Rights) publicList() []string {
	if r.All || r.PublicAll {
		return nil
	}
	return union(r.Products, r.Public)
}

// Policy is a compiled PolicyConfig. It is immutable.
type Policy struct {
	demand    bool
	anonymous Rights
	openTo    []pattern // admitted without a grant
	grants    []grant
	readsAll  bool // the admitted read everything
	config    PolicyConfig
}

type grant struct {
	who    []pattern
	rights Rights
}

// pattern matches identities.
type pattern struct {
	method Method // MethodNone is any
	sid    bool
	claim  bool // a group of the OpenID provider
	glob   string
}

// NewPolicy compiles a policy. The error names the fault.
func NewPolicy(c PolicyConfig) (*Policy, error) {
	named := len(c.Admit) > 0 || len(c.Grants) > 0
	open := c.Anonymous != nil || c.Public != nil
	p := &Policy{demand: c.Demand || !open && named, readsAll: len(c.Grants) == 0}
	if c.Demand && len(c.Anonymous)+len(c.Public) > 0 {
		return nil, errors.New("demand on one side and anonymous or public on the other exclude each other; remove one")
	}
	if !p.demand {
		products := c.Anonymous
		if !open {
			products = []string{AllProducts}
		}
		g := Grant{Read: products, Public: c.Public}
		p.anonymous = g.rights()
	}
	groups := groupReader{config: c.Groups}
	for name := range c.Groups {
		if _, err := groups.read([]string{"group:" + name}, nil); err != nil {
			return nil, err
		}
	}
	var err error
	if p.openTo, err = groups.read(c.Admit, nil); err != nil {
		return nil, fmt.Errorf("admit: %w", err)
	}
	if len(c.Admit) == 0 && p.readsAll {
		p.openTo = []pattern{{glob: "*"}}
	}
	for i, g := range c.Grants {
		who, err := groups.read(g.Who, nil)
		if err != nil {
			return nil, fmt.Errorf("grant %d: %w", i+1, err)
		}
		if len(g.Who) == 0 {
			return nil, fmt.Errorf("grant %d has no pattern in who", i+1)
		}
		p.grants = append(p.grants, grant{who, g.rights()})
	}
	return p, nil
}

func (g *Grant) rights() Rights {
	r := Rights{Admitted: true, Admin: g.Admin}
	r.All, r.Products = splitAll(g.Read)
	r.PublicAll, r.Public = splitAll(g.Public)
	r.WriteAll, r.WriteProducts = splitAll(g.Write)
	r.normalize()
	return r
}

// splitAll splits "*" from names.
func splitAll(list []string) (all bool, names []string) {
	if slices.Contains(list, AllProducts) {
		return true, nil
	}
	return false, slices.Compact(slices.Sorted(slices.Values(list)))
}

// normalize makes the fields consistent.
func (r *Rights) normalize() {
	if r.Admin {
		r.All, r.WriteAll = true, true
	}
	if r.All {
		r.Products, r.PublicAll = nil, false
	}
	switch {
	case r.All || r.PublicAll:
		r.Public = nil
	case slices.ContainsFunc(r.Public, r.MayRead):
		r.Public = slices.DeleteFunc(slices.Clone(r.Public), r.MayRead)
	}
	if r.WriteAll {
		r.WriteProducts = nil
	}
	r.Write = r.WriteAll || len(r.WriteProducts) > 0
}

// add adds the rights o to r.
func (r *Rights) add(o *Rights) {
	r.Admitted = r.Admitted || o.Admitted
	r.Admin = r.Admin || o.Admin
	r.All = r.All || o.All
	r.WriteAll = r.WriteAll || o.WriteAll
	r.Products = union(r.Products, o.Products)
	r.PublicAll = r.PublicAll || o.PublicAll
	r.Public = union(r.Public, o.Public)
	r.WriteProducts = union(r.WriteProducts, o.WriteProducts)
	r.normalize()
}

func union(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// Demands reports whether anonymous clients are rejected.
func (p *Policy) Demands() bool { return p.demand }

// Decide returns the rights of an identity. They are empty if it is not
// admitted.
func (p *Policy) Decide(id *Identity) Rights {
	r := p.anonymous
	switch id.Method {
	case MethodNone:
		return r
	case MethodToken:
		t := tokenRights(id)
		r.add(&t)
		return r
	}
	if matches(p.openTo, id) {
		r.add(&Rights{Admitted: true, All: p.readsAll})
	}
	for i := range p.grants {
		if g := &p.grants[i]; matches(g.who, id) {
			r.add(&g.rights)
		}
	}
	return r
}

func tokenRights(id *Identity) Rights {
	r := Rights{Admitted: true}
	for _, s := range id.Scopes {
		switch s {
		case ScopeRead:
			r.All, r.Products = id.Products == nil, union(id.Products, nil)
		case ScopeReadPublic:
			r.PublicAll, r.Public = id.Products == nil, union(id.Products, nil)
		case ScopeWrite:
			r.WriteAll, r.WriteProducts = id.Products == nil, union(id.Products, nil)
		case ScopeAdmin:
			r.Admin = id.Products == nil
		}
	}
	r.normalize()
	return r
}

// Limits of groups: how deep they contain each other, and how many patterns a
// list may have with those of its groups.
const maxGroupDepth, maxPatterns = 16, 10_000

var errManyPatterns = fmt.Errorf("more than %d patterns, including those of groups", maxPatterns)

// groupReader reads patterns and the groups they name.
type groupReader struct{ config map[string][]string }

func (g groupReader) read(list, inside []string) ([]pattern, error) {
	var out []pattern
	for _, s := range list {
		if name, ok := strings.CutPrefix(s, "group:"); ok {
			members, known := g.config[name]
			if !known {
				return nil, fmt.Errorf("unknown group %q", name)
			}
			if slices.Contains(inside, name) {
				return nil, fmt.Errorf("group %q contains itself", name)
			}
			if len(inside) == maxGroupDepth {
				return nil, fmt.Errorf("group %q: groups may contain each other %d levels deep; list the members directly", name, maxGroupDepth)
			}
			sub, err := g.read(members, append(slices.Clip(inside), name))
			if err != nil {
				return nil, fmt.Errorf("group %q: %w", name, err)
			}
			if out = append(out, sub...); len(out) > maxPatterns {
				return nil, errManyPatterns
			}
			continue
		}
		p, err := parsePattern(s)
		if err != nil {
			return nil, err
		}
		if out = append(out, p); len(out) > maxPatterns {
			return nil, errManyPatterns
		}
	}
	return out, nil
}

func parsePattern(s string) (pattern, error) {
	var p pattern
	word, rest, ok := strings.Cut(s, ":")
	p.glob = rest
	switch {
	case !ok:
		p.glob = s
	case word == "kerberos":
		p.method = MethodNegotiate
	case word == "basic":
		p.method = MethodBasic
	case word == "cert":
		p.method = MethodCertificate
	case word == "oidc":
		p.method = MethodOIDC
	case word == "sid":
		p.sid = true
	case word == "oidc-group":
		p.claim = true
	case word == "token":
		return p, fmt.Errorf("%q: patterns do not apply to tokens; their rights are stored with them", s)
	default:
		return p, fmt.Errorf("%q: %q is not one of kerberos, basic, cert, oidc, sid, oidc-group and group", s, word)
	}
	if p.glob == "" {
		return p, fmt.Errorf("%q has no name after the prefix", s)
	}
	return p, nil
}

func matches(list []pattern, id *Identity) bool {
	return slices.ContainsFunc(list, func(p pattern) bool {
		switch {
		case p.sid:
			return slices.ContainsFunc(id.SIDs, func(s string) bool { return strings.EqualFold(s, p.glob) })
		case p.claim:
			return slices.Contains(id.Groups, p.glob)
		case p.method == MethodNone && id.Method == MethodOIDC && p.glob != "*":
			return false
		case p.method != MethodNone && p.method != id.Method:
			return false
		}
		return p.glob == "*" || glob.MatchAccount(p.glob, id.Name)
	})
}

// namedFirst returns at most maxSignInGroups of some groups, those that a pattern of
// the policy names first.
func (p *Policy) namedFirst(groups []string, kind func(*pattern) bool, equal func(a, b string) bool) []string {
	named := func(s string) bool {
		match := func(q pattern) bool { return kind(&q) && equal(q.glob, s) }
		granted := func(g grant) bool { return slices.ContainsFunc(g.who, match) }
		return slices.ContainsFunc(p.openTo, match) || slices.ContainsFunc(p.grants, granted)
	}
	if len(groups) <= maxSignInGroups {
		return groups
	}
	out := slices.Clone(groups)
	slices.SortStableFunc(out, func(a, b string) int {
		switch x, y := named(a), named(b); {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	})
	return out[:maxSignInGroups]
}

// namedSIDs and namedGroups return the groups that a pattern of the policy may name, the
// first 256 of them.
func (p *Policy) namedSIDs(sids []string) []string {
	return p.namedFirst(sids, func(q *pattern) bool { return q.sid }, strings.EqualFold)
}

func (p *Policy) namedGroups(groups []string) []string {
	return p.namedFirst(groups, func(q *pattern) bool { return q.claim }, func(a, b string) bool { return a == b })
}

// admits reports whether the policy names a principal, so that it is more than an
// anonymous client.
func (p *Policy) admits(id *Identity) bool {
	return matches(p.openTo, id) || slices.ContainsFunc(p.grants, func(g grant) bool { return matches(g.who, id) })
}

package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// A token that a user made is worth no more than its maker: it has the rights that
// the policy in force gives to both. The maker is looked up at each use.

// groupLife is the longest lifetime of a token whose maker has the rights through
// groups that a ticket or an OpenID provider said: the server cannot ask whether they
// still do.
const groupLife = 90 * 24 * time.Hour

// maxMade is how many tokens may have made each other, one after the other.
const maxMade = 16

// errMaker is the error for a token whose maker may not use the server any more.
var errMaker = fmt.Errorf("%w: its maker may not use this server any more", errNoToken)

// tokenFacts are stored with a token. The sign-in of a browser has signInFacts.
type tokenFacts struct {
	// Issuer and Subject are those of the id token that the token was exchanged for.
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
	// SIDs and Groups are those of the maker, if the token needs them.
	SIDs   []string `json:"sids,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

// facts decodes what is stored with a token.
func (r *TokenRow) facts() (f tokenFacts, err error) {
	if r.Kind == "" && r.Facts != "" {
		err = json.Unmarshal([]byte(r.Facts), &f)
	}
	return f, err
}

// maxSubject limits the issuer and the subject in the maker of an exchanged token, in
// bytes.
const maxSubject = 512

// job names the CI job of an exchanged token: a job that runs again is the same. Jobs of
// one subject with rights to other products are not. It is empty if the id token did
// not say whose it was.
func (f *tokenFacts) job(products []string) string {
	if f.Issuer == "" || f.Subject == "" {
		return ""
	}
	s := fmt.Sprintf("%s %q %q", f.Issuer, f.Subject, products) // the issuer is a URL, without spaces
	if len(s) <= maxSubject {
		return s
	}
	return fmt.Sprintf("%.256q #%x", f.Issuer, hash16(s))
}

// makers tells what those who make tokens may do now.
type makers struct {
	policy  *Policy
	user    func(name string) bool // it is in the file of users; nil: there is none
	tickets bool                   // Kerberos tickets are accepted
	certs   bool                   // client certificates are
	signIn  bool                   // browsers sign in at an OpenID provider
}

// personal are the methods of people and machines that make tokens for themselves.
var personal = []Method{MethodBasic, MethodNegotiate, MethodCertificate, MethodOIDC}

// splitMaker reads TokenRow.CreatedBy. The method is MethodNone for an account of a
// machine that has the depot: its tokens are the operator's.
func splitMaker(createdBy string) (m Method, name string) {
	word, rest, _ := strings.Cut(createdBy, ":")
	if m := Method(word); rest != "" && (m == MethodToken || slices.Contains(personal, m)) {
		return m, rest
	}
	return MethodNone, createdBy
}

// MadeBy reports whether the token with an id was made by a principal, METHOD:NAME or NAME
// whatever the method was, or by a token that the principal made, and so on. makers has
// TokenRow.CreatedBy of each id.
func MadeBy(makers map[string]string, id, principal string) bool {
	for range maxMade + 1 {
		createdBy, ok := makers[id]
		method, name := splitMaker(createdBy)
		if !ok || createdBy == principal || name == principal {
			return ok
		}
		if method != MethodToken {
			return false
		}
		id = name
	}
	return false
}

// rights returns the rights of the maker that CreatedBy names, with the groups of f. The
// error is errMaker if it has none.
func (m *makers) rights(createdBy string, f *tokenFacts) (Rights, error) {
	id := Identity{SIDs: f.SIDs, Groups: f.Groups}
	id.Method, id.Name = splitMaker(createdBy)
	known := false
	switch id.Method {
	case MethodBasic:
		known = m.user != nil && m.user(id.Name)
	case MethodNegotiate:
		known = m.tickets
	case MethodCertificate:
		known = m.certs
	case MethodOIDC:
		known = m.signIn
	}
	r := m.policy.Decide(&id)
	if !known || !m.policy.admits(&id) {
		return Rights{}, errMaker
	}
	return r, nil
}

// admits reports whether the policy names a principal, so that it is more than an
// anonymous client.
func (p *Policy) admits(id *Identity) bool {
	return matches(p.openTo, id) || slices.ContainsFunc(p.grants, func(g grant) bool { return matches(g.who, id) })
}

// root is the maker at the beginning of a token: a token with the right admin may make
// others, for whoever made it.
type root struct {
	createdBy string
	facts     tokenFacts
}

// limited reports whether the rights of the maker limit the token. Tokens of the operator and
// of CI jobs have rights of their own.
func (m *root) limited() bool {
	method, _ := splitMaker(m.createdBy)
	return method != MethodNone
}

// rootOf returns the root of a token. find returns the token with an id. The error is
// errMaker if a token on the way is not known.
func rootOf(row TokenRow, find func(id string) (TokenRow, error)) (m root, err error) {
	for range maxMade {
		if row.Origin != [32]byte{} {
			return root{}, nil
		}
		m.createdBy = row.CreatedBy
		if m.facts, err = row.facts(); err != nil {
			return m, err
		}
		method, id := splitMaker(row.CreatedBy)
		if method != MethodToken {
			return m, nil
		}
		row, err = find(id)
		if errors.Is(err, fs.ErrNotExist) {
			return m, errMaker
		}
		if err != nil {
			return m, err
		}
	}
	return m, errMaker
}

// both returns the rights that r and o have in common.
func (r *Rights) both(o *Rights) Rights {
	c := Rights{Admitted: r.Admitted && o.Admitted, Admin: r.Admin && o.Admin}
	c.All, c.Products = common(r.All, o.All, r.Products, o.Products)
	c.WriteAll, c.WriteProducts = common(r.WriteAll, o.WriteAll, r.WriteProducts, o.WriteProducts)
	c.normalize()
	return c
}

func common(all, otherAll bool, list, other []string) (bool, []string) {
	switch {
	case all && otherAll:
		return true, nil
	case all:
		return false, other
	case otherAll:
		return false, list
	}
	return false, slices.DeleteFunc(slices.Clone(list), func(p string) bool { return !slices.Contains(other, p) })
}

// MakeFor is the function MakeFor with the policy of the gate: a token of somebody whose
// groups give the rights remembers these groups, and ends within 90 days.
func (g *Gate) MakeFor(id *Identity, rights *Rights, spec TokenSpec, now time.Time) (secret string, row TokenRow, err error) {
	secret, row, err = MakeFor(id, rights, spec, now)
	if err != nil || id.Method != MethodNegotiate && id.Method != MethodOIDC {
		return secret, row, err
	}
	named := g.policy.Decide(&Identity{Name: id.Name, Method: id.Method})
	given := g.policy.Decide(&Identity{Method: MethodToken, Scopes: row.Scopes, Products: row.Products})
	if kept := given.both(&named); given.equal(&kept) && g.policy.admits(&Identity{Name: id.Name, Method: id.Method}) {
		return secret, row, nil
	}
	switch {
	case spec.Lifetime == 0:
		row.Expires = now.Add(groupLife)
	case spec.Lifetime > groupLife:
		return "", TokenRow{}, &NotAllowedError{fmt.Sprintf("your rights come from a group, which the server cannot ask about later: the token may be valid for %d days at most", int(groupLife/(24*time.Hour)))}
	}
	row.Facts, err = encodeFacts(tokenFacts{SIDs: g.policy.namedSIDs(id.SIDs), Groups: g.policy.namedGroups(id.Groups)})
	return secret, row, err
}

func encodeFacts(f tokenFacts) (string, error) {
	b, err := json.Marshal(f)
	return string(b), err
}

// equal reports whether two rights are the same.
func (r *Rights) equal(o *Rights) bool {
	return r.Admitted == o.Admitted && r.All == o.All && r.WriteAll == o.WriteAll && r.Admin == o.Admin &&
		slices.Equal(r.Products, o.Products) && slices.Equal(r.WriteProducts, o.WriteProducts)
}

// namedSIDs and namedGroups return the groups that a pattern of the policy may name, the
// first 256 of them.
func (p *Policy) namedSIDs(sids []string) []string {
	return p.namedFirst(sids, func(q *pattern) bool { return q.sid }, strings.EqualFold)
}

func (p *Policy) namedGroups(groups []string) []string {
	return p.namedFirst(groups, func(q *pattern) bool { return q.claim }, func(a, b string) bool { return a == b })
}

// LessToken is a token that is worth less than when it was made.
type LessToken struct {
	Row TokenRow
	// Maker is TokenRow.CreatedBy of the root of the token: who made it, or who made the
	// token that made it.
	Maker string
	// Gone: the maker may not use the server any more, so the token is refused. Otherwise
	// it has lost some of its rights.
	Gone bool
}

// Lessened returns those of all tokens of a depot that are valid but are worth less than
// when they were made, because of what their makers may do now. It reads the file of
// users.
func (cfg *Config) Lessened(rows []TokenRow, now time.Time) (list []LessToken, err error) {
	policy, err := cfg.policy()
	if err != nil {
		return nil, err
	}
	m := &makers{policy: policy, tickets: cfg.Keytab != "", certs: len(cfg.Certificates) > 0, signIn: cfg.SignIn != nil}
	if cfg.Users != "" {
		b, err := readSmall(cfg.Users)
		if err != nil {
			return nil, err
		}
		u, err := parsePasswords(cfg.Users, b)
		if err != nil {
			return nil, err
		}
		m.user = func(name string) bool { return u.hashes[name] != nil }
	}
	byID := map[string]TokenRow{}
	for _, row := range rows {
		byID[row.ID] = row
	}
	find := func(id string) (TokenRow, error) {
		if row, ok := byID[id]; ok {
			return row, nil
		}
		return TokenRow{}, fs.ErrNotExist
	}
	for _, row := range rows {
		if row.Kind != "" || row.ended(now) {
			continue
		}
		from, err := rootOf(row, find)
		if err == nil && !from.limited() {
			continue
		}
		u := LessToken{Row: row, Maker: from.createdBy}
		var its Rights
		if err == nil {
			its, err = m.rights(from.createdBy, &from.facts)
		}
		if u.Gone = errors.Is(err, errMaker); err != nil && !u.Gone {
			return nil, err
		}
		id := identityOf(&row, "")
		given := policy.Decide(&id)
		if kept := given.both(&its); u.Gone || !given.equal(&kept) {
			list = append(list, u)
		}
	}
	return list, nil
}

// ended reports whether a token is revoked or expired.
func (r *TokenRow) ended(now time.Time) bool {
	return !r.Revoked.IsZero() && !now.Before(r.Revoked) || !r.Expires.IsZero() && !now.Before(r.Expires)
}

package auth

import (
	"errors"
	"fmt"
	"io/fs"
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

// MakeFor is the function MakeFor with the policy of the gate: a token of somebody whose
// groups give the rights remembers these groups, and ends within 90 days.
func (g *Gate) MakeFor(id *Identity, rights *Rights, spec TokenSpec, now time.Time) (secret string, row TokenRow, err error) {
	secret, row, err = MakeFor(id, rights, spec, now)
	if err != nil || id.Method != MethodNegotiate && id.Method != MethodOIDC {
		return secret, row, err
	}
	named := g.policy().Decide(&Identity{Name: id.Name, Method: id.Method})
	given := g.policy().Decide(&Identity{Method: MethodToken, Scopes: row.Scopes, Products: row.Products})
	if kept := given.both(&named); given.equal(&kept) && g.policy().admits(&Identity{Name: id.Name, Method: id.Method}) {
		return secret, row, nil
	}
	switch {
	case spec.Lifetime == 0:
		row.Expires = now.Add(groupLife)
	case spec.Lifetime > groupLife:
		return "", TokenRow{}, &NotAllowedError{fmt.Sprintf("your rights come from a group, "+
			"which the server cannot ask about later: the token may be valid for %d days at most", int(groupLife/(24*time.Hour)))}
	}
	row.Facts, err = encodeFacts(tokenFacts{SIDs: g.policy().namedSIDs(id.SIDs), Groups: g.policy().namedGroups(id.Groups)})
	return secret, row, err
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
	m := &makers{
		policy: func() *Policy { return policy }, tickets: cfg.Keytab != "", certs: len(cfg.Certificates) > 0, signIn: cfg.SignIn != nil,
	}
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

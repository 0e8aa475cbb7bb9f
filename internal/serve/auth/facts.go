package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

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

func encodeFacts(f tokenFacts) (string, error) {
	b, err := json.Marshal(f)
	return string(b), err
}

// signInFacts are stored with a sign-in, and with the access tokens of a login.
type signInFacts struct {
	Method Method `json:"method"`
	// Token is the hash of the token that it was begun with, in hex.
	Token string `json:"token,omitempty"`
	// Password identifies the stored password of the user: another one ends the sign-in.
	Password string   `json:"password,omitempty"`
	SIDs     []string `json:"sids,omitempty"`
	Issuer   string   `json:"issuer,omitempty"`
	Groups   []string `json:"groups,omitempty"`
	Remote   string   `json:"remote,omitempty"` // address at the beginning
	Agent    string   `json:"agent,omitempty"`  // of the browser or the program
	Machine  string   `json:"machine,omitempty"`
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

// ended reports whether a token is revoked or expired.
func (r *TokenRow) ended(now time.Time) bool {
	return !r.Revoked.IsZero() && !now.Before(r.Revoked) || !r.Expires.IsZero() && !now.Before(r.Expires)
}

// both returns the rights that r and o have in common.
func (r *Rights) both(o *Rights) Rights {
	c := Rights{Admitted: r.Admitted && o.Admitted, Admin: r.Admin && o.Admin}
	c.All, c.Products = common(r.All, o.All, r.Products, o.Products)
	c.PublicAll, c.Public = common(r.All || r.PublicAll, o.All || o.PublicAll, r.publicList(), o.publicList())
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

// equal reports whether two rights are the same.
func (r *Rights) equal(o *Rights) bool {
	return r.Admitted == o.Admitted && r.All == o.All && r.WriteAll == o.WriteAll && r.Admin == o.Admin &&
		r.PublicAll == o.PublicAll && slices.Equal(r.Products, o.Products) && slices.Equal(r.Public, o.Public) &&
		slices.Equal(r.WriteProducts, o.WriteProducts)
}

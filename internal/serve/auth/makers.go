package auth

import (
	"slices"
	"strings"
)

// makers tells what those who make tokens may do now.
type makers struct {
	policy  func() *Policy         // in force
	user    func(name string) bool // it is in the file of users; nil: there is none
	tickets bool                   // Kerberos tickets are accepted
	certs   bool                   // client certificates are
	signIn  bool                   // browsers sign in at an OpenID provider
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
	policy := m.policy()
	r := policy.Decide(&id)
	if !known || !policy.admits(&id) {
		return Rights{}, errMaker
	}
	return r, nil
}

// splitMaker reads TokenRow.CreatedBy. The method is MethodNone for an account of a
// machine that has the depot: its tokens are the operator's.
func splitMaker(createdBy string) (m Method, name string) {
	word, rest, _ := strings.Cut(createdBy, ":")
	if m := Method(word); rest != "" && (m == MethodToken || slices.Contains(personal, m)) {
		return m, rest
	}
	return MethodNone, createdBy
}

// personal are the methods of people and machines that make tokens for themselves.
var personal = []Method{MethodBasic, MethodNegotiate, MethodCertificate, MethodOIDC}

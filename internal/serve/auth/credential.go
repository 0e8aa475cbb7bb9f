package auth

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// What a client began, such as an upload of several requests, may go on without its
// credentials. Then the server keeps which ones they were, and asks at each use whether
// they still count and what they allow now.

// ErrEnded means that credentials that were accepted once do not count any more.
var ErrEnded = errors.New("the credentials are not valid any more")

// credentialFacts say which credentials a principal had. They have no secrets.
type credentialFacts struct {
	Name string `json:"name"`
	signInFacts
	Until time.Time `json:"until,omitzero"`
	// Login is the id of the login of a program that had the credentials.
	Login string `json:"login,omitempty"`
}

// Credential returns a text by which Still finds out about the credentials of an
// identity later, also at another server of the depot. It has no secrets. It is empty for
// anonymous clients.
func (g *Gate) Credential(id *Identity) string {
	if id.Anonymous() {
		return ""
	}
	f := credentialFacts{Name: id.Name, signInFacts: signInFacts{Method: id.Method}, Until: id.Until, Login: id.Login}
	if f.Login != "" {
		f.Until = time.Time{} // that of an access token: the login goes on with others
	}
	switch id.Method {
	case MethodToken:
		f.Token = hex.EncodeToString(id.hash[:])
	case MethodBasic:
		f.Password = g.users.fingerprint(id.Name)
	case MethodNegotiate:
		f.SIDs = g.policy().namedSIDs(id.SIDs)
	case MethodOIDC:
		f.Issuer, f.Groups = g.login.Issuer(), g.policy().namedGroups(id.Groups)
	}
	b, err := json.Marshal(f)
	if err != nil {
		return "" // impossible: they are texts
	}
	return string(b)
}

// Still returns the principal of a text of Credential and what it may do now. The error
// is ErrEnded if the credentials do not count any more; others mean that this cannot be
// found out now.
func (g *Gate) Still(ctx context.Context, credential string) (Identity, Rights, error) {
	var f credentialFacts
	if err := json.NewDecoder(strings.NewReader(credential)).Decode(&f); err != nil {
		return Identity{}, Rights{}, ErrEnded // empty, or not one of this program's
	}
	if f.Method != MethodToken && !f.Until.IsZero() && !g.now().Before(f.Until) {
		return Identity{}, Rights{}, ErrEnded
	}
	if err := g.stillLogin(ctx, f.Login); err != nil {
		return Identity{}, Rights{}, err
	}
	id, rights, err := g.judge(ctx, f.Name, &f.signInFacts)
	id.Login = f.Login
	switch {
	case errors.Is(err, errLoginGone), err == nil && !rights.Admitted:
		err = ErrEnded
	case err == nil && id.Until.IsZero():
		id.Until = f.Until
	}
	if err != nil {
		return Identity{}, Rights{}, err
	}
	return id, rights, nil
}

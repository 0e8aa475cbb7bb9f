// Package auth says who asks and what they may see. It reads the credentials
// that a request carries - tokens, passwords, Kerberos tickets, client
// certificates - and judges them by the operator's policy. It also keeps the
// listener's certificates fresh and writes down who read what.
//
// The package knows nothing of symbols: products are names, and what a right
// means for a file is the server's business.
package auth

import (
	"context"
	"io/fs"
	"time"
)

// Method says how an identity was proved.
type Method string

// The methods. MethodNone is nobody in particular.
const (
	MethodNone        Method = ""
	MethodToken       Method = "token"
	MethodBasic       Method = "basic"
	MethodNegotiate   Method = "negotiate"
	MethodCertificate Method = "certificate"
)

// Identity is who asks. The zero Identity is anonymous.
type Identity struct {
	// Name is the principal: the name a token was made with, a user name,
	// user@REALM, or what the certificate's rule gives. Empty: anonymous.
	Name   string
	Method Method
	// Carrier is how a token came: "path", "basic", "bearer" or "header".
	Carrier string
	// TokenID is the id of the token, never the token.
	TokenID string
	// Scopes and Products are the token's; nil Products are all products.
	Scopes   []string
	Products []string
	// SIDs are the Windows groups that a ticket tells of, if they are read.
	SIDs []string
	// Until is when the proof ends by itself; zero is never.
	Until time.Time

	// Reply, if not empty, is to be sent as WWW-Authenticate with the
	// answer, whatever the answer is.
	Reply string
	// Failure says, for a log, why credentials were passed over on a server
	// where nobody needs any to read.
	Failure string
}

// Anonymous reports whether nobody in particular asks.
func (id *Identity) Anonymous() bool { return id.Method == MethodNone }

// TokenRow is a token as it is kept. The secret itself is kept nowhere.
type TokenRow struct {
	ID     string   // names it where the secret must not be shown
	Hash   [32]byte // HashToken of the secret
	Name   string   // what it is for, in words
	Scopes []string // of "read", "write" and "admin"
	// Products are the names it is limited to; nil is all of them, an empty
	// list none.
	Products  []string
	Created   time.Time
	Expires   time.Time // zero is never
	LastUsed  time.Time // zero is never
	Revoked   time.Time // zero while it stands
	CreatedBy string
}

// Store keeps tokens. Its methods may be called at the same time.
type Store interface {
	// TokenByHash returns the token with a hash, revoked or expired ones
	// too. None is fs.ErrNotExist.
	TokenByHash(ctx context.Context, hash [32]byte) (TokenRow, error)
	// TouchToken notes when tokens, named by their ids, were last used.
	// Unknown ids are no error.
	TouchToken(ctx context.Context, used map[string]time.Time) error
}

// noStore is the Store of a server without one.
type noStore struct{}

func (noStore) TokenByHash(context.Context, [32]byte) (TokenRow, error) {
	return TokenRow{}, fs.ErrNotExist
}

func (noStore) TouchToken(context.Context, map[string]time.Time) error { return nil }

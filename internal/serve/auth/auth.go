// Package auth authenticates requests and decides what they may read. It reads
// the credentials that a request carries (tokens, passwords, Kerberos tickets,
// client certificates) and applies the operator's policy to the principal that
// they prove. It also reloads the listener's certificates and writes the audit
// log.
//
// The package knows nothing about symbol files: products are names, and the
// server applies the rights to files.
package auth

import (
	"context"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/serve/oidc"
)

// Method is how a client proved its identity.
type Method string

// The methods. MethodNone is that of an anonymous client.
const (
	MethodNone        Method = ""
	MethodToken       Method = "token"
	MethodBasic       Method = "basic"
	MethodNegotiate   Method = "negotiate"
	MethodCertificate Method = "certificate"
	MethodOIDC        Method = "oidc" // sign-in of a browser at an OpenID provider
)

// Identity is an authenticated principal. The zero Identity is anonymous.
type Identity struct {
	// Name is the principal: the name a token was made with, a user name,
	// user@REALM, or what the certificate's rule gives. Empty: anonymous.
	Name   string
	Method Method
	// Carrier is where the request had the credentials: "path", "basic", "bearer",
	// "header", "negotiate" or, for a sign-in, "cookie".
	Carrier string
	// SignIn is the id of the sign-in whose cookie the request has; empty: none. Method
	// is that of the sign-in.
	SignIn string
	// Login is the id of the login of a program whose access token the request has; empty:
	// none. Name and Method are those of whoever allowed it.
	Login string
	// TokenID is the id of the token, never the token.
	TokenID string
	// Scopes and Products are the token's; nil Products are all products.
	Scopes   []string
	Products []string
	// Uploads are the token's defaults for files that are uploaded with it.
	Uploads Uploads
	// Exchanged: the token was exchanged for the id token of a CI job. It is for uploads,
	// not for workers.
	Exchanged bool
	// SIDs are the Windows groups in the Kerberos ticket, if they are read.
	SIDs []string
	// Groups are the groups that an OpenID provider said.
	Groups []string
	// Until is when the credentials expire; zero is never.
	Until time.Time

	// Reply, if not empty, must be sent as WWW-Authenticate with the
	// response, whatever its status is.
	Reply string
	// Failure is why credentials were ignored, for the log of a server without
	// restricted content.
	Failure string

	hash   [32]byte // of the token
	access string   // the id of the access token of a login
	job    string   // of an exchanged token; see tokenFacts.job
}

// Anonymous reports whether the request proved no identity.
func (id *Identity) Anonymous() bool { return id.Method == MethodNone }

// TokenRow is a stored token. The secret itself is not stored.
type TokenRow struct {
	ID     string   // identifies the token in lists and logs
	Hash   [32]byte // HashToken of the secret
	Name   string   // its purpose, chosen by the operator
	Scopes []string // of "read", "read:public", "write" and "admin"
	// Products are the products that the token is limited to; nil is all
	// products, an empty list none.
	Products  []string
	Created   time.Time
	Expires   time.Time // zero is never
	LastUsed  time.Time // zero is never
	Revoked   time.Time // zero if it is not revoked
	CreatedBy string
	// Uploads is JSON of the type Uploads; empty: nothing.
	Uploads string
	// Origin identifies the id token that the token was exchanged for; zero: the
	// token was created by a user. No two tokens have the same Origin, and the row is
	// deleted after Keep.
	Origin [32]byte
	Keep   time.Time
	// Kind is KindSignIn for the sign-in of a browser, which is no token, KindAccess for the
	// access token of a login, and KindLogin for a login in a list; empty: a token.
	Kind string
	// Parent is the id of the token that a sign-in was begun with and ends with, or of the
	// login of an access token; empty: none.
	Parent string
	// Facts are those of a sign-in, of a token or of the login of an access token, as JSON of
	// this package.
	Facts string
}

// Uploads are the defaults of a token for the files that are uploaded with it.
type Uploads struct {
	// Product is the product of uploads that name none.
	Product string `json:"product,omitempty"`
	// Version, Branch and Class are those of all uploads; empty: the upload's own.
	Version string `json:"version,omitempty"`
	Branch  string `json:"branch,omitempty"`
	Class   string `json:"class,omitempty"`
	// Build is the CI job that the token was made for, by the claims of its id token;
	// nil: there is none.
	Build *oidc.Build `json:"build,omitempty"`
}

// Store stores tokens, sign-ins and logins. It is safe for concurrent use.
type Store interface {
	Logins
	// TokenByHash returns the token, the sign-in or the access token with the given hash, even if it is
	// revoked or expired. If there is none, the error is fs.ErrNotExist.
	TokenByHash(ctx context.Context, hash [32]byte) (TokenRow, error)
	// TokenByID returns the token with the given id, even if it is revoked or expired. If
	// there is none, the error is fs.ErrNotExist.
	TokenByID(ctx context.Context, id string) (TokenRow, error)
	// PutToken adds a token. If its hash or its origin is known, the error is
	// fs.ErrExist; if there are too many exchanged tokens, ErrManyTokens.
	PutToken(ctx context.Context, row TokenRow) error
	// TouchToken records when tokens, sign-ins and access tokens, given by id, were last used.
	// It ignores unknown ids.
	TouchToken(ctx context.Context, used map[string]time.Time) error
	// PutSignIn adds a sign-in. If there are too many, the error is ErrManySignIns.
	PutSignIn(ctx context.Context, row TokenRow, limits SignInLimits) error
	// EndSignIn deletes a sign-in; an unknown one is fs.ErrNotExist.
	EndSignIn(ctx context.Context, id string) error
}

// noStore is a Store without tokens.
type noStore struct{ noLogins }

func (noStore) TokenByHash(context.Context, [32]byte) (TokenRow, error) {
	return TokenRow{}, fs.ErrNotExist
}

func (noStore) TokenByID(context.Context, string) (TokenRow, error) {
	return TokenRow{}, fs.ErrNotExist
}

func (noStore) PutToken(context.Context, TokenRow) error { return errStore }

func (noStore) TouchToken(context.Context, map[string]time.Time) error { return nil }

func (noStore) PutSignIn(context.Context, TokenRow, SignInLimits) error { return errStore }

func (noStore) EndSignIn(context.Context, string) error { return errStore }

// SignInLimits bound the sign-ins that are stored.
type SignInLimits struct {
	// Idle is the time without a use after which a sign-in has ended.
	Idle time.Duration
	// Each is how many one principal (TokenRow.CreatedBy) may have; a new one ends the
	// one that was not used for the longest time. All is how many there may be.
	Each, All int
}

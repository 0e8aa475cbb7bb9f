package wire

import "time"

// TokenPath is the path of the exchange below a server's base URL: POST with the id
// token of a CI job as the bearer token answers 201 with an Exchanged. An id token
// is accepted once. Errors are a Problem.
const TokenPath = "/-/api/v1/token"

// Exchanged is a token of the server for a CI job.
type Exchanged struct {
	Token    string    `json:"token"`
	Expires  time.Time `json:"expires"`
	Name     string    `json:"name"`     // of the principal
	Products []string  `json:"products"` // that it may write; null is all
}

// TokensPath is the path of the tokens below a server's base URL:
//
//	GET     (the path itself)   a TokenList; parameters limit and cursor
//	POST    (the path itself)   makes a token; the body is a TokenSpec, the answer 201 with a TokenInfo
//	GET     ID                  a TokenInfo
//	DELETE  ID                  revokes a token
//
// Errors are a Problem.
const TokensPath = "/-/api/v1/tokens"

// TokenSpec describes a new token.
type TokenSpec struct {
	Name     string        `json:"name"`
	Scopes   []string      `json:"scopes"`            // read, read:public, write, admin; empty is read
	Products []string      `json:"products"`          // null is all
	Expires  time.Time     `json:"expires,omitzero"`  // omitted: never, or the longest life that the maker may give
	Uploads  *TokenUploads `json:"uploads,omitempty"` // needs the scope write
}

// TokenUploads is what a token says of the files that are uploaded with it.
type TokenUploads struct {
	Product string `json:"product,omitempty"` // of uploads that name none
	Version string `json:"version,omitempty"` // of all uploads, as the following
	Branch  string `json:"branch,omitempty"`
	Class   string `json:"class,omitempty"`
	// URL is that of the CI job that the token was made for. Only the server sets it.
	URL string `json:"url,omitempty"`
}

// TokenInfo is a token. Token, its secret, is set only when it is made.
type TokenInfo struct {
	ID        string        `json:"id"`
	Token     string        `json:"token,omitempty"`
	Name      string        `json:"name"`
	Scopes    []string      `json:"scopes"`
	Products  []string      `json:"products"` // null is all
	State     string        `json:"state"`    // valid, expired, revoked
	Created   time.Time     `json:"created"`
	CreatedBy string        `json:"created_by"`
	Expires   time.Time     `json:"expires,omitzero"`
	LastUsed  time.Time     `json:"last_used,omitzero"`
	Revoked   time.Time     `json:"revoked,omitzero"`
	Uploads   *TokenUploads `json:"uploads,omitempty"`
}

// TokenList is a part of the list of tokens, oldest first. Next, if not empty, is
// the cursor of the next part.
type TokenList struct {
	Items []TokenInfo `json:"items"`
	Next  string      `json:"next,omitempty"`
}

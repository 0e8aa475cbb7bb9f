package app

import (
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/oidc"
)

// Token is a token as JSON.
type Token struct {
	ID        string     `json:"id"`
	Token     string     `json:"token,omitempty"` // only when it is made
	Name      string     `json:"name"`
	Scopes    []string   `json:"scopes"`
	Products  []string   `json:"products"` // null is all
	State     string     `json:"state"`
	Created   time.Time  `json:"created"`
	CreatedBy string     `json:"created_by"`
	Expires   *time.Time `json:"expires"`
	LastUsed  *time.Time `json:"last_used"`
	Revoked   *time.Time `json:"revoked"`

	Uploads *auth.Uploads `json:"uploads,omitempty"` // how they are filed
}

// inSeconds returns a time as Token has it.
func inSeconds(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	u := t.UTC().Truncate(time.Second)
	return &u
}

// NewToken describes a stored token at a time.
func NewToken(t auth.TokenRow, now time.Time) Token {
	at := inSeconds
	l := Token{
		ID: t.ID, Name: t.Name, Scopes: t.Scopes, Products: t.Products, State: "valid",
		Created: *at(t.Created), CreatedBy: t.CreatedBy,
		Expires: at(t.Expires), LastUsed: at(t.LastUsed), Revoked: at(t.Revoked),
	}
	if u := t.UploadDefaults(); u != (auth.Uploads{}) {
		l.Uploads = &u
	}
	switch {
	case !t.Revoked.IsZero():
		l.State = "revoked"
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		l.State = "expired"
	}
	return l
}

// TokenOf is NewToken for a token of a server.
func TokenOf(t wire.TokenInfo) Token {
	at := inSeconds
	l := Token{
		ID: t.ID, Name: t.Name, Scopes: t.Scopes, Products: t.Products, State: t.State,
		Created: t.Created.UTC().Truncate(time.Second), CreatedBy: t.CreatedBy,
		Expires: at(t.Expires), LastUsed: at(t.LastUsed), Revoked: at(t.Revoked),
	}
	if u := t.Uploads; u != nil {
		l.Uploads = &auth.Uploads{Product: u.Product, Version: u.Version, Branch: u.Branch, Class: u.Class}
		if u.URL != "" {
			l.Uploads.Build = &oidc.Build{URL: u.URL}
		}
	}
	return l
}

package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/symdepot/symdepot/internal/wire"
)

// Accounts is a client of the tokens and the audit log of one server.
type Accounts struct{ *Retention }

// NewAccounts returns a client that has the credentials of NewPusher.
func NewAccounts(server, tokenFile string, getenv func(string) string, clientFor func(server string) *http.Client) (*Accounts, error) {
	r, err := NewRetention(server, tokenFile, getenv, clientFor)
	if err != nil {
		return nil, err
	}
	return &Accounts{r}, nil
}

// listPart is how many items a request for a part of a list asks for.
const listPart = 1000

// Tokens calls each for every token that the client may see, the oldest first.
func (a *Accounts) Tokens(ctx context.Context, each func(wire.TokenInfo) error) error {
	q := url.Values{"limit": {strconv.Itoa(listPart)}}
	for {
		var part wire.TokenList
		if err := a.send(ctx, http.MethodGet, wire.TokensPath+"?"+q.Encode(), nil, &part); err != nil {
			return err
		}
		for _, t := range part.Items {
			if err := each(t); err != nil {
				return err
			}
		}
		if part.Next == "" {
			return nil
		}
		q.Set("cursor", part.Next)
	}
}

// MakeToken makes a token. Only this answer has its secret.
func (a *Accounts) MakeToken(ctx context.Context, spec wire.TokenSpec) (t wire.TokenInfo, err error) {
	err = a.send(ctx, http.MethodPost, wire.TokensPath, spec, &t)
	return t, err
}

// RevokeToken revokes a token.
func (a *Accounts) RevokeToken(ctx context.Context, id string) error {
	return a.send(ctx, http.MethodDelete, wire.TokensPath+"/"+url.PathEscape(id), nil, nil)
}

// Audit calls each for every record that the filters select, the oldest first.
// damaged is the number of lines of the log that are no records.
func (a *Accounts) Audit(ctx context.Context, filters url.Values, each func(record json.RawMessage) error) (damaged int, err error) {
	q := url.Values{}
	for name, list := range filters {
		q[name] = list
	}
	q.Set("limit", strconv.Itoa(listPart))
	q.Set("order", "oldest")
	for {
		var part struct {
			Items   []json.RawMessage `json:"items"`
			Next    string            `json:"next"`
			Damaged int               `json:"damaged"`
		}
		if err := a.send(ctx, http.MethodGet, wire.AuditPath+"?"+q.Encode(), nil, &part); err != nil {
			return damaged, err
		}
		damaged += part.Damaged
		for _, r := range part.Items {
			if err := each(r); err != nil {
				return damaged, err
			}
		}
		if part.Next == "" {
			return damaged, nil
		}
		q.Set("cursor", part.Next)
	}
}

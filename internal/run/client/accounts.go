package client

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// listPart is how many items a request for a part of a list asks for.
const listPart = 1000

// Tokens calls each for every token that the client may see, the oldest first.
func (a *API) Tokens(ctx context.Context, each func(wire.TokenInfo) error) error {
	q := url.Values{"limit": {strconv.Itoa(listPart)}}
	for {
		part, err := call[wire.TokenList](ctx, a, request{method: http.MethodGet, path: wire.TokensPath, query: q})
		if err != nil {
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
func (a *API) MakeToken(ctx context.Context, spec wire.TokenSpec) (wire.TokenInfo, error) {
	return send[wire.TokenInfo](ctx, a, http.MethodPost, wire.TokensPath, spec, nil)
}

// RevokeToken revokes a token. An unknown one is fs.ErrNotExist.
func (a *API) RevokeToken(ctx context.Context, id string) error {
	q := request{method: http.MethodDelete, path: wire.TokensPath + "/" + url.PathEscape(id), missing: fs.ErrNotExist}
	return order(ctx, a, q)
}

// Audit calls each for every record that the filters select, the oldest first.
// damaged is the number of lines of the log that are no records.
func (a *API) Audit(ctx context.Context, filters url.Values, each func(record json.RawMessage) error) (damaged int, err error) {
	q := url.Values{}
	for name, list := range filters {
		q[name] = list
	}
	q.Set("limit", strconv.Itoa(listPart))
	q.Set("order", "oldest")
	for {
		part, err := call[struct {
			Items   []json.RawMessage `json:"items"`
			Next    string            `json:"next"`
			Damaged int               `json:"damaged"`
		}](ctx, a, request{method: http.MethodGet, path: wire.AuditPath, query: q})
		if err != nil {
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

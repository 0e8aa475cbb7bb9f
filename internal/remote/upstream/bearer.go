package upstream

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/remote/fetch"
)

// Tokens returns an access token of one server that is valid now. refused is a token that the
// server has refused a moment ago; empty: none.
type Tokens func(ctx context.Context, refused string) (string, error)

// bearer sends access tokens to one server, and asks for another one where the server refuses
// the first.
type bearer struct {
	name   string // of the upstream
	base   http.RoundTripper
	server *url.URL
	tokens Tokens
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if !sameServer(b.server, r.URL) {
		return b.base.RoundTrip(r)
	}
	token, err := b.tokens(r.Context(), "")
	if err != nil {
		return nil, b.failed(err)
	}
	resp, err := b.send(r, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || r.Body != nil {
		return resp, err
	}
	newer, err := b.tokens(r.Context(), token)
	if err == nil && newer == token {
		return resp, nil
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxText))
	_ = resp.Body.Close()
	if err != nil {
		return nil, b.failed(err)
	}
	return b.send(r, newer)
}

// failed is the failure for want of a token. It says nothing of the file, and ends with a sign-in:
// it must not be remembered.
func (b *bearer) failed(err error) error {
	return &fetch.Failure{Source: b.name, Class: fetch.ClassUnauthorized, Err: err}
}

func (b *bearer) send(r *http.Request, token string) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", wire.Bearer+" "+token)
	return b.base.RoundTrip(r)
}

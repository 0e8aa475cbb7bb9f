// Package endpoint sends requests to one server of ours, with the token for it. A push, a
// worker and the client of the API share it.
package endpoint

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// ErrRefused means that the same request will never succeed.
var ErrRefused = errors.New("the server refuses the request")

// Endpoint is a server. All fields are required.
type Endpoint struct {
	HTTP *http.Client
	// URL is the base URL of the server.
	URL string
	// Token returns the bearer token for a request, or an empty string if there is none.
	Token func() (string, error)
}

// Send sends one request with the token. It does not follow redirects, because
// the token is for this server only.
func (q Endpoint) Send(ctx context.Context, method, path string, header http.Header, body io.Reader, size int64) (*http.Response, error) {
	base, err := url.Parse(strings.TrimRight(q.URL, "/"))
	if err != nil {
		return nil, err
	}
	token, err := q.Token()
	if err != nil {
		return nil, fmt.Errorf("cannot get the token: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, base.String()+path, body)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if size > 0 {
		req.ContentLength = size
	}
	if token = strings.TrimSpace(token); token != "" {
		req.Header.Set("Authorization", wire.Bearer+" "+token)
	}
	direct := *q.HTTP
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := direct.Do(req)
	if err != nil {
		return nil, Describe(err)
	}
	return resp, nil
}

// Redirected describes a redirect, which is not followed.
func Redirected(resp *http.Response) string {
	return "redirect to " + Printable(resp.Header.Get("Location")) + "; if that URL is right, pass it to --server"
}

// Printable replaces control characters and invalid UTF-8 by spaces.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\ufffd' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
}

// Describe adds a hint to certificate errors that a wrong clock can cause.
func Describe(err error) error {
	if inv, ok := errors.AsType[x509.CertificateInvalidError](err); ok && inv.Reason == x509.Expired {
		return fmt.Errorf("%w; check this machine's clock, which shows %s", err, time.Now().Format(time.RFC3339))
	}
	return err
}

// LocalError is a failure of this machine, such as a full disk. Requests are not
// repeated after it.
type LocalError struct {
	What string // the action that failed
	Err  error
}

func (e *LocalError) Error() string { return "this machine cannot " + e.What + ": " + e.Err.Error() }
func (e *LocalError) Unwrap() error { return e.Err }

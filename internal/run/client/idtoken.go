package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/wire"
)

// ErrNoIDToken means that there is no id token to exchange.
var ErrNoIDToken = fmt.Errorf("%w: this is no CI job with an id token: GitHub needs `permissions: id-token: write`, "+
	"GitLab `id_tokens: {SYMDEPOT_ID_TOKEN: {aud: URL}}`", ErrCredentials)

// Environment variables with which a CI job gets an id token.
const (
	idTokenVariable = "SYMDEPOT_ID_TOKEN"              // a name of ours, which the job's definition gives to the id token of GitLab
	requestURL      = "ACTIONS_ID_TOKEN_REQUEST_URL"   // GitHub Actions
	requestToken    = "ACTIONS_ID_TOKEN_REQUEST_TOKEN" // likewise
	exchangeTime    = time.Minute                      // for one request
	renewBefore     = 5 * time.Minute                  // the end of a token
	maxIDToken      = 64 << 10                         // bytes of an answer
	forkHint        = "this job has no id token: it needs `permissions: id-token: write`, and jobs of pull requests from forks have none"
)

// isIDToken reports whether a text has the form of an id token (RFC 7519) and not
// that of a token of a symdepot server.
func isIDToken(s string) bool {
	return strings.HasPrefix(s, "ey") && strings.Count(s, ".") == 2
}

// jobToken exchanges the id token of a CI job for a token of the server when one is
// needed, and again before it ends.
type jobToken struct {
	server string // base URL
	http   *http.Client
	// idToken returns the id token.
	idToken func(ctx context.Context) (string, error)
	once    bool // there is only this id token, which is accepted once

	mu      sync.Mutex
	token   string
	expires time.Time
}

// newJobToken returns the token of the running job, or nil if the environment has
// none. given is a token that the user has set; empty: none.
func newJobToken(server, given string, getenv func(string) string, clientFor func(server string) *http.Client) *jobToken {
	j := &jobToken{server: strings.TrimRight(server, "/"), http: clientFor(server)}
	fixed := given
	if fixed == "" {
		fixed = strings.TrimSpace(getenv(idTokenVariable))
	}
	from, secret := getenv(requestURL), getenv(requestToken)
	switch {
	case fixed != "":
		j.once = true
		j.idToken = func(context.Context) (string, error) { return fixed, nil }
	case from != "" && secret != "":
		requests := clientFor(from)
		j.idToken = func(ctx context.Context) (string, error) { return githubToken(ctx, requests, from, secret, j.server) }
	default:
		return nil
	}
	return j
}

// get returns a token of the server.
func (j *jobToken) get() (string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.token != "" && (j.once || time.Until(j.expires) > renewBefore) {
		return j.token, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), exchangeTime)
	defer cancel()
	id, err := j.idToken(ctx)
	if err != nil {
		return "", err
	}
	var done wire.Exchanged
	if err := j.exchange(ctx, id, &done); err != nil {
		return "", err
	}
	if done.Token == "" {
		return "", &endpoint.LocalError{What: "read the answer, which is not that of a symdepot server", Err: errors.New("it has no token")}
	}
	j.token, j.expires = done.Token, done.Expires
	return j.token, nil
}

func (j *jobToken) exchange(ctx context.Context, id string, done *wire.Exchanged) error {
	token := func() (string, error) { return id, nil }
	h := http.Header{"User-Agent": {"symdepot"}, "Accept": {"application/json"}}
	resp, err := endpoint.Endpoint{HTTP: j.http, URL: j.server, Token: token}.Send(ctx, http.MethodPost, wire.TokenPath, h, nil, 0)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxIDToken))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return problemOf(resp, b)
	}
	if err := json.Unmarshal(b, done); err != nil {
		return &endpoint.LocalError{What: "read the answer, which is not that of a symdepot server", Err: err}
	}
	return nil
}

// githubToken asks GitHub Actions for an id token (documentation of GitHub, OpenID
// Connect reference, "Methods for requesting the OIDC token").
func githubToken(ctx context.Context, requests *http.Client, from, secret, audience string) (string, error) {
	u, err := url.Parse(from)
	if err != nil || u.Host == "" {
		return "", &endpoint.LocalError{What: "ask GitHub for an id token", Err: errors.New(requestURL + " is no URL")}
	}
	q := u.Query()
	q.Set("audience", audience)
	u.RawQuery = q.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", wire.Bearer+" "+secret)
	r.Header.Set("Accept", "application/json")
	resp, err := requests.Do(r)
	if err != nil {
		return "", endpoint.Describe(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxIDToken))
	if err != nil {
		return "", err
	}
	var answer struct {
		Value string `json:"value"`
	}
	if resp.StatusCode/100 == 5 || resp.StatusCode == http.StatusTooManyRequests {
		return "", fmt.Errorf("GitHub answers the request for an id token with status %d", resp.StatusCode)
	}
	if resp.StatusCode != http.StatusOK || json.Unmarshal(b, &answer) != nil || !isIDToken(answer.Value) {
		said := cmp.Or(endpoint.Printable(string(b[:min(len(b), 200)])), "no answer")
		return "", &endpoint.LocalError{What: "ask GitHub for an id token", Err: fmt.Errorf("status %d: %s", resp.StatusCode, said)}
	}
	return answer.Value, nil
}

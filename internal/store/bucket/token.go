package bucket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// credentialTimeout limits each request for credentials.
const credentialTimeout = 15 * time.Second

// token is a bearer token.
type token struct {
	value   string
	expires time.Time // zero: never
}

// tokens requests a token once for all callers, and caches it while it is
// valid.
type tokens struct {
	fetch func(context.Context) (token, error)
	now   func() time.Time

	mu      sync.Mutex // guards the fields below
	current token
	running *fetching // nil while no request is in progress
}

// fetching is one request, complete when done is closed.
type fetching struct {
	done  chan struct{}
	token token
	err   error
}

// get returns a token that stays valid for a while. Cancelling ctx ends only this
// call: the request continues for the other callers.
func (t *tokens) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	if t.current.value != "" && (t.current.expires.IsZero() || t.now().Before(t.current.expires)) {
		defer t.mu.Unlock()
		return t.current.value, nil
	}
	f := t.running
	if f == nil {
		f = &fetching{done: make(chan struct{})}
		t.running = f
		go t.run(ctx, f)
	}
	t.mu.Unlock()
	select {
	case <-f.done:
		return f.token.value, f.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (t *tokens) run(ctx context.Context, f *fetching) {
	ctx, cancel := withoutCancel(ctx)
	defer cancel()
	tok, err := t.fetch(ctx)
	switch {
	case err != nil:
		f.err = fmt.Errorf("%w: %w", ErrCredentials, scrub(err))
	case !validHeader(tok.value) || tok.value == "":
		f.err = fmt.Errorf("%w: the token is empty or contains characters that a header cannot have", ErrCredentials)
	default:
		f.token = tok
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = nil
	if f.err == nil {
		t.current = tok
		if left := tok.expires.Sub(t.now()); !tok.expires.IsZero() {
			// Renew a tenth of the lifetime before the end, at most five
			// minutes: clocks differ and requests take time.
			t.current.expires = tok.expires.Add(-min(left/10, 5*time.Minute))
		}
	}
	close(f.done)
}

// drop removes a token that the store has rejected.
func (t *tokens) drop(value string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current.value == value {
		t.current = token{}
	}
}

// tokenFile reads a token from a file that another program keeps up to date.
func tokenFile(name string) func(context.Context) (token, error) {
	return func(context.Context) (token, error) {
		b, err := readSmall(name)
		if err != nil {
			return token{}, err
		}
		return token{value: strings.TrimSpace(string(b)), expires: time.Now().Add(time.Minute)}, nil
	}
}

func fixedToken(value string) func(context.Context) (token, error) {
	return func(context.Context) (token, error) { return token{value: value}, nil }
}

// readSmall reads a file of credentials.
func readSmall(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err == nil && len(b) == 1<<20 {
		err = fmt.Errorf("%s is too large for credentials", name)
	}
	return b, err
}

// askToken sends a request for a token and parses the usual JSON response.
// Errors contain only the status and the OAuth error code of the response.
func askToken(client *http.Client, req *http.Request, now func() time.Time) (token, error) {
	resp, err := client.Do(req)
	if err != nil {
		return token{}, scrub(err)
	}
	defer closeBody(resp)
	var answer struct {
		AccessToken string      `json:"access_token"`
		ExpiresIn   json.Number `json:"expires_in"` // a string at Azure's metadata service
		Error       any         `json:"error"`
	}
	derr := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&answer)
	if resp.StatusCode != http.StatusOK {
		code, _ := answer.Error.(string)
		return token{}, tokenStatus(req, resp.StatusCode, code)
	}
	if derr != nil {
		return token{}, fmt.Errorf("%s: the token response is not JSON", req.URL.Host)
	}
	t := token{value: answer.AccessToken}
	seconds, err := answer.ExpiresIn.Int64()
	if t.value == "" || (answer.ExpiresIn != "" && err != nil) {
		return token{}, fmt.Errorf("%s: the response has no valid token", req.URL.Host)
	}
	if answer.ExpiresIn == "" {
		seconds = 300
	}
	t.expires = now().Add(time.Duration(min(max(seconds, 0), 1<<25)) * time.Second)
	return t, nil
}

func tokenStatus(req *http.Request, status int, code string) error {
	if code = cleanCode(code); code != "" {
		return fmt.Errorf("%s: status %d %s", req.URL.Host, status, code)
	}
	return fmt.Errorf("%s: status %d %s", req.URL.Host, status, http.StatusText(status))
}

// choose returns auth if it is known, or the result of pick if auth is empty.
func choose(auth string, pick func() string, known ...string) (string, error) {
	if auth == "" {
		auth = pick()
	}
	for _, k := range known {
		if k == auth {
			return auth, nil
		}
	}
	return "", fmt.Errorf("bucket: unknown auth %q; use one of %s", auth, strings.Join(known, ", "))
}

// firstOf returns the configured value, or that of the environment variable
// env, or other.
func firstOf(configured, env, other string) string {
	if configured == "" && env != "" {
		configured = os.Getenv(env)
	}
	if configured == "" {
		return other
	}
	return configured
}

// hostOf returns the hosts of the URLs that are not empty.
func hostOf(addresses ...string) []string {
	var hosts []string
	for _, a := range addresses {
		if u, err := url.Parse(a); err == nil && u.Host != "" {
			hosts = append(hosts, u.Host)
		}
	}
	return hosts
}

// need returns an error if a required field of an Auth is missing.
func need(ok bool, what string) error {
	if !ok {
		return errors.New("bucket: " + what)
	}
	return nil
}

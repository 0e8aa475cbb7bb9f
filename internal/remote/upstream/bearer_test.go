package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/remote/fetch"
)

// TestTokens: each request has the token of that moment, one that is refused is replaced once, and
// no token goes to another server.
func TestTokens(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a token went to another server")
		}
		_, _ = io.WriteString(w, "file")
	}))
	defer elsewhere.Close()
	var requests atomic.Int64
	valid := atomic.Pointer[string]{}
	valid.Store(new(string))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		switch {
		case r.Header.Get("Authorization") != wire.Bearer+" "+*valid.Load():
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/away":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		default:
			_, _ = io.WriteString(w, "file")
		}
	}))
	defer server.Close()
	kept, fails := "first", error(nil)
	h, err := NewHTTP(HTTPConfig{Name: "u", URL: server.URL, Credentials: Credentials{Tokens: func(_ context.Context, refused string) (string, error) {
		if refused != "" && refused == kept && kept == "first" {
			kept = "second"
		}
		return kept, fails
	}}}, NewDialer(DialerOptions{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	client := &http.Client{Transport: h.via}
	get := func(path string) (int, error) {
		t.Helper()
		resp, err := client.Get(server.URL + path)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, err
	}
	for _, c := range []struct {
		valid, path string
		status      int
		requests    int64
	}{
		{"first", "/", 200, 1},
		{"second", "/", 200, 2}, // refused, and sent again with the next
		{"second", "/away", 200, 1},
		{"third", "/", 401, 1}, // there is no other
	} {
		valid.Store(&c.valid)
		before := requests.Load()
		// The transport follows no redirect itself: the client asks it again for the other server.
		if status, err := get(c.path); err != nil || status != c.status || requests.Load()-before != c.requests {
			t.Errorf("%s valid, %s: status %d, %v, %d requests; want %d, %d", c.valid, c.path, status, err, requests.Load()-before, c.status, c.requests)
		}
	}
	fails = errors.New("sign in again")
	if _, err := get("/"); !errors.Is(err, fails) || fetch.ClassOf(err) != fetch.ClassUnauthorized {
		t.Errorf("without a token: %v of class %v, want %v, which is not remembered", err, fetch.ClassOf(err), fails)
	}
}

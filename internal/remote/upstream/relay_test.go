package upstream

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestRelay: only allowed hosts are asked, also after redirects; files and failures are
// kept for a while; long and empty files are none.
func TestRelay(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/main.c":
			_, _ = w.Write([]byte("int main;"))
		case "/long.c":
			_, _ = w.Write(make([]byte, 101))
		case "/empty.c":
		case "/near":
			http.Redirect(w, r, "/main.c", http.StatusFound)
		case "/far":
			http.Redirect(w, r, "https://localhost:1/main.c", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	host := strings.TrimPrefix(srv.URL, "https://")
	now := time.Unix(1_700_000_000, 0)
	r := NewRelay(NewDialer(DialerOptions{}), []string{host}, func(url string) error {
		if strings.HasPrefix(url, srv.URL+"/") {
			return nil
		}
		return errors.New("not an allowed host")
	})
	r.now = func() time.Time { return now }
	r.client.Transport.(*http.Transport).TLSClientConfig = srv.Client().Transport.(*http.Transport).TLSClientConfig
	for _, tt := range []struct {
		path, want string
		requests   int32
	}{
		{"/main.c", "int main;", 1}, {"/main.c", "int main;", 0}, {"/near", "int main;", 2}, {"/far", "", 1}, {"/far", "", 0}, {"/loop", "", relayHops},
		{"/long.c", "", 1}, {"/empty.c", "", 1}, {"/none.c", "", 1}, {"/none.c", "", 0},
	} {
		before := asked.Load()
		text, err := r.Fetch(t.Context(), srv.URL+tt.path, 100)
		if string(text) != tt.want || (tt.want == "") != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v; want %q", tt.path, text, err, tt.want)
		}
		if n := asked.Load() - before; n != tt.requests {
			t.Errorf("%s: %d requests, want %d", tt.path, n, tt.requests)
		}
	}
	before := asked.Load()
	if _, err := r.Fetch(t.Context(), "https://other.example.com/main.c", 100); !errors.Is(err, fs.ErrNotExist) || asked.Load() != before {
		t.Errorf("another host: %v, want %v without a request", err, fs.ErrNotExist)
	}
	now = now.Add(relayMiss + time.Second)
	before = asked.Load()
	if _, err := r.Fetch(t.Context(), srv.URL+"/none.c", 100); !errors.Is(err, fs.ErrNotExist) || asked.Load() != before+1 {
		t.Errorf("a miss that is over: %v after %d requests, want one request", err, asked.Load()-before)
	}
}

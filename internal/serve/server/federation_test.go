package server

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/remote/upstream"
)

// TestFederation: a debuginfod upstream receives the client's User-Agent, and its
// address in X-Forwarded-For, as elfutils' server passes them on; searches are
// passed on too, and a failing upstream makes the answer incomplete.
func TestFederation(t *testing.T) {
	t.Parallel()
	const id = "adac45aa231bba3143d7af433767c61f31021c16"
	var mu sync.Mutex
	var asked []*http.Request
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r)
		mu.Unlock()
		switch {
		case r.URL.Path == "/metadata" && r.URL.Query().Get("value") == "/usr/bin/prog":
			_, _ = io.WriteString(w, `{"results":[ {"type":"executable","buildid":"`+strings.ToUpper(id)+`","file":"\/usr\/bin\/prog","archive":"\/srv\/a.deb"},
				{"type":"source","buildid":"`+id+`","file":"x"}, {"type":"debuginfo","buildid":"../../..","file":"x"} ],"complete":true}`)
		case r.URL.Path == "/metadata" && r.URL.Query().Get("value") == "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		case r.URL.Path == "/metadata":
			_, _ = io.WriteString(w, `{"results":[],"complete":false}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(up.Close)
	src, err := upstream.NewHTTP(upstream.HTTPConfig{Name: "far", URL: up.URL, Layout: "debuginfod"}, upstream.NewDialer(upstream.DialerOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	g := upstream.Guard(src, upstream.GuardOptions{Executables: true, NeverAsk: []string{"secret*"}})
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{Upstreams: []depot.Upstream{{Source: g}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), g.Close()); err != nil {
			t.Error(err)
		}
	})
	base := "http://" + listen(t, newServer(t, Config{Depot: d, ID: "us"}))
	get := func(path string, header ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range header {
			k, v, _ := strings.Cut(h, ": ")
			req.Header.Set(k, v)
		}
		resp, body := symtest.Do(t, http.DefaultTransport.RoundTrip, req)
		return resp.StatusCode, body
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(asked)
	}
	last := func() *http.Request {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if len(asked) == 0 {
			t.Fatal("the upstream was not asked")
		}
		return asked[len(asked)-1]
	}
	t.Run("headers", func(t *testing.T) {
		for _, path := range []string{"/buildid/" + id + "/debuginfo", "/metadata?key=file&value=/usr/bin/prog"} {
			if status, _ := get(path, "User-Agent: TESTCURL", "X-Forwarded-For: TESTXFF"); status != http.StatusOK && status != http.StatusNotFound {
				t.Errorf("GET %s: status %d, want 200 or 404", path, status)
			}
			h := last().Header
			if got := h.Get("User-Agent"); got != "TESTCURL" {
				t.Errorf("GET %s: the upstream received User-Agent %q, want the client's", path, got)
			}
			if got, want := h.Get("X-Forwarded-For"), "TESTXFF, 127.0.0.1, us"; got != want {
				t.Errorf("GET %s: the upstream received X-Forwarded-For %q, want %q", path, got, want)
			}
		}
	})
	for _, c := range []struct {
		name, value string
		results     []metadataResult
		complete    bool
	}{
		{"valid results only", "/usr/bin/prog", []metadataResult{{Type: "executable", BuildID: id, File: "/usr/bin/prog", Archive: "/srv/a.deb"}}, true},
		{"upstream fails", "/broken", []metadataResult{}, false},
		{"upstream is incomplete", "/cut", []metadataResult{}, false},
		{"name that is never asked for", "/home/secretproject", []metadataResult{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := count()
			status, body := get("/metadata?key=file&value=" + c.value)
			var answer metadataAnswer
			if err := json.Unmarshal([]byte(body), &answer); status != http.StatusOK || err != nil {
				t.Fatalf("search for %s: status %d, %v, want 200 and JSON", c.value, status, err)
			}
			if !slices.Equal(answer.Results, c.results) || answer.Complete != c.complete {
				t.Errorf("search for %s: %+v, want %+v, complete %v", c.value, answer, c.results, c.complete)
			}
			if strings.Contains(c.value, "secret") && count() != before {
				t.Errorf("search for %s: the upstream received it, want no request", c.value)
			}
		})
	}
	t.Run("a search that returns to this server", func(t *testing.T) {
		before := count()
		status, body := get("/metadata?key=file&value=/usr/bin/prog", "X-Symdepot-Hop: them, us")
		if status != http.StatusOK || strings.Contains(body, id) {
			t.Errorf("status %d, %s, want 200 without results of the upstream", status, body)
		}
		if count() != before {
			t.Error("the search was sent to the upstream again")
		}
	})
}

package daemon

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// TestCountPassed: only the process that the sockets are for takes them.
func TestCountPassed(t *testing.T) {
	for _, c := range []struct {
		pid, fds string
		want     int
		err      string
	}{
		{"", "", 0, ""},
		{"7", "1", 1, ""},
		{"7", "0", 0, ""},
		{"8", "1", 0, ""}, // for another process
		{"", "1", 0, ""},
		{"7", "2", 0, "passed 2 sockets"},
		{"7", "x", 0, "not a number"},
		{"7", "-1", 0, "not a number"},
	} {
		n, err := countPassed(c.pid, c.fds, 7)
		if n != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("LISTEN_PID=%s LISTEN_FDS=%s in process 7: %d sockets, error %v; want %d, error %q", c.pid, c.fds, n, err, c.want, c.err)
		}
	}
}

// TestLocalURL: a server that listens everywhere is asked on its own machine.
func TestLocalURL(t *testing.T) {
	for _, c := range []struct {
		addr string
		tls  bool
		want string
	}{
		{"127.0.0.1:8080", false, "http://127.0.0.1:8080"},
		{"0.0.0.0:443", true, "https://127.0.0.1:443"},
		{":80", false, "http://127.0.0.1:80"},
		{"[::]:80", false, "http://[::1]:80"},
		{"[fd00::1]:80", false, "http://[fd00::1]:80"},
		{"10.0.0.1:80", false, "http://10.0.0.1:80"},
		{"127.0.0.1:0", false, ""},
		{"127.0.0.1", false, ""},
	} {
		got, err := LocalURL(c.addr, c.tls)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("LocalURL(%q, %v) = %q, %v; want %q", c.addr, c.tls, got, err, c.want)
		}
	}
}

// TestHealth: a server is healthy if /readyz says so, and only then.
func TestHealth(t *testing.T) {
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/base/readyz" {
			status = http.StatusTeapot
		}
		w.Header().Set(wire.DepotHeader, "d1")
		w.WriteHeader(status)
	}))
	if depot, err := Health(t.Context(), s.URL+"/base", s.Client()); err != nil || depot != "d1" {
		t.Errorf("a ready server: depot %q, error %v, want d1 and no error", depot, err)
	}
	status = http.StatusServiceUnavailable
	depot, err := Health(t.Context(), s.URL+"/base", s.Client())
	if err == nil || !strings.Contains(err.Error(), "503") || depot != "d1" {
		t.Errorf("a server that stops: depot %q, error %v, want d1 and an error with 503", depot, err)
	}
	if IsRefused(err) {
		t.Error("a server that stops refuses connections, want that it does not")
	}
	s.Close()
	if _, err := Health(t.Context(), s.URL, s.Client()); !IsRefused(err) {
		t.Errorf("a server that is gone: error %v, want a refused connection", err)
	}
}

// TestListenTaken: the error for a port in use says how to get another one, on every
// system.
func TestListenTaken(t *testing.T) {
	everywhere := func(string) error { return nil }
	ln, err := Listen(t.Context(), "127.0.0.1:0", everywhere)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	second, err := Listen(t.Context(), ln.Addr().String(), everywhere)
	if err == nil {
		_ = second.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "--listen 127.0.0.1:0") {
		t.Errorf("a second server at %s: error %v, want one that names --listen 127.0.0.1:0", ln.Addr(), err)
	}
}

package server

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/layout"
)

// TestOrigins: a page of another site can read nothing unless its origin is
// configured.
func TestOrigins(t *testing.T) {
	const profiler, evil = "https://profiler.example", "https://evil.example"
	w := newWorld(t, Config{})
	listed := newServer(t, Config{Depot: w.d, Origins: []string{"https://Profiler.example/"}, WorkerToken: "for tests only"})
	all := newServer(t, Config{Depot: w.d, Origins: []string{"*"}, WorkerToken: "for tests only"})
	path := w.small.path(t, layout.BreakpadTree)
	for _, tt := range []struct {
		name, target string
		s            *Server
		headers      []string
		status       int
		allow        string
	}{
		{"no list", path, w.s, []string{"Origin: " + profiler}, 200, ""},
		{"no list, cross-site", path, w.s, []string{"Origin: " + profiler, "Sec-Fetch-Site: cross-site"}, 403, ""},
		{"no list, an image", path, w.s, []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}, 403, ""},
		{"no list, same origin", path, w.s, []string{"Sec-Fetch-Site: same-origin"}, 200, ""},
		{"no list, typed by a person", path, w.s, []string{"Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"}, 200, ""},
		{"listed", path, listed, []string{"Origin: " + profiler}, 200, profiler},
		{"listed, cross-site", path, listed, []string{"Origin: " + profiler, "Sec-Fetch-Site: cross-site"}, 200, profiler},
		{"listed, a miss", gonePath, listed, []string{"Origin: " + profiler, "Sec-Fetch-Site: cross-site"}, 404, profiler},
		{"listed, SymCache", symCachePath, listed, []string{"Origin: " + profiler}, 404, profiler},
		{"not listed", path, listed, []string{"Origin: " + evil}, 200, ""},
		{"not listed, cross-site", path, listed, []string{"Origin: " + evil, "Sec-Fetch-Site: cross-site"}, 403, ""},
		{"another scheme", path, listed, []string{"Origin: http://profiler.example"}, 200, ""},
		{"two origins", path, listed, []string{"Origin: " + profiler, "Origin: " + evil}, 200, ""},
		{"no origin", path, listed, nil, 200, ""},
		{"all", path, all, []string{"Origin: " + evil, "Sec-Fetch-Site: cross-site"}, 200, evil},
		{"own path", "/metadata?key=buildid&value=00", all, []string{"Origin: " + evil}, 200, ""},
		{"own path, cross-site", "/metrics", all, []string{"Origin: " + evil, "Sec-Fetch-Site: cross-site"}, 403, ""},
		{"a link to the page", "/", listed, []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 200, ""},
		{"the page in a frame", "/", listed, []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403, ""},
		{"job API", "/-/worker/lease", all, []string{"Origin: " + evil}, 401, ""},
		{"job API, cross-site", "/-/worker/lease", all, []string{"Origin: " + evil, "Sec-Fetch-Site: cross-site"}, 403, ""},
	} {
		for i := range 3 { // from memory too
			r := ask(tt.s, "GET", tt.target, tt.headers...)
			if r.status != tt.status || r.header.Get("Access-Control-Allow-Origin") != tt.allow {
				t.Errorf("%s, time %d: GET %s: status %d, allowed origin %q, want %d, %q", tt.name, i, tt.target, r.status,
					r.header.Get("Access-Control-Allow-Origin"), tt.status, tt.allow)
			}
			if vary := strings.Contains(r.header.Get("Vary"), "Origin"); r.status != 403 && vary != (tt.s != w.s && tt.target != "/" && !strings.HasPrefix(tt.target, "/m") && !strings.HasPrefix(tt.target, "/-")) {
				t.Errorf("%s: GET %s: Vary is %q, want Origin exactly where the answer depends on it", tt.name, tt.target, r.header.Get("Vary"))
			}
		}
		r := ask(tt.s, "OPTIONS", tt.target, append(tt.headers, "Access-Control-Request-Method: GET")...)
		if got := r.header.Get("Access-Control-Allow-Origin"); got != tt.allow {
			t.Errorf("%s: OPTIONS %s: status %d, allowed origin %q, want %q", tt.name, tt.target, r.status, got, tt.allow)
		}
		if got := r.header.Get("Access-Control-Allow-Methods"); (got == "GET, HEAD") != (tt.allow != "") {
			t.Errorf("%s: OPTIONS %s: allowed methods %q, want GET and HEAD exactly for allowed origins", tt.name, tt.target, got)
		}
	}
	for _, bad := range []string{"", "profiler.example", "https://", "https://a/b", "https://u@a", "https://a?b", "**"} {
		if _, err := New(Config{Depot: w.d, Origins: []string{bad}}); err == nil {
			t.Errorf("origin %q is accepted, want an error", bad)
		}
	}
}

// elsewhere is a listener that claims to be on an address that other machines
// reach.
type elsewhere struct{ net.Listener }

func (elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

// TestHostsEverywhere: configured host names are also enforced on public
// listeners; otherwise a page could read from an intranet server by DNS
// rebinding.
func TestHostsEverywhere(t *testing.T) {
	w := newWorld(t, Config{})
	path := w.small.path(t, layout.BreakpadTree)
	for _, tt := range []struct {
		hosts  []string
		host   string
		status int
	}{
		{[]string{"symbols.example"}, "symbols.example", 200}, {[]string{"symbols.example"}, "SYMBOLS.example.:8080", 200},
		{[]string{"symbols.example"}, "evil.example", 404}, {[]string{"symbols.example"}, "192.0.2.1:80", 200}, {[]string{"symbols.example"}, "[2001:db8::1]", 200},
		{[]string{"symbols.example"}, "localhost:80", 200}, {nil, "evil.example", 200},
	} {
		s := newServer(t, Config{Depot: w.d, Public: true, Hosts: tt.hosts})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, elsewhere{ln}) }()
		c := dial(t, ln.Addr().String())
		for _, p := range []string{path, "/?q=small*"} {
			c.send("GET " + p + " HTTP/1.1\r\nHost: " + tt.host + "\r\n\r\n")
			if r := c.reply(http.MethodGet); r.status != tt.status {
				t.Errorf("hosts %q: GET %s with Host: %s: status %d, want %d", tt.hosts, p, tt.host, r.status, tt.status)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
}

package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

// symbolicatePaths are the symbolication APIs, and a body that each of them answers.
var symbolicatePaths = map[string]string{
	"/symbolicate/v5":      `{"memoryMap":[],"stacks":[[[-1,1]]]}`,
	"/symbolicate/v4":      `{"memoryMap":[],"stacks":[[[-1,1]]],"version":4}`,
	"/symbolicate":         `{"modules":[],"stacktraces":[{"frames":[{"instruction_addr":"0x1"}]}]}`,
	"/team/symbolicate/v5": `{"memoryMap":[],"stacks":[[[-1,1]]]}`,
}

// TestSymbolicateOrigins: scripts of configured origins, and no others, may use the
// symbolication APIs and read their answers, also those of errors.
func TestSymbolicateOrigins(t *testing.T) {
	const profiler, evil = "https://profiler.example", "https://evil.example"
	d := openDepot(t, depot.Options{})
	server := func(origins ...string) *Server {
		return newServer(t, Config{Depot: d, Origins: origins, Prefixes: []string{"/team"}})
	}
	none, listed, all := server(), server("https://Profiler.example/"), server("*")
	for path, body := range symbolicatePaths {
		for _, tt := range []struct {
			name   string
			s      *Server
			origin string
			site   string // Sec-Fetch-Site
			status int
			allow  string
			varies bool
		}{
			{name: "no origins are configured", s: none, origin: profiler, status: 200},
			{name: "no origins are configured, cross-site", s: none, origin: profiler, site: "cross-site", status: 403},
			{name: "own page", s: none, origin: "https://symbols.example", site: "same-origin", status: 200},
			{name: "no browser", s: listed, status: 200, varies: true},
			{name: "listed", s: listed, origin: profiler, status: 200, allow: profiler, varies: true},
			{name: "listed, cross-site", s: listed, origin: profiler, site: "cross-site", status: 200, allow: profiler, varies: true},
			{name: "not listed", s: listed, origin: evil, status: 200, varies: true},
			{name: "not listed, cross-site", s: listed, origin: evil, site: "cross-site", status: 403},
			{name: "another scheme", s: listed, origin: "http://profiler.example", site: "cross-site", status: 403},
			{name: "a subdomain", s: listed, origin: "https://x.profiler.example", site: "cross-site", status: 403},
			{name: "all", s: all, origin: evil, site: "cross-site", status: 200, allow: evil, varies: true},
		} {
			var headers []string
			if tt.origin != "" {
				headers = append(headers, "Origin: "+tt.origin)
			}
			if tt.site != "" {
				headers = append(headers, "Sec-Fetch-Site: "+tt.site)
			}
			check := func(what string, got reply, status int) {
				t.Helper()
				if got.status != status || got.header.Get("Access-Control-Allow-Origin") != tt.allow {
					t.Errorf("%s: %s %s: status %d, allowed origin %q, body %.100q; want %d, %q", tt.name, what, path, got.status,
						got.header.Get("Access-Control-Allow-Origin"), got.body, status, tt.allow)
				}
				if varies := strings.Contains(got.header.Get("Vary"), "Origin"); varies != tt.varies {
					t.Errorf("%s: %s %s: Vary is %q, want Origin exactly where the answer depends on it", tt.name, what, path, got.header.Get("Vary"))
				}
				if got.header.Get("Access-Control-Allow-Credentials") != "" {
					t.Errorf("%s: %s %s: credentials of the browser are allowed, want never", tt.name, what, path)
				}
			}
			errorStatus := func(status int) int {
				if tt.status == http.StatusForbidden {
					return tt.status // comes first
				}
				return status
			}
			check("POST", askBody(tt.s, "POST", path, body, headers...), tt.status)
			check("POST of no JSON", askBody(tt.s, "POST", path, "{", headers...), errorStatus(400))
			check("GET", askBody(tt.s, "GET", path, "", headers...), errorStatus(405))
			pre := askBody(tt.s, "OPTIONS", path, "", append(headers, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type")...)
			check("OPTIONS", pre, errorStatus(204))
			methods, names, allow := "", "", ""
			if tt.allow != "" {
				methods, names = "POST", "*"
			}
			if tt.status == http.StatusOK {
				allow = "POST, OPTIONS"
			}
			if h := pre.header; h.Get("Access-Control-Allow-Methods") != methods || h.Get("Access-Control-Allow-Headers") != names || h.Get("Allow") != allow {
				t.Errorf("%s: OPTIONS %s: methods %q, headers %q, Allow %q; want %q, %q, %q", tt.name, path,
					h.Get("Access-Control-Allow-Methods"), h.Get("Access-Control-Allow-Headers"), h.Get("Allow"), methods, names, allow)
			}
		}
	}
}

// TestSymbolicateOriginsGuarded: a browser asks with OPTIONS before it sends a token;
// the answer is the same with any token, and POST needs a right.
func TestSymbolicateOriginsGuarded(t *testing.T) {
	const profiler = "https://profiler.example"
	g := newGuarded(t, auth.PolicyConfig{Demand: true}, Config{Origins: []string{profiler}})
	s := newServer(t, Config{Depot: g.d, Gate: g.s.cfg.Gate, Origins: []string{profiler}, Prefixes: []string{"/team"}})
	for path, body := range symbolicatePaths {
		for _, tt := range []struct {
			name, before string
			header       []string
			status       int
		}{
			{"no token", "", nil, 401},
			{"a token in a header", "", []string{bearer(g.ours)}, 200},
			{"a token in the path", "/t/" + g.ours, nil, 200},
			{"an unknown token in the path", "/t/" + g.ours[:len(g.ours)-8] + "00000000", nil, 401},
		} {
			headers := append([]string{"Origin: " + profiler, "Sec-Fetch-Site: cross-site"}, tt.header...)
			pre := askBody(s, "OPTIONS", tt.before+path, "", append(headers, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization, content-type")...)
			if h := pre.header; pre.status != 204 || h.Get("Access-Control-Allow-Origin") != profiler || h.Get("Access-Control-Allow-Methods") != "POST" || h.Get("Access-Control-Allow-Headers") != "*" {
				t.Errorf("%s: OPTIONS %s: status %d, origin %q, methods %q, headers %q; want 204, %q, POST, *", tt.name, path, pre.status,
					h.Get("Access-Control-Allow-Origin"), h.Get("Access-Control-Allow-Methods"), h.Get("Access-Control-Allow-Headers"), profiler)
			}
			got := askBody(s, "POST", tt.before+path, body, headers...)
			if got.status != tt.status {
				t.Errorf("%s: POST %s: status %d, body %.100q; want %d", tt.name, path, got.status, got.body, tt.status)
			}
			if allowed := got.header.Get("Access-Control-Allow-Origin"); tt.status == 200 && allowed != profiler {
				t.Errorf("%s: POST %s: allowed origin %q, want %q", tt.name, path, allowed, profiler)
			}
		}
	}
}

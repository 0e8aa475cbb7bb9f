package server

import (
	"strings"
	"testing"
)

// TestDocsAreOpen: on a server that demands credentials, everybody reads the documentation,
// and gets nothing else by it; who is signed in finds the other pages around it.
func TestDocsAreOpen(t *testing.T) {
	w := newSignInWorld(t, Config{Prefixes: []string{"corp"}})
	b := newTab(t, w.s)
	for _, target := range []string{"/-/docs", "/-/docs/retention", "/-/docs/start/windbg", "/-/docs?q=windbg", "/corp/-/docs/retention"} {
		for _, header := range []string{browser, "Accept: */*", "Authorization: Bearer wrong", "Authorization: Basic YWxpY2U6d3Jvbmc="} {
			r := b.get(target, header)
			if r.status != 200 || !strings.Contains(r.body, "Sign in</a>") || strings.Contains(r.body, `<details`) || r.header.Get("Www-Authenticate") != "" {
				t.Errorf("GET %s with %q: status %d, %q; want the page, with a link to the sign-in and no others", target, header, r.status, r.header["Www-Authenticate"])
			}
		}
	}
	if r := b.get("/corp/-/docs"); !strings.Contains(r.body, `href="/corp/-/docs/start/windbg"`) || strings.Contains(r.body, `href="/-/`) {
		t.Error("behind a prefix the documentation has links without it")
	}
	if r := b.get("/-/docs/nope"); r.status != 404 {
		t.Errorf("GET /-/docs/nope: status %d, want 404", r.status)
	}
	if r := b.post("/-/docs", nil); r.status != 405 {
		t.Errorf("POST /-/docs: status %d, want 405", r.status)
	}
	if r := b.get("/t/" + w.admin + "/-/docs"); r.status != 404 {
		t.Errorf("GET /t/TOKEN/-/docs: status %d, want 404: pages show their address", r.status)
	}
	in := w.in(t, "alice", "secret")
	if r := in.get("/-/docs"); r.status != 200 || !strings.Contains(r.body, "alice") || !strings.Contains(r.body, `<details`) {
		t.Errorf("signed in: status %d, want the page with the navigation", r.status)
	}
}

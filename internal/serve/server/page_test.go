package server

import (
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
)

const browser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

func TestPage(t *testing.T) {
	w := newWorld(t, Config{})
	r := ask(w.s, "GET", "/", browser)
	if r.status != 200 || r.header.Get("Content-Type") != "text/html; charset=utf-8" || !slices.Contains(r.header.Values("Vary"), "Accept") ||
		r.header.Get("Cache-Control") != "no-store" || r.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf(`got %d, %v; want 200, Get("Content-Type") "text/html; charset=utf-8", Vary with "Accept", Get("Cache-Control") "no-store", Get("Access-Control-Allow-Origin") ""`, r.status, r.header)
	}
	connect, empty := ask(w.s, "GET", "/-/connect", browser).body, ask(newServer(t, withWeb(newDepot(t), Config{})), "GET", "/", browser).body
	for _, c := range web.Clients("http://localhost", false) {
		for what, body := range map[string]string{"Connect": connect, "an empty depot": empty} {
			if !strings.Contains(body, html.EscapeString(c.Text)) && !strings.Contains(html.UnescapeString(body), c.Text) {
				t.Errorf("the page of %s does not say %q", what, c.Text)
			}
		}
	}
	for _, want := range []string{`<html lang="en">`, `<label class="away" for="q">`, `<a href="/-/connect">Connect a tool</a>`, "app &lt;1&gt;", "8 files", "v1.2.3", `name="viewport"`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, no := range []string{"<script>", "javascript:", " style=", "<style", " onclick", "//fonts", "https://"} {
		if strings.Contains(r.body, no) {
			t.Errorf("the page has %q, want it nowhere", no)
		}
	}
	if policy := r.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "style-src 'self'") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q, want one that allows nothing but this server's assets", policy)
	}
	for _, m := range regexp.MustCompile(`(?:href|src)="(/-/assets/[^"]+)"`).FindAllStringSubmatch(r.body, -1) {
		if a := ask(w.s, "GET", m[1]); a.status != 200 || !strings.Contains(a.header.Get("Cache-Control"), "immutable") || a.header.Get("Content-Type") == "" {
			t.Errorf("GET %s: status %d, %v; want 200, immutable, with a type", m[1], a.status, a.header)
		}
	}
	head := ask(w.s, "HEAD", "/", browser)
	if head.status != 200 || head.header.Get("Content-Length") != itoa(int64(len(r.body))) || head.body != "" {
		t.Errorf("HEAD: status %d, length %s, want 200 and %d without a body", head.status, head.header.Get("Content-Length"), len(r.body))
	}
	https := ask(w.s, "GET", "/symbols", browser, "X-Forwarded-Proto: https")
	if !strings.Contains(https.body, "https://localhost/symbols") || !strings.Contains(https.body, `action="/-/search"`) {
		t.Error("behind a proxy and a prefix the page names another address")
	}
}

// follow sends requests until the answer is not a redirect.
func follow(t *testing.T, s *Server, target string, headers ...string) reply {
	t.Helper()
	for range 5 {
		r := ask(s, "GET", target, append(headers, browser)...)
		if r.status != 303 {
			return r
		}
		target = r.header.Get("Location")
	}
	t.Fatalf("GET %s: more than 5 redirects", target)
	return reply{}
}

// TestSearch: a search at the root leads to the pages of the objects, whose links
// download them.
func TestSearch(t *testing.T) {
	w := newWorld(t, Config{})
	find := func(q string) reply { return follow(t, w.s, "/?q="+url.QueryEscape(q)) }
	object := regexp.MustCompile(`href="(/-/file/[0-9a-f]{64})"`)
	link := regexp.MustCompile(`<a class="button" href="([^"]+)" download>`)
	for q, want := range map[string]held{
		"hello-x64.pdb": w.pdb, "HELLO-*.exe": w.exe, smallID: w.small, string(w.elf.obj.BuildID): w.debug, "a b*": w.space,
	} {
		r := find(q)
		pages := []string{r.body}
		for _, m := range object.FindAllStringSubmatch(r.body, -1) {
			pages = append(pages, ask(w.s, "GET", m[1], browser).body)
		}
		var bodies []string
		for _, p := range pages {
			for _, m := range link.FindAllStringSubmatch(p, -1) {
				file := ask(w.s, "GET", html.UnescapeString(m[1]))
				if file.status != 200 {
					t.Errorf("%s: the link %s: %d, want 200", q, m[1], file.status)
				}
				bodies = append(bodies, file.body)
			}
		}
		if !slices.Contains(bodies, string(want.body)) {
			t.Errorf("%s: %d files, the wanted one is not there", q, len(bodies))
		}
	}
	if r := find("no such thing"); r.status != 200 || !strings.Contains(r.body, "No matching files") {
		t.Errorf(`find("no such thing"): %d, %q; want 200, one with "No matching files"`, r.status, r.body)
	}
	const evil = `"><script>alert(1)</script>`
	if r := find(evil); strings.Contains(r.body, "<script>") || !strings.Contains(r.body, html.EscapeString(evil)) {
		t.Error("the query is not escaped")
	}
	for q, status := range map[string]int{
		strings.Repeat("x", 100000): 400, "\xff\xfe\x00": 200, "****************************": 200, "%": 200, "'; DROP TABLE object; --": 200, "../../etc/passwd": 200,
	} {
		if r := find(q); r.status != status {
			t.Errorf("%.20q: find: %d, want %d", q, r.status, status)
		}
	}
	if r := ask(w.s, "GET", "/?q=hello*"); r.header.Get("Content-Type") == "text/html; charset=utf-8" {
		t.Error("HTML for a client that did not ask for it")
	}
	if got := layout.Path(w.small.obj); got != w.small.path(t, layout.BreakpadTree)[1:] {
		t.Errorf("Path: %v, want w.small.path(t, layout.BreakpadTree)[1:]", got)
	}
}

// TestSearchJSON: programs that accept JSON get the found objects.
func TestSearchJSON(t *testing.T) {
	w := newWorld(t, Config{})
	for _, c := range []struct {
		target, accept string
		status         int
		names          []string // nil: not JSON
	}{
		{"/?q=hello-x64.pdb", "application/json", 200, []string{"hello-x64.pdb"}},
		{"/?q=hello-x64.*", "application/json, */*;q=0.1", 200, []string{"hello-x64.exe", "hello-x64.pdb"}},
		{"/?q=nothing", "application/json", 200, []string{}},
		{"/?q=hello-x64.*&from=2", "application/json", 200, []string{}},
		{"/?q=hello-x64.pdb", "text/html,application/json", 303, nil},
		{"/?q=hello-x64.pdb", "*/*", 200, nil},
		{"/", "application/json", 200, nil},
	} {
		r := ask(w.s, "GET", c.target, "Accept: "+c.accept)
		isJSON := r.header.Get("Content-Type") == "application/json"
		if r.status != c.status || isJSON != (c.names != nil) {
			t.Errorf("GET %s, Accept %s: status %d, type %s; want %d, JSON %v", c.target, c.accept, r.status, r.header.Get("Content-Type"), c.status, c.names != nil)
		}
		if !isJSON {
			continue
		}
		var got struct {
			Query   string
			Results []struct{ Name, Kind, Sha256 string }
			More    bool
		}
		if err := json.Unmarshal([]byte(r.body), &got); err != nil {
			t.Errorf("GET %s: %v in %s", c.target, err, r.body)
		}
		names := []string{}
		for _, f := range got.Results {
			names = append(names, f.Name)
		}
		slices.Sort(names)
		if !slices.Equal(names, c.names) || got.More || r.header.Get("Vary") != "Accept" {
			t.Errorf("GET %s: names %q, more %v, Vary %q; want %q, false, Accept", c.target, names, got.More, r.header.Get("Vary"), c.names)
		}
	}
}

// TestNotFoundPage: a browser gets a page for an address that names nothing. Other
// clients, and symbol paths, keep the short text.
func TestNotFoundPage(t *testing.T) {
	w := newWorld(t, Config{})
	g := newGuarded(t, demand, Config{})
	for _, c := range []struct {
		s            *Server
		target, home string // home is "" for the short text
		headers      []string
	}{
		{w.s, "/nothing", "/", []string{browser}},
		{w.s, "/a/b", "/", []string{browser}},
		{w.s, "/symbols/nothing", "/", []string{browser}},
		{w.s, "/nothing", "", []string{"Accept: */*"}},
		{w.s, "/nothing", "", nil},
		{w.s, "/a.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/a.pdb", "", []string{browser}},
		{g.s, "/t/" + g.all + "/nothing", "./", []string{browser}},
		{g.s, "/t/" + g.all + "/a/b", "./../", []string{browser}},
	} {
		r := ask(c.s, "GET", c.target, c.headers...)
		if r.status != 404 {
			t.Errorf("GET %s: status %d, want 404", c.target, r.status)
		}
		if c.home == "" {
			if r.body != "not found\n" || r.header.Get("Content-Type") != plainText[0] {
				t.Errorf("GET %s: type %s, body %q; want %s, \"not found\\n\"", c.target, r.header.Get("Content-Type"), r.body, plainText[0])
			}
			continue
		}
		link := `<a href="` + c.home + `">Home</a>`
		if r.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(r.body, "<h1") || !strings.Contains(r.body, link) || strings.Contains(r.body, g.all) {
			t.Errorf("GET %s: type %s, body %s; want a page with a heading, the link %s and no token", c.target, r.header.Get("Content-Type"), r.body, link)
		}
	}
}

package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/layout"
)

const browser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

func TestPage(t *testing.T) {
	w := newWorld(t, Config{Version: "v1.2.3"})
	r := ask(w.s, "GET", "/", browser)
	if r.status != 200 || r.header.Get("Content-Type") != "text/html; charset=utf-8" || r.header.Get("Vary") != "Accept" ||
		r.header.Get("Cache-Control") != "no-store" || r.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf(`got %d, %v; want 200, Get("Content-Type") "text/html; charset=utf-8", Get("Vary") "Accept", Get("Cache-Control") "no-store", Get("Access-Control-Allow-Origin") ""`, r.status, r.header)
	}
	for _, c := range clients("http://localhost", false) {
		if !strings.Contains(r.body, html.EscapeString(c.Text)) && !strings.Contains(html.UnescapeString(r.body), c.Text) {
			t.Errorf("the page does not say %q", c.Text)
		}
	}
	for _, want := range []string{`<html lang="en">`, `<label for="q">`, "app &lt;1&gt;", "8 objects", "v1.2.3", `name="viewport"`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, no := range []string{"<script", "javascript:", " style=", " onclick", "//fonts", "https://"} {
		if strings.Contains(r.body, no) {
			t.Errorf("the page has %q, want it nowhere", no)
		}
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(r.body)
	if style == nil {
		t.Fatal("the page has no style, want one")
	}
	sum := sha256.Sum256([]byte(style[1]))
	policy := r.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
		t.Errorf("the policy %q does not allow the page's style", policy)
	}
	head := ask(w.s, "HEAD", "/", browser)
	if head.status != 200 || head.header.Get("Content-Length") != itoa(int64(len(r.body))) || head.body != "" {
		t.Errorf("HEAD: status %d, length %s, want 200 and %d without a body", head.status, head.header.Get("Content-Length"), len(r.body))
	}
	https := ask(w.s, "GET", "/symbols", browser, "X-Forwarded-Proto: https")
	if !strings.Contains(https.body, "https://localhost/symbols") || !strings.Contains(https.body, `action="/symbols/"`) {
		t.Error("behind a proxy and a prefix the page names another address")
	}
}

// TestSearch: search results are linked, and the links work.
func TestSearch(t *testing.T) {
	w := newWorld(t, Config{})
	find := func(q string) reply { return ask(w.s, "GET", "/?q="+url.QueryEscape(q), browser) }
	for q, want := range map[string]held{
		"hello-x64.pdb": w.pdb, "HELLO-*.exe": w.exe, smallID: w.small, string(w.elf.obj.BuildID): w.debug, "a b*": w.space,
	} {
		r := find(q)
		var bodies []string
		for _, m := range regexp.MustCompile(`<a href="(/[^"]+)" download="([^"]+)">`).FindAllStringSubmatch(r.body, -1) {
			file := ask(w.s, "GET", html.UnescapeString(m[1]))
			if file.status != 200 {
				t.Errorf("%s: the link %s: %d, want 200", q, m[1], file.status)
			}
			bodies = append(bodies, file.body)
		}
		if !slices.Contains(bodies, string(want.body)) {
			t.Errorf("%s: %d files, the wanted one is not there", q, len(bodies))
		}
	}
	if r := find("no such thing"); r.status != 200 || !strings.Contains(r.body, "Nothing found") {
		t.Errorf(`find("no such thing"): %d, %q; want 200, one with "Nothing found"`, r.status, r.body)
	}
	const evil = `"><script>alert(1)</script>`
	if r := find(evil); strings.Contains(r.body, "<script") || !strings.Contains(r.body, html.EscapeString(evil)) {
		t.Error("the query is not escaped")
	}
	for _, q := range []string{strings.Repeat("x", 100000), "\xff\xfe\x00", "****************************", "%", "'; DROP TABLE object; --", "../../etc/passwd"} {
		if r := find(q); r.status != 200 {
			t.Errorf("%.20q: find: %d, want 200", q, r.status)
		}
	}
	if r := ask(w.s, "GET", "/?q=hello*"); r.header.Get("Content-Type") == "text/html; charset=utf-8" {
		t.Error("HTML for who did not ask for it")
	}
	if got := layout.Path(w.small.obj); got != w.small.path(t, layout.BreakpadTree)[1:] {
		t.Errorf("Path: %v, want w.small.path(t, layout.BreakpadTree)[1:]", got)
	}
}

// TestSearchWider: a search without results offers the names that begin with the
// query.
func TestSearchWider(t *testing.T) {
	w := newWorld(t, Config{})
	r := ask(w.s, "GET", "/?q=hel", browser)
	const link = `<a href="/?q=hel%2a">hel*</a>`
	if r.status != 200 || !strings.Contains(r.body, "Nothing found") || !strings.Contains(r.body, link) {
		t.Errorf("GET /?q=hel: status %d, body %s; want 200 and the link %s", r.status, r.body, link)
	}
	if r := ask(w.s, "GET", "/?q=hel%2a", browser); !strings.Contains(r.body, "hello-x64.pdb") || strings.Contains(r.body, "hel**") {
		t.Errorf("GET /?q=hel%%2a: body %s; want hello-x64.pdb and no wider search", r.body)
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
		{"/?q=hello-x64.pdb", "text/html,application/json", 200, nil},
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
		link := `<a href="` + c.home + `">Search`
		if r.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(r.body, "<h1>") || !strings.Contains(r.body, link) || strings.Contains(r.body, g.all) {
			t.Errorf("GET %s: type %s, body %s; want a page with a heading, the link %s and no token", c.target, r.header.Get("Content-Type"), r.body, link)
		}
	}
}

// TestSearchPages: results that do not fit on one page have further ones.
func TestSearchPages(t *testing.T) {
	d := newDepot(t)
	tx, err := d.Begin(t.Context(), depot.TxInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	const files = 2*pageResults + 7
	for i := range files {
		name := fmt.Sprintf("n%03d.pdb", i)
		if _, err := tx.Add(t.Context(), depot.Source{Path: name, Content: content{bytes.NewReader(sym(fmt.Sprintf("%032X1", i+1), name, "", 200))}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, Config{Depot: d})
	seen := map[string]bool{}
	next := "/?q=n*"
	for _, want := range []string{"Results 1 to 200", "Results 201 to 400", "Results 401 to 407"} {
		r := ask(s, "GET", next, browser)
		if !strings.Contains(r.body, want) {
			t.Fatalf("GET %s: no %q", next, want)
		}
		for _, m := range regexp.MustCompile(`download="([^"]+)"`).FindAllStringSubmatch(r.body, -1) {
			seen[m[1]] = true
		}
		next = ""
		if m := regexp.MustCompile(`<a href="([^"]+)" rel="next">`).FindStringSubmatch(r.body); m != nil {
			next = html.UnescapeString(m[1])
		}
	}
	if len(seen) != files || next != "" {
		t.Errorf("%d of %d files on the pages; after the last one %q; want %v and %q", len(seen), files, next, files, "")
	}
	for _, from := range []string{"-1", "x", "999999999999999999999", "5000"} {
		if r := ask(s, "GET", "/?q=n*&from="+from, browser); r.status != 200 {
			t.Errorf("from=%s: status %d, want 200", from, r.status)
		}
	}
}

// Where access is restricted, the settings have a place for a token.
func TestClientsWithToken(t *testing.T) {
	text := StartText("http://localhost:1/symbols", true)
	for _, want := range []string{
		"symdepot serves symbols at http://localhost:1/symbols\n", `srv*C:\symbols*http://localhost:1/t/TOKEN/symbols`, "export DEBUGINFOD_URLS=http://localhost:1/symbols\n",
		"echo 'Authorization: Bearer TOKEN'", "--symbols-url http://localhost:1/t/TOKEN/symbols",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q: got %s, want one with %q", want, text, want)
		}
	}
	if open := StartText("http://localhost:1", false); strings.Contains(open, "TOKEN") || !strings.Contains(open, "set debuginfod enabled on") {
		t.Errorf("an open server's text, want no %q in it and %q in it\n%s", "TOKEN", "set debuginfod enabled on", open)
	}
	if s := AccessText("http://localhost:1"); !strings.Contains(s, "symdepot token new") {
		t.Errorf("no way to a token: %s, want %q in it", s, "symdepot token new")
	}
}

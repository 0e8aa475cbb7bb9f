package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
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
		t.Errorf("%d %v", r.status, r.header)
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
			t.Errorf("the page has %q", no)
		}
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(r.body)
	if style == nil {
		t.Fatal("no style")
	}
	sum := sha256.Sum256([]byte(style[1]))
	policy := r.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
		t.Errorf("the policy %q does not allow the page's style", policy)
	}
	head := ask(w.s, "HEAD", "/", browser)
	if head.status != 200 || head.header.Get("Content-Length") != itoa(int64(len(r.body))) || head.body != "" {
		t.Errorf("HEAD: %d, length %s of %d", head.status, head.header.Get("Content-Length"), len(r.body))
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
				t.Errorf("%s: the link %s: %d", q, m[1], file.status)
			}
			bodies = append(bodies, file.body)
		}
		if !slices.Contains(bodies, string(want.body)) {
			t.Errorf("%s: %d files, the wanted one is not there", q, len(bodies))
		}
	}
	if r := find("no such thing"); r.status != 200 || !strings.Contains(r.body, "Nothing found") {
		t.Errorf("%d", r.status)
	}
	const evil = `"><script>alert(1)</script>`
	if r := find(evil); strings.Contains(r.body, "<script") || !strings.Contains(r.body, html.EscapeString(evil)) {
		t.Error("the query is not escaped")
	}
	for _, q := range []string{strings.Repeat("x", 100000), "\xff\xfe\x00", "****************************", "%", "'; DROP TABLE object; --", "../../etc/passwd"} {
		if r := find(q); r.status != 200 {
			t.Errorf("%.20q: %d", q, r.status)
		}
	}
	if r := ask(w.s, "GET", "/?q=hello*"); r.header.Get("Content-Type") == "text/html; charset=utf-8" {
		t.Error("HTML for who did not ask for it")
	}
	if got := layout.Path(w.small.obj); got != w.small.path(t, layout.BreakpadTree)[1:] {
		t.Error(got)
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
		t.Errorf("%d of %d files on the pages; after the last one %q", len(seen), files, next)
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
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if open := StartText("http://localhost:1", false); strings.Contains(open, "TOKEN") || !strings.Contains(open, "set debuginfod enabled on") {
		t.Errorf("an open server's text:\n%s", open)
	}
	if s := AccessText("http://localhost:1"); !strings.Contains(s, "symdepot token new") {
		t.Errorf("no way to a token: %s", s)
	}
}

package pages

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/book"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/webtest"
)

// TestRoutesNameDocs: the pages of the navigation name the page of the documentation that
// explains them, and each page that a route names exists.
func TestRoutesNameDocs(t *testing.T) {
	t.Parallel()
	for _, rt := range New(web.New(web.Config{})).table {
		if rt.docs == "" && rt.nav != "" && rt.path[0] != "connect" { // that is explained by all quick starts
			t.Errorf("the page %v names no page of the documentation", rt.path)
		}
		if rt.docs != "" && book.Open().Page(rt.docs) == nil {
			t.Errorf("the page %v names docs/%s.md, which does not exist", rt.path, rt.docs)
		}
	}
}

// nobody is a client without credentials on a server that demands some.
var nobody = web.Principal{Anonymous: true}

// TestDocPages: everybody reads every page of the documentation, in the frame of the other
// pages; the addresses in it are those that the server answers.
func TestDocPages(t *testing.T) {
	t.Parallel()
	get := servePages(t, webtest.FilesDepot(t, "pdb/hello-x64.pdb"), &nobody)
	linked := regexp.MustCompile(` (?:href|src)="(/-/docs[^"#]*)`)
	ids := regexp.MustCompile(` id="([^"]*)"`)
	asked := map[string]bool{}
	var visit func(path string)
	visit = func(path string) {
		if asked[path] {
			return
		}
		asked[path] = true
		resp, text := get(http.MethodGet, path, "", http.NoBody)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s: status %d, want 200", path, resp.StatusCode)
			return
		}
		if strings.HasPrefix(path, "/-/docs/images/") {
			if resp.Header.Get("Content-Type") != "image/png" || !strings.Contains(resp.Header.Get("Cache-Control"), "max-age") {
				t.Errorf("GET %s: %v, want a PNG that browsers keep", path, resp.Header)
			}
			return
		}
		if resp.Header.Get("Content-Security-Policy") != pagePolicy || strings.Contains(text, " style=") {
			t.Errorf("GET %s: the policy %q, or a style in the page", path, resp.Header.Get("Content-Security-Policy"))
		}
		if strings.Contains(text, `class="help"`) || strings.Contains(text, `<details`) {
			t.Errorf("GET %s: a link to the documentation, or to pages that nobody may open", path)
		}
		var found []string
		for _, m := range ids.FindAllStringSubmatch(text, -1) {
			if slices.Contains(found, m[1]) {
				t.Errorf("GET %s: two elements have the id %s", path, m[1])
			}
			found = append(found, m[1])
		}
		for _, m := range linked.FindAllStringSubmatch(text, -1) {
			visit(m[1])
		}
	}
	visit("/-/docs")
	if len(asked) < len(book.Open().Pages()) {
		t.Errorf("%d addresses are linked, want the %d pages", len(asked), len(book.Open().Pages()))
	}
	_, text := get(http.MethodGet, "/-/docs/start/windbg", "", http.NoBody)
	for _, want := range []string{
		"<title>A developer with WinDbg or Visual Studio · symdepot</title>", `<button class="copy" type="button" data-copy="`,
		`<a href="/-/docs/start/windbg" aria-current="page">`, `<a href="/-/docs" rel="prev">`, `<a href="/-/docs/start/linux" rel="next">`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page for WinDbg lacks %q", want)
		}
	}
}

// TestUnknownDocs: an address that names no page of the documentation is answered with 404,
// in the frame of the pages, with a link to the documentation.
func TestUnknownDocs(t *testing.T) {
	t.Parallel()
	get := servePages(t, webtest.FilesDepot(t, "pdb/hello-x64.pdb"), &nobody)
	for _, path := range []string{
		"/-/docs/nope", "/-/docs/README", "/-/docs/retention.md", "/-/docs/Retention", "/-/docs/start", "/-/docs/start/nope", "/-/docs/start/windbg/x", "/-/docs/images/nope.png",
		"/-/docs/images/docs.go", "/-/docs/%2e%2e/%2e%2e/go.mod", "/-/docs/images/%2e%2e%2fdocs.go", "/-/docs/docs.go",
	} {
		resp, text := get(http.MethodGet, path, "", http.NoBody)
		if resp.StatusCode != http.StatusNotFound || !strings.Contains(text, `<p class="help"><a href="/-/docs">Help</a></p>`) {
			t.Errorf("GET %s: status %d, want 404 with a link to the documentation:\n%.300s", path, resp.StatusCode, text)
		}
	}
	if resp, _ := get(http.MethodPost, "/-/docs", "", http.NoBody); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST /-/docs: status %d, want 405", resp.StatusCode)
	}
}

// TestSearchDocs: the search shows hits with their headings, and no query is more than text.
func TestSearchDocs(t *testing.T) {
	t.Parallel()
	get := servePages(t, webtest.FilesDepot(t, "pdb/hello-x64.pdb"), &nobody)
	find := func(q string) (int, string) {
		resp, text := get(http.MethodGet, "/-/docs?q="+url.QueryEscape(q), "", http.NoBody)
		return resp.StatusCode, text
	}
	_, text := find("keep_last")
	for _, want := range []string{`<a href="/-/docs/retention#classes">Retention: which builds are kept › Classes</a>`, "<mark>keep_last</mark>", `value="keep_last"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the search lacks %q", want)
		}
	}
	if status, text := find(`zebra"><script>alert(1)</script>`); status != http.StatusOK || strings.Contains(text, "<script>") || !strings.Contains(text, "has all of these words") {
		t.Errorf("a query with HTML: status %d, want 200, no hit and no script:\n%s", status, text)
	}
	for _, q := range []string{"\x00", "\xff", "?", "(", strings.Repeat("a ", 100)} {
		if status, _ := find(q); status != http.StatusOK {
			t.Errorf("%q: status %d, want 200", q, status)
		}
	}
	if status, _ := find(strings.Repeat("x", book.MaxQuery+1)); status != http.StatusBadRequest {
		t.Errorf("a query of %d bytes: status %d, want 400", book.MaxQuery+1, status)
	}
	if _, text := find("  "); !strings.Contains(text, "Quick starts") {
		t.Error("a query without a word shows no list of pages, want the first page")
	}
}

// TestHelp: each page has a link to the page of the documentation that explains it.
func TestHelp(t *testing.T) {
	t.Parallel()
	all := web.Principal{Name: "all", Rights: auth.Rights{Admitted: true, All: true}}
	get := servePages(t, webtest.FilesDepot(t, "pdb/hello-x64.pdb"), &all)
	for path, want := range map[string][2]string{
		"/-/retention": {"/-/docs/retention", "Docs: Retention"}, "/-/trace": {"/-/docs/why", "Docs: Why does my debugger not find a file?"},
		"/-/jobs/99": {"/-/docs/monitoring", "Docs: What to watch, and why"}, "/-/connect": {"/-/docs", "Help"}, "/-/tokens": {"/-/docs/auth", "Docs: Authentication and authorization"},
	} {
		_, text := get(http.MethodGet, path, "", http.NoBody)
		if link := fmt.Sprintf(`<p class="help"><a href="%s">%s</a></p>`, want[0], want[1]); !strings.Contains(text, link) {
			t.Errorf("GET %s has no %s:\n%.2000s", path, link, text)
		}
	}
}

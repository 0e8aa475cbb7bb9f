package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	pdbID   = "F9EFE0B6AE7500394C4C44205044422E1" // of testdata/pdb/hello-x64.pdb
	pdbPath = "/hello-x64.pdb/" + pdbID + "/hello-x64.pdb"
	splitID = "9f3aa3c7c6a063a6af85834d732ce023ff2490f0" // of testdata/join/split
)

// object returns the address of the page of an object.
func (s *site) file(query string) string {
	s.t.Helper()
	status, _, body := s.get("/-/search?sort=added&q=" + url.QueryEscape(query))
	m := regexp.MustCompile(`/-/file/[0-9a-f]{64}`).Find(body)
	if status != 200 || m == nil {
		s.t.Fatalf("search %q: status %d, want 200 with a link to an object\n%s", query, status, body)
	}
	return s.url + string(m)
}

// TestWithoutScripts: home, search, object and download without a script. The SHA-256 of
// the download is the one on the page.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	p := newTab(t, true)
	p.open(s.url)
	p.do(chromedp.SendKeys(chromedp.CSS("#q"), "hello-x64.pdb"+kb.Enter), chromedp.WaitVisible(chromedp.CSS("table")))
	p.do(chromedp.Click(chromedp.CSS(`tbody th a`)), chromedp.WaitVisible(chromedp.CSS("a.button")))
	text, link := value(p, chromedp.Text(chromedp.CSS("main"))), value(p, chromedp.AttributeValue(chromedp.CSS("a.button"), "href")).Value
	status, _, body := s.get(link)
	sum := sha256.Sum256(body)
	if sha := hex.EncodeToString(sum[:]); status != 200 || !strings.Contains(text, sha) {
		t.Errorf("the download: status %d, SHA-256 %s, want 200 and the one on the page", status, sha)
	}
	if strings.Contains(text, "Copy") {
		t.Error("without scripts there are copy buttons, want none that is visible")
	}
}

// TestSpellings: an id in any spelling leads to the page of the one object that has it.
func TestSpellings(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	p := newTab(t)
	want := s.file("hello-x64.pdb")
	for _, q := range []string{
		pdbID, strings.ToLower(pdbID), "F9EFE0B6AE7500394C4C44205044422E", "F9EFE0B6-AE75-0039-4C4C-44205044422E", "{F9EFE0B6-AE75-0039-4C4C-44205044422E}", "{f9efe0b6-ae75-0039-4c4c-44205044422e}",
		"f9efe0b6-ae75-0039-4c4c-44205044422e-1", "0x" + pdbID, " " + pdbID + " ", pdbPath, "/he" + pdbPath, s.url + pdbPath, "hello-x64.pdb/" + pdbID, strings.TrimPrefix(want, s.url+"/-/file/"),
	} {
		p.open(s.url + "/-/search?q=" + url.QueryEscape(q))
		if got := p.at(); got != want {
			t.Errorf("the search for %q leads to %s, want %s", q, got, want)
		}
	}
}

// TestAskedUnder: each address on the page of an object gives what the page says.
func TestAskedUnder(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	for _, q := range []string{"hello-x64.pdb", "hello-x64.exe", "libprog.so", "app-arm64"} {
		page := s.file(q)
		_, _, body := s.get(page)
		sha := strings.TrimPrefix(page, s.url+"/-/file/")
		rows := regexp.MustCompile(`(?s)<td class="url"><a href="([^"]+)">.*?</td><td>(?:<a[^>]*>)?([^<]*)`).FindAllSubmatch(body, -1)
		if len(rows) == 0 {
			t.Errorf("%s: no address, want some\n%s", q, body)
		}
		for _, m := range rows {
			status, _, file := s.get(html.UnescapeString(string(m[1])))
			sum := sha256.Sum256(file)
			switch what := string(m[2]); {
			case status != 200:
				t.Errorf("%s: GET %s: status %d, want 200 (%s)", q, m[1], status, what)
			case what == "served" && hex.EncodeToString(sum[:]) != sha:
				t.Errorf("%s: GET %s: other bytes than those of the page, want the same", q, m[1])
			case strings.Contains(what, "made") && !strings.HasPrefix(string(file), "MODULE "):
				t.Errorf("%s: GET %s: %.40q, want a .sym file", q, m[1], file)
			}
		}
	}
}

// hostileNames are products and versions that somebody may give.
var hostileNames = []string{"..", "a/b", `"><script>alert(1)</script>`, "\u202Egpj", "a?b#c&d=e", "%2F..%2F", " x "}

// TestCrawl: every link on every page answers 200, also with hostile names, and stays
// below the own addresses: for readers, and for an administrator.
func TestCrawl(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(s *site) {
		full(s)
		for i, name := range hostileNames {
			s.run("add", "--product", name, "--version", name, "--comment", name, testdata+"/elf/e-arm64", fmt.Sprint(testdata, "/pe/x", []string{"64", "86"}[i%2], ".exe"))
		}
		s.run("add", testdata+"/elf/e-x86") // the product without a name
	})
	for i, name := range hostileNames {
		s.token(strings.TrimSpace(strings.TrimPrefix(name, "\u202E")), "--product", name) // other names are refused
		s.run("hold", fmt.Sprint(4+i), name)
		s.get("/" + url.PathEscape(name) + ".pdb/" + pdbID[:32] + "7/" + url.PathEscape(name) + ".pdb")
	}
	admin := s.token("admin", "--scope", "admin")
	t.Run("reader", func(t *testing.T) { s.crawl(t) })
	t.Run("administrator", func(t *testing.T) { s.crawl(t, "Authorization", "Bearer "+admin) })
}

// crawl follows all links from the root, with headers.
func (s *site) crawl(t *testing.T, headers ...string) {
	t.Helper()
	links := regexp.MustCompile(`(?:href|action|src)="([^"]*)"`)
	forms, acts := regexp.MustCompile(`<form[^>]* method="post"[^>]* action="([^"]*)"`), map[string]bool{}
	seen, queue := map[string]string{"/": ""}, []string{"/"}
	for len(queue) > 0 && len(seen) < 3000 {
		path := queue[0]
		queue = queue[1:]
		status, h, body := s.get(path, append(headers, "Accept", "text/html")...)
		if acts[path] && status == 405 { // a form leads there, and it is no page
			continue
		}
		if status != 200 {
			t.Errorf("GET %s, linked from %s: status %d, want 200", path, seen[path], status)
		}
		if !strings.HasPrefix(h.Get("Content-Type"), "text/html") {
			continue
		}
		// What a form sends back must be the exact text.
		body = regexp.MustCompile(`<input [^>]*>|<option[^>]*>`).ReplaceAll(body, nil)
		for _, bad := range []string{"<script>", "\u202E", "javascript:", " style=", "<style"} {
			if strings.Contains(string(body), bad) {
				t.Errorf("GET %s: the page has %q, want it nowhere", path, bad)
			}
		}
		for _, m := range forms.FindAllSubmatch(body, -1) {
			if act := html.UnescapeString(string(m[1])); seen[act] == "" {
				acts[act] = true
			}
		}
		for _, m := range links.FindAllSubmatch(body, -1) {
			u, err := url.Parse(html.UnescapeString(string(m[1])))
			if err != nil {
				t.Errorf("GET %s: the link %q: %v", path, m[1], err)
				continue
			}
			next := strings.TrimPrefix(u.String(), s.url)
			if next == "" || strings.HasPrefix(next, "#") {
				continue
			}
			if strings.HasPrefix(path, "/-/docs") && strings.HasPrefix(next, "https://") {
				continue // the documentation names other sites; nothing is loaded from them
			}
			if !strings.HasPrefix(next, "/") {
				t.Errorf("GET %s: the link %q leaves the server, want it here", path, m[1])
				continue
			}
			if strings.HasSuffix(next, "/functions") {
				continue // each has the functions of a file read; TestFunctionsPage
			}
			if u.Query().Get("audience") != "" {
				continue // each has a public form made; TestAudience of the server
			}
			// One of many equal pages is enough, and sorting is not followed twice.
			if _, ok := seen[next]; ok || strings.Count(next, "sort=") > 0 && strings.Contains(path, "sort=") || strings.HasPrefix(next, "/-/prefs") && path != "/" {
				continue
			}
			seen[next] = path
			queue = append(queue, next)
		}
	}
	if len(seen) < 100 {
		t.Errorf("the crawl found %d pages, want 100 at least", len(seen))
	}
}

// watching is the configuration of a site with a watched folder, and one that is away.
const watching = "watch:\n  - {dir: builds, product: App, version: \"3.1\"}\n  - {dir: share}\n"

// put writes a file below the folder of the site, and returns its path.
func (s *site) put(name string, text []byte) string {
	s.t.Helper()
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o666); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// copied puts a file of testdata there.
func (s *site) copied(name, from string) string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata, filepath.FromSlash(from)))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.put(name, b)
}

// await reads a page until it has a text.
func (s *site) await(path, text string) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		_, _, body := s.get(path)
		if strings.Contains(string(body), text) {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("GET %s: after a minute without %q\n%s", path, text, body)
		}
	}
}

// busy makes a site with an upstream, a job, misses, a policy, source files and watched
// folders.
func busy(t *testing.T) *site {
	t.Helper()
	up := newSite(t, func(s *site) { s.run("add", testdata+"/cab", testdata+"/elf") })
	s := newSite(t, func(s *site) {
		full(s)
		s.run("policy", "set", s.put("policy.yaml", []byte("retention:\n  classes:\n    - {name: release}\n    - {name: nightly, keep_within: 14d}\n")))
		s.run("gc")
		s.put("src/prog.c", []byte("int main(void)\n{\n\treturn 0;\n}\n"))
		s.run("add", "--product", "App", "--version", "3.1", "--sources", filepath.Join(s.dir, "src")+"=/usr/src/symdepot-src", s.copied("in/app", "elf/prog-sha1"))
		s.copied("builds/nightly/libapp.so", "join/split")
		s.copied("builds/nightly/app", "elf/prog-sha1")
		s.put("watch.yaml", []byte(watching))
	}, "--config", "watch.yaml", "--upstream", up.url, "--upstream", "http://127.0.0.1:1/gone")
	for _, path := range []string{
		"/hello-x64.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/hello-x64.pdb", "/vendor.pdb/11112222333344445555666677778888A/vendor.pdb", "/buildid/0123456789abcdef0123456789abcdef01234567/debuginfo",
	} {
		for range 3 {
			s.get(path)
		}
	}
	s.get(strings.TrimSuffix(pdbPath, "pdb") + "sym") // a job makes it
	for range 3 {                                     // the third one has the file compressed
		s.get(pdbPath, "Accept-Encoding", "zstd")
	}
	s.stop() // what was missing is stored then
	s.serve()
	s.await("/-/search?q=libapp.so", "in place")
	s.await("/-/disk", ">away<")
	return s
}

// shown are the pages that every test of all pages opens, by a word for messages.
func shown(s *site) map[string]string {
	return map[string]string{
		"home": s.url + "/", "search": s.url + "/-/search?q=*.pdb", "search-empty": s.url + "/-/search?q=nothing", "all": s.url + "/-/search",
		"file": s.file("hello-x64.pdb"), "file-elf": s.file("libprog.so"), "file-sources": s.file("prog-sha1"), "sources": s.file("prog-sha1") + "/sources",
		"source": s.file("app") + "/source?path=/usr/src/symdepot-src/prog.c#L2", "functions": s.file("hello-x64.pdb") + "/functions?q=s", "symbolicate": s.url + "/-/symbolicate?name=app&id=1",
		"search-in-place": s.url + "/-/search?q=libapp.so", "trace-in-place": s.url + "/-/trace?path=" + url.QueryEscape("/buildid/"+splitID+"/executable"), "txs": s.url + "/-/builds", "builds": s.url + "/-/builds/1",
		"connect": s.url + "/-/connect", "identify": s.url + "/-/identify", "crashes": s.url + "/-/crashes", "prefs": s.url + "/-/prefs", "error": s.url + "/-/builds/999",
		"missing": s.url + "/-/missing", "jobs": s.url + "/-/jobs", "job": s.url + "/-/jobs/1", "upstreams": s.url + "/-/upstreams", "disk": s.url + "/-/disk", "retention": s.url + "/-/retention",
		"trace": s.url + "/-/trace?path=" + url.QueryEscape("/hello-x64.pdb/"+pdbID[:32]+"2/hello-x64.pdb"), "trace-found": s.url + "/-/trace?path=" + url.QueryEscape(pdbPath),
		"trace-form": s.url + "/-/trace", "trace-wrong": s.url + "/-/trace?path=a%2Fb",
		"about": s.url + "/-/about", "docs": s.url + "/-/docs/web", "products": s.url + "/-/products", "product": s.url + "/-/product?p=Game", "version": s.url + "/-/version?p=Game&v=1.9-nightly", "compare": s.url + "/-/version?p=Game&v=1.9-nightly&with=1.8",
	}
}

// shownEmpty are the pages of a depot that holds nothing.
func shownEmpty(s *site) map[string]string {
	return map[string]string{
		"home": s.url + "/", "search": s.url + "/-/search", "txs": s.url + "/-/builds", "missing": s.url + "/-/missing", "jobs": s.url + "/-/jobs", "upstreams": s.url + "/-/upstreams",
		"disk": s.url + "/-/disk", "retention": s.url + "/-/retention", "products": s.url + "/-/products",
	}
}

// TestKeyboard: the first key leads to the content, the second to the search; the whole
// page can be walked and the focus is seen.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	p := newTab(t)
	p.open(s.url + "/-/builds/1")
	press := func(keys string) string {
		p.do(chromedp.KeyEvent(keys))
		return eval[string](p, `(e => e.className || e.id || e.tagName)(document.activeElement)`)
	}
	if got := press(kb.Tab); got != "skip" {
		t.Errorf("the first tab stop is %q, want the skip link", got)
	}
	if got := press(kb.Tab); got != "q" {
		t.Errorf("the second tab stop is %q, want the search", got)
	}
	stops := 0
	for range 200 {
		press(kb.Tab)
		stops++
		if got := eval[string](p, `getComputedStyle(document.activeElement).outlineStyle`); got == "none" && !eval[bool](p, `document.activeElement === document.body`) {
			t.Errorf("stop %d has no visible focus: %s", stops, eval[string](p, `document.activeElement.outerHTML.slice(0, 120)`))
		}
		if eval[bool](p, `document.activeElement === document.body || document.activeElement.className === "skip"`) {
			break
		}
	}
	if stops < 20 {
		t.Errorf("%d tab stops on the page, want 20 at least", stops)
	}
	p.open(s.url + "/-/connect")
	p.do(chromedp.KeyEvent("/"))
	if got := eval[string](p, `document.activeElement.id`); got != "q" {
		t.Errorf("the key / leads to %q, want the search", got)
	}
	// The browser is told of a key and of its character one by one: the page cannot swallow the latter.
	eval[int](p, `document.getElementById("q").value = ""; 0`)
	p.do(chromedp.SendKeys(chromedp.CSS("#q"), pdbID), chromedp.KeyEvent(kb.Enter))
	p.until(`location.pathname.startsWith("/-/file/")`)
}

// TestCopy: the button copies the exact id. On plain HTTP, where pages have no clipboard, it
// selects the id and says so.
func TestCopy(t *testing.T) {
	t.Parallel()
	s := newSite(t, full, "--host", plainHost)
	p := newTab(t)
	p.open(s.file("hello-x64.pdb"))
	// The clipboard of a browser without a window cannot be read: what is written to it is noted.
	eval[int](p, `navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }; 0`)
	p.do(chromedp.Click(chromedp.CSS(`.pairs .copy`)))
	p.until(`document.querySelector(".pairs .copy").textContent === "Copied"`)
	if got := eval[string](p, `window.copied`); got != pdbID {
		t.Errorf("%q was copied, want %s", got, pdbID)
	}
	if got := eval[string](p, `document.getElementById("said").textContent`); got != "Copied" {
		t.Errorf("a screen reader hears %q, want Copied", got)
	}
	p.open(strings.Replace(p.at(), "127.0.0.1", plainHost, 1))
	p.quiet("a page over plain HTTP")
	if eval[bool](p, `isSecureContext || navigator.clipboard !== undefined`) {
		t.Errorf("%s is a secure page with a clipboard, want one without", p.at())
	}
	p.do(chromedp.Click(chromedp.CSS(`.pairs dd:last-of-type .copy`)))
	p.until(`document.querySelector(".pairs dd:last-of-type .copy").textContent === "press Ctrl+C"`)
	if got := eval[string](p, `getSelection().toString()`); !strings.HasSuffix(p.at(), got) || len(got) != 64 {
		t.Errorf("%q is selected, want the SHA-256", got)
	}
}

// TestPreferences: the theme is kept, and the page does not flash.
func TestPreferences(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	p := newTab(t)
	p.open(s.url + "/-/builds/1")
	p.do(chromedp.Click(chromedp.CSS(`nav a[href*="/-/prefs"]`)), chromedp.WaitVisible(chromedp.CSS(`input[value=dark]`)), chromedp.Click(chromedp.CSS(`input[value=dark]`)), chromedp.Click(chromedp.CSS(`main button`)))
	p.until(`location.pathname === "/-/builds/1" && document.documentElement.dataset.theme === "dark"`)
	if got := eval[string](p, `getComputedStyle(document.body).backgroundColor`); got != "rgb(20, 24, 22)" {
		t.Errorf("the background is %s, want that of the dark theme", got)
	}
}

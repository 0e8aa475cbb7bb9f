package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// build writes a program with the given name and bytes that no other has into a folder of
// its own, and returns the folder.
func build(t *testing.T, name string, number uint64, size int) string {
	t.Helper()
	b, err := os.ReadFile(testdata + "/elf/e-arm64")
	if err != nil {
		t.Fatal(err)
	}
	random, tail := rand.New(rand.NewPCG(number, 1)), make([]byte, size)
	for i := range tail {
		tail[i] = byte(random.Uint32())
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), slices.Concat(b, tail), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// click clicks what a selector finds, and waits for the next page.
func (p *tab) click(selector string) {
	p.t.Helper()
	eval[bool](p, `(() => { window.leaving = true; document.querySelector(`+strconv.Quote(selector)+`).click(); return true; })()`)
	p.until(`!window.leaving && document.readyState === "complete"`)
}

// main is the text of the page.
func (p *tab) main() string {
	p.t.Helper()
	return eval[string](p, `document.querySelector("main").innerText`)
}

// TestRetention: the page of a plan says what it removes and how many bytes it frees; one
// that is stale removes nothing and says so; one that is applied, by its number, frees
// what was said.
func TestRetention(t *testing.T) {
	t.Parallel()
	nightly := func(s *site, i uint64) {
		s.run("add", "--product", "Game", "--version", fmt.Sprint("1.", i), build(t, fmt.Sprint("game", i), i, 700_000))
		s.run("promote", fmt.Sprint(i+1), "--class", "nightly")
	}
	s := newSite(t, func(s *site) {
		policy := filepath.Join(s.dir, "policy.yaml")
		if err := os.WriteFile(policy, []byte("retention:\n  brake: 100%\n  min_age: 0s\n  classes:\n    - {name: nightly, keep_last: 1}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range uint64(3) {
			nightly(s, i)
		}
		s.run("policy", "set", policy)
	}, "--auth")
	admin := s.token("admin", "--scope", "admin")
	p := newTab(t)
	p.newForm(s.url+"/-/login", "/-/retention", admin)
	preview := func() (plan string, frees int64) {
		t.Helper()
		p.open(s.url + "/-/retention")
		p.click(`form[action$="/preview"] button`)
		plan = strings.TrimPrefix(p.at(), s.url+"/-/retention/")
		status, _, body := s.get("/-/api/v1/plans/"+plan, "Authorization", "Bearer "+admin)
		var o struct {
			Builds int
			Frees  int64
		}
		if err := json.Unmarshal(body, &o); status != 200 || err != nil {
			t.Fatalf("the plan %s in the API: status %d, %v; want 200\n%s", plan, status, err, body)
		}
		if size, text := fmt.Sprintf("frees %.1f MiB", float64(o.Frees)/(1<<20)), p.main(); !strings.Contains(text, fmt.Sprint("removes ", o.Builds, " builds")) || !strings.Contains(text, size) {
			t.Errorf("the plan frees %d bytes of %d builds, the page says %q; want %s", o.Frees, o.Builds, text, size)
		}
		return plan, o.Frees
	}
	count := func() int { return strings.Count(s.run("list", "--json"), `"class":"nightly"`) }
	apply := func(typed string) {
		t.Helper()
		p.fill("main form", map[string]string{"plan": typed})
	}

	stale, _ := preview()
	nightly(s, 3)
	apply(stale)
	if text := p.main(); !strings.Contains(text, "he plan has changed") || !strings.Contains(text, "409") {
		t.Errorf("a stale plan: the page says %q, want that the plan has changed", text)
	}
	plan, frees := preview()
	apply("no number")
	if text := p.main(); !strings.Contains(text, "ype the number of the plan") {
		t.Errorf("a wrong number: the page says %q, want that the number is wrong", text)
	}
	if n := count(); n != 4 {
		t.Errorf("after a stale plan and a wrong number there are %d builds, want 4", n)
	}
	p.open(s.url + "/-/retention/" + plan)
	apply(plan)
	if text := p.main(); !strings.Contains(text, "The plan was applied.") || !strings.Contains(text, plan) {
		t.Errorf("after the plan was applied the page says %q, want that, and the plan among the runs", text)
	}
	if n := count(); n != 1 {
		t.Errorf("after the plan there are %d builds, want 1", n)
	}
	var freed struct{ Frees int64 }
	if out := s.run("gc", "--json", "--empty-trash", "--grace", "0s"); json.Unmarshal([]byte(out), &freed) != nil || freed.Frees < frees*99/100 || freed.Frees > frees*101/100 || frees < 3*700_000 {
		t.Errorf("the page said that %d bytes come free, gc frees %s; want the same, at least those of three builds", frees, out)
	}
}

// rows are the first cells of the table of a page.
const rows = `[...document.querySelectorAll("tbody tr")].map(r => r.cells[0].innerText.trim())`

// TestPaging: while transactions are added and removed, a reader of the pages of a list
// sees none twice, and all that were there and still are. A cursor of another list, or one
// that somebody bent, is refused with a page that says so.
func TestPaging(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(s *site) {
		for i := range uint64(24) {
			s.run("add", "--product", "Game", "--version", fmt.Sprint(i), build(t, fmt.Sprintf("game%02d", i), i, 16))
		}
	})
	p := newTab(t)
	number := 24
	for _, list := range []string{"/-/builds?limit=5", "/-/search?limit=5&q=game*", "/-/search?limit=5&q=game*&sort=size", "/-/search?limit=5&q=game*&sort=added"} {
		p.open(s.url + "/-/builds?limit=500")
		old := map[string]bool{}
		if strings.Contains(list, "search") {
			p.open(s.url + "/-/search?limit=500&q=game*")
		}
		for _, row := range eval[[]string](p, rows) {
			old[row] = true
		}
		p.open(s.url + list)
		seen := map[string]int{}
		var next string
		for page := 0; ; page++ {
			for _, row := range eval[[]string](p, rows) {
				seen[row]++
			}
			if next = eval[string](p, `document.querySelector(".pager a[rel=next]")?.href || ""`); next == "" || page > 20 {
				break
			}
			// One is added, and one goes: transaction 1 has the file game00, and so on.
			s.run("add", "--product", "Game", "--version", fmt.Sprint(number), build(t, fmt.Sprintf("game%02d", number), uint64(number), 16))
			if number++; page == 1 {
				gone := strconv.Itoa(number - 2)
				s.run("rm", gone)
				delete(old, "#"+gone)
				delete(old, fmt.Sprintf("game%02d", number-3))
			}
			p.click(".pager a[rel=next]")
		}
		for row, n := range seen {
			if n > 1 {
				t.Errorf("%s: %s is shown %d times, want once", list, row, n)
			}
		}
		for row := range old {
			if seen[row] == 0 {
				t.Errorf("%s: %s is not shown, want all that were there before", list, row)
			}
		}
		if len(old) < 20 {
			t.Errorf("%s: %d rows were there before, want 20 at least", list, len(old))
		}
	}
	p.open(s.url + "/-/builds?limit=5")
	next := eval[string](p, `document.querySelector(".pager a[rel=next]").href`)
	u, err := url.Parse(next)
	if err != nil {
		t.Fatal(err)
	}
	cursor := u.Query().Get("cursor")
	for _, bent := range []string{"/-/builds?limit=5&product=Game&cursor=" + cursor, "/-/builds?limit=5&cursor=x" + cursor[1:], "/-/builds?limit=5&cursor=%00", "/-/search?q=game*&cursor=" + cursor, "/-/jobs?cursor=" + cursor} {
		p.open(s.url + bent)
		if status, _, _ := s.get(bent, "Accept", "text/html"); status != 400 || !strings.Contains(p.main(), "he cursor does not belong to these filters") {
			t.Errorf("%s: status %d, the page says %q; want 400 and that the cursor does not fit", bent, status, p.main())
		}
	}
}

// TestModuleNames: files whose names are words of the server's own addresses are served
// below every prefix, and the addresses are the pages.
func TestModuleNames(t *testing.T) {
	t.Parallel()
	names := []string{"-", "ui", "api", "builds", "symbols", "search", "login"}
	pdb, err := os.ReadFile(testdata + "/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, func(s *site) {
		dir := t.TempDir()
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), pdb, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.run("add", dir)
	}, "--prefix", "corp")
	for _, prefix := range []string{"", "/symbols", "/download/symbols", "/corp"} {
		for _, name := range names {
			path := prefix + "/" + name + "/" + pdbID + "/" + name
			if status, h, body := s.get(path, "Accept", "text/html,*/*"); status != 200 || !bytes.Equal(body, pdb) {
				t.Errorf("GET %s: status %d, %d bytes of %s; want the file", path, status, len(body), h.Get("Content-Type"))
			}
		}
	}
	// Own addresses are pages, but below the prefixes of tools.
	sym := "/tx/" + pdbID + "/tx.sym"
	for path, want := range map[string]bool{"/-/builds": true, "/-/builds/1": true, "/-/search?q=tx": true, "/corp/-/builds": true, "/-/builds/" + pdbID + "/tx.sym": false, "/symbols/-/builds": false, "/-/nothing": false} {
		if status, h, body := s.get(path, "Accept", "text/html"); (status == 200 && strings.HasPrefix(h.Get("Content-Type"), "text/html") && bytes.Contains(body, []byte("</nav>"))) != want {
			t.Errorf("GET %s: status %d, %s; a page with status 200: want %v", path, status, h.Get("Content-Type"), want)
		}
	}
	for _, path := range []string{sym, "/folder" + sym, "/symbols/-" + sym} {
		if status, _, body := s.get(path); status != 200 || !bytes.HasPrefix(body, []byte("MODULE ")) {
			t.Errorf("GET %s: status %d, %.40q; want the .sym file", path, status, body)
		}
	}
}

// tabTo presses the key Tab until what a selector finds has the focus, which must be
// seen.
func (p *tab) tabTo(selector string) {
	p.t.Helper()
	for range 200 {
		p.do(chromedp.KeyEvent(kb.Tab))
		if eval[bool](p, `document.activeElement.matches(`+strconv.Quote(selector)+`)`) {
			if got := eval[string](p, `(() => { const e = document.activeElement, b = e.getBoundingClientRect(), o = getComputedStyle(e);
				if (o.outlineStyle === "none" || parseFloat(o.outlineWidth) < 2) return "there is no outline";
				if (b.bottom <= 0 || b.top >= innerHeight || b.right <= 0 || b.left >= innerWidth) return "it is not on the screen";
				const top = document.elementFromPoint((Math.max(b.left, 0) + Math.min(b.right, innerWidth)) / 2, (Math.max(b.top, 0) + Math.min(b.bottom, innerHeight)) / 2);
				return e === top || e.contains(top) || top.contains(e) ? "" : "it is covered by " + top.outerHTML.slice(0, 100); })()`); got != "" {
				p.t.Errorf("the focus on %s at %s is not seen: %s", selector, p.at(), got)
			}
			return
		}
	}
	p.t.Fatalf("the key Tab does not lead to %s at %s", selector, p.at())
}

// enter presses a key that leads to another page.
func (p *tab) enter(keys string) {
	p.t.Helper()
	eval[bool](p, `window.leaving = true`)
	p.do(chromedp.KeyEvent(keys))
	p.until(`!window.leaving && document.readyState === "complete"`)
}

// TestKeyboardOnly: with the keyboard alone somebody signs in, filters a list, turns its
// pages, confirms a removal, and signs out.
func TestKeyboardOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t, full, "--auth")
	p := newTab(t)
	p.open(s.url + "/-/builds/1?limit=5")
	p.tabTo("main input[type=password]")
	p.do(chromedp.KeyEvent(s.token("admin", "--scope", "admin")))
	p.enter(kb.Enter)
	if at := p.at(); at != s.url+"/-/builds/1?limit=5" {
		t.Fatalf("after signing in the browser is at %s, want the page of the build", at)
	}
	p.tabTo(`.pager a[rel=next]`)
	first := eval[[]string](p, rows)
	p.enter(kb.Enter)
	if second := eval[[]string](p, rows); len(second) == 0 || slices.Equal(first, second) {
		t.Errorf("the next page shows %q, as the one before, want others", second)
	}
	p.tabTo("form.filters[method=get] input[name=name]")
	p.do(chromedp.KeyEvent("hello"))
	p.enter(kb.Enter)
	if got := eval[[]string](p, rows); len(got) == 0 || slices.ContainsFunc(got, func(row string) bool { return !strings.Contains(row, "hello") }) {
		t.Errorf("the filtered list shows %q, want the names with hello", got)
	}
	p.tabTo(`a[href$="/builds/1/remove"]`)
	p.enter(kb.Enter)
	p.tabTo("main button.bad")
	p.enter(" ")
	if text := p.main(); !strings.Contains(text, "The build was removed.") {
		t.Errorf("after the removal was confirmed the page says %q, want that", text)
	}
	if out := s.run("list", "--json"); regexp.MustCompile(`"build":1,`).MatchString(out) {
		t.Errorf("build 1 is still listed:\n%s", out)
	}
	p.tabTo("nav > ul > li:last-child summary")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.tabTo(`form[action="/-/logout"] button`)
	p.enter(" ")
	if at := p.at(); !strings.HasPrefix(at, s.url+"/-/login") {
		t.Errorf("after signing out the browser is at %s, want the page for signing in", at)
	}
}

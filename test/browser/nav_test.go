package browser

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// menus are the groups of the navigation as the page shows them, each with its pages.
const menus = `[...document.querySelectorAll("nav > ul > li")].map(li => (li.querySelector("summary") || li).textContent + ": " + [...li.querySelectorAll("a, button")].map(a => a.textContent).join(", "))`

// open menus are those that are open.
const openMenus = `[...document.querySelectorAll("nav details[open] summary")].map(s => s.textContent).join(" ")`

// TestNavigation: the groups have the pages that the client may open, and the group of the
// present page is marked.
func TestNavigation(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	p := newTab(t)
	for path, mark := range map[string]string{
		"/-/builds/1": "Builds > Builds", "/-/product?p=Game": "Builds > Products", "/-/trace": "Tools > Trace", "/-/disk": "Operate > Disk",
		"/-/missing": "Files > Missing", "/": "", "/-/prefs": "> Preferences",
	} {
		p.open(s.url + path)
		want := []string{
			"Files: Search, Missing, Identify, Crashes", "Builds: Builds, Products", "Tools: Trace, Symbolicate, Connect",
			"Operate: Jobs, Upstreams, Disk, Retention, About", "Preferences: Preferences", "Sign in: Sign in",
		}
		if got := eval[[]string](p, menus); !slices.Equal(got, want) {
			t.Errorf("%s: the navigation has %q, want %q", path, got, want)
		}
		if got := eval[string](p, `[...document.querySelectorAll("nav [aria-current]")].map(e => (e.tagName === "A" ? "> " : "") + e.textContent).join(" ")`); got != mark {
			t.Errorf("%s: the navigation marks %q, want %q", path, got, mark)
		}
	}
	s, admin := closed(t)
	p.newForm(s.url+"/-/login", "/-/builds", s.token("Anna", "--product", "Game"))
	if got, want := eval[[]string](p, menus), "Files: Search, Identify, Crashes|Builds: Builds, Products|Tools: Trace, Symbolicate, Connect|Disk: Disk|Anna: Tokens, Sign-ins, Preferences, Sign out"; strings.Join(got, "|") != want {
		t.Errorf("a reader of one product has the navigation %q, want %q", got, want)
	}
	p.click(`form[action="/-/logout"] button`)
	p.newForm(s.url+"/-/login", "/-/builds", admin)
	for _, menu := range eval[[]string](p, menus) {
		if strings.Count(menu, ",") > 5 {
			t.Errorf("the group %q has more than six entries", menu)
		}
		if strings.HasPrefix(menu, "Operate") && !strings.Contains(menu, "Audit") {
			t.Errorf("an administrator has the group %q, want Audit in it", menu)
		}
	}
}

// TestMenus: the menus open with the pointer and with the keyboard, also without a script.
// One is open at a time; with a script, it closes with Escape and when something else is
// pressed or has the focus.
func TestMenus(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	for _, noScript := range []bool{false, true} {
		p := newTab(t, noScript)
		p.wide()
		p.open(s.url + "/-/builds")
		check := func(when, want string) {
			t.Helper()
			if got := eval[string](p, openMenus); got != want {
				t.Errorf("without a script %v, %s: open are %q, want %q", noScript, when, got, want)
			}
		}
		check("at first", "")
		p.do(chromedp.Click(chromedp.CSS("nav li:nth-child(1) summary")), chromedp.WaitVisible(chromedp.CSS(`nav a[href="/-/identify"]`)))
		p.do(chromedp.Click(chromedp.CSS("nav li:nth-child(2) summary")), chromedp.WaitVisible(chromedp.CSS(`nav a[href="/-/products"]`)))
		check("after a second one was opened", "Builds")
		if got := eval[int](p, `document.documentElement.scrollWidth`); got > 1280 {
			t.Errorf("with an open menu the page is %d pixels wide, want 1280 at most", got)
		}
		if !noScript {
			p.accessible("an open menu")
			p.do(chromedp.KeyEvent(kb.Escape))
			check("after Escape", "")
			if got := eval[string](p, `document.activeElement.textContent`); got != "Builds" {
				t.Errorf("after Escape %q has the focus, want the menu", got)
			}
			p.do(chromedp.KeyEvent(kb.Enter))
			check("after Enter", "Builds")
			p.do(chromedp.Click(chromedp.CSS("h1")))
			check("after something else was pressed", "")
			p.do(chromedp.Click(chromedp.CSS("nav li:nth-child(3) summary")), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab))
			check("while its pages have the focus", "Tools")
			p.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab))
			check("when something else has the focus", "")
		}
		p.open(s.url + "/-/builds")
		p.tabTo("nav li:nth-child(2) summary")
		p.do(chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
		p.until(`location.pathname === "/-/products"`)
	}
}

// TestMenuOnPhone: on a phone the header is one row and the search. One button, with or
// without a script, shows the navigation, and Escape hides it.
func TestMenuOnPhone(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	for _, noScript := range []bool{false, true} {
		p := newTab(t, noScript)
		p.do(chromedp.EmulateViewport(360, 740))
		p.open(s.url + "/-/builds")
		shown := func(want bool) {
			t.Helper()
			if got := eval[bool](p, `document.querySelector("nav").offsetParent !== null || document.querySelector("nav").matches(":popover-open")`); got != want {
				t.Errorf("without a script %v: the navigation is shown: %v, want %v", noScript, got, want)
			}
		}
		shown(false)
		if got := eval[float64](p, `document.querySelector("header").getBoundingClientRect().height`); got > 120 {
			t.Errorf("the header is %v pixels high, want one row and the search", got)
		}
		p.tabTo("button.menu")
		p.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(chromedp.CSS("nav summary")))
		shown(true)
		p.screen(fmt.Sprint("menu-phone-", noScript))
		if !noScript {
			p.accessible("the menu of a phone")
		}
		p.do(chromedp.KeyEvent(kb.Escape))
		p.until(`!document.querySelector("nav").matches(":popover-open")`)
		p.do(chromedp.Click(chromedp.CSS("button.menu")), chromedp.Click(chromedp.CSS("nav li:nth-child(4) summary")), chromedp.WaitVisible(chromedp.CSS(`nav a[href="/-/disk"]`)))
		if small := eval[int](p, `[...document.querySelectorAll("nav a, nav summary")].filter(e => e.offsetParent && (e.offsetHeight < 24 || e.getBoundingClientRect().right > 360)).length`); small > 0 {
			t.Errorf("%d entries of the menu are too small or not on the screen", small)
		}
		p.do(chromedp.Click(chromedp.CSS(`nav a[href="/-/disk"]`)))
		p.until(`location.pathname === "/-/disk"`)
	}
}

// TestNouns: products, versions, builds and persons are links to their pages, wherever they
// stand, and the pages answer.
func TestNouns(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(s *site) {
		full(s)
		for _, version := range []string{"2.0", "2.1", "2.2"} {
			s.run("add", "--product", "Game", "--version", version, testdata+"/pdb")
		}
	})
	product, version := "/-/product?p=Game", "/-/version?p=Game&v=2.2"
	person := "/-/builds?who=" + url.QueryEscape(regexp.MustCompile(`"who":"([^"]*)"`).FindStringSubmatch(s.run("list", "--json"))[1])
	p := newTab(t)
	for path, want := range map[string][]string{
		"/": {product, version, "/-/builds/6", person}, "/-/builds": {product, version, "/-/builds/6", person},
		"/-/builds/6": {product, version, person}, "/-/search?q=hello*": {product, version, "/-/builds/6"}, "/-/products": {product},
		"/-/version?p=Game&v=2.2": {product, "/-/builds/6", person}, strings.TrimPrefix(s.file("hello-x64.pdb"), s.url): {product, version, "/-/builds/6"},
	} {
		p.open(s.url + path)
		links := eval[[]string](p, `[...document.querySelectorAll("main a")].map(a => a.getAttribute("href"))`)
		for _, link := range want {
			if !slices.Contains(links, link) {
				t.Errorf("%s has no link to %s, want one: %q", path, link, links)
			}
			if status, _, _ := s.get(link, "Accept", "text/html"); status != 200 {
				t.Errorf("%s, linked from %s: status %d, want 200", link, path, status)
			}
		}
	}
	p.open(s.url + "/-/search?q=hello-x64.pdb&sort=added")
	row := `document.querySelector("tbody tr td:last-child")`
	if got := eval[string](p, row+`.innerText`); got != "Game 2.2 #6 #5 #4 and 2 more" {
		t.Errorf("the builds of a file are %q, want the newest with its product and version, two others and how many more", got)
	}
	if got, want := eval[string](p, row+`.lastElementChild.href`), s.file("hello-x64.pdb"); got != want {
		t.Errorf("the other builds are at %s, want %s", got, want)
	}
	p.open(s.url + "/-/builds?who=nobody")
	if got := p.main(); !strings.Contains(got, "No build that you may see fits.") {
		t.Errorf("the builds of nobody: %q, want none", got)
	}
}

// TestHomePage: once there is a build, the page begins with the search and the newest
// builds, and one line leads to the settings of tools. In an empty depot it has them.
func TestHomePage(t *testing.T) {
	t.Parallel()
	s, empty := newSite(t, full), newSite(t, nil)
	p := newTab(t)
	p.wide()
	p.open(s.url)
	order := `["[role=search]", "h2", "table", "a[href$='/-/connect']", "form.drop"].map(s => document.querySelector("main " + s).getBoundingClientRect().top)`
	if got := eval[[]float64](p, order); !slices.IsSorted(got) || got[0] > 200 || got[3] > 800 {
		t.Errorf("the search, the builds, the line of tools and the drop area begin at %v, want them in this order, the search at the top", got)
	}
	if n := eval[int](p, `document.querySelectorAll("[role=search]").length * 100 + document.querySelectorAll(".tools, header [role=search]").length`); n != 100 {
		t.Errorf("the page has %d, want 100: one search, and no settings of tools", n)
	}
	if got := eval[string](p, `document.querySelector("main a[href$='/-/connect']").parentElement.textContent`); !strings.Contains(got, "Connect a tool") || !strings.Contains(got, s.url) {
		t.Errorf("the line of tools says %q, want the address in it", got)
	}
	p.do(chromedp.SendKeys(chromedp.CSS("#q"), "hello*"+kb.Enter))
	p.until(`location.pathname === "/-/search" && location.search === "?q=hello*"`)
	p.open(empty.url)
	if text := p.main(); !strings.Contains(text, "WinDbg") || !strings.Contains(text, "symdepot add") || !eval[bool](p, `document.querySelector("header #q") !== null`) {
		t.Errorf("the page of an empty depot says %q, want the settings of tools, how it is filled, and the search in the header", text)
	}
}

// TestUnknownPage: an address that names nothing has the frame of the other pages. A server
// with credentials leads a browser to the page for signing in.
func TestUnknownPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	p := newTab(t)
	p.wide()
	frame := `JSON.stringify(["header", "main", "#q", "nav", "h1"].map(s => { const b = document.querySelector(s).getBoundingClientRect(); return [b.left, b.top, s === "h1" || s === "main" ? 0 : b.width]; }))`
	p.open(s.url + "/-/builds")
	want := eval[string](p, frame)
	for _, path := range []string{"/-/nope", "/-/builds/999", "/nothing", "/a/b"} {
		p.open(s.url + path)
		if got := eval[string](p, frame); got != want {
			t.Errorf("%s: the parts of the page are at %s, want %s as on other pages", path, got, want)
		}
		if status, _, _ := s.get(path, "Accept", "text/html"); status != 404 {
			t.Errorf("%s: status %d, want 404", path, status)
		}
	}
	shut, _ := closed(t)
	for _, path := range []string{"/-/nope", "/-/nope/page"} {
		p.open(shut.url + path)
		if at := p.at(); !strings.HasPrefix(at, shut.url+"/-/login?next="+url.QueryEscape(path)) {
			t.Errorf("%s leads to %s, want the page for signing in", path, at)
		}
	}
}

// TestBuildTable: the files of a build are in the order of their names, and neither a kind
// nor an id of up to 40 digits is broken into lines.
func TestBuildTable(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(s *site) {
		full(s)
		s.run("add", "--product", "One", testdata+"/elf/e-arm64")
	})
	p := newTab(t)
	p.wide()
	for _, build := range []string{"2", "3"} {
		p.open(s.url + "/-/builds/" + build)
		names := eval[[]string](p, `[...document.querySelectorAll(".files tbody th")].map(e => e.innerText.toLowerCase())`)
		if len(names) < 5 || !slices.IsSorted(names) {
			t.Errorf("the files of build %s are %q, want them in the order of names", build, names)
		}
		const lines = `(e => { const r = document.createRange(); r.selectNodeContents(e); return new Set([...r.getClientRects()].map(b => Math.round(b.top))).size; })`
		if broken := eval[[]string](p, `[...document.querySelectorAll(".files :is(td:nth-child(2), td:nth-child(3), td:nth-child(4) .id)")].filter(e => `+lines+`(e) > (e.textContent.length > 40 ? 2 : 1)).map(e => e.innerText)`); len(broken) > 0 {
			t.Errorf("build %s: %q are broken into lines", build, broken)
		}
		p.fits("the files of a build")
	}
	p.open(s.url + "/-/builds/4")
	if text := p.main(); !strings.Contains(text, "1 file, ") || strings.Contains(text, "1 files") {
		t.Errorf("the build of one file says %q, want 1 file", text)
	}
}

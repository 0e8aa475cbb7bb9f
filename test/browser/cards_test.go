package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// phone shows the page as on a phone of 360 pixels.
func (p *tab) phone() {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(360, 780))
}

// TestCards: on a phone each row of a table is a card. Every cell that is not empty is seen
// as a whole below the name, beside the head of its column, and nothing scrolls sideways. It
// stays a table for screen readers, which do not hear the heads twice.
func TestCards(t *testing.T) {
	t.Parallel()
	needChrome(t)
	s := busy(t)
	admin := s.token("admin", "--scope", "admin")
	p := newTab(t)
	p.newForm(s.url+"/-/login", "/", admin)
	all := shown(s)
	all["tokens"], all["sign-ins"] = s.url+"/-/tokens", s.url+"/-/signins"
	for word, address := range all {
		p.phone()
		p.open(address)
		if w := eval[int](p, `document.documentElement.scrollWidth`); w > 360 {
			t.Errorf("%s is %d pixels wide, want 360", word, w)
		}
		if bad := eval[[]string](p, `[...document.querySelectorAll("tbody td, tbody th")].filter(e => e.textContent.trim() && e.checkVisibility()).flatMap(e => {
			const box = e.getBoundingClientRect(), row = e.closest("tr").getBoundingClientRect(), first = e.closest("tr").querySelector("th") ?? e.closest("tr").cells[0], name = first.getBoundingClientRect();
			const head = e.closest("table").tHead.rows[0].cells[e.cellIndex], label = getComputedStyle(e, "::before").content.split(" / ")[0].replaceAll('"', "");
			const wrong = [];
			if (box.left < row.left || box.right > row.right || e.scrollWidth > e.clientWidth) wrong.push("is cut");
			if (e.tagName === "TD" && e !== first && (box.top < name.bottom - 1 || getComputedStyle(e).textAlign !== "start")) wrong.push("is not below the name, where the others begin");
			if (e.tagName === "TD" && e.colSpan === 1 && !head.querySelector(".away") && label !== head.textContent) wrong.push("has the label " + label);
			if (label && label !== "none" && parseFloat(getComputedStyle(e).paddingLeft) < 100) wrong.push("has no place for its label");
			return wrong.map(w => w + ": " + e.outerHTML.slice(0, 120));
		})`); len(bad) > 0 {
			t.Errorf("%s: %d cells are wrong, such as %q", word, len(bad), bad[:min(3, len(bad))])
		}
		if lost := eval[[]string](p, `[...document.querySelectorAll("table, thead, tbody, tr, th, td")].filter(e => !e.role).map(e => e.outerHTML.slice(0, 80))`); len(lost) > 0 {
			t.Errorf("%s: parts of tables without a role: %q", word, lost[:min(3, len(lost))])
		}
		if twice := eval[[]string](p, `[...document.querySelectorAll("td[data-label]")].filter(e => e.dataset.label && !getComputedStyle(e, "::before").content.endsWith('/ ""')).map(e => e.outerHTML.slice(0, 80))`); len(twice) > 0 {
			t.Errorf("%s: labels that screen readers speak: %q", word, twice[:min(3, len(twice))])
		}
	}
	// The heads that sort are there, and lead to the sorted list.
	p.open(s.url + "/-/search?q=*.pdb")
	p.click(`thead a[href*="sort=size"]`)
	p.until(`document.querySelector("thead th[aria-sort=descending]")?.textContent === "Size"`)
}

// TestCardsAccess: axe-core finds no violation in cards, light and dark.
func TestCardsAccess(t *testing.T) {
	t.Parallel()
	needChrome(t)
	s := busy(t)
	p := newTab(t)
	p.phone()
	for word, address := range shown(s) {
		p.open(address)
		for _, scheme := range []string{"light", "dark"} {
			p.scheme(scheme)
			p.accessible(word + " on a phone, " + scheme)
		}
	}
}

// TestPrint: on paper of the size A4 no table is cut, and it stays one.
func TestPrint(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	p := newTab(t)
	const paper = 718 // pixels, without the margins
	p.do(chromedp.EmulateViewport(paper, 1000))
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	for word, path := range map[string]string{"build": "/-/builds/2", "search": "/-/search?q=*.pdb", "builds": "/-/builds"} {
		p.open(s.url + path)
		if right := eval[float64](p, `document.querySelector("table").getBoundingClientRect().right`); right > paper {
			t.Errorf("%s: the right edge of the table is at %g, want %d at most", word, right, paper)
		}
		if got := eval[string](p, `getComputedStyle(document.querySelector("tbody td")).display`); got != "table-cell" {
			t.Errorf("%s: a cell on paper is displayed as %s, want table-cell", word, got)
		}
	}
}

// TestCardsWithoutScripts: without a script a table stays one on a phone, and scrolls in its
// region.
func TestCardsWithoutScripts(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	p := newTab(t, true)
	p.phone()
	p.open(s.url + "/-/search?q=*.pdb")
	got := eval[string](p, `getComputedStyle(document.querySelector("tbody td")).display + " " + (document.documentElement.scrollWidth <= 360)`)
	if got != "table-cell true" {
		t.Errorf("a cell without a script, and whether the page fits: %s, want table-cell true", got)
	}
}

// TestTimesShown: a list says how long ago something was beside the time in UTC, on a phone
// the former alone; the title has the time with seconds. The footer says when the page was made.
func TestTimesShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	p := newTab(t)
	p.wide()
	p.open(s.url + "/-/builds")
	shows := func() string {
		return eval[string](p, `document.querySelector("tbody time").innerText.replace(/\s+/g, " ").trim()`)
	}
	full := eval[string](p, `document.querySelector("tbody time").title`)
	utc := full[:len("2006-01-02 15:04")]
	if got := shows(); !strings.Contains(got, utc) || !strings.Contains(got, "just now") && !strings.Contains(got, " min ago") {
		t.Errorf("the time is shown as %q, want %s and how long ago", got, utc)
	}
	if at := eval[string](p, `document.querySelector("tbody time").dateTime`); full != strings.NewReplacer("T", " ", "Z", " UTC").Replace(at) {
		t.Errorf("the title of %s is %q", at, full)
	}
	if footer := eval[string](p, `document.querySelector("footer").innerText`); !strings.Contains(footer, "page of 2") {
		t.Errorf("the footer is %q, want the time of the page", footer)
	}
	p.phone()
	if got := shows(); strings.Contains(got, utc) || got != "just now" && !strings.HasSuffix(got, " min ago") {
		t.Errorf("on a phone the time is shown as %q, want how long ago", got)
	}
	p.open(s.url + "/-/builds/1")
	if got := eval[string](p, `document.querySelector("dd time").innerText`); !strings.HasPrefix(got, utc) {
		t.Errorf("on the page of a build the time is %q, want %s first", got, utc)
	}
}

// TestBadges: what a file has is told by badges, each explained in its title and below the list;
// Revoke looks dangerous.
func TestBadges(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	admin := s.token("admin", "--scope", "admin")
	p := newTab(t)
	p.wide()
	p.open(s.url + "/-/search?q=hello-x64.*")
	titles := eval[map[string]string](p, `Object.fromEntries([...document.querySelectorAll("td.words b")].map(e => [e.textContent, e.title]))`)
	for badge, want := range map[string]string{"program": "itself", "lines": "debug information", "symbols": "names of functions", "sources": "source files"} {
		if !strings.Contains(titles[badge], want) {
			t.Errorf("the badge %s has the title %q, want %q in it; there are %q", badge, titles[badge], want, titles)
		}
		if text := eval[string](p, `document.querySelector(".badges").innerText`); !strings.Contains(text, badge+" ") {
			t.Errorf("below the list is %q, want the badge %s", text, badge)
		}
	}
	p.newForm(s.url+"/-/login", "/", admin)
	p.open(s.url + "/-/tokens")
	color := `(e => getComputedStyle(e).color)`
	if got, want := eval[string](p, color+`(document.querySelector("td .button"))`), eval[string](p, color+`(Object.assign(document.querySelector("main").appendChild(document.createElement("span")), {className: "mark bad"}))`); got != want {
		t.Errorf("Revoke has the colour %s, want %s", got, want)
	}
}

package browser

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// violation is a rule of axe-core that a page breaks.
type violation struct {
	ID, Help string
	Nodes    []struct {
		HTML    string
		Summary string `json:"failureSummary"`
	}
}

// axe is the script of axe-core, or "".
var axe = sync.OnceValue(func() string {
	b, err := os.ReadFile(filepath.Join(os.Getenv("SYMDEPOT_PEERS"), "axe.min.js"))
	if err != nil {
		return ""
	}
	return string(b)
})

// accessible checks that axe-core finds no violation of WCAG A or AA on the page as it is.
func (p *tab) accessible(what string) {
	p.t.Helper()
	if axe() == "" {
		symtest.Missing(p.t, "browser", "axe-core is not there, which make setup puts at SYMDEPOT_PEERS/axe.min.js")
	}
	if !eval[bool](p, `"axe" in window`) {
		eval[int](p, axe()+"; 0") // the protocol runs it, whatever the policy of the page
	}
	text := value(p, chromedp.Evaluate[string](`axe.run(document, {resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => JSON.stringify(r.violations))`, chromedp.EvalAwaitPromise))
	var list []violation
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		p.t.Fatalf("axe-core: %v in %.200s", err, text)
	}
	for _, v := range list {
		for i, n := range v.Nodes {
			if i < 2 {
				p.t.Errorf("%s: %s: %s\n\t%.300s\n\t%s", what, v.ID, v.Help, n.HTML, n.Summary)
			}
		}
	}
}

// scheme shows the page as on a system that is light or dark.
func (p *tab) scheme(word string) {
	p.t.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: word}}})
}

// wide and narrow are the sizes of a page: a window of 1280 pixels, and the same enlarged
// to 400 %, which is a phone of 320 pixels.
func (p *tab) wide() {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(1280, 900))
}

func (p *tab) narrow() {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(320, 256, chromedp.EmulateScale(4)))
}

// fits checks that at 320 pixels the page does not scroll sideways but in its regions, that
// what can be pressed is large enough, and then shows it as wide as before.
func (p *tab) fits(what string) {
	p.t.Helper()
	p.narrow()
	if w := eval[int](p, `document.documentElement.scrollWidth`); w > 320 {
		p.t.Errorf("%s is %d pixels wide, want 320: %s", what, w, eval[string](p, `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > 321 && !e.parentElement.closest(".scroll, pre")).slice(0, 3).map(e => e.outerHTML.slice(0, 100)).join(" | ")`))
	}
	if small := eval[[]string](p, `[...document.querySelectorAll("button, .button, input:not([type=hidden]), select, textarea, nav a, .me a, .brand, .pager a, summary, a.skip:focus")].filter(e => e.offsetParent && (e.offsetHeight < 24 || e.offsetWidth < 24) && !e.closest("label")).map(e => e.outerHTML.slice(0, 80))`); len(small) > 0 {
		p.t.Errorf("%s: smaller than 24 pixels: %q", what, small)
	}
	// A region that scrolls can be reached with the keyboard, and the rest of the page is
	// not wider than it.
	if lost := eval[[]string](p, `[...document.querySelectorAll(".scroll, pre")].filter(e => e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0).map(e => e.outerHTML.slice(0, 80))`); len(lost) > 0 {
		p.t.Errorf("%s: regions that scroll and cannot have the focus: %q", what, lost)
	}
	if stuck := eval[[]string](p, `[...document.querySelectorAll(".scroll tbody th")].filter(e => getComputedStyle(e).position === "sticky" && e.offsetWidth > e.closest(".scroll").clientWidth * 0.7).slice(0, 2).map(e => e.offsetWidth + " of " + e.closest(".scroll").clientWidth + ": " + e.outerHTML.slice(0, 80))`); len(stuck) > 0 {
		p.t.Errorf("%s: first columns that leave no room for the others: %q", what, stuck)
	}
	p.wide()
}

// quiet checks that nothing was said to the console.
func (p *tab) quiet(what string) {
	p.t.Helper()
	if said := p.told(); len(said) > 0 {
		p.t.Errorf("%s: the browser said %q, want nothing", what, said)
	}
}

// screen keeps a screenshot, if there is a folder for them.
func (p *tab) screen(what string) {
	p.t.Helper()
	dir := os.Getenv("SYMDEPOT_SCREENS")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(what, " ", "-")+".png"), value(p, chromedp.FullScreenshot(100)), 0o666); err != nil {
		p.t.Error(err)
	}
}

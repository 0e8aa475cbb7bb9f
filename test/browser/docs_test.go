package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestDocs: from a page, its link leads to the page of the documentation that explains it.
// There the search finds a heading, and shows it. The pages look as all others do: quiet,
// accessible, and not wider than a phone.
func TestDocs(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	p := newTab(t)
	p.wide()
	p.open(s.url + "/-/retention")
	p.do(chromedp.Click(chromedp.CSS(".help a")), chromedp.WaitVisible(chromedp.CSS("#a-policy")))
	if got := p.at(); !strings.HasSuffix(got, "/-/docs/retention") {
		t.Errorf("the link of the page for retention leads to %s", got)
	}
	if got := eval[string](p, `document.querySelector("article .cmd .copy").dataset.copy`); !strings.HasPrefix(got, "symdepot policy check") {
		t.Errorf("the first button copies %q, want the first block of the page", got)
	}
	if !eval[bool](p, `getComputedStyle(document.querySelector("article .cmd .copy")).visibility === "visible"`) {
		t.Error("the buttons of the page are not visible, want them as on other pages")
	}
	p.do(chromedp.SendKeys(chromedp.CSS("article input[name=q]"), "keep_last classes\r"), chromedp.WaitVisible(chromedp.CSS("article mark")))
	p.do(chromedp.Click(chromedp.CSS(`article h2 a[href$="/-/docs/retention#classes"]`)), chromedp.WaitVisible(chromedp.CSS("#classes")))
	if top := eval[float64](p, `document.getElementById("classes").getBoundingClientRect().top`); top < 0 || top > 200 {
		t.Errorf("the heading of the hit stands %v pixels below the top, want it in view", top)
	}
	p.quiet("the way through the documentation")
	for _, path := range []string{"", "/retention", "/config", "/cold-format", "/reference/http", "/reference/metrics", "/start/windbg", "?q=symbol+server", "?q=nothingofthekind"} {
		p.open(s.url + "/-/docs" + path)
		p.check("docs"+path, s.url+"/-/docs"+path)
	}
	p.open(s.url + "/-/docs/retention")
	p.screen("docs")
	p.scheme("dark")
	p.screen("docs dark")
	p.narrow()
	p.screen("docs phone")
	p.wide()
}

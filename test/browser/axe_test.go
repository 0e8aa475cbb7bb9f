package browser

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// everyPage returns all pages of a site with contents and of an empty one.
func everyPage(t *testing.T) map[string]string {
	t.Helper()
	all := shown(busy(t))
	for word, address := range shownEmpty(newSite(t, nil)) {
		all["empty "+word] = address
	}
	return all
}

// TestEveryPage: no page says anything to the console, makes more than four requests beside
// those for images of the documentation, or asks another server. axe-core finds no violation of WCAG A or AA, light and dark. At 400 %
// no page scrolls sideways, and what can be pressed is large enough.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	needChrome(t)
	all := everyPage(t)
	words := slices.Sorted(maps.Keys(all))
	for half := range 2 { // two tabs at the same time
		t.Run([]string{"even", "odd"}[half], func(t *testing.T) {
			t.Parallel()
			p := newTab(t)
			p.wide()
			for i := half; i < len(words); i += 2 {
				p.open(all[words[i]])
				p.check(words[i], all[words[i]])
			}
		})
	}
}

// check checks what TestEveryPage says of the page that is open.
func (p *tab) check(what, address string) {
	p.t.Helper()
	if said := p.told(); len(said) > 0 && what != "error" { // the browser itself reports a 404
		p.t.Errorf("%s: the browser said %q, want nothing", what, said)
	}
	p.mu.Lock()
	requests := slices.Clone(p.requests)
	p.mu.Unlock()
	requests = slices.DeleteFunc(requests, func(r string) bool { return strings.Contains(r, "/-/events") || strings.Contains(r, "/-/docs/images/") })
	if len(requests) > 4 {
		p.t.Errorf("%s: %d requests, want at most 4: %q", what, len(requests), requests)
	}
	host := address[:strings.Index(address[len("http://"):], "/")+len("http://")+1]
	for _, r := range requests {
		if !strings.HasPrefix(r, host) {
			p.t.Errorf("%s: a request for %s, want this server only", what, r)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		p.accessible(what + ", " + scheme)
	}
	p.fits(what)
}

// TestScreens keeps a screenshot of every page in the folder SYMDEPOT_SCREENS.
func TestScreens(t *testing.T) {
	dir := os.Getenv("SYMDEPOT_SCREENS")
	if dir == "" {
		t.Skip("needs SYMDEPOT_SCREENS, the folder for the screenshots; make screens sets it")
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	needChrome(t)
	all := everyPage(t)
	p := newTab(t)
	for _, look := range []struct {
		name   string
		width  int64
		scheme string
	}{{"light", 1280, "light"}, {"dark", 1280, "dark"}, {"phone", 360, "light"}} {
		p.do(chromedp.EmulateViewport(look.width, 800))
		p.scheme(look.scheme)
		for word, address := range all {
			p.open(address)
			p.screen(word + "-" + look.name)
		}
	}
}

package browser

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// violation is a rule of axe-core that a page breaks.
type violation struct {
	ID, Help string
	Nodes    []struct {
		HTML    string
		Summary string `json:"failureSummary"`
	}
}

// TestAccessible: axe-core finds no violation of WCAG A or AA on any page, light and
// dark.
func TestAccessible(t *testing.T) {
	needChrome(t)
	file := filepath.Join(os.Getenv("SYMDEPOT_PEERS"), "axe.min.js")
	axe, err := os.ReadFile(file)
	if err != nil {
		t.Skip("needs axe-core, which make setup puts at SYMDEPOT_PEERS/axe.min.js: ", err)
	}
	s := busy(t)
	empty := newSite(t, nil)
	all := shown(s)
	for word, address := range shownEmpty(empty) {
		all["empty "+word] = address
	}
	p := newTab(t)
	call(p, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}) // the script of axe-core is not the page's
	for _, scheme := range []string{"light", "dark"} {
		call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		for word, address := range all {
			p.open(address)
			eval[int](p, string(axe)+"; 0")
			text := value(p, chromedp.Evaluate[string](`axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => JSON.stringify(r.violations))`, chromedp.EvalAwaitPromise))
			var list []violation
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				t.Fatalf("axe-core: %v in %.200s", err, text)
			}
			for _, v := range list {
				for i, n := range v.Nodes {
					if i < 2 {
						t.Errorf("%s, %s: %s: %s\n\t%.300s\n\t%s", word, scheme, v.ID, v.Help, n.HTML, n.Summary)
					}
				}
			}
		}
	}
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
	s, empty := busy(t), newSite(t, nil)
	all := shown(s)
	for word, address := range shownEmpty(empty) {
		all["empty-"+word] = address
	}
	p := newTab(t)
	for _, look := range []struct {
		name   string
		width  int64
		scheme string
	}{{"light", 1280, "light"}, {"dark", 1280, "dark"}, {"phone", 360, "light"}} {
		p.do(chromedp.EmulateViewport(look.width, 800))
		call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}})
		for word, address := range all {
			p.open(address)
			b := value(p, chromedp.FullScreenshot(100))
			if err := os.WriteFile(filepath.Join(dir, word+"-"+look.name+".png"), b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}

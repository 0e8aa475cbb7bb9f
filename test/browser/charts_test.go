package browser

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestFirstDay: on the first day the page Disk has a bar for what the depot takes, with the
// share of each product, and the page Missing has a bar of what was found and what was not.
func TestFirstDay(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	s.get(pdbPath)
	s.get("/nothere.pdb/11112222333344445555666677778888A/nothere.pdb")
	s.await("/-/disk", "By product")
	p := newTab(t)
	p.wide()
	p.open(s.url + "/-/disk")
	height := func(series string) int {
		return eval[int](p, fmt.Sprintf(`Math.round(document.querySelector("svg.plot path.%s")?.getBBox().height ?? -1)`, series))
	}
	if got := height("s0"); got < 50 {
		t.Errorf("the bar of the builds is %d high, want 50 at least", got)
	}
	if got := eval[[]string](p, `[...document.querySelectorAll("td.share")].map(e => e.innerText.trim())`); len(got) != 2 || !slices.ContainsFunc(got, func(x string) bool { return x != "0 %" && strings.HasSuffix(x, " %") }) {
		t.Errorf("the shares of the products are %q, want two with per cent", got)
	}
	if eval[float64](p, `document.querySelector("td.share meter").value`) <= 0 {
		t.Error("the first product has no bar")
	}
	p.accessible("disk on the first day")
	p.open(s.url + "/-/missing")
	if found, missing := height("s0"), height("s1"); found <= 0 || missing <= 0 {
		t.Errorf("the bars of what was found and what was not are %d and %d high, want some", found, missing)
	}
	if text := p.main(); !strings.Contains(text, "1 found, 1 not found (50.0 %)") {
		t.Errorf("the page says %q, want the numbers of the bars", text)
	}
	p.accessible("missing on the first day")
}

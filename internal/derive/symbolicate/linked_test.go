package symbolicate

import (
	"strings"
	"testing"

	"github.com/symdepot/symdepot/dwarf"
	"github.com/symdepot/symdepot/objtab"
)

// TestKeptLinks: the names in the kept links have a limit in all.
func TestKeptLinks(t *testing.T) {
	t.Parallel()
	var ms modules
	links := func(n int) objtab.Links {
		return objtab.Links{Splits: []dwarf.Split{{Name: strings.Repeat("x", n)}}}
	}
	kept := func(tag string, want bool) {
		t.Helper()
		if _, ok := ms.linksOf(tag); ok != want {
			t.Errorf("the links of %s are kept: %v, want %v", tag, ok, want)
		}
	}
	ms.keepLinks("small", links(10))
	ms.keepLinks("half", links(maxLinkText/2))
	kept("small", true)
	kept("half", true)
	ms.keepLinks("more", links(maxLinkText/2))
	kept("half", false)
	kept("more", true)
	ms.keepLinks("too much", links(maxLinkText+1))
	kept("too much", false)
	if ms.linkText > maxLinkText {
		t.Errorf("%d bytes of names are counted, want at most %d", ms.linkText, maxLinkText)
	}
}

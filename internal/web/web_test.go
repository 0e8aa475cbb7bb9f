package web

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/layout"
)

func TestClaims(t *testing.T) {
	if !slices.IsSorted(words) {
		t.Fatalf("the words %q are not sorted", words)
	}
	for path, want := range map[string]bool{
		"/-": true, "/-/": true, "/-/tx": true, "/-/tx/17": true, "/-/api/v1/push": true, "/-/jobs/lease": true, "//-//tx": true, "/%2d/tx": true,
		"/": false, "/tx": false, "/-/TX": false, "/-/add": false, "/-/txt": false, "/-/0123456789ab/-": false, "/a/-/tx": false, "/--/tx": false, "/symbols/-/tx": false,
	} {
		segs, err := layout.Segments(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if got := Claims(segs); got != want {
			t.Errorf("Claims(%s) is %v, want %v", path, got, want)
		}
	}
	if Claims(nil) {
		t.Error("Claims of the root is true, want false")
	}
}

// TestNoWordIsAKey: a symbol file of a module named "-" is still found.
func TestNoWordIsAKey(t *testing.T) {
	for _, w := range words {
		if req, err := layout.Route([]string{"-", w, "-"}); err == nil {
			t.Errorf("/-/%s/- is a symbol path: %+v", w, req)
		}
	}
	segs := []string{"-", "0102030405060708090A0B0C0D0E0F101", "-"}
	if _, err := layout.Route(segs); err != nil || Claims(segs) {
		t.Errorf("a file of the module -: %v, claimed %v; want a symbol path that is not claimed", err, Claims(segs))
	}
}

// FuzzClaims: a path and its escaped form are claimed alike, and nothing outside
// of /-/ is claimed.
func FuzzClaims(f *testing.F) {
	for _, s := range []string{"-", "-/tx", "-/tx/17", "-/api/v1/push/stages/x", "-/0102/-", "symbols/-/tx", "..", "-/%2e%2e/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		segs, err := layout.Segments("/" + path)
		if err != nil {
			return
		}
		claimed := Claims(segs)
		if claimed && segs[0] != "-" {
			t.Errorf("%q is claimed", segs)
		}
		if _, err := layout.Route(segs); err == nil && claimed && len(segs) == 3 {
			t.Errorf("%q is claimed, but a symbol path", segs)
		}
		var escaped strings.Builder
		for _, s := range segs {
			escaped.WriteString("/" + url.PathEscape(s))
		}
		again, err := layout.Segments(escaped.String())
		if err != nil || !slices.Equal(again, segs) || Claims(again) != claimed {
			t.Errorf("%q escaped: %q, %v, claimed %v; want the same", segs, again, err, Claims(again))
		}
	})
}

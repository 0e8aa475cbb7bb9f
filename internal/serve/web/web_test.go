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
		"/-": true, "/-/": true, "/-/builds": true, "/-/builds/17": true, "/-/api/v1/push": true, "/-/worker/lease": true, "//-//builds": true, "/%2d/builds": true,
		"/": false, "/builds": false, "/-/BUILDS": false, "/-/add": false, "/-/builder": false, "/-/0123456789ab/-": false, "/a/-/builds": false, "/--/builds": false, "/symbols/-/builds": false,
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
			t.Errorf("/-/%s/- is a symbol path, want it free for the API: %+v", w, req)
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
	for _, s := range []string{"-", "-/builds", "-/builds/17", "-/api/v1/push/stages/x", "-/0102/-", "symbols/-/builds", "..", "-/%2e%2e/x", strings.Repeat("\x13", 3000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		segs, err := layout.Segments("/" + path)
		if err != nil {
			return
		}
		claimed := Claims(segs)
		if claimed && segs[0] != "-" {
			t.Errorf("%q is claimed, want only paths below /-/", segs)
		}
		if _, err := layout.Route(segs); err == nil && claimed && len(segs) == 3 {
			t.Errorf("%q is claimed, want it left to the symbol files", segs)
		}
		var escaped strings.Builder
		for _, s := range segs {
			escaped.WriteString("/" + url.PathEscape(s))
		}
		again, err := layout.Segments(escaped.String())
		if err != nil && escaped.Len() > 8192 { // longer than a path may be
			return
		}
		if err != nil || !slices.Equal(again, segs) || Claims(again) != claimed {
			t.Errorf("%q escaped: %q, %v, claimed %v; want the same", segs, again, err, Claims(again))
		}
	})
}

// FuzzPage: any parameters of a list are read without a panic, and a cursor is
// accepted with its own filters only.
func FuzzPage(f *testing.F) {
	f.Add("limit=2&cursor=AAAA&state=valid", "2026-11-22T00:00:00.000000000 0123456789ab")
	f.Add("limit=-1", "")
	f.Add("cursor=%zz&limit=9999999999999999999", "x")
	f.Fuzz(func(t *testing.T, query, last string) {
		q, _ := url.ParseQuery(query)
		if limit, _, err := ReadPage(q, "tokens"); err == nil && (limit < 1 || limit > MaxListRows) {
			t.Errorf("%q: limit %d", query, limit)
		}
		q.Del("limit")
		q.Set("cursor", Cursor("tokens", q, last))
		if _, after, err := ReadPage(q, "tokens"); err != nil || after != last {
			t.Errorf("%q: the cursor after %q is read as %q, %v; want the same", query, last, after, err)
		}
		if _, _, err := ReadPage(q, "others"); last != "" && err == nil {
			t.Errorf("%q: the cursor of another list is accepted", query)
		}
		q.Set("filter", q.Get("filter")+"x")
		if _, _, err := ReadPage(q, "tokens"); err == nil {
			t.Errorf("%q: the cursor of other filters is accepted", query)
		}
	})
}

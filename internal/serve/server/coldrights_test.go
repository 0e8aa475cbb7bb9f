package server

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

// series returns a Breakpad file of a series of builds, which become cold: of a module, with
// the number of the build.
func series(module string, no int) []byte {
	b := sym(fmt.Sprintf("00112233445566778899AABBCCDDEE%02X1", no), module, fmt.Sprintf("INFO CODE_ID 5B1D7C3A%02X00 %s.dll\n", no, module[:len(module)-4]), 400<<10)
	for i := range 40 * no {
		if k := 200 + (i*7919+no*104729)%(len(b)-400); b[k] >= '0' && b[k] <= '8' {
			b[k]++
		}
	}
	return b
}

// requestID finds the id of a request in a text for its client.
var requestID = regexp.MustCompile(`\b[a-z2-7]{12}\b`)

// TestColdRights: a cold file of another product looks as a missing one, in all layouts and
// in the API, and so does the content that a file is restored with.
func TestColdRights(t *testing.T) {
	t.Parallel()
	w := newAPIWorld(t, demand)
	var theirs []held
	for no := range 3 {
		theirs = append(theirs, addAs(t, w.d, "theirs", "nightly.sym", series("nightly.pdb", no)))
	}
	addAs(t, w.d, "ours", "nightly.sym", theirs[0].body) // the oldest belongs to both, and is the newest of none
	newest := addAs(t, w.d, "ours", "nightly.sym", series("nightly.pdb", 9))
	sum, err := w.d.Cold.Cool(t.Context(), coldstore.CoolOptions{})
	if err != nil || sum.Contents < 2 {
		t.Fatalf("cool: %+v, %v; want two contents", sum, err)
	}
	row, err := w.d.Cold.Of(t.Context(), blob.Sum(theirs[0].body))
	if err != nil || row.Base == nil || row.Base.Ref != blob.Sum(newest.body) {
		t.Fatalf("the file of both products is %+v, %v; want it to be restored with the newest build of the first product", row, err)
	}
	hidden := theirs[1]
	absent := strings.NewReplacer("DDEE01", "DDEE71", "ddee01", "ddee71", "5B1D7C3A01", "5B1D7C3A71", "5b1d7c3a01", "5b1d7c3a71", sha256Hex(hidden.body), strings.Repeat("a7", 32))
	var targets []string
	for _, l := range layout.All() {
		for _, p := range l.Paths(hidden.obj) {
			targets = append(targets, "/"+p)
		}
	}
	if len(targets) < 3 {
		t.Fatalf("a cold file has %d paths, want several", len(targets))
	}
	sha := sha256Hex(hidden.body)
	for _, p := range slices.Clone(targets) {
		targets = append(targets, "/-/api/v1/trace?path="+strings.TrimPrefix(p, "/"))
	}
	targets = append(targets, "/-/file/"+sha, "/-/api/v1/files/"+sha, "/-/api/v1/files?q="+sha)
	for _, more := range []string{"holders", "paths", "forms", "sources"} {
		targets = append(targets, "/-/api/v1/files/"+sha+"/"+more)
	}
	restored := func() uint64 {
		st, err := w.d.Cold.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st.Restored
	}
	before := restored()
	for _, target := range targets {
		other := absent.Replace(target)
		if other == target {
			t.Fatalf("%s has no id that could be another one", target)
		}
		for _, more := range []string{"X: y", "Range: bytes=0-9", "If-None-Match: *"} {
			for _, method := range []string{"GET", "HEAD"} {
				request := func(target string) reply {
					r := ask(w.s, method, target, bearer(w.ours), more)
					r.body = requestID.ReplaceAllString(r.body, "ID")
					return r
				}
				got, missing := request(target), request(other)
				if got.status != missing.status || absent.Replace(got.body) != missing.body || !maps.EqualFunc(got.header, missing.header, slices.Equal) {
					t.Errorf("%s %s, %s: %d %v\n%.600s\nwant what an unknown id gets: %d %v\n%.600s", method, target, more, got.status, got.header, got.body, missing.status, missing.header, missing.body)
				}
			}
		}
	}
	if n := restored() - before; n != 0 {
		t.Errorf("%d cold files were restored for a caller who may not read them, want none", n)
	}
	if r := ask(w.s, "GET", theirs[0].path(t, layout.BreakpadTree), bearer(w.ours)); r.status != 200 || r.body != string(theirs[0].body) {
		t.Errorf("the file of both products: status %d with %d bytes, want 200 and the file", r.status, len(r.body))
	}
	// The base is of one product alone: nobody without a right to that learns its hash.
	base := sha256Hex(newest.body)
	shared := sha256Hex(theirs[0].body)
	pages := []string{"/-/file/" + shared, "/-/api/v1/files/" + shared, "/-/api/v1/files?q=nightly.pdb", "/-/api/v1/trace?path=" + theirs[0].path(t, layout.BreakpadTree)[1:],
		"/-/api/v1/files/" + shared + "/holders", "/-/api/v1/files/" + shared + "/forms", "/-/find?q=nightly.pdb"}
	for n := range 20 {
		pages = append(pages, fmt.Sprintf("/-/api/v1/builds/%d/files", n+1), fmt.Sprintf("/-/builds/%d", n+1))
	}
	seen := 0
	for _, target := range pages {
		for who, token := range map[string]string{"theirs": w.theirs, "admin": w.admin} {
			r := ask(w.s, "GET", target, bearer(token))
			has := strings.Contains(r.body, base) || strings.Contains(r.body, base[:12])
			if has && who == "theirs" {
				t.Errorf("%s: a caller of another product learns the hash of the base:\n%s", target, r.body)
			}
			if has && who == "admin" {
				seen++
			}
		}
	}
	if seen < 3 {
		t.Errorf("the administrator sees the base in %d answers, want it in several: the test looks at the wrong ones", seen)
	}
}

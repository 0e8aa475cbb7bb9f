package depot

import (
	"bytes"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/symcachework"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symcache"
)

// TestDerivedFollowsItsSource: SymCache files and cabinets that were made here
// are visible exactly to those who see the PDB, through any product.
func TestDerivedFollowsItsSource(t *testing.T) {
	d, _ := newDepot(t)
	add(t, d, "theirs", testdata(t, "pdb/hello-x86.pdb"))
	add(t, d, "", testdata(t, "pdb/hello-x64.pdb"))
	found, err := d.Find(t.Context(), answer.Scope{}, "hello-x86.pdb", 1)
	if err != nil || len(found) != 1 {
		t.Fatalf(`Find("hello-x86.pdb", 1): %v, error %v; want length 1`, found, err)
	}
	id := found[0].Object.DebugID
	key, v := symcache.Key{Name: "hello-x86.pdb", ID: id}, version(t, "3.1.0")
	if _, err := d.SymCache().RequestSymCache(t.Context(), key, v); err != nil {
		t.Fatal(err)
	}
	list, err := d.Jobs().Lease(t.Context(), jobs.Worker{Name: "w", Abilities: []jobs.Ability{symcachework.Ability(v)}, Slots: 1}, time.Second)
	if err != nil || len(list) != 1 {
		t.Fatalf("LeaseWork: %d jobs, %v; want 1", len(list), err)
	}
	r := jobs.Result{Version: v.String(), SHA256: blob.Sum([]byte("made")), Size: 4}
	if err := d.Jobs().Complete(t.Context(), jobs.Lease{ID: list[0].ID, Worker: "w", Token: list[0].Token}, r, strings.NewReader("made")); err != nil {
		t.Fatal(err)
	}
	d.Jobs().ForgetWorker("w") // nothing newer can be made
	for _, c := range []struct {
		products []string
		want     string
		finds    int
	}{
		{nil, "3.1.0 made", 2}, {[]string{"theirs"}, "3.1.0 made", 1}, {[]string{"theirs", ""}, "3.1.0 made", 1},
		{[]string{""}, symcache.NotFound.String(), 0}, {[]string{}, symcache.NotFound.String(), 0}, {[]string{"ours"}, symcache.NotFound.String(), 0},
	} {
		ask := symAsk(t, "v3.1.0/hello-x86.pdb/"+id.GUID.Upper()+"/1")
		ask.Products = c.products
		if got := told(t, d, ask); got != c.want {
			t.Errorf("%q: %s, want %s", c.products, got, c.want)
		}
		f, err := d.Find(t.Context(), answer.Scope{Products: c.products}, "hello-x86.pdb", 10)
		if err != nil || len(f) != c.finds {
			t.Errorf("%q: %d found, want %d (%v)", c.products, len(f), c.finds, err)
		}
		if c.want != "3.1.0 made" {
			continue
		}
		a, err := d.AnswerSymCache(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Products(t.Context(), a.File); err != nil || !slices.Equal(got, []string{"theirs"}) {
			t.Errorf("seen by readers of %q (%v), want theirs", got, err)
		}
		if err := a.File.Close(); err != nil {
			t.Error(err)
		}
	}
	// The cabinet.
	ref := found[0].Ref
	if _, err := d.forms.Derive(t.Context(), forms.Form{Ref: ref, Tool: transcode.Cab, Name: "hello-x86.pdb"}); err != nil {
		t.Fatal(err)
	}
	path := "hello-x86.pdb/" + id.Breakpad() + "/hello-x86.pd_"
	if _, _, err := get(t, d, answer.Scope{Products: []string{""}}, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cabinet for others: %v, want the error %v", err, fs.ErrNotExist)
	}
	f, _, err := get(t, d, answer.Scope{Products: []string{"theirs"}}, path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.Products(t.Context(), f); err != nil || !slices.Equal(got, []string{"theirs"}) {
		t.Errorf("the cabinet is seen by readers of %q (%v), want theirs", got, err)
	}
}

// TestFetchInsideTheScope: only upstreams whose product is in the scope are
// asked, and their files are visible through that product.
func TestFetchInsideTheScope(t *testing.T) {
	pdb := testdata(t, "pdb/hello-x64.pdb")
	for _, c := range []struct {
		of       string // the source's product
		products []string
		gets     bool
	}{
		{"far", nil, true}, {"far", []string{"far"}, true}, {"far", []string{"near"}, false}, {"far", []string{""}, false}, {"far", []string{}, false},
		{"", nil, true}, {"", []string{""}, true}, {"", []string{"near"}, false}, {"", []string{}, false},
	} {
		src := &elsewhere{name: "e"}
		src.sends("hello-x64.pdb", pdb.body)
		d := openWith(t, Options{Upstreams: []Upstream{{Source: src, Product: c.of}}})
		objs, err := FinderIn(d).Same(t.Context(), answer.Scope{}, bytesContent{Reader: bytes.NewReader(pdb.body)}, "hello-x64.pdb")
		if err != nil {
			t.Fatal(err)
		}
		q := answer.Question{Scope: answer.Scope{Products: c.products}, Request: request(t, "hello-x64.pdb/"+objs[0].Object.DebugID.Breakpad()+"/hello-x64.pdb")}
		f, err := d.places.Download(t.Context(), q)
		if c.gets != (err == nil) || c.gets != (src.asked.Load() > 0) {
			t.Errorf("a reader of %q and an upstream of %q: %v, asked %d times; want a download: %v", c.products, c.of, err, src.asked.Load(), c.gets)
		}
		if err != nil {
			continue
		}
		if got, err := d.Products(t.Context(), f); err != nil || !slices.Equal(got, []string{c.of}) {
			t.Errorf("while it arrives it is of %q (%v)", got, err)
		}
		if _, err := readAll(f); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		d.fetch.Wait()
		for _, products := range [][]string{{"far"}, {"near"}, {""}, {}} {
			_, err := d.Open(t.Context(), answer.Scope{Products: products}, q.Request)
			if sees := slices.Contains(products, c.of); sees != (err == nil) {
				t.Errorf("cached from an upstream of %q, opened by a reader of %q: %v; want success: %v", c.of, products, err, sees)
			}
		}
	}
}

// TestHiddenReadsLikeMissing: a request for an object outside the scope reads
// the index as often as one for an id that no object has: never, because the
// filter of the scope excludes both.
func TestHiddenReadsLikeMissing(t *testing.T) {
	d, _ := newDepot(t)
	add(t, d, "theirs", testdata(t, "elf/prog-sha1"), testdata(t, "pdb/hello-x64.pdb"), file{"app.sym", symFile(symID, 1000)})
	add(t, d, "ours", file{"o.sym", symFile("11111111111111111111111111111111A", 500)})
	ours := answer.Scope{Products: []string{"ours"}}
	const none = "0123456789abcdef0123456789abcdef01234567"
	const guid = "F9EFE0B6AE7500394C4C44205044422E"
	missing := request(t, "buildid/"+none+"/executable")
	for !d.lookups.Absent(t.Context(), ours, &missing, nil) {
		if t.Context().Err() != nil {
			t.Fatal("the filter never covers the depot")
		}
		runtime.Gosched()
	}
	for _, c := range []struct{ what, hidden, missing string }{
		{"PDB", "hello-x64.pdb/" + guid + "1/hello-x64.pdb", "hello-x64.pdb/" + none[:32] + "1/hello-x64.pdb"},
		{"PDB of higher age", "hello-x64.pdb/" + guid + "0/hello-x64.pdb", "hello-x64.pdb/" + none[:32] + "0/hello-x64.pdb"},
		{"PDB of another name", "other.pdb/" + guid + "1/other.pdb", "other.pdb/" + none[:32] + "1/other.pdb"},
		{"cabinet", "hello-x64.pdb/" + guid + "1/hello-x64.pd_", "hello-x64.pdb/" + none[:32] + "1/hello-x64.pd_"},
		{"Breakpad file", symPath, "app.pdb/" + none[:33] + "/app.sym"},
		{"executable", "buildid/" + progID + "/executable", "buildid/" + none + "/executable"},
		{"debug information", "buildid/" + progID + "/debuginfo", "buildid/" + none + "/debuginfo"},
		{"section", "buildid/" + progID + "/section/.text", "buildid/" + none + "/section/.text"},
		{"source file", "buildid/" + progID + "/source/a.c", "buildid/" + none + "/source/a.c"},
		{"ELF file by name", "prog-sha1/elf-buildid-" + progID + "/prog-sha1", "prog-sha1/elf-buildid-" + none + "/prog-sha1"},
	} {
		reads := func(path string) uint64 {
			req := request(t, path)
			before := d.db.Reads()
			if f, err := d.Open(t.Context(), ours, req); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v, %v; want fs.ErrNotExist", path, f, err)
			}
			return d.db.Reads() - before
		}
		if h, m := reads(c.hidden), reads(c.missing); h != 0 || m != 0 {
			t.Errorf("%s: %d reads of the index for a hidden object, %d for a missing one; want none", c.what, h, m)
		}
	}
}

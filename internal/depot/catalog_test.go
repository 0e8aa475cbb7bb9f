package depot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/derive/symcachework"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// TestCatalogReads: every spelling of an id, a path, a URL, a name and a SHA-256 finds
// the object, and says how it was read.
func TestCatalogReads(t *testing.T) {
	d, _ := newDepot(t)
	add(t, d, "Game", testdata(t, "pdb/hello-x64.pdb"), testdata(t, "elf/prog-sha1.debug"))
	add(t, d, "Other", testdata(t, "pdb/hello-x86.pdb"))
	sha := blob.Sum(testdata(t, "pdb/hello-x64.pdb").body).String()
	const id, guid = "F9EFE0B6AE7500394C4C44205044422E1", "f9efe0b6-ae75-0039-4c4c-44205044422e"
	for _, c := range []struct {
		text string
		as   catalog.ReadAs
		want int
	}{
		{"", catalog.ReadAll, 3}, {"hello-x64.pdb", catalog.ReadName, 1}, {" HELLO-X64.PDB ", catalog.ReadName, 1}, {"hello*", catalog.ReadPattern, 2}, {"*-x64.pd?", catalog.ReadPattern, 1}, {"nothing.pdb", catalog.ReadName, 0},
		{id, catalog.ReadID, 1}, {strings.ToLower(id), catalog.ReadID, 1}, {"0x" + id, catalog.ReadID, 1}, {guid, catalog.ReadID, 1}, {"{" + guid + "}", catalog.ReadID, 1}, {strings.ToUpper(guid), catalog.ReadID, 1}, {id[:32], catalog.ReadID, 1},
		{"adac45aa231bba3143d7af433767c61f31021c16", catalog.ReadID, 1}, {sha, catalog.ReadContent, 1}, {strings.ToUpper(sha), catalog.ReadContent, 1},
		{"hello-x64.pdb/" + id + "/hello-x64.pdb", catalog.ReadPath, 1}, {"/symbols/he/hello-x64.pdb/" + id + "/hello-x64.pd_", catalog.ReadPath, 1},
		{"https://sym.corp/t/sd_secret/hello-x64.pdb/" + id + "/hello-x64.pdb?x=1", catalog.ReadPath, 1}, {`\\server\share\hello-x64.pdb\` + id + `\hello-x64.pdb`, catalog.ReadPath, 1},
		{"/buildid/adac45aa231bba3143d7af433767c61f31021c16/debuginfo", catalog.ReadPath, 1}, {`C:\build\hello-x64.pdb`, catalog.ReadName, 1},
	} {
		p, err := d.Catalog.Objects(t.Context(), answer.Scope{}, catalog.ObjectQuery{Text: c.text})
		if err != nil || p.ReadAs != c.as || len(p.Objects) != c.want || p.Next != "" {
			t.Errorf("%q: read as %s, %d objects, next %q, %v; want %s and %d", c.text, p.ReadAs, len(p.Objects), p.Next, err, c.as, c.want)
		}
	}
	for _, c := range []struct {
		name, id string
		as       catalog.ReadAs
		want     int
	}{
		{"HELLO-X64.pdb", "", catalog.ReadName, 1}, {"hello*", "", catalog.ReadPattern, 2}, {id, "", catalog.ReadName, 0}, {"", "{" + guid + "}", catalog.ReadID, 1}, {"", "0x" + id, catalog.ReadID, 1}, {"", strings.Repeat("0", 32), catalog.ReadID, 0},
		{"hello-x64.pdb", id, catalog.ReadID, 1}, {"*.PDB", guid, catalog.ReadID, 1}, {"hello-x86.pdb", id, catalog.ReadID, 0},
	} {
		p, err := d.Catalog.Objects(t.Context(), answer.Scope{}, catalog.ObjectQuery{Name: c.name, ID: c.id})
		if err != nil || p.ReadAs != c.as || len(p.Objects) != c.want {
			t.Errorf("name %q, id %q: read as %s, %d objects, %v; want %s and %d", c.name, c.id, p.ReadAs, len(p.Objects), err, c.as, c.want)
		}
	}
	p, err := d.Catalog.Objects(t.Context(), answer.Scope{Products: []string{"Other"}}, catalog.ObjectQuery{Text: id})
	if err != nil || len(p.Objects) != 0 {
		t.Errorf("outside of the scope: %d objects, %v; want none", len(p.Objects), err)
	}
	p, err = d.Catalog.Objects(t.Context(), answer.Scope{}, catalog.ObjectQuery{Text: id})
	if err != nil || len(p.Objects) != 1 || p.Objects[0].Product != "Game" || !slices.Equal(p.Objects[0].Transactions, []int64{1}) {
		t.Errorf("the object: %+v, %v; want one of Game in build 1", p.Objects, err)
	}
}

// TestCatalogQueries: wrong queries are refused, pages fit together.
func TestCatalogQueries(t *testing.T) {
	d, _ := newDepot(t)
	add(t, d, "Game", testdata(t, "pdb/hello-x64.pdb"), testdata(t, "pdb/hello-x86.pdb"), testdata(t, "pdb/hello-arm64.pdb"), testdata(t, "pdb/hello-x64.exe"))
	first, err := d.Catalog.Objects(t.Context(), answer.Scope{}, catalog.ObjectQuery{Limit: 3})
	if err != nil || len(first.Objects) != 3 || first.Next == "" {
		t.Fatalf("first page: %d objects, next %q, %v; want 3 and more", len(first.Objects), first.Next, err)
	}
	second, err := d.Catalog.Objects(t.Context(), answer.Scope{}, catalog.ObjectQuery{Limit: 3, After: first.Next})
	if err != nil || len(second.Objects) != 1 || second.Next != "" || second.Objects[0].Object.Name != "hello-x86.pdb" {
		t.Errorf("second page: %d objects, next %q, %v; want hello-x86.pdb alone", len(second.Objects), second.Next, err)
	}
	for _, q := range []catalog.ObjectQuery{
		{After: "x"}, {After: first.Next + "x"}, {After: first.Next, Sort: catalog.SortSize}, {After: "bm90aGluZw"},
		{Sort: "color"}, {Origin: "moon"}, {Feature: "two words"}, {Text: strings.Repeat("x", 5000)},
		{ID: "hello.pdb"}, {ID: "a/b"}, {Text: "hello", Name: "hello"}, {Text: "hello", ID: "34D6745D"},
	} {
		if _, err := d.Catalog.Objects(t.Context(), answer.Scope{}, q); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%.80v: %v, want fs.ErrInvalid", q, err)
		}
	}
	files, err := d.Catalog.Files(t.Context(), answer.Scope{}, 1, catalog.FileQuery{Sort: catalog.SortSize, Limit: 1})
	if err != nil || len(files.Files) != 1 || files.Files[0].Object.Kind != symfile.PDB || files.Next == "" {
		t.Fatalf("the largest file: %+v, %v; want a PDB and more", files, err)
	}
	for _, q := range []catalog.FileQuery{{After: files.Next}, {After: "x"}, {Sort: "color"}} {
		if _, err := d.Catalog.Files(t.Context(), answer.Scope{}, 1, q); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%+v: %v, want fs.ErrInvalid", q, err)
		}
	}
	if _, err := d.Catalog.Files(t.Context(), answer.Scope{}, 2, catalog.FileQuery{Sort: catalog.SortSize, After: files.Next}); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("the place in another build: %v, want fs.ErrInvalid", err)
	}
}

// TestCatalogEntry: an entry says who holds a content and until when, which files of its
// module are there or missing, and what was made of it, within a scope.
func TestCatalogEntry(t *testing.T) {
	onRetained(t, func(t *testing.T, d *Depot, c *movable) {
		ctx := t.Context()
		pdb, exe, x86 := testdata(t, "pdb/hello-x64.pdb"), testdata(t, "pdb/hello-x64.exe"), testdata(t, "pdb/hello-x86.exe")

		add(t, d, "Game", pdb, exe)
		add(t, d, "Game", pdb)
		add(t, d, "Tool", pdb, testdata(t, "elf/prog-sha1.stripped"))
		setPolicy(t, d, "default: nightly", "classes:", "  - name: nightly", "    keep_within: 14d")
		if err := d.Retention.Hold(ctx, lifecycle.Hold{Number: 2, Name: "h", Reason: "why"}); err != nil {
			t.Fatal(err)
		}
		ref := blob.Sum(pdb.body)
		e, err := d.Catalog.Entry(ctx, answer.Scope{}, ref)
		if err != nil || len(e.Objects) != 1 || e.Size != int64(len(pdb.body)) {
			t.Fatalf("entry: %+v, %v; want one object", e, err)
		}
		o := e.Objects[0]
		if len(o.Holders) != 3 || o.Holders[0].Transaction.Number != 3 || o.Holders[0].Transaction.Product != "Tool" || o.MoreHolders {
			t.Errorf("holders %+v, want builds 3, 2 and 1", o.Holders)
		}
		for _, h := range o.Holders {
			tx := h.Transaction
			if tx.Number == 2 {
				if !h.Ends.IsZero() || h.Rule != "" || len(h.Holds) != 1 || h.Holds[0].Reason != "why" {
					t.Errorf("the held build: %+v, want a hold and no end", h)
				}
			} else if want := tx.Arrived.Add(14 * day); !h.Ends.Equal(want) || h.Rule != "nightly" {
				t.Errorf("build %d ends on %v by %q, want %v by nightly", tx.Number, h.Ends, h.Rule, want)
			}
		}
		if len(o.Partners) != 1 || o.Partners[0].Kind != symfile.PE || o.Partners[0].Role != symfile.Executable || len(o.Partners[0].Held) != 1 || o.Partners[0].ID != "C10891754000" {
			t.Errorf("partners %+v, want the program", o.Partners)
		}
		// Outside of the product the program is missing.
		e, err = d.Catalog.Entry(ctx, answer.Scope{Products: []string{"Tool"}}, ref)
		if err != nil || len(e.Objects) != 1 {
			t.Fatalf("entry: %+v, %v; want one object", e, err)
		}
		o = e.Objects[0]
		if len(o.Holders) != 1 || len(o.Partners) != 1 || len(o.Partners[0].Held) != 0 || o.Partners[0].Name != "hello-x64" || o.Partners[0].ID != "F9EFE0B6AE7500394C4C44205044422E1" {
			t.Errorf("in the scope of Tool: %+v, want one holder and a missing program", o)
		}
		// A content under many names.
		var copies []file
		const maxObjects = 100 // of an entry
		for i := range maxObjects + 1 {
			copies = append(copies, file{fmt.Sprintf("copy%03d.exe", i), x86.body})
		}
		add(t, d, "Copies", copies...)
		if e, err := d.Catalog.Entry(ctx, answer.Scope{}, blob.Sum(x86.body)); err != nil || len(e.Objects) != maxObjects || !e.MoreObjects || e.Objects[99].Object.Name != "copy099.exe" {
			t.Errorf("a content with %d names: %v, want %d of them and more", len(copies), err, maxObjects)
		}
		if _, err := d.Catalog.Entry(ctx, answer.Scope{Products: []string{"Tool"}}, blob.Sum(exe.body)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a content outside of the scope: %v, want fs.ErrNotExist", err)
		}
		e, err = d.Catalog.Entry(ctx, answer.Scope{}, blob.Sum(testdata(t, "elf/prog-sha1.stripped").body))
		if err != nil {
			t.Fatal(err)
		}
		if p := e.Objects[0].Partners; len(p) != 1 || p[0].Kind != symfile.ELF || p[0].Role != symfile.Debug || p[0].ID != "adac45aa231bba3143d7af433767c61f31021c16" || len(p[0].Held) != 0 {
			t.Errorf("partners of a stripped program %+v, want a missing debug file", p)
		}
		holders, more, err := d.Catalog.Holders(ctx, answer.Scope{}, ref, 3, 1)
		if err != nil || len(holders) != 1 || holders[0].Transaction.Number != 2 || !more {
			t.Errorf("holders after 3: %+v, more %v, %v; want 2 and more", holders, more, err)
		}
	})
}

// TestCatalogForms: forms that were made and failures that are remembered have names.
func TestCatalogForms(t *testing.T) {
	d, c := newDepot(t)
	pdb := testdata(t, "pdb/hello-x64.pdb")
	add(t, d, "", pdb)
	ref := blob.Sum(pdb.body)
	ctx := t.Context()
	for _, tool := range []string{"zstd", "gzip"} {
		if _, err := d.forms.Derive(ctx, forms.Form{Ref: ref, Tool: forms.Codings[tool], Name: "hello-x64.pdb"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.db.Jobs.PutFailure(ctx, failureOfSymCache(ref, c.now().Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
	e, err := d.Catalog.Entry(ctx, answer.Scope{}, ref)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range e.Forms {
		names = append(names, f.Name)
		if made := f.Failure == ""; made != (f.Ref != blob.Ref{}) || made != (f.Size > 0) || made == !f.Until.IsZero() {
			t.Errorf("form %+v: want a content or a failure", f)
		}
	}
	if want := []string{"gzip", "zstd", "symcache 3"}; !slices.Equal(names, want) {
		t.Errorf("forms %q, want %q", names, want)
	}
}

func failureOfSymCache(ref blob.Ref, until time.Time) queue.Failure {
	return queue.Failure{Source: ref, Tool: symcachework.Kind, Version: "3.1.0", Detail: "no lines", Until: until}
}

// addVersion adds files as a version of a product.
func addVersion(t *testing.T, d *Depot, product, version string, files ...file) {
	t.Helper()
	tx, err := d.Begin(t.Context(), TxInfo{Product: product, Version: version})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for _, f := range files {
		if _, err := tx.Add(t.Context(), Source{Path: f.path, Content: bytesContent{Reader: bytes.NewReader(f.body)}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestCatalogVersions: products and their versions, the files of a version, programs
// without a PDB, and the difference of two versions.
func TestCatalogVersions(t *testing.T) {
	onRetained(t, func(t *testing.T, d *Depot, c *movable) {
		ctx := t.Context()
		x64, x64pdb, x86, x86pdb := testdata(t, "pdb/hello-x64.exe"), testdata(t, "pdb/hello-x64.pdb"), testdata(t, "pdb/hello-x86.exe"), testdata(t, "pdb/hello-x86.pdb")
		addVersion(t, d, "Game", "1", x64, x64pdb)
		addVersion(t, d, "Game", "1", x64)
		addVersion(t, d, "Game", "2", x64, x86, file{"hello-x64.pdb", x86pdb.body})
		addVersion(t, d, "", "2", x86pdb)
		addVersion(t, d, "Gone", "1", x86pdb)
		if _, err := d.Retention.Remove(ctx, 5, "me"); err != nil {
			t.Fatal(err)
		}
		names := func(sort string, products ...string) (list []string) {
			after := ""
			for range 5 {
				page, next, err := d.Catalog.Products(ctx, answer.Scope{Products: products}, sort, after, 1)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range page {
					list = append(list, fmt.Sprintf("%s %d %d %d", p.Name, p.Versions, p.Transactions, p.Files))
				}
				if after = next; next == "" {
					break
				}
			}
			return list
		}
		for _, k := range []struct {
			sort     string
			products []string
			want     []string
		}{
			{"name", nil, []string{" 1 1 1", "Game 2 3 6"}}, {"newest", nil, []string{" 1 1 1", "Game 2 3 6"}}, {"bytes", nil, []string{"Game 2 3 6", " 1 1 1"}},
			{"", []string{"Game"}, []string{"Game 2 3 6"}}, {"name", []string{"none"}, nil},
		} {
			if got := names(k.sort, k.products...); !slices.Equal(got, k.want) {
				t.Errorf("products by %s in %q: %q, want %q", k.sort, k.products, got, k.want)
			}
		}
		for _, k := range []struct {
			q    catalog.VersionQuery
			want string
		}{
			{catalog.VersionQuery{}, "[1 2]"}, {catalog.VersionQuery{Sort: "newest"}, "[2 1]"}, {catalog.VersionQuery{Sort: "bytes"}, "[2 1]"}, {catalog.VersionQuery{Prefix: "2"}, "[2]"}, {catalog.VersionQuery{Class: "none"}, "[]"}, {catalog.VersionQuery{Sort: "version"}, "[1 2]"},
		} {
			got := []string{}
			q := k.q
			for q.Limit = 1; ; {
				page, next, err := d.Catalog.Versions(ctx, answer.Scope{}, "Game", q)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range page {
					got = append(got, v.Version)
				}
				if q.After = next; next == "" {
					break
				}
			}
			if fmt.Sprint(got) != k.want {
				t.Errorf("versions %+v: %s, want %s", k.q, got, k.want)
			}
		}
		versions, _, err := d.Catalog.Versions(ctx, answer.Scope{}, "Game", catalog.VersionQuery{})
		if err != nil || len(versions) != 2 || versions[0].Transactions != 2 || versions[0].Files != 3 || versions[0].NewestNumber != 2 || versions[0].Newest.IsZero() {
			t.Errorf("versions %+v, %v; want version 1 with two builds first", versions, err)
		}
		if l, _, err := d.Catalog.Versions(ctx, answer.Scope{Products: []string{""}}, "Game", catalog.VersionQuery{}); err != nil || len(l) > 0 {
			t.Errorf("versions outside of the scope: %v, %v; want none", l, err)
		}
		p, err := d.Catalog.VersionFiles(ctx, answer.Scope{}, "Game", "1", catalog.FileQuery{Limit: 1})
		if err != nil || len(p.Files) != 1 || p.Files[0].Object.Name != "hello-x64.exe" || p.Next == "" {
			t.Fatalf("files of version 1: %+v, %v; want hello-x64.exe and more", p, err)
		}
		p, err = d.Catalog.VersionFiles(ctx, answer.Scope{}, "Game", "1", catalog.FileQuery{Limit: 1, After: p.Next})
		if err != nil || len(p.Files) != 1 || p.Files[0].Object.Name != "hello-x64.pdb" || p.Next != "" || p.Files[0].Path != "pdb/hello-x64.pdb" {
			t.Errorf("the rest: %+v, %v; want hello-x64.pdb", p, err)
		}
		if p, err := d.Catalog.VersionFiles(ctx, answer.Scope{}, "Game", "2", catalog.FileQuery{Kind: symfile.PE, Sort: catalog.SortSize}); err != nil || len(p.Files) != 2 || p.Files[0].Object.Name != "hello-x86.exe" {
			t.Errorf("programs of version 2: %+v, %v; want the larger hello-x86.exe first", p, err)
		}
		without := func(version string, products ...string) (list []string) {
			files, _, err := d.Catalog.WithoutPDB(ctx, answer.Scope{Products: products}, "Game", version, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				list = append(list, f.Object.Name)
			}
			return list
		}
		if got := append(without("1"), without("2")...); len(got) > 0 {
			t.Errorf("without a PDB: %q, want none", got)
		}
		setPolicy(t, d, "trash: 0")
		if _, err := d.Retention.Remove(ctx, 1, "me"); err != nil {
			t.Fatal(err)
		}
		if got := without("2"); !slices.Equal(got, []string{"hello-x64.exe"}) {
			t.Errorf("without a PDB after its removal: %q, want hello-x64.exe", got)
		}
		if _, err := d.Retention.Undo(ctx, 1, "me"); err == nil {
			t.Error("a removal without a trash was undone")
		}
		addVersion(t, d, "Game", "1", x64pdb)
		diff := func(limit int) (list []string) {
			after := ""
			for {
				page, next, err := d.Catalog.Compare(ctx, answer.Scope{}, "Game", "1", "2", after, limit)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range page {
					list = append(list, fmt.Sprintf("%s %s %s>%s", x.Name, x.Kind, x.Here, x.There))
				}
				if after = next; next == "" {
					return list
				}
			}
		}
		want := []string{"hello-x64.pdb pdb F9EFE0B6AE7500394C4C44205044422E1>", "hello-x64.pdb pdb >A822F3E889973BA54C4C44205044422E1", "hello-x86.exe pe >66C9B4075000"}
		slices.Sort(want)
		for _, limit := range []int{1, 100} {
			got := diff(limit)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("differences in pages of %d: %q, want %q", limit, got, want)
			}
		}
	})
}

// TestBundleIsNoSibling: the source bundle of a module has the name of its PDB. It is one of the
// other files of the module, and no other build.
func TestBundleIsNoSibling(t *testing.T) {
	d, _ := newDepot(t)
	pdb := testdata(t, "pdb/hello-x64.pdb")
	bundle := sourceBundleOf(t, "hello-x64.pdb", "f9efe0b6-ae75-0039-4c4c-44205044422e-1")
	add(t, d, "Game", pdb, file{"hello-x64.src.zip", bundle})
	e, err := d.Catalog.Entry(t.Context(), answer.Scope{}, blob.Sum(pdb.body))
	check1(t, err)
	o := e.Objects[0]
	is := func(p catalog.Partner) bool { return len(p.Held) == 1 && p.Held[0].Ref == blob.Sum(bundle) }
	if !slices.ContainsFunc(o.Partners, is) || len(o.Siblings) != 0 {
		t.Errorf("partners %+v, siblings %+v; want the bundle among the partners, and no siblings", o.Partners, o.Siblings)
	}
}

package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/lists"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// listed is an object as a test knows it.
type listed struct {
	record.Entry
	n        int // the order of adding
	products []string
	fetched  bool // no transaction holds it
	at       time.Time
}

// listedEntry is the entry of object n: names, kinds, architectures, features and sizes
// repeat in different periods.
func listedEntry(n int) record.Entry {
	o := symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: fmt.Sprintf("Lib%c_%d%%.pdb", 'a'+n%7, n%3), DebugID: debugid.ID{GUID: debugid.GUID{byte(n), byte(n >> 8), 15: 7}, Age: 1}}
	if n%4 == 0 {
		o.Kind, o.Role, o.Name, o.CodeID = symfile.PE, symfile.Executable, fmt.Sprintf("render%d.dll", n%5), fmt.Sprintf("%08X1000", n+1)
	}
	e := record.Entry{Object: o, Ref: ref(10_000 + n), Size: int64(100 * (n % 9)), Aliases: o.Aliases(), Path: fmt.Sprintf("/b/%d", n), Arch: "x64"}
	if n%5 == 0 {
		e.Arch = "arm64"
	}
	if n%3 == 0 {
		e.Features = []string{"debug", "unwind"}
	}
	return e
}

// fillLists adds objects to three products, an upstream and more; it removes some.
func fillLists(t *testing.T, db *DB, c *clock) (list []listed) {
	t.Helper()
	products := []string{"A", "B", ""}
	n := 0
	for round := range 12 {
		c.hours(1)
		var entries []record.Entry
		for range 15 {
			entries = append(entries, listedEntry(n))
			list = append(list, listed{Entry: listedEntry(n), n: n, products: products[round%3 : round%3+1], at: c.t})
			n++
		}
		commitTest(t, db, products[round%3], entries...)
	}
	// Some objects are in a second product, others are hidden.
	c.hours(1)
	commitTest(t, db, "A", listedEntry(20), listedEntry(21))
	for _, i := range []int{20, 21} {
		list[i].products, list[i].at = append([]string{"A"}, list[i].products...), c.t
	}
	gone := commitTest(t, db, "B", listedEntry(n))
	if _, err := db.Remove(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	n++
	c.hours(1)
	for range 5 {
		e := listedEntry(n)
		if err := db.Cached.Put(t.Context(), contents.CachedFile{Source: "up", Name: e.Object.Name, URL: "http://up/" + e.Object.Name, Tag: "t", Ref: e.Ref, Size: e.Size, Entries: []record.Entry{e}}, nil); err != nil {
			t.Fatal(err)
		}
		list = append(list, listed{Entry: e, n: n, products: []string{""}, fetched: true, at: c.t})
		n++
	}
	return list
}

// pagesOf joins all pages of a list.
func pagesOf(t *testing.T, db *DB, scope record.Scope, f lists.ObjectFilter) (list []record.Found) {
	t.Helper()
	for range 2000 {
		page, next, err := db.Lists.Objects(t.Context(), scope, f)
		if err != nil {
			t.Fatalf("a page of %+v: %v", f, err)
		}
		if len(page) > f.Limit {
			t.Fatalf("a page of %+v has %d rows, want at most %d", f, len(page), f.Limit)
		}
		list = append(list, page...)
		if next == nil {
			return list
		}
		if *next == f.After {
			t.Fatalf("the page after %+v begins there", f.After)
		}
		f.After = *next
	}
	t.Fatalf("the pages of %+v do not end", f)
	return nil
}

// TestPagesNameNobodyElse: where a page ends says no name of a product that the client does
// not see.
func TestPagesNameNobodyElse(t *testing.T) { onEngines(t, testPagesNameNobodyElse) }

func testPagesNameNobodyElse(t *testing.T) {
	db := openTest(t, newClock().options())
	db.Lists = lists.NewLists(db.base, lists.Limits{Step: 3, Few: 5, Names: 1000})
	var scope record.Scope
	for i := range 10 { // more products than those whose lists are merged
		e := listedEntry(4*i + 1)
		e.Object.Name = fmt.Sprintf("%c-ours.pdb", 'b'+2*i)
		scope.Products = append(scope.Products, fmt.Sprintf("p%d", i))
		commitTest(t, db, scope.Products[i], e)
	}
	var theirs []record.Entry
	for i := range 60 {
		e := listedEntry(1000 + i)
		e.Object.Name = fmt.Sprintf("%c-secret%02d.pdb", 'a'+i%26, i)
		theirs = append(theirs, e)
	}
	commitTest(t, db, "theirs", theirs...)
	f := lists.ObjectFilter{Sort: lists.ByName, Limit: 2}
	var names []string
	for range 100 {
		page, next, err := db.Lists.Objects(t.Context(), scope, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page {
			names = append(names, o.Object.Name)
		}
		if next == nil {
			break
		}
		if strings.Contains(next.Name, "secret") {
			t.Errorf("the page after %+v ends at %q, a name of another product", f.After, next.Name)
		}
		f.After = *next
	}
	if len(names) != len(scope.Products) || !slices.IsSorted(names) {
		t.Errorf("the pages have %q, want the %d names in order, each once", names, len(scope.Products))
	}
}

// TestObjectPages joins the pages of lists with all kinds of filters, orders and
// scopes, each two together, and compares them with what was added. The low limits make every way of
// reading a page take part.
func TestObjectPages(t *testing.T) { onEngines(t, testObjectPages) }

func testObjectPages(t *testing.T) {
	symtest.Sequential(t)
	c := newClock()
	db := openTest(t, c.options())
	list := fillLists(t, db, c)
	product, none, fetched, added := "A", "no such product", true, false
	long := record.Scope{Products: []string{"A", "1", "2", "3", "4", "5", "6", "7", "8", "9"}}
	scopes := map[string]record.Scope{"all": all, "A": {Products: []string{"A"}}, "A and none": {Products: []string{"A", ""}}, "many": long, "nothing": {}}
	for i := 1; i <= 9; i++ {
		commitTest(t, db, fmt.Sprint(i), pdb(i))
		list = append(list, listed{Entry: pdb(i), n: 1000 + i, products: []string{fmt.Sprint(i)}, at: c.t})
	}
	since := list[100].at
	filters := map[string]lists.ObjectFilter{
		"all": {}, "kind": {Query: record.Query{Kind: symfile.PE}}, "arch": {Arch: "arm64"}, "feature": {Feature: "unwind"}, "no feature": {Feature: "wind"}, "fetched": {Fetched: &fetched},
		"added": {Fetched: &added}, "since": {Since: since}, "product": {Product: &product}, "no product": {Product: &none}, "name": {Query: record.Query{Name: "liba_0%.pdb"}},
		"prefix": {Query: record.Query{Name: "lib*"}}, "inner": {Query: record.Query{Name: "*b?_1*"}}, "any": {Query: record.Query{Name: "*"}}, "suffix of a kind": {Query: record.Query{Name: "*.dll", Kind: symfile.PE}, Arch: "x64"},
		"nothing": {Query: record.Query{Name: "*nothing*"}}, "ids": {Query: record.Query{IDs: []string{strings.ToLower(listedEntry(20).Object.DebugID.Breakpad()), "none"}, Ref: refOf(3)}},
		"percent": {Query: record.Query{Name: "lib?%*"}}, "product and name": {Query: record.Query{Name: "render*"}, Product: &product},
	}
	type question struct {
		name, who string
		sort      lists.ObjectSort
		low       bool
	}
	var questions []question
	for _, name := range slices.Sorted(maps.Keys(filters)) {
		for _, who := range slices.Sorted(maps.Keys(scopes)) {
			for _, sort := range []lists.ObjectSort{lists.ByName, lists.ByAdded, lists.BySize} {
				questions = append(questions, question{name, who, sort, false}, question{name, who, sort, true})
			}
		}
	}
	for _, q := range symtest.Pairs(t, questions, func(q question) []string { return []string{q.name, q.who, fmt.Sprint(q.sort), fmt.Sprint(q.low)} }) {
		db.Lists = lists.NewLists(db.base, lists.UsualLimits)
		if q.low {
			db.Lists = lists.NewLists(db.base, lists.Limits{Step: 11, Few: 5, Names: 1000})
		}
		f, scope := filters[q.name], scopes[q.who]
		f.Sort, f.Limit = q.sort, 7
		want := wantListed(list, scope, f)
		got := pagesOf(t, db, scope, f)
		var names []string
		for _, o := range got {
			names = append(names, fmt.Sprintf("%s %s %d", o.Object.Name, o.Ref.String()[:8], o.Size))
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s, %s, sort %d, low %v:\n%q, want\n%q", q.name, q.who, q.sort, q.low, names, want)
		}
	}
}

func refOf(n int) *blob.Ref {
	r := listedEntry(n).Ref
	return &r
}

// wantListed computes a list from what was added.
func wantListed(list []listed, scope record.Scope, f lists.ObjectFilter) (want []string) {
	var fits []listed
	for _, o := range list {
		products := o.products
		if !scope.All {
			products = slices.DeleteFunc(slices.Clone(products), func(p string) bool { return !slices.Contains(scope.Products, p) })
		}
		if f.Product != nil {
			products = slices.DeleteFunc(slices.Clone(products), func(p string) bool { return p != *f.Product })
		}
		name := symfile.Fold(o.Object.Name)
		byID := len(f.IDs) > 0
		switch {
		case len(products) == 0, f.Kind != symfile.KindUnknown && o.Object.Kind != f.Kind, f.Arch != "" && o.Arch != f.Arch, f.Feature != "" && !slices.Contains(o.Features, f.Feature),
			f.Fetched != nil && o.fetched != *f.Fetched, o.at.Before(f.Since), f.Name != "" && !glob.Match(f.Name, name),
			byID && o.Ref != *f.Ref && !slices.ContainsFunc(o.Aliases, func(a symfile.Alias) bool { return slices.Contains(f.IDs, symfile.Fold(a.ID)) }):
			continue
		}
		fits = append(fits, o)
	}
	slices.SortFunc(fits, func(a, b listed) int {
		order := 0
		switch f.Sort {
		case lists.ByName:
			order = cmp.Compare(symfile.Fold(a.Object.Name), symfile.Fold(b.Object.Name))
		case lists.BySize:
			order = cmp.Compare(b.Size, a.Size)
		}
		return cmp.Or(order, cmp.Compare(b.n, a.n))
	})
	for _, o := range fits {
		want = append(want, fmt.Sprintf("%s %s %d", o.Object.Name, o.Ref.String()[:8], o.Size))
	}
	return want
}

// TestObjectPagesChange adds and removes objects between pages: none appears twice, and
// none that was there all the time is left out.
func TestObjectPagesChange(t *testing.T) { onEngines(t, testObjectPagesChange) }

func testObjectPagesChange(t *testing.T) {
	for _, sort := range []lists.ObjectSort{lists.ByName, lists.ByAdded, lists.BySize} {
		c := newClock()
		db := openTest(t, c.options())
		var kept []string
		for n := range 40 {
			tx := commitTest(t, db, "A", listedEntry(n))
			if n%4 != 1 {
				kept = append(kept, listedEntry(n).Ref.String())
			} else if tx != int64(n+1) {
				t.Fatalf("build %d, want %d", tx, n+1)
			}
		}
		seen := map[string]int{}
		f := lists.ObjectFilter{Sort: sort, Limit: 6}
		for round := 0; ; round++ {
			page, next, err := db.Lists.Objects(t.Context(), record.Scope{Products: []string{"A"}}, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range page {
				seen[o.Ref.String()]++
			}
			if next == nil {
				break
			}
			f.After = *next
			commitTest(t, db, "A", listedEntry(100+round), listedEntry(200+round), listedEntry(round%40))
			if number := int64(4*round + 2); number <= 40 {
				if _, err := db.Remove(t.Context(), number); err != nil {
					t.Fatal(err)
				}
			}
		}
		for id, n := range seen {
			if n > 1 {
				t.Errorf("sort %d: content %s is %d times in the pages, want once", sort, id[:8], n)
			}
		}
		for _, id := range kept {
			if seen[id] == 0 {
				t.Errorf("sort %d: content %s is in no page", sort, id[:8])
			}
		}
	}
}

// TestShortPattern: with very many names, a pattern that could be in any of them needs
// three characters.
func TestShortPattern(t *testing.T) { onEngines(t, testShortPattern) }

func testShortPattern(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	fillLists(t, db, c)
	limits := lists.UsualLimits
	limits.Names = 5
	db.Lists = lists.NewLists(db.base, limits)
	for pattern, short := range map[string]bool{"*re*": true, "?r?e*": true, "*ren*": false, "re*": false, "*": false, "**": false, "*.dll": false} {
		_, _, err := db.Lists.Objects(t.Context(), all, lists.ObjectFilter{Query: record.Query{Name: pattern}, Limit: 5})
		if errors.Is(err, lists.ErrShortPattern) != short {
			t.Errorf("pattern %s: %v, want refused: %v", pattern, err, short)
		}
	}
	limits.Names = 500
	db.Lists = lists.NewLists(db.base, limits)
	if _, _, err := db.Lists.Objects(t.Context(), all, lists.ObjectFilter{Query: record.Query{Name: "*re*"}, Limit: 5}); err != nil {
		t.Errorf("a short pattern with few names: %v, want no error", err)
	}
}

// listedNames returns the rows of the table of names.
func listedNames(t *testing.T, db *DB) (list []string) {
	t.Helper()
	if err := db.base.Scans.Each(t.Context(), true, "SELECT coalesce(p.name, '*'), k.name FROM listed_name k LEFT JOIN product p ON p.id = k.product_id ORDER BY 1, 2", nil, func(scan func(...any) error) (bool, error) {
		var product, name string
		err := scan(&product, &name)
		list = append(list, product+" "+name)
		return true, err
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestListedNames: the table of names follows the objects, whichever process changes them.
func TestListedNames(t *testing.T) { onEngines(t, testListedNames) }

func testListedNames(t *testing.T) {
	db := openTest(t, Options{})
	other := reopen(t, db, Options{})
	commitTest(t, other, "A", pdb(1))
	commitTest(t, other, "B", pdb(1), pdb(2))
	n := commitTest(t, db, "A", pdb(3))
	if got, want := listedNames(t, db), []string{"* foo1.pdb", "* foo2.pdb", "* foo3.pdb", "A foo1.pdb", "A foo3.pdb", "B foo1.pdb", "B foo2.pdb"}; !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
	for _, number := range []int64{n, 2} {
		if _, err := other.Remove(t.Context(), number); err != nil {
			t.Fatal(err)
		}
	}
	var refs []blob.Ref
	for _, e := range []record.Entry{pdb(1), pdb(2), pdb(3)} {
		refs = append(refs, e.Ref)
	}
	if _, err := other.DropContents(t.Context(), refs, time.Now().Add(time.Hour), func(blob.Ref) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got, want := listedNames(t, db), []string{"* foo1.pdb", "A foo1.pdb", "B foo1.pdb"}; !slices.Equal(got, want) {
		t.Errorf("names after a removal %q, want %q", got, want)
	}
	found, _, err := db.Lists.Objects(t.Context(), record.Scope{Products: []string{"B"}}, lists.ObjectFilter{Limit: 5})
	if err != nil || len(found) > 0 {
		t.Errorf("objects of B: %d, %v; want none", len(found), err)
	}
	clean(t, db)
}

// TestListing reads all that is known of a content, in several scopes.
func TestListing(t *testing.T) { onEngines(t, testListing) }

func testListing(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	ctx := t.Context()
	exe, debug := elf(1, symfile.Executable, strings.Repeat("ab", 20), 0), elf(2, symfile.Debug, strings.Repeat("ab", 20), 7)
	for i := range 12 {
		commitTest(t, db, "A", exe, elf(100+i, symfile.Executable, fmt.Sprintf("%040x", i), 0))
	}
	commitTest(t, db, "B", exe, debug)
	if err := db.Retention.Hold(ctx, removals.Hold{Number: 13, Name: "h", Reason: "why"}); err != nil {
		t.Fatal(err)
	}
	if err := db.Cached.Put(ctx, contents.CachedFile{Source: "up", Name: "prog", URL: "http://up/prog", Tag: "e", Ref: exe.Ref, Size: exe.Size, Entries: []record.Entry{exe}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.PutDerived(ctx, exe.Ref, record.Tool{Name: "zstd", Version: 1}, &record.Content{Ref: ref(900), Size: 9}), db.PutDerived(ctx, exe.Ref, record.Tool{Name: "gzip", Version: 1}, nil),
		db.Jobs.PutFailure(ctx, queue.Failure{Source: exe.Ref, Tool: "symcache", Version: "3.1.0", Detail: "no lines", Until: c.t.Add(time.Hour)}),
		db.Jobs.PutFailure(ctx, queue.Failure{Source: exe.Ref, Tool: "old", Until: c.t.Add(-time.Hour)})); err != nil {
		t.Fatal(err)
	}
	type facts struct{ holders, holds, downloads, partners, siblings int }
	for _, k := range []struct {
		products []string
		want     facts
	}{{nil, facts{13, 1, 1, 1, 13}}, {[]string{"A"}, facts{12, 0, 0, 0, 12}}, {[]string{"B"}, facts{1, 1, 0, 1, 1}}, {[]string{""}, facts{0, 0, 1, 0, 0}}} {
		l, err := db.Lists.Listing(ctx, record.Scope{All: k.products == nil, Products: k.products})
		if err != nil {
			t.Fatal(err)
		}
		list, _, err := l.OfContent(ctx, exe.Ref, 10)
		if err != nil || len(list) != 1 {
			t.Fatalf("%q: %d objects, %v; want 1", k.products, len(list), err)
		}
		var got facts
		var last int64
		for {
			holders, more, err := l.Holders(ctx, list[0], last, 5)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range holders {
				if last > 0 && h.Number >= last || h.Path != exe.Path {
					t.Errorf("%q: holder %d with path %s after %d, want lower numbers", k.products, h.Number, h.Path, last)
				}
				last = h.Number
				got.holds += len(h.Holds)
			}
			if got.holders += len(holders); !more {
				break
			}
		}
		downloads, err := l.Downloads(ctx, exe.Ref)
		if err != nil {
			t.Fatal(err)
		}
		got.downloads = len(downloads)
		partners, err := l.Partners(ctx, list[0], []string{string(exe.Object.BuildID)})
		if err != nil {
			t.Fatal(err)
		}
		got.partners = len(partners)
		siblings, more, err := l.Siblings(ctx, list[0], 10)
		if err != nil {
			t.Fatal(err)
		}
		if got.siblings = len(siblings); more {
			rest, _, err := l.Siblings(ctx, list[0], 20)
			if err != nil {
				t.Fatal(err)
			}
			got.siblings = len(rest)
		}
		if got != k.want {
			t.Errorf("%q: %+v, want %+v", k.products, got, k.want)
		}
		made, failures, err := l.Forms(ctx, exe.Ref)
		if err != nil || len(made) != 2 || made[0].Size != 0 || made[1].Size != 9 || len(failures) != 1 || failures[0].Detail != "no lines" {
			t.Errorf("%q: forms %+v, failures %+v, %v; want gzip, zstd of 9 bytes, and the failure of symcache", k.products, made, failures, err)
		}
	}
	l, err := db.Lists.Listing(ctx, record.Scope{Products: []string{"C"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.OfContent(ctx, exe.Ref, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a content outside of the scope: %v, want fs.ErrNotExist", err)
	}
}

// TestFilePages joins the pages of the files of a transaction.
func TestFilePages(t *testing.T) { onEngines(t, testFilePages) }

func testFilePages(t *testing.T) {
	db := openTest(t, Options{})
	var entries []record.Entry
	for n := range 50 {
		entries = append(entries, listedEntry(n))
	}
	entries = append(entries, entries[3], entries[4])
	number := commitTest(t, db, "A", entries...)
	for _, f := range []lists.FileFilter{{}, {Kind: symfile.PE}, {Name: "*_1*"}, {Name: "render0.dll"}, {Name: "lib*", Kind: symfile.PDB}} {
		for _, order := range []lists.FileOrder{lists.FilesBySeq, lists.FilesByName, lists.FilesBySize} {
			var want []string
			sorted := slices.Clone(entries)
			slices.SortStableFunc(sorted, func(a, b record.Entry) int {
				switch order {
				case lists.FilesByName:
					return cmp.Compare(symfile.Fold(a.Object.Name), symfile.Fold(b.Object.Name))
				case lists.FilesBySize:
					return cmp.Compare(b.Size, a.Size)
				}
				return 0
			})
			for _, e := range sorted {
				if (f.Kind == symfile.KindUnknown || e.Object.Kind == f.Kind) && (f.Name == "" || glob.Match(f.Name, symfile.Fold(e.Object.Name))) {
					want = append(want, e.Path)
				}
			}
			f.Order, f.Limit, f.After = order, 7, lists.FileKey{}
			var got []string
			for {
				page, next, err := db.Lists.FilesOf(context.Background(), number, f)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range page {
					got = append(got, x.Path)
				}
				if next == nil {
					break
				}
				f.After = *next
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v: %q, want %q", f, got, want)
			}
		}
	}
}

// TestVersionObjects joins the pages of the files of a version, few and many.
func TestVersionObjects(t *testing.T) { onEngines(t, testVersionObjects) }

func testVersionObjects(t *testing.T) {
	db := openTest(t, Options{})
	commit := func(product, version string, from, to int) {
		t.Helper()
		var entries []record.Entry
		for n := from; n < to; n++ {
			entries = append(entries, listedEntry(n))
		}
		if _, err := db.Commit(t.Context(), record.Tx{Kind: "add", Product: product, Version: version, Entries: entries}, nil); err != nil {
			t.Fatal(err)
		}
	}
	commit("A", "1", 0, 30)
	commit("A", "2", 20, 50)
	commit("A", "1", 25, 40)
	commit("B", "1", 40, 60)
	commit("A", "1", 60, 70)
	if _, err := db.Remove(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	for _, f := range []lists.ObjectFilter{{}, {Query: record.Query{Kind: symfile.PE}}, {Query: record.Query{Name: "lib*"}}, {Query: record.Query{Name: "render0.dll"}}, {Query: record.Query{Name: "*_1*"}}} {
		for _, sort := range []lists.ObjectSort{lists.ByName, lists.ByAdded, lists.BySize} {
			for _, low := range []bool{false, true} {
				db.Lists = lists.NewLists(db.base, lists.UsualLimits)
				if low {
					db.Lists = lists.NewLists(db.base, lists.Limits{Step: 11, Few: 5, Names: 1000})
				}
				var all []listed
				for n := range 40 {
					all = append(all, listed{Entry: listedEntry(n), n: n, products: []string{"A"}})
				}
				f.Sort, f.Limit, f.After = sort, 7, lists.ObjectKey{}
				want := wantListed(all, record.Scope{All: true}, f)
				var got []string
				for {
					page, next, err := db.Lists.VersionObjects(t.Context(), record.Scope{Products: []string{"A", "B"}}, "A", "1", f)
					if err != nil {
						t.Fatal(err)
					}
					for _, o := range page {
						got = append(got, fmt.Sprintf("%s %s %d", o.Object.Name, o.Ref.String()[:8], o.Size))
					}
					if next == nil {
						break
					}
					f.After = *next
				}
				if !slices.Equal(got, want) {
					t.Errorf("%+v, low %v:\n%q, want\n%q", f, low, got, want)
				}
			}
		}
	}
	if page, _, err := db.Lists.VersionObjects(t.Context(), record.Scope{Products: []string{"B"}}, "A", "1", lists.ObjectFilter{Limit: 5}); err != nil || len(page) > 0 {
		t.Errorf("outside of the scope: %d objects, %v; want none", len(page), err)
	}
}

// TestWantedInParts joins the pages of the unanswered requests.
func TestWantedInParts(t *testing.T) { onEngines(t, testWantedInParts) }

func testWantedInParts(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	var rows []misses.Wanted
	for n := range 23 {
		rows = append(rows, misses.Wanted{Name: fmt.Sprintf("n%02d", n), ID: "i", Client: "c", Count: int64(n % 4), Last: c.t.Add(time.Duration(n%5) * time.Hour)})
	}
	if err := db.Wanted.Count(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	for _, latest := range []bool{false, true} {
		seen := map[string]bool{}
		f := misses.WantedFilter{Limit: 4, Latest: latest}
		var last *misses.Wanted
		for {
			n := 0
			for w, err := range db.Wanted.List(t.Context(), f) {
				if err != nil {
					t.Fatal(err)
				}
				if seen[w.Name] {
					t.Errorf("latest %v: %s is listed twice", latest, w.Name)
				}
				if last != nil && (!latest && w.Count > last.Count || latest && w.Last.After(last.Last)) {
					t.Errorf("latest %v: %+v follows %+v", latest, w, *last)
				}
				seen[w.Name], last = true, &w
				n++
			}
			if n == 0 {
				break
			}
			k := last.Key(latest)
			f.After = &k
		}
		if len(seen) != len(rows) {
			t.Errorf("latest %v: %d rows, want %d", latest, len(seen), len(rows))
		}
	}
}

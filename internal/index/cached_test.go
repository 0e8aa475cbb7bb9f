package index

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/symfile"
)

func cachedFile(source, product string, entries ...Entry) CachedFile {
	return CachedFile{Source: source, Product: product, Name: entries[0].Object.Name, URL: "https://" + source + "/" + entries[0].Object.Name, Tag: `"t"`,
		Ref: entries[0].Ref, Size: entries[0].Size, Entries: entries}
}

func putCached(t testing.TB, db *DB, f CachedFile) {
	t.Helper()
	if err := db.Cached.Put(t.Context(), f, nil); err != nil {
		t.Fatal(err)
	}
}

func evictable(t testing.TB, db *DB, f CacheFilter) (list []Cached) {
	t.Helper()
	for c, err := range db.Cached.Evictable(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

func TestCached(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	a, b := pdb(1), pdb(2)
	refused := errors.New("refused")
	if err := db.Cached.Put(t.Context(), cachedFile("msdl", "P", a), func(_ context.Context, refs []blob.Ref) error {
		if !slices.Equal(refs, []blob.Ref{a.Ref}) {
			t.Errorf("check of %x", refs)
		}
		return refused
	}); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if hits := lookupEntry(t, db, all, a); hits != nil {
		t.Error("seen though refused")
	}
	wrong := cachedFile("msdl", "P", a)
	wrong.Size++
	for _, f := range []CachedFile{wrong, {Source: "x", Ref: a.Ref}, cachedFile("", "P", a), {Source: "x", Ref: b.Ref, Size: b.Size, Entries: []Entry{a}}} {
		if err := db.Cached.Put(t.Context(), f, nil); err == nil {
			t.Errorf("entered: %+v", f)
		}
	}
	g, _ := db.Generation(t.Context())
	putCached(t, db, cachedFile("msdl", "P", a))
	if g2, _ := db.Generation(t.Context()); g2 == g {
		t.Error("the generation stays")
	}
	hits := lookupEntry(t, db, all, a)
	if len(hits) != 1 || hits[0].Source != "msdl" || hits[0].Number != 0 || !hits[0].Added.Equal(c.t) || hits[0].Path != a.Path || hits[0].Ref != a.Ref {
		t.Fatalf("%+v", hits)
	}
	for s, want := range map[string]int{"P": 1, "": 0, "Q": 0} {
		if hits := lookupEntry(t, db, Scope{Products: []string{s}}, a); len(hits) != want {
			t.Errorf("product %q: %d hits", s, len(hits))
		}
	}
	if ages, err := db.HigherAge(t.Context(), all, "foo1.pdb", a.Object.DebugID.GUID.Lower(), 0); err != nil || len(ages) != 1 || ages[0].Source != "msdl" {
		t.Errorf("%+v, %v", ages, err)
	}
	found, err := db.Find(t.Context(), all, Query{Name: "foo1.pdb"}, 0)
	if err != nil || len(found) != 1 || len(found[0].Transactions) != 0 || found[0].Source != "msdl" {
		t.Errorf("%+v, %v", found, err)
	}
	// It is no transaction.
	if list, _ := db.List(t.Context(), all, ListFilter{Removed: true}); len(list) != 0 {
		t.Errorf("listed: %+v", list)
	}
	for _, n := range []int64{-1, 0} {
		if _, err := db.Show(t.Context(), n, nil); err == nil {
			t.Error("shown")
		}
		if _, err := db.Remove(t.Context(), n); err == nil {
			t.Error("removed")
		}
	}
	s, err := db.Stats(t.Context())
	if err != nil || s.Transactions != 0 || s.CachedFiles != 1 || s.CachedBytes != a.Size || len(s.Products) != 0 || s.Contents != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	clean(t, db)

	// Added too: counts as added, and stays when the fetched one goes.
	n := commitTest(t, db, "P", a)
	if hits := lookupEntry(t, db, all, a); len(hits) != 1 || hits[0].Source != "" || hits[0].Number != n || n != 1 {
		t.Errorf("%+v", hits)
	}
	clean(t, db)
	if files, size, err := db.Cached.Evict(t.Context(), []blob.Ref{a.Ref, b.Ref, a.Ref}, func(blob.Ref) error { t.Error("deleted"); return nil }); files != 1 || size != a.Size || err != nil {
		t.Error(files, size, err)
	}
	if hits := lookupEntry(t, db, all, a); len(hits) != 1 || hits[0].Number != 1 {
		t.Errorf("%+v", hits)
	}
	// Fetched again, and removed: the fetched one shows.
	c.hours(1)
	putCached(t, db, cachedFile("msdl", "P", a))
	putCached(t, db, cachedFile("other", "Q", a))
	if _, err := db.Remove(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if hits := lookupEntry(t, db, all, a); len(hits) != 1 || hits[0].Source != "msdl" {
		t.Errorf("%+v", hits)
	}
	clean(t, db)
	// The source's product is another one now: the old one loses it.
	putCached(t, db, cachedFile("msdl", "R", a))
	for s, want := range map[string]string{"P": "", "Q": "other", "R": "msdl"} {
		source := ""
		if hits := lookupEntry(t, db, Scope{Products: []string{s}}, a); len(hits) == 1 {
			source = hits[0].Source
		}
		if source != want {
			t.Errorf("product %q sees it from %q, want %q", s, source, want)
		}
	}
	clean(t, db)
}

func TestEvict(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	var refs []blob.Ref
	for n := range 6 {
		e := pdb(n)
		refs = append(refs, e.Ref)
		source := "one"
		if n%2 == 1 {
			source = "two"
		}
		putCached(t, db, cachedFile(source, "", e))
		c.hours(1)
	}
	start := c.t
	g, _ := db.Generation(t.Context())
	if err := db.Cached.Touch(t.Context(), map[blob.Ref]time.Time{refs[0]: c.t, refs[1]: c.t.Add(-1000 * time.Hour), ref(99): c.t}); err != nil {
		t.Fatal(err)
	}
	if g2, _ := db.Generation(t.Context()); g2 != g {
		t.Error("a last use changes the generation")
	}
	order := func(f CacheFilter) (list []int) {
		for _, e := range evictable(t, db, f) {
			list = append(list, slices.Index(refs, e.Ref))
		}
		return list
	}
	for _, o := range []struct {
		f    CacheFilter
		want []int
	}{
		{CacheFilter{}, []int{1, 2, 3, 4, 5, 0}},
		{CacheFilter{Source: "one"}, []int{2, 4, 0}},
		{CacheFilter{UnusedSince: start.Add(-3 * time.Hour)}, []int{1, 2, 3}},
		{CacheFilter{Name: "foo[13].pdb"}, nil},
		{CacheFilter{Name: "foo?.pdb", Source: "two"}, []int{1, 3, 5}},
		{CacheFilter{ID: symfile.Fold(pdb(3).Aliases[0].ID)}, []int{3}},
		{CacheFilter{ID: symfile.Fold(pdb(3).Aliases[0].ID), Source: "two"}, []int{3}},
		{CacheFilter{ID: symfile.Fold(pdb(3).Aliases[0].ID), Source: "one"}, nil},
	} {
		if got := order(o.f); !slices.Equal(got, o.want) {
			t.Errorf("%+v: %v, want %v", o.f, got, o.want)
		}
	}
	stats, err := db.Cached.Stats(t.Context())
	want := []CachedStats{{"one", 3, 1000 + 1002 + 1004, start.Add(-4 * time.Hour)}, {"two", 3, 1001 + 1003 + 1005, start.Add(-5 * time.Hour)}}
	if err != nil || !slices.Equal(stats, want) {
		t.Errorf("%+v, %v", stats, err)
	}
	// What was derived goes with it; what something else needs does not.
	for _, d := range []struct{ source, result int }{{1, 50}, {2, 51}, {3, 51}, {3, 4}} {
		if err := db.PutDerived(t.Context(), refs[d.source], Tool{"t", d.result}, &Content{ref(d.result), int64(1000 + d.result)}); err != nil {
			t.Fatal(err)
		}
	}
	var deleted []blob.Ref
	del := func(r blob.Ref) error { deleted = append(deleted, r); return nil }
	g, _ = db.Generation(t.Context())
	if n, size, err := db.Cached.Evict(t.Context(), refs[:3], del); n != 3 || size != 3003 || err != nil {
		t.Error(n, size, err)
	}
	if g2, _ := db.Generation(t.Context()); g2 == g {
		t.Error("an eviction does not change the generation")
	}
	if wantGone := []blob.Ref{refs[0], refs[1], ref(50), refs[2]}; !slices.Equal(deleted, wantGone) {
		t.Errorf("deleted %x", deleted)
	}
	clean(t, db)
	for n := range 6 {
		if got := len(lookupEntry(t, db, all, pdb(n))); (got == 1) != (n > 2) {
			t.Errorf("%d: %d hits", n, got)
		}
	}
	// 4 is what was made from 3: hidden, but kept until 3 goes.
	deleted = nil
	if n, size, err := db.Cached.Evict(t.Context(), refs[4:5], del); n != 1 || size != 1004 || err != nil || deleted != nil {
		t.Error(n, size, err, deleted)
	}
	clean(t, db)
	if n, size, err := db.Cached.Drop(t.Context(), CacheFilter{Source: "two", Name: "foo3*"}, del); n != 1 || size != 1003 || err != nil || !slices.Contains(deleted, ref(51)) {
		t.Error(n, size, err, deleted)
	}
	clean(t, db)
	// Evicting what is not there is no error, and no change.
	g, _ = db.Generation(t.Context())
	if n, size, err := db.Cached.Evict(t.Context(), refs[:3], del); n != 0 || size != 0 || err != nil {
		t.Error(n, size, err)
	}
	if g2, _ := db.Generation(t.Context()); g2 != g {
		t.Error("nothing happened, and the generation changed")
	}
	// Bytes that cannot be deleted are without a row.
	boom := errors.New("boom")
	if n, _, err := db.Cached.Evict(t.Context(), refs[5:], func(blob.Ref) error { return boom }); n != 1 || !errors.Is(err, boom) {
		t.Error(n, err)
	}
	if is, _ := db.HasContent(t.Context(), refs[5]); is {
		t.Error("a row without bytes")
	}
	if stats, err := db.Cached.Stats(t.Context()); err != nil || len(stats) != 0 {
		t.Errorf("%+v %v", stats, err)
	}
	clean(t, db)
}

// BenchmarkCached enters and evicts files of a source that has many already.
func BenchmarkCached(b *testing.B) {
	for _, many := range []int{100, 20_000} {
		db := openTest(b, Options{})
		for n := range many {
			e := figureEntry(n)
			if err := db.updateUnsynced(b.Context(), "fill", func(w *write) error {
				c := commit{write: w, now: db.now()}
				if err := c.cached(CachedFile{Source: "s", Name: "n", Ref: e.Ref, Size: e.Size, Fetched: db.now(), Entries: []Entry{e}}); err != nil {
					return err
				}
				return c.count()
			}); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(strconv.Itoa(many), func(b *testing.B) {
			n := many
			for b.Loop() {
				e := figureEntry(n)
				n++
				if err := db.Cached.Put(b.Context(), CachedFile{Source: "s", Name: "n", Ref: e.Ref, Size: e.Size, Entries: []Entry{e}}, nil); err != nil {
					b.Fatal(err)
				}
				if n, _, err := db.Cached.Evict(b.Context(), []blob.Ref{e.Ref}, func(blob.Ref) error { return nil }); n != 1 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

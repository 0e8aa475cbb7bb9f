package index

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

func cachedFile(source, product string, entries ...record.Entry) contents.CachedFile {
	return contents.CachedFile{Source: source, Product: product, Name: entries[0].Object.Name, URL: "https://" + source + "/" + entries[0].Object.Name, Tag: `"t"`,
		Ref: entries[0].Ref, Size: entries[0].Size, Entries: entries}
}

func putCached(t testing.TB, db *DB, f contents.CachedFile) {
	t.Helper()
	if err := db.Cached.Put(t.Context(), f, nil); err != nil {
		t.Fatal(err)
	}
}

func evictable(t testing.TB, db *DB, f contents.CacheFilter) (list []contents.Cached) {
	t.Helper()
	for c, err := range db.Cached.Evictable(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

func TestCached(t *testing.T) { onEngines(t, testCached) }

func testCached(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	a, b := pdb(1), pdb(2)
	// hit checks that one hit is found, from a source or, with the source "", from
	// a transaction.
	hit := func(t *testing.T, source string, number int64) {
		t.Helper()
		if hits := lookupEntry(t, db, all, a); len(hits) != 1 || hits[0].Source != source || hits[0].Number != number {
			t.Errorf("lookup: %+v, want one hit of source %q and build %d", hits, source, number)
		}
		clean(t, db)
	}
	t.Run("refused by the check", func(t *testing.T) {
		refused := errors.New("refused")
		if err := db.Cached.Put(t.Context(), cachedFile("msdl", "P", a), func(_ context.Context, refs []blob.Ref) error {
			if !slices.Equal(refs, []blob.Ref{a.Ref}) {
				t.Errorf("the check was called for %x, want %x", refs, a.Ref)
			}
			return refused
		}); !errors.Is(err, refused) {
			t.Fatalf("Put: error %v, want that of the check", err)
		}
		if hits := lookupEntry(t, db, all, a); hits != nil {
			t.Errorf("lookup of a refused file: %+v, want no hit", hits)
		}
	})
	t.Run("malformed", func(t *testing.T) {
		wrong := cachedFile("msdl", "P", a)
		wrong.Size++
		for name, f := range map[string]contents.CachedFile{
			"size differs from the entry's": wrong, "no entries": {Source: "x", Ref: a.Ref}, "no source": cachedFile("", "P", a),
			"entry of another content": {Source: "x", Ref: b.Ref, Size: b.Size, Entries: []record.Entry{a}},
		} {
			if err := db.Cached.Put(t.Context(), f, nil); err == nil {
				t.Errorf("Put of a file with %s succeeded, want an error", name)
			}
		}
	})
	t.Run("found", func(t *testing.T) {
		before, _ := db.Generation(t.Context())
		putCached(t, db, cachedFile("msdl", "P", a))
		if after, _ := db.Generation(t.Context()); after == before {
			t.Errorf("the generation is still %d after Put, want another", after)
		}
		hits := lookupEntry(t, db, all, a)
		if len(hits) != 1 || hits[0].Source != "msdl" || hits[0].Number != 0 || !hits[0].Added.Equal(c.t) || hits[0].Path != a.Path || hits[0].Ref != a.Ref {
			t.Fatalf("lookup: %+v, want one hit of msdl, %s, added at %v", hits, a.Path, c.t)
		}
		for s, want := range map[string]int{"P": 1, "": 0, "Q": 0} {
			if hits := lookupEntry(t, db, record.Scope{Products: []string{s}}, a); len(hits) != want {
				t.Errorf("lookup in the scope of product %q: %d hits, want %d", s, len(hits), want)
			}
		}
		if ages, err := db.HigherAge(t.Context(), all, "foo1.pdb", a.Object.DebugID.GUID.Lower(), 0); err != nil || len(ages) != 1 || ages[0].Source != "msdl" {
			t.Errorf("HigherAge: %+v, error %v; want one hit of msdl", ages, err)
		}
		if found, err := db.Find(t.Context(), all, record.Query{Name: "foo1.pdb"}, 0); err != nil || len(found) != 1 || len(found[0].Transactions) != 0 || found[0].Source != "msdl" {
			t.Errorf("Find: %+v, error %v; want one file of msdl without builds", found, err)
		}
	})
	t.Run("not a build", func(t *testing.T) {
		if list, _ := db.List(t.Context(), all, ListFilter{Removed: true}); len(list) != 0 {
			t.Errorf("List: %+v, want none", list)
		}
		for _, n := range []int64{-1, 0} {
			if _, err := db.Show(t.Context(), n, nil); err == nil {
				t.Errorf("Show(%d) succeeded, want an error", n)
			}
			if _, err := db.Remove(t.Context(), n); err == nil {
				t.Errorf("Remove(%d) succeeded, want an error", n)
			}
		}
		s, err := db.Stats(t.Context())
		if err != nil || s.Transactions != 0 || s.CachedFiles != 1 || s.CachedBytes != a.Size || len(s.Products) != 0 || s.Contents != 1 {
			t.Errorf("Stats: %+v, error %v; want one cached file of %d bytes and nothing else", s, err, a.Size)
		}
		clean(t, db)
	})
	t.Run("added too", func(t *testing.T) {
		if n := commitTest(t, db, "P", a); n != 1 {
			t.Errorf("build %d, want 1", n)
		}
		hit(t, "", 1)
	})
	t.Run("eviction keeps the added file", func(t *testing.T) {
		files, size, err := db.Cached.Evict(t.Context(), []blob.Ref{a.Ref, b.Ref, a.Ref}, func(r blob.Ref) error {
			t.Errorf("the bytes of %x are deleted, want them kept for the added file", r)
			return nil
		})
		if files != 1 || size != a.Size || err != nil {
			t.Errorf("Evict: %d files, %d bytes, error %v; want one of %d bytes", files, size, err, a.Size)
		}
		hit(t, "", 1)
	})
	t.Run("cached again, added one removed", func(t *testing.T) {
		c.hours(1)
		putCached(t, db, cachedFile("msdl", "P", a))
		putCached(t, db, cachedFile("other", "Q", a))
		if _, err := db.Remove(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		hit(t, "msdl", 0)
	})
	t.Run("source with another product", func(t *testing.T) {
		putCached(t, db, cachedFile("msdl", "R", a))
		for s, want := range map[string]string{"P": "", "Q": "other", "R": "msdl"} {
			source := ""
			if hits := lookupEntry(t, db, record.Scope{Products: []string{s}}, a); len(hits) == 1 {
				source = hits[0].Source
			}
			if source != want {
				t.Errorf("product %q sees the file of source %q, want that of %q", s, source, want)
			}
		}
		clean(t, db)
	})
}

func TestEvict(t *testing.T) { onEngines(t, testEvict) }

func testEvict(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	var refs []blob.Ref
	for n := range 6 {
		e := pdb(n)
		refs = append(refs, e.Ref)
		putCached(t, db, cachedFile([]string{"one", "two"}[n%2], "", e))
		c.hours(1)
	}
	start := c.t
	generation := func(t *testing.T) uint64 {
		t.Helper()
		g, err := db.Generation(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	var deleted []blob.Ref
	del := func(r blob.Ref) error { deleted = append(deleted, r); return nil }
	t.Run("last use", func(t *testing.T) {
		before := generation(t)
		if err := db.Cached.Touch(t.Context(), map[blob.Ref]time.Time{refs[0]: c.t, refs[1]: c.t.Add(-1000 * time.Hour), ref(99): c.t}); err != nil {
			t.Fatal(err)
		}
		if after := generation(t); after != before {
			t.Errorf("generation %d after a last use, want still %d", after, before)
		}
	})
	t.Run("order", func(t *testing.T) {
		for _, o := range []struct {
			f    contents.CacheFilter
			want []int
		}{
			{contents.CacheFilter{}, []int{1, 2, 3, 4, 5, 0}},
			{contents.CacheFilter{Source: "one"}, []int{2, 4, 0}},
			{contents.CacheFilter{UnusedSince: start.Add(-3 * time.Hour)}, []int{1, 2, 3}},
			{contents.CacheFilter{Name: "foo[13].pdb"}, nil},
			{contents.CacheFilter{Name: "foo?.pdb", Source: "two"}, []int{1, 3, 5}},
			{contents.CacheFilter{ID: symfile.Fold(pdb(3).Aliases[0].ID)}, []int{3}},
			{contents.CacheFilter{ID: symfile.Fold(pdb(3).Aliases[0].ID), Source: "two"}, []int{3}},
			{contents.CacheFilter{ID: symfile.Fold(pdb(3).Aliases[0].ID), Source: "one"}, nil},
		} {
			var got []int
			for _, e := range evictable(t, db, o.f) {
				got = append(got, slices.Index(refs, e.Ref))
			}
			if !slices.Equal(got, o.want) {
				t.Errorf("files for eviction with %+v: %v, want %v", o.f, got, o.want)
			}
		}
	})
	t.Run("stats", func(t *testing.T) {
		stats, err := db.Cached.Stats(t.Context())
		want := []contents.CachedStats{{Source: "one", Files: 3, Bytes: 1000 + 1002 + 1004, Oldest: start.Add(-4 * time.Hour)}, {Source: "two", Files: 3, Bytes: 1001 + 1003 + 1005, Oldest: start.Add(-5 * time.Hour)}}
		if err != nil || !slices.Equal(stats, want) {
			t.Errorf("Stats: %+v, error %v; want %+v", stats, err, want)
		}
	})
	t.Run("derived contents of evicted files", func(t *testing.T) {
		// 51 is derived from 2 and 3, so it stays with 3.
		for _, d := range []struct{ source, result int }{{1, 50}, {2, 51}, {3, 51}, {3, 4}} {
			if err := db.PutDerived(t.Context(), refs[d.source], record.Tool{Name: "t", Version: d.result}, &record.Content{Ref: ref(d.result), Size: int64(1000 + d.result)}); err != nil {
				t.Fatal(err)
			}
		}
		before := generation(t)
		if n, size, err := db.Cached.Evict(t.Context(), refs[:3], del); n != 3 || size != 3003 || err != nil {
			t.Errorf("Evict: %d files, %d bytes, error %v; want 3 files of 3003 bytes", n, size, err)
		}
		if after := generation(t); after == before {
			t.Errorf("generation %d after an eviction, want another", after)
		}
		if want := []blob.Ref{refs[0], refs[1], ref(50), refs[2]}; !slices.Equal(deleted, want) {
			t.Errorf("deleted contents %x, want %x", deleted, want)
		}
		clean(t, db)
		for n := range 6 {
			want := 0
			if n > 2 {
				want = 1
			}
			if got := len(lookupEntry(t, db, all, pdb(n))); got != want {
				t.Errorf("file %d: %d hits after the eviction, want %d", n, got, want)
			}
		}
	})
	t.Run("evicted file that is derived from another", func(t *testing.T) {
		deleted = nil
		if n, size, err := db.Cached.Evict(t.Context(), refs[4:5], del); n != 1 || size != 1004 || err != nil || deleted != nil {
			t.Errorf("Evict: %d files, %d bytes, deleted %x, error %v; want one of 1004 bytes and nothing deleted", n, size, deleted, err)
		}
		clean(t, db)
		if n, size, err := db.Cached.Drop(t.Context(), contents.CacheFilter{Source: "two", Name: "foo3*"}, del); n != 1 || size != 1003 || err != nil || !slices.Contains(deleted, ref(51)) {
			t.Errorf("Drop: %d files, %d bytes, deleted %x, error %v; want one of 1003 bytes, with %x deleted", n, size, deleted, err, ref(51))
		}
		clean(t, db)
	})
	t.Run("not found", func(t *testing.T) {
		before := generation(t)
		if n, size, err := db.Cached.Evict(t.Context(), refs[:3], del); n != 0 || size != 0 || err != nil {
			t.Errorf("Evict: %d files, %d bytes, error %v; want none", n, size, err)
		}
		if after := generation(t); after != before {
			t.Errorf("generation %d after an eviction of nothing, want still %d", after, before)
		}
	})
	t.Run("bytes that cannot be deleted", func(t *testing.T) {
		boom := errors.New("boom")
		if n, _, err := db.Cached.Evict(t.Context(), refs[5:], func(blob.Ref) error { return boom }); n != 1 || !errors.Is(err, boom) {
			t.Errorf("Evict: %d files, error %v; want one, and the error of the deletion", n, err)
		}
		if is, _ := db.HasContent(t.Context(), refs[5]); is {
			t.Error("the evicted content still has a row, want none")
		}
		if stats, err := db.Cached.Stats(t.Context()); err != nil || len(stats) != 0 {
			t.Errorf("Stats: %+v, error %v; want none", stats, err)
		}
		clean(t, db)
	})
}

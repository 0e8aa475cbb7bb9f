package index

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// TestColds follows a key and two deltas through their life: what may be a base, and what
// stays while something needs it.
func TestColds(t *testing.T) { onEngines(t, testColds) }

func testColds(t *testing.T) {
	db := openTest(t, Options{})
	ctx := t.Context()
	var refs []blob.Ref
	for n := 1; n <= 3; n++ {
		commitTest(t, db, "app", pdb(n))
		refs = append(refs, pdb(n).Ref)
	}
	size := func(n int) int64 { return pdb(n).Size }
	file := func(n int) record.Content { return record.Content{Ref: blob.Sum([]byte{byte(n)}), Size: int64(n)} }

	if _, err := db.Colds.Of(ctx, refs[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("record of a plain content: %v, want fs.ErrNotExist", err)
	}
	put := func(i int, f record.Content, base *blob.Ref, want error) {
		t.Helper()
		if err := db.Colds.Put(ctx, refs[i], f, base, func() error { return nil }); !errors.Is(err, want) {
			t.Fatalf("put content %d: %v, want %v", i, err, want)
		}
	}
	put(0, file(10), nil, nil)
	put(0, file(10), nil, contents.ErrColdRefused)      // cold already
	put(1, file(11), &refs[1], contents.ErrColdRefused) // its own base
	put(1, file(11), &refs[0], nil)
	put(2, file(12), &refs[1], contents.ErrColdRefused) // the base is a delta
	put(2, file(12), &refs[0], nil)
	c, err := db.Colds.Of(ctx, refs[1])
	if err != nil || c.Base == nil || c.Base.Ref != refs[0] || c.File != file(11) || c.Size != size(2) || c.PlainSince.IsZero() {
		t.Fatalf("record %+v, %v", c, err)
	}
	clean(t, db)
	among(t, db, refs, file)

	// The plain bytes go when they are old enough, while the record says so.
	var deleted []blob.Ref
	del := func(r blob.Ref) error { deleted = append(deleted, r); return nil }
	if n, err := db.Colds.Strip(ctx, refs, db.base.Now().Add(-time.Hour), del); n != 0 || err != nil {
		t.Errorf("strip before the grace: %d, %v", n, err)
	}
	if n, err := db.Colds.Strip(ctx, refs, db.base.Now().Add(time.Hour), del); n != 3 || err != nil || len(deleted) != 3 {
		t.Errorf("strip: %d, %v, deleted %d, want 3", n, err, len(deleted))
	}
	s, err := db.Colds.Stats(ctx)
	if want := (contents.ColdStats{Contents: 3, Plain: size(1) + size(2) + size(3), Keys: 1, KeyBytes: 10, Deltas: 2, Bytes: 33}); err != nil || s != want {
		t.Errorf("sums %+v, %v, want %+v", s, err, want)
	}
	among(t, db, refs, file)
	list, err := db.Colds.Series(ctx, "foo1.pdb", "")
	if err != nil || len(list) != 1 || !list[0].Cold || list[0].Deltas != 2 || list[0].File != 10 {
		t.Errorf("series %+v, %v", list, err)
	}

	// The base outlives its transaction as long as a delta needs it.
	if _, err := db.Trash.Remove(ctx, removals.Removal{Number: 1}); err != nil {
		t.Fatal(err)
	}
	if n, err := db.DropContents(ctx, refs[:1], db.base.Now().Add(time.Hour), del); n != 0 || err != nil {
		t.Errorf("%d bases dropped, %v, want none", n, err)
	}
	if s, _ := db.Colds.Stats(ctx); s.Pinned != 1 || s.PinnedBytes != 10 {
		t.Errorf("pinned %+v, want one of 10 bytes", s)
	}
	if err := db.Colds.Warm(ctx, record.Content{Ref: refs[1], Size: size(2)}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Trash.Remove(ctx, removals.Removal{Number: 3}); err != nil {
		t.Fatal(err)
	}
	clean(t, db)
	if n, err := db.DropContents(ctx, refs[2:], db.base.Now().Add(time.Hour), del); n != 1 || err != nil {
		t.Errorf("%d deltas dropped, %v, want 1", n, err)
	}
	clean(t, db)
	if n, err := db.DropContents(ctx, refs[:1], db.base.Now().Add(time.Hour), del); n != 1 || err != nil {
		t.Errorf("%d bases dropped after the last delta, %v, want 1", n, err)
	}
	if n, err := db.DropContents(ctx, []blob.Ref{file(11).Ref}, db.base.Now().Add(time.Hour), del); n != 1 || err != nil {
		t.Errorf("%d cold files of warm contents dropped, %v, want 1", n, err)
	}
	clean(t, db)
	if s, err := db.Colds.Stats(ctx); s != (contents.ColdStats{}) || err != nil {
		t.Errorf("sums at the end %+v, %v, want none", s, err)
	}
	put(1, file(13), nil, nil)
	if err := db.Colds.Warm(ctx, record.Content{Ref: refs[1], Size: size(2)}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// among looks up the three cold contents of testColds together with others: none, a few,
// and more than one query takes.
func among(t *testing.T, db *DB, refs []blob.Ref, file func(int) record.Content) {
	t.Helper()
	others := func(n int) (list []blob.Ref) {
		for i := range n {
			list = append(list, blob.Sum([]byte{1, byte(i), byte(i >> 8)}))
		}
		return list
	}
	type row struct {
		ref  blob.Ref
		cold *record.Cold
	}
	find := func(refs []blob.Ref) (map[blob.Ref]*record.Cold, error) {
		list := make([]row, len(refs))
		for i, ref := range refs {
			list[i].ref = ref
		}
		err := MarkCold(t.Context(), db, list, func(r *row) (blob.Ref, **record.Cold) { return r.ref, &r.cold })
		found := map[blob.Ref]*record.Cold{}
		for _, r := range list {
			if r.cold != nil {
				found[r.ref] = r.cold
			}
		}
		return found, err
	}
	for n := range 160 { // up to more than three queries take, and around the length of each
		asked := append(others(n), refs...)
		asked[0], asked[len(asked)-1] = asked[len(asked)-1], asked[0]
		found, err := find(append(asked, refs[0]))
		if err != nil || len(found) != 3 {
			t.Errorf("among %d contents: %d records, %v, want the 3 that are cold", len(asked), len(found), err)
			continue
		}
		for i, ref := range refs {
			want, err := db.Colds.Of(t.Context(), ref)
			got := found[ref]
			if err != nil || got.Content != want.Content || got.File != file(10+i) || !got.Made.Equal(want.Made) || (got.Base == nil) != (i == 0) || !got.PlainSince.Equal(want.PlainSince) {
				t.Errorf("among %d contents: %+v, %v, want %+v", len(asked), got, err, want)
			}
		}
	}
	if found, err := find(others(100)); err != nil || len(found) != 0 {
		t.Errorf("among contents that are not cold: %v, %v, want none", found, err)
	}
	if found, err := find(nil); err != nil || len(found) != 0 {
		t.Errorf("among no contents: %v, %v, want none", found, err)
	}
}

// TestColdNames: a content is the newest one of a name by its newest transaction in each
// product, kind and architecture.
func TestColdNames(t *testing.T) { onEngines(t, testColdNames) }

func testColdNames(t *testing.T) {
	db, err := Open(t.Context(), newIndex(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	as := func(e record.Entry, name string) record.Entry {
		e.Object.Name = name
		e.Aliases, e.Path = e.Object.Aliases(), "/build/"+name
		return e
	}
	commitTest(t, db, "app", as(pdb(1), "app.pdb"), as(pdb(1), "release.pdb"))
	commitTest(t, db, "app", as(pdb(2), "app.pdb"), as(pdb(2), "Release.pdb"))
	commitTest(t, db, "app", as(pdb(3), "app.pdb"))
	commitTest(t, db, "other", as(pdb(1), "other.pdb"))
	for _, c := range []struct {
		content int
		name    string
		want    bool
	}{
		{1, "other.pdb", false}, // another content is newer as app.pdb and as release.pdb
		{1, "app.pdb", true},    // the only one of other.pdb
		{2, "app.pdb", true},    // the newest of release.pdb
		{2, "release.pdb", false},
		{3, "app.pdb", false}, // it has no other name
		{3, "release.pdb", true},
		{9, "app.pdb", false},
	} {
		if is, err := db.Colds.NewestOfAnother(t.Context(), ref(c.content), c.name); is != c.want || err != nil {
			t.Errorf("content %d is the newest of another name than %s: %v, %v, want %v", c.content, c.name, is, err, c.want)
		}
	}
	// After the newest transaction of a name is gone, the one before is.
	if _, err := db.Trash.Remove(t.Context(), removals.Removal{Number: 2}); err != nil {
		t.Fatal(err)
	}
	if is, err := db.Colds.NewestOfAnother(t.Context(), ref(1), "other.pdb"); !is || err != nil {
		t.Errorf("content 1 after content 2 was removed: %v, %v, want that it is the newest release.pdb", is, err)
	}
}

// TestColdReads: a content counts as asked for when it was read often enough since a time,
// unless its plain bytes are stored too. Reads before the window, or by a clock that was
// ahead, do not count.
func TestColdReads(t *testing.T) { onEngines(t, testColdReads) }

func testColdReads(t *testing.T) {
	const window = 7 * 24 * time.Hour
	now := time.Now()
	db, err := Open(t.Context(), newIndex(t), Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	commitTest(t, db, "app", pdb(1))
	if err := db.Colds.Put(t.Context(), ref(1), record.Content{Ref: ref(8), Size: 9}, nil, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	read := func(n int) {
		t.Helper()
		if err := db.Colds.Read(t.Context(), map[blob.Ref]int{ref(1): n, ref(2): 5}, window); err != nil {
			t.Fatal(err)
		}
	}
	wantAsked := func(what string, want bool) {
		t.Helper()
		n := 0
		for row, err := range db.Colds.Asked(t.Context(), 3, now.Add(-window)) {
			if err != nil || row.Ref != ref(1) {
				t.Fatalf("%s: %+v, %v, want content 1", what, row, err)
			}
			n++
		}
		if (n == 1) != want {
			t.Errorf("%s: %d contents are asked for, want content 1: %v", what, n, want)
		}
	}
	read(3)
	wantAsked("with plain bytes", false)
	if _, err := db.Colds.Strip(t.Context(), []blob.Ref{ref(1)}, now, func(blob.Ref) error { return nil }); err != nil {
		t.Fatal(err)
	}
	wantAsked("without plain bytes", true)
	now = now.Add(window + time.Hour)
	wantAsked("after a week", false)
	read(1)
	read(1)
	wantAsked("two reads in the next week", false)
	read(1)
	wantAsked("three reads in the next week", true)
	now = now.Add(-365 * 24 * time.Hour)
	read(1)
	wantAsked("one read after the clock was set back", false)
	read(2)
	wantAsked("three reads after the clock was set back", true)
}

// TestColdSettle: a time that is ahead of the clock becomes now, and differs from when the
// cold file was made.
func TestColdSettle(t *testing.T) { onEngines(t, testColdSettle) }

func testColdSettle(t *testing.T) {
	now := time.Now()
	db, err := Open(t.Context(), newIndex(t), Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	commitTest(t, db, "app", pdb(1))
	if err := db.Colds.Put(t.Context(), ref(1), record.Content{Ref: ref(8), Size: 9}, nil, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, back := range []time.Duration{0, 1000 * time.Hour} {
		now = now.Add(-back)
		if err := db.Colds.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, err := db.Colds.Of(t.Context(), ref(1))
		if err != nil || c.PlainSince.UnixMilli() != now.UnixMilli() || c.PlainSince.Equal(c.Made) != (back == 0) {
			t.Errorf("%v back: %+v, %v, want plain since %v", back, c, err, now)
		}
	}
}

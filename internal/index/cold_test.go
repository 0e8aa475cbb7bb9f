package index

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
)

// TestColds follows a key and two deltas through their life: what may be a base, what
// stays while something needs it, and which programs may open the index.
func TestColds(t *testing.T) { onEngines(t, testColds) }

func testColds(t *testing.T) {
	where := newIndex(t)
	db, err := Open(t.Context(), where, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	ctx := t.Context()
	floor := func() (n int) {
		t.Helper()
		if err := db.points.row(ctx, "SELECT format_floor FROM state", nil, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := floor()
	var refs []blob.Ref
	for n := 1; n <= 3; n++ {
		commitTest(t, db, "app", pdb(n))
		refs = append(refs, pdb(n).Ref)
	}
	size := func(n int) int64 { return pdb(n).Size }
	file := func(n int) Content { return Content{Ref: blob.Sum([]byte{byte(n)}), Size: int64(n)} }

	if _, err := db.Colds.Of(ctx, refs[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("record of a plain content: %v, want fs.ErrNotExist", err)
	}
	put := func(i int, f Content, base *blob.Ref, want error) {
		t.Helper()
		if err := db.Colds.Put(ctx, refs[i], f, base, func() error { return nil }); !errors.Is(err, want) {
			t.Fatalf("put content %d: %v, want %v", i, err, want)
		}
	}
	put(0, file(10), nil, nil)
	old := len(db.engine.steps()) - 1
	if _, err := Open(ctx, where, Options{steps: db.engine.steps()[:old]}); !errors.Is(err, ErrNewer) {
		t.Errorf("a program before cold contents: %v, want ErrNewer", err)
	}
	if got := floor(); got != coldFormat(db.engine.steps()) || got <= before {
		t.Errorf("floor %d with a cold content, want %d", got, coldFormat(db.engine.steps()))
	}
	put(0, file(10), nil, ErrColdRefused)      // cold already
	put(1, file(11), &refs[1], ErrColdRefused) // its own base
	put(1, file(11), &refs[0], nil)
	put(2, file(12), &refs[1], ErrColdRefused) // the base is a delta
	put(2, file(12), &refs[0], nil)
	c, err := db.Colds.Of(ctx, refs[1])
	if err != nil || c.Base == nil || c.Base.Ref != refs[0] || c.File != file(11) || c.Size != size(2) || c.PlainSince.IsZero() {
		t.Fatalf("record %+v, %v", c, err)
	}
	clean(t, db)

	// The plain bytes go when they are old enough, while the record says so.
	var deleted []blob.Ref
	del := func(r blob.Ref) error { deleted = append(deleted, r); return nil }
	if n, err := db.Colds.Strip(ctx, refs, db.now().Add(-time.Hour), del); n != 0 || err != nil {
		t.Errorf("strip before the grace: %d, %v", n, err)
	}
	if n, err := db.Colds.Strip(ctx, refs, db.now().Add(time.Hour), del); n != 3 || err != nil || len(deleted) != 3 {
		t.Errorf("strip: %d, %v, deleted %d, want 3", n, err, len(deleted))
	}
	s, err := db.Colds.Stats(ctx)
	if want := (ColdStats{Contents: 3, Plain: size(1) + size(2) + size(3), Keys: 1, KeyBytes: 10, Deltas: 2, Bytes: 33}); err != nil || s != want {
		t.Errorf("sums %+v, %v, want %+v", s, err, want)
	}
	list, err := db.Colds.Series(ctx, "foo1.pdb")
	if err != nil || len(list) != 1 || !list[0].Cold || list[0].Deltas != 2 || list[0].File != 10 {
		t.Errorf("series %+v, %v", list, err)
	}

	// The base outlives its transaction as long as a delta needs it.
	if _, err := db.Trash.Remove(ctx, Removal{Number: 1}); err != nil {
		t.Fatal(err)
	}
	if n, err := db.DropContents(ctx, refs[:1], db.now().Add(time.Hour), del); n != 0 || err != nil {
		t.Errorf("%d bases dropped, %v, want none", n, err)
	}
	if s, _ := db.Colds.Stats(ctx); s.Pinned != 1 || s.PinnedBytes != 10 {
		t.Errorf("pinned %+v, want one of 10 bytes", s)
	}
	if err := db.Colds.Warm(ctx, Content{Ref: refs[1], Size: size(2)}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Trash.Remove(ctx, Removal{Number: 3}); err != nil {
		t.Fatal(err)
	}
	clean(t, db)
	if n, err := db.DropContents(ctx, refs[2:], db.now().Add(time.Hour), del); n != 1 || err != nil {
		t.Errorf("%d deltas dropped, %v, want 1", n, err)
	}
	clean(t, db)
	if n, err := db.DropContents(ctx, refs[:1], db.now().Add(time.Hour), del); n != 1 || err != nil {
		t.Errorf("%d bases dropped after the last delta, %v, want 1", n, err)
	}
	if n, err := db.DropContents(ctx, []blob.Ref{file(11).Ref}, db.now().Add(time.Hour), del); n != 1 || err != nil {
		t.Errorf("%d cold files of warm contents dropped, %v, want 1", n, err)
	}
	clean(t, db)
	if s, err := db.Colds.Stats(ctx); s != (ColdStats{}) || err != nil {
		t.Errorf("sums at the end %+v, %v, want none", s, err)
	}
	put(1, file(13), nil, nil)
	if err := db.Colds.Warm(ctx, Content{Ref: refs[1], Size: size(2)}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	before19, err := Open(ctx, where, Options{steps: db.engine.steps()[:old]})
	if err != nil {
		t.Errorf("a program before cold contents: %v, want that it opens the index", err)
	} else {
		_ = before19.Close()
	}
	if got := floor(); got != before {
		t.Errorf("floor %d without cold contents, want %d as before", got, before)
	}
}

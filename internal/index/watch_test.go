package index

import (
	"strconv"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/tokens"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// What is only remembered leaves the state alone, and what changes what is seen
// changes it, whoever does it.
func TestWatchGeneration(t *testing.T) { onEngines(t, testWatchGeneration) }

func testWatchGeneration(t *testing.T) {
	db := openTest(t, Options{})
	other := reopen(t, db, Options{})
	inFile := !db.base.Shared()
	w, err := db.Watch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	e := pdb(1)
	gone := func(blob.Ref) error { return nil }
	for _, step := range []struct {
		name    string
		changes bool
		do      func(db *DB) error
	}{
		{"fetch", true, func(db *DB) error { return db.Cached.Put(t.Context(), cachedFile("s", "", e), nil) }},
		{"use", false, func(db *DB) error {
			return db.Cached.Touch(t.Context(), map[blob.Ref]time.Time{e.Ref: db.base.Now().Add(time.Hour)})
		}},
		{"miss", false, func(db *DB) error { return db.Misses.Put(t.Context(), []misses.Miss{{Key: "k", Source: "s"}}) }},
		{"forget a miss", false, func(db *DB) error { _, err := db.Misses.Flush(t.Context(), misses.MissFilter{}); return err }},
		{"want", false, func(db *DB) error { return db.Wanted.Count(t.Context(), []misses.Wanted{{Name: "n"}}) }},
		{"job", false, func(db *DB) error {
			_, _, err := db.Jobs.Enqueue(t.Context(), queue.Job{Kind: "k", Key: "k"})
			return err
		}},
		{"lease", false, func(db *DB) error { _, err := db.Jobs.Lease(t.Context(), "w", nil, nil, time.Hour, 1); return err }},
		{"failure", false, func(db *DB) error { return db.Jobs.PutFailure(t.Context(), queue.Failure{}) }},
		{"token", true, func(db *DB) error { return db.Tokens.Put(t.Context(), tokens.TokenRow{ID: "t", Hash: ref(1)}) }},
		{"use of a token", false, func(db *DB) error { return db.Tokens.Touch(t.Context(), map[string]time.Time{"t": db.base.Now()}) }},
		{"revoke", true, func(db *DB) error { return db.Tokens.Revoke(t.Context(), "t") }},
		{"evict", true, func(db *DB) error { _, _, err := db.Cached.Evict(t.Context(), []blob.Ref{e.Ref}, gone); return err }},
	} {
		before, err := w.State()
		if err != nil {
			t.Fatal(err)
		}
		writes, _ := w.Writes()
		if err := step.do(other); err != nil {
			t.Fatalf("%v: do: error %v, want no error", step.name, err)
		}
		if n, _ := w.Writes(); inFile && n == writes {
			t.Errorf("%s: nothing was written", step.name)
		}
		if after, err := w.State(); err != nil || (after != before) != step.changes {
			t.Errorf("%s: state %d, then %d, %v; want a new state: %v", step.name, before, after, err, step.changes)
		}
	}
	if !inFile {
		return
	}
	// A connection that did not wait for the disk waits again.
	for _, d := range []*DB{db, other} {
		var mode int
		if err := d.base.Update(t.Context(), "test", func(w *engine.Write) error {
			return w.Row("PRAGMA synchronous", nil, &mode)
		}); err != nil || mode != 2 {
			t.Errorf("synchronous is %d, %v; want no error and 2", mode, err)
		}
	}
}

// A write that has returned is seen at once by a process that answers from memory.
func TestWatchSeesWrite(t *testing.T) { onEngines(t, testWatchSeesWrite) }

func testWatchSeesWrite(t *testing.T) {
	db := openTest(t, Options{})
	other := reopen(t, db, Options{})
	w, err := db.Watch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	for i := range 100 {
		before, err := w.State()
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Tokens.Put(t.Context(), tokens.TokenRow{ID: strconv.Itoa(i), Hash: ref(i)}); err != nil {
			t.Fatal(err)
		}
		if after, err := w.State(); err != nil || after == before {
			t.Fatalf("write %d: state %d before and %d after it, %v; want a new one", i, before, after, err)
		}
	}
}

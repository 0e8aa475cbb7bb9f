package index

import (
	"path/filepath"
	"testing"
)

// Every commit, of this or another connection, changes the state; reading does not.
func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := db.Watch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		_ = w.Close()
	})
	other, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	state := func() uint64 {
		s, err := w.State()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	seen := map[uint64]bool{state(): true}
	for i := range 20 {
		on := db
		if i%2 == 1 {
			on = other
		}
		if _, err := on.writer.ExecContext(t.Context(), "UPDATE state SET generation = generation + 1"); err != nil {
			t.Fatal(err)
		}
		s := state()
		if seen[s] {
			t.Fatalf("commit %d did not change the state", i)
		}
		seen[s] = true
		if _, err := db.Generation(t.Context()); err != nil {
			t.Fatal(err)
		}
		if state() != s {
			t.Error("reading changed the state")
		}
	}
	if _, err := db.writer.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	before := state()
	if _, err := db.writer.ExecContext(t.Context(), "UPDATE state SET generation = generation + 1"); err != nil {
		t.Fatal(err)
	}
	if after := state(); after == before || seen[after] {
		t.Error("a commit after a checkpoint did not change the state")
	}
}

func BenchmarkWatch(b *testing.B) {
	db, err := Open(b.Context(), filepath.Join(b.TempDir(), "index.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	w, err := db.Watch()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _, _ = db.Close(), w.Close() }()
	b.Run("state", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.State(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("query", func(b *testing.B) {
		for b.Loop() {
			if _, err := db.Generation(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

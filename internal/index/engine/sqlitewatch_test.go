package engine

import (
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Every commit, of this or another connection, changes the state; reading does not.
func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	db, err := Open(t.Context(), path, options())
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
	other, err := Open(t.Context(), path, options())
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
		if _, err := file(on).writer.ExecContext(t.Context(), "UPDATE state SET generation = generation + 1"); err != nil {
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
	if _, err := file(db).writer.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	before := state()
	if _, err := file(db).writer.ExecContext(t.Context(), "UPDATE state SET generation = generation + 1"); err != nil {
		t.Fatal(err)
	}
	if after := state(); after == before || seen[after] {
		t.Error("a commit after a checkpoint did not change the state")
	}
}

func BenchmarkWatch(b *testing.B) {
	db, err := Open(b.Context(), filepath.Join(b.TempDir(), "index.db"), options())
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

// TestWatchTruncated: a shared-memory file that another program truncates is an
// error, where the file is mapped too.
func TestWatchTruncated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mapped")
	if err := os.WriteFile(path, make([]byte, 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	w := newSQLiteWatch(f)
	if n, err := w.writes(); err == nil {
		t.Errorf("writes of an empty header: %d, want an error", n)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if n, err := w.writes(); err == nil {
		t.Errorf("writes of a truncated file: %d, want an error", n)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := w.writes(); err == nil {
		t.Errorf("writes after Close: %d, want an error", n)
	}
}

// Statements of the writing connection are prepared once, also if the connection is
// replaced or the schema changes.
func TestKeptStatements(t *testing.T) {
	db := openFile(t)
	const text = "UPDATE state SET generation = generation + 0 WHERE one = $1"
	once := func() {
		t.Helper()
		if err := db.Update(t.Context(), "test", func(w *Write) error {
			n, err := w.Exec(text, 1)
			if err == nil && n != 1 {
				t.Errorf("%d rows were changed, want 1", n)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	once()
	once()
	kept := file(db).stmts[text]
	if kept == nil {
		t.Fatal("the statement is not kept after two transactions, want it kept")
	}
	conn, err := file(db).writer.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
	once()
	if _, err := file(db).writer.ExecContext(t.Context(), "CREATE TABLE test_kept (a); DROP TABLE test_kept"); err != nil {
		t.Fatal(err)
	}
	once()
	if file(db).stmts[text] != kept {
		t.Error("the statement was prepared anew, want it kept")
	}
	// A failed transaction leaves nothing behind.
	fails := errors.New("fails")
	if err := db.Update(t.Context(), "test", func(w *Write) error {
		if _, err := w.Exec(text, 1); err != nil {
			return err
		}
		return fails
	}); !errors.Is(err, fails) {
		t.Errorf("a transaction that fails: error %v, want %v", err, fails)
	}
	once()
}

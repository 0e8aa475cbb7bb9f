package index

import (
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
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

// What is only remembered leaves the state alone, and what changes what is seen
// changes it, whoever does it.
func TestWatchGeneration(t *testing.T) { onEngines(t, testWatchGeneration) }

func testWatchGeneration(t *testing.T) {
	db := openTest(t, Options{})
	other := reopen(t, db, Options{})
	_, inFile := db.base.engine.(*sqliteFile)
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
		{"miss", false, func(db *DB) error { return db.Misses.Put(t.Context(), []Miss{{Key: "k", Source: "s"}}) }},
		{"forget a miss", false, func(db *DB) error { _, err := db.Misses.Flush(t.Context(), MissFilter{}); return err }},
		{"want", false, func(db *DB) error { return db.Wanted.Count(t.Context(), []Wanted{{Name: "n"}}) }},
		{"job", false, func(db *DB) error { _, _, err := db.Jobs.Enqueue(t.Context(), Job{Kind: "k", Key: "k"}); return err }},
		{"lease", false, func(db *DB) error { _, err := db.Jobs.Lease(t.Context(), "w", nil, nil, time.Hour, 1); return err }},
		{"failure", false, func(db *DB) error { return db.Jobs.PutFailure(t.Context(), Failure{}) }},
		{"token", true, func(db *DB) error { return db.Tokens.Put(t.Context(), TokenRow{ID: "t", Hash: ref(1)}) }},
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
		if err := file(d).writer.QueryRow("PRAGMA synchronous").Scan(&mode); err != nil || mode != 2 {
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
		if err := other.Tokens.Put(t.Context(), TokenRow{ID: strconv.Itoa(i), Hash: ref(i)}); err != nil {
			t.Fatal(err)
		}
		if after, err := w.State(); err != nil || after == before {
			t.Fatalf("write %d: state %d before and %d after it, %v; want a new one", i, before, after, err)
		}
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
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if n, err := w.writes(); err == nil {
		t.Errorf("writes after Close: %d, want an error", n)
	}
}

// Statements of the writing connection are prepared once, also if the connection is
// replaced or the schema changes.
func TestKeptStatements(t *testing.T) {
	db := openTest(t, Options{})
	const text = "UPDATE state SET generation = generation + 0 WHERE one = $1"
	once := func() {
		t.Helper()
		if err := db.base.Update(t.Context(), "test", func(w *write) error {
			n, err := w.exec(text, 1)
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
	if err := db.base.Update(t.Context(), "test", func(w *write) error {
		if _, err := w.exec(text, 1); err != nil {
			return err
		}
		return fails
	}); !errors.Is(err, fails) {
		t.Errorf("a transaction that fails: error %v, want %v", err, fails)
	}
	once()
}

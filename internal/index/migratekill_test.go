package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/symtest"
)

// copyDB copies a database with its log, as a kill leaves them.
func copyDB(t *testing.T, from, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		in, err := os.Open(from + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(to + suffix)
		if err == nil {
			_, err = io.Copy(out, in)
		}
		if err = errors.Join(err, in.Close(), out.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMigrationKilled: an upgrade that is killed before, in or after any step opens
// again and ends in the current format.
func TestMigrationKilled(t *testing.T) {
	symtest.Sequential(t)
	for i, killed := range migrations {
		for _, point := range []string{"before the first statement", "after the last statement", "after the commit"} {
			t.Run(fmt.Sprintf("step %d, %s", killed.number, point), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				path, left := filepath.Join(dir, "index.db"), filepath.Join(dir, "left.db")
				old := writer(t, path)
				for _, m := range migrations[:i] {
					step(t, old, m)
				}
				stop := errors.New("killed")
				switch point {
				case "before the first statement":
					copyDB(t, path, left)
				case "after the last statement":
					// Inside the transaction: the log holds what is not committed.
					err := old.base.Update(t.Context(), "migrate", func(w *write) error {
						if err := killed.apply(old.base.engine, w, old.base.Now()); err != nil {
							return err
						}
						copyDB(t, path, left)
						return stop
					})
					if !errors.Is(err, stop) {
						t.Fatalf("step %d: error %v, want %v", killed.number, err, stop)
					}
				default:
					step(t, old, killed)
					copyDB(t, path, left)
				}
				db, err := Open(context.Background(), left, Options{})
				if err != nil {
					t.Fatalf("open after the kill: %v, want no error", err)
				}
				defer db.Close()
				var version int
				if err := db.base.Scans.row(t.Context(), "SELECT user_version FROM pragma_user_version", nil, &version); err != nil || version != len(migrations) {
					t.Errorf("format %d, error %v; want %d", version, err, len(migrations))
				}
				clean(t, db)
				commitTest(t, db, "", pdb(1))
			})
		}
	}
}

// writer opens a database for writing and migrates nothing.
func writer(t *testing.T, path string) *DB {
	t.Helper()
	c := newClock()
	e := &sqliteFile{path: path, wait: 1e9, queue: make(chan struct{}, 1)}
	var err error
	if e.writer, err = openPool(path, "rwc", 1, writerCache, 1e9, "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.writer.Close() })
	return newDB(databaseOf(e, c.now), c.options())
}

// step applies one migration.
func step(t *testing.T, db *DB, m migration) {
	t.Helper()
	if err := db.base.Update(t.Context(), "migrate", func(w *write) error { return m.apply(db.base.engine, w, db.base.Now()) }); err != nil {
		t.Fatal(err)
	}
}

package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
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
	for i, killed := range sqliteSteps {
		for _, point := range []string{"before the first statement", "after the last statement", "after the commit"} {
			t.Run(fmt.Sprintf("step %d, %s", killed.Number, point), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				path, left := filepath.Join(dir, "index.db"), filepath.Join(dir, "left.db")
				old := writer(t, path)
				for _, m := range sqliteSteps[:i] {
					step(t, old, m)
				}
				stop := errors.New("killed")
				switch point {
				case "before the first statement":
					copyDB(t, path, left)
				case "after the last statement":
					// Inside the transaction: the log holds what is not committed.
					err := old.Update(t.Context(), "migrate", func(w *Write) error {
						if err := killed.apply(old.engine, w.session, old.now()); err != nil {
							return err
						}
						copyDB(t, path, left)
						return stop
					})
					if !errors.Is(err, stop) {
						t.Fatalf("step %d: error %v, want %v", killed.Number, err, stop)
					}
				default:
					step(t, old, killed)
					copyDB(t, path, left)
				}
				db, err := Open(t.Context(), left, options())
				if err != nil {
					t.Fatalf("open after the kill: %v, want no error", err)
				}
				defer db.Close()
				var version int
				if err := db.Scans.Row(t.Context(), "SELECT user_version FROM pragma_user_version", nil, &version); err != nil || version != len(sqliteSteps) {
					t.Errorf("format %d, error %v; want %d", version, err, len(sqliteSteps))
				}
				if got, want := tables(t, db), tables(t, openFile(t)); !slices.Equal(got, want) {
					t.Errorf("the tables are %q, want %q", got, want)
				}
				if err := db.Snapshot(t.Context(), func(r Reader) error {
					problems, err := db.Integrity(t.Context(), r)
					if len(problems) > 0 {
						t.Errorf("the check finds %q, want nothing", problems)
					}
					return err
				}); err != nil {
					t.Error(err)
				}
				change(t, db)
			})
		}
	}
}

// tables returns the tables and indexes of a database with their statements.
func tables(t *testing.T, db *Database) (list []string) {
	t.Helper()
	if err := db.Scans.Each(t.Context(), true, "SELECT name || ': ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1", nil,
		func(scan Scan) (bool, error) {
			var s string
			err := scan(&s)
			list = append(list, s)
			return true, err
		}); err != nil {
		t.Fatal(err)
	}
	return list
}

// writer opens a database for writing and migrates nothing.
func writer(t *testing.T, path string) *Database {
	t.Helper()
	e := &sqliteFile{path: path, wait: 1e9, migrations: []Migration{}, queue: make(chan struct{}, 1)}
	var err error
	if e.writer, err = OpenConnections(path, "rwc", 1, writerCache, 1e9, "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.writer.Close() })
	return databaseOf(e, time.Now)
}

// step applies one migration.
func step(t *testing.T, db *Database, m Migration) {
	t.Helper()
	if err := db.Update(t.Context(), "migrate", func(w *Write) error { return m.apply(db.engine, w.session, db.now()) }); err != nil {
		t.Fatal(err)
	}
}

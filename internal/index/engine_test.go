package index

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/pgtest"
)

// onEngines runs a test on every engine, at the same time as other tests. The name
// of the subtest tells openTest which engine.
func onEngines(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		pgtest.Shared(t)
		test(t)
	})
}

// onEngineOfDay runs a long test at random on one engine a day, by turns, and on both with
// SYMDEPOT_TORTURE. The tests have different numbers, so that each engine has some every day.
func onEngineOfDay(t *testing.T, number int, test func(t *testing.T)) {
	t.Helper()
	turn := symtest.Turns(t, 2)
	onEngines(t, func(t *testing.T) {
		if !turn(number + strings.Count(t.Name(), "/postgres")) {
			t.Skip("needs another day, on which this engine has its turn (SYMDEPOT_TORTURE=1 takes both)")
		}
		test(t)
	})
}

// migrated is an index in a file that has all tables and nothing in them.
var migrated struct {
	once  sync.Once
	bytes []byte
}

// newDatabase returns a database of the shared server that has all tables. To copy
// them takes a fifth of the time that it takes to make them.
func newDatabase(t testing.TB) string {
	t.Helper()
	return pgtest.Shared(t).Made(t, "index", func(where string) error {
		db, err := Open(t.Context(), where, Options{})
		if err != nil {
			return err
		}
		return db.Close()
	})
}

// newIndex returns an index that has all tables, on the engine of the test.
func newIndex(t testing.TB) string {
	t.Helper()
	if strings.Contains(t.Name(), "/"+leastRole+"/") {
		return leastDatabase(t)
	}
	if strings.Contains(t.Name(), "/postgres") {
		return newDatabase(t)
	}
	path := filepath.Join(t.TempDir(), "index.db")
	migrated.once.Do(func() {
		db, err := Open(t.Context(), path, Options{})
		if err == nil {
			err = db.Close()
		}
		var b []byte
		if err == nil {
			b, err = os.ReadFile(path)
		}
		if err != nil {
			t.Fatal(err)
		}
		migrated.bytes = b
	})
	if err := os.WriteFile(path, migrated.bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// address returns where a test makes a new index.
func address(t testing.TB) string {
	if strings.Contains(t.Name(), "/postgres") {
		return pgtest.Shared(t).Database(t)
	}
	return filepath.Join(t.TempDir(), "index.db")
}

// addresses are those of the indexes that openTest has opened: an index itself names its
// database without the user.
var addresses sync.Map // by *DB

// reopen opens the index of db, which openTest has opened, a second time.
func reopen(t testing.TB, db *DB, opt Options) *DB {
	t.Helper()
	where, _ := addresses.Load(db)
	other, err := Open(t.Context(), where.(string), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	return other
}

// rawFile opens the file of an index beside it.
func rawFile(t testing.TB, db *DB) *sql.DB {
	t.Helper()
	raw, err := engine.OpenConnections(nameOf(db), "rw", 1, 100, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	return raw
}

// rawConn connects to the database of an index beside it.
func rawConn(t testing.TB, where string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

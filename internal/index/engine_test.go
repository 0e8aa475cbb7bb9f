package index

import (
	"path/filepath"
	"strings"
	"testing"

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

// address returns where a test keeps a new index.
func address(t testing.TB) string {
	if strings.Contains(t.Name(), "/postgres") {
		return pgtest.Shared(t).Database(t)
	}
	return filepath.Join(t.TempDir(), "index.db")
}

// reopen opens the index of db a second time.
func reopen(t testing.TB, db *DB, opt Options) *DB {
	t.Helper()
	where := db.engine.name()
	if e, ok := db.engine.(*postgres); ok {
		where = e.pool.Config().ConnString()
	}
	other, err := Open(t.Context(), where, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	return other
}

// file returns the engine of an index in a file.
func file(db *DB) *sqliteFile { return db.engine.(*sqliteFile) }

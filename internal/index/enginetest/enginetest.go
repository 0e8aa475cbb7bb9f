// Package enginetest opens databases that have all tables, for tests of the packages that
// read and write them.
package enginetest

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/schema"
)

func options() engine.Options {
	return engine.Options{BusyWait: 10 * time.Minute, SQLite: engine.ReadMigrations(schema.Files, "sqlite"),
		Postgres: engine.ReadMigrations(schema.Files, "postgres")}
}

func open(tb testing.TB, where string) *engine.Database {
	tb.Helper()
	db, err := engine.Open(tb.Context(), where, options())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// File opens a new database in a file until the end of the test.
func File(tb testing.TB) *engine.Database {
	tb.Helper()
	return open(tb, filepath.Join(tb.TempDir(), "index.db"))
}

// Shared opens a new database of the shared server n times, until the end of the test. The
// TestMain of the package calls pgtest.End.
func Shared(tb testing.TB, n int) []*engine.Database {
	tb.Helper()
	where := pgtest.Shared(tb).Made(tb, "index", func(where string) error {
		db, err := engine.Open(context.Background(), where, options())
		if err != nil {
			return err
		}
		return db.Close()
	})
	dbs := make([]*engine.Database, n)
	for i := range dbs {
		dbs[i] = open(tb, where)
	}
	return dbs
}

// Plan returns the steps in which SQLite runs a query, without values for its arguments.
func Plan(tb testing.TB, db *engine.Database, query string) (steps []string) {
	tb.Helper()
	err := db.Scans.Each(tb.Context(), false, "EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "$")),
		func(scan engine.Scan) (bool, error) {
			var id, parent, unused int
			var step string
			err := scan(&id, &parent, &unused, &step)
			steps = append(steps, step)
			return true, err
		})
	if err != nil {
		tb.Fatalf("the plan of %s: %v", query, err)
	}
	return steps
}

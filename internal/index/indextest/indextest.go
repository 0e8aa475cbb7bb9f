// Package indextest opens new indexes for tests.
package indextest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/index"
)

// empty is the content of a new index. Copies of it spare the tests the
// migrations, which take a second each under the race detector.
var empty = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "empty-index-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	name := filepath.Join(dir, "index.db")
	db, err := index.Open(context.Background(), name, index.Options{})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(name)
})

// Prepare makes the content of new indexes. A TestMain calls it if Open is used in
// bubbles of testing/synctest, in which it must not be made.
func Prepare() { _, _ = empty() } // Open reports the error

// Open opens a new index below dir. The caller closes it.
func Open(tb testing.TB, dir string, opt index.Options) *index.DB {
	tb.Helper()
	name := filepath.Join(dir, "index.db")
	b, err := empty()
	if err == nil {
		err = os.WriteFile(name, b, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
	db, err := index.Open(tb.Context(), name, opt)
	if err != nil {
		tb.Fatal(err)
	}
	return db
}

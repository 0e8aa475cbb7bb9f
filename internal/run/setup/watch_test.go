package setup

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/remote/watch"
)

// TestForgetWatched: the index of a folder is deleted with all its files a day after the last
// scan of the folder, also if that scan had nothing to write.
func TestForgetWatched(t *testing.T) {
	t.Parallel()
	dir, builds := t.TempDir(), t.TempDir()
	old := time.Now().Add(-2 * forgetWatched)
	age := func(name string) {
		t.Helper()
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"gone.db", "gone.db-wal", "gone.db-shm", "young.db", "young.db-wal", "named.db", "note", "gone.points/p.points", "young.points/p.points"} {
		symtest.Put(t, dir, name, nil)
	}
	for _, name := range []string{"gone.db", "young.db-wal", "named.db", "note"} {
		age(name)
	}
	f, err := watch.Open(t.Context(), builds, watch.Options{Index: filepath.Join(dir, "scanned.db"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	age("scanned.db")
	if _, err := f.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := forget(dir, map[string]bool{"named.db": true}); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if want := []string{"named.db", "note", "scanned.db", "young.db", "young.db-wal", "young.points"}; !slices.Equal(names, want) {
		t.Errorf("the files %q are left, want %q", names, want)
	}
	if err := forget(filepath.Join(dir, "none"), nil); err != nil {
		t.Errorf("a folder without indexes: %v, want no error", err)
	}
}

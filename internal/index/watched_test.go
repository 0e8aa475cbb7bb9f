package index

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/watched"
)

func openWatched(t *testing.T, path string, wantFresh bool) *watched.Watched {
	t.Helper()
	w, fresh, err := watched.OpenWatched(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if fresh != wantFresh {
		t.Errorf("the index is fresh: %v, want %v", fresh, wantFresh)
	}
	return w
}

// TestWatched: files are put, replaced and dropped with all that belongs to them.
func TestWatched(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "watch.db")
	w := openWatched(t, path, true)
	apply := func(c watched.Change) {
		t.Helper()
		if err := w.Apply(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	put := func(dir, name string, size int64, key int64) watched.Entry {
		return watched.Entry{
			File:    watched.File{Dir: dir, Name: name, Size: size, MTime: 1, CTime: 2, Inode: 1<<64 - 1, Kind: 1, Seen: 3, Tag: "t"},
			Objects: []watched.Object{{Member: "m", Place: []byte{1}, Size: 4, Data: []byte{5}, Keys: []int64{key, 7}}, {Size: 1, Data: []byte{6}, Keys: []int64{7}}},
			Sources: []int64{8}, Names: []byte("names"),
		}
	}
	apply(watched.Change{
		Put:   []watched.Entry{put("a", "x", 10, -1), put("a/b", "y", 20, -2)},
		Dirs:  []watched.Dir{{Path: "a", Dull: []byte("12345678")}},
		Notes: map[string]string{"n": "v"},
	})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = openWatched(t, path, false)
	defer func() { _ = w.Close() }()
	dull, files, known, err := w.Dir(t.Context(), "a")
	if err != nil || !known || string(dull) != "12345678" || len(files) != 1 {
		t.Fatalf("folder a: %q, %+v, %v, %v", dull, files, known, err)
	}
	want := put("a", "x", 10, -1).File
	want.ID = files[0].ID
	if files[0] != want {
		t.Errorf("the file is %+v, want %+v", files[0], want)
	}
	if _, _, known, err := w.Dir(t.Context(), "c"); known || err != nil {
		t.Errorf("an unknown folder: known %v, %v", known, err)
	}
	hits := func(key int64) []watched.Hit {
		t.Helper()
		h, err := w.ByKey(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if h := hits(-2); len(h) != 1 || h[0].Member != "m" || h[0].File.Name != "y" || !bytes.Equal(h[0].Data, []byte{5}) || !bytes.Equal(h[0].Place, []byte{1}) {
		t.Errorf("the object is %+v", h)
	}
	if h := hits(7); len(h) != 4 {
		t.Errorf("%d objects have the key of all, want 4", len(h))
	}
	if s, err := w.BySource(t.Context(), 8); err != nil || len(s) != 2 {
		t.Errorf("the packages with a source: %+v, %v, want 2", s, err)
	}
	if n, err := w.Names(t.Context(), want.ID); err != nil || string(n) != "names" {
		t.Errorf("the names are %q, %v", n, err)
	}
	// A put replaces the file of the same name.
	apply(watched.Change{Put: []watched.Entry{put("a", "x", 11, -3)}})
	if len(hits(-1)) != 0 || len(hits(-3)) != 1 {
		t.Error("the objects of a replaced file are found, or those of the new one are not")
	}
	_, files, _, err = w.Dir(t.Context(), "a/b")
	if err != nil || len(files) != 1 {
		t.Fatalf("folder a/b: %+v, %v", files, err)
	}
	apply(watched.Change{Drop: []int64{files[0].ID}, Gone: []string{"a/b", "a"}})
	dirs, err := w.Dirs(t.Context(), "", 10)
	if err != nil || len(dirs) != 1 || dirs[0] != "a" {
		t.Errorf("the folders are %v, %v, want a, which still has a file", dirs, err)
	}
	if n, err := w.Groom(t.Context()); err != nil || n == 0 {
		t.Errorf("Groom: %d rows, %v, want some", n, err)
	}
	if n, err := w.Groom(t.Context()); err != nil || n != 0 {
		t.Errorf("Groom again: %d rows, %v, want none", n, err)
	}
	if total, err := w.Totals(t.Context(), 1); err != nil || total != (watched.Totals{Files: 1, Packages: 1, Objects: 2, Bytes: 11}) {
		t.Errorf("the totals are %+v, %v", total, err)
	}
	if err := w.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, err := w.Note(t.Context(), "n"); v != "" || err != nil {
		t.Errorf("a note after Clear: %q, %v", v, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Apply(ctx, watched.Change{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Apply of a caller that left: %v, want %v", err, context.Canceled)
	}
}

// TestWatchedDamaged: a damaged index, and one of another format, are replaced. A database
// of something else is not touched.
func TestWatchedDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "watch.db")
	if err := os.WriteFile(path, bytes.Repeat([]byte("damaged "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = openWatched(t, path, true).Close()
	change := func(path, pragma string) {
		t.Helper()
		db, err := engine.OpenConnections(path, "rwc", 1, 100, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), pragma); err != nil {
			t.Fatal(err)
		}
	}
	change(path, "PRAGMA user_version = 99")
	_ = openWatched(t, path, true).Close()
	_ = openWatched(t, path, false).Close()
	foreign := filepath.Join(dir, "foreign.db")
	change(foreign, "CREATE TABLE t (x)")
	if w, _, err := watched.OpenWatched(t.Context(), foreign); !errors.Is(err, engine.ErrForeign) {
		if w != nil {
			_ = w.Close()
		}
		t.Errorf("a foreign database: %v, want %v", err, engine.ErrForeign)
	}
}

// TestReadWatched: an index is read while another process writes it, and nothing is made
// or replaced by reading.
func TestReadWatched(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "watch.db")
	if _, err := watched.ReadWatched(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an index that is missing: %v, want fs.ErrNotExist", err)
	}
	w := openWatched(t, path, true)
	defer func() { _ = w.Close() }()
	r, err := watched.ReadWatched(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for _, value := range []string{"one", "two"} {
		if err := w.Apply(t.Context(), watched.Change{Notes: map[string]string{"n": value}}); err != nil {
			t.Fatal(err)
		}
		if have, err := r.Note(t.Context(), "n"); have != value || err != nil {
			t.Errorf("the note is %q, %v, want %q", have, err, value)
		}
	}
	other := filepath.Join(t.TempDir(), "other.db")
	if err := os.WriteFile(other, []byte("no database, but long enough for the header of one: "+strings.Repeat("x", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := watched.ReadWatched(t.Context(), other); err == nil {
		t.Error("a file that is no database was opened")
	}
	if b, err := os.ReadFile(other); err != nil || !strings.HasPrefix(string(b), "no database") {
		t.Errorf("the file was changed: %q, %v", b, err)
	}
}

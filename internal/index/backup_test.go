package index

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/record"
)

// TestSnapshotWhileWriting copies an index again and again while others write: each
// copy is sound and holds a state between two transactions.
func TestSnapshotWhileWriting(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{})
	commitTest(t, db, "", pdb(1))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 2; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := db.Commit(t.Context(), record.Tx{Kind: "add", Entries: []record.Entry{pdb(n), pdb(n + 1)}}, nil); err != nil {
				t.Error(err)
				return
			}
		}
	})
	last := Moment{}
	for range 10 {
		to := filepath.Join(t.TempDir(), "copy.db")
		var done, all int64
		if err := db.Copies.Snapshot(t.Context(), to, func(d, a int64) { done, all = d, a }); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(to); err != nil || done != all || info.Size() != all {
			t.Errorf("the copy has %d bytes, %v; %d of %d were reported, want all", info.Size(), err, done, all)
		}
		c, err := Open(t.Context(), to, Options{MustExist: true})
		if err != nil {
			t.Fatal(err)
		}
		clean(t, c)
		m, err := c.Copies.Moment(t.Context())
		if err != nil || m.Generation < last.Generation || m.Transaction < last.Transaction || m.Transaction == 0 {
			t.Errorf("the copy has the state %+v, %v, after %+v; want no older one", m, err, last)
		}
		last = m
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

// TestTarget replaces an index by another one. While it is open for that, nobody
// else can open it, and while somebody has it open, it cannot be replaced.
func TestTarget(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	from := openTest(t, Options{})
	commitTest(t, from, "", pdb(1), pdb(2))
	want, err := from.Copies.Moment(ctx)
	if err != nil {
		t.Fatal(err)
	}
	staged := filepath.Join(t.TempDir(), "staged.db")
	if err := from.Copies.Snapshot(ctx, staged, nil); err != nil {
		t.Fatal(err)
	}
	for _, before := range []string{"no file", "empty file", "index"} {
		path := filepath.Join(t.TempDir(), "index.db")
		switch before {
		case "empty file":
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		case "index":
			db, err := Open(ctx, path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for n := range 3 {
				commitTest(t, db, "", pdb(10+n))
			}
			if _, err := OpenTarget(ctx, path); !errors.Is(err, engine.ErrBusy) {
				t.Errorf("an open index was opened alone: %v, want ErrBusy", err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		target, err := OpenTarget(ctx, path)
		if err != nil {
			t.Fatalf("%s: OpenTarget: error %v, want no error", before, err)
		}
		if _, err := OpenTarget(ctx, path); !errors.Is(err, engine.ErrBusy) {
			t.Errorf("%s: opened meanwhile: %v, want ErrBusy", before, err)
		}
		if n, _, err := target.Holds(ctx); err != nil || (n == 3) != (before == "index") {
			t.Errorf("%s: holds %d builds, %v; want all 3 only behind the index", before, n, err)
		}
		if err := target.Replace(ctx, staged, nil); err != nil {
			t.Fatalf("%s: Replace: error %v, want no error", before, err)
		}
		if m, found, err := target.Moment(ctx); err != nil || !found || m != want {
			t.Errorf("%s: state %+v, %v, %v; want %+v", before, m, found, err, want)
		}
		if err := target.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the replaced index has a log: %v, want fs.ErrNotExist", before, err)
		}
		db, err := Open(ctx, path, Options{MustExist: true})
		if err != nil {
			t.Fatalf("%s: Open: error %v, want no error", before, err)
		}
		clean(t, db)
		if n := commitTest(t, db, "", pdb(5)); n != 2 {
			t.Errorf("%s: the next build is %d, want 2", before, n)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTargetRefuses opens files that are not indexes.
func TestTargetRefuses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "index.db")
	if err := os.WriteFile(path, []byte("This is a text, and longer than one hundred bytes, which is what the header of an SQLite database takes: the library decides by it."), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTarget(t.Context(), path); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("a text file: %v, want ErrCorrupt", err)
	}
	if err := SnapshotFile(t.Context(), path, path+".copy", nil); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("copy of a text file: %v, want ErrCorrupt", err)
	}
	if err := SnapshotFile(t.Context(), path+".none", path+".copy", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("copy of a missing file: %v, want fs.ErrNotExist", err)
	}
}

// TestDropSecrets: the bytes of a deleted key are not in the file any more.
func TestDropSecrets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "index.db")
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := db.Secret(t.Context(), "k", 32)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := db.Copies.Snapshot(t.Context(), copied, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	has := func(path string) bool {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(b, key)
	}
	if !has(path) || !has(copied) {
		t.Fatal("the key is not in the file: the test proves nothing")
	}
	c, err := Open(t.Context(), copied, Options{MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Copies.DropSecrets(t.Context()), c.Close()); err != nil {
		t.Fatal(err)
	}
	if has(copied) {
		t.Error("the deleted key is still in the file")
	}
}

// TestSnapshotOfServer: a database on a server has its own tools.
func TestSnapshotOfServer(t *testing.T) {
	pg := pgtest.Shared(t)
	db, err := Open(t.Context(), pg.Database(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Copies.Snapshot(t.Context(), filepath.Join(t.TempDir(), "copy.db"), nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("snapshot: %v, want errors.ErrUnsupported", err)
	}
}

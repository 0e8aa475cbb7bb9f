package migrate_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/depot/home/hometest"
	"github.com/symdepot/symdepot/internal/depot/migrate"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
)

// two are a depot with two transactions and a new one.
func two(t *testing.T) (from, to *hometest.Home, files [][]byte) {
	t.Helper()
	from, to = hometest.Open(t, filepath.Join(t.TempDir(), "old")), hometest.Open(t, filepath.Join(t.TempDir(), "new"))
	for i := range 3 {
		files = append(files, hometest.Sym("app", i, 2000))
	}
	from.Add(t, "app", "1", files[0], files[1])
	from.Add(t, "app", "2", files[2])
	return from, to, files
}

func total(files [][]byte) (n int64) {
	for _, f := range files {
		n += int64(len(f))
	}
	return n
}

// holds fails unless a home has the contents, and as many transactions.
func holds(t *testing.T, r *hometest.Home, files [][]byte, transactions int64) {
	t.Helper()
	if s, err := r.DB.Stats(t.Context()); err != nil || s.Transactions != transactions || s.Contents != int64(len(files)) {
		t.Errorf("%s: %+v, %v; want %d builds with %d contents", r.Name, s, err, transactions, len(files))
	}
	for i, body := range files {
		f, err := r.Contents.Open(t.Context(), hometest.Content(body))
		if err != nil {
			t.Errorf("%s: file %d: %v, want it", r.Name, i, err)
			continue
		}
		if got, err := io.ReadAll(f); err != nil || !slices.Equal(got, body) {
			t.Errorf("%s: file %d: %d bytes, %v; want the %d that were added", r.Name, i, len(got), err, len(body))
		}
		_ = f.Close()
	}
}

// TestRun copies everything. The old depot says then where the new one is, until it is unmoved.
func TestRun(t *testing.T) {
	from, to, files := two(t)
	var done, all int64
	m, err := migrate.Run(t.Context(), from.Home, to.Home, func(d, a int64) { done, all = d, a })
	if want := (migrate.Result{Contents: 3, Bytes: total(files), Copied: 3}); err != nil || m != want {
		t.Fatalf("run: %+v, %v; want %+v", m, err, want)
	}
	if done != total(files) || all != total(files) {
		t.Errorf("progress ends at %d of %d, want %d of %d", done, all, total(files), total(files))
	}
	holds(t, to, files, 2)
	holds(t, from, files, 2)
	if _, err := from.DB.Commit(t.Context(), record.Tx{Kind: "add", Entries: []record.Entry{hometest.Entry(t, files[0])}}, nil); err == nil {
		t.Error("the old depot takes a build, want that it can only be read")
	}
	from.Close()
	if _, err := home.Open(t.Context(), from.Dir, home.Options{}); err == nil || !strings.Contains(err.Error(), to.Dir) {
		t.Errorf("open of the old depot: %v, want an error that names %s", err, to.Dir)
	}
	if err := migrate.Unmove(t.Context(), from.Dir, home.Options{}); err != nil {
		t.Fatal(err)
	}
	again := hometest.Open(t, from.Dir)
	again.Add(t, "app", "3", files[0])
	holds(t, again, files, 3)
}

// TestRunAgain: what is there is not copied again, and a run that has ended stays so.
func TestRunAgain(t *testing.T) {
	t.Run("after some contents", func(t *testing.T) {
		from, to, files := two(t)
		ctx, cancel := context.WithCancel(t.Context())
		batch, err := to.Blobs.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := batch.Put(ctx, int64(len(files[1])), strings.NewReader(string(files[1]))); err != nil {
			t.Fatal(err)
		}
		if err := batch.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		_, err = migrate.Run(ctx, from.Home, to.Home, func(int64, int64) { cancel() })
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("run under a context that ends: %v, want context.Canceled", err)
		}
		from.Add(t, "app", "3", files[0]) // it is not closed
		m, err := migrate.Run(t.Context(), from.Home, to.Home, nil)
		if err != nil || m.Contents != 3 || m.Copied > 2 {
			t.Errorf("run again: %+v, %v; want 3 contents, of which at most 2 were copied", m, err)
		}
		holds(t, to, files, 3)
	})
	t.Run("after the end", func(t *testing.T) {
		from, to, files := two(t)
		for i, copied := range []int64{3, 0} {
			m, err := migrate.Run(t.Context(), from.Home, to.Home, nil)
			if want := (migrate.Result{Contents: 3, Bytes: total(files), Copied: copied}); err != nil || m != want {
				t.Errorf("run %d: %+v, %v; want %+v", i, m, err, want)
			}
		}
	})
}

// TestRunRefuses leaves both depots as they are.
func TestRunRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		before func(t *testing.T, from, to *hometest.Home, files [][]byte)
		is     error
		says   string
	}{
		"a target that is in use": {func(t *testing.T, _, to *hometest.Home, files [][]byte) { to.Add(t, "other", "1", files[0]) }, index.ErrNotEmpty, "name a new one"},
		"a missing content":       {func(t *testing.T, from, _ *hometest.Home, files [][]byte) { from.Lose(t, files[1]) }, nil, "symdepot verify --repair"},
		"a damaged content":       {func(t *testing.T, from, _ *hometest.Home, files [][]byte) { from.Flip(t, files[2]) }, nil, "symdepot verify --repair"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to, files := two(t)
			c.before(t, from, to, files)
			_, err := migrate.Run(t.Context(), from.Home, to.Home, nil)
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("run: %v, want an error that wraps %v and says %q", err, c.is, c.says)
			}
			if closed, err := from.DB.Closed(t.Context()); err != nil || closed {
				t.Errorf("the depot is closed: %v, %v; want that it goes on", closed, err)
			}
			from.Add(t, "app", "3", files[0])
		})
	}
}

// TestUnmoveNone: a folder that is no depot is an error.
func TestUnmoveNone(t *testing.T) {
	if err := migrate.Unmove(t.Context(), filepath.Join(t.TempDir(), "nothing"), home.Options{}); err == nil {
		t.Error("a folder that does not exist was unmoved, want an error")
	}
}

package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestAdopt: a file outside of the tree gets a second name in it, alone and in a
// group, and stays.
func TestAdopt(t *testing.T) {
	t.Parallel()
	tree, dir := newTree(t)
	outside := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(outside, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := tree.Adopt(outside, "tmp", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Commit("alone"); err != nil {
		t.Fatal(err)
	}
	g := tree.NewGroup()
	if f, err = tree.Adopt(outside, "tmp", 0o600); err != nil {
		t.Fatal(err)
	}
	g.Add(f, "grouped")
	if err := g.Commit(); err != nil {
		t.Fatal(err)
	}
	if f, err = tree.Adopt(outside, "tmp", 0o600); err != nil {
		t.Fatal(err)
	}
	f.Abort()
	copied, err := tree.copyOf(outside, "tmp", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := copied.Commit("copied"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{outside, filepath.Join(dir, "alone"), filepath.Join(dir, "grouped"), filepath.Join(dir, "copied")} {
		if b, err := os.ReadFile(name); err != nil || string(b) != "content" {
			t.Errorf("%s: %q, %v; want the content", name, b, err)
		}
	}
	if left := names(t, filepath.Join(dir, "tmp")); len(left) > 0 {
		t.Errorf("temporary files are left: %q, want none", left)
	}
	if _, err := tree.Adopt(outside+"x", "tmp", 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("adopt of a missing file: %v, want not found", err)
	}
}

// TestAdoptReplaced: a file that is replaced by others again and again is there all the time.
func TestAdoptReplaced(t *testing.T) {
	t.Parallel()
	tree, _ := newTree(t)
	dir := t.TempDir()
	outside := filepath.Join(dir, "file")
	replace := func(with string) error {
		with = filepath.Join(dir, with)
		if err := os.WriteFile(with, []byte("content"), 0o600); err != nil {
			return err
		}
		return RetryRename(func() error { return os.Rename(with, outside) })
	}
	if err := replace("first"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var replacers sync.WaitGroup
	for i := range 2 {
		replacers.Go(func() {
			for ctx.Err() == nil {
				if err := replace(fmt.Sprint("next", i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 5_000 {
		f, err := tree.Adopt(outside, "tmp", 0o600)
		if err != nil {
			t.Error(err)
			break
		}
		f.Abort()
	}
	stop()
	replacers.Wait()
}

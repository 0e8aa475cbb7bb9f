package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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

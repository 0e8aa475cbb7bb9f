package dircache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// cacheTest is a Cache of a folder with the file a/b/f. The link "in" leads
// to a, the link "out" to a folder outside.
type cacheTest struct {
	*Cache
	outside string
}

func newCacheTest(t *testing.T) *cacheTest {
	t.Helper()
	c := &cacheTest{outside: t.TempDir()}
	writeFile(t, filepath.Join(c.outside, "secret"), "secret")
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a", "b", "f"), "content")
	symtest.Symlink(t, c.outside, filepath.Join(dir, "out"))
	symtest.Symlink(t, "a", filepath.Join(dir, "in"))
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	c.Cache = New(root)
	t.Cleanup(c.Close)
	return c
}

// TestCache compares a Cache with os.Root: it must not follow links that
// lead outside.
func TestCache(t *testing.T) {
	t.Parallel()
	t.Run("read", func(t *testing.T) {
		t.Parallel()
		c := newCacheTest(t)
		for name, want := range map[string]string{"a/b/f": "content", "in/b/f": "content"} {
			if data, err := c.Read(name, 100); err != nil || string(data) != want {
				t.Errorf("read %s: %q, error %v; want %q", name, data, err, want)
			}
		}
		if data, err := c.Read("a/b/f", 3); err != nil || string(data) != "cont" {
			t.Errorf("read 3 bytes: %q, error %v; want one byte more", data, err)
		}
		_, err := c.Read("a/b/none", 3)
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("read a missing file: error %v, want %v", err, os.ErrNotExist)
		}
		if _, err := c.Read("out/secret", 100); err == nil {
			t.Error("read followed a link that leads outside")
		}
	})
	t.Run("names", func(t *testing.T) {
		t.Parallel()
		c := newCacheTest(t)
		if names, err := c.Names("in/b"); err != nil || len(names) != 1 || names[0] != "f" {
			t.Errorf("names of in/b: %q, error %v; want f", names, err)
		}
		_, err := c.Names("none")
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("names of a missing folder: error %v, want %v", err, os.ErrNotExist)
		}
	})
	t.Run("exists", func(t *testing.T) {
		t.Parallel()
		c := newCacheTest(t)
		for name, want := range map[string]bool{"a/b/f": true, "in/b/f": true, "a/none": false, "out/secret": false, "../x": false} {
			if got := c.Exists(name); got != want {
				t.Errorf("exists(%q) is %v, want %v", name, got, want)
			}
		}
	})
	t.Run("refused changes", func(t *testing.T) {
		t.Parallel()
		c := newCacheTest(t)
		for what, err := range map[string]error{
			"rename to outside":          c.Rename("a/b/f", "out/f"),
			"rename from outside":        c.Rename("out/secret", "a/secret"),
			"rename above the root":      c.Rename("a/b/f", "../f"),
			"link to a file outside":     c.Link("out/secret", "a/l"),
			"write outside":              c.Write("out/new", nil),
			"folder outside":             c.Mkdir("out/dir"),
			"patch outside":              c.Patch("out/secret", []byte("x")),
			"write above the root":       c.Write("../new", nil),
			"rename of a missing file":   c.Rename("a/b/none", "a/x"),
			"rename to a missing folder": c.Rename("a/b/f", "none/x"),
			"create outside":             createErr(c, "out/c"),
		} {
			if err == nil {
				t.Errorf("%s succeeds, want an error", what)
			}
		}
		if data, err := os.ReadFile(filepath.Join(c.outside, "secret")); err != nil || string(data) != "secret" {
			t.Errorf("the file outside has %q, error %v; want no change", data, err)
		}
	})
	t.Run("changes through a link inside", func(t *testing.T) {
		t.Parallel()
		c := newCacheTest(t)
		for what, err := range map[string]error{
			"mkdir and write": errors.Join(c.Mkdir("in/new"), c.Mkdir("in/new"), c.Write("in/new/w", []byte("w")), c.Patch("in/new/w", []byte("v"))),
			"create":          createErr(c, "in/b/c"),
		} {
			if err != nil {
				t.Errorf("%s: error %v, want none", what, err)
			}
		}
		if data, err := c.Read("a/new/w", 9); err != nil || string(data) != "v" {
			t.Errorf("the patched file has %q, error %v; want %q", data, err, "v")
		}
	})
	t.Run("replaced folder", func(t *testing.T) {
		t.Parallel()
		c := newCacheTest(t)
		if !c.Exists("a/b/f") { // opens the folder
			t.Fatal("a/b/f does not exist")
		}
		if err := errors.Join(c.root.Rename("a/b", "a/c"), c.root.Mkdir("a/b", 0o755)); err != nil {
			t.Fatal(err)
		}
		if err := c.Rename("a/c/f", "a/g"); err != nil {
			t.Errorf("rename out of the moved folder: error %v, want none", err)
		}
	})
	t.Run("more folders than are kept open", func(t *testing.T) {
		t.Parallel()
		c := newCacheTest(t)
		for i := range 3 * 250 {
			p := fmt.Sprintf("many/%d", i)
			if err := c.root.MkdirAll(p, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(c.Write(p+"/f", []byte(p)), c.Rename(p+"/f", p+"/g")); err != nil || !c.Exists(p+"/g") {
				t.Fatalf("folder %d: error %v, want its file renamed", i, err)
			}
		}
	})
}

// createErr makes a file and returns the error.
func createErr(c *cacheTest, name string) error {
	f, err := c.Create(name)
	if err != nil {
		return err
	}
	return f.Close()
}

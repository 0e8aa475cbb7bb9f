package tree

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/files/unpack/unpacktest"
	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
)

// TestShelfBounded: unpacked files in use are bounded in bytes and in number;
// beyond the limits a request finds nothing, and a source is busy.
func TestShelfBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pdb := symtest.Testdata(t, "pdb/hello-x64.pdb")
	symtest.Put(t, dir, "pingme.txt", nil)
	for _, name := range []string{"a.pdb", "b.pdb"} {
		symtest.Put(t, dir, name+"/"+pdbKey+"/"+name[:4]+"_", unpacktest.Cabinet(t, name, pdb))
	}
	ask := func(name string) layout.Request {
		req, err := layout.Route(strings.Split(name+"/"+pdbKey+"/"+name, "/"))
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	for _, c := range []struct {
		name  string
		limit func(s *unpackCache)
	}{
		{"bytes", func(s *unpackCache) { s.Limit(int64(len(pdb))*3/2, 0) }},
		{"files", func(s *unpackCache) { s.Limit(0, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			tmp := t.TempDir()
			f := open(t, dir, Options{TempDir: tmp})
			c.limit(f.shelf)
			first, err := f.Open(t.Context(), ask("a.pdb"))
			if err != nil {
				t.Fatal(err)
			}
			again, err := f.Open(t.Context(), ask("a.pdb"))
			if err != nil {
				t.Fatalf("a second reader of a file in use: %v", err)
			}
			for range 3 {
				if _, err := f.Open(t.Context(), ask("b.pdb")); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, unpackcache.ErrFull) {
					t.Fatalf("beyond the limit: %v, want %v", err, unpackcache.ErrFull)
				}
			}
			if err := errors.Join(first.Close(), again.Close()); err != nil {
				t.Fatal(err)
			}
			second, err := f.Open(t.Context(), ask("b.pdb"))
			if err != nil {
				t.Fatalf("after the file in use was closed: %v", err)
			}
			if err := second.Close(); err != nil {
				t.Fatal(err)
			}
			f.shelf.Close()
			if held := f.shelf.Held(); held != 0 {
				t.Errorf("%d bytes are counted after the end, want 0", held)
			}
			if left, _ := os.ReadDir(tmp); len(left) > 0 {
				t.Errorf("%d temporary files are left, want 0", len(left))
			}
		})
	}
	src := NewSource("folder", dir, Options{TempDir: t.TempDir()})
	t.Cleanup(func() { _ = src.Close() })
	first, err := src.Fetch(t.Context(), wish(t, "a.pdb/"+pdbKey+"/a.pdb"))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	src.f.shelf.Limit(0, 1)
	if _, err := src.Fetch(t.Context(), wish(t, "b.pdb/"+pdbKey+"/b.pdb")); fetch.ClassOf(err) != fetch.ClassBusy {
		t.Errorf("a source beyond the limit: %v, want class %v", err, fetch.ClassBusy)
	}
}

package cold

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"
)

// TestStoredFiles: cold files that were written once stay readable.
// SYMDEPOT_COLD_UPDATE=1 writes them again, after a change of the format.
func TestStoredFiles(t *testing.T) {
	const dir = "../../../testdata"
	load := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	base, b := load("pdb/hello-x64.pdb"), load("pdb/hello-x86.pdb")
	if os.Getenv("SYMDEPOT_COLD_UPDATE") != "" {
		for name, file := range map[string][]byte{"key.c1": encoded(t, base, nil), "delta.c1": encoded(t, b, base)} {
			if err := os.WriteFile(filepath.Join(dir, "cold", name), file, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	key, err := read(load("cold/key.c1"), nil)
	if err != nil || !bytes.Equal(key, base) {
		t.Errorf("key.c1 does not give hello-x64.pdb: %v", err)
	}
	delta, err := read(load("cold/delta.c1"), bytes.NewReader(base))
	if err != nil || !bytes.Equal(delta, b) {
		t.Errorf("delta.c1 does not give hello-x86.pdb: %v", err)
	}
}

// TestStoredRecipes: deflate streams that were unpacked once can be made again for ever. The
// content of unpacked.c1 are streams of all levels of zlib 1.2.13, with memLevel 8 and 9, and one
// of Go 1.26. The file is never written again.
func TestStoredRecipes(t *testing.T) {
	file, err := os.ReadFile("../../../testdata/cold/unpacked.c1")
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, file, nil)
	if n := c.Header().Streams(); n != 19 {
		t.Errorf("%d streams, want 19", n)
	}
	if b := restored(t, c); sha256.Sum256(b) != c.Header().Sum {
		t.Error("the content has another hash")
	}
}

// TestStoredFolders: folders of cabinets, and streams of Go's other levels, that were unpacked once
// can be made again for ever. The content of folders.c1 are cabinets of our own at levels 7 and 8, one
// of gcab 1.5 (zlib 1.2.13), and streams of Go 1.26 at levels 4 to 9. The file is never written again.
func TestStoredFolders(t *testing.T) {
	file, err := os.ReadFile("../../../testdata/cold/folders.c1")
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, file, nil)
	if n := c.Header().Streams(); n != 9 {
		t.Errorf("%d streams, want 9", n)
	}
	if b := restored(t, c); sha256.Sum256(b) != c.Header().Sum {
		t.Error("the content has another hash")
	}
}

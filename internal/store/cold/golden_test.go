package cold

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestStoredFiles: cold files that were written once stay readable. key.c1 and delta.c1 have
// version 1, moved.c1 has version 3 and steps of all kinds; unpacked.c1 of TestStoredRecipes has
// version 2. They are never written again; SYMDEPOT_COLD_UPDATE=1 writes those that are missing.
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
	movedBase, movedTo := moving(20_000)
	typesBase, types := typesPDB(t, typeRecords(2000, -1), inOrder), typesPDB(t, typeRecords(2000, 100), inOrder)
	if os.Getenv("SYMDEPOT_COLD_UPDATE") != "" {
		for name, file := range map[string][]byte{"moved.c1": encoded(t, movedTo, movedBase), "hashes.c1": chilled(t, types, typesBase)} {
			to := filepath.Join(dir, "cold", name)
			if _, err := os.Stat(to); err == nil {
				continue
			}
			if err := os.WriteFile(to, file, 0o644); err != nil {
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
	moved, err := read(load("cold/moved.c1"), bytes.NewReader(movedBase))
	if err != nil || !bytes.Equal(moved, movedTo) {
		t.Errorf("moved.c1 does not give its content: %v", err)
	}
	hashes, err := read(load("cold/hashes.c1"), bytes.NewReader(typesBase))
	if err != nil || !bytes.Equal(hashes, types) {
		t.Errorf("hashes.c1 does not give its content: %v", err)
	}
	for name, version := range map[string]byte{"hashes.c1": 4, "key.c1": 1, "delta.c1": 1, "unpacked.c1": 2, "moved.c1": 3} {
		if b := load("cold/" + name); b[8] != version {
			t.Errorf("%s has version %d, want %d", name, b[8], version)
		}
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

// TestStoredFrames: frames of zstd that were unpacked once can be made again for ever. The content of frames.c1
// are frames of libzstd 1.5.4 and 1.5.7, of its levels 1 to 12, for contents of four lengths. The file is a
// delta, and is never written again.
func TestStoredFrames(t *testing.T) {
	var base []byte
	for _, name := range []string{"pdb/hello-x64.pdb", "pdb/hello-arm64.pdb", "pdb/hello-x86.pdb", "minidump/windows_full.dmp",
		"minidump/macos_threads.dmp"} {
		base = append(base, symtest.Testdata(t, name)...)
	}
	c := open(t, symtest.Testdata(t, "cold/frames.c1"), base)
	if n := c.Header().Streams(); n != 70 {
		t.Errorf("%d streams, want 70", n)
	}
	if b := restored(t, c); sha256.Sum256(b) != c.Header().Sum {
		t.Error("the content has another hash")
	}
}

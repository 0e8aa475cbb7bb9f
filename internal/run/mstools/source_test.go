package mstools

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/symstore"
)

// TestReadersHoldNothing deletes a file of a store while it is read, which Windows
// forbids unless the reader allows it.
func TestReadersHoldNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := symtest.Testdata(t, "pdb/hello-x64.exe")
	name := filepath.Join(dir, "hello-x64.exe")
	if err := os.WriteFile(name, want, 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := symstore.Open(dir, symstore.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := folderStore{s}
	found, err := f.find(t.Context(), "hello-x64.exe", "C10891754000")
	if err != nil || found == nil {
		t.Fatalf("find: %v, %v; want the file", found, err)
	}
	in, err := f.open(t.Context(), found)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := os.Remove(name); err != nil {
		t.Errorf("remove while it is read: %v, want no error", err)
	}
	if got, err := io.ReadAll(in); err != nil || string(got) != string(want) {
		t.Errorf("the removed file: %d bytes, %v; want %d bytes", len(got), err, len(want))
	}
}

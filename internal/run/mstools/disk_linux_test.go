package mstools

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSymstoreFullDisk fills the disk of a store: the exit code is specific,
// nothing is stored, and the store is unchanged for the next command.
func TestSymstoreFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=200k"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, 0) })
	pdbs, err := filepath.Glob("../../../testdata/pdb/*.pdb")
	if err != nil || len(pdbs) == 0 {
		t.Fatalf(`filepath.Glob("../../../testdata/pdb/*.pdb"): %v, error %v; want length not 0`, pdbs, err)
	}
	small := filepath.Join(t.TempDir(), "a.exe")
	data, err := os.ReadFile("../../../testdata/pdb/hello-x64.exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(small, data, 0o600); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(disk, "store")
	call := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := Run(context.Background(), args, Env{Stdout: &out, Stderr: &out})
		return code, out.String()
	}
	if code, out := call("add", "/f", small, "/s", store, "/t", "x"); code != 0 {
		t.Fatalf("call: %v, %v; want 0", code, out)
	}
	code, out := call(append(append([]string{"add", "/f"}, pdbs...), "/s", store, "/t", "x")...)
	if code != ssDiskFull || !strings.Contains(out, "files stored = 0\n") || !strings.Contains(out, "The store is as it was") {
		t.Errorf("full disk: %d\n%s\nwant the exit code of a full disk, and the store as it was", code, out)
	}
	if code, out := call("check", store); code != 0 {
		t.Errorf("check: %d\n%s\nwant 0", code, out)
	}
	if code, out := call("query", "/f", small, "/s", store); code != 0 {
		t.Errorf("query: %d\n%s\nwant 0", code, out)
	}
	if code, out := call("del", "/i", "1", "/s", store); code != 0 {
		t.Errorf("del: %d\n%s\nwant 0", code, out)
	}
}

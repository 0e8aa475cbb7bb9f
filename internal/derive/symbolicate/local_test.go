package symbolicate

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestStorePathNames: names of devices and of streams of files are no names of files
// on Windows.
func TestStorePathNames(t *testing.T) {
	t.Parallel()
	id, err := debugid.Parse("A822F3E889973BA54C4C44205044422E1")
	if err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{"app.pdb": true, "con.pdb": false, "AUX.dll": false, "nul": false, "app.pdb:stream": false} {
		path, err := storePath(functab.Module{Name: name, ID: id}, Breakpad)
		if want := ok || runtime.GOOS != "windows"; (err == nil) != want {
			t.Errorf("path of module %s: %q, %v; want a path: %v", name, path, err, want)
		}
	}
}

// TestCompanionOfAnyCase finds the program beside a PDB whose extension is spelled
// with capitals.
func TestCompanionOfAnyCase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pdb, exe := filepath.Join(dir, "HELLO.PDB"), filepath.Join(dir, "HELLO.exe")
	for path, name := range map[string]string{pdb: "pdb/hello-x86.pdb", exe: "pdb/hello-x86.exe"} {
		if err := os.WriteFile(path, symtest.Testdata(t, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := Companions(t.Context(), pdb); len(got) != 2 || got[1] != exe {
		t.Errorf("files of the module of %s: %q, want %q too", pdb, got, exe)
	}
}

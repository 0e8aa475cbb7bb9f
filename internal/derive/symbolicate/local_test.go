package symbolicate

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"reflect"
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

// TestOpenLargeLocal: a large ELF file is looked up in single units, with the answers of
// the whole file; if it is damaged, all of it is read, and the damage is named.
func TestOpenLargeLocal(t *testing.T) {
	t.Parallel()
	prog := symtest.Testdata(t, "elf/prog-sha1")
	table, err := Read(t.Context(), []Input{{bytes.NewReader(prog), int64(len(prog)), "prog"}})
	if err != nil {
		t.Fatal(err)
	}
	open := func(content []byte) (*Module, *unitLooker) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "prog")
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, unitsFrom); err != nil {
			t.Fatal(err)
		}
		m, _, err := OpenLocal(t.Context(), path, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Done)
		l, _ := m.Looker.(*unitLooker)
		return m, l
	}
	m, l := open(prog)
	if l == nil {
		t.Fatalf("looked up with a %T, want a unitLooker", m.Looker)
	}
	for rva := uint64(0x1000); rva < 0x1200; rva++ {
		got, ok := m.Lookup(rva)
		if want, found := table.Lookup(rva); ok != found || !reflect.DeepEqual(got, want) {
			t.Errorf("%#x: %+v, %v; want %+v, %v", rva, got, ok, want, found)
		}
	}
	if l.whole != nil {
		t.Error("the whole file was read, want units alone")
	}
	e, err := elf.NewFile(bytes.NewReader(prog))
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(prog)
	damaged[e.Section(".debug_line").Offset+3] = 0x7f // a line program longer than its section
	m, _ = open(damaged)
	if a, ok := m.Lookup(0x113f); !ok || len(m.Missing) == 0 {
		t.Errorf("damaged: %+v, %v, warnings %q; want an answer with warnings", a, ok, m.Missing)
	}
}

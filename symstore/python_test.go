package symstore

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPython lets an independent program work on our stores, and us on its.
// SYMDEPOT_PYSYMSTORE names a Python interpreter that has the module symstore.
func TestPython(t *testing.T) {
	python := os.Getenv("SYMDEPOT_PYSYMSTORE")
	if python == "" {
		t.Skip("SYMDEPOT_PYSYMSTORE is not set: it names a Python interpreter that has the module symstore")
	}
	script := filepath.Join(filepath.Dir(python), "symstore")
	run := func(args ...string) {
		t.Helper()
		out, err := exec.Command(python, append([]string{script}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("symstore %q: %v\n%s", args, err, out)
		}
	}
	pdbs := []string{"../testdata/pdb/hello-x64.pdb", "../testdata/pdb/hello-x86.pdb"}
	exe := "../testdata/pdb/hello-x64.exe"

	t.Run("ours, then theirs", func(t *testing.T) {
		s := create(t, t.TempDir(), One, Options{})
		mustAdd(t, s, AddOptions{Product: "ours", Compress: MSZIP}, paths(pdbs...))
		mustAdd(t, s, AddOptions{Product: "ours"}, paths(exe))
		run("-p", "theirs", s.Dir(), pdbs[0], exe)
		want(t, s, lastIDFile, "0000000003")
		run("-d", "0000000001", s.Dir())
		if _, err := s.Query(pdbs[1], false); err != nil {
			t.Fatal(err)
		}
		a, _ := s.Query(pdbs[1], false)
		if a[0].Found != nil {
			t.Error("they did not delete what nobody else had")
		}
		if a, _ = s.Query(pdbs[0], false); a[0].Found == nil {
			t.Error("they deleted what they had stored")
		}
		r := mustDel(t, s, 2)
		if r.Kept != 1 || r.ID != 5 {
			t.Errorf("mustDel(2): %+v, want Kept 1, ID 5", r)
		}
		if a, _ = s.Query(exe, false); a[0].Found == nil {
			t.Error("we deleted what they had stored")
		}
		run("-d", "0000000003", s.Dir())
		for n := range tree(t, s.Dir()) {
			if strings.Contains(n, "hello") {
				t.Errorf("%s is left, want no %q in it", n, "hello")
			}
		}
	})
	t.Run("theirs, then ours", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "store")
		run("-p", "theirs", dir, pdbs[0], exe)
		run("-p", "theirs", dir, pdbs[1], exe)
		s := create(t, dir, One, Options{})
		mustBeClean(t, s)
		everyFileThere(t, s, "theirs")
		if r := mustDel(t, s, 1); r.Removed != 1 || r.Kept != 1 {
			t.Errorf("mustDel(1): %+v, want Removed 1, Kept 1", r)
		}
		if r := mustAdd(t, s, AddOptions{Product: "ours"}, paths(exe)); r.ID != 4 {
			t.Errorf("mustAdd: %+v, want ID 4", r)
		}
		run("-d", "0000000002", dir)
		if a, _ := s.Query(exe, false); a[0].Found == nil {
			t.Error("they deleted what we had stored")
		}
		run("-d", "0000000004", dir)
		if a, _ := s.Query(exe, false); a[0].Found != nil {
			t.Error("it is still there")
		}
		mustBeClean(t, s)
	})
	t.Run("both in turn", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "store")
		run("-p", "theirs", dir, pdbs[0])
		s := create(t, dir, One, Options{})
		mustAdd(t, s, AddOptions{Product: "ours"}, paths(pdbs[1]))
		run("-p", "theirs", dir, exe)
		// Their files have no refs.ptr, before and after our first one.
		found, err := s.Check(t.Context(), CheckOptions{Contents: true})
		if err != nil || len(found) != 1 || found[0].Kind != RefMissing || !found[0].Note {
			t.Fatalf("check finds %v, error %v; want one note of the kind %s", found, err, RefMissing)
		}
		if other, err := s.LastByOther(); err != nil || !other {
			t.Errorf("LastByOther: %v, error %v; want true", other, err)
		}
		if _, err := s.Repair(t.Context(), CheckOptions{}); err != nil {
			t.Fatal(err)
		}
		mustBeClean(t, s)
		run("-p", "theirs", dir, pdbs[0]) // they still work on it
		mustDel(t, s, 2)
		everyFileThere(t, s, "theirs, after our transaction was deleted")
	})
}

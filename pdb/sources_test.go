package pdb

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestOldFiles: the names of source files in the DBI stream are those of the modules' file
// tables, which all modules of these files have.
func TestOldFiles(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../testdata/pdb/*.pdb")
	if err != nil || len(paths) != 3 {
		t.Fatalf("%q, %v, want the three PDBs of testdata", paths, err)
	}
	if root := os.Getenv("SYMDEPOT_MATERIAL"); root != "" {
		more, err := filepath.Glob(filepath.Join(root, "public/npm/node-pty/win32-x64/*.pdb"))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, more...)
	}
	for _, path := range paths {
		r, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		info, err := r.Stat()
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(r, info.Size())
		if err != nil {
			t.Fatal(err)
		}
		want, got := map[string]bool{}, map[string]bool{}
		damaged, err := f.SourceFiles(t.Context(), func(s SourceFile) error {
			want[s.Name] = true
			return nil
		})
		if damaged != 0 || err != nil {
			t.Fatalf("%s: %d damaged modules, %v, want none", path, damaged, err)
		}
		modules, err := f.readModules()
		if err != nil {
			t.Fatal(err)
		}
		all := make([]int, len(modules))
		for i := range all {
			all[i] = i
		}
		if err := f.oldFiles(len(modules), all, func(s SourceFile) error {
			got[s.Name] = true
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, want) {
			for name := range got {
				delete(want, name)
			}
			t.Errorf("%s: %d names, lacks %q, want those of the modules", path, len(got), slices.Sorted(maps.Keys(want)))
		}
	}
}

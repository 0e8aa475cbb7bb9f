package importexport

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symstore"
)

// TestImportRest: files that an import of a symbol store had to skip are added by the next
// import that finds them, as a transaction with the same words; nothing is added twice.
func TestImportRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		hide    func(path string) error
		cabinet bool
	}{
		{"missing", os.Remove, false},
		{"damaged", func(p string) error { return os.Truncate(p, 1000) }, false},
		{"damaged cabinet", func(p string) error { return os.Truncate(p, 1000) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			build, share := t.TempDir(), filepath.Join(t.TempDir(), "share")
			put(t, build, "a.pdb", "pdb/hello-x86.pdb")
			put(t, build, "b.pdb", "pdb/hello-x64.pdb")
			put(t, build, "c.pdb", "pdb/hello-x64.pdb") // the same content with another name
			compression := symstore.Plain
			if c.cabinet {
				compression = symstore.MSZIP
			}
			st, err := symstore.Create(share, symstore.One, symstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			_, err = st.Add(t.Context(), symstore.AddOptions{Product: "Game", Version: "1", Comment: "first", Compress: compression}, func(yield func(symstore.File, error) bool) {
				for _, name := range []string{"a.pdb", "b.pdb", "c.pdb"} {
					if !yield(symstore.File{Path: filepath.Join(build, name), Source: `c:\build\` + name}, nil) {
						return
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			name := "b.pdb"
			if c.cabinet {
				name = "b.pd_"
			}
			const key = "b.pdb/F9EFE0B6AE7500394C4C44205044422E1/"
			path := filepath.Join(share, filepath.FromSlash(key+name))
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.hide(path); err != nil {
				t.Fatal(err)
			}
			d := newDepot(t)
			for i := range 2 { // the second without a change
				r := importTree(t, d, share, layout.SymStore)
				if want := int64(1 - i); r.Imported != want || r.Before != int64(i) || r.Added.Files != 2*want || r.Skipped == 0 {
					t.Errorf("import %d: %d builds, %d before, %d files added, %d skipped; want %d, %d, %d, some", i+1, r.Imported, r.Before, r.Added.Files, r.Skipped, want, i, 2*want)
				}
			}
			if err := os.WriteFile(path, whole, 0o666); err != nil {
				t.Fatal(err)
			}
			dry, err := NewImport(t.Context(), share, ImportOptions{Layout: layout.SymStore, DryRun: true})
			if err != nil {
				t.Fatal(err)
			}
			if r, err := dry.Run(d); err != nil || r.Imported != 1 || r.Before != 1 {
				t.Errorf("dry run with the file: %d builds, %d before, error %v; want 1, 1, nil", r.Imported, r.Before, err)
			}
			if r := importTree(t, d, share, layout.SymStore); r.Imported != 1 || r.Before != 1 || r.Added.Files+r.Known.Files != 1 || r.Skipped != 0 {
				t.Errorf("import with the file: %d builds, %d before, %d files, %d skipped %v; want 1, 1, 1, 0", r.Imported, r.Before, r.Added.Files+r.Known.Files, r.Skipped, r.Notable)
			}
			if _, ok := depotAnswer(t, d, layout.SymStore, key+"b.pdb"); !ok {
				t.Error("the file that was missing in the first import is not in the depot after the last")
			}
			if r := importTree(t, d, share, layout.SymStore); r.Imported != 0 || r.Before != 1 || r.Skipped != 0 {
				t.Errorf("import after that: %d builds, %d before, %d skipped; want 0, 1, 0", r.Imported, r.Before, r.Skipped)
			}
			txs, err := d.List(t.Context(), answer.Scope{}, depot.ListFilter{})
			if err != nil || len(txs) != 2 {
				t.Fatalf("%d builds, error %v; want 2", len(txs), err)
			}
			if a, b := txs[0], txs[1]; a.Product != b.Product || a.Version != b.Version || a.Comment != b.Comment || !a.Time.Equal(b.Time) {
				t.Errorf("the second build is %+v, want the words and the date of %+v", a, b)
			}
		})
	}
}

// TestDryImportEmpty: a dry run does not count a transaction whose files all are skipped,
// because the import makes none of it.
func TestDryImportEmpty(t *testing.T) {
	t.Parallel()
	build, share := t.TempDir(), filepath.Join(t.TempDir(), "share")
	put(t, build, "a.pdb", "pdb/hello-x86.pdb")
	st, err := symstore.Create(share, symstore.One, symstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.Add(t.Context(), symstore.AddOptions{Product: "Game", Pointer: true}, func(yield func(symstore.File, error) bool) {
		yield(symstore.File{Path: filepath.Join(build, "a.pdb"), Source: `\\hub\builds\a.pdb`}, nil)
	}); err != nil {
		t.Fatal(err)
	}
	d := newDepot(t)
	for _, dry := range []bool{true, false} {
		var detail string
		im, err := NewImport(t.Context(), share, ImportOptions{Layout: layout.SymStore, DryRun: dry, Event: func(e Event) {
			if e.Kind == EventSkipped {
				detail = e.Detail
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := im.Run(d); err != nil || r.Imported != 0 || r.Skipped != 1 {
			t.Errorf("import of a pointer that is not followed, dry run %v: %d builds, %d skipped, error %v; want 0, 1, nil", dry, r.Imported, r.Skipped, err)
		}
		if !strings.Contains(detail, `"\\hub\builds\a.pdb" lies outside`) || !strings.Contains(detail, "--pointer-root") {
			t.Errorf("the pointer is skipped for %q, want its target as it is written, and the option that allows it", detail)
		}
	}
}

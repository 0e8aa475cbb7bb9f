package objtab_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/unwind"
)

// TestFinder holds that the rules of single functions are those of the whole tables, for each kind of file.
func TestFinder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		kind symfile.Kind
	}{
		{"elf/prog-sha1", symfile.ELF}, {"elf/libprog.so", symfile.ELF}, {"elf/e-x86", symfile.ELF},
		{"macho/app-arm64", symfile.MachO}, {"pe/mingw.exe", symfile.PE}, {"pe/mingw32.exe", symfile.PE},
	} {
		data := symtest.Testdata(t, tc.name)
		f := objtab.File{Reader: bytes.NewReader(data), Size: int64(len(data))}
		finder, err := objtab.Finder(f, tc.kind, objtab.Options{})
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		b := wholeTable(t, tc.kind, f)
		table, err := b.Table(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for frame := range table.Frames() {
			at := frame.Start + uint64(frame.Size)/2
			want, _ := frame.RulesAt(at)
			got, ok, err := finder.Find(t.Context(), at)
			have, _ := got.RulesAt(at)
			if !ok || err != nil || !slices.Equal(have.CFI, want.CFI) {
				t.Errorf("%s at %#x: rules %q, %v, error %v, want %q", tc.name, at, have.CFI, ok, err, want.CFI)
			}
			n++
		}
		if n == 0 {
			t.Errorf("%s has no frames", tc.name)
		}
	}
	if _, err := objtab.Finder(objtab.File{}, symfile.PDB, objtab.Options{}); err == nil {
		t.Error("a PDB: no error")
	}
}

func wholeTable(t *testing.T, kind symfile.Kind, f objtab.File) *functab.Builder {
	t.Helper()
	var b *functab.Builder
	var err error
	switch kind {
	case symfile.ELF:
		b, err = objtab.ELF(t.Context(), objtab.ELFFiles{Name: "x", Program: f}, objtab.Options{})
	case symfile.MachO:
		b, err = objtab.MachO(t.Context(), objtab.MachOFiles{Name: "x", Image: f}, objtab.Options{})
	default:
		b = functab.NewBuilder(functab.Module{OS: "windows", Name: "x"}, functab.Limits{})
		img, e := objfile.OpenPE(f.Reader, f.Size)
		if e != nil {
			t.Fatal(e)
		}
		if err = unwind.PE(t.Context(), img, b); err == nil {
			_ = objtab.PE(t.Context(), f, objtab.Options{}, b) // most have no DWARF
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

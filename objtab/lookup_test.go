package objtab

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/dwarf"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// telling are the addresses at which the answers of a table change, and random ones: at
// most n of them, in random order.
func telling(table *functab.Table, n int) []uint64 {
	var list []uint64
	add := func(start, size uint64) { list = append(list, start-1, start, start+size/2, start+size-1, start+size) }
	for f := range table.Functions() {
		add(f.Start, uint64(f.Size))
		for _, in := range f.Inlines {
			for _, r := range in.Ranges {
				add(r.Start, uint64(r.Size))
			}
		}
	}
	for s := range table.Symbols() {
		add(s.Address, uint64(s.Size))
	}
	var code []objfile.AddressRange
	for _, s := range table.Sections() {
		add(s.Start, s.Size)
		code = append(code, objfile.AddressRange{Start: s.Start, End: s.Start + s.Size})
	}
	rng := rand.New(rand.NewPCG(3, uint64(len(list))))
	list = append(list, randomAddresses(code, n/4, 5)...)
	rng.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	return list[:min(len(list), n)]
}

// compareLookup requires that an ELFLookup answers as the table of the whole module
// does, or that it says that it cannot. It reports whether it answers.
func compareLookup(t *testing.T, files ELFFiles, table *functab.Table, opt Options) bool {
	t.Helper()
	l, err := OpenELFLookup(t.Context(), files, opt)
	if errors.Is(err, dwarf.ErrWhole) || errors.Is(err, fs.ErrNotExist) {
		t.Logf("%s: %v", files.Name, err)
		return false
	}
	if err != nil {
		t.Errorf("%s: %v", files.Name, err)
		return false
	}
	if got, want := l.Module(), table.Module(); !reflect.DeepEqual(got, want) {
		t.Errorf("%s: module %+v, want %+v", files.Name, got, want)
	}
	wrong := 0
	list := telling(table, 20_000)
	for _, rva := range list {
		got, ok, err := l.Lookup(t.Context(), rva)
		if errors.Is(err, dwarf.ErrWhole) {
			t.Logf("%s: %v", files.Name, err)
			return false
		}
		want, found := table.Lookup(rva)
		if err != nil || ok != found || ok && !reflect.DeepEqual(got, want) {
			if wrong++; wrong == 5 {
				return true
			}
			t.Errorf("%s: %#x: %+v, %v, %v; want %+v, %v", files.Name, rva, got, ok, err, want, found)
		}
	}
	return true
}

// shout is a shown form of mangled names that others do not have.
func shout(raw string) string {
	if strings.HasPrefix(raw, "_Z") || strings.HasPrefix(raw, "_R") {
		return strings.ToUpper(raw) + ".cold"
	}
	return ""
}

// TestLookup: an ELFLookup gives the answers of the whole table for all files that there
// are.
func TestLookup(t *testing.T) {
	t.Parallel()
	answered := 0
	for _, path := range oracleFiles(t) {
		f := openFile(t, path)
		objects, err := objfile.Identify(f.Reader, f.Size, filepath.Base(path), objfile.Options{})
		if err != nil || objects[0].Kind != symfile.ELF {
			continue
		}
		files, opt := ELFFiles{Name: path, Program: f}, Options{NoUnwind: true, Demangle: shout}
		b, err := ELF(t.Context(), files, opt)
		if err != nil {
			continue
		}
		table, err := b.Table(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if compareLookup(t, files, table, opt) {
			answered++
		}
	}
	if answered < 5 {
		t.Errorf("%d files were answered from single units, want at least 5", answered)
	}
}

// FuzzELFLookup: lookups in any change of a real file end within bounds.
func FuzzELFLookup(f *testing.F) {
	for _, name := range []string{"prog-sha1", "prog-zstd", "prog-sha1.debug", "libprog.so"} {
		p, err := os.ReadFile(elfDir + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	dwp, err := os.ReadFile(elfDir + "prog-split.dwp")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		opt := Options{Limits: functab.Limits{Bytes: 64 << 20}, Workers: 1, Sections: objfile.SectionOptions{Limit: 16 << 20}}
		file, pkg := File{strings.NewReader(string(p)), int64(len(p))}, File{strings.NewReader(string(dwp)), int64(len(dwp))}
		l, err := OpenELFLookup(t.Context(), ELFFiles{Program: file, Package: pkg}, opt)
		if err != nil {
			return
		}
		for rva := uint64(0x1000); rva < 0x1200; rva += 7 {
			a, ok, err := l.Lookup(t.Context(), rva)
			if ok && (err != nil || len(a.Frames) == 0) {
				t.Errorf("%#x: %+v, %v; want frames", rva, a, err)
			}
		}
	})
}

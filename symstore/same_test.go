package symstore

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files of this package anew")

// TestSameBytes writes a store of real and made files, with every kind of change,
// at fixed times. On every system it must equal the store that Linux writes:
// testdata/same.txt has the name, size and SHA-256 of each file.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	when := time.Date(2026, 3, 4, 5, 6, 8, 0, time.Local)
	file := func(name string, content []byte) File {
		path := writeFile(t, filepath.Join(src, name), content)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
		return File{Path: path, Source: `\\build\7\` + name}
	}
	realFile := func(path string) File {
		b, err := os.ReadFile(filepath.Join("..", "testdata", filepath.FromSlash(path)))
		if err != nil {
			t.Fatal(err)
		}
		return file(filepath.Base(path), b)
	}
	large := strings.Repeat("0123456789 symbols ", 20_000)
	a, b := file("a.dll", peImage(1, 0x1000, "a")), file("b.exe", peImage(2, 0x23000, large))
	umlaut, again := file("größe.dll", peImage(3, 0x1000, large)), file("A.DLL", peImage(1, 0x1000, "another a"))
	pointer := File{Source: `\\archive\old.dll`, Keys: []Key{{"old.dll", "000000041000", Binary}}}

	dir := t.TempDir()
	var s *Store
	for i, add := range []struct {
		opt  AddOptions
		list []File
	}{
		{AddOptions{Product: "app", Version: "1.0", Comment: "first"}, []File{a, b}},
		{AddOptions{Product: "app", Version: "1.1 ö", Compress: MSZIP}, []File{b, umlaut}},
		{AddOptions{Product: "lib", Pointer: true}, []File{pointer}},
		{AddOptions{Product: "app", Version: "1.2"}, []File{again}},
		{AddOptions{Product: "real", Version: "7", Compress: LZX}, []File{realFile("pe/x64.exe"), realFile("pdb/hello-x64.pdb"), realFile("pdb/hello-x86.pdb")}},
		{AddOptions{Product: "real", Version: "8"}, []File{realFile("pdb/hello-x64.exe"), realFile("pdb/hello-x64.pdb")}},
	} {
		now := when.AddDate(0, 0, i+1)
		s = create(t, dir, Two, Options{Now: func() time.Time { return now }})
		mustAdd(t, s, add.opt, files(add.list...))
	}
	if _, err := s.Del(t.Context(), 1); err != nil {
		t.Fatalf("del: error %v, want none", err)
	}
	mustBeClean(t, s)

	var got strings.Builder
	all := tree(t, dir)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&got, "%s %d %x\n", name, len(all[name]), sha256.Sum256([]byte(all[name])))
	}
	golden := filepath.Join("testdata", "same.txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.ReplaceAll(string(want), "\r\n", "\n"), "\n")
	for line := range strings.Lines(got.String()) {
		if !slices.Contains(lines, strings.TrimSuffix(line, "\n")) {
			t.Errorf("differs from the store on Linux: %s", line)
		}
	}
	if n := strings.Count(got.String(), "\n") + 1; n != len(lines) {
		t.Errorf("%d files and folders, want %d", n-1, len(lines)-1)
	}
}

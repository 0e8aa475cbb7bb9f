package pdb

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/functab"
)

// tableOf reads the functions of a PDB.
func tableOf(t testing.TB, r io.ReaderAt, size int64, workers int) *functab.Table {
	t.Helper()
	f, err := Open(r, size)
	if err != nil {
		t.Fatal(err)
	}
	b := functab.NewBuilder(f.Module("test.pdb"), functab.Limits{})
	if err := f.Functions(t.Context(), b, FunctionOptions{Workers: workers}); err != nil {
		t.Fatal(err)
	}
	table, err := b.Table(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// fileTable reads the functions of the PDB with a path.
func fileTable(t testing.TB, path string, workers int) *functab.Table {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return tableOf(t, f, info.Size(), workers)
}

// printTable writes a table as lines like those of Breakpad symbol files.
func printTable(w io.Writer, t *functab.Table) {
	name := func(id functab.NameID) string {
		shown, _ := t.NameOf(id)
		if shown == "" {
			return "<name omitted>"
		}
		return shown
	}
	m := func(multiple bool) string {
		if multiple {
			return "m "
		}
		return ""
	}
	for f := range t.Functions() {
		_, _ = fmt.Fprintf(w, "FUNC %s%x %x %x %s\n", m(f.Multiple), f.Start, f.Size, f.Params, name(f.Name))
		for _, in := range f.Inlines {
			_, _ = fmt.Fprintf(w, "INLINE %d %d %s %s", in.Depth, in.CallLine, t.FileName(in.CallFile), name(in.Name))
			for _, r := range in.Ranges {
				_, _ = fmt.Fprintf(w, " %x %x", r.Start, r.Size)
			}
			_, _ = fmt.Fprintln(w)
		}
		for i, r := range f.Rows {
			end := f.Start + uint64(f.Size)
			if i+1 < len(f.Rows) {
				end = f.Rows[i+1].Start
			}
			_, _ = fmt.Fprintf(w, "%x %x %d %s\n", r.Start, end-r.Start, r.Line, t.FileName(r.File))
		}
	}
	for s := range t.Symbols() {
		if !s.Marker {
			_, _ = fmt.Fprintf(w, "PUBLIC %s%x %x %s\n", m(s.Multiple), s.Address, s.Params, name(s.Name))
		}
	}
	for f := range t.Frames() {
		if w1 := f.Win; w1 != nil {
			_, _ = fmt.Fprintf(w, "STACK WIN %d %x %x %x %x %x %x %x %x", w1.Type, f.Start, f.Size, w1.Prolog, w1.Epilog, w1.Params, w1.SavedRegs, w1.Locals, w1.MaxStack)
			if w1.Type == 4 {
				_, _ = fmt.Fprintf(w, " 1 %s\n", w1.Program)
			} else {
				_, _ = fmt.Fprintf(w, " 0 %t\n", w1.AllocatesBP)
			}
		}
	}
}

func printed(t *functab.Table) string {
	var b bytes.Buffer
	printTable(&b, t)
	for _, w := range t.Warnings() {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

// The functions of the files that clang and lld-link made of testdata's hello.c.
func TestFunctionsHello(t *testing.T) {
	const x86 = `FUNC 1000 c 4 sum(Pair*)
1000 c 3 /tmp/hello/hello.c
FUNC 1010 e 0 entry()
1010 e 4 /tmp/hello/hello.c
STACK WIN 4 1000 c 0 0 4 0 0 0 1 $T0 .raSearch = $eip $T0 ^ = $esp $T0 4 + =
STACK WIN 4 1010 e 0 0 0 0 0 0 1 $T0 .raSearch = $eip $T0 ^ = $esp $T0 4 + =
`
	if got := printed(fileTable(t, "../testdata/pdb/hello-x86.pdb", 0)); got != x86 {
		t.Errorf("hello-x86.pdb:\n%s\nwant\n%s", got, x86)
	}
	for _, name := range []string{"hello-x64.pdb", "hello-arm64.pdb"} {
		got := printed(fileTable(t, "../testdata/pdb/"+name, 0))
		for _, want := range []string{" 0 sum(Pair*)\n", " 3 /tmp/hello/hello.c\n", " 0 entry()\n", " 4 /tmp/hello/hello.c\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", name, want, got)
			}
		}
		if strings.Contains(got, "warning") {
			t.Errorf("%s:\n%s\nwant no warning", name, got)
		}
	}
}

// materialPDBs returns the paths of the real PDBs.
func materialPDBs(t testing.TB) []string {
	t.Helper()
	dir := os.Getenv("SYMDEPOT_MATERIAL")
	if dir == "" {
		t.Skip("SYMDEPOT_MATERIAL is not set; scripts/material fetches the files")
	}
	var list []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.EqualFold(filepath.Ext(path), ".pdb") {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		var head [SniffLen]byte
		if _, err := f.ReadAt(head[:], 0); err == nil && Detect(head[:]) != 0 {
			list = append(list, path)
		}
		return nil
	})
	if err != nil || len(list) == 0 {
		t.Skipf("no PDBs in %s: %v", dir, err)
	}
	return list
}

func TestFunctionsMaterial(t *testing.T) {
	t.Parallel()
	for _, path := range materialPDBs(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			begin := time.Now()
			table := fileTable(t, path, 1)
			c := table.Counts()
			t.Logf("%v: %+v", time.Since(begin), c)
			for _, w := range table.Warnings() {
				t.Errorf("warning: %s, want none", w)
			}
			if c.Functions < 100 || c.Rows < 1000 {
				t.Errorf("%d functions and %d rows, want at least 100 and 1000", c.Functions, c.Rows)
			}
			first := printed(table)
			if dir := os.Getenv("PDB_PRINT"); dir != "" {
				if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)+".txt"), []byte(first), 0o644); err != nil {
					t.Error(err)
				}
			}
			if second := printed(fileTable(t, path, 4)); first != second {
				t.Errorf("4 workers give %d bytes, one gives %d bytes", len(second), len(first))
			}
		})
	}
}

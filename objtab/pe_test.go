package objtab

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
)

// TestPE: an image of MinGW and its separate debug file give the same functions.
func TestPE(t *testing.T) {
	t.Parallel()
	read := func(name string) (string, error) {
		b := functab.NewBuilder(functab.Module{OS: "windows", Base: 0x140000000, Name: "mingw.exe"}, functab.Limits{})
		if err := PE(t.Context(), openFile(t, "../testdata/pe/"+name), Options{}, b); err != nil {
			return "", err
		}
		table, err := b.Table(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if w := table.Warnings(); len(w) > 0 {
			t.Errorf("%s: warnings %q, want none", name, w)
		}
		return text(table), nil
	}
	want, err := read("mingw.exe")
	if err != nil || !strings.HasPrefix(want, "FUNC 1000 ") || !strings.Contains(want, ".c:") {
		t.Errorf("mingw.exe: %q, %v; want a function at 0x1000 with lines", want, err)
	}
	if got, err := read("mingw.debug"); err != nil || got != want {
		t.Errorf("mingw.debug: %s, %v; want equal tables", diffText(got, want), err)
	}
	if _, err := read("mingw-stripped.exe"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("mingw-stripped.exe: %v, want fs.ErrNotExist", err)
	}
	if _, err := read("README.md"); !errors.Is(err, objfile.ErrNotSymbolFile) {
		t.Errorf("a text: %v, want ErrNotSymbolFile", err)
	}
}

// TestPE32Unwind: the rules of .eh_frame of a MinGW image for 32 bits, where the
// numbers of $esp and $ebp are those of ELF, also if the linker cut the name of
// the section off. The rules are those that objdump --dwarf=frames-interp prints.
func TestPE32Unwind(t *testing.T) {
	t.Parallel()
	const want = `frame 1000 23 .cfa: $esp 4 + .ra: .cfa -4 + ^
frame 1023 41 .cfa: $esp 4 + .ra: .cfa -4 + ^
 1024 .cfa: $esp 8 + $ebp: .cfa -8 + ^
 1026 .cfa: $ebp 8 +
 102a $ebx: .cfa -12 + ^
 1063 .cfa: $esp 4 + $ebx: $ebx $ebp: $ebp
frame 1064 30 .cfa: $esp 4 + .ra: .cfa -4 + ^
 1065 .cfa: $esp 8 + $ebx: .cfa -8 + ^
 1068 .cfa: $esp 28 +
 1092 .cfa: $esp 8 +
 1093 .cfa: $esp 4 + $ebx: $ebx
`
	for _, tt := range []struct {
		file      string
		functions int
		err       error
	}{{"mingw32.exe", 3, nil}, {"mingw32-release.exe", 0, fs.ErrNotExist}} {
		b := functab.NewBuilder(functab.Module{OS: "windows", Arch: "x86", Name: tt.file}, functab.Limits{})
		if err := PE(t.Context(), openFile(t, "../testdata/pe/"+tt.file), Options{}, b); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, want %v", tt.file, err, tt.err)
		}
		table, err := b.Table(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for f := range table.Frames() {
			fmt.Fprintf(&got, "frame %x %x %s\n", f.Start, f.Size, f.CFI)
			for _, d := range f.Deltas {
				fmt.Fprintf(&got, " %x %s\n", d.Address, d.Rules)
			}
		}
		if n := table.Counts().Functions; got.String() != want || n != tt.functions || len(table.Warnings()) > 0 {
			t.Errorf("%s: %d functions, warnings %q, rules\n%s\nwant %d, none,\n%s", tt.file, n, table.Warnings(), got.String(), tt.functions, want)
		}
	}
}

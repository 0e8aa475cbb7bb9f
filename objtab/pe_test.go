package objtab

import (
	"errors"
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

package depot

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
)

// TestRuleless: a program without unwind data is no file with unwind rules, and its .sym is looked for.
func TestRuleless(t *testing.T) {
	t.Parallel()
	d, _ := withUpstreams(t, Options{})
	add(t, d, "app", file{"hello-x64.exe", symtest.Testdata(t, "pdb/hello-x64.exe")}, file{"prog", symtest.Testdata(t, "elf/prog-sha1")})
	src := d.Symbols.Source(SymbolsAsk{})
	hello := symbolicate.ModuleQuery{
		DebugFile: "hello-x64.pdb", DebugID: "F9EFE0B6AE7500394C4C44205044422E1", CodeFile: "hello-x64.exe", CodeID: "C10891754000",
	}
	other := hello
	other.DebugID, other.CodeID = "F9EFE0B6AE7500394C4C44205044422E2", "C10891754001"
	for name, c := range map[string]struct {
		q    symbolicate.ModuleQuery
		rule bool
	}{"stored": {hello, true}, "not stored": {other, false}} {
		if _, err := src.Unwind(t.Context(), c.q); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, symbolicate.ErrNoRules) != c.rule || symbolicate.StateOf(err) != "missing" {
			t.Errorf("%s: error %v, want that rules are missing, and that the program is there: %v", name, err, c.rule)
		}
	}
	sym := "MODULE windows x86_64 " + hello.DebugID + " hello-x64.pdb\nFUNC 1000 10 0 main\nSTACK CFI INIT 1000 10 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n"
	add(t, d, "app", file{"hello-x64.sym", []byte(sym)})
	u, err := src.Unwind(t.Context(), hello)
	if err != nil || u.Table == nil {
		t.Fatalf("with a .sym: %+v, %v; want its rules", u, err)
	}
	u.Done()
}

package functab_test

import (
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
)

func TestRulesAt(t *testing.T) {
	b := functab.NewBuilder(functab.Module{OS: "windows", Arch: "x86", Name: "a.pdb"}, functab.Limits{})
	name := b.Name("f", "")
	add := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	add(b.Add(functab.Function{Start: 0x100, Size: 0x40, Name: name, Params: 12}))
	add(b.Add(functab.Function{Start: 0x200, Size: 0x40, Name: name, Params: 8}))
	add(b.Symbol(functab.Symbol{Address: 0x300, Name: name, Params: 4}))
	add(b.Frame(functab.Frame{
		Start: 0x100, Size: 0x40, CFI: ".cfa: $esp 4 + .ra: .cfa 4 - ^",
		Deltas: []functab.FrameDelta{{Address: 0x101, Rules: ".cfa: $esp 8 +"}, {Address: 0x110, Rules: ".cfa: $ebp 8 +"}},
	}))
	win := func(start uint64, size uint32, w functab.WinFrame) {
		t.Helper()
		add(b.Frame(functab.Frame{Start: start, Size: size, Win: &w}))
	}
	win(0x110, 0x10, functab.WinFrame{Type: 4, Program: "outer", Params: 1})
	win(0x114, 4, functab.WinFrame{Type: 4, Program: "inner", Params: 2})
	win(0x110, 0x20, functab.WinFrame{Type: 4, Program: "second", Params: 3})
	win(0x11a, 0x10, functab.WinFrame{Locals: 16})
	table, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		rva    uint64
		cfi    string
		win    string
		params uint32
		known  bool
	}{
		{0xff, "", "", 0, false},
		{0x100, ".cfa: $esp 4 + .ra: .cfa 4 - ^", "", 12, true},
		{0x10f, ".cfa: $esp 4 + .ra: .cfa 4 - ^|.cfa: $esp 8 +", "", 12, true},
		{0x113, ".cfa: $esp 4 + .ra: .cfa 4 - ^|.cfa: $esp 8 +|.cfa: $ebp 8 +", "outer", 1, true},
		{0x115, "*", "inner", 2, true},
		{0x118, "*", "outer", 1, true},
		{0x11b, "*", "outer", 1, true},
		{0x125, "*", "second", 3, true},
		{0x13f, "*", "", 12, true},
		{0x140, "", "", 0, false},
		{0x23f, "", "", 8, true},
		{0x305, "", "", 4, true},
	} {
		r, known := table.RulesAt(tc.rva)
		cfi, program := strings.Join(r.CFI, "|"), ""
		if r.Win != nil {
			program = r.Win.Program
		}
		if known != tc.known || tc.cfi != "*" && cfi != tc.cfi || program != tc.win || r.Params != tc.params {
			t.Errorf("%#x: rules %q, program %q, %d bytes of parameters, known %v, want %+v", tc.rva, cfi, program, r.Params, known, tc)
		}
		if _, ok := table.Lookup(tc.rva); ok != table.Known(tc.rva) {
			t.Errorf("%#x: Lookup finds it: %v, Known: %v", tc.rva, ok, table.Known(tc.rva))
		}
	}
}

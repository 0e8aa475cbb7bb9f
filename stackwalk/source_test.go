package stackwalk_test

import (
	"context"
	"errors"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/stackwalk"
)

// finder has one frame, and fails at address 0x900.
type finder struct{ frame functab.Frame }

func (f finder) Find(_ context.Context, rva uint64) (functab.Frame, bool, error) {
	if rva == 0x900 {
		return functab.Frame{}, false, errors.New("cannot be read")
	}
	_, ok := f.frame.RulesAt(rva)
	return f.frame, ok, nil
}

// The rules of debug information come before those of the program; without a table, code is where the
// program has rules.
func TestModules(t *testing.T) {
	b := functab.NewBuilder(functab.Module{OS: "windows", Arch: "x86", Name: "a"}, functab.Limits{})
	for _, f := range []functab.Frame{
		{Start: 0x100, Size: 0x10, CFI: ".cfa: own .ra: own"},
		{Start: 0x200, Size: 0x10, Win: &functab.WinFrame{Params: 4}},
	} {
		if err := b.Frame(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Add(functab.Function{Start: 0x300, Size: 0x10, Name: b.Name("f", ""), Params: 8}); err != nil {
		t.Fatal(err)
	}
	table, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	program := finder{functab.Frame{Start: 0x100, Size: 0x400, CFI: "program"}}
	m := stackwalk.Modules{{Table: table, Finder: program}, {Finder: program}, {}, {Table: table}}
	for _, tc := range []struct {
		module int
		rva    uint64
		cfi    string
		params uint32
		known  bool
		code   bool
	}{
		{0, 0x100, ".cfa: own .ra: own", 0, true, false},
		{0, 0x200, "program", 4, true, false},
		{0, 0x300, "program", 8, true, true},
		{0, 0x400, "program", 0, true, false},
		{0, 0x600, "", 0, false, false},
		{0, 0x900, "", 0, false, false},
		{1, 0x100, "program", 0, true, true},
		{1, 0x600, "", 0, false, false},
		{1, 0x900, "", 0, false, true},
		{2, 0x100, "", 0, false, true},
		{3, 0x200, "", 4, true, false},
	} {
		r, known := m.Rules(t.Context(), tc.module, tc.rva)
		cfi := ""
		if len(r.CFI) > 0 {
			cfi = r.CFI[0]
		}
		if code := m.Code(t.Context(), tc.module, tc.rva); cfi != tc.cfi || r.Params != tc.params || known != tc.known || code != tc.code {
			t.Errorf("rules %q, %d bytes of parameters, known %v, code %v, want %+v", cfi, r.Params, known, code, tc)
		}
	}
}

// The dump may say which bits of a pointer are an address.
func TestAddressMask(t *testing.T) {
	p := &process{regions: words(8, 0, at+0x120|3<<40)}
	regs := registers{"pc": at + 0x10, "sp": stackAt, "fp": stackAt}
	for mask, want := range map[uint64]string{
		0:         "+10/0 context, 30000400120/10 frame_pointer",
		1<<40 - 1: "+10/0 context, +120/10 frame_pointer",
	} {
		w, err := stackwalk.New(stackwalk.Process{Arch: "arm64", OS: "macos", Modules: modules, Memory: p, AddressMask: mask}, p, stackwalk.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := w.Walk(t.Context(), stackwalk.Thread{Registers: regs})
		if got := text(s); err != nil || got != want {
			t.Errorf("mask %#x: %s, error %v, want %s", mask, got, err, want)
		}
	}
}

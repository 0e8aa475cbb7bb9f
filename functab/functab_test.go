package functab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// table ends a Builder.
func table(t testing.TB, b *Builder) *Table {
	t.Helper()
	tab, err := b.Table(t.Context())
	if err != nil {
		t.Fatalf("Table: %v", err)
	}
	return tab
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dump lists a table as text.
func dump(t *Table) string {
	var w strings.Builder
	for f := range t.Functions() {
		shown, raw := t.NameOf(f.Name)
		fmt.Fprintf(&w, "func %x+%x %s", f.Start, f.Size, shown)
		if raw != "" {
			fmt.Fprintf(&w, " raw=%s", raw)
		}
		if f.Params > 0 {
			fmt.Fprintf(&w, " params=%d", f.Params)
		}
		if f.Multiple {
			w.WriteString(" m")
		}
		if f.Jump {
			w.WriteString(" jump")
		}
		w.WriteByte('\n')
		for _, r := range f.Rows {
			fmt.Fprintf(&w, " %x %s:%d\n", r.Start, t.FileName(r.File), r.Line)
		}
		for _, in := range f.Inlines {
			shown, _ := t.NameOf(in.Name)
			fmt.Fprintf(&w, " inline %d %s %s:%d", in.Depth, shown, t.FileName(in.CallFile), in.CallLine)
			for _, r := range in.Ranges {
				fmt.Fprintf(&w, " %x+%x", r.Start, r.Size)
			}
			w.WriteByte('\n')
		}
	}
	for s := range t.Symbols() {
		shown, _ := t.NameOf(s.Name)
		fmt.Fprintf(&w, "symbol %x %s", s.Address, shown)
		if s.Params > 0 {
			fmt.Fprintf(&w, " params=%d", s.Params)
		}
		if s.Multiple {
			w.WriteString(" m")
		}
		if s.Marker {
			w.WriteString(" marker")
		}
		w.WriteByte('\n')
	}
	for f := range t.Frames() {
		fmt.Fprintf(&w, "frame %x+%x %s", f.Start, f.Size, f.CFI)
		if f.Win != nil {
			fmt.Fprintf(&w, "%+v", *f.Win)
		}
		for _, d := range f.Deltas {
			fmt.Fprintf(&w, " | %x %s", d.Address, d.Rules)
		}
		w.WriteByte('\n')
	}
	return w.String()
}

func TestRules(t *testing.T) {
	t.Parallel()
	linux, windows := Module{OS: "Linux", Name: "prog"}, Module{OS: "windows", Name: "prog.pdb"}
	line := func(b *Builder, start uint64, n uint32) Row { return Row{start, b.File("/a.c"), n} }
	for _, tt := range []struct {
		name string
		m    Module
		add  func(b *Builder) error
		want string
	}{
		{"rows: order, duplicates, holes, equal neighbours, outside", linux, func(b *Builder) error {
			return b.Add(Function{Start: 0x10, Size: 0x10, Name: b.Name("f", ""), Rows: []Row{
				line(b, 0x1c, 9), line(b, 0x8, 1), line(b, 0xc, 2), line(b, 0x12, 3), line(b, 0x12, 4), line(b, 0x14, 4),
				line(b, 0x16, 0), {0x18, b.File("/b.c"), 0}, line(b, 0x1a, 4), line(b, 0x20, 7),
			}})
		}, "func 10+10 f\n 10 /a.c:2\n 12 /a.c:4\n 16 :0\n 1a /a.c:4\n 1c /a.c:9\n"},
		{"leading hole", linux, func(b *Builder) error {
			return b.Add(Function{Start: 0x10, Size: 0x10, Name: b.Name("f", ""), Rows: []Row{line(b, 0x10, 0), line(b, 0x12, 3)}})
		}, "func 10+10 f\n 12 /a.c:3\n"},
		{"address 0", linux, func(b *Builder) error {
			return errors.Join(b.Add(Function{Size: 4, Name: b.Name("f", "")}), b.Symbol(Symbol{Name: b.Name("s", "")}))
		}, ""},
		{"address 0 of an object file", Module{OS: "Linux", Relocatable: true}, func(b *Builder) error {
			return b.Add(Function{Size: 4, Name: b.Name("f", "")})
		}, "func 0+4 f\n"},
		{"no name", linux, func(b *Builder) error {
			return errors.Join(b.Add(Function{Start: 4, Size: 4}), b.Symbol(Symbol{Address: 1}))
		}, "func 4+4 <unknown in prog>\n"},
		{"one address: rows win", linux, func(b *Builder) error {
			return errors.Join(b.Add(Function{Start: 4, Size: 8, Name: b.Name("f", "")}),
				b.Add(Function{Start: 4, Size: 4, Name: b.Name("g", ""), Rows: []Row{line(b, 4, 1)}}))
		}, "func 4+4 g m\n 4 /a.c:1\n"},
		{"one address: the lowest unit wins", linux, func(b *Builder) error {
			return errors.Join(b.Add(Function{Start: 4, Size: 8, Name: b.Name("f", ""), Unit: 7}),
				b.Add(Function{Start: 4, Size: 9, Name: b.Name("g", ""), Unit: 2}), b.Add(Function{Start: 4, Size: 7, Name: b.Name("h", ""), Unit: 2}))
		}, "func 4+9 g m\n"},
		{"one address: same name, and none", linux, func(b *Builder) error {
			return errors.Join(b.Add(Function{Start: 4, Size: 8, Rows: []Row{line(b, 4, 1)}}),
				b.Add(Function{Start: 4, Size: 9, Name: b.Name("g", "")}), b.Add(Function{Start: 4, Size: 7, Name: b.Name("g", "")}))
		}, "func 4+8 g\n 4 /a.c:1\n"},
		{"jumps", windows, func(b *Builder) error {
			return errors.Join(b.Add(Function{Start: 4, Size: 5, Name: b.Name("f", ""), Params: paramsMask + 1, Jump: true, Unit: 9}),
				b.Add(Function{Start: 9, Size: 5, Name: b.Name("g", ""), Jump: true, Unit: 9}), b.Add(Function{Start: 9, Size: 5, Name: b.Name("h", ""), Unit: 2}))
		}, fmt.Sprintf("func 4+5 f params=%d jump\nfunc 9+5 h m\nsymbol e <unknown in prog.pdb> marker\n", paramsMask)},
		{"overlap: cut", linux, func(b *Builder) error {
			return errors.Join(b.Add(Function{Start: 8, Size: 8, Name: b.Name("f", ""), Rows: []Row{line(b, 8, 1), line(b, 10, 2), line(b, 13, 3)},
				Inlines: []Inline{{Name: b.Name("i", ""), CallFile: b.File("/a.c"), CallLine: 5, Ranges: []Range{{9, 1}, {11, 3}}}, {Depth: 1, Name: b.Name("j", ""), Ranges: []Range{{12, 2}}}}}),
				b.Add(Function{Start: 12, Size: 8, Name: b.Name("g", ""), Rows: []Row{line(b, 12, 5)}}))
		}, "func 8+4 f\n 8 /a.c:1\n a /a.c:2\n inline 0 i /a.c:5 9+1 b+1\nfunc c+8 g\n c /a.c:5\n"},
		{"overlap: inner one without rows", linux, func(b *Builder) error {
			return errors.Join(b.Add(Function{Start: 8, Size: 8, Name: b.Name("f", ""), Rows: []Row{line(b, 8, 1)}}),
				b.Add(Function{Start: 12, Size: 2, Name: b.Name("g", "")}))
		}, "func 8+8 f\n 8 /a.c:1\n"},
		{"unknown sizes", linux, func(b *Builder) error {
			b.Section(Section{".text", 8, 0x18})
			return errors.Join(b.Add(Function{Start: 8, Name: b.Name("f", ""), Rows: []Row{line(b, 8, 1), line(b, 0x12, 2)}}),
				b.Add(Function{Start: 0x10, Name: b.Name("g", "")}),
				b.Add(Function{Start: 0x14, Name: b.Name("h", ""), Rows: []Row{line(b, 0x14, 1), line(b, 0x18, 2)}}),
				b.Symbol(Symbol{Address: 0x16, Name: b.Name("label", "")}))
		}, "func 8+c f\n 8 /a.c:1\n 12 /a.c:2\nfunc 14+c h\n 14 /a.c:1\n 18 /a.c:2\n"},
		{"unknown size ends at a symbol", linux, func(b *Builder) error {
			return errors.Join(b.Add(Function{Start: 8, Name: b.Name("f", ""), Rows: []Row{line(b, 8, 1)}}),
				b.Symbol(Symbol{Address: 0x16, Name: b.Name("label", "")}))
		}, "func 8+e f\n 8 /a.c:1\nsymbol 16 label\n"},
		{"section markers", linux, func(b *Builder) error {
			b.Section(Section{".plt", 4, 8})
			b.Section(Section{".text", 0x10, 8})
			b.Section(Section{".fini", 0x20, 8})
			return errors.Join(b.Add(Function{Start: 0x10, Size: 4, Name: b.Name("f", "")}), b.Symbol(Symbol{Address: 0x14, Name: b.Name("s", "")}),
				b.Symbol(Symbol{Address: 0x12, Name: b.Name("inside", "")}), b.Symbol(Symbol{Address: 0x14, Name: b.Name("t", "")}))
		}, "func 10+4 f\nsymbol 4 <.plt ELF section in prog> marker\nsymbol 14 s m\nsymbol 20 <.fini ELF section in prog> marker\n"},
		{"end marker", windows, func(b *Builder) error {
			return errors.Join(b.Add(Function{Start: 0x10, Size: 4, Name: b.Name("f()", "")}), b.Symbol(Symbol{Address: 0x2, Name: b.Name("s", "")}))
		}, "func 10+4 f()\nsymbol 2 s\nsymbol 14 <unknown in prog.pdb> marker\n"},
		{"end marker with the name of the program", Module{OS: "windows", Name: "prog.pdb", CodeFile: "prog.dll"}, func(b *Builder) error {
			return b.Add(Function{Start: 0x10, Size: 4})
		}, "func 10+4 <unknown in prog.dll>\nsymbol 14 <unknown in prog.dll> marker\n"},
		{"end marker behind a section", windows, func(b *Builder) error {
			b.Section(Section{".text", 1, 0x30})
			return b.Symbol(Symbol{Address: 0x2, Name: b.Name("s", "")})
		}, "symbol 2 s\nsymbol 31 <unknown in prog.pdb> marker\n"},
		{"public symbols name functions on Windows", windows, func(b *Builder) error {
			return errors.Join(b.Add(Function{Start: 0x10, Size: 4, Name: b.Name("f", "")}), b.Symbol(Symbol{Address: 0x10, Name: b.Name("F", "_F@8"), Params: 8}),
				b.Add(Function{Start: 0x14, Size: 4, Name: b.Name("g(int)", "")}), b.Symbol(Symbol{Address: 0x14, Name: b.Name("int g(int)", "?g@@YAHH@Z")}),
				b.Add(Function{Start: 0x18, Size: 4, Name: b.Name("h()", "")}),
				b.Frame(Frame{Start: 0x18, Size: 4, Win: &WinFrame{Type: 4, Params: 12, Program: "$eip 4 ="}}),
				b.Symbol(Symbol{Address: 0x40, Name: b.Name("`string'", "??_C@_03ABC@abc@")}))
		}, "func 10+4 F raw=_F@8 params=8\nfunc 14+4 g(int) raw=?g@@YAHH@Z\nfunc 18+4 h() params=12\nsymbol 1c <unknown in prog.pdb> marker\n" +
			"frame 18+4 {Type:4 Prolog:0 Epilog:0 Params:12 SavedRegs:0 Locals:0 MaxStack:0 Program:$eip 4 = AllocatesBP:false}\n"},
		{"inlines: outside their caller, overlapping, unsorted, adjacent, empty", linux, func(b *Builder) error {
			in := func(depth int, name string, r ...Range) Inline {
				return Inline{Depth: depth, Name: b.Name(name, ""), Ranges: r}
			}
			return b.Add(Function{Start: 0x10, Size: 0x20, Name: b.Name("f", ""), Inlines: []Inline{
				in(0, "a", Range{0x18, 4}, Range{0x8, 0xc}, Range{0x1c, 2}), in(1, "b", Range{0x1a, 0x40}), in(3, "c", Range{0x10, 0x10}),
				in(0, "d", Range{0x1d, 3}), in(0, "gone", Range{0x19, 1}), in(1, "gone", Range{0x19, 1}), in(0, "e"),
			}})
		}, "func 10+20 f\n inline 0 a :0 10+4 18+6\n inline 1 b :0 1a+4\n inline 2 c :0 1a+4\n inline 0 d :0 1e+2\n"},
		{"frames", linux, func(b *Builder) error {
			return errors.Join(b.Frame(Frame{Start: 8, Size: 8, CFI: ".cfa: $rsp 8 + .ra: .cfa -8 + ^", Deltas: []FrameDelta{
				{11, ".cfa: $rsp 24 +"}, {9, ".cfa: $rsp 16 +"}, {10, ".cfa: $rsp 16 +"}, {4, ".cfa: 1"}, {16, ".cfa: 2"}}}),
				b.Frame(Frame{Start: 12, Size: 8, CFI: ".cfa: $rsp 8 + .ra: .cfa -8 + ^"}),
				b.Frame(Frame{Start: 16, Size: 8, CFI: ".cfa: $rsp 8 +"}), b.Frame(Frame{Start: 16, Size: 8, CFI: ".ra: 1 .cfa:"}),
				b.Frame(Frame{Start: 16, CFI: ".cfa: $rsp 8 + .ra: .cfa -8 + ^"}))
		}, "frame 8+8 .cfa: $rsp 8 + .ra: .cfa -8 + ^ | 9 .cfa: $rsp 16 + | b .cfa: $rsp 24 +\n"},
		{"addresses above 4 GiB", linux, func(b *Builder) error {
			return errors.Join(b.Add(Function{Start: 1 << 40, Size: 4, Name: b.Name("high", "")}), b.Add(Function{Start: 1 << 32, Size: 4, Name: b.Name("mid", "")}),
				b.Add(Function{Start: 1<<64 - 8, Size: 100, Name: b.Name("end", "")}), b.Add(Function{Start: 8, Size: 4, Name: b.Name("low", "")}))
		}, "func 8+4 low\nfunc 100000000+4 mid\nfunc 10000000000+4 high\nfunc fffffffffffffff8+7 end\n"},
	} {
		b := NewBuilder(tt.m, Limits{})
		must(t, tt.add(b))
		if got := dump(table(t, b)); got != tt.want {
			t.Errorf("%s: the table is\n%swant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ shown, raw, wantShown, wantRaw string }{
		{"f", "", "f", ""}, {"f", "f", "f", ""}, {"f()", "_Z1fv", "f()", "_Z1fv"}, {"", "_Z1fv", "_Z1fv", ""}, {"", "", "", ""},
		{"f.cold", "", "f", "f.cold"}, {"f.cold.12", "", "f", "f.cold.12"}, {"f.isra.0.cold", "", "f", "f.isra.0.cold"},
		{"f.part", "", "f.part", ""}, {"f.part.1", "", "f", "f.part.1"}, {"f.llvm.12.constprop.0", "", "f", "f.llvm.12.constprop.0"},
		{"f.0", "", "f.0", ""}, {".cold", "", ".cold", ""}, {"f.", "", "f.", ""}, {"a.b.1", "", "a.b.1", ""},
		{"f() [clone .isra.0] [clone .cold]", "_Z1fv.isra.0.cold", "f()", "_Z1fv.isra.0.cold"},
		{"`anonymous namespace'::f", "", "(anonymous namespace)::f", "`anonymous namespace'::f"},
		{" f\ng\x00\x7f ", "", "f_g__", ""}, {"f\xff", "", "f\uFFFD", ""}, {"ä", "", "ä", ""},
		{strings.Repeat("ä", 60), "", strings.Repeat("ä", 49), ""},
	} {
		b := NewBuilder(Module{}, Limits{Name: 99})
		id := b.Name(tt.shown, tt.raw)
		if other := b.Name(tt.shown, tt.raw); other != id {
			t.Errorf("Name(%q, %q) is %d, then %d, want the same id", tt.shown, tt.raw, id, other)
		}
		if shown, raw := table(t, b).NameOf(id); shown != tt.wantShown || raw != tt.wantRaw {
			t.Errorf("Name(%q, %q) gives %q, %q, want %q, %q", tt.shown, tt.raw, shown, raw, tt.wantShown, tt.wantRaw)
		}
	}
}

func TestManyTexts(t *testing.T) {
	t.Parallel()
	b := NewBuilder(Module{}, Limits{})
	text := func(i int) string { return fmt.Sprint(strings.Repeat("x", i%300), i) }
	const n = 20000 // several chunks
	for i := range n {
		if id := b.File(text(i)); int(id) != i+1 {
			t.Fatalf("file %d has number %d, want %d", i, id, i+1)
		}
	}
	long := strings.Repeat("y", 40000)
	id := b.File(long)
	for i := range n {
		if id := b.File(text(i)); int(id) != i+1 {
			t.Fatalf("file %d has number %d the second time, want %d", i, id, i+1)
		}
	}
	tab := table(t, b)
	for i := range n {
		if got := tab.FileName(FileID(i + 1)); got != text(i) {
			t.Fatalf("file %d is %q, want %q", i+1, got, text(i))
		}
	}
	if tab.FileName(id) != long || tab.FileName(0) != "" || tab.FileName(id+1) != "" || tab.Files() != n+1 {
		t.Errorf("a file name of %d bytes, file 0 and an unknown file: the texts or the count of files are not what was put in", len(long))
	}
}

func TestJoinPath(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		parts []string
		want  string
	}{
		{nil, ""}, {[]string{"a.c"}, "a.c"}, {[]string{"", "src", "a.c"}, "src/a.c"},
		{[]string{"/build", "src", "a.c"}, "/build/src/a.c"}, {[]string{"/build", "/usr/include", "a.h"}, "/usr/include/a.h"},
		{[]string{"/build/x", "../src/./y", "../a.c"}, "/build/src/a.c"}, {[]string{"/", "../a.c"}, "/a.c"}, {[]string{"a", "../../b"}, "../b"},
		{[]string{`C:\build`, `src\a.c`}, `C:\build\src\a.c`}, {[]string{`C:\build`, "src/x/../a.c"}, `C:\build\src\a.c`},
		{[]string{`C:\build`, `D:\x`, "a.c"}, `D:\x\a.c`}, {[]string{`\\host\share\x`, `..\a.c`}, `\\host\share\a.c`},
		{[]string{"C:/build", "a.c"}, `C:\build\a.c`}, {[]string{`src\x`, "a.c"}, `src\x\a.c`}, {[]string{"/b//x/", "a.c"}, "/b/x/a.c"},
		{[]string{"/build", "<built-in>"}, "<built-in>"}, {[]string{"hg:host/x:../a.c:12"}, "hg:host/x:../a.c:12"}, {[]string{"/b", "https://h/a/../c"}, "https://h/a/../c"},
	} {
		if got := JoinPath(tt.parts...); got != tt.want {
			t.Errorf("JoinPath(%q) = %q, want %q", tt.parts, got, tt.want)
		}
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	b := NewBuilder(Module{OS: "windows", Name: "p.pdb"}, Limits{})
	a, h := b.File("/a.c"), b.File("/h.h")
	must(t, b.Add(Function{
		Start: 0x10, Size: 0x10, Name: b.Name("f()", "_Z1fv"), Rows: []Row{{0x10, a, 5}, {0x12, h, 50}, {0x14, h, 70}, {0x16, h, 51}, {0x18, a, 6}, {0x1a, 0, 0}},
		Inlines: []Inline{
			{Name: b.Name("g()", ""), CallFile: a, CallLine: 5, Ranges: []Range{{0x12, 6}}},
			{Depth: 1, CallFile: h, CallLine: 51, Ranges: []Range{{0x14, 2}}},
		},
	}))
	must(t, b.Symbol(Symbol{Address: 8, Name: b.Name("sized", ""), Size: 2}))
	must(t, b.Symbol(Symbol{Address: 12, Name: b.Name("s", "")}))
	must(t, b.Symbol(Symbol{Address: 0x24, Name: b.Name("t", "")}))
	b.Section(Section{".text", 8, 0x28})
	tab := table(t, b)
	f := Answer{FunctionStart: 0x10, FunctionSize: 0x10}
	outer := func(file string, line uint32) Line { return Line{"f()", "_Z1fv", file, line} }
	for _, tt := range []struct {
		at   uint64
		want []Line
	}{
		{0x10, []Line{outer("/a.c", 5)}}, {0x13, []Line{{"g()", "", "/h.h", 50}, outer("/a.c", 5)}},
		{0x14, []Line{{"<name omitted>", "", "/h.h", 70}, {"g()", "", "/h.h", 51}, outer("/a.c", 5)}},
		{0x17, []Line{{"g()", "", "/h.h", 51}, outer("/a.c", 5)}}, {0x18, []Line{outer("/a.c", 6)}}, {0x1f, []Line{outer("", 0)}},
	} {
		f.Frames = tt.want
		if got, ok := tab.Lookup(tt.at); !ok || !cmp.Equal(got, f) {
			t.Errorf("Lookup(%#x): %v, difference:\n%s", tt.at, ok, cmp.Diff(f, got))
		}
	}
	for at, want := range map[uint64]string{
		0: "", 7: "", 8: "sized", 9: "sized", 10: "", 12: "s", 15: "s", 0x20: "", 0x23: "", 0x24: "t", 0x2f: "t", 0x30: "", 1 << 50: "",
	} {
		got, ok := tab.Lookup(at)
		if want == "" && ok || want != "" && (!ok || !got.Symbol || got.Frames[0].Function != want) {
			t.Errorf("Lookup(%#x) = %+v, %v, want symbol %q", at, got, ok, want)
		}
	}
}

// TestLastSymbol: the last symbol of an ELF file owns the rest of its section, not every address
// above. The first one is ended by the start of the next section.
func TestLastSymbol(t *testing.T) {
	t.Parallel()
	for _, base := range []uint64{0, 1 << 33} {
		b := NewBuilder(Module{OS: "Linux", Name: "prog"}, Limits{})
		b.Section(Section{Name: ".text", Start: base + 0x1000, Size: 0x100})
		b.Section(Section{Name: ".fini", Start: base + 0x1200, Size: 9})
		must(t, b.Symbol(Symbol{Address: base + 0x1010, Name: b.Name("_start", "")}))
		must(t, b.Symbol(Symbol{Address: base + 0x1200, Name: b.Name("_fini", "")}))
		tab := table(t, b)
		for address, want := range map[uint64]string{0x1010: "_start", 0x11ff: "_start", 0x1200: "_fini", 0x1208: "_fini", 0x1209: "", 0x5000000: ""} {
			got := ""
			if a, ok := tab.Lookup(base + address); ok {
				got = a.Frames[0].Function
			}
			if got != want {
				t.Errorf("Lookup(%#x) = %q, want %q", base+address, got, want)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	lim := Limits{InlineDepth: 2, Rows: 3, Functions: 2, Bytes: 1 << 20}
	b := NewBuilder(Module{}, lim)
	for name, f := range map[string]Function{
		"depth":  {Start: 1, Size: 1, Inlines: []Inline{{Depth: 2}}},
		"rows":   {Start: 1, Size: 9, Rows: make([]Row, 4)},
		"ranges": {Start: 1, Size: 9, Inlines: []Inline{{Ranges: make([]Range, 4)}}},
		"calls":  {Start: 1, Size: 9, Inlines: make([]Inline, 4)},
	} {
		if err := b.Add(f); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: Add: error %v, want ErrLimit", name, err)
		}
	}
	must(t, b.Add(Function{Start: 1, Size: 1}))
	must(t, b.Add(Function{Start: 2, Size: 1}))
	if err := b.Add(Function{Start: 3, Size: 1}); !errors.Is(err, ErrLimit) {
		t.Errorf("third function: error %v, want ErrLimit", err)
	}
	must(t, b.Symbol(Symbol{Address: 9, Name: b.Name("s", "")}))
	for i := range 200 {
		b.Name(strings.Repeat("x", 60000)+fmt.Sprint(i), "")
	}
	if err := b.Symbol(Symbol{Address: 10, Name: b.Name("t", "")}); !errors.Is(err, ErrLimit) {
		t.Errorf("12 MB of names: error %v, want ErrLimit", err)
	}
	if got := table(t, b).Counts(); got.Functions != 2 || got.Symbols != 1 || got.Bytes > 3<<20 {
		t.Errorf("counts are %+v, want 2 functions and 1 symbol in less than 3 MiB", got)
	}
	b = NewBuilder(Module{}, Limits{})
	for i := range 250 {
		b.Warn("unit %d\nis damaged", i)
	}
	w := table(t, b).Warnings()
	if len(w) != 101 || w[3] != "unit 3_is damaged" || w[100] != "150 more warnings" {
		t.Errorf("%d warnings from %q to %q, want 100 and a count", len(w), w[3], w[len(w)-1])
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewBuilder(Module{}, Limits{}).Table(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Table with a canceled context: error %v, want context.Canceled", err)
	}
}

// TestLargeFunctions covers records above the size of a chunk, between small ones.
func TestLargeFunctions(t *testing.T) {
	t.Parallel()
	b := NewBuilder(Module{}, Limits{})
	file := b.File("/a.c")
	rows := make([]Row, 600_000)
	for i := range rows {
		rows[i] = Row{1<<20 + uint64(i), file, uint32(i * 1000)}
	}
	for i := range 4 {
		must(t, b.Add(Function{Start: uint64(i+1) * 16, Size: 8, Name: b.Name(fmt.Sprint("small", i), "")}))
		must(t, b.Add(Function{Start: uint64(i+1) << 20, Size: 1 << 20, Name: b.Name(fmt.Sprint("large", i), ""), Rows: rows}))
		for k := range rows {
			rows[k].Start += 1 << 20
		}
	}
	tab := table(t, b)
	for i := range uint64(4) {
		at := (i+1)<<20 + 12345
		if got, ok := tab.Lookup(at); !ok || got.Frames[0].Line != 12345000 || got.Frames[0].Function != fmt.Sprint("large", i) {
			t.Errorf("Lookup(%#x) = %+v, %v, want line 12345000 of large%d", at, got, ok, i)
		}
		if got, ok := tab.Lookup((i+1)*16 + 7); !ok || got.Frames[0].Function != fmt.Sprint("small", i) {
			t.Errorf("small function %d: %+v, %v; want the function small%d", i, got, ok, i)
		}
	}
}

func TestConcurrentReaders(t *testing.T) {
	t.Parallel()
	b := NewBuilder(Module{Name: "x"}, Limits{})
	var wg sync.WaitGroup
	const workers, each = 4, 500
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				at := uint64(1 + (i*workers+w)*8)
				err := b.Add(Function{Start: at, Size: 8, Name: b.Name(fmt.Sprint("f", at), ""), Rows: []Row{{at, b.File(fmt.Sprint("/", i%7)), uint32(at)}}})
				if err != nil {
					t.Error(err)
				}
				b.Warn("w")
			}
		})
	}
	wg.Wait()
	tab := table(t, b)
	if got := tab.Counts(); got.Functions != workers*each || got.Files != 7 || got.Names != workers*each {
		t.Errorf("counts are %+v, want %d functions and names, 7 files", got, workers*each)
	}
	for range 4 {
		wg.Go(func() {
			for i := range workers * each {
				at := uint64(1 + i*8)
				if a, ok := tab.Lookup(at + 3); !ok || a.Frames[0].Line != uint32(at) || a.Frames[0].Function != fmt.Sprint("f", at) {
					t.Errorf("Lookup(%d) = %+v, %v; want function f%d and line %d", at+3, a, ok, at, at)
					return
				}
			}
		})
	}
	wg.Wait()
}

// FuzzTable compares tables with a model that keeps one owner for each byte of code.
func FuzzTable(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add([]byte{0, 10, 20, 1, 2, 10, 3, 12, 4, 0, 0, 12, 30, 2, 0, 0, 1, 20, 3})
	f.Add(slices.Repeat([]byte{0, 7, 40, 1, 3, 8, 1, 9, 2, 2, 10, 11, 12}, 30))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4000 {
			return
		}
		next := func() int {
			if len(data) == 0 {
				return 0
			}
			v := data[0]
			data = data[1:]
			return int(v)
		}
		b := NewBuilder(Module{OS: "Linux", Name: "m"}, Limits{})
		var added []Function
		for len(data) > 0 {
			if next()%8 == 0 {
				must(t, b.Symbol(Symbol{Address: uint64(next()), Name: b.Name(string(rune('A'+next()%8)), ""), Size: uint32(next() % 4)}))
				continue
			}
			fn := Function{Start: uint64(next()), Size: uint32(next() % 64), Name: b.Name(string(rune('a'+next()%8)), ""), Unit: uint32(next() % 3)}
			for range next() % 6 {
				fn.Rows = append(fn.Rows, Row{max(fn.Start, 4) - 4 + uint64(next()%64), b.File(string(rune('a' + next()%3))), uint32(next() % 5)})
			}
			for range next() % 6 {
				in := Inline{Depth: next() % 4, Name: b.Name(string(rune('i'+next()%4)), ""), CallLine: uint32(next())}
				for range next() % 4 {
					in.Ranges = append(in.Ranges, Range{fn.Start + uint64(next()%64), uint32(next() % 32)})
				}
				fn.Inlines = append(fn.Inlines, in)
			}
			added = append(added, fn)
			must(t, b.Add(fn))
		}
		tab := table(t, b)
		checkInvariants(t, tab)
		checkOwners(t, tab, added)
	})
}

// checkInvariants checks what the documentation of Table promises, and that Lookup
// and Functions agree.
func checkInvariants(t *testing.T, tab *Table) {
	t.Helper()
	end := uint64(0)
	for f := range tab.Functions() {
		if f.Start < end || f.Size == 0 || f.Name == 0 {
			t.Fatalf("function %x+%x name %d: want a size, a name and a start at or after %x, where the one before ends", f.Start, f.Size, f.Name, end)
		}
		end = f.Start + uint64(f.Size)
		for i, r := range f.Rows {
			if r.Start < f.Start || r.Start >= end || i > 0 && (r.Start <= f.Rows[i-1].Start || r.File == f.Rows[i-1].File && r.Line == f.Rows[i-1].Line) {
				t.Fatalf("function %x+%x: row %d: want rows inside, in the order of addresses, each with a new line or file: %+v", f.Start, f.Size, i, f.Rows)
			}
		}
		taken := map[[2]uint64]bool{} // depth, address
		for i, in := range f.Inlines {
			if len(in.Ranges) == 0 || in.Depth < 0 || i == 0 && in.Depth != 0 || i > 0 && in.Depth > f.Inlines[i-1].Depth+1 {
				t.Fatalf("function %x+%x: inlined call %d: want a range, and a depth of at most one more than the call before: %+v", f.Start, f.Size, i, f.Inlines)
			}
			for k, r := range in.Ranges {
				if r.Size == 0 || r.Start < f.Start || r.Start+uint64(r.Size) > end || k > 0 && r.Start <= in.Ranges[k-1].Start+uint64(in.Ranges[k-1].Size) {
					t.Fatalf("function %x+%x: range %d of inlined call %d: want ranges inside the function, in order and apart: %+v", f.Start, f.Size, k, i, f.Inlines)
				}
				for a := r.Start; a < r.Start+uint64(r.Size); a++ {
					if taken[[2]uint64{uint64(in.Depth), a}] || in.Depth > 0 && !taken[[2]uint64{uint64(in.Depth) - 1, a}] {
						t.Fatalf("function %x+%x: inlined call %d: want no overlap with its neighbours at %x, and a caller there: %+v", f.Start, f.Size, i, a, f.Inlines)
					}
					taken[[2]uint64{uint64(in.Depth), a}] = true
				}
			}
		}
		for a := f.Start; a < end; a++ {
			got, ok := tab.Lookup(a)
			depth := 1
			for taken[[2]uint64{uint64(depth) - 1, a}] {
				depth++
			}
			if !ok || got.FunctionStart != f.Start || got.FunctionSize != f.Size || got.Symbol || len(got.Frames) != depth {
				t.Fatalf("Lookup(%x) = %+v, %v, want %d frames of function %x+%x", a, got, ok, depth, f.Start, f.Size)
			}
			var at Row
			for _, r := range f.Rows {
				if r.Start <= a {
					at = r
				}
			}
			if got.Frames[0].Line != at.Line || got.Frames[0].File != tab.FileName(at.File) {
				t.Fatalf("Lookup(%x) = %+v, want row %+v", a, got, at)
			}
		}
	}
	before := uint64(0)
	for s := range tab.Symbols() {
		if s.Address <= before || s.Name == 0 {
			t.Fatalf("symbol %+v: want a name and an address above %x, that of the symbol before", s, before)
		}
		if got, ok := tab.Lookup(s.Address); ok != !s.Marker || ok && !got.Symbol {
			t.Fatalf("Lookup of symbol %+v = %+v, %v; want a symbol, unless it is a marker", s, got, ok)
		}
		before = s.Address
	}
}

// checkOwners compares which function owns each address.
func checkOwners(t *testing.T, tab *Table, added []Function) {
	t.Helper()
	type span struct {
		f          *Function
		start, end uint64
		rows       bool
	}
	rows := func(f *Function) bool {
		// The last row at or before an address counts.
		end := f.Start + uint64(f.Size)
		if f.Size == 0 {
			end = f.Start + 200
		}
		for a := f.Start; a < end; a++ {
			var at *Row
			for i := range f.Rows {
				if r := &f.Rows[i]; r.Start <= a && (at == nil || r.Start >= at.Start) {
					at = r
				}
			}
			if at != nil && at.Line != 0 {
				return true
			}
		}
		return false
	}
	var spans []span
	for start := uint64(1); start < 256; start++ {
		var best *span
		for i := range added {
			f := &added[i]
			if f.Start != start {
				continue
			}
			s := span{f, start, start + uint64(f.Size), rows(f)}
			if best == nil || s.rows && !best.rows ||
				s.rows == best.rows && (f.Size > 0 && best.f.Size == 0 || (f.Size > 0) == (best.f.Size > 0) && f.Unit < best.f.Unit) {
				best = &s
			}
		}
		if best == nil || best.f.Size == 0 && !best.rows {
			continue
		}
		if n := len(spans) - 1; n >= 0 && (spans[n].end > start || spans[n].f.Size == 0) {
			if spans[n].rows && !best.rows && best.end <= spans[n].end && spans[n].f.Size > 0 {
				continue
			}
			spans[n].end = start
		}
		spans = append(spans, *best)
	}
	i := 0
	for f := range tab.Functions() {
		if i >= len(spans) || f.Start != spans[i].start || spans[i].end > spans[i].start && f.Start+uint64(f.Size) != spans[i].end {
			t.Fatalf("function %d is %x+%x, want one of %+v", i, f.Start, f.Size, spans)
		}
		i++
	}
	if i != len(spans) {
		t.Fatalf("%d functions, want %d: %+v", i, len(spans), spans)
	}
}

// Tables for symbol files keep shown names only, except on Windows, where public
// symbols name functions by their raw names.
func TestShownOnly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ os, want string }{{"Linux", ""}, {"mac", ""}, {"windows", "_Z1fv"}} {
		b := NewBuilder(Module{OS: tt.os, Name: "m"}, Limits{})
		b.ShownOnly()
		id := b.Name("f()", "_Z1fv")
		if err := b.Add(Function{Start: 0x10, Size: 4, Name: id, Rows: []Row{{0x10, b.File("/a.c"), 1}}}); err != nil {
			t.Fatal(err)
		}
		tab, err := b.Table(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if shown, raw := tab.NameOf(id); shown != "f()" || raw != tt.want {
			t.Errorf("%s: the name is %q, raw %q; want f() and %q", tt.os, shown, raw, tt.want)
		}
	}
}

// TestTakenWarnings: warnings that are given back come in their place, and count as if they had been
// added there.
func TestTakenWarnings(t *testing.T) {
	t.Parallel()
	for _, sizes := range [][3]int{{1, 2, 3}, {60, 30, 40}, {0, 120, 5}, {150, 1, 150}} {
		ordered, moved := NewBuilder(Module{}, Limits{}), NewBuilder(Module{}, Limits{})
		add := func(b *Builder, part int) {
			for i := range sizes[part] {
				b.Warn("part %d, warning %d", part, i)
			}
		}
		for part := range sizes {
			add(ordered, part)
		}
		add(moved, 0)
		first := moved.TakeWarnings()
		add(moved, 2)
		last := moved.TakeWarnings()
		moved.GiveWarnings(first)
		add(moved, 1)
		moved.GiveWarnings(last)
		want, err := ordered.Table(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := moved.Table(t.Context())
		if err != nil || !slices.Equal(got.Warnings(), want.Warnings()) {
			t.Errorf("%v: %q, error %v; want %q", sizes, got.Warnings(), err, want.Warnings())
		}
	}
}

package breakpad

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/pdb"
)

// tables reads a symbol file.
func tables(t testing.TB, sym string) *functab.Table {
	t.Helper()
	b := functab.NewBuilder(functab.Module{}, functab.Limits{})
	if err := ReadSym(strings.NewReader(sym), b); err != nil {
		t.Fatalf("ReadSym: %v", err)
	}
	tab, err := b.Table(t.Context())
	if err != nil {
		t.Fatalf("Table: %v", err)
	}
	return tab
}

func symOf(t testing.TB, tab *functab.Table, o SymOptions) string {
	t.Helper()
	var out strings.Builder
	if err := o.Write(&out, tab); err != nil {
		t.Fatalf("Write: %v", err)
	}
	return out.String()
}

const (
	symHead = "MODULE Linux x86_64 4C70B8C9113B1B3A9AB4D2F1AA7B11C30 prog\n"
	symBody = `INFO CODE_ID C9B8704C3B113A1B9AB4D2F1AA7B11C3DEADBEEF
INFO GENERATOR symdepot 1.0
FILE 0 /build/src/main.c
FILE 1 /build/src/util.h
INLINE_ORIGIN 0 clamp(int)
INLINE_ORIGIN 1 min(int, int)
FUNC 1040 2c 0 main
INLINE 0 12 0 0 1048 9 1060 4
INLINE 1 5 1 1 104a 2
1040 8 10 0
1048 9 5 1
1051 1b 13 0
FUNC m 1070 8 10 two words
PUBLIC 1000 0 _init
PUBLIC m 1080 c alias
STACK WIN 4 1040 2c 3 0 4 c 10 0 1 $eip 4 + ^ =
STACK WIN 0 1070 8 0 0 0 0 0 0 0 1
STACK CFI INIT 1040 2c .cfa: $rsp 8 + .ra: .cfa -8 + ^
STACK CFI 1041 .cfa: $rsp 16 +
`
)

func TestWriteSym(t *testing.T) {
	t.Parallel()
	tab := tables(t, symHead+symBody)
	if got := symOf(t, tab, SymOptions{}); got != symHead+symBody {
		t.Errorf("the symbol file changed:\n%s\nwant\n%s", got, symHead+symBody)
	}
	records := func(words string) string {
		return regexp.MustCompile(`(?m)^(`+words+`).*\n`).ReplaceAllString(symHead+symBody, "")
	}
	if got, want := symOf(t, tab, SymOptions{NoInlines: true}), records("INLINE"); got != want {
		t.Errorf("without inlined calls:\n%s\nwant\n%s", got, want)
	}
	if got, want := symOf(t, tab, SymOptions{Frames: NoFrames}), records("STACK"); got != want {
		t.Errorf("without unwind rules:\n%s\nwant\n%s", got, want)
	}
	if got, want := symOf(t, tab, SymOptions{Frames: OnlyFrames}), records("FILE|INLINE|FUNC|PUBLIC|[0-9]"); got != want {
		t.Errorf("only unwind rules:\n%s\nwant\n%s", got, want)
	}
	path := func(p string) string {
		if strings.HasSuffix(p, ".h") {
			return "a\nb"
		}
		return "git:host/x:" + filepath.Base(p) + ":12"
	}
	got := symOf(t, tab, SymOptions{Path: path, Info: []string{"WARNING unit 3 is damaged"}})
	want := strings.NewReplacer("/build/src/main.c", "git:host/x:main.c:12", "symdepot 1.0\n", "symdepot 1.0\nINFO WARNING unit 3 is damaged\n").Replace(symHead + symBody)
	if got != want {
		t.Errorf("with mapped paths:\n%s\nwant\n%s", got, want)
	}
	size := int64(len(symHead) + len(symBody))
	if symOf(t, tab, SymOptions{MaxBytes: size}) == "" {
		t.Errorf("a file of its limit is not written")
	}
	var out strings.Builder
	for _, tt := range []struct {
		o    SymOptions
		want error
	}{
		{SymOptions{MaxBytes: size - 1}, ErrTooLarge}, {SymOptions{Info: []string{"a\nb"}}, ErrSyntax}, {SymOptions{Info: []string{""}}, ErrSyntax},
	} {
		if err := tt.o.Write(&out, tab); !errors.Is(err, tt.want) || out.Len() > 0 {
			t.Errorf("%+v: Write: error %v after %d bytes, want %v after none", tt.o, err, out.Len(), tt.want)
		}
	}
	boom := errors.New("boom")
	if err := WriteSym(failing{boom}, tab); !errors.Is(err, boom) {
		t.Errorf("WriteSym: error %v, want that of the writer", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestReadSymForms covers what other producers write, and what cannot be read.
// TestJumps: a jump has no record, so that no stack walker takes a pointer to it for
// a return address.
func TestJumps(t *testing.T) {
	t.Parallel()
	b := functab.NewBuilder(functab.Module{OS: "windows", Arch: "x86_64", Name: "prog.pdb"}, functab.Limits{})
	for _, f := range []functab.Function{
		{Start: 0x10, Size: 5, Name: b.Name("f()", ""), Jump: true},
		{Start: 0x20, Size: 8, Name: b.Name("f()", "")},
	} {
		if err := b.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	tab, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := symOf(t, tab, SymOptions{})
	if strings.Contains(got, "FUNC 10 ") || !strings.Contains(got, "FUNC 20 8 0 f()\n") {
		t.Errorf("the symbol file is\n%s\nwant FUNC 20 and no FUNC 10", got)
	}
	if a, ok := tab.Lookup(0x12); !ok || len(a.Frames) == 0 || a.Frames[0].Function != "f()" {
		t.Errorf("Lookup(0x12): %+v, %v; want the function of the jump", a, ok)
	}
}

func TestReadSymForms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want, warning string }{
		{"CR LF, spaces, upper case", "FILE 0  a b.c \r\nFUNC  1A0  8   0  f\r\nA1A0 8 1 0\r\n1A0 8 1 0\r\n", "FILE 0 a b.c\nFUNC 1a0 8 0 f\n1a0 8 1 0\n", ""},
		{"lines: gaps, line 0, overlaps, outside", "FILE 7 a.c\nFUNC 10 20 0 f\n8 10 1 7\n14 8 2 7\n20 4 0 7\n28 4 3 7\n2c 0 9 7\n2e 10 4 7\n",
			"FILE 0 a.c\nFUNC 10 20 0 f\n10 8 1 0\n18 4 2 0\n28 4 3 0\n2e 2 4 0\n", ""},
		{"lines out of order, equal neighbours", "FILE 1 a.c\nFILE 0 b.c\nFUNC 10 20 0 f\n20 10 1 0\n10 8 2 1\n18 8 2 1\n", "FILE 0 a.c\nFILE 1 b.c\nFUNC 10 20 0 f\n10 10 2 0\n20 10 1 1\n", ""},
		{"FUNC without a name or a size", "FUNC 10 4 0\nFUNC 20 0 0 g\n", "FUNC 10 4 0 <unknown in prog>\nPUBLIC 20 0 g\n", ""},
		{"older INLINE and INLINE_ORIGIN", "FILE 0 a.c\nINLINE_ORIGIN 3 0 f(int)\nINLINE_ORIGIN 4 -1 g h\nINLINE_ORIGIN 5 12\nFUNC 10 20 0 f\nINLINE 0 7 3 14 4\nINLINE 1 8 4 15 1\nINLINE 0 -1 -1 3 18 1\nINLINE 0 9 -1 5 18 1\n",
			"FILE 0 <unknown>\nINLINE_ORIGIN 0 f(int)\nINLINE_ORIGIN 1 g h\nINLINE_ORIGIN 2 12\nFUNC 10 20 0 f\nINLINE 0 7 0 0 14 4\nINLINE 1 8 0 1 15 1\nINLINE 0 9 0 2 18 1\n", "line 9"},
		{"INLINE in any order", "FILE 0 a.c\nINLINE_ORIGIN 0 a\nINLINE_ORIGIN 1 b\nINLINE_ORIGIN 2 c\nFUNC 10 20 0 f\nINLINE 1 5 0 1 14 2 24 2 2e 1\nINLINE 0 3 0 2 20 8\nINLINE 0 2 0 0 10 8\n",
			"FILE 0 a.c\nINLINE_ORIGIN 0 a\nINLINE_ORIGIN 1 b\nINLINE_ORIGIN 2 c\nFUNC 10 20 0 f\nINLINE 0 2 0 0 10 8\nINLINE 1 5 0 1 14 2\nINLINE 0 3 0 2 20 8\nINLINE 1 5 0 1 24 2\n", ""},
		{"omitted name, unknown file", "FILE 0 <unknown>\nINLINE_ORIGIN 9 <name omitted>\nFUNC 10 20 0 f\nINLINE 0 5 0 9 14 2\n10 4 1 0\n",
			"FILE 0 <unknown>\nINLINE_ORIGIN 0 <name omitted>\nFUNC 10 20 0 f\nINLINE 0 5 0 0 14 2\n", ""},
		{"an inlined call at line 0", "FILE 0 a.c\nINLINE_ORIGIN 0 g\nFUNC 10 20 0 f\nINLINE 0 0 0 0 14 2\n",
			"FILE 0 <unknown>\nINLINE_ORIGIN 0 g\nFUNC 10 20 0 f\nINLINE 0 0 0 0 14 2\n", ""},
		{"public in a function, marker", "FUNC 10 20 0 f\nPUBLIC 10 0 g\nPUBLIC 18 0 h\nPUBLIC 40 0 <unknown in prog>\n", "FUNC 10 20 0 f\nPUBLIC 40 0 <unknown in prog>\n", ""},
		{"CFI", "STACK CFI INIT 20 8 .cfa: sp .ra: x30\nSTACK CFI 24 .cfa: sp 16 +\nSTACK CFI 28 .cfa: sp\nSTACK CFI INIT 10 8 .cfa: sp 0 + .ra: x30\nSTACK CFI INIT 30 8 .cfa: sp 0 +\n",
			"STACK CFI INIT 10 8 .cfa: sp 0 + .ra: x30\nSTACK CFI INIT 20 8 .cfa: sp .ra: x30\nSTACK CFI 24 .cfa: sp 16 +\n", "line 4"},
		{"STACK WIN", "STACK WIN 4 10 8 0 0 0 0 0 0 0 1\nSTACK WIN 0 10 8 0 0 0 0 0 0 1 x\nSTACK WIN 2 10 8 0 0 0 0 0 0 0 1\nSTACK WIN 0 10 8 1 2 3 4 5 6 0 1\nSTACK WIN 0 10 8 1 9 9 9 9 9 0 0\n",
			"STACK WIN 0 10 8 1 2 3 4 5 6 0 1\n", "unwind rules at 0x10"},
		{"bad INLINE", "INLINE_ORIGIN 0 a\nINLINE_ORIGIN 1\nFUNC 10 4 0 f\nINLINE 600 1 0 0 10 1\n", "FUNC 10 4 0 f\n", "line 3"},
		{"INLINE of depth 600", "INLINE_ORIGIN 0 a\nFUNC 10 4 0 f\nINLINE 600 1 0 0 10 1\n", "FUNC 10 4 0 f\n", "depth 600"},
		{"INLINE of an unknown origin", "FUNC 10 4 0 f\nINLINE 0 1 0 0 10 1\n", "FUNC 10 4 0 f\n", "INLINE_ORIGIN"},
		{"INLINE outside of a function", "INLINE_ORIGIN 0 a\nINLINE 0 1 0 0 10 1\n", "", "without a FUNC"},
		{"bad line", "FUNC 10 4 0 f\n10 4 1\n", "FUNC 10 4 0 f\n", "line 3"},
		{"line of an unknown file", "FUNC 10 4 0 f\n10 4 1 5\n", "FUNC 10 4 0 f\n", "number 5"},
		{"line without a function", "10 4 1 5\n", "", "line 2"},
		{"unknown records", "FOO bar\n\nINFO URL https://x\nINFO\nMODULE x\nSTACK X\nSTACK CFI\nFUNC x\nPUBLIC 10 0\nFILE 1\nINLINE_ORIGIN\n", "", "line 2"},
		{"numbers out of range", "FILE 4294967296 a\nFUNC 10 123456789 0 f\nFUNC 12345678901234567 1 0 f\nPUBLIC 10 123456789 f\n", "", "line 2"},
		{"sparse numbers", "FILE 4294967295 a.c\nFILE 4294967294 b.c\nFUNC 10 4 0 f\n10 4 1 4294967294\n", "FILE 0 b.c\nFUNC 10 4 0 f\n10 4 1 0\n", ""},
		{"a long line", "FILE 0 " + strings.Repeat("x", 2<<20) + "\nFUNC 10 4 0 f\n", "FUNC 10 4 0 f\n", "1 MiB"},
		{"no line end", "FUNC 10 4 0 f", "FUNC 10 4 0 f\n", ""},
		{"NUL and bytes that are not UTF-8", "FUNC 10 4 0 f\x00\xff\n", "FUNC 10 4 0 f_\uFFFD\n", ""},
	} {
		tab := tables(t, symHead+tt.in)
		if got := symOf(t, tab, SymOptions{}); got != symHead+tt.want {
			t.Errorf("%s:\n%.2000s\nwant\n%s", tt.name, got, symHead+tt.want)
		}
		if w := strings.Join(tab.Warnings(), "\n"); !strings.Contains(w, tt.warning) || tt.warning == "" && w != "" {
			t.Errorf("%s: warnings %q, want one with %q", tt.name, w, tt.warning)
		}
	}
	boom := errors.New("boom")
	for in, want := range map[string]error{"": ErrSyntax, "FUNC 1 2 3 x\n": ErrSyntax, symHead + "FUNC 10 4 0 f": boom} {
		r := io.Reader(strings.NewReader(in))
		if want == boom {
			r = io.MultiReader(r, iotest.ErrReader(boom))
		}
		if err := ReadSym(r, functab.NewBuilder(functab.Module{}, functab.Limits{})); !errors.Is(err, want) {
			t.Errorf("ReadSym of %q: error %v, want %v", in, err, want)
		}
	}
	small := functab.NewBuilder(functab.Module{}, functab.Limits{Functions: 1})
	if err := ReadSym(strings.NewReader(symHead+symBody), small); !errors.Is(err, functab.ErrLimit) {
		t.Errorf("ReadSym above a limit: error %v, want ErrLimit", err)
	}
}

func TestReadSymModule(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		head, os, code, file, generator, uuid string
	}{
		{symHead + "INFO CODE_ID C9B8704C3B113A1B9AB4D2F1AA7B11C3DEADBEEF\n", "Linux", "C9B8704C3B113A1B9AB4D2F1AA7B11C3DEADBEEF", "", "", "c9b8704c3b113a1b9ab4d2f1aa7b11c3deadbeef"},
		{"MODULE mac arm64 4C70B8C9113B1B3A9AB4D2F1AA7B11C30 a\nINFO GENERATOR g 1\n", "mac", "", "", "g 1", "4c70b8c9113b1b3a9ab4d2f1aa7b11c3"},
		{"MODULE windows x86 4C70B8C9113B1B3A9AB4D2F1AA7B11C31f a b.pdb\nFUNC 10 1 0 f\nINFO CODE_ID 5AB380779000 a b.dll\n", "windows", "5AB380779000", "a b.dll", "", "c9b8704c3b113a1b9ab4d2f1aa7b11c31f000000"},
	} {
		m := tables(t, tt.head).Module()
		if m.OS != tt.os || m.CodeID != tt.code || m.CodeFile != tt.file || m.Generator != tt.generator || fmt.Sprintf("%x", m.UUID) != tt.uuid {
			t.Errorf("%q: module %+v, want %+v", tt.head, m, tt)
		}
	}
}

const hex8, hex16, dec = `[0-9a-f]{1,8}`, `[0-9a-f]{1,16}`, `[0-9]{1,10}`

var strictRecords = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`MODULE \S+ \S+ [0-9A-Fa-f]{9,40} \S.*`, `INFO \S.*`, `FILE (?P<file>` + dec + `) \S.*`, `INLINE_ORIGIN (?P<origin>` + dec + `) \S.*`,
	`FUNC (?:m )?(?P<func>` + hex16 + ` ` + hex8 + `) ` + hex8 + ` \S.*`, `(?P<line>` + hex16 + ` ` + hex8 + ` ` + dec + ` ` + dec + `)`,
	`INLINE (?P<inline>` + dec + ` ` + dec + ` ` + dec + ` ` + dec + `(?: ` + hex16 + ` ` + hex8 + `)+)`, `PUBLIC (?:m )?(?P<public>` + hex16 + `) ` + hex8 + ` \S.*`,
	`STACK WIN (?:4 ` + hex16 + ` (?:` + hex8 + ` ){7}1 \S.*|0 ` + hex16 + ` (?:` + hex8 + ` ){7}0 [01])`,
	`STACK CFI INIT (?P<init>` + hex16 + ` ` + hex8 + `) (?:.* )?\.cfa: .*`, `STACK CFI (?P<delta>` + hex16 + `) \S.*`,
}, "|") + `)$`)

// strict checks a symbol file by the rules of the strictest parser, rust-minidump's,
// and by the promises of Write.
func strict(sym string) error {
	kinds := strictRecords
	names := kinds.SubexpNames()
	var files, origins, ends, line, cfi uint64
	var start uint64
	var public uint64
	sym, ok := strings.CutSuffix(sym, "\n")
	if !ok {
		return errors.New("the last line has no end")
	}
	for n, text := range strings.Split(sym, "\n") {
		m := kinds.FindStringSubmatch(text)
		if m == nil || (n == 0) != strings.HasPrefix(text, "MODULE ") {
			return fmt.Errorf("line %d: %.80q is not a valid record", n+1, text)
		}
		for i, v := range m {
			if i == 0 || v == "" {
				continue
			}
			f := strings.Fields(v)
			num := func(i, base int) uint64 {
				v, err := strconv.ParseUint(f[i], base, 64)
				if err != nil {
					panic(err)
				}
				return v
			}
			var bad bool
			switch names[i] {
			case "file":
				bad = num(0, 10) != files
				files++
			case "origin":
				bad = num(0, 10) != origins
				origins++
			case "func":
				start = num(0, 16)
				bad = start < ends || num(1, 16) == 0
				ends, line = start+num(1, 16), start
			case "line":
				a, size := num(0, 16), num(1, 16)
				bad = a < line || size == 0 || a+size > ends || num(2, 10) == 0 || num(2, 10) > 1<<32-1 || num(3, 10) >= files
				line = a + size
			case "inline":
				bad = num(2, 10) >= files || num(3, 10) >= origins || len(f) > 511
				for k := 4; k < len(f); k += 2 {
					bad = bad || num(k, 16) < start || num(k+1, 16) == 0 || num(k, 16)+num(k+1, 16) > ends
				}
			case "public":
				bad = num(0, 16) <= public
				public = num(0, 16)
			case "init":
				bad = num(0, 16) < cfi || num(1, 16) == 0
				cfi = num(0, 16) + num(1, 16)
			case "delta":
				bad = num(0, 16) >= cfi
			}
			if bad {
				return fmt.Errorf("line %d: %.80q is out of order, out of range, or refers to nothing", n+1, text)
			}
		}
	}
	return nil
}

// checkRoundTrip checks that a symbol file, once read and written, is strict and
// does not change any more.
func checkRoundTrip(t *testing.T, in []byte) {
	t.Helper()
	b := functab.NewBuilder(functab.Module{}, functab.Limits{Bytes: 64 << 20})
	if err := ReadSym(bytes.NewReader(in), b); err != nil {
		return
	}
	tab, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var one strings.Builder
	if err := WriteSym(&one, tab); err != nil {
		if errors.Is(err, ErrSyntax) && one.Len() == 0 {
			return // the header cannot be written
		}
		t.Fatal(err)
	}
	if err := strict(one.String()); err != nil {
		t.Fatalf("%v\n%.3000s", err, one.String())
	}
	two := symOf(t, tables(t, one.String()), SymOptions{})
	if two != one.String() {
		a, b := strings.Split(one.String(), "\n"), strings.Split(two, "\n")
		for i := range a {
			if i >= len(b) || a[i] != b[i] {
				t.Fatalf("line %d is %q first, then %q; want the same text both times", i+1, a[i], slices.Concat(b, make([]string, len(a)))[i])
			}
		}
		t.Fatalf("the second file has %d lines more, want the same text both times", len(b)-len(a))
	}
}

// TestRealSymFiles reads the symbol files of other producers. The records of each
// must survive: functions, lines and inlined calls as sets.
func TestRealSymFiles(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob(filepath.Join(os.Getenv("SYMDEPOT_PEERS"), "sym", "*.sym"))
	if len(files) == 0 {
		symtest.Missing(t, "oracles", "SYMDEPOT_PEERS has no folder sym with symbol files of dump_syms")
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			in, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			checkRoundTrip(t, in)
			tab := tables(t, string(in))
			lost, all := 0, 0
			got := records(symOf(t, tab, SymOptions{}))
			for rec := range records(string(in)) {
				all++
				if !got[rec] {
					if lost++; lost < 4 {
						t.Logf("lost or changed: %s", rec)
					}
				}
			}
			c := tab.Counts()
			t.Logf("%d of %d records lost or changed; %d bytes of text, %d of tables: %+v", lost, all, len(in), c.Bytes, c)
			if lost*200 > all {
				t.Errorf("%d of %d records are lost or changed, want less than 0.5 %%", lost, all)
			}
		})
	}
}

// TestSymOfPDBs writes the symbol files of PDBs, which strict parsers accept and
// which do not change when they are read and written again.
func TestSymOfPDBs(t *testing.T) {
	t.Parallel()
	names, _ := filepath.Glob("../testdata/pdb/*.pdb")
	more, _ := filepath.Glob(filepath.Join(os.Getenv("SYMDEPOT_MATERIAL"), "public/npm/node-pty/win32-x64/*.pdb"))
	for _, name := range append(names, more...) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			p, in, err := pdb.OpenFile(name)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = in.Close() }()
			b := functab.NewBuilder(p.Module(filepath.Base(name)), functab.Limits{})
			if err := p.Functions(t.Context(), b, pdb.FunctionOptions{Workers: 1}); err != nil {
				t.Fatal(err)
			}
			tab, err := b.Table(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			one := symOf(t, tab, SymOptions{})
			if err := strict(one); err != nil {
				t.Fatal(err)
			}
			if two := symOf(t, tables(t, one), SymOptions{}); two != one {
				t.Errorf("the symbol file of %d bytes changes when it is read and written, want no change", len(one))
			}
		})
	}
}

// records returns the FUNC records and, with the path of their file, the line
// records of a symbol file. Lines of number 0 or size 0 are left out, and
// neighbours in one file and line are joined.
func records(sym string) map[string]bool {
	files := map[string]string{}
	out := map[string]bool{}
	var pos string
	var start, end uint64
	flush := func() {
		if pos != "" {
			out[fmt.Sprintf("%x+%x %s", start, end-start, pos)] = true
		}
		pos = ""
	}
	for text := range strings.Lines(sym) {
		text = strings.TrimRight(text, "\r\n")
		f := strings.Fields(text)
		switch {
		case len(f) == 0:
		case f[0] == "FILE":
			files[f[1]] = strings.Join(f[2:], " ")
		case f[0] == "FUNC":
			flush()
			if f[1] == "m" {
				f = f[1:]
			}
			out["FUNC "+f[1]+" "+f[2]] = true
		case len(f) == 4 && f[0][0] <= 'f' && f[0] != "PUBLIC" && f[0] != "INLINE":
			a, _ := strconv.ParseUint(f[0], 16, 64)
			n, _ := strconv.ParseUint(f[1], 16, 64)
			p := f[2] + " " + files[f[3]]
			if n == 0 {
				continue
			}
			if f[2] == "0" {
				flush()
				continue
			}
			if a != end || p != pos {
				flush()
				start, pos = a, p
			}
			end = a + n
		}
	}
	flush()
	return out
}

func FuzzReadSym(f *testing.F) {
	f.Add([]byte(symHead + symBody))
	f.Add([]byte(symHead + "FILE 0 a.c\nINLINE_ORIGIN 0 a\nFUNC 10 20 0 f\nINLINE 1 5 0 0 14 2 24 2\nINLINE 0 3 0 0 20 8\nINLINE 0 2 0 0 10 8\n10 8 3 0\n12 4 9 0\n"))
	f.Add([]byte("MODULE windows x86 4C70B8C9113B1B3A9AB4D2F1AA7B11C31f a.pdb\r\nFILE 0 a.c\r\nFUNC m 10 20 8 f\r\n10 8 3 0\r\nPUBLIC 10 4 g\r\nPUBLIC 40 0 h\r\nSTACK WIN 4 10 8 0 0 0 0 0 0 1 $eip 4 =\r\n"))
	f.Add([]byte(symHead + "STACK WIN 4 10c911340 2c 3 0 4 c 10 0 1 $eip 4 + ^ =\n")) // addresses have up to 16 digits, sizes 8
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 1<<16 {
			checkRoundTrip(t, in)
		}
	})
}

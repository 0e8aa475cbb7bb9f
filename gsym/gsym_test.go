package gsym

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/symdepot/symdepot/breakpad"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/pdb"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func table(t testing.TB, b *functab.Builder) *functab.Table {
	t.Helper()
	tab, err := b.Table(t.Context())
	must(t, err)
	return tab
}

func written(t testing.TB, tab *functab.Table) []byte {
	t.Helper()
	var out bytes.Buffer
	must(t, Write(&out, tab))
	return out.Bytes()
}

func open(t testing.TB, b []byte) *File {
	t.Helper()
	f, err := NewFile(bytes.NewReader(b), int64(len(b)), 0)
	must(t, err)
	return f
}

// held opens a file that is in memory.
func held(t testing.TB, b []byte) *File {
	t.Helper()
	f := open(t, b)
	f.loads.Store(wholeAfter - 1)
	if f.readWhole(); f.whole.Load() == nil {
		t.Fatal("the file is not in memory")
	}
	return f
}

// sym returns tables as text.
func sym(t testing.TB, tab *functab.Table) string {
	t.Helper()
	var out strings.Builder
	must(t, breakpad.WriteSym(&out, tab))
	return out.String()
}

// reread returns the tables that a GSYM file holds.
func reread(t testing.TB, b []byte, m functab.Module) *functab.Table {
	t.Helper()
	builder := functab.NewBuilder(m, functab.Limits{})
	must(t, open(t, b).Read(t.Context(), builder))
	return table(t, builder)
}

// progTables are those of main in testdata/elf/prog-sha1.
func progTables(t testing.TB) *functab.Table {
	b := functab.NewBuilder(functab.Module{OS: "Linux", Arch: "x86_64", Name: "prog-sha1", UUID: []byte{1, 2, 3}}, functab.Limits{})
	c := b.File("/usr/src/symdepot-src/prog.c")
	must(t, b.Add(functab.Function{
		Start: 0x113C, Size: 0x2F, Name: b.Name("main", ""),
		Rows:    []functab.Row{{Start: 0x113C, File: c, Line: 6}, {Start: 0x113F, File: c, Line: 4}, {Start: 0x1142, File: c, Line: 6}},
		Inlines: []functab.Inline{{Name: b.Name("add", ""), CallFile: c, CallLine: 6, Ranges: []functab.Range{{Start: 0x113F, Size: 3}}}},
	}))
	return table(t, b)
}

// TestBytes compares with what llvm-gsymutil 19 writes for the same function.
func TestBytes(t *testing.T) {
	t.Parallel()
	tab := progTables(t)
	out := written(t, tab)
	want, err := hex.DecodeString(strings.ReplaceAll("2f000000 01000000 01000000 07000000 7e020606131700 02000000 15000000 01002f01010000000000"+
		" 010303000600000001060000000000 00000000", " ", ""))
	must(t, err)
	if !bytes.Contains(out, want) {
		t.Errorf("the file\n%swant this function in it:\n%s", hex.Dump(out), hex.Dump(want))
	}
	head := fmt.Sprintf("%x", out[:48])
	if !strings.HasPrefix(head, "4d59534701000403"+"0000000000000000"+"01000000") || !strings.HasSuffix(head, "010203"+strings.Repeat("00", 17)) {
		t.Errorf("the header is %s, want version 1, 4-byte offsets, base 0 and the UUID 010203", head)
	}
	f := open(t, out)
	if !bytes.Equal(f.UUID(), []byte{1, 2, 3}) || f.Len() != 1 || f.Base() != 0 {
		t.Errorf("UUID %x, %d functions, base %#x; want 010203, 1, 0", f.UUID(), f.Len(), f.Base())
	}
	checkLookups(t, tab, f, 0x1130, 0x1180)
	checkLookups(t, tab, held(t, out), 0x1130, 0x1180)
}

// checkLookups compares the answers of a table and of the file made from it.
func checkLookups(t *testing.T, tab *functab.Table, f *File, from, to uint64) {
	t.Helper()
	var all []uint64
	for at := from; at < to; at++ {
		all = append(all, at)
	}
	each, _ := f.LookupEach(all, nil, make([]functab.Line, 0, 3))
	for i, at := range all {
		want, found := tab.Lookup(at)
		got, ok, err := f.Lookup(at)
		if err != nil || ok != found || found && !cmp.Equal(got, want) {
			t.Fatalf("Lookup(%#x): %+v, %v, error %v; want %+v, %v", at, got, ok, err, want, found)
		}
		for i := range want.Frames {
			want.Frames[i].Raw = ""
		}
		got, ok, err = f.LookupShown(at, make([]functab.Line, 1))
		if err != nil || ok != found || found && !cmp.Equal(got, want) {
			t.Fatalf("LookupShown(%#x): %+v, %v, error %v; want %+v, %v", at, got, ok, err, want, found)
		}
		if e := each[i]; e.Err != nil || e.OK != found || found && !cmp.Equal(e.Answer, want) {
			t.Fatalf("LookupEach of %#x: %+v; want %+v, %v", at, e, want, found)
		}
	}
}

// TestEverything writes and reads all that tables hold.
func TestEverything(t *testing.T) {
	t.Parallel()
	m := functab.Module{OS: "windows", Arch: "x86", Name: "a.pdb", Base: 0x400000}
	b := functab.NewBuilder(m, functab.Limits{})
	paths := []string{"/a.c", "a.c", `C:\src\a.c`, `C:/src/x\a.c`, `C:\a.c`, "/", "dir/", "git:host/x:a/b.c:12", `\\host\share\a.c`, "x/y.c", `mixed\x/y.c`}
	var rows []functab.Row
	for i, p := range paths {
		rows = append(rows, functab.Row{Start: 0x1010 + uint64(i), File: b.File(p), Line: uint32(1 + i*i*i*7919)})
	}
	rows = append(rows, functab.Row{Start: 0x1040}, functab.Row{Start: 0x1050, File: b.File("/a.c"), Line: 1}, functab.Row{Start: 0x9000, File: b.File("/a.c"), Line: 4e9})
	file := b.File("/a.c")
	name := func(s, raw string) functab.NameID { return b.Name(s, raw) }
	r := func(start uint64, size uint32) []functab.Range { return []functab.Range{{Start: start, Size: size}} }
	must(t, b.Add(functab.Function{
		Start: 0x1000, Size: 0xA000, Name: name("f(int)", "?f@@YAXH@Z"), Params: 12, Multiple: true, Rows: rows,
		Inlines: []functab.Inline{
			{Name: name("a", "?a"), CallFile: file, CallLine: 7, Ranges: []functab.Range{{Start: 0x1010, Size: 8}, {Start: 0x2000, Size: 0x100}}},
			{Depth: 1, Name: name("b", ""), Ranges: r(0x2010, 0x20)},
			{Depth: 2, Ranges: r(0x2018, 4), CallLine: 3, CallFile: file},
			{Depth: 1, Name: name("c", ""), CallFile: file, CallLine: 1, Ranges: r(0x2030, 0x20)},
			{Name: name("d", ""), CallFile: file, CallLine: 1 << 31, Ranges: r(0x3000, 1)},
		},
	}))
	must(t, b.Add(functab.Function{Start: 0xC000, Size: 4, Name: name("no lines", "")}))
	must(t, b.Symbol(functab.Symbol{Address: 0xD000, Name: name("public", "_public@4"), Params: 4}))
	must(t, b.Symbol(functab.Symbol{Address: 0xE000, Name: name("sized", ""), Size: 0x10}))
	tab := table(t, b)
	out := written(t, tab)
	f := open(t, out)
	if f.Base() != 0x400000 {
		t.Errorf("the base is %#x, want 0x400000", f.Base())
	}
	for _, from := range []uint64{0xff0, 0x1fe0, 0x2fe0, 0x8ff0, 0xafe0, 0xbff0, 0xcff0, 0xdff0} {
		checkLookups(t, tab, f, from, from+0x80)
		checkLookups(t, tab, held(t, out), from, from+0x80)
	}
	m.Base = 0
	again := reread(t, out, m)
	if d := cmp.Diff(sym(t, tab), sym(t, again)); d != "" {
		t.Errorf("the tables changed:\n%s", d)
	}
	if again.Module().Base != 0x400000 {
		t.Errorf("the base of the tables is %#x, want 0x400000", again.Module().Base)
	}
	raw := map[string]string{}
	for f := range again.Functions() {
		shown, r := again.NameOf(f.Name)
		raw[shown] = r
	}
	if raw["f(int)"] != "?f@@YAXH@Z" || raw["no lines"] != "" {
		t.Errorf("the mangled names are %q; want ?f@@YAXH@Z for f(int), and none for the function without lines", raw)
	}
}

func TestWideAddresses(t *testing.T) {
	t.Parallel()
	b := functab.NewBuilder(functab.Module{OS: "Linux", Arch: "x", Name: "k"}, functab.Limits{})
	must(t, b.Add(functab.Function{Start: 8, Size: 8, Name: b.Name("low", "")}))
	must(t, b.Add(functab.Function{Start: 1 << 40, Size: 8, Name: b.Name("high", "")}))
	tab := table(t, b)
	f := open(t, written(t, tab))
	checkLookups(t, tab, f, 0, 32)
	checkLookups(t, tab, f, 1<<40-9, 1<<40+20)
	f = held(t, written(t, tab))
	checkLookups(t, tab, f, 0, 32)
	checkLookups(t, tab, f, 1<<40-9, 1<<40+20)
	empty := table(t, functab.NewBuilder(functab.Module{OS: "Linux", Arch: "x", Name: "k"}, functab.Limits{}))
	checkLookups(t, empty, open(t, written(t, empty)), 0, 3)
	checkLookups(t, empty, held(t, written(t, empty)), 0, 3)
}

// TestCache checks that the memory for decoded functions stays within its limit.
func TestCache(t *testing.T) {
	t.Parallel()
	b := functab.NewBuilder(functab.Module{}, functab.Limits{})
	file := b.File("/a.c")
	const n = 500
	for i := range uint64(n) {
		start := 0x1000 * (i + 1)
		fn := functab.Function{Start: start, Size: 0x1000, Name: b.Name(fmt.Sprint("f", i), "")}
		for k := range i {
			fn.Rows = append(fn.Rows, functab.Row{Start: start + k*7, File: file, Line: uint32(k*k + 1)})
		}
		must(t, b.Add(fn))
	}
	tab := table(t, b)
	out := written(t, tab)
	f, err := NewFile(bytes.NewReader(out), int64(len(out)), 20_000)
	must(t, err)
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for range 3000 {
				at := random.Uint64N(0x1000 * (n + 2))
				want, found := tab.Lookup(at)
				if got, ok, err := f.Lookup(at); err != nil || ok != found || found && !cmp.Equal(got, want) {
					t.Errorf("Lookup(%#x): %+v, %v, error %v; want %+v, %v", at, got, ok, err, want, found)
					return
				}
			}
		})
	}
	wg.Wait()
	sum := int64(0)
	for e := f.byUse.Front(); e != nil; e = e.Next() {
		sum += e.Value.(*function).cost
	}
	if sum != f.used || f.used > 20_000 || len(f.cached) != f.byUse.Len() || f.byUse.Len() < 2 {
		t.Errorf("the cache has %d functions of %d bytes, counted %d; want at most 20000 bytes and some functions", f.byUse.Len(), sum, f.used)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	good := written(t, progTables(t))
	edit := func(at int, v ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], v)
		return b
	}
	for name, b := range map[string][]byte{
		"empty": nil, "short": good[:40], "magic": edit(0, 1), "version": edit(4, 2), "offset size": edit(6, 3), "UUID": edit(7, 21),
		"too many functions": edit(16, 0xff, 0xff, 0xff, 0xff), "strings": edit(24, 0xff, 0xff, 0xff), "trailer": edit(len(good)-24, 9),
	} {
		if _, err := NewFile(bytes.NewReader(b), int64(len(b)), 0); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: NewFile: error %v, want ErrFormat", name, err)
		}
	}
	boom := errors.New("boom")
	if _, err := NewFile(struct{ io.ReaderAt }{failing{boom}}, 1000, 0); !errors.Is(err, boom) {
		t.Errorf("NewFile: error %v, want that of the reader", err)
	}
	if err := Write(iotest.TruncateWriter(nil, 0), progTables(t)); err != nil {
		t.Errorf("Write to a writer that discards: %v", err)
	}
	r, w := io.Pipe()
	must(t, r.CloseWithError(boom))
	if err := Write(w, progTables(t)); !errors.Is(err, boom) {
		t.Errorf("Write: error %v, want that of the writer", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := open(t, good).Read(ctx, functab.NewBuilder(functab.Module{}, functab.Limits{})); !errors.Is(err, context.Canceled) {
		t.Errorf("Read: error %v, want context.Canceled", err)
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

// gsymutil runs LLVM's tool.
func gsymutil(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	tool := symtest.Tool(t, "llvm-gsymutil-19")
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("llvm-gsymutil %q: %v: %.2000s", args, err, stderr.String())
	}
	return string(out)
}

// llvmText prints functions as llvm-gsymutil does.
func llvmText(t *testing.T, f *File) string {
	var w strings.Builder
	path := func(n uint32) string {
		p, err := f.path(n)
		must(t, err)
		if p == "" && n != 0 {
			return unknownFile
		}
		return strings.ReplaceAll(p, `\`, "/")
	}
	for i := range f.n {
		fn, err := f.load(i)
		must(t, err)
		end := fn.start + uint64(fn.size)
		fmt.Fprintf(&w, "FunctionInfo @ 0x%08x: [0x%016x - 0x%016x) %q\n", le.Uint32(f.infos[4*i:]), fn.start+f.base, end+f.base, fn.name)
		if len(fn.checks) > 0 {
			w.WriteString("LineTable:\n")
		}
		for r := range fn.rows() {
			fmt.Fprintf(&w, "  0x%016x %s:%d\n", fn.start+r.at+f.base, path(r.file), r.line)
		}
		if len(fn.calls) > 0 {
			fmt.Fprintf(&w, "InlineInfo:\n[0x%016x - 0x%016x) %s\n", fn.start+f.base, end+f.base, fn.name)
		}
		for _, c := range fn.calls {
			w.WriteString(strings.Repeat("  ", c.depth+1))
			for k, r := range fn.ranges[c.first:c.end] {
				if k > 0 {
					w.WriteByte(' ')
				}
				fmt.Fprintf(&w, "[0x%016x - 0x%016x)", r.Start+f.base, r.Start+uint64(r.Size)+f.base)
			}
			n, err := f.name(c.name)
			must(t, err)
			fmt.Fprintf(&w, " %s", n)
			if c.file != 0 {
				fmt.Fprintf(&w, " called from %s:%d", path(c.file), c.line)
			}
			w.WriteByte('\n')
		}
	}
	return w.String()
}

// checkLLVM checks that LLVM decodes the whole file as we do, and finds the same.
func checkLLVM(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	f := open(t, b)
	text := gsymutil(t, "", name)
	_, dump, _ := strings.Cut(text, "\nFunctionInfo @")
	want := strings.Split(strings.ReplaceAll("FunctionInfo @"+dump, `\`, "/"), "\n")
	for i, got := range strings.Split(strings.ReplaceAll(llvmText(t, f), `\`, "/"), "\n") {
		if i >= len(want) || got != want[i] {
			t.Fatalf("line %d: we decode\n%s\nLLVM\n%s", i+1, got, append(want, make([]string, i+1)...)[i])
		}
	}
	var ask, answers strings.Builder
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		i := random.IntN(f.n)
		fn, err := f.load(i)
		must(t, err)
		if fn.size == 0 {
			continue
		}
		at := fn.start + random.Uint64N(uint64(fn.size))
		a, ok, err := f.Lookup(at)
		if must(t, err); !ok || a.FunctionStart != fn.start {
			continue
		}
		fmt.Fprintf(&ask, "0x%x %s\n", at+f.base, name)
		fmt.Fprintf(&answers, "0x%016x: ", at+f.base)
		for k, l := range a.Frames {
			if k > 0 {
				answers.WriteString(strings.Repeat(" ", 20))
			}
			answers.WriteString(l.Function)
			if l.File != "" {
				fmt.Fprintf(&answers, " @ %s:%d", strings.ReplaceAll(l.File, `\`, "/"), l.Line)
			}
			if k < len(a.Frames)-1 {
				answers.WriteString(" [inlined]")
			}
			answers.WriteByte('\n')
		}
	}
	lookups := gsymutil(t, ask.String(), "--addresses-from-stdin")
	lookups = regexp.MustCompile(`(?m) \+ \d+( @ |$| \[inlined\])`).ReplaceAllString(lookups, "$1")
	lookups = regexp.MustCompile(`(?m)( @ [^\n]*:0| @ `+unknownFile+`:\d+)( \[inlined\])?$`).ReplaceAllString(lookups, "$2")
	got := strings.Split(strings.ReplaceAll(lookups, `\`, "/"), "\n")
	for i, want := range strings.Split(answers.String(), "\n") {
		for i < len(got) && got[i] == "" && want != "" {
			got = append(got[:i], got[i+1:]...)
		}
		if i >= len(got) || strings.TrimSpace(got[i]) != strings.TrimSpace(want) {
			t.Fatalf("answer %d: LLVM finds\n%s\nwant what we find\n%s", i+1, strings.Join(got[max(0, min(i-3, len(got))):min(len(got), i+3)], "\n"), want)
		}
	}
}

// TestLLVMReadsOurs writes tables of other producers' symbol files, and has
// llvm-gsymutil decode all of them and look addresses up.
func TestLLVMReadsOurs(t *testing.T) {
	t.Parallel()
	gsymutil(t, "", "--version")
	syms, _ := filepath.Glob(filepath.Join(os.Getenv("SYMDEPOT_PEERS"), "sym", "*.sym"))
	if len(syms) == 0 {
		symtest.Missing(t, "oracles", "SYMDEPOT_PEERS has no folder sym with symbol files of dump_syms")
	}
	dir := t.TempDir()
	prog := filepath.Join(dir, "prog.gsym")
	must(t, os.WriteFile(prog, written(t, progTables(t)), 0o666))
	checkLLVM(t, prog)
	for _, name := range syms {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			in, err := os.Open(name)
			must(t, err)
			defer func() { _ = in.Close() }()
			b := functab.NewBuilder(functab.Module{}, functab.Limits{})
			must(t, breakpad.ReadSym(in, b))
			tab := table(t, b)
			out := written(t, tab)
			gsym := filepath.Join(dir, filepath.Base(name)+".gsym")
			must(t, os.WriteFile(gsym, out, 0o666))
			checkLLVM(t, gsym)
			f := held(t, out)
			for fn := range tab.Functions() {
				checkLookups(t, tab, f, fn.Start, fn.Start+min(uint64(fn.Size), 40))
			}
			f = open(t, out)
			for s := range tab.Symbols() {
				checkLookups(t, tab, f, s.Address-1, s.Address+2)
			}
			c := tab.Counts()
			t.Logf("%d functions, %d rows, %d symbols: %d bytes", c.Functions, c.Rows, c.Symbols, len(out))
		})
	}
}

// TestPDB writes the tables of PDBs, has llvm-gsymutil decode and search all of
// them, and compares the answers of the tables with those of the files.
func TestPDB(t *testing.T) {
	t.Parallel()
	gsymutil(t, "", "--version")
	names, err := filepath.Glob("../testdata/pdb/*.pdb")
	must(t, err)
	more, err := filepath.Glob(filepath.Join(os.Getenv("SYMDEPOT_MATERIAL"), "public/npm/node-pty/win32-x64/*.pdb"))
	must(t, err)
	dir := t.TempDir()
	for _, name := range append(names, more...) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			in, err := os.Open(name)
			must(t, err)
			defer func() { _ = in.Close() }()
			info, err := in.Stat()
			must(t, err)
			p, err := pdb.Open(in, info.Size())
			must(t, err)
			b := functab.NewBuilder(p.Module(filepath.Base(name)), functab.Limits{})
			must(t, p.Functions(t.Context(), b, pdb.FunctionOptions{Workers: 1}))
			tab := table(t, b)
			out := written(t, tab)
			gsym := filepath.Join(dir, filepath.Base(name)+".gsym")
			must(t, os.WriteFile(gsym, out, 0o666))
			checkLLVM(t, gsym)
			read, memory, n := open(t, out), held(t, out), 0
			for fn := range tab.Functions() {
				f := memory
				if n++; n%4 == 0 {
					f = read
				}
				checkLookups(t, tab, f, fn.Start, fn.Start+min(uint64(fn.Size), 20))
			}
			c := tab.Counts()
			t.Logf("%d functions, %d rows, %d inlined calls, %d symbols: %d bytes, tables %d, PDB %d",
				c.Functions, c.Rows, c.Inlines, c.Symbols, len(out), c.Bytes, info.Size())
		})
	}
}

// TestWeReadLLVMs reads what llvm-gsymutil makes of programs, and has it read what
// we write of that.
func TestWeReadLLVMs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gsymutil(t, "", "--version")
	programs := map[string][]string{
		"elf": {"../testdata/elf/prog-sha1"}, "macho": {"../testdata/macho/app-arm64", "--arch=arm64"},
		"go":   {filepath.Join(symtest.Material(t), "public/go/pprof/exe_linux_64")},
		"dsym": {filepath.Join(symtest.Material(t), "public/npm/nativescript/TNSWidgets-ios-arm64/TNSWidgets.framework.dSYM/Contents/Resources/DWARF/TNSWidgets"), "--arch=arm64"},
	}
	if cc := symtest.Judge(t, "g++"); cc != "" {
		src, exe := filepath.Join(dir, "a.cc"), filepath.Join(dir, "a.out")
		must(t, os.WriteFile(src, []byte(cppSource), 0o666))
		if out, err := exec.CommandContext(t.Context(), cc, "-O2", "-g", "-o", exe, src).CombinedOutput(); err != nil {
			t.Fatalf("g++: %v: %s", err, out)
		}
		programs["gcc"] = []string{exe}
	}
	for name, args := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat(args[0]); err != nil {
				t.Skipf("no test material: %v", err)
			}
			theirs := filepath.Join(dir, name+".gsym")
			gsymutil(t, "", append([]string{"--quiet", "-o", theirs, "--convert"}, args...)...)
			checkLLVM(t, theirs)
			b, err := os.ReadFile(theirs)
			must(t, err)
			tab := reread(t, b, functab.Module{OS: "Linux", Arch: "x86_64", Name: name})
			ours := filepath.Join(dir, name+"-ours.gsym")
			out := written(t, tab)
			must(t, os.WriteFile(ours, out, 0o666))
			checkLLVM(t, ours)
			c := tab.Counts()
			t.Logf("%d functions, %d rows, %d inlined calls: theirs %d bytes, ours %d", c.Functions, c.Rows, c.Inlines, len(b), len(out))
		})
	}
}

const cppSource = `#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>
struct P { int a; std::string s; };
static std::map<std::string, std::vector<P>> m;
int main(int c, char **v) {
  for (int i = 0; i < c; i++) m[v[i]].push_back({i, v[i]});
  for (auto &x : m) std::sort(x.second.begin(), x.second.end(), [](const P &a, const P &b) { return a.s < b.s; });
  for (auto &x : m) for (auto &p : x.second) std::puts(p.s.c_str());
}
`

// FuzzWrite writes and reads tables of any content.
func FuzzWrite(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz0123456789"))
	f.Add([]byte("100007010001a0")) // a function with lines, and one without
	f.Add(bytes.Repeat([]byte{1, 20, 40, 0, 3, 4, 1, 9, 7, 2, 2, 1, 0, 1, 3, 3, 9, 9, 1, 30}, 20))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2000 {
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
		m := functab.Module{OS: "windows", Arch: "x86", Name: "m"}
		b := functab.NewBuilder(m, functab.Limits{})
		for len(data) > 0 {
			if next()%8 == 0 {
				must(t, b.Symbol(functab.Symbol{Address: uint64(next()), Name: b.Name(string(rune('A'+next()%8)), "raw"), Size: uint32(next() % 4), Params: uint32(next())}))
				continue
			}
			fn := functab.Function{Start: uint64(next()), Size: uint32(1 + next()%64), Name: b.Name(string(rune('a'+next()%8)), ""), Multiple: next()%2 == 0}
			for range next() % 9 {
				fn.Rows = append(fn.Rows, functab.Row{Start: fn.Start + uint64(next()%64), File: b.File([]string{"", "/a/b", "c", `d\e`}[next()%4]), Line: uint32(next() * next() * 40)})
			}
			for range next() % 6 {
				in := functab.Inline{Depth: next() % 4, Name: b.Name(string(rune('i'+next()%4)), "rawin"), CallFile: b.File("/a"), CallLine: uint32(next())}
				for range next() % 4 {
					in.Ranges = append(in.Ranges, functab.Range{Start: fn.Start + uint64(next()%64), Size: uint32(next() % 32)})
				}
				fn.Inlines = append(fn.Inlines, in)
			}
			must(t, b.Add(fn))
		}
		tab := table(t, b)
		out := written(t, tab)
		checkLookups(t, tab, open(t, out), 0, 330)
		checkLookups(t, tab, held(t, out), 0, 330)
		if d := cmp.Diff(sym(t, tab), sym(t, reread(t, out, m))); d != "" {
			t.Fatalf("the tables changed:\n%s", d)
		}
	})
}

// FuzzRead reads any bytes.
func FuzzRead(f *testing.F) {
	f.Add(written(f, progTables(f)))
	f.Add(written(f, progTables(f))[:200])
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := NewFile(bytes.NewReader(b), int64(len(b)), 1<<16)
		if err != nil {
			return
		}
		for i := range min(file.n, 50) {
			for _, d := range []uint64{0, 1, 100} {
				if a, ok, err := file.Lookup(file.start(i) + d); ok && (err != nil || len(a.Frames) == 0) {
					t.Fatalf("Lookup: %+v, %v; want frames", a, err)
				}
			}
		}
		_ = file.Read(t.Context(), functab.NewBuilder(functab.Module{}, functab.Limits{Bytes: 1 << 20}))
	})
}

// TestFunctions lists functions and symbols by their names, page by page.
func TestFunctions(t *testing.T) {
	t.Parallel()
	b := functab.NewBuilder(functab.Module{OS: "Linux", Arch: "x", Name: "k"}, functab.Limits{})
	file := b.File("/src/a.c")
	must(t, b.Add(functab.Function{Start: 0x10, Size: 8, Name: b.Name("first", ""), Rows: []functab.Row{{Start: 0x10, File: file, Line: 7}, {Start: 0x14, File: file, Line: 9}}}))
	must(t, b.Add(functab.Function{Start: 0x20, Size: 8, Name: b.Name("other", "")}))
	must(t, b.Symbol(functab.Symbol{Address: 0x30, Name: b.Name("first_symbol", "")}))
	f := open(t, written(t, table(t, b)))
	all := func(from int, text string) (list []Function) {
		for fn, err := range f.Functions(t.Context(), from, func(name string) bool { return strings.Contains(name, text) }) {
			must(t, err)
			list = append(list, fn)
		}
		return list
	}
	want := []Function{{Entry: 0, Start: 0x10, Size: 8, Name: "first", File: "/src/a.c", Line: 7}, {Entry: 2, Start: 0x30, Name: "first_symbol"}}
	if d := cmp.Diff(want, all(0, "first")); d != "" {
		t.Errorf("the functions with first in their names:\n%s", d)
	}
	if d := cmp.Diff(want[1:], all(1, "first")); d != "" {
		t.Errorf("those from the entry 1 on:\n%s", d)
	}
	if got := all(0, ""); len(got) != 3 || len(all(3, "")) != 0 || len(all(0, "none")) != 0 {
		t.Errorf("all functions are %+v, want 3, and none behind them or of another name", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range f.Functions(ctx, 0, func(string) bool { return true }) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error of an ended context is %v, want %v", err, context.Canceled)
		}
	}
}

// TestWholeFiles: a file in memory answers as one that is read, and large ones share a limit.
func TestWholeFiles(t *testing.T) {
	b := functab.NewBuilder(functab.Module{OS: "Linux", Arch: "x86_64", Name: "whole"}, functab.Limits{})
	const n = 3 * wholeAfter
	for i := range uint64(n) {
		at := 0x1000 + i*0x40
		f := functab.Function{Start: at, Size: 0x20, Name: b.Name(fmt.Sprint("ünique", i), "raw")}
		f.Rows = []functab.Row{{Start: at, File: b.File("/a/b.c"), Line: uint32(i + 1)}}
		if err := b.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	table, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Write(&out, table); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		size, before int64 // of the file, and of other large ones in memory
		whole        bool
	}{{int64(out.Len()), sharedWhole, true}, {wholeSize + 1, 0, true}, {wholeSize + 1, sharedWhole - 2*wholeSize, false}, {mostWhole + 1, 0, false}} {
		before := wholeBytes.Add(c.before)
		f, err := NewFile(padded{out.Bytes(), c.size}, c.size, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer runtime.KeepAlive(f) // it counts until it is freed
		for range 3 {
			for i := range uint64(n) {
				rva := 0x1000 + i*0x40 + 5
				got, ok, err := f.LookupShown(rva, nil)
				if err != nil || !ok || got.Frames[0].Function != fmt.Sprint("ünique", i) || got.Frames[0].Line != uint32(i+1) {
					t.Fatalf("size %d, %#x: %+v, %v, %v", c.size, rva, got, ok, err)
				}
			}
		}
		if is := f.whole.Load() != nil; is != c.whole {
			t.Errorf("a file of %d bytes, %d of others: in memory %v, want %v", c.size, c.before, is, c.whole)
		}
		if more := wholeBytes.Load() - before; more != 0 && c.size <= wholeSize || more < 0 || more > c.size {
			t.Errorf("a file of %d bytes counts as %d", c.size, more)
		}
		wholeBytes.Add(-c.before)
	}
}

// padded has zeros behind some bytes, up to a size.
type padded struct {
	b    []byte
	size int64
}

func (p padded) ReadAt(to []byte, off int64) (n int, err error) {
	if off < int64(len(p.b)) {
		n = copy(to, p.b[off:])
	}
	m := int(min(int64(len(to)), max(0, p.size-off)))
	clear(to[n:max(n, m)])
	if m < len(to) {
		err = io.EOF
	}
	return m, err
}

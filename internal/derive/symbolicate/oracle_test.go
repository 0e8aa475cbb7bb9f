package symbolicate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// The comparison with dump_syms has two halves. The whole half runs dump_syms and
// llvm-gsymutil on all files that can be had: it is part of `make torture`. The
// quick half compares with the stored outline of dump_syms' output for the files of
// testdata and of the material. SYMDEPOT_STORE_ORACLE=FILE makes the whole half
// write the outlines.

// symFunction is a FUNC of a .sym file: what it says of each byte.
type symFunction struct {
	start, size uint64
	name        string
	multiple    bool
	rows        []symRow
	calls       []symCall
}

type symRow struct {
	start, size uint64
	file        string
	line        string
}

type symCall struct {
	depth      int
	start, end uint64
	name       string
	file, line string // of the call
}

// normalName rewrites what only the spelling makes different, as
// docs/symbols-compared.md lists it.
var normalName = strings.NewReplacer("<NoType>", "...", "`anonymous-namespace'", "(anonymous namespace)", "`anonymous namespace'", "(anonymous namespace)", "  ", " ")

// readOutline reads the functions of a .sym file by itself, so that a fault of our
// reader hides nothing.
func readOutline(r io.Reader) (functions map[uint64]*symFunction, stacks int, err error) {
	functions = map[uint64]*symFunction{}
	files, origins := map[string]string{}, map[string]string{}
	hex := func(s string) uint64 {
		v, e := strconv.ParseUint(s, 16, 64)
		if e != nil && err == nil {
			err = e
		}
		return v
	}
	var f *symFunction
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		line := scan.Text()
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "MODULE", "INFO", "PUBLIC":
			f = nil
		case "STACK":
			stacks++
		case "FILE":
			n, name, _ := strings.Cut(rest, " ")
			files[n] = strings.TrimPrefix(path.Clean(strings.ReplaceAll(name, `\`, "/")), "/")
		case "INLINE_ORIGIN":
			n, name, _ := strings.Cut(rest, " ")
			origins[n] = normalName.Replace(name)
		case "FUNC":
			rest, multiple := strings.CutPrefix(rest, "m ")
			w := strings.SplitN(rest, " ", 4)
			if len(w) < 4 {
				w = append(w, "", "", "")
			}
			f = &symFunction{start: hex(w[0]), size: hex(w[1]), name: strings.TrimSpace(normalName.Replace(w[3])), multiple: multiple}
			functions[f.start] = f
		case "INLINE":
			w := strings.Fields(rest)
			depth, _ := strconv.Atoi(w[0])
			if w[1] == "0" { // a call without a line has no position
				files[w[2]+" of line 0"] = "no position"
				w[2] += " of line 0"
			}
			for i := 4; i+1 < len(w); i += 2 {
				at := hex(w[i])
				f.calls = append(f.calls, symCall{depth, at, at + hex(w[i+1]), origins[w[3]], files[w[2]], w[1]})
			}
		default:
			if w := strings.Fields(line); f != nil && len(w) == 4 {
				f.rows = append(f.rows, symRow{hex(w[0]), hex(w[1]), files[w[3]], w[2]})
			}
		}
	}
	for _, f := range functions {
		slices.SortFunc(f.calls, func(a, b symCall) int {
			if a.depth != b.depth {
				return a.depth - b.depth
			}
			return int(int64(a.start) - int64(b.start))
		})
	}
	return functions, stacks, errors.Join(err, scan.Err())
}

// rowStart returns the start of the row that covers an address, or 0.
func (f *symFunction) rowStart(a uint64) uint64 {
	i, ok := slices.BinarySearchFunc(f.rows, a, func(r symRow, a uint64) int { return int(int64(r.start) - int64(a)) })
	if !ok {
		i--
	}
	if i < 0 {
		return 0
	}
	// Rows of one line that touch are one.
	for i > 0 && f.rows[i-1].start+f.rows[i-1].size == f.rows[i].start && f.rows[i-1].line == f.rows[i].line && f.rows[i-1].file == f.rows[i].file {
		i--
	}
	return f.rows[i].start
}

// at returns the line and the inlined calls of an address.
func (f *symFunction) at(a uint64) (line, calls string) {
	i, ok := slices.BinarySearchFunc(f.rows, a, func(r symRow, a uint64) int { return int(int64(r.start) - int64(a)) })
	if !ok {
		i--
	}
	if i >= 0 && a < f.rows[i].start+f.rows[i].size && f.rows[i].line != "0" {
		line = f.rows[i].file + ":" + f.rows[i].line
	}
	for depth := 0; ; depth++ {
		type key struct {
			depth int
			start uint64
		}
		i, ok := slices.BinarySearchFunc(f.calls, key{depth, a}, func(c symCall, k key) int {
			if c.depth != k.depth {
				return c.depth - k.depth
			}
			return int(int64(c.start) - int64(k.start))
		})
		if !ok {
			i--
		}
		if i < 0 || f.calls[i].depth != depth || a >= f.calls[i].end {
			return line, calls
		}
		calls += f.calls[i].name + " from " + f.calls[i].file + ":" + f.calls[i].line + "\n"
	}
}

// edges returns where what a function says may change.
func (f *symFunction) edges() []uint64 {
	out := []uint64{f.start}
	for _, r := range f.rows {
		out = append(out, r.start, r.start+r.size)
	}
	for _, c := range f.calls {
		out = append(out, c.start, c.end)
	}
	return out
}

// outline is a function in numbers: hashes of its name, lines and inlined calls.
func (f *symFunction) outline() string {
	edges := f.edges()
	slices.Sort(edges)
	lines, calls := fnv.New32a(), fnv.New32a()
	before, beforeCalls := "", ""
	for _, a := range slices.Compact(edges) {
		if a >= f.start+f.size {
			break
		}
		line, call := f.at(a)
		if line != before {
			fmt.Fprintf(lines, "%x %s\n", a, line)
			before = line
		}
		if call != beforeCalls {
			fmt.Fprintf(calls, "%x %s\n", a, call)
			beforeCalls = call
		}
	}
	name := fnv.New32a()
	_, _ = io.WriteString(name, f.name)
	m := 0
	if f.multiple {
		m = 1
	}
	return fmt.Sprintf("%x %x %d %08x %08x %08x", f.start, f.size, m, name.Sum32(), lines.Sum32(), calls.Sum32())
}

// oracleCounts is what a comparison found.
type oracleCounts struct {
	files                                 int
	functions, lost, sizes, more          int
	names, namesWrong                     int
	bytes, linesWrong, linesMore, linesOn uint64
	calls, callsWrong, callsLost          uint64
	stacks, stacksTheirs                  int
	multiple, verified, swift             int
}

func (c *oracleCounts) add(o oracleCounts) {
	c.files++
	c.functions += o.functions
	c.lost += o.lost
	c.sizes += o.sizes
	c.more += o.more
	c.names += o.names
	c.namesWrong += o.namesWrong
	c.bytes += o.bytes
	c.linesWrong += o.linesWrong
	c.linesMore += o.linesMore
	c.linesOn += o.linesOn
	c.calls += o.calls
	c.callsWrong += o.callsWrong
	c.callsLost += o.callsLost
	c.stacks += o.stacks
	c.stacksTheirs += o.stacksTheirs
	c.multiple += o.multiple
	c.swift += o.swift
	c.verified += o.verified
}

func (c oracleCounts) String() string {
	return fmt.Sprintf("%d FUNC: %d lost, %d of another size, %d more; %d names, %d differ; %d bytes: lines of %d differ, of %d only ours, in %d a row of theirs runs on; %d bytes in inlined calls: %d differ, %d lost; %d STACK, theirs %d; %d folded, %d names of Swift",
		c.functions, c.lost, c.sizes, c.more, c.names, c.namesWrong, c.bytes, c.linesWrong, c.linesMore, c.linesOn, c.calls, c.callsWrong, c.callsLost, c.stacks, c.stacksTheirs, c.multiple, c.swift)
}

// compareSym compares two .sym files, byte by byte.
func compareSym(t *testing.T, ours, theirs map[uint64]*symFunction, show int) (c oracleCounts) {
	say := func(n *int, format string, args ...any) {
		if *n++; *n <= show {
			t.Logf(format, args...)
		}
	}
	var lost, sizes, names, lines, calls, more int
	for _, at := range sortedKeys(theirs) {
		want := theirs[at]
		c.functions++
		got := ours[at]
		switch {
		case got == nil:
			c.lost++
			say(&lost, "lost %x %x %s", at, want.size, want.name)
			continue
		case got.size != want.size:
			c.sizes++
			say(&sizes, "size of %x: %x, theirs %x %s", at, got.size, want.size, want.name)
			continue
		case got.multiple || want.multiple:
			c.multiple++ // any of the functions is right
			continue
		}
		c.names++
		if swift(got.name) {
			c.swift++
		} else if got.name != want.name {
			c.namesWrong++
			say(&names, "name of %x: %s\n  theirs %s", at, got.name, want.name)
		}
		edges := append(got.edges(), want.edges()...)
		edges = append(edges, got.start+got.size)
		slices.Sort(edges)
		edges = slices.Compact(edges)
		for i, a := range edges {
			if i+1 == len(edges) || a >= got.start+got.size {
				break
			}
			n := edges[i+1] - a
			c.bytes += n
			line, call := got.at(a)
			wantLine, wantCall := want.at(a)
			if strings.Contains(call, "$s") || strings.Contains(call, "$S") {
				call, wantCall = withoutNames(call), withoutNames(wantCall)
			}
			if line != wantLine {
				if wantLine == "" {
					c.linesMore += n
				} else if got.rowStart(a) > want.rowStart(a) {
					c.linesOn += n // their row of before runs on
				} else {
					c.linesWrong += n
					say(&lines, "line of %x, %d bytes in %s: %s\n  theirs %s", a, n, got.name, line, wantLine)
				}
			}
			if wantCall != "" {
				c.calls += n
				if call == "" {
					c.callsLost += n
				} else if call != wantCall {
					c.callsWrong += n
				}
				if call != wantCall {
					say(&calls, "calls at %x, %d bytes in %s:\n%stheirs\n%s", a, n, got.name, call, wantCall)
				}
			}
		}
	}
	for _, at := range sortedKeys(ours) {
		if theirs[at] == nil {
			c.more++
			say(&more, "more %x %x %s", at, ours[at].size, ours[at].name)
		}
	}
	return c
}

// swift reports whether a name is a mangled one of Swift, which we do not demangle.
func swift(name string) bool {
	name = strings.TrimPrefix(name, "_")
	return strings.HasPrefix(name, "$s") || strings.HasPrefix(name, "$S") || strings.HasPrefix(name, "_T0")
}

// withoutNames leaves only the positions of inlined calls.
func withoutNames(calls string) string {
	var out strings.Builder
	for _, line := range strings.Split(calls, "\n") {
		_, at, _ := strings.Cut(line, " from ")
		out.WriteString(at + "\n")
	}
	return out.String()
}

func sortedKeys(m map[uint64]*symFunction) []uint64 {
	out := make([]uint64, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// oracleFile is a file to compare, or a slice of a fat file.
type oracleFile struct {
	path, format, arch string
	fat                bool
}

// oracleFiles returns the files with functions below some folders. Of equal files
// one is returned.
func oracleFiles(t *testing.T, roots ...string) []oracleFile {
	t.Helper()
	var out []oracleFile
	seen := map[[32]byte]bool{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			if sum := sha256.Sum256(b); seen[sum] {
				return nil
			} else {
				seen[sum] = true
			}
			objects, err := objfile.Identify(bytes.NewReader(b), int64(len(b)), p, objfile.Options{})
			if err != nil {
				return nil //nolint:nilerr // no symbol file
			}
			for _, o := range objects {
				f := oracleFile{path: p, arch: o.Arch, fat: len(objects) > 1}
				switch o.Kind {
				case symfile.PDB:
					f.format = "PDB"
				case symfile.ELF:
					f.format = "ELF"
				case symfile.MachO:
					f.format = "Mach-O"
				default:
					continue
				}
				out = append(out, f)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// written returns our symbol file of a file.
func written(ctx context.Context, f oracleFile, format Format) ([]byte, error) {
	files, err := OpenFiles(ctx, []string{f.path})
	if err != nil {
		return nil, err
	}
	defer func() { _ = files.Close() }()
	for _, m := range files.Modules {
		if f.fat && m[0].Arch != f.arch {
			continue
		}
		table, err := ReadParts(ctx, "", m)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		err = Write(ctx, &b, format, table)
		return b.Bytes(), err
	}
	return nil, fmt.Errorf("%s: no module of %s", f.path, f.arch)
}

// key names a file in the stored outlines.
func (f oracleFile) key(t *testing.T) string {
	b, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s\t%x\t%s\t%s", filepath.Base(f.path), sha256.Sum256(b), f.format, f.arch)
}

// agreed counts the functions of dump_syms that we have too, and those whose names,
// lines and inlined calls are equal.
type agreed struct{ functions, names, lines, calls int }

// agreement compares functions with outlines.
func agreement(ours map[uint64]*symFunction, outlines []string) (a agreed) {
	for _, line := range outlines {
		want := strings.Fields(line)
		at, err := strconv.ParseUint(want[0], 16, 64)
		if err != nil || ours[at] == nil {
			continue
		}
		got := strings.Fields(ours[at].outline())
		if got[1] != want[1] {
			continue
		}
		a.functions++
		folded := got[2] == "1" || want[2] == "1" // any of the functions is right
		for i, n := range []*int{&a.names, &a.lines, &a.calls} {
			if folded || got[3+i] == want[3+i] {
				*n++
			}
		}
	}
	return a
}

// storedOracle holds what dump_syms 2.3.9 says of the files of testdata and of the
// material: a line for each file with its name, SHA-256, format and processor and
// the numbers of functions, names, lines and inlined calls in which we agreed when
// it was stored, then a line for each function, see outline.
const storedOracle = "testdata/dump_syms-2.3.9.gz"

// readGzip returns the text of a stored file.
func readGzip(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestStoredDumpSyms compares our functions with those that dump_syms 2.3.9 found: in
// no file do fewer of them agree than when its output was stored.
func TestStoredDumpSyms(t *testing.T) {
	t.Parallel()
	stored := map[string][]string{}
	for _, part := range strings.Split(readGzip(t, storedOracle), "FILE ")[1:] {
		lines := strings.Split(strings.TrimSpace(part), "\n")
		w := strings.Split(lines[0], "\t")
		stored[strings.Join(w[1:4], "\t")] = lines
	}
	compared := 0
	for _, f := range oracleFiles(t, oracleRoots()...) {
		w := strings.Split(f.key(t), "\t")
		lines := stored[strings.Join(w[1:], "\t")]
		if lines == nil {
			continue
		}
		compared++
		out, err := written(t.Context(), f, Breakpad)
		if err != nil {
			t.Errorf("%s %s: %v, want a .sym", w[0], f.arch, err)
			continue
		}
		ours, _, err := readOutline(bytes.NewReader(out))
		if err != nil {
			t.Errorf("%s %s: %v", w[0], f.arch, err)
			continue
		}
		a := agreement(ours, lines[1:])
		head := strings.Split(lines[0], "\t")
		for i, got := range []int{a.functions, a.names, a.lines, a.calls} {
			if want, err := strconv.Atoi(head[4+i]); err != nil || got < want {
				t.Errorf("%s %s: the %s of %d functions are those of dump_syms, want %d of %d", w[0], f.arch, []string{"sizes", "names", "lines", "inlined calls"}[i], got, want, len(lines)-1)
			}
		}
	}
	if compared < 10 {
		t.Errorf("%d files compared, want the files of testdata at least", compared)
	}
}

// oracleRoots returns the folders whose files are compared in the quick half.
func oracleRoots() []string {
	roots := []string{"../../../testdata/pdb", "../../../testdata/elf", "../../../testdata/macho"}
	if dir := os.Getenv("SYMDEPOT_MATERIAL"); dir != "" {
		if _, err := os.Stat(dir); err == nil {
			roots = append(roots, dir)
		}
	}
	return roots
}

// TestDumpSyms compares our .sym of many files with those of dump_syms 2.3.9, and
// lets llvm-gsymutil verify our GSYM.
func TestDumpSyms(t *testing.T) {
	t.Parallel()
	peers := os.Getenv("SYMDEPOT_PEERS")
	tool := symtest.Tool(t, "rust/bin/dump_syms")
	if os.Getenv("SYMDEPOT_TORTURE") == "" && os.Getenv("SYMDEPOT_STORE_ORACLE") == "" {
		t.Skip("compares hundreds of files for minutes: set SYMDEPOT_TORTURE, or run scripts/torture symbols")
	}
	gsymutil := symtest.Judge(t, "llvm-gsymutil-19")
	roots := oracleRoots()
	if dir := filepath.Join(peers, "objects"); os.Getenv("SYMDEPOT_STORE_ORACLE") == "" {
		if _, err := os.Stat(dir); err == nil {
			roots = append(roots, dir)
		}
	}
	if more := os.Getenv("SYMDEPOT_ORACLE_FILES"); more != "" {
		roots = strings.Fields(more)
	}
	var store *gzip.Writer
	if name := os.Getenv("SYMDEPOT_STORE_ORACLE"); name != "" {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		store = gzip.NewWriter(f)
		defer func() {
			if err := store.Close(); err != nil || f.Close() != nil {
				t.Errorf("%s: %v", name, err)
			}
		}()
	}
	totals := map[string]*oracleCounts{}
	for _, f := range oracleFiles(t, roots...) {
		args := []string{"--inlines", f.path}
		if f.fat {
			args = append([]string{"--arch", f.arch}, args...)
		}
		out, err := exec.CommandContext(t.Context(), tool, args...).Output()
		if err != nil || len(out) == 0 {
			t.Logf("SKIP %s %s: dump_syms: %v", filepath.Base(f.path), f.arch, err)
			continue
		}
		theirs, theirStacks, err := readOutline(bytes.NewReader(out))
		if err != nil {
			t.Fatalf("%s: dump_syms: %v", f.path, err)
		}
		text, err := written(t.Context(), f, Breakpad)
		if err != nil {
			t.Logf("SKIP %s %s: %v; dump_syms has %d functions", filepath.Base(f.path), f.arch, err, len(theirs))
			if len(theirs) > 0 && !strings.HasSuffix(f.path, ".o") { // relocatable files are not read
				t.Errorf("%s: %v, but dump_syms finds %d functions", f.path, err, len(theirs))
			}
			continue
		}
		ours, stacks, err := readOutline(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", f.path, err)
		}
		if len(theirs) == 0 && len(ours) == 0 {
			continue
		}
		if store != nil {
			var lines []string
			for _, at := range sortedKeys(theirs) {
				lines = append(lines, theirs[at].outline())
			}
			a := agreement(ours, lines)
			_, _ = fmt.Fprintf(store, "FILE %s\t%d\t%d\t%d\t%d\n%s\n", f.key(t), a.functions, a.names, a.lines, a.calls, strings.Join(lines, "\n"))
		}
		c := compareSym(t, ours, theirs, 3)
		c.stacks, c.stacksTheirs = stacks, theirStacks
		if gsymutil != "" && len(ours) > 0 {
			if g, err := written(t.Context(), f, GSYM); err == nil {
				name := filepath.Join(t.TempDir(), "x.gsym")
				if err := os.WriteFile(name, g, 0o644); err != nil {
					t.Fatal(err)
				}
				if out, err := exec.CommandContext(t.Context(), gsymutil, "--verify", name).CombinedOutput(); err != nil {
					t.Errorf("%s: llvm-gsymutil --verify: %v\n%.500s", f.path, err, out)
				} else {
					c.verified = 1
				}
			} else {
				t.Logf("%s: no GSYM: %v", f.path, err)
			}
		}
		t.Logf("%s %s %s: %s", f.format, filepath.Base(f.path), f.arch, c)
		if totals[f.format] == nil {
			totals[f.format] = &oracleCounts{}
		}
		totals[f.format].add(c)
	}
	for format, c := range totals {
		t.Logf("TABLE %s: %d files, %d GSYM verified: %s", format, c.files, c.verified, c)
		if wrong := c.lost + c.sizes; 1000*wrong > c.functions {
			t.Errorf("%s: %d of %d functions differ, want 0.1 %% at most", format, wrong, c.functions)
		}
	}
}

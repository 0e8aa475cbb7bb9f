package symbolicate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

// Answers to addresses are compared with those of other programs, in the two halves
// of the comparison with dump_syms: TestAddresses runs the programs, and
// TestStoredAddresses compares with the stored outline of their answers.
// SYMDEPOT_STORE_ADDRESSES=FILE makes TestAddresses write the outlines.

// frame is a function at an address, innermost first, as any program prints it.
type frame struct{ name, file, line string }

// addressTool is a program that answers to addresses.
type addressTool struct {
	name    string
	formats []string // of files that it reads
	// ask returns an answer for each address that the program answers; without one it
	// ended before.
	ask func(ctx context.Context, f oracleFile, base uint64, rvas []uint64) map[uint64][]frame
}

// addressTools returns the programs that are there.
func addressTools(t *testing.T) []addressTool {
	t.Helper()
	var tools []addressTool
	if p := symtest.Judge(t, "llvm-symbolizer-19"); p != "" {
		tools = append(tools, addressTool{"llvm-symbolizer-19", []string{"ELF", "Mach-O", "PDB"}, askLLVM(p)})
	}
	if p := symtest.Judge(t, "addr2line"); p != "" {
		tools = append(tools, addressTool{"addr2line of binutils", []string{"ELF"}, askAddr2line(p, true)})
	}
	if p := symtest.Judge(t, "rust/bin/addr2line"); p != "" {
		tools = append(tools, addressTool{"addr2line 0.27.1", []string{"ELF", "Mach-O"}, askAddr2line(p, true)})
	}
	if p := symtest.Judge(t, "rust/bin/pdb-addr2line"); p != "" {
		tools = append(tools, addressTool{"pdb-addr2line 0.12.1", []string{"PDB"}, askAddr2line(p, false)})
	}
	return tools
}

// maxFaults is at how many addresses of a file llvm-symbolizer may end with a fault.
// Each takes a start.
const maxFaults = 1000

// askLLVM asks llvm-symbolizer. It ends with a fault at some addresses of PDBs:
// those have no answer.
func askLLVM(tool string) func(context.Context, oracleFile, uint64, []uint64) map[uint64][]frame {
	return func(ctx context.Context, f oracleFile, base uint64, rvas []uint64) map[uint64][]frame {
		args := []string{"--output-style=JSON", "--no-demangle", "--functions=linkage"}
		if f.format == "PDB" {
			if f.path, base = imageOf(f.path), 0; f.path == "" {
				return nil
			}
			args = append(args, "--relative-address")
		}
		if f.fat {
			args = append(args, "--default-arch="+f.arch)
		}
		answers := map[uint64][]frame{}
		for faults := 0; len(rvas) > 0 && faults < maxFaults; {
			cmd := exec.CommandContext(ctx, tool, append(args, "--obj="+f.path)...)
			cmd.Stdin = addressList(base, rvas)
			out, _ := cmd.Output()
			dec := json.NewDecoder(bytes.NewReader(out))
			n := 0
			for ; n < len(rvas); n++ {
				var answer struct {
					Symbol []struct {
						FunctionName, FileName string
						Line                   int
					}
				}
				if dec.Decode(&answer) != nil {
					break
				}
				list := []frame{}
				for _, s := range answer.Symbol {
					list = append(list, frame{s.FunctionName, s.FileName, strconv.Itoa(s.Line)})
				}
				answers[rvas[n]] = list
			}
			if n == len(rvas) {
				break
			}
			rvas = rvas[n+1:]
			faults++
		}
		return answers
	}
}

// imageOf returns the program beside a PDB.
func imageOf(pdb string) string {
	for _, ext := range []string{".exe", ".dll", ".node"} {
		if p := strings.TrimSuffix(pdb, filepath.Ext(pdb)) + ext; exists(p) {
			return p
		}
	}
	return ""
}

func exists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}

func addressList(base uint64, rvas []uint64) io.Reader {
	var in bytes.Buffer
	for _, a := range rvas {
		fmt.Fprintf(&in, "%#x\n", base+a)
	}
	return &in
}

// askAddr2line asks a program with the options of addr2line.
func askAddr2line(tool string, linked bool) func(context.Context, oracleFile, uint64, []uint64) map[uint64][]frame {
	return func(ctx context.Context, f oracleFile, base uint64, rvas []uint64) map[uint64][]frame {
		if !linked {
			base = 0
		}
		if f.fat {
			return nil // it chooses the slice itself
		}
		cmd := exec.CommandContext(ctx, tool, "-a", "-f", "-i", "-e", f.path)
		cmd.Stdin = addressList(base, rvas)
		out, err := cmd.Output()
		if err != nil {
			return nil
		}
		answers := map[uint64][]frame{}
		var at uint64
		var name string
		names := false
		for scan := bufio.NewScanner(bytes.NewReader(out)); scan.Scan(); {
			line := scan.Text()
			if a, err := strconv.ParseUint(line, 0, 64); err == nil && strings.HasPrefix(line, "0x") {
				at, names = a-base, true
				answers[at] = []frame{}
				continue
			}
			if names {
				name, names = line, false
				continue
			}
			names = true
			line, _, _ = strings.Cut(line, " (discriminator")
			i := strings.LastIndex(line, ":")
			answers[at] = append(answers[at], frame{name, line[:max(i, 0)], line[i+1:]})
		}
		return answers
	}
}

// plain is a frame in the spelling that all programs are compared in.
func (f frame) plain() frame {
	if strings.Trim(f.file, "?") == "" {
		f.file = ""
	}
	if f.file != "" {
		f.file = strings.TrimPrefix(path.Clean(strings.ReplaceAll(f.file, `\`, "/")), "/")
	}
	if f.line == "?" || f.line == "0" || f.file == "" {
		f.file, f.line = "", ""
	}
	if f.name == "??" {
		f.name = ""
	}
	f.name = strings.TrimLeft(normalName.Replace(f.name), "_")
	return f
}

// ourAnswers returns our answers, with linkage names where a file has them.
func ourAnswers(table *functab.Table, f oracleFile, rvas []uint64) map[uint64][]frame {
	out := map[uint64][]frame{}
	for _, a := range rvas {
		got, ok := table.Lookup(a)
		out[a] = []frame{}
		if !ok {
			continue
		}
		for _, l := range got.Frames {
			name := l.Function
			if l.Raw != "" && f.format != "PDB" {
				name = l.Raw
			}
			out[a] = append(out[a], frame{name, l.File, strconv.Itoa(int(l.Line))})
		}
	}
	return out
}

// addressCounts is what a comparison of answers found.
type addressCounts struct {
	files, answers       int
	equal, names         int // the whole chain of positions; of these, the names too
	lines, chains        int // another position; another number of frames
	onlyOurs, onlyTheirs int // no position in the other answer
}

func (c *addressCounts) add(o addressCounts) {
	c.files += o.files
	c.answers += o.answers
	c.equal += o.equal
	c.names += o.names
	c.lines += o.lines
	c.chains += o.chains
	c.onlyOurs += o.onlyOurs
	c.onlyTheirs += o.onlyTheirs
}

func (c addressCounts) String() string {
	return fmt.Sprintf("%d answers: %d equal, of which %d names too; %d lines and %d chains differ, %d only ours, %d only theirs", c.answers, c.equal, c.names, c.lines, c.chains, c.onlyOurs, c.onlyTheirs)
}

// compareAnswers compares the answers of a program with ours. The names are compared
// where the positions are equal and the linker folded no function.
func compareAnswers(t *testing.T, table *functab.Table, ours, theirs map[uint64][]frame, show int) (c addressCounts) {
	c.files = 1
	multiple := map[uint64]bool{}
	for f := range table.Functions() {
		if f.Multiple {
			multiple[f.Start] = true
		}
	}
	for _, a := range slices.Sorted(maps.Keys(theirs)) {
		got, want := plainFrames(ours[a]), plainFrames(theirs[a])
		if !located(got) && !located(want) {
			continue
		}
		if answer, _ := table.Lookup(a); multiple[answer.FunctionStart] {
			continue // any of the folded functions is right
		}
		c.answers++
		n := &c.equal
		switch {
		case !located(got):
			n = &c.onlyTheirs
		case !located(want):
			n = &c.onlyOurs
		case len(got) != len(want):
			n = &c.chains
		case !slices.EqualFunc(got, want, func(x, y frame) bool { return x.file == y.file && x.line == y.line }):
			n = &c.lines
		case slices.EqualFunc(got, want, func(x, y frame) bool { return sameFrameName(x.name, y.name) }):
			c.names++
		default:
			if c.equal-c.names < show {
				t.Logf("names at %#x: %v\n  theirs %v", a, got, want)
			}
		}
		if *n++; n != &c.equal && *n <= show {
			t.Logf("at %#x: %v\n  theirs %v", a, got, want)
		}
	}
	return c
}

// sameFrameName compares linkage names. What docs/symbols-compared.md lists is equal:
// the forms of constructors, and scopes of local functions.
func sameFrameName(a, b string) bool {
	forms := strings.NewReplacer("C2E", "C1E", "D2E", "D1E", "C4E", "C1E", "D4E", "D1E")
	a, b = forms.Replace(a), forms.Replace(b)
	return a == b || strings.HasSuffix(a, "::"+b) || strings.HasPrefix(b, a+".")
}

// plainFrames returns frames in the spelling in which they are compared.
func plainFrames(list []frame) []frame {
	out := make([]frame, len(list))
	for i, f := range list {
		out[i] = f.plain()
	}
	return out
}

// located reports whether an answer has a position.
func located(list []frame) bool {
	return slices.ContainsFunc(list, func(f frame) bool { return f.file != "" })
}

// chosenAddresses returns addresses of code: half of them anywhere, half of them in
// functions chosen alike, so that small ones are among them.
func chosenAddresses(table *functab.Table, n int) []uint64 {
	rng := rand.New(rand.NewPCG(12, uint64(n)))
	var out []uint64
	var functions []functab.Range
	for f := range table.Functions() {
		functions = append(functions, functab.Range{Start: f.Start, Size: f.Size})
	}
	if len(functions) == 0 {
		return nil
	}
	for range n / 2 {
		f := functions[rng.IntN(len(functions))]
		out = append(out, f.Start+rng.Uint64N(uint64(f.Size)))
	}
	first, last := functions[0].Start, functions[len(functions)-1].Start+uint64(functions[len(functions)-1].Size)
	for range n - n/2 {
		out = append(out, first+rng.Uint64N(last-first))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// tableOf reads the functions of a file, and of a PDB those of its program too.
func tableOf(ctx context.Context, f oracleFile) (*functab.Table, error) {
	files, err := OpenFiles(ctx, []string{f.path})
	if err != nil {
		return nil, err
	}
	defer func() { _ = files.Close() }()
	for _, m := range files.Modules {
		if !f.fat || m[0].Arch == f.arch {
			return ReadParts(ctx, "", m)
		}
	}
	return nil, fmt.Errorf("%s: no module of %s", f.path, f.arch)
}

// outlineFrames is an answer in numbers: hashes of its positions and names.
func outlineFrames(list []frame) string {
	positions, names := fnv.New32a(), fnv.New32a()
	for _, f := range plainFrames(list) {
		fmt.Fprintf(positions, "%s:%s\n", f.file, f.line)
		fmt.Fprintf(names, "%s\n", f.name)
	}
	return fmt.Sprintf("%08x %08x", positions.Sum32(), names.Sum32())
}

// knownDifferences is how many of 1,000 answers differ for the reasons that
// docs/symbols-compared.md gives.
var knownDifferences = map[string]int{"PDB, llvm-symbolizer-19": 200, "PDB, pdb-addr2line 0.12.1": 10, "ELF, addr2line of binutils": 250}

// TestAddresses compares our answers with those of llvm-symbolizer, of addr2line and
// of pdb-addr2line.
func TestAddresses(t *testing.T) {
	t.Parallel()
	storeTo := os.Getenv("SYMDEPOT_STORE_ADDRESSES")
	if os.Getenv("SYMDEPOT_TORTURE") == "" && storeTo == "" {
		t.Skip("compares hundreds of files for minutes: set SYMDEPOT_TORTURE, or run scripts/torture symbols")
	}
	tools := addressTools(t)
	if len(tools) == 0 {
		t.Skip("no program answers to addresses: install llvm-19 and binutils, and run scripts/oracles")
	}
	roots, perFile := oracleRoots(), 10_000
	if dir := filepath.Join(os.Getenv("SYMDEPOT_PEERS"), "objects"); storeTo == "" && exists(dir) {
		roots = append(roots, dir)
	}
	if more := os.Getenv("SYMDEPOT_ORACLE_FILES"); more != "" {
		roots = strings.Fields(more)
	}
	var store bytes.Buffer
	if storeTo != "" {
		perFile = 60
	}
	totals := map[string]*addressCounts{}
	for _, f := range oracleFiles(t, roots...) {
		table, err := tableOf(t.Context(), f)
		if err != nil {
			continue
		}
		rvas := chosenAddresses(table, perFile)
		ours := ourAnswers(table, f, rvas)
		for _, tool := range tools {
			if !slices.Contains(tool.formats, f.format) {
				continue
			}
			theirs := tool.ask(t.Context(), f, table.Module().Base, rvas)
			c := compareAnswers(t, table, ours, theirs, 3)
			if c.answers == 0 {
				continue
			}
			t.Logf("%s %s %s, %s: %s", f.format, filepath.Base(f.path), f.arch, tool.name, c)
			name := f.format + ", " + tool.name
			if totals[name] == nil {
				totals[name] = &addressCounts{}
			}
			totals[name].add(c)
			storeAnswers(t, &store, f, tool.name, ours, theirs)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		c := totals[name]
		t.Logf("TABLE %s: %d files, %s", name, c.files, c)
		if wrong := c.lines + c.chains; 1000*wrong > max(knownDifferences[name], 1)*c.answers {
			t.Errorf("%s: %d of %d answers differ, want %d in 1,000 at most", name, wrong, c.answers, max(knownDifferences[name], 1))
		}
	}
	if storeTo != "" {
		var z bytes.Buffer
		w, err := gzip.NewWriterLevel(&z, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = w.Write(store.Bytes()); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(storeTo, z.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// storeAnswers writes the outline of a program's answers, and in how many of them the
// positions and the names are ours.
func storeAnswers(t *testing.T, w *bytes.Buffer, f oracleFile, tool string, ours, theirs map[uint64][]frame) {
	var lines []string
	positions, names := 0, 0
	for _, a := range slices.Sorted(maps.Keys(theirs)) {
		line := outlineFrames(theirs[a])
		lines = append(lines, fmt.Sprintf("%x %s", a, line))
		p, n := agrees(ours[a], strings.Fields(line))
		positions, names = positions+p, names+n
	}
	fmt.Fprintf(w, "FILE %s\t%s\t%d\t%d\n%s\n", f.key(t), tool, positions, names, strings.Join(lines, "\n"))
}

// agrees compares an answer with an outline: 1 for equal positions, and for equal names.
func agrees(got []frame, want []string) (positions, names int) {
	have := strings.Fields(outlineFrames(got))
	if have[0] == want[0] {
		positions = 1
	}
	if have[1] == want[1] {
		names = 1
	}
	return positions, names
}

// storedAddresses holds what llvm-symbolizer 19.1.7, addr2line of binutils 2.40,
// addr2line 0.27.1 and pdb-addr2line 0.12.1 answer for the files of testdata and of the
// material: a line for each file and program with the name, SHA-256, format and
// processor of the file and the numbers of answers whose positions and names were
// equal when it was stored, then a line for each address, see outlineFrames.
const storedAddresses = "testdata/addresses.gz"

// TestStoredAddresses compares our answers with the stored ones: for no file do fewer
// of them agree than when they were stored.
func TestStoredAddresses(t *testing.T) {
	t.Parallel()
	stored := map[string][][]string{}
	for _, part := range strings.Split(readGzip(t, storedAddresses), "FILE ")[1:] {
		lines := strings.Split(strings.TrimSpace(part), "\n")
		w := strings.Split(lines[0], "\t")
		key := strings.Join(w[1:4], "\t")
		stored[key] = append(stored[key], lines)
	}
	compared := 0
	for _, f := range oracleFiles(t, oracleRoots()...) {
		_, key, _ := strings.Cut(f.key(t), "\t")
		if stored[key] == nil {
			continue
		}
		compared++
		table, err := tableOf(t.Context(), f)
		if err != nil {
			t.Errorf("%s %s: %v, want its functions", f.path, f.arch, err)
			continue
		}
		for _, lines := range stored[key] {
			head := strings.Split(lines[0], "\t")
			positions, names := 0, 0
			for _, line := range lines[1:] {
				w := strings.Fields(line)
				a, err := strconv.ParseUint(w[0], 16, 64)
				if err != nil {
					t.Fatal(err)
				}
				p, n := agrees(ourAnswers(table, f, []uint64{a})[a], w[1:])
				positions, names = positions+p, names+n
			}
			for i, got := range []int{positions, names} {
				if want, err := strconv.Atoi(head[5+i]); err != nil || got < want {
					t.Errorf("%s %s: the %s of %d answers are those of %s, want %d of %d", filepath.Base(f.path), f.arch, []string{"positions", "names"}[i], got, head[4], want, len(lines)-1)
				}
			}
		}
	}
	if compared < 10 {
		t.Errorf("%d files compared, want the files of testdata at least", compared)
	}
}

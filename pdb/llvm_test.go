package pdb

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

var (
	dumpProc  = regexp.MustCompile("^ *\\d+ \\| S_[GL]PROC32(?:_ID)? \\[size = \\d+\\] `(.*)`$")
	dumpAddr  = regexp.MustCompile(`addr = (\d+):(\d+), code size = (\d+)`)
	dumpRange = regexp.MustCompile(`^  ([0-9A-F]{4}):([0-9A-F]{8})-([0-9A-F]{8}), `)
	dumpRow   = regexp.MustCompile(`(\d+) ([0-9A-F]{8})`)
	dumpFile  = regexp.MustCompile(`^(\S.*) \((?:MD5|SHA-1|SHA-256|no checksum).*\)$`)
)

// dumped is what llvm-pdbutil says about a PDB.
type dumped struct {
	procs map[[2]uint64]string // by address and size
	rows  []dumpedRow          // sorted by start; each reaches to the end of its contribution
}

type dumpedRow struct {
	start, end uint64
	line       uint32
	file       string
}

// pdbutil runs llvm-pdbutil. sections are the addresses of the sections.
func pdbutil(t *testing.T, path string, sections []uint64) dumped {
	t.Helper()
	out, err := exec.Command(symtest.Tool(t, "llvm-pdbutil-19"), "dump", "--symbols", "-l", path).Output()
	if err != nil {
		t.Fatalf("llvm-pdbutil-19: %v", err)
	}
	d := dumped{procs: map[[2]uint64]string{}}
	address := func(seg, off string, base int) uint64 {
		s, _ := strconv.ParseUint(seg, base, 16)
		o, _ := strconv.ParseUint(off, base, 32)
		if s == 0 || int(s) > len(sections) {
			return 0
		}
		return sections[s-1] + o
	}
	var name, file string
	var limit, first uint64
	scan := bufio.NewScanner(bytes.NewReader(out))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		line := scan.Text()
		if m := dumpProc.FindStringSubmatch(line); m != nil {
			name = m[1]
		} else if m := dumpAddr.FindStringSubmatch(line); m != nil && name != "" {
			n, _ := strconv.ParseUint(m[3], 10, 32)
			d.procs[[2]uint64{address(m[1], m[2], 10), n}] = name
			name = ""
		} else if m := dumpFile.FindStringSubmatch(strings.TrimPrefix(line, "  ")); m != nil {
			file = m[1]
		} else if m := dumpRange.FindStringSubmatch(line); m != nil {
			first = address(m[1], m[2], 16)
			a, _ := strconv.ParseUint(m[2], 16, 32)
			b, _ := strconv.ParseUint(m[3], 16, 32)
			limit = first + b - a
			first -= a
		} else if limit != 0 && strings.TrimSpace(line) != "" && !strings.Contains(line, "`") {
			for _, m := range dumpRow.FindAllStringSubmatch(line, -1) {
				n, _ := strconv.ParseUint(m[1], 10, 32)
				a, _ := strconv.ParseUint(m[2], 16, 32)
				d.rows = append(d.rows, dumpedRow{first + a, limit, uint32(n), file})
			}
		} else {
			limit = 0
		}
	}
	slices.SortStableFunc(d.rows, func(x, y dumpedRow) int { return byStart(extent{start: x.start}, extent{start: y.start}) })
	return d
}

// has reports whether the code at an address has a line of a file. Several
// functions may share the code.
func (d dumped) has(addr uint64, line uint32, file string) bool {
	for i := len(d.rows) - 1; i >= 0; i-- {
		if r := d.rows[i]; r.start <= addr && addr < r.end && r.line == line && functab.JoinPath(r.file) == file {
			return true
		} else if r.start+1<<16 < addr {
			break
		}
	}
	return false
}

// The functions of real PDBs are the procedures that llvm-pdbutil prints; rows
// outside of inlined calls are those that it prints.
func TestFunctionsPdbutil(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "llvm-pdbutil-19")
	for _, path := range materialPDBs(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			table := fileTable(t, path, 0)
			var sections []uint64
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f := mustOpen(t, b)
			a, err := f.readAddresses()
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range a.sections {
				sections = append(sections, h.start)
			}
			d := pdbutil(t, path, sections)
			ours := map[[2]uint64]*functab.Function{}
			rows, inlined, wrong := 0, 0, 0
			for f := range table.Functions() {
				ours[[2]uint64{f.Start, uint64(f.Size)}] = f
				for _, r := range f.Rows {
					if slices.ContainsFunc(f.Inlines, func(in functab.Inline) bool {
						return slices.ContainsFunc(in.Ranges, func(x functab.Range) bool { return r.Start >= x.Start && r.Start < x.Start+uint64(x.Size) })
					}) {
						inlined++
						continue
					}
					rows++
					if r.Line != 0 && !d.has(r.Start, r.Line, table.FileName(r.File)) {
						if wrong++; wrong < 10 {
							shown, _ := table.NameOf(f.Name)
							t.Logf("%#x in %s: line %d of %s", r.Start, shown, r.Line, table.FileName(r.File))
						}
					}
				}
			}
			lacking := 0
			starts := map[uint64]bool{}
			for k := range ours {
				starts[k[0]] = true
			}
			for k, name := range d.procs {
				// Of several procedures at an address, one is kept.
				if k[1] > 0 && !starts[k[0]] {
					if lacking++; lacking < 10 {
						t.Logf("no function %s of %d bytes at %#x", name, k[1], k[0])
					}
				}
			}
			t.Logf("%d functions, %d procedures, %d lacking; %d rows, %d in inlined calls, %d different", len(ours), len(d.procs), lacking, rows, inlined, wrong)
			if lacking > 0 || wrong > 0 {
				t.Error("they differ")
			}
		})
	}
}

// symbolized is a frame as llvm-symbolizer prints it.
type symbolized struct {
	FunctionName, FileName string
	Line                   uint32
}

// symbolizer asks llvm-symbolizer for addresses. It leaves out those at which
// that ends with a fault, and returns their number.
func symbolizer(t *testing.T, image string, addresses []uint64, args ...string) (answers map[uint64][]symbolized, faults int) {
	t.Helper()
	answers = map[uint64][]symbolized{}
	for len(addresses) > 0 && faults < 200 {
		var in strings.Builder
		for _, a := range addresses {
			fmt.Fprintf(&in, "%#x\n", a)
		}
		cmd := exec.Command("llvm-symbolizer-19", append(args, "--relative-address", "--output-style=JSON", "--obj="+image)...)
		cmd.Stdin = strings.NewReader(in.String())
		out, _ := cmd.Output()
		dec := json.NewDecoder(bytes.NewReader(out))
		var answer struct{ Symbol []symbolized }
		n := 0
		for ; n < len(addresses) && dec.Decode(&answer) == nil; n++ {
			answers[addresses[n]] = answer.Symbol
			answer.Symbol = nil
		}
		if n < len(addresses) {
			faults++
			n++
		}
		addresses = addresses[n:]
	}
	return answers, faults
}

// Lookups in real PDBs agree with those of llvm-symbolizer. Its reader of PDBs
// loses the lines of some inlined calls, and of folded functions it takes the
// last, so that only most answers are equal.
func TestFunctionsSymbolizer(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "llvm-symbolizer-19")
	images := map[string]string{"big.pdb": "big.dll", "conpty.pdb": "conpty.node", "winpty.pdb": "winpty.dll"}
	for _, path := range materialPDBs(t) {
		image := images[filepath.Base(path)]
		if image == "" {
			continue
		}
		t.Run(image, func(t *testing.T) {
			table := fileTable(t, path, 0)
			random := rand.New(rand.NewPCG(1, 2))
			var addresses []uint64
			for f := range table.Functions() {
				if f.Multiple {
					continue
				}
				for range 2 {
					addresses = append(addresses, f.Start+random.Uint64N(uint64(f.Size)))
				}
			}
			slices.Sort(addresses)
			addresses = slices.Compact(addresses)
			answers, faults := symbolizer(t, filepath.Join(filepath.Dir(path), image), addresses)
			equal, chains, lines := 0, 0, 0
			for _, a := range addresses {
				answer, ok := answers[a]
				if !ok {
					continue // llvm-symbolizer ends with a fault
				}
				got, _ := table.Lookup(a)
				same := len(got.Frames) == len(answer)
				if !same {
					chains++
				} else {
					for i, f := range got.Frames {
						if want := answer[i]; f.Line != want.Line || f.File != functab.JoinPath(want.FileName) {
							same = false
						}
					}
					if !same {
						lines++
					}
				}
				if same {
					equal++
				} else if chains+lines < 4 {
					t.Logf("%#x: %v\nllvm %v", a, got.Frames, answer)
				}
			}
			t.Logf("%d addresses, %d faults, %d answers, %d equal; %d chains and %d lines differ", len(addresses), faults, len(answers), equal, chains, lines)
			if equal*100 < 85*len(answers) {
				t.Errorf("%d of %d answers are equal, want 85 percent", equal, len(answers))
			}
		})
	}
}

package unwind_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/unwind"
)

// machine is the state of a thread: registers by name, and memory.
type machine struct {
	regs   map[string]uint64
	memory func(at uint64) uint64
}

// walk evaluates call frame information in Breakpad's syntax, as a stack walker
// does, and returns the registers of the caller: those with rules, ".cfa" and
// ".ra".
func walk(m machine, rules string) (map[string]uint64, error) {
	out := map[string]uint64{}
	texts := map[string][]string{}
	name := ""
	for _, f := range strings.Fields(rules) {
		if n, ok := strings.CutSuffix(f, ":"); ok {
			name = n
			texts[name] = nil
			continue
		}
		if name == "" {
			return nil, fmt.Errorf("rules %q begin without a register", rules)
		}
		texts[name] = append(texts[name], f)
	}
	for _, first := range []bool{true, false} {
		for name, text := range texts {
			if first != (name == ".cfa") {
				continue
			}
			v, err := postfix(m, text, out)
			if err != nil {
				return nil, fmt.Errorf("%s: %q: %w", name, strings.Join(text, " "), err)
			}
			out[name] = v
		}
	}
	for _, name := range []string{".cfa", ".ra"} {
		if _, ok := out[name]; !ok {
			return nil, fmt.Errorf("rules %q have none for %s", rules, name)
		}
	}
	return out, nil
}

var errUndefined = errors.New("undefined")

func postfix(m machine, text []string, known map[string]uint64) (uint64, error) {
	var stack []uint64
	for _, w := range text {
		if n, err := strconv.ParseInt(w, 10, 64); err == nil {
			stack = append(stack, uint64(n))
			continue
		}
		n := len(stack)
		switch w {
		case "^":
			if n < 1 {
				return 0, errors.New("nothing to load from")
			}
			stack[n-1] = m.memory(stack[n-1])
		case "+", "-", "*", "@":
			if n < 2 {
				return 0, fmt.Errorf("%s without two values", w)
			}
			x, y := stack[n-2], stack[n-1]
			switch w {
			case "+":
				x += y
			case "-":
				x -= y
			case "*":
				x *= y
			default:
				if bits.OnesCount64(y) != 1 {
					return 0, fmt.Errorf("alignment to %d", y)
				}
				x &= -y
			}
			stack = append(stack[:n-2], x)
		case ".undef":
			return 0, errUndefined
		default:
			v, ok := m.regs[w]
			if w == ".cfa" {
				v, ok = known[w]
			}
			if !ok {
				return 0, fmt.Errorf("unknown word %q", w)
			}
			stack = append(stack, v)
		}
	}
	if len(stack) != 1 {
		return 0, fmt.Errorf("%d values left", len(stack))
	}
	return stack[0], nil
}

// rulesAt returns the rules of a frame at an address: all deltas up to it, after
// the initial rules. A later rule of a register replaces an earlier one.
func rulesAt(f functab.Frame, at uint64) string {
	s := f.CFI
	for _, d := range f.Deltas {
		if d.Address <= at {
			s += " " + d.Rules
		}
	}
	return s
}

// frames returns the frames that convert adds, and the warnings.
func frames(t testing.TB, convert func(b *functab.Builder) error) ([]functab.Frame, []string) {
	t.Helper()
	b := functab.NewBuilder(functab.Module{Arch: "x86_64", Name: "test"}, functab.Limits{})
	if err := convert(b); err != nil {
		t.Fatalf("conversion: error %v, want none", err)
	}
	table, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list []functab.Frame
	for f := range table.Frames() {
		f.Deltas = slices.Clone(f.Deltas)
		list = append(list, f)
	}
	return list, table.Warnings()
}

// text writes a frame as the records of a .sym file.
func text(f functab.Frame) string {
	s := fmt.Sprintf("%x %x %s", f.Start, f.Size, f.CFI)
	for _, d := range f.Deltas {
		s += fmt.Sprintf("\n%x %s", d.Address, d.Rules)
	}
	return s
}

// openImage opens a PE file.
func openImage(t testing.TB, path string) *objfile.PEImage {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	img, err := objfile.OpenPE(f, st.Size())
	if err != nil {
		t.Fatalf("OpenPE(%s): %v", path, err)
	}
	return img
}

// flat is an image whose bytes are at their addresses.
type flat struct {
	arch        string
	bytes       []byte
	pdata, size uint32
	code        [2]uint32
	exports     map[string]uint32
	ids         []debugid.ID
}

func (f *flat) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(f.bytes).ReadAt(p, at)
}
func (f *flat) Arch() string                     { return f.arch }
func (f *flat) ExceptionTable() (uint32, uint32) { return f.pdata, f.size }
func (f *flat) DebugIDs() []debugid.ID           { return f.ids }
func (f *flat) CodeSections(yield func(string, uint32, uint32) bool) {
	if f.code[1] > 0 {
		yield(".text", f.code[0], f.code[1])
	}
}
func (f *flat) Exports(yield func(string, uint32) bool) error {
	for name, rva := range f.exports {
		if !yield(name, rva) {
			break
		}
	}
	return nil
}

var _ unwind.Image = (*objfile.PEImage)(nil)

func convertPE(img unwind.Image) func(b *functab.Builder) error {
	return func(b *functab.Builder) error { return unwind.PE(context.Background(), img, b) }
}

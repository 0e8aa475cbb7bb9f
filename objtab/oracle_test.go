package objtab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// files returns the ELF and Mach-O files of the repository and of the material,
// and those that SYMDEPOT_DWARF_FILES names.
func oracleFiles(t *testing.T) []string {
	t.Helper()
	roots := []string{"../testdata/elf", "../testdata/macho"}
	if m := os.Getenv("SYMDEPOT_MATERIAL"); m != "" {
		roots = append(roots, m)
	}
	out := strings.Fields(os.Getenv("SYMDEPOT_DWARF_FILES"))
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				out = append(out, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func openFile(t *testing.T, path string) File {
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
	return File{f, st.Size()}
}

// answer is one frame as llvm-symbolizer prints it.
type llvmFrame struct {
	FunctionName, FileName string
	Line                   uint32
}

type llvmAnswer struct {
	Address string
	Symbol  []llvmFrame
	Error   struct{ Message string }
}

// llvmLookup asks llvm-symbolizer for addresses as the linker assigned them.
func llvmLookup(ctx context.Context, path string, addresses []uint64, args ...string) ([]llvmAnswer, error) {
	var in bytes.Buffer
	for _, a := range addresses {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	cmd := exec.CommandContext(ctx, "llvm-symbolizer-19", append([]string{"--obj=" + path, "--output-style=JSON", "--no-demangle", "--functions=linkage"}, args...)...)
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var all []llvmAnswer
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var a llvmAnswer
		if err := dec.Decode(&a); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
}

// randomAddresses returns addresses of code.
func randomAddresses(code []objfile.AddressRange, n int, seed uint64) []uint64 {
	var total uint64
	for _, r := range code {
		total += r.End - r.Start
	}
	if total == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 12))
	out := make([]uint64, n)
	for i := range out {
		k := rng.Uint64N(total)
		for _, r := range code {
			if size := r.End - r.Start; k < size {
				out[i] = r.Start + k
				break
			} else {
				k -= size
			}
		}
	}
	return out
}

// differences compares the whole chain of inlined calls of each address. It skips
// what the tools define differently: padding between functions, for which
// llvm-symbolizer prints a line of the function before; procedure linkage tables,
// which it takes for the last function of another section; functions that share
// their code with others, where any name is right.
func differences(table *functab.Table, addresses []uint64, want []llvmAnswer) (compared int, diffs []string) {
	base := table.Module().Base
	shared := map[uint64]bool{}
	for f := range table.Functions() {
		if f.Multiple {
			shared[f.Start] = true
		}
	}
	for i, a := range addresses {
		w := want[i].Symbol
		got, ok := table.Lookup(a - base)
		if len(w) == 0 || w[len(w)-1].FunctionName == "" || !ok || got.Symbol || shared[got.FunctionStart] {
			continue
		}
		compared++
		if !same(got.Frames, w) {
			diffs = append(diffs, fmt.Sprintf("%#x: %v, want %v", a, got.Frames, w))
		}
	}
	return compared, diffs
}

func same(got []functab.Line, want []llvmFrame) bool {
	if len(got) != len(want) {
		return false
	}
	for i, g := range got {
		w := want[i]
		raw := g.Raw
		if raw == "" {
			raw = g.Function
		}
		// gcc gives no linkage names to local functions: we qualify them, and
		// llvm-symbolizer does not.
		if !sameName(raw, w.FunctionName) && !strings.HasSuffix(raw, "::"+w.FunctionName) && !(i == len(got)-1 && strings.HasPrefix(w.FunctionName, raw+".")) {
			return false
		}
		if w.Line == 0 {
			continue // of two rows at one address we keep a statement rather than line 0
		}
		if g.Line != w.Line || filepath.Clean(g.File) != filepath.Clean(w.FileName) {
			return false
		}
	}
	return true
}

// sameName compares names. The forms of constructors and of destructors often
// share their code.
func sameName(a, b string) bool {
	forms := strings.NewReplacer("C2E", "C1E", "D2E", "D1E", "C4E", "C1E", "D4E", "D1E")
	return forms.Replace(strings.TrimPrefix(a, "_")) == forms.Replace(strings.TrimPrefix(b, "_"))
}

// TestLLVMSymbolizer compares answers for random addresses with those of
// llvm-symbolizer.
func TestLLVMSymbolizer(t *testing.T) {
	symtest.Tool(t, "llvm-symbolizer-19")
	n := 1000
	if testing.Short() {
		n = 100
	}
	for _, path := range oracleFiles(t) {
		f := openFile(t, path)
		name := filepath.Base(path)
		check := func(b *functab.Builder, err error, code []objfile.AddressRange, args ...string) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			table, err := b.Table(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			addresses := randomAddresses(code, n, 1)
			want, err := llvmLookup(t.Context(), path, addresses, args...)
			if err != nil || len(want) != len(addresses) {
				t.Fatalf("llvm-symbolizer: %d answers, want %d, %v", len(want), len(addresses), err)
			}
			compared, diffs := differences(table, addresses, want)
			t.Logf("%s %v: %d of %d addresses differ; %+v %q", path, args, len(diffs), compared, table.Counts(), table.Warnings())
			for i, d := range diffs {
				if i == 12 {
					break
				}
				t.Log(d)
			}
			if 200*len(diffs) > compared {
				t.Errorf("%s: %d of %d addresses differ, want 0.5%% at most", path, len(diffs), compared)
			}
		}
		objects, err := objfile.Identify(f.Reader, f.Size, name, objfile.Options{})
		if err != nil {
			continue
		}
		switch objects[0].Kind {
		case symfile.ELF:
			e, err := objfile.OpenELF(f.Reader, f.Size)
			if err != nil || e.Relocatable() {
				continue
			}
			b, err := ELF(t.Context(), ELFFiles{Name: name, Program: f}, Options{NoUnwind: true})
			check(b, err, e.Code())
		case symfile.MachO:
			for _, o := range objects {
				slice := File{io.NewSectionReader(f.Reader, o.Offset, o.Size), o.Size}
				m, err := objfile.OpenMachO(slice.Reader, slice.Size)
				if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				if m.Relocatable() {
					continue
				}
				files := MachOFiles{Name: name, Image: slice}
				if m.Debug() {
					files = MachOFiles{Name: name, DSYM: slice}
				}
				b, err := MachO(t.Context(), files, Options{NoUnwind: true})
				check(b, err, m.Code(), "--default-arch="+m.Arch())
			}
		}
	}
}

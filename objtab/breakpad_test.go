package objtab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/demangle"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
)

type symFunc struct {
	size uint64
	name string
}

type symRow struct {
	address, line uint64
	file          string
}

// parseSym reads the FUNC records and their rows.
func parseSym(p []byte) (funcs map[uint64]symFunc, rows []symRow) {
	funcs = map[uint64]symFunc{}
	files := map[string]string{}
	hex := func(s string) uint64 {
		v, _ := strconv.ParseUint(s, 16, 64)
		return v
	}
	inFunc := false
	for _, line := range strings.Split(string(p), "\n") {
		w := strings.Fields(line)
		if len(w) < 3 {
			continue
		}
		switch w[0] {
		case "FILE":
			files[w[1]] = strings.SplitN(line, " ", 3)[2]
		case "FUNC":
			if w[1] == "m" {
				w = append(w[:1], w[2:]...)
				line = strings.Replace(line, "FUNC m ", "FUNC ", 1)
			}
			funcs[hex(w[1])] = symFunc{hex(w[2]), strings.SplitN(line, " ", 5)[4]}
			inFunc = true
		case "INFO", "MODULE", "PUBLIC", "STACK", "INLINE", "INLINE_ORIGIN":
			inFunc = inFunc && w[0] == "INLINE"
		default:
			if n, err := strconv.ParseUint(w[2], 10, 64); err == nil && inFunc && len(w) == 4 {
				rows = append(rows, symRow{hex(w[0]), n, files[w[3]]})
			}
		}
	}
	return funcs, rows
}

// TestBreakpad compares functions and rows with those of Breakpad's dump_syms, of
// which the material has a build. SYMDEPOT_DUMP_SYMS is the program dump_syms of
// Mozilla, if that is to be used instead.
func TestBreakpad(t *testing.T) {
	t.Parallel()
	material := os.Getenv("SYMDEPOT_MATERIAL")
	if material == "" {
		t.Skip("SYMDEPOT_MATERIAL is not set (scripts/material)")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the material has dump_syms for Linux only")
	}
	tool, err := os.ReadFile(filepath.Join(material, "public/npm/minidump/dump_syms"))
	if err != nil {
		t.Skipf("the material lacks Breakpad's dump_syms: run scripts/material: %v", err)
	}
	program := filepath.Join(t.TempDir(), "dump_syms")
	if err := os.WriteFile(program, tool, 0o755); err != nil {
		t.Fatal(err)
	}
	all := 0
	for _, path := range oracleFiles(t) {
		f := openFile(t, path)
		if e, err := objfile.OpenELF(f.Reader, f.Size); err != nil || e.Relocatable() || e.Arch() != "x86_64" {
			continue
		}
		cmd := exec.CommandContext(t.Context(), program, path)
		if rust := os.Getenv("SYMDEPOT_DUMP_SYMS"); rust != "" {
			cmd = exec.CommandContext(t.Context(), rust, "--inlines", path)
		}
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Run(); err != nil {
			continue // a form that it does not know
		}
		funcs, rows := parseSym(out.Bytes())
		b, err := ELF(t.Context(), ELFFiles{Name: filepath.Base(path), Program: f}, Options{NoUnwind: true, Demangle: func(s string) string { return demangle.Name(s, demangle.Options{}) }})
		if err != nil {
			t.Fatal(err)
		}
		table, err := b.Table(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		have := map[uint64]*functab.Function{}
		for fn := range table.Functions() {
			c := *fn
			have[fn.Start] = &c
		}
		var lost, sizes, names, lines []string
		for at, want := range funcs {
			got, ok := have[at]
			switch {
			case !ok:
				lost = append(lost, fmt.Sprintf("%x %x %s", at, want.size, want.name))
			case uint64(got.Size) != want.size:
				sizes = append(sizes, fmt.Sprintf("%x has %x bytes, want %x %s", at, got.Size, want.size, want.name))
			default:
				if shown, raw := table.NameOf(got.Name); shown != want.name && raw != want.name && !got.Multiple {
					names = append(names, fmt.Sprintf("%x %s, want %s", at, shown, want.name))
				}
			}
		}
		for _, r := range rows {
			a, ok := table.Lookup(r.address)
			if !ok || a.Symbol || len(a.Frames) == 0 {
				lines = append(lines, fmt.Sprintf("%x nothing, want %s:%d", r.address, r.file, r.line))
				continue
			}
			if x := a.Frames[0]; r.line != 0 && (uint64(x.Line) != r.line || filepath.Clean(x.File) != filepath.Clean(r.file)) {
				lines = append(lines, fmt.Sprintf("%x %s:%d, want %s:%d", r.address, x.File, x.Line, r.file, r.line))
			}
		}
		var more []string
		for at, fn := range have {
			if _, ok := funcs[at]; !ok {
				name, _ := table.NameOf(fn.Name)
				more = append(more, fmt.Sprintf("%x %x %s, not in the other file", at, fn.Size, name))
			}
		}
		all += len(funcs)
		t.Logf("%s: of %d functions %d lost, %d more, %d sizes, %d names; of %d rows %d differ", filepath.Base(path), len(funcs), len(lost), len(more), len(sizes), len(names), len(rows), len(lines))
		for _, d := range [][]string{lost, more, sizes, names, lines} {
			for _, s := range d[:min(len(d), 4)] {
				t.Log(s)
			}
		}
		if n := len(lost) + len(sizes); 1000*n > len(funcs) {
			t.Errorf("%s: %d of %d functions differ, want 0.1%% at most", path, n, len(funcs))
		}
		if 1000*len(lines) > len(rows) {
			t.Errorf("%s: %d of %d rows differ, want 0.1%% at most", path, len(lines), len(rows))
		}
	}
	if all < 10 {
		t.Errorf("%d functions compared, want 10 at least", all)
	}
}

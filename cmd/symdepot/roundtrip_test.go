package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// tripFiles hold objects of all kinds that layouts have; only a program and its
// dSYM have an id in common.
var tripFiles = []string{
	"pe/x64.exe", "pe/mingw.exe", "pdb/hello-x64.pdb", "rare/jg.pdb", "rare/a.dbg", "ppdb/tiny.pdb", "rare/packed.pdb", "rare/a.ni.r2rmap",
	"elf/prog-sha1", "elf/libprog.so", "elf/e-arm", "macho/app-arm64", "macho/app-arm64.dSYM/Contents/Resources/DWARF/app-arm64", "wasm/w-uuid.wasm", "wasm/w-sha1.wasm",
}

const tripSym = "MODULE windows x86_64 497B72F6390A44FC878E5A2D63B6CC4B1 a.dll\nFUNC 1000 10 0 f\n"

// TestRoundTrip imports the export of each layout into an empty depot, with the
// layout named and detected: all objects and bytes are equal.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	files := []string{filepath.Join(work, "a.dll.sym")}
	if err := os.WriteFile(files[0], []byte(tripSym), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range tripFiles {
		p, err := filepath.Abs(filepath.Join("../../testdata", f))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, p)
	}
	objects := map[string]symfile.Object{} // by what tripKey makes of them
	for _, p := range files {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		found, err := objfile.Identify(strings.NewReader(string(b)), int64(len(b)), p, objfile.Options{})
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %d objects, %v; want no error and 1 in found", p, len(found), err)
		}
		sum := sha256.Sum256(b)
		o := found[0].Object
		objects[tripKey(o.Kind.String(), o.CodeID, o.DebugID.Breakpad(), hex.EncodeToString(sum[:]))] = o
	}
	depot := filepath.Join(work, "depot")
	if code, out, errs := commandtest.Symdepot(t, depot, append([]string{"add", "-p", "Game", "-v", "1"}, files...)...); code != 0 {
		t.Fatalf("add: %d, want 0\n%s%s", code, out, errs)
	}
	if got := depotObjects(t, depot); !slices.Equal(got, slices.Sorted(maps.Keys(objects))) {
		t.Fatalf("the depot holds %q, want the objects of the files %q", got, slices.Sorted(maps.Keys(objects)))
	}
	microsoft := []symfile.Kind{symfile.PE, symfile.PDB, symfile.PDB20, symfile.DBG, symfile.PortablePDB}
	for _, c := range []struct {
		layout string
		flags  []string
		kinds  []symfile.Kind // nil: all that have a path in it
		auto   string         // what is found out
		behind int            // files that stand behind another of the same path
	}{
		{layout: "symstore", kinds: microsoft, auto: "symstore"},
		{layout: "symstore", flags: []string{"--all", "--compress"}, kinds: append(microsoft, symfile.ELF, symfile.MachO, symfile.WASM), auto: "symstore"},
		{layout: "symstore_index2", flags: []string{"--compress"}, kinds: microsoft, auto: "symstore_index2"},
		{layout: "symstore_index2", flags: []string{"--lower"}, kinds: microsoft, auto: "symstore_index2"},
		{layout: "ssqp", auto: "native"}, // with Breakpad files, as the mixed trees of Sentry's servers
		{layout: "ssqp", flags: []string{"--compress"}, auto: "native"},
		{layout: "breakpad", auto: "breakpad"},
		{layout: "unified", auto: "unified"},
		{layout: "unified", flags: []string{"--compress"}, auto: "unified"},
		{layout: "debuginfod", auto: "debuginfod"},
		{layout: "gdb", auto: "gdb"},
		{layout: "lldb", auto: "lldb"},
		{layout: "native", flags: []string{"--compress"}, auto: "native"},
		{layout: "slashsymbols", auto: "slashsymbols", behind: 1},
	} {
		name := strings.TrimSuffix(c.layout+" "+strings.Join(c.flags, " "), " ")
		t.Run(name, func(t *testing.T) {
			l, ok := layout.ByName(c.layout)
			if !ok {
				t.Fatal("no such layout")
			}
			var want []string
			for k, o := range objects {
				if len(l.Paths(o)) > 0 && (c.kinds == nil || slices.Contains(c.kinds, o.Kind)) {
					want = append(want, k)
				}
			}
			slices.Sort(want)
			if len(want) == 0 {
				t.Fatal("nothing goes into it")
			}
			dir := filepath.Join(t.TempDir(), "tree")
			if code, out, errs := commandtest.Symdepot(t, depot, append([]string{"export", "--layout", c.layout, dir}, c.flags...)...); code != 0 {
				t.Fatalf("export: %d, want 0\n%s%s", code, out, errs)
			}
			for _, named := range []string{c.layout, "auto"} {
				back := filepath.Join(t.TempDir(), "depot")
				code, out, errs := commandtest.Symdepot(t, back, "import", "--layout", named, dir)
				if code != 0 || strings.Contains(out, "misplaced") || !strings.Contains(out, "skipped        0 files") {
					t.Errorf("import --layout %s: %d, want 0, no %q in the output and %q in the output\n%s%s", named, code, "misplaced", "skipped        0 files", out, errs)
				}
				if named == "auto" && !strings.Contains(out, "("+c.auto+")") {
					t.Errorf("it is taken for another layout than %s:\n%s", c.auto, out)
				}
				got := depotObjects(t, back)
				missing := slices.DeleteFunc(slices.Clone(want), func(k string) bool { return slices.Contains(got, k) })
				if len(missing) != c.behind || len(got)+c.behind != len(want) {
					t.Errorf("import --layout %s gives\n%s\nwant\n%s", named, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
}

func tripKey(kind, code, debug, sum string) string {
	return fmt.Sprintf("%s %s %s %s", kind, strings.ToLower(code), strings.ToLower(debug), sum)
}

// depotObjects lists the objects of all transactions of a depot, each once.
func depotObjects(t *testing.T, depot string) []string {
	t.Helper()
	set := map[string]bool{}
	for n := 1; ; n++ {
		code, out, errs := commandtest.Symdepot(t, depot, "show", "--json", fmt.Sprint(n))
		if code == 1 && n > 1 {
			return slices.Sorted(maps.Keys(set))
		}
		if code != 0 {
			t.Fatalf("show %d: %d, want 0\n%s", n, code, errs)
		}
		for line := range strings.Lines(out) {
			var f struct{ Kind, CodeID, DebugID, SHA256 string }
			var raw map[string]any
			if err := json.Unmarshal([]byte(line), &raw); err != nil {
				t.Fatalf("%s: json.Unmarshal: error %v, want no error", line, err)
			}
			text := func(k string) string { s, _ := raw[k].(string); return s }
			f.Kind, f.CodeID, f.DebugID, f.SHA256 = text("kind"), text("code_id"), text("debug_id"), text("sha256")
			if f.Kind != "" {
				set[tripKey(f.Kind, f.CodeID, f.DebugID, f.SHA256)] = true
			}
		}
	}
}

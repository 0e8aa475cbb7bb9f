package objtab

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
)

// build compiles the C++ program of testdata/src and links it.
func build(t *testing.T, compiler string, flags ...string) string {
	t.Helper()
	symtest.Tool(t, compiler)
	src, err := filepath.Abs("testdata/src")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var objects []string
	for _, name := range []string{"main", "shapes"} {
		run(t, dir, compiler, append(slices.Clone(flags), "-c", "-o", name+".o", filepath.Join(src, name+".cc"))...)
		objects = append(objects, name+".o")
	}
	run(t, dir, compiler, append(append(slices.Clone(flags), "-Wl,--build-id=sha1", "-o", "prog"), objects...)...)
	return filepath.Join(dir, "prog")
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		symtest.Missing(t, "tools", "%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func elfTable(t *testing.T, files ELFFiles) *functab.Table {
	t.Helper()
	b, err := ELF(t.Context(), files, Options{NoUnwind: true})
	if err != nil {
		t.Fatal(err)
	}
	table, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	compareLookup(t, files, table, Options{NoUnwind: true})
	return table
}

// text is a table in words, to compare two of them.
func text(table *functab.Table) string {
	var s strings.Builder
	for f := range table.Functions() {
		shown, raw := table.NameOf(f.Name)
		fmt.Fprintf(&s, "FUNC %x %x %s %s\n", f.Start, f.Size, shown, raw)
		for _, i := range f.Inlines {
			shown, raw := table.NameOf(i.Name)
			fmt.Fprintf(&s, " INLINE %d %s %s %s:%d %x\n", i.Depth, shown, raw, table.FileName(i.CallFile), i.CallLine, i.Ranges)
		}
		for _, r := range f.Rows {
			fmt.Fprintf(&s, " %x %s:%d\n", r.Start, table.FileName(r.File), r.Line)
		}
	}
	for x := range table.Symbols() {
		shown, _ := table.NameOf(x.Name)
		fmt.Fprintf(&s, "PUBLIC %x %s\n", x.Address, shown)
	}
	return s.String()
}

func diffText(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d: %q, want %q", i+1, x[i], y[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(x), len(y))
}

// TestCompilers reads what real compilers write, in all versions of DWARF, and
// compares it with llvm-symbolizer.
func TestCompilers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs compilers for some seconds: run it without -short")
	}
	symtest.Tool(t, "llvm-symbolizer-19")
	for _, c := range []struct{ compiler, flags string }{
		{"g++", "-O2 -gdwarf-2 -gstrict-dwarf"},
		{"g++", "-O2 -gdwarf-3"},
		{"g++", "-O2 -gdwarf-4"},
		{"g++", "-O2 -gdwarf-5"},
		{"g++", "-O0 -gdwarf-5 -no-pie"},
		{"g++", "-O2 -gdwarf-4 -fdebug-types-section"},
		{"g++", "-O2 -gdwarf-5 -fdebug-types-section -gdwarf64"},
		{"g++", "-O2 -gdwarf-5 -gz=zlib"},
		{"g++", "-O2 -g -flto"},
		{"g++", "-O2 -g -ffunction-sections -Wl,--gc-sections"},
		{"g++", "-O2 -g1"},
		{"clang++-19", "-O2 -gdwarf-4"},
		{"clang++-19", "-O2 -gdwarf-5"},
		{"clang++-19", "-O0 -gdwarf-5"},
		{"clang++-19", "-O2 -gdwarf-5 -fuse-ld=lld -gz=zstd"},
		{"clang++-19", "-O2 -gdwarf-5 -fuse-ld=lld -ffunction-sections -Wl,--gc-sections"},
		{"clang++-19", "-O2 -gmlt"},
		{"clang++-19", "-O2 -g -flto -fuse-ld=lld"},
		{"clang++-19", "-O2 -gdwarf-5 -gdwarf64"},
	} {
		t.Run(c.compiler+" "+c.flags, func(t *testing.T) {
			t.Parallel()
			path := build(t, c.compiler, strings.Fields(c.flags)...)
			f := openFile(t, path)
			table := elfTable(t, ELFFiles{Name: "prog", Program: f})
			e, err := objfile.OpenELF(f.Reader, f.Size)
			if err != nil {
				t.Fatal(err)
			}
			addresses := randomAddresses(e.Code(), 1000, 2)
			want, err := llvmLookup(t.Context(), path, addresses)
			if err != nil {
				t.Fatal(err)
			}
			compared, diffs := differences(table, addresses, want)
			allowed := 0
			if strings.Contains(c.flags, "strict") {
				// Version 2 has no lists of ranges: gcc writes calls whose one range
				// does not contain the calls in them, which we clip.
				allowed = compared / 20
			}
			if len(diffs) > allowed || compared < 100 || len(table.Warnings()) > 0 {
				t.Errorf("%d of %d addresses differ, warnings %q: %s", len(diffs), compared, table.Warnings(), strings.Join(diffs[:min(len(diffs), 5)], "\n"))
			}
		})
	}
}

// TestCompressed: compressed sections give what plain ones give.
func TestCompressed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs compilers for some seconds: run it without -short")
	}
	path := build(t, "g++", "-O2", "-g")
	dir := filepath.Dir(path)
	want := text(elfTable(t, ELFFiles{Name: "prog", Program: openFile(t, path)}))
	for _, how := range []string{"zlib", "zlib-gnu", "zlib-gabi", "zstd"} {
		run(t, dir, "objcopy", "--compress-debug-sections="+how, "prog", how)
		f := openFile(t, filepath.Join(dir, how))
		if got := text(elfTable(t, ELFFiles{Name: "prog", Program: f})); got != want {
			t.Errorf("%s: %s, want equal tables", how, diffText(got, want))
		}
	}
}

// TestSplit: a program with split units and its package, or its .dwo files, gives
// the functions of its plain sibling.
func TestSplit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs compilers for some seconds: run it without -short")
	}
	for _, c := range []struct{ compiler, version string }{{"g++", "4"}, {"g++", "5"}, {"clang++-19", "4"}, {"clang++-19", "5"}} {
		t.Run(filepath.Base(c.compiler)+c.version, func(t *testing.T) {
			t.Parallel()
			plain := elfTable(t, ELFFiles{Name: "prog", Program: openFile(t, build(t, c.compiler, "-O2", "-gdwarf-"+c.version))})
			path := build(t, c.compiler, "-O2", "-gdwarf-"+c.version, "-gsplit-dwarf")
			dir := filepath.Dir(path)
			program := openFile(t, path)
			want := text(plain)
			objects := elfTable(t, ELFFiles{Name: "prog", Program: program, Object: func(name, _ string, _ uint64) (File, error) {
				p := filepath.Join(dir, filepath.Base(name))
				if _, err := os.Stat(p); err != nil {
					return File{}, err
				}
				return openFile(t, p), nil
			}})
			if got := text(objects); got != want {
				t.Errorf("with .dwo files: %s, want equal tables", diffText(got, want))
			}
			run(t, dir, "llvm-dwp-19", "-e", "prog", "-o", "prog.dwp")
			packed := elfTable(t, ELFFiles{Name: "prog", Program: program, Package: openFile(t, filepath.Join(dir, "prog.dwp"))})
			if got := text(packed); got != want {
				t.Errorf("with a package: %s, want equal tables", diffText(got, want))
			}
			alone := elfTable(t, ELFFiles{Name: "prog", Program: program, Object: func(string, string, uint64) (File, error) { return File{}, fs.ErrNotExist }})
			if !strings.Contains(strings.Join(alone.Warnings(), "\n"), "split debug information of 2 units not found") {
				t.Errorf("without the split units: warnings %q, want one about 2 units", alone.Warnings())
			}
		})
	}
}

// TestDwz: a program whose common entries dwz moved to a supplementary file gives
// the same functions as before, also in the form of DWARF 5.
func TestDwz(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs compilers for some seconds: run it without -short")
	}
	symtest.Tool(t, "dwz")
	for form, args := range map[string][]string{"4": {"-m", "common"}, "5": {"-m", "common"}, "5 in .debug_sup": {"--dwarf-5", "-m", "common"}} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			a := build(t, "g++", "-O2", "-gdwarf-"+form[:1])
			want := text(elfTable(t, ELFFiles{Name: "prog", Program: openFile(t, a)}))
			dir := filepath.Dir(a)
			run(t, dir, "cp", "prog", "other")
			run(t, dir, "dwz", append(args, "prog", "other")...)
			program := openFile(t, a)
			got := elfTable(t, ELFFiles{Name: "prog", Program: program, Alternate: openFile(t, filepath.Join(dir, "common"))})
			if s := text(got); s != want || len(got.Warnings()) > 0 {
				t.Errorf("with the supplementary file: %s, want equal tables; warnings %q, want none", diffText(s, want), got.Warnings())
			}
			alone := elfTable(t, ELFFiles{Name: "prog", Program: program})
			if !strings.Contains(strings.Join(alone.Warnings(), "\n"), "supplementary file") {
				t.Errorf("without the supplementary file: warnings %q, want one about it", alone.Warnings())
			}
		})
	}
}

// TestMiniDebugInfo: the symbols in .gnu_debugdata are added to those of .dynsym.
func TestMiniDebugInfo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs compilers for some seconds: run it without -short")
	}
	path := build(t, "g++", "-O2", "-g")
	dir := filepath.Dir(path)
	want := elfTable(t, ELFFiles{Name: "prog", Program: openFile(t, path)})
	run(t, dir, "objcopy", "-S", "--remove-section=.comment", "prog", "stripped")
	run(t, dir, "objcopy", "--only-keep-debug", "prog", "mini")
	run(t, dir, "objcopy", "-g", "mini", "mini2")
	run(t, dir, "xz", "-k", "mini2")
	run(t, dir, "objcopy", "--add-section=.gnu_debugdata=mini2.xz", "stripped", "with-mini")
	got := elfTable(t, ELFFiles{Name: "prog", Program: openFile(t, filepath.Join(dir, "with-mini"))})
	if len(got.Warnings()) > 0 {
		t.Errorf("warnings %q, want none", got.Warnings())
	}
	have := map[uint64]string{}
	for s := range got.Symbols() {
		have[s.Address], _ = got.NameOf(s.Name)
	}
	for f := range want.Functions() {
		if _, ok := have[f.Start]; !ok {
			name, raw := want.NameOf(f.Name)
			t.Errorf("no symbol at %#x, want %s %s", f.Start, name, raw)
		}
	}
}

package sources

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/symfile"
)

// tree copies the sources of the test program and returns the folder of the copy.
func tree(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS("testdata/src")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "build"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func run(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), symtest.Tool(t, args[0]), args[1:]...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, errs.Bytes())
	}
	return string(out)
}

// object opens a file and identifies its one object.
func object(t testing.TB, path string) (*os.File, int64, symfile.Object) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := objfile.Identify(f, info.Size(), filepath.Base(path), objfile.Options{IDs: true})
	if err != nil || len(objects) != 1 {
		t.Fatalf("%s: %d objects, %v, want one", path, len(objects), err)
	}
	return f, info.Size(), objects[0].Object
}

// list lists the source files of a file with one object.
func list(t testing.TB, path string, opt Options) *Listed {
	t.Helper()
	f, size, o := object(t, path)
	l, err := List(t.Context(), f, size, o, opt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// canonical is the set of canonical names in order.
func canonical(names []Name) []string {
	var out []string
	for _, n := range names {
		out = append(out, Canonical(n.Name))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// shown is the set of canonical names that LLVM shows.
func shown(t testing.TB, path string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(run(t, ".", "llvm-dwarfdump-19", "--show-sources", path)) {
		if name := strings.TrimRight(line, "\n"); name != "" && !skip(name) {
			out = append(out, Canonical(name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// differ reports names that are in only one of two sorted lists.
func differ(got, want []string) (more, less []string) {
	for _, s := range got {
		if _, ok := slices.BinarySearch(want, s); !ok {
			more = append(more, s)
		}
	}
	for _, s := range want {
		if _, ok := slices.BinarySearch(got, s); !ok {
			less = append(less, s)
		}
	}
	return more, less
}

// TestCompilers: what real compilers name is what LLVM's reader finds, and has the files of
// the program.
func TestCompilers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ compiler, flags string }{
		{"gcc", "-gdwarf-2 -gstrict-dwarf"},
		{"gcc", "-gdwarf-3"},
		{"gcc", "-gdwarf-4"},
		{"gcc", "-gdwarf-5"},
		{"gcc", "-gdwarf-5 -gdwarf64"},
		{"gcc", "-gdwarf-4 -gz=zlib"},
		{"gcc", "-gdwarf-5 -gz=zlib"},
		{"gcc", "-gdwarf-4 -gsplit-dwarf"},
		{"gcc", "-gdwarf-5 -gsplit-dwarf"},
		{"gcc", "-gdwarf-5 -fdebug-types-section"},
		{"gcc", "-gdwarf-5 -ffile-prefix-map=SRC=/mapped"},
		{"gcc", "-gdwarf-5 -ffile-prefix-map=SRC=mapped"},
		{"gcc", "-gdwarf-4 -ffile-prefix-map=SRC=mapped"},
		{"clang-19", "-gdwarf-4"},
		{"clang-19", "-gdwarf-5"},
		{"clang-19", "-gdwarf-5 -gembed-source"},
		{"clang-19", "-gdwarf-4 -gsplit-dwarf"},
		{"clang-19", "-gdwarf-5 -gsplit-dwarf"},
		{"clang-19", "-gdwarf-5 -gz=zlib"},
	} {
		t.Run(c.compiler+" "+c.flags, func(t *testing.T) {
			t.Parallel()
			dir := tree(t)
			args := append([]string{c.compiler}, strings.Fields(strings.ReplaceAll(c.flags, "SRC", dir))...)
			run(t, filepath.Join(dir, "build"), append(args, "-O1", "-I..", "-o", "prog", "../app/main.c", "../lib/util.c")...)
			l := list(t, filepath.Join(dir, "build/prog"), Options{})
			got := canonical(l.Names)
			more, less := differ(got, shown(t, filepath.Join(dir, "build/prog")))
			if len(more)+len(less) > 0 {
				t.Errorf("LLVM does not have %q, and only LLVM has %q; want equal names", more, less)
			}
			root := dir
			if strings.Contains(c.flags, "SRC=/mapped") {
				root = "/mapped"
			} else if strings.Contains(c.flags, "SRC=mapped") {
				root = "mapped"
			}
			for _, name := range []string{"app/main.c", "lib/util.c", "lib/util.h", "sub dir/odd name+.h"} {
				if !slices.Contains(got, root+"/"+name) {
					t.Errorf("%q has no %s", got, root+"/"+name)
				}
			}
			if l.Incomplete != "" {
				t.Errorf("Incomplete is %q, want none", l.Incomplete)
			}
			checkSums(t, dir, l, strings.HasPrefix(c.compiler, "clang") && strings.Contains(c.flags, "dwarf-5"), strings.Contains(c.flags, "embed"))
		})
	}
}

// checkSums compares the sums and the embedded texts with the files on disk.
func checkSums(t *testing.T, dir string, l *Listed, sums, texts bool) {
	t.Helper()
	for _, n := range l.Names {
		if !strings.HasPrefix(n.Name, dir) {
			continue
		}
		text, err := os.ReadFile(n.Name)
		if err != nil {
			t.Fatal(err)
		}
		check := n.Check()
		check.Write(text)
		want := Unverified
		if sums {
			want = Verified
		}
		if check.Verdict() != want {
			t.Errorf("%s is %v, want %v", n.Name, check.Verdict(), want)
		}
		if (n.Embedded != nil) != texts {
			t.Errorf("%s is embedded: %v, want %v", n.Name, n.Embedded != nil, texts)
		}
		if n.Embedded == nil {
			continue
		}
		r, err := n.Embedded()
		if err != nil {
			t.Fatal(err)
		}
		var have bytes.Buffer
		if _, err := have.ReadFrom(r); err != nil || !bytes.Equal(have.Bytes(), text) {
			t.Errorf("%s: the embedded text has %d bytes, %v, want the %d of the file", n.Name, have.Len(), err, len(text))
		}
	}
}

// TestSplitFiles: files that only split units name, because they have declarations and no
// code, come from the .dwo files or their package.
func TestSplitFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ compiler, version string }{{"gcc", "4"}, {"gcc", "5"}, {"clang-19", "4"}, {"clang-19", "5"}} {
		t.Run(c.compiler+c.version, func(t *testing.T) {
			t.Parallel()
			dir := tree(t)
			build := filepath.Join(dir, "build")
			for _, name := range []string{"app/main", "lib/util"} {
				run(t, build, c.compiler, "-gdwarf-"+c.version, "-gsplit-dwarf", "-O1", "-I..", "-c", "-o", filepath.Base(name)+".o", "../"+name+".c")
			}
			run(t, build, c.compiler, "-o", "prog", "main.o", "util.o")
			path := filepath.Join(build, "prog")
			plain := canonical(list(t, path, Options{}).Names)
			want := plain
			for _, name := range []string{"main.dwo", "util.dwo"} {
				if c.version == "5" { // of version 4 the folder is in the program
					want = append(want, shown(t, filepath.Join(build, name))...)
				}
			}
			slices.Sort(want)
			want = slices.Compact(want)
			open := func(path string) objtab.File {
				f, size, _ := object(t, path)
				return objtab.File{Reader: f, Size: size}
			}
			loose := list(t, path, Options{Others: objtab.ELFFiles{Object: func(name, _ string, _ uint64) (objtab.File, error) {
				return open(filepath.Join(build, filepath.Base(name))), nil
			}}})
			_, less := differ(canonical(loose.Names), want)
			if len(less) > 0 || loose.Incomplete != "" {
				t.Errorf("with .dwo files: lacks %q, incomplete %q, want all", less, loose.Incomplete)
			}
			run(t, build, "llvm-dwp-19", "-e", "prog", "-o", "prog.dwp")
			packed := list(t, path, Options{Others: objtab.ELFFiles{Package: open(filepath.Join(build, "prog.dwp"))}})
			more, less := differ(canonical(packed.Names), canonical(loose.Names))
			if len(more)+len(less) > 0 || packed.Incomplete != "" {
				t.Errorf("with a package: more %q, less %q, incomplete %q, want the same as of .dwo files", more, less, packed.Incomplete)
			}
			for _, name := range canonical(packed.Names) {
				if !strings.HasPrefix(name, "/") {
					t.Errorf("%s is relative, want none", name)
				}
			}
		})
	}
}

// TestRelocatable: compiler output before linking, as modules of the Linux kernel are, names
// its files through relocations.
func TestRelocatable(t *testing.T) {
	t.Parallel()
	dir := tree(t)
	build := filepath.Join(dir, "build")
	src := filepath.Join(dir, "only.c")
	if err := os.WriteFile(src, []byte("#include \"lib/util.h\"\nint f(int n) { return twice(n); }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, path string) {
		t.Helper()
		l := list(t, path, Options{})
		names := canonical(l.Names)
		if want := []string{filepath.Join(dir, "lib/util.h"), src}; !slices.Equal(names, want) || l.Incomplete != "" {
			t.Errorf("%q, incomplete %q, want %q", names, l.Incomplete, want)
		}
	}
	for _, version := range []string{"4", "5"} {
		for _, compressed := range []string{"", "-gz=zlib"} {
			t.Run("gcc "+version+compressed, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(build, "gcc"+version+compressed+".o")
				run(t, build, "gcc", "-c", "-O1", "-gdwarf-"+version, "-g"+strings.TrimPrefix(compressed, "-g"), "-o", path, src)
				check(t, path)
			})
		}
		for _, target := range []string{"x86_64", "i686", "aarch64", "armv7", "riscv64", "riscv32", "powerpc64", "powerpc64le", "powerpc", "s390x", "loongarch64", "sparcv9"} {
			t.Run("clang "+version+" "+target, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(build, target+version+".o")
				run(t, build, "clang-19", "--target="+target+"-linux-gnu", "-c", "-O1", "-gdwarf-"+version, "-o", path, src)
				check(t, path)
			})
		}
	}
}

// TestWASM: modules of WebAssembly name their files.
func TestWASM(t *testing.T) {
	t.Parallel()
	dir := tree(t)
	src := filepath.Join(dir, "only.c")
	if err := os.WriteFile(src, []byte("#include \"lib/util.h\"\nint f(int n) { return twice(n); }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"4", "5"} {
		run(t, dir, "clang-19", "--target=wasm32", "-nostdlib", "-O1", "-gdwarf-"+version, "-c", "-o", "f.o", src)
		run(t, dir, "wasm-ld-19", "--no-entry", "--export-all", "--build-id", "-o", "f.wasm", "f.o")
		path := filepath.Join(dir, "f.wasm")
		if names, want := canonical(list(t, path, Options{}).Names), []string{filepath.Join(dir, "lib/util.h"), src}; !slices.Equal(names, want) {
			t.Errorf("version %s: %q, want %q", version, names, want)
		}
	}
}

// TestDwz: strings that dwz moved to a supplementary file are found there, and without it
// the list says what it lacks.
func TestDwz(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ version, flag string }{{"4", "--dwarf-4"}, {"5", "--dwarf-5"}, {"4", ""}, {"5", ""}} {
		t.Run(c.version+c.flag, func(t *testing.T) {
			t.Parallel()
			dir := tree(t)
			build := filepath.Join(dir, "build")
			for _, name := range []string{"one", "two"} {
				run(t, build, "gcc", "-gdwarf-"+c.version, "-O1", "-I..", "-Wl,--build-id=sha1", "-o", name, "../app/main.c", "../lib/util.c")
			}
			path := filepath.Join(build, "one")
			want := canonical(list(t, path, Options{}).Names)
			args := []string{"dwz", "-m", "common", "one", "two"}
			if c.flag == "--dwarf-5" {
				args = append(args[:1:1], append([]string{c.flag}, args[1:]...)...)
			}
			run(t, build, args...)
			f, size, _ := object(t, filepath.Join(build, "common"))
			l := list(t, path, Options{Others: objtab.ELFFiles{Alternate: objtab.File{Reader: f, Size: size}}})
			if got := canonical(l.Names); !slices.Equal(got, want) || l.Incomplete != "" {
				t.Errorf("with the supplementary file: %q, incomplete %q, want %q", got, l.Incomplete, want)
			}
			alone := list(t, path, Options{})
			if got := canonical(alone.Names); !slices.Equal(got, want) && !strings.Contains(alone.Incomplete, "supplementary") {
				t.Errorf("without it: %q, incomplete %q, want that it is missing, or equal names", got, alone.Incomplete)
			}
			if (alone.Alternate == "") != (alone.Incomplete == "") || l.Alternate != "" {
				t.Errorf("the file that is needed is %q without it and %q with it, want a build-id and none", alone.Alternate, l.Alternate)
			}
			t.Logf("without it: %d of %d names, incomplete %q", len(alone.Names), len(want), alone.Incomplete)
		})
	}
}

// TestCompressedSections: sections that would take too much memory are not decompressed, and
// the list says so.
func TestCompressedSections(t *testing.T) {
	t.Parallel()
	c := &chunks{left: new(int64)}
	*c.left = 3 * chunkSize
	text := bytes.Repeat([]byte("0123456789"), 2*chunkSize/10)
	for p := text; len(p) > 0; p = p[min(len(p), 999):] {
		if _, err := c.Write(p[:min(len(p), 999)]); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range [][2]int{{0, len(text)}, {chunkSize - 3, 7}, {5, 2}, {len(text) - 4, 4}} {
		p := make([]byte, r[1])
		if n, err := c.ReadAt(p, int64(r[0])); n != len(p) || err != nil || !bytes.Equal(p, text[r[0]:r[0]+r[1]]) {
			t.Errorf("ReadAt(%d bytes, %d): %d, %v, want what was written", r[1], r[0], n, err)
		}
	}
	if _, err := c.Write(text); err == nil {
		t.Error("more bytes than are left were written, want an error")
	}
	dir := tree(t)
	path := filepath.Join(dir, "build/prog")
	for _, version := range []string{"4", "5"} {
		run(t, filepath.Join(dir, "build"), "gcc", "-gdwarf-"+version, "-g", "-gz=zlib", "-I..", "-o", "prog", "../app/main.c", "../lib/util.c")
		l := list(t, path, Options{Sections: objfile.SectionOptions{Limit: 16}})
		if len(l.Names) > 0 || !strings.Contains(l.Incomplete, "debug_line") {
			t.Errorf("version %s: %d names, incomplete %q, want none, and the section that is too large", version, len(l.Names), l.Incomplete)
		}
	}
}

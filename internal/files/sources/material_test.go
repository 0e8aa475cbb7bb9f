package sources

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/symfile"
)

// material returns the files of the downloaded material that match a pattern.
func material(t testing.TB, pattern string) []string {
	t.Helper()
	root := os.Getenv("SYMDEPOT_MATERIAL")
	if root == "" {
		return nil
	}
	list, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var pdbutilFile = regexp.MustCompile(`^- \((MD5|SHA-1|SHA-256|None): ([0-9A-F]*)\) (.*)$`)

// pdbFiles returns what LLVM finds: the checksum by name.
func pdbFiles(t testing.TB, path string) map[string]string {
	t.Helper()
	want := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(run(t, ".", "llvm-pdbutil-19", "dump", "--files", path)))
	for lines.Scan() {
		m := pdbutilFile.FindStringSubmatch(strings.TrimRight(lines.Text(), " "))
		if m == nil {
			continue
		}
		alg := strings.TrimSuffix(strings.ReplaceAll(strings.ToLower(m[1]), "-", ""), "none")
		if want[m[3]] == "" || alg != "" {
			want[m[3]] = alg + strings.ToLower(m[2])
		}
	}
	return want
}

// TestPDB: names and checksums of PDBs that Microsoft's and LLVM's linkers made are those
// that LLVM finds.
func TestPDB(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "llvm-pdbutil-19")
	paths, err := filepath.Glob("../../../testdata/pdb/*.pdb")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) != 3 {
		t.Errorf("%q, want the three PDBs of testdata", paths)
	}
	paths = append(paths, material(t, "public/npm/*/win32-x64/*.pdb")...)
	for _, path := range append(paths, material(t, "public/npm/electron-winstaller/*.pdb")...) {
		f, size, o := object(t, path)
		if o.Kind != symfile.PDB {
			continue
		}
		want := pdbFiles(t, path)
		l, err := List(t.Context(), f, size, o, Options{})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		got := map[string]string{}
		for _, n := range l.Names {
			got[n.Name] = n.Alg + hex.EncodeToString(n.Sum)
		}
		for name, sum := range want {
			if have, ok := got[name]; !skip(name) && (!ok || have != sum) {
				other := ""
				for n, s := range got { // the same path in other letters, which comes first
					if Canonical(n) == Canonical(name) {
						other = s
					}
				}
				if other != sum {
					t.Errorf("%s: %q has the sum %q, want %q", path, name, have, sum)
				}
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				t.Errorf("%s: LLVM does not have %q", path, name)
			}
		}
		t.Logf("%s: %d files, Source Link %d bytes, source index %d bytes %s", filepath.Base(path), len(got), len(l.Links), len(l.Srcsrv), l.Incomplete)
		if l.Incomplete != "" {
			t.Errorf("%s is incomplete: %s", path, l.Incomplete)
		}
	}
}

// TestInjected: files and streams that a linker puts into a PDB are found.
func TestInjected(t *testing.T) {
	t.Parallel()
	dir := tree(t)
	build := filepath.Join(dir, "build")
	texts := map[string]string{
		"Types.natvis": "<AutoVisualizer/>\n", "index.txt": "SRCSRV: ini\r\n",
		"one.json": `{"documents":{"C:\\a\\*":"https://a.example/*","/x":"https://x.example"}}`,
		"two.json": `{"documents":{"C:\\b\\*":"https://b.example/*"}}`,
	}
	for name, s := range texts {
		if err := os.WriteFile(filepath.Join(build, name), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "win.c"), []byte("int entry(void) { return 1; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, build, "clang-19", "--target=x86_64-pc-windows-msvc", "-g", "-gcodeview", "-c", filepath.Join(dir, "win.c"))
	run(t, build, "lld-link-19", "/nodefaultlib", "/entry:entry", "/subsystem:console", "/debug", "/natvis:Types.natvis", "/pdbstream:srcsrv=index.txt",
		"/pdbstream:sourcelink$1=two.json", "/pdbstream:sourcelink=one.json", "/out:win.exe", "win.o")
	l := list(t, filepath.Join(build, "win.pdb"), Options{})
	if string(l.Srcsrv) != texts["index.txt"] {
		t.Errorf("the source index is %q, want %q", l.Srcsrv, texts["index.txt"])
	}
	if want := `{"documents":{"/x":"https://x.example","C:\\a\\*":"https://a.example/*","C:\\b\\*":"https://b.example/*"}}`; string(l.Links) != want {
		t.Errorf("Source Link is %s, want %s", l.Links, want)
	}
	var names []string
	for i, n := range l.Names {
		names = append(names, n.Name)
		if strings.HasSuffix(n.Name, "natvis") == (n.Embedded == nil) {
			t.Errorf("%s is embedded: %v, want only the visualizer", n.Name, n.Embedded != nil)
		}
		if strings.HasSuffix(n.Name, "win.c") && n.Alg != "md5" {
			t.Errorf("%s has the algorithm %q, want md5", n.Name, l.Names[i].Alg)
		}
	}
	if len(names) != 2 {
		t.Errorf("%q, want the source file and the visualizer", names)
	}
	var text bytes.Buffer
	refused, err := l.Extract(t.Context(), func(_ int, r io.Reader) error {
		_, err := text.ReadFrom(r)
		return err
	})
	if err != nil || len(refused) > 0 || text.String() != texts["Types.natvis"] {
		t.Errorf("the embedded texts are %q, %v, refused %v; want the visualizer", text.String(), err, refused)
	}
}

// TestFixtures: the files of testdata, of formats that are not made here.
func TestFixtures(t *testing.T) {
	t.Parallel()
	open := func(path string) objtab.File {
		f, size, _ := object(t, path)
		return objtab.File{Reader: f, Size: size}
	}
	for _, c := range []struct {
		path       string
		others     objtab.ELFFiles
		want       string // one of the names
		incomplete string
	}{
		{"macho/app-arm64.dSYM/Contents/Resources/DWARF/app-arm64", objtab.ELFFiles{}, "/m.c", ""},
		{"pe/mingw.exe", objtab.ELFFiles{}, "tiny.c", ""},
		{"pe/mingw.debug", objtab.ELFFiles{}, "tiny.c", ""},
		{"elf/prog-zlib", objtab.ELFFiles{}, "prog.c", ""},
		{"elf/prog-zstd", objtab.ELFFiles{}, "prog.c", ""},
		{"elf/e-ppc64-be", objtab.ELFFiles{}, "/entry.c", ""},
		{"elf/e-mips-be", objtab.ELFFiles{}, "/entry.c", ""},
		{"join/dwz", objtab.ELFFiles{Alternate: open("../../../testdata/join/shared.debug")}, "/usr/src/join/first.c", ""},
		{"join/split", objtab.ELFFiles{Package: open("../../../testdata/join/split.dwp")}, "/usr/src/join/first.c", ""},
		{"ppdb/lines.pdb", objtab.ELFFiles{}, "", ""},
	} {
		l := list(t, filepath.Join("../../../testdata", c.path), Options{Others: c.others})
		if l.Incomplete != c.incomplete || len(l.Names) == 0 || !slices.ContainsFunc(l.Names, func(n Name) bool { return strings.HasSuffix(n.Name, c.want) }) {
			t.Errorf("%s: %q, incomplete %q, want a name that ends in %q, incomplete %q", c.path, canonical(l.Names), l.Incomplete, c.want, c.incomplete)
		}
	}
	for _, path := range []string{"elf/prog-sha1.stripped", "pe/x64.exe", "macho/app-arm64"} {
		f, size, o := object(t, filepath.Join("../../../testdata", path))
		if l, err := List(t.Context(), f, size, o, Options{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %+v, %v, want fs.ErrNotExist", path, l, err)
		}
	}
	for _, path := range material(t, "public/npm/fable/*.pdb") {
		l := list(t, path, Options{})
		sums := 0
		for _, n := range l.Names {
			if n.Alg != "" {
				sums++
			}
		}
		t.Logf("%s: %d names, %d sums, Source Link %d bytes", filepath.Base(path), len(l.Names), sums, len(l.Links))
		if len(l.Names) == 0 || sums == 0 || l.Incomplete != "" {
			t.Errorf("%s: %d names, %d sums, incomplete %q; want some and none", path, len(l.Names), sums, l.Incomplete)
		}
	}
}

// TestAll: all programs of testdata and of the material with line tables that LLVM reads
// name the files that it finds.
func TestAll(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("reads all material: run it without -short")
	}
	var paths []string
	for _, root := range []string{"../../../testdata", "../../../objtab/testdata", os.Getenv("SYMDEPOT_MATERIAL")} {
		if root == "" {
			continue
		}
		if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				paths = append(paths, path)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	compared := 0
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		found, err := objfile.Identify(f, info.Size(), filepath.Base(path), objfile.Options{IDs: true})
		if err == nil && len(found) == 1 && slices.Contains([]symfile.Kind{symfile.ELF, symfile.MachO, symfile.PE, symfile.WASM}, found[0].Kind) {
			l, err := List(t.Context(), f, info.Size(), found[0].Object, Options{})
			if err == nil {
				compared++
				theirs := slices.DeleteFunc(shown(t, path), func(s string) bool { return filepath.Ext(s) == "" || strings.Contains(s, "/@/") })
				_, less := differ(canonical(l.Names), theirs)
				if len(less) > 0 && l.Incomplete == "" {
					t.Errorf("%s: of %d names lacks %d that LLVM has: %q", path, len(theirs), len(less), less[:min(len(less), 5)])
				}
				t.Logf("%s: %d names, LLVM %d %s", path, len(l.Names), len(theirs), l.Incomplete)
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", path, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if compared < 10 {
		t.Errorf("%d files compared, want 10 at least", compared)
	}
}

// TestGo: programs of Go name their files, with and without -trimpath.
func TestGo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds programs: run it without -short")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]string{"go.mod": "module example.com/mod/prog\n\ngo 1.26\n", "main.go": "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(1) }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root := strings.TrimSpace(run(t, dir, "go", "env", "GOROOT"))
	for _, c := range []struct{ flag, main, std string }{
		{"-trimpath=false", filepath.Join(dir, "main.go"), filepath.Join(root, "src/fmt/print.go")},
		{"-trimpath", "example.com/mod/prog/main.go", "fmt/print.go"},
	} {
		for _, goos := range []string{"linux", "darwin", "windows"} {
			t.Run(c.flag+" "+goos, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "prog")
				cmd := exec.CommandContext(t.Context(), "go", "build", c.flag, "-o", path, ".")
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "GOFLAGS=", "CGO_ENABLED=0")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				l := list(t, path, Options{})
				names := canonical(l.Names)
				for _, want := range []string{c.main, c.std} {
					if !slices.Contains(names, want) {
						t.Errorf("%d names, without %s", len(names), want)
					}
				}
				if l.Incomplete != "" {
					t.Errorf("Incomplete is %q, want none", l.Incomplete)
				}
				if goos != "linux" {
					return // LLVM does not decompress the sections of other formats
				}
				theirs := slices.DeleteFunc(shown(t, path), func(s string) bool { return filepath.Ext(s) == "" }) // packages without code
				if more, less := differ(names, theirs); len(more)+len(less) > 0 {
					t.Errorf("LLVM does not have %q, and only LLVM has %q; want equal names", more, less)
				}
			})
		}
	}
}

// TestRust: programs of Rust name their files and those of the standard library.
func TestRust(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds programs: run it without -short")
	}
	dir := tree(t)
	if err := os.WriteFile(filepath.Join(dir, "main.rs"), []byte("fn main() { println!(\"{}\", std::env::args().count()); }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "rustc", "-g", "-o", "build/prog", "main.rs")
	path := filepath.Join(dir, "build/prog")
	l := list(t, path, Options{})
	names := canonical(l.Names)
	if !slices.Contains(names, filepath.Join(dir, "main.rs")) || l.Incomplete != "" {
		t.Errorf("%d names, incomplete %q; want main.rs among them, and no more to come", len(names), l.Incomplete)
	}
	if more, less := differ(names, shown(t, path)); len(more)+len(less) > 0 {
		t.Errorf("LLVM does not have %q, and only LLVM has %q; want equal names", more, less)
	}
}

// TestSrcfiles: the list is that of eu-srcfiles, except for what it is known to leave out:
// the first file of clang in version 5, and split units.
func TestSrcfiles(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "eu-srcfiles")
	for _, flags := range []string{"-gdwarf-4", "-gdwarf-5"} {
		dir := tree(t)
		run(t, filepath.Join(dir, "build"), "gcc", flags, "-I..", "-o", "prog", "../app/main.c", "../lib/util.c")
		path := filepath.Join(dir, "build/prog")
		var want []string
		for name := range strings.FieldsSeq(strings.ReplaceAll(run(t, dir, "eu-srcfiles", "-e", path), " ", "\x01")) {
			want = append(want, Canonical(strings.ReplaceAll(name, "\x01", " ")))
		}
		slices.Sort(want)
		if more, less := differ(canonical(list(t, path, Options{}).Names), slices.Compact(want)); len(more)+len(less) > 0 {
			t.Errorf("gcc %s: eu-srcfiles does not have %q, and only it has %q; want equal names", flags, more, less)
		}
	}
}

package public

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// program has functions that call each other without frame pointers, of which one is static.
const program = `#include <stdlib.h>
struct secret_type { int secret_member; };
static volatile struct secret_type static_object;
int global_object = 4;
static __attribute__((noipa)) int inner(volatile int *secret_local) { if (*secret_local < 0) abort(); return *secret_local + static_object.secret_member; }
__attribute__((noipa)) int outer(int secret_parameter) { volatile int x = secret_parameter; int y = inner(&x); return y + x; }
static __attribute__((noipa)) int compare(const void *a, const void *b) { return outer(-*(const int *)a) + *(const int *)b; }
int main(int argc, char **argv) { int a[3] = {argc + 2, 3, global_object}; qsort(a, 3, sizeof *a, compare); return a[0]; }
`

// run runs a program, which must succeed, and returns its output.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), symtest.Tool(t, name), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// writeFile writes the public form of a file beside it.
func writeFile(t *testing.T, out, path string, o Options) Report {
	t.Helper()
	r, texts, err := WriteFile(out, path, o, true)
	if err != nil || len(texts) > 0 {
		t.Fatalf("%s: %v, private texts %+v", path, err, texts)
	}
	return r
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var frameLine = regexp.MustCompile(`(?m)^#\d+ +(?:0x[0-9a-f]+ in )?(\w+)(?:\[cold\])? \(([^)]*)\)`)

// TestELFJudges: gdb walks through frames without frame pointers with the public form, and names
// the same functions as with the private file; binutils, elfutils and LLVM read it.
func TestELFJudges(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gcc", "objcopy", "gdb", "nm", "readelf", "eu-unstrip", "eu-addr2line", "eu-stack", "llvm-symbolizer-19", "lldb-19"} {
		symtest.Tool(t, name)
	}
	for name, flags := range map[string][]string{
		"eh_frame":    {"-fasynchronous-unwind-tables"},
		"debug_frame": {"-fno-asynchronous-unwind-tables", "-fno-exceptions"}, // only .debug_frame has the rules
		"compressed":  {"-fno-asynchronous-unwind-tables", "-gz=zlib"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			symtest.Put(t, dir, "prog.c", []byte(program))
			run(t, dir, "gcc", append(slices.Clone(flags), "-O2", "-g", "-fomit-frame-pointer", "-Wl,--build-id=sha1", "-o", "prog", "prog.c")...)
			run(t, dir, "objcopy", "--only-keep-debug", "prog", "prog.debug")
			run(t, dir, "objcopy", "--strip-all", "prog", "prog.stripped")
			path := func(name string) string { return filepath.Join(dir, name) }
			writeFile(t, path("public.debug"), path("prog.debug"), Options{})
			writeFile(t, path("public"), path("prog"), Options{})
			if err := os.Chmod(path("public"), 0o700); err != nil {
				t.Fatal(err)
			}
			judgeELF(t, dir)
			id := identify(t, readFile(t, path("prog")))[0].BuildID
			symtest.Put(t, dir, ".build-id/"+string(id[:2])+"/"+string(id[2:])+".debug", readFile(t, path("public.debug")))
			trace := func(args ...string) []string {
				out := run(t, dir, "gdb", append([]string{"-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "run", "-ex", "backtrace"}, args...)...)
				var names []string
				for _, m := range frameLine.FindAllStringSubmatch(out, -1) {
					if !slices.Contains([]string{"inner", "outer", "compare", "main"}, m[1]) {
						continue // of the C library
					}
					names = append(names, m[1])
					if (m[2] != "") != (args[len(args)-1] == "prog") {
						t.Errorf("gdb %v: the arguments of %s are %q", args, m[1], m[2])
					}
				}
				return names
			}
			want := trace("prog")
			if !slices.Equal(want, []string{"inner", "outer", "compare", "main"}) {
				t.Fatalf("the frames of the private program are %q", want)
			}
			if got := trace("public"); !slices.Equal(got, want) {
				t.Errorf("the frames of the public program are %q, want %q", got, want)
			}
			if got := trace("-iex", "set debug-file-directory "+dir, "prog.stripped"); !slices.Equal(got, want) {
				t.Errorf("the frames with the public debug file are %q, want %q", got, want)
			}
			judgeCore(t, dir, want)
		})
	}
}

// coreFrame is a frame as eu-stack and lldb print it; lldb has parameters, or the distance from the
// function, behind the name.
var coreFrame = regexp.MustCompile(`(?m)^(?:#\d+ +0x[0-9a-f]+ |.* frame #\d+: 0x[0-9a-f]+ \S+\x60)(inner|outer|compare|main)\b(?:\.cold)?(.*)$`)

// judgeCore compares the frames that elfutils and lldb find in a core file with the private program
// and with its public forms.
func judgeCore(t *testing.T, dir string, want []string) {
	t.Helper()
	run(t, dir, "gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "run", "-ex", "generate-core-file core", "prog")
	frames := func(args ...string) (names []string, rest string) {
		for _, m := range coreFrame.FindAllStringSubmatch(run(t, dir, args[0], args[1:]...), -1) {
			names, rest = append(names, m[1]), rest+m[2]+"\n"
		}
		return names, rest
	}
	lldb := func(target string) []string {
		return []string{"lldb-19", "--no-lldbinit", "--batch", "-o", "settings set symbols.enable-external-lookup false", "-o", "target create --core core " + target, "-o", "bt"}
	}
	for name, tool := range map[string][]string{
		"elfutils, program":    {"eu-stack", "--core=core", "--executable=public"},
		"elfutils, debug file": {"eu-stack", "--core=core", "--executable=prog.stripped", "--debuginfo-path=" + dir},
		"lldb, program":        lldb("public"),
		"lldb, debug file":     lldb("--symfile public.debug prog.stripped"),
	} {
		if got, rest := frames(tool...); !slices.Equal(got, want) || strings.Contains(rest, "prog.c") || strings.Contains(rest, "secret") {
			t.Errorf("%s: the frames of the core file are %q, and behind their names\n%s\nwant %q without lines and parameters", name, got, rest, want)
		}
	}
	// With .debug_frame only, lldb does not find the caller of an artificial frame of the C library in the private program.
	if got, rest := frames(lldb("prog")...); len(got) < 3 || !slices.Equal(got, want[:len(got)]) || !strings.Contains(rest, "prog.c:") {
		t.Errorf("lldb, private program: the frames of the core file are %q, and behind their names\n%s\nwant the first of %q with lines", got, rest, want)
	}
}

// busy computes for a while in a static function, without frame pointers.
const busy = `static __attribute__((noipa)) unsigned spin(unsigned n) { unsigned x = 1; for (unsigned i = 0; i < n; i++) x = x * 1664525 + 1013904223; return x; }
__attribute__((noipa)) unsigned middle(unsigned n) { return spin(n) + 1; }
int main(int argc, char **argv) { return middle(200000000u * argc) == 0; }
`

// TestELFPerf: perf names the functions of samples, and walks from them to main, with the public form of a
// program.
func TestELFPerf(t *testing.T) {
	t.Parallel()
	if symtest.Judge(t, "perf") == "" {
		t.Skip("needs perf (Debian package linux-perf)")
	}
	dir := t.TempDir()
	symtest.Put(t, dir, "busy.c", []byte(busy))
	run(t, dir, "gcc", "-O2", "-g", "-fomit-frame-pointer", "-Wl,--build-id=sha1", "-o", "busy", "busy.c")
	writeFile(t, filepath.Join(dir, "public"), filepath.Join(dir, "busy"), Options{})
	if err := os.Chmod(filepath.Join(dir, "public"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"busy", "public"} {
		cmd := exec.CommandContext(t.Context(), "perf", "record", "-q", "-e", "cpu-clock", "-F", "199", "--call-graph", "dwarf,1024", "-o", program+".data", "./"+program)
		cmd.Dir = dir
		// The names that perf keeps of earlier programs are in the home folder.
		cmd.Env = append(os.Environ(), "HOME="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("needs the permission to sample with perf: %v\n%s", err, out)
		}
		out := run(t, dir, "perf", "--no-pager", "--buildid-dir", dir, "script", "-i", program+".data", "-F", "ip,sym,srcline")
		chain := regexp.MustCompile(`(?m)^\s+[0-9a-f]+ spin\n.*\n\s+[0-9a-f]+ middle\n.*\n\s+[0-9a-f]+ main\n`)
		if n := len(chain.FindAllString(out, -1)); n == 0 || strings.Contains(out, "busy.c:") != (program == "busy") {
			t.Errorf("%s: perf script prints %d samples of spin, middle and main, and the output\n%.2000s\nwant some, and lines of the private program only", program, n, out)
		}
	}
}

// judgeELF compares what binutils, elfutils and LLVM find in private files and their public forms.
func judgeELF(t *testing.T, dir string) {
	t.Helper()
	symbols := func(file string) map[string]string {
		all := map[string]string{}
		for line := range strings.Lines(run(t, dir, "nm", "-P", file)) {
			if f := strings.Fields(line); len(f) >= 3 && strings.ContainsAny(f[1], "tTdDbBrRiVW") {
				all[f[0]] = f[1] + f[2]
			}
		}
		return all
	}
	for private, public := range map[string]string{"prog": "public", "prog.debug": "public.debug"} {
		was, is := symbols(private), symbols(public)
		for name, place := range is {
			if was[name] != place {
				t.Errorf("nm %s: %s is %s, want %s", public, name, place, was[name])
			}
		}
		for _, name := range []string{"inner", "outer", "compare", "main", "static_object", "global_object"} {
			if is[name] == "" {
				t.Errorf("nm %s: no %s", public, name)
			}
		}
		if out := run(t, dir, "readelf", "-aW", public); strings.Contains(out, "secret") || strings.Contains(out, "readelf: Warning") {
			t.Errorf("readelf %s:\n%s", public, out)
		}
		address := "0x" + was["outer"][1:]
		out := run(t, dir, "llvm-symbolizer-19", "-e", public, address)
		if !strings.HasPrefix(out, "outer\n??:0:0") {
			t.Errorf("llvm-symbolizer %s %s prints %q, want outer without a line", public, address, out)
		}
	}
	for _, public := range []string{"public", "public.debug"} {
		address := "0x" + symbols(public)["inner"][1:]
		if out := run(t, dir, "eu-addr2line", "-f", "-e", public, address); out != "inner\n??:0\n" {
			t.Errorf("eu-addr2line %s %s prints %q, want inner without a line", public, address, out)
		}
	}
	run(t, dir, "eu-unstrip", "-o", "joined", "prog.stripped", "public.debug")
	if is := symbols("joined"); is["inner"] == "" || is["main"] == "" {
		t.Errorf("eu-unstrip joins the public debug file to %v", is)
	}
}

// TestMachOJudges: LLVM reads the public forms of Mach-O files: the same symbols, imports and
// unwind rules, no lines.
func TestMachOJudges(t *testing.T) {
	t.Parallel()
	objdump := symtest.Tool(t, "llvm-objdump-19")
	lookup := symtest.Tool(t, "llvm-symbolizer-19")
	dir := t.TempDir()
	for i, name := range []string{"app-arm64", "app-fat", "app-fat64", "app-arm64.dSYM/Contents/Resources/DWARF/app-arm64", "app-fat.dSYM/Contents/Resources/DWARF/app-fat"} {
		private, err := filepath.Abs(filepath.Join("../testdata/macho", name))
		if err != nil {
			t.Fatal(err)
		}
		public := filepath.Join(dir, strings.Repeat("p", i+1))
		writeFile(t, public, private, Options{})
		dump := func(path string, args ...string) string {
			var b bytes.Buffer
			cmd := exec.CommandContext(t.Context(), objdump, append([]string{"--macho"}, append(args, path)...)...)
			cmd.Stdout, cmd.Stderr = &b, &b
			if err := cmd.Run(); err != nil {
				t.Fatalf("llvm-objdump %v %s: %v\n%s", args, path, err, b.String())
			}
			return strings.ReplaceAll(b.String(), path, "FILE")
		}
		what := []string{"--indirect-symbols", "--unwind-info", "--function-starts", "--exports-trie", "--dylibs-used"}
		if is, was := dump(public, what...), dump(private, what...); is != was {
			t.Errorf("%s: llvm-objdump prints\n%s\nwant\n%s", name, is, was)
		}
		if heads := dump(public, "--private-headers"); strings.Contains(heads, "__DWARF") || strings.Contains(heads, "past end of file") {
			t.Errorf("%s: llvm-objdump prints\n%s", name, heads)
		}
		judgeMachO(t, dir, private, public)
		arch := "--default-arch=arm64"
		symbols := func(path string) string {
			return run(t, dir, filepath.Base(lookup), arch, "-e", path, "--functions=linkage", "main", "0x100000000")
		}
		if out := symbols(public); strings.Contains(out, ".c:") {
			t.Errorf("%s: llvm-symbolizer prints lines:\n%s", name, out)
		}
	}
}

// judgeMachO compares what llvm-dwarfdump, llvm-nm and lldb find in a private file and in its public form.
func judgeMachO(t *testing.T, dir, private, public string) {
	t.Helper()
	uuids := func(path string) string {
		return strings.ReplaceAll(run(t, dir, "llvm-dwarfdump-19", "--uuid", path), path, "FILE")
	}
	if was, is := uuids(private), uuids(public); is != was || !strings.Contains(is, "UUID: ") {
		t.Errorf("llvm-dwarfdump --uuid %s prints\n%s\nwant\n%s", private, is, was)
	}
	if out := run(t, dir, "llvm-dwarfdump-19", "--debug-info", "--debug-line", public); strings.Contains(out, "DW_TAG") || strings.Contains(out, "file_names") {
		t.Errorf("llvm-dwarfdump of the public form of %s prints\n%s", private, out)
	}
	// Functions, as FILE: ADDRESS KIND NAME, without stabs.
	functions := func(path string) (list []string) {
		for line := range strings.Lines(run(t, dir, "llvm-nm-19", "--arch=all", "--print-file-name", path)) {
			if _, s, _ := strings.Cut(line, ": "); strings.Contains(strings.ToUpper(s), " T ") {
				list = append(list, s)
			}
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	if was, is := functions(private), functions(public); !slices.Equal(is, was) || len(is) == 0 {
		t.Errorf("llvm-nm of the public form of %s prints the functions\n%q\nwant\n%q", private, is, was)
	}
	lookup := func(path string) string {
		return run(t, dir, "lldb-19", "--no-lldbinit", "--batch", "-o", "settings set symbols.enable-external-lookup false",
			"-o", "target create --arch arm64 "+path, "-o", "image lookup --verbose --regex --name .")
	}
	named := regexp.MustCompile(`(?m)^ +Summary: .*\x60(\w+)`)
	names := func(out string) (list []string) {
		for _, m := range named.FindAllStringSubmatch(out, -1) {
			list = append(list, m[1])
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	out := lookup(public)
	if was, is := names(lookup(private)), names(out); !slices.Equal(is, was) || len(is) == 0 || strings.Contains(out, "LineEntry:") || strings.Contains(out, "Variable:") {
		t.Errorf("lldb finds in the public form of %s the functions %q, and prints\n%s\nwant %q without lines and variables", private, is, out, was)
	}
}

// TestWASMJudge: LLVM names the same functions in a public form.
func TestWASMJudge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	private, err := filepath.Abs("../testdata/wasm/w-sha1.wasm")
	if err != nil {
		t.Fatal(err)
	}
	public := filepath.Join(dir, "public.wasm")
	writeFile(t, public, private, Options{})
	out := run(t, dir, "llvm-objdump-19", "-t", public)
	for _, name := range []string{"helper", "run", "__wasm_call_ctors"} {
		if !regexp.MustCompile(`(?m) F CODE\s+[0-9a-f]+ ` + name + `$`).MatchString(out) {
			t.Errorf("llvm-objdump prints\n%s\nwant a function %s", out, name)
		}
	}
	if strings.Contains(out, ".debug") {
		t.Errorf("llvm-objdump prints\n%s\nwant no debug sections", out)
	}
}

// TestPEJudge: binutils and LLVM read the public form of an image of MinGW.
func TestPEJudge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, functions := range map[string][]string{"mingw.exe": {"twice", "entry"}, "mingw32.exe": {"_leaf", "_outer"}, "mingw.debug": {"twice", "entry"}} {
		private, err := filepath.Abs("../testdata/pe/" + name)
		if err != nil {
			t.Fatal(err)
		}
		public := filepath.Join(dir, name)
		writeFile(t, public, private, Options{})
		out, was := run(t, dir, "nm", public), run(t, dir, "nm", private)
		for line := range strings.Lines(out) {
			if !strings.Contains(was, line) {
				t.Errorf("nm %s prints %q, which it does not of the private file", name, line)
			}
		}
		for _, f := range functions {
			if !strings.Contains(out, " T "+f+"\n") {
				t.Errorf("nm %s prints\n%s\nwant the function %s", name, out, f)
			}
		}
		if out := run(t, dir, "llvm-readobj-19", "--sections", public); strings.Contains(out, ".debug_info") || !strings.Contains(out, "_frame") {
			t.Errorf("llvm-readobj %s prints\n%s\nwant only the frames of the debug sections", name, out)
		}
	}
}

// TestGSYMJudge: LLVM reads the public form of a GSYM file that it has made.
func TestGSYMJudge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	elf, err := filepath.Abs("../testdata/elf/prog-sha1")
	if err != nil {
		t.Fatal(err)
	}
	run(t, dir, "llvm-gsymutil-19", "--convert", elf, "--out-file", "private.gsym")
	writeFile(t, filepath.Join(dir, "public.gsym"), filepath.Join(dir, "private.gsym"), Options{})
	lookup := func(file string) string {
		return run(t, dir, "llvm-gsymutil-19", "--address=0x113c", "--address=0x1139", file)
	}
	was, is := lookup("private.gsym"), lookup("public.gsym")
	if !strings.Contains(was, "prog.c:6") || !strings.Contains(is, "main") || !strings.Contains(is, "crash_here") || strings.Contains(is, "prog.c") {
		t.Errorf("llvm-gsymutil prints\n%s\nof the private file, and of the public one\n%s", was, is)
	}
}

package dump

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

var builders = []elfBuilder{{binary.LittleEndian, true}, {binary.LittleEndian, false}, {binary.BigEndian, true}, {binary.BigEndian, false}}

// libraryCore is a core of a program with a library, data files and the
// kernel's page of code.
func libraryCore(e elfBuilder) coreFile {
	lib := e.image(slices.Concat(id20[1:], []byte{0xff}), "libx.so.1")
	return coreFile{elfBuilder: e, machine: 62, maps: []coreMap{
		{addr: 0x400000, size: 0x1000, flags: 4, path: "/usr/bin/prog", memory: e.image(id20, "")},
		{addr: 0x401000, size: 0x1000, flags: 5, path: "/usr/bin/prog", page: 1},
		{addr: 0x402000, size: 0x2000, flags: 6, path: "/usr/bin/prog", page: 2, memory: make([]byte, 0x2000)},
		{addr: 0x500000, size: 0x1000, flags: 6, memory: []byte("heap")},
		{addr: 0x600000, size: 0x1000, flags: 4, path: "/usr/lib/locale/locale-archive", memory: []byte("\x09\x01\x02\xde")},
		{addr: 0x610000, size: 0x1000, flags: 4, path: "/var/cache/unseen"},
		{addr: 0x700000, size: 0x1000, flags: 4, path: "/usr/lib/libx.so.1.2 (deleted)", memory: lib},
		// A small library's data segment begins with the same page of its file.
		{addr: 0x702000, size: 0x2000, flags: 6, path: "/usr/lib/libx.so.1.2 (deleted)", memory: lib},
		{addr: 0x720000, size: 0x1000, flags: 4, path: "/usr/lib/libx.so.1.2 (deleted)", memory: lib}, // and once more
		{addr: 0x800000, size: 0x1000, flags: 5, path: "/opt/hidden/libhidden"},                       // its memory is not in the dump
		{addr: 0x810000, size: 0x1000, flags: 4, path: "/opt/net/App.DLL"},
		{addr: 0x900000, size: 0x5000, flags: 4, path: "/data/app/base.apk", memory: []byte("PK\x03\x04")},
		{addr: 0x910000, size: 0x4000, flags: 5, path: "/data/app/base.apk", page: 77, memory: e.image(id20[:8], "libapk.so")},
		{addr: 0xa00000, size: 0x1000, flags: 5, memory: e.image(id20[4:], "linux-vdso.so.1")},
	}}
}

func TestCore(t *testing.T) {
	libID := debugid.NewBuildID(slices.Concat(id20[1:], []byte{0xff}))
	want := []Module{
		{Path: "/usr/bin/prog", Name: "prog", Base: 0x400000, Size: 0x4000, BuildID: debugid.NewBuildID(id20)},
		{Path: "/usr/lib/libx.so.1.2", Name: "libx.so.1.2", Base: 0x700000, Size: 0x4000, BuildID: libID},
		{Path: "/usr/lib/libx.so.1.2", Name: "libx.so.1.2", Base: 0x720000, Size: 0x4000, BuildID: libID},
		{Path: "/opt/hidden/libhidden", Name: "libhidden", Base: 0x800000, Size: 0x1000},
		{Path: "/opt/net/App.DLL", Name: "App.DLL", Base: 0x810000, Size: 0x1000},
		{Path: "/data/app/base.apk", Name: "base.apk", Base: 0x910000, Size: 0x4000, BuildID: debugid.NewBuildID(id20[:8])},
		{Path: "linux-vdso.so.1", Name: "linux-vdso.so.1", Base: 0xa00000, Size: 0x4000, BuildID: debugid.NewBuildID(id20[4:])},
	}
	for _, e := range builders {
		d, err := read(libraryCore(e).bytes())
		if err != nil {
			t.Fatal(err)
		}
		if d.Kind != ELFCore || d.Arch != "x86_64" || d.OS != "linux" || d.BigEndian != (e.order == binary.BigEndian) || !d.Time.IsZero() || len(d.Problems) > 0 {
			t.Errorf(`%v: got %+v, want Kind %v, Arch "x86_64", OS "linux", BigEndian (e.order == binary.BigEndian), d.Time.IsZero(), Problems of length 0`, e, d, ELFCore)
		}
		if !reflect.DeepEqual(d.Modules, want) {
			t.Errorf("%v:\n got %+v\nwant %+v", e, d.Modules, want)
		}
	}
}

// TestCoreWithoutList: without a list of files, the images are named by their
// own content, if possible.
func TestCoreWithoutList(t *testing.T) {
	for _, e := range builders {
		c := libraryCore(e)
		c.noList = true
		d, err := read(c.bytes())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range d.Modules {
			got = append(got, m.Name+" "+string(m.BuildID))
		}
		libID := string(debugid.NewBuildID(slices.Concat(id20[1:], []byte{0xff})))
		want := []string{" " + string(debugid.NewBuildID(id20)), "libx.so.1 " + libID, "libx.so.1 " + libID, "libapk.so " + string(debugid.NewBuildID(id20[:8])), "linux-vdso.so.1 " + string(debugid.NewBuildID(id20[4:]))}
		if !reflect.DeepEqual(got, want) || len(d.Problems) != 1 || !strings.Contains(d.Problems[0], "no list") {
			t.Errorf("%v: %q, %q; want %q", e, got, d.Problems, want)
		}
	}
}

// TestCorePE: .NET on Linux maps assemblies, which are PE images.
func TestCorePE(t *testing.T) {
	image := peImage(0xdd52998f, 0x8000, true, peRecord{typ: 2, stamp: 5, minor: 0x504d, data: rsds(guid1, 1, "/src/App.pdb")})
	c := coreFile{elfBuilder: builders[0], machine: 183, maps: []coreMap{{addr: 0x7000, size: 0x3000, flags: 4, path: "/app/App.dll", memory: image}}}
	d, err := read(c.bytes())
	if err != nil {
		t.Fatal(err)
	}
	want := []Module{{Path: "/app/App.dll", Name: "App.dll", Base: 0x7000, Size: 0x8000, Code: debugid.PE{TimeDateStamp: 0xdd52998f, SizeOfImage: 0x8000},
		Debug: []Debug{{Path: "/src/App.pdb", Name: "App.pdb", ID: debugid.ID{GUID: guid1, Age: 5}, Portable: true}}}}
	if !reflect.DeepEqual(d.Modules, want) || d.Arch != "arm64" {
		t.Errorf("got %+v, want %+v", d, want)
	}
}

func TestCoreDamaged(t *testing.T) {
	whole := libraryCore(builders[0]).bytes()
	notes := 64 + 56*15
	files := notes + 12 + 8 + 100 // the second note
	for _, tt := range []struct {
		name    string
		change  func(p []byte) []byte
		modules int // -1: ErrBroken
		say     string
	}{
		{"header", func(p []byte) []byte { return p[:60] }, -1, "file header"},
		{"no segments", func(p []byte) []byte { copy(p[56:], u16(0)); return p }, -1, "no program headers"},
		{"segments gone", func(p []byte) []byte { return p[:64+20] }, -1, "program headers"},
		{"entry size", func(p []byte) []byte { copy(p[54:], u16(57)); return p }, -1, "file header"},
		{"too many", func(p []byte) []byte { copy(p[56:], u16(manySegs)); copy(p[40:], u64(1<<40)); return p }, -1, "counts the segments"},
		// Without any memory each file that is executable or named like code is listed.
		{"memory gone", func(p []byte) []byte {
			return p[:bytes.Index(p, []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03"))]
		}, 5, "truncated"},
		{"half the segments", func(p []byte) []byte { return p[:64+56*8] }, 0, "ends after 8"},
		{"notes cut", func(p []byte) []byte { return p[:files+30] }, 0, "cut short"},
		{"list cut", func(p []byte) []byte { return p[:files+20+16+13*24+40] }, 1, "ends after 3"},
		{"count", func(p []byte) []byte { copy(p[files+20:], u64(1<<40)); return p }, 5, "counts 1099511627776"},
		{"note size", func(p []byte) []byte { copy(p[notes:], u32(1<<31)); return p }, 5, "damaged"},
	} {
		d, err := read(tt.change(slices.Clone(whole)))
		if tt.modules < 0 {
			if d != nil || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("%s: %v, %v; want %s", tt.name, d, err, tt.say)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: got error %v, want no error", tt.name, err)
			continue
		}
		if len(d.Modules) != tt.modules || !strings.Contains(strings.Join(d.Problems, "\n"), tt.say) {
			t.Errorf("%s: %+v, %q; want %d, %s", tt.name, d.Modules, d.Problems, tt.modules, tt.say)
		}
	}
}

// TestManySegments: more than 65534 segments are counted in section 0.
func TestManySegments(t *testing.T) {
	c := coreFile{elfBuilder: builders[0], machine: 62}
	for i := range uint64(70000) {
		c.maps = append(c.maps, coreMap{addr: 0x1000 * i, size: 0x1000, flags: 4})
	}
	c.maps = append(c.maps, coreMap{addr: 0x7f0000000000, size: 0x1000, flags: 5, path: "/usr/bin/prog", memory: c.image(id20, "")})
	p := c.bytes()
	copy(p[40:], u64(uint64(len(p))))
	copy(p[56:], u16(manySegs))
	section := make([]byte, 64)
	copy(section[44:], u32(uint32(len(c.maps)+1)))
	d, err := read(append(p, section...))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Modules) != 1 || d.Modules[0].BuildID != debugid.NewBuildID(id20) || len(d.Problems) > 0 {
		t.Errorf("got %+v, want Modules of length 1, Modules[0].BuildID debugid.NewBuildID(id20), Problems of length 0", d)
	}
}

const (
	realProgramID = "00112233445566778899aabbccddeeff00112233"
	realLibraryID = "a1b2c3d4e5f60718"
)

// buildReal compiles a program with a library, which says "ready" and then
// waits for its standard input; at "die" it aborts.
func buildReal(t *testing.T) (dir string) {
	t.Helper()
	gcc := symtest.Tool(t, "gcc")
	dir = t.TempDir()
	for name, text := range map[string]string{
		"lib.c": "int answer(void) { return 42; }\n",
		"prog.c": `#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
int answer(void);
int main(void) {
	char line[16];
	prctl(PR_SET_PTRACER, -1L, 0, 0, 0);
	printf("ready %d\n", answer());
	fflush(stdout);
	if (fgets(line, sizeof line, stdin) && line[0] == 'd') abort();
	return 0;
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-g", "-Wl,--build-id=0x" + realLibraryID, "-o", "libanswer.so", "lib.c"},
		{"-g", "-Wl,--build-id=0x" + realProgramID, "-o", "prog", "prog.c", "./libanswer.so"},
	} {
		cmd := exec.Command(gcc, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			symtest.Missing(t, "tools", "gcc %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// startReal starts the program, waits until it is ready, and returns it with
// its standard input.
func startReal(t *testing.T, dir string, command ...string) (*exec.Cmd, *bufio.Writer) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready 42\n" {
		t.Fatalf(`ReadString('\n'): %q, error %v; want %q`, line, err, "ready 42\n")
	}
	return cmd, bufio.NewWriter(in)
}

// checkReal holds what a core of the program must list.
func checkReal(t *testing.T, core, dir string) {
	t.Helper()
	f, err := os.Open(core)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	d, err := Read(f, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	if d.Kind != ELFCore || d.OS != "linux" || d.Arch == "" || len(d.Problems) > 0 {
		t.Errorf(`got %s, %s, %s, %q; want %v, "linux", not "", length 0`, d.Kind, d.OS, d.Arch, d.Problems, ELFCore)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]debugid.BuildID{}
	for _, m := range d.Modules {
		if m.BuildID == "" || m.Base == 0 || m.Size == 0 {
			t.Errorf(`got %+v, want BuildID not "", Base not 0, Size not 0`, m)
		}
		if _, twice := found[m.Path]; twice {
			t.Errorf("%s is listed twice", m.Path)
		}
		found[m.Path] = m.BuildID
	}
	if found[filepath.Join(real, "prog")] != realProgramID || found[filepath.Join(real, "libanswer.so")] != realLibraryID {
		t.Errorf(`got %v, want found[filepath.Join(real, "prog")] %v, found[filepath.Join(real, "libanswer.so")] %v`, found, realProgramID, realLibraryID)
	}
	compareUnstrip(t, core, d)
}

// compareUnstrip compares with what elfutils finds in the same core, where
// elfutils is installed.
func compareUnstrip(t *testing.T, core string, d *Dump) {
	t.Helper()
	tool := symtest.Judge(t, "eu-unstrip")
	if tool == "" {
		t.Log("not compared with eu-unstrip, which is not installed")
		return
	}
	out, err := exec.Command(tool, "-n", "--core="+core).Output()
	if err != nil {
		t.Fatalf("eu-unstrip: %v", err)
	}
	var theirs, ours []string
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] != "-" {
			id, _, _ := strings.Cut(fields[1], "@")
			theirs = append(theirs, id)
		}
	}
	for _, m := range d.Modules {
		ours = append(ours, string(m.BuildID))
	}
	slices.Sort(theirs)
	slices.Sort(ours)
	if !slices.Equal(theirs, ours) {
		t.Errorf("elfutils finds %q, we find %q; want the same", theirs, ours)
	}
}

func TestGcore(t *testing.T) {
	gcore := symtest.Tool(t, "gcore")
	dir := buildReal(t)
	cmd, _ := startReal(t, dir, filepath.Join(dir, "prog"))
	dump := exec.Command(gcore, "-o", filepath.Join(dir, "c"), strconv.Itoa(cmd.Process.Pid))
	dump.Env = append(os.Environ(), "DEBUGINFOD_URLS=", "HOME="+dir)
	if out, err := dump.CombinedOutput(); err != nil {
		symtest.Missing(t, "debuggers", "gcore may not trace here: %v\n%s", err, out)
	}
	checkReal(t, filepath.Join(dir, "c."+strconv.Itoa(cmd.Process.Pid)), dir)
}

func TestKernelCore(t *testing.T) {
	dir := buildReal(t)
	cmd, in := startReal(t, dir, "/bin/sh", "-c", "ulimit -c unlimited && exec "+filepath.Join(dir, "prog"))
	if _, err := in.WriteString("die\n"); err != nil || in.Flush() != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the program did not abort")
	}
	cores, err := filepath.Glob(filepath.Join(dir, "core*"))
	if err != nil || len(cores) == 0 {
		t.Skip("needs a kernel that writes core files beside the program (sysctl kernel.core_pattern=core)")
	}
	checkReal(t, cores[0], dir)
}

// realDumps are the dumps of one kind among the material named by
// SYMDEPOT_MATERIAL, small ones only.
func realDumps(t testing.TB, kind Kind) map[string][]byte {
	t.Helper()
	root := os.Getenv("SYMDEPOT_MATERIAL")
	if root == "" {
		return nil
	}
	found := map[string][]byte{}
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Ext(p) != ".dmp" {
			return err
		}
		b, err := os.ReadFile(p)
		if err == nil && Detect(b) == kind {
			found[p] = b
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestMaterial reads real minidumps: of each module something is known.
func TestMaterial(t *testing.T) {
	dumps := realDumps(t, Minidump)
	if len(dumps) == 0 {
		t.Skip("needs minidumps, files named *.dmp (set SYMDEPOT_MATERIAL to a folder that has some)")
	}
	for p, b := range dumps {
		d, err := read(b)
		if err != nil {
			t.Errorf("%s: read: error %v, want no error", p, err)
			continue
		}
		for _, m := range d.Modules {
			if m.Name == "" || !m.HasID() {
				t.Errorf(`%s, %+v, want Name not "", m.HasID()`, p, m)
			}
		}
	}
}

// TestCorePESection: an assembly of .NET whose first page is only where one of its sections is mapped is one
// module, which begins where its file does. Without such a section, each copy of the first page is an image.
func TestCorePESection(t *testing.T) {
	t.Parallel()
	const base, section, start = 0x7000_0000, 0x10000, 0x80 + 24 + 240 + 12 // of the section table: its address
	for _, tt := range []struct {
		what  string
		first []byte // the memory where the file begins
		at    uint32 // where the section is, by the table
		want  []uint64
	}{
		{"of a section", nil, section + 0x400, []uint64{base}},
		{"of another image", nil, section + 0x1400, []uint64{base, base + section}},
		{"of the section and of the start", peImage(0x5f000001, 0x40000, false)[:0x1000], section + 0x400, []uint64{base}},
	} {
		image := peImage(0x5f000001, 0x40000, false)[:0x1000]
		copy(image[start:], u32(tt.at))
		c := coreFile{elfBuilder: builders[0], machine: 62, maps: []coreMap{
			{addr: base, size: 0x1000, flags: 4, path: "/app/App.dll", memory: tt.first},
			{addr: base + section, size: 0x2000, flags: 6, path: "/app/App.dll", memory: image},
			{addr: base + 0x20000, size: 0x8000, flags: 5, path: "/app/App.dll", page: 2},
		}}
		d, err := read(c.bytes())
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for _, m := range d.Modules {
			got = append(got, m.Base)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("the first page %s: modules at %#x, want %#x", tt.what, got, tt.want)
			continue
		}
		if m := d.Modules[len(d.Modules)-1]; m.Code.String() != "5F00000140000" || m.Size != 0x40000 {
			t.Errorf("the first page %s: code id %s, %#x bytes; want 5F00000140000, 0x40000", tt.what, m.Code, m.Size)
		}
	}
}

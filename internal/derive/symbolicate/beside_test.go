package symbolicate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/unwind"
)

// place copies files of testdata into a new folder, some under other names
// ("testdata name" or "testdata name=new name").
func place(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, n := range names {
		from, to, ok := strings.Cut(n, "=")
		if !ok {
			to = filepath.Base(from)
		}
		b, err := os.ReadFile(filepath.Join("../../../testdata", from))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOpenLocalJoins: debug information in several local files is joined; what is
// missing or does not fit is said, and gives no line.
func TestOpenLocalJoins(t *testing.T) {
	t.Parallel()
	const inFirst = "area_of_the_shape /usr/src/join/area.h:3, sum_of_the_scene /usr/src/join/area.h:7, first /usr/src/join/first.c:3"
	for _, tt := range []struct {
		name    string
		files   []string
		program string
		rva     uint64
		want    string
		missing string // part of the warnings; empty: none
	}{
		{"package", []string{"join/split", "join/split.dwp"}, "split", 0x1010, inFirst, ""},
		{".dwo files", []string{"join/split", "join/first.dwo", "join/second.dwo"}, "split", 0x1010, inFirst, ""},
		{"one of two .dwo files", []string{"join/split", "join/first.dwo"}, "split", 0x1010, inFirst, "split debug information of 1 units not found: second.dwo"},
		{"no split units", []string{"join/split"}, "split", 0x1010, "first :0", "split debug information of 2 units not found: first.dwo, second.dwo"},
		{"a package of another program", []string{"join/split", "elf/prog-split.dwp=split.dwp"}, "split", 0x1010, "first :0", "split.dwp is not the package of"},
		{"a .dwo file of another unit", []string{"join/split", "join/second.dwo", "join/second.dwo=first.dwo"}, "split", 0x1010, "first :0", "split debug information of 1 units not found: first.dwo"},
		{"supplementary file", []string{"join/dwz", "join/shared.debug"}, "dwz", 0x1010, inFirst, ""},
		{"supplementary file of DWARF 5", []string{"join/dwz5", "join/shared5.debug"}, "dwz5", 0x1010, inFirst, ""},
		{"no supplementary file of DWARF 5", []string{"join/dwz5"}, "dwz5", 0x1010, "", "supplementary file shared5.debug with the build-id 5d39a69b10f5b4b43f2da707b3603ccf06a50526 is missing"},
		{"another supplementary file of DWARF 5", []string{"join/dwz5", "join/shared.debug=shared5.debug"}, "dwz5", 0x1010, "", "but 5d39a69b10f5b4b43f2da707b3603ccf06a50526 is needed"},
		{"no supplementary file", []string{"join/dwz"}, "dwz", 0x1010, "", "supplementary file shared.debug with the build-id cd7a07dac867804683d246311969b81dd2235d6a is missing"},
		{"another supplementary file", []string{"join/dwz", "elf/prog-sha1.debug=shared.debug"}, "dwz", 0x1010, "", "but cd7a07dac867804683d246311969b81dd2235d6a is needed"},
		{"debug link", []string{"elf/prog-sha1.stripped=prog", "elf/prog-sha1.debug=.debug/prog-sha1.debug"}, "prog", 0x113f, "add /usr/src/symdepot-src/prog.c:4, main /usr/src/symdepot-src/prog.c:6", ""},
		{"debug link to another file", []string{"elf/prog-sha1.stripped=prog", "join/shared.debug=prog-sha1.debug"}, "prog", 0x113f, "", "is not the debug file of"},
		{"DWARF in a PE file", []string{"pe/mingw.exe"}, "mingw.exe", 0x1000, "*:", ""},
		{"debug file of a PE file", []string{"pe/mingw-stripped.exe=mingw.exe", "pe/mingw.debug=mingw.exe.debug"}, "mingw.exe", 0x1000, "*:", ""},
		{"debug link of a PE file without id", []string{"pe/link32.exe", "pe/link32.dbg"}, "link32.exe", 0x1000, "*:", ""},
		{"debug link of a PE file to another file", []string{"pe/link32.exe", "pe/link64.dbg=link32.dbg"}, "link32.exe", 0x1000, "", "is not the debug file of"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := place(t, tt.files...)
			m, _, err := OpenLocal(t.Context(), filepath.Join(dir, tt.program), "")
			if err != nil {
				t.Fatal(err)
			}
			a, ok := m.Lookup(tt.rva)
			var got []string
			for _, l := range a.Frames {
				got = append(got, l.Function+" "+l.File+":"+strconv.Itoa(int(l.Line)))
			}
			text := strings.Join(got, ", ")
			switch {
			case tt.want == "*:": // any function with a line
				if !ok || strings.HasSuffix(text, ":0") || strings.HasPrefix(text, "<") {
					t.Errorf("answer %q, want a function with a line", text)
				}
			case tt.want != "" && text != tt.want:
				t.Errorf("answer %q, want %q", text, tt.want)
			case tt.want == "" && strings.Contains(text, "area_of_the_shape"):
				t.Errorf("answer %q, but the name is in the file that is missing", text)
			}
			missing := strings.Join(m.Missing, "\n")
			for i, w := range m.Missing {
				if slices.Contains(m.Missing[:i], w) {
					t.Errorf("warning %q is repeated", w)
				}
			}
			if tt.missing == "" && missing != "" || !strings.Contains(missing, tt.missing) {
				t.Errorf("warnings %q, want %q", missing, tt.missing)
			}
		})
	}
}

// TestOpenFilesNamed: a program of MinGW without id and its debug file are one module in
// either order, and files of two programs are not.
func TestOpenFilesNamed(t *testing.T) {
	t.Parallel()
	dir := place(t, "pe/link64.exe", "pe/link64.dbg", "pe/link32.exe", "pe/link32.dbg")
	for files, want := range map[string]string{
		"link64.exe link64.dbg": "link64.exe+link64.dbg", "link64.dbg link64.exe": "link64.exe+link64.dbg",
		"link32.dbg link64.dbg link64.exe link32.exe": "link64.exe+link64.dbg link32.exe+link32.dbg",
	} {
		var paths []string
		for _, n := range strings.Fields(files) {
			paths = append(paths, filepath.Join(dir, n))
		}
		f, err := OpenFiles(t.Context(), paths)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range f.Modules {
			var names []string
			for _, p := range g {
				names = append(names, p.Object.Name)
			}
			got = append(got, strings.Join(names, "+"))
		}
		if text := strings.Join(got, " "); text != want || len(f.Warnings) > 0 {
			t.Errorf("%s: modules %q, warnings %q; want %q, none", files, text, f.Warnings, want)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestReadRefuses: files that do not belong together are refused with both ids.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		files []string
		is    error
	}{
		{[]string{"pdb/hello-x64.pdb", "pdb/hello-arm64.exe"}, unwind.ErrMismatch},
		{[]string{"elf/prog-sha1.debug", "join/split"}, objtab.ErrMismatch},
	} {
		var inputs []Input
		var ids []string
		for _, name := range tt.files {
			f, err := os.Open(filepath.Join("../../../testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			in := Input{f, info.Size(), filepath.Base(name)}
			parts, err := Identify(in)
			if err != nil {
				t.Fatal(err)
			}
			inputs, ids = append(inputs, in), append(ids, idOf(parts[0]))
		}
		_, err := Read(t.Context(), inputs)
		if !errors.Is(err, tt.is) || !isBadSource(err) {
			t.Errorf("%v: %v, want %v as an error of the files", tt.files, err, tt.is)
			continue
		}
		for _, id := range ids {
			if !strings.Contains(err.Error(), id) {
				t.Errorf("%v: %v, want it to have the id %s", tt.files, err, id)
			}
		}
	}
}

// TestDamagedUnit: of a debug file with a damaged unit, the symbol file has what is
// sound, says what is left out, and gives no line for the rest.
func TestDamagedUnit(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../testdata/join/dwz")
	if err != nil {
		t.Fatal(err)
	}
	shared, err := os.ReadFile("../../../testdata/join/shared.debug")
	if err != nil {
		t.Fatal(err)
	}
	info, _, err := objfile.ELFSection(bytes.NewReader(b), int64(len(b)), ".debug_info")
	if err != nil {
		t.Fatal(err)
	}
	read := func() (*functab.Table, string) {
		t.Helper()
		table, err := Read(t.Context(), []Input{{bytes.NewReader(b), int64(len(b)), "dwz"}, {bytes.NewReader(shared), int64(len(shared)), "shared.debug"}})
		if err != nil {
			t.Fatal(err)
		}
		var sym strings.Builder
		if err := Write(t.Context(), &sym, Breakpad, table); err != nil {
			t.Fatal(err)
		}
		return table, sym.String()
	}
	var second uint64
	table, sym := read()
	for f := range table.Functions() {
		if name, _ := table.NameOf(f.Name); name == "second" {
			second = f.Start
		}
	}
	if a, ok := table.Lookup(second); second == 0 || !ok || a.Frames[0].Line == 0 || strings.Contains(sym, "INFO WARNING") {
		t.Fatalf("the sound file: %+v at %#x, want a line of the function second and no warning:\n%s", a, second, sym)
	}
	// The abbreviation of the first entry of the last unit, behind a header of 12 bytes.
	at := info
	for {
		next := at + 4 + int64(binary.LittleEndian.Uint32(b[at:]))
		if next+4 > int64(len(b)) || binary.LittleEndian.Uint16(b[next+4:]) != 5 {
			break
		}
		at = next
	}
	b[at+12] = 0x7f
	table, sym = read()
	if !strings.Contains(sym, "\nINFO WARNING ") || !strings.Contains(sym, "damaged") || !strings.Contains(sym, " first\n") {
		t.Errorf("the symbol file lacks the sound function or the warning:\n%s", sym)
	}
	if a, ok := table.Lookup(second); ok && a.Frames[0].Line != 0 {
		t.Errorf("a line of the damaged unit: %+v", a)
	}
	if a, ok := table.Lookup(0x1010); !ok || len(a.Frames) != 3 || a.Frames[2].Line != 3 {
		t.Errorf("the sound unit: %+v, want three functions", a)
	}
}

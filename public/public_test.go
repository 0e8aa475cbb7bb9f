package public

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/breakpad"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/gsym"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/symfile"
)

// sampleFiles returns the symbol files of the repository and, if it is there, of the material, by
// their paths.
func sampleFiles(tb testing.TB, kinds ...string) map[string][]byte {
	tb.Helper()
	all := map[string][]byte{}
	roots := []string{}
	for _, kind := range kinds {
		roots = append(roots, "../testdata/"+kind)
	}
	if m := os.Getenv("SYMDEPOT_MATERIAL"); m != "" && !testing.Short() && slices.Contains(kinds, "material") {
		roots = append(slices.DeleteFunc(roots, func(s string) bool { return s == "../testdata/material" }), filepath.Join(m, "public"))
	}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
				return nil
			}
			if err == nil {
				all[path], err = os.ReadFile(path)
			}
			return err
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	return all
}

// table returns the function table of a program of the repository.
func table(tb testing.TB) *functab.Table {
	tb.Helper()
	p := symtest.Testdata(tb, "elf/prog-sha1")
	b, err := objtab.ELF(tb.Context(), objtab.ELFFiles{Name: "prog", Program: objtab.File{Reader: bytes.NewReader(p), Size: int64(len(p))}}, objtab.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	t, err := b.Table(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// symFile returns the Breakpad symbol file of a program of the repository.
func symFile(tb testing.TB) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := breakpad.WriteSym(&b, table(tb)); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// gsymFile returns the GSYM file of a program of the repository.
func gsymFile(tb testing.TB) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := gsym.Write(&b, table(tb)); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// mustWrite returns the public form of a file.
func mustWrite(tb testing.TB, p []byte, o Options) ([]byte, Report) {
	tb.Helper()
	var b bytes.Buffer
	r, err := Write(&b, bytes.NewReader(p), int64(len(p)), o)
	if err != nil {
		tb.Fatal(err)
	}
	return b.Bytes(), r
}

// privateTexts returns the private texts in a public form.
func privateTexts(tb testing.TB, private, public []byte, o Options) []PrivateText {
	tb.Helper()
	list, err := PrivateTexts(bytes.NewReader(private), int64(len(private)), bytes.NewReader(public), int64(len(public)), o)
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

// identify returns the objects in a file, without what a public form changes.
func identify(tb testing.TB, p []byte) []objfile.Object {
	tb.Helper()
	list, err := objfile.Identify(bytes.NewReader(p), int64(len(p)), "a", objfile.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return slices.DeleteFunc(list, func(o objfile.Object) bool { return o.Kind == symfile.PortablePDB })
}

// TestForms: the public forms of all real files have the ids of these, neither debug information nor private
// texts, and are the public forms of themselves.
func TestForms(t *testing.T) {
	t.Parallel()
	files := sampleFiles(t, "elf", "macho", "pe", "wasm", "material")
	files["a.sym"], files["a.gsym"] = symFile(t), gsymFile(t)
	made, private := 0, int64(0)
	for path, p := range files {
		for _, o := range []Options{{}, {Undecorated: true}, {Exported: true}, {Hide: []string{"*a*"}, Module: "mod"}} {
			var b bytes.Buffer
			r, err := Write(&b, bytes.NewReader(p), int64(len(p)), o)
			if errors.Is(err, ErrPrivate) {
				if b.Len() > 0 {
					t.Errorf("%s: %d bytes were written beside the error %v", path, b.Len(), err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			made++
			public := b.Bytes()
			if r.Size != int64(len(public)) || r.PrivateSize != int64(len(p)) {
				t.Errorf("%s: the report has the sizes %d and %d, want %d and %d", path, r.PrivateSize, r.Size, len(p), len(public))
			}
			if again, _ := mustWrite(t, p, o); !bytes.Equal(again, public) {
				t.Errorf("%s: two public forms differ", path)
			}
			var of bytes.Buffer
			switch _, err := Write(&of, bytes.NewReader(public), r.Size, o); {
			case o.Exported && errors.Is(err, ErrPrivate): // a public PDB does not say which names are exported
			case o.Undecorated && r.Kind == symfile.PDB: // a name without decoration is not decorated for the second time
			case err != nil || !bytes.Equal(of.Bytes(), public):
				t.Errorf("%s %+v: the public form of the public form differs from it: %v", path, o, err)
			}
			if list := privateTexts(t, p, public, o); len(list) > 0 {
				t.Errorf("%s %+v: the public form has the private texts %+v", path, o, list)
			}
			if filepath.Ext(path) != ".gsym" {
				compareObjects(t, path, p, public)
			}
			if r.Kind == symfile.ELF {
				checkSections(t, path, public)
			}
			if r.Kind == symfile.ELF && len(r.Removed) > 0 && r.Removed[0].Kind == RemovedDebug && len(privateTexts(t, p, p, o)) > 0 {
				private++
			}
		}
	}
	if made < 100 || private < 20 {
		t.Errorf("%d public forms, and %d private files with private texts; want 100 and 20 at least", made, private)
	}
}

// checkSections checks that an ELF file has no debug sections but those that are public. The names are
// written here once more, because the proof of a public form goes by the same rule as what writes it.
func checkSections(t *testing.T, path string, public []byte) {
	t.Helper()
	f, err := objfile.OpenELF(bytes.NewReader(public), int64(len(public)))
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	for _, s := range f.SectionHeaders() {
		switch name := strings.TrimPrefix(s.Name, ".z"); {
		case name == ".debug_frame" || name == "debug_frame" || name == ".debug_gdb_scripts" || !s.InFile():
		case strings.Contains(name, "debug_") || strings.HasPrefix(name, ".stab"):
			t.Errorf("%s: the public form has the section %s", path, s.Name)
		}
	}
}

// compareObjects compares what is in a private file with what is in its public form.
func compareObjects(t *testing.T, path string, private, public []byte) {
	t.Helper()
	was, is := identify(t, private), identify(t, public)
	if len(was) != len(is) {
		t.Errorf("%s: %d objects in the public form, want %d", path, len(is), len(was))
		return
	}
	for i, o := range is {
		w := was[i]
		if o.CodeID != w.CodeID || o.DebugID != w.DebugID || o.BuildID != w.BuildID || o.Arch != w.Arch || o.Kind != w.Kind {
			t.Errorf("%s: the public form is %+v, want the ids of %+v", path, o.Object, w.Object)
		}
		if o.Kind != symfile.Breakpad && o.Features.Debug || o.Features.Unwind != w.Features.Unwind {
			t.Errorf("%s: the features of the public form are %v, of the private file %v", path, o.Features.Words(), w.Features.Words())
		}
	}
}

// functions returns the names of functions by their addresses.
func functions(t *testing.T, p []byte) map[uint64][]string {
	t.Helper()
	all := map[uint64][]string{}
	add := func(base uint64) func(s objfile.CodeSymbol) error {
		return func(s objfile.CodeSymbol) error {
			all[s.Address-base] = append(all[s.Address-base], s.Name)
			return nil
		}
	}
	for _, o := range identify(t, p) {
		part := io.NewSectionReader(bytes.NewReader(p), o.Offset, o.Size)
		var err error
		switch o.Kind {
		case symfile.ELF:
			e, openErr := objfile.OpenELF(part, o.Size)
			if err = openErr; err == nil {
				err = e.CodeSymbols(false, add(0))
			}
		case symfile.MachO:
			m, openErr := objfile.OpenMachO(part, o.Size)
			if err = openErr; err == nil {
				err = errors.Join(m.CodeSymbols(add(0)), m.Exports(add(1<<63)), m.FunctionStarts(func(a uint64) error { all[a] = append(all[a], ""); return nil }))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, names := range all {
		slices.Sort(names)
	}
	return all
}

// TestFunctions: the public form has the same functions at the same addresses, and of labels of
// assembly language the global ones.
func TestFunctions(t *testing.T) {
	t.Parallel()
	compared := 0
	for path, p := range sampleFiles(t, "elf", "macho", "material") {
		var b bytes.Buffer
		if _, err := Write(&b, bytes.NewReader(p), int64(len(p)), Options{}); err != nil {
			continue
		}
		was, is := functions(t, p), functions(t, b.Bytes())
		for address, names := range is {
			if !slices.Equal(names, was[address]) {
				t.Errorf("%s: %#x has the names %q, want %q", path, address, names, was[address])
			}
			compared++
		}
		for address, names := range was {
			if len(is[address]) == 0 && !strings.HasPrefix(names[0], "_") && names[0] != "" {
				t.Errorf("%s: %#x lacks the names %q", path, address, names)
			}
		}
	}
	if compared < 100 {
		t.Errorf("%d functions compared, want 100 at least", compared)
	}
}

// TestPrivate: what has no public form is refused with an error of its kind.
func TestPrivate(t *testing.T) {
	t.Parallel()
	elf := symtest.Testdata(t, "elf/prog-sha1.debug")
	core := bytes.Clone(elf)
	core[16] = 4
	for name, c := range map[string]struct {
		content []byte
		want    error
	}{
		"text":                {[]byte("any text"), ErrPrivate},
		"empty":               {nil, ErrPrivate},
		"portable PDB":        {symtest.Testdata(t, "ppdb/lines.pdb"), ErrNothingPublic},
		"object file, ELF":    {symtest.Testdata(t, "elf/split.dwo"), ErrPrivate},
		"object file, Mach-O": {symtest.Testdata(t, "macho/m-arm64.o"), ErrPrivate},
		"core":                {core, ErrPrivate},
		"truncated":           {elf[:len(elf)/2], objfile.ErrBroken},
		"sym without names":   {[]byte("MODULE Linux x86_64 AA45ACAD1B2331BA43D7AF433767C61F0 prog\nFILE 0 a.c\n"), ErrNothingPublic},
		"sym without module":  {[]byte("MODULE Linux\n"), ErrPrivate},
		"GSYM":                {[]byte("MYSG\x01"), objfile.ErrBroken},
	} {
		var b bytes.Buffer
		_, err := Write(&b, bytes.NewReader(c.content), int64(len(c.content)), Options{})
		if !errors.Is(err, c.want) || b.Len() > 0 {
			t.Errorf("%s: error %v and %d bytes, want %v and none", name, err, b.Len(), c.want)
		}
	}
	for name, p := range map[string][]byte{"sym": symFile(t), "GSYM": gsymFile(t)} {
		if _, err := Write(io.Discard, bytes.NewReader(p), int64(len(p)), Options{Exported: true}); !errors.Is(err, ErrPrivate) {
			t.Errorf("%s, exported names: error %v, want ErrPrivate", name, err)
		}
	}
}

// TestBreakpad: a symbol file line by line.
func TestBreakpad(t *testing.T) {
	t.Parallel()
	const private = "MODULE windows x86 4C70B8C9113B1B3A9AB4D2F1AA7B11C31f a b.pdb\r\n" +
		"INFO CODE_ID 5AB380779000 a.exe\nINFO GENERATOR secret build machine\nFILE 0 C:\\secret\\path\\file.c\n" +
		"INLINE_ORIGIN 0 secret::inlined\nFUNC m 1000 10 8 game::secret(int)\nINLINE 0 3 0 0 1000 8\n1000 8 3 0\n1008 8 4 0\n" +
		"FUNC 1010 10 0 engine::f(char const *)\n1010 10 9 0\nFUNC 1020 4 0 \nPUBLIC 1030 4 _g@4\nFUNC zz 1 1 broken\n" +
		"STACK CFI INIT 1000 10 .cfa: $esp 4 + .ra: .cfa 4 - ^\nSTACK CFI 1001 .cfa: $esp 8 +\n" +
		"STACK WIN 4 1000 10 0 0 8 0 0 0 1 $T0 $ebp = $eip $T0 4 + ^ =\nSTACK CFI INIT secret text here\nURL https://secret.example.com\n"
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"all":         {Options{}, "FUNC m 1000 10 8 game::secret(int)\nFUNC 1010 10 0 engine::f(char const *)\n"},
		"undecorated": {Options{Undecorated: true}, "FUNC m 1000 10 8 game::secret\nFUNC 1010 10 0 engine::f\n"},
		"hidden":      {Options{Hide: []string{"game::*"}, Module: "a"}, "FUNC m 1000 10 8 a+0x1000\nFUNC 1010 10 0 engine::f(char const *)\n"},
	} {
		want := "MODULE windows x86 4C70B8C9113B1B3A9AB4D2F1AA7B11C31f a b.pdb\nINFO CODE_ID 5AB380779000 a.exe\n" + c.want + "FUNC 1020 4 0 \nPUBLIC 1030 4 _g@4\n" +
			"STACK CFI INIT 1000 10 .cfa: $esp 4 + .ra: .cfa 4 - ^\nSTACK CFI 1001 .cfa: $esp 8 +\n" +
			"STACK WIN 4 1000 10 0 0 8 0 0 0 1 $T0 $ebp = $eip $T0 4 + ^ =\n"
		if got, _ := mustWrite(t, []byte(private), c.o); string(got) != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	_, r := mustWrite(t, []byte(private), Options{})
	want := []Removed{{RemovedFiles, 1, 32}, {RemovedLines, 3, 36}, {RemovedInlines, 2, 54}, {RemovedRecords, 4, 114}}
	if !slices.EqualFunc(r.Removed, want, func(a, b Removed) bool { return a.Kind == b.Kind && a.Count == b.Count }) {
		t.Errorf("taken away: %+v, want %+v", r.Removed, want)
	}
}

// TestGSYM: each address of a GSYM file has the same function as before, without lines.
func TestGSYM(t *testing.T) {
	t.Parallel()
	private := gsymFile(t)
	public, r := mustWrite(t, private, Options{})
	open := func(p []byte) *gsym.File {
		f, err := gsym.NewFile(bytes.NewReader(p), int64(len(p)), 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	was, is := open(private), open(public)
	if was.Base() != is.Base() || !bytes.Equal(was.UUID(), is.UUID()) || was.Len() != is.Len() || r.Names != int64(was.Len()) {
		t.Errorf("base %#x, UUID %x, %d functions; want %#x, %x and %d", is.Base(), is.UUID(), is.Len(), was.Base(), was.UUID(), was.Len())
	}
	lines := 0
	for rva := uint64(0); rva < 0x5000; rva++ {
		a, ok, err := was.Lookup(rva)
		b, ok2, err2 := is.Lookup(rva)
		if err != nil || err2 != nil || ok != ok2 || a.FunctionStart != b.FunctionStart || a.FunctionSize != b.FunctionSize || a.Symbol != b.Symbol {
			t.Fatalf("%#x: %+v, %v, want %+v, %v; errors %v, %v", rva, b, ok2, a, ok, err2, err)
		}
		if !ok {
			continue
		}
		last := a.Frames[len(a.Frames)-1]
		if last.Line > 0 {
			lines++
		}
		last.File, last.Line = "", 0
		if len(b.Frames) != 1 || b.Frames[0] != last {
			t.Errorf("%#x: %+v, want %+v", rva, b.Frames, last)
		}
	}
	if lines == 0 {
		t.Error("no lines in the private file")
	}
	public, _ = mustWrite(t, private, Options{Hide: []string{"main"}, Module: "prog"})
	if bytes.Contains(public, []byte("\x00main\x00")) || !bytes.Contains(public, []byte("\x00prog+0x")) {
		t.Error("the name main is not hidden")
	}
}

// TestCheck: a text that is put into a public form is found, wherever it stands.
func TestCheck(t *testing.T) {
	t.Parallel()
	const secret = "secret/path/of/source.c"
	for _, c := range []struct{ path, at string }{
		{"elf/prog-sha1.debug", ".shstrtab\x00"}, {"elf/prog-sha1.debug", ".symtab\x00"}, {"macho/app-arm64", ""}, {"pe/mingw.exe", ""},
	} {
		private := symtest.Testdata(t, c.path)
		public, _ := mustWrite(t, private, Options{})
		private = append(private, secret...)
		damaged, i := bytes.Clone(public), len(public) // behind all that the format knows
		if c.at == "" {
			damaged = append(damaged, secret...)
		} else if i = bytes.Index(public, []byte(c.at)); i < 0 {
			t.Fatalf("%s: no %q", c.path, c.at)
		} else {
			copy(damaged[i:], secret)
		}
		if list := privateTexts(t, private, damaged, Options{}); len(list) != 1 || list[0].Text != secret[:len(list[0].Text)] || list[0].Place != fmt.Sprintf("%#x", i) {
			t.Errorf("%s: %+v, want %q at %#x", c.path, list, secret, i)
		}
	}
	// A text that the private file has in compressed debug information only.
	private := symtest.Testdata(t, "elf/prog-zlib")
	file, err := elf.NewFile(bytes.NewReader(private))
	if err != nil {
		t.Fatal(err)
	}
	var inflated string
	for _, s := range file.Sections {
		if !strings.HasPrefix(s.Name, ".debug_") {
			continue
		}
		data, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range strings.Split(string(data), "\x00") {
			if len(text) >= 16 && !bytes.Contains(private, []byte(text)) && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz/_-. ") == "" {
				inflated = text
			}
		}
	}
	if inflated == "" {
		t.Fatal("elf/prog-zlib has no text in compressed debug information only")
	}
	public, _ := mustWrite(t, private, Options{})
	public = append(public, "\x00"+inflated+"\x00"...)
	if list := privateTexts(t, private, public, Options{}); len(list) != 1 || list[0].Text != inflated {
		t.Errorf("a text of compressed debug information: %+v, want %q", list, inflated)
	}
	for name, p := range map[string][]byte{"sym": symFile(t), "gsym": gsymFile(t)} {
		if len(privateTexts(t, p, p, Options{})) == 0 {
			t.Errorf("%s: the private file has no private texts", name)
		}
	}
}

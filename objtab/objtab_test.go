package objtab

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
)

const elfDir = "../testdata/elf/"

// TestSiblings: the files made from one program give the functions of the program.
func TestSiblings(t *testing.T) {
	t.Parallel()
	want := text(elfTable(t, ELFFiles{Name: "prog", Program: openFile(t, elfDir+"prog-sha1")}))
	for _, line := range []string{
		"FUNC 1139 3 crash_here \n 1139 /usr/src/symdepot-src/prog.c:5\n",
		"FUNC 113c 2f main \n INLINE 0 add  /usr/src/symdepot-src/prog.c:6 [{113f 3}]\n 113c /usr/src/symdepot-src/prog.c:6\n 113f /usr/src/symdepot-src/prog.c:4\n 1142 /usr/src/symdepot-src/prog.c:6\n",
	} {
		if !strings.Contains(want, line) {
			t.Errorf("prog-sha1 gives %s, want a part %s", want, line)
		}
	}
	for name, files := range map[string]ELFFiles{
		"zlib":                  {Program: openFile(t, elfDir+"prog-zlib")},
		"zstd":                  {Program: openFile(t, elfDir+"prog-zstd")},
		"separate debug file":   {Program: openFile(t, elfDir+"prog-sha1.stripped"), Debug: openFile(t, elfDir+"prog-sha1.debug")},
		"debug file alone":      {Debug: openFile(t, elfDir+"prog-sha1.debug")},
		"without a build-id":    {Program: openFile(t, elfDir+"prog-none")},
		"build-id of two bytes": {Program: openFile(t, elfDir+"prog-b2")},
	} {
		files.Name = "prog"
		if got := text(elfTable(t, files)); got != want {
			t.Errorf("%s: %s, want equal tables", name, diffText(got, want))
		}
	}
}

// TestJoinedUnwind: unwind rules come from the program, functions from the debug
// file.
func TestJoinedUnwind(t *testing.T) {
	t.Parallel()
	count := func(files ELFFiles) functab.Counts {
		t.Helper()
		b, err := ELF(t.Context(), files, Options{})
		if err != nil {
			t.Fatal(err)
		}
		table, err := b.Table(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return table.Counts()
	}
	stripped, debug := openFile(t, elfDir+"prog-sha1.stripped"), openFile(t, elfDir+"prog-sha1.debug")
	whole := count(ELFFiles{Program: openFile(t, elfDir+"prog-sha1")})
	joined := count(ELFFiles{Program: stripped, Debug: debug})
	if whole.Frames == 0 || joined.Frames != whole.Frames || joined.Functions != whole.Functions {
		t.Errorf("joined files have %+v, want %+v", joined, whole)
	}
	if c := count(ELFFiles{Debug: debug}); c.Frames != 0 || c.Functions == 0 {
		t.Errorf("the debug file alone has %+v, want functions and no frames", c)
	}
}

func TestMismatch(t *testing.T) {
	t.Parallel()
	_, err := ELF(t.Context(), ELFFiles{Program: openFile(t, elfDir+"prog-b8"), Debug: openFile(t, elfDir+"prog-sha1.debug")}, Options{})
	if !errors.Is(err, ErrMismatch) {
		t.Errorf("a program with the debug file of another: %v, want ErrMismatch", err)
	}
	image, dsym := openFile(t, "../testdata/macho/app-nouuid"), openFile(t, "../testdata/macho/app-arm64.dSYM/Contents/Resources/DWARF/app-arm64")
	if _, err := MachO(t.Context(), MachOFiles{Image: image, DSYM: dsym}, Options{}); !errors.Is(err, ErrMismatch) {
		t.Errorf("an image with the dSYM of another: %v, want ErrMismatch", err)
	}
	if _, err := ELF(t.Context(), ELFFiles{Program: image}, Options{}); !errors.Is(err, objfile.ErrNotSymbolFile) {
		t.Errorf("a Mach-O image as an ELF file: %v, want ErrNotSymbolFile", err)
	}
}

// TestMachO: an image and its dSYM.
func TestMachO(t *testing.T) {
	t.Parallel()
	image, dsym := openFile(t, "../testdata/macho/app-arm64"), openFile(t, "../testdata/macho/app-arm64.dSYM/Contents/Resources/DWARF/app-arm64")
	b, err := MachO(t.Context(), MachOFiles{Name: "app", Image: image, DSYM: dsym}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	table, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := table.Module()
	if m.OS != "mac" || m.Arch != "arm64" || len(m.UUID) != 16 || m.ID.GUID.IsZero() || m.Base != 0x100000000 {
		t.Errorf("module %+v, want an arm64 module of mac with a UUID and the base 0x100000000", m)
	}
	if c := table.Counts(); c.Functions != 2 || c.Rows == 0 || len(table.Warnings()) > 0 {
		t.Errorf("%+v, warnings %q; want 2 functions with rows", c, table.Warnings())
	}
}

// FuzzELF: any change of a real file is read within bounds.
func FuzzELF(f *testing.F) {
	for _, name := range []string{"prog-sha1", "prog-zstd", "prog-zlib", "prog-sha1.stripped", "e-ppc64-be", "e-arm", "prog-noshdr"} {
		p, err := os.ReadFile(elfDir + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	dwp, err := os.ReadFile(elfDir + "prog-split.dwp")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		limits := functab.Limits{Bytes: 64 << 20}
		opt := Options{Limits: limits, Workers: 1, Sections: objfile.SectionOptions{Limit: 16 << 20}}
		file, pkg := File{strings.NewReader(string(p)), int64(len(p))}, File{strings.NewReader(string(dwp)), int64(len(dwp))}
		for _, files := range []ELFFiles{{Program: file, Package: pkg}, {Program: file, Debug: file, Alternate: file}} {
			b, err := ELF(t.Context(), files, opt)
			if err != nil {
				continue
			}
			if _, err := b.Table(t.Context()); err != nil && !errors.Is(err, functab.ErrLimit) {
				t.Errorf("Table: %v, want ErrLimit or none", err)
			}
		}
	})
}

// FuzzMachO: any change of a real image is read within bounds.
func FuzzMachO(f *testing.F) {
	for _, name := range []string{"app-arm64", "app-nouuid", "app-arm64.dSYM/Contents/Resources/DWARF/app-arm64"} {
		p, err := os.ReadFile(filepath.Join("../testdata/macho", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		file := File{strings.NewReader(string(p)), int64(len(p))}
		for _, files := range []MachOFiles{{Image: file}, {DSYM: file}} {
			b, err := MachO(t.Context(), files, Options{Limits: functab.Limits{Bytes: 64 << 20}, Workers: 1})
			if err != nil {
				continue
			}
			if _, err := b.Table(t.Context()); err != nil && !errors.Is(err, functab.ErrLimit) {
				t.Errorf("Table: %v, want ErrLimit or none", err)
			}
		}
	})
}

// BenchmarkELF reads the file that SYMDEPOT_DWARF_FILE names. MB/s are those of the
// sections .debug_*, decompressed.
func BenchmarkELF(b *testing.B) {
	path := os.Getenv("SYMDEPOT_DWARF_FILE")
	if path == "" {
		b.Skip("SYMDEPOT_DWARF_FILE names no file with debug information")
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	objects, err := objfile.Identify(io.NewSectionReader(f, 0, st.Size()), st.Size(), path, objfile.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(objects[0].DebugSize)
	for b.Loop() {
		builder, err := ELF(b.Context(), ELFFiles{Name: "x", Program: File{f, st.Size()}}, Options{NoUnwind: true})
		if err != nil {
			b.Fatal(err)
		}
		table, err := builder.Table(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(table.Counts().Bytes)/(1<<20), "MiB/table")
	}
}

package display

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/objfile"
)

// examined walks paths and notes what was examined and what was left.
type examined struct {
	files, left []string // base names; of left with "!" if that is worth telling
	unreadable  error
	err         error
}

// examine identifies the files, as symdepot identify does.
func examine(ctx context.Context, paths ...string) (x examined) {
	w := &Files{Paths: paths, Examine: func(ctx context.Context, f *scan.File) error {
		defer f.Discard()
		c, err := f.Open(ctx)
		if err != nil {
			return &FileError{err}
		}
		defer c.Close()
		if _, err := objfile.Identify(c, c.Size(), f.Name, objfile.Options{}); err != nil {
			return &FileError{err}
		}
		x.files = append(x.files, filepath.Base(f.Path))
		return nil
	}, Left: func(path, reason string, plain bool) error {
		name := filepath.Base(path)
		if !plain {
			name += "!"
		}
		if reason == "" {
			name += " without a reason"
		}
		x.left = append(x.left, name)
		return nil
	}}
	x.unreadable, x.err = w.Each(ctx)
	slices.Sort(x.files)
	slices.Sort(x.left)
	return x
}

// TestFiles: one file never keeps others from being examined; those that people have named are
// told of in any case.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	pdb := symtest.Testdata(t, "pdb/hello-x64.pdb")
	symtest.Put(t, dir, "build/hello.pdb", pdb)
	symtest.Put(t, dir, "build/notes.txt", []byte("no symbols"))
	symtest.Put(t, dir, "build/cut.pdb", pdb[:3000])
	symtest.Put(t, dir, "build/z/prog", symtest.Testdata(t, "elf/prog-sha1"))
	build := filepath.Join(dir, "build")
	for _, c := range []struct {
		name        string
		paths       []string
		files, left []string
		unreadable  bool
	}{
		{"a folder", []string{build}, []string{"hello.pdb", "prog"}, []string{"cut.pdb!", "notes.txt"}, false},
		{"a symbol file", []string{filepath.Join(build, "hello.pdb")}, []string{"hello.pdb"}, nil, false},
		{"a named file that is none", []string{filepath.Join(build, "notes.txt")}, nil, []string{"notes.txt!"}, false},
		{"a named file that is damaged", []string{filepath.Join(build, "cut.pdb")}, nil, []string{"cut.pdb!"}, false},
		{"a file that is not there, and one that is", []string{filepath.Join(build, "gone.pdb"), filepath.Join(build, "hello.pdb")}, []string{"hello.pdb"}, []string{"gone.pdb!"}, true},
		{"nothing", nil, nil, nil, false},
	} {
		x := examine(t.Context(), c.paths...)
		if x.err != nil || !slices.Equal(x.files, c.files) || !slices.Equal(x.left, c.left) || (x.unreadable != nil) != c.unreadable {
			t.Errorf("%s: examined %q, left %q, unreadable %v, %v; want %q, %q, unreadable %v", c.name, x.files, x.left, x.unreadable, x.err, c.files, c.left, c.unreadable)
		}
	}
}

// TestFilesUnreadable: a file that the system refuses to read is told of at the end, when the
// others were examined.
func TestFilesUnreadable(t *testing.T) {
	dir := t.TempDir()
	symtest.Put(t, dir, "a", symtest.Testdata(t, "elf/prog-sha1"))
	symtest.Put(t, dir, "b", symtest.Testdata(t, "elf/prog-sha1"))
	refused := &fs.PathError{Op: "open", Path: "a", Err: fs.ErrPermission}
	n := 0
	w := &Files{Paths: []string{dir}, Examine: func(_ context.Context, f *scan.File) error {
		if n++; f.Name == "a" {
			return &FileError{refused}
		}
		return nil
	}, Left: func(_, reason string, plain bool) error {
		if plain || !strings.Contains(reason, "permission") {
			t.Errorf("left with the reason %q, as one of many: %v; want the one of the system", reason, plain)
		}
		return nil
	}}
	unreadable, err := w.Each(t.Context())
	if err != nil || !errors.Is(unreadable, fs.ErrPermission) || n != 2 {
		t.Errorf("unreadable %v, %v, %d files examined; want fs.ErrPermission and both", unreadable, err, n)
	}
}

// TestFilesEnd: the walk ends with its context, and with an error that concerns no file.
func TestFilesEnd(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		symtest.Put(t, dir, fmt.Sprint(i), symtest.Testdata(t, "elf/prog-sha1"))
	}
	full := errors.New("the disk is full")
	ctx, cancel := context.WithCancel(t.Context())
	for want, do := range map[error]func() error{
		full:             func() error { return full },
		context.Canceled: func() error { cancel(); return &FileError{ctx.Err()} },
	} {
		n := 0
		w := &Files{Paths: []string{dir}, Examine: func(context.Context, *scan.File) error { n++; return do() }, Left: func(string, string, bool) error { return nil }}
		under := t.Context()
		if want == context.Canceled {
			under = ctx
		}
		if _, err := w.Each(under); !errors.Is(err, want) || n != 1 {
			t.Errorf("%v after %d files, want %v after the first", err, n, want)
		}
	}
	symtest.Put(t, dir, "notes.txt", []byte("x"))
	w := &Files{Paths: []string{filepath.Join(dir, "none")}, Examine: func(context.Context, *scan.File) error { return nil }, Left: func(string, string, bool) error { return full }}
	if _, err := w.Each(t.Context()); !errors.Is(err, full) {
		t.Errorf("%v, want the error of Left", err)
	}
}

// sourcesOf calls IdentifySources for one file.
func sourcesOf(t *testing.T, path string) (names []NamedSource, warned []string, err error) {
	t.Helper()
	w := &Files{Paths: []string{path}, Examine: func(ctx context.Context, f *scan.File) error {
		err = IdentifySources(ctx, f, objfile.Options{}, func(text string) { warned = append(warned, text) }, func(n NamedSource) error {
			names = append(names, n)
			return nil
		})
		return nil
	}, Left: func(path, reason string, _ bool) error { t.Errorf("%s was left: %s", path, reason); return nil }}
	if _, werr := w.Each(t.Context()); werr != nil {
		t.Fatal(werr)
	}
	return names, warned, err
}

// TestIdentifySources lists the sources that debug information names.
func TestIdentifySources(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, body []byte) string {
		symtest.Put(t, dir, name, body)
		return filepath.Join(dir, name)
	}
	pdb := symtest.Testdata(t, "pdb/hello-x64.pdb")
	for _, c := range []struct {
		name, path string
		kind       string
		source     string // the end of one of the names
		fails      error
	}{
		{name: "a PDB", path: write("hello.pdb", pdb), kind: "pdb", source: "hello.c"},
		{name: "an ELF file", path: write("prog.debug", symtest.Testdata(t, "elf/prog-sha1.debug")), kind: "elf", source: ".c"},
		{name: "a program without debug information", path: write("prog", symtest.Testdata(t, "elf/prog-sha1.stripped")), fails: objfile.ErrNotSymbolFile},
		{name: "no symbol file", path: write("notes.txt", []byte("no symbols")), fails: objfile.ErrNotSymbolFile},
		{name: "a damaged file", path: write("cut.pdb", bytes.Clone(pdb[:3000])), fails: objfile.ErrBroken},
	} {
		names, warned, err := sourcesOf(t, c.path)
		if c.fails != nil {
			if _, ofFile := errors.AsType[*FileError](err); !ofFile || !errors.Is(err, c.fails) || len(names) > 0 {
				t.Errorf("%s: %v with %d sources, want a *FileError that wraps %v", c.name, err, len(names), c.fails)
			}
			continue
		}
		if err != nil || len(warned) > 0 || !slices.ContainsFunc(names, func(n NamedSource) bool { return strings.HasSuffix(n.Name, c.source) }) {
			t.Errorf("%s: %+v, warnings %q, %v; want a source %s", c.name, names, warned, err, c.source)
			continue
		}
		for _, n := range names {
			if n.Path != c.path || n.Kind != c.kind || n.ID == "" || (n.Checksum == "") != (n.Sum == "") {
				t.Errorf("%s: %+v, want the path, the kind %s, an id, and a checksum with its algorithm or none", c.name, n, c.kind)
			}
		}
	}
}

// TestIdentifySourcesEnds with the error of who is told of a source, which is none of the file.
func TestIdentifySourcesEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hello.pdb")
	if err := os.WriteFile(path, symtest.Testdata(t, "pdb/hello-x64.pdb"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := errors.New("the output is full")
	w := &Files{Paths: []string{path}, Examine: func(ctx context.Context, f *scan.File) error {
		return IdentifySources(ctx, f, objfile.Options{}, func(string) {}, func(NamedSource) error { return full })
	}, Left: func(string, string, bool) error { t.Error("the file was left, want that the walk ends"); return nil }}
	if _, err := w.Each(t.Context()); !errors.Is(err, full) {
		t.Errorf("%v, want %v", err, full)
	}
}

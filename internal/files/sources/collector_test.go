package sources

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/objfile"
)

// collected are "NAME, NAME = TEXT" of each file that Files yields, or "NAME ! ERROR".
func collected(t *testing.T, c *Collector) (out []string) {
	t.Helper()
	err := c.Files(t.Context(), func(x Text) error {
		x.File.Discard()
		var names []string
		for _, n := range x.Names {
			names = append(names, n.Name)
		}
		s := " = " + string(x.Bytes[:min(len(x.Bytes), 100)])
		if x.Err != nil {
			s = " ! " + x.Err.Error()
		}
		out = append(out, strings.Join(names, ", ")+s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantCollected(t *testing.T, c *Collector, want ...string) {
	t.Helper()
	if got := collected(t, c); !slices.Equal(got, want) {
		t.Errorf("sources %q, want %q", got, want)
	}
}

// inRoots returns a Collector that looks for names in folders.
func inRoots(names []Name, dirs ...string) *Collector {
	c := &Collector{}
	for _, dir := range dirs {
		c.Roots = append(c.Roots, Root{Dir: dir})
	}
	c.wanted.take(names)
	return c
}

// TestCollectSums: the sum decides which file is taken; one that it contradicts
// is none, and is reported if no other file has the sum.
func TestCollectSums(t *testing.T) {
	t.Parallel()
	dir, second := t.TempDir(), t.TempDir()
	symtest.Put(t, dir, "a/src/main.c", []byte("one"))
	symtest.Put(t, dir, "b/src/main.c", []byte("two"))
	symtest.Put(t, dir, "src/empty.c", nil)
	symtest.Put(t, second, "src/main.c", []byte("three"))
	wantCollected(t, inRoots([]Name{summed("/x/src/main.c", "two")}, dir), "/x/src/main.c = two")
	wantCollected(t, inRoots([]Name{summed("/x/src/main.c", "other")}, dir, second), "/x/src/main.c ! "+errOther.Error())
	wantCollected(t, inRoots([]Name{summed("/x/src/main.c", "one")}, second, dir), "/x/src/main.c = one")
	wantCollected(t, inRoots([]Name{summed("/x/src/main.c", "three")}, dir, second), "/x/src/main.c = three")
	wantCollected(t, inRoots(named("/x/src/main.c"), dir))
	wantCollected(t, inRoots(named("/x/src/main.c"), dir, second), "/x/src/main.c = three")
	wantCollected(t, inRoots(named("/x/src/empty.c"), dir))
	// Two builds name one path, with different texts: each text is looked for, one is kept.
	wantCollected(t, inRoots([]Name{summed("/x/src/main.c", "one"), summed("/x/src/main.c", "none")}, dir), "/x/src/main.c = one")
}

// TestCollectNames: a file is yielded once, with all its names; a name gets the file of the
// first folder.
func TestCollectNames(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	symtest.Put(t, first, "src/main.c", []byte("first"))
	symtest.Put(t, second, "src/main.c", []byte("second"))
	symtest.Put(t, second, "src/more.c", []byte("more"))
	wantCollected(t, inRoots(named("/x/src/main.c", "/x/b/../src/main.c", `C:\w\src\More.c`), first, second),
		"/x/b/../src/main.c, /x/src/main.c = first", `C:\w\src\More.c = more`)
}

// TestCollectLarge: a file of 10 MiB is a source, one of a byte more is left out with the reason.
func TestCollectLarge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	symtest.Put(t, dir, "src/most.c", bytes.Repeat([]byte{'x'}, MaxFile))
	symtest.Put(t, dir, "src/over.c", bytes.Repeat([]byte{'x'}, MaxFile+1))
	wantCollected(t, inRoots(named("/x/src/most.c", "/x/src/over.c"), dir),
		"/x/src/most.c = "+strings.Repeat("x", 100), "/x/src/over.c ! "+errLong.Error())
}

// TestCollectVanished: a file that goes, or becomes a link, after the folder was read is
// left out, and the others are taken.
func TestCollectVanished(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"src/a.c", "src/b.c", "src/c.c", "src/d.c"} {
		symtest.Put(t, dir, name, []byte(name))
	}
	symtest.Put(t, dir, "secret", []byte("secret"))
	c := inRoots(named("/x/src/a.c", "/x/src/b.c", "/x/src/c.c", "/x/src/d.c"), dir)
	var got []string
	err := c.Files(t.Context(), func(x Text) error {
		defer x.File.Discard()
		got = append(got, string(x.Bytes))
		for _, name := range []string{"b.c", "c.c"} {
			if err := os.RemoveAll(filepath.Join(dir, "src", name)); err != nil {
				return err
			}
		}
		if len(got) == 1 {
			symtest.Symlink(t, filepath.Join(dir, "secret"), filepath.Join(dir, "src", "c.c"))
		}
		return nil
	})
	if want := []string{"src/a.c", "src/d.c"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("sources %q, %v; want %q", got, err, want)
	}
}

// TestCollectErrors: the error of yield ends the walk, and so does the end of the context.
func TestCollectErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	symtest.Put(t, dir, "src/a.c", []byte("a"))
	symtest.Put(t, dir, "src/b.c", []byte("b"))
	stop, n := errors.New("stop"), 0
	c := inRoots(named("/x/src/a.c", "/x/src/b.c"), dir)
	if err := c.Files(t.Context(), func(x Text) error { n++; x.File.Discard(); return stop }); !errors.Is(err, stop) || n != 1 {
		t.Errorf("%v after %d files, want %v after one", err, n, stop)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Files(ctx, func(Text) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	if err := inRoots(named("/x/a.c"), filepath.Join(dir, "none")).Files(t.Context(), func(Text) error { return nil }); err == nil {
		t.Error("a folder that is missing: no error, want one")
	}
}

func zipOf(t *testing.T, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err == nil {
			_, err = w.Write([]byte(files[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func tarOf(t *testing.T, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		h := &tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1])), Format: tar.FormatPAX}
		if link, ok := strings.CutPrefix(files[i+1], "-> "); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, link, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(files[i+1])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// walked walks a folder as add and push do, and returns a Collector that was told of it.
func walked(t *testing.T, dir string) *Collector {
	t.Helper()
	c := &Collector{}
	for f, err := range scan.Walk(t.Context(), []string{dir}, scan.Options{Want: objfile.Detect}) {
		if skip, ok := errors.AsType[*scan.Skip](err); ok {
			if skip.Reason == scan.ReasonUnwanted {
				c.Member(skip.Path)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		err = f.Examine(t.Context(), objfile.Options{IDs: true}, func(content *scan.Content, objs []objfile.Object) error {
			for _, o := range objs {
				if err := c.Object(t.Context(), f, content, o); err != nil {
					return err
				}
			}
			return nil
		})
		f.Discard()
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestCollectMembers: members of archives that the programs in archives name are sources,
// also in other archives and in archives in archives; anything else is not.
func TestCollectMembers(t *testing.T) {
	t.Parallel()
	prog := string(symtest.Testdata(t, "elf/prog-sha1"))
	const path = "usr/src/symdepot-src/prog.c"
	for _, c := range []struct {
		what  string
		files map[string][]byte
		want  string
	}{
		{"beside the program", map[string][]byte{"a.zip": zipOf(t, "bin/prog", prog, path, "beside", "usr/src/symdepot-src/other.c", "x")}, "beside"},
		{"in another archive", map[string][]byte{"a.zip": zipOf(t, "bin/prog", prog), "prog-debugsource.tar": tarOf(t, "./"+path, "debugsource")}, "debugsource"},
		{"an archive in an archive", map[string][]byte{"a.tar": tarOf(t, "prog.zip", string(zipOf(t, "bin/prog", prog)), "src.zip", string(zipOf(t, "top/symdepot-src/prog.c", "nested")))}, "nested"},
		{"slashes of Windows", map[string][]byte{"a.zip": zipOf(t, "bin/prog", prog, `src\symdepot-src\prog.c`, "windows")}, "windows"},
		{"two that are equally good", map[string][]byte{"a.zip": zipOf(t, "bin/prog", prog, "1/symdepot-src/prog.c", "1", "2/symdepot-src/prog.c", "2")}, ""},
		{"only the base name is equal", map[string][]byte{"a.zip": zipOf(t, "bin/prog", prog, "other/prog.c", "other")}, ""},
		{"empty", map[string][]byte{"a.zip": zipOf(t, "bin/prog", prog, path, "")}, ""},
		{"a link", map[string][]byte{"a.tar": tarOf(t, "bin/prog", prog, path, "-> /etc/passwd")}, ""},
		{"dots", map[string][]byte{"a.tar": tarOf(t, "bin/prog", prog, "../../../etc/passwd", "root")}, ""},
		{"a program out of archives", map[string][]byte{"prog": []byte(prog), "src.zip": zipOf(t, path, "x")}, ""},
		{"a source out of archives", map[string][]byte{"a.zip": zipOf(t, "bin/prog", prog), path: []byte("x")}, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, body := range c.files {
				symtest.Put(t, dir, name, body)
			}
			var want []string
			if c.want != "" {
				want = []string{"/usr/src/symdepot-src/prog.c = " + c.want}
			}
			wantCollected(t, walked(t, dir), want...)
		})
	}
}

// TestTally: names without a file are counted and listed, those of the system last, and a
// prefix that no name has is said, with a name as an example.
func TestTally(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	symtest.Put(t, dir, "src/a.c", []byte("text"))
	c := inRoots(named("/usr/include/stdio.h", "/build/src/a.c", `/build/src/b.c`), dir)
	c.Roots = []Root{{Dir: dir, Prefix: "/builds"}, {Dir: dir, Prefix: "/build"}}
	wantCollected(t, c, "/build/src/a.c = text")
	got := c.Tally()
	if got.Sources != 1 || got.SourceNames != 3 || got.MissingSources != 2 || !slices.Equal(got.FirstMissing, []string{"/build/src/b.c", "/usr/include/stdio.h"}) {
		t.Errorf("the tally is %+v, want 1 of 3 taken, and b.c and stdio.h missing, in this order", got)
	}
	if len(got.SourceWarnings) != 1 || !strings.Contains(got.SourceWarnings[0], "=/builds: no name in the debug information begins with /builds; one of them is /build/src/a.c") {
		t.Errorf("the warnings are %q, want one about /builds with an example", got.SourceWarnings)
	}
	want := []string{"  sources        1 of the 3 names in the debug information", "  not found      2 of the sources:", "    /build/src/b.c", "    /usr/include/stdio.h"}
	if lines := got.Lines(); !slices.Equal(lines, want) {
		t.Errorf("it says %q, want %q", lines, want)
	}
	if lines := (Tally{SourceNames: 74}).Lines(); len(lines) > 0 {
		t.Errorf("without folders and without a source it says %q, want nothing", lines)
	}
}

package sources

import (
	"context"
	"crypto/md5" //nolint:gosec // the sums of compilers
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// summed is a name with the sum of a text.
func summed(name, text string) Name {
	sum := md5.Sum([]byte(text)) //nolint:gosec // as above
	return Name{Name: name, Alg: "md5", Sum: sum[:]}
}

// wants returns a Wanted with names, as Add collects them.
func wants(names ...Name) *Wanted {
	w := &Wanted{names: map[string]Name{}, bases: map[string]bool{}}
	w.take(names)
	return w
}

// shownCandidates are "NAME -> PATH", with " ?" if a sum must decide; paths are relative to dir.
func shownCandidates(list []Candidate, dir string) (out []string) {
	for _, c := range list {
		path := c.Path
		if rel, err := filepath.Rel(dir, path); err == nil && dir != "" {
			path = filepath.ToSlash(rel)
		}
		s := c.Name.Name + " -> " + path
		if c.Prove {
			s += " ?"
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// TestFind: which files of a folder names mean.
func TestFind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		files  []string
		prefix string
		names  []Name
		want   []string
	}{
		{"equal ends", []string{"app/main.c", "lib/util.c", "lib/other.c"}, "", named("/build/1/app/main.c", "/build/1/lib/util.c"),
			[]string{"/build/1/app/main.c -> app/main.c", "/build/1/lib/util.c -> lib/util.c"}},
		{"a build on this machine", []string{"main.c", "old/main.c"}, "", named("DIR/main.c"), []string{"DIR/main.c -> main.c"}},
		{"a prefix", []string{"main.c", "x/main.c"}, "/build/src", named("/build/src/main.c"), []string{"/build/src/main.c -> main.c"}},
		{"a prefix with a slash", []string{"main.c", "x/main.c"}, "/build/src/", named("/build/src/./main.c"), []string{"/build/src/./main.c -> main.c"}},
		{"a prefix, and a build on this machine", []string{"main.c", "x/main.c"}, "/build/src", named("DIR/x/main.c"), []string{"DIR/x/main.c -> x/main.c"}},
		{"a prefix of Windows", []string{"lib/Util.c", "x/util.c"}, `C:\Build`, named(`c:\build\LIB\util.c`), []string{`c:\build\LIB\util.c -> lib/Util.c`}},
		{"a prefix that ends inside a segment", []string{"x/main.c", "y/main.c"}, "/build/s", named("/build/src/main.c"), nil},
		{"one equal segment is not enough", []string{"x/main.c"}, "", named("/build/src/main.c"), nil},
		{"a file at the top", []string{"main.c"}, "", named("/build/src/main.c"), []string{"/build/src/main.c -> main.c"}},
		{"a tie without a sum", []string{"a/src/main.c", "b/src/main.c"}, "", named("/build/src/main.c"), nil},
		{"a tie with a sum", []string{"a/src/main.c", "b/src/main.c"}, "", []Name{summed("/build/src/main.c", "x")},
			[]string{"/build/src/main.c -> a/src/main.c ?", "/build/src/main.c -> b/src/main.c ?"}},
		{"one file for two different names", []string{"src/main.c"}, "", named("/a/src/main.c", "/b/src/main.c"), nil},
		{"one file under two spellings", []string{"src/main.c"}, "", named("/a/src/main.c", "/a/x/../src/main.c"),
			[]string{"/a/src/main.c -> src/main.c", "/a/x/../src/main.c -> src/main.c"}},
		{"letter case matters", []string{"src/MAIN.c"}, "", named("/a/src/main.c"), nil},
		{"names out of the folder", []string{"etc/passwd.c"}, "", named("../../../etc/passwd.c", "/etc/passwd"), []string{"../../../etc/passwd.c -> etc/passwd.c"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range c.files {
				symtest.Put(t, dir, f, []byte(f))
			}
			for i := range c.names {
				c.names[i].Name = strings.Replace(c.names[i].Name, "DIR", dir, 1)
			}
			got, err := wants(c.names...).Find(t.Context(), Root{dir, c.prefix})
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.want {
				c.want[i] = strings.Replace(c.want[i], "DIR", dir, 1)
			}
			if s := shownCandidates(got, dir); !slices.Equal(s, c.want) {
				t.Errorf("%q, want %q", s, c.want)
			}
		})
	}
}

// TestFindLinks: a folder that is given as a link is walked, whether the debug information
// names the link or what it leads to; links below it are not followed.
func TestFindLinks(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	real, link := filepath.Join(top, "real"), filepath.Join(top, "link")
	symtest.Put(t, real, "main.c", []byte("main"))
	symtest.Put(t, real, "x/main.c", []byte("other"))
	symtest.Put(t, top, "outside/secret.c", []byte("secret"))
	symtest.Symlink(t, real, link)
	symtest.Symlink(t, filepath.Join(top, "outside"), filepath.Join(real, "out"))
	symtest.Symlink(t, filepath.Join(top, "outside", "secret.c"), filepath.Join(real, "secret.c"))
	for _, given := range []string{real, link} {
		for _, built := range []string{real, link} {
			names := named(built+"/main.c", built+"/secret.c", built+"/out/secret.c", top+"/outside/secret.c")
			got, err := wants(names...).Find(t.Context(), Root{Dir: given})
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 1 || got[0].Name.Name != built+"/main.c" || filepath.Base(filepath.Dir(got[0].Path)) == "x" {
				t.Errorf("sources in %s of a build in %s: %q, want only main.c", given, built, shownCandidates(got, top))
			}
		}
	}
}

// TestParseRoot: DIR and DIR=PREFIX.
func TestParseRoot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	symtest.Put(t, dir, "file", nil)
	for _, c := range []struct {
		given string
		want  Root
	}{{dir, Root{dir, ""}}, {dir + "=", Root{dir, ""}}, {dir + `=C:\a=b`, Root{dir, `C:\a=b`}}} {
		if got, err := ParseRoot(c.given); err != nil || got != c.want {
			t.Errorf("ParseRoot(%q): %+v, %v; want %+v", c.given, got, err, c.want)
		}
	}
	if _, err := ParseRoot(dir + "/none=/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is missing: %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := ParseRoot(dir + "/file"); err == nil {
		t.Error("a file: no error, want one")
	}
}

// TestWantedAdd: names of objects are collected once; embedded ones and those of files
// without debug information are not wanted.
func TestWantedAdd(t *testing.T) {
	t.Parallel()
	w := &Wanted{}
	for _, path := range []string{"elf/prog-sha1", "elf/prog-sha1", "elf/prog-sha1.stripped", "elf/prog-zlib"} {
		f, size, o := object(t, filepath.Join("../../../testdata", path))
		if err := w.Add(t.Context(), f, size, o); err != nil {
			t.Fatal(err)
		}
	}
	if w.Len() == 0 || !w.wants("PROG.c") || w.wants("passwd") {
		t.Errorf("names %q, want those of prog.c", slices.Sorted(maps.Keys(w.names)))
	}
	before := w.Len()
	w.take([]Name{{Name: "/in/the/object.c", Embedded: text("x")}})
	if w.Len() != before {
		t.Errorf("%d names after an embedded one, want %d", w.Len(), before)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Find(ctx, Root{Dir: t.TempDir()}); !errors.Is(err, context.Canceled) {
		t.Errorf("Find after the end of ctx: %v, want %v", err, context.Canceled)
	}
}

// TestFindUnreadable: a folder below that cannot be read is an error, one that is gone too.
func TestFindUnreadable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gone")
	if _, err := wants(named("/a/b.c")...).Find(t.Context(), Root{Dir: dir}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is gone: %v, want %v", err, fs.ErrNotExist)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := wants(named("/a/b.c")...).Find(t.Context(), Root{Dir: dir}); err != nil || len(got) != 0 {
		t.Errorf("an empty folder: %q, %v; want nothing", shownCandidates(got, dir), err)
	}
}

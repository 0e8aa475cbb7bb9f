package cab

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// onDisk writes files below a folder, and returns their paths.
func onDisk(t *testing.T, dir string, files map[string]string) (paths []string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

// filesIn returns the files below a folder with what they contain.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p) // p is below dir
		list[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d files, want %d: %v", what, len(got), len(want), got)
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: %s has %d bytes, want the %d that it had", what, name, len(got[name]), len(text))
		}
	}
}

// TestCreateFile writes a cabinet that reads back, in the place of another file.
func TestCreateFile(t *testing.T) {
	for _, method := range []Method{MSZIP, LZX} {
		dir := t.TempDir()
		files := map[string]string{"one.pdb": strings.Repeat("one ", 9000), "two.exe": "two", "empty.txt": ""}
		paths := onDisk(t, filepath.Join(dir, "in"), files)
		when := time.Date(2020, 5, 4, 3, 2, 2, 0, time.Local)
		for _, p := range paths {
			if err := os.Chtimes(p, when, when); err != nil {
				t.Fatal(err)
			}
		}
		name := filepath.Join(dir, "out.cab")
		if err := os.WriteFile(name, []byte("an older one"), 0o600); err != nil {
			t.Fatal(err)
		}
		size, err := CreateFile(t.Context(), name, paths, WriteOptions{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(name); err != nil || fi.Size() != size {
			t.Errorf("method %v: the cabinet: %v, %v; want %d bytes", method, fi, err, size)
		}
		out := filepath.Join(dir, "extracted")
		missing, done, err := extracted(t.Context(), t, name, out, nil)
		if err != nil || len(missing) > 0 || len(done) != len(files) {
			t.Errorf("method %v: missing %q, done %q, %v; want all files", method, missing, done, err)
		}
		same(t, "extracted", filesIn(t, out), files)
		if fi, err := os.Stat(filepath.Join(out, "one.pdb")); err != nil || !fi.ModTime().Equal(when) {
			t.Errorf("method %v: the time of an extracted file: %v, %v; want %v", method, fi.ModTime(), err, when)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
			t.Errorf("method %v: the folder has %v, %v; want no temporary file", method, entries, err)
		}
	}
}

// extracted opens a cabinet and extracts members of it into a folder, which is made.
func extracted(ctx context.Context, t *testing.T, name, dir string, members []string) (missing, done []string, err error) {
	t.Helper()
	r, closer, err := OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	missing, err = r.Extract(ctx, root, members, func(path string) { done = append(done, path) })
	return missing, done, err
}

// TestCreateFileFails: then an older cabinet stays as it was, and nothing else stays.
func TestCreateFileFails(t *testing.T) {
	for name, c := range map[string]struct {
		files func(dir string) []string
		ended bool
		is    error
	}{
		"a missing file":           {func(dir string) []string { return []string{filepath.Join(dir, "in", "gone")} }, false, fs.ErrNotExist},
		"a folder":                 {func(dir string) []string { return []string{filepath.Join(dir, "in")} }, false, ErrNotFile},
		"a context that has ended": {func(dir string) []string { return []string{filepath.Join(dir, "in", "one.pdb")} }, true, context.Canceled},
		"one of several is missing": {func(dir string) []string {
			return []string{filepath.Join(dir, "in", "one.pdb"), filepath.Join(dir, "x")}
		}, false, fs.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			onDisk(t, dir, map[string]string{"in/one.pdb": strings.Repeat("one ", 100_000), "out.cab": "an older one"})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.ended {
				cancel()
			}
			if _, err := CreateFile(ctx, filepath.Join(dir, "out.cab"), c.files(dir), WriteOptions{Method: MSZIP}); !errors.Is(err, c.is) {
				t.Errorf("create: %v, want %v", err, c.is)
			}
			got := filesIn(t, dir)
			if len(got) != 2 || got["out.cab"] != "an older one" {
				t.Errorf("the folder has %d files, out.cab %q; want the input and the older cabinet", len(got), got["out.cab"])
			}
		})
	}
	t.Run("a folder that does not exist", func(t *testing.T) {
		dir := t.TempDir()
		paths := onDisk(t, dir, map[string]string{"one": "1"})
		if _, err := CreateFile(t.Context(), filepath.Join(dir, "none", "out.cab"), paths, WriteOptions{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("create: %v, want fs.ErrNotExist", err)
		}
	})
	t.Run("a folder of the name", func(t *testing.T) {
		dir := t.TempDir()
		paths := onDisk(t, dir, map[string]string{"one": "1", "out.cab/keep": "mine"})
		if _, err := CreateFile(t.Context(), filepath.Join(dir, "out.cab"), paths[:1], WriteOptions{}); err == nil {
			t.Error("the cabinet has replaced a folder, want an error")
		}
		same(t, "afterwards", filesIn(t, dir), map[string]string{"one": "1", "out.cab/keep": "mine"})
	})
}

// TestOpenFileFails for what is no cabinet, and names the file.
func TestOpenFileFails(t *testing.T) {
	dir := t.TempDir()
	onDisk(t, dir, map[string]string{"text.cab": "no cabinet", "empty.cab": ""})
	for name, is := range map[string]error{"none.cab": fs.ErrNotExist, "text.cab": nil, "empty.cab": nil, ".": nil} {
		r, closer, err := OpenFile(filepath.Join(dir, name))
		if err == nil || r != nil || closer != nil || is != nil && !errors.Is(err, is) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, %v; want an error that names the file", name, r, err)
		}
	}
}

// TestExtract writes the members that were asked for, in any letter case.
func TestExtract(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"One.pdb": "1", "two.exe": "2", "three.txt": "3"}
	name := filepath.Join(dir, "in.cab")
	if _, err := CreateFile(t.Context(), name, onDisk(t, filepath.Join(dir, "in"), files), WriteOptions{Method: MSZIP}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		members []string
		want    map[string]string
		missing []string
	}{
		{"all", nil, files, nil},
		{"one", []string{"two.exe"}, map[string]string{"two.exe": "2"}, nil},
		{"another case", []string{"ONE.PDB", "Three.TXT"}, map[string]string{"One.pdb": "1", "three.txt": "3"}, nil},
		{"missing ones", []string{"two.exe", "d.dll", "b.dll", "C.dll", "a.dll", "e.dll"}, map[string]string{"two.exe": "2"}, []string{"a.dll", "b.dll", "c.dll", "d.dll", "e.dll"}},
	} {
		out := filepath.Join(dir, "out "+c.name)
		missing, done, err := extracted(t.Context(), t, name, out, c.members)
		if err != nil || !slices.Equal(missing, c.missing) || len(done) != len(c.want) {
			t.Errorf("%s: missing %q, done %q, %v; want %q missing and %d files", c.name, missing, done, err, c.missing, len(c.want))
		}
		same(t, c.name, filesIn(t, out), c.want)
	}
}

// cabinet writes a cabinet of sources as its bytes.
func cabinet(t *testing.T, name string, sources ...Source) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, _, err := CreateChecked(t.Context(), f, sources, WriteOptions{Method: MSZIP}); err != nil {
		t.Fatal(err)
	}
}

// TestExtractFails: what would leave the folder, what is damaged and what ends too early is not
// there afterwards, nor a part of it; what came before is.
func TestExtractFails(t *testing.T) {
	long := strings.Repeat("a long text that is cut ", 20_000)
	for name, c := range map[string]struct {
		second string                       // the name of the second member
		change func(t *testing.T, p string) // of the cabinet
		ended  bool
		is     error
		says   string
	}{
		"out of the folder": {second: "XX/outside.txt", change: func(t *testing.T, p string) { replace(t, p, "XX/outside", "../outside") }, says: "would leave the output folder"},
		"an absolute path":  {second: "XXXXX/passwd", change: func(t *testing.T, p string) { replace(t, p, "XXXXX/passwd", "C:/ab/passwd") }, says: "would leave the output folder"},
		"damaged": {second: "second.txt", change: func(t *testing.T, p string) {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)-50] ^= 1
			if err := os.WriteFile(p, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		"a context that ends": {second: "second.txt", ended: true, is: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			p := filepath.Join(dir, "in.cab")
			cabinet(t, p, source("first.txt", []byte("first")), source(c.second, []byte(long)))
			if c.change != nil {
				c.change(t, p)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, closer, err := OpenFile(p)
			if err != nil {
				t.Fatal(err)
			}
			defer closer.Close()
			out := filepath.Join(dir, "out")
			if err := os.Mkdir(out, 0o755); err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenRoot(out)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			_, err = r.Extract(ctx, root, nil, func(string) {
				if c.ended {
					cancel()
				}
			})
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("extract: %v, want an error that wraps %v and says %q", err, c.is, c.says)
			}
			same(t, "the folder", filesIn(t, out), map[string]string{"first.txt": "first"})
			if _, err := os.Lstat(filepath.Join(dir, "outside.txt")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file beside the folder: %v, want none", err)
			}
		})
	}
}

// replace replaces a name in a cabinet by another of the same length.
func replace(t *testing.T, name, from, to string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b, []byte(from)) || len(from) != len(to) {
		t.Fatalf("the cabinet has no name %q of the length of %q, want one", from, to)
	}
	if err := os.WriteFile(name, bytes.Replace(b, []byte(from), []byte(to), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

package sources

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/objfile"
)

// FuzzReadBundle: any archive ends, and no file is longer than it may be.
func FuzzReadBundle(f *testing.F) {
	var out bytes.Buffer
	if _, err := WriteBundle(&out, Bundle{Attributes: Attributes{ObjectName: "a", DebugID: "392a9ae6-fb29-7781-a9b0-2cff664f003b"}, Files: slices.Values(files("/a.c", "a", `C:\b.c`, strings.Repeat("b", 500)))}); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	stored := zipped(f, `{"files":{"a":{"path":"/a"}}}`, nil)
	p, err := io.ReadAll(stored)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p)
	f.Fuzz(func(t *testing.T, p []byte) {
		b, err := ReadBundle(bytes.NewReader(p), int64(len(p)))
		if err != nil {
			if !errors.Is(err, ErrBundle) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%v, want ErrBundle or ErrTooLarge", err)
			}
			return
		}
		for i, file := range b.Files {
			if file.Size < 0 || file.Size > MaxFile {
				t.Errorf("%q has %d bytes, want at most %d", file.Path, file.Size, MaxFile)
			}
			r, err := file.Open()
			if err != nil {
				continue
			}
			// One byte more may have been read before the check.
			if n, err := io.Copy(io.Discard, r); err == nil && n != file.Size {
				t.Errorf("%q has %d bytes, want %d", file.Path, n, file.Size)
			}
			r.Close()
			if i == 20 {
				break
			}
		}
	})
}

// FuzzCanonical: a canonical path stays as it is, and has no dots.
func FuzzCanonical(f *testing.F) {
	f.Add("/srv/demo/build/../src/main.c")
	f.Add(`C:\src\..\a.c`)
	f.Add("../../lib/./a.c")
	f.Fuzz(func(t *testing.T, name string) {
		c := Canonical(name)
		if again := Canonical(c); again != c {
			t.Errorf("Canonical(%q) is %q, and of that %q; want it unchanged", name, c, again)
		}
		for s := range strings.SplitSeq(c, "/") {
			if s == "." || s == ".." {
				t.Errorf("Canonical(%q) is %q, want no dots", name, c)
			}
		}
		for _, k := range Keys(name) {
			if Canonical(k) != k {
				t.Errorf("Keys(%q) has %q, want canonical paths", name, k)
			}
		}
	})
}

// FuzzMatch: no file is given to a name whose base name differs, and none twice.
func FuzzMatch(f *testing.F) {
	f.Add("/build/x/lib/a.c\n/y/b.c", "lib/a.c\nb.c", "/build", "")
	f.Add("C:\\src\\A.c\n/src/a.c", "src/a.c\n./src/a.c", "C:", "src")
	f.Fuzz(func(t *testing.T, names, paths, old, replace string) {
		list := named(strings.Split(names, "\n")...)
		found, refused := NewMatcher(list, Rewrite{old, replace}).Match(strings.SplitSeq(paths, "\n"))
		seen := map[int]bool{}
		for _, x := range found {
			if seen[x.Name] || x.How == 0 {
				t.Errorf("%+v, want each name once and a way", x)
			}
			seen[x.Name] = true
		}
		for _, x := range refused {
			if seen[x.Name] || len(x.Paths) == 0 || x.Reason == "" {
				t.Errorf("%+v, want each name once, a reason and files", x)
			}
			seen[x.Name] = true
		}
	})
}

// FuzzList: any object of the formats with sources ends.
func FuzzList(f *testing.F) {
	for _, path := range []string{"ppdb/lines.pdb", "elf/e-x86", "elf/prog-zlib", "../internal/files/sources/testdata/only.o"} {
		p, err := os.ReadFile(filepath.Join("../../../testdata", path))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		r := bytes.NewReader(p)
		found, err := objfile.Identify(r, r.Size(), "a", objfile.Options{IDs: true})
		if err != nil {
			return
		}
		for _, o := range found[:min(len(found), 2)] {
			l, err := List(t.Context(), r, r.Size(), o.Object, Options{Names: 1000, Sections: objfile.SectionOptions{Limit: 16 << 20}})
			if err != nil {
				continue
			}
			if len(l.Names) > 1000 {
				t.Errorf("%d names, want at most 1000", len(l.Names))
			}
			_, _ = l.Extract(t.Context(), func(_ int, r io.Reader) error {
				_, err := io.Copy(io.Discard, r)
				return err
			})
		}
	})
}

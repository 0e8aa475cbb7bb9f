package sources

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the sums of compilers
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, want string }{
		{"/srv/demo/src/main.c", "/srv/demo/src/main.c"},
		{"/srv/demo/build/../src/main.c", "/srv/demo/src/main.c"},
		{"/srv///demo/./build/../src/main.c", "/srv/demo/src/main.c"},
		{"//srv/demo/main.c", "/srv/demo/main.c"},
		{"/../../a.c", "/a.c"},
		{"/a/..", ""},
		{"./a.c", "a.c"},
		{"../../lib/a.c", "lib/a.c"},
		{"a/../../b.c", "b.c"},
		{"a/b/", "a/b"},
		{`C:\src\..\lib\A.c`, "C:/lib/A.c"},
		{"C:/src/a.c", "C:/src/a.c"},
		{"/C:/src/a.c", "C:/src/a.c"},
		{`c:\..\..\a.c`, "c:/a.c"},
		{`\\host\share\a.c`, "/host/share/a.c"},
		{"/sub dir/a+b$c.c", "/sub dir/a+b$c.c"},
		{"github.com/x/y/z.go", "github.com/x/y/z.go"},
		{"/SRC/a.c", "/SRC/a.c"},
		{".", ""}, {"", ""}, {"/", ""}, {"..", ""},
		{"...", "..."}, {"/a/..b/c", "/a/..b/c"},
	} {
		got := Canonical(c.name)
		if got != c.want {
			t.Errorf("Canonical(%q) is %q, want %q", c.name, got, c.want)
		}
		if again := Canonical(got); again != got {
			t.Errorf("Canonical(%q) is %q, want it unchanged", got, again)
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		want []string
	}{
		{"/srv/a.c", []string{"/srv/a.c", "srv/a.c"}},
		{"/github.com/x/./z.go", []string{"/github.com/x/z.go", "github.com/x/z.go"}},
		{"github.com/x/z.go", []string{"github.com/x/z.go", "/github.com/x/z.go"}},
		{"/C:/src/a.c", []string{"C:/src/a.c"}},
		{`C:\src\a.c`, []string{"C:/src/a.c"}},
		{"/..", nil},
	} {
		if got := Keys(c.name); !slices.Equal(got, c.want) {
			t.Errorf("Keys(%q) is %q, want %q", c.name, got, c.want)
		}
	}
}

func named(names ...string) (list []Name) {
	for _, n := range names {
		list = append(list, Name{Name: n})
	}
	return list
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what     string
		names    []string
		rewrites []Rewrite
		paths    []string
		want     []string // name=path how, or name! for a refusal
	}{
		{"equal paths", []string{"/usr/src/debug/a-1/x.c", "/b.c"}, nil, []string{"usr/src/debug/a-1/x.c", "/b.c"},
			[]string{"/usr/src/debug/a-1/x.c=usr/src/debug/a-1/x.c exact", "/b.c=/b.c exact"}},
		{"equal after cleaning", []string{"/p/build/../x.c"}, nil, []string{"./p/x.c"}, []string{"/p/build/../x.c=./p/x.c exact"}},
		{"prefix", []string{"/build/123/src/a.c"}, []Rewrite{{"/build/123", "/home/me"}}, []string{"home/me/src/a.c", "other/src/a.c"},
			[]string{"/build/123/src/a.c=home/me/src/a.c rewritten"}},
		{"prefix to the root", []string{"/build/123/src/a.c"}, []Rewrite{{"/build/123/", ""}}, []string{"src/a.c", "b/src/a.c"},
			[]string{"/build/123/src/a.c=src/a.c rewritten"}},
		{"a prefix ends at a segment", []string{"/build/1234/a.c"}, []Rewrite{{"/build/123", ""}}, []string{"4/a.c"}, nil},
		{"suffix", []string{"/build/x/src/lib/a.c"}, nil, []string{"lib/a.c", "src/lib/a.c", "other/a.c"},
			[]string{"/build/x/src/lib/a.c=src/lib/a.c suffix"}},
		{"suffix of a deeper tree", []string{"/build/x/lib/a.c"}, nil, []string{"repo/lib/a.c", "repo/b/a.c"},
			[]string{"/build/x/lib/a.c=repo/lib/a.c suffix"}},
		{"one equal segment is not enough", []string{"/build/x/lib/a.c"}, nil, []string{"other/a.c"}, nil},
		{"a file at the root", []string{"/build/x/main.c"}, nil, []string{"main.c", "sub/main.c"}, []string{"/build/x/main.c=main.c suffix"}},
		{"a tie", []string{"/build/x/lib/a.c"}, nil, []string{"one/lib/a.c", "two/lib/a.c"}, []string{"/build/x/lib/a.c!"}},
		{"two spellings of one file", []string{"/build/x/lib/a.c"}, nil, []string{"one/lib/a.c", "./one/lib/a.c"}, []string{"/build/x/lib/a.c=one/lib/a.c suffix"}},
		{"exact beats suffix", []string{"/a/b/c.c"}, nil, []string{"x/a/b/c.c", "a/b/c.c"}, []string{"/a/b/c.c=a/b/c.c exact"}},
		{"one file for two names", []string{"/one/util.c", "/two/util.c"}, nil, []string{"util.c"}, []string{"/one/util.c!", "/two/util.c!"}},
		{"one file for two names, one fits better", []string{"/one/lib/util.c", "/two/src/lib/util.c"}, nil, []string{"src/lib/util.c"},
			[]string{"/two/src/lib/util.c=src/lib/util.c suffix", "/one/lib/util.c!"}},
		{"one file for three names, two of them the same", []string{"/one/lib/util.c", "/two/lib/util.c", "one/lib/util.c"}, nil, []string{"x/lib/util.c"},
			[]string{"/one/lib/util.c!", "/two/lib/util.c!", "one/lib/util.c!"}},
		{"one file for a name and its end", []string{"/one/lib/util.c", "lib/util.c"}, nil, []string{"lib/util.c"},
			[]string{"/one/lib/util.c=lib/util.c suffix", "lib/util.c=lib/util.c exact"}},
		{"Windows", []string{`C:\Build\Game\Main.cpp`}, nil, []string{"src/game/main.cpp", "game/main.cpp.orig"}, []string{`C:\Build\Game\Main.cpp=src/game/main.cpp suffix`}},
		{"Windows, prefix", []string{`c:\build\game\main.cpp`}, []Rewrite{{`C:\Build`, ""}}, []string{`game\Main.cpp`}, []string{`c:\build\game\main.cpp=game\Main.cpp rewritten`}},
		{"letter case elsewhere", []string{"/build/Main.c"}, nil, []string{"build/main.c"}, nil},
		{"relative names", []string{"github.com/x/y/z.go"}, nil, []string{"y/z.go"}, []string{"github.com/x/y/z.go=y/z.go suffix"}},
	} {
		m := NewMatcher(named(c.names...), c.rewrites...)
		for _, p := range c.paths {
			if base := path.Base(strings.ReplaceAll(p, `\`, "/")); slices.ContainsFunc(c.want, func(w string) bool { return strings.Contains(w, "="+p+" ") }) && !m.Wants(base) {
				t.Errorf("%s: Wants(%q) is false, want true", c.what, base)
			}
		}
		found, refused := m.Match(slices.Values(c.paths))
		var got []string
		for _, f := range found {
			got = append(got, fmt.Sprintf("%s=%s %s", c.names[f.Name], f.Path, f.How))
		}
		for _, r := range refused {
			got = append(got, c.names[r.Name]+"!")
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	if NewMatcher(named("/a/b.c")).Wants("c.c") {
		t.Error(`Wants("c.c") is true, want false`)
	}
}

// TestMatchMany: names and files that all have one base name, as hostile ones may, take no
// longer than others.
func TestMatchMany(t *testing.T) {
	t.Parallel()
	const n = 100_000
	var names []Name
	var paths []string
	for i := range n {
		names = append(names, Name{Name: fmt.Sprintf("/build/%d/a.c", i)})
		paths = append(paths, fmt.Sprintf("tree/%d/a.c", i))
	}
	start := time.Now()
	found, refused := NewMatcher(names).Match(slices.Values(paths))
	if len(found) != n || len(refused) != 0 {
		t.Errorf("%d found, %d refused, want %d and none", len(found), len(refused), n)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v, want less than a second on an idle machine", took)
	}
}

// TestResolve: sums decide between files that match equally well, and refuse others.
func TestResolve(t *testing.T) {
	t.Parallel()
	files := map[string]string{"one/lib/a.c": "one", "two/lib/a.c": "two", "b.c": "b", "huge.c": strings.Repeat("x", MaxFile+1)}
	sum := func(s string) []byte {
		h := md5.Sum([]byte(s)) //nolint:gosec // the sums of compilers
		return h[:]
	}
	names := []Name{
		{Name: "/build/lib/a.c", Alg: "md5", Sum: sum("two")},
		{Name: "/x/b.c", Alg: "md5", Sum: sum("another")},
		{Name: "/x/huge.c", Alg: "md5", Sum: sum("huge")},
		{Name: "/x/gone.c", Alg: "md5", Sum: sum("gone")},
		{Name: "/y/b.c", Alg: "md5", Sum: sum("b")},
	}
	paths := append(slices.Sorted(func(yield func(string) bool) {
		for p := range files {
			if !yield(p) {
				return
			}
		}
	}), "gone.c")
	found, refused, err := NewMatcher(names).Resolve(t.Context(), slices.Values(paths), func(p string) (io.ReadCloser, error) {
		text, ok := files[p]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(bytes.NewReader([]byte(text))), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []Found{{0, "two/lib/a.c", Suffix, Verified}, {4, "b.c", Suffix, Verified}}
	if !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	var lacks []int
	for _, r := range refused {
		lacks = append(lacks, r.Name)
		if r.Reason == "" {
			t.Errorf("the refusal of %s has no reason", names[r.Name].Name)
		}
	}
	if !slices.Equal(lacks, []int{1, 2, 3}) {
		t.Errorf("refused %v, want the names 1, 2 and 3", refused)
	}
}

package layout

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// checkExplain compares Explain with Route.
func checkExplain(t *testing.T, segs []string, extra ...string) {
	t.Helper()
	want, wantErr := Route(segs, extra...)
	if wantErr != nil {
		want, wantErr = RouteAdmin(segs, extra...)
	}
	got, tries, err := Explain(segs, extra...)
	if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("Explain(%q) = %+v, %v; Route and RouteAdmin return %+v, %v", segs, got, err, want, wantErr)
	}
	for i, try := range tries {
		fits := err == nil && i == len(tries)-1
		if (try.Why == "") != fits {
			t.Fatalf("Explain(%q): form %s of %d, why not: %q; want a reason for each form but the last one of a path that fits", segs, try.Shape, i, try.Why)
		}
		if fits && try.Prefix != got.Prefix {
			t.Fatalf("Explain(%q): the form that fits has the prefix %q, want %q", segs, try.Prefix, got.Prefix)
		}
	}
	if len(segs) > 1 && len(tries) == 0 {
		t.Fatalf("Explain(%q) lists no form", segs)
	}
}

// TestExplain: Explain decides as Route does, for each path of the golden files with
// and without a prefix, and gives a reason for each form that does not fit.
func TestExplain(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/golden/asked.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for path := range strings.FieldsSeq(string(text)) {
		if !strings.Contains(path, "/") {
			continue
		}
		n++
		segs := splitNonEmpty(path)
		checkExplain(t, segs)
		checkExplain(t, append([]string{"download", "symbols"}, segs...))
		checkExplain(t, append([]string{"corp"}, segs...), "corp")
		checkExplain(t, append([]string{"elsewhere"}, segs...))
		checkExplain(t, segs[1:])
	}
	if n < 100 {
		t.Errorf("the golden files have %d paths, want at least 100", n)
	}
}

// TestExplainWhy: the reasons name the part of the path that is wrong.
func TestExplainWhy(t *testing.T) {
	t.Parallel()
	const id = "0102030405060708090A0B0C0D0E0F101"
	for _, tt := range []struct{ path, shape, why string }{
		{"app.pdb/xyz/app.pdb", "symstore", `"xyz" is no id`},
		{"app.pdb/" + id + "/other.pdb", "symstore", `"other.pdb", is not derived from the name "app.pdb"`},
		{"app.pdb/" + id, "symstore", "2 parts"},
		{"app.pdb/" + id + "/app.pdb/x", "symstore", `"app.pdb" is no version of MSFZ`},
		{"../" + id + "/..", "symstore", `".." is no file name`},
		{"xx/app.pdb/" + id + "/app.pdb", "symstore_index2", `"xx" is not the first one or two characters of "app.pdb"`},
		{"a/b/app.pdb/" + id + "/app.pdb", "breakpad", "ends in neither .sym nor .src.zip"},
		{"buildid/zz/debuginfo", "debuginfod", `"zz" is no build-id`},
		{"buildid/0102030405060708/sources", "debuginfod", "none of debuginfo"},
		{"buildid/0102030405060708/section", "debuginfod", "the name of the section is missing"},
		{"buildid/0102030405060708/debuginfo/x", "debuginfod", "something follows debuginfo"},
		{"v2/app.pdb", "symcache", ""},
		{"abc/def", "gdb", `"abc" is not the first two digits`},
		{"ab/xyz", "gdb", "is no build-id"},
		{"ab/cdef/symbol", "unified", `"symbol" is none of executable`},
		{"1234/5678/9ABC/DEF0/1234/xyz", "lldb", "12 hex digits"},
		{"000Admin/x/y", "symstore_admin", "neither below 000Admin"},
	} {
		_, tries, err := Explain(strings.Split(tt.path, "/"))
		if err == nil {
			t.Errorf("%s is a path of a symbol file, want none", tt.path)
		}
		found := false
		for _, try := range tries {
			if try.Shape == tt.shape {
				found = found || try.Why != "" && strings.Contains(try.Why, tt.why)
			}
		}
		if !found {
			t.Errorf("%s: no reason with %q for the form %s in %+v", tt.path, tt.why, tt.shape, tries)
		}
	}
}

func FuzzExplain(f *testing.F) {
	for _, s := range []string{"/app.pdb/0102030405060708090A0B0C0D0E0F101/app.pdb", "/symbols/ab/cdef/debuginfo", "/v3.1.0/a.pdb/x", "/a%2fb/c", "/000Admin/x", "/corp/x/y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if segs, err := Segments(path); err == nil {
			checkExplain(t, segs)
			checkExplain(t, segs, "corp/symbols")
		}
	})
}

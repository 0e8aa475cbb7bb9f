package symtest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var updateDocs = flag.Bool("update-docs", false, "write the generated parts of the documentation anew: make docs")

// Generated compares a part of a page of the documentation with what the code says. The
// part stands between the lines "<!-- NAME: made by … -->" and "<!-- end of NAME -->".
// With -update-docs the part is written anew. It returns what people have written on the
// page, before and after the part.
func Generated(tb testing.TB, page, name, want string) string {
	tb.Helper()
	path := filepath.Join(repository(tb), filepath.FromSlash(page))
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	doc := strings.ReplaceAll(string(text), "\r\n", "\n")
	before, rest, ok := strings.Cut(doc, "<!-- "+name+": ")
	mark, rest, ok2 := strings.Cut(rest, "-->\n")
	have, after, ok3 := strings.Cut(rest, "<!-- end of "+name+" -->")
	if !ok || !ok2 || !ok3 {
		tb.Fatalf("%s has no marks around the part %s", page, name)
	}
	want = "\n" + strings.Trim(want, "\n") + "\n\n"
	switch {
	case have == want:
	case *updateDocs:
		doc = before + "<!-- " + name + ": " + mark + "-->\n" + want + "<!-- end of " + name + " -->" + after
		if err := os.WriteFile(path, []byte(doc), 0o644); err != nil {
			tb.Fatal(err)
		}
	default:
		tb.Errorf("%s: the part %s does not say what the program does; run: make docs", page, name)
	}
	return before + after
}

// repository returns the root of the repository.
func repository(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("no go.mod above the folder of the test")
		}
		dir = parent
	}
}

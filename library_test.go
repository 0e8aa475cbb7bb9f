package symdepot_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLibraryMap: doc.go and docs/library.md name each package that other programs can use,
// and no other. Each says in its documentation whether it is promised.
func TestLibraryMap(t *testing.T) {
	t.Parallel()
	comment := readText(t, "doc.go")
	var inDoc []string
	for _, m := range regexp.MustCompile(`(?m)^//   - ([a-z, ]+):`).FindAllStringSubmatch(comment, -1) {
		inDoc = append(inDoc, strings.Split(m[1], ", ")...)
	}
	var inPage []string
	for _, m := range regexp.MustCompile(`(?m)^\|.*?\|([^|]*)\|`).FindAllStringSubmatch(readText(t, "docs/library.md"), -1) {
		for _, name := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(m[1], -1) {
			inPage = append(inPage, name[1])
		}
	}
	want := slices.Sorted(slices.Values(pure))
	for where, have := range map[string][]string{"doc.go": inDoc, "docs/library.md": inPage} {
		if have = slices.Sorted(slices.Values(have)); !slices.Equal(have, want) {
			t.Errorf("%s names the packages %v, want %v", where, have, want)
		}
	}
	for _, name := range pure {
		files := parsePackage(t, name)
		if !slices.ContainsFunc(files, func(f *ast.File) bool {
			return regexp.MustCompile(`(?i)(?m)^Promised:|^# Promise$|\bnot yet\s+promised\b`).MatchString(f.Doc.Text())
		}) {
			t.Errorf("the documentation of package %s does not say what is promised, or that nothing is", name)
		}
	}
}

// TestLibraryPrograms runs the programs of docs/library.md with the command below each, and
// compares the output with the text below that. "…" as the last line stands for more lines.
func TestLibraryPrograms(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("links programs: run it without -short")
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```\n\n```sh\ngo run \\. (.*?)\n```\n\n```text\n(.*?)^```").FindAllStringSubmatch(readText(t, "docs/library.md"), -1)
	if len(blocks) != 3 {
		t.Fatalf("%d programs in docs/library.md, want 3", len(blocks))
	}
	for _, b := range blocks {
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(b[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "go", append([]string{"run", file}, strings.Fields(b[2])...)...).CombinedOutput()
		start, more := strings.CutSuffix(b[3], "…\n")
		if rest, ok := strings.CutPrefix(string(out), start); err != nil || !ok || more != (rest != "") {
			t.Errorf("go run . %s: %v\n%swant\n%s", b[2], err, out, b[3])
		}
	}
}

// TestLibraryModules: docs/library.md says which packages need the standard library only.
func TestLibraryModules(t *testing.T) {
	t.Parallel()
	m := regexp.MustCompile(`(?s)need less\. (.*?) need the standard library only`).FindStringSubmatch(readText(t, "docs/library.md"))
	if m == nil {
		t.Fatal("docs/library.md does not say which packages need the standard library only")
	}
	var said, want []string
	for _, name := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(m[1], -1) {
		said = append(said, name[1])
	}
	for _, p := range packages(t) {
		isOther := func(d string) bool {
			first, _, _ := strings.Cut(d, "/")
			return strings.Contains(first, ".") && !strings.HasPrefix(d, module+"/")
		}
		if name := strings.TrimPrefix(p.ImportPath, module+"/"); slices.Contains(pure, name) && !slices.ContainsFunc(p.Deps, isOther) {
			want = append(want, name)
		}
	}
	slices.Sort(said)
	if slices.Sort(want); !slices.Equal(said, want) {
		t.Errorf("docs/library.md says that %v need the standard library only; it is true of %v", said, want)
	}
}

// noWords are the numbers without a word: a caller gives the first four and never gets them, and
// the others count.
var noWords = []string{"breakpad.FrameRecords", "demangle.Flags", "symstore.Compression", "symstore.Locking", "functab.FileID", "functab.NameID"}

// TestLibraryNumbers: a number with named values, which a package gives to its caller, prints
// as a word: its type has a method String.
func TestLibraryNumbers(t *testing.T) {
	t.Parallel()
	for _, name := range pure {
		numbers, printed := map[string]bool{}, map[string]bool{}
		for _, f := range parsePackage(t, name) {
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.GenDecl:
					for _, s := range d.Specs {
						if s, ok := s.(*ast.TypeSpec); ok && s.Name.IsExported() && s.Assign == 0 {
							base, _ := s.Type.(*ast.Ident)
							numbers[s.Name.Name] = base != nil && regexp.MustCompile(`^u?int(8|16|32)?$`).MatchString(base.Name)
						}
					}
				case *ast.FuncDecl:
					if d.Recv != nil && d.Name.Name == "String" {
						if recv, ok := d.Recv.List[0].Type.(*ast.Ident); ok {
							printed[recv.Name] = true
						}
					}
				}
			}
		}
		for number, is := range numbers {
			if is && !printed[number] && !slices.Contains(noWords, name+"."+number) {
				t.Errorf("%s.%s prints as a number: give it a method String", name, number)
			}
		}
	}
}

// parsePackage parses the files of a package, without its tests.
func parsePackage(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v, %d files", dir, err, len(names))
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// readText reads a file whose lines may end as Windows ends them.
func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

package symdepot_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ownLookups are the tests that look for programs by themselves, with the reason.
var ownLookups = map[string]string{
	"cmd/symdepot/auth_test.go":                 "its own symdepot",
	"test/bench/symbolsbench_test.go":           "its own symdepot",
	"test/bench/stacksbench_test.go":            "its own symdepot",
	"cmd/symdepot/script_test.go":               "its own symdepot, and programs that Windows lacks",
	"internal/derive/transcode/program_test.go": "Wine, of which there are several names: make windows builds one",
	"test/browser/rig_test.go":                  "Chromium, of which there are several names",
}

// ownPrograms are made by the tests, and cmd is part of Windows.
var ownPrograms = []string{"symdepot", "symstore", "convertstore", "agestore", "symchk", "loadgen", "cmd"}

// benchTools are the programs of make bench and of other systems, which no test of make test runs.
var benchTools = []string{"wrk", "chattr", "sync"}

// TestTools: internal/base/symtest/tools.txt, from which make setup installs, has each
// program that a test of Go or a script runs. Tests look for programs through
// symtest, which says what is missing and fails where SYMDEPOT_REQUIRE names it.
func TestTools(t *testing.T) {
	t.Parallel()
	known := map[string]string{} // program to package
	table, err := os.ReadFile("internal/base/symtest/tools.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] != "#" {
			known[f[0]] = f[2]
		}
	}
	if len(known) < 50 {
		t.Fatalf("%d programs in tools.txt, want at least 50", len(known))
	}
	used := map[string]bool{}
	check := func(where, program string) {
		used[program] = true
		if known[program] == "" && !slices.Contains(ownPrograms, program) && !slices.Contains(benchTools, program) {
			t.Errorf("%s runs %s, which internal/base/symtest/tools.txt lacks: add it, with its Debian package", where, program)
		}
	}
	var words strings.Builder // of all tests, to find programs that none names
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "dist" || path != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case strings.HasSuffix(path, "_test.go") && path != "tools_test.go", strings.HasSuffix(path, ".go") && strings.HasSuffix(filepath.Dir(path), "test"):
			goPrograms(t, path, check)
		case strings.HasSuffix(path, ".txtar"):
			scriptPrograms(t, path, known, check)
		case !strings.HasPrefix(path, "scripts"+string(filepath.Separator)) && !strings.HasSuffix(path, ".md") && filepath.Base(path) != "Makefile":
			return nil
		}
		b, err := os.ReadFile(path)
		words.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for program := range known {
		if !used[program] && !regexp.MustCompile(`(^|[^\w-])`+regexp.QuoteMeta(program)+`($|[^\w-])`).MatchString(words.String()) {
			t.Errorf("internal/base/symtest/tools.txt has %s, which no test names: remove it", program)
		}
	}
}

// goPrograms calls check with each program that a file names in a call that runs or
// looks for one.
func goPrograms(t *testing.T, path string, check func(where, program string)) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	// The argument that is the program.
	names := map[string]int{"exec.Command": 0, "exec.CommandContext": 1, "exec.LookPath": 0, "symtest.Tool": 1, "symtest.Judge": 1}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, _ := sel.X.(*ast.Ident)
		if pkg == nil {
			return true
		}
		name := pkg.Name + "." + sel.Sel.Name
		where := fset.Position(call.Pos()).String()
		if slash := filepath.ToSlash(path); name == "exec.LookPath" && ownLookups[slash] == "" && strings.HasSuffix(slash, "_test.go") {
			t.Errorf("%s: a test looks for programs with symtest.Tool or symtest.Judge, which say what is missing", where)
		}
		if at, ok := names[name]; ok && at < len(call.Args) {
			if lit, ok := call.Args[at].(*ast.BasicLit); ok {
				program, err := strconv.Unquote(lit.Value)
				if err == nil {
					check(where, program)
				}
			}
		}
		return true
	})
}

var (
	scriptHeads = regexp.MustCompile(`\[!?exec:([^\]]+)\]`)
	scriptCalls = regexp.MustCompile(`(?m)^((?:\[[^\]]*\] *)*)(?:[!?] )?exec ([\w.+-]+)(.*)$`)
	shellWords  = regexp.MustCompile("(?:^ -c '|[|;&({`] *|\\$\\(|\\b(?:do|then|until|while|exec|!) )([\\w.+-]+)")
)

// scriptPrograms calls check with each program of a script, and wants a condition
// before the first use of one that is not everywhere.
func scriptPrograms(t *testing.T, path string, known map[string]string, check func(where, program string)) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(b), "\n-- ")
	for _, m := range scriptHeads.FindAllStringSubmatch(text, -1) {
		check(path, m[1])
	}
	for _, m := range scriptCalls.FindAllStringSubmatch(text, -1) {
		programs := []string{m[2]}
		check(path, m[2])
		if m[2] == "sh" || m[2] == "bash" {
			for _, w := range shellWords.FindAllStringSubmatch(m[3], -1) {
				programs = append(programs, w[1])
			}
		}
		for _, program := range programs {
			if known[program] != "" && known[program] != "base" && !conditional(text, m[1], program, known) {
				t.Errorf("%s runs %s: it needs a line [!exec:%s] skip 'needs %s'", path, program, program, program)
			}
		}
	}
}

// conditional reports whether a script runs a program only where it is, or where
// another program of its package is. Compilers bring binutils, and all systems
// that run scripts of Windows have its curl.
func conditional(text, before, program string, known map[string]string) bool {
	if strings.Contains(text, "[!windows] skip") {
		return true
	}
	for other := range known {
		same := known[other] == known[program] || (other == "gcc" || other == "clang-19") && known[program] == "binutils"
		if same && (strings.Contains(before, "[exec:"+other+"]") || strings.Contains(text, "[!exec:"+other+"] s")) {
			return true
		}
	}
	return false
}

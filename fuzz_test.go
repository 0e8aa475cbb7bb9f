package symdepot_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// fuzzTargets returns each fuzz target of the tree as "DIR NAME".
func fuzzTargets(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != "." && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
				all[path.Dir(name)+" "+f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("%d fuzz targets in the tree, want at least 50", len(all))
	}
	return all
}

// TestFuzzWeek: in seven days in a row, make fuzzday runs every target once, and about
// as many each day.
func TestFuzzWeek(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "bash")
	symtest.Tool(t, "git")
	if out, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--git-dir").CombinedOutput(); err != nil {
		t.Skipf("scripts/fuzz asks git for the files: %v: %s", err, out)
	}
	targets := fuzzTargets(t)
	turns := map[string]int{}
	const first = 20658 // a day; the week begins anywhere
	for day := first; day < first+7; day++ {
		out, err := exec.CommandContext(t.Context(), "bash", "scripts/fuzz", "-day", "-of", strconv.Itoa(day), "-list").Output()
		if err != nil {
			t.Fatalf("scripts/fuzz -day -of %d -list: %v", day, err)
		}
		n := 0
		for line := range strings.Lines(string(out)) {
			turns[strings.TrimSpace(line)]++
			n++
		}
		if n < len(targets)/7-1 || n > len(targets)/7+1 {
			t.Errorf("day %d has %d of %d targets, want a seventh", day, n, len(targets))
		}
	}
	for target := range targets {
		if turns[target] != 1 {
			t.Errorf("%s has %d turns in a week, want 1", target, turns[target])
		}
	}
	for target := range turns {
		if !targets[target] {
			t.Errorf("scripts/fuzz runs %q, which is no fuzz target", target)
		}
	}
}

// TestFuzzSeeds: go test runs every input that fuzzing has kept in a testdata/fuzz: it
// stands in the folder of a target that its package has on every system.
func TestFuzzSeeds(t *testing.T) {
	t.Parallel()
	targets := fuzzTargets(t)
	err := filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != "." && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		}
		dir, seed, ok := strings.Cut(name, "/testdata/fuzz/")
		if !ok || e.IsDir() {
			return nil
		}
		target, _, _ := strings.Cut(seed, "/")
		if !targets[dir+" "+target] {
			t.Errorf("no test runs %s: package %s has no fuzz target %s", name, dir, target)
		}
		b, err := os.ReadFile(name)
		if err == nil && !strings.HasPrefix(string(b), "go test fuzz v1\n") {
			t.Errorf("%s is no input as package testing keeps them", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

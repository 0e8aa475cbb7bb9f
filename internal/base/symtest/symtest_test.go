package symtest

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestRequired fails for each thing that SYMDEPOT_REQUIRE asks for and this
// machine lacks. Without it, a missing tool only skips tests.
func TestRequired(t *testing.T) {
	names := os.Getenv("SYMDEPOT_REQUIRE")
	if names == "" {
		t.Skip("SYMDEPOT_REQUIRE is not set: missing tools and files skip the tests that need them")
	}
	for _, group := range strings.Split(names, ",") {
		tools, ok := groups()[group]
		if !ok {
			t.Errorf("SYMDEPOT_REQUIRE names %q, want one of %q", group, slices.Sorted(maps.Keys(groups())))
			continue
		}
		for _, name := range tools {
			if find(name) == "" {
				t.Errorf("%s is not installed; SYMDEPOT_REQUIRE names its group %s", name, group)
			}
		}
		if group == "material" {
			requireMaterial(t)
		}
	}
}

// requireMaterial compares the fetched files with the table of the repository.
func requireMaterial(t *testing.T) {
	dir := Material(t)
	have := paths(t, filepath.Join(dir, "expected.tsv"))
	for p := range paths(t, filepath.Join(moduleRoot(), "testdata", "public.tsv")) {
		if !have[p] {
			t.Errorf("%s was not fetched, or has another SHA-256 than testdata/public.tsv says", p)
		}
	}
}

// paths returns the first column of a tab-separated table.
func paths(t *testing.T, name string) map[string]bool {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string]bool{}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		p, _, _ := strings.Cut(sc.Text(), "\t")
		all[p] = true
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestFindLooksForProgramsOnPath(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "judge")
	if runtime.GOOS == "windows" {
		program += ".bat"
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "")
	t.Setenv("SYMDEPOT_PEERS", dir)
	if got := find("judge"); !strings.EqualFold(got, program) {
		t.Errorf("find(judge) = %q, want %q from SYMDEPOT_PEERS", got, program)
	}
	if got := find("no-such-program"); got != "" {
		t.Errorf("find(no-such-program) = %q, want nothing", got)
	}
}

// moduleRoot returns the folder of go.mod: tests run in their package's folder.
func moduleRoot() string {
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return ""
}

func TestAppendFunction(t *testing.T) {
	for i, at := range []int{0, 0x1000, 1 << 40} {
		want := fmt.Sprintf("FUNC %x %x 0 ns::Class%d::method_%d(int, std::string const&)\n", at, 3*at, (i*100)%97, i*100)
		if got := AppendFunction(nil, at, 3*at, i*100); string(got) != want {
			t.Errorf("AppendFunction = %q, want %q", got, want)
		}
	}
}

// Package symtest finds what tests need from outside the repository: real
// symbol files, and the clients and servers that serve as independent judges.
//
// A test that does not find what it needs is skipped and says what is missing.
// The variable SYMDEPOT_REQUIRE turns that into a failure: it lists, separated
// by commas, the groups that this machine must have. Continuous integration
// sets it, so that a missing installation step cannot pass as a skipped test.
package symtest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// toolTable lists the programs that tests run. scripts/setup reads it too.
//
//go:embed tools.txt
var toolTable string

// groups are the groups that SYMDEPOT_REQUIRE may name, with the programs of
// each. Material has files instead of programs.
var groups = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{"material": nil}
	for line := range strings.Lines(toolTable) {
		if f := strings.Fields(line); len(f) == 3 && f[0] != "#" {
			all[f[1]] = append(all[f[1]], f[0])
		}
	}
	return all
})

// required reports whether SYMDEPOT_REQUIRE names the group.
func required(group string) bool {
	return slices.Contains(strings.Split(os.Getenv("SYMDEPOT_REQUIRE"), ","), group)
}

// Missing ends a test that does not find what it needs: it fails where
// SYMDEPOT_REQUIRE names the group, and is skipped elsewhere.
func Missing(tb testing.TB, group, format string, args ...any) {
	tb.Helper()
	if required(group) {
		tb.Fatalf("SYMDEPOT_REQUIRE names "+group+", but "+format, args...)
	}
	tb.Skipf(format, args...)
}

// Material returns the folder of real symbol files that scripts/material
// fetches; its expected.tsv holds their ids and paths.
func Material(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("SYMDEPOT_MATERIAL")
	if _, err := os.Stat(filepath.Join(dir, "expected.tsv")); dir == "" || err != nil {
		Missing(tb, "material", "SYMDEPOT_MATERIAL names no folder of real symbol files with an expected.tsv; make setup fetches them")
	}
	return dir
}

// Table returns the folder of real symbol files and the rows of its expected.tsv,
// each by the names of the columns.
func Table(tb testing.TB) (dir string, rows []map[string]string) {
	tb.Helper()
	dir = Material(tb)
	b, err := os.ReadFile(filepath.Join(dir, "expected.tsv"))
	if err != nil {
		tb.Fatal(err)
	}
	head, rest, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	columns := strings.Split(head, "\t")
	for line := range strings.Lines(rest) {
		row := map[string]string{}
		for i, v := range strings.Split(strings.TrimSuffix(line, "\n"), "\t") {
			if i < len(columns) {
				row[columns[i]] = v
			}
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		tb.Fatalf("%s/expected.tsv has no rows, want one for each file", dir)
	}
	return dir, rows
}

// Tool returns the path of a program of tools.txt, or ends the test through
// Missing. It looks on PATH, in the folders of system programs, and in
// SYMDEPOT_PEERS, where scripts/peers and scripts/oracles put what they build.
func Tool(tb testing.TB, name string) string {
	tb.Helper()
	group, path := groupOf(tb, name), find(name)
	if path == "" {
		Missing(tb, group, "%s is not installed; make setup installs it where it can", name)
	}
	return path
}

// Judge returns the path of a program of tools.txt that a test compares with if
// it is there, or "". Where SYMDEPOT_REQUIRE names its group, the test fails
// without it.
func Judge(tb testing.TB, name string) string {
	tb.Helper()
	group, path := groupOf(tb, name), find(name)
	if path == "" && required(group) {
		tb.Fatalf("SYMDEPOT_REQUIRE names %s, but %s is not installed; make setup installs it where it can", group, name)
	}
	return path
}

// Sequential skips a test of code that starts no goroutine, or a part of one, where it runs
// under the race detector, which finds nothing there and takes many times as long. make test
// runs tests of which no part is skipped there under the detector only: what does less there
// calls Sequential, Unraced or Brief.
func Sequential(tb testing.TB) {
	tb.Helper()
	Unraced(tb, "no goroutines")
}

// Unraced skips a test, or a part of one, under the race detector, and says why.
func Unraced(tb testing.TB, why string) {
	tb.Helper()
	if Race {
		tb.Skip(why + ": this test runs without the race detector only")
	}
}

// Brief reports whether a test does less because it runs under the race detector, where it
// would take too long. make test then runs all tests of its package without it, too:
// scripts/race looks for the line.
func Brief(tb testing.TB) bool {
	tb.Helper()
	if Race {
		tb.Log("less is tested under the race detector than without it")
	}
	return Race
}

func find(name string) string {
	if p, err := exec.LookPath(name); err == nil {
		return p
	}
	dirs := []string{"/usr/sbin", "/sbin", "/usr/lib/llvm-19/bin"}
	if services, err := filepath.Glob("/usr/lib/postgresql/*/bin"); err == nil {
		dirs = append(dirs, services...)
	}
	if peers := os.Getenv("SYMDEPOT_PEERS"); peers != "" {
		dirs = append(dirs, peers)
	}
	for _, dir := range dirs {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p
		}
	}
	return ""
}

// groupOf returns the group of a program, and fails the test if tools.txt lacks it.
func groupOf(tb testing.TB, tool string) string {
	tb.Helper()
	for group, tools := range groups() {
		if slices.Contains(tools, tool) {
			return group
		}
	}
	tb.Fatalf("%s is not in internal/base/symtest/tools.txt: add it there, so that make setup installs it", tool)
	return ""
}

// Package symtest finds what tests need from outside the repository: real
// symbol files, and the clients and servers that serve as independent judges.
//
// A test that does not find what it needs is skipped and says what is missing.
// The variable SYMDEPOT_REQUIRE turns that into a failure: it lists, separated
// by commas, the groups that this machine must have. Continuous integration
// sets it, so that a missing installation step cannot pass as a skipped test.
package symtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The groups that SYMDEPOT_REQUIRE may name, with the programs of each.
// Material has files instead of programs.
var groups = map[string][]string{
	"material":  nil,
	"debuggers": {"gdb", "lldb-19", "llvm-symbolizer-19", "llvm-gsymutil-19", "debuginfod-find", "debuginfod", "eu-addr2line", "dlv"},
	"stores":    {"versitygw", "fake-gcs-server", "azurite-blob"},
	"tools":     {"curl", "gcc", "strip", "dpkg-deb", "rpmbuild", "cabextract", "7zz", "bsdtar", "gcab", "xz", "bzip2", "pebble", "sentry-cli-2", "sentry-cli-3"},
	// Uploaders of other servers, which are built or need Mono.
	"uploaders": {"sym_upload", "nuget-mono"},
	"kerberos":  {"krb5kdc", "kadmin.local", "kinit"},
	"postgres":  nil, // internal/index/pgtest looks for its programs
}

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

// Tool returns the path of a program, or ends the test through Missing. It
// looks on PATH, in the folders of system programs, and in SYMDEPOT_PEERS, where
// scripts/peers puts what it builds.
func Tool(tb testing.TB, name string) string {
	tb.Helper()
	path := find(name)
	if path == "" {
		Missing(tb, groupOf(name), "%s is not installed; make setup installs it where it can", name)
	}
	return path
}

// Sequential skips a test of code that starts no goroutine where it runs under
// the race detector, which finds nothing there and takes many times as long.
func Sequential(tb testing.TB) {
	tb.Helper()
	if Race {
		tb.Skip("no goroutines: this test runs without the race detector only")
	}
}

func find(name string) string {
	if p, err := exec.LookPath(name); err == nil {
		return p
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", os.Getenv("SYMDEPOT_PEERS")} {
		if dir == "" {
			continue
		}
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p
		}
	}
	return ""
}

func groupOf(tool string) string {
	for group, tools := range groups {
		if slices.Contains(tools, tool) {
			return group
		}
	}
	return "tools"
}

package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestWindowsStore lets the program for Windows, under Wine, and that of this system
// write one symbol store and one depot by turns. Both find them clean after each
// step.
func TestWindowsStore(t *testing.T) {
	built := windowsBuilt(t)
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store, depot := filepath.Join(dir, "store"), filepath.Join(dir, "depot")
	run := cmp.Or(os.Getenv("SYMDEPOT_WINDOWS_RUN"), filepath.Join(repo, "scripts/windows-run"))
	// do runs a command on one of the systems. Arguments that are paths of this
	// system are given as that one spells them.
	do := func(windows bool, want string, args ...string) {
		t.Helper()
		name, prefix := "symdepot", []string(nil)
		if windows {
			name, prefix = run, []string{built.symdepot}
			for i, a := range args {
				if strings.HasPrefix(a, "/") && strings.Count(a, "/") > 1 { // no option
					args[i] = windowsPath(a)
				}
			}
		}
		out, err := exec.CommandContext(t.Context(), name, append(prefix, args...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s (Windows: %v): %v, want %q in\n%s", args, windows, err, want, out)
		}
	}
	clean := func() {
		t.Helper()
		for _, windows := range []bool{true, false} {
			do(windows, "the store is clean", "symstore", "check", "/s", store)
			do(windows, "clean: ", "--depot", depot, "verify")
		}
	}
	pdbs := filepath.Join(repo, "testdata", "pdb")
	for i, name := range []string{"hello-x64.exe", "hello-x64.pdb", "hello-x86.exe", "hello-x86.pdb"} {
		windows := i%2 == 0
		do(windows, "", "symstore", "add", "/f", filepath.Join(pdbs, name), "/s", store, "/t", "P", "/compress")
		do(windows, "", "--depot", depot, "add", "-p", "P", filepath.Join(pdbs, name))
		clean()
	}
	// Each deletes a transaction of the other.
	do(true, "", "symstore", "del", "/i", "2", "/s", store)
	do(false, "", "symstore", "del", "/i", "3", "/s", store)
	do(true, "", "--depot", depot, "rm", "2")
	do(false, "", "--depot", depot, "rm", "3")
	do(true, "freed", "--depot", depot, "gc", "--empty-trash", "--grace", "0s")
	clean()
	for name, found := range map[string]bool{"hello-x64.exe": true, "hello-x64.pdb": false, "hello-x86.exe": false, "hello-x86.pdb": true} {
		if _, err := os.Stat(filepath.Join(store, name)); (err == nil) != found {
			t.Errorf("%s in the store: %v, want found %v", name, err, found)
		}
	}
	if code, out, errs := commandtest.Symdepot(t, depot, "verify"); code != 0 || !strings.Contains(out, "clean: 2 contents") {
		t.Errorf("verify: exit code %d, %s%s, want 2 contents", code, out, errs)
	}
}

package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/run/command"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// storedFile returns the paths of the files below a folder with a content.
func storedFile(t *testing.T, dir string, content []byte) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if b, err := os.ReadFile(path); err == nil && string(b) == string(content) {
			list = append(list, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestHeldInDepot removes a transaction and collects garbage while another
// process, this one, holds a blob open. The blob stays whole, and the next
// collection deletes it.
func TestHeldInDepot(t *testing.T) {
	t.Parallel()
	depot, src := filepath.Join(t.TempDir(), "depot"), t.TempDir()
	commandtest.SymFiles(t, src, 1, 2, 4000)
	content, err := os.ReadFile(filepath.Join(src, "lib1-1.so.sym"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(want string, args ...string) {
		t.Helper()
		if code, out, errs := commandtest.Symdepot(t, depot, args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, output %s%s, want 0 and %q", args, code, out, errs, want)
		}
	}
	run("2 files", "add", src)
	blobs := storedFile(t, depot, content)
	if len(blobs) != 1 {
		t.Fatalf("files with the content: %q, want one", blobs)
	}
	release := symtest.Hold(t, blobs[0])
	run("", "rm", "1")
	run("", "gc", "--empty-trash", "--grace", "0s")
	run("", "verify")
	if got, err := os.ReadFile(blobs[0]); err != nil || string(got) != string(content) {
		t.Errorf("the blob that is held open: %d bytes, %v, want the content", len(got), err)
	}
	release()
	run("freed", "gc", "--empty-trash", "--grace", "0s")
	if _, err := os.Stat(blobs[0]); !os.IsNotExist(err) {
		t.Errorf("the blob after the next collection: %v, want not found", err)
	}
	run("clean: 0 contents", "verify")
}

// TestHeldInBackup makes a backup while another process, this one, holds a content
// of the earlier backup open. The backup is complete, and the next one removes the
// content.
func TestHeldInBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	depot, backup := filepath.Join(dir, "depot"), filepath.Join(dir, "backup")
	commandtest.SymFiles(t, filepath.Join(dir, "1"), 1, 1, 4000)
	commandtest.SymFiles(t, filepath.Join(dir, "2"), 2, 1, 4000)
	content, err := os.ReadFile(filepath.Join(dir, "1", "lib1-0.so.sym"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(want string, args ...string) {
		t.Helper()
		if code, out, errs := commandtest.Symdepot(t, depot, args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, output %s%s, want 0 and %q", args, code, out, errs, want)
		}
	}
	run("", "add", filepath.Join(dir, "1"))
	run("", "add", filepath.Join(dir, "2"))
	run("2 contents", "depot", "backup", "--to", backup)
	blobs := storedFile(t, backup, content)
	if len(blobs) != 1 {
		t.Fatalf("files with the content: %q, want one", blobs)
	}
	release := symtest.Hold(t, blobs[0])
	run("", "rm", "1")
	run("freed", "gc", "--empty-trash", "--grace", "0s")
	run("1 content", "depot", "backup", "--to", backup)
	if code, out, errs := commandtest.Symdepot(t, backup, "verify"); code != 0 || !strings.Contains(out, "clean: 1 content") {
		t.Errorf("verify of the backup: exit code %d, %s%s, want it clean", code, out, errs)
	}
	release()
	run("of earlier backups removed", "depot", "backup", "--to", backup)
	if _, err := os.Stat(blobs[0]); !os.IsNotExist(err) {
		t.Errorf("the content after the next backup: %v, want not found", err)
	}
}

// TestHeldInStore replaces and deletes a file of a symbol store while another
// process, this one, holds it open. The add fails and changes nothing. The
// deletion succeeds, and the next command that writes removes the file.
func TestHeldInStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, src := filepath.Join(dir, "store"), filepath.Join(dir, "hello-x64.exe")
	content, err := os.ReadFile(filepath.Join("..", "..", "testdata", "pdb", "hello-x64.exe"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(ok bool, text string, args ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "symstore", args...).CombinedOutput()
		if (err == nil) != ok || !strings.Contains(string(out), text) {
			t.Errorf("symstore %s: %v, want success %v with %q in\n%s", args, err, ok, text, out)
		}
	}
	put := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(src, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const noNote = "SYMSTORE: the store is clean"
	put(content)
	run(true, "", "add", "/f", src, "/s", store, "/t", "P")
	files := storedFile(t, store, content)
	if len(files) != 1 {
		t.Fatalf("files with the content: %q, want one", files)
	}
	release := symtest.Hold(t, files[0])
	put(append(content, 'x'))
	run(false, "", "add", "/f", src, "/s", store, "/t", "P")
	run(true, noNote, "check", "/s", store)
	if got, err := os.ReadFile(files[0]); err != nil || string(got) != string(content) {
		t.Errorf("the file that is held open: %d bytes, %v, want the content", len(got), err)
	}
	release()
	run(true, "", "add", "/f", src, "/s", store, "/t", "P")
	run(true, noNote, "check", "/s", store)

	release = symtest.Hold(t, files[0])
	run(true, "", "del", "/i", "1", "/s", store)
	run(true, "another program holds 1 deleted file open", "del", "/i", "2", "/s", store)
	run(true, "note      file-held hello-x64.exe/C10891754000/hello-x64.exe", "check", "/s", store)
	if got, err := os.ReadFile(files[0]); err != nil || len(got) != len(content)+1 {
		t.Errorf("the deleted file that is held open: %d bytes, %v, want %d", len(got), err, len(content)+1)
	}
	release()
	run(true, noNote, "check", "/s", store)
	if _, err := os.Stat(filepath.Join(store, "hello-x64.exe")); !os.IsNotExist(err) {
		t.Errorf("the folder of the deleted file: %v, want not found", err)
	}
}

// TestHeldInPlan applies the plan of a collection while another process, this one,
// holds a blob of the trash open. The blob stays whole, the transaction is not
// restored with half of its files, and the next collection deletes the blob. A
// transaction whose blob is held is restored.
func TestHeldInPlan(t *testing.T) {
	t.Parallel()
	depot, src := filepath.Join(t.TempDir(), "depot"), t.TempDir()
	commandtest.SymFiles(t, src, 1, 2, 4000)
	content, err := os.ReadFile(filepath.Join(src, "lib1-1.so.sym"))
	if err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(src, "policy.yml")
	if err := os.WriteFile(policy, []byte("retention:\n  classes:\n    - {name: build, keep_last: 1, keep_within: 1h}\n  default: build\n  trash: 7d\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(want string, args ...string) string {
		t.Helper()
		code, out, errs := commandtest.Symdepot(t, depot, args...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, output %s%s, want 0 and %q", args, code, out, errs, want)
		}
		return out
	}
	run("2 files", "add", src)
	run("", "policy", "set", policy)
	blobs := storedFile(t, depot, content)
	if len(blobs) != 1 {
		t.Fatalf("files with the content: %q, want one", blobs)
	}
	release := symtest.Hold(t, blobs[0])
	run("", "rm", "1")
	run("restored build 1", "undo", "1")
	run("clean: 2 contents", "verify")
	run("", "rm", "1")
	var plan display.Collected
	if err := json.Unmarshal([]byte(run("", "gc", "--grace", "0s", "--empty-trash", "--dry-run", "--json")), &plan); err != nil {
		t.Fatal(err)
	}
	run("", "gc", "--plan", plan.Plan)
	run("clean: 0 contents", "verify")
	if got, err := os.ReadFile(blobs[0]); err != nil || string(got) != string(content) {
		t.Errorf("the blob that is held open: %d bytes, %v, want the content", len(got), err)
	}
	if code, out, errs := commandtest.Symdepot(t, depot, "undo", "1"); code != command.ExitNo {
		t.Errorf("undo after the collection: exit code %d, %s%s, want %d", code, out, errs, command.ExitNo)
	}
	release()
	run("", "gc", "--grace", "0s")
	if _, err := os.Stat(blobs[0]); !os.IsNotExist(err) {
		t.Errorf("the blob after the next collection: %v, want not found", err)
	}
	run("clean: 0 contents", "verify")
}

// TestHeldInPush pushes a folder in which another process, this one, holds files: one
// that a debugger has open is pushed, one that a linker writes is reported.
func TestHeldInPush(t *testing.T) {
	t.Parallel()
	p := commandtest.NewPushDepot(t)
	dir := t.TempDir()
	commandtest.SymFiles(t, dir, 1, 3, 400)
	push := func(code int, want string, args ...string) {
		t.Helper()
		cmd := p.Command(t, append([]string{"push", "--product", "app"}, args...)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), want) {
			t.Errorf("push %s: exit code %d, want %d with %q in\n%s", args, got, code, want, out)
		}
	}
	symtest.Hold(t, filepath.Join(dir, "lib1-0.so.sym"))
	release := symtest.HoldAlone(t, filepath.Join(dir, "lib1-1.so.sym"))
	push(3, "lib1-1.so.sym", "--version", "1", dir)
	if out := p.Must(t, "list", "--product", "app"); strings.Contains(out, "app") {
		t.Errorf("builds after a push that failed:\n%s\nwant none", out)
	}
	push(0, ": 2 files", "--version", "1", "--skip-unreadable", dir)
	release()
	push(0, ": 3 files", "--version", "2", dir)
}

// TestHeldInDump writes and reads symbol files while another process, this one, holds
// the inputs or the output open.
func TestHeldInDump(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	depot := filepath.Join(dir, "depot")
	pdb, store := filepath.Join(dir, "hello-x86.pdb"), filepath.Join(dir, "store")
	if err := os.WriteFile(pdb, symtest.Testdata(t, "pdb/hello-x86.pdb"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(code int, want string, args ...string) {
		t.Helper()
		if got, out, errs := commandtest.Symdepot(t, depot, args...); got != code || !strings.Contains(out+errs, want) {
			t.Errorf("%s: exit code %d, output %s%s, want %d and %q", args, got, out, errs, code, want)
		}
	}
	release := symtest.Hold(t, pdb)
	run(0, "hello-x86.sym", "dump-syms", "--store", store, pdb)
	run(0, "sum(Pair*)", "symbolicate", "--relative-address", "-e", pdb, "1000")
	release()
	release = symtest.HoldAlone(t, pdb)
	run(3, "hello-x86.pdb", "dump-syms", "--store", store, pdb)
	run(3, "hello-x86.pdb", "symbolicate", "--relative-address", "-e", pdb, "1000")
	release()

	sym := filepath.Join(store, "hello-x86.pdb", "A822F3E889973BA54C4C44205044422E1", "hello-x86.sym")
	before, err := os.ReadFile(sym)
	if err != nil {
		t.Fatal(err)
	}
	release = symtest.Hold(t, sym)
	run(3, "hello-x86.sym", "dump-syms", "--store", store, pdb)
	if after, err := os.ReadFile(sym); err != nil || string(after) != string(before) {
		t.Errorf("the file that is held open: %d bytes, %v, want it unchanged", len(after), err)
	}
	release()
	run(0, "hello-x86.sym", "dump-syms", "--store", store, pdb)
}

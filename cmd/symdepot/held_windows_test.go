package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/symtest"
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
	symFiles(t, src, 1, 2, 4000)
	content, err := os.ReadFile(filepath.Join(src, "lib1-1.so.sym"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(want string, args ...string) {
		t.Helper()
		if code, out, errs := symdepot(t, depot, args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, output %s%s, want 0 and %q", args, code, out, errs, want)
		}
	}
	run("2 objects", "add", src)
	blobs := storedFile(t, depot, content)
	if len(blobs) != 1 {
		t.Fatalf("files with the content: %q, want one", blobs)
	}
	release := symtest.Hold(t, blobs[0])
	run("", "rm", "1")
	run("", "gc", "--grace", "0s")
	run("", "verify")
	if got, err := os.ReadFile(blobs[0]); err != nil || string(got) != string(content) {
		t.Errorf("the blob that is held open: %d bytes, %v, want the content", len(got), err)
	}
	release()
	run("freed", "gc", "--grace", "0s")
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
	symFiles(t, filepath.Join(dir, "1"), 1, 1, 4000)
	symFiles(t, filepath.Join(dir, "2"), 2, 1, 4000)
	content, err := os.ReadFile(filepath.Join(dir, "1", "lib1-0.so.sym"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(want string, args ...string) {
		t.Helper()
		if code, out, errs := symdepot(t, depot, args...); code != 0 || !strings.Contains(out, want) {
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
	run("freed", "gc", "--grace", "0s")
	run("1 content", "depot", "backup", "--to", backup)
	if code, out, errs := symdepot(t, backup, "verify"); code != 0 || !strings.Contains(out, "clean: 1 content") {
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

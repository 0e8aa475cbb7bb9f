package durable

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestBusy holds a file open while it is to be replaced and removed: the
// operation waits, and either happens or changes nothing.
func TestBusy(t *testing.T) {
	tree, dir := newTree(t)
	name := filepath.Join(dir, "a")
	if err := put(tree, "a", "old"); err != nil {
		t.Fatal(err)
	}
	release := symtest.Hold(t, name)
	if err := tree.Remove("a"); !IsBusy(err) {
		t.Errorf("remove of a file that is held open: %v, want an error of IsBusy", err)
	}
	if err := put(tree, "a", "new"); err == nil {
		t.Error("replaced a file that is held open")
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "old" {
		t.Errorf("the file that is held open: %q, %v; want the old content", got, err)
	}
	if left := names(t, filepath.Join(dir, "tmp")); len(left) > 0 {
		t.Errorf("left over: %q, want none", left)
	}
	// The operation waits for the program to close the file.
	waiting := make(chan error)
	tries := 0
	go func() {
		waiting <- retryWhileBusy(func() error {
			if tries++; tries == 3 {
				release()
			}
			return tree.root.Remove("a")
		})
	}()
	if err := <-waiting; err != nil || tries != 3 {
		t.Errorf("remove of a file that is closed after three tries: %v after %d", err, tries)
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the removed file: %v, want not found", err)
	}
}

// TestBusyError tells a file that is deleted already, but still open, from a file
// that the caller may not change.
func TestBusyError(t *testing.T) {
	tree, dir := newTree(t)
	if err := put(tree, "a", "content"); err != nil {
		t.Fatal(err)
	}
	denied := &os.PathError{Op: "remove", Path: "a", Err: windows.ERROR_ACCESS_DENIED}
	if err := BusyError(tree.root, "a", denied); IsBusy(err) || !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		t.Errorf("access denied to a file: %v, want it unchanged", err)
	}
	if err := BusyError(tree.root, "none", denied); IsBusy(err) {
		t.Errorf("access denied to a missing file: %v, want it unchanged", err)
	}
	if err := BusyError(tree.root, "a", nil); err != nil {
		t.Errorf("no error: %v, want none", err)
	}
	f, err := OpenShared(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	p, err := windows.UTF16PtrFromString(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	d, err := windows.CreateFile(p, windows.DELETE, share, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	pending := byte(1) // FILE_DISPOSITION_INFO: the old rules, on every disk
	if err := windows.SetFileInformationByHandle(d, windows.FileDispositionInfo, &pending, 1); err != nil {
		t.Fatal(err)
	}
	_ = windows.CloseHandle(d)
	err = tree.root.Rename("a", "b")
	if err == nil && symtest.Wine() != "" {
		t.Skip("Wine 10.0: a deleted file that is still open is not refused to others (STATUS_DELETE_PENDING)")
	}
	if err := BusyError(tree.root, "a", err); !IsBusy(err) {
		t.Errorf("rename of a deleted file that is open: %v, want an error of IsBusy", err)
	}
}

// TestReadFile reads a file that another process is replacing: it waits.
func TestReadFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(name, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, symtest.HoldAlone(t, name))
	if b, err := ReadFile(name); err != nil || string(b) != "content" {
		t.Errorf("a file that is closed soon: %q, %v; want the content", b, err)
	}
	symtest.HoldAlone(t, name)
	if b, err := ReadFile(name); !IsBusy(err) {
		t.Errorf("a file that is not closed: %q, %v; want an error of IsBusy", b, err)
	}
}

// TestReadOnlyAttribute replaces and removes a file with the read-only attribute.
func TestReadOnlyAttribute(t *testing.T) {
	tree, dir := newTree(t)
	for _, what := range []string{"replace", "remove"} {
		if err := put(tree, "a", "old"); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, "a"), 0o444); err != nil {
			t.Fatal(err)
		}
		var err error
		if what == "replace" {
			err = put(tree, "a", "new")
		} else {
			err = tree.Remove("a")
		}
		if err != nil {
			t.Errorf("%s a read-only file: %v", what, err)
		}
		_ = os.Chmod(filepath.Join(dir, "a"), 0o666)
	}
}

// TestOpenShared reads a file that is removed meanwhile, by a long path too.
func TestOpenShared(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, strings.Repeat(strings.Repeat("d", 60)+`\`, 5))
	if err := MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(dir, "x"), filepath.Join(deep, "x")} {
		if err := WriteFile(name, []byte("content"), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := OpenShared(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(name); err != nil {
			t.Errorf("remove of an open file: %v", err)
		}
		buf := make([]byte, 7)
		if _, err := f.Read(buf); err != nil || string(buf) != "content" {
			t.Errorf(`read of a removed file: %q, %v; want "content"`, buf, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := OpenShared(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of a missing file: %v, want not found", err)
	}
}

// TestJunction checks that a junction cannot lead writing out of the tree.
func TestJunction(t *testing.T) {
	tree, dir := newTree(t)
	outside := t.TempDir()
	junction := filepath.Join(dir, "junction")
	out, err := exec.Command("cmd", "/c", "mklink", "/J", junction, outside).CombinedOutput()
	if _, missing := os.Lstat(junction); err != nil || missing != nil {
		if symtest.Wine() != "" {
			t.Skip("Wine 10.0: a folder cannot become a junction (FSCTL_SET_REPARSE_POINT: ERROR_NOT_SUPPORTED)")
		}
		t.Fatalf("mklink: %v, %s", err, out)
	}
	if err := put(tree, "junction/f", "x"); err == nil {
		t.Error("wrote a file behind a junction")
	}
	if err := tree.MkdirAll("junction/d", 0o755); err == nil {
		t.Error("made a directory behind a junction")
	}
	if got := names(t, outside); len(got) > 0 {
		t.Errorf("outside of the tree: %q, want nothing", got)
	}
}

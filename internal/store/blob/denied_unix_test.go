//go:build unix

package blob_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/blob/blobtest"
)

// deniedStore is set in the process that acts as another user: the folder of the store.
const deniedStore = "SYMDEPOT_TEST_STORE"

// TestDenied: a blob that belongs to root is neither damaged nor missing for another user, and
// nothing is stored in its place.
func TestDenied(t *testing.T) {
	content := blobtest.Content(1, 1000)
	ref := blob.Sum(content)
	if dir := os.Getenv(deniedStore); dir != "" {
		denied(t, dir, content)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, who acts as another user")
	}
	for name, harm := range map[string]func(path string) error{
		"file": func(path string) error { return errors.Join(os.Chown(path, 0, 0), os.Chmod(path, 0o600)) },
		"folder": func(path string) error {
			return errors.Join(os.Chown(filepath.Dir(path), 0, 0), os.Chmod(filepath.Dir(path), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "symdepot-test-*")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			d := openDisk(t, dir)
			if err := d.Put(t.Context(), ref, int64(len(content)), bytes.NewReader(content)); err != nil {
				t.Fatal(err)
			}
			give := func(path string, _ fs.DirEntry, err error) error {
				return errors.Join(err, os.Chown(path, 65534, 65534))
			}
			if err := errors.Join(filepath.WalkDir(dir, give), harm(d.Path(ref))); err != nil {
				t.Fatal(err)
			}
			before, err := os.Stat(d.Path(ref))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDenied$", "-test.v")
			cmd.Env = append(os.Environ(), deniedStore+"="+dir)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
				t.Errorf("the process that acts as another user: %v\n%s", err, out)
			}
			after, err := os.Stat(d.Path(ref))
			if err != nil || !os.SameFile(before, after) {
				t.Errorf("the file of the blob is another one now, %v; want it as it was", err)
			}
		})
	}
}

// denied is TestDenied in the process that acts as another user.
func denied(t *testing.T, dir string, content []byte) {
	if err := (account.Account{UID: 65534, GID: 65534}).Become(); err != nil {
		t.Fatal(err)
	}
	d, ref, size := openDisk(t, dir), blob.Sum(content), int64(len(content))
	batch, err := d.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Abort()
	if batch.Known(t.Context(), ref) {
		t.Error("a batch knows the blob, want that it does not")
	}
	for what, do := range map[string]func() error{
		"open":       func() error { _, err := d.Open(t.Context(), ref); return err },
		"open whole": func() error { _, err := d.OpenWhole(t.Context(), ref); return err },
		"verify":     func() error { return d.Verify(t.Context(), ref, size, nil) },
		"ready":      func() error { return d.Ready(t.Context()) },
		"put":        func() error { return d.Put(t.Context(), ref, size, bytes.NewReader(content)) },
		"batch":      func() error { _, _, err := batch.Put(t.Context(), size, bytes.NewReader(content)); return err },
	} {
		err := do()
		why := (*account.DeniedError)(nil)
		if !errors.Is(err, blob.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, blob.ErrDamaged) || !errors.As(err, &why) {
			t.Errorf("%s: %v, want that the store is not available, because of the rights", what, err)
		}
	}
	if d.Suspect(ref) {
		t.Error("the blob is suspected of damage, want that it is not")
	}
}

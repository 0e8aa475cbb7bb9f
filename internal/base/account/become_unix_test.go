//go:build unix

package account_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/symdepot/symdepot/internal/base/account"
)

// nobody is an account without a name in many systems.
const nobody = 65534

// inFolder is set in the process that acts as another user: the folder of the test.
const inFolder = "SYMDEPOT_TEST_ACCOUNT"

// TestBecome: what a process of root makes belongs to the account that it acts as, on all
// threads. It runs a process of its own, because that cannot be undone.
func TestBecome(t *testing.T) {
	if dir := os.Getenv(inFolder); dir != "" {
		become(t, dir)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, who acts as another user")
	}
	dir, err := os.MkdirTemp("", "symdepot-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, sub := range []string{"own", "closed"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(dir, "own")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(own, nobody, nobody), os.WriteFile(filepath.Join(dir, "closed", "file"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if a, ok := account.OwnerOf(filepath.Join(own, "a", "b")); !ok || a != (account.Account{UID: nobody, GID: nobody}) {
		t.Errorf("the owner of a missing folder below %s: %v, %v; want that of the folder", own, a, ok)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBecome$", "-test.v")
	cmd.Env = append(os.Environ(), inFolder+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("the process that acts as another user: %v\n%s", err, out)
	}
}

// become is TestBecome in the process that acts as another user.
func become(t *testing.T, dir string) {
	given := filepath.Join(dir, "given", "folder")
	who := account.Account{UID: nobody, GID: nobody}
	if err := who.Give(given); err != nil {
		t.Fatal(err)
	}
	if err := who.Become(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			runtime.LockOSThread() // never unlocked: each has a thread of its own
			for _, in := range []string{filepath.Join(dir, "own"), given} {
				name := filepath.Join(in, fmt.Sprint(i))
				if err := os.WriteFile(name, nil, 0o600); err != nil {
					t.Error(err)
				} else if a, _ := account.OwnerOf(name); a != who {
					t.Errorf("a new file belongs to %v, want %v", a, who)
				}
			}
		})
	}
	all.Wait()
	if err := os.WriteFile(filepath.Join(dir, "closed", "new"), nil, 0o600); !errors.Is(err, syscall.EACCES) {
		t.Errorf("a file in a folder of root: %v, want that it is refused", err)
	}
	_, err := os.ReadFile(filepath.Join(dir, "closed", "file"))
	if info, ok := debug.ReadBuildInfo(); runtime.GOOS == "linux" && ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "0"}) {
		if err != nil || !account.Reading() {
			t.Errorf("a file that only root may read: %v, want that it is read", err)
		}
	}
	if account.Reads(dir, "closed/file") || account.Uses(dir, ".") || !account.Reads(dir, ".") || !account.Uses(dir, "own") {
		t.Error("Reads and Uses do not say what the user may do")
	}
	e := account.Denied(dir, filepath.Join(dir, "closed", "file"))
	if !strings.Contains(e.Error(), filepath.Join(dir, "closed")+" may not be used: it belongs to root:") || !strings.Contains(e.Error(), "0700") ||
		!strings.HasPrefix(e.Inside(), filepath.Base(dir)+"/closed may not be used") || !strings.HasPrefix(e.Cure, "sudo chown -R ") {
		t.Errorf("denied: %v; cure %q; want the folder of root, and chown", e, e.Cure)
	}
}

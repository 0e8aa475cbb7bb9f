//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/symdepot/symdepot/internal/run/command"
)

// nobody is a user without rights, as whom root runs a program.
const nobody = 65534

// ordinary runs this test binary as symdepot, as a user whom the modes of files
// bind. Root reads everything.
type ordinary struct {
	t   *testing.T
	dir string // the working folder, which belongs to that user
	exe string
}

func newOrdinary(t *testing.T) *ordinary {
	t.Helper()
	// The folder of t.TempDir is closed to other users.
	dir, err := os.MkdirTemp("", "symdepot-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	o := &ordinary{t: t, dir: dir, exe: filepath.Join(dir, "symdepot")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Link(self, o.exe) != nil {
		copyFile(t, self, o.exe, 0o755)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// run runs symdepot and compares its exit code and its output with patterns.
func (o *ordinary) run(code int, stdout, stderr string, args ...string) {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), o.exe, args...)
	cmd.Dir = o.dir
	cmd.Env = []string{"HOME=" + o.dir, "TMPDIR=" + o.dir, "SYMDEPOT_DEPOT=" + filepath.Join(o.dir, "depot")}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		o.t.Fatalf("run symdepot %q: %v", args, err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		o.t.Errorf("symdepot %q: exit %d, want %d\n%s%s", args, got, code, out.String(), errs.String())
	}
	if !regexp.MustCompile("(?m)" + stdout).MatchString(out.String()) {
		o.t.Errorf("symdepot %q: standard output does not match %q\n%s", args, stdout, out.String())
	}
	if !regexp.MustCompile("(?m)" + stderr).MatchString(errs.String()) {
		o.t.Errorf("symdepot %q: standard error does not match %q\n%s", args, stderr, errs.String())
	}
}

// TestUnreadable: a part of the input that cannot be read makes add fail, and
// identify report it; for root too, who runs the program as another user.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	o := newOrdinary(t)
	closed := filepath.Join(o.dir, "build", "sub")
	if err := os.MkdirAll(closed, 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, "../../testdata/elf/prog-sha1", filepath.Join(o.dir, "build", "prog"), 0o644)
	copyFile(t, "../../testdata/pdb/hello-x64.pdb", filepath.Join(closed, "hello.pdb"), 0o644)
	copyFile(t, "../../testdata/pdb/hello-x64.pdb", filepath.Join(o.dir, "secret.pdb"), 0o000)
	copyFile(t, "../../testdata/pdb/hello-x64.pdb", filepath.Join(o.dir, "open.pdb"), 0o644)
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o755) })

	o.run(command.ExitFailed, "", "part of the input cannot be read: build.sub: .*permission denied; nothing was added", "add", "-p", "Game", "build")
	o.run(command.ExitFailed, "", "part of the input cannot be read: secret.pdb: .*permission denied; nothing was added", "add", "-p", "Game", "secret.pdb")
	o.run(command.ExitOK, "^$", "no builds", "list")
	o.run(command.ExitOK, `"event":"skipped","path":"build.sub".*"unreadable":true`, "", "add", "-p", "Game", "--skip-unreadable", "--json", "build")
	o.run(command.ExitOK, "Game", "", "list")
	o.run(command.ExitFailed, "elf", "build.sub: cannot be read", "identify", "build")
	o.run(command.ExitFailed, "pdb", "secret.pdb: .*permission denied", "identify", "secret.pdb", "open.pdb")
	o.run(command.ExitFailed, "pdb", "nofile: no such file", "identify", "open.pdb", "nofile")
	o.run(command.ExitFailed, "", "permission denied", "get", "secret.pdb")
	o.run(command.ExitFailed, "", "permission denied", "import", "build/sub")
	if err := os.Chmod(closed, 0o755); err != nil {
		t.Fatal(err)
	}
	o.run(command.ExitOK, "added +1 file", "", "add", "-p", "Game", "build")
	o.run(command.ExitOK, "already stored +1 file, .*same bytes", "", "add", "-p", "Game", "build/prog")
}

// TestDepotOfOthers: a command on the depot of another user names the depot and
// the next step, and fails with the exit code of a failure, not of a wrong command
// line.
func TestDepotOfOthers(t *testing.T) {
	t.Parallel()
	o := newOrdinary(t)
	copyFile(t, "../../testdata/pdb/hello-x64.pdb", filepath.Join(o.dir, "hello.pdb"), 0o644)
	o.run(command.ExitOK, "", "", "add", "hello.pdb")
	depot := filepath.Join(o.dir, "depot")
	if err := os.Chmod(depot, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(depot, 0o700) })
	for _, args := range [][]string{{"list"}, {"add", "hello.pdb"}, {"find", "hello.pdb"}, {"serve", "--listen", "127.0.0.1:0"}, {"gc"}, {"verify"}} {
		o.run(command.ExitFailed, "^$", "permission denied\nThis user may not use the depot .*depot. Run the command as its owner", args...)
	}
}

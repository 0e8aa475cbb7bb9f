//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// service is a depot whose folder belongs to an account, as that of an installed service does,
// and on which root works too.
type service struct {
	*ordinary
	depot string
}

// newService makes the empty folder of a depot. The test needs two accounts.
func newService(t *testing.T) *service {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, who acts as another user")
	}
	s := &service{ordinary: newOrdinary(t)}
	s.depot = filepath.Join(s.dir, "depot")
	if err := errors.Join(os.Mkdir(s.depot, 0o750), os.Chown(s.depot, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	return s
}

// root runs symdepot as root, whose folders nobody else may enter, and returns its output.
func (s *service) root(code int, args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.exe, args...)
	cmd.Dir = s.t.TempDir()
	cmd.Env = []string{"HOME=" + cmd.Dir, "TMPDIR=" + s.dir, "SYMDEPOT_DEPOT=" + s.depot}
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("root: symdepot %q: exit %d, want %d\n%s", args, got, code, out)
	}
	return string(out)
}

// owned fails unless all that is in folders belongs to the account.
func (s *service) owned(after string, folders ...string) {
	s.t.Helper()
	for _, dir := range folders {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // a server removes its temporary files
			}
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return nil //nolint:nilerr // likewise
			}
			if st := info.Sys().(*syscall.Stat_t); st.Uid != nobody || st.Gid != nobody {
				s.t.Errorf("%s: %s belongs to %d:%d, want %d:%[4]d", after, path, st.Uid, st.Gid, nobody)
			}
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// serve starts a server as the account, or as root, and returns its base URL. The server ends
// with the test.
func (s *service) serve(asRoot bool) (url string, log *symtest.Output) {
	s.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(s.t.Context()), s.exe, "serve", "--listen", "127.0.0.1:0")
	cmd.Dir = s.dir
	cmd.Env = []string{"HOME=" + s.dir, "TMPDIR=" + s.dir, "SYMDEPOT_DEPOT=" + s.depot}
	if !asRoot {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, log := &symtest.Output{}, &symtest.Output{}
	cmd.Stdout, cmd.Stderr = out, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := errors.Join(commandtest.Interrupt(cmd), cmd.Wait()); err != nil {
			s.t.Errorf("serve: %v\n%s", err, log.String())
		}
	})
	out.Await(s.t, "http://127.0.0.1:")
	_, at, _ := strings.Cut(out.String(), "http://127.0.0.1:")
	return "http://127.0.0.1:" + strings.TrimRight(strings.Fields(at)[0], "/.,"), log
}

// get asks a server, and compares the status.
func (s *service) get(status int, url string) string {
	s.t.Helper()
	r, err := http.Get(url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != status {
		s.t.Errorf("%s: status %d, %v; want %d\n%.300s", url, r.StatusCode, err, status, b)
	}
	return string(b)
}

// keepsRights reports whether a process that acts as another user may still read every file.
func keepsRights() bool {
	info, ok := debug.ReadBuildInfo()
	return runtime.GOOS == "linux" && ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "0"})
}

const (
	firstPDB  = "../../testdata/pdb/hello-x64.pdb"
	firstPath = "/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb" // debuggers ask for it so
	secondELF = "../../testdata/elf/prog-sha1"
)

// TestRootActsAsOwner: what root makes in the depot of a service belongs to the account of the
// service, whose server serves it; also before the server has started for the first time.
func TestRootActsAsOwner(t *testing.T) {
	t.Parallel()
	s := newService(t)
	closed, mode := filepath.Join(t.TempDir(), "closed"), os.FileMode(0o600)
	if !keepsRights() {
		closed, mode = filepath.Join(s.dir, "open"), 0o644
	}
	if err := os.Mkdir(closed, mode|0o100|mode&0o044>>2); err != nil {
		t.Fatal(err)
	}
	pdb, elf := filepath.Join(closed, "hello-x64.pdb"), filepath.Join(closed, "prog-sha1")
	copyFile(t, firstPDB, pdb, mode)
	copyFile(t, secondELF, elf, mode)

	s.root(command.ExitOK, "add", "-p", "Game", elf)
	s.owned("root's add into an empty folder", s.depot)
	url, _ := s.serve(false)
	s.get(http.StatusOK, url+"/readyz")
	s.root(command.ExitOK, "add", "-p", "Game", pdb)
	s.owned("root's add beside a server", s.depot)
	want, err := os.ReadFile(firstPDB)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.get(http.StatusOK, url+firstPath); got != string(want) {
		t.Errorf("the server sends %d other bytes, want the %d of the file", len(got), len(want))
	}
	backup, target := filepath.Join(t.TempDir(), "copies", "backup"), filepath.Join(s.dir, "restored")
	if !keepsRights() {
		backup = filepath.Join(s.dir, "copies", "backup")
	}
	for _, args := range [][]string{
		{"token", "new", "--name", "ci", "--scope", "write"},
		{"list"}, {"verify"}, {"rm", "1"}, {"gc", "--grace", "0"},
		{"import", closed},
		{"depot", "backup", "--to", backup},
		{"depot", "backup", "--to", backup}, // the folder is the account's now
		{"depot", "restore", "--from", backup, "--depot", target},
	} {
		s.root(command.ExitOK, args...)
		s.owned("root's "+args[0], s.depot)
	}
	s.owned("root's backup and restore", backup, target)
	if out := s.root(command.ExitOK, "watch", "--once", closed); !strings.Contains(out, "acts as the user") {
		t.Errorf("root's watch without a terminal does not say as whom it acts:\n%s", out)
	}
	s.owned("root's watch", s.depot)
	s.run(command.ExitOK, "clean", "", "verify")
}

// TestRootServesAsOwner: a server that root starts acts as the owner of the depot too.
func TestRootServesAsOwner(t *testing.T) {
	t.Parallel()
	s := newService(t)
	url, log := s.serve(true)
	s.get(http.StatusOK, url+"/readyz")
	s.owned("root's serve", s.depot)
	log.Await(t, "acts as the user")
}

// TestDenied: files of a service's depot that belong to root, as an older program made them,
// are neither missing nor damaged, for nobody. When they are given back, nothing is left.
func TestDenied(t *testing.T) {
	t.Parallel()
	s := newService(t)
	copyFile(t, firstPDB, filepath.Join(s.dir, "hello-x64.pdb"), 0o644)
	s.run(command.ExitOK, "", "", "add", "hello-x64.pdb")
	shards, err := filepath.Glob(filepath.Join(s.depot, "blobs", "??"))
	if err != nil || len(shards) != 1 {
		t.Fatalf("folders of contents: %q, %v; want one", shards, err)
	}
	shard := shards[0]
	blobs, err := filepath.Glob(filepath.Join(shard, "*"))
	if err != nil || len(blobs) != 1 {
		t.Fatalf("contents: %q, %v; want one", blobs, err)
	}
	for _, c := range []struct {
		name, path, inside string
		mode               os.FileMode
	}{
		{"folder", shard, "blobs/" + filepath.Base(shard), 0o700},
		{"file", blobs[0], "blobs/" + filepath.Base(shard) + "/" + filepath.Base(blobs[0]), 0o600},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &service{&ordinary{t, s.dir, s.exe}, s.depot}
			url, log := s.serve(false)
			if err := os.Chown(c.path, 0, 0); err != nil {
				t.Fatal(err)
			}
			says := fmt.Sprintf("%s may not be used: it belongs to root:root with the mode %04o", c.inside, c.mode)
			cure := "chown -R nobody:"
			if text := s.get(http.StatusServiceUnavailable, url+firstPath); strings.Contains(text, "not found") {
				t.Errorf("the answer is %q, want that the file cannot be read now", text)
			}
			log.Await(t, "may not read them")
			if text := s.get(http.StatusServiceUnavailable, url+"/readyz"); !strings.Contains(text, says) || strings.Contains(text, s.depot) {
				t.Errorf("readyz: %q, want %q without the place of the depot", text, says)
			}
			s.run(command.ExitNo, "fault: .*"+says+"[^\n]*\n.*sudo "+cure, "", "verify")
			s.run(command.ExitFailed, says, "", "doctor", "--listen", strings.TrimPrefix(url, "http://"))
			s.run(command.ExitFailed, cure, "", "doctor", "--listen", strings.TrimPrefix(url, "http://"))
			s.run(command.ExitNo, says, "", "why", firstPath)
			s.run(command.ExitNo, cure, "", "why", firstPath)
			s.run(command.ExitFailed, "^$", says+"[^\n]*\nType: sudo "+cure, "depot", "backup", "--to", "copy-"+c.name)
			s.run(command.ExitFailed, "^$", says+"[^\n]*\nType: sudo "+cure, "add", "hello-x64.pdb")
			for _, as := range []func(...string) string{
				func(args ...string) string { return s.root(command.ExitNo, args...) },
				func(args ...string) string {
					var out bytes.Buffer
					cmd := exec.CommandContext(t.Context(), s.exe, args...)
					cmd.Stdout, cmd.Stderr = &out, &out
					cmd.Env = []string{"HOME=" + s.dir, "SYMDEPOT_DEPOT=" + s.depot}
					cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
					_ = cmd.Run() // its exit code was compared above
					return out.String()
				},
			} {
				if text := as("verify"); strings.Contains(strings.ReplaceAll(text, "0 damaged", ""), "damaged") || !strings.Contains(text, says) {
					t.Errorf("verify says %q, want %q and nothing of damage", text, says)
				}
			}
			if err := os.Chown(c.path, nobody, nobody); err != nil {
				t.Fatal(err)
			}
			s.get(http.StatusOK, url+firstPath)
			s.get(http.StatusOK, url+"/readyz")
			s.run(command.ExitOK, "^clean", "", "verify")
			if text := s.root(command.ExitOK, "doctor", "--listen", strings.TrimPrefix(url, "http://")); !strings.Contains(text, "0 damaged") {
				t.Errorf("doctor says %q, want that nothing is damaged", text)
			}
			s.run(command.ExitOK, "already stored", "", "add", "hello-x64.pdb")
		})
	}
}

// TestDeniedStart: a service whose depot root made says whose it is, and the command that gives
// it to the service.
func TestDeniedStart(t *testing.T) {
	t.Parallel()
	s := newService(t)
	copyFile(t, firstPDB, filepath.Join(s.dir, "hello-x64.pdb"), 0o644)
	s.run(command.ExitOK, "", "", "add", "hello-x64.pdb")
	for name, c := range map[string]struct {
		paths []string
		says  string
	}{
		"stamp":  {[]string{"depot.json"}, "depot/depot.json may not be used: it belongs to root:root with the mode 0600, and this program runs as nobody"},
		"index":  {[]string{"index.db"}, "depot/index.db may not be used: it belongs to root:root with the mode 0600, and this program runs as nobody"},
		"folder": {[]string{"."}, "depot may not be used: it belongs to root:root with the mode 0750, and this program runs as nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{&ordinary{t, s.dir, s.exe}, s.depot}
			give := func(to int) {
				for _, p := range c.paths {
					if err := os.Chown(filepath.Join(s.depot, p), to, to); err != nil {
						t.Fatal(err)
					}
				}
			}
			give(0)
			s.run(command.ExitFailed, "^$", c.says+"[^\n]*\nType: sudo chown -R nobody:[a-z0-9]+ "+s.depot, "serve", "--listen", "127.0.0.1:0")
			s.run(command.ExitFailed, c.says+"[^\n]*\n.*type: sudo chown -R nobody:", "", "doctor", "--listen", "127.0.0.1:1")
			give(nobody)
			s.run(command.ExitOK, "76.0 KiB", "", "list")
		})
	}
}

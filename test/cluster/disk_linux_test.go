package cluster

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/command"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestFullDisk fills a small file system: the transaction fails as a whole, the
// error names the remedy, and the depot is unchanged.
func TestFullDisk(t *testing.T) {
	small := t.TempDir()
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, 0) })
	depot := filepath.Join(small, "depot")
	src := t.TempDir()
	commandtest.SymFiles(t, filepath.Join(src, "first"), 1, 10, 1000)
	if code, _, errs := commandtest.Symdepot(t, depot, "add", filepath.Join(src, "first")); code != 0 {
		t.Fatalf(`symdepot("add"): %v, %v; want 0`, errs, code)
	}
	_, before, _ := commandtest.Symdepot(t, depot, "list", "--json")
	commandtest.SymFiles(t, filepath.Join(src, "big"), 2, 60, 200_000)
	code, _, errs := commandtest.Symdepot(t, depot, "add", filepath.Join(src, "big"))
	if code != command.ExitFailed || !strings.Contains(errs, "disk is full") || !strings.Contains(errs, "symdepot gc") {
		t.Errorf("exit %d, want %d, %q in the messages and %q in the messages: %s", code, command.ExitFailed, "disk is full", "symdepot gc", errs)
	}
	if _, after, _ := commandtest.Symdepot(t, depot, "list", "--json"); after != before {
		t.Errorf("the depot changed: %s, want %v", after, before)
	}
	if code, out, errs := commandtest.Symdepot(t, depot, "verify"); code != 0 {
		t.Errorf("verify: exit %d, want 0: %s%s", code, out, errs)
	}
	// What was written before the end is gone again: a small add fits.
	commandtest.SymFiles(t, filepath.Join(src, "small"), 3, 5, 1000)
	if code, _, errs := commandtest.Symdepot(t, depot, "add", filepath.Join(src, "small")); code != 0 {
		t.Errorf("after the failure: %s, want exit code 0", errs)
	}
}

// TestFullDiskPush fills the disk of a server in the middle of a push: the client
// is told at once, nothing is visible or lost, files are served on, and the push
// goes on when there is space.
func TestFullDiskPush(t *testing.T) {
	small := t.TempDir()
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	p := commandtest.NewPushDepotIn(t, small)
	src := t.TempDir()
	commandtest.RandomSyms(t, src, 2, 800_000)
	filler := filepath.Join(small, "filler")
	fill := func(leave int64) {
		t.Helper()
		var st syscall.Statfs_t
		if err := syscall.Statfs(small, &st); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filler, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		_, err = io.CopyN(f, endless{}, max(0, int64(st.Bavail)*st.Bsize-leave))
		if err != nil && (leave > 0 || !errors.Is(err, syscall.ENOSPC)) {
			t.Fatal(err)
		}
	}
	push := func() (int, string) {
		out, err := p.Command(t, "push", "--product", "app", "--version", "1", "--key", "1", "--encoding", "none", "--parallel", "1", "--retry", "2s", src).CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if exit != nil {
			return exit.ExitCode(), string(out)
		}
		return 0, string(out)
	}
	serves := func(when, path string, want int) {
		t.Helper()
		status, _, _, err := commandtest.FetchURL(t.Context(), http.DefaultClient, p.Serving.URL+"/t/"+p.Token+path)
		if err != nil || status != want {
			t.Errorf("%s: GET %s: %d, %v; want %d", when, path, status, err, want)
		}
	}

	// The stage has two files when the disk is nearly full.
	st, err := p.Pusher().Open(t.Context(), wire.PushSpec{Product: "app", Version: "1", Key: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Pusher().Do(t.Context(), client.PushOptions{Stage: st.ID, Paths: []string{src}}); err != nil {
		t.Fatal(err)
	}
	paths := commandtest.RandomSyms(t, src, 5, 800_000) // the same two, and more
	fill(4 << 20)
	code, out := push()
	if code != 6 || !strings.Contains(out, "the disk of the server is nearly full") || !strings.Contains(out, "nothing was lost") {
		t.Errorf("push to a nearly full disk: exit %d, %s; want 6 and that the disk is nearly full", code, out)
	}
	serves("on a nearly full disk", paths[0], 404)

	// The disk becomes full while a content arrives.
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	body, err := os.ReadFile(filepath.Join(src, filepath.FromSlash(paths[4])))
	if err != nil {
		t.Fatal(err)
	}
	id := p.Checked(t, "full", body)
	go func() {
		_, _ = w.Write(body[:300_000])
		fill(0)
		_, _ = w.Write(body[300_000:])
		_ = w.Close()
	}()
	status, text := p.Put(t, id, body, r)
	if status != http.StatusInsufficientStorage || !strings.Contains(text, "problem:no-space") || !strings.Contains(text, "nothing was lost") {
		t.Errorf("a content for which there is no space: %d, %s; want 507 and no-space", status, text)
	}
	if status, _, _, err := commandtest.FetchURL(t.Context(), http.DefaultClient, p.Serving.URL+"/t/"+p.Token+"/-/readyz"); err == nil && status == http.StatusServiceUnavailable {
		t.Error("a server with a full disk is not ready, although it can read")
	}
	serves("on a full disk", paths[0], 404)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if code, out = push(); code != 0 || !strings.Contains(out, ": 5 files") {
		t.Fatalf("push after there was space: exit %d, %s; want 5 files", code, out)
	}
	for _, path := range paths {
		serves("after the push", path, 200)
	}
	fill(0)
	serves("on a full disk", paths[4], 200)
	if code, out = push(); code != 0 && code != 3 && code != 6 && code != 7 {
		t.Errorf("a rerun on a full disk: exit %d, %s; want 0, 3, 6 or 7", code, out)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if out := p.Must(t, "verify"); !strings.HasPrefix(out, "clean: ") {
		t.Errorf("verify: %s, want %q at the beginning", out, "clean: ")
	}
}

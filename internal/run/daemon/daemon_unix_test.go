//go:build unix

package daemon

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestNotify: the manager's socket gets the state. Without one nothing happens.
func TestNotify(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify("READY=1"); err != nil {
		t.Errorf("without a socket: %v, want no error", err)
	}
	dir, err := os.MkdirTemp("", "") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	if err := Notify("READY=1"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	if n, err := manager.Read(b); err != nil || string(b[:n]) != "READY=1" {
		t.Errorf("the manager got %q, %v; want READY=1", b[:n], err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := Notify("READY=1"); err == nil {
		t.Error("a manager that is gone: no error")
	}
}

// TestReloads: each SIGHUP calls the function, one that came before too, until the
// context ends.
func TestReloads(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls, done := make(chan bool), make(chan bool)
	reloads := Reloads()
	hangup := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	hangup()
	go func() {
		reloads(ctx, func() { calls <- true })
		close(done)
	}()
	<-calls
	hangup()
	<-calls
	cancel()
	<-done
}

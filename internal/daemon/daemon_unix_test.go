//go:build unix

package daemon

import (
	"context"
	"net"
	"os"
	"os/signal"
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

// TestOnReload: each SIGHUP calls the function, until the context ends.
func TestOnReload(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls, done := make(chan int), make(chan bool)
	ready := make(chan bool)
	go func() {
		n := 0
		close(ready)
		OnReload(ctx, func() { n++; calls <- n })
		close(done)
	}()
	<-ready
	// Until OnReload asks for the signal, this keeps it from ending the test.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGHUP)
	defer signal.Stop(ignored)
	for want := 1; want <= 2; want++ {
		for got := 0; got != want; {
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			<-ignored
			select {
			case got = <-calls:
			default:
			}
		}
	}
	cancel()
	for {
		select {
		case <-calls:
		case <-done:
			return
		}
	}
}

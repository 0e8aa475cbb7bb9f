//go:build unix

package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestSocketActivation starts servers as systemd does: with a socket that listens
// already, and one to which the server says that it is ready. A second server takes
// the socket over from the first, and no connection is refused meanwhile.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	socket, err := ln.File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	base := "http://" + ln.Addr().String()
	if err := ln.Close(); err != nil { // the copy listens on
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	told := func(want string) {
		t.Helper()
		_ = manager.SetReadDeadline(time.Now().Add(40 * time.Second))
		b := make([]byte, 100)
		if n, err := manager.Read(b); err != nil || string(b[:n]) != want {
			t.Fatalf("the manager was told %q, %v; want %s", b[:n], err, want)
		}
	}
	for range 2 {
		answered := make(chan error, 1)
		go func() { // waits in the socket's queue while no server runs
			r, err := http.Get(base + "/readyz")
			if err == nil {
				_ = r.Body.Close()
			}
			answered <- err
		}()
		// The process that the sockets are for is known after the fork only.
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "LISTEN_PID=$$ exec symdepot serve --listen 127.0.0.1:9")
		cmd.Env = append(os.Environ(), "SYMDEPOT_DEPOT="+filepath.Join(dir, "depot"), "LISTEN_FDS=1", "NOTIFY_SOCKET="+filepath.Join(dir, "s"))
		cmd.ExtraFiles = []*os.File{socket}
		var log symtest.Output
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		told("READY=1")
		if err := <-answered; err != nil {
			t.Errorf("a request while the server started: %v\n%s", err, log.String())
		}
		if err := commandtest.Interrupt(cmd); err != nil {
			t.Fatal(err)
		}
		told("STOPPING=1")
		if err := cmd.Wait(); err != nil {
			t.Errorf("serve: %v\n%s", err, log.String())
		}
	}
}

// TestReload: SIGHUP makes a server use a new certificate at once, says that a
// changed configuration needs a restart, and ends nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, conf := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "symdepot.yaml")
	ca := newAuthority(t)
	first := string(ca.pair(t, filepath.Join(dir, "tls"), &x509.Certificate{}).Certificate[0])
	symtest.Put(t, dir, "symdepot.yaml", []byte("listen: 127.0.0.1:0\ntls: {cert: "+cert+", key: "+key+"}\n"))
	cmd := exec.CommandContext(t.Context(), "symdepot", "serve", "--config", conf)
	cmd.Env = append(os.Environ(), "SYMDEPOT_DEPOT="+filepath.Join(dir, "depot"))
	var out, log symtest.Output
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Await(t, "https://127.0.0.1:")
	_, at, _ := strings.Cut(out.String(), "https://127.0.0.1:")
	addr := "127.0.0.1:" + strings.TrimRight(strings.Fields(at)[0], "/.,")
	shown := func() string {
		conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return string(conn.ConnectionState().PeerCertificates[0].Raw)
	}
	if shown() != first {
		t.Error("the server shows another certificate than its own")
	}
	hangup := func() {
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	second := string(ca.pair(t, filepath.Join(dir, "tls"), &x509.Certificate{}).Certificate[0])
	hangup()
	log.Await(t, "reloaded certificates, users and keys")
	if strings.Contains(log.String(), "restart") {
		t.Errorf("the configuration has not changed, but the log says:\n%s", log.String())
	}
	if shown() != second {
		t.Error("the server shows the first certificate after the reload")
	}
	symtest.Put(t, dir, "symdepot.yaml", []byte("listen: 127.0.0.1:0\npublic: true\ntls: {cert: "+cert+", key: "+key+"}\n"))
	hangup()
	log.Await(t, "restart the server to use it")
	symtest.Put(t, dir, "symdepot.yaml", []byte("lisen: 127.0.0.1:0\n"))
	hangup()
	log.Await(t, "lisen: no such key")
	if err := commandtest.Interrupt(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve: %v\n%s", err, log.String())
	}
}

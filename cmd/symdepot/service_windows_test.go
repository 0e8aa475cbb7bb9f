package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/winservice"
)

// TestService installs, starts, asks, stops and removes a service of Windows.
func TestService(t *testing.T) {
	const name = "symdepot-test"
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Other accounts do not reach the folder of t.TempDir, and the service has one of its own.
	dir, err := winservice.Dir("symdepot-test-program")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "symdepot.exe") // by which the test binary is the command
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, b, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append([]string{"service", "--name", name}, args...)...)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Fatalf("symdepot service %s: exit code %d, %v; want %d\n%s", strings.Join(args, " "), code, err, want, out)
		}
		return string(out)
	}
	if m := run(3, "status"); strings.Contains(m, "service manager") {
		t.Skipf("this user may not ask the service manager: %s", m)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	run(0, "install", "--listen", addr)
	t.Cleanup(func() { _ = exec.Command(program, "service", "--name", name, "remove").Run() })
	own, err := winservice.Dir(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(own) })
	logged := func() string {
		b, _ := os.ReadFile(filepath.Join(own, "log", "symdepot.log"))
		return string(b)
	}
	if out := run(1, "status"); !strings.Contains(out, "stopped") {
		t.Errorf("status of a new service: %q, want stopped", out)
	}
	run(3, "install", "--listen", addr)
	cmd := exec.CommandContext(t.Context(), program, "service", "--name", name, "start")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("symdepot service start: %v\n%s\nits log:\n%s", err, out, logged())
	}
	if out := run(0, "status"); !strings.Contains(out, "running") {
		t.Errorf("status of a started service: %q, want running", out)
	}
	answer, err := http.Get("http://" + addr + "/readyz")
	if err != nil {
		t.Fatalf("%v\n%s", err, logged())
	}
	body, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("/readyz: %s %s, want 200", answer.Status, body)
	}
	if _, err := os.Stat(filepath.Join(own, "depot", "index.db")); err != nil {
		t.Errorf("the depot is not in the service's folder: %v", err)
	}
	run(0, "stop")
	if out := run(1, "status"); !strings.Contains(out, "stopped") {
		t.Errorf("status of a stopped service: %q, want stopped", out)
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("the stopped service accepts connections")
	}
	// A second start, and a removal while it runs.
	run(0, "start")
	run(0, "remove")
	run(3, "status")
	if out := logged(); !strings.Contains(out, "/readyz") {
		t.Errorf("the log lacks the request for /readyz (Wine: %q):\n%s", symtest.Wine(), out)
	}
}

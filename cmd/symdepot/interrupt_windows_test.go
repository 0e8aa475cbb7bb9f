package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// endTogether does nothing: only tests of other systems need it.
func endTogether(*exec.Cmd) {}

// TestCtrlBreak stops a server with Ctrl-Break.
func TestCtrlBreak(t *testing.T) {
	if symtest.Wine() != "" {
		t.Skip("Wine 10.0: a Ctrl-Break calls no handler of the process, but ends one of its threads (SIGQUIT), and the process hangs")
	}
	cmd := serveInConsole(t, windows.CREATE_NEW_PROCESS_GROUP)
	if err := windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	endsCleanly(t, cmd, "Ctrl-Break")
}

// TestCtrlC stops a server with Ctrl-C. The console sends it to all its processes,
// so nothing else runs meanwhile.
func TestCtrlC(t *testing.T) {
	ours := make(chan os.Signal, 1)
	signal.Notify(ours, os.Interrupt)
	defer signal.Stop(ours)
	cmd := serveInConsole(t, 0)
	if err := windows.GenerateConsoleCtrlEvent(windows.CTRL_C_EVENT, 0); err != nil {
		t.Fatal(err)
	}
	endsCleanly(t, cmd, "Ctrl-C")
}

// serveInConsole starts a server in the console of this process.
func serveInConsole(t *testing.T, flags uint32) *exec.Cmd {
	t.Helper()
	if window, _, _ := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetConsoleCP").Call(); window == 0 {
		t.Skip("this process has no console")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	named := filepath.Join(dir, "symdepot.exe") // by which the test binary is the command
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(named, data, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), named, "serve", "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "SYMDEPOT_DEPOT="+filepath.Join(dir, "depot"))
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: flags}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it listens
		t.Fatal(err)
	}
	return cmd
}

// endsCleanly waits for the end of a server.
func endsCleanly(t *testing.T, cmd *exec.Cmd, after string) {
	t.Helper()
	timer := time.AfterFunc(40*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve after %s: %v, want exit code 0", after, err)
	}
}

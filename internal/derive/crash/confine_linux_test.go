//go:build amd64 || arm64

package crash

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// tryConfined is the program of a process that tries what a child must not do.
func tryConfined() int {
	if err := confine(); err != nil {
		fmt.Println(err)
		return 1
	}
	tries := map[string]func() error{
		"open":    func() error { _, err := os.Open("/etc/hostname"); return err },
		"create":  func() error { _, err := os.Create("/tmp/confined"); return err },
		"remove":  func() error { return os.Remove("/etc/hostname") },
		"connect": func() error { _, err := net.Dial("tcp", "127.0.0.1:1"); return err },
		"listen":  func() error { _, err := net.Listen("tcp", "127.0.0.1:0"); return err },
		"run":     func() error { return exec.Command(os.Args[0], "-test.run=^$").Run() },
		"raw":     func() error { _, err := syscall.Open("/etc/hostname", syscall.O_RDONLY, 0); return err },
		"socket":  func() error { _, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0); return err },
	}
	code := 0
	for what, try := range tries {
		if err := try(); !errors.Is(err, syscall.EPERM) {
			fmt.Printf("%s: error %v, want %v\n", what, err, syscall.EPERM)
			code = 1
		}
	}
	return code
}

// TestConfined: a child can open no files and no connections, and run no programs.
func TestConfined(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "TRY_CONFINED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("a confined process: %v\n%s", err, out)
	}
}

// residentOf is how much memory an ended process had, in bytes.
func residentOf(s *os.ProcessState) (int64, bool) {
	ru, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, false
	}
	return ru.Maxrss << 10, true
}

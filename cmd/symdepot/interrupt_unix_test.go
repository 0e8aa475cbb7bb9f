//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// endTogether lets the end of a command end all processes that it starts.
func endTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

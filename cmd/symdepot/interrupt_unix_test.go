//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// The signals that suspend and resume a process.
const signalStop, signalContinue = syscall.SIGSTOP, syscall.SIGCONT

// endTogether lets the end of a command end all processes that it starts.
func endTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// prepareInterrupt does nothing: a signal reaches one process.
func prepareInterrupt(*exec.Cmd) {}

// interrupt does what Ctrl-C does.
func interrupt(cmd *exec.Cmd) error { return cmd.Process.Signal(os.Interrupt) }

// systemCommands returns the programs that scripts call and this system lacks.
func systemCommands() map[string]func() { return nil }

package commandtest

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// PrepareInterrupt gives a process a group of its own, so that a Ctrl-Break
// reaches it alone.
func PrepareInterrupt(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// Interrupt sends a Ctrl-Break: a group of its own takes no Ctrl-C. Wine 10 ends one
// thread of a process that gets a Ctrl-Break, so there it is killed.
func Interrupt(cmd *exec.Cmd) error {
	if symtest.Wine() != "" {
		return ErrKilled
	}
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(cmd.Process.Pid))
}

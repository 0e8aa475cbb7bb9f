//go:build unix

package transcodetest

import (
	"os/exec"
	"syscall"
)

// detached starts a process in a session of its own, as daemons do.
func detached(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

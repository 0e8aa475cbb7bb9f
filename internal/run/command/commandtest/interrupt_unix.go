//go:build unix

package commandtest

import (
	"os"
	"os/exec"
)

// PrepareInterrupt does nothing: a signal reaches one process.
func PrepareInterrupt(*exec.Cmd) {}

// Interrupt does what Ctrl-C does.
func Interrupt(cmd *exec.Cmd) error { return cmd.Process.Signal(os.Interrupt) }

// systemCommands returns the programs that scripts call and this system lacks.
func systemCommands() map[string]func() { return nil }

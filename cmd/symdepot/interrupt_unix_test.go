//go:build unix

package main

import (
	"os"
	"os/exec"
)

// prepareInterrupt does nothing: a signal reaches one process.
func prepareInterrupt(*exec.Cmd) {}

// interrupt does what Ctrl-C does.
func interrupt(cmd *exec.Cmd) error { return cmd.Process.Signal(os.Interrupt) }

// systemCommands returns the programs that scripts call and this system lacks.
func systemCommands() map[string]func() { return nil }

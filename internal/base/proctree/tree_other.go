//go:build unix && !linux

package proctree

import (
	"os"
	"syscall"
)

// Other systems cannot limit a process from outside. Time and output are limited
// there too.

func dieWithParent(*syscall.SysProcAttr)         {}
func limit(int, Limits) error                    { return nil }
func killMarked(string)                          {}
func maxResident(*os.ProcessState) (int64, bool) { return 0, false }

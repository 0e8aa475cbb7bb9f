//go:build unix

package cluster

import (
	"syscall"
)

// The signals that suspend and resume a process.
const signalStop, signalContinue = syscall.SIGSTOP, syscall.SIGCONT

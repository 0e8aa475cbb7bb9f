//go:build unix

package symstore

import (
	"errors"
	"syscall"
)

// syncsNames says that folders, and files opened for reading, can be flushed.
const syncsNames = true

// retried renames once: an open file does not hinder it.
func retried(rename func() error) error { return rename() }

// processGone says that a process has ended.
func processGone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

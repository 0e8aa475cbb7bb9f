//go:build unix

package durable

import (
	"errors"
	"os"
	"syscall"
)

// errNotDir is the error for a file where a directory is wanted.
const errNotDir = syscall.ENOTDIR

// syncsDirs says that directories are flushed here.
const syncsDirs = true

// syncDirFile flushes an open directory. Some network and FUSE file systems
// refuse that and offer nothing else, which must not make them unusable.
func syncDirFile(dir *os.File) error {
	err := dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

// RetryRename calls rename once: an open file does not hinder it. On Windows it
// does so again and again while the target is held open.
func RetryRename(rename func() error) error { return rename() }

// IsNoSpace says whether an error means a full disk or a used-up quota.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Alive says whether a process exists. One that may not be signalled does.
func Alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

//go:build unix

package durable

import (
	"errors"
	"os"
	"syscall"
)

// errNotDir is the error for a file where a directory is expected.
const errNotDir = syscall.ENOTDIR

// syncsDirs: this system can flush directories.
const syncsDirs = true

// syncDirFile flushes an open directory. Some network and FUSE file systems
// refuse to flush directories and offer no alternative. That is not an error, so
// that such file systems stay usable.
func syncDirFile(dir *os.File) error {
	err := dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

// RetryRename calls rename once, because open files do not block a rename here.
// On Windows it retries while another process holds the target open.
func RetryRename(rename func() error) error { return rename() }

// Rename renames a file below root and replaces an existing file.
func Rename(root *os.Root, from, to string) error { return root.Rename(from, to) }

// retryWhileBusy calls do once: open files block nothing here.
func retryWhileBusy(do func() error) error { return do() }

// IsBusy reports whether an error means that another program holds a file open in
// a way that forbids the operation. On local disks no program can. On a share of a
// Windows machine, a Windows program can.
func IsBusy(err error) bool {
	return errors.Is(err, errPending) || errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ETXTBSY)
}

// BusyError returns err. On Windows it marks errors of deleted files that other
// programs hold open.
func BusyError(_ *os.Root, _ string, err error) error { return err }

// OpenShared opens a file for reading and lets other programs write, rename and
// remove it meanwhile.
func OpenShared(name string) (*os.File, error) { return os.Open(name) }

// IsNoSpace reports whether an error means a full disk or an exhausted quota.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Alive reports whether a process exists, including one that this process may
// not signal.
func Alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// FileID returns the number of a file in its file system. A copy of the file has
// another one.
func FileID(name string) (uint64, error) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino, nil
	}
	return 0, errors.ErrUnsupported
}

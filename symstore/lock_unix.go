//go:build unix && !linux

package symstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks one byte of a file if no other process has. The lock belongs to
// the process and goes when it closes any file of that name: the callers open a
// lock file once in a process (see processLock).
func tryLock(f *os.File, offset int64) (bool, error) {
	return setLock(f, offset, unix.F_WRLCK)
}

func unlock(f *os.File, offset int64) error {
	_, err := setLock(f, offset, unix.F_UNLCK)
	return err
}

func setLock(f *os.File, offset int64, kind int16) (bool, error) {
	for {
		err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: kind, Start: offset, Len: 1})
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
			return false, nil
		default:
			return false, os.NewSyscallError("fcntl", err)
		}
	}
}

// refusesLocks says whether an error means that a file system has no locks.
func refusesLocks(err error) bool {
	for _, e := range []error{unix.ENOLCK, unix.ENOSYS, unix.EOPNOTSUPP, unix.EINVAL, unix.ENOTSUP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

package symstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks one byte of a file if nobody else has. The lock belongs to the
// open file: it goes when that is closed or the process ends, and other open
// files of the same process are kept out as well.
func tryLock(f *os.File, offset int64) (bool, error) {
	return setLock(f, offset, unix.F_WRLCK)
}

func unlock(f *os.File, offset int64) error {
	_, err := setLock(f, offset, unix.F_UNLCK)
	return err
}

func setLock(f *os.File, offset int64, kind int16) (bool, error) {
	for {
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: offset, Len: 1})
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
	for _, e := range []error{unix.ENOLCK, unix.ENOSYS, unix.EOPNOTSUPP, unix.EINVAL, unix.ENOTSUP, unix.EBADF} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

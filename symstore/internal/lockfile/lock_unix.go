//go:build unix

package lockfile

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// lockCommand is the fcntl command. A lock of Linux (F_OFD_SETLK, which other
// systems do not define) belongs to the open file, so it keeps out other open
// files of the same process as well. Elsewhere a lock belongs to the process and
// ends when the process closes any file of that name. The callers therefore open
// a lock file once in a process; see turns.
var lockCommand = func() int {
	const ofdSetLock = 37
	if runtime.GOOS == "linux" || runtime.GOOS == "android" {
		return ofdSetLock
	}
	return unix.F_SETLK
}()

// TryByte locks one byte of a file if no other owner has locked it. The lock also
// ends with the process.
func TryByte(f *os.File, offset int64) (bool, error) {
	return setLock(f, offset, unix.F_WRLCK)
}

func unlockByte(f *os.File, offset int64) error {
	_, err := setLock(f, offset, unix.F_UNLCK)
	return err
}

func setLock(f *os.File, offset int64, kind int16) (bool, error) {
	for {
		err := unix.FcntlFlock(f.Fd(), lockCommand, &unix.Flock_t{Type: kind, Start: offset, Len: 1})
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

// RefusesLocks reports whether an error means that a file system has no locks.
func RefusesLocks(err error) bool {
	refusals := []error{unix.ENOLCK, unix.ENOSYS, unix.EOPNOTSUPP, unix.EINVAL, unix.ENOTSUP}
	if lockCommand != unix.F_SETLK {
		refusals = append(refusals, unix.EBADF)
	}
	for _, e := range refusals {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

package transcode

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile creates and locks a file until it is closed, or fails at once.
func lockFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{}); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func diskFree(dir string) (int64, error) {
	p, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, nil, nil); err != nil {
		return 0, err
	}
	return int64(min(free, 1<<62)), nil
}

// ownFolder reports whether a folder can be used. On Windows, the folder for
// temporary files belongs to one user, and new folders in it inherit its rights.
func ownFolder(fs.FileInfo) bool { return true }

// userSuffix is empty: each user has a folder for temporary files.
func userSuffix() string { return "" }

package transcode

import (
	"io/fs"

	"golang.org/x/sys/windows"
)

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

package durable

import (
	"os"

	"golang.org/x/sys/windows"
)

// Space returns the size in bytes of the volume that holds a directory, and how
// many bytes this user may still write there.
func Space(dir string) (total, free int64, err error) {
	p, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	var available, size uint64
	if err := windows.GetDiskFreeSpaceEx(p, &available, &size, nil); err != nil {
		return 0, 0, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: dir, Err: err}
	}
	return int64(size), int64(available), nil
}

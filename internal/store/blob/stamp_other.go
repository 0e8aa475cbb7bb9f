//go:build !linux && !darwin && !windows

package blob

import "os"

// stampOf returns the stamp of an open file, as far as the portable interface
// provides it.
func stampOf(f *os.File) (stamp, error) {
	info, err := f.Stat()
	if err != nil {
		return stamp{}, err
	}
	return stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}, nil
}

// deviceError returns false: EIO is the only such error that is known on this
// system.
func deviceError(error) bool { return false }

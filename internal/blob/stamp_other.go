//go:build !linux && !darwin && !windows

package blob

import "os"

// stampOf returns the state of an open file, as far as the portable interface
// tells it.
func stampOf(f *os.File) (stamp, error) {
	info, err := f.Stat()
	if err != nil {
		return stamp{}, err
	}
	return stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}, nil
}

// deviceError reports no further errors than EIO here.
func deviceError(error) bool { return false }

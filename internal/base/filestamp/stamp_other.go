//go:build !linux && !darwin && !windows

package filestamp

import "os"

// Of returns the stamp of an open file, as far as the portable interface provides it.
func Of(f *os.File) (Stamp, error) {
	info, err := f.Stat()
	if err != nil {
		return Stamp{}, err
	}
	return Stamp{Size: info.Size(), Written: info.ModTime().UnixNano()}, nil
}

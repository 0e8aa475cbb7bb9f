//go:build linux || darwin

package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// Space returns the size in bytes of the file system that holds a directory, and
// how many bytes this user may still write there.
func Space(dir string) (total, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	size := int64(st.Bsize) //nolint:unconvert // the type differs between systems
	return int64(st.Blocks) * size, int64(st.Bavail) * size, nil
}

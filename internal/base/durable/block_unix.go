//go:build linux || darwin

package durable

import "golang.org/x/sys/unix"

// BlockSize returns the unit in bytes in which the file system of a directory
// allocates space for files; usualBlock if it does not tell, or tells the size of
// its transfers.
func BlockSize(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return usualBlock
	}
	size := int64(st.Bsize) //nolint:unconvert // the type differs between systems
	if size < 512 || size > 64<<10 {
		return usualBlock
	}
	return size
}

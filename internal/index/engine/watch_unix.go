//go:build linux || darwin

package engine

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapStart maps the first n bytes of a file for reading. The mapping shows what
// any process writes to the file. It is nil if the file cannot be mapped.
func mapStart(f *os.File, n int) []byte {
	b, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	return b
}

// unmap ends a mapping of mapStart.
func unmap(b []byte) error {
	if b == nil {
		return nil
	}
	return unix.Munmap(b)
}

//go:build unix

package xz

import "golang.org/x/sys/unix"

// newRoom returns memory that is given back at once when it is not needed any more, so that
// the garbage collector does not hold twice as much.
func newRoom(n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}

func freeRoom(b []byte) { _ = unix.Munmap(b) }

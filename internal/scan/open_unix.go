//go:build unix

package scan

import (
	"os"
	"syscall"
)

// openFile opens for reading and does not block, should the path have become
// a named pipe since it was looked at.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

//go:build unix

package scan

import (
	"os"
	"syscall"
)

// openFile opens a file for reading. It does not block if the path has become a
// named pipe.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

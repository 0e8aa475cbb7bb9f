//go:build unix

package watch

import "syscall"

// nonblock opens a file without waiting if its path has become a named pipe.
const nonblock = syscall.O_NONBLOCK

package daemon

import (
	"errors"

	"golang.org/x/sys/windows"
)

// The errors of Windows' sockets are not those of package syscall.

// IsRefused reports whether an error means that no program listens at an address.
func IsRefused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }

// isTaken reports whether an error means that another program listens at an address.
func isTaken(err error) bool { return errors.Is(err, windows.WSAEADDRINUSE) }

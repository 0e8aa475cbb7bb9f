//go:build !windows

package daemon

import (
	"errors"
	"syscall"
)

// IsRefused reports whether an error means that no program listens at an address.
func IsRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// isTaken reports whether an error means that another program listens at an address.
func isTaken(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

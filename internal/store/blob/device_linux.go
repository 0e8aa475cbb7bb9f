package blob

import (
	"errors"
	"syscall"
)

// deviceError reports whether err means a damaged medium, beyond the errors that
// package syscall defines on all systems.
func deviceError(err error) bool {
	return errors.Is(err, syscall.EUCLEAN) || errors.Is(err, syscall.EBADMSG)
}

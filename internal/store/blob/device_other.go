//go:build !linux && !windows

package blob

// deviceError returns false: EIO is the only such error that is known on this system.
func deviceError(error) bool { return false }

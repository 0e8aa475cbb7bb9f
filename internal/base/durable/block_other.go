//go:build !linux && !darwin

package durable

// BlockSize returns the usual unit in bytes in which file systems allocate space.
func BlockSize(string) int64 { return usualBlock }

//go:build unix

package durable

import "golang.org/x/sys/unix"

// MayWrite reports whether this user may make files in a directory. It makes none.
func MayWrite(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }

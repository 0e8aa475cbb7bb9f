//go:build unix

package symstore

import "golang.org/x/sys/unix"

// errBusyHere is the error for a file that another program holds open: here one of
// a share of a Windows machine.
const errBusyHere = unix.EBUSY

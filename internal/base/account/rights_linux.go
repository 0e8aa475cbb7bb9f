package account

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// keepRights prepares a change of the user that keeps the right to read every file and to
// listen on every port. The function that it returns takes these rights up again after the
// change, and gives all others up. Where the threads of the process cannot be told, as in a
// program that was built with cgo, nothing is kept.
func keepRights() func() error {
	none := func() error { return nil }
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have, keep [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return none
	}
	for _, right := range []int{unix.CAP_DAC_READ_SEARCH, unix.CAP_NET_BIND_SERVICE} {
		bit := have[right/32].Permitted & (1 << (right % 32))
		keep[right/32].Permitted |= bit
		keep[right/32].Effective |= bit
	}
	if _, _, err := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0); err != 0 {
		return none
	}
	return func() error {
		header.Pid = 0
		_, _, err := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&keep[0])), 0)
		if err != 0 {
			return err
		}
		reading.Store(keep[0].Effective&(1<<unix.CAP_DAC_READ_SEARCH) != 0)
		return nil
	}
}

package index

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnanswered lets the kernel give up a connection on which sent bytes were
// not acknowledged for deadAfter. By default it repeats them for 15 minutes.
func limitUnanswered(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadAfter.Milliseconds()))
	})
	if err == nil {
		err = failed
	}
	return err
}

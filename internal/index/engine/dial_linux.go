package engine

import (
	"net"

	"golang.org/x/sys/unix"
)

// limitUnanswered lets the kernel give up a connection on which sent bytes were
// not acknowledged for deadAfter. By default it repeats them for 15 minutes.
func limitUnanswered(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadAfter.Milliseconds()))
	})
}

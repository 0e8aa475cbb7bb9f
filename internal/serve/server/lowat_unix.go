//go:build linux || darwin

package server

import (
	"net"

	"golang.org/x/sys/unix"
)

// limitUnsent sets TCP_NOTSENT_LOWAT to unsentBytes. A connection on which that
// fails works without it.
func limitUnsent(nc net.Conn) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
	})
}

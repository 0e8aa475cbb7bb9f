//go:build unix

package server

import (
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// awaitEnd waits until the client is gone, or the read deadline has passed, and
// takes nothing of what it sends meanwhile. ok is false if the connection is of
// a kind that cannot be looked into.
func awaitEnd(nc net.Conn) (err error, ok bool) {
	tcp, isTCP := nc.(*net.TCPConn)
	if !isTCP {
		return nil, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err, true
	}
	var end error
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		for {
			n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
			switch {
			case err == unix.EINTR:
			case err == unix.EAGAIN, n > 0: // nothing yet, or what will be read in its turn
				return false
			case err != nil:
				end = err
				return true
			default:
				end = io.EOF
				return true
			}
		}
	})
	if err == nil {
		err = end
	}
	return err, true
}

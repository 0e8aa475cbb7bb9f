//go:build !unix

package server

import "net"

// awaitEnd is not known here.
func awaitEnd(net.Conn) (err error, ok bool) { return nil, false }

//go:build !linux && !darwin

package server

import "net"

// limitUnsent does nothing: the system has no TCP_NOTSENT_LOWAT.
func limitUnsent(net.Conn) {}

package localproxy

import (
	"context"
	"errors"
	"net"
)

func removeSocket(string) error { return nil }

// listenPrivate refuses: Windows has no mode of a socket.
func listenPrivate(context.Context, string) (net.Listener, error) {
	return nil, errors.New("--socket is for Linux and macOS: on Windows the proxy listens on a port, and answers only its own user")
}

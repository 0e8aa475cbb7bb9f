//go:build !unix

package daemon

import (
	"context"
	"net"
)

// passed returns nil: no service manager passes sockets here.
func passed() (net.Listener, error) { return nil, nil }

// Notify does nothing: no service manager asks for it here.
func Notify(string) error { return nil }

// OnReload waits until ctx ends: there is no signal for reloads here.
func OnReload(ctx context.Context, _ func()) { <-ctx.Done() }

//go:build !unix

package daemon

import (
	"context"
	"net"
	"sync/atomic"
)

// passed returns nil: no service manager passes sockets here.
func passed() (net.Listener, error) { return nil, nil }

// told is the function of OnNotify.
var told atomic.Pointer[func(state string)]

// OnNotify calls f with what Notify tells: here the service manager is told by
// another part of this process.
func OnNotify(f func(state string)) { told.Store(&f) }

// Notify tells the service manager the state of this process, such as "READY=1".
// Without a manager that wants to know, it does nothing.
func Notify(state string) error {
	if f := told.Load(); f != nil {
		(*f)(state)
	}
	return nil
}

// Reloads returns a function that waits until ctx ends: there is no signal for reloads
// here.
func Reloads() func(ctx context.Context, f func()) {
	return func(ctx context.Context, _ func()) { <-ctx.Done() }
}

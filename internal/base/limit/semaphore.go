// Package limit bounds how much a server does at once. A request that waits for something
// else meanwhile gives its place to others, and takes one again when it goes on.
package limit

import (
	"context"
	"errors"
	"time"
)

// ErrBusy means that others have had all places for too long.
var ErrBusy = errors.New("too many requests are being answered")

// Semaphore limits how many requests do something at once. Its methods may be called by
// many goroutines.
type Semaphore chan struct{}

// NewSemaphore returns a semaphore with n places.
func NewSemaphore(n int) Semaphore { return make(Semaphore, n) }

// Try takes a place if that takes no waiting.
func (s Semaphore) Try() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// Enter takes a place. After deadline it returns ErrBusy.
func (s Semaphore) Enter(ctx context.Context, deadline time.Time) error {
	if s.Try() {
		return nil
	}
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return ErrBusy
	}
}

// Leave gives a place back.
func (s Semaphore) Leave() { <-s }

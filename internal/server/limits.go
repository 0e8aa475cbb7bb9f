package server

import (
	"context"
	"net/http"
	"time"
)

// semaphore limits how many requests do something at once.
type semaphore chan struct{}

func newSemaphore(n int) semaphore { return make(semaphore, n) }

// try acquires the semaphore if that takes no waiting.
func (sem semaphore) try() bool {
	select {
	case sem <- struct{}{}:
		return true
	default:
		return false
	}
}

// enter acquires the semaphore. After deadline it returns errBusy.
func (sem semaphore) enter(ctx context.Context, deadline time.Time) error {
	if sem.try() {
		return nil
	}
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return errBusy
	}
}

// leave releases the semaphore.
func (sem semaphore) leave() { <-sem }

// maxSearches is how many searches by pattern may run at once.
const maxSearches = 3

// copyStep is how many bytes of a long answer are sent under one deadline.
const copyStep = 1 << 20

// allow sets the write deadline for the next n bytes of an answer.
func (s *service) allow(rc *http.ResponseController, n int64) {
	d := s.cfg.WriteTimeout + time.Duration(n/s.cfg.MinRate)*time.Second
	// Writers in tests have no deadlines.
	_ = rc.SetWriteDeadline(time.Now().Add(d))
}

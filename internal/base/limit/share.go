package limit

import (
	"context"
	"sync"
	"time"
)

// Share is what one request has of a semaphore. While the request waits for files that
// are made, it has nothing.
type Share struct {
	sem   Semaphore
	sends *Senders // of the requests that have it

	mu      sync.Mutex
	has     bool // guarded by mu
	waiting int  // guarded by mu; goroutines of the request that wait
}

// NewShare returns the share of a request that has nothing yet. sends are the answers of
// the requests that have the semaphore.
func NewShare(sem Semaphore, sends *Senders) *Share { return &Share{sem: sem, sends: sends} }

// Enter acquires the semaphore. See Semaphore.Enter.
func (h *Share) Enter(ctx context.Context, deadline time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.acquire(ctx, deadline)
}

// acquire acquires the semaphore, for which slow clients give way. The caller holds mu.
func (h *Share) acquire(ctx context.Context, deadline time.Time) error {
	var dropped *sender // the last that gave way
	for !h.sem.Try() {
		dropped = h.sends.drop(dropped)
		next := time.Now().Add(h.sends.slow)
		if next.After(deadline) {
			next = deadline
		}
		err := h.sem.Enter(ctx, next)
		if err == nil {
			break
		}
		if err != ErrBusy || next.Equal(deadline) {
			return err
		}
	}
	h.has = true
	return nil
}

// Wait calls f without the semaphore, and acquires it again when the last goroutine
// of the request has waited.
func (h *Share) Wait(ctx context.Context, longest time.Duration, f func() error) error {
	h.mu.Lock()
	if h.waiting++; h.has {
		h.sem.Leave()
		h.has = false
	}
	h.mu.Unlock()
	err := f()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting--; h.waiting > 0 {
		return err
	}
	if eerr := h.acquire(ctx, time.Now().Add(longest)); err == nil {
		err = eerr
	}
	return err
}

// End releases the semaphore.
func (h *Share) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.has {
		h.sem.Leave()
		h.has = false
	}
}

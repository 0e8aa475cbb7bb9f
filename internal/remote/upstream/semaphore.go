package upstream

import (
	"context"
	"slices"
	"sync"
)

// semaphore limits concurrent requests. Its limit may change; who waits enters in
// the order of arrival.
type semaphore struct {
	mu      sync.Mutex
	limit   int             // guarded by mu
	inside  int             // guarded by mu; may exceed a limit that was lowered
	waiting []chan struct{} // guarded by mu; closed for those that have entered
}

// try enters if the limit permits it.
func (s *semaphore) try() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside >= s.limit || len(s.waiting) > 0 {
		return false
	}
	s.inside++
	return true
}

// enter waits until the limit permits to enter.
func (s *semaphore) enter(ctx context.Context) error {
	entered := make(chan struct{})
	s.mu.Lock()
	s.waiting = append(s.waiting, entered)
	s.admit()
	s.mu.Unlock()
	select {
	case <-entered:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, entered); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else {
		s.inside-- // it has entered meanwhile
		s.admit()
	}
	return ctx.Err()
}

func (s *semaphore) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
	s.admit()
}

// admit lets those enter that wait. mu is held.
func (s *semaphore) admit() {
	for len(s.waiting) > 0 && s.inside < s.limit {
		close(s.waiting[0])
		s.waiting = slices.Delete(s.waiting, 0, 1)
		s.inside++
	}
}

// setLimit changes the limit. Requests above a lower limit run to their end.
func (s *semaphore) setLimit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = n
	s.admit()
}

// most returns the limit.
func (s *semaphore) most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit
}

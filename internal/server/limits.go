package server

import (
	"net/http"
	"time"

	"github.com/symdepot/symdepot/internal/limit"
)

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

// turn returns the turn of a request at lookups, during which it may be held for longest
// (zero: as long as the work lasts) as one of held.
func (s *service) turn(x *exchange, r *http.Request, held limit.Semaphore, longest time.Duration) *limit.Turn {
	rc := http.NewResponseController(x.w)
	return &limit.Turn{
		Lookups: s.lookups, Held: held, Wait: s.cfg.Wait, Start: x.start, Longest: longest, Request: r.Context(), Stopping: s.waits,
		// Nothing is written to a held request. The kernel's probes (TCP keep-alive) find out
		// that a client has vanished.
		Pause:  func() { _ = rc.SetWriteDeadline(time.Time{}) },
		Resume: func() { _ = rc.SetWriteDeadline(time.Now().Add(s.cfg.Wait + s.cfg.WriteTimeout)) },
	}
}

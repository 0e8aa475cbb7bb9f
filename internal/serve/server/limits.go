package server

import (
	"net/http"
	"time"
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

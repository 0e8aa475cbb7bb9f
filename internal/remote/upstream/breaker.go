package upstream

import "time"

// breaker is a circuit breaker. While it is closed, every request passes. Too
// many consecutive failures open it for a pause, during which none passes. After
// the pause it is half-open: one probe request at a time decides whether it
// closes. Each further opening doubles the pause until enough requests have
// succeeded.
//
// A breaker has neither a lock nor a clock: its owner serializes the calls and
// passes the time.
type breaker struct {
	opt BreakerOptions

	generation int       // counts changes of state; results of requests from before a change are ignored
	open       bool      // open or half-open, else closed
	until      time.Time // end of the latest pause
	probing    bool      // half-open: the probe request is in progress
	failures   int       // consecutive
	timeouts   int       // consecutive, part of failures
	trips      int       // openings since the upstream last recovered
	probation  int       // successes after a pause before a single failure is tolerated again
}

// ticket is the right to send one request.
type ticket struct {
	generation int
	probe      bool
}

// probation is the number of requests that must succeed after a pause.
const probation = 2

// allow returns a ticket, or false if the breaker is open or a probe request is
// in progress.
func (b *breaker) allow(now time.Time) (ticket, bool) {
	if !b.admits(now) {
		return ticket{}, false
	}
	b.probing = b.open
	return ticket{b.generation, b.open}, true
}

// succeeded records that the upstream answered a request.
func (b *breaker) succeeded(t ticket) {
	if t.generation != b.generation {
		return
	}
	b.failures, b.timeouts = 0, 0
	if t.probe {
		b.generation++
		b.open, b.probing, b.probation = false, false, probation
		return
	}
	if b.probation > 0 {
		if b.probation--; b.probation == 0 {
			b.trips = 0
		}
	}
}

// ignore records that the outcome of a request says nothing about the upstream.
func (b *breaker) ignore(t ticket) {
	if t.probe && t.generation == b.generation {
		b.probing = false
	}
}

// failed records a failure and reports whether it opened the breaker.
func (b *breaker) failed(t ticket, now time.Time, timeout bool) bool {
	if t.generation != b.generation {
		return false
	}
	b.failures++
	if timeout {
		b.timeouts++
	}
	if !b.open && b.probation == 0 && b.failures < b.opt.Failures && b.timeouts < b.opt.Timeouts {
		return false
	}
	b.trip(now)
	return true
}

// admits reports whether allow would return a ticket.
func (b *breaker) admits(now time.Time) bool {
	return !b.open || !b.probing && !now.Before(b.until)
}

// trip opens the breaker.
func (b *breaker) trip(now time.Time) {
	pause := b.opt.Pause
	for range b.trips {
		if pause *= 2; pause >= b.opt.MaxPause {
			pause = b.opt.MaxPause
			break
		}
	}
	b.generation++
	b.trips++
	b.open, b.probing, b.failures, b.timeouts, b.until = true, false, 0, 0, now.Add(pause)
}

package engine

import (
	"sync/atomic"
	"time"
)

// processStart is a reading of the clock that running measures from.
var processStart = time.Now()

// running returns how long this process has been running, by the monotonic clock: waits
// that are measured by it do not change when the time of the day is set.
func running() time.Duration { return time.Since(processStart) }

// serverClock is the clock of a database server as one of its clients knows it.
// Nodes store and compare times by it: the ends of leases, for example. So the clocks
// of the nodes need not agree, and may change while the nodes run.
type serverClock struct{ read atomic.Pointer[clockReading] }

// clockReading is a time of the server, and when it was read by the monotonic clock
// of this machine.
type clockReading struct{ server, here time.Time }

const (
	// clockDoubt is how long an answer may take to be used as a reading, unless it
	// is the first.
	clockDoubt = time.Second
	// clockStep is the smallest difference at which a new reading replaces an
	// earlier one. Smaller differences are delays of the network.
	clockStep = time.Second
)

// now returns the time of the server. Before the first reading it is the time of
// this machine.
func (c *serverClock) now() time.Time {
	r := c.read.Load()
	if r == nil {
		return time.Now()
	}
	return r.at(time.Now())
}

// at returns the time of the server at a time of this machine.
func (r *clockReading) at(here time.Time) time.Time { return r.server.Add(here.Sub(r.here)) }

// set records the server's time from an answer. sent is when the question was sent,
// and answered when the answer arrived, both by the clock of this machine.
func (c *serverClock) set(server, sent, answered time.Time) {
	took := answered.Sub(sent)
	next := &clockReading{server: server.UTC(), here: sent.Add(took / 2)}
	last := c.read.Load()
	if last != nil && (took > clockDoubt || last.at(next.here).Sub(next.server).Abs() < clockStep) {
		return
	}
	c.read.Store(next)
}

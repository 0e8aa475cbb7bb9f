package engine

import (
	"sync/atomic"
	"time"
)

// Waits counts how long the writers of this process waited.
type Waits struct{ lock, commit, whole histogram }

// WaitBounds are the upper bounds of the buckets of a WaitCount, in seconds.
var WaitBounds = [...]float64{.001, .003, .01, .03, .1, .3, 1, 3, 10}

// WaitCount counts waits.
type WaitCount struct {
	// Up counts, for each of the WaitBounds, the waits of up to that length.
	Up    [len(WaitBounds)]uint64
	Count uint64
	Sum   time.Duration
}

// histogram counts times.
type histogram struct {
	counts [len(WaitBounds) + 1]atomic.Uint64 // of times up to a bound and above the one before
	sum    atomic.Int64
}

func (h *histogram) add(d time.Duration) {
	i := 0
	for i < len(WaitBounds) && d.Seconds() > WaitBounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// since adds the time since start.
func (h *histogram) since(start time.Time) { h.add(time.Since(start)) }

func (h *histogram) count() (c WaitCount) {
	for i := range h.counts {
		c.Count += h.counts[i].Load()
		if i < len(c.Up) {
			c.Up[i] = c.Count
		}
	}
	c.Sum = time.Duration(h.sum.Load())
	return c
}

// Lock counts the waits for other writers of an index in a file. A writer that
// need not wait counts too.
func (w *Waits) Lock() WaitCount { return w.lock.count() }

// Commit counts the commits of an index in a file: the time that a writer waits for
// the disk.
func (w *Waits) Commit() WaitCount { return w.commit.count() }

// Transaction counts the write transactions of an index in a database, from the
// begin to the end of the commit.
func (w *Waits) Transaction() WaitCount { return w.whole.count() }

package depot

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// readsKept limits the contents that are remembered as read today. Above it they are
// forgotten, and their next reads are recorded once more.
const readsKept = 1 << 18

const secondsOfDay = 24 * 60 * 60

// Reads records on which day each content was last read by a client. A content is
// recorded once a day, in batches. Its methods may be called by many goroutines; nil
// records nothing.
type Reads struct {
	db *index.DB

	mu      sync.RWMutex
	day     int64                 // guarded by mu; of known and pending, since 1970
	known   map[blob.Ref]struct{} // guarded by mu; read on this day
	pending [][]byte              // guarded by mu; not recorded yet
}

// Reading is a content that clients read.
type Reading struct {
	reads *Reads
	ref   blob.Ref
	day   atomic.Int64 // on which it was last counted
}

// Of returns the content of a file; nil for one that the depot does not keep.
func (r *Reads) Of(f *answer.File) *Reading {
	if ref := f.ReadRef(); r != nil && ref != (blob.Ref{}) {
		return &Reading{reads: r, ref: ref}
	}
	return nil
}

// Count counts a read at a time. It takes nanoseconds if the content was counted on
// that day.
func (x *Reading) Count(at time.Time) {
	if x == nil {
		return
	}
	if day := at.Unix() / secondsOfDay; x.day.Load() != day {
		x.day.Store(day)
		x.reads.count(x.ref, day)
	}
}

// Count counts a read of a file at a time.
func (r *Reads) Count(f *answer.File, at time.Time) {
	if ref := f.ReadRef(); r != nil && ref != (blob.Ref{}) {
		r.count(ref, at.Unix()/secondsOfDay)
	}
}

func (r *Reads) count(ref blob.Ref, day int64) {
	r.mu.RLock()
	_, known := r.known[ref]
	known = known && r.day == day
	r.mu.RUnlock()
	if known {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.day != day || len(r.known) >= readsKept {
		r.day, r.known = day, make(map[blob.Ref]struct{})
	}
	if _, ok := r.known[ref]; ok || len(r.pending) >= readsKept {
		return
	}
	r.known[ref] = struct{}{}
	r.pending = append(r.pending, ref[:])
}

// store writes the counted reads to the index. What cannot be written is kept for
// the next time.
func (r *Reads) store(ctx context.Context) error {
	r.mu.Lock()
	pending, day := r.pending, r.day
	r.pending = nil
	r.mu.Unlock()
	if len(pending) == 0 {
		return nil
	}
	err := r.db.Retention.Touch(ctx, pending, time.Unix(day*secondsOfDay, 0))
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.pending) < readsKept {
			r.pending = append(r.pending, pending...)
		}
	}
	return err
}

package metrics

import (
	"sync"
	"sync/atomic"
	"time"
)

// keptHours is how many hours with lookups Hours keeps: a week.
const keptHours = 7 * 24

// Hours counts the lookups of a server by hour, since its start. Hours without a lookup
// are not kept. The zero value is ready to use.
type Hours struct {
	now  atomic.Pointer[hour] // the newest of list; nil before the first lookup
	mu   sync.Mutex           // guards what follows
	list []*hour              // the oldest first
}

// hour counts the lookups of an hour.
type hour struct {
	number         int64 // since 1970
	found, missing atomic.Int64
}

// count counts a lookup that ended at a time.
func (h *Hours) count(found bool, ended time.Time) {
	number := ended.Unix() / int64(time.Hour/time.Second)
	now := h.now.Load()
	if now == nil || now.number < number {
		now = h.begin(number)
	}
	if found {
		now.found.Add(1)
	} else {
		now.missing.Add(1)
	}
}

// begin returns the counts of an hour, or of a newer one: clocks may be set back.
func (h *Hours) begin(number int64) *hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.now.Load(); now != nil && now.number >= number {
		return now
	}
	now := &hour{number: number}
	h.list = append(h.list, now)
	h.list = h.list[max(0, len(h.list)-keptHours):]
	h.now.Store(now)
	return now
}

// Each calls a function for each hour with lookups, the oldest first: the beginning of
// the hour, in UTC, and how many lookups found a file and how many did not.
func (h *Hours) Each(call func(begin time.Time, found, missing int64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.list {
		call(time.Unix(x.number*int64(time.Hour/time.Second), 0).UTC(), x.found.Load(), x.missing.Load())
	}
}

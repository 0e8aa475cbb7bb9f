package upstream

import (
	"slices"
	"time"
)

// keptTimes is how many requests the percentiles are of.
const keptTimes = 128

// times are how long the last requests took.
type times struct {
	list [keptTimes]time.Duration
	n    int // requests so far
}

// add records a request.
func (t *times) add(d time.Duration) {
	t.list[t.n%keptTimes] = d
	t.n++
}

// percentiles returns the median and the 95th percentile; 0 before the first request.
func (t *times) percentiles() (p50, p95 time.Duration) {
	n := min(t.n, keptTimes)
	if n == 0 {
		return 0, 0
	}
	list := slices.Sorted(slices.Values(t.list[:n]))
	return list[(n-1)/2], list[(n-1)*95/100]
}

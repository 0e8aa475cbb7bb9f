package metrics

import (
	"slices"
	"testing"
	"time"
)

// TestHours: the lookups of each hour are counted, hits and misses apart and errors not
// at all; what happened in the past counts in the newest hour, and a week of hours is kept.
func TestHours(t *testing.T) {
	t.Parallel()
	type row struct {
		at             int // the hour, from the first
		found, missing int64
	}
	r := newRequests()
	begin := time.Date(2026, 11, 28, 21, 0, 0, 0, time.UTC)
	count := func(result string, after time.Duration) {
		r.Counters(Kind{Protocol: "symstore", Method: "GET", Result: result, Status: 200}).Count(1, time.Millisecond, begin.Add(after))
	}
	rows := func() (list []row) {
		r.Hours.Each(func(at time.Time, found, missing int64) {
			list = append(list, row{int(at.Sub(begin) / time.Hour), found, missing})
		})
		return list
	}
	if got := rows(); len(got) != 0 {
		t.Errorf("before the first lookup: %v, want none", got)
	}
	count(ResultHit, 0)
	count(ResultMiss, 59*time.Minute)
	count("error", time.Minute)
	count("", time.Minute)
	count(ResultMiss, 3*time.Hour)
	count(ResultHit, 2*time.Hour) // the clock was set back
	if got, want := rows(), []row{{0, 1, 1}, {3, 1, 1}}; !slices.Equal(got, want) {
		t.Errorf("the hours are %v, want %v", got, want)
	}
	for i := range keptHours {
		count(ResultHit, time.Duration(10+i)*time.Hour)
	}
	if got := rows(); len(got) != keptHours || got[0] != (row{10, 1, 0}) {
		t.Errorf("%d hours from %v, want %d from the 10th", len(got), got[0], keptHours)
	}
}

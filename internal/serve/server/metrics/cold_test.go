package metrics

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/coldstore"
)

// TestColdMetrics: the metrics say what is cold and how far the background has come, and
// are omitted where that cannot be read.
func TestColdMetrics(t *testing.T) {
	t.Parallel()
	st := coldstore.ColdStatus{Near: 9, Restored: 3, RestoredBytes: 300}
	st.Sums = coldstore.ColdStats{Contents: 6, Plain: 1000, Keys: 2, Deltas: 4, Bytes: 60, PinnedBytes: 5, BothBytes: 7}
	st.Work = coldstore.Cooling{Paused: true, Contents: 4, Before: 800, After: 40, Finished: time.Unix(1_690_000_000, 0)}
	got := gaugesOf(t, coldMetrics(func(context.Context) (coldstore.ColdStatus, error) { return st, nil }))
	for name, want := range map[string]float64{
		"symdepot_cold_contents": 6, "symdepot_cold_plain_bytes": 1000, "symdepot_cold_bytes": 60, "symdepot_cold_keys": 2, "symdepot_cold_pinned_bytes": 5,
		"symdepot_cold_plain_too_bytes": 7, "symdepot_cold_near_cache_bytes": 9, "symdepot_cold_running": 0, "symdepot_cold_paused": 1,
		"symdepot_cold_pass_contents": 4, "symdepot_cold_pass_before_bytes": 800, "symdepot_cold_pass_after_bytes": 40, "symdepot_cold_last_end_timestamp_seconds": 1_690_000_000,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	c := coldMetrics(func(context.Context) (coldstore.ColdStatus, error) { return coldstore.ColdStatus{}, errors.New("disk") })
	if got := gaugesOf(t, c); len(got) != 0 {
		t.Errorf("metrics of a depot that cannot be read: %v, want none", got)
	}
}

package metrics

import (
	"context"
	"time"

	"github.com/symdepot/symdepot/internal/depot/check"
)

// scrubMetrics say how far the background check of the stored files has come.
func scrubMetrics(scrub func(context.Context) (check.ScrubState, error)) *table[check.ScrubState] {
	type state = check.ScrubState
	read := func(ctx context.Context) (state, bool) {
		s, err := scrub(ctx)
		if s.Started.IsZero() {
			s.Bytes, s.Damaged = s.LastBytes, s.LastDamaged
		}
		return s, err == nil
	}
	return newTable(read,
		gauge("symdepot_scrub_checked_bytes",
			"Bytes that the background check of stored files has read in this pass, or read in the last one between two passes.",
			func(s state) float64 { return float64(s.Bytes) }),
		gauge("symdepot_scrub_damaged_files",
			"Damaged stored files that the background check found in this pass, or found in the last one between two passes.",
			func(s state) float64 { return float64(s.Damaged) }),
		gauge("symdepot_scrub_running", "1 while a pass of the background check is under way.",
			func(s state) float64 { return oneIf(!s.Started.IsZero()) }),
		moment("symdepot_scrub_last_end_timestamp_seconds", "When the last whole pass of the background check ended.",
			func(s state) time.Time { return s.Finished }),
	)
}

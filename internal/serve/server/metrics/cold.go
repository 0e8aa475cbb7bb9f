package metrics

import (
	"context"
	"time"

	"github.com/symdepot/symdepot/internal/depot/coldstore"
)

// coldMetrics are those of the contents that are kept cold. Their sums take longer to read
// the more there are.
func coldMetrics(status func(context.Context) (coldstore.ColdStatus, error)) *table[coldstore.ColdStatus] {
	type state = coldstore.ColdStatus
	k := &kept[state]{read: status, fresh: stateFresh}
	return newTable(k.latest,
		gauge("symdepot_cold_contents", "Contents that are kept cold.", func(s state) float64 { return float64(s.Sums.Contents) }),
		gauge("symdepot_cold_plain_bytes", "Bytes of the cold contents as clients get them.",
			func(s state) float64 { return float64(s.Sums.Plain) }),
		gauge("symdepot_cold_bytes", "Bytes that the cold contents take.", func(s state) float64 { return float64(s.Sums.Bytes) }),
		gauge("symdepot_cold_keys", "Cold contents that are stored alone; all others are differences from another content.",
			func(s state) float64 { return float64(s.Sums.Keys) }),
		gauge("symdepot_cold_pinned_bytes", "Bytes of the contents that only differences need.",
			func(s state) float64 { return float64(s.Sums.PinnedBytes) }),
		gauge("symdepot_cold_plain_too_bytes", "Plain bytes of cold contents that are still, or again, stored too.",
			func(s state) float64 { return float64(s.Sums.BothBytes) }),
		gauge("symdepot_cold_near_cache_bytes", "Bytes of restored contents on this machine.", func(s state) float64 { return float64(s.Near) }),
		counter("symdepot_cold_restored_total", "Cold contents that this server has restored for readers.",
			func(s state) float64 { return float64(s.Restored) }),
		counter("symdepot_cold_restored_bytes_total", "Plain bytes of the cold contents that this server has restored for readers.",
			func(s state) float64 { return float64(s.RestoredBytes) }),
		counter("symdepot_cold_failures_total", "Attempts of this server to restore a cold content that found damage.",
			func(s state) float64 { return float64(s.Failures) }),
		gauge("symdepot_cold_running", "1 while a pass that makes contents cold is under way.",
			func(s state) float64 { return oneIf(!s.Work.Started.IsZero()) }),
		gauge("symdepot_cold_paused", "1 while no server makes contents cold, because of symdepot cool --pause.",
			func(s state) float64 { return oneIf(s.Work.Paused) }),
		gauge("symdepot_cold_pass_contents", "Contents that became cold in this pass, or in the last one between two passes.",
			func(s state) float64 { return float64(s.Work.Contents) }),
		gauge("symdepot_cold_pass_before_bytes", "Bytes of these contents before.", func(s state) float64 { return float64(s.Work.Before) }),
		gauge("symdepot_cold_pass_after_bytes", "Bytes of these contents now.", func(s state) float64 { return float64(s.Work.After) }),
		moment("symdepot_cold_last_end_timestamp_seconds", "When the last whole pass that makes contents cold ended.",
			func(s state) time.Time { return s.Work.Finished }),
	)
}

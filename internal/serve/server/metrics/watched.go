package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/depot/inplace"
)

// watchMetrics are those of the folders that this server indexes in place.
func watchMetrics(folders func(context.Context) []inplace.Status) *table[[]inplace.Status] {
	type state = inplace.Status
	each := func(name, help string, value func(state) (v float64, ok bool)) family[[]state] {
		return family[[]state]{name, help, prometheus.GaugeValue, []string{"folder"}, func(list []state, put func(float64, ...string)) {
			for _, s := range list {
				if v, ok := value(s); ok {
					put(v, s.Where)
				}
			}
		}}
	}
	return newTable(func(ctx context.Context) ([]state, bool) { return folders(ctx), true },
		each("symdepot_watch_objects", "Objects in a watched folder.", func(s state) (float64, bool) { return float64(s.Objects), true }),
		each("symdepot_watch_files", "Files in a watched folder that have objects or sources, packages included.",
			func(s state) (float64, bool) { return float64(s.Files), true }),
		each("symdepot_watch_bytes", "Bytes of these files.", func(s state) (float64, bool) { return float64(s.Bytes), true }),
		each("symdepot_watch_problems", "Files in a watched folder that are left out because they are damaged or too large; the log names them.",
			func(s state) (float64, bool) { return float64(s.Problems), true }),
		each("symdepot_watch_scan_timestamp_seconds", "When the last complete scan of a watched folder began; missing before the first.",
			func(s state) (float64, bool) {
				return float64(s.Last.Started.UnixMilli()) / 1000, !s.Last.Started.IsZero()
			}),
		each("symdepot_watch_scan_seconds", "How long the last complete scan took.",
			func(s state) (float64, bool) { return s.Last.Took.Seconds(), !s.Last.Started.IsZero() }),
		each("symdepot_watch_up", "1 if a watched folder can be read; 0: its files are absent.",
			func(s state) (float64, bool) { return oneIf(s.Failed == ""), true }),
	)
}

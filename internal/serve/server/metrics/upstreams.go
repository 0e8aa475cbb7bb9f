package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/depot"
)

// upstreamMetrics are those of the upstreams.
func upstreamMetrics(list func() []depot.UpstreamStatus) *table[[]depot.UpstreamStatus] {
	type state = depot.UpstreamStatus
	type put = func(float64, ...string)
	each := func(name, help string, kind prometheus.ValueType, value func(state) float64) family[[]state] {
		return family[[]state]{name, help, kind, []string{"upstream"}, func(list []state, put put) {
			for _, s := range list {
				put(value(s), s.Name)
			}
		}}
	}
	return newTable(func(context.Context) ([]state, bool) { return list(), true },
		family[[]state]{"symdepot_upstream_requests_total", "Requests to upstreams, by result.",
			prometheus.CounterValue, []string{"upstream", "result"},
			func(list []state, put put) {
				for _, s := range list {
					put(float64(s.Hits), s.Name, "hit")
					put(float64(s.Misses), s.Name, "miss")
					put(float64(s.Errors), s.Name, "error")
					put(float64(s.Wrong), s.Name, "wrong")
					put(float64(s.Skipped), s.Name, "skipped")
					put(float64(s.Refused), s.Name, "refused")
				}
			}},
		each("symdepot_upstream_bytes_total", "Uncompressed bytes downloaded from upstreams.", prometheus.CounterValue,
			func(s state) float64 { return float64(s.Bytes) }),
		each("symdepot_upstream_open", "1 while the circuit breaker of an upstream is open.", prometheus.GaugeValue,
			func(s state) float64 { return oneIf(s.Open) }),
		each("symdepot_upstream_active", "Requests to an upstream under way.", prometheus.GaugeValue,
			func(s state) float64 { return float64(s.Active) }),
	)
}

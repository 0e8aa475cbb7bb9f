package server

import (
	"github.com/prometheus/client_golang/prometheus"
)

// upstreams collects the state of the depot's upstreams. The label has as many
// values as the configuration has upstreams.
type upstreams struct{ depot Depot }

var upstreamDescs = struct{ requests, bytes, open, active *prometheus.Desc }{
	prometheus.NewDesc("symdepot_upstream_requests_total", "Requests to upstreams, by result.", []string{"upstream", "result"}, nil),
	prometheus.NewDesc("symdepot_upstream_bytes_total", "Uncompressed bytes downloaded from upstreams.", []string{"upstream"}, nil),
	prometheus.NewDesc("symdepot_upstream_open", "1 while the circuit breaker of an upstream is open.", []string{"upstream"}, nil),
	prometheus.NewDesc("symdepot_upstream_active", "Requests to an upstream under way.", []string{"upstream"}, nil),
}

// Describe implements prometheus.Collector.
func (u upstreams) Describe(ch chan<- *prometheus.Desc) {
	d := upstreamDescs
	for _, d := range []*prometheus.Desc{d.requests, d.bytes, d.open, d.active} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (u upstreams) Collect(ch chan<- prometheus.Metric) {
	d := upstreamDescs
	for _, s := range u.depot.Upstreams() {
		for result, n := range map[string]int64{"hit": s.Hits, "miss": s.Misses, "error": s.Errors, "wrong": s.Wrong, "skipped": s.Skipped, "refused": s.Refused} {
			ch <- prometheus.MustNewConstMetric(d.requests, prometheus.CounterValue, float64(n), s.Name, result)
		}
		open := 0.0
		if s.Open {
			open = 1
		}
		ch <- prometheus.MustNewConstMetric(d.bytes, prometheus.CounterValue, float64(s.Bytes), s.Name)
		ch <- prometheus.MustNewConstMetric(d.open, prometheus.GaugeValue, open, s.Name)
		ch <- prometheus.MustNewConstMetric(d.active, prometheus.GaugeValue, float64(s.Active), s.Name)
	}
}

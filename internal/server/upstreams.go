package server

import (
	"github.com/prometheus/client_golang/prometheus"
)

// upstreams collects what is known of the sources behind the depot. There are
// as many values of the label as sources in the configuration.
type upstreams struct{ symbols symbols }

var upstreamDescs = struct{ requests, bytes, open, active *prometheus.Desc }{
	prometheus.NewDesc("symdepot_upstream_requests_total", "Files asked for from other servers, by what came of it.", []string{"source", "result"}, nil),
	prometheus.NewDesc("symdepot_upstream_bytes_total", "Plain bytes that other servers sent.", []string{"source"}, nil),
	prometheus.NewDesc("symdepot_upstream_open", "1 while a source is left alone, because it fails or asked for it.", []string{"source"}, nil),
	prometheus.NewDesc("symdepot_upstream_active", "Requests to a source under way.", []string{"source"}, nil),
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
	for _, s := range u.symbols.Upstreams() {
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

package server

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/symdepot/symdepot/internal/depot"
)

// Protocols that are not layouts, as metrics and the access log call them.
const (
	protocolNone = "none" // no symbol path
	protocolOwn  = "own"  // the server's own paths
)

// metrics are the server's counters. Every label has few values: layouts,
// methods, status codes and results, never names or ids.
type metrics struct {
	inFlight prometheus.Gauge
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	lookups  *prometheus.CounterVec
	handler  http.Handler
	holdings *holdings

	// byKind holds the counters of each kind of request, so that counting
	// one needs no lookup of labels.
	byKind sync.Map // of requestKind to *counters
}

// requestKind is one combination of label values.
type requestKind struct {
	protocol, method, result string
	status                   int
}

// counters are the counters of one kind of request.
type counters struct {
	requests, bytes, lookups prometheus.Counter
	seconds                  prometheus.Observer
}

func newMetrics(reg *prometheus.Registry, version string, d *depot.Depot) (*metrics, error) {
	m := &metrics{
		holdings: newHoldings(d),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "symdepot_http_requests_in_flight", Help: "Requests being answered."}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "symdepot_http_requests_total", Help: "Requests answered."}, []string{"protocol", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "symdepot_http_request_duration_seconds", Help: "Time from a request's header to the end of its response.",
			Buckets: []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 100}}, []string{"protocol"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "symdepot_http_response_bytes_total", Help: "Bytes of response bodies sent."}, []string{"protocol"}),
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "symdepot_lookups_total", Help: "Symbol lookups by result."}, []string{"protocol", "result"}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "symdepot_build_info", Help: "Always 1; the labels describe the build.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()}})
	info.Set(1)
	if err := register(reg, m.inFlight, m.requests, m.seconds, m.bytes, m.lookups, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})); err != nil {
		return nil, err
	}
	m.handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4, DisableCompression: true, Registry: reg})
	return m, nil
}

// stateMetrics are the tables of what the server has.
func stateMetrics(d *depot.Depot, h *holdings, u *usages) []prometheus.Collector {
	list := []prometheus.Collector{
		upstreamMetrics(d.Upstreams), jobMetrics(d.Jobs()), scrubMetrics(d.Scrub), databaseMetrics(d.Stores), bucketMetrics(d.Stores),
		indexWaits{d.Stores}, nodeMetrics(d.Stores), coldMetrics(d.Cold.Status), watchMetrics(d.Watched.Statuses), lostFiles(d.Confirmed.Lost),
	}
	return slices.Concat(list, h.metrics(), u.metrics())
}

// register adds collectors to a registry.
func register(reg *prometheus.Registry, list ...prometheus.Collector) error {
	for _, c := range list {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	return nil
}

// counters returns the counters of a kind of request.
func (m *metrics) counters(k requestKind) *counters {
	v, ok := m.byKind.Load(k)
	if !ok {
		c := &counters{
			requests: m.requests.WithLabelValues(k.protocol, k.method, strconv.Itoa(k.status)),
			bytes:    m.bytes.WithLabelValues(k.protocol),
			seconds:  m.seconds.WithLabelValues(k.protocol),
		}
		if k.result != resultNone {
			c.lookups = m.lookups.WithLabelValues(k.protocol, k.result)
		}
		v, _ = m.byKind.LoadOrStore(k, c)
	}
	return v.(*counters)
}

// count counts one answered request.
func (c *counters) count(bytes int64, d time.Duration) {
	c.requests.Inc()
	c.bytes.Add(float64(bytes))
	c.seconds.Observe(d.Seconds())
	if c.lookups != nil {
		c.lookups.Inc()
	}
}

// lostFiles counts what a server must never have: files that it called accepted and did
// not find afterwards.
func lostFiles(count func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "symdepot_accepted_files_lost_total",
		Help: "Files of uploads that this server accepted and did not find in their transaction; the answer was an error. Always 0, unless the program has a fault.",
	}, func() float64 { return float64(count()) })
}

// methodLabel bounds the number of label values: clients may invent methods.
func methodLabel(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut:
		return m
	}
	return "other"
}

// holdings is the size of the depot. Counting may take long in a large depot.
type holdings struct {
	kept[depot.Stats]
	failed atomic.Int64
}

func newHoldings(d *depot.Depot) *holdings {
	h := &holdings{}
	h.fresh = stateFresh
	h.read = func(ctx context.Context) (depot.Stats, error) {
		st, err := d.Stats(ctx)
		if err != nil {
			h.failed.Add(1)
		}
		return st, err
	}
	return h
}

// stats returns the size, for people.
func (h *holdings) stats() (depot.Stats, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	return h.latest(ctx)
}

func (h *holdings) metrics() []prometheus.Collector {
	return []prometheus.Collector{
		newTable(h.latest,
			gauge("symdepot_depot_objects", "Symbol objects in the depot.", func(s depot.Stats) float64 { return float64(s.Objects) }),
			gauge("symdepot_depot_contents", "Distinct file contents in the depot.", func(s depot.Stats) float64 { return float64(s.Contents) }),
			gauge("symdepot_depot_bytes", "Bytes of all contents in the depot.", func(s depot.Stats) float64 { return float64(s.Bytes) }),
			gauge("symdepot_depot_transactions", "Transactions in the depot.", func(s depot.Stats) float64 { return float64(s.Transactions) }),
		),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "symdepot_depot_stats_failures_total", Help: "Failures to count the contents of the depot.",
		}, func() float64 { return float64(h.failed.Load()) }),
	}
}

package metrics

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Requests are the counters of requests. Every label has few values: layouts,
// methods, status codes and results, never names or ids.
type Requests struct {
	InFlight prometheus.Gauge // requests being answered
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	lookups  *prometheus.CounterVec
	Hours    Hours // lookups by hour

	// byKind holds the counters of each kind of request, so that counting
	// one needs no lookup of labels.
	byKind sync.Map // of Kind to *Counters
}

func newRequests() *Requests {
	return &Requests{
		InFlight: prometheus.NewGauge(prometheus.GaugeOpts{
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
}

func (r *Requests) list() []prometheus.Collector {
	return []prometheus.Collector{r.InFlight, r.requests, r.seconds, r.bytes, r.lookups}
}

// Kind is one combination of label values.
type Kind struct {
	Protocol, Method, Result string
	Status                   int // of the answer
}

// Counters are the counters of one kind of request.
type Counters struct {
	requests, bytes, lookups prometheus.Counter
	seconds                  prometheus.Observer
	hours                    *Hours // nil: neither found nor missing
	found                    bool
}

// The results of lookups, as the labels call them.
const (
	ResultHit  = "hit"
	ResultMiss = "miss"
)

// Counters returns the counters of a kind of request.
func (r *Requests) Counters(k Kind) *Counters {
	v, ok := r.byKind.Load(k)
	if !ok {
		c := &Counters{
			requests: r.requests.WithLabelValues(k.Protocol, k.Method, strconv.Itoa(k.Status)),
			bytes:    r.bytes.WithLabelValues(k.Protocol),
			seconds:  r.seconds.WithLabelValues(k.Protocol),
		}
		if k.Result != "" {
			c.lookups = r.lookups.WithLabelValues(k.Protocol, k.Result)
		}
		if c.found = k.Result == ResultHit; c.found || k.Result == ResultMiss {
			c.hours = &r.Hours
		}
		v, _ = r.byKind.LoadOrStore(k, c)
	}
	return v.(*Counters)
}

// Count counts one answered request, with the bytes of its body, how long it took and
// when it ended.
func (c *Counters) Count(bytes int64, d time.Duration, ended time.Time) {
	c.requests.Inc()
	c.bytes.Add(float64(bytes))
	c.seconds.Observe(d.Seconds())
	if c.lookups != nil {
		c.lookups.Inc()
	}
	if c.hours != nil {
		c.hours.count(c.found, ended)
	}
}

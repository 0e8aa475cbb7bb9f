package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	stateFresh   = 15 * time.Second // how long a state that takes long to read is shown
	stateTimeout = 3 * time.Second  // how long reading a state may take
)

// family is a row of a table: a metric family and its values in a state.
type family[S any] struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	values     func(s S, put func(v float64, labels ...string))
}

func gauge[S any](name, help string, value func(S) float64) family[S] {
	return family[S]{name, help, prometheus.GaugeValue, nil, func(s S, put func(float64, ...string)) { put(value(s)) }}
}

func counter[S any](name, help string, value func(S) float64) family[S] {
	m := gauge(name, help, value)
	m.kind = prometheus.CounterValue
	return m
}

// moment is a gauge of a time in seconds since 1970. The zero time has no value.
func moment[S any](name, help string, at func(S) time.Time) family[S] {
	return family[S]{name, help, prometheus.GaugeValue, nil, func(s S, put func(float64, ...string)) {
		if t := at(s); !t.IsZero() {
			put(float64(t.UnixMilli()) / 1000)
		}
	}}
}

// table collects the metrics of a state, which is read when the metrics are.
type table[S any] struct {
	read  func(ctx context.Context) (s S, ok bool)
	rows  []family[S]
	descs []*prometheus.Desc // of the rows
}

func newTable[S any](read func(ctx context.Context) (s S, ok bool), rows ...family[S]) *table[S] {
	t := &table[S]{read: read, rows: rows}
	for _, r := range rows {
		t.descs = append(t.descs, prometheus.NewDesc(r.name, r.help, r.labels, nil))
	}
	return t
}

// Describe implements prometheus.Collector.
func (t *table[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range t.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (t *table[S]) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	s, ok := t.read(ctx)
	if !ok {
		return
	}
	for i, r := range t.rows {
		r.values(s, func(v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(t.descs[i], r.kind, v, labels...)
		})
	}
}

// kept is a state that is read again only once it is old: reading it takes long.
type kept[S any] struct {
	read  func(ctx context.Context) (S, error)
	fresh time.Duration

	mu   sync.Mutex // guards what follows
	last S
	when time.Time
}

// latest returns the state.
func (k *kept[S]) latest(ctx context.Context) (s S, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.when.IsZero() && time.Since(k.when) < k.fresh {
		return k.last, true
	}
	s, err := k.read(ctx)
	if err != nil {
		return s, false
	}
	k.last, k.when = s, time.Now()
	return s, true
}

// oneIf is 1 for true.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

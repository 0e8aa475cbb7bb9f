package server

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/depot"
)

// coldFresh is how long the sums of cold contents are shown before they are read again:
// reading them takes longer the more contents are cold.
const coldFresh = 15 * time.Second

// coldFiles reports the contents that are kept cold.
type coldFiles struct {
	status func(ctx context.Context) (depot.ColdStatus, error)

	mu   sync.Mutex // guards what follows
	last depot.ColdStatus
	when time.Time
}

var (
	descColdContents = prometheus.NewDesc("symdepot_cold_contents", "Contents that are kept cold.", nil, nil)
	descColdPlain    = prometheus.NewDesc("symdepot_cold_plain_bytes", "Bytes of the cold contents as clients get them.", nil, nil)
	descColdBytes    = prometheus.NewDesc("symdepot_cold_bytes", "Bytes that the cold contents take.", nil, nil)
	descColdKeys     = prometheus.NewDesc("symdepot_cold_keys", "Cold contents that are stored alone; all others are differences from another content.", nil, nil)
	descColdPinned   = prometheus.NewDesc("symdepot_cold_pinned_bytes", "Bytes of the contents that only differences need.", nil, nil)
	descColdBoth     = prometheus.NewDesc("symdepot_cold_plain_too_bytes", "Plain bytes of cold contents that are still, or again, stored too.", nil, nil)
	descColdNear     = prometheus.NewDesc("symdepot_cold_near_cache_bytes", "Bytes of restored contents on this machine.", nil, nil)
	descColdRestored = prometheus.NewDesc("symdepot_cold_restored_total", "Cold contents that this server has restored for readers.", nil, nil)
	descColdRead     = prometheus.NewDesc("symdepot_cold_restored_bytes_total", "Plain bytes of the cold contents that this server has restored for readers.", nil, nil)
	descColdFailures = prometheus.NewDesc("symdepot_cold_failures_total", "Attempts of this server to restore a cold content that found damage.", nil, nil)
	descColdRunning  = prometheus.NewDesc("symdepot_cold_running", "1 while a pass that makes contents cold is under way.", nil, nil)
	descColdPaused   = prometheus.NewDesc("symdepot_cold_paused", "1 while no server makes contents cold, because of symdepot cool --pause.", nil, nil)
	descColdPass     = prometheus.NewDesc("symdepot_cold_pass_contents", "Contents that became cold in this pass, or in the last one between two passes.", nil, nil)
	descColdBefore   = prometheus.NewDesc("symdepot_cold_pass_before_bytes", "Bytes of these contents before.", nil, nil)
	descColdAfter    = prometheus.NewDesc("symdepot_cold_pass_after_bytes", "Bytes of these contents now.", nil, nil)
	descColdEnd      = prometheus.NewDesc("symdepot_cold_last_end_timestamp_seconds", "When the last whole pass that makes contents cold ended.", nil, nil)
)

// Describe implements prometheus.Collector.
func (*coldFiles) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descColdContents, descColdPlain, descColdBytes, descColdKeys, descColdPinned, descColdBoth, descColdNear, descColdRestored, descColdRead,
		descColdFailures, descColdRunning, descColdPaused, descColdPass, descColdBefore, descColdAfter, descColdEnd} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *coldFiles) Collect(ch chan<- prometheus.Metric) {
	st, ok := c.latest()
	if !ok {
		return
	}
	value := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
		ch <- prometheus.MustNewConstMetric(d, kind, v)
	}
	running, paused := 0.0, 0.0
	if !st.Work.Started.IsZero() {
		running = 1
	}
	if st.Work.Paused {
		paused = 1
	}
	for d, v := range map[*prometheus.Desc]float64{
		descColdContents: float64(st.Sums.Contents), descColdPlain: float64(st.Sums.Plain), descColdBytes: float64(st.Sums.Bytes), descColdKeys: float64(st.Sums.Keys), descColdPinned: float64(st.Sums.PinnedBytes),
		descColdBoth: float64(st.Sums.BothBytes), descColdNear: float64(st.Near), descColdRunning: running, descColdPaused: paused, descColdPass: float64(st.Work.Contents),
		descColdBefore: float64(st.Work.Before), descColdAfter: float64(st.Work.After),
	} {
		value(d, prometheus.GaugeValue, v)
	}
	value(descColdRestored, prometheus.CounterValue, float64(st.Restored))
	value(descColdRead, prometheus.CounterValue, float64(st.RestoredBytes))
	value(descColdFailures, prometheus.CounterValue, float64(st.Failures))
	if !st.Work.Finished.IsZero() {
		value(descColdEnd, prometheus.GaugeValue, float64(st.Work.Finished.Unix()))
	}
}

// latest returns the state, and reads it if it is old.
func (c *coldFiles) latest() (depot.ColdStatus, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.when.IsZero() && time.Since(c.when) < coldFresh {
		return c.last, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), holdingsTimeout)
	defer cancel()
	st, err := c.status(ctx)
	if err != nil {
		return st, false
	}
	c.last, c.when = st, time.Now()
	return st, true
}

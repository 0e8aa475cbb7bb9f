package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/depot"
)

// scrubs reports how far the background check of the stored files has come.
type scrubs struct {
	depot interface {
		Scrub(ctx context.Context) (depot.ScrubState, error)
	}
}

var (
	descScrubBytes   = prometheus.NewDesc("symdepot_scrub_checked_bytes", "Bytes that the background check of stored files has read in this pass, or read in the last one between two passes.", nil, nil)
	descScrubDamaged = prometheus.NewDesc("symdepot_scrub_damaged_files", "Damaged stored files that the background check found in this pass, or found in the last one between two passes.", nil, nil)
	descScrubRunning = prometheus.NewDesc("symdepot_scrub_running", "1 while a pass of the background check is under way.", nil, nil)
	descScrubEnd     = prometheus.NewDesc("symdepot_scrub_last_end_timestamp_seconds", "When the last whole pass of the background check ended.", nil, nil)
)

// Describe implements prometheus.Collector.
func (scrubs) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descScrubBytes, descScrubDamaged, descScrubRunning, descScrubEnd} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c scrubs) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), holdingsTimeout)
	defer cancel()
	st, err := c.depot.Scrub(ctx)
	if err != nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	if st.Started.IsZero() {
		st.Bytes, st.Damaged = st.LastBytes, st.LastDamaged
		gauge(descScrubRunning, 0)
	} else {
		gauge(descScrubRunning, 1)
	}
	gauge(descScrubBytes, float64(st.Bytes))
	gauge(descScrubDamaged, float64(st.Damaged))
	if !st.Finished.IsZero() {
		gauge(descScrubEnd, float64(st.Finished.Unix()))
	}
}

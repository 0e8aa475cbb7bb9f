package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/depot"
)

// watchedFolders reports the folders that this server indexes in place.
type watchedFolders struct {
	folders func(ctx context.Context) []depot.WatchStatus
}

var (
	descWatchObjects  = prometheus.NewDesc("symdepot_watch_objects", "Objects in a watched folder.", []string{"folder"}, nil)
	descWatchFiles    = prometheus.NewDesc("symdepot_watch_files", "Files in a watched folder that have objects or sources, packages included.", []string{"folder"}, nil)
	descWatchBytes    = prometheus.NewDesc("symdepot_watch_bytes", "Bytes of these files.", []string{"folder"}, nil)
	descWatchProblems = prometheus.NewDesc("symdepot_watch_problems", "Files in a watched folder that are left out because they are damaged or too large; the log names them.", []string{"folder"}, nil)
	descWatchScanned  = prometheus.NewDesc("symdepot_watch_scan_timestamp_seconds", "When the last complete scan of a watched folder began; missing before the first.", []string{"folder"}, nil)
	descWatchTook     = prometheus.NewDesc("symdepot_watch_scan_seconds", "How long the last complete scan took.", []string{"folder"}, nil)
	descWatchUp       = prometheus.NewDesc("symdepot_watch_up", "1 if a watched folder can be read; 0: its files are absent.", []string{"folder"}, nil)
)

// Describe implements prometheus.Collector.
func (watchedFolders) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descWatchObjects, descWatchFiles, descWatchBytes, descWatchProblems, descWatchScanned, descWatchTook, descWatchUp} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c watchedFolders) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), holdingsTimeout)
	defer cancel()
	for _, s := range c.folders(ctx) {
		value := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, s.Where)
		}
		value(descWatchObjects, float64(s.Objects))
		value(descWatchFiles, float64(s.Files))
		value(descWatchBytes, float64(s.Bytes))
		value(descWatchProblems, float64(s.Problems))
		if !s.Last.Started.IsZero() {
			value(descWatchScanned, float64(s.Last.Started.UnixMilli())/1000)
			value(descWatchTook, s.Last.Took.Seconds())
		}
		up := 1.0
		if s.Failed != "" {
			up = 0
		}
		value(descWatchUp, up)
	}
}

package server

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/jobs"
)

// jobCounts collects the numbers of jobs when metrics are read.
type jobCounts struct {
	depot Depot
	mu    sync.Mutex // guards what follows
	last  []jobs.Stats
	when  time.Time
}

var (
	descJobsQueued  = prometheus.NewDesc("symdepot_jobs_queued", "Jobs that wait for a worker.", []string{"kind"}, nil)
	descJobsRunning = prometheus.NewDesc("symdepot_jobs_running", "Jobs that a worker is doing.", []string{"kind"}, nil)
	descJobsOldest  = prometheus.NewDesc("symdepot_jobs_oldest_seconds", "Age of the oldest waiting job.", []string{"kind"}, nil)
	descJobsEnded   = prometheus.NewDesc("symdepot_jobs_ended", "Jobs of the last days by how they ended.", []string{"kind", "state", "class"}, nil)
	descJobsTime    = prometheus.NewDesc("symdepot_jobs_ended_duration_seconds_sum", "Time that the last attempts of these jobs took.", []string{"kind", "state", "class"}, nil)
	descJobsLongest = prometheus.NewDesc("symdepot_jobs_ended_duration_seconds_max", "The longest of these times.", []string{"kind", "state", "class"}, nil)
	descWorkers     = prometheus.NewDesc("symdepot_workers", "Workers on other machines that sent a request in the last minute.", nil, nil)
	descTool        = prometheus.NewDesc("symdepot_transcoder_usable", "1 if the last test run of a transcoder of this server succeeded, else 0: the log and the page of jobs say why.", []string{"transcoder"}, nil)
)

// Describe implements prometheus.Collector.
func (c *jobCounts) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descJobsQueued, descJobsRunning, descJobsOldest, descJobsEnded, descJobsTime, descJobsLongest, descWorkers, descTool} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *jobCounts) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(descWorkers, float64(len(c.depot.Jobs().Workers())))
	for _, t := range c.depot.Jobs().Tools() {
		usable := 0.0
		if t.Version != "" {
			usable = 1
		}
		gauge(descTool, usable, t.Name)
	}
	for _, s := range c.stats() {
		gauge(descJobsQueued, float64(s.Queued), s.Kind)
		gauge(descJobsRunning, float64(s.Running), s.Kind)
		age := 0.0
		if !s.Oldest.IsZero() {
			age = max(0, time.Since(s.Oldest).Seconds())
		}
		gauge(descJobsOldest, age, s.Kind)
		for _, o := range s.Outcomes {
			gauge(descJobsEnded, float64(o.Jobs), s.Kind, o.State.String(), o.Class)
			gauge(descJobsTime, o.Total.Seconds(), s.Kind, o.State.String(), o.Class)
			gauge(descJobsLongest, o.Longest.Seconds(), s.Kind, o.State.String(), o.Class)
		}
	}
}

// stats returns numbers that are at most some seconds old.
func (c *jobCounts) stats() []jobs.Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.when.IsZero() && time.Since(c.when) < holdingsFresh/3 {
		return c.last
	}
	ctx, cancel := context.WithTimeout(context.Background(), holdingsTimeout)
	defer cancel()
	if list, err := c.depot.Jobs().Stats(ctx); err == nil {
		c.last, c.when = list, time.Now()
	}
	return c.last
}

package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/derive/jobs"
)

// jobMetrics are those of the queue of jobs and of those who do them.
func jobMetrics(queue *jobs.Queue) *table[[]jobs.Stats] {
	type put = func(float64, ...string)
	k := &kept[[]jobs.Stats]{read: func(ctx context.Context) ([]jobs.Stats, error) { return queue.Stats(ctx) }, fresh: stateFresh / 3}
	read := func(ctx context.Context) ([]jobs.Stats, bool) {
		list, _ := k.latest(ctx) // workers and transcoders are known without the database
		return list, true
	}
	kinds := func(name, help string, value func(jobs.Stats) float64) family[[]jobs.Stats] {
		return family[[]jobs.Stats]{name, help, prometheus.GaugeValue, []string{"kind"}, func(list []jobs.Stats, put put) {
			for _, s := range list {
				put(value(s), s.Kind)
			}
		}}
	}
	ended := func(name, help string, value func(jobs.Ended) float64) family[[]jobs.Stats] {
		return family[[]jobs.Stats]{name, help, prometheus.GaugeValue, []string{"kind", "state", "class"}, func(list []jobs.Stats, put put) {
			for _, s := range list {
				for _, o := range s.Outcomes {
					put(value(o), s.Kind, o.State.String(), o.Class)
				}
			}
		}}
	}
	return newTable(read,
		kinds("symdepot_jobs_queued", "Jobs that wait for a worker.", func(s jobs.Stats) float64 { return float64(s.Queued) }),
		kinds("symdepot_jobs_running", "Jobs that a worker is doing.", func(s jobs.Stats) float64 { return float64(s.Running) }),
		kinds("symdepot_jobs_oldest_seconds", "Age of the oldest waiting job.", func(s jobs.Stats) float64 {
			if s.Oldest.IsZero() {
				return 0
			}
			return max(0, time.Since(s.Oldest).Seconds())
		}),
		ended("symdepot_jobs_ended", "Jobs of the last days by how they ended.", func(o jobs.Ended) float64 { return float64(o.Jobs) }),
		ended("symdepot_jobs_ended_duration_seconds_sum", "Time that the last attempts of these jobs took.",
			func(o jobs.Ended) float64 { return o.Total.Seconds() }),
		ended("symdepot_jobs_ended_duration_seconds_max", "The longest of these times.",
			func(o jobs.Ended) float64 { return o.Longest.Seconds() }),
		gauge("symdepot_workers", "Workers on other machines that sent a request in the last minute.",
			func([]jobs.Stats) float64 { return float64(len(queue.Workers())) }),
		family[[]jobs.Stats]{"symdepot_transcoder_usable",
			"1 if the last test run of a transcoder of this server succeeded, else 0: the log and the page of jobs say why.",
			prometheus.GaugeValue, []string{"transcoder"}, func(_ []jobs.Stats, put put) {
				for _, t := range queue.Tools() {
					put(oneIf(t.Version != ""), t.Name)
				}
			}},
	)
}

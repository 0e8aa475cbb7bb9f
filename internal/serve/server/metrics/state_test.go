package metrics

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/inplace"
)

// scrubbed is a depot that only reports the state of its background check.
type scrubbed struct {
	state check.ScrubState
	err   error
}

func (s scrubbed) Scrub(context.Context) (check.ScrubState, error) { return s.state, s.err }

// gauges collects the metrics of a collector that have no labels.
func gauges(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	return collected(t, false, c)
}

// gaugesOf is gauges for a collector that has counters too.
func gaugesOf(t *testing.T, list ...prometheus.Collector) map[string]float64 {
	t.Helper()
	return collected(t, true, list...)
}

func collected(t *testing.T, counters bool, list ...prometheus.Collector) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry() // also compares Describe with Collect
	if err := register(reg, list...); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if counters && f.GetMetric()[0].GetCounter() != nil {
			continue
		}
		if n := len(f.GetMetric()); n != 1 || f.GetMetric()[0].GetGauge() == nil {
			t.Errorf("%s has %d values, want one gauge", f.GetName(), n)
			continue
		}
		got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	return got
}

// TestScrubMetrics: the metrics follow a pass of the background check, keep the
// figures of the last pass between two passes, and are omitted where there is no
// state.
func TestScrubMetrics(t *testing.T) {
	t.Parallel()
	started, finished := time.Unix(1_700_000_000, 0), time.Unix(1_690_000_000, 0)
	const bytes, damaged, running, end = "symdepot_scrub_checked_bytes", "symdepot_scrub_damaged_files", "symdepot_scrub_running", "symdepot_scrub_last_end_timestamp_seconds"
	for _, tt := range []struct {
		name  string
		depot scrubbed
		want  map[string]float64
	}{
		{"before the first pass", scrubbed{}, map[string]float64{bytes: 0, damaged: 0, running: 0}},
		{"first pass", scrubbed{state: check.ScrubState{Started: started, Bytes: 1 << 40, Damaged: 2}}, map[string]float64{bytes: 1 << 40, damaged: 2, running: 1}},
		{"later pass", scrubbed{state: check.ScrubState{Started: started, Bytes: 5, Finished: finished, LastBytes: 700, LastDamaged: 3}}, map[string]float64{bytes: 5, damaged: 0, running: 1, end: 1_690_000_000}},
		{"between two passes", scrubbed{state: check.ScrubState{Finished: finished, LastBytes: 700, LastDamaged: 3}}, map[string]float64{bytes: 700, damaged: 3, running: 0, end: 1_690_000_000}},
		{"the state cannot be read", scrubbed{err: errors.New("disk")}, map[string]float64{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := gauges(t, scrubMetrics(tt.depot.Scrub)); !maps.Equal(got, tt.want) {
				t.Errorf("metrics %v, want %v", got, tt.want)
			}
		})
	}
}

// status is a depot that only reports its stores.
type status struct{ depot.StoreStatus }

func (s status) Stores(context.Context) depot.StoreStatus { return s.StoreStatus }

// TestStoreMetrics: each metric is there only for a depot that has what it describes.
func TestStoreMetrics(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		st   depot.StoreStatus
		want map[string]float64 // gauges
	}{
		{"on disk", depot.StoreStatus{}, map[string]float64{}},
		{"database away", depot.StoreStatus{Database: true}, map[string]float64{"symdepot_database_up": 0}},
		{"all up", depot.StoreStatus{Database: true, DatabaseUp: true, Bucket: &depot.BucketStatus{Up: true, Cache: depot.BucketCache{Files: 2, Bytes: 30, Limit: 400}}},
			map[string]float64{"symdepot_database_up": 1, "symdepot_bucket_up": 1, "symdepot_bucket_foreign": 0, "symdepot_bucket_cache_files": 2, "symdepot_bucket_cache_bytes": 30, "symdepot_bucket_cache_limit_bytes": 400}},
		{"a copy without its store", depot.StoreStatus{Bucket: &depot.BucketStatus{Foreign: true}},
			map[string]float64{"symdepot_bucket_up": 0, "symdepot_bucket_foreign": 1, "symdepot_bucket_cache_files": 0, "symdepot_bucket_cache_bytes": 0, "symdepot_bucket_cache_limit_bytes": 0}},
	} {
		if got := gaugesOf(t, databaseMetrics(status{tt.st}.Stores), bucketMetrics(status{tt.st}.Stores), indexWaits{status{tt.st}.Stores}); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestWatchMetrics: each watched folder has its gauges, those of a scan only after one.
func TestWatchMetrics(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	c := watchMetrics(func(context.Context) []inplace.Status {
		s := inplace.Status{Where: "/srv/a", Files: 3, Objects: 2, Bytes: 10}
		s.Last.Started, s.Last.Took = at, 2*time.Second
		return []inplace.Status{s, {Where: "/srv/b", Failed: "away"}}
	})
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"symdepot_watch_objects /srv/a": 2, "symdepot_watch_files /srv/a": 3, "symdepot_watch_bytes /srv/a": 10, "symdepot_watch_problems /srv/a": 0,
		"symdepot_watch_scan_timestamp_seconds /srv/a": 1_700_000_000, "symdepot_watch_scan_seconds /srv/a": 2, "symdepot_watch_up /srv/a": 1,
		"symdepot_watch_objects /srv/b": 0, "symdepot_watch_files /srv/b": 0, "symdepot_watch_bytes /srv/b": 0, "symdepot_watch_problems /srv/b": 0, "symdepot_watch_up /srv/b": 0,
	}
	if !maps.Equal(got, want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
}

package metrics

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/depot"
)

// Holdings is the size of the depot. Counting may take long in a large depot.
type Holdings struct {
	kept[depot.Stats]
	failed atomic.Int64
}

func newHoldings(d *depot.Depot) *Holdings {
	h := &Holdings{}
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

// Stats returns the size, for people.
func (h *Holdings) Stats() (depot.Stats, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	return h.latest(ctx)
}

func (h *Holdings) metrics() []prometheus.Collector {
	return []prometheus.Collector{
		newTable(h.latest,
			gauge("symdepot_depot_objects", "Symbol objects in the depot.", func(s depot.Stats) float64 { return float64(s.Objects) }),
			gauge("symdepot_depot_contents", "Distinct file contents in the depot.", func(s depot.Stats) float64 { return float64(s.Contents) }),
			gauge("symdepot_depot_bytes", "Bytes of all contents in the depot.", func(s depot.Stats) float64 { return float64(s.Bytes) }),
			gauge("symdepot_depot_builds", "Builds in the depot.", func(s depot.Stats) float64 { return float64(s.Transactions) }),
		),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "symdepot_depot_stats_failures_total", Help: "Failures to count the contents of the depot.",
		}, func() float64 { return float64(h.failed.Load()) }),
	}
}

// Package metrics counts what a server does and shows what its depot has, for Prometheus.
package metrics

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/symdepot/symdepot/internal/depot"
)

// Metrics are those of a server and of its depot.
type Metrics struct {
	*Requests
	http.Handler // answers with all of them
	Holdings     *Holdings
	Usage        *Usages
}

// New returns the metrics of a server of a version with a depot. sums computes what takes
// the space of the depot, and refused are the requests that a limit has refused.
func New(version string, d *depot.Depot, sums Usage, refused *Refusals) (*Metrics, error) {
	m := &Metrics{Requests: newRequests(), Holdings: newHoldings(d), Usage: newUsages(sums)}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "symdepot_build_info", Help: "Always 1; the labels describe the build.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()}})
	info.Set(1)
	reg := prometheus.NewRegistry()
	list := []prometheus.Collector{
		info, refused, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
	if err := register(reg, slices.Concat(list, m.list(), states(d, m.Holdings, m.Usage))...); err != nil {
		return nil, err
	}
	m.Handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4, DisableCompression: true, Registry: reg})
	return m, nil
}

// states are the tables of what a depot has.
func states(d *depot.Depot, h *Holdings, u *Usages) []prometheus.Collector {
	list := []prometheus.Collector{
		upstreamMetrics(d.Upstreams), jobMetrics(d.Jobs()), scrubMetrics(d.Check.Progress), databaseMetrics(d.Stores), bucketMetrics(d.Stores),
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

// lostFiles counts what a server must never have: files that it called accepted and did
// not find afterwards.
func lostFiles(count func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "symdepot_accepted_files_lost_total",
		Help: "Files of uploads that this server accepted and did not find in their build; the answer was an error. " +
			"Always 0, unless the program has a fault.",
	}, func() float64 { return float64(count()) })
}

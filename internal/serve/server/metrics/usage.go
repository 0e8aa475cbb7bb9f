package metrics

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/depot/lifecycle"
)

// Usage says what takes the space of a depot. Its functions must not be nil.
type Usage struct {
	// Sum computes the usage, which takes long in a large depot.
	Sum func(ctx context.Context) (*lifecycle.Usage, error)
	// Quotas returns the quotas of products in bytes.
	Quotas func(ctx context.Context) (map[string]int64, error)
}

const (
	// usageFresh is how long a usage is shown at most before it is computed again, and
	// usageShare is how many times longer it is shown than computing it took.
	usageFresh = 15 * time.Minute
	usageShare = 100
	// usageWait is how long a page waits for the first usage.
	usageWait = 1500 * time.Millisecond
	// usageTimeout is how long computing it may take.
	usageTimeout = 10 * time.Minute
	// usageRows limits the products and the classes that are shown.
	usageRows = 100
)

// Usages collects what takes the space of the depot. It is computed in the
// background after the metrics were read, so that reading them is quick: the first
// time they have no usage.
type Usages struct {
	usage Usage
	ctx   context.Context // ends with the server
	end   context.CancelFunc
	runs  sync.WaitGroup // of the computation

	mu      sync.Mutex // guards what follows
	running bool
	begun   time.Time     // of the last computation
	took    time.Duration // the last computation
	done    chan struct{} // closed when the running computation ends
	failed  int
	last    *lifecycle.Usage
	quotas  map[string]int64
}

func newUsages(u Usage) *Usages {
	c := &Usages{usage: u}
	c.ctx, c.end = context.WithCancel(context.Background())
	return c
}

// Stop ends a computation and waits for its end.
func (c *Usages) Stop() {
	c.end()
	c.runs.Wait()
}

// usageState is what the metrics of a usage show. The usage is nil before the first.
type usageState struct {
	*lifecycle.Usage
	quotas map[string]int64
	failed int
}

// metrics are those of what takes the space.
func (c *Usages) metrics() []prometheus.Collector {
	type state = usageState
	type put = func(float64, ...string)
	failed := newTable(func(context.Context) (state, bool) { return c.latest(), true },
		counter("symdepot_usage_failures_total", "Failures to compute the usage.", func(s state) float64 { return float64(s.failed) }))
	shares := func(put put, by string, list []lifecycle.Share, name func(*lifecycle.Share) string) {
		for i := range list[:min(len(list), usageRows)] {
			n := strings.ToValidUTF8(name(&list[i]), "?")
			put(float64(list[i].Own), by, n, "own")
			put(float64(list[i].Shared), by, n, "shared")
		}
	}
	read := func(context.Context) (state, bool) {
		s := c.latest()
		return s, s.Usage != nil
	}
	return []prometheus.Collector{failed, newTable(read,
		family[state]{"symdepot_usage_bytes", "Disk space that live builds take, by product or class; " +
			"part is own (nothing else holds it) or shared.",
			prometheus.GaugeValue, []string{"by", "name", "part"}, func(s state, put put) {
				shares(put, "product", s.Products, func(s *lifecycle.Share) string { return s.Product })
				shares(put, "class", s.Classes, func(s *lifecycle.Share) string { return s.Class })
			}},
		gauge("symdepot_usage_live_bytes", "Disk space that live builds take.", func(s state) float64 { return float64(s.Live) }),
		gauge("symdepot_usage_garbage_bytes", "Disk space that gc frees now, its grace aside.",
			func(s state) float64 { return float64(s.Garbage) }),
		gauge("symdepot_usage_trash_bytes", "Disk space that gc frees after the trash.", func(s state) float64 { return float64(s.Trash) }),
		moment("symdepot_usage_computed_timestamp_seconds", "Time for which the usage was computed.", func(s state) time.Time { return s.Time }),
		family[state]{"symdepot_quota_bytes", "Quota of a product.", prometheus.GaugeValue, []string{"product"}, func(s state, put put) {
			for product, n := range s.quotas {
				put(float64(n), strings.ToValidUTF8(product, "?"))
			}
		}},
	)}
}

// latest returns the last usage, and begins to compute another one if it is old.
func (c *Usages) latest() usageState {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin()
	return usageState{c.last, c.quotas, c.failed}
}

// begin begins to compute the usage if it is old. mu is held.
func (c *Usages) begin() {
	if !c.running && (c.begun.IsZero() || time.Since(c.begun) >= min(usageShare*c.took, usageFresh)) && c.ctx.Err() == nil {
		c.running, c.begun, c.done = true, time.Now(), make(chan struct{})
		c.runs.Go(c.compute)
	}
}

// ForPage returns the last usage. If there is none yet, or computing it is quick, it
// waits for it shortly.
func (c *Usages) ForPage(ctx context.Context) (u *lifecycle.Usage, quotas map[string]int64) {
	c.mu.Lock()
	c.begin()
	wait := c.done
	if !c.running || c.last != nil && c.took > usageWait/10 {
		wait = nil
	}
	c.mu.Unlock()
	if wait != nil {
		t := time.NewTimer(usageWait)
		defer t.Stop()
		select {
		case <-wait:
		case <-t.C:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.quotas
}

func (c *Usages) compute() {
	ctx, cancel := context.WithTimeout(c.ctx, usageTimeout)
	defer cancel()
	u, err := c.usage.Sum(ctx)
	var quotas map[string]int64
	if err == nil {
		quotas, err = c.usage.Quotas(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.took = false, time.Since(c.begun)
	close(c.done)
	if err != nil {
		c.failed++
		return
	}
	c.last, c.quotas = u, quotas
}

package metrics

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/symdepot/symdepot/internal/depot/lifecycle"
)

// TestUsageMetrics: reading the metrics begins to compute the usage and never waits
// for it, and a failure keeps what was computed before.
func TestUsageMetrics(t *testing.T) {
	t.Parallel()
	started, answer := make(chan struct{}), make(chan error)
	c := newUsages(Usage{
		Sum: func(ctx context.Context) (*lifecycle.Usage, error) {
			started <- struct{}{}
			select {
			case err := <-answer:
				return &lifecycle.Usage{Time: time.Unix(1000, 0), Live: 30, Garbage: 2, Trash: 3,
					Products: []lifecycle.Share{{Product: "Game", Own: 20, Shared: 4}}, Classes: []lifecycle.Share{{Class: "nightly", Own: 24}}}, err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		Quotas: func(context.Context) (map[string]int64, error) { return map[string]int64{"Game": 100}, nil },
	})
	reg := prometheus.NewRegistry()
	reg.MustRegister(c.metrics()...)
	gather := func() string {
		t.Helper()
		w := httptest.NewRecorder()
		promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	if got := gather(); strings.Contains(got, "symdepot_usage_live_bytes") || !strings.Contains(got, "symdepot_usage_failures_total 0") {
		t.Errorf("metrics before the usage is known: got %s, want no %q in it and %q in it", got, "symdepot_usage_live_bytes", "symdepot_usage_failures_total 0")
	}
	<-started
	gather() // while it is computed, nothing else is
	answer <- nil
	c.runs.Wait()
	want := []string{
		`symdepot_usage_live_bytes 30`, `symdepot_usage_garbage_bytes 2`, `symdepot_usage_trash_bytes 3`, `symdepot_usage_computed_timestamp_seconds 1000`,
		`symdepot_usage_bytes{by="product",name="Game",part="own"} 20`, `symdepot_usage_bytes{by="product",name="Game",part="shared"} 4`,
		`symdepot_usage_bytes{by="class",name="nightly",part="own"} 24`, `symdepot_quota_bytes{product="Game"} 100`,
	}
	check := func(extra string) {
		t.Helper()
		got := gather()
		for _, w := range append(want, extra) {
			if !strings.Contains(got, w) {
				t.Errorf("the metrics lack %s; got %s", w, got)
			}
		}
	}
	check("symdepot_usage_failures_total 0")
	c.begun = time.Now().Add(-usageFresh)
	gather()
	<-started
	answer <- errors.New("no")
	c.runs.Wait()
	check("symdepot_usage_failures_total 1")
	c.begun = time.Now().Add(-usageFresh)
	gather()
	<-started
	c.Stop() // does not wait for an answer
}

package upstream

import (
	"testing"
	"time"
)

// TestBreaker walks the breaker through its states. Each step reports outcomes
// of requests and names the state that must follow.
func TestBreaker(t *testing.T) {
	t.Parallel()
	const (
		ok      = "succeeded"
		bad     = "failed"
		timeout = "timed out"
		void    = "void"
	)
	type step struct {
		wait   time.Duration // before the requests
		ends   []string      // outcomes of requests, one after the other
		admits bool
		open   bool          // open or half-open
		pause  time.Duration // left of the pause
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"stays closed while failures are not in a row", []step{
			{ends: []string{bad, bad, ok, bad, bad, ok, timeout, ok, timeout}, admits: true},
		}},
		{"opens after three failures", []step{
			{ends: []string{bad, bad}, admits: true},
			{ends: []string{bad}, open: true, pause: 10 * time.Second},
			{wait: 9 * time.Second, open: true, pause: time.Second},
			{wait: time.Second, open: true, admits: true},
		}},
		{"opens after two timeouts", []step{
			{ends: []string{timeout, timeout}, open: true, pause: 10 * time.Second},
		}},
		{"void outcomes count for nothing", []step{
			{ends: []string{bad, bad, void, void, void}, admits: true},
			{ends: []string{bad}, open: true, pause: 10 * time.Second},
			{wait: 10 * time.Second, ends: []string{void}, open: true, admits: true},
		}},
		{"doubles the pause up to its maximum", []step{
			{ends: []string{bad, bad, bad}, open: true, pause: 10 * time.Second},
			{wait: 10 * time.Second, ends: []string{bad}, open: true, pause: 20 * time.Second},
			{wait: 20 * time.Second, ends: []string{timeout}, open: true, pause: 25 * time.Second},
			{wait: 25 * time.Second, ends: []string{bad}, open: true, pause: 25 * time.Second},
		}},
		{"one failure reopens it after a pause until two requests have succeeded", []step{
			{ends: []string{bad, bad, bad}, open: true, pause: 10 * time.Second},
			{wait: 10 * time.Second, ends: []string{ok}, admits: true},
			{ends: []string{ok}, admits: true},
			{ends: []string{bad}, open: true, pause: 20 * time.Second},
			{wait: 20 * time.Second, ends: []string{ok, ok, ok, bad, bad}, admits: true},
			{ends: []string{bad}, open: true, pause: 10 * time.Second},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1_800_000_000, 0)
			b := breaker{opt: BreakerOptions{Failures: 3, Timeouts: 2, Pause: 10 * time.Second, MaxPause: 25 * time.Second}}
			for i, s := range c.steps {
				now = now.Add(s.wait)
				for _, end := range s.ends {
					tk, allowed := b.allow(now)
					if !allowed {
						t.Fatalf("step %d: a request that %s was not allowed", i, end)
					}
					switch end {
					case ok:
						b.succeeded(tk)
					case void:
						b.ignore(tk)
					default:
						b.failed(tk, now, end == timeout)
					}
				}
				pause := max(b.until.Sub(now), 0)
				if b.admits(now) != s.admits || b.open != s.open || pause != s.pause {
					t.Errorf("step %d: admits %v, open %v, pause %v; want %v, %v, %v", i, b.admits(now), b.open, pause, s.admits, s.open, s.pause)
				}
			}
		})
	}
}

// TestBreakerProbe: half-open, the breaker admits one request, and results of
// requests from before a change of state do not count.
func TestBreakerProbe(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	b := breaker{opt: BreakerOptions{Failures: 1, Timeouts: 1, Pause: time.Second, MaxPause: time.Second}}
	early, _ := b.allow(now)
	late, _ := b.allow(now)
	if !b.failed(early, now, false) {
		t.Fatal("the first failure did not open the breaker")
	}
	now = now.Add(time.Second)
	probe, ok := b.allow(now)
	if !ok || !probe.probe {
		t.Fatalf("after the pause: ticket %+v, allowed %v; want a probe", probe, ok)
	}
	if _, ok := b.allow(now); ok {
		t.Error("a second request was allowed beside the probe")
	}
	b.succeeded(late)
	if _, ok := b.allow(now); ok {
		t.Error("the success of a request from before the pause closed the breaker")
	}
	if b.failed(late, now, false) {
		t.Error("the failure of a request from before the pause opened the breaker again")
	}
	b.ignore(probe)
	probe, ok = b.allow(now)
	if !ok || !probe.probe {
		t.Fatal("no second probe after one that was given up")
	}
	b.succeeded(probe)
	if a, ok := b.allow(now); !ok || a.probe {
		t.Error("the breaker is not closed after a probe that succeeded")
	}
}

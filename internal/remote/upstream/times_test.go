package upstream

import (
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	t.Parallel()
	var x times
	if p50, p95 := x.percentiles(); p50 != 0 || p95 != 0 {
		t.Errorf("before the first request: %v, %v, want 0, 0", p50, p95)
	}
	for i := range 1000 { // the last 128 count
		x.add(time.Duration(i) * time.Millisecond)
	}
	if p50, p95 := x.percentiles(); p50 != 935*time.Millisecond || p95 != 992*time.Millisecond {
		t.Errorf("of 872 ms to 999 ms: %v, %v, want 935ms, 992ms", p50, p95)
	}
}

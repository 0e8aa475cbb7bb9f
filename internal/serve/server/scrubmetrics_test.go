package server

import (
	"strings"
	"testing"
)

// TestScrubMetricsServed: the metrics of a real depot are on /metrics.
func TestScrubMetricsServed(t *testing.T) {
	t.Parallel()
	body := ask(newServer(t, Config{Depot: newDepot(t)}), "GET", "/metrics").body
	for _, line := range []string{"symdepot_scrub_checked_bytes 0", "symdepot_scrub_damaged_files 0", "symdepot_scrub_running 0"} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("GET /metrics has no line %q", line)
		}
	}
}

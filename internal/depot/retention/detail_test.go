package retention

import (
	"testing"
	"time"
)

// TestAgo: an age is never nothing, and has the unit that people read.
func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "less than a minute", 59 * time.Second: "less than a minute", time.Minute: "1 minute", 59 * time.Minute: "59 minutes",
		time.Hour: "1 hour", 47 * time.Hour: "47 hours", 48 * time.Hour: "2 days", 50 * 24 * time.Hour: "50 days",
	} {
		if got := ago(d); got != want {
			t.Errorf("ago(%s) = %q, want %q", d, got, want)
		}
	}
}

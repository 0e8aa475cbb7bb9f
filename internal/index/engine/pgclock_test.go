package engine

import (
	"testing"
	"time"
)

// TestServerClockReadings: the first reading counts, later ones if they are quick and
// differ by more than the network may.
func TestServerClockReadings(t *testing.T) {
	t.Parallel()
	here := time.Now()
	var c serverClock
	for _, r := range []struct {
		name        string
		sent, took  time.Duration // after here
		ahead, want time.Duration // of the server, in the middle of the question
	}{
		{"first, slow", 0, 4 * time.Second, time.Hour, time.Hour},
		{"a small difference", 10 * time.Second, 0, time.Hour + 900*time.Millisecond, time.Hour},
		{"a slow answer", 20 * time.Second, 2 * time.Second, 0, time.Hour},
		{"a step back", 30 * time.Second, time.Second, -time.Hour, -time.Hour},
		{"a step forward", 40 * time.Second, 0, 0, 0},
	} {
		sent, answered := here.Add(r.sent), here.Add(r.sent+r.took)
		c.set(sent.Add(r.took/2+r.ahead).Round(0), sent, answered)
		if got := c.read.Load().at(answered).Sub(answered.Round(0)); (got - r.want).Abs() > time.Millisecond {
			t.Errorf("%s: the server is known to be ahead by %v, want %v", r.name, got, r.want)
		}
	}
}

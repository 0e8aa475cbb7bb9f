package durable

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestRetryHeld removes files that other programs hold open for some time: it
// waits once for all of them, and returns those that are still held.
func TestRetryHeld(t *testing.T) {
	t.Parallel()
	failed := errors.New("a fault of the disk")
	for _, c := range []struct {
		name   string
		closed map[string]time.Duration // when the files are closed; others never
		held   []string
		took   time.Duration // at least, and at most a tenth of a second more
		err    error
	}{
		{"none is held", map[string]time.Duration{"a": 0, "b": 0, "c": 0}, nil, 0, nil},
		{"all are closed in time", map[string]time.Duration{"a": 0, "b": time.Second, "c": 500 * time.Millisecond}, nil, time.Second, nil},
		{"one is not", map[string]time.Duration{"a": 0, "c": time.Second}, []string{"b"}, busyWait, nil},
		{"none is", nil, []string{"a", "b", "c"}, busyWait, nil},
		{"another error", map[string]time.Duration{"a": 0, "c": -1}, nil, 0, failed},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			done := map[string]bool{}
			held, err := RetryHeld([]string{"a", "b", "c"}, func(name string) error {
				at, closes := c.closed[name]
				switch {
				case done[name]:
					t.Errorf("%s: called for %s again after its success", c.name, name)
				case at < 0:
					return failed
				case !closes || time.Since(began) < at:
					return fmt.Errorf("remove %s: %w", name, errPending)
				}
				done[name] = true
				return nil
			})
			if !slices.Equal(held, c.held) || !errors.Is(err, c.err) {
				t.Errorf("%s: held %q, error %v; want %q and %v", c.name, held, err, c.held, c.err)
			}
			if took := time.Since(began); took < c.took || took > c.took+100*time.Millisecond {
				t.Errorf("%s: took %v, want %v", c.name, took, c.took)
			}
		})
	}
}

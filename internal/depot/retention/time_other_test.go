//go:build !unix

package retention

import "time"

var started = time.Now()

// processorTime returns the time since the start of the test process: this system
// does not tell the processor time in a portable way.
func processorTime() time.Duration { return time.Since(started) }

package fetch

import (
	"log/slog"
	"sync"
	"time"
)

// complainAgain is the time between two lines in the log about one upstream.
const complainAgain = 5 * time.Minute

// complaints writes failures of upstreams to the log. Clients get 404 for them, as for a
// file that nobody has, so the log is where an operator sees the difference.
type complaints struct {
	mu   sync.Mutex
	last map[string]time.Time // guarded by mu; by upstream
}

// report writes a failure, unless it is an answer of the upstream about the file, or the
// same upstream has failed a short while ago.
func (c *complaints) report(log *slog.Logger, now time.Time, upstream string, err error) {
	switch ClassOf(err) {
	case ClassForbidden, ClassUnauthorized, ClassTimeout, ClassBroken:
	default:
		return
	}
	if !IsFailure(err) {
		return // a failure of this machine, which is logged by others
	}
	c.mu.Lock()
	last, known := c.last[upstream]
	silent := known && now.Sub(last) < complainAgain
	if !silent {
		if c.last == nil {
			c.last = make(map[string]time.Time)
		}
		c.last[upstream] = now
	}
	c.mu.Unlock()
	if !silent {
		log.Warn("an upstream fails; files that only it has are answered with 404", "upstream", upstream, "result",
			ClassOf(err).String(), "error", err)
	}
}

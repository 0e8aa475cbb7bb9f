package fetch

import "sync"

// clients counts the downloads that each client has started and that still run
// or wait. The zero value is ready.
type clients struct {
	mu    sync.Mutex
	count map[string]int // guarded by mu; by client address
}

// begin counts one more download. false means that the client has limit
// downloads. The empty client has no limit.
func (c *clients) begin(client string, limit int) bool {
	if client == "" {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[client] >= limit {
		return false
	}
	if c.count == nil {
		c.count = make(map[string]int)
	}
	c.count[client]++
	return true
}

// end counts one download less.
func (c *clients) end(client string) {
	if client == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[client]--; c.count[client] <= 0 {
		delete(c.count, client)
	}
}

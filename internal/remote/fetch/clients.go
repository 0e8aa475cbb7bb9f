package fetch

import "sync"

// Clients counts the downloads that each client has started and that still run
// or wait. The zero value is ready; its methods may be called by many goroutines.
type Clients struct {
	mu    sync.Mutex
	count map[string]int // guarded by mu; by client address
}

// Begin counts one more download. false means that the client has limit
// downloads. The empty client has no limit.
func (c *Clients) Begin(client string, limit int) bool {
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

// End counts one download less.
func (c *Clients) End(client string) {
	if client == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[client]--; c.count[client] <= 0 {
		delete(c.count, client)
	}
}

package symbolicate

import (
	"sync"
	"time"
)

// clientTimes is how long this machine has worked for each client lately.
type clientTimes struct {
	limit, every time.Duration
	now          func() time.Time

	mu   sync.Mutex
	of   map[string]clientTime // guarded by mu; by address
	jobs map[string]clientJob  // guarded by mu; who asked for a job that is not done, by its key
}

// clientJob says which client asked for a job, and when. It counts against that client
// until the job ends, and for clientTimes.every at most: a job that another process ends is
// not noticed here.
type clientJob struct {
	client string
	at     time.Time
}

// clientTime is the time spent for a client. It falls by limit/every each second.
type clientTime struct {
	spent time.Duration
	at    time.Time
}

func (c *clientTimes) left(t clientTime, now time.Time) time.Duration {
	gone := time.Duration(float64(now.Sub(t.at)) * float64(c.limit) / float64(c.every))
	return max(0, t.spent-gone)
}

// admit reports whether more work may be done for a client.
func (c *clientTimes) admit(client string) bool {
	if client == "" {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left(c.of[client], c.now()) < c.limit
}

// began records that a job is entered for a client, unless it was entered for one
// before. forget takes that back.
func (c *clientTimes) began(key, client string) (forget func()) {
	if client == "" {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if j, ok := c.jobs[key]; ok && now.Sub(j.at) < c.every {
		return func() {}
	}
	if len(c.jobs) >= mostClients {
		clear(c.jobs)
	}
	c.jobs[key] = clientJob{client, now}
	return func() { c.done(key) }
}

// charge charges the time that an attempt at a job took to its client.
func (c *clientTimes) charge(key string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j, ok := c.jobs[key]
	if !ok || took <= 0 {
		return
	}
	if len(c.of) >= mostClients {
		clear(c.of)
	}
	now := c.now()
	c.of[j.client] = clientTime{c.left(c.of[j.client], now) + took, now}
}

// done forgets the client of a job that is done.
func (c *clientTimes) done(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.jobs, key)
}

package jobs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/index/queue"
)

// Entry asks for a job.
type Entry struct {
	// Job has the kind, key, variant, payload and priority. Its MaxQueued takes the
	// place of the kind's limit on queued jobs; zero: that limit.
	Job
	// Client is the address of the client that asks, without the port. It bounds
	// the jobs of one client. Empty: no client in particular.
	Client string
	// Held reports whether the result exists already; nil: it does not.
	Held func(ctx context.Context) (bool, error)
	// Failed reports whether the work is known to fail; nil: it is not.
	Failed func(ctx context.Context) (bool, error)
}

// Enqueue enters a job unless one for the same kind, key and variant is queued or
// running, the result exists, or the work is known to fail. It returns the job
// that decides and its state: Queued or Running for a job to wait for, Done if the
// result exists, Failed if it is not worth trying now. A repeated request writes
// nothing. ErrFull means that a limit refuses the job; it never refuses one that is
// queued or running already.
func (q *Queue) Enqueue(ctx context.Context, e Entry) (Job, State, error) {
	none := Job{}
	k, err := q.kindOf(e.Job)
	if err != nil {
		return none, 0, err
	}
	last, err := q.store.Last(ctx, e.Kind, e.Key, e.Variant)
	switch {
	case isNotFound(err):
	case err != nil:
		return none, 0, err
	case last.State <= Running && last.Priority >= e.Priority:
		return last, last.State, nil
	case last.State == Failed || last.State == Cancelled:
		// The memory of failures decides, if failures of this class are
		// remembered. If not, a recent failure is enough.
		remembered := last.State == Failed && k.Rule(last.Outcome).ByKey > 0
		if !remembered && q.now().Sub(last.Finished).Abs() < q.opt.Again { // a clock that was set back must not keep it for long
			return last, Failed, nil
		}
	}
	if e.Held != nil {
		if held, err := e.Held(ctx); err != nil || held {
			return last, Done, err
		}
	}
	if e.Failed != nil {
		if failed, err := e.Failed(ctx); err != nil {
			return none, 0, err
		} else if failed {
			return last, Failed, nil
		}
	}
	lives := err == nil && last.State <= Running
	if !lives && !k.clients.admit(ctx, q, e.Client, k.limits.PerClient) {
		return none, 0, ErrFull
	}
	j := Job{
		Kind: e.Kind, Key: e.Key, Variant: e.Variant, Payload: e.Payload, Priority: e.Priority,
		MaxAttempts: k.limits.Attempts, MaxQueued: cmp.Or(e.MaxQueued, k.limits.Queued),
	}
	id, existing, err := q.store.Enqueue(ctx, j)
	if errors.Is(err, queue.ErrQueueFull) {
		return none, 0, ErrFull
	}
	j.ID = id
	if err == nil && !existing {
		k.clients.add(e.Client, id)
	}
	q.entered.notify()
	return j, Queued, err
}

// Wait waits until a job has ended or ctx ends, and returns the last state that it
// saw; st is the state so far. A cancelled job has Failed.
func (q *Queue) Wait(ctx context.Context, id int64, st State) (State, error) {
	for {
		ended := q.ended.next()
		now, err := q.store.Job(context.WithoutCancel(ctx), id)
		switch {
		case err != nil:
			return st, err
		case now.State == Cancelled:
			return Failed, nil
		case now.State > Running:
			return now.State, nil
		}
		st = now.State
		if !pause(ctx, ended, pollEvery) {
			return st, nil
		}
	}
}

// clients are the jobs by the client that had them entered.
type clients struct {
	mu        sync.Mutex
	byAddress map[string]*clientJobs // guarded by mu
}

// clientJobs are the jobs of one client that had not ended at the last check.
type clientJobs struct {
	ids     []int64
	checked time.Time
}

const (
	// checkClient is how often the jobs of a client at its limit are checked.
	checkClient = 2 * time.Second
	// mostClients is for how many clients the jobs are counted.
	mostClients = 10_000
)

// admit reports whether a client may have another job entered.
func (c *clients) admit(ctx context.Context, q *Queue, client string, limit int) bool {
	if client == "" {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.byAddress[client]
	if own == nil || len(own.ids) < limit {
		return true
	}
	now := q.now()
	if now.Sub(own.checked) < checkClient {
		return false
	}
	own.checked = now
	own.ids = slices.DeleteFunc(own.ids, func(id int64) bool {
		job, err := q.store.Job(ctx, id)
		return err == nil && job.State > Running || isNotFound(err)
	})
	return len(own.ids) < limit
}

// add counts a job for the client that had it entered.
func (c *clients) add(client string, id int64) {
	if client == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byAddress) >= mostClients {
		clear(c.byAddress) // the limit for all clients still holds
	}
	own := c.byAddress[client]
	if own == nil {
		own = &clientJobs{}
		c.byAddress[client] = own
	}
	own.ids = append(own.ids, id)
}

// statsCache holds recent statistics, because counting reads the whole queue.
type statsCache struct {
	mu      sync.Mutex
	list    []Stats // guarded by mu
	counted time.Time
	more    int64 // background jobs admitted since then
}

// statsFresh is for how long statistics count as recent.
const statsFresh = 2 * time.Second

// recent returns recent statistics. The caller holds mu.
func (c *statsCache) recent(ctx context.Context, q *Queue) ([]Stats, error) {
	if now := q.now(); c.counted.IsZero() || now.Sub(c.counted).Abs() > statsFresh {
		list, err := q.store.Stats(ctx)
		if err != nil {
			return nil, err
		}
		c.list, c.counted, c.more = list, now, 0
	}
	return c.list, nil
}

// HasSpare reports whether fewer than limit jobs are queued, of all kinds. A
// caller that gets true is taken to enter a job.
func (q *Queue) HasSpare(ctx context.Context, limit int) (bool, error) {
	c := &q.stats
	c.mu.Lock()
	defer c.mu.Unlock()
	list, err := c.recent(ctx, q)
	if err != nil {
		return false, err
	}
	queued := c.more
	for _, s := range list {
		queued += s.Queued
	}
	if queued >= int64(limit) {
		return false, nil
	}
	c.more++
	return true, nil
}

// Estimate returns the time after which a job of a kind that is entered now will
// probably have ended, at least a second.
func (q *Queue) Estimate(ctx context.Context, kind string) time.Duration {
	const least = time.Second
	c := &q.stats
	c.mu.Lock()
	defer c.mu.Unlock()
	list, err := c.recent(ctx, q)
	k := q.kinds[kind]
	if err != nil || k == nil {
		return least
	}
	slots := int64(k.limits.Slots)
	for _, w := range q.Workers() {
		slots += int64(w.Slots)
	}
	for _, s := range list {
		if s.Kind != kind {
			continue
		}
		var done int64
		var took time.Duration
		for _, o := range s.Outcomes {
			if o.State == Done {
				done, took = done+o.Jobs, took+o.Total
			}
		}
		if done > 0 {
			return max(least, took/time.Duration(done)*time.Duration(s.Queued)/time.Duration(max(slots, 1)))
		}
	}
	return least
}

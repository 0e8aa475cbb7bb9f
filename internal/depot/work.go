package depot

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/queue"
)

const (
	tidyEvery   = 20 * time.Second // between two writes of counts and looks at the cache
	sweepEvery  = time.Hour        // between two deletions of old rows
	stagesEvery = time.Minute      // between two looks for expired pushes
	// retentionEvery is the time between two looks at the schedule of the policy.
	retentionEvery = time.Minute
	// packFor is how long old keys are packed, and old rows shortened, between two looks at the rest; oldKeys is the age of
	// these keys.
	packFor    = 2 * time.Second
	oldKeys    = 30 * 24 * time.Hour
	wantedLife = 180 * 24 * time.Hour
	jobLife    = 30 * 24 * time.Hour // of jobs that have ended
)

// Work does the background work of a depot until ctx ends: it makes derived
// content, does jobs, stores counts, keeps the cache within its limits and checks
// the stored contents.
func (d *Depot) Work(ctx context.Context) error {
	var side sync.WaitGroup
	defer side.Wait()
	side.Go(func() { d.queue.Run(ctx) })
	side.Go(func() { d.symcache.Run(ctx) })
	side.Go(func() { d.Check.Scrub(ctx) })
	side.Go(func() { d.Check.AuditMonthly(ctx) })
	side.Go(func() { d.Cold.Run(ctx) })
	side.Go(func() { d.Nodes.Work(ctx) })
	for _, f := range d.Watched.Folders() {
		side.Go(func() { d.Watched.Scan(ctx, f) })
	}
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tidy.C:
			d.tidy(ctx)
		case want := <-d.forms.Queue():
			if _, err := d.forms.Derive(ctx, want); isFault(ctx, err) && !errors.Is(err, forms.ErrMadeElsewhere) {
				d.log.Warn("cannot make derived content", "content", want.Ref.String(), "tool", want.Tool.Name, "error", err)
			}
			if d.hooks.Derived != nil {
				d.hooks.Derived(want)
			}
		}
	}
}

// isFault reports whether an error of the background is worth a line of the log: neither the end
// of the work nor a place that is away, which is logged where it is noticed.
func isFault(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && !content.IsAway(err)
}

// tidy stores counts, evicts what exceeds the limits and deletes old rows.
func (d *Depot) tidy(ctx context.Context) {
	if err := errors.Join(d.Missing.Store(ctx), d.Cache.StoreUses(ctx), d.reads.store(ctx)); isFault(ctx, err) {
		d.log.Warn("cannot store counts", "error", err)
	}
	// Shortly before the next look of another server.
	if err := d.Nodes.Do(ctx, "evict", tidyEvery*3/4, func(ctx context.Context) error {
		_, err := d.Cache.Evict(ctx)
		return err
	}); isFault(ctx, err) {
		d.log.Warn("cannot evict cached files", "error", err)
	}
	if err := d.Nodes.Do(ctx, "stages", stagesEvery*3/4, d.stages.Expire); isFault(ctx, err) {
		d.log.Warn("cannot end expired pushes", "error", err)
	}
	if err := d.Nodes.Do(ctx, "retention", retentionEvery*3/4, d.Retention.Scheduled); isFault(ctx, err) {
		d.log.Error("cannot apply the retention policy", "error", err)
	}
	if err := d.Nodes.Do(ctx, "pack", tidyEvery*3/4, func(ctx context.Context) error {
		return errors.Join(index.ShortenRows(ctx, d.db, packFor), index.PackKeys(ctx, d.db, d.now().Add(-oldKeys), packFor))
	}); isFault(ctx, err) {
		d.log.Warn("cannot make old rows of the index smaller", "error", err)
	}
	if now := d.now(); now.Sub(d.swept) > sweepEvery {
		d.swept = now
		if err := d.stages.Sweep(ctx); isFault(ctx, err) {
			d.log.Warn("cannot delete files of ended pushes", "error", err)
		}
		err := d.Nodes.Do(ctx, "sweep", sweepEvery*9/10, func(ctx context.Context) error { return sweepRows(ctx, d, now) })
		if v, ok := coldstore.BucketStore(d.blobs); ok {
			err = errors.Join(err, v.CheckOwner(ctx))
		}
		if isFault(ctx, err) {
			d.log.Warn("cannot delete old rows of the index", "error", err)
		}
	}
}

// sweepRows deletes misses and failures that have expired, old requests for missing
// files, old jobs, kept dumps, and the rows of ended processes. It records the usage of the day.
func sweepRows(ctx context.Context, d *Depot, now time.Time) error {
	_, err1 := d.db.Misses.Sweep(ctx, now)
	_, err2 := d.db.Wanted.Drop(ctx, now.Add(-wantedLife))
	_, err3 := d.db.Jobs.Sweep(ctx, now.Add(-jobLife))
	_, err4 := d.db.Jobs.FlushFailures(ctx, queue.FailureFilter{Ended: now})
	err5 := d.db.Wishes.Sweep(ctx, now)
	err6 := d.Dumps.Sweep(ctx, now)
	return errors.Join(err1, err2, err3, err4, err5, err6, d.db.Nodes.Sweep(ctx), d.Retention.Sweep(ctx, now), d.Retention.RecordDay(ctx, now))
}

package depot

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// wantedKeys is how many different keys are counted between two writes, 20 s: a
// storm of more must not cost more than the answers do.
const wantedKeys = 16384

// wanted counts what clients asked for and did not get.
type wanted struct {
	mu     sync.Mutex
	counts map[wantedKey]*counted // guarded by mu
	full   atomic.Bool            // a storm: nothing is counted until the next write

	swept time.Time // owned by Work
}

type wantedKey struct{ name, id, client string }

type counted struct {
	n    int64
	last time.Time
}

// Wanted is something that clients asked for and did not get.
type Wanted = index.Wanted

// WantedFilter says which of them to list.
type WantedFilter = index.WantedFilter

// CountMissing counts a request that found nothing. It is cheap; the counts
// are written down by Work and Close.
func (d *Depot) CountMissing(req *layout.Request, client string) {
	if len(req.Lookups) == 0 || d.wanted.full.Load() {
		return
	}
	k := wantedKey{req.Lookups[0].Name, req.Lookups[0].ID, client}
	now := d.now()
	w := &d.wanted
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.counts[k]
	if c == nil {
		if len(w.counts) >= wantedKeys {
			w.full.Store(true)
			return
		}
		if w.counts == nil {
			w.counts = make(map[wantedKey]*counted)
		}
		c = new(counted)
		w.counts[k] = c
	}
	c.n++
	c.last = now
}

// writeWanted writes the counts down.
func (d *Depot) writeWanted(ctx context.Context) error {
	w := &d.wanted
	w.mu.Lock()
	counts := w.counts
	w.counts = nil
	w.full.Store(false)
	w.mu.Unlock()
	if len(counts) == 0 {
		return nil
	}
	rows := make([]index.Wanted, 0, len(counts))
	for k, c := range counts {
		rows = append(rows, index.Wanted{Name: k.name, ID: k.id, Client: k.client, Count: c.n, Last: c.last})
	}
	return d.db.Wanted.Count(ctx, rows)
}

// Missing calls each for what clients asked for and did not get, the most
// wanted first; what has come since then is left out.
func (d *Depot) Missing(ctx context.Context, f WantedFilter, each func(Wanted) error) error {
	limit := f.Limit
	f.Limit = 0
	n := 0
	for w, err := range d.db.Wanted.List(ctx, f) {
		if err != nil {
			return err
		}
		hits, err := d.db.Lookup(ctx, Scope{}.index(), symfile.Lookup{Name: w.Name, ID: w.ID, Role: symfile.AnyRole})
		if err != nil {
			return err
		}
		if len(hits) > 0 {
			continue
		}
		if err := each(w); err != nil {
			return err
		}
		if n++; limit > 0 && n == limit {
			return nil
		}
	}
	return nil
}

// tidyEvery is how often Work writes down counts and looks at the cache.
const tidyEvery = 20 * time.Second

// tidy writes down what was counted and lets go of what is too much.
func (d *Depot) tidy(ctx context.Context) {
	if err := errors.Join(d.writeWanted(ctx), d.writeUses(ctx)); err != nil && ctx.Err() == nil {
		d.log.Warn("counts could not be written down", "error", err)
	}
	if _, err := d.Evict(ctx); err != nil && ctx.Err() == nil {
		d.log.Warn("the cache could not be made smaller", "error", err)
	}
	if now := d.now(); now.Sub(d.wanted.swept) > sweepEvery {
		d.wanted.swept = now
		if err := d.sweep(ctx, now); err != nil && ctx.Err() == nil {
			d.log.Warn("old memories could not be swept out", "error", err)
		}
	}
}

// Old rows are of no use to anybody; they are swept out every hour.
const (
	sweepEvery = time.Hour
	wantedLife = 180 * 24 * time.Hour // since somebody last asked for it
	jobLife    = 30 * 24 * time.Hour  // of jobs that have ended
)

// sweep lets go of misses and failures that have ended, of old wishes and jobs.
func (d *Depot) sweep(ctx context.Context, now time.Time) error {
	_, err1 := d.db.Misses.Sweep(ctx, now)
	_, err2 := d.db.Wanted.Drop(ctx, now.Add(-wantedLife))
	_, err3 := d.db.SweepJobs(ctx, now.Add(-jobLife))
	_, err4 := d.db.FlushFailures(ctx, index.FailureFilter{Ended: now})
	return errors.Join(err1, err2, err3, err4)
}

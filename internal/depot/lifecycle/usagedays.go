package lifecycle

import (
	"context"
	"time"

	"github.com/symdepot/symdepot/internal/index/removals"
)

// UsageDay is what a product, or the whole depot, took on a day.
type UsageDay = removals.UsageDay

// UsageFilter selects days and products of UsageOverTime.
type UsageFilter = removals.UsageFilter

const (
	// UsageLife is how long the usage of a day is kept.
	UsageLife = 3 * 366 * 24 * time.Hour
	// usageProducts limits the products whose usage of a day is kept, the largest first.
	usageProducts = 1000
)

// UsageOverTime returns what products, or the whole depot, took on days. A server
// records it when a day begins; garbage collection and the application of a plan
// replace the figures of their day. Days without a record are omitted.
func (r *Retention) UsageOverTime(ctx context.Context, f UsageFilter) ([]UsageDay, error) {
	return r.db.Retention.UsageDays(ctx, f)
}

// RecordUsage records the usage of today. Its cost is that of Usage.
func (r *Retention) RecordUsage(ctx context.Context) error {
	u, err := r.Usage(ctx)
	if err != nil {
		return err
	}
	all := UsageDay{All: true, Bytes: u.Live, Own: u.Live, Cached: u.Cached, Garbage: u.Garbage, Trash: u.Trash}
	rows := []UsageDay{all}
	for i, s := range u.Products {
		rows[0].Transactions += int64(s.Transactions)
		if i < usageProducts {
			rows = append(rows, UsageDay{Product: s.Product, Transactions: int64(s.Transactions), Bytes: s.Own + s.Shared, Own: s.Own})
		}
	}
	return r.db.Retention.PutUsage(ctx, u.Time, u.Time.Add(-UsageLife), rows)
}

// RecordDay records the usage of today unless that was done.
func (r *Retention) RecordDay(ctx context.Context, now time.Time) error {
	last, ok, err := r.db.Retention.LastUsage(ctx)
	if err != nil || ok && last.Add(24*time.Hour).After(now) {
		return err
	}
	return r.RecordUsage(ctx)
}

// recordAfter records the usage after a change. A failure is logged: the change is
// done.
func (r *Retention) recordAfter(ctx context.Context, change string) {
	if err := r.RecordUsage(ctx); err != nil && ctx.Err() == nil {
		r.log.Warn("cannot record the usage", "after", change, "error", err)
	}
}

package depot

import (
	"context"
	"time"

	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/upstream"
)

// rememberedMisses returns what is written down of a key, by source.
func (d *Depot) rememberedMisses(ctx context.Context, key string) (map[string]failed, error) {
	known := map[string]failed{}
	rows, err := d.db.Misses(ctx, key)
	for _, m := range rows {
		known[m.Source] = failed{upstream.Class(m.Class), m.Until, m.Since, m.Detail}
	}
	return known, err
}

// putMisses writes down what will still hold after a restart.
func (d *Depot) putMisses(ctx context.Context, key string, known map[string]failed, now time.Time) error {
	var rows []index.Miss
	for source, f := range known {
		if f.persists(now) {
			rows = append(rows, index.Miss{Key: key, Source: source, Class: uint8(f.class), Until: f.until, Since: f.since, Detail: f.detail})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return d.db.PutMisses(ctx, rows)
}

// FlushMisses forgets what sources were found not to have, and returns how many
// entries that were. It reaches other processes that have the depot open as soon
// as what they hold in memory ends; a server takes it over HTTP.
func (d *Depot) FlushMisses(ctx context.Context, f MissFilter) (int64, error) {
	d.fetch.misses.InvalidateAll()
	return d.db.FlushMisses(ctx, f)
}

// MissFilter says which misses to forget.
type MissFilter = index.MissFilter

// Package misses is the part of an index for what was not found: the answers of upstreams that
// have no file, and the files that clients still want. Both are limited in number.
package misses

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
)

// Misses is the stored negative cache: the misses of upstreams.
type Misses struct {
	db   *engine.Database
	most int64 // see Options
}

// NewMisses returns the misses of an index in a database: the newest, at most as many as
// given.
func NewMisses(db *engine.Database, most int64) Misses { return Misses{db, most} }

// Miss records that an upstream does not have the file for a key.
type Miss struct {
	Key    string // compared byte by byte
	Source string
	Class  uint8     // the reason; defined by the caller, from 1
	Until  time.Time // ignored from this time on
	Since  time.Time // time of the miss
	Detail string    // for users
}

// Put stores misses, several thousand per write. It replaces a miss with the
// same key and upstream. It does not change the generation, so that cached
// responses stay valid, and does not wait for the disk: a crash of the machine
// may lose the last ones. Above Options.MaxMisses, the oldest misses are
// deleted.
func (ms Misses) Put(ctx context.Context, misses []Miss) error {
	for batch := range slices.Chunk(misses, engine.BatchRows) {
		if err := ms.db.UpdateUnsynced(ctx, "store misses", func(w *engine.Write) error {
			last := make(map[[2]string]int, len(batch)) // of several with one key and upstream the last one counts
			for i, m := range batch {
				last[[2]string{m.Key, m.Source}] = i
			}
			var keys, rows [][]any
			for i, m := range batch {
				if last[[2]string{m.Key, m.Source}] == i {
					keys = append(keys, []any{m.Key, m.Source})
					rows = append(rows, []any{m.Key, m.Source, m.Class, m.Until.UnixMilli(), m.Since.UnixMilli(), engine.Text(m.Detail)})
				}
			}
			gone, err := w.Many("DELETE FROM miss WHERE key = $1 AND source = $2", keys)
			if err != nil {
				return err
			}
			if _, err := w.Many("INSERT INTO miss (key, source, class, ends, since, detail) VALUES ($1, $2, $3, $4, $5, $6)", rows); err != nil {
				return err
			}
			added := int64(len(rows))
			for _, n := range gone {
				added -= n
			}
			return record.LimitRows(w, "miss", added, ms.most, oldestMisses)
		}); err != nil {
			return err
		}
	}
	return nil
}

const oldestMisses = "DELETE FROM miss WHERE no IN (SELECT no FROM miss ORDER BY no LIMIT $1)"

// Of returns the stored misses of a key, by upstream, including expired ones.
func (ms Misses) Of(ctx context.Context, key string) ([]Miss, error) {
	if err := ctx.Err(); err != nil {
		return nil, ms.db.Fail("look up misses", err)
	}
	var list []Miss
	// See hits for why the query is not cancellable.
	err := ms.db.Points.Each(context.WithoutCancel(ctx), true,
		"SELECT source, class, ends, since, detail FROM miss WHERE key = $1 ORDER BY source", []any{key},
		func(scan engine.Scan) (bool, error) {
			m := Miss{Key: key}
			var ends, since int64
			err := scan(&m.Source, &m.Class, &ends, &since, &m.Detail)
			m.Until, m.Since = time.UnixMilli(ends).UTC(), time.UnixMilli(since).UTC()
			list = append(list, m)
			return true, err
		})
	return list, ms.db.Fail("look up misses", err)
}

// MissFilter selects misses; the zero value selects all.
type MissFilter struct {
	Key       string // only this key
	KeyPrefix string // only keys that begin with this
	Source    string
	Class     uint8     // 0 is any
	Before    time.Time // only misses before this time; zero is any
}

// Flush deletes misses and returns their number. It releases the write lock
// regularly for other writers.
//
// If several machines use the index, the epoch of misses rises. Unless only one
// key is flushed, every process knows when Flush returns.
func (ms Misses) Flush(ctx context.Context, f MissFilter) (int64, error) {
	n, err := ms.flush(ctx, f)
	if n == 0 || !ms.db.Shared() {
		return n, err
	}
	update := ms.db.Update
	if f.Key != "" {
		update = ms.db.UpdateUnsynced
	}
	return n, errors.Join(err, update(context.WithoutCancel(ctx), "report forgotten misses", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE epoch SET n = n + 1 WHERE name = 'miss'")
		return err
	}))
}

func (ms Misses) flush(ctx context.Context, f MissFilter) (int64, error) {
	before := int64(math.MaxInt64)
	if !f.Before.IsZero() {
		before = f.Before.UnixMilli()
	}
	const rest = "($3 = '' OR source = $3) AND ($4 = 0 OR class = $4) AND since < $5"
	switch {
	case f.Key != "":
		return record.DeleteRows(ctx, ms.db, "miss", "DELETE FROM miss WHERE no IN (SELECT no FROM miss WHERE key = $2 AND "+rest+" LIMIT $1)",
			f.Key, f.Source, f.Class, before)
	case f.KeyPrefix != "":
		return record.DeleteRows(ctx, ms.db, "miss",
			"DELETE FROM miss WHERE no IN (SELECT no FROM miss WHERE key >= $2 AND key < $6 AND "+rest+" LIMIT $1)",
			f.KeyPrefix, f.Source, f.Class, before, record.PrefixEnd(f.KeyPrefix))
	}
	return ms.flushAll(ctx, "DELETE FROM miss WHERE no IN (SELECT no FROM miss WHERE no > $2 AND "+rest+" ORDER BY no LIMIT $1) "+
		"RETURNING no", f.Source, f.Class, before)
}

// flushAll runs a statement that deletes up to $1 misses with a number above $2,
// in ascending order, so that remaining rows are read only once.
func (ms Misses) flushAll(ctx context.Context, statement string, args ...any) (sum int64, err error) {
	last := int64(math.MinInt64)
	for {
		var n, next int64
		err := ms.db.UpdateUnsynced(ctx, "delete misses", func(w *engine.Write) error {
			n, next = 0, last
			err := w.Each(statement, append([]any{engine.BatchRows, last}, args...), func(scan engine.Scan) error {
				var no int64
				err := scan(&no)
				next = max(next, no)
				n++
				return err
			})
			if err != nil {
				return err
			}
			return record.CountRows(w, "miss", -n)
		})
		if err != nil {
			return sum, err
		}
		last = next
		if sum += n; n < engine.BatchRows {
			return sum, nil
		}
	}
}

// Sweep deletes the misses that expired before a time and returns their number.
func (ms Misses) Sweep(ctx context.Context, before time.Time) (int64, error) {
	return record.DeleteRows(ctx, ms.db, "miss", "DELETE FROM miss WHERE no IN (SELECT no FROM miss WHERE ends < $2 ORDER BY ends LIMIT $1)",
		before.UnixMilli())
}

// MissStats summarizes the stored misses of one class.
type MissStats struct {
	Class   uint8 `json:"class"`
	Misses  int64 `json:"misses"`
	Expired int64 `json:"expired"` // expired ones among them
}

// Stats returns the number of stored misses by class. It takes time proportional
// to their number: up to a second for two million.
func (ms Misses) Stats(ctx context.Context) ([]MissStats, error) {
	list := []MissStats{}
	err := ms.db.Scans.Each(ctx, true, "SELECT class, count(*), count(*) FILTER (WHERE ends <= $1) FROM miss GROUP BY class "+
		"ORDER BY class", []any{ms.db.Now().UnixMilli()},
		func(scan engine.Scan) (bool, error) {
			var s MissStats
			err := scan(&s.Class, &s.Misses, &s.Expired)
			list = append(list, s)
			return true, err
		})
	return list, ms.db.Fail("count misses", err)
}

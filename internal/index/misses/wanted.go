package misses

import (
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// WantedKeys is the part of the index that counts unanswered requests.
type WantedKeys struct {
	db   *engine.Database
	most int64 // see Options
}

// NewWantedKeys returns the counted keys of an index in a database: the newest, at most as
// many as given.
func NewWantedKeys(db *engine.Database, most int64) WantedKeys { return WantedKeys{db, most} }

// Wanted counts the requests of one kind of client for a file that was not
// found.
type Wanted struct {
	Name   string    `json:"name"` // folded, like ID
	ID     string    `json:"id"`
	Kind   string    `json:"kind"`   // kind of file, or empty
	Client string    `json:"client"` // kind of client
	Count  int64     `json:"count"`
	First  time.Time `json:"first"` // first request; not written by Count
	Last   time.Time `json:"last"`

	no int64
}

// WantedKey is the place of a row in a list.
type WantedKey struct {
	Number int64 // the count, or the time of the last request in milliseconds
	No     int64 // tells rows with equal numbers apart
}

// Key returns the place of the row in a list by the last request, or by the count.
func (w Wanted) Key(latest bool) WantedKey {
	if latest {
		return WantedKey{w.Last.UnixMilli(), w.no}
	}
	return WantedKey{w.Count, w.no}
}

// Count adds counts to the rows with the same name, id and client. It does not
// change the generation and does not wait for the disk. Above Options.MaxWanted,
// the least recently requested rows are deleted.
func (ws WantedKeys) Count(ctx context.Context, list []Wanted) error {
	for batch := range slices.Chunk(list, engine.BatchRows) {
		if err := ws.db.UpdateUnsynced(ctx, "count unanswered requests", func(w *engine.Write) error {
			rows := mergeWanted(batch)
			changed, err := w.Many(`UPDATE wanted SET count = count + $5, last = `+engine.Larger("last", "$6")+`, kind =
				CASE WHEN $4 = '' THEN kind ELSE $4 END
				WHERE name = $1 AND id = $2 AND client = $3`, rows)
			if err != nil {
				return err
			}
			var fresh [][]any
			for i, n := range changed {
				if n == 0 {
					fresh = append(fresh, rows[i])
				}
			}
			if _, err := w.Many("INSERT INTO wanted (name, id, client, kind, count, first, last) VALUES ($1, $2, $3, $4, $5, $6, $6)",
				fresh); err != nil {
				return err
			}
			added := int64(len(fresh))
			return record.LimitRows(w, "wanted", added, ws.most, "DELETE FROM wanted WHERE no IN (SELECT no FROM wanted ORDER BY last, no LIMIT $1)")
		}); err != nil {
			return err
		}
	}
	return nil
}

// mergeWanted returns the arguments for each name, id and client of a list, with the
// counts of equal ones added up.
func mergeWanted(list []Wanted) (rows [][]any) {
	type key struct{ name, id, client string }
	at := map[key]int{}
	for _, e := range list {
		k := key{engine.Text(e.Name), engine.Text(e.ID), engine.Text(e.Client)}
		i, again := at[k]
		if !again {
			at[k] = len(rows)
			rows = append(rows, []any{k.name, k.id, k.client, engine.Text(e.Kind), e.Count, e.Last.UnixMilli()})
			continue
		}
		row := rows[i]
		row[4] = row[4].(int64) + e.Count
		row[5] = max(row[5].(int64), e.Last.UnixMilli())
		if e.Kind != "" {
			row[3] = engine.Text(e.Kind)
		}
	}
	return rows
}

// WantedFilter selects rows; the zero value selects all.
type WantedFilter struct {
	Since  time.Time // last requested at this time or later
	Limit  int       // 0 is all
	Client string    // kind of client
	// Name is a folded file name; * matches any text, ? one character.
	Name string
	// Latest lists the latest requests first, not the most frequent ones.
	Latest bool
	// After is the place of the last row that the caller has; nil: none.
	After *WantedKey
}

// List yields the unanswered requests, most frequent first or latest first. Rows that
// are counted meanwhile may be yielded twice or not at all.
func (ws WantedKeys) List(ctx context.Context, f WantedFilter) iter.Seq2[Wanted, error] {
	since := int64(math.MinInt64)
	if !f.Since.IsZero() {
		since = f.Since.UnixMilli()
	}
	return func(yield func(Wanted, error) bool) {
		at, n := WantedKey{math.MaxInt64, math.MaxInt64}, 0
		if f.After != nil {
			at = *f.After
		}
		key := "count"
		if f.Latest {
			key = "last"
		}
		engine.Pages(ctx, ws.db, func(w Wanted, err error) bool {
			if err == nil && f.Name != "" && !glob.Match(f.Name, symfile.Fold(w.Name)) {
				return true
			}
			n++
			return yield(w, err) && n != f.Limit
		}, func(scan engine.Scan) (w Wanted, err error) {
			var first, last int64
			err = scan(&w.Count, &w.no, &w.Name, &w.ID, &w.Kind, &w.Client, &first, &last)
			w.First, w.Last = time.UnixMilli(first).UTC(), time.UnixMilli(last).UTC()
			at = w.Key(f.Latest)
			return w, err
		}, `SELECT count, no, name, id, kind, client, first, last FROM wanted
			WHERE (`+key+`, no) < ($1, $2) AND last >= $3 AND ($4 = '' OR client = $4) ORDER BY `+key+` DESC, no DESC LIMIT $5`,
			func() []any { return []any{at.Number, at.No, since, f.Client, engine.PageRows} })
	}
}

// Drop deletes the rows that were last requested before a time and returns their
// number.
func (ws WantedKeys) Drop(ctx context.Context, before time.Time) (int64, error) {
	return record.DeleteRows(ctx, ws.db, "wanted", "DELETE FROM wanted "+
		"WHERE no IN (SELECT no FROM wanted WHERE last < $2 ORDER BY last LIMIT $1)", before.UnixMilli())
}

package index

import (
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/glob"
	"github.com/symdepot/symdepot/symfile"
)

// WantedKeys is the part of the index that counts what clients asked for in vain.
type WantedKeys struct{ db *DB }

// Wanted counts how often one kind of client asked for something that nobody
// had.
type Wanted struct {
	Name   string    `json:"name"` // folded, as the id
	ID     string    `json:"id"`
	Kind   string    `json:"kind"`   // of file, or empty
	Client string    `json:"client"` // kind of client
	Count  int64     `json:"count"`
	First  time.Time `json:"first"` // first asked for; not written by CountWanted
	Last   time.Time `json:"last"`
}

// Count adds counts to those of the same name, id and client. It bumps no
// generation and does not wait for the disk. Above Options.MaxWanted, what was
// longest not asked for gives way.
func (ws WantedKeys) Count(ctx context.Context, list []Wanted) error {
	for batch := range slices.Chunk(list, touchBatch) {
		if err := ws.db.note(ctx, "count what is wanted", func(w *write) error {
			var added int64
			for _, e := range batch {
				args := []any{text(e.Name), text(e.ID), text(e.Client), text(e.Kind), e.Count, e.Last.UnixMilli()}
				n, err := w.exec(`UPDATE wanted SET count = count + $5, last = max(last, $6), kind = CASE WHEN $4 = '' THEN kind ELSE $4 END
					WHERE name = $1 AND id = $2 AND client = $3`, args...)
				if err == nil && n == 0 {
					added++
					_, err = w.exec("INSERT INTO wanted (name, id, client, kind, count, first, last) VALUES ($1, $2, $3, $4, $5, $6, $6)", args...)
				}
				if err != nil {
					return err
				}
			}
			return w.bound("wanted", added, ws.db.maxWanted, "DELETE FROM wanted WHERE no IN (SELECT no FROM wanted ORDER BY last, no LIMIT $1)")
		}); err != nil {
			return err
		}
	}
	return nil
}

// WantedFilter says what to list; the zero value is all.
type WantedFilter struct {
	Since  time.Time // asked for then or later
	Limit  int       // at most so many; 0 is all
	Client string    // by this kind of client
	// Name is a folded file name; * stands for any text, ? for one character.
	Name string
}

// List yields what clients asked for and nobody had, the most wanted first.
// What is counted meanwhile may come twice or not at all.
func (ws WantedKeys) List(ctx context.Context, f WantedFilter) iter.Seq2[Wanted, error] {
	since := int64(math.MinInt64)
	if !f.Since.IsZero() {
		since = f.Since.UnixMilli()
	}
	return func(yield func(Wanted, error) bool) {
		count, no, n := int64(math.MaxInt64), int64(math.MaxInt64), 0
		pages(ctx, ws.db, func(w Wanted, err error) bool {
			if err == nil && f.Name != "" && !glob.Match(f.Name, symfile.Fold(w.Name)) {
				return true
			}
			n++
			return yield(w, err) && n != f.Limit
		}, func(scan func(...any) error) (w Wanted, err error) {
			var first, last int64
			err = scan(&count, &no, &w.Name, &w.ID, &w.Kind, &w.Client, &first, &last)
			w.Count, w.First, w.Last = count, time.UnixMilli(first).UTC(), time.UnixMilli(last).UTC()
			return w, err
		}, `SELECT count, no, name, id, kind, client, first, last FROM wanted
			WHERE (count, no) < ($1, $2) AND last >= $3 AND ($4 = '' OR client = $4) ORDER BY count DESC, no DESC LIMIT $5`,
			func() []any { return []any{count, no, since, f.Client, pageRows} })
	}
}

// Drop forgets what was not asked for since before, and returns how many
// rows that were.
func (ws WantedKeys) Drop(ctx context.Context, before time.Time) (int64, error) {
	return ws.db.forget(ctx, "wanted", "DELETE FROM wanted WHERE no IN (SELECT no FROM wanted WHERE last < $2 ORDER BY last LIMIT $1)", before.UnixMilli())
}

package record

import (
	"context"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
)

// NextGeneration increments the generation.
func NextGeneration(w *engine.Write) error {
	_, err := w.Exec("UPDATE state SET generation = generation + 1 WHERE one = 1")
	return err
}

// AddCounts changes the numbers of contents, their bytes, objects and lookups of the whole index.
func AddCounts(w *engine.Write, contents, bytes, objects, lookups int64) error {
	_, err := w.Exec("UPDATE state SET contents = contents + $1, bytes = bytes + $2, objects = objects + $3, lookups = lookups + $4 "+
		"WHERE one = 1",
		contents, bytes, objects, lookups)
	return err
}

// LimitRows counts the rows added to a limited table and deletes the oldest above
// most.
func LimitRows(w *engine.Write, table string, added, most int64, deleteOldest string) error {
	var n int64
	if err := w.Row("UPDATE tally SET n = n + $2 WHERE name = $1 RETURNING n", []any{table, added}, &n); err != nil {
		return err
	}
	if n <= most {
		return nil
	}
	gone, err := w.Exec(deleteOldest, n-most)
	if err != nil {
		return err
	}
	return CountRows(w, table, -gone)
}

// CountRows notes that a limited table has n rows more, or fewer if n is negative.
func CountRows(w *engine.Write, table string, n int64) error {
	if n == 0 {
		return nil
	}
	_, err := w.Exec("UPDATE tally SET n = n + $2 WHERE name = $1", table, n)
	return err
}

// DeleteRows runs a statement that deletes up to $1 rows of a limited table, until
// none are left to delete.
func DeleteRows(ctx context.Context, db *engine.Database, table, statement string, args ...any) (sum int64, err error) {
	for {
		var n int64
		err := db.UpdateUnsynced(ctx, "delete rows of "+table, func(w *engine.Write) (err error) {
			if n, err = w.Exec(statement, append([]any{engine.BatchRows}, args...)...); err != nil {
				return err
			}
			return CountRows(w, table, -n)
		})
		if err != nil {
			return sum, err
		}
		if sum += n; n < engine.BatchRows {
			return sum, nil
		}
	}
}

// DayOf returns the day of a time in days since 1970, UTC, and timeOfDay its
// beginning.
func DayOf(t time.Time) int64 {
	s, day := t.Unix(), int64(24*60*60)
	if s < 0 {
		return (s+1)/day - 1
	}
	return s / day
}

// TimeOfDay returns the begin of a day, which is counted from 1970 in UTC.
func TimeOfDay(day int64) time.Time { return time.Unix(day*24*60*60, 0).UTC() }

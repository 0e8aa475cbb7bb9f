package engine

import (
	"context"
	"database/sql"
	"strings"
	"time"
)

// BatchRows is the number of rows written per write transaction where there may
// be very many.
const BatchRows = 5000

// Millis returns the stored form of a time; the zero time is null.
func Millis(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// FromMillis returns the time of a stored form; null is the zero time.
func FromMillis(v sql.NullInt64) time.Time {
	if !v.Valid {
		return time.Time{}
	}
	return time.UnixMilli(v.Int64).UTC()
}

// Text makes external metadata valid for any database: valid UTF-8 without NUL.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// PageRows is the number of rows per query where a caller may be slow: a long
// read transaction would prevent checkpoints of the log.
const PageRows = 1000

// Pages runs query repeatedly until a page is not full. args returns the
// arguments of the next page, which scan updates.
func Pages[T any](ctx context.Context, db *Database, yield func(T, error) bool, scan func(Scan) (T, error),
	query string, args func() []any) {
	for {
		var page []T
		err := db.Scans.Each(ctx, true, query, args(), func(s Scan) (bool, error) {
			c, err := scan(s)
			page = append(page, c)
			return true, err
		})
		if err != nil {
			var none T
			yield(none, db.Fail("list", err))
			return
		}
		for _, c := range page {
			if !yield(c, nil) {
				return
			}
		}
		if len(page) < PageRows {
			return
		}
	}
}

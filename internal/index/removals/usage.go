package removals

import (
	"context"
	"database/sql"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
)

// UsageDay is what a product, or the whole depot, took on a day.
type UsageDay struct {
	Day     time.Time // its beginning, in UTC
	Product string
	All     bool // the whole depot; Product is empty

	Transactions, Files int64 // live ones, and their files
	Bytes               int64 // disk space
	Own                 int64 // of Bytes what no other product holds
	// Cached, Garbage and Trash are those of the whole depot: cached files and
	// unfinished pushes, what garbage collection would free, and what it would free
	// after the trash.
	Cached, Garbage, Trash int64
	// Added and Removed are the lengths of the files of transactions that arrived, and
	// that were removed, on the day.
	Added, Removed int64
}

const millisPerDay = 24 * 60 * 60 * 1000

// PutUsage replaces the rows of a day, and deletes those of days before another one.
// Files, Added and Removed are not taken from the rows: the index knows them. Rows
// of products that do not exist are omitted.
func (rs Retention) PutUsage(ctx context.Context, day, oldest time.Time, list []UsageDay) error {
	return rs.db.Update(ctx, "record the usage", func(w *engine.Write) error {
		if _, err := w.Exec("DELETE FROM usage_day WHERE day = $1 OR day < $2", record.DayOf(day), record.DayOf(oldest)); err != nil {
			return err
		}
		ids := map[string]int64{}
		if err := w.Each("SELECT id, name FROM product", nil, func(scan engine.Scan) error {
			var id int64
			var name string
			err := scan(&id, &name)
			ids[name] = id
			return err
		}); err != nil {
			return err
		}
		files, sum := map[int64]int64{}, int64(0)
		if err := w.Each("SELECT product_id, CAST(sum(files) AS bigint) FROM tx WHERE id > 0 AND deleted_at IS NULL "+
			"GROUP BY product_id", nil, func(scan engine.Scan) error {
			var id, n int64
			err := scan(&id, &n)
			files[id] = n
			sum += n
			return err
		}); err != nil {
			return err
		}
		files[0] = sum
		var rows [][]any
		for _, u := range list {
			id, ok := ids[u.Product]
			if u.All {
				id, ok = 0, true
			}
			if ok {
				rows = append(rows, []any{record.DayOf(day), id, u.Transactions, files[id], u.Bytes, u.Own, u.Cached, u.Garbage, u.Trash})
			}
		}
		_, err := w.Many("INSERT INTO usage_day (day, product_id, transactions, files, bytes, own, cached, garbage, trash) "+
			"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)", rows)
		return err
	})
}

// LastUsage returns the last day with rows; false if there is none.
func (rs Retention) LastUsage(ctx context.Context) (time.Time, bool, error) {
	var day sql.NullInt64
	err := rs.db.Points.Row(ctx, "SELECT max(day) FROM usage_day", nil, &day)
	return record.TimeOfDay(day.Int64), day.Valid, rs.db.Fail("look up the last usage", err)
}

// UsageFilter selects rows of UsageDays.
type UsageFilter struct {
	From, To time.Time // days, both included
	// Product selects one product; nil: all.
	Product *string
	// All selects the whole depot instead of products.
	All bool
}

// UsageDays returns what products, or the whole depot, took on days, by day and
// product.
func (rs Retention) UsageDays(ctx context.Context, f UsageFilter) (list []UsageDay, err error) {
	type place struct {
		day     int64
		product int64
	}
	// What arrived and what was removed; product 0 is the sum.
	changes := map[place]*[2]int64{}
	from, to := record.DayOf(f.From), record.DayOf(f.To)
	count := func(r engine.Reader, text string, which int) error {
		return r.Each(ctx, true, text, []any{from * millisPerDay, (to + 1) * millisPerDay}, func(scan engine.Scan) (bool, error) {
			var p place
			var n int64
			err := scan(&p.day, &p.product, &n)
			for _, p := range []place{p, {p.day, 0}} {
				if changes[p] == nil {
					changes[p] = &[2]int64{}
				}
				changes[p][which] += n
			}
			return true, err
		})
	}
	name, every := "", f.Product == nil
	if !every {
		name = *f.Product
	}
	err = rs.db.Snapshot(ctx, func(r engine.Reader) error {
		list = nil
		clear(changes)
		if err := count(r, `SELECT coalesce(arrived, time) / 86400000, product_id, CAST(sum(bytes) AS bigint) FROM tx
			WHERE id > 0 AND coalesce(arrived, time) >= $1 AND coalesce(arrived, time) < $2 GROUP BY 1, 2`, 0); err != nil {
			return err
		}
		if err := count(r, "SELECT deleted_at / 86400000, product_id, CAST(sum(bytes) AS bigint) FROM tx "+
			"WHERE id > 0 AND deleted_at >= $1 AND deleted_at < $2 GROUP BY 1, 2", 1); err != nil {
			return err
		}
		return r.Each(ctx, true,
			`SELECT u.day, u.product_id, coalesce(p.name, ''), u.transactions, u.files, u.bytes, u.own, u.cached, u.garbage, u.trash
			FROM usage_day u LEFT JOIN product p ON p.id = u.product_id
			WHERE u.day >= $1 AND u.day <= $2 AND (u.product_id = 0) = $3 AND ($4 OR p.name = $5) ORDER BY u.day, p.name`,
			[]any{from, to, f.All, every || f.All, engine.Text(name)}, func(scan engine.Scan) (bool, error) {
				u := UsageDay{All: f.All}
				var p place
				err := scan(&p.day, &p.product, &u.Product, &u.Transactions, &u.Files, &u.Bytes, &u.Own, &u.Cached, &u.Garbage, &u.Trash)
				u.Day = record.TimeOfDay(p.day)
				if c := changes[p]; c != nil {
					u.Added, u.Removed = c[0], c[1]
				}
				list = append(list, u)
				return true, err
			})
	})
	return list, rs.db.Fail("read the usage", err)
}

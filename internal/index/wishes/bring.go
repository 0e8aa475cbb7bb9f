package wishes

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// fulfilled is the condition that a key of a table fulfils wish w.
func fulfilled(table string) string {
	return strings.ReplaceAll("w.id = {t}.id AND (w.name = '' OR w.name = {t}.name) AND (w.role & {t}.role) <> 0", "{t}", table)
}

// fits are the wishes that keys fulfil.
var fits = "{k} JOIN wish w ON " + fulfilled("k")

var (
	oldArrivals = engine.Over(keyColumns, "DELETE FROM arrival WHERE tx_id = $2 AND (id, name) IN (SELECT w.id, w.name FROM "+fits+")")
	newArrivals = engine.Over(keyColumns, `INSERT INTO arrival (id, name, tx_id, at)
		SELECT DISTINCT w.id, w.name, CAST($2 AS bigint), CAST($3 AS bigint) FROM `+fits)
	endedWishes = engine.Over(keyColumns, "DELETE FROM wish WHERE no IN (SELECT w.no FROM "+fits+")")
	fittingKeys = engine.Over(keyColumns, "SELECT DISTINCT k.id, k.name, k.role FROM "+fits)
	fetchedKeys = engine.Over(keyColumns, `SELECT DISTINCT f.tx_id, l.id, l.name, l.role FROM {k}
		JOIN lookup l ON l.id = k.id AND (k.name = '' OR k.name = l.name) AND (k.role & l.role) <> 0
		JOIN tx_file f ON f.object_id = l.object_id AND f.tx_id < 0 AND f.mtime >= $2`)
)

const keyColumns = "id text, name text, role number"

// rowsOf returns keys as rows.
func rowsOf(keys []Wish) [][]any {
	rows := make([][]any, len(keys))
	for i, k := range keys {
		rows[i] = []any{engine.Text(k.ID), engine.Text(k.Name), int64(k.Role)}
	}
	return rows
}

// scanKey scans a key.
func scanKey(scan engine.Scan) (k Wish, err error) {
	var role int64
	err = scan(&k.ID, &k.Name, &role)
	k.Role = symfile.Role(role)
	return k, err
}

// Bring records the wishes that files with these keys fulfil as arrivals, and ends them. tx is the row of the build or
// of the source, an upstream or a watched folder. They can have a file again: a new arrival replaces the old one of the
// same file. It returns how many there are, and the number of the arrival before them.
func Bring(w *engine.Write, tx int64, keys []Wish, now time.Time) (arrived, before int64, err error) {
	if err := w.Row("SELECT coalesce(max(no), 0) FROM arrival", nil, &before); err != nil {
		return 0, 0, err
	}
	var ended, gone int64
	for batch := range slices.Chunk(rowsOf(keys), engine.BatchRows) {
		old, err := w.ExecOver(oldArrivals, batch, tx)
		if err != nil {
			return 0, 0, err
		}
		come, err := w.ExecOver(newArrivals, batch, tx, now.UnixMilli())
		if err != nil {
			return 0, 0, err
		}
		done, err := w.ExecOver(endedWishes, batch)
		if err != nil {
			return 0, 0, err
		}
		gone, arrived, ended = gone+old, arrived+come, ended+done
	}
	if arrived == 0 {
		return 0, before, nil
	}
	if err := record.LimitRows(w, "wish", -ended, Most, oldestWishes); err != nil {
		return 0, 0, err
	}
	return arrived, before, record.LimitRows(w, "arrival", arrived-gone, Most, oldestArrivals)
}

// fitting returns the keys, of those in rows, that fulfil a wish.
func fitting(w *engine.Write, rows [][]any) (list []Wish, err error) {
	err = w.EachOver(fittingKeys, rows, nil, func(scan engine.Scan) error {
		k, err := scanKey(scan)
		list = append(list, k)
		return err
	})
	return list, err
}

// Come calls bring in a write with those of the keys of files that wishes name, unless there are none.
func (ws Wishes) Come(ctx context.Context, keys []Wish, bring func(w *engine.Write, keys []Wish) error) error {
	var n int64
	if err := ws.db.Scans.Row(ctx, "SELECT n FROM tally WHERE name = 'wish'", nil, &n); err != nil || n == 0 {
		return ws.db.Fail("count wishes", err)
	}
	for batch := range slices.Chunk(keys, engine.BatchRows) {
		if err := ws.db.Update(ctx, "match wishes with files", func(w *engine.Write) error {
			list, err := fitting(w, rowsOf(batch))
			if err != nil || len(list) == 0 {
				return err
			}
			return bring(w, list)
		}); err != nil {
			return err
		}
	}
	return nil
}

// Fetched calls bring in a write with the keys of files that were downloaded since a time and that wishes name, by the
// rows of their upstreams.
func (ws Wishes) Fetched(
	ctx context.Context, list []Wish, since time.Time, bring func(w *engine.Write, tx int64, keys []Wish) error,
) error {
	return ws.db.UpdateUnsynced(ctx, "match wishes with downloads", func(w *engine.Write) error {
		found := map[int64][]Wish{}
		if err := w.EachOver(fetchedKeys, rowsOf(list), []any{since.UnixMilli()}, func(scan engine.Scan) error {
			var tx, role int64
			var k Wish
			err := scan(&tx, &k.ID, &k.Name, &role)
			k.Role = symfile.Role(role)
			found[tx] = append(found[tx], k)
			return err
		}); err != nil {
			return err
		}
		for tx, keys := range found {
			if err := bring(w, tx, keys); err != nil {
				return err
			}
		}
		return nil
	})
}

package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// ListFilter selects transactions. The zero value selects all that have not been
// removed.
type ListFilter struct {
	Product *string // nil is any; "" is that of transactions without one
	Version string  // "" is any
	// Who is the account, or a pattern for it with * and ?, in any letter case; "" is
	// any.
	Who     string
	Since   time.Time // only of this time or later
	Limit   int       // 0 is all
	Before  int64     // only lower numbers; 0 is any
	Removed bool      // include removed ones
}

// List returns the transactions in the scope that f selects, newest first.
func (db *DB) List(ctx context.Context, scope record.Scope, f ListFilter) ([]record.Transaction, error) {
	limit, before, since := int64(f.Limit), f.Before, int64(math.MinInt64)
	if limit <= 0 {
		limit = math.MaxInt64
	}
	if before <= 0 {
		before = math.MaxInt64
	}
	if !f.Since.IsZero() {
		since = f.Since.UnixMilli()
	}
	// Rows with negative ids represent upstreams.
	where, args := scope.Where("t.product_id", []any{before, f.Version, limit, f.Removed, since})
	if f.Product != nil {
		args = append(args, engine.Text(*f.Product))
		where += " AND t.product_id = (SELECT id FROM product WHERE name = $" + strconv.Itoa(len(args)) + ")"
	}
	if f.Who != "" {
		args = append(args, record.LikeEscaper.Replace(strings.ToLower(engine.Text(f.Who))))
		where += " AND lower(t.who) LIKE $" + strconv.Itoa(len(args)) + ` ESCAPE '\'`
	}
	list := []record.Transaction{}
	err := db.base.Scans.Each(ctx, scope.All, record.TxSelect+`
		WHERE t.id < $1 AND t.id > 0 AND ($2 = '' OR t.version = $2) AND ($4 OR t.deleted_at IS NULL) AND t.time >= $5`+
		where+" ORDER BY t.id DESC LIMIT $3", args, func(scan engine.Scan) (bool, error) {
		t, err := record.ScanTx(scan)
		list = append(list, t)
		return true, err
	})
	return list, db.base.Fail("list", err)
}

// Show returns one transaction and calls each, if not nil, for its files in
// order, until each returns an error. A removed transaction has no files. An
// unknown number is fs.ErrNotExist.
func (db *DB) Show(ctx context.Context, number int64, each func(record.TxFile) error) (record.Transaction, error) {
	t, err := record.ShowTx(ctx, db.base, number)
	if err != nil || each == nil {
		return t, err
	}
	seq := int64(0)
	for {
		var page []record.TxFile
		err := db.base.Scans.Each(ctx, true, "SELECT "+record.ObjectColumns+`, f.seq, `+record.PathColumn+`, f.archive, f.mtime
			FROM tx_file f JOIN object o ON o.id = f.object_id JOIN content c ON c.id = o.content_id
			WHERE f.tx_id = $1 AND f.seq > $2 ORDER BY f.seq LIMIT $3`, []any{number, seq, engine.PageRows}, func(scan engine.Scan) (bool, error) {
			var s record.Stored
			var mtime sql.NullInt64
			err := record.ScanObject(scan, &s, &seq, &s.Path, &s.Archive, &mtime)
			page = append(page, record.TxFile{Object: s.Object, Arch: s.Arch, Features: s.Features, DebugSize: s.DebugSize,
				Ref: s.Ref, Size: s.Size, Path: s.Path, Archive: s.Archive, ModTime: engine.FromMillis(mtime), Cold: nil})
			return true, err
		})
		if err != nil {
			return t, db.base.Fail("show", err)
		}
		if err := contents.MarkCold(ctx, db.base, page, func(f *record.TxFile) (blob.Ref, **record.Cold) { return f.Ref, &f.Cold }); err != nil {
			return t, err
		}
		for _, f := range page {
			if err := each(f); err != nil {
				return t, err
			}
		}
		if len(page) < engine.PageRows {
			return t, nil
		}
	}
}

// Stats are the counters of the index. Reading them is cheap.
type Stats struct {
	Transactions int64 `json:"builds"`   // not removed
	Contents     int64 `json:"contents"` // all, including unreferenced, cached and derived ones
	Bytes        int64 `json:"bytes"`    // sum of the contents' sizes
	Objects      int64 `json:"files"`
	Lookups      int64 `json:"lookups"` // keys
	// Contents without references, and their bytes.
	UnreferencedContents int64 `json:"unreferenced_contents"`
	UnreferencedBytes    int64 `json:"unreferenced_bytes"`
	// Downloaded files, and the sum of their sizes.
	CachedFiles int64 `json:"cached_files"`
	CachedBytes int64 `json:"cached_bytes"`
	// Products by name.
	Products []ProductStats `json:"products"`
}

// ProductStats summarizes the transactions of one product that have not been
// removed.
type ProductStats struct {
	Name         string    `json:"name"`
	Transactions int64     `json:"builds"`
	Files        int64     `json:"files"`
	Bytes        int64     `json:"bytes"`
	Newest       time.Time `json:"newest"`
}

// Stats returns the counters of the index.
func (db *DB) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	err := db.base.Scans.Row(ctx, "SELECT contents, bytes, objects, lookups FROM state WHERE one = 1",
		nil, &s.Contents, &s.Bytes, &s.Objects, &s.Lookups)
	if err == nil {
		err = db.base.Scans.Row(ctx, "SELECT count(*), coalesce(sum(size), 0) FROM content WHERE unreferenced_since IS NOT NULL",
			nil, &s.UnreferencedContents, &s.UnreferencedBytes)
	}
	if err == nil {
		err = db.base.Scans.Row(ctx, "SELECT coalesce(sum(files), 0), coalesce(sum(bytes), 0) FROM tx WHERE id < 0",
			nil, &s.CachedFiles, &s.CachedBytes)
	}
	if err == nil {
		s.Products = []ProductStats{}
		err = db.base.Scans.Each(ctx, true, `SELECT p.name, count(*), sum(t.files), sum(t.bytes), max(t.time)
			FROM tx t JOIN product p ON p.id = t.product_id
			WHERE t.deleted_at IS NULL AND t.id > 0 GROUP BY p.name ORDER BY p.name`, nil, func(scan engine.Scan) (bool, error) {
			var p ProductStats
			var newest sql.NullInt64
			if err := scan(&p.Name, &p.Transactions, &p.Files, &p.Bytes, &newest); err != nil {
				return false, err
			}
			p.Newest = engine.FromMillis(newest)
			s.Transactions += p.Transactions
			s.Products = append(s.Products, p)
			return true, nil
		})
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: the row of counters is missing", engine.ErrCorrupt)
	}
	return s, db.base.Fail("count", err)
}

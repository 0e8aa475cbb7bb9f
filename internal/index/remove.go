package index

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
)

// Remove removes a transaction without a trash and returns it; see Trash.Remove.
// Objects that no other transaction holds are hidden immediately; their contents
// become unreferenced. The transaction's own row stays, its list of files is
// deleted. If the number does not exist or was removed before, the error is
// fs.ErrNotExist.
func (db *DB) Remove(ctx context.Context, number int64) (Transaction, error) {
	t, err := db.Trash.Remove(ctx, Removal{Number: number, Reason: "rm"})
	if err != nil {
		return Transaction{}, err
	}
	return t, nil
}

func (w *write) remove(ctx context.Context, number int64, now time.Time) error {
	// The visibility changes only where this was the newest transaction of its
	// product.
	objects, err := w.ids(`SELECT DISTINCT f.object_id FROM tx_file f
		JOIN tx t ON t.id = f.tx_id
		JOIN seen s ON s.object_id = f.object_id AND s.product_id = t.product_id AND s.tx_id = t.id
		WHERE f.tx_id = $1`, number)
	if err != nil {
		return err
	}
	if _, err := w.exec("DELETE FROM tx_file WHERE tx_id = $1", number); err != nil {
		return err
	}
	if sets := w.sets(); sets != nil {
		if err := w.updateAllVisibility(sets, objects, slices.Repeat([]int64{number}, len(objects)), now); err != nil {
			return err
		}
		objects = nil
	}
	for _, object := range objects {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.updateVisibility(object, number, now); err != nil {
			return err
		}
	}
	if _, err := w.exec("UPDATE tx SET deleted_at = $2 WHERE id = $1", number, now.UnixMilli()); err != nil {
		return err
	}
	return w.changed()
}

// updateVisibility makes an object visible through the next newest transaction of the
// product, or hides it if there is none.
func (w *write) updateVisibility(object, gone int64, now time.Time) error {
	var newest int64
	err := w.row(`SELECT f.tx_id FROM tx_file f JOIN tx t ON t.id = f.tx_id
		WHERE f.object_id = $1 AND t.product_id = (SELECT product_id FROM tx WHERE id = $2) ORDER BY f.tx_id DESC LIMIT 1`, []any{object, gone}, &newest)
	if err == nil {
		_, err = w.exec("UPDATE seen SET tx_id = $3 WHERE object_id = $1 AND tx_id = $2", object, gone, newest)
		return err
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if _, err := w.exec("DELETE FROM seen WHERE object_id = $1 AND tx_id = $2", object, gone); err != nil {
		return err
	}
	var content int64
	if err := w.row("SELECT content_id FROM object WHERE id = $1", []any{object}, &content); err != nil {
		return err
	}
	return w.release(content, now)
}

// referenced is the condition that content c has references: one of its objects
// is visible, it was derived from another content, or a cold content needs it.
const referenced = `(EXISTS (SELECT 1 FROM object o JOIN seen s ON s.object_id = o.id WHERE o.content_id = c.id)
 OR EXISTS (SELECT 1 FROM derived d WHERE d.content_id = c.id) OR EXISTS (SELECT 1 FROM cold k WHERE k.base_id = c.id))`

// release marks a content as unreferenced if it has no references left: from now
// on, or from the end of the trash that holds it.
func (w *write) release(content int64, now time.Time) error {
	_, err := w.exec("UPDATE content AS c SET unreferenced_since = "+sinceTrash+" WHERE c.id = $1 AND c.unreferenced_since IS NULL AND NOT "+referenced,
		content, now.UnixMilli())
	return err
}

// Unreferenced yields the contents that have had no references since before.
func (db *DB) Unreferenced(ctx context.Context, before time.Time) iter.Seq2[Unreferenced, error] {
	return func(yield func(Unreferenced, error) bool) {
		since, id := int64(-1)<<62, int64(0)
		pages(ctx, db, yield, func(scan func(...any) error) (Unreferenced, error) {
			var c Unreferenced
			var ref []byte
			var cold int64
			if err := scan(&since, &id, &ref, &c.Size, &cold, &c.Derived, &c.Stored); err != nil {
				return c, err
			}
			c.Cold = cold != 0
			c.Since = time.UnixMilli(since)
			return c, scanRef(ref, &c.Ref)
		}, `SELECT unreferenced_since, id, sha256, size, (SELECT count(*) FROM cold k WHERE k.content_id = c.id AND k.plain_since IS NULL), (SELECT coalesce(sum(k.size), 0) FROM derived d JOIN content k ON k.id = d.content_id WHERE d.source_id = c.id), `+storedWithDerived("$5")+`
			FROM content c WHERE unreferenced_since IS NOT NULL AND unreferenced_since <= $1 AND (unreferenced_since, id) > ($2, $3)
			ORDER BY unreferenced_since, id LIMIT $4`, func() []any { return []any{before.UnixMilli(), since, id, pageRows, db.block} })
	}
}

// storedWithDerived is the space that content c and what was made from it take, in
// blocks of an argument.
func storedWithDerived(block string) string {
	return `(CASE WHEN EXISTS (SELECT 1 FROM cold k WHERE k.content_id = c.id AND k.plain_since IS NULL) THEN 0 ELSE (c.size + ` + block + ` - 1) / ` + block + ` * ` + block + ` END + (SELECT coalesce(sum((k.size + ` + block + ` - 1) / ` + block + ` * ` + block + `), 0)
	FROM derived d JOIN content k ON k.id = d.content_id WHERE d.source_id = c.id))`
}

// storedContents selects the contents whose bytes are stored as they are: all but cold
// ones, whose cold files are contents themselves.
const storedContents = `SELECT c.id, c.sha256, c.size FROM content c WHERE c.id > $1
	AND NOT EXISTS (SELECT 1 FROM cold k WHERE k.content_id = c.id AND k.plain_since IS NULL) ORDER BY c.id LIMIT $2`

// Contents yields all contents whose bytes are stored as they are, referenced or not:
// not the cold ones, but their cold files. Contents that are added or deleted meanwhile
// may or may not be included.
func (db *DB) Contents(ctx context.Context) iter.Seq2[Content, error] {
	return func(yield func(Content, error) bool) {
		var id int64
		pages(ctx, db, yield, func(scan func(...any) error) (Content, error) {
			var c Content
			var ref []byte
			if err := scan(&id, &ref, &c.Size); err != nil {
				return c, err
			}
			return c, scanRef(ref, &c.Ref)
		}, storedContents, func() []any { return []any{id, pageRows} })
	}
}

// pageRows is the number of rows per query where a caller may be slow: a long
// read transaction would prevent checkpoints of the log.
const pageRows = 1000

// pages runs query repeatedly until a page is not full. args returns the
// arguments of the next page, which scan updates.
func pages[T any](ctx context.Context, db *DB, yield func(T, error) bool, scan func(func(...any) error) (T, error), query string, args func() []any) {
	for {
		var page []T
		err := db.scans.each(ctx, true, query, args(), func(s func(...any) error) (bool, error) {
			c, err := scan(s)
			page = append(page, c)
			return true, err
		})
		if err != nil {
			var none T
			yield(none, db.fail("list", err))
			return
		}
		for _, c := range page {
			if !yield(c, nil) {
				return
			}
		}
		if len(page) < pageRows {
			return
		}
	}
}

// dropBatch is the number of contents dropped per write transaction, so that
// other writers do not wait long.
func (db *DB) dropBatch() int {
	if _, network := db.engine.(*postgres); network {
		return 1000 // a batch takes as many round trips as one content
	}
	return 32
}

// DropContents drops those of refs that have had no references since before,
// with their objects, keys and derived contents, and returns their number.
// A content in a bucket dooms its place. Otherwise
// deleteBlob is called for each dropped content while the write lock is held and
// no row contains the content, so that no commit can refer to bytes that are
// about to be deleted.
//
// The rows are deleted durably before the bytes. A crash in between leaves bytes
// without a row, never a row without its bytes.
func (db *DB) DropContents(ctx context.Context, refs []blob.Ref, before time.Time, deleteBlob func(blob.Ref) error) (n int, err error) {
	return db.Trash.Drop(ctx, refs, before, deleteBlob, func(blob.Ref) {})
}

// Drop is DB.DropContents, and calls each for every content whose row it has
// deleted, of refs or derived from one of them. Of several programs that drop a content at
// the same time, this happens in one.
func (ts Trash) Drop(ctx context.Context, refs []blob.Ref, before time.Time, deleteBlob func(blob.Ref) error, each func(blob.Ref)) (n int, err error) {
	db := ts.db
	for batch := range slices.Chunk(refs, db.dropBatch()) {
		var gone []dropped
		var count int
		err := db.update(ctx, "drop contents", func(w *write) error {
			d := drop{write: w, colds: db.Colds, before: before.UnixMilli(), now: db.now()}
			count = 0
			if sets := d.sets(); sets != nil {
				if count, err = d.dropAll(sets, batch); err != nil {
					return err
				}
			} else {
				for _, ref := range batch {
					if err := d.content(ref, &count); err != nil {
						return err
					}
				}
			}
			if count > 0 {
				if err := d.changed(); err != nil {
					return err
				}
			}
			gone = d.gone
			return d.count(-int64(len(d.gone)), -d.bytes, -d.objects, -d.lookups)
		})
		if err != nil {
			return n, err
		}
		n += count
		for _, c := range gone {
			each(c.ref)
		}
		if err := db.deleteDropped(ctx, gone, deleteBlob); err != nil {
			return n, err
		}
	}
	return n, nil
}

// deleteDropped calls deleteBlob under the write lock for contents whose rows were
// deleted, unless they have been added again.
func (db *DB) deleteDropped(ctx context.Context, gone []dropped, deleteBlob func(blob.Ref) error) error {
	if len(gone) == 0 || db.placed {
		return nil // a bucket deletes doomed places later
	}
	return db.Locked(ctx, func(known func(blob.Ref) (bool, error)) error {
		for _, c := range gone {
			is, err := known(c.ref)
			if err == nil && !is {
				err = deleteBlob(c.ref)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// drop is the state of one batch of DropContents.
type drop struct {
	*write
	colds                   Colds
	before                  int64
	now                     time.Time
	gone                    []dropped
	bytes, objects, lookups int64
}

// dropped is a content without a row, and the id of its former row.
type dropped struct {
	id  int64
	ref blob.Ref
}

// content drops one content if it has had no references for long enough.
func (d *drop) content(ref blob.Ref, dropped *int) error {
	var id int64
	err := d.row("SELECT c.id FROM content c WHERE c.sha256 = $1 AND c.unreferenced_since <= $2 AND NOT "+referenced, []any{ref[:], d.before}, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	results, err := d.ids("SELECT content_id FROM derived WHERE source_id = $1 AND content_id IS NOT NULL", id)
	if err != nil {
		return err
	}
	if _, err := d.exec("DELETE FROM derived WHERE source_id = $1", id); err != nil {
		return err
	}
	if err := d.colds.forget(d.write, id, d.now); err != nil {
		return err
	}
	if err := d.rows(id); err != nil {
		return err
	}
	*dropped++
	for _, r := range results {
		if err := d.result(r); err != nil {
			return err
		}
	}
	return nil
}

// result drops a content derived from a dropped one, unless it has other
// references. If it was once added itself, it is marked as unreferenced instead.
func (d *drop) result(id int64) error {
	var alone bool
	err := d.row("SELECT NOT "+referenced+" AND NOT EXISTS (SELECT 1 FROM object o WHERE o.content_id = c.id) AND NOT EXISTS (SELECT 1 FROM derived d WHERE d.source_id = c.id) FROM content c WHERE c.id = $1",
		[]any{id}, &alone)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil // two tools made the same content
	case err != nil:
		return err
	case alone:
		return d.rows(id)
	}
	return d.release(id, d.now)
}

// rows deletes a content with its objects, their keys, and its recorded
// failures.
func (d *drop) rows(id int64) error {
	objects, err := d.ids("SELECT id FROM object WHERE content_id = $1", id)
	if err != nil {
		return err
	}
	for _, o := range objects {
		n, err := d.exec("DELETE FROM lookup WHERE object_id = $1", o)
		if err != nil {
			return err
		}
		d.lookups += n
		if _, err := d.exec("DELETE FROM object WHERE id = $1", o); err != nil {
			return err
		}
		d.objects++
	}
	if _, err := d.exec("INSERT INTO doomed (place, sha256, size, since) SELECT place, sha256, size, $2 FROM content WHERE id = $1 AND place IS NOT NULL",
		id, d.now.UnixMilli()); err != nil {
		return err
	}
	var sum []byte
	var size int64
	if err := d.row("DELETE FROM content WHERE id = $1 RETURNING sha256, size", []any{id}, &sum, &size); err != nil {
		return err
	}
	var ref blob.Ref
	if err := scanRef(sum, &ref); err != nil {
		return err
	}
	d.gone = append(d.gone, dropped{id, ref})
	d.bytes += size
	if _, err := d.exec("DELETE FROM content_read WHERE content_id = $1", id); err != nil {
		return err
	}
	_, err = d.exec("DELETE FROM failure WHERE source = $1", sum)
	return err
}

// Locked runs fn while no other process can write to the index. known reports
// whether the index has a content. fn must not write to the index.
func (db *DB) Locked(ctx context.Context, fn func(known func(blob.Ref) (bool, error)) error) error {
	return db.update(ctx, "lock", func(w *write) error {
		return fn(func(ref blob.Ref) (is bool, err error) {
			err = w.row("SELECT EXISTS (SELECT 1 FROM content WHERE sha256 = $1)", []any{ref[:]}, &is)
			return is, err
		})
	})
}

// HasContent reports whether the index has a content, referenced or not.
func (db *DB) HasContent(ctx context.Context, ref blob.Ref) (is bool, err error) {
	err = db.points.row(ctx, "SELECT EXISTS (SELECT 1 FROM content WHERE sha256 = $1)", []any{ref[:]}, &is)
	return is, db.fail("look up a content", err)
}

package contents

import (
	"context"
	"database/sql"
	"iter"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Contents is the part of the index for contents, whoever refers to them.
type Contents struct {
	db     *engine.Database
	Placed bool  // see Options
	Block  int64 // see Options
}

// NewContents returns the contents of an index in a database. placed means that they are kept
// in a bucket, and block is the unit in bytes in which space for them is allocated.
func NewContents(db *engine.Database, placed bool, block int64) Contents {
	return Contents{db, placed, block}
}

// RemoveFilesOf removes the files of a transaction. Their objects are seen as long as other
// transactions have them.
func RemoveFilesOf(w *engine.Write, ctx context.Context, number int64, now time.Time) error {
	// The visibility changes only where this was the newest transaction of its
	// product.
	objects, err := w.IDs(`SELECT DISTINCT f.object_id FROM tx_file f
		JOIN tx t ON t.id = f.tx_id
		JOIN seen s ON s.object_id = f.object_id AND s.product_id = t.product_id AND s.tx_id = t.id
		WHERE f.tx_id = $1`, number)
	if err != nil {
		return err
	}
	if _, err := w.Exec("DELETE FROM tx_file WHERE tx_id = $1", number); err != nil {
		return err
	}
	if err := DropDirs(w, number); err != nil {
		return err
	}
	rows := make([][]any, len(objects))
	for i, o := range objects {
		rows[i] = []any{o, number}
	}
	for batch := range slices.Chunk(rows, engine.BatchRows) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := updateVisibility(w, batch, now); err != nil {
			return err
		}
	}
	if _, err := w.Exec("UPDATE tx SET deleted_at = $2 WHERE id = $1", number, now.UnixMilli()); err != nil {
		return err
	}
	return record.NextGeneration(w)
}

// DropDirs deletes the folders of a transaction without files, unless it is in the trash with them.
func DropDirs(w *engine.Write, number int64) error {
	_, err := w.Exec("DELETE FROM tx_dir WHERE tx_id = $1 AND NOT EXISTS (SELECT 1 FROM trash_file f WHERE f.tx_id = $1)", number)
	return err
}

var (
	seeThrough = engine.Over("object_id number, tx_id number", `UPDATE seen SET tx_id = n.newest FROM
		(SELECT k.object_id, k.tx_id, max(f.tx_id) AS newest FROM {k} JOIN tx g ON g.id = k.tx_id
		 JOIN tx_file f ON f.object_id = k.object_id JOIN tx t ON t.id = f.tx_id AND t.product_id = g.product_id
		GROUP BY k.object_id, k.tx_id) AS n
		WHERE seen.object_id = n.object_id AND seen.tx_id = n.tx_id`)
	hide = engine.Over("object_id number, tx_id number", "DELETE FROM seen WHERE (object_id, tx_id) IN (SELECT k.object_id, k.tx_id FROM {k})")

	releaseContentsOf = engine.Over("object_id number, tx_id number",
		releaseThose("SELECT o.content_id FROM {k} CROSS JOIN object o WHERE o.id = k.object_id"))
	releaseContents = engine.Over("id number", releaseThose("SELECT k.id FROM {k}"))
)

// releaseThose returns the statement that marks those of the selected contents as
// unreferenced at $2 that have no references left: from then on, or from the end of the
// trash that holds them.
func releaseThose(selected string) string {
	return "UPDATE content AS c SET unreferenced_since = coalesce(" + TrashEnd("$2") + ", $2) WHERE c.id IN (" + selected +
		") AND c.unreferenced_since IS NULL AND NOT " + Referenced
}

// updateVisibility makes objects, each with the transaction that no longer holds it,
// visible through the next newest transaction of the product, or hides them if there is
// none.
func updateVisibility(w *engine.Write, objects [][]any, now time.Time) error {
	if _, err := w.ExecOver(seeThrough, objects); err != nil {
		return err
	}
	if _, err := w.ExecOver(hide, objects); err != nil {
		return err
	}
	_, err := w.ExecOver(releaseContentsOf, objects, now.UnixMilli())
	return err
}

// Referenced is the condition that content c has references: one of its objects
// is visible, it was derived from another content, a cold content needs it, or it is a dump that is kept.
const Referenced = `(EXISTS (SELECT 1 FROM object o JOIN seen s ON s.object_id = o.id WHERE o.content_id = c.id)
 OR EXISTS (SELECT 1 FROM derived d WHERE d.content_id = c.id) OR EXISTS (SELECT 1 FROM cold k WHERE k.base_id = c.id)
 OR EXISTS (SELECT 1 FROM dump u WHERE u.content_id = c.id))`

// release marks those contents as unreferenced that have no references left.
func releaseUnused(w *engine.Write, now time.Time, contents ...int64) error {
	_, err := w.ExecOver(releaseContents, engine.Numbers(contents), now.UnixMilli())
	return err
}

// Unreferenced yields the contents that have had no references since before.
func (cs Contents) Unreferenced(ctx context.Context, before time.Time) iter.Seq2[record.Unreferenced, error] {
	return func(yield func(record.Unreferenced, error) bool) {
		since, id := int64(-1)<<62, int64(0)
		engine.Pages(ctx, cs.db, yield, func(scan engine.Scan) (record.Unreferenced, error) {
			var c record.Unreferenced
			var ref []byte
			var cold int64
			if err := scan(&since, &id, &ref, &c.Size, &cold, &c.Derived, &c.Stored); err != nil {
				return c, err
			}
			c.Cold = cold != 0
			c.Since = time.UnixMilli(since)
			return c, record.ScanRef(ref, &c.Ref)
		}, `SELECT unreferenced_since, id, sha256, size, (SELECT count(*) FROM cold k
			WHERE k.content_id = c.id AND k.plain_since IS NULL), (SELECT coalesce(sum(k.size), 0)
			FROM derived d JOIN content k ON k.id = d.content_id WHERE d.source_id = c.id), `+StoredWithDerived("$5")+`
			FROM content c WHERE unreferenced_since IS NOT NULL AND unreferenced_since <= $1 AND (unreferenced_since, id) > ($2, $3)
			ORDER BY unreferenced_since, id LIMIT $4`, func() []any { return []any{before.UnixMilli(), since, id, engine.PageRows, cs.Block} })
	}
}

// StoredWithDerived is the space that content c and what was made from it take, in
// blocks of an argument.
func StoredWithDerived(block string) string {
	stored := func(k string) string {
		return `CASE WHEN EXISTS (SELECT 1 FROM cold h WHERE h.content_id = ` + k + `.id AND h.plain_since IS NULL) THEN 0 ELSE (` + k +
			`.size + ` + block + ` - 1) / ` + block + ` * ` + block + ` END`
	}
	return `(` + stored("c") + ` + (SELECT coalesce(sum(` + stored("k") + `), 0) FROM derived d JOIN content k ON k.id = d.content_id
		WHERE d.source_id = c.id) + (SELECT coalesce(sum(` + stored("k") + `), 0) FROM derived d JOIN derived e ON e.source_id = d.content_id
		JOIN content k ON k.id = e.content_id WHERE d.source_id = c.id))`
}

// All yields all contents whose bytes are stored as they are, referenced or not:
// not the cold ones, but their cold files. Contents that are added or deleted meanwhile
// may or may not be included.
func (cs Contents) All(ctx context.Context) iter.Seq2[record.Content, error] {
	return func(yield func(record.Content, error) bool) {
		var id int64
		engine.Pages(ctx, cs.db, yield, func(scan engine.Scan) (record.Content, error) {
			var c record.Content
			var ref []byte
			if err := scan(&id, &ref, &c.Size); err != nil {
				return c, err
			}
			return c, record.ScanRef(ref, &c.Ref)
		}, record.StoredContents, func() []any { return []any{id, engine.PageRows} })
	}
}

// dropBatch is the number of contents dropped per write transaction, so that
// other writers do not wait long.
func (cs Contents) dropBatch() int {
	if cs.db.Shared() {
		return 1000 // a batch takes as many round trips as one content
	}
	return 32
}

// Drop drops those of refs that have had no references since before, with their objects,
// keys and derived contents, and returns their number. A content in a bucket dooms its
// place. Otherwise deleteBlob is called for each dropped content while the write lock is
// held and no row contains the content, so that no commit can refer to bytes that are about
// to be deleted. each is called for every content whose row was deleted, of refs or derived
// from one of them: of several programs that drop a content at the same time, in one.
//
// The rows are deleted durably before the bytes. A crash in between leaves bytes
// without a row, never a row without its bytes.
func (cs Contents) Drop(ctx context.Context, refs []blob.Ref, before time.Time, deleteBlob func(blob.Ref) error,
	each func(blob.Ref)) (n int, err error) {
	for batch := range slices.Chunk(refs, cs.dropBatch()) {
		var gone []dropped
		var count int
		err := cs.db.Update(ctx, "drop contents", func(w *engine.Write) error {
			d := drop{Write: w, before: before.UnixMilli(), now: cs.db.Now()}
			count = 0
			if count, err = d.contents(batch); err != nil {
				return err
			}
			if count > 0 {
				if err := record.NextGeneration(d.Write); err != nil {
					return err
				}
			}
			gone = d.gone
			return record.AddCounts(d.Write, -int64(len(d.gone)), -d.bytes, -d.objects, -d.lookups)
		})
		if err != nil {
			return n, err
		}
		n += count
		for _, c := range gone {
			each(c.ref)
		}
		if err := cs.deleteDropped(ctx, gone, deleteBlob); err != nil {
			return n, err
		}
	}
	return n, nil
}

// deleteDropped calls deleteBlob under the write lock for contents whose rows were
// deleted, unless they have been added again.
func (cs Contents) deleteDropped(ctx context.Context, gone []dropped, deleteBlob func(blob.Ref) error) error {
	if len(gone) == 0 || cs.Placed {
		return nil // a bucket deletes doomed places later
	}
	return cs.Locked(ctx, func(known func(blob.Ref) (bool, error)) error {
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
	*engine.Write
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

var (
	unreferencedAmong = engine.Over("n number, sha256 hash", `SELECT c.id FROM {k} CROSS JOIN content c
		WHERE `+record.HashIs("c.sha256", "k.sha256")+` AND c.unreferenced_since <= $2 AND NOT `+Referenced+" ORDER BY k.n")
	dropDerived = engine.Over("id number", "DELETE FROM derived WHERE source_id IN (SELECT k.id FROM {k}) RETURNING source_id, content_id")
	// aloneAmong selects contents that were derived only, never added, and that nothing
	// refers to.
	aloneAmong = engine.Over("id number", `SELECT DISTINCT c.id FROM {k} CROSS JOIN content c WHERE c.id = k.id AND NOT `+Referenced+`
		AND NOT EXISTS (SELECT 1 FROM object o WHERE o.content_id = c.id)`)

	objectsOfContents = engine.Over("id number", "SELECT "+oldkeys.ObjectColumns+" FROM {k} CROSS JOIN object o WHERE o.content_id = k.id")

	dropKeys = engine.Over("id number", "DELETE FROM lookup "+
		"WHERE object_id IN (SELECT o.id FROM {k} CROSS JOIN object o WHERE o.content_id = k.id)")
	dropObjects  = engine.Over("id number", "DELETE FROM object WHERE content_id IN (SELECT k.id FROM {k})")
	dropContents = engine.Over("id number", "DELETE FROM content WHERE id IN (SELECT k.id FROM {k}) RETURNING id, sha256, size")
	dropReads    = engine.Over("id number", "DELETE FROM content_read WHERE content_id IN (SELECT k.id FROM {k})")
	dropFailures = engine.Over("sha256 hash", "DELETE FROM failure WHERE source IN (SELECT k.sha256 FROM {k})")
)

// contents drops those of the contents that have had no references for long enough, and
// returns their number. What was derived from them is dropped too, unless it has other
// references; if it was once added itself, it is marked as unreferenced instead.
func (d *drop) contents(refs []blob.Ref) (n int, err error) {
	order := make(map[int64]int) // of the dropped contents: each is followed by what was made of it
	defer func() { sorting.Stable(d.gone, func(a, b dropped) int { return order[a.id] - order[b.id] }) }()
	asked := make([][]any, 0, len(refs))
	known := make(map[blob.Ref]bool, len(refs))
	for i, ref := range refs {
		if !known[ref] {
			known[ref] = true
			asked = append(asked, []any{i, ref[:]})
		}
	}
	for {
		ids, err := d.ReadNumbers(unreferencedAmong, asked, d.before)
		if err != nil || len(ids) == 0 {
			return n, err
		}
		for i, id := range ids {
			order[id] = 2 * (n + i)
		}
		n += len(ids)
		made := false
		for len(ids) > 0 { // then what was made of these alone, then what was made of that
			results, err := d.withDerived(ids, order)
			if err != nil {
				return n, err
			}
			made = made || len(results) > 0
			if ids, err = d.ReadNumbers(aloneAmong, engine.Numbers(results)); err != nil {
				return n, err
			}
			// A result that was added itself may be one of the contents to drop.
			if err := releaseUnused(d.Write, d.now, results...); err != nil {
				return n, err
			}
		}
		if !made {
			return n, nil
		}
	}
}

// withDerived deletes contents, and the records of what was made of them, which it returns and
// orders after its sources.
func (d *drop) withDerived(ids []int64, order map[int64]int) (results []int64, err error) {
	if err := d.EachOver(dropDerived, engine.Numbers(ids), nil, func(scan engine.Scan) error {
		var source int64
		var result sql.NullInt64
		err := scan(&source, &result)
		if result.Valid {
			results, order[result.Int64] = append(results, result.Int64), order[source]|1
		}
		return err
	}); err != nil {
		return nil, err
	}
	if err := forgetColds(d.Write, d.now, ids...); err != nil {
		return nil, err
	}
	return results, d.rows(ids)
}

// rows deletes contents with their objects, the keys of these, and recorded failures.
func (d *drop) rows(ids []int64) error {
	list := engine.Numbers(ids)
	n, err := d.packedKeys(list)
	if err != nil {
		return err
	}
	d.lookups += n
	if n, err = d.ExecOver(dropKeys, list); err != nil {
		return err
	}
	d.lookups += n
	if n, err = d.ExecOver(dropObjects, list); err != nil {
		return err
	}
	d.objects += n
	if _, err := d.ExecOver(doomPlaces, list, d.now.UnixMilli()); err != nil {
		return err
	}
	var sums [][]any
	if err := d.EachOver(dropContents, list, nil, func(scan engine.Scan) error {
		var c dropped
		var sum []byte
		var size int64
		if err := scan(&c.id, &sum, &size); err != nil {
			return err
		}
		err := record.ScanRef(sum, &c.ref)
		sums, d.gone = append(sums, []any{c.ref[:]}), append(d.gone, c)
		d.bytes += size
		return err
	}); err != nil {
		return err
	}
	if _, err := d.ExecOver(dropReads, list); err != nil {
		return err
	}
	_, err = d.ExecOver(dropFailures, sums)
	return err
}

// packedKeys drops the packed keys of the objects of contents, and returns their number.
func (d *drop) packedKeys(contents [][]any) (int64, error) {
	if some, err := oldkeys.AnyPacked(d.Write); err != nil || !some {
		return 0, err
	}
	var objects []oldkeys.Object
	if err := d.EachOver(objectsOfContents, contents, nil, func(scan engine.Scan) error {
		o, err := oldkeys.ScanObject(scan)
		objects = append(objects, o)
		return err
	}); err != nil {
		return 0, err
	}
	keys, err := oldkeys.Take(d.Write, objects)
	return int64(len(keys)), err
}

// Locked runs fn while no other process can write to the index. known reports
// whether the index has a content. fn must not write to the index.
func (cs Contents) Locked(ctx context.Context, fn func(known func(blob.Ref) (bool, error)) error) error {
	return cs.db.Update(ctx, "lock", func(w *engine.Write) error {
		return fn(func(ref blob.Ref) (is bool, err error) {
			err = w.Row("SELECT EXISTS (SELECT 1 FROM content WHERE "+record.IsContent+")", []any{ref[:]}, &is)
			return is, err
		})
	})
}

// Has reports whether the index has a content, referenced or not.
func (cs Contents) Has(ctx context.Context, ref blob.Ref) (is bool, err error) {
	err = cs.db.Points.Row(ctx, "SELECT EXISTS (SELECT 1 FROM content WHERE "+record.IsContent+")", []any{ref[:]}, &is)
	return is, cs.db.Fail("look up a content", err)
}

// TrashEnd is the end of the trash that holds content c beyond the time of an argument, or
// null. It looks up the files of each object one by one, and the sum hides tx_id from the
// indexes: a database that has no statistics of the files of a large transaction would else
// walk all of them for each content.
func TrashEnd(arg string) string {
	return `(SELECT max((SELECT max(t.trash_until) FROM trash_file f JOIN tx t ON t.id = f.tx_id + 0
		WHERE f.object_id = o.id AND t.trash_until > ` + arg + `)) FROM object o WHERE o.content_id = c.id)`
}

package stages

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// QuotaError is the error of a commit after which a product would hold more
// bytes than its quota.
type QuotaError struct{ Used, Quota int64 } // bytes; Used with the refused files

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the product would hold %d bytes, and its quota is %d", e.Used, e.Quota)
}

// VisibleObject is an object that is visible in a product.
type VisibleObject struct {
	record.Stored
	Product string
}

var visibleObjects = record.AmongContents("SELECT "+record.ObjectColumns+`, p.name
	FROM content c JOIN object o ON o.content_id = c.id JOIN seen s ON s.object_id = o.id
	JOIN product p ON p.id = s.product_id WHERE `, "c.sha256", "$1", " ORDER BY o.id, p.id")

// Visible calls each for the objects of contents, once for each product in which
// they are visible.
func (ss StageRows) Visible(ctx context.Context, refs []blob.Ref, each func(VisibleObject)) error {
	if len(refs) == 0 {
		return nil
	}
	return ss.db.Fail("look up contents", ss.db.Scans.Each(ctx, true, visibleObjects, []any{record.HashList(refs)},
		func(scan engine.Scan) (bool, error) {
			var o VisibleObject
			if err := record.ScanObject(scan, &o.Stored, &o.Product); err != nil {
				return false, err
			}
			each(o)
			return true, nil
		}))
}

// HasOther reports whether a transaction of a product has an object with the key
// and the kind of o and another content.
func (ss StageRows) HasOther(ctx context.Context, product string, o symfile.Object, ref blob.Ref) (is bool, err error) {
	aliases := o.Aliases()
	if len(aliases) == 0 {
		return false, nil
	}
	const op = "look for another content"
	const other = ` JOIN content c ON c.id = o.content_id AND c.sha256 <> $2
		JOIN seen s ON s.object_id = o.id AND s.tx_id > 0 JOIN product p ON p.id = s.product_id AND p.name = $3 WHERE o.kind = $4 AND `
	id, name := symfile.Fold(aliases[0].ID), symfile.Fold(aliases[0].Name)
	args := []any{id, ref[:], engine.Text(product), o.Kind}
	if err = ss.db.Points.Row(ctx, "SELECT EXISTS (SELECT 1 FROM lookup l JOIN object o ON o.id = l.object_id"+other+
		"l.id = $1 AND l.name = $5)", append(slices.Clone(args), name), &is); err != nil || is {
		return is, ss.db.Fail(op, err)
	}
	objects, err := oldkeys.OfName(ctx, ss.db.Points, id, name)
	for _, object := range objects {
		if err == nil && !is {
			args[0] = object
			err = ss.db.Points.Row(ctx, "SELECT EXISTS (SELECT 1 FROM object o"+other+"o.id = $1)", args, &is)
		}
	}
	return is, ss.db.Fail(op, err)
}

// sameTx is the query of Same.
const sameTx = `SELECT t.id FROM tx t JOIN product p ON p.id = t.product_id
	WHERE t.manifest = $1 AND p.name = $2 AND t.version = $3 AND t.branch = $4 AND t.class = $5
	AND t.deleted_at IS NULL ORDER BY t.id DESC LIMIT 1`

const productBytes = `SELECT coalesce(sum(c.size), 0) FROM content c WHERE c.id IN
	(SELECT o.content_id FROM seen s JOIN object o ON o.id = s.object_id
		WHERE s.product_id = (SELECT id FROM product WHERE name = $1) AND s.tx_id > 0)`

// ProductBytes returns the size of the contents of a product's transactions, each
// content once.
func (ss StageRows) ProductBytes(ctx context.Context, product string) (n int64, err error) {
	err = ss.db.Scans.Row(ctx, productBytes, []any{engine.Text(product)}, &n)
	return n, ss.db.Fail("count the bytes of a product", err)
}

// LabelsOf returns the product and the class of a transaction that has not been
// removed. Otherwise the error is fs.ErrNotExist.
func (ss StageRows) LabelsOf(ctx context.Context, number int64) (product, class string, err error) {
	err = ss.db.Points.Row(ctx, "SELECT p.name, t.class FROM tx t JOIN product p ON p.id = t.product_id "+
		"WHERE t.id = $1 AND t.id > 0 AND t.deleted_at IS NULL", []any{number}, &product, &class)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("build %d: %w", number, fs.ErrNotExist)
	}
	return product, class, ss.db.Fail("look up a build", err)
}

// BeginCommit checks a stage that is to be committed. done means that an equal
// transaction exists, and that the stage is committed.
func (ss StageRows) BeginCommit(c *contents.Commit, tx *record.Tx) (number int64, done bool, err error) {
	s := tx.Stage
	s.Again = false
	var changes int64
	var old, closed sql.NullInt64
	err = c.Row("SELECT changes, tx_id, closed FROM stage WHERE id = $1", []any{s.ID}, &changes, &old, &closed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, false, fmt.Errorf("stage %s: %w", s.ID, fs.ErrNotExist)
	case err != nil:
		return 0, false, err
	case closed.Valid || !s.Collect && changes != s.Changes:
		return 0, false, ErrStageClosed
	case s.Collect && old.Valid:
		var live bool
		if err := c.Row("SELECT EXISTS (SELECT 1 FROM tx WHERE id = $1 AND deleted_at IS NULL)", []any{old.Int64}, &live); err != nil {
			return 0, false, err
		}
		if live {
			c.Extend = old.Int64
			if tx.Entries, err = withoutKnown(c, c.Extend, tx.Entries); err != nil || len(tx.Entries) > 0 {
				return 0, false, err
			}
			return c.Extend, true, nil
		}
		return 0, false, nil
	case s.Collect || s.Anew:
		return 0, false, nil
	}
	if number, s.Again, err = ss.Same(c, tx); err != nil || !s.Again {
		return 0, false, err
	}
	if len(s.Needs) > 0 {
		if err := removals.PutNeeds(c.Write, number, s.Needs); err != nil {
			return 0, false, err
		}
		if err := record.NextGeneration(c.Write); err != nil {
			return 0, false, err
		}
	}
	return number, true, closeStage(c, *tx, number)
}

// Same finds the newest transaction with equal labels and manifest that has not been
// removed. One without a manifest equals none.
func (StageRows) Same(c *contents.Commit, tx *record.Tx) (number int64, found bool, err error) {
	if tx.Manifest == (blob.Ref{}) {
		return 0, false, nil
	}
	err = c.Row(sameTx, []any{tx.Manifest[:], engine.Text(tx.Product), engine.Text(tx.Version),
		engine.Text(tx.Branch), engine.Text(tx.Class)}, &number)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return number, err == nil, err
}

// EndCommit records the transaction of a stage.
func (ss StageRows) EndCommit(c *contents.Commit, tx record.Tx, number int64) error {
	if q := tx.Stage.Quota; q > 0 {
		var used int64
		if err := c.Row(productBytes, []any{engine.Text(tx.Product)}, &used); err != nil {
			return err
		}
		if used > q {
			return &QuotaError{used, q}
		}
	}
	if err := removals.PutNeeds(c.Write, number, tx.Stage.Needs); err != nil {
		return err
	}
	if tx.Stage.Collect {
		_, err := c.Exec("UPDATE stage SET tx_id = $2, used = $3 WHERE id = $1", tx.Stage.ID, number, c.Now.UnixMilli())
		return err
	}
	return closeStage(c, tx, number)
}

func closeStage(c *contents.Commit, tx record.Tx, number int64) error {
	_, err := c.Exec("UPDATE stage SET tx_id = $2, closed = $3, manifest = $4, result = $5, staged = 0 WHERE id = $1",
		tx.Stage.ID, number, c.Now.UnixMilli(), tx.Manifest[:], engine.Text(tx.Stage.Result(number, tx.Stage.Again)))
	return err
}

// filesOfTx hides tx_id from the indexes, as contents.TrashEnd does.
var filesOfTx = record.AmongContents("SELECT "+record.PathColumn+", c.sha256, "+record.NameColumn+", o.kind, "+record.DebugIDColumn+`,
	o.hash FROM content c JOIN object o ON o.content_id = c.id JOIN tx_file f ON f.object_id = o.id AND f.tx_id + 0 = $1
	WHERE `, "c.sha256", "$2", "")

// withoutKnown returns the entries that a transaction does not have yet.
func withoutKnown(c *contents.Commit, number int64, entries []record.Entry) ([]record.Entry, error) {
	type file struct {
		path, name string
		ref        blob.Ref
		kind       symfile.Kind
		id, hash   string // of files without recognizable format, the ids that clients claim
	}
	has := make(map[file]bool)
	if err := c.Each(filesOfTx, []any{number, record.HashList(contents.Distinct(entries))}, func(scan engine.Scan) error {
		var f file
		var sum []byte
		if err := scan(&f.path, &sum, &f.name, &f.kind, &f.id, &f.hash); err != nil {
			return err
		}
		err := record.ScanRef(sum, &f.ref)
		has[f] = true
		return err
	}); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e record.Entry) bool {
		return has[file{engine.Text(e.Path), e.Object.Name, e.Ref, e.Object.Kind, e.Object.DebugID.Breakpad(), e.Object.Hash}]
	}), nil
}

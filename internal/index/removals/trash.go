package removals

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Trash is the part of the index for removed transactions: those whose files are
// still held, and what is known of the others.
//
// A content that only transactions in the trash hold is unreferenced since the
// latest end of these, so that programs that know nothing of the trash keep it too.
type Trash struct {
	db       *engine.Database
	contents contents.Contents
}

// NewTrash returns the trash of an index in a database with these contents.
func NewTrash(db *engine.Database, of contents.Contents) Trash { return Trash{db, of} }

// Removal says why a transaction is removed.
type Removal struct {
	Number int64
	// Until is the time until which it can be restored; zero: it cannot.
	Until  time.Time
	At     time.Time // zero means now
	Who    string
	Class  string // by which it was judged
	Reason string // one word
	Detail string
	Plan   string // the number of the plan, or empty
}

// FileColumnsOfTx are the columns that a file of a transaction has in the trash too.
const FileColumnsOfTx = "tx_id, seq, object_id, path, archive, mtime, by_path, own_mtime, dir"

// Remove removes a live transaction, into the trash if r.Until is set, and returns
// it. If a hold protects it, the error is an *ErrHeld; if there is no such
// transaction, it is fs.ErrNotExist.
func (ts Trash) Remove(ctx context.Context, r Removal) (t record.Transaction, err error) {
	if r.At.IsZero() {
		r.At = ts.db.Now()
	}
	err = ts.db.Update(ctx, "remove", func(w *engine.Write) (err error) {
		t, err = removeTx(ctx, w, r)
		return err
	})
	return t, err
}

// removeTx removes a live transaction unless it is held.
func removeTx(ctx context.Context, w *engine.Write, r Removal) (t record.Transaction, err error) {
	if t, err = liveTx(w, r.Number); err != nil {
		return t, err
	}
	if err := heldBy(w, r.Number, r.At); err != nil {
		return t, err
	}
	if !r.Until.IsZero() {
		if err := toTrash(w, r.Number, r.Until); err != nil {
			return t, err
		}
	}
	if err := tombstones(w, r.Number); err != nil {
		return t, err
	}
	if err := contents.RemoveFilesOf(w, ctx, r.Number, r.At); err != nil {
		return t, err
	}
	if t.Collecting {
		if err := letGo(w, r.Number); err != nil {
			return t, err
		}
	}
	t.Removed, t.TrashUntil = r.At.UTC().Truncate(time.Millisecond), time.Time{}
	if !r.Until.IsZero() {
		t.TrashUntil = r.Until.UTC().Truncate(time.Millisecond)
	}
	_, err = w.Exec(`INSERT INTO removal (tx_id, at, who, class, reason, detail, plan) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (tx_id)
			DO UPDATE SET at = excluded.at, who = excluded.who, class = excluded.class,
			reason = excluded.reason, detail = excluded.detail, plan = excluded.plan`,
		r.Number, r.At.UnixMilli(), engine.Text(r.Who), engine.Text(r.Class), engine.Text(r.Reason), engine.Text(r.Detail), engine.Text(r.Plan))
	return t, err
}

// letGo parts a transaction from the stage that collects for it: what the stage gets
// next is another transaction, and it knows none of the files so far any more.
func letGo(w *engine.Write, number int64) error {
	for _, text := range []string{
		"UPDATE tx SET collecting = NULL WHERE id = $1",
		"DELETE FROM stage_file WHERE stage_id IN (SELECT s.id FROM stage s WHERE s.tx_id = $1 AND s.closed IS NULL)",
		"UPDATE stage SET tx_id = NULL, changes = changes + 1, files = 0, bytes = 0 WHERE tx_id = $1 AND closed IS NULL",
	} {
		if _, err := w.Exec(text, number); err != nil {
			return err
		}
	}
	return nil
}

// toTrash keeps the list of files of a live transaction until a time.
func toTrash(w *engine.Write, number int64, until time.Time) error {
	if _, err := w.Exec("INSERT INTO trash_file ("+FileColumnsOfTx+") SELECT "+FileColumnsOfTx+" FROM tx_file WHERE tx_id = $1",
		number); err != nil {
		return err
	}
	_, err := w.Exec("UPDATE tx SET trash_until = $2 WHERE id = $1", number, until.UnixMilli())
	return err
}

// tombstones records the files of a live transaction that its removal hides from
// its product. The sum in the query is explained at contents.TrashEnd.
func tombstones(w *engine.Write, number int64) error {
	if _, err := w.Exec(`INSERT INTO removed_file (tx_id, no, name, folded, kind, id, size, sha256)
		SELECT f.tx_id, f.seq, `+record.NameColumn+`, o.name_fold, o.kind,
		  CASE WHEN o.build_id <> '' THEN `+record.BuildIDColumn+` WHEN o.kind IN ($2, $3)
			OR o.debug_id = '' THEN `+record.CodeIDColumn+` ELSE `+record.DebugIDColumn+` END, c.size, c.sha256
		FROM tx_file f JOIN tx t ON t.id = f.tx_id JOIN object o ON o.id = f.object_id JOIN content c ON c.id = o.content_id
		WHERE f.tx_id = $1 AND (SELECT 1 FROM tx_file g JOIN tx u ON u.id = g.tx_id + 0
		WHERE g.object_id = f.object_id AND u.product_id = t.product_id AND (u.id <> t.id OR g.seq < f.seq) LIMIT 1) IS NULL`,
		number, symfile.PE, symfile.DBG); err != nil {
		return err
	}
	if _, err := w.Exec(`INSERT INTO removed_key (id, tx_id, no) SELECT DISTINCT l.id, f.tx_id, f.seq
		FROM removed_file r JOIN tx_file f ON f.tx_id = r.tx_id AND f.seq = r.no JOIN lookup l ON l.object_id = f.object_id
		WHERE r.tx_id = $1`, number); err != nil {
		return err
	}
	rows, err := packedTombstones(w, number)
	if err != nil {
		return err
	}
	// A file may have another name than its object: people know that name too.
	if err := w.Each("SELECT r.no, r.folded, "+record.PathColumn+" FROM removed_file r JOIN tx_file f ON f.tx_id = r.tx_id AND f.seq = r.no "+
		"JOIN object o ON o.id = f.object_id WHERE r.tx_id = $1", []any{number}, func(scan engine.Scan) error {
		var no int64
		var name, path string
		if err := scan(&no, &name, &path); err != nil {
			return err
		}
		if base := baseKey(symfile.BaseName(w.Given(path))); base != w.Given(name) && base != "" && len(base) <= longestName {
			rows = append(rows, []any{base, number, no})
		}
		return nil
	}); err != nil {
		return err
	}
	_, err = w.Many("INSERT INTO removed_key (id, tx_id, no) VALUES ($1, $2, $3) ON CONFLICT (id, tx_id, no) DO NOTHING", rows)
	return err
}

// packedTombstones returns the rows of removed_key for the packed keys of removed files.
func packedTombstones(w *engine.Write, number int64) (rows [][]any, err error) {
	if some, err := oldkeys.AnyPacked(w); err != nil || !some {
		return nil, err
	}
	files := make(map[int64][]int64) // by object
	var objects []oldkeys.Object
	if err := w.Each("SELECT "+oldkeys.ObjectColumns+`, r.no FROM removed_file r JOIN tx_file f ON f.tx_id = r.tx_id AND f.seq = r.no
		JOIN object o ON o.id = f.object_id WHERE r.tx_id = $1`, []any{number}, func(scan engine.Scan) error {
		var no int64
		o, err := oldkeys.ScanObject(scan, &no)
		if files[o.ID] == nil {
			objects = append(objects, o)
		}
		files[o.ID] = append(files[o.ID], no)
		return err
	}); err != nil {
		return nil, err
	}
	keys, err := oldkeys.Held(w, objects)
	for _, k := range keys {
		for _, no := range files[k.Object] {
			rows = append(rows, []any{k.ID, number, no})
		}
	}
	return rows, err
}

// replaced are runs of what stands for bytes that are not UTF-8.
var replaced = regexp.MustCompile("\uFFFD+")

// baseKey returns the key for the name of a file, as it was added or as somebody asks for it. Folding puts a character
// for each byte that is not UTF-8, and engine.Text, which paths have gone through, puts one for several.
func baseKey(name string) string {
	return replaced.ReplaceAllLiteralString(engine.Text(symfile.Fold(name)), "\uFFFD")
}

// longestName limits the names of removed files that differ from those of their
// objects, in bytes.
const longestName = 255

// forgetRemoval deletes what is known of the removal of a transaction.
func forgetRemoval(w *engine.Write, number int64, also ...string) error {
	for _, text := range append([]string{"DELETE FROM removed_key WHERE tx_id = $1", "DELETE FROM removed_file WHERE tx_id = $1"}, also...) {
		if _, err := w.Exec(text, number); err != nil {
			return err
		}
	}
	return nil
}

// NotInTrashError is the error for a removed transaction that cannot be restored.
type NotInTrashError struct {
	Number  int64
	Removed time.Time // zero: it was not removed
	Ended   time.Time // the end of its trash; zero: it was removed without one, or the trash was emptied
	Freed   int64     // the number of its files that an older version has freed
}

// Refusal marks the error as no fault of the index.
func (e *NotInTrashError) Refusal() {}

func (e *NotInTrashError) Error() string {
	switch {
	case e.Removed.IsZero():
		return fmt.Sprintf("build %d was not removed", e.Number)
	case e.Freed > 0:
		return fmt.Sprintf("build %d cannot be restored: an older version of symdepot has freed %d of its files; push the build "+
			"again", e.Number, e.Freed)
	case e.Ended.IsZero():
		return fmt.Sprintf("build %d was removed on %s and is not in the trash: its time there is over or it was purged, "+
			"and its list of files is gone; push the build again", e.Number, e.Removed.Format(time.DateOnly))
	}
	return fmt.Sprintf("build %d cannot be restored any more: its time in the trash ended on %s UTC; push the build again",
		e.Number, e.Ended.UTC().Format(time.DateTime))
}

// makeAllVisible makes the objects of a transaction visible through the newest
// transaction.
var makeAllVisible = `INSERT INTO seen (object_id, product_id, tx_id) SELECT DISTINCT f.object_id, t.product_id, t.id
	FROM tx_file f JOIN tx t ON t.id = f.tx_id
	WHERE f.tx_id = $1 ON CONFLICT (object_id, product_id) DO UPDATE SET tx_id = ` + engine.Larger("seen.tx_id", "excluded.tx_id")

// Undo restores a transaction from the trash with all its files, and returns it. If
// it is not in the trash, the error is a *NotInTrashError; if a transaction of the
// same origin was imported meanwhile, it is ErrImported.
func (ts Trash) Undo(ctx context.Context, number int64) (t record.Transaction, err error) {
	now := ts.db.Now()
	err = ts.db.Update(ctx, "restore", func(w *engine.Write) (err error) {
		if t, err = txOf(w, number); err != nil {
			return err
		}
		if t.Removed.IsZero() || !t.TrashUntil.After(now) {
			return &NotInTrashError{Number: number, Removed: t.Removed, Ended: t.TrashUntil}
		}
		c := contents.Commit{Write: w, Now: now, Placed: ts.contents.Placed}
		if t.Origin != nil {
			if err := contents.CheckOrigin(c.Write, *t.Origin); err != nil {
				return err
			}
		}
		var freed int64
		if err := w.Row("SELECT count(*) FROM trash_file f "+
			"WHERE f.tx_id = $1 AND NOT EXISTS (SELECT 1 FROM object o WHERE o.id = f.object_id)", []any{number}, &freed); err != nil {
			return err
		}
		if freed > 0 {
			return &NotInTrashError{Number: number, Removed: t.Removed, Ended: t.TrashUntil, Freed: freed}
		}
		if err := restore(&c, number); err != nil {
			return err
		}
		t.Removed, t.TrashUntil = time.Time{}, time.Time{}
		return nil
	})
	return t, err
}

// restore makes a transaction in the trash live again.
func restore(c *contents.Commit, number int64) error {
	for _, text := range []string{
		"INSERT INTO tx_file (" + FileColumnsOfTx + ") SELECT " + FileColumnsOfTx + " FROM trash_file WHERE tx_id = $1",
		"DELETE FROM trash_file WHERE tx_id = $1",
		"UPDATE tx SET deleted_at = NULL, trash_until = NULL WHERE id = $1",
		makeAllVisible,
		"UPDATE content SET unreferenced_since = NULL " +
			"WHERE unreferenced_since IS NOT NULL AND id IN (SELECT o.content_id FROM tx_file f JOIN object o ON o.id = f.object_id " +
			"WHERE f.tx_id = $1)",
	} {
		if _, err := c.Exec(text, number); err != nil {
			return err
		}
	}
	if err := forgetRemoval(c.Write, number, "DELETE FROM removal WHERE tx_id = $1"); err != nil {
		return err
	}
	objects, err := c.IDs("SELECT DISTINCT object_id FROM tx_file WHERE tx_id = $1", number)
	if err != nil {
		return err
	}
	if err := c.ReplaceCached(objects); err != nil {
		return err
	}
	c.Late = objects // filters read the files of new transactions only
	if err := c.NoteLate(); err != nil {
		return err
	}
	return record.NextGeneration(c.Write)
}

var (
	giveUpContents = engine.Over("id number", "UPDATE content AS c SET unreferenced_since = coalesce("+contents.TrashEnd("$2")+
		", 0) WHERE c.unreferenced_since IS NOT NULL AND c.id IN (SELECT k.id FROM {k})")
	givenUp = engine.Over("id number", `SELECT c.sha256 FROM content c
		WHERE (c.unreferenced_since = 0 OR EXISTS (SELECT 1 FROM cold k WHERE k.base_id = c.id)
		AND NOT EXISTS (SELECT 1 FROM object o JOIN seen s ON s.object_id = o.id WHERE o.content_id = c.id)) AND c.id IN (SELECT k.id FROM {k})`)
)

// giveUp marks the contents that only one transaction in the trash holds as
// unreferenced for as long as can be, so that no grace period keeps them, and
// forgets its files. It returns these contents, and those that are kept only because
// cold contents are built from them.
func giveUp(w *engine.Write, number int64, now time.Time) (refs []blob.Ref, err error) {
	if _, err := w.Exec("UPDATE tx SET trash_until = NULL WHERE id = $1", number); err != nil {
		return nil, err
	}
	held, err := w.IDs("SELECT DISTINCT o.content_id FROM trash_file f JOIN object o ON o.id = f.object_id WHERE f.tx_id = $1", number)
	if err != nil {
		return nil, err
	}
	for batch := range slices.Chunk(engine.Numbers(held), engine.BatchRows) {
		if _, err := w.ExecOver(giveUpContents, batch, now.UnixMilli()); err != nil {
			return nil, err
		}
		if err := w.EachOver(givenUp, batch, nil, func(scan engine.Scan) error {
			var sum []byte
			var ref blob.Ref
			if err := scan(&sum); err != nil {
				return err
			}
			err := record.ScanRef(sum, &ref)
			refs = append(refs, ref)
			return err
		}); err != nil {
			return nil, err
		}
	}
	if _, err = w.Exec("DELETE FROM trash_file WHERE tx_id = $1", number); err != nil {
		return nil, err
	}
	return refs, contents.DropDirs(w, number)
}

// Empty gives up the transactions whose trash ends until a time, and returns their
// number. The next garbage collection frees their contents, whatever its grace.
func (ts Trash) Empty(ctx context.Context, until time.Time) (n int, err error) {
	for {
		var list []int64
		if err := ts.db.Scans.Each(ctx, true, "SELECT DISTINCT f.tx_id FROM trash_file f JOIN tx t ON t.id = f.tx_id "+
			"WHERE t.trash_until IS NULL OR t.trash_until <= $1 ORDER BY f.tx_id LIMIT 100",
			[]any{until.UnixMilli()}, func(scan engine.Scan) (bool, error) {
				var number int64
				err := scan(&number)
				list = append(list, number)
				return true, err
			}); err != nil {
			return n, ts.db.Fail("empty the trash", err)
		}
		if len(list) == 0 {
			return n, nil
		}
		if err := ts.GiveUp(ctx, list, until); err != nil {
			return n, err
		}
		n += len(list)
	}
}

// GiveUp gives up those of some transactions that are in the trash and whose trash
// ends until a time.
func (ts Trash) GiveUp(ctx context.Context, numbers []int64, until time.Time) error {
	for _, number := range numbers {
		if err := ts.db.Update(ctx, "empty the trash", func(w *engine.Write) error {
			t, err := txOf(w, number)
			if err != nil || t.Removed.IsZero() || t.TrashUntil.After(until) {
				return err // restored meanwhile
			}
			_, err = giveUp(w, number, ts.db.Now())
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// Ended returns the contents that Empty would have given up at a time: those that only
// transactions hold back that were removed by then, and whose trash ends until a time.
func (ts Trash) Ended(ctx context.Context, at, until time.Time) (map[blob.Ref]bool, error) {
	refs := make(map[blob.Ref]bool)
	err := ts.db.Scans.Each(ctx, true, `SELECT DISTINCT c.sha256 FROM trash_file f JOIN tx t ON t.id = f.tx_id
		JOIN object o ON o.id = f.object_id JOIN content c ON c.id = o.content_id
		WHERE c.unreferenced_since IS NOT NULL AND (t.trash_until IS NULL OR t.trash_until <= $1) AND t.deleted_at <= $2
		  AND NOT EXISTS (SELECT 1 FROM object p JOIN trash_file g ON g.object_id = p.id JOIN tx u ON u.id = g.tx_id
		    WHERE p.content_id = c.id AND (u.trash_until > $1 OR u.deleted_at > $2))`,
		[]any{until.UnixMilli(), at.UnixMilli()}, func(scan engine.Scan) (bool, error) {
			var sum []byte
			var ref blob.Ref
			if err := scan(&sum); err != nil {
				return false, err
			}
			err := record.ScanRef(sum, &ref)
			refs[ref] = true
			return true, err
		})
	return refs, ts.db.Fail("read the trash", err)
}

// Purge removes a transaction that is live or in the trash, without a trash. It
// returns the transaction and the contents that nothing needs any more, which
// DropContents drops whatever the grace. Errors are those of Remove; a transaction
// whose files are not known any more is a *NotInTrashError.
func (ts Trash) Purge(ctx context.Context, r Removal) (t record.Transaction, refs []blob.Ref, err error) {
	if r.At.IsZero() {
		r.At = ts.db.Now()
	}
	r.Until = r.At // so that its files are known below
	err = ts.db.Update(ctx, "purge", func(w *engine.Write) (err error) {
		if t, err = txOf(w, r.Number); err != nil {
			return err
		}
		if t.Removed.IsZero() {
			if t, err = removeTx(ctx, w, r); err != nil {
				return err
			}
		} else {
			var some bool
			if err := w.Row("SELECT EXISTS (SELECT 1 FROM trash_file WHERE tx_id = $1)", []any{r.Number}, &some); err != nil {
				return err
			}
			if !some {
				return &NotInTrashError{Number: r.Number, Removed: t.Removed, Ended: t.TrashUntil}
			}
			if _, err := w.Exec("UPDATE removal SET at = $2, who = $3, reason = $4, detail = $5 WHERE tx_id = $1",
				r.Number, r.At.UnixMilli(), engine.Text(r.Who), engine.Text(r.Reason), engine.Text(r.Detail)); err != nil {
				return err
			}
			if err := record.NextGeneration(w); err != nil {
				return err
			}
		}
		refs, err = giveUp(w, r.Number, r.At)
		t.TrashUntil = time.Time{}
		return err
	})
	return t, refs, err
}

// Trashed is a transaction in the trash.
type Trashed struct {
	record.Transaction
	// Contents are those that it alone or with others in the trash holds back, and
	// Stored is the space of these and of what was made from them.
	Contents, Stored int64
}

// List returns the transactions that are in the trash at a time, by number, and the
// number and the space of the contents that all of them hold back together.
func (ts Trash) List(ctx context.Context, now time.Time) (list []Trashed, held, stored int64, err error) {
	err = ts.db.Snapshot(ctx, func(r engine.Reader) error {
		list = nil
		if err := r.Each(ctx, true, record.TxSelect+" WHERE t.trash_until > $1 AND t.deleted_at IS NOT NULL ORDER BY t.id",
			[]any{now.UnixMilli()}, func(scan engine.Scan) (bool, error) {
				t, err := record.ScanTx(scan)
				list = append(list, Trashed{Transaction: t})
				return true, err
			}); err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			if err := r.Row(ctx, "SELECT count(*), coalesce(sum("+contents.StoredWithDerived("$2")+`), 0) FROM content c
				WHERE c.unreferenced_since IS NOT NULL AND c.id IN
				(SELECT o.content_id FROM trash_file f JOIN object o ON o.id = f.object_id WHERE f.tx_id = $1)`,
				[]any{list[i].Number, ts.contents.Block}, &list[i].Contents, &list[i].Stored); err != nil {
				return err
			}
		}
		return r.Row(ctx, "SELECT count(*), coalesce(sum("+contents.StoredWithDerived("$2")+"), 0) FROM content c "+
			"WHERE c.unreferenced_since > $1", []any{now.UnixMilli(), ts.contents.Block}, &held, &stored)
	})
	return list, held, stored, ts.db.Fail("list the trash", err)
}

// RemovedFile is a file that a removal hid.
type RemovedFile struct {
	Name string
	Kind symfile.Kind
	ID   string // for people
	record.Content
	Transaction record.Transaction
	Removal     Removal
}

const removedSelect = `SELECT DISTINCT r.tx_id, r.no, r.name, r.kind, r.id, r.size, r.sha256 FROM removed_file r`

// Find returns the removed files in the scope that match a query, the latest
// removals first, at most limit.
func (ts Trash) Find(ctx context.Context, scope record.Scope, q record.Query, limit int) ([]RemovedFile, error) {
	type place struct{ tx, no int64 }
	var list []RemovedFile
	known := make(map[place]bool)
	collect := func(from, cond string, match func(string) bool, args ...any) error {
		where, args := scope.Where("t.product_id", args)
		return ts.db.Scans.Each(ctx, false, removedSelect+from+" JOIN tx t ON t.id = r.tx_id WHERE "+cond+where+" "+
			"ORDER BY r.tx_id DESC, r.no", args,
			func(scan engine.Scan) (bool, error) {
				var f RemovedFile
				var no int64
				var sum []byte
				if err := scan(&f.Removal.Number, &no, &f.Name, &f.Kind, &f.ID, &f.Size, &sum); err != nil {
					return false, err
				}
				f.Name = ts.db.Given(f.Name)
				p := place{f.Removal.Number, no}
				if known[p] || match != nil && !match(symfile.Fold(f.Name)) {
					return true, nil
				}
				known[p] = true
				err := record.ScanRef(sum, &f.Ref)
				list = append(list, f)
				return limit <= 0 || len(list) < limit, err
			})
	}
	err := func() error {
		for _, id := range q.IDs {
			if err := collect(" JOIN removed_key k ON k.tx_id = r.tx_id AND k.no = r.no", "k.id = $1", nil, id); err != nil {
				return err
			}
		}
		if q.Prefix != "" {
			if err := collect(" JOIN removed_key k ON k.tx_id = r.tx_id AND k.no = r.no", "k.id >= $1 AND k.id < $2",
				nil, q.Prefix, record.PrefixEnd(q.Prefix)); err != nil {
				return err
			}
		}
		if strings.ContainsAny(q.Name, "*?") {
			p := record.LiteralPrefix(q.Name, "*?")
			return collect("", "r.folded >= $1 AND r.folded < $2",
				func(name string) bool { return glob.Match(q.Name, name) }, p, record.PrefixEnd(p))
		}
		if q.Name == "" {
			return nil
		}
		if err := collect("", "r.folded = $1", nil, q.Name); err != nil {
			return err
		}
		return collect(" JOIN removed_key k ON k.tx_id = r.tx_id AND k.no = r.no", "k.id = $1", nil, baseKey(q.Name))
	}()
	if err == nil {
		err = ts.complete(ctx, list)
	}
	sorting.Stable(list, func(a, b RemovedFile) int { return b.Removal.At.Compare(a.Removal.At) })
	return list, ts.db.Fail("find removed files", err)
}

// complete reads the removals of files.
func (ts Trash) complete(ctx context.Context, list []RemovedFile) error {
	type removed struct {
		tx  record.Transaction
		why Removal
	}
	known := make(map[int64]removed)
	for i := range list {
		number := list[i].Removal.Number
		o, ok := known[number]
		if !ok {
			var err error
			if o.tx, err = record.ShowTx(ctx, ts.db, number); err != nil {
				return err
			}
			if o.why, err = ts.Why(ctx, number); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			o.why.Number, o.why.Until = number, o.tx.TrashUntil
			known[number] = o
		}
		list[i].Transaction, list[i].Removal = o.tx, o.why
	}
	return nil
}

// Why returns who removed a transaction, and why. If that is not known, the error is
// fs.ErrNotExist.
func (ts Trash) Why(ctx context.Context, number int64) (r Removal, err error) {
	var at int64
	err = ts.db.Points.Row(ctx, "SELECT tx_id, at, who, class, reason, detail, plan FROM removal WHERE tx_id = $1", []any{number},
		&r.Number, &at, &r.Who, &r.Class, &r.Reason, &r.Detail, &r.Plan)
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	r.At = time.UnixMilli(at).UTC()
	return r, ts.db.Fail("look up a removal", err)
}

// Forget deletes the names and ids of the files of removals before a time, and
// returns the number of these removals.
func (ts Trash) Forget(ctx context.Context, before time.Time) (n int, err error) {
	for {
		var list []int64
		err := ts.db.Update(ctx, "forget removed files", func(w *engine.Write) (err error) {
			list, err = w.IDs("SELECT DISTINCT r.tx_id FROM removed_file r JOIN removal v ON v.tx_id = r.tx_id WHERE v.at < $1 LIMIT 10",
				before.UnixMilli())
			for _, number := range list {
				if err == nil {
					err = forgetRemoval(w, number)
				}
			}
			return err
		})
		if n += len(list); err != nil || len(list) == 0 {
			return n, err
		}
	}
}

// Drop drops contents without references; see Contents.Drop.
func (ts Trash) Drop(ctx context.Context, refs []blob.Ref, before time.Time, deleteBlob func(blob.Ref) error,
	each func(blob.Ref)) (n int, err error) {
	return ts.contents.Drop(ctx, refs, before, deleteBlob, each)
}

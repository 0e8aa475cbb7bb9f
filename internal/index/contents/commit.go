package contents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Stage is what a commit does with the stage of a transaction.
type Stage interface {
	// BeginCommit checks the stage before anything is written. done means that there is nothing to
	// write, because an equal transaction has the number.
	BeginCommit(c *Commit, tx *record.Tx) (number int64, done bool, err error)
	// Same finds the newest transaction with equal labels and manifest that has not been removed.
	Same(c *Commit, tx *record.Tx) (number int64, found bool, err error)
	// EndCommit records the transaction of the stage.
	EndCommit(c *Commit, tx record.Tx, number int64) error
}

// Commit adds a transaction and returns its number. stage is asked if tx has a Stage or Again. It is durable and atomic:
// all objects become visible together, or the index stays unchanged. Cached
// files with different bytes under the same keys are evicted, because added
// files take precedence over downloaded ones.
//
// check, if not nil, is called with the distinct contents of the transaction
// before anything is written. The write lock is held meanwhile, so that the
// collector cannot run: the depot checks that the bytes exist. An error of check
// cancels the transaction. check must not write to the index. It is not called
// for contents in a bucket, because the index itself knows their uploads: the error
// for a missing upload is ErrNotUploaded.
func (cs Contents) Commit(ctx context.Context, tx record.Tx, stage Stage,
	check func(ctx context.Context, refs []blob.Ref) error) (number int64, err error) {
	if err := validate(tx.Entries); err != nil {
		return 0, cs.db.Fail("commit", err)
	}
	if tx.Time.IsZero() {
		tx.Time = cs.db.Now()
	}
	err = cs.db.Update(ctx, "commit", func(w *engine.Write) (err error) {
		if number, err = cs.commit(ctx, w, tx, stage, check); err == nil && tx.Also != nil {
			err = tx.Also(w, number)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return number, nil
}

// commit is Commit in a write.
func (cs Contents) commit(ctx context.Context, w *engine.Write, tx record.Tx, stage Stage,
	check func(ctx context.Context, refs []blob.Ref) error) (number int64, err error) {
	if check != nil && !cs.Placed {
		if err := check(ctx, Distinct(tx.Entries)); err != nil {
			return 0, err
		}
	}
	c := Commit{Write: w, Now: cs.db.Now(), Placed: cs.Placed}
	if tx.Stage != nil {
		given := tx.Entries
		number, done, err := stage.BeginCommit(&c, &tx)
		if err != nil {
			return 0, err
		}
		if done {
			return number, c.replaceLost(given)
		}
		if err := c.replaceLost(without(given, tx.Entries)); err != nil {
			return 0, err
		}
	}
	if tx.Again != nil {
		if number, *tx.Again, err = stage.Same(&c, &tx); err != nil {
			return 0, err
		}
		if *tx.Again {
			return number, c.replaceLost(tx.Entries)
		}
	}
	if number, err = c.header(tx); err != nil {
		return 0, err
	}
	if err := c.files(ctx, tx.Entries); err != nil {
		return 0, err
	}
	if tx.Stage != nil {
		if err := stage.EndCommit(&c, tx, number); err != nil {
			return 0, err
		}
	}
	return number, c.count()
}

// replaceLost gives the contents of files that a transaction has already the places of uploads
// that are done: in a bucket, a file is uploaded again if its object is lost.
func (c *Commit) replaceLost(entries []record.Entry) error {
	if !c.Placed {
		return nil
	}
	for some := range slices.Chunk(entries, engine.BatchRows) {
		list := make([]record.Content, len(some))
		for i, e := range some {
			list[i] = record.Content{Ref: e.Ref, Size: e.Size}
		}
		if _, err := c.storeContents(list); err != nil {
			return err
		}
	}
	return nil
}

// without returns the entries of a list whose contents those of another one do not have.
func without(list, other []record.Entry) []record.Entry {
	if len(list) == len(other) {
		return nil
	}
	has := make(map[blob.Ref]bool, len(other))
	for i := range other {
		has[other[i].Ref] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(e record.Entry) bool { return has[e.Ref] })
}

// validate rejects entries whose rows no lookup could find.
func validate(entries []record.Entry) error {
	if len(entries) == 0 {
		return errors.New("the build has no files")
	}
	for _, e := range entries {
		switch {
		case e.Object.Name == "" || e.Object.Kind == symfile.KindUnknown || e.Size < 0:
			return fmt.Errorf("%s: the object has no name, kind or size", e.Path)
		case len(e.Aliases) == 0:
			return fmt.Errorf("%s: the object has no key", e.Path)
		}
		for _, a := range e.Aliases {
			if a.ID == "" || a.Role == 0 {
				return fmt.Errorf("%s: a key has no id or no role", e.Path)
			}
		}
	}
	return nil
}

// Distinct returns the contents of entries, each once, in the order of the entries.
func Distinct(entries []record.Entry) []blob.Ref {
	seen := make(map[blob.Ref]bool, len(entries))
	var refs []blob.Ref
	for _, e := range entries {
		if !seen[e.Ref] {
			seen[e.Ref] = true
			refs = append(refs, e.Ref)
		}
	}
	return refs
}

// Commit is the state of a running Commit.
type Commit struct {
	*engine.Write
	Now            time.Time
	number         int64
	product        int64
	contents       int64 // number of new contents; the next three count new rows too
	bytes          int64
	objects, looks int64
	Late           []int64 // known objects that got new keys, or that a download or an earlier transaction makes visible in a further product
	next           int64   // id of the next new object; 0: not read yet
	first          int64   // its value at the begin of the transaction
	cacheEmpty     *bool   // there are no cached files; nil: not read yet
	Placed         bool    // see Options
	Extend         int64   // the transaction that gets more files; 0: a new one
	seq            int     // number of its files before
	compact        bool    // rows are written short; read with next
	lastDir        int64   // the highest number of a folder of the transaction; -1: not read yet
	unpack         bool    // the keys of known objects become rows: downloaded files have no packed keys
}

// header assigns the number and writes the transaction's own row.
func (c *Commit) header(tx record.Tx) (int64, error) {
	if c.Extend != 0 {
		return c.Extend, c.append(tx)
	}
	if err := c.Row("UPDATE state SET last_tx = last_tx + 1, generation = generation + 1 WHERE one = 1 RETURNING last_tx",
		nil, &c.number); err != nil {
		return 0, err
	}
	product, err := productID(c.Write, tx.Product)
	if err != nil {
		return 0, err
	}
	c.product = product
	var bytes int64
	for _, e := range tx.Entries {
		bytes += e.Size
	}
	var store, onumber, otime any
	if o := tx.Origin; o != nil {
		if err := CheckOrigin(c.Write, *o); err != nil {
			return 0, err
		}
		store, onumber, otime = engine.Text(o.Store), engine.Text(o.Number), engine.Millis(o.Time)
	}
	var build, labels, manifest, collecting any
	if tx.Build != "" {
		build = engine.Text(tx.Build)
	}
	if len(tx.Labels) > 0 {
		b, err := json.Marshal(tx.Labels)
		if err != nil {
			return 0, err
		}
		labels = engine.Text(string(b))
	}
	if tx.Manifest != (blob.Ref{}) {
		manifest = tx.Manifest[:]
	}
	if tx.Stage != nil && tx.Stage.Collect {
		collecting = 1
	}
	_, err = c.Exec(`INSERT INTO tx (id, kind, product_id, version, comment, who, host, tool, time, files, bytes,
		origin_store, origin_number, origin_time,
		branch, class, build, labels, manifest, arrived, collecting)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)`,
		c.number, engine.Text(tx.Kind), c.product, engine.Text(tx.Version), engine.Text(tx.Comment),
		engine.Text(tx.Who), engine.Text(tx.Host), engine.Text(tx.Tool), tx.Time.UnixMilli(),
		len(tx.Entries), bytes, store, onumber, otime,
		engine.Text(tx.Branch), engine.Text(tx.Class), build, labels, manifest, c.Now.UnixMilli(), collecting)
	return c.number, err
}

// productID returns the id of a product, creating its row if necessary.
func productID(w *engine.Write, name string) (id int64, err error) {
	name = engine.Text(name)
	if _, err := w.Exec("INSERT INTO product (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", name); err != nil {
		return 0, err
	}
	err = w.Row("SELECT id FROM product WHERE name = $1", []any{name}, &id)
	return id, err
}

// firstObject reads the id of the first new object, once.
func (c *Commit) firstObject() error {
	if c.next > 0 {
		return nil
	}
	// Never reuse the id of a deleted object: see Filter.
	var floor int64
	err := c.Row("SELECT "+record.LastObject+" + 1, format_floor FROM state WHERE one = 1", nil, &c.next, &floor)
	c.compact, c.lastDir = floor >= record.CompactFormat, -1
	c.first = c.next
	return err
}

// objectArgs returns the columns of an object without its id, with the whole name. first is the first of them.
func (c *Commit) objectArgs(first int64, e record.Entry) []any {
	o := e.Object
	as := record.Plain
	if c.compact {
		as = record.Short
	}
	s := as(o, e.Arch, e.Features)
	var ident any // not a nil slice
	if s.Ident != nil {
		ident = s.Ident
	}
	return []any{first, o.Name, o.Kind, symfile.Fold(o.Name), o.Role, o.CodeName, s.CodeID, s.DebugID, o.InfoAge, s.BuildID,
		o.Of, record.ObjectFlags(o), o.Version, o.Hash, s.Arch, s.Features, e.DebugSize, ident}
}

// updateObject takes objectArgs with the id of the object first. Its name stays.
const updateObject = `UPDATE object
	SET role = $5, code_name = $6, code_id = $7, debug_id = $8, info_age = $9, build_id = $10, of_kind = $11,
	   flags = $12, version = $13, hash = $14, arch = $15, features = $16, debug_size = $17, ident = $18
	 WHERE id = $1 AND $2 <> '' AND kind = $3 AND name_fold = $4`

// describes reports whether a stored object is as this version of the program has
// identified it.
func describes(s record.Stored, e record.Entry) bool {
	return s.Object == e.Object && s.Arch == e.Arch && s.DebugSize == e.DebugSize && slices.Equal(s.Features, e.Features)
}

// count adds the new rows to the counters.
func (c *Commit) count() error {
	if c.objects > 0 {
		if _, err := c.Exec("UPDATE state SET last_object = "+engine.Larger("last_object", "$1")+" WHERE one = 1", c.next-1); err != nil {
			return err
		}
	}
	if err := c.NoteLate(); err != nil {
		return err
	}
	return record.AddCounts(c.Write, c.contents, c.bytes, c.objects, c.looks)
}

// maxLate limits the rows of late_object. A filter that does not know of the
// oldest is built anew.
const maxLate = 100_000

// NoteLate records the objects whose keys a filter does not find among those of
// new objects.
func (c *Commit) NoteLate() error {
	slices.Sort(c.Late)
	c.Late = slices.Compact(c.Late)
	if len(c.Late) == 0 {
		return nil
	}
	var no, floor int64
	if err := c.Row("UPDATE state SET late_keys = late_keys + $1 WHERE one = 1 RETURNING late_keys, late_floor",
		[]any{len(c.Late)}, &no, &floor); err != nil {
		return err
	}
	rows := make([][]any, len(c.Late))
	for i, object := range c.Late {
		rows[i] = []any{no, object}
	}
	if _, err := c.Many("INSERT INTO late_object (no, object_id) VALUES ($1, $2)", rows); err != nil {
		return err
	}
	if no-floor < 2*maxLate {
		return nil
	}
	if _, err := c.Exec("UPDATE state SET late_floor = $1 WHERE one = 1", no-maxLate); err != nil {
		return err
	}
	_, err := c.Exec("DELETE FROM late_object WHERE no <= $1", no-maxLate)
	return err
}

// append adds the files of tx to those of an earlier transaction.
func (c *Commit) append(tx record.Tx) error {
	if err := record.NextGeneration(c.Write); err != nil {
		return err
	}
	var bytes int64
	for _, e := range tx.Entries {
		bytes += e.Size
	}
	c.number = c.Extend
	if err := c.Row("UPDATE tx SET files = files + $2, bytes = bytes + $3 WHERE id = $1 RETURNING product_id",
		[]any{c.number, len(tx.Entries), bytes}, &c.product); err != nil {
		return err
	}
	return c.Row("SELECT coalesce(max(seq), 0) FROM tx_file WHERE tx_id = $1", []any{c.number}, &c.seq)
}

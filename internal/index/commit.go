package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Commit adds a transaction and returns its number. It is durable and atomic:
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
func (db *DB) Commit(ctx context.Context, tx Tx, check func(ctx context.Context, refs []blob.Ref) error) (number int64, err error) {
	if err := validate(tx.Entries); err != nil {
		return 0, db.fail("commit", err)
	}
	if tx.Time.IsZero() {
		tx.Time = db.now()
	}
	refs := distinct(tx.Entries)
	err = db.update(ctx, "commit", func(w *write) (err error) {
		if check != nil && !db.placed {
			if err := check(ctx, refs); err != nil {
				return err
			}
		}
		c := commit{write: w, now: db.now(), placed: db.placed}
		tx := tx
		if tx.Stage != nil {
			var done bool
			if number, done, err = c.beginStage(&tx); err != nil || done {
				return err
			}
		}
		if number, err = c.header(tx); err != nil {
			return err
		}
		if err := c.files(ctx, tx.Entries); err != nil {
			return err
		}
		if tx.Stage != nil {
			if err := c.endStage(tx, number); err != nil {
				return err
			}
		}
		return c.count()
	})
	if err != nil {
		return 0, err
	}
	return number, nil
}

// files writes the rows of all files of a transaction.
func (c *commit) files(ctx context.Context, entries []Entry) error {
	if sets := c.sets(); sets != nil {
		return c.entries(ctx, sets, entries)
	}
	for i, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.entry(c.seq+i+1, e); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
	}
	return nil
}

// validate rejects entries whose rows no lookup could find.
func validate(entries []Entry) error {
	if len(entries) == 0 {
		return errors.New("the transaction has no files")
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

func distinct(entries []Entry) []blob.Ref {
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

// commit is the state of a running Commit.
type commit struct {
	*write
	now            time.Time
	number         int64
	product        int64
	contents       int64 // number of new contents; the next three count new rows too
	bytes          int64
	objects, looks int64
	late           []int64 // known objects that got new keys, or that a download or an earlier transaction makes visible in a further product
	next           int64   // id of the next new object; 0: not read yet
	first          int64   // its value at the begin of the transaction
	cacheEmpty     *bool   // there are no cached files; nil: not read yet
	placed         bool    // see Options
	extend         int64   // the transaction that gets more files; 0: a new one
	seq            int     // number of its files before
}

// header assigns the number and writes the transaction's own row.
func (c *commit) header(tx Tx) (int64, error) {
	if c.extend != 0 {
		return c.extend, c.append(tx)
	}
	if err := c.row("UPDATE state SET last_tx = last_tx + 1, generation = generation + 1 WHERE one = 1 RETURNING last_tx", nil, &c.number); err != nil {
		return 0, err
	}
	product, err := c.productID(tx.Product)
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
		if err := c.checkOrigin(*o); err != nil {
			return 0, err
		}
		store, onumber, otime = text(o.Store), text(o.Number), millis(o.Time)
	}
	var build, labels, manifest, collecting any
	if tx.Build != "" {
		build = text(tx.Build)
	}
	if len(tx.Labels) > 0 {
		b, err := json.Marshal(tx.Labels)
		if err != nil {
			return 0, err
		}
		labels = text(string(b))
	}
	if tx.Manifest != (blob.Ref{}) {
		manifest = tx.Manifest[:]
	}
	if tx.Stage != nil && tx.Stage.Collect {
		collecting = 1
	}
	_, err = c.exec(`INSERT INTO tx (id, kind, product_id, version, comment, who, host, tool, time, files, bytes, origin_store, origin_number, origin_time,
		branch, class, build, labels, manifest, arrived, collecting)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)`,
		c.number, text(tx.Kind), c.product, text(tx.Version), text(tx.Comment), text(tx.Who), text(tx.Host), text(tx.Tool), tx.Time.UnixMilli(),
		len(tx.Entries), bytes, store, onumber, otime,
		text(tx.Branch), text(tx.Class), build, labels, manifest, c.now.UnixMilli(), collecting)
	return c.number, err
}

// productID returns the id of a product, creating its row if necessary.
func (w *write) productID(name string) (id int64, err error) {
	name = text(name)
	if _, err := w.exec("INSERT INTO product (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", name); err != nil {
		return 0, err
	}
	err = w.row("SELECT id FROM product WHERE name = $1", []any{name}, &id)
	return id, err
}

// putSignature stores the signature of a content; what happens to an older one follows.
const putSignature = "INSERT INTO content_signature (content_id, ima) VALUES ($1, $2) ON CONFLICT (content_id)"

// entry writes the rows of one file: content and object if they are new, keys,
// the file of the transaction, and the visibility.
func (c *commit) entry(seq int, e Entry) error {
	content, err := c.content(Content{e.Ref, e.Size})
	if err != nil {
		return err
	}
	object, err := c.objectWithKeys(content, e)
	if err != nil {
		return err
	}
	if c.extend != 0 && object < c.first {
		c.late = append(c.late, object) // filters read the files of new transactions only
	}
	if e.Signature != "" {
		if _, err := c.exec(putSignature+" DO UPDATE SET ima = excluded.ima", content, text(e.Signature)); err != nil {
			return err
		}
	}
	if _, err := c.exec("INSERT INTO tx_file (tx_id, seq, object_id, path, archive, mtime, by_path) VALUES ($1, $2, $3, $4, $5, $6, $7)",
		c.number, seq, object, text(e.Path), text(e.Archive), millis(e.ModTime), searchedByPath(e.Object)); err != nil {
		return err
	}
	if err := c.makeVisible(object, c.product, c.number); err != nil {
		return err
	}
	return c.replaceCached(object)
}

// replaceCached evicts the cached files that answer a key of an added object
// with different bytes. The name is part of the key only for kinds whose ids are
// not unique: PE and DBG files, and PDBs of the old format. The next garbage
// collection frees contents without remaining references.
func (c *commit) replaceCached(object int64) error {
	if empty, err := c.nothingCached(); err != nil || empty {
		return err
	}
	var files []cachedRow
	err := c.each(`SELECT DISTINCT k.id, k.size, f.tx_id FROM lookup l
		JOIN lookup m ON m.id = l.id AND m.object_id <> l.object_id AND (m.role & l.role) <> 0
		JOIN object o ON o.id = m.object_id AND (m.name = l.name OR o.kind NOT IN ($2, $3, $4))
		JOIN content k ON k.id = o.content_id AND k.id <> (SELECT content_id FROM object WHERE id = $1)
		JOIN tx_file f ON f.object_id = o.id AND f.tx_id < 0
		WHERE l.object_id = $1`, []any{object, symfile.PE, symfile.DBG, symfile.PDB20}, func(scan func(...any) error) error {
		var f cachedRow
		err := scan(&f.content, &f.size, &f.tx)
		files = append(files, f)
		return err
	})
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := c.deleteCached(f.content, f.size, f.tx, c.now); err != nil {
			return err
		}
	}
	return nil
}

// nothingCached reports whether there are no cached files.
func (c *commit) nothingCached() (bool, error) {
	if c.cacheEmpty == nil {
		var empty bool
		if err := c.row("SELECT NOT EXISTS (SELECT 1 FROM cached)", nil, &empty); err != nil {
			return false, err
		}
		c.cacheEmpty = &empty
	}
	return *c.cacheEmpty, nil
}

// makeVisible is the statement of write.makeVisible.
var makeVisible = "INSERT INTO seen (object_id, product_id, tx_id) VALUES ($1, $2, $3) ON CONFLICT (object_id, product_id) DO UPDATE SET tx_id = " + larger("seen.tx_id", "excluded.tx_id")

// makeVisible makes an object visible in a product, through the newest of its
// transactions.
func (w *write) makeVisible(object, product, tx int64) error {
	_, err := w.exec(makeVisible, object, product, tx)
	return err
}

// objectWithKeys returns the id of an object and writes all its keys.
func (c *commit) objectWithKeys(content int64, e Entry) (int64, error) {
	before := c.objects
	object, err := c.object(content, e)
	if err != nil {
		return 0, err
	}
	known := c.objects == before
	gained := int64(0)
	for _, a := range e.Aliases {
		n, err := c.exec("INSERT INTO lookup (id, name, object_id, role) VALUES ($1, $2, $3, $4) ON CONFLICT (id, name, object_id) DO NOTHING",
			symfile.Fold(a.ID), symfile.Fold(a.Name), object, a.Role)
		if err != nil {
			return 0, err
		}
		c.looks += n
		gained += n
		if n == 0 {
			// A known key may gain roles.
			if _, err := c.exec(`UPDATE lookup SET role = role | $4 WHERE id = $1 AND name = $2 AND object_id = $3 AND role | $4 <> role`,
				symfile.Fold(a.ID), symfile.Fold(a.Name), object, a.Role); err != nil {
				return 0, err
			}
		}
	}
	if known && gained > 0 {
		c.late = append(c.late, object)
	}
	return object, nil
}

// content returns the id of a content that is about to be referred to. A new
// content in a bucket takes over the place of an upload.
func (c *commit) content(k Content) (id int64, err error) {
	err = c.row("INSERT INTO content (sha256, size, added) VALUES ($1, $2, $3) ON CONFLICT (sha256) DO NOTHING RETURNING id",
		[]any{k.Ref[:], k.Size, c.now.UnixMilli()}, &id)
	if err == nil {
		c.contents++
		c.bytes += k.Size
		if c.placed {
			err = c.takePlace(id, k)
		}
		return id, err
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	var size int64
	var since sql.NullInt64
	if err := c.row("SELECT id, size, unreferenced_since FROM content WHERE sha256 = $1", []any{k.Ref[:]}, &id, &size, &since); err != nil {
		return 0, err
	}
	if size != k.Size {
		return 0, fmt.Errorf("content %x has %d bytes in the index, not %d", k.Ref[:], size, k.Size)
	}
	if c.placed {
		if err := c.replacePlace(id, k); err != nil {
			return 0, err
		}
	}
	if since.Valid {
		_, err = c.exec("UPDATE content SET unreferenced_since = NULL WHERE id = $1", id)
		return id, err
	}
	return id, nil
}

// object returns the id of an object. It updates a known object if a newer
// version of the program has identified it differently.
func (c *commit) object(content int64, e Entry) (id int64, err error) {
	if err := c.firstObject(); err != nil {
		return 0, err
	}
	args := append(objectArgs(content, e), c.next)
	err = c.row(`INSERT INTO object (content_id, name, kind, name_fold, role, code_name, code_id, debug_id, info_age, build_id,
		   of_kind, flags, version, hash, arch, features, debug_size, id)
		 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
		 ON CONFLICT (content_id, name, kind) DO NOTHING RETURNING id`, args, &id)
	if err == nil {
		c.objects++
		c.next++
		return id, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	var known Stored
	read := func(dest ...any) error {
		return c.row("SELECT "+objectColumns+" FROM object o JOIN content c ON c.id = o.content_id WHERE o.content_id = $1 AND o.name = $2 AND o.kind = $3", args[:3], dest...)
	}
	if err := scanObject(read, &known); err != nil {
		return 0, err
	}
	if known.describes(e) {
		return known.id, nil
	}
	_, err = c.exec(updateObject, args[:17]...)
	return known.id, err
}

// firstObject reads the id of the first new object, once.
func (c *commit) firstObject() error {
	if c.next > 0 {
		return nil
	}
	// Never reuse the id of a deleted object: see Filter.
	err := c.row("SELECT "+lastObject+" + 1 FROM state WHERE one = 1", nil, &c.next)
	c.first = c.next
	return err
}

// objectArgs returns the columns of an object without its id.
func objectArgs(content int64, e Entry) []any {
	o := e.Object
	return []any{content, o.Name, o.Kind, symfile.Fold(o.Name), o.Role, o.CodeName, o.CodeID, o.DebugID.Breakpad(), o.InfoAge, string(o.BuildID),
		o.Of, objectFlags(o), o.Version, o.Hash, e.Arch, strings.Join(e.Features, " "), e.DebugSize}
}

const updateObject = `UPDATE object SET role = $5, code_name = $6, code_id = $7, debug_id = $8, info_age = $9, build_id = $10, of_kind = $11,
	   flags = $12, version = $13, hash = $14, arch = $15, features = $16, debug_size = $17
	 WHERE content_id = $1 AND name = $2 AND kind = $3 AND name_fold = $4`

// describes reports whether a stored object is as this version of the program has
// identified it.
func (s Stored) describes(e Entry) bool {
	return s.Object == e.Object && s.Arch == e.Arch && s.DebugSize == e.DebugSize && slices.Equal(s.Features, e.Features)
}

// count adds the new rows to the counters.
func (c *commit) count() error {
	if c.objects > 0 {
		if _, err := c.exec("UPDATE state SET last_object = "+larger("last_object", "$1")+" WHERE one = 1", c.next-1); err != nil {
			return err
		}
	}
	if err := c.noteLate(); err != nil {
		return err
	}
	return c.write.count(c.contents, c.bytes, c.objects, c.looks)
}

// maxLate limits the rows of late_object. A filter that does not know of the
// oldest is built anew.
const maxLate = 100_000

// noteLate records the objects whose keys a filter does not find among those of
// new objects.
func (c *commit) noteLate() error {
	slices.Sort(c.late)
	c.late = slices.Compact(c.late)
	if len(c.late) == 0 {
		return nil
	}
	var no, floor int64
	if err := c.row("UPDATE state SET late_keys = late_keys + $1 WHERE one = 1 RETURNING late_keys, late_floor", []any{len(c.late)}, &no, &floor); err != nil {
		return err
	}
	rows := make([][]any, len(c.late))
	for i, object := range c.late {
		rows[i] = []any{no, object}
	}
	if _, err := c.many("INSERT INTO late_object (no, object_id) VALUES ($1, $2)", rows); err != nil {
		return err
	}
	if no-floor < 2*maxLate {
		return nil
	}
	if _, err := c.exec("UPDATE state SET late_floor = $1 WHERE one = 1", no-maxLate); err != nil {
		return err
	}
	_, err := c.exec("DELETE FROM late_object WHERE no <= $1", no-maxLate)
	return err
}

// changed increments the generation.
func (w *write) changed() error {
	_, err := w.exec("UPDATE state SET generation = generation + 1 WHERE one = 1")
	return err
}

func (w *write) count(contents, bytes, objects, lookups int64) error {
	_, err := w.exec("UPDATE state SET contents = contents + $1, bytes = bytes + $2, objects = objects + $3, lookups = lookups + $4 WHERE one = 1",
		contents, bytes, objects, lookups)
	return err
}

func scanRef(b []byte, r *blob.Ref) error {
	if len(b) != len(r) {
		return fmt.Errorf("%w: a content hash has %d bytes", ErrCorrupt, len(b))
	}
	copy(r[:], b)
	return nil
}

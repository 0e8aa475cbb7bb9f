package oldkeys

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
)

// loaded is a block that is being changed.
type loaded struct {
	first   string // empty for a new one
	keys    []Key
	changed bool
	had     int // the keys that it was read with, which are sorted
}

// count returns how many keys of an id it was read with.
func (b *loaded) count(id string) (n int) {
	at, _ := slices.BinarySearchFunc(b.keys[:b.had], id, func(k Key, id string) int { return strings.Compare(k.ID, id) })
	for at+n < b.had && b.keys[at+n].ID == id {
		n++
	}
	return n
}

var loadBlocks = engine.Over("id text", `SELECT b.first, b.body FROM old_key b WHERE b.first IN
	(SELECT (SELECT max(m.first) FROM old_key m WHERE m.first <= k.id) FROM {k}) ORDER BY b.first`)

// load reads the blocks in which the ids are, by their order.
func load(w *engine.Write, ids []string) (list []*loaded, err error) {
	rows := make([][]any, len(ids))
	for i, id := range ids {
		rows[i] = []any{id}
	}
	err = w.EachOver(loadBlocks, rows, nil, func(scan engine.Scan) error {
		b := &loaded{}
		var body []byte
		if err := scan(&b.first, &body); err != nil {
			return err
		}
		b.keys, err = unpack(body)
		b.had = len(b.keys)
		list = append(list, b)
		return err
	})
	return list, err
}

var (
	deleteBlocks = engine.Over("first text", "DELETE FROM old_key WHERE first IN (SELECT k.first FROM {k})")
	insertBlocks = engine.Over("first text, keys number, body hash",
		"INSERT INTO old_key (first, keys, body) SELECT k.first, k.keys, k.body FROM {k}")
)

// save writes the changed blocks.
func save(w *engine.Write, list []*loaded) error {
	var gone, fresh [][]any
	var floor int64
	if err := w.Row("SELECT format_floor FROM state WHERE one = 1", nil, &floor); err != nil {
		return err
	}
	for _, b := range list {
		if !b.changed {
			continue
		}
		gone = append(gone, []any{b.first})
		if len(b.keys) == 0 {
			continue
		}
		for i, block := range Blocks(b.keys, floor) {
			if i == 0 && b.first != "" {
				block.First = min(b.first, block.First)
			}
			fresh = append(fresh, []any{block.First, block.Keys, block.Body})
		}
	}
	if _, err := w.ExecOver(deleteBlocks, gone); err != nil {
		return err
	}
	_, err := w.ExecOver(insertBlocks, fresh)
	return err
}

// rewriteBlocks is how many blocks one write of Rewrite reads.
const rewriteBlocks = 50

const (
	selectRewrite = "SELECT long_after FROM old_keys WHERE one = 1"
	rewritten     = "SELECT first, body FROM old_key WHERE first > $1 ORDER BY first LIMIT $2"
)

// Rewrite writes the next blocks of version 1 in version 2, of about as many keys as some blocks hold, and reports whether
// there are no others. No answer changes. A write that a crash of the machine undoes is repeated.
func Rewrite(ctx context.Context, db *engine.Database, _ int) (ended bool, err error) {
	const op = "rewrite old keys"
	var floor int64
	if err := db.Scans.Row(ctx, "SELECT format_floor FROM state WHERE one = 1", nil, &floor); err != nil || floor < BitsFormat {
		return err == nil, db.Fail(op, err)
	}
	var after sql.NullString
	if err := db.Scans.Row(ctx, selectRewrite, nil, &after); err != nil || !after.Valid {
		return err == nil, db.Fail(op, err)
	}
	err = db.UpdateUnsynced(ctx, op, func(w *engine.Write) error {
		var now sql.NullString
		if err := w.Row(selectRewrite, nil, &now); err != nil || now != after {
			return err // another process has been here
		}
		read, last, err := rewrite(w, now.String)
		if err != nil {
			return err
		}
		var next any // none
		if read == rewriteBlocks {
			next = last
		}
		_, err = w.Exec("UPDATE old_keys SET long_after = $1 WHERE one = 1", next)
		return err
	})
	return false, err
}

// rewrite writes the blocks that follow the one that begins with a text, and returns how many there were and the
// beginning of the last one that it has written.
func rewrite(w *engine.Write, after string) (read int, last string, err error) {
	all := &loaded{}
	var gone, fresh [][]any
	if err := w.Each(rewritten, []any{after, rewriteBlocks}, func(scan engine.Scan) error {
		var first string
		var body []byte
		if err := scan(&first, &body); err != nil {
			return err
		}
		keys, err := unpack(body)
		if read == 0 {
			all.first = first
		}
		all.changed = all.changed || body[0] != bitsVersion
		all.keys, last = append(all.keys, keys...), first
		gone = append(gone, []any{first})
		read++
		return err
	}); err != nil || !all.changed {
		return read, last, err
	}
	for i, b := range Blocks(all.keys, BitsFormat) {
		if last = b.First; i == 0 {
			last = all.first
		}
		fresh = append(fresh, []any{last, b.Keys, b.Body})
	}
	if _, err := w.ExecOver(deleteBlocks, gone); err != nil {
		return read, last, err
	}
	_, err = w.ExecOver(insertBlocks, fresh)
	return read, last, err
}

// AnyPacked reports whether any key is packed.
func AnyPacked(w *engine.Write) (is bool, err error) {
	var last int64
	err = w.Row(someText, nil, &last, &is)
	return is, err
}

// Held returns the packed keys of objects, with their names.
func Held(w *engine.Write, objects []Object) (keys []Key, err error) {
	keys, _, err = held(w, objects)
	return keys, err
}

func held(w *engine.Write, objects []Object) (keys []Key, blocks []*loaded, err error) {
	if len(objects) == 0 {
		return nil, nil, nil
	}
	if is, err := AnyPacked(w); err != nil || !is {
		return nil, nil, err
	}
	var ids []string
	of := make(map[int64]Object, len(objects))
	for _, o := range objects {
		ids = append(ids, o.ids()...)
		of[o.ID] = o
	}
	slices.Sort(ids)
	if blocks, err = load(w, slices.Compact(ids)); err != nil {
		return nil, nil, err
	}
	for _, b := range blocks {
		for _, k := range b.keys {
			if o, is := of[k.Object]; is {
				keys = append(keys, o.named(k))
			}
		}
	}
	return keys, blocks, nil
}

// Take takes the packed keys of objects out and returns them, with their names.
func Take(w *engine.Write, objects []Object) (keys []Key, err error) {
	keys, blocks, err := held(w, objects)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	of := make(map[int64]bool, len(objects))
	for _, o := range objects {
		of[o.ID] = true
	}
	for _, b := range blocks {
		n := len(b.keys)
		b.keys = slices.DeleteFunc(b.keys, func(k Key) bool { return of[k.Object] })
		b.changed = len(b.keys) != n
	}
	return keys, save(w, blocks)
}

var backToRows = engine.Over("id text, name text, object_id number, role number",
	"INSERT INTO lookup (id, name, object_id, role) SELECT k.id, k.name, k.object_id, k.role FROM {k}")

// Unpack makes the packed keys of objects rows again. Who changes an object calls it first.
func Unpack(w *engine.Write, objects []Object) error {
	keys, err := Take(w, objects)
	if err != nil {
		return err
	}
	rows := make([][]any, len(keys))
	for i, k := range keys {
		rows[i] = []any{k.ID, k.Name, k.Object, k.Role}
	}
	_, err = w.ExecOver(backToRows, rows)
	return err
}

var objectsByID = engine.Over("id number", "SELECT "+ObjectColumns+" FROM {k} CROSS JOIN object o WHERE o.id = k.id")

// UnpackIDs makes all packed keys of the objects that have one of some ids rows again, for rare
// questions about them.
func UnpackIDs(ctx context.Context, db *engine.Database, ids []string) error {
	var objects []int64
	for _, id := range ids {
		some, err := Objects(ctx, db.Points, id, "")
		if err != nil {
			return err
		}
		objects = append(objects, some...)
	}
	if len(objects) == 0 {
		return nil
	}
	slices.Sort(objects)
	return db.Update(ctx, "unpack old keys", func(w *engine.Write) error {
		var list []Object
		if err := w.EachOver(objectsByID, engine.Numbers(slices.Compact(objects)), nil, func(scan engine.Scan) error {
			o, err := ScanObject(scan)
			list = append(list, o)
			return err
		}); err != nil {
			return err
		}
		return Unpack(w, list)
	})
}

// Batch is how many keys one write packs: other writers do not wait long.
const Batch = 2000

// Progress is what a part of a pass did.
type Progress struct {
	Packed int64 // keys
	Ended  bool  // the pass came to the last key
}

// may selects the keys l of objects o that can be packed: of those up to an object that are in a
// transaction and were not downloaded. The sum keeps a database from the index of objects.
const may = `l.object_id + 0 <= $2 AND l.form = 0 AND EXISTS (SELECT 1 FROM seen s WHERE s.object_id = l.object_id AND s.tx_id > 0)
	AND NOT EXISTS (SELECT 1 FROM tx_file f WHERE f.object_id = l.object_id AND f.tx_id < 0)`

var (
	candidates = "SELECT l.id, l.name, l.role, " + ObjectColumns + " FROM lookup l JOIN object o ON o.id = l.object_id WHERE l.id >= $1 AND " +
		may + " ORDER BY l.id, l.name, l.object_id LIMIT $3"
	stillThose = engine.Over("id text, name text, object_id number", "SELECT l.id, l.name, l.role, "+ObjectColumns+` FROM {k}
		CROSS JOIN lookup l JOIN object o ON o.id = l.object_id
		WHERE l.id = k.id AND l.name = k.name AND l.object_id = k.object_id AND `+may)
	deleteRows = engine.Over("id text, name text, object_id number",
		"DELETE FROM lookup WHERE (id, name, object_id) IN (SELECT k.id, k.name, k.object_id FROM {k})")
)

// packs reports whether a key of the object can be packed. Of a text with one of these characters, PostgreSQL may store
// another form than the one that is asked for.
func (o Object) packs(k Key) bool {
	return len(k.ID) <= maxText && len(k.Name) <= maxText && o.Finds(k.ID) && !strings.ContainsAny(k.ID+k.Name, "\x01\uFFFD")
}

// candidate reads a row of candidates or stillThose.
func candidate(scan engine.Scan) (k Key, o Object, err error) {
	err = scan(&k.ID, &k.Name, &k.Role, &o.ID, &o.Name, &o.CodeID, &o.DebugID, &o.BuildID, &o.InfoAge)
	k.Object = o.ID
	return k, o, err
}

// begin decides when the first key is packed, and reports whether that time has come.
func begin(ctx context.Context, db *engine.Database) (bool, error) {
	var floor int64
	var begins sql.NullInt64
	if err := db.Scans.Row(ctx, "SELECT s.format_floor, o.begins FROM state s CROSS JOIN old_keys o", nil, &floor, &begins); err != nil {
		return false, err
	}
	if floor < 4 || begins.Valid {
		// With a lower floor a program may come that does not find packed keys.
		return floor >= 4 && db.Now().UnixMilli() >= begins.Int64, nil
	}
	return false, db.Update(ctx, "decide on packing old keys", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE old_keys SET begins = $1 WHERE begins IS NULL", db.Now().Add(beginRest).UnixMilli())
		return err
	})
}

// Pack packs some of the keys of objects that no transaction since a time has brought, from where the
// last call has stopped. The answers of the index stay the same. The first call only decides that keys
// will be packed, and those of the next minute wait.
func Pack(ctx context.Context, db *engine.Database, since time.Time) (p Progress, err error) {
	const op = "pack old keys"
	if begun, err := begin(ctx, db); err != nil || !begun {
		return Progress{Ended: true}, db.Fail(op, err)
	}
	var last int64
	var position string
	if err := db.Scans.Row(ctx, "SELECT position FROM old_keys", nil, &position); err != nil {
		return p, db.Fail(op, err)
	}
	if last, err = lastOld(ctx, db, since); err != nil {
		return p, db.Fail(op, err)
	}
	var asked [][]any
	next, read := "", 0
	if last > 0 {
		err = db.Scans.Each(ctx, true, candidates, []any{position, last, Batch}, func(scan engine.Scan) (bool, error) {
			k, o, err := candidate(scan)
			if next = k.ID; o.packs(k) {
				asked = append(asked, []any{k.ID, k.Name, k.Object})
			}
			read++
			return true, err
		})
	}
	if err != nil {
		return p, db.Fail(op, err)
	}
	p.Ended = read < Batch
	if !p.Ended && next == position {
		next += "\x01" // many keys of one id that stay rows
	}
	err = db.Update(ctx, op, func(w *engine.Write) (err error) {
		if p.Packed, err = packRows(w, asked, last); err != nil {
			return err
		}
		if p.Ended {
			_, err = w.Exec("UPDATE old_keys SET position = '', finished = $1 WHERE one = 1", db.Now().UnixMilli())
		} else {
			_, err = w.Exec("UPDATE old_keys SET position = $1 WHERE one = 1", next)
		}
		return err
	})
	return p, err
}

// passRest is the time between two passes.
const passRest = 24 * time.Hour

// LeastKeys is the number of keys from which on an index packs old ones. In a smaller one their space matters less
// than the time of a second statement for each lookup of an old key.
const LeastKeys = 10_000_000

// PackFor calls Pack until the pass has ended, for about so long. If the last pass ended less than a day ago or the
// index has few keys, it does nothing.
func PackFor(ctx context.Context, db *engine.Database, since time.Time, long time.Duration) error {
	var rests bool
	if err := db.Scans.Row(ctx, "SELECT s.lookups < $2 OR o.position = '' AND coalesce(o.finished, 0) > $1 FROM state s CROSS JOIN old_keys o",
		[]any{db.Now().Add(-passRest).UnixMilli(), LeastKeys}, &rests); err != nil || rests {
		return db.Fail("pack old keys", err)
	}
	for begun := time.Now(); time.Since(begun) < long; {
		if p, err := Pack(ctx, db, since); err != nil || p.Ended {
			return err
		}
	}
	return nil
}

// lastOld returns the highest object that transactions before a time have brought. It is no higher than that of a filter
// which the index stores, as long as this keeps few keys from being packed: who reads the filter then needs no keys of
// older objects. A filter that is far behind is built anew.
func lastOld(ctx context.Context, db *engine.Database, since time.Time) (last int64, err error) {
	// Objects are numbered as they come. The newest of these transactions may have brought none.
	var filtered sql.NullInt64
	if err := db.Scans.Row(ctx, `SELECT coalesce(max(object_id), 0) FROM tx_file WHERE tx_id IN (SELECT id FROM tx
		WHERE id > 0 AND deleted_at IS NULL AND coalesce(arrived, time) < $1 ORDER BY id DESC LIMIT 20)`,
		[]any{since.UnixMilli()}, &last); err != nil {
		return 0, err
	}
	err = db.Scans.Row(ctx, "SELECT min(last_object) FROM filter WHERE build <> '' AND last_object * 10 >= $1 * 9", []any{last}, &filtered)
	if filtered.Valid {
		last = min(last, filtered.Int64)
	}
	return last, err
}

// packRows moves those of the rows that still can be packed, and returns their number.
func packRows(w *engine.Write, asked [][]any, last int64) (int64, error) {
	type row struct {
		key  Key
		name string
	}
	var rows []row
	if err := w.EachOver(stillThose, asked, []any{last}, func(scan engine.Scan) error {
		k, o, err := candidate(scan)
		r := row{k, k.Name}
		if k.Name == o.Name {
			r.key.Name, r.key.Own = "", true
		}
		if o.packs(k) {
			rows = append(rows, r)
		}
		return err
	}); err != nil || len(rows) == 0 {
		return 0, err
	}
	slices.SortFunc(rows, func(a, b row) int { return Compare(a.key, b.key) })
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.key.ID
	}
	blocks, err := load(w, slices.Compact(slices.Clone(ids)))
	if err != nil {
		return 0, err
	}
	if len(blocks) == 0 || rows[0].key.ID < blocks[0].first {
		// Keys before the first block come into it, or there is none yet.
		b, err := firstBlock(w)
		if err != nil {
			return 0, err
		}
		if len(blocks) == 0 || b.first < blocks[0].first {
			blocks = slices.Insert(blocks, 0, b)
		}
	}
	var gone [][]any
	at := 0
	var high int64
	for i := 0; i < len(rows); {
		n := i + 1
		for n < len(rows) && ids[n] == ids[i] {
			n++
		}
		for at+1 < len(blocks) && blocks[at+1].first <= ids[i] {
			at++
		}
		b := blocks[at]
		if b.count(ids[i])+n-i <= maxSame {
			for _, r := range rows[i:n] {
				b.keys, b.changed = append(b.keys, r.key), true
				gone = append(gone, []any{r.key.ID, r.name, r.key.Object})
				high = max(high, r.key.Object)
			}
		}
		i = n
	}
	for _, b := range blocks {
		if b.changed {
			slices.SortFunc(b.keys, Compare)
		}
	}
	n, err := w.ExecOver(deleteRows, gone)
	if err == nil && n != int64(len(gone)) {
		err = errors.New("a key that was read is gone")
	}
	if err == nil {
		err = save(w, blocks)
	}
	if err == nil {
		_, err = w.Exec("UPDATE old_keys SET last_object = "+engine.Larger("last_object", "$1")+" WHERE one = 1", high)
	}
	return n, err
}

// firstBlock returns the first block, or an empty one.
func firstBlock(w *engine.Write) (*loaded, error) {
	b := &loaded{}
	var body []byte
	err := w.Row("SELECT first, body FROM old_key ORDER BY first LIMIT 1", nil, &b.first, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return &loaded{}, nil
	}
	if err != nil {
		return nil, err
	}
	b.keys, err = unpack(body)
	b.had = len(b.keys)
	return b, err
}

package index

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/symfile"
)

// The verbs of this file do for many rows what those of commit.go, cached.go and
// remove.go do for one. Their texts are PostgreSQL's only. The write lock is held
// throughout, so that what one statement reads is true for the next.

// storedObject is an object of the entry at the same index.
type storedObject struct {
	id    int64
	known bool // existed before the transaction
}

// entries writes the rows of all files of a transaction.
func (c *commit) entries(ctx context.Context, s setSession, entries []Entry) error {
	seq := c.seq
	for batch := range slices.Chunk(entries, touchBatch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		contents, err := c.storeContents(s, batch)
		if err != nil {
			return err
		}
		objects, err := c.storeObjects(s, batch, contents)
		if err != nil {
			return err
		}
		files, ids := make([][]any, len(batch)), make([]int64, len(batch))
		var signed [][]any
		for i, e := range batch {
			if e.Signature != "" {
				signed = append(signed, []any{contents[e.Ref], text(e.Signature)})
			}
			seq++
			ids[i] = objects[i].id
			if c.extend != 0 && objects[i].known {
				c.late = append(c.late, ids[i])
			}
			files[i] = []any{seq, objects[i].id, text(e.Path), text(e.Archive), millis(e.ModTime), searchedByPath(e.Object)}
		}
		if _, err := c.many(putSignature+" DO UPDATE SET ima = excluded.ima", signed); err != nil {
			return err
		}
		columns, err := transpose(files)
		if err != nil {
			return err
		}
		if _, err := s.set(`INSERT INTO tx_file (tx_id, seq, object_id, path, archive, mtime, by_path)
			SELECT $7::bigint, k.* FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[]) AS k`,
			append(columns, c.number), nil); err != nil {
			return err
		}
		if _, err := s.set(`INSERT INTO seen (object_id, product_id, tx_id) SELECT DISTINCT k.id, $2::bigint, $3::bigint FROM unnest($1::bigint[]) AS k(id)
			ON CONFLICT (object_id, product_id) DO UPDATE SET tx_id = greatest(seen.tx_id, excluded.tx_id)`, []any{ids, c.product, c.number}, nil); err != nil {
			return err
		}
		if err := c.replaceAllCached(s, ids); err != nil {
			return err
		}
	}
	return nil
}

// transpose returns one slice for each column of rows, of the types of a
// database. Columns with nulls have pointers.
func transpose(rows [][]any) ([]any, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	columns := make([]any, len(rows[0]))
	for j := range columns {
		var numbers []*int64
		var texts []string
		var sums [][]byte
		for i := range rows {
			v, err := driver.DefaultParameterConverter.ConvertValue(rows[i][j])
			if err != nil {
				return nil, err
			}
			switch v := v.(type) {
			case nil:
				numbers = append(numbers, nil)
			case int64:
				numbers = append(numbers, &v)
			case string:
				texts = append(texts, v)
			case []byte:
				sums = append(sums, v)
			default:
				return nil, fmt.Errorf("a column of %T", v)
			}
		}
		switch len(rows) {
		case len(numbers):
			columns[j] = numbers
		case len(texts):
			columns[j] = texts
		case len(sums):
			columns[j] = sums
		default:
			return nil, fmt.Errorf("column %d has values of several types", j+1)
		}
	}
	return columns, nil
}

// storeContents returns the ids of the contents of entries. A new content in a
// bucket takes over the place of an upload.
func (c *commit) storeContents(s setSession, entries []Entry) (map[blob.Ref]int64, error) {
	first := make(map[blob.Ref]Entry, len(entries))
	var sums [][]byte
	var sizes []int64
	for _, e := range entries {
		if f, ok := first[e.Ref]; !ok {
			first[e.Ref] = e
			sums, sizes = append(sums, slices.Clone(e.Ref[:])), append(sizes, e.Size)
		} else if f.Size != e.Size {
			return nil, fmt.Errorf("%s: content %s has %d bytes in %s, not %d", e.Path, e.Ref, f.Size, f.Path, e.Size)
		}
	}
	ids, fresh := make(map[blob.Ref]int64, len(first)), make(map[blob.Ref]bool, len(first))
	if _, err := s.set(`INSERT INTO content (sha256, size, added) SELECT k.sha256, k.size, $3::bigint FROM unnest($1::bytea[], $2::bigint[]) AS k(sha256, size)
		ON CONFLICT (sha256) DO NOTHING RETURNING id, sha256, size`, []any{sums, sizes, c.now.UnixMilli()}, func(scan func(...any) error) error {
		var id, size int64
		var sum []byte
		var ref blob.Ref
		if err := scan(&id, &sum, &size); err != nil {
			return err
		}
		err := scanRef(sum, &ref)
		ids[ref], fresh[ref] = id, true
		c.contents++
		c.bytes += size
		return err
	}); err != nil {
		return nil, err
	}
	var known [][]byte
	for ref := range first {
		if !fresh[ref] {
			known = append(known, slices.Clone(ref[:]))
		}
	}
	if len(known) > 0 {
		if err := c.knownContents(s, known, first, ids); err != nil {
			return nil, err
		}
	}
	if !c.placed {
		return ids, nil
	}
	return ids, c.takePlaces(s, sums, sizes, first, ids, fresh)
}

// knownContents reads the ids of contents that exist, and marks them as
// referenced.
func (c *commit) knownContents(s setSession, sums [][]byte, first map[blob.Ref]Entry, ids map[blob.Ref]int64) error {
	var revived []int64
	if _, err := s.set("SELECT id, sha256, size, unreferenced_since IS NOT NULL FROM content WHERE sha256 = ANY($1::bytea[])", []any{sums}, func(scan func(...any) error) error {
		var id, size int64
		var sum []byte
		var ref blob.Ref
		var unreferenced bool
		if err := scan(&id, &sum, &size, &unreferenced); err != nil {
			return err
		}
		err := scanRef(sum, &ref)
		if e := first[ref]; err == nil && e.Size != size {
			err = fmt.Errorf("%s: content %s has %d bytes in the index, not %d", e.Path, ref, size, e.Size)
		}
		ids[ref] = id
		if unreferenced {
			revived = append(revived, id)
		}
		return err
	}); err != nil || len(revived) == 0 {
		return err
	}
	_, err := s.set("UPDATE content SET unreferenced_since = NULL WHERE id = ANY($1::bigint[])", []any{revived}, nil)
	return err
}

// takePlaces gives new contents the places of uploads that are done, and known
// ones too if there are any. It dooms the earlier places of these.
func (c *commit) takePlaces(s setSession, sums [][]byte, sizes []int64, first map[blob.Ref]Entry, ids map[blob.Ref]int64, fresh map[blob.Ref]bool) error {
	places := make(map[blob.Ref]string, len(fresh))
	if _, err := s.set(`DELETE FROM upload USING (SELECT DISTINCT ON (u.sha256) u.place FROM unnest($1::bytea[], $2::bigint[]) AS k(sha256, size)
			JOIN upload u ON u.sha256 = k.sha256 AND u.size = k.size AND u.done = 1 ORDER BY u.sha256, u.lease_until DESC, u.place) AS best
		WHERE upload.place = best.place RETURNING upload.place, upload.sha256`, []any{sums, sizes}, func(scan func(...any) error) error {
		var place string
		var sum []byte
		var ref blob.Ref
		if err := scan(&place, &sum); err != nil {
			return err
		}
		err := scanRef(sum, &ref)
		places[ref] = place
		return err
	}); err != nil {
		return err
	}
	var moved, replaced []int64
	var names []string
	for ref, e := range first {
		place, uploaded := places[ref]
		switch {
		case !uploaded && fresh[ref]:
			return fmt.Errorf("%s: content %s: %w", e.Path, ref, ErrNotUploaded)
		case !uploaded:
			continue
		case !fresh[ref]:
			replaced = append(replaced, ids[ref])
		}
		moved, names = append(moved, ids[ref]), append(names, place)
	}
	if len(replaced) > 0 {
		if _, err := s.set("INSERT INTO doomed (place, sha256, size, since) SELECT place, sha256, size, $2::bigint FROM content WHERE id = ANY($1::bigint[]) AND place IS NOT NULL",
			[]any{replaced, c.now.UnixMilli()}, nil); err != nil {
			return err
		}
		if _, err := s.set("UPDATE cold SET plain_since = $2::bigint WHERE content_id = ANY($1::bigint[])", []any{replaced, c.now.UnixMilli()}, nil); err != nil {
			return err
		}
	}
	if len(moved) == 0 {
		return nil
	}
	_, err := s.set("UPDATE content SET place = k.place, damage = NULL FROM unnest($1::bigint[], $2::text[]) AS k(id, place) WHERE content.id = k.id", []any{moved, names}, nil)
	return err
}

// objectKey identifies an object, as its columns are stored.
type objectKey struct {
	content int64
	name    string
	kind    symfile.Kind
}

// storeObjects returns the objects of entries and writes all their keys. It
// updates known objects if a newer version of the program has identified them
// differently.
func (c *commit) storeObjects(s setSession, entries []Entry, contents map[blob.Ref]int64) ([]storedObject, error) {
	if err := c.firstObject(); err != nil {
		return nil, err
	}
	last := make(map[objectKey]int, len(entries)) // the last entry of an object
	keys := make([]objectKey, len(entries))
	asked := make([][]any, 0, len(entries))
	for i, e := range entries {
		keys[i] = objectKey{contents[e.Ref], storable(e.Object.Name), e.Object.Kind}
		if _, ok := last[keys[i]]; !ok {
			asked = append(asked, []any{keys[i].content, keys[i].name, keys[i].kind})
		}
		last[keys[i]] = i
	}
	columns, err := transpose(asked)
	if err != nil {
		return nil, err
	}
	known := make(map[objectKey]Stored)
	if _, err := s.set("SELECT "+objectColumns+` FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS k(content_id, name, kind)
		JOIN object o ON o.content_id = k.content_id AND o.name = k.name AND o.kind = k.kind JOIN content c ON c.id = o.content_id`, columns, func(scan func(...any) error) error {
		var o Stored
		err := scanObject(scan, &o)
		known[objectKey{o.contentID, o.Object.Name, o.Object.Kind}] = o
		return err
	}); err != nil {
		return nil, err
	}
	objects := make([]storedObject, len(entries))
	made := make(map[objectKey]int64)
	var fresh, changed [][]any
	for i, key := range keys {
		o, is := known[key]
		if is {
			objects[i] = storedObject{o.id, o.id < c.first}
		}
		e := entries[i]
		switch id, again := made[key]; {
		case again:
			objects[i] = storedObject{id: id}
		case !is:
			made[key] = c.next
			objects[i] = storedObject{id: c.next}
			fresh = append(fresh, append(objectArgs(key.content, entries[last[key]]), c.next))
			c.next++
			c.objects++
		case last[key] == i && !o.describes(e):
			changed = append(changed, objectArgs(key.content, e))
		}
	}
	if len(fresh) > 0 {
		if columns, err = transpose(fresh); err != nil {
			return nil, err
		}
		if _, err := s.set(`INSERT INTO object (content_id, name, kind, name_fold, role, code_name, code_id, debug_id, info_age, build_id,
			  of_kind, flags, version, hash, arch, features, debug_size, id)
			SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::text[],
			  $11::bigint[], $12::bigint[], $13::bigint[], $14::text[], $15::text[], $16::text[], $17::bigint[], $18::bigint[])`, columns, nil); err != nil {
			return nil, err
		}
	}
	if len(changed) > 0 {
		if _, err := s.many(updateObject, changed); err != nil {
			return nil, err
		}
	}
	return objects, c.storeKeys(s, entries, objects)
}

// storeKeys writes the keys of entries. A known key may gain roles.
func (c *commit) storeKeys(s setSession, entries []Entry, objects []storedObject) error {
	type key struct {
		id, name string
		object   int64
	}
	roles := make(map[key]symfile.Role, 3*len(entries))
	var order []key
	for i, e := range entries {
		for _, a := range e.Aliases {
			k := key{symfile.Fold(a.ID), symfile.Fold(a.Name), objects[i].id}
			if _, ok := roles[k]; !ok {
				order = append(order, k)
			}
			roles[k] |= a.Role
		}
	}
	rows := make([][]any, len(order))
	for i, k := range order {
		rows[i] = []any{k.id, k.name, k.object, roles[k]}
	}
	columns, err := transpose(rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	// A row that this statement has inserted was not locked by a transaction: its
	// xmax is 0.
	_, err = s.set(`WITH written AS (INSERT INTO lookup (id, name, object_id, role)
			SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
			ON CONFLICT (id, name, object_id) DO UPDATE SET role = lookup.role | excluded.role WHERE lookup.role | excluded.role <> lookup.role
			RETURNING object_id, xmax = 0 AS fresh)
		SELECT count(*) FILTER (WHERE fresh), coalesce(array_agg(DISTINCT object_id) FILTER (WHERE fresh AND object_id < $5::bigint), '{}') FROM written`,
		append(columns, c.first), func(scan func(...any) error) error {
			var looks int64
			var late []int64
			err := scan(&looks, &late)
			c.looks += looks
			c.late = append(c.late, late...)
			return err
		})
	return err
}

// replaceAllCached does replaceCached for many objects.
func (c *commit) replaceAllCached(s setSession, objects []int64) error {
	if empty, err := c.nothingCached(); err != nil || empty {
		return err
	}
	var files []cachedRow
	if _, err := s.set(`SELECT DISTINCT k.id, k.size, f.tx_id FROM lookup l
		JOIN object a ON a.id = l.object_id
		JOIN lookup m ON m.id = l.id AND m.object_id <> l.object_id AND (m.role & l.role) <> 0
		JOIN object o ON o.id = m.object_id AND (m.name = l.name OR o.kind NOT IN ($2, $3, $4))
		JOIN content k ON k.id = o.content_id AND k.id <> a.content_id
		JOIN tx_file f ON f.object_id = o.id AND f.tx_id < 0
		WHERE l.object_id = ANY($1::bigint[])`, []any{objects, symfile.PE, symfile.DBG, symfile.PDB20}, func(scan func(...any) error) error {
		var f cachedRow
		err := scan(&f.content, &f.size, &f.tx)
		files = append(files, f)
		return err
	}); err != nil || len(files) == 0 {
		return err
	}
	return c.deleteAllCached(s, files, c.now)
}

// cachedRow is a cached file: a content, its size, and the row of its upstream.
type cachedRow struct{ content, size, tx int64 }

// deleteAllCached does deleteCached for many files.
func (w *write) deleteAllCached(s setSession, files []cachedRow, now time.Time) error {
	contents, txs := make([]int64, len(files)), make([]int64, len(files))
	type sum struct{ n, bytes int64 }
	sums := make(map[int64]sum)
	for i, f := range files {
		contents[i], txs[i] = f.content, f.tx
		t := sums[f.tx]
		sums[f.tx] = sum{t.n + 1, t.bytes + f.size}
	}
	var objects, of []int64
	if _, err := s.set(`SELECT DISTINCT f.object_id, f.tx_id FROM unnest($1::bigint[], $2::bigint[]) AS k(content_id, tx_id)
		JOIN object o ON o.content_id = k.content_id JOIN tx_file f ON f.object_id = o.id AND f.tx_id = k.tx_id`, []any{contents, txs}, func(scan func(...any) error) error {
		var object, tx int64
		err := scan(&object, &tx)
		objects, of = append(objects, object), append(of, tx)
		return err
	}); err != nil {
		return err
	}
	if _, err := s.set(`DELETE FROM tx_file USING unnest($1::bigint[], $2::bigint[]) AS k(object_id, tx_id)
		WHERE tx_file.object_id = k.object_id AND tx_file.tx_id = k.tx_id`, []any{objects, of}, nil); err != nil {
		return err
	}
	if err := w.updateAllVisibility(s, objects, of, now); err != nil {
		return err
	}
	if _, err := s.set(`DELETE FROM cached USING unnest($1::bigint[], $2::bigint[]) AS k(content_id, tx_id)
		WHERE cached.content_id = k.content_id AND cached.tx_id = k.tx_id`, []any{contents, txs}, nil); err != nil {
		return err
	}
	var rows [][]any
	for tx, t := range sums {
		rows = append(rows, []any{tx, t.n, t.bytes})
	}
	_, err := s.many("UPDATE tx SET files = files - $2, bytes = bytes - $3 WHERE id = $1", rows)
	return err
}

// updateAllVisibility does updateVisibility for many objects, each with the
// transaction that no longer holds it.
func (w *write) updateAllVisibility(s setSession, objects, gone []int64, now time.Time) error {
	if len(objects) == 0 {
		return nil
	}
	if _, err := s.set(`UPDATE seen SET tx_id = n.newest FROM
		(SELECT k.object_id, k.tx_id, max(f.tx_id) AS newest FROM unnest($1::bigint[], $2::bigint[]) AS k(object_id, tx_id) JOIN tx g ON g.id = k.tx_id
		 JOIN tx_file f ON f.object_id = k.object_id JOIN tx t ON t.id = f.tx_id AND t.product_id = g.product_id GROUP BY k.object_id, k.tx_id) AS n
		WHERE seen.object_id = n.object_id AND seen.tx_id = n.tx_id`, []any{objects, gone}, nil); err != nil {
		return err
	}
	if _, err := s.set(`DELETE FROM seen USING unnest($1::bigint[], $2::bigint[]) AS k(object_id, tx_id)
		WHERE seen.object_id = k.object_id AND seen.tx_id = k.tx_id`, []any{objects, gone}, nil); err != nil {
		return err
	}
	return w.releaseAll(s, "SELECT o.content_id FROM object o WHERE o.id = ANY($1::bigint[])", objects, now)
}

// releaseAll marks those of the selected contents that have no references left.
func (w *write) releaseAll(s setSession, selected string, ids []int64, now time.Time) error {
	_, err := s.set("UPDATE content AS c SET unreferenced_since = "+sinceTrash+" WHERE c.id IN ("+selected+") AND c.unreferenced_since IS NULL AND NOT "+referenced,
		[]any{ids, now.UnixMilli()}, nil)
	return err
}

// evictAll does evict for many contents.
func (d *drop) evictAll(s setSession, refs []blob.Ref, source string) (files int, bytes int64, err error) {
	var rows []cachedRow
	evicted := make(map[blob.Ref]bool)
	if _, err := s.set(`SELECT k.sha256, k.id, k.size, c.tx_id FROM content k JOIN cached c ON c.content_id = k.id JOIN tx t ON t.id = c.tx_id
		WHERE k.sha256 = ANY($1::bytea[]) AND ($2 = '' OR t.source = $2)`, []any{sumsOf(refs), source}, func(scan func(...any) error) error {
		var r cachedRow
		var sum []byte
		var ref blob.Ref
		if err := scan(&sum, &r.content, &r.size, &r.tx); err != nil {
			return err
		}
		err := scanRef(sum, &ref)
		rows, evicted[ref] = append(rows, r), true
		bytes += r.size
		return err
	}); err != nil || len(rows) == 0 {
		return 0, 0, err
	}
	if err := d.deleteAllCached(s, rows, d.now); err != nil {
		return 0, 0, err
	}
	_, err = d.dropAll(s, slices.DeleteFunc(slices.Clone(refs), func(r blob.Ref) bool { return !evicted[r] }))
	return len(rows), bytes, err
}

func sumsOf(refs []blob.Ref) [][]byte {
	sums := make([][]byte, len(refs))
	for i := range refs {
		sums[i] = refs[i][:]
	}
	return sums
}

// dropAll drops those of the contents that have had no references for long
// enough, and returns their number.
func (d *drop) dropAll(s setSession, refs []blob.Ref) (n int, err error) {
	order := make(map[int64]int) // of the dropped contents: each is followed by what was made of it
	defer func() { slices.SortStableFunc(d.gone, func(a, b dropped) int { return order[a.id] - order[b.id] }) }()
	for {
		ids, err := setIDs(s, `SELECT c.id FROM unnest($1::bytea[]) WITH ORDINALITY AS k(sha256, n) JOIN content c ON c.sha256 = k.sha256
			WHERE c.unreferenced_since <= $2 AND NOT `+referenced+" ORDER BY k.n", sumsOf(refs), d.before)
		if err != nil || len(ids) == 0 {
			return n, err
		}
		for i, id := range ids {
			order[id] = 2 * (n + i)
		}
		n += len(ids)
		var results []int64
		if _, err := s.set("DELETE FROM derived WHERE source_id = ANY($1::bigint[]) RETURNING source_id, content_id", []any{ids}, func(scan func(...any) error) error {
			var source int64
			var result sql.NullInt64
			err := scan(&source, &result)
			if result.Valid {
				results, order[result.Int64] = append(results, result.Int64), order[source]+1
			}
			return err
		}); err != nil {
			return n, err
		}
		if err := d.colds.forgetAll(d.write, s, ids, d.now); err != nil {
			return n, err
		}
		if err := d.allRows(s, ids); err != nil || len(results) == 0 {
			return n, err
		}
		alone, err := setIDs(s, "SELECT c.id FROM content c WHERE c.id = ANY($1::bigint[]) AND NOT "+referenced+
			" AND NOT EXISTS (SELECT 1 FROM object o WHERE o.content_id = c.id) AND NOT EXISTS (SELECT 1 FROM derived d WHERE d.source_id = c.id)", results)
		if err != nil {
			return n, err
		}
		if err := d.allRows(s, alone); err != nil {
			return n, err
		}
		// A result that was added itself may be one of the contents to drop.
		if err := d.releaseAll(s, "SELECT unnest($1::bigint[])", results, d.now); err != nil {
			return n, err
		}
	}
}

// setIDs reads one integer column.
func setIDs(s setSession, query string, args ...any) (list []int64, err error) {
	_, err = s.set(query, args, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		list = append(list, id)
		return err
	})
	return list, err
}

// allRows does rows for many contents.
func (d *drop) allRows(s setSession, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	n, err := s.set("DELETE FROM lookup USING object o WHERE lookup.object_id = o.id AND o.content_id = ANY($1::bigint[])", []any{ids}, nil)
	if err != nil {
		return err
	}
	d.lookups += n
	if n, err = s.set("DELETE FROM object WHERE content_id = ANY($1::bigint[])", []any{ids}, nil); err != nil {
		return err
	}
	d.objects += n
	if _, err := s.set("INSERT INTO doomed (place, sha256, size, since) SELECT place, sha256, size, $2::bigint FROM content WHERE id = ANY($1::bigint[]) AND place IS NOT NULL",
		[]any{ids, d.now.UnixMilli()}, nil); err != nil {
		return err
	}
	var sums [][]byte
	if _, err := s.set("DELETE FROM content WHERE id = ANY($1::bigint[]) RETURNING id, sha256, size", []any{ids}, func(scan func(...any) error) error {
		var c dropped
		var sum []byte
		var size int64
		if err := scan(&c.id, &sum, &size); err != nil {
			return err
		}
		err := scanRef(sum, &c.ref)
		sums, d.gone = append(sums, sum), append(d.gone, c)
		d.bytes += size
		return err
	}); err != nil {
		return err
	}
	if _, err := s.set("DELETE FROM content_read WHERE content_id = ANY($1::bigint[])", []any{ids}, nil); err != nil {
		return err
	}
	_, err = s.set("DELETE FROM failure WHERE source = ANY($1::bytea[])", []any{sums}, nil)
	return err
}

// putMisses stores misses. The last of several with one key and upstream counts.
func (w *write) putMisses(s setSession, misses []Miss, most int64) error {
	last := make(map[[2]string]int, len(misses))
	for i, m := range misses {
		last[[2]string{m.Key, m.Source}] = i
	}
	var rows, keys [][]any
	for i, m := range misses {
		if last[[2]string{m.Key, m.Source}] == i {
			keys = append(keys, []any{m.Key, m.Source})
			rows = append(rows, []any{m.Key, m.Source, m.Class, m.Until.UnixMilli(), m.Since.UnixMilli(), text(m.Detail)})
		}
	}
	columns, err := transpose(keys)
	if err != nil {
		return err
	}
	old, err := s.set("DELETE FROM miss USING unnest($1::text[], $2::text[]) AS k(key, source) WHERE miss.key = k.key AND miss.source = k.source", columns, nil)
	if err != nil {
		return err
	}
	if columns, err = transpose(rows); err != nil {
		return err
	}
	if _, err := s.set("INSERT INTO miss (key, source, class, ends, since, detail) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[])", columns, nil); err != nil {
		return err
	}
	return w.limitRows("miss", int64(len(rows))-old, most, oldestMisses)
}

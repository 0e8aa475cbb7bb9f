// Package contents is the part of an index for contents and the objects in them: the commits
// that make them visible, added or downloaded; what is derived from them; the records of cold
// ones; references, and how contents without any are dropped. Its statements run over many rows
// at once, on both engines alike.
package contents

import (
	"context"
	"fmt"
	"slices"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// The verbs of this file write the rows of contents and objects, of many at once. The
// write lock is held throughout, so that what one statement reads is true for the next.

// storedObject is an object of the entry at the same index.
type storedObject struct {
	id    int64
	known bool // existed before the transaction
}

var (
	putSignatures = signatures("DO UPDATE SET ima = excluded.ima")
	addSignatures = signatures("DO NOTHING")

	putFiles = engine.Over("seq number, object_id number, path text, archive text, mtime number, by_path number, dir number",
		`INSERT INTO tx_file (tx_id, seq, object_id, path, archive, mtime, by_path, dir)
		SELECT CAST($2 AS bigint), k.seq, k.object_id, k.path, k.archive, k.mtime, k.by_path, k.dir FROM {k}`)
	putDirs = engine.Over("tx_id number, no number, path text, first number, last number",
		"INSERT INTO tx_dir (tx_id, no, path, first, last) SELECT k.tx_id, k.no, k.path, k.first, k.last FROM {k}")
	makeVisible = engine.Over("object_id number",
		`INSERT INTO seen (object_id, product_id, tx_id) SELECT DISTINCT k.object_id, CAST($2 AS bigint), CAST($3 AS bigint) FROM {k} WHERE TRUE
		ON CONFLICT (object_id, product_id) DO UPDATE SET tx_id = `+engine.Larger("seen.tx_id", "excluded.tx_id"))
)

// signatures returns the statement that stores the signatures of contents. What happens to
// older ones is given.
func signatures(older string) *engine.Statement {
	return engine.Over("content_id number, ima text",
		"INSERT INTO content_signature (content_id, ima) SELECT k.content_id, k.ima FROM {k} WHERE TRUE ON CONFLICT (content_id) "+older)
}

// files writes the rows of all files of a transaction.
func (c *Commit) files(ctx context.Context, entries []record.Entry) error {
	for from := 0; from < len(entries); from += engine.BatchRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.someFiles(entries[from:min(from+engine.BatchRows, len(entries))], c.seq+from+1); err != nil {
			return err
		}
	}
	return nil
}

// someFiles does files for as many as one statement takes. seq is the number of the first
// file.
func (c *Commit) someFiles(entries []record.Entry, seq int) error {
	list := make([]record.Content, len(entries))
	for i, e := range entries {
		list[i] = record.Content{Ref: e.Ref, Size: e.Size}
	}
	contents, err := c.storeContents(list)
	if err != nil {
		return err
	}
	objects, err := c.storeObjects(entries, contents)
	if err != nil {
		return err
	}
	files, ids := make([][]any, len(entries)), make([]int64, len(entries))
	signed := make(map[int64]string) // by content: the last one of it
	for i, e := range entries {
		if e.Signature != "" {
			signed[contents[e.Ref]] = engine.Text(e.Signature)
		}
		ids[i] = objects[i].id
		if c.Extend != 0 && objects[i].known {
			c.Late = append(c.Late, ids[i]) // filters read the files of new transactions only
		}
		files[i] = []any{seq + i, ids[i], engine.Text(e.Path), engine.Text(e.Archive), engine.Millis(e.ModTime), searchedByPath(e.Object), nil}
	}
	if err := c.dirs(entries, files, seq); err != nil {
		return err
	}
	if err := c.storeSignatures(putSignatures, signed); err != nil {
		return err
	}
	if _, err := c.ExecOver(putFiles, files, c.number); err != nil {
		return err
	}
	if _, err := c.ExecOver(makeVisible, engine.Numbers(ids), c.product, c.number); err != nil {
		return err
	}
	return c.ReplaceCached(ids)
}

// dirs writes the folders of some files and shortens the paths in their rows. seq is the number of the first file.
func (c *Commit) dirs(entries []record.Entry, files [][]any, seq int) error {
	if !c.compact {
		return nil
	}
	dirs, rests := make([]string, len(entries)), make([]string, len(entries))
	for i, e := range entries {
		dirs[i], rests[i] = pathInDir(engine.Text(e.Path), e.Object.Name, searchedByPath(e.Object))
	}
	list, of := numberDirs(dirs)
	if len(list) > 0 && c.lastDir < 0 {
		if err := c.Row("SELECT coalesce(max(no), 0) FROM tx_dir WHERE tx_id = $1", []any{c.number}, &c.lastDir); err != nil {
			return err
		}
	}
	rows := make([][]any, len(list))
	for n, d := range list {
		rows[n] = []any{c.number, c.lastDir + int64(n) + 1, d.path, seq + d.first, seq + d.last}
	}
	for i, n := range of {
		if n >= 0 {
			files[i][2], files[i][6] = rests[i], c.lastDir+int64(n)+1
		}
	}
	c.lastDir += int64(len(list))
	_, err := c.ExecOver(putDirs, rows)
	return err
}

// storeSignatures stores the signatures of contents.
func (c *Commit) storeSignatures(how *engine.Statement, signed map[int64]string) error {
	rows := make([][]any, 0, len(signed))
	for content, ima := range signed {
		rows = append(rows, []any{content, ima})
	}
	_, err := c.ExecOver(how, rows)
	return err
}

var (
	newContents = engine.Over("sha256 hash, size number", `INSERT INTO content (sha256, size, added)
		SELECT k.sha256, k.size, `+record.AddedNow("CAST($2 AS bigint)")+` FROM {k}
		WHERE NOT EXISTS (SELECT 1 FROM content c WHERE `+record.HashIs("c.sha256", "k.sha256")+") RETURNING id, sha256, size")
	knownContents = engine.Over("sha256 hash", `SELECT c.id, c.sha256, c.size, c.unreferenced_since IS NOT NULL
		FROM {k} CROSS JOIN content c WHERE `+record.HashIs("c.sha256", "k.sha256"))
	referAgain = engine.Over("id number", "UPDATE content SET unreferenced_since = NULL WHERE id IN (SELECT k.id FROM {k})")
)

// content returns the id of a content that is about to be referred to.
func (c *Commit) content(k record.Content) (int64, error) {
	ids, err := c.storeContents([]record.Content{k})
	return ids[k.Ref], err
}

// storeContents returns the ids of contents that are about to be referred to. A new content
// in a bucket takes over the place of an upload.
func (c *Commit) storeContents(list []record.Content) (map[blob.Ref]int64, error) {
	sizes := make(map[blob.Ref]int64, len(list))
	var distinct []record.Content
	for _, k := range list {
		if size, again := sizes[k.Ref]; !again {
			sizes[k.Ref] = k.Size
			distinct = append(distinct, k)
		} else if size != k.Size {
			return nil, fmt.Errorf("content %s has %d bytes in one file and %d in another", k.Ref, size, k.Size)
		}
	}
	rows := make([][]any, len(distinct))
	for i, k := range distinct {
		rows[i] = []any{k.Ref[:], k.Size}
	}
	ids, fresh := make(map[blob.Ref]int64, len(distinct)), make(map[blob.Ref]bool, len(distinct))
	if err := c.EachOver(newContents, rows, []any{c.Now.UnixMilli()}, func(scan engine.Scan) error {
		var id, size int64
		var sum []byte
		var ref blob.Ref
		if err := scan(&id, &sum, &size); err != nil {
			return err
		}
		err := record.ScanRef(sum, &ref)
		ids[ref], fresh[ref] = id, true
		c.contents++
		c.bytes += size
		return err
	}); err != nil {
		return nil, err
	}
	if len(fresh) < len(distinct) {
		if err := c.knownContents(distinct, sizes, ids, fresh); err != nil {
			return nil, err
		}
	}
	if !c.Placed {
		return ids, nil
	}
	return ids, c.takePlaces(distinct, ids, fresh)
}

// knownContents reads the ids of contents that exist, and marks them as referenced.
func (c *Commit) knownContents(list []record.Content, sizes, ids map[blob.Ref]int64, fresh map[blob.Ref]bool) error {
	var known [][]any
	for _, k := range list {
		if !fresh[k.Ref] {
			known = append(known, []any{k.Ref[:]})
		}
	}
	var revived []int64
	if err := c.EachOver(knownContents, known, nil, func(scan engine.Scan) error {
		var id, size int64
		var sum []byte
		var ref blob.Ref
		var unreferenced bool
		if err := scan(&id, &sum, &size, &unreferenced); err != nil {
			return err
		}
		err := record.ScanRef(sum, &ref)
		if want := sizes[ref]; err == nil && want != size {
			err = fmt.Errorf("content %s has %d bytes in the index, not %d", ref, size, want)
		}
		ids[ref] = id
		if unreferenced {
			revived = append(revived, id)
		}
		return err
	}); err != nil {
		return err
	}
	_, err := c.ExecOver(referAgain, engine.Numbers(revived))
	return err
}

var (
	endUploads = engine.Over("sha256 hash, size number", `DELETE FROM upload WHERE place IN
		(SELECT (SELECT u.place FROM upload u WHERE u.sha256 = k.sha256 AND u.size = k.size AND u.done = 1
		 ORDER BY u.lease_until DESC, u.place LIMIT 1) FROM {k}) RETURNING place, sha256`)
	doomPlaces = engine.Over("id number", `INSERT INTO doomed (place, sha256, size, since)
		SELECT c.place, c.sha256, c.size, CAST($2 AS bigint) FROM {k} CROSS JOIN content c WHERE c.id = k.id AND c.place IS NOT NULL`)
	plainAgain = engine.Over("id number", "UPDATE cold SET plain_since = $2 WHERE content_id IN (SELECT k.id FROM {k})")
	setPlaces  = engine.Over("id number, place text", "UPDATE content SET place = k.place, damage = NULL FROM {k} WHERE content.id = k.id")
)

// takePlaces gives new contents the places of uploads that are done, and known ones too if
// there are any. It dooms the earlier places of these: their objects may be damaged.
func (c *Commit) takePlaces(list []record.Content, ids map[blob.Ref]int64, fresh map[blob.Ref]bool) error {
	rows := make([][]any, len(list))
	for i, k := range list {
		rows[i] = []any{k.Ref[:], k.Size}
	}
	places := make(map[blob.Ref]string, len(list))
	if err := c.EachOver(endUploads, rows, nil, func(scan engine.Scan) error {
		var place string
		var sum []byte
		var ref blob.Ref
		if err := scan(&place, &sum); err != nil {
			return err
		}
		err := record.ScanRef(sum, &ref)
		places[ref] = place
		return err
	}); err != nil {
		return err
	}
	var moved, replaced [][]any
	for _, k := range list {
		place, uploaded := places[k.Ref]
		switch {
		case !uploaded && fresh[k.Ref]:
			return fmt.Errorf("content %s: %w", k.Ref, record.ErrNotUploaded)
		case !uploaded:
			continue
		case !fresh[k.Ref]:
			replaced = append(replaced, []any{ids[k.Ref]})
		}
		moved = append(moved, []any{ids[k.Ref], place})
	}
	if _, err := c.ExecOver(doomPlaces, replaced, c.Now.UnixMilli()); err != nil {
		return err
	}
	if _, err := c.ExecOver(plainAgain, replaced, c.Now.UnixMilli()); err != nil {
		return err
	}
	_, err := c.ExecOver(setPlaces, moved)
	return err
}

// objectKey identifies an object.
type objectKey struct {
	content int64
	name    string
	kind    symfile.Kind
}

var (
	knownObjects = engine.Over("n number, content_id number, name text, kind number, name_fold text, short text",
		"SELECT "+record.ObjectColumns+`, k.n, o.name = k.short, o.name_fold = k.name_fold FROM {k}
		CROSS JOIN object o JOIN content c ON c.id = o.content_id
		WHERE o.content_id = k.content_id AND o.name IN (k.name, k.short) AND o.kind = k.kind`)
	newObjects = engine.Over("content_id number, name text, kind number, name_fold text, role number, code_name text, code_id text, "+
		"debug_id text, info_age number, "+
		"build_id text, of_kind number, flags number, version number, hash text, arch text, features text, "+
		"debug_size number, ident hash, id number",
		`INSERT INTO object (content_id, name, kind, name_fold, role, code_name, code_id, debug_id, info_age, build_id,
		  of_kind, flags, version, hash, arch, features, debug_size, ident, id)
		SELECT k.content_id, k.name, k.kind, k.name_fold, k.role, k.code_name, k.code_id, k.debug_id, k.info_age, k.build_id,
		  k.of_kind, k.flags, k.version, k.hash, k.arch, k.features, k.debug_size, k.ident, k.id FROM {k}`)
)

// short returns a key with the short form of its name.
func (k objectKey) short(c *Commit) objectKey {
	k.name = c.shortName(k.name, symfile.Fold(k.name))
	return k
}

// shortName returns the short form of a name, if the index has such forms.
func (c *Commit) shortName(name, folded string) string {
	if !c.compact {
		return name
	}
	return record.ShortName(name, folded)
}

// storeObjects returns the objects of entries and writes all their keys. It updates known
// objects if a newer version of the program has identified them differently.
func (c *Commit) storeObjects(entries []record.Entry, contents map[blob.Ref]int64) ([]storedObject, error) {
	if err := c.firstObject(); err != nil {
		return nil, err
	}
	last := make(map[objectKey]int, len(entries)) // the last entry of an object
	keys := make([]objectKey, len(entries))
	asked := make([][]any, 0, len(entries))
	for i, e := range entries {
		keys[i] = objectKey{contents[e.Ref], e.Object.Name, e.Object.Kind}
		if _, ok := last[keys[i]]; !ok {
			fold := symfile.Fold(keys[i].name)
			asked = append(asked, []any{i, keys[i].content, keys[i].name, keys[i].kind, fold, c.shortName(keys[i].name, fold)})
		}
		last[keys[i]] = i
	}
	known := make(map[objectKey]record.Stored)
	taken := make(map[objectKey]bool) // short names of other objects
	if err := c.EachOver(knownObjects, asked, nil, func(scan engine.Scan) error {
		var o record.Stored
		var n int64
		var short, same bool
		err := record.ScanObject(scan, &o, &n, &short, &same)
		if key := keys[n]; same {
			known[key] = o // the stored name may differ: see storable
		} else if short {
			taken[key.short(c)] = true
		}
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
			objects[i] = storedObject{o.Row(), o.Row() < c.first}
		}
		e := entries[i]
		switch id, again := made[key]; {
		case again:
			objects[i] = storedObject{id: id}
		case !is:
			made[key] = c.next
			objects[i] = storedObject{id: c.next}
			row := append(c.objectArgs(key.content, entries[last[key]]), c.next)
			if short := key.short(c); !taken[short] {
				row[1], taken[short] = short.name, true
			}
			fresh = append(fresh, row)
			c.next++
			c.objects++
		case last[key] == i && !describes(o, e):
			changed = append(changed, c.objectArgs(o.Row(), e))
		}
	}
	if _, err := c.ExecOver(newObjects, fresh); err != nil {
		return nil, err
	}
	others, err := c.unpackChanged(entries, keys, known, last)
	if err != nil {
		return nil, err
	}
	if _, err := c.Many(updateObject, changed); err != nil {
		return nil, err
	}
	return objects, c.storeKeys(entries, objects, others)
}

// unpackChanged makes the packed keys of known objects that are about to change rows again: where they are follows from
// the columns as they were. It returns the other known objects, if any key is packed.
func (c *Commit) unpackChanged(entries []record.Entry, keys []objectKey, known map[objectKey]record.Stored,
	last map[objectKey]int) (others []oldkeys.Object, err error) {
	if len(known) == 0 {
		return nil, nil
	}
	if some, err := oldkeys.AnyPacked(c.Write); err != nil || !some {
		return nil, err
	}
	var moved []oldkeys.Object
	for i, key := range keys {
		if o, is := known[key]; is && last[key] == i && o.Row() < c.first {
			if c.unpack || !describes(o, entries[i]) {
				moved = append(moved, oldObject(&o))
			} else {
				others = append(others, oldObject(&o))
			}
		}
	}
	return others, oldkeys.Unpack(c.Write, moved)
}

// oldObject returns a stored object as package oldkeys needs it.
func oldObject(s *record.Stored) oldkeys.Object {
	o := s.Object
	return oldkeys.Object{ID: s.Row(), Name: symfile.Fold(o.Name), CodeID: o.CodeID, DebugID: o.DebugID.Breakpad(),
		BuildID: string(o.BuildID), InfoAge: int64(o.InfoAge)}
}

var (
	newKeys = engine.Over("id text, name text, object_id number, role number", `INSERT INTO lookup (id, name, object_id, role)
		SELECT k.id, k.name, k.object_id, k.role FROM {k} WHERE TRUE ON CONFLICT (id, name, object_id) DO NOTHING RETURNING object_id`)
	moreRoles = engine.Over("id text, name text, object_id number, role number", `UPDATE lookup SET role = lookup.role | k.role FROM {k}
		WHERE lookup.id = k.id AND lookup.name = k.name AND lookup.object_id = k.object_id AND lookup.role | k.role <> lookup.role`)
)

// aliasKey identifies a key.
type aliasKey struct {
	id, name string
	object   int64
}

// packedKeys deletes those of some keys that are packed. The objects are those that may have packed keys; one that
// would gain a role gets its keys back as rows.
func (c *Commit) packedKeys(roles map[aliasKey]symfile.Role, objects []oldkeys.Object) error {
	keys, err := oldkeys.Held(c.Write, objects)
	if err != nil {
		return err
	}
	gains := make(map[int64]bool)
	for _, k := range keys {
		if role := roles[aliasKey{k.ID, k.Name, k.Object}]; role&^symfile.Role(k.Role) != 0 {
			gains[k.Object] = true
		}
	}
	for _, k := range keys {
		if !gains[k.Object] {
			delete(roles, aliasKey{k.ID, k.Name, k.Object})
		}
	}
	return oldkeys.Unpack(c.Write, slices.DeleteFunc(objects, func(o oldkeys.Object) bool { return !gains[o.ID] }))
}

// storeKeys writes the keys of entries. A known key may gain roles. Some of the objects, which
// were there before, may have packed keys.
func (c *Commit) storeKeys(entries []record.Entry, objects []storedObject, old []oldkeys.Object) error {
	type key = aliasKey
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
	if err := c.packedKeys(roles, old); err != nil {
		return err
	}
	rows := make([][]any, 0, len(order))
	for _, k := range order {
		if role, is := roles[k]; is {
			rows = append(rows, []any{k.id, k.name, k.object, role})
		}
	}
	fresh, err := c.ReadNumbers(newKeys, rows)
	if err != nil {
		return err
	}
	c.looks += int64(len(fresh))
	for _, object := range fresh {
		if object < c.first {
			c.Late = append(c.Late, object)
		}
	}
	if len(fresh) == len(rows) {
		return nil
	}
	_, err = c.ExecOver(moreRoles, rows)
	return err
}

// The keys of cached objects are never packed, those of the objects that were added may be.
var (
	replacedByAdded = engine.Over("id number", "SELECT DISTINCT c.id, c.size, f.tx_id FROM {k} CROSS JOIN lookup l"+
		replacedByKey+" WHERE l.object_id = k.id")
	replacedByPacked = engine.Over("id text, name text, object_id number, role number",
		"SELECT DISTINCT c.id, c.size, f.tx_id FROM (SELECT k.id, k.name, k.object_id, k.role FROM {k}) AS l"+replacedByKey)
	packedObjects = engine.Over("id number", "SELECT "+oldkeys.ObjectColumns+" FROM {k} CROSS JOIN object o WHERE o.id = k.id")
)

// replacedByKey joins the cached files that a key l of an added object replaces.
const replacedByKey = ` JOIN object a ON a.id = l.object_id
	JOIN lookup m ON m.id = l.id AND m.object_id <> l.object_id AND (m.role & l.role) <> 0
	JOIN object o ON o.id = m.object_id AND (m.name = l.name OR o.kind NOT IN ($2, $3, $4))
	JOIN content c ON c.id = o.content_id AND c.id <> a.content_id
	JOIN tx_file f ON f.object_id = o.id AND f.tx_id < 0`

// ReplaceCached evicts the cached files that answer a key of added objects with different
// bytes. The name is part of the key only for kinds whose ids are not unique: PE and DBG
// files, and PDBs of the old format. The next garbage collection frees contents without
// remaining references.
func (c *Commit) ReplaceCached(objects []int64) error {
	if empty, err := c.nothingCached(); err != nil || empty {
		return err
	}
	var files []cachedRow
	read := func(scan engine.Scan) error {
		var f cachedRow
		err := scan(&f.content, &f.size, &f.tx)
		if !slices.Contains(files, f) {
			files = append(files, f)
		}
		return err
	}
	args := []any{symfile.PE, symfile.DBG, symfile.PDB20}
	if err := c.EachOver(replacedByAdded, engine.Numbers(objects), args, read); err != nil {
		return err
	}
	packed, err := PackedKeys(c.Write, packedObjects, engine.Numbers(objects))
	if err != nil {
		return err
	}
	rows := make([][]any, len(packed))
	for i, k := range packed {
		rows[i] = []any{k.ID, k.Name, k.Object, k.Role}
	}
	if err := c.EachOver(replacedByPacked, rows, args, read); err != nil {
		return err
	}
	return deleteCached(c.Write, files, c.Now)
}

// PackedKeys returns the packed keys of the objects that a statement selects, with the columns of
// oldkeys.ObjectColumns.
func PackedKeys(w *engine.Write, objects *engine.Statement, rows [][]any, args ...any) ([]oldkeys.Key, error) {
	if some, err := oldkeys.AnyPacked(w); err != nil || !some {
		return nil, err
	}
	var list []oldkeys.Object
	if err := w.EachOver(objects, rows, args, func(scan engine.Scan) error {
		o, err := oldkeys.ScanObject(scan)
		list = append(list, o)
		return err
	}); err != nil {
		return nil, err
	}
	return oldkeys.Held(w, list)
}

// nothingCached reports whether there are no cached files.
func (c *Commit) nothingCached() (bool, error) {
	if c.cacheEmpty == nil {
		var empty bool
		if err := c.Row("SELECT NOT EXISTS (SELECT 1 FROM cached)", nil, &empty); err != nil {
			return false, err
		}
		c.cacheEmpty = &empty
	}
	return *c.cacheEmpty, nil
}

// Values of tx_file.by_path. Never renumber them.
const (
	byPathELF    = 1 // an ELF object with a build-id, for searches by path
	byPathSource = 2 // a file that debug information may name as a source
)

// searchedByPath returns the value of tx_file.by_path for an object.
func searchedByPath(o symfile.Object) int {
	switch {
	case o.Kind == symfile.ELF && o.BuildID != "":
		return byPathELF
	case o.Kind == symfile.SHA1:
		return byPathSource
	}
	return 0
}

package index

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// maxAges is MaxRows for lookups of ages: incremental linking makes many of one GUID.
const maxAges = 4096

// signature is the last column of a hit, of what withSignature adds to a query of object o.
const (
	signature     = ", coalesce(sig.ima, '')"
	withSignature = "LEFT JOIN content_signature sig ON sig.content_id = o.content_id"
)

// keyQuery selects keys with their visible objects in the scope, each with the newest
// transaction that holds it.
type keyQuery struct {
	from, to string         // ids from from on and before to; without to the id from
	name     *string        // folded; nil is any
	role     symfile.Role   // one of these; 0 is any
	kinds    []symfile.Kind // one of these; nil is any
	limit    int
}

// noObject are the columns of a hit in a row that has no object.
const noObject = "0, 0, 0, 0, '', '', '', '', 0, '', 0, 0, 0, '', '', '', 0, NULL, NULL, 0, 0, 0, NULL, '', '', '', 1 = 0, 0, '', '', ''"

// hitOf are the tables of a hit: object o, its content, and its file in the newest transaction in the scope.
func hitOf(where string) string {
	return ` JOIN content c ON c.id = o.content_id
 JOIN tx_file f ON f.object_id = o.id AND f.tx_id = (SELECT max(s.tx_id) FROM seen s WHERE s.object_id = o.id` + where + `)
 JOIN tx t ON t.id = f.tx_id
 ` + withSignature
}

// rows returns the statement for the keys that are rows and, if some are packed, for the blocks in
// which others may be. One statement reads both: between two, a key could change its place.
func (q *keyQuery) rows(scope record.Scope, packed bool) (string, []any) {
	arg := func(args *[]any, v any) string {
		*args = append(*args, v)
		return "$" + strconv.Itoa(len(*args))
	}
	args := []any{q.from}
	cond, blocks := "l.id = $1", oldkeys.BlockOf
	order := "l.id DESC, l.name DESC, l.object_id DESC" // the primary key in reverse order
	if q.to != "" {
		args = append(args, q.to)
		cond, blocks, order = "l.id >= $1 AND l.id < $2", oldkeys.BlocksFrom, "l.id DESC"
	}
	if q.name != nil {
		cond += " AND l.name = " + arg(&args, *q.name)
	}
	if q.role != 0 {
		cond += " AND (l.role & " + arg(&args, q.role) + ") <> 0"
	}
	// A key does not record the kind of its id; the kind of the object
	// determines it.
	if q.kinds != nil {
		numbers := make([]string, len(q.kinds))
		for i, k := range q.kinds {
			numbers[i] = strconv.Itoa(int(k))
		}
		cond += " AND o.kind IN (" + strings.Join(numbers, ", ") + ")"
	}
	where, args := scope.Where("s.product_id", args)
	text := " FROM lookup l JOIN object o ON o.id = l.object_id" + hitOf(where) + " WHERE " + cond + " ORDER BY " + order +
		" LIMIT " + strconv.Itoa(q.limit)
	const columns = "SELECT " + record.ObjectColumns + ", " + record.FileColumns + ", l.role" + signature
	if !packed {
		text = columns + text
	} else {
		text = columns + ", l.id, l.name" + text
		text = "SELECT r.*, NULL FROM (" + text + ") AS r UNION ALL SELECT " + noObject + ", b.body FROM (" + blocks + ") AS b"
	}
	return text, args
}

// keyHit is a hit with the key that found it.
type keyHit struct {
	record.Hit
	id, name string
}

// keyHits returns the hits of a query, newest first. The keys of one object, and its files in one
// transaction, are one hit.
func (db *DB) keyHits(ctx context.Context, scope record.Scope, q keyQuery) ([]record.Hit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// For each query with a cancellable context the driver starts a goroutine,
	// which costs more than the query.
	ctx = context.WithoutCancel(ctx)
	may := db.keys.May()
	hits, err := db.keyHitsOf(ctx, scope, &q, may)
	if err == nil && !may {
		var still bool
		if still, err = db.keys.Still(ctx, db.base.Points); err == nil && !still {
			hits, err = db.keyHitsOf(ctx, scope, &q, true)
		}
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(hits, func(a, b record.Hit) int { return cmp.Compare(b.Number, a.Number) })
	return hits, nil
}

// keyHitsOf is keyHits without an order. packed says that keys may be packed.
func (db *DB) keyHitsOf(ctx context.Context, scope record.Scope, q *keyQuery, packed bool) (hits []record.Hit, err error) {
	text, args := q.rows(scope, packed)
	err = db.base.Lookup(ctx, func(r engine.Reader) error {
		hits = nil
		var found []keyHit
		var keys []oldkeys.Key
		if err := r.Each(ctx, scope.Few(), text, args, func(scan engine.Scan) (bool, error) {
			var h keyHit
			var block []byte
			dest := [5]any{&h.Role, &h.Signature, &h.id, &h.name, &block}
			if !packed {
				err := record.ScanStored(scan, &h.Stored, dest[:2]...)
				hits = addHit(hits, &h.Hit)
				return true, err
			}
			err := record.ScanStored(scan, &h.Stored, dest[:]...)
			if block != nil {
				some, err := oldkeys.In(block, q.from, q.to)
				keys = append(keys, some...)
				return true, err
			}
			found = append(found, h)
			return true, err
		}); err != nil {
			return err
		}
		if len(keys) > 0 {
			var err error
			if found, err = q.packed(ctx, r, scope, keys, found); err != nil {
				return err
			}
		}
		for i := range found {
			hits = addHit(hits, &found[i].Hit)
		}
		return nil
	})
	return hits, err
}

// addHit merges the keys of one object, and its files in one transaction, into one hit.
func addHit(hits []record.Hit, h *record.Hit) []record.Hit {
	if i := slices.IndexFunc(hits, func(o record.Hit) bool { return o.Row() == h.Row() }); i >= 0 {
		hits[i].Role |= h.Role
		return hits
	}
	return append(hits, *h)
}

// packed adds the hits of packed keys that the query selects to others, in its order.
func (q *keyQuery) packed(ctx context.Context, r engine.Reader, scope record.Scope, keys []oldkeys.Key, found []keyHit) ([]keyHit, error) {
	where, args := scope.Where("s.product_id", []any{int64(0)})
	text := "SELECT " + record.ObjectColumns + ", " + record.FileColumns + signature + " FROM object o" + hitOf(where) + " WHERE o.id = $1"
	for _, k := range keys {
		if q.role != 0 && symfile.Role(k.Role)&q.role == 0 || q.name != nil && !k.Own && k.Name != *q.name {
			continue
		}
		args[0] = k.Object
		if err := r.Each(ctx, scope.Few(), text, args, func(scan engine.Scan) (bool, error) {
			h := keyHit{id: k.ID, name: k.Name}
			err := record.ScanStored(scan, &h.Stored, &h.Signature)
			h.Role = symfile.Role(k.Role)
			if k.Own {
				h.name = symfile.Fold(h.Object.Name)
			}
			if q.name != nil && h.name != *q.name || q.kinds != nil && !slices.Contains(q.kinds, h.Object.Kind) {
				return true, err
			}
			found = append(found, h)
			return true, err
		}); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(found, func(a, b keyHit) int {
		if q.to != "" {
			return cmp.Compare(b.id, a.id)
		}
		return cmp.Or(cmp.Compare(b.id, a.id), cmp.Compare(b.name, a.name), cmp.Compare(b.Row(), a.Row()))
	})
	return found[:min(len(found), q.limit)], nil
}

// Lookup returns the objects in the scope that answer a key, newest first, at
// most 256. If there are none, the error is nil. Unique is left to the caller,
// which decides which objects are equal.
func (db *DB) Lookup(ctx context.Context, scope record.Scope, l symfile.Lookup) ([]record.Hit, error) {
	if l.ID == "" {
		return nil, nil
	}
	q := keyQuery{from: l.ID, role: l.Role, kinds: l.IDKind.Kinds(), limit: record.MaxRows}
	if l.Name != "" {
		q.name = &l.Name
	}
	hits, err := db.keyHits(ctx, scope, q)
	return hits, db.base.Fail("look up", err)
}

// ofGUID returns the query for the objects of some kinds whose ids begin with a GUID.
func ofGUID(guid string, limit int, kinds ...symfile.Kind) keyQuery {
	// All keys that begin with the GUID: g sorts after the last hex digit.
	return keyQuery{from: guid, to: guid + "g", kinds: kinds, limit: limit}
}

// ImagesOf returns at most limit images in the scope whose debug record has the GUID (32
// lower-case digits), newest first, whatever age or stamp it has.
func ImagesOf(ctx context.Context, db *DB, scope record.Scope, guid string, limit int) ([]record.Hit, error) {
	if len(guid) != 32 {
		return nil, nil
	}
	hits, err := db.keyHits(ctx, scope, ofGUID(guid, limit, symfile.PE))
	return hits, db.base.Fail("look up the images of a PDB", err)
}

// HigherAge returns the PDBs in the scope, plain or in an MSFZ container, with
// the GUID (32 lower-case digits), the folded name ("" for any) and an age above
// age. They are ordered by age, and within one age those of try builds last,
// and then by transaction, newest first.
func (db *DB) HigherAge(ctx context.Context, scope record.Scope, name, guid string, age uint32) ([]record.Hit, error) {
	if len(guid) != 32 {
		return nil, nil
	}
	q := ofGUID(guid, maxAges, symfile.PDB, symfile.MSFZ)
	if name != "" {
		q.name = &name
	}
	hits, err := db.keyHits(ctx, scope, q)
	if err != nil {
		return nil, db.base.Fail("look up a higher age", err)
	}
	hits = slices.DeleteFunc(hits, func(h record.Hit) bool {
		return h.Object.DebugID.Age <= age || h.Object.DebugID.GUID.Lower() != guid
	})
	slices.SortStableFunc(hits, func(a, b record.Hit) int {
		return cmp.Or(cmp.Compare(a.Object.DebugID.Age, b.Object.DebugID.Age), a.CompareTry(&b.Stored), cmp.Compare(b.Number, a.Number))
	})
	return hits, nil
}

// hits runs a query of objects and merges the files of one object in one transaction into one
// hit.
func (db *DB) hits(ctx context.Context, constant bool, query string, args []any) (hits []record.Hit, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx) // see keyHits
	err = db.base.Lookup(ctx, func(r engine.Reader) error {
		hits = nil
		return r.Each(ctx, constant, query, args, func(scan engine.Scan) (bool, error) {
			var h record.Hit
			err := record.ScanStored(scan, &h.Stored, &h.Role, &h.Signature)
			hits = addHit(hits, &h)
			return true, err
		})
	})
	slices.SortStableFunc(hits, func(a, b record.Hit) int { return cmp.Compare(b.Number, a.Number) })
	return hits, err
}

// HasObject reports whether a content of this size is known under the object's
// own key, visible or not. It is a hint: neither bytes nor scope are compared.
func (db *DB) HasObject(ctx context.Context, o symfile.Object, size int64) (bool, error) {
	aliases := o.Aliases()
	if len(aliases) == 0 {
		return false, nil
	}
	var is bool
	err := db.base.Points.Row(ctx, `SELECT EXISTS (SELECT 1 FROM lookup l
		JOIN object o ON o.id = l.object_id JOIN content c ON c.id = o.content_id
		WHERE l.id = $1 AND l.name = $2 AND o.kind = $3 AND c.size = $4)`, []any{aliases[0].ID, aliases[0].Name, o.Kind, size}, &is)
	if err != nil || is {
		return is, db.base.Fail("look up an object", err)
	}
	objects, err := oldkeys.OfName(ctx, db.base.Points, aliases[0].ID, aliases[0].Name)
	for _, object := range objects {
		if err == nil && !is {
			err = db.base.Points.Row(ctx, `SELECT EXISTS (SELECT 1 FROM object o JOIN content c ON c.id = o.content_id
				WHERE o.id = $1 AND o.kind = $2 AND c.size = $3)`, []any{object, o.Kind, size}, &is)
		}
	}
	return is, db.base.Fail("look up an object", err)
}

// Generation returns a number that every change of visible content or of rights
// changes, in any process: commits, removals, downloaded, evicted and derived
// contents, and changes of tokens. Misses, counts, last uses and jobs do not change
// it. It never repeats, even after the database was restored from a backup.
func (db *DB) Generation(ctx context.Context) (uint64, error) {
	return db.base.Generation(ctx)
}

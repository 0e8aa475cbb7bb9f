package index

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/index/engine"
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

// lookupSelect returns a query for the keys that meet a condition, with their
// visible objects in the scope, each with the newest transaction that holds it.
func lookupSelect(cond, order string, limit int, scope record.Scope, args []any) (string, []any) {
	where, args := scope.Where("s.product_id", args)
	return "SELECT " + record.ObjectColumns + ", " + record.FileColumns + `, l.role` + signature + `
 FROM lookup l
 JOIN object o ON o.id = l.object_id
 JOIN content c ON c.id = o.content_id
 JOIN tx_file f ON f.object_id = l.object_id AND f.tx_id = (SELECT max(s.tx_id) FROM seen s WHERE s.object_id = l.object_id` + where + `)
 JOIN tx t ON t.id = f.tx_id
 ` + withSignature + `
 WHERE ` + cond + " ORDER BY " + order + " LIMIT " + strconv.Itoa(limit), args
}

const (
	nameCond   = "l.id = $1 AND l.name = $2 AND (l.role & $3) <> 0"
	idCond     = "l.id = $1 AND (l.role & $2) <> 0"
	ageCond    = "l.id >= $1 AND l.id < $2 AND l.name = $3 AND o.kind IN ($4, $5)"
	anyAgeCond = "l.id >= $1 AND l.id < $2 AND o.kind IN ($3, $4)"
	newestKey  = "l.id DESC, l.name DESC, l.object_id DESC" // the primary key in reverse order
	ageKey     = "l.id DESC"
)

// Lookup returns the objects in the scope that answer a key, newest first, at
// most 256. If there are none, the error is nil. Unique is left to the caller,
// which decides which objects are equal.
func (db *DB) Lookup(ctx context.Context, scope record.Scope, l symfile.Lookup) ([]record.Hit, error) {
	if l.ID == "" {
		return nil, nil
	}
	cond, args := nameCond, []any{l.ID, l.Name, l.Role}
	if l.Name == "" {
		cond, args = idCond, []any{l.ID, l.Role}
	}
	// A key does not record the kind of its id; the kind of the object
	// determines it.
	if kinds := l.IDKind.Kinds(); kinds != nil {
		numbers := make([]string, len(kinds))
		for i, k := range kinds {
			numbers[i] = strconv.Itoa(int(k))
		}
		cond += " AND o.kind IN (" + strings.Join(numbers, ", ") + ")"
	}
	query, args := lookupSelect(cond, newestKey, record.MaxRows, scope, args)
	hits, err := db.hits(ctx, scope.Few(), query, args)
	return hits, db.base.Fail("look up", err)
}

// ImagesOf returns at most limit images in the scope whose debug record has the GUID (32
// lower-case digits), newest first, whatever age or stamp it has.
func ImagesOf(ctx context.Context, db *DB, scope record.Scope, guid string, limit int) ([]record.Hit, error) {
	if len(guid) != 32 {
		return nil, nil
	}
	query, args := lookupSelect(anyAgeCond, ageKey, limit, scope, []any{guid, guid + "g", symfile.PE, symfile.PE})
	hits, err := db.hits(ctx, scope.Few(), query, args)
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
	// All keys that begin with the GUID: g sorts after the last hex digit.
	cond, args := ageCond, []any{guid, guid + "g", name, symfile.PDB, symfile.MSFZ}
	if name == "" {
		cond, args = anyAgeCond, []any{guid, guid + "g", symfile.PDB, symfile.MSFZ}
	}
	query, args := lookupSelect(cond, ageKey, maxAges, scope, args)
	hits, err := db.hits(ctx, scope.Few(), query, args)
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

// hits runs a query of lookupSelect and merges the keys of one object, and its
// files in one transaction, into one hit.
func (db *DB) hits(ctx context.Context, constant bool, query string, args []any) ([]record.Hit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// For each query with a cancellable context the driver starts a goroutine,
	// which costs more than the query.
	ctx = context.WithoutCancel(ctx)
	var hits []record.Hit
	read := func(r engine.Reader) error {
		hits = nil
		return r.Each(ctx, constant, query, args, func(scan engine.Scan) (bool, error) {
			var h record.Hit
			if err := record.ScanStored(scan, &h.Stored, &h.Role, &h.Signature); err != nil {
				return false, err
			}
			if i := slices.IndexFunc(hits, func(o record.Hit) bool { return o.Row() == h.Row() }); i >= 0 {
				hits[i].Role |= h.Role
				return true, nil
			}
			hits = append(hits, h)
			return true, nil
		})
	}
	if err := db.base.Lookup(ctx, read); err != nil {
		return nil, err
	}
	slices.SortStableFunc(hits, func(a, b record.Hit) int { return cmp.Compare(b.Number, a.Number) })
	return hits, nil
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
	return is, db.base.Fail("look up an object", err)
}

// Generation returns a number that every change of visible content or of rights
// changes, in any process: commits, removals, downloaded, evicted and derived
// contents, and changes of tokens. Misses, counts, last uses and jobs do not change
// it. It never repeats, even after the database was restored from a backup.
func (db *DB) Generation(ctx context.Context) (uint64, error) {
	return db.base.Generation(ctx)
}

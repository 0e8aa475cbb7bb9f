package index

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// confirmBatch is the number of keys that one query of Unfound looks up.
const confirmBatch = 2000

// confirmKey is a key under which an object of a transaction must be found.
type confirmKey struct {
	Entry int    `json:"e"` // its position in the list
	ID    string `json:"i"`
	Name  string `json:"n"`
	Role  int    `json:"r"`
	Sum   string `json:"s"` // hex
	Kind  int    `json:"k"`
}

const (
	keysSQLite = `(SELECT value ->> '$.e' AS e, value ->> '$.i' AS i, value ->> '$.n' AS n, value ->> '$.r' AS r, unhex(value ->> '$.s') AS s,
		value ->> '$.k' AS k FROM json_each($1))`
	keysPostgres = `(SELECT j.e, j.i, j.n, j.r, decode(j.s, 'hex') AS s, j.k
		FROM json_to_recordset($1::text::json) AS j(e bigint, i text, n text, r bigint, s text, k bigint))`
)

// unfound looks up one key after the other by its own few rows. Its shape, and the sum that
// hides tx_id from the index of a transaction's files, leave a database no other plan: one
// that has no statistics of a transaction just committed would else walk all files of the
// transaction, or of its product, for each key.
func unfound(keys string) string {
	return `SELECT DISTINCT w.e FROM ` + keys + ` w WHERE (SELECT 1 FROM lookup l
		WHERE l.id = w.i AND l.name = w.n AND (l.role & w.r) = w.r
		AND (SELECT o.kind = w.k AND c.sha256 = w.s FROM object o CROSS JOIN content c WHERE o.id = l.object_id AND c.id = o.content_id)
		AND (SELECT 1 FROM seen v WHERE v.object_id = l.object_id AND v.product_id = (SELECT product_id FROM tx WHERE id = $2)) IS NOT NULL
		AND (SELECT 1 FROM tx_file f WHERE f.object_id = l.object_id AND f.tx_id + 0 = $2 LIMIT 1) IS NOT NULL
		LIMIT 1) IS NULL`
}

var unfoundText = engine.Dialects(unfound(keysSQLite), unfound(keysPostgres))

// Unfound returns the positions of the entries that a transaction does not have, or that
// one of their keys does not find in its product with their own content, in ascending
// order. If the transaction has been removed meanwhile, there are none.
func (db *DB) Unfound(ctx context.Context, number int64, entries []record.Entry) ([]int, error) {
	var removed bool
	err := db.base.Points.Row(ctx, "SELECT deleted_at IS NOT NULL FROM tx WHERE id = $1", []any{number}, &removed)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, db.base.Fail("confirm a build", err)
	}
	if removed {
		return nil, nil
	}
	missing := map[int]bool{}
	var keys []confirmKey
	var absent []int
	flush := func() error {
		list, err := json.Marshal(keys)
		if err != nil {
			return err
		}
		keys = keys[:0]
		return db.base.Points.Each(ctx, true, unfoundText, []any{string(list), number}, func(scan engine.Scan) (bool, error) {
			var n int
			err := scan(&n)
			absent = append(absent, n)
			return true, err
		})
	}
	for i, e := range entries {
		sum := hex.EncodeToString(e.Ref[:])
		for _, a := range e.Aliases {
			keys = append(keys, confirmKey{i, symfile.Fold(a.ID), symfile.Fold(a.Name), int(a.Role), sum, int(e.Object.Kind)})
		}
		if len(e.Aliases) == 0 {
			missing[i] = true // no request finds it
		}
		if len(keys) >= confirmBatch || i == len(entries)-1 && len(keys) > 0 {
			if err := flush(); err != nil {
				return nil, db.base.Fail("confirm a build", err)
			}
		}
	}
	// The keys of an object that was known long before may be packed.
	for _, n := range absent {
		found, err := db.packedFind(ctx, number, &entries[n])
		if err != nil {
			return nil, db.base.Fail("confirm a build", err)
		}
		if !found {
			missing[n] = true
		}
	}
	list := make([]int, 0, len(missing))
	for i := range missing {
		list = append(list, i)
	}
	slices.Sort(list)
	return list, nil
}

// packedOf is the condition of unfound for an object with packed keys.
const packedOf = `SELECT o.name_fold, EXISTS (SELECT 1 FROM content c WHERE c.id = o.content_id AND c.sha256 = $3) AND o.kind = $4
	AND EXISTS (SELECT 1 FROM seen v WHERE v.object_id = o.id AND v.product_id = (SELECT product_id FROM tx WHERE id = $2))
	AND (SELECT 1 FROM tx_file f WHERE f.object_id = o.id AND f.tx_id + 0 = $2 LIMIT 1) IS NOT NULL FROM object o WHERE o.id = $1`

// packedFind reports whether all keys of an entry find it in the product of a transaction, some of them packed.
func (db *DB) packedFind(ctx context.Context, number int64, e *record.Entry) (bool, error) {
	for _, a := range e.Aliases {
		id, name := symfile.Fold(a.ID), symfile.Fold(a.Name)
		keys, err := oldkeys.Of(ctx, db.base.Points, id)
		if err != nil {
			return false, err
		}
		found := false
		for _, k := range keys {
			var own string
			var is bool
			err := db.base.Points.Row(ctx, packedOf, []any{k.Object, number, e.Ref[:], e.Object.Kind}, &own, &is)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return false, err
			}
			found = found || is && symfile.Role(k.Role)&a.Role == a.Role && (k.Own && own == name || !k.Own && k.Name == name)
		}
		if !found {
			list, err := json.Marshal([]confirmKey{{0, id, name, int(a.Role), hex.EncodeToString(e.Ref[:]), int(e.Object.Kind)}})
			if err != nil {
				return false, err
			}
			found = true
			if err := db.base.Points.Each(ctx, true, unfoundText, []any{string(list), number}, func(engine.Scan) (bool, error) {
				found = false
				return false, nil
			}); err != nil {
				return false, err
			}
		}
		if !found {
			return false, nil
		}
	}
	return true, nil
}

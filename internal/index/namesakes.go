package index

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// Namesakes returns the objects in the scope that have a folded name, at most limit,
// those first that became known last.
func Namesakes(ctx context.Context, db *DB, scope record.Scope, name string, limit int) ([]record.Hit, error) {
	where, args := scope.Where("s.product_id", []any{name})
	hits, err := db.hits(ctx, scope.Few(), "SELECT "+record.ObjectColumns+", "+record.FileColumns+`, o.role`+signature+`
 FROM object o
 JOIN content c ON c.id = o.content_id
 JOIN tx_file f ON f.object_id = o.id AND f.tx_id = (SELECT max(s.tx_id) FROM seen s WHERE s.object_id = o.id`+where+`)
 JOIN tx t ON t.id = f.tx_id
 `+withSignature+`
 WHERE o.name_fold = $1 ORDER BY o.id DESC LIMIT `+strconv.Itoa(limit), args)
	return hits, db.base.Fail("look up a name", err)
}

// NamedNear returns the objects of a kind in the scope that have a folded name, at most
// limit, those first whose transaction has a number close to the given one.
func NamedNear(ctx context.Context, db *DB, scope record.Scope, name string, kind symfile.Kind, number int64,
	limit int) ([]record.Hit, error) {
	where, args := scope.Where("s.product_id", []any{name, kind, number})
	hits, err := db.hits(ctx, scope.Few(), "SELECT "+record.ObjectColumns+", "+record.FileColumns+`, o.role`+signature+`
 FROM object o
 JOIN content c ON c.id = o.content_id
 JOIN tx_file f ON f.object_id = o.id AND f.tx_id = (SELECT max(s.tx_id) FROM seen s WHERE s.object_id = o.id`+where+`)
 JOIN tx t ON t.id = f.tx_id
 `+withSignature+`
 WHERE o.name_fold = $1 AND o.kind = $2 ORDER BY abs(f.tx_id - $3), o.id DESC LIMIT `+strconv.Itoa(limit), args)
	distance := func(h record.Hit) int64 { return max(h.Number-number, number-h.Number) }
	slices.SortStableFunc(hits, func(a, b record.Hit) int { return cmp.Compare(distance(a), distance(b)) })
	return hits, db.base.Fail("look up a name", err)
}

package index

import (
	"context"
	"strconv"
)

// Namesakes returns the objects in the scope that have a folded name, at most limit,
// those first that became known last.
func Namesakes(ctx context.Context, db *DB, scope Scope, name string, limit int) ([]Hit, error) {
	where, args := scope.where("s.product_id", []any{name})
	hits, err := db.hits(ctx, scope.few(), "SELECT "+objectColumns+", "+fileColumns+`, o.role
 FROM object o
 JOIN content c ON c.id = o.content_id
 JOIN tx_file f ON f.object_id = o.id AND f.tx_id = (SELECT max(s.tx_id) FROM seen s WHERE s.object_id = o.id`+where+`)
 JOIN tx t ON t.id = f.tx_id
 WHERE o.name_fold = $1 ORDER BY o.id DESC LIMIT `+strconv.Itoa(limit), args)
	return hits, db.fail("look up a name", err)
}

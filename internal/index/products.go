package index

import (
	"context"
	"slices"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// ContentProducts returns the sorted names of the products that contain visible
// objects of a content. If there are none, the error is nil.
func (db *DB) ContentProducts(ctx context.Context, ref blob.Ref) ([]string, error) {
	var list []string
	err := db.base.Points.Each(ctx, true, `SELECT p.name FROM content c JOIN object o ON o.content_id = c.id
		JOIN seen s ON s.object_id = o.id JOIN product p ON p.id = s.product_id WHERE `+record.IsC, []any{ref[:]},
		func(scan engine.Scan) (bool, error) {
			var name string
			err := scan(&name)
			list = append(list, name)
			return true, err
		})
	slices.Sort(list)
	list = slices.Compact(list)
	return list, db.base.Fail("look up products", err)
}

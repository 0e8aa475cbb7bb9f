package stages

import (
	"context"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
)

// NamedContent is a content of a product, with the path that the newest build has for it.
type NamedContent struct {
	record.Content
	Path string
}

// namesakes looks at the newest objects of a name only: a name may have thousands of builds,
// also of other products.
const namesakes = `SELECT c.sha256, c.size, ` + record.PathColumn + `
	FROM (SELECT id, content_id, name, name_fold FROM object WHERE name_fold = $1 ORDER BY id DESC LIMIT 256) AS o
	JOIN seen s ON s.object_id = o.id AND s.product_id = (SELECT id FROM product WHERE name = $2) AND s.tx_id > 0
	JOIN content c ON c.id = o.content_id
	JOIN tx_file f ON f.object_id = o.id AND f.tx_id = s.tx_id
	ORDER BY s.tx_id DESC, o.id DESC LIMIT 16`

// Namesakes returns contents that the newest builds of a product have under a folded name, at
// most 16, those of the newest build first.
func (ss StageRows) Namesakes(ctx context.Context, product, name string) (list []NamedContent, err error) {
	err = ss.db.Points.Each(ctx, true, namesakes, []any{engine.Text(name), engine.Text(product)}, func(scan engine.Scan) (bool, error) {
		var c NamedContent
		var ref []byte
		err := scan(&ref, &c.Size, &c.Path)
		if err == nil {
			err = record.ScanRef(ref, &c.Ref)
		}
		list = append(list, c)
		return true, err
	})
	return list, ss.db.Fail("look up files of a name", err)
}

// HasBuilds reports whether a product has builds.
func (ss StageRows) HasBuilds(ctx context.Context, product string) (has bool, err error) {
	err = ss.db.Points.Row(ctx, `SELECT EXISTS (SELECT 1 FROM tx WHERE product_id = (SELECT id FROM product WHERE name = $1)
		AND id > 0 AND deleted_at IS NULL)`, []any{engine.Text(product)}, &has)
	return has, ss.db.Fail("look for builds of a product", err)
}

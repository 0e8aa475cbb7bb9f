package index

import (
	"context"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Holder is one reference to a content: a file of a transaction, a cached file
// or a derivation.
type Holder struct {
	File        string // the object's name; empty for a derivation
	Path        string // the path from which it was added or downloaded
	Product     string
	Version     string
	Transaction int64  // 0 for a cached file or a derivation
	Source      string // the upstream of a cached file
	// For a derivation: Of is the content from which Tool made the content.
	Of   blob.Ref
	Tool string
}

// maxHolders limits the result of Holders.
const maxHolders = 20

// Holders returns references to a content, newest transactions first, at most
// 20. If there are none, the error is nil.
func (db *DB) Holders(ctx context.Context, ref blob.Ref) ([]Holder, error) {
	var list []Holder
	err := db.base.Scans.Each(ctx, true, `SELECT
		  `+record.NameColumn+`, `+record.PathColumn+`, p.name, t.version, `+engine.Larger("t.id", "0")+`, coalesce(t.source, ''), NULL, ''
		  FROM content c JOIN object o ON o.content_id = c.id JOIN tx_file f ON f.object_id = o.id JOIN tx t ON t.id = f.tx_id
		JOIN product p ON p.id = t.product_id
		  WHERE `+record.IsC+`
		UNION ALL SELECT '', '', '', '', 0, '', s.sha256, d.tool
		  FROM content c JOIN derived d ON d.content_id = c.id JOIN content s ON s.id = d.source_id WHERE `+record.IsC+`
		ORDER BY 5 DESC LIMIT $2`, []any{ref[:], maxHolders}, func(scan engine.Scan) (bool, error) {
		var h Holder
		var of []byte
		if err := scan(&h.File, &h.Path, &h.Product, &h.Version, &h.Transaction, &h.Source, &of, &h.Tool); err != nil {
			return false, err
		}
		if of != nil {
			if err := record.ScanRef(of, &h.Of); err != nil {
				return false, err
			}
		}
		list = append(list, h)
		return true, nil
	})
	return list, db.base.Fail("look up the references to a content", err)
}

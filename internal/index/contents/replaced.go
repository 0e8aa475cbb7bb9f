package contents

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Replacement describes files that take the place of derived contents.
type Replacement struct {
	// IDs are the ids, folded, under which both are found.
	IDs []string
	// Kind is the kind of the replacing files, Role the role in which they answer.
	Kind symfile.Kind
	Role symfile.Role
}

// replacedDerived selects the derived contents of the tools that begin with $3, of
// contents that have one of the ids in $1 and are of another kind than $2. Every
// product with such a content also has a file of kind $2 that answers in the role $4
// under the id: no caller needs the derived content.
const replacedDerived = ` FROM %s
 JOIN object o ON o.id = l.object_id AND o.kind <> $2
 JOIN derived d ON d.source_id = o.content_id AND substr(d.tool, 1, length(CAST($3 AS text))) = $3
 WHERE d.content_id IS NOT NULL AND NOT EXISTS (
   SELECT 1 FROM object p JOIN seen s ON s.object_id = p.id WHERE p.content_id = o.content_id AND s.product_id NOT IN (
     SELECT r.product_id FROM lookup m JOIN object q ON q.id = m.object_id AND q.kind = $2 JOIN seen r ON r.object_id = q.id
     WHERE m.id = l.id AND (m.role & $4) <> 0))`

// ofIDs joins the keys with the ids of a JSON list.
const (
	ofIDs   = "json_each($1) j CROSS JOIN lookup l ON l.id = j.value"
	pgOfIDs = "jsonb_array_elements_text($1::jsonb) AS j(value) JOIN lookup l ON l.id = j.value"
)

var replacedText = engine.Dialects("SELECT DISTINCT d.source_id, d.tool, d.tool_version"+fmt.Sprintf(replacedDerived, ofIDs),
	"SELECT DISTINCT d.source_id, d.tool, d.tool_version"+fmt.Sprintf(replacedDerived, pgOfIDs))

// DropReplaced deletes the records of the contents that tools, whose names begin with
// prefix, derived of the files that r replaces for every caller, and returns their
// number. The next garbage collection frees their bytes.
func DropReplaced(ctx context.Context, db *engine.Database, prefix string, r Replacement) (n int64, err error) {
	const op = "delete replaced contents"
	if len(r.IDs) == 0 {
		return 0, nil
	}
	ids, err := json.Marshal(r.IDs)
	if err != nil {
		return 0, db.Fail(op, err)
	}
	if err := oldkeys.UnpackIDs(ctx, db, r.IDs); err != nil {
		return 0, db.Fail(op, err)
	}
	type row struct {
		source  int64
		tool    string
		version int
	}
	var rows []row
	if err := db.Scans.Each(ctx, true, replacedText, []any{string(ids), r.Kind, prefix, r.Role}, func(scan engine.Scan) (bool, error) {
		var x row
		err := scan(&x.source, &x.tool, &x.version)
		rows = append(rows, x)
		return true, err
	}); err != nil || len(rows) == 0 {
		return 0, db.Fail(op, err)
	}
	err = db.Update(ctx, op, func(w *engine.Write) error {
		n = 0
		now := db.Now()
		for _, x := range rows {
			results, err := w.IDs("SELECT content_id FROM derived "+
				"WHERE source_id = $1 AND tool = $2 AND tool_version = $3 AND content_id IS NOT NULL", x.source, x.tool, x.version)
			if err != nil {
				return err
			}
			if _, err := w.Exec("DELETE FROM derived WHERE source_id = $1 AND tool = $2 AND tool_version = $3",
				x.source, x.tool, x.version); err != nil {
				return err
			}
			if err := releaseUnused(w, now, results...); err != nil {
				return err
			}
			n += int64(len(results))
		}
		return record.NextGeneration(w)
	})
	return n, err
}

var replacedCachedText = engine.Dialects(replacedCached("json_each($1) j CROSS JOIN lookup l ON l.id = $3 || j.value"),
	replacedCached("jsonb_array_elements_text($1::jsonb) AS j(value) JOIN lookup l ON l.id = $3 || j.value"))

// replacedCached selects the cached files of the source $5 under the ids in $1 with the
// prefix $3, for which the files without a product have one of kind $2.
func replacedCached(keys string) string {
	return `SELECT DISTINCT k.sha256 FROM ` + keys + `
 JOIN object o ON o.id = l.object_id JOIN cached c ON c.content_id = o.content_id JOIN tx t ON t.id = c.tx_id AND t.source = $5
JOIN content k ON k.id = o.content_id
 WHERE EXISTS (SELECT 1 FROM lookup m JOIN object q ON q.id = m.object_id AND q.kind = $2 JOIN seen r ON r.object_id = q.id
JOIN product p ON p.id = r.product_id AND p.name = ''
   WHERE m.id = j.value AND (m.role & $4) <> 0)`
}

// Replaced returns the cached files of a source whose keys are the ids of r with a
// prefix, and that r replaces for all callers of files without a product.
func (cf CachedFiles) Replaced(ctx context.Context, source, prefix string, r Replacement) (refs []blob.Ref, err error) {
	if len(r.IDs) == 0 {
		return nil, nil
	}
	ids, err := json.Marshal(r.IDs)
	if err != nil {
		return nil, err
	}
	if err := oldkeys.UnpackIDs(ctx, cf.contents.db, r.IDs); err != nil {
		return nil, cf.contents.db.Fail("look up replaced files", err)
	}
	err = cf.contents.db.Scans.Each(ctx, true, replacedCachedText, []any{string(ids), r.Kind, prefix, r.Role, engine.Text(source)},
		func(scan engine.Scan) (bool, error) {
			var b []byte
			var ref blob.Ref
			if err := scan(&b); err != nil {
				return false, err
			}
			err := record.ScanRef(b, &ref)
			refs = append(refs, ref)
			return true, err
		})
	return refs, cf.contents.db.Fail("look up replaced files", err)
}

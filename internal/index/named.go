package index

import (
	"context"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// Named says how the transactions in a scope use a file name. Cached files do not count.
type Named struct {
	Debug   bool // a file with debug information has the name
	Program bool // another file has the name
	Removed bool // a file that a removal has hidden had the name
}

// NamedIn looks up a folded file name in an index.
func NamedIn(ctx context.Context, db *DB, scope record.Scope, name string) (n Named, err error) {
	if name == "" {
		return n, nil
	}
	exists := func(table, column, cond string, args ...any) (is bool, err error) {
		where, args := scope.Where(column, append([]any{name}, args...))
		err = db.base.Points.Each(ctx, scope.Few(), "SELECT 1 FROM "+table+" WHERE "+cond+where+" LIMIT 1", args,
			func(engine.Scan) (bool, error) {
				is = true
				return false, nil
			})
		return is, err
	}
	// A query for each, because one file with the name is enough.
	const object, named = "object o JOIN seen s ON s.object_id = o.id AND s.tx_id > 0", "o.name_fold = $1"
	const debug = symfile.Debug | symfile.Symbols
	if n.Debug, err = exists(object, "s.product_id", named+" AND (o.role & $2) <> 0", debug); err == nil {
		if n.Program, err = exists(object, "s.product_id", named+" AND (o.role & $2) = 0", debug); err == nil {
			n.Removed, err = exists("removed_file r JOIN tx t ON t.id = r.tx_id", "t.product_id", "r.folded = $1")
		}
	}
	return n, db.base.Fail("look up a name", err)
}

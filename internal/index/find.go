package index

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// Find returns the objects in the scope that match q, ordered by name, at most
// limit (0: all).
func (db *DB) Find(ctx context.Context, scope record.Scope, q record.Query, limit int) ([]record.Found, error) {
	f := finder{db: db.base, scope: scope, kind: q.Kind, limit: limit, have: make(map[int64]bool)}
	found, err := f.find(ctx, q)
	return found, db.base.Fail("find", err)
}

// finder is one search: it collects the ids of objects and then reads them.
type finder struct {
	db    *engine.Database
	scope record.Scope
	kind  symfile.Kind
	limit int
	ids   []int64
	have  map[int64]bool
}

func (f *finder) find(ctx context.Context, q record.Query) ([]record.Found, error) {
	for _, id := range q.IDs {
		if err := f.collect(ctx, "lookup l JOIN object o ON o.id = l.object_id", "l.id = $1", nil, id); err != nil {
			return nil, err
		}
		if err := f.packed(ctx, id, ""); err != nil {
			return nil, err
		}
	}
	if q.Prefix != "" {
		if err := f.collect(ctx, "lookup l JOIN object o ON o.id = l.object_id", "l.id >= $1 AND l.id < $2",
			nil, q.Prefix, record.PrefixEnd(q.Prefix)); err != nil {
			return nil, err
		}
		if err := f.packed(ctx, q.Prefix, record.PrefixEnd(q.Prefix)); err != nil {
			return nil, err
		}
	}
	if q.Ref != nil {
		if err := f.collect(ctx, "content c JOIN object o ON o.content_id = c.id", record.IsC, nil, q.Ref[:]); err != nil {
			return nil, err
		}
	}
	if from, to, ok := record.RefRange(q.RefPrefix); ok {
		if err := f.collect(ctx, "content c JOIN object o ON o.content_id = c.id", record.HashBetween("c.sha256", "$1", "$2"),
			nil, from[:], to[:]); err != nil {
			return nil, err
		}
	}
	if name := engine.Text(q.Name); record.IsPattern(name) {
		p := record.LiteralPrefix(name, "*?")
		// The distinct names are fewer than the objects.
		if err := f.collect(ctx, "listed_name k CROSS JOIN object o",
			`k.product_id = 0 AND k.name >= $1 AND k.name < $2 AND k.name LIKE $3 ESCAPE '\' AND o.name_fold = k.name`,
			func(name string) bool { return glob.Match(q.Name, name) }, p, record.PrefixEnd(p), record.LikeEscaper.Replace(name)); err != nil {
			return nil, err
		}
	} else if q.Name != "" {
		if err := f.collect(ctx, "object o", "o.name_fold = $1", nil, q.Name); err != nil {
			return nil, err
		}
	}
	found := make([]record.Found, 0, len(f.ids))
	for _, id := range f.ids {
		o, err := f.load(ctx, id)
		if errors.Is(err, sql.ErrNoRows) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		found = append(found, o)
	}
	sorting.Stable(found, func(a, b record.Found) int {
		return cmp.Or(cmp.Compare(symfile.Fold(a.Object.Name), symfile.Fold(b.Object.Name)), cmp.Compare(b.Number, a.Number),
			cmp.Compare(a.Row(), b.Row()))
	})
	return found, nil
}

// packed adds the objects that have packed keys with ids from from on and before to, or with the
// id from. It is called after collect: keys are packed all the time, and seldom become rows again.
func (f *finder) packed(ctx context.Context, from, to string) error {
	list, err := oldkeys.Objects(ctx, f.db.Scans, from, to)
	for _, cond := range oldkeys.Among("o.id", list) {
		if err != nil || f.limit > 0 && len(f.ids) >= f.limit {
			break
		}
		err = f.collect(ctx, "object o", cond, nil)
	}
	return err
}

// collect adds the objects that meet a condition and whose folded name match
// accepts.
func (f *finder) collect(ctx context.Context, from, cond string, match func(string) bool, args ...any) error {
	where, args := f.scope.Where("s.product_id", args)
	if f.kind != symfile.KindUnknown {
		args = append(args, f.kind)
		cond += " AND o.kind = $" + strconv.Itoa(len(args))
	}
	query := "SELECT o.id, o.name_fold FROM " + from + " WHERE " + cond +
		" AND EXISTS (SELECT 1 FROM seen s WHERE s.object_id = o.id" + where + ")"
	return f.db.Scans.Each(ctx, false, query, args, func(scan engine.Scan) (bool, error) {
		if f.limit > 0 && len(f.ids) >= f.limit {
			return false, nil
		}
		var id int64
		var name string
		if err := scan(&id, &name); err != nil {
			return false, err
		}
		if !f.have[id] && (match == nil || match(name)) {
			f.have[id] = true
			f.ids = append(f.ids, id)
		}
		return true, nil
	})
}

// load reads one object. If it is no longer visible, the error is sql.ErrNoRows.
func (f *finder) load(ctx context.Context, id int64) (record.Found, error) {
	var o record.Found
	found := false
	where, args := f.scope.Where("t.product_id", []any{id})
	err := f.db.Scans.Each(ctx, f.scope.All, "SELECT "+record.ObjectColumns+", "+record.FileColumns+`
		FROM object o JOIN content c ON c.id = o.content_id JOIN tx_file f ON f.object_id = o.id JOIN tx t ON t.id = f.tx_id
		WHERE o.id = $1`+where+" ORDER BY f.tx_id DESC, f.seq", args, func(scan engine.Scan) (bool, error) {
		var s record.Stored
		if err := record.ScanStored(scan, &s); err != nil {
			return false, err
		}
		if !found {
			o.Stored, found = s, true
		}
		if s.Number > 0 && !slices.Contains(o.Transactions[max(0, len(o.Transactions)-1):], s.Number) {
			o.Transactions = append(o.Transactions, s.Number)
		}
		return true, nil
	})
	if err == nil && !found {
		err = sql.ErrNoRows
	}
	return o, err
}

// PathQuery selects ELF objects with a build-id, by exactly one of its fields.
type PathQuery struct {
	// Path is a whole path as it was added, case-sensitive.
	Path string
	// Glob is a pattern for whole paths in which *, ? and [] do not match a
	// slash; ! and ^ negate a class, a backslash escapes.
	Glob string
	// BuildID is in lower-case hex.
	BuildID string
}

// ELFPath is a path from which an ELF object was added.
type ELFPath struct {
	Role    symfile.Role
	BuildID string
	Path    string
	Archive string
}

// pathPart is a part of a search of paths: the tables, a condition on object o and file f, and its arguments.
type pathPart struct {
	from, cond string
	args       []any
}

// ELFPaths returns the paths of the ELF objects in the scope, each once, at most
// limit (0: all). complete is false if the limit or the context's deadline cut
// the result.
func (db *DB) ELFPaths(ctx context.Context, scope record.Scope, q PathQuery, limit int) (list []ELFPath, complete bool, err error) {
	const files = "tx_file f JOIN object o ON o.id = f.object_id"
	const dirs = "tx_dir d CROSS JOIN " + files
	const inDir = " AND f.tx_id = d.tx_id AND f.seq BETWEEN d.first AND d.last AND f.dir = d.no"
	parts := []pathPart{{from: files}}
	match := func(string) bool { return true }
	switch {
	case q.Path != "":
		whole := engine.Text(q.Path)
		parts[0].cond, parts[0].args = "f.dir IS NULL AND f.path = $1", []any{whole}
		// With a folder, the rest is the name of the object.
		parts = append(parts, pathPart{"object o CROSS JOIN tx_file f",
			"o.name_fold = $1 AND f.object_id = o.id AND f.dir IS NOT NULL AND " + record.PathInDir + " = $2",
			[]any{symfile.Fold(symfile.BaseName(whole)), whole}})
	case q.Glob != "":
		pattern := strings.ReplaceAll(engine.Text(q.Glob), "[!", "[^")
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, true, nil //nolint:nilerr // an invalid pattern matches nothing
		}
		match = func(p string) bool { ok, _ := path.Match(pattern, p); return ok }
		p := record.LiteralPrefix(pattern, `*?[\`)
		parts[0].cond, parts[0].args = "f.dir IS NULL AND f.path >= $1 AND f.path < $2", []any{p, record.PrefixEnd(p)}
		parts = append(parts, pathPart{dirs, "d.path >= $1 AND d.path < $2" + inDir, parts[0].args})
		// The folder may end before the literal part of the pattern does; what follows has no slash.
		if i := strings.LastIndexByte(p, '/') + 1; i > 0 && i < len(p) {
			parts = append(parts, pathPart{dirs, "d.path = $1" + inDir, []any{p[:i]}})
		}
	case q.BuildID != "":
		is := record.BuildIDColumn + " = $1 AND "
		parts[0] = pathPart{"object o JOIN tx_file f ON f.object_id = o.id", is + "o.id IN (SELECT l.object_id FROM lookup l WHERE l.id = $1)",
			[]any{q.BuildID}}
		packed, err := oldkeys.Objects(ctx, db.base.Scans, q.BuildID, "")
		if err != nil {
			return nil, false, db.base.Fail("search paths", err)
		}
		for _, cond := range oldkeys.Among(is+"o.id", packed) {
			parts = append(parts, pathPart{parts[0].from, cond, parts[0].args})
		}
	default:
		return nil, true, nil
	}
	seen := make(map[ELFPath]bool)
	complete = true
	each := func(scan engine.Scan) (bool, error) {
		var e ELFPath
		if err := scan(&e.Role, &e.BuildID, &e.Path, &e.Archive); err != nil {
			return false, err
		}
		if seen[e] || !match(e.Path) {
			return true, nil
		}
		if limit > 0 && len(list) == limit {
			complete = false
			return false, nil
		}
		seen[e] = true
		list = append(list, e)
		return true, nil
	}
	for _, p := range parts {
		if err == nil && complete {
			where, args := scope.Where("t.product_id", slices.Clone(p.args))
			err = db.base.Scans.Each(ctx, false, "SELECT o.role, "+record.BuildIDColumn+", "+record.PathColumn+", f.archive FROM "+p.from+
				" JOIN tx t ON t.id = f.tx_id WHERE f.by_path = 1 AND "+p.cond+where, args, each)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return list, false, nil
	}
	return list, complete, db.base.Fail("search paths", err)
}

// NameFits reports whether a file name fits a folded name or pattern with * and ?.
func NameFits(pattern, name string) bool { return glob.Match(pattern, symfile.Fold(name)) }

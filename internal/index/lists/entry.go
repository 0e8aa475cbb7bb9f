package lists

import (
	"cmp"
	"context"
	"database/sql"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Listing is what the lists of one page about a content are read with.
type Listing struct {
	c    Lists
	seen visibility
}

// Listing returns the lists of what a scope includes.
func (ls Lists) Listing(ctx context.Context, scope record.Scope) (Listing, error) {
	v, err := ls.visibility(ctx, scope, nil)
	return Listing{ls, v}, ls.db.Fail("look up products", err)
}

// ids reads a column of ids.
func (l Listing) ids(ctx context.Context, constant bool, query string, args ...any) (list []int64, err error) {
	err = l.c.db.Scans.Each(ctx, constant, query, args, func(scan engine.Scan) (bool, error) {
		var id int64
		err := scan(&id)
		list = append(list, id)
		return true, err
	})
	return list, err
}

// OfContent returns the visible objects of a content in the order of their names, at most
// limit. If there are none, the error is fs.ErrNotExist.
func (l Listing) OfContent(ctx context.Context, ref blob.Ref, limit int) (list []record.Found, more bool, err error) {
	const op = "look up a content"
	if l.seen.none() {
		return nil, false, fs.ErrNotExist
	}
	ids, err := l.ids(ctx, l.seen.all, "SELECT o.id FROM content c JOIN object o ON o.content_id = c.id "+
		"WHERE "+record.IsC+" AND "+l.seen.object()+" ORDER BY o.name_fold, o.id LIMIT $2", ref[:], limit+1)
	if err != nil {
		return nil, false, l.c.db.Fail(op, err)
	}
	if more = len(ids) > limit; more {
		ids = ids[:limit]
	}
	list, err = l.c.load(ctx, l.seen, ids)
	if err == nil && len(list) == 0 {
		return nil, false, fs.ErrNotExist
	}
	sorting.Stable(list, func(a, b record.Found) int {
		return cmp.Compare(symfile.Fold(a.Object.Name), symfile.Fold(b.Object.Name))
	})
	return list, more, l.c.db.Fail(op, err)
}

// HolderTx is a live transaction that holds an object.
type HolderTx struct {
	record.Transaction
	Path, Archive string          // of the first file that is the object
	Holds         []removals.Hold // ended ones included
}

// Holders returns the transactions that hold an object, newest first, with lower
// numbers than before (0: any), at most limit.
func (l Listing) Holders(ctx context.Context, o record.Found, before int64, limit int) (list []HolderTx, more bool, err error) {
	const op = "list the builds of an object"
	cond, args := "", []any{o.Row()}
	if before > 0 {
		cond, args = " AND f.tx_id < $2", append(args, before)
	}
	var numbers []int64
	at := make(map[int64]int)
	err = l.c.db.Scans.Each(ctx, l.seen.all, "SELECT f.tx_id, "+record.PathColumn+", f.archive FROM tx_file f JOIN tx t ON t.id = f.tx_id "+
		"JOIN object o ON o.id = f.object_id "+
		"WHERE f.object_id = $1 AND f.tx_id > 0"+l.seen.in("t.product_id")+cond+" ORDER BY f.tx_id DESC, f.seq",
		args, func(scan engine.Scan) (bool, error) {
			var number int64
			var h HolderTx
			err := scan(&number, &h.Path, &h.Archive)
			if _, again := at[number]; err != nil || again {
				return true, err
			}
			if more = len(list) == limit; more {
				return false, nil
			}
			at[number] = len(list)
			list, numbers = append(list, h), append(numbers, number)
			return true, nil
		})
	if err != nil || len(list) == 0 {
		return nil, false, l.c.db.Fail(op, err)
	}
	err = l.c.db.Scans.Each(ctx, false, record.TxSelect+" WHERE t.id IN ("+idList(numbers)+")", nil, func(scan engine.Scan) (bool, error) {
		t, err := record.ScanTx(scan)
		list[at[t.Number]].Transaction = t
		return true, err
	})
	if err == nil {
		err = l.c.db.Scans.Each(ctx, false, removals.HoldSelect+" WHERE tx_id IN ("+idList(numbers)+") ORDER BY placed, name", nil,
			func(scan engine.Scan) (bool, error) {
				h, err := removals.ScanHold(scan)
				if i, ok := at[h.Number]; ok {
					list[i].Holds = append(list[i].Holds, h)
				}
				return true, err
			})
	}
	// One may have been removed between the statements.
	return slices.DeleteFunc(list, func(h HolderTx) bool { return h.Number == 0 || !h.Removed.IsZero() }), more, l.c.db.Fail(op, err)
}

// Downloads returns the upstreams from which a content was downloaded, the latest
// first.
func (l Listing) Downloads(ctx context.Context, ref blob.Ref) (list []contents.CachedFile, err error) {
	err = l.c.db.Scans.Each(ctx, l.seen.all, `SELECT t.source, c.name, c.url, c.tag, c.fetched, k.size
		FROM content k JOIN cached c ON c.content_id = k.id JOIN tx t ON t.id = c.tx_id
		WHERE `+record.HashIs("k.sha256", "$1")+l.seen.in("t.product_id")+
		" ORDER BY c.fetched DESC, t.id", []any{ref[:]}, func(scan engine.Scan) (bool, error) {
		f := contents.CachedFile{Ref: ref}
		var fetched int64
		err := scan(&f.Source, &f.Name, &f.URL, &f.Tag, &fetched, &f.Size)
		f.Fetched = time.UnixMilli(fetched).UTC()
		list = append(list, f)
		return true, err
	})
	return list, l.c.db.Fail("list downloads", err)
}

// maxPartners limits the objects that Partners reads.
const maxPartners = 100

// Partners returns the other visible objects that have one of the folded ids, newest
// first.
func (l Listing) Partners(ctx context.Context, o record.Found, ids []string) ([]record.Found, error) {
	const op = "look up the files of a module"
	if len(ids) == 0 {
		return nil, nil
	}
	var args []any
	mark := make([]string, len(ids))
	for i, id := range ids {
		args = append(args, engine.Text(id))
		mark[i] = "%s"
	}
	list, err := l.ids(ctx, false, marks("SELECT DISTINCT o.id FROM lookup l JOIN object o ON o.id = l.object_id "+
		"WHERE l.id IN ("+strings.Join(mark, ", ")+") AND o.content_id <> %s AND "+l.seen.object()+" ORDER BY o.id DESC LIMIT %s", 0),
		append(args, o.ContentRow(), maxPartners)...)
	if err != nil {
		return nil, l.c.db.Fail(op, err)
	}
	for _, id := range ids {
		packed, err := oldkeys.Objects(ctx, l.c.db.Scans, engine.Text(id), "")
		if err != nil {
			return nil, l.c.db.Fail(op, err)
		}
		for _, cond := range oldkeys.Among("o.id", packed) {
			some, err := l.ids(ctx, false, "SELECT o.id FROM object o WHERE "+cond+" AND o.content_id <> $1 AND "+l.seen.object(), o.ContentRow())
			if err != nil {
				return nil, l.c.db.Fail(op, err)
			}
			list = append(list, some...)
		}
	}
	slices.SortFunc(list, func(a, b int64) int { return cmp.Compare(b, a) })
	list = slices.Compact(list)
	found, err := l.c.load(ctx, l.seen, list[:min(len(list), maxPartners)])
	return found, l.c.db.Fail(op, err)
}

// Siblings returns the newest other visible objects of the same folded name, at most
// limit. Of a name with very many objects it looks at the newest only.
func (l Listing) Siblings(ctx context.Context, o record.Found, limit int) (list []record.Found, more bool, err error) {
	const op = "list the objects of a name"
	ids, err := l.ids(ctx, false, `SELECT o.id FROM (SELECT id, content_id FROM object WHERE name_fold = $1 ORDER BY id DESC LIMIT $2) AS o
		WHERE o.content_id <> $3 AND `+l.seen.object()+" ORDER BY o.id DESC LIMIT $4",
		engine.Text(symfile.Fold(o.Object.Name)), l.c.limits.Step, o.ContentRow(), limit+1)
	if err != nil {
		return nil, false, l.c.db.Fail(op, err)
	}
	if more = len(ids) > limit; more {
		ids = ids[:limit]
	}
	list, err = l.c.load(ctx, l.seen, ids)
	return list, more, l.c.db.Fail(op, err)
}

// DerivedForm is what a tool made of a content.
type DerivedForm struct {
	Tool           record.Tool
	record.Content // zero: the result was not worth keeping
	Made           time.Time
	Note           string // what the tool says of it, as JSON; empty: nothing
}

// Forms returns what tools made of a content, and what they could not make of it.
func (l Listing) Forms(ctx context.Context, ref blob.Ref) (made []DerivedForm, failures []queue.Failure, err error) {
	const op = "list the forms of a content"
	err = l.c.db.Scans.Each(ctx, true, `SELECT d.tool, d.tool_version, d.added, coalesce(d.note, ''), r.sha256, r.size
		FROM content c JOIN derived d ON d.source_id = c.id
		LEFT JOIN content r ON r.id = d.content_id WHERE `+record.IsC+" ORDER BY d.tool, d.tool_version", []any{ref[:]},
		func(scan engine.Scan) (bool, error) {
			var f DerivedForm
			var added int64
			var sum []byte
			var size sql.NullInt64
			err := scan(&f.Tool.Name, &f.Tool.Version, &added, &f.Note, &sum, &size)
			f.Made, f.Size = time.UnixMilli(added).UTC(), size.Int64
			if err == nil && size.Valid {
				err = record.ScanRef(sum, &f.Ref)
			}
			made = append(made, f)
			return true, err
		})
	if err == nil {
		err = l.c.db.Scans.Each(ctx, true, "SELECT "+queue.FailureColumns+" FROM failure WHERE source = $1 AND ends > $2 "+
			"ORDER BY tool, version", []any{ref[:], l.c.db.Now().UnixMilli()}, func(scan engine.Scan) (bool, error) {
			f, err := queue.ScanFailure(scan)
			failures = append(failures, f)
			return true, err
		})
	}
	return made, failures, l.c.db.Fail(op, err)
}

// FileFilter selects files of a transaction.
type FileFilter struct {
	Name  string // folded name or pattern; empty is any
	Kind  symfile.Kind
	Order FileOrder
	After FileKey
	Limit int
}

// FileOrder is the order of a list of files.
type FileOrder uint8

// The orders. Files with equal keys follow in the order of adding.
const (
	FilesBySeq FileOrder = iota
	FilesByName
	FilesBySize // largest first
)

// FileKey is the place of a file in a list; the zero value is before the first.
type FileKey struct {
	Name string
	Size int64
	Seq  int64
}

// conds returns the conditions of a filter on object o, with AND before each.
func (f FileFilter) conds(args []any) (string, []any) {
	cond := ""
	if name := engine.Text(f.Name); record.IsPattern(name) {
		cond, args = cond+` AND o.name_fold LIKE %s ESCAPE '\'`, append(args, record.LikeEscaper.Replace(name))
	} else if name != "" {
		cond, args = cond+" AND o.name_fold = %s", append(args, name)
	}
	if f.Kind != symfile.KindUnknown {
		cond, args = cond+" AND o.kind = %s", append(args, f.Kind)
	}
	return cond, args
}

// FilesOf returns a page of the files of a transaction.
func (ls Lists) FilesOf(ctx context.Context, number int64, f FileFilter) (list []record.TxFile, next *FileKey, err error) {
	cond, args := f.conds([]any{number})
	order := "f.seq"
	switch f.Order {
	case FilesByName:
		order = "o.name_fold, f.seq"
		if f.After != (FileKey{}) {
			cond, args = cond+" AND (o.name_fold, f.seq) > (%s, %s)", append(args, engine.Text(f.After.Name), f.After.Seq)
		}
	case FilesBySize:
		order = "c.size DESC, f.seq"
		if f.After != (FileKey{}) {
			cond, args = cond+" AND (c.size < %s OR c.size = %s AND f.seq > %s)", append(args, f.After.Size, f.After.Size, f.After.Seq)
		}
	default:
		cond, args = cond+" AND f.seq > %s", append(args, f.After.Seq)
	}
	args = append(args, f.Limit+1)
	keys := make([]FileKey, 0, f.Limit+1)
	err = ls.db.Scans.Each(ctx, true, marks("SELECT "+record.ObjectColumns+`, f.seq, `+record.PathColumn+`, f.archive, f.mtime, o.name_fold
		FROM tx_file f JOIN object o ON o.id = f.object_id JOIN content c ON c.id = o.content_id
		WHERE f.tx_id = %s`+cond+" ORDER BY "+order+" LIMIT %s", 0), args, func(scan engine.Scan) (bool, error) {
		var s record.Stored
		var k FileKey
		var mtime sql.NullInt64
		err := record.ScanObject(scan, &s, &k.Seq, &s.Path, &s.Archive, &mtime, &k.Name)
		k.Size = s.Size
		list = append(list, record.TxFile{Object: s.Object, Arch: s.Arch, Features: s.Features, DebugSize: s.DebugSize,
			Ref: s.Ref, Size: s.Size, Path: s.Path, Archive: s.Archive, ModTime: engine.FromMillis(mtime), Cold: nil})
		keys = append(keys, k)
		return true, err
	})
	if len(list) > f.Limit {
		list, next = list[:f.Limit], &keys[f.Limit-1]
	}
	if err == nil {
		err = contents.MarkCold(ctx, ls.db, list, func(f *record.TxFile) (blob.Ref, **record.Cold) { return f.Ref, &f.Cold })
	}
	return list, next, ls.db.Fail("list the files of a build", err)
}

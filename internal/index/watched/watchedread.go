package watched

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strconv"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
)

const watchedFileColumns = "f.id, d.path, f.name, f.size, f.mtime, f.ctime, f.inode, f.kind, f.seen, coalesce(f.tag, ''), " +
	"coalesce(f.problem, '')"

func (f *File) columns(inode *int64) []any {
	return []any{&f.ID, &f.Dir, &f.Name, &f.Size, &f.MTime, &f.CTime, inode, &f.Kind, &f.Seen, &f.Tag, &f.Problem}
}

const watchedObjectColumns = "o.id, coalesce(o.member, ''), o.place, o.size, o.data, coalesce(o.signature, '')"

func (o *Object) columns() []any {
	return []any{&o.ID, &o.Member, &o.Place, &o.Size, &o.Data, &o.Signature}
}

// files reads the files that a query returns.
func (w *Watched) files(ctx context.Context, query string, args ...any) (list []File, err error) {
	err = w.reads.Each(ctx, true, "SELECT "+watchedFileColumns+" FROM "+query, args, func(scan engine.Scan) (bool, error) {
		var f File
		var inode int64
		err := scan(f.columns(&inode)...)
		f.Inode = uint64(inode)
		list = append(list, f)
		return true, err
	})
	return list, w.fail("read", err)
}

// hits reads the objects that a query returns, with their files.
func (w *Watched) hits(ctx context.Context, query string, args ...any) (list []Hit, err error) {
	err = w.reads.Each(ctx, true, "SELECT "+watchedObjectColumns+", "+watchedFileColumns+" FROM "+query, args,
		func(scan engine.Scan) (bool, error) {
			var h Hit
			var inode int64
			err := scan(append(h.columns(), h.File.columns(&inode)...)...)
			h.File.Inode = uint64(inode)
			list = append(list, h)
			return true, err
		})
	return list, w.fail("read", err)
}

// Dir returns what is known of a folder: the fingerprints of files without interest, and
// the files in it. known is false if the folder was never recorded.
func (w *Watched) Dir(ctx context.Context, path string) (dull []byte, files []File, known bool, err error) {
	err = w.reads.Row(ctx, "SELECT coalesce(dull, x'') FROM dir WHERE path = $1", []any{path}, &dull)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, false, nil
	}
	if err != nil {
		return nil, nil, false, w.fail("read", err)
	}
	files, err = w.files(ctx, "dir d JOIN file f ON f.dir = d.id WHERE d.path = $1", path)
	return dull, files, true, err
}

// Dirs returns the recorded folders after a path, in order, at most limit.
func (w *Watched) Dirs(ctx context.Context, after string, limit int) (list []string, err error) {
	err = w.reads.Each(ctx, true, "SELECT path FROM dir WHERE path > $1 ORDER BY path LIMIT $2", []any{after, limit},
		func(scan engine.Scan) (bool, error) {
			var p string
			err := scan(&p)
			list = append(list, p)
			return true, err
		})
	return list, w.fail("read", err)
}

// ByKey returns the objects that were entered under a hash, at most 256. The caller
// checks that they have what the hash was made of.
func (w *Watched) ByKey(ctx context.Context, hash int64) ([]Hit, error) {
	return w.hits(ctx, "key k JOIN object o ON o.id = k.object JOIN file f ON f.id = o.file JOIN dir d ON d.id = f.dir "+
		"WHERE k.hash = $1 ORDER BY k.object DESC LIMIT "+strconv.Itoa(record.MaxRows), hash)
}

// BySource returns the packages that may have a member with the hash of a name, at most
// 256.
func (w *Watched) BySource(ctx context.Context, hash int64) ([]File, error) {
	return w.files(ctx, "source s JOIN file f ON f.id = s.file JOIN dir d ON d.id = f.dir WHERE s.hash = $1 "+
		"ORDER BY s.file DESC LIMIT "+strconv.Itoa(record.MaxRows), hash)
}

// Names returns the list of source names of a package.
func (w *Watched) Names(ctx context.Context, file int64) (names []byte, err error) {
	err = w.reads.Row(ctx, "SELECT coalesce(names, x'') FROM file WHERE id = $1", []any{file}, &names)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return names, w.fail("read", err)
}

// After returns the objects of a file that follow an object, at most limit.
func (w *Watched) After(ctx context.Context, file, object int64, limit int) ([]Hit, error) {
	return w.hits(ctx, "object o JOIN file f ON f.id = o.file JOIN dir d ON d.id = f.dir WHERE o.file = $1 AND o.id > $2 "+
		"ORDER BY o.id LIMIT $3", file, object, limit)
}

// Objects returns the objects after one, in the order of their ids, at most limit.
func (w *Watched) Objects(ctx context.Context, after int64, limit int) ([]Hit, error) {
	return w.hits(ctx, "object o JOIN file f ON f.id = o.file JOIN dir d ON d.id = f.dir WHERE o.id > $1 ORDER BY o.id LIMIT $2", after, limit)
}

// Problems returns the files that were left out, after one, in the order of their ids, at
// most limit.
func (w *Watched) Problems(ctx context.Context, after int64, limit int) ([]File, error) {
	return w.files(ctx, "file f JOIN dir d ON d.id = f.dir WHERE f.problem IS NOT NULL AND f.id > $1 ORDER BY f.id LIMIT $2", after, limit)
}

// Note returns a noted value, or "".
func (w *Watched) Note(ctx context.Context, name string) (value string, err error) {
	err = w.reads.Row(ctx, "SELECT value FROM note WHERE name = $1", []any{name}, &value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, w.fail("read", err)
}

// Totals counts the rows. Files of kind packages or above are packages.
func (w *Watched) Totals(ctx context.Context, packages int) (t Totals, err error) {
	err = w.reads.Row(ctx,
		`SELECT count(*), coalesce(sum(kind >= $1), 0), coalesce(sum(size), 0), coalesce(sum(problem IS NOT NULL), 0),
		(SELECT count(*) FROM object) FROM file`,
		[]any{packages}, &t.Files, &t.Packages, &t.Bytes, &t.Problems, &t.Objects)
	return t, w.fail("count", err)
}

// Size returns the bytes of the index on disk.
func (w *Watched) Size() int64 {
	var n int64
	for _, suffix := range []string{"", "-wal"} {
		if fi, err := os.Stat(w.path + suffix); err == nil {
			n += fi.Size()
		}
	}
	return n
}

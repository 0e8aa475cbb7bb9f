package depot

import (
	"context"
	"io/fs"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/watch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Records of the index.
type (
	// Transaction is one numbered add.
	Transaction = record.Transaction
	// TxFile is one file of a transaction.
	TxFile = record.TxFile
	// Found is one object with the transactions that hold it.
	Found = record.Found
	// ListFilter selects transactions.
	ListFilter = index.ListFilter
	// Stats are the totals of the depot.
	Stats = index.Stats
)

// Find looks for objects by name (with * and ?), by any spelling of an id, or
// by the SHA-256 of the content. Those in watched folders come last.
func (d *Depot) Find(ctx context.Context, scope answer.Scope, query string, limit int) ([]Found, error) {
	q := answer.Spellings(query)
	list, err := d.db.Find(ctx, scope.Index(), q, limit)
	if err != nil || limit > 0 && len(list) >= limit {
		return list, err
	}
	rest := 0
	if limit > 0 {
		rest = limit - len(list)
	}
	more, err := d.Watched.Find(ctx, scope, watch.Query{Name: q.Name, IDs: q.IDs, Prefix: q.Prefix}, rest)
	return append(list, more...), err
}

// Same is an object of a local file, with the objects of the depot that have its
// ids or its content.
type Same struct {
	Object objfile.Object
	Ref    blob.Ref // of the local object's bytes
	Found  []Found
}

// ObjectsOf returns the objects of a local file, with the hashes of their bytes.
func ObjectsOf(ctx context.Context, c Content, name string) ([]Same, error) {
	objs, err := objfile.Identify(c, c.Size(), name, objfile.Options{})
	if err != nil {
		return nil, err
	}
	list := make([]Same, len(objs))
	for i, o := range objs {
		list[i].Object = o
		if list[i].Ref, _, err = blob.Hash(ctx, objectReader(c, o)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// List returns transactions, newest first.
func (d *Depot) List(ctx context.Context, scope answer.Scope, f ListFilter) ([]Transaction, error) {
	return d.db.List(ctx, scope.Index(), f)
}

// Transaction returns one transaction, removed or not. An unknown number is
// fs.ErrNotExist.
func (d *Depot) Transaction(ctx context.Context, number int64) (Transaction, error) {
	return d.db.Show(ctx, number, nil)
}

// Files calls each for the files of a transaction, in the order in which they
// were added. A removed transaction has no files.
func (d *Depot) Files(ctx context.Context, number int64, each func(TxFile) error) error {
	_, err := d.db.Show(ctx, number, each)
	return err
}

// Content opens a content in any scope and verifies its hash first. A missing or
// damaged content is fs.ErrNotExist.
func (d *Depot) Content(ctx context.Context, ref blob.Ref) (*answer.File, error) {
	b, err := d.contents.OpenHashed(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &answer.File{
		Ref: ref, Size: b.Size(), ModTime: b.ModTime(), ETag: ref.String()[:32], Bytes: b, Disk: blob.OSFile(b), Closer: b,
	}, nil
}

// Origins returns the transactions that were imported from a store and not
// removed: their numbers in this depot by their numbers in the store.
func (d *Depot) Origins(ctx context.Context, store string) (map[string]int64, error) {
	return d.db.Origins(ctx, store)
}

// Imported returns the stores, the first few, from which builds were imported that have not been
// removed. Bundles are no stores.
func (d *Depot) Imported(ctx context.Context) ([]string, error) { return d.db.ImportedStores(ctx) }

// Stats returns the totals of the depot.
func (d *Depot) Stats(ctx context.Context) (Stats, error) { return d.db.Stats(ctx) }

// Metadata is one answer to a debuginfod metadata search.
type Metadata struct {
	Type    string // "executable" or "debuginfo"
	BuildID string
	File    string // path as it was added
	Archive string // the archive that contained it, or empty
}

// Metadata searches ELF objects by exact path ("file"), by a path pattern in
// which * does not match a slash ("glob"), or by build-id ("buildid"). complete
// is false if limit cut the list. Any other key is fs.ErrInvalid.
func (d *Depot) Metadata(
	ctx context.Context, scope answer.Scope, key, value string, limit int,
) (list []Metadata, complete bool, err error) {
	var q index.PathQuery
	switch key {
	case "file":
		q.Path = value
	case "glob":
		q.Glob = value
	case "buildid":
		id, _ := debugid.ParseBuildID(value)
		if id == "" {
			return nil, true, nil // not a build-id
		}
		q.BuildID = string(id)
	default:
		return nil, false, fs.ErrInvalid
	}
	files, complete, err := d.db.ELFPaths(ctx, scope.Index(), q, limit)
	if err != nil {
		return nil, false, err
	}
	for _, f := range files {
		for _, t := range []struct {
			role symfile.Role
			word string
		}{{symfile.Executable, "executable"}, {symfile.Debug, "debuginfo"}} {
			if f.Role&t.role != 0 {
				list = append(list, Metadata{Type: t.word, BuildID: f.BuildID, File: f.Path, Archive: f.Archive})
			}
		}
	}
	more, all, err := d.Watched.Metadata(ctx, scope, key, value, limit)
	for _, m := range more {
		list = append(list, Metadata(m))
	}
	return list, complete && all, err
}

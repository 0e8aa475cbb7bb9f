package depot

import (
	"context"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/depot/lookup"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Named says how the transactions in a scope use a file name; cached files do not
// count.
type Named = index.Named

// Finder finds out what a depot has: it opens no stored content, asks no upstream and
// counts no miss. Its methods may be called by many goroutines.
type Finder struct {
	db      *index.DB
	lookups *lookup.Lookups
	inPlace *inplace.Places
	open    func(ctx context.Context, scope answer.Scope, req layout.Request) (*answer.File, error)
}

// FinderIn returns a Finder in a depot.
func FinderIn(d *Depot) Finder { return Finder{d.db, d.lookups, d.InPlace, d.Open} }

// Held returns the file with which Open answers a request. Not found is fs.ErrNotExist.
func (f Finder) Held(ctx context.Context, scope answer.Scope, req layout.Request) (Found, error) {
	if req.Form == layout.FormFile {
		hits, _, err := f.lookups.Find(ctx, scope, req, false, nil)
		if err == nil {
			return Found{Stored: hits[0].Stored}, nil
		}
		if !f.inPlace.Exist() || !errors.Is(err, fs.ErrNotExist) {
			return Found{}, err
		}
	}
	file, err := f.open(ctx, scope, req)
	if err != nil {
		return Found{}, err
	}
	found := Found{Stored: record.Stored{Object: file.Object, Features: file.Features, Ref: file.Ref, Size: file.Size}}
	return found, file.Close()
}

// Named looks up a file name.
func (f Finder) Named(ctx context.Context, scope answer.Scope, name string) (Named, error) {
	return index.NamedIn(ctx, f.db, scope.Index(), symfile.Fold(name))
}

// Alike returns the files in the scope that have an id of an object of a local file,
// and those that have its content, if that is known.
func (f Finder) Alike(ctx context.Context, scope answer.Scope, o objfile.Object, ref *blob.Ref) ([]Found, error) {
	q := record.Query{Kind: o.Kind, Ref: ref}
	for _, a := range o.Aliases() {
		q.IDs = append(q.IDs, a.ID)
	}
	list, err := f.db.Find(ctx, scope.Index(), q, 100)
	if err == nil {
		err = coldstore.Mark(ctx, f.db, scope.Index(), list)
	}
	return list, err
}

// Same searches for the objects of a local file, by their ids and by their
// content.
func (f Finder) Same(ctx context.Context, scope answer.Scope, c Content, name string) ([]Same, error) {
	objs, err := ObjectsOf(ctx, c, name)
	if err != nil {
		return nil, err
	}
	var same []Same
	for _, s := range objs {
		if s.Found, err = f.Alike(ctx, scope, s.Object, &s.Ref); err != nil {
			return nil, err
		}
		same = append(same, s)
	}
	return same, nil
}

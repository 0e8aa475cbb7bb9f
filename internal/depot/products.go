package depot

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/derive/symcachework"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Products returns, in order, the products that contain a file's content; for
// derived content, those of its source. The list is empty if the content was
// removed meanwhile, or is visible to callers of all products only.
func (d *Depot) Products(ctx context.Context, f *answer.File) ([]string, error) {
	if f.SymCacheOf != nil {
		return d.symCacheProducts(ctx, f)
	}
	ref := f.Source
	if ref == (blob.Ref{}) {
		ref = f.Ref
	}
	if ref == (blob.Ref{}) || f.InPlace {
		return []string{f.Product}, nil // being downloaded, or in a watched or served folder
	}
	return d.db.ContentProducts(ctx, ref)
}

// symCacheProducts is Products for a SymCache file: the products of its PDB, and
// those of the file itself.
func (d *Depot) symCacheProducts(ctx context.Context, f *answer.File) (list []string, err error) {
	if f.Ref != (blob.Ref{}) {
		if list, err = d.db.ContentProducts(ctx, f.Ref); err != nil {
			return nil, err
		}
	}
	list = slices.DeleteFunc(list, func(p string) bool { return p == symcachework.Product })
	pdb, err := d.symcache.FindPDB(ctx, *f.SymCacheOf)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return list, nil
	case err != nil:
		return nil, err
	}
	of, err := d.db.ContentProducts(ctx, pdb.Ref)
	return slices.Compact(slices.Sorted(slices.Values(append(list, of...)))), err
}

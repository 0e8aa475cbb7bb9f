package importexport

import (
	"context"
	"errors"
	"slices"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// What a later import of a tree adds.

// earlierKey is an object that an earlier import took.
type earlierKey struct {
	ref  blob.Ref
	name string
}

// earlierObjects are the objects that earlier imports took.
type earlierObjects struct {
	objects map[earlierKey]bool
	sizes   map[int64]bool // of the objects
}

func newEarlierObjects() earlierObjects {
	return earlierObjects{map[earlierKey]bool{}, map[int64]bool{}}
}

func (o earlierObjects) add(f depot.TxFile) {
	o.objects[earlierKey{f.Ref, f.Object.Name}], o.sizes[f.Size] = true, true
}

// errImported is the error for a file whose objects were all imported before.
var errImported = errors.New("the file was imported before, under another path")

// newOnly returns a taker that refuses, with errImported, files whose objects earlier
// imports of the tree have added. The depot records only one path of an
// object: otherwise other paths with the same content would make a new transaction
// at every import of the tree.
func (im *importer) newOnly(take taker, earlier earlierObjects) taker {
	return func(ctx context.Context, src depot.Source) ([]depot.Added, error) {
		if earlier.sizes[src.Content.Size()] {
			got, err := depot.DryRun(ctx, im.d, src)
			if err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(got, func(g depot.Added) bool { return !earlier.objects[earlierKey{g.Ref, g.Object.Name}] }) {
				return nil, errImported
			}
		}
		return take(ctx, src)
	}
}

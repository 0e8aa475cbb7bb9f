package coldstore

import (
	"context"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// orBeside returns the base of beside and the estimated length of the delta, if that is less
// than the delta that there is, and else what it was given.
func (c *Cold) orBeside(ctx context.Context, product string, src opened, ref *blob.Ref, delta, key int64) (*blob.Ref, int64, error) {
	beside, err := c.beside(ctx, product, src)
	if err != nil || beside == nil {
		return ref, delta, err
	}
	n, err := c.measure(ctx, src, *beside)
	switch {
	case errors.Is(err, fs.ErrNotExist): // damaged: verify names it
		return ref, delta, nil
	case err == nil && WorthDelta(n, key) && (ref == nil || n < delta):
		return beside, n, nil
	}
	return ref, delta, err
}

// beside returns the base of a content that packs a file, such as a cabinet, which stands beside
// that file in the same product: the file if it is a key, or what it is built from. A file that is
// plain is none, unless others are built from it: it would become a key for this content alone.
func (c *Cold) beside(ctx context.Context, product string, src opened) (*blob.Ref, error) {
	ref, ok, err := src.source.Packs(ctx)
	if err != nil || !ok {
		return nil, err
	}
	base := blob.Ref(ref)
	row, err := c.Of(ctx, base)
	switch {
	case err == nil && row.Base != nil:
		base = row.Base.Ref
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	cold, needed := err == nil, 0
	for _, err := range c.db.Colds.Needing(ctx, base) {
		if err != nil {
			return nil, err
		}
		needed++
	}
	if !cold && needed == 0 || needed >= MaxDeltas {
		return nil, nil
	}
	found, err := c.db.Find(ctx, record.Scope{Products: []string{product}}, record.Query{Ref: &base}, 1)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(found) == 0 {
		return nil, nil
	}
	return &base, err
}

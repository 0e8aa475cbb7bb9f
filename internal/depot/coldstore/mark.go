package coldstore

import (
	"context"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Mark sets how the cold ones of a list of objects are stored, as far as a scope may
// know it.
func Mark(ctx context.Context, db *index.DB, scope record.Scope, list []record.Found) error {
	if err := index.MarkCold(ctx, db, list, func(f *record.Found) (blob.Ref, **ColdContent) { return f.Ref, &f.Cold }); err != nil {
		return err
	}
	return HideBases(ctx, db, scope, list, func(f *record.Found) *ColdContent { return f.Cold })
}

// HideBases clears the bases of cold contents that are not in the scope. A content of
// several products may be restored with one that belongs to another of them alone. of
// returns the record of a row; nil: it has none.
func HideBases[T any](ctx context.Context, db *index.DB, scope record.Scope, list []T, of func(*T) *ColdContent) error {
	if scope.All {
		return nil
	}
	visible := make(map[blob.Ref]bool)
	for i := range list {
		c := of(&list[i])
		if c == nil || c.Base == nil {
			continue
		}
		sees, known := visible[c.Base.Ref]
		if !known {
			found, err := db.Find(ctx, scope, record.Query{Ref: &c.Base.Ref}, 1)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			sees = len(found) > 0
			visible[c.Base.Ref] = sees
		}
		if !sees {
			c.Base = &record.Content{} // there is one, and nothing more is said of it
		}
	}
	return nil
}

// Traced returns how a content is stored, as far as a scope may know it; nil: it is not cold,
// or its plain bytes are stored too.
func (c *Cold) Traced(ctx context.Context, scope record.Scope, ref blob.Ref) (*ColdContent, error) {
	row, err := c.Of(ctx, ref)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !row.PlainSince.IsZero():
		return nil, nil
	case err != nil:
		return nil, err
	}
	list := []ColdContent{row}
	return &list[0], HideBases(ctx, c.db, scope, list, func(c *ColdContent) *ColdContent { return c })
}

// Store returns the store that knows cold contents.
func (c *Cold) Store() *Store { return c.store }

// ColdStatus is the state of the cold contents, for metrics.
type ColdStatus struct {
	Sums ColdStats
	Work Cooling // of the background
	// Near are the bytes of restored contents on this machine. What follows was counted
	// since this process began.
	Near                              int64
	Restored, RestoredBytes, Failures uint64
}

// Status returns the state of the cold contents.
func (c *Cold) Status(ctx context.Context) (s ColdStatus, err error) {
	n := c.store.Counts()
	s = ColdStatus{Near: c.NearBytes(), Restored: n.Restored, RestoredBytes: n.RestoredBytes, Failures: n.Failures}
	if s.Sums, err = c.Stats(ctx); err == nil {
		s.Work, err = c.Progress(ctx)
	}
	return s, err
}

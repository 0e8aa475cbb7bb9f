package depot

import (
	"context"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/index"
)

// markCold sets how the cold ones of a list of objects are stored, as far as a scope may
// know it.
func markCold(ctx context.Context, db *index.DB, scope answer.Scope, list []Found) error {
	if err := index.MarkCold(ctx, db, list, func(f *Found) (blob.Ref, **ColdContent) { return f.Ref, &f.Cold }); err != nil {
		return err
	}
	return hideBases(ctx, db, scope, list, func(f *Found) *ColdContent { return f.Cold })
}

// hideBases clears the bases of cold contents that are not in the scope. A content of
// several products may be restored with one that belongs to another of them alone. of
// returns the record of a row; nil: it has none.
func hideBases[T any](ctx context.Context, db *index.DB, scope answer.Scope, list []T, of func(*T) *ColdContent) error {
	if scope.Products == nil {
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
			found, err := db.Find(ctx, scope.Index(), index.Query{Ref: &c.Base.Ref}, 1)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			sees = len(found) > 0
			visible[c.Base.Ref] = sees
		}
		if !sees {
			c.Base = &index.Content{} // there is one, and nothing more is said of it
		}
	}
	return nil
}

// trace says of a file how it is stored, if it is cold and its plain bytes are not
// stored too.
func (c *Cold) trace(ctx context.Context, scope answer.Scope, f *TracedFile) error {
	row, err := c.Of(ctx, f.Ref)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !row.PlainSince.IsZero():
		return nil
	case err != nil:
		return err
	}
	list := []ColdContent{row}
	f.Cold = &list[0]
	return hideBases(ctx, c.d.db, scope, list, func(c *ColdContent) *ColdContent { return c })
}

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

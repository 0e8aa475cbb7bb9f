package depot

import (
	"context"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
)

// markCold sets how the cold ones of a list of objects are stored.
func markCold(ctx context.Context, db *index.DB, list []Found) error {
	return index.MarkCold(ctx, db, list, func(f *Found) (blob.Ref, **ColdContent) { return f.Ref, &f.Cold })
}

// trace says of a file how it is stored, if it is cold and its plain bytes are not
// stored too.
func (c *Cold) trace(ctx context.Context, f *TracedFile) error {
	row, err := c.Of(ctx, f.Ref)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !row.PlainSince.IsZero() {
		return nil
	}
	if err == nil {
		f.Cold = &row
	}
	return err
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

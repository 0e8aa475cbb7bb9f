package coldstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// ErrNoRoom means that the disk has too little space for the plain bytes of all cold
// contents.
var ErrNoRoom = errors.New("the disk has too little space")

// Warmed counts what WarmAll and WarmThese did.
type Warmed struct {
	Contents int64 `json:"contents"`
	Bytes    int64 `json:"bytes"` // plain
	// Failed are the contents that cannot be restored. They stay cold.
	Failed int64 `json:"failed"`
	// Again are, after WarmAll, the contents that servers have made cold meanwhile.
	Again int64 `json:"cold_again,omitempty"`
}

// Warming are the functions that WarmAll and WarmThese call for each content; they may
// be nil.
type Warming struct {
	Each func(ColdContent) error // afterwards; its error ends the work
	// Failed gets the contents that cannot be restored, as faults.
	Failed func(content.Fault)
	// Pace is called with the number of bytes of each read; its error ends the work.
	Pace func(n int) error
}

// WarmAll makes all cold contents plain again. Then programs that do not know cold
// contents can open the depot. If the disk has too little space, the error is ErrNoRoom
// and nothing is changed.
func (c *Cold) WarmAll(ctx context.Context, w Warming) (Warmed, error) {
	s, err := c.Stats(ctx)
	if err != nil {
		return Warmed{}, err
	}
	if err := c.hasRoom(s.Plain - s.BothBytes); err != nil {
		return Warmed{}, err
	}
	sum, err := c.warmEach(ctx, c.db.Colds.All(ctx), w)
	if err == nil {
		s, err = c.Stats(ctx)
		sum.Again = max(0, s.Contents-sum.Failed)
	}
	return sum, err
}

// WarmThese makes those of some contents plain that are cold.
func (c *Cold) WarmThese(ctx context.Context, refs []blob.Ref, w Warming) (Warmed, error) {
	return c.warmEach(ctx, func(yield func(ColdContent, error) bool) {
		for _, ref := range refs {
			row, err := c.Of(ctx, ref)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if !yield(row, err) {
				return
			}
		}
	}, w)
}

// hasRoom returns an error if the disk has no space for that many bytes.
func (c *Cold) hasRoom(bytes int64) error {
	if c.Space == nil {
		return nil
	}
	_, free, err := c.Space()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err == nil && free < bytes {
		err = fmt.Errorf("%w: the plain contents need %d bytes and %d are free", ErrNoRoom, bytes, free)
	}
	return err
}

// warmEach makes contents plain, one after the other.
func (c *Cold) warmEach(ctx context.Context, list iter.Seq2[ColdContent, error], w Warming) (sum Warmed, err error) {
	for row, err := range list {
		if err == nil {
			err = c.Warm(ctx, row, w.Pace)
		}
		if errors.Is(err, blob.ErrDamaged) {
			sum.Failed++
			faults := content.Faults{DB: c.db, Placed: c.placed}
			f, _, ferr := faults.Describe(ctx, row.Ref, "the content cannot be restored: "+damageText(err), false)
			if ferr != nil {
				return sum, ferr
			}
			if w.Failed != nil {
				w.Failed(*f)
			}
			continue
		}
		if err != nil {
			return sum, err
		}
		sum.Contents, sum.Bytes = sum.Contents+1, sum.Bytes+row.Size
		if w.Each != nil {
			if err := w.Each(row); err != nil {
				return sum, err
			}
		}
	}
	return sum, nil
}

// damageText says what is damaged, without the hash of the content.
func damageText(err error) string {
	if d, ok := errors.AsType[*blob.DamageError](err); ok {
		return d.What
	}
	return err.Error()
}

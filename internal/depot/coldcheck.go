package depot

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
)

// verifyCold reports the cold contents that cannot be restored: those whose cold file
// or base is among lost, the stored contents with faults, and with opt.Restore all that
// it cannot restore. With opt.Repair, a content whose plain bytes are stored too
// becomes plain.
func (c *Checker) verifyCold(ctx context.Context, opt CheckOptions, lost map[blob.Ref]bool, report func(Fault), v *Verified, progress func(int64)) error {
	keys := map[blob.Ref]blob.Ref{} // the files of the lost ones, by the content
	if len(lost) > 0 {
		for row, err := range c.db.Colds.All(ctx) {
			if err != nil {
				return err
			}
			if row.Base == nil && lost[row.File.Ref] {
				keys[row.Ref] = row.File.Ref
			}
		}
	}
	for row, err := range c.db.Colds.All(ctx) {
		if err != nil {
			return err
		}
		v.Cold++
		if row.PlainSince.IsZero() {
			v.Contents++ // the others were counted with the stored contents
			v.Bytes += row.Size
		}
		what := damageOf(row, lost, keys)
		if what == "" && opt.Restore {
			v.Restored++
			err := c.cold.store.Restore(ctx, row, io.Discard, nil)
			if d, ok := errors.AsType[*blob.DamageError](err); ok {
				what = d.What
			} else if err != nil {
				return err
			}
		}
		if progress != nil {
			progress(v.Bytes)
		}
		if what == "" {
			continue
		}
		f, err := c.describe(ctx, row.Ref, "the content cannot be restored: "+what, false)
		if err != nil {
			return err
		}
		if err := c.heal(ctx, opt, row, f); err != nil {
			return err
		}
		report(*f)
	}
	return nil
}

// damageOf says what a cold content lacks; empty if nothing.
func damageOf(row index.Cold, lost map[blob.Ref]bool, keys map[blob.Ref]blob.Ref) string {
	switch {
	case lost[row.File.Ref]:
		return fmt.Sprintf("its cold file %s is damaged or missing", row.File.Ref)
	case row.Base == nil:
		return ""
	case lost[row.Base.Ref]:
		return fmt.Sprintf("its base %s is damaged or missing", row.Base.Ref)
	}
	if key, ok := keys[row.Base.Ref]; ok {
		return fmt.Sprintf("the key %s of its base %s is damaged or missing", key, row.Base.Ref)
	}
	return ""
}

// heal makes a content plain whose plain bytes are stored although its cold file is
// damaged, if repairs are demanded, and says so.
func (c *Checker) heal(ctx context.Context, opt CheckOptions, row index.Cold, f *Fault) error {
	err := c.cold.store.Below().Verify(ctx, row.Ref, row.Size, nil)
	switch {
	case err == nil && opt.Repair:
		f.Remedy = "its plain bytes are stored too: it is plain again"
		return c.cold.discard(ctx, row)
	case err == nil:
		f.Remedy = "its plain bytes are stored too: --repair makes it plain again"
	case errors.Is(err, blob.ErrUnavailable):
		return err
	}
	return nil
}

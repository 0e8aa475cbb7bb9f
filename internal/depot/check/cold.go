package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// verifyCold reports the cold contents that cannot be restored and are not among lost,
// the contents that were reported already: those whose cold file or base is among them,
// and with opt.Restore all that it cannot restore. With opt.Repair, a content whose plain
// bytes are stored too becomes plain.
func (c *Checker) verifyCold(
	ctx context.Context, opt Options, lost map[blob.Ref]bool, report func(content.Fault), v *Verified, progress func(int64),
) error {
	keys := map[blob.Ref]blob.Ref{} // the files of the lost ones, by the content
	if len(lost) > 0 {
		for row, err := range c.home.DB.Colds.All(ctx) {
			if err != nil {
				return err
			}
			if row.Base == nil && lost[row.File.Ref] {
				keys[row.Ref] = row.File.Ref
			}
		}
	}
	for row, err := range c.home.DB.Colds.All(ctx) {
		if err != nil {
			return err
		}
		v.Cold++
		if row.PlainSince.IsZero() {
			v.Contents++ // the others were counted with the stored contents
			v.Bytes += row.Size
		}
		if lost[row.Ref] {
			continue
		}
		what := damageOf(row, lost, keys)
		if what == "" && opt.Restore {
			err := c.cold.Store().Restore(ctx, row, io.Discard, nil)
			if d, ok := errors.AsType[*blob.DamageError](err); ok {
				what = d.What
			} else if errors.Is(err, fs.ErrNotExist) {
				continue // it became plain, or was removed, meanwhile
			} else if err = v.denied(err); err != nil {
				return err
			}
			v.Restored++
		}
		if progress != nil {
			progress(v.Bytes)
		}
		var f *content.Fault
		if what != "" {
			if f, err = c.describe(ctx, row.Ref, "the content cannot be restored: "+what, false); err == nil {
				err = c.heal(ctx, opt, row, what, f)
			}
		} else if !c.home.Placed && row.PlainSince.IsZero() {
			f, err = c.leftoverDamaged(ctx, row.Content, opt.Repair)
		}
		if err = v.denied(err); err != nil {
			return err
		}
		if f != nil {
			report(*f)
		}
	}
	return nil
}

// damageOf says what a cold content lacks; empty if nothing.
func damageOf(row record.Cold, lost map[blob.Ref]bool, keys map[blob.Ref]blob.Ref) string {
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

// leftoverDamaged returns the fault of plain bytes that are stored although the record
// of a cold content says that they are not: see Cold.leftover.
func (c *Checker) leftoverDamaged(ctx context.Context, content record.Content, repair bool) (*content.Fault, error) {
	err := c.cold.Store().Below().Verify(ctx, content.Ref, content.Size, nil)
	switch {
	case errors.Is(err, blob.ErrDamaged):
		return c.plainDamaged(ctx, content, repair)
	case errors.Is(err, fs.ErrNotExist): // as it should be
		return nil, nil
	}
	return nil, err
}

// plainDamaged describes the damage of the plain bytes of a cold content that can be
// restored, and restores them if repairs are demanded. The content is plain then.
func (c *Checker) plainDamaged(ctx context.Context, content record.Content, repair bool) (*content.Fault, error) {
	const what = "its plain bytes are damaged, and its cold file is stored too: the content is served from that"
	f, _, err := c.faults().Of(ctx, content.Ref, what)
	if err != nil {
		return nil, err
	}
	if !repair {
		f.Remedy = "--repair restores the plain bytes from the cold file"
		return f, nil
	}
	row, err := c.cold.Of(ctx, content.Ref)
	if err == nil {
		err = c.cold.Store().Restore(ctx, row, io.Discard, nil)
	}
	if err == nil {
		f.MovedTo, err = c.cold.Store().Below().SetAside(content.Ref)
	}
	if err == nil {
		err = c.cold.Warm(ctx, row, nil)
	}
	switch {
	case err == nil:
		f.Remedy = "it was restored from its cold file, and is plain again"
	case errors.Is(err, blob.ErrDamaged):
		f.Remedy = "its cold file is damaged too: add a file with the same bytes again (symdepot add)"
		err = nil
	case errors.Is(err, fs.ErrNotExist):
		f.Remedy, err = "it has changed meanwhile: verify again", nil
	}
	return f, err
}

// heal makes a content plain whose plain bytes are stored although its cold file is
// damaged, if repairs are demanded, and says so.
func (c *Checker) heal(ctx context.Context, opt Options, row record.Cold, what string, f *content.Fault) error {
	err := c.cold.Store().Below().Verify(ctx, row.Ref, row.Size, nil)
	switch {
	case err == nil && opt.Repair:
		f.What, f.Remedy = what+"; its plain bytes are stored and served", "it is plain again"
		return c.cold.Discard(ctx, row)
	case err == nil:
		f.What, f.Remedy = what+"; its plain bytes are stored and served", "--repair, or a later gc, makes it plain again"
	case !errors.Is(err, fs.ErrNotExist): // else they are damaged too, or not stored
		return err
	}
	return nil
}

package coldstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"time"

	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Run makes contents cold and plain again in the background until ctx ends. Of several
// servers one does it.
func (c *Cold) Run(ctx context.Context) {
	for c.wait(ctx, coolRest) == nil {
		err := c.StoreReads(ctx)
		if err == nil {
			_, err = c.db.Nodes.Do(ctx, "cool", 0, c.Due)
		}
		if err != nil && ctx.Err() == nil && !content.IsAway(err) {
			c.log.Warn("keeping contents cold failed", "error", err)
		}
	}
}

// Due does what is due: the plain bytes of cold contents are deleted after the grace,
// which frees space, contents that are read often become plain, and contents that are
// not used become cold. If one of these fails, the others are done all the same.
func (c *Cold) Due(ctx context.Context) error {
	pace := c.pacer(ctx)
	now := c.now()
	_, failed := c.Strip(ctx, coolGrace)
	for _, step := range []func(ctx context.Context, now time.Time, pace func(n int) error) error{c.WarmAsked, c.coolDue} {
		if ctx.Err() != nil || content.IsAway(failed) {
			break
		}
		failed = errors.Join(failed, step(ctx, now, pace))
	}
	return failed
}

// coolDue makes contents cold if a pass is due, or goes on with one.
func (c *Cold) coolDue(ctx context.Context, now time.Time, pace func(n int) error) error {
	st, err := c.Progress(ctx)
	if err != nil || st.Paused || c.Options.After <= 0 {
		return err
	}
	if st.Started.IsZero() && lately(st.Finished, now, coolEvery) {
		return nil
	}
	if st.Owner != c.owner && lately(st.Updated, now, passOthers) && !st.Started.IsZero() && !c.db.Nodes.Shared() {
		return nil // another process of this machine is at it
	}
	return c.Pass(ctx, st, pace)
}

// lately reports whether a time is at most d ago. One that is farther ahead is not: it
// was noted by a clock that has been set back since.
func lately(t, now time.Time, d time.Duration) bool { return now.Sub(t).Abs() < d }

// WarmAsked makes the contents plain that are read often. One that was found damaged
// lately stays as it is, and so do all while too little of the disk is free. One that
// cannot be read does not keep the others from it.
func (c *Cold) WarmAsked(ctx context.Context, now time.Time, pace func(n int) error) (failed error) {
	for row, err := range c.db.Colds.Asked(ctx, WarmReads, now.Add(-warmWindow)) {
		if err == nil {
			err = c.hasSpace(row.Size)
		}
		if errors.Is(err, ErrDiskFull) {
			break
		}
		if err == nil {
			err = c.store.Complete(ctx, row)
		}
		if err == nil {
			err = c.Warm(ctx, row, pace)
		}
		if errors.Is(err, fs.ErrNotExist) { // damaged, or it changed meanwhile
			continue
		}
		if failed == nil {
			failed = err
		}
		if ctx.Err() != nil || content.IsAway(err) {
			break
		}
	}
	return failed
}

// errPaused ends a pass.
var errPaused = errors.New("cooling was paused")

// Pass makes contents cold, from the name of st on.
func (c *Cold) Pass(ctx context.Context, st Cooling, pace func(n int) error) error {
	st.Owner = c.owner
	if st.Started.IsZero() {
		st.Started, st.Position, st.Contents, st.Before, st.After = c.now(), "", 0, 0, 0
	}
	note := func() error {
		now, err := c.Progress(ctx)
		if err != nil {
			return err
		}
		st.Updated = c.now()
		if err := c.db.Colds.SetProgress(ctx, st); err != nil {
			return err
		}
		if now.Paused {
			return errPaused
		}
		return nil
	}
	noted := c.now()
	_, err := c.Cool(ctx, CoolOptions{After: c.Options.After, Grace: coolGrace, Pace: pace, Position: st.Position,
		Each: func(done Cooled) error {
			if done.Skipped == "" {
				st.Contents, st.Before, st.After = st.Contents+1, st.Before+done.Size, st.After+done.File
			}
			return note()
		},
		Named: func(name string) error {
			st.Position = name
			if c.now().Sub(noted) < passNote {
				return nil
			}
			noted = c.now()
			return note()
		},
		Failed: func(name string, err error) {
			if !errors.Is(err, errPaused) && ctx.Err() == nil && !content.IsAway(err) {
				st.Position = name // the next attempt goes on after it
			}
		},
	})
	switch {
	case errors.Is(err, errPaused):
		return nil
	case errors.Is(err, ErrDiskFull):
		c.log.Warn("contents stay as they are", "reason", err)
	case err != nil:
		if ctx.Err() != nil || content.IsAway(err) {
			return err
		}
		return errors.Join(err, note())
	}
	if err := c.Unpin(ctx, pace); err != nil {
		return err
	}
	st.Finished, st.Started, st.Position = c.now(), time.Time{}, ""
	if st.Contents > 0 {
		c.log.Info("contents that are not used became cold", "contents", st.Contents, "bytes_before", st.Before, "bytes_after", st.After)
	}
	if err := note(); !errors.Is(err, errPaused) {
		return err
	}
	return nil
}

// pacer returns a function that waits so that at most the configured number of bytes
// is read per second.
func (c *Cold) pacer(ctx context.Context) func(n int) error {
	rate := cmp.Or(c.Options.Rate, coolRate)
	if rate < 0 {
		return func(int) error { return ctx.Err() }
	}
	debt := int64(0)
	return func(n int) error {
		if debt += int64(n); debt < rate/8 {
			return ctx.Err()
		}
		d := time.Duration(float64(debt) / float64(rate) * float64(time.Second))
		debt = 0
		return c.wait(ctx, d)
	}
}

// Strip deletes the plain bytes of contents that have been cold for longer than grace,
// and returns their number. Bytes that were stored again since the content became cold,
// and those of a content whose cold file or base seems to be lost by now, are deleted only
// after the content was restored; if it cannot be, it becomes plain.
func (c *Cold) Strip(ctx context.Context, grace time.Duration) (n int, err error) {
	now := c.now()
	before := now.Add(-grace)
	if err := c.db.Colds.Settle(ctx); err != nil {
		return 0, err
	}
	for row, err := range c.db.Colds.Plain(ctx, before) {
		if err != nil {
			return n, err
		}
		sure := row.PlainSince.Equal(row.Made) && c.store.Complete(ctx, row) == nil && !c.store.Below().Suspect(row.File.Ref)
		if !sure {
			intact, err := c.proven(ctx, row)
			if err != nil {
				return n, err
			}
			if !intact {
				continue
			}
		}
		// Whoever adds a file that the depot has refreshes its time, and relies on it
		// until the end of the addition. A file from the future is not of one.
		info, err := c.store.Below().Stat(ctx, row.Ref)
		if err == nil && !c.placed && info.ModTime.After(before) && info.ModTime.Before(now.Add(coolGrace)) {
			continue
		}
		k, err := c.db.Colds.Strip(ctx, []blob.Ref{row.Ref}, before, c.deletePlain(ctx))
		if err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

// proven restores a cold content and reports whether its hash is right. If it is not,
// and the plain bytes are stored and intact, the content becomes plain. What was found
// damaged lately is not read again.
func (c *Cold) proven(ctx context.Context, row ColdContent) (bool, error) {
	err := c.store.Complete(ctx, row)
	if err == nil {
		err = c.store.Restore(ctx, row, io.Discard, nil)
	}
	switch {
	case err == nil:
		return true, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	case !errors.Is(err, blob.ErrDamaged), c.store.Below().Suspect(row.Ref):
		return false, nil // it changed meanwhile, or verify names it
	}
	verr := c.store.Below().Verify(ctx, row.Ref, row.Size, nil)
	switch {
	case verr == nil:
		c.log.Warn("a cold file is damaged, and its content is stored plain: the content is plain again",
			"content", row.Ref.String(), "damage", err)
		return false, c.Discard(ctx, row)
	case errors.Is(verr, fs.ErrNotExist):
		return false, nil // verify names it
	}
	return false, verr
}

// AddedAgain ends the records of cold contents that could not be restored and have just
// been added again: they are plain now, and their damaged cold files are deleted.
func (c *Cold) AddedAgain(ctx context.Context, refs []blob.Ref) {
	for _, ref := range refs {
		row, err := c.Of(ctx, ref)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			_, err = c.proven(ctx, row)
		}
		if err != nil && ctx.Err() == nil { // the files are stored: the next gc, verify --repair or warm does the same
			c.log.Warn("a damaged cold content was added again, and its damaged cold file stays for now", "content", ref.String(), "error", err)
		}
	}
}

// Discard ends the record of a content whose plain bytes are stored, and deletes its
// damaged cold file.
func (c *Cold) Discard(ctx context.Context, row ColdContent) error {
	if err := c.isPlain(ctx, row); err != nil {
		return err
	}
	_, err := c.db.DropContents(ctx, []blob.Ref{row.File.Ref}, c.now(), c.deletePlain(ctx))
	return err
}

// Leftover deletes the plain bytes of a content whose record says that they are not
// stored: those of a file that was added again, or that a crash has left. They heal a
// damaged cold content instead.
func (c *Cold) Leftover(ctx context.Context, info blob.Info) (deleted bool, err error) {
	row, err := c.Of(ctx, info.Ref)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !row.PlainSince.IsZero() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if intact, err := c.proven(ctx, row); err != nil || !intact {
		return false, err
	}
	return c.db.Colds.Leftover(ctx, info.Ref, c.deletePlain(ctx))
}

// chillPinned makes a base a key that is plain and that only deltas need: no series has
// it any more.
func (c *Cold) chillPinned(ctx context.Context, base contents.Pinned, pace func(n int) error) error {
	if base.File > 0 || base.Size < MinSize {
		return nil
	}
	alone := []Candidate{{Ref: base.Ref, Size: base.Size, Needed: base.Deltas}}
	_, err := c.CoolOne(ctx, alone, 0, CoolOptions{Grace: coolGrace, Pace: pace})
	if errors.Is(err, ErrColdRefused) || errors.Is(err, fs.ErrNotExist) {
		return nil // it changed meanwhile, or verify names it
	}
	return err
}

// Unpin makes the contents plain that are built from a base which nothing else needs,
// if they are few: they become cold again with another base. Those in the trash stay as
// they are, because they would not. If they are many, the base becomes a key.
func (c *Cold) Unpin(ctx context.Context, pace func(n int) error) error {
	list, err := c.db.Colds.Pinned(ctx, math.MaxInt32)
	if err != nil {
		return err
	}
	for _, base := range list {
		if base.Deltas > fewDeltas {
			if err := c.chillPinned(ctx, base, pace); errors.Is(err, ErrDiskFull) {
				return nil
			} else if err != nil {
				return err
			}
			continue
		}
		for row, err := range c.db.Colds.Wanted(ctx, base.Ref) {
			if err == nil {
				err = c.hasSpace(row.Size)
			}
			if err == nil {
				err = c.Warm(ctx, row, pace)
			}
			if errors.Is(err, ErrDiskFull) {
				return nil
			}
			if err != nil && !errors.Is(err, blob.ErrDamaged) {
				return fmt.Errorf("exchange the base %s: %w", base.Ref, err)
			}
		}
	}
	return nil
}

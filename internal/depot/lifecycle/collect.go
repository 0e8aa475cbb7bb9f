package lifecycle

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// DefaultGrace is how long Collect keeps contents without references: long
// enough for the slowest add to commit the blobs that it has written, and not longer
// than retention.DefaultTrash.
const DefaultGrace = 24 * time.Hour

// Collected counts what Collect freed, or would free.
type Collected struct {
	Contents int64 // contents without a transaction
	Strays   int64 // blobs without a row in the index, as a killed add leaves them
	Bytes    int64
	// InUse counts the contents and blobs that could not be freed because another
	// program holds their files open (Windows). The next Collect frees them. Their
	// size is not part of Bytes.
	InUse int64
	// Pending is set for contents in a bucket: the number and the bytes of the
	// objects that a later Collect deletes, days after their contents went.
	Pending      int64
	PendingBytes int64
	// Waiting is what can be freed when its grace has passed: the bytes of contents
	// and of blobs without a row. WaitingUntil is when the last of it can.
	Waiting      int64
	WaitingUntil time.Time
	// Frees is the disk space of what Bytes counts, and of what was made from it.
	Frees int64
	// Trash are the transactions in the trash, and TrashBytes is the disk space that
	// they hold back.
	Trash      []Trashed
	TrashBytes int64
}

// CollectOptions are the options of Retention.Collect.
type CollectOptions struct {
	// Grace is how long contents without references are kept; those that were in the
	// trash are not.
	Grace time.Duration
	// DryRun only counts.
	DryRun bool
	// EmptyTrash frees what is in the trash too.
	EmptyTrash bool
}

// wait counts bytes that nothing has referred to since a time within grace.
func (c *Collected) wait(size int64, since time.Time, grace time.Duration) {
	c.Waiting += size
	if until := since.Add(grace); until.After(c.WaitingUntil) {
		c.WaitingUntil = until
	}
}

// Collect frees contents that have had no references for longer than a grace, and blobs of
// that age that were never committed.
func (r *Retention) Collect(ctx context.Context, opt CollectOptions) (Collected, error) {
	now := r.now()
	if !opt.DryRun {
		if _, err := r.db.Trash.Empty(ctx, opt.trashEnd(now)); err != nil {
			return Collected{}, err
		}
	}
	g, err := r.survey(ctx, opt, now)
	if err != nil || opt.DryRun {
		return g.Collected, err
	}
	c, err := r.free(ctx, g, opt.Grace, now)
	if err == nil {
		r.recordAfter(ctx, "garbage collection")
	}
	return c, err
}

// trashEnd is the time until which the trash of transactions must end that Collect
// gives up.
func (opt CollectOptions) trashEnd(now time.Time) time.Time {
	if opt.EmptyTrash {
		return now.AddDate(100, 0, 0) // the end of every trash
	}
	return now
}

// garbage is what Collect frees at a time.
type garbage struct {
	Collected
	dead   []deadContent // contents without a transaction
	strays []blob.Info   // blobs without a row
	trash  []int64       // transactions in the trash that it gives up
}

// deadContent is a content without a transaction, and what it adds to Bytes and Frees.
type deadContent struct {
	ref          blob.Ref
	bytes, frees int64
}

// refs returns the contents without a transaction.
func (g *garbage) refs() []blob.Ref {
	list := make([]blob.Ref, len(g.dead))
	for i := range g.dead {
		list[i] = g.dead[i].ref
	}
	return list
}

// survey finds what Collect frees at a time, and changes nothing.
func (r *Retention) survey(ctx context.Context, opt CollectOptions, now time.Time) (garbage, error) {
	grace := opt.Grace
	var g garbage
	before := now.Add(-grace)
	latest := now.Add(max(0, -grace))
	listed := latest
	if opt.EmptyTrash {
		listed = opt.trashEnd(now)
	}
	var err error
	if g.Trash, _, g.TrashBytes, err = r.db.Trash.List(ctx, now); err != nil {
		return g, err
	}
	if opt.EmptyTrash {
		for _, t := range g.Trash {
			if !t.Removed.After(now) {
				g.trash = append(g.trash, t.Number)
			}
		}
		g.Trash, g.TrashBytes = nil, 0 // they are counted below
	}
	ended, err := r.db.Trash.Ended(ctx, now, opt.trashEnd(now))
	if err != nil {
		return g, err
	}
	pinned, err := r.db.Retention.StagePins(ctx)
	if err != nil {
		return g, err
	}
	for content, err := range r.db.Unreferenced(ctx, listed) {
		if err != nil {
			return g, err
		}
		if pinned[content.Ref] || opt.DryRun && content.Since.After(latest) && !ended[content.Ref] {
			continue // or it lost its transaction after now
		}
		if content.Cold {
			content.Size, content.Derived = content.Derived, 0 // only its cold file is stored
		}
		if content.Since.After(before) && !content.Since.After(now) && !ended[content.Ref] {
			g.wait(content.Size, content.Since, grace)
			continue
		}
		dead := deadContent{content.Ref, content.Size + content.Derived, content.Stored}
		g.dead = append(g.dead, dead)
		g.Contents++
		g.Bytes += dead.bytes
		g.Frees += dead.frees
	}
	if r.placed {
		g.Pending, g.PendingBytes, err = r.db.Places.Pending(ctx)
		return g, err
	}
	err = r.surveyBlobs(ctx, opt, before, &g)
	return g, err
}

// surveyBlobs finds the blobs without a row that are older than before. Unless it only
// counts, it deletes plain bytes of cold contents that an addition has left.
func (r *Retention) surveyBlobs(ctx context.Context, opt CollectOptions, before time.Time, g *garbage) error {
	stats, err := r.cold.Stats(ctx)
	if err != nil {
		return err
	}
	cold := stats.Contents > 0
	for info, err := range r.blobs.List(ctx) {
		if err != nil {
			return err
		}
		known, err := r.db.HasContent(ctx, info.Ref)
		if err != nil {
			return err
		}
		if known {
			if cold && !info.ModTime.After(before) && !opt.DryRun {
				if _, err := r.cold.Leftover(ctx, info); err != nil {
					return err
				}
			}
			continue
		}
		if info.ModTime.After(before) {
			g.wait(info.Size, info.ModTime, opt.Grace)
			continue
		}
		g.strays = append(g.strays, info)
		g.Strays++
		g.Bytes += info.Size
		g.Frees += r.space(info.Size)
	}
	return nil
}

// free frees what survey found, as far as nothing refers to it meanwhile. It counts what
// it has freed itself: another program may free the same at the same time.
func (r *Retention) free(ctx context.Context, g garbage, grace time.Duration, now time.Time) (Collected, error) {
	c, before := g.Collected, now.Add(-grace)
	c.Contents, c.Strays, c.Bytes, c.Frees = 0, 0, 0, 0
	freed := func(bytes, space int64) {
		c.Bytes += bytes
		c.Frees += space
	}
	dead := make(map[blob.Ref]*deadContent, len(g.dead))
	for i := range g.dead {
		dead[g.dead[i].ref] = &g.dead[i]
	}
	_, err := r.db.Trash.Drop(ctx, g.refs(), before, content.Deleter(ctx, r.blobs, func(ref blob.Ref) {
		c.InUse++
		if info, err := r.cold.Store().Below().Stat(ctx, ref); err == nil {
			freed(-info.Size, -r.space(info.Size))
		}
	}), func(ref blob.Ref) {
		if content := dead[ref]; content != nil {
			c.Contents++
			freed(content.bytes, content.frees)
		}
	})
	if err != nil {
		return c, err
	}
	if r.placed {
		if err := r.audit(ctx); err != nil {
			return c, err
		}
	}
	for _, info := range g.strays {
		dropped, err := r.dropStray(ctx, info.Ref, before)
		switch {
		case errors.Is(err, blob.ErrInUse):
			c.InUse++
		case err != nil:
			return c, err
		case dropped:
			c.Strays++
			freed(info.Size, r.space(info.Size))
		}
	}
	if _, err := r.blobs.Sweep(ctx, max(grace, time.Hour)); err != nil {
		return c, err
	}
	if r.placed {
		c.Pending, c.PendingBytes, err = r.db.Places.Pending(ctx)
	}
	return c, err
}

// space is the disk space of a number of bytes.
func (r *Retention) space(size int64) int64 { return (size + r.Block - 1) / r.Block * r.Block }

// dropStray deletes a blob that has no row in the index. It holds the index's
// write lock, so that no commit can refer to the blob meanwhile.
func (r *Retention) dropStray(ctx context.Context, ref blob.Ref, before time.Time) (dropped bool, err error) {
	err = r.db.Locked(ctx, func(known func(blob.Ref) (bool, error)) error {
		is, err := known(ref)
		if err != nil || is {
			return err
		}
		info, err := r.blobs.Stat(ctx, ref)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.ModTime.After(before) {
			return nil
		}
		if err != nil {
			return err
		}
		dropped = true
		return r.blobs.Delete(ctx, ref)
	})
	return dropped, err
}

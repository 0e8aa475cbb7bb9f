// Package migrate copies everything of a depot to a new one at another place.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
)

// Result counts what Run copied.
type Result struct {
	Contents int64 // all contents of the depot
	Bytes    int64
	Copied   int64 // contents that the target did not have yet
}

// batchSize limits the contents that are stored together: what a killed Run has to copy again.
const batchSize = 500

// lease is how long an interrupted Run may pause without losing its
// uploads.
const lease = 7 * 24 * time.Hour

// Run copies everything of a depot to a new one: contents, transactions with
// their numbers, tokens, jobs. Readers and writers go on while the contents are
// copied; writers wait while the rows are. Then the depot can only be read; it is
// never deleted. An interrupted Run goes on where it stopped.
//
// progress, if not nil, is called with the bytes that the target has and the
// bytes of all contents.
func Run(ctx context.Context, from, to *home.Home, progress func(done, all int64)) (m Result, err error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	g := migration{from, to}
	stats, err := from.DB.Stats(ctx)
	if err != nil {
		return m, err
	}
	if there, err := to.DB.Stats(ctx); err != nil {
		return m, err
	} else if there.Contents > 0 || there.Transactions > 0 {
		if ended, err := g.resume(ctx); err != nil || ended {
			m.Contents, m.Bytes = there.Contents, there.Bytes
			return m, err
		}
	}
	contents := func() error {
		m = Result{Copied: m.Copied}
		return g.contents(ctx, &m, func() { progress(m.Bytes, max(stats.Bytes, m.Bytes)) })
	}
	if err := contents(); err != nil {
		return m, err
	}
	// Contents that were added meanwhile follow under the write lock.
	if err := from.DB.Copy(ctx, to.DB, contents); err != nil {
		return m, err
	}
	return m, g.finish(ctx)
}

// migration copies one depot to another.
type migration struct{ from, to *home.Home }

// finish checks the copied index and records in the folder of the depot where it is now.
func (g migration) finish(ctx context.Context) error {
	problems, err := g.to.DB.Check(ctx)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("depot %s: the copied index has faults: %s", g.to.Name, problems[0])
	}
	if err != nil {
		return errors.Join(err, g.from.DB.Reopen(ctx))
	}
	return g.record()
}

// resume continues a Run that was interrupted after it had copied the rows. If
// the depot refuses additions already, only the end is missing; ended is true then.
// Otherwise the rows are copied again, because there may be more now.
func (g migration) resume(ctx context.Context) (ended bool, err error) {
	id, err := g.from.DB.Places.Depot(ctx)
	if err != nil {
		return false, err
	}
	ours, err := g.to.DB.Copies.CopyOf(ctx, id)
	if err != nil {
		return false, err
	}
	if !ours {
		return false, fmt.Errorf("depot %s: %w; name a new one", g.to.Name, index.ErrNotEmpty)
	}
	closed, err := g.from.DB.Closed(ctx)
	if err != nil {
		return false, err
	}
	if closed {
		return true, g.finish(ctx)
	}
	return false, g.to.DB.Copies.Undo(ctx, lease)
}

// contents copies all contents, and counts them in m.
func (g migration) contents(ctx context.Context, m *Result, step func()) error {
	var batch []record.Content
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		defer func() { batch = batch[:0] }()
		return g.batch(ctx, batch)
	}
	for c, err := range g.from.DB.Contents(ctx) {
		if err != nil {
			return err
		}
		m.Contents++
		m.Bytes += c.Size
		there, err := g.stored(ctx, c)
		if err != nil {
			return err
		}
		if !there {
			m.Copied++
			if batch = append(batch, c); len(batch) == batchSize {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		step()
	}
	if err := flush(); err != nil {
		return err
	}
	return g.keep(ctx)
}

// keep extends the lease of the copied contents if they are in a bucket.
func (g migration) keep(ctx context.Context) error {
	if !g.to.Placed {
		return nil
	}
	return g.to.DB.Places.Extend(ctx, lease)
}

// stored reports whether the store of the target has a content, although its index may not.
func (g migration) stored(ctx context.Context, c record.Content) (bool, error) {
	if g.to.Placed {
		return g.to.DB.Places.Finished(ctx, c)
	}
	info, err := g.to.Blobs.Stat(ctx, c.Ref)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size == c.Size, err
}

// batch copies some contents.
func (g migration) batch(ctx context.Context, list []record.Content) error {
	b, err := g.to.Blobs.Begin(ctx)
	if err != nil {
		return err
	}
	defer b.Abort()
	for _, c := range list {
		f, err := g.from.Blobs.Open(ctx, c.Ref)
		if err != nil {
			return fmt.Errorf("a content cannot be copied; symdepot verify --repair names the files that are lost: %w", err)
		}
		ref, _, err := b.Put(ctx, c.Size, f)
		_ = f.Close() // opened for reading
		if err == nil && ref != c.Ref {
			err = fmt.Errorf("content %s was read as %s", c.Ref, ref)
		}
		if err != nil {
			return err
		}
	}
	if err := b.Commit(ctx); err != nil {
		return err
	}
	return g.keep(ctx)
}

// record records in the folder of the depot where it is now. A database records it by itself.
func (g migration) record() error {
	if engine.IsURL(g.from.Name) {
		return nil
	}
	return home.ChangeStamp(g.from.Name, func(s *home.Stamp) { s.Format, s.Moved = home.MovedFormat, g.to.Name })
}

// Unmove makes a migrated depot usable again. The caller makes sure that the target
// of the migration is no longer used: this depot lacks what was added there.
func Unmove(ctx context.Context, where string, opt home.Options) error {
	at := where
	if !engine.IsURL(where) {
		if err := home.ChangeStamp(where, func(s *home.Stamp) { s.Format, s.Moved = home.Format, "" }); err != nil {
			return err
		}
		at = filepath.Join(where, "index.db")
	}
	db, err := index.Open(ctx, at, index.Options{Now: opt.Now, Dial: opt.Dial, MustExist: true})
	if err != nil {
		return err
	}
	return errors.Join(db.Reopen(ctx), db.Close())
}

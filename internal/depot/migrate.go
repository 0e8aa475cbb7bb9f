package depot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/index"
)

// ErrMoved means that the depot was migrated: it is used at its new place.
var ErrMoved = errors.New("the depot was moved")

func movedError(to string) error {
	return fmt.Errorf("%w to %s; open that one, or make this one usable again with `symdepot depot unmove` while nothing uses the other", ErrMoved, to)
}

// movedFormat is the format of the stamp of a moved depot. Programs that do not
// know Migrate refuse it.
const movedFormat = 2

// Migrated counts what Migrate copied.
type Migrated struct {
	Contents int64 // all contents of the depot
	Bytes    int64
	Copied   int64 // contents that the target did not have yet
}

// migrateLease is how long an interrupted Migrate may pause without losing its
// uploads.
const migrateLease = 7 * 24 * time.Hour

// Migrate copies everything of a depot to a new one: contents, transactions with
// their numbers, tokens, jobs. Readers and writers go on while the contents are
// copied; writers wait while the rows are. Then the depot can only be read; it is
// never deleted. An interrupted Migrate goes on where it stopped.
//
// progress, if not nil, is called with the bytes that the target has and the
// bytes of all contents.
func (d *Depot) Migrate(ctx context.Context, to *Depot, progress func(done, all int64)) (m Migrated, err error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	g := migration{from: d, to: to}
	stats, err := d.db.Stats(ctx)
	if err != nil {
		return m, err
	}
	if there, err := to.db.Stats(ctx); err != nil {
		return m, err
	} else if there.Contents > 0 || there.Transactions > 0 {
		if ended, err := g.resume(ctx); err != nil || ended {
			m.Contents, m.Bytes = there.Contents, there.Bytes
			return m, err
		}
	}
	contents := func() error {
		m = Migrated{Copied: m.Copied}
		return g.contents(ctx, &m, func() { progress(m.Bytes, max(stats.Bytes, m.Bytes)) })
	}
	if err := contents(); err != nil {
		return m, err
	}
	// Contents that were added meanwhile follow under the write lock.
	if err := d.db.Copy(ctx, to.db, contents); err != nil {
		return m, err
	}
	return m, g.finish(ctx)
}

// migration copies one depot to another.
type migration struct{ from, to *Depot }

// finish checks the copied index and records in the folder of the depot where it is now.
func (g migration) finish(ctx context.Context) error {
	problems, err := g.to.db.Check(ctx)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("depot %s: the copied index has faults: %s", g.to.name, problems[0])
	}
	if err != nil {
		return errors.Join(err, g.from.db.Reopen(ctx))
	}
	return g.record()
}

// resume continues a Migrate that was interrupted after it had copied the rows. If
// the depot refuses additions already, only the end is missing; ended is true then.
// Otherwise the rows are copied again, because there may be more now.
func (g migration) resume(ctx context.Context) (ended bool, err error) {
	id, err := g.from.db.Places.Depot(ctx)
	if err != nil {
		return false, err
	}
	ours, err := g.to.db.Copies.CopyOf(ctx, id)
	if err != nil {
		return false, err
	}
	if !ours {
		return false, fmt.Errorf("depot %s: %w; name a new one", g.to.name, index.ErrNotEmpty)
	}
	closed, err := g.from.db.Closed(ctx)
	if err != nil {
		return false, err
	}
	if closed {
		return true, g.finish(ctx)
	}
	return false, g.to.db.Copies.Undo(ctx, migrateLease)
}

// contents copies all contents, and counts them in m.
func (g migration) contents(ctx context.Context, m *Migrated, step func()) error {
	var batch []index.Content
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		defer func() { batch = batch[:0] }()
		return g.batch(ctx, batch)
	}
	for c, err := range g.from.db.Contents(ctx) {
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
			if batch = append(batch, c); len(batch) == copyBatch {
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
	if !g.to.placed {
		return nil
	}
	return g.to.db.Places.Extend(ctx, migrateLease)
}

// stored reports whether the store of the target has a content, although its index may not.
func (g migration) stored(ctx context.Context, c index.Content) (bool, error) {
	if g.to.placed {
		return g.to.db.Places.Finished(ctx, c)
	}
	info, err := g.to.blobs.Stat(ctx, c.Ref)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size == c.Size, err
}

// batch copies some contents.
func (g migration) batch(ctx context.Context, list []index.Content) error {
	b, err := g.to.blobs.Begin(ctx)
	if err != nil {
		return err
	}
	defer b.Abort()
	for _, c := range list {
		f, err := g.from.blobs.Open(ctx, c.Ref)
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
	if index.IsURL(g.from.name) {
		return nil
	}
	return changeStamp(g.from.name, func(s *stamp) { s.Format, s.Moved = movedFormat, g.to.name })
}

// Unmove makes a migrated depot usable again. The caller makes sure that the target
// of the migration is no longer used: this depot lacks what was added there.
func Unmove(ctx context.Context, where string, opt Options) error {
	at := where
	if !index.IsURL(where) {
		if err := changeStamp(where, func(s *stamp) { s.Format, s.Moved = Format, "" }); err != nil {
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

// changeStamp rewrites depot.json.
func changeStamp(dir string, change func(s *stamp)) error {
	path := filepath.Join(dir, "depot.json")
	b, err := durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("depot %s: %w", dir, ErrNoDepot)
	}
	if err != nil {
		return err
	}
	var s stamp
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("depot %s: depot.json: %w", dir, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	change(&s)
	if b, err = json.Marshal(s); err != nil {
		return err
	}
	if err := durable.WriteFile(path, append(b, '\n'), info.Mode().Perm()); err != nil {
		return err
	}
	return sharingOf(dir, "").file(path)
}

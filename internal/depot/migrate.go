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
	stats, err := d.db.Stats(ctx)
	if err != nil {
		return m, err
	}
	if there, err := to.db.Stats(ctx); err != nil {
		return m, err
	} else if there.Contents > 0 || there.Transactions > 0 {
		if ended, err := resumeMigration(ctx, d, to); err != nil || ended {
			m.Contents, m.Bytes = there.Contents, there.Bytes
			return m, err
		}
	}
	contents := func() error {
		copied := m.Copied
		m = Migrated{Copied: copied}
		return d.copyContents(ctx, to, &m, func() { progress(m.Bytes, max(stats.Bytes, m.Bytes)) })
	}
	if err := contents(); err != nil {
		return m, err
	}
	// Contents that were added meanwhile follow under the write lock.
	if err := d.db.Copy(ctx, to.db, contents); err != nil {
		return m, err
	}
	return m, finishMigration(ctx, d, to)
}

// finishMigration checks the copied index and records in the folder of the depot where it is
// now.
func finishMigration(ctx context.Context, d, to *Depot) error {
	problems, err := to.db.Check(ctx)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("depot %s: the copied index has faults: %s", to.name, problems[0])
	}
	if err != nil {
		return errors.Join(err, d.db.Reopen(ctx))
	}
	return d.writeMoved(to.name)
}

// resumeMigration continues a Migrate that was interrupted after it had copied the rows. If
// the depot refuses additions already, only the end is missing; ended is true then.
// Otherwise the rows are copied again, because there may be more now.
func resumeMigration(ctx context.Context, d, to *Depot) (ended bool, err error) {
	id, err := d.db.Places.Depot(ctx)
	if err != nil {
		return false, err
	}
	ours, err := to.db.Copies.CopyOf(ctx, id)
	if err != nil {
		return false, err
	}
	if !ours {
		return false, fmt.Errorf("depot %s: %w; name a new one", to.name, index.ErrNotEmpty)
	}
	closed, err := d.db.Closed(ctx)
	if err != nil {
		return false, err
	}
	if closed {
		return true, finishMigration(ctx, d, to)
	}
	return false, to.db.Copies.Undo(ctx, migrateLease)
}

// copyContents stores all contents of the depot in the store of another one.
func (d *Depot) copyContents(ctx context.Context, to *Depot, m *Migrated, step func()) error {
	var batch []index.Content
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		defer func() { batch = batch[:0] }()
		return d.copyBatch(ctx, to, batch)
	}
	for c, err := range d.db.Contents(ctx) {
		if err != nil {
			return err
		}
		m.Contents++
		m.Bytes += c.Size
		there, err := to.storesContent(ctx, c)
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
	if to.placed {
		return to.db.Places.Extend(ctx, migrateLease)
	}
	return nil
}

// storesContent reports whether the store of a depot has a content, although its
// index may not.
func (d *Depot) storesContent(ctx context.Context, c index.Content) (bool, error) {
	if d.placed {
		return d.db.Places.Finished(ctx, c)
	}
	info, err := d.blobs.Stat(ctx, c.Ref)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size == c.Size, err
}

func (d *Depot) copyBatch(ctx context.Context, to *Depot, list []index.Content) error {
	b, err := to.blobs.Begin(ctx)
	if err != nil {
		return err
	}
	defer b.Abort()
	for _, c := range list {
		f, err := d.blobs.Open(ctx, c.Ref)
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
	if to.placed {
		return to.db.Places.Extend(ctx, migrateLease)
	}
	return nil
}

// writeMoved records in the folder of the depot where it is now. A database
// records it by itself.
func (d *Depot) writeMoved(to string) error {
	if index.IsURL(d.name) {
		return nil
	}
	return changeStamp(d.name, func(s *stamp) { s.Format, s.Moved = movedFormat, to })
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

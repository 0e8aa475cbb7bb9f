package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Restore makes the depot in a folder equal to a backup. It hashes every content
// and checks the whole index before it replaces anything; until then, and if it is
// killed, the folder keeps the depot that it has. Contents that only the replaced
// depot needed are left to the garbage collection. The backup is not changed.
func Restore(ctx context.Context, from, to string, opt Options) (sum Result, err error) {
	r := &restore{from: from, dir: to, opt: opt}
	if err := r.open(ctx); err != nil {
		return r.sum, errors.Join(fmt.Errorf("restore %s from %s: %w", to, from, err), r.close())
	}
	if err := errors.Join(r.run(ctx), r.close()); err != nil {
		return r.sum, fmt.Errorf("restore %s from %s: %w", r.dir, r.from, err)
	}
	return r.sum, nil
}

// restore is a running Restore.
type restore struct {
	from, dir string
	opt       Options
	shared    home.Sharing
	record    backupRecord
	stamp     home.Stamp // of the backup
	source    *blob.Disk
	target    *index.Target
	blobs     *blob.Disk
	copy      *index.DB
	sum       Result
}

func (r *restore) newIndex() string { return filepath.Join(r.dir, ".new.db") }

func (r *restore) open(ctx context.Context) (err error) {
	if r.from, err = filepath.Abs(r.from); err != nil {
		return err
	}
	if r.dir, err = filepath.Abs(r.dir); err != nil {
		return err
	}
	if in, err := overlap(r.from, r.dir); err != nil || in {
		if err == nil {
			err = errors.New("the folder of the backup is not the depot's, inside it or around it; a backup is itself a depot: --depot can name it")
		}
		return err
	}
	if err := r.openBackup(); err != nil {
		return err
	}
	if err := r.checkFolder(); err != nil {
		return err
	}
	r.shared = home.SharingOf(r.dir, "")
	if err := r.shared.MakeFolders(r.dir); err != nil {
		return err
	}
	if r.target, err = openTarget(ctx, r.dir); isUnusableFile(err) {
		r.target, err = r.setAside(ctx, err)
	}
	if err != nil {
		return err
	}
	if n, contents, err := r.target.Holds(ctx); err != nil {
		return err
	} else if n+contents > 0 && !r.opt.Replace {
		return fmt.Errorf("%w: it has builds up to number %d; --replace replaces them by the backup of %s",
			ErrHoldsFiles, n, r.record.Taken.Local().Format(time.DateTime))
	}
	r.blobs, err = blob.OpenDisk(filepath.Join(r.dir, "blobs"))
	return err
}

// openBackup checks the folder of the backup.
func (r *restore) openBackup() (err error) {
	r.record, err = readRecord(r.from)
	if errors.Is(err, fs.ErrNotExist) {
		return notBackupError("not a backup: " + recordName + " is missing; name the folder of symdepot depot backup --to")
	}
	if err == nil {
		r.stamp, err = home.ReadStamp(r.from)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: no backup to it was completed", ErrNotBackup)
		}
	}
	switch {
	case err != nil:
		return err
	case r.stamp.Format > home.Format:
		return fmt.Errorf("the backup: %w", home.NewerFormatError(r.stamp.Format))
	}
	if _, err := os.Stat(filepath.Join(r.from, "blobs")); err != nil {
		return fmt.Errorf("%w: %w", ErrNotBackup, err)
	}
	r.source, err = blob.OpenDisk(filepath.Join(r.from, "blobs"))
	return err
}

// checkFolder refuses to restore to what is not a depot on disk or an empty folder.
func (r *restore) checkFolder() error {
	s, err := home.ReadStamp(r.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case s.Moved != "":
		return home.MovedError(s.Moved)
	case s.Contents != "":
		return ErrOnDiskOnly
	case s.Format > home.Format:
		return home.NewerFormatError(s.Format)
	default:
		return nil
	}
	if _, err := readRecord(r.dir); !errors.Is(err, fs.ErrNotExist) {
		return errors.New("it is a backup that was not completed; name another folder")
	}
	made, err := home.Vacant(r.dir)
	if made {
		err = errors.New("another process has just made it a depot; try again")
	}
	return err
}

// isUnusableFile reports whether an error means that a file is not an index that
// this program can use.
func isUnusableFile(err error) bool {
	return errors.Is(err, engine.ErrCorrupt) || errors.Is(err, engine.ErrForeign)
}

// setAside renames an index that cannot be used.
func (r *restore) setAside(ctx context.Context, cause error) (*index.Target, error) {
	if !r.opt.Replace {
		return nil, fmt.Errorf("%w; --replace keeps it as index.db.damaged and restores the backup", cause)
	}
	path := filepath.Join(r.dir, "index.db")
	for _, suffix := range []string{"-wal", "-shm", "-journal", ""} {
		if err := os.Rename(path+suffix, path+".damaged"+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if err := r.shared.MakeFolders(r.dir); err != nil {
		return nil, err
	}
	return openTarget(ctx, r.dir)
}

func (r *restore) close() error {
	var errs []error
	if r.copy != nil {
		errs = append(errs, r.copy.Close())
	}
	if r.target != nil {
		errs = append(errs, engine.RemoveFile(r.newIndex()), r.target.Close())
	}
	for _, d := range []*blob.Disk{r.source, r.blobs} {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	return errors.Join(errs...)
}

func (r *restore) run(ctx context.Context) (err error) {
	if err := engine.RemoveFile(r.newIndex()); err != nil {
		return err
	}
	if err := index.SnapshotFile(ctx, filepath.Join(r.from, "index.db"), r.newIndex(), nil); err != nil {
		return err
	}
	if r.copy, err = index.Open(ctx, r.newIndex(), index.Options{MustExist: true}); err != nil {
		return err
	}
	problems, err := r.copy.Check(ctx)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: its index has faults: %s", ErrNotBackup, problems[0])
	}
	stats, err := r.copy.Stats(ctx)
	if err != nil {
		return err
	}
	r.sum = Result{To: r.dir, Taken: r.record.Taken, Transactions: stats.Transactions, Contents: stats.Contents, Bytes: stats.Bytes}
	from := coldstore.New(r.source, coldstore.StoreOptions{
		Records: r.copy.Colds, Dir: r.dir, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	r.source = nil // from closes it
	defer func() { err = errors.Join(err, from.Close()) }()
	t := &transfer{from: from, to: r.blobs, hash: true}
	t.lost = func(ctx context.Context, c record.Content, cause error) error {
		k, ok, err := plainInstead(ctx, r.copy, c.Ref, time.Now, from.Below(), r.blobs)
		if ok {
			t.plain = append(t.plain, k)
			return nil
		}
		if err != nil {
			return err
		}
		return r.lost(ctx, c, cause)
	}
	if r.opt.Progress != nil {
		t.progress = func(done int64) { r.opt.Progress(done, stats.Bytes) }
	}
	if err := t.run(ctx, r.copy.Contents(ctx)); err != nil {
		return err
	}
	r.sum.Copied, r.sum.CopiedBytes = t.copied, t.bytes
	if r.sum.Faults > 0 && !r.opt.Incomplete {
		return fmt.Errorf("%w: %d of %d; --incomplete restores the rest", ErrIncomplete, r.sum.Faults, r.sum.Contents)
	}
	return r.replace(ctx)
}

// lost reports a content that the backup does not have intact.
func (r *restore) lost(ctx context.Context, c record.Content, cause error) error {
	f, _, err := content.Faults{DB: r.copy}.Of(ctx, c.Ref, "damaged in the backup: "+cause.Error())
	if err != nil {
		return err
	}
	f.Remedy = "restore from an older backup, or restore with --incomplete and add a file with the same bytes again"
	r.sum.Faults++
	if r.opt.Fault != nil {
		r.opt.Fault(*f)
	}
	return nil
}

// replace replaces the index of the folder by that of the backup.
func (r *restore) replace(ctx context.Context) error {
	before, _, err := r.target.Moment(ctx)
	if err != nil {
		return err
	}
	if err := r.copy.Copies.AtLeast(ctx, before.Generation+1); err != nil {
		return err
	}
	// An empty folder becomes an empty depot first: killed between the two steps,
	// it can be restored again.
	if err := home.WriteStamp(r.dir, home.Stamp{Format: home.Format, Created: r.stamp.Created, ID: rand.Text()}, r.shared); err != nil {
		return err
	}
	return r.target.Replace(ctx, r.newIndex(), nil)
}

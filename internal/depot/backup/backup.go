// Package backup copies a depot on disk into a folder that is a depot itself, and restores it.
package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Errors of Take and Restore.
var (
	// ErrOnDiskOnly means that the depot is not one of a folder alone, which other
	// tools back up.
	ErrOnDiskOnly = errors.New("backup and restore are for depots that keep everything in one folder; back up the database by its own " +
		"tools and the bucket after it, as docs/scale-out.md describes under Backup and restore")
	// ErrNotBackup means that a folder is not the backup that it should be.
	ErrNotBackup = errors.New("not a usable backup")
	// ErrInUse means that a process has the depot or the backup open.
	ErrInUse = errors.New("another process has it open; stop that one first")
	// ErrHoldsFiles means that Restore would replace what the depot holds.
	ErrHoldsFiles = errors.New("it is not empty")
	// ErrIncomplete means that files of a backup are damaged or missing.
	ErrIncomplete = errors.New("contents of the backup are damaged or missing")
)

// notBackupError is ErrNotBackup with a text of its own.
type notBackupError string

func (e notBackupError) Error() string      { return string(e) }
func (notBackupError) Is(target error) bool { return target == ErrNotBackup }

// backupRecord is the content of backup.json, which makes a folder a backup.
type backupRecord struct {
	Depot string `json:"depot"` // id of the depot
	From  string `json:"from"`  // its folder
	// Taken is the time of the last complete backup; zero before the first one.
	Taken time.Time `json:"taken,omitzero"`
	// Moments are the states that the index of the backup may have if the folder was
	// not used as a depot since: two if a backup was interrupted while it replaced the
	// index.
	Moments []index.Moment `json:"moments"`
}

const recordName = "backup.json"

// readRecord reads the record of a backup. If there is none, the error is
// fs.ErrNotExist.
func readRecord(dir string) (r backupRecord, err error) {
	b, err := durable.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil || r.Depot == "" {
		return r, fmt.Errorf("%w: %s is damaged", ErrNotBackup, recordName)
	}
	return r, nil
}

func (r backupRecord) write(dir string, s home.Sharing) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, recordName)
	if err := durable.WriteFile(path, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return s.File(path)
}

// Options are those of Take and Restore.
type Options struct {
	// Verify makes Take hash all contents of the backup and check all rows of
	// its index.
	Verify bool
	// Replace permits Restore to replace a depot that holds files.
	Replace bool
	// Incomplete permits Restore to restore a backup with damaged contents.
	Incomplete bool
	// Fault is called for each content that cannot be copied.
	Fault func(content.Fault)
	// Progress is called with the bytes of the contents that the copy has, and the
	// bytes of all. nil is not called.
	Progress func(done, all int64)

	// AfterSnapshot is called when the index has been copied and its contents have
	// not; nil is not called. Tests use it.
	AfterSnapshot func()
}

// Result is what Take and Restore have done.
type Result struct {
	To           string    `json:"to"`
	Taken        time.Time `json:"taken"` // when the copied state was the current one
	Transactions int64     `json:"builds"`
	Contents     int64     `json:"contents"`
	Bytes        int64     `json:"bytes"`
	// Copied contents were not in the copy yet. Removed ones are not in the depot
	// any more.
	Copied       int64 `json:"copied"`
	CopiedBytes  int64 `json:"copied_bytes"`
	Removed      int64 `json:"removed,omitempty"`
	RemovedBytes int64 `json:"removed_bytes,omitempty"`
	Faults       int64 `json:"faults,omitempty"` // contents that could not be copied
}

// Source is the depot that is backed up.
type Source struct {
	Home     *home.Home
	Store    *coldstore.Store // restores cold contents
	Contents *content.Contents
}

// Take copies a depot into a folder, which is a depot itself. The depot is used
// meanwhile. Contents that the folder has from an earlier backup are not copied
// again. Until everything of the new backup is stored durably, the folder has the
// earlier one; then the index is replaced in one transaction, and contents that the
// new one does not need are removed.
//
// Damaged contents are reported and not copied.
func Take(ctx context.Context, from Source, dir string, opt Options) (Result, error) {
	name := from.Home.Name
	if engine.IsURL(name) || from.Home.Placed {
		return Result{}, fmt.Errorf("depot %s: %w", name, ErrOnDiskOnly)
	}
	b := &backup{from: from, depot: from.Home, opt: opt, faults: map[blob.Ref]bool{}}
	err := b.openFolder(ctx, dir)
	if err == nil {
		err = b.run(ctx)
	}
	if err = errors.Join(err, b.close()); err != nil {
		return b.sum, fmt.Errorf("back up %s to %s: %w", name, b.dir, err)
	}
	return b.sum, nil
}

// backup is a running Take.
type backup struct {
	from   Source
	depot  *home.Home
	dir    string
	opt    Options
	shared home.Sharing
	record backupRecord
	target *index.Target
	blobs  *blob.Disk
	copy   *index.DB // the copied index, before it replaces that of the folder
	faults map[blob.Ref]bool
	sum    Result
}

// newIndex is the copied index.
func (b *backup) newIndex() string { return filepath.Join(b.dir, ".new.db") }

// openFolder checks and opens the folder of the backup.
func (b *backup) openFolder(ctx context.Context, dir string) (err error) {
	b.dir = dir
	if b.dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if in, err := overlap(b.depot.Dir, b.dir); err != nil || in {
		if err == nil {
			err = errors.New("the folder of a backup is not the depot's, inside it or around it; name another folder, best on another disk")
		}
		return err
	}
	id, err := b.depot.DB.Places.Depot(ctx)
	if err != nil {
		return err
	}
	b.record, err = readRecord(b.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := checkNewBackup(b.dir); err != nil {
			return err
		}
		if err := durable.MkdirAll(b.dir, 0o700); err != nil {
			return err
		}
		b.shared = home.SharingOf(b.dir, "")
		b.record = backupRecord{Depot: id, From: b.depot.Dir}
		// First of all: a folder with this file and no other is no depot.
		if err := b.record.write(b.dir, b.shared); err != nil {
			return err
		}
	case err != nil:
		return err
	case b.record.Depot != id:
		return fmt.Errorf("%w: it is the backup of a different depot (%s); name another folder", ErrNotBackup, b.record.From)
	}
	b.shared = home.SharingOf(b.dir, "")
	if err := b.shared.MakeFolders(b.dir); err != nil {
		return err
	}
	if b.target, err = openTarget(ctx, b.dir); err != nil {
		return err
	}
	m, found, err := b.target.Moment(ctx)
	if err != nil {
		return err
	}
	if found && !slices.Contains(b.record.Moments, m) {
		return fmt.Errorf("%w: it was used as a depot since its last backup, and a new backup would undo the changes; "+
			"name another folder", ErrNotBackup)
	}
	if b.blobs, err = blob.OpenDisk(filepath.Join(b.dir, "blobs")); err != nil {
		return err
	}
	_, err = b.blobs.Sweep(ctx, 0) // of killed backups: nobody else writes here
	return err
}

// checkNewBackup refuses a folder that holds other things than a backup that was
// interrupted at its start.
func checkNewBackup(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "depot.json")); err == nil {
		return fmt.Errorf("%w: it is a depot; name an empty or new folder", ErrNotBackup)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if n := e.Name(); n[0] != '.' {
			return fmt.Errorf("%w: it holds other files (%s); name an empty or new folder", ErrNotBackup, n)
		}
	}
	return nil
}

// overlap reports whether one of two folders is inside the other or equal to it.
func overlap(a, b string) (bool, error) {
	in, err := inside(a, b)
	if err == nil && !in {
		in, err = inside(b, a)
	}
	return in, err
}

// inside reports whether a folder is another one or below it. It compares files and
// not names, because Windows has several names for one folder.
func inside(dir, other string) (bool, error) {
	top, err := os.Stat(other)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		dir, err = resolve(dir)
	}
	if err != nil {
		return false, err
	}
	for {
		if info, err := os.Stat(dir); err == nil && os.SameFile(info, top) {
			return true, nil
		}
		if filepath.Dir(dir) == dir {
			return false, nil
		}
		dir = filepath.Dir(dir)
	}
}

// resolve returns the path of a folder, which need not exist, without links.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path {
		parent, err := resolve(filepath.Dir(path))
		return filepath.Join(parent, filepath.Base(path)), err
	}
	return real, err
}

// openTarget opens the index of a folder and keeps other processes out.
func openTarget(ctx context.Context, dir string) (*index.Target, error) {
	t, err := index.OpenTarget(ctx, filepath.Join(dir, "index.db"))
	if errors.Is(err, engine.ErrBusy) {
		err = fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	return t, err
}

func (b *backup) close() error {
	var errs []error
	if b.copy != nil {
		errs = append(errs, b.copy.Close())
	}
	if b.target != nil {
		errs = append(errs, engine.RemoveFile(b.newIndex()), b.target.Close())
	}
	if b.blobs != nil {
		errs = append(errs, b.blobs.Close())
	}
	return errors.Join(errs...)
}

// freeRounds is how often a backup copies the index before it keeps writers out.
const freeRounds = 4

func (b *backup) run(ctx context.Context) error {
	for round := 1; ; round++ {
		// Garbage collection may have freed contents since the index was copied.
		// Then a newer copy of the index does not name them.
		var gone int64
		err := b.round(ctx, &gone)
		if err != nil {
			return err
		}
		if gone == 0 {
			break
		}
		if round == freeRounds {
			if err := b.depot.DB.Locked(ctx, func(func(blob.Ref) (bool, error)) error { return b.round(ctx, &gone) }); err != nil {
				return err
			}
			if gone > 0 {
				return fmt.Errorf("%d contents were freed although the index was locked; run symdepot verify", gone)
			}
			break
		}
	}
	if err := b.check(ctx); err != nil {
		return err
	}
	if err := b.switchTo(ctx); err != nil {
		return err
	}
	return b.removeOld(ctx)
}

// round copies the index, then all contents that the copy names and the folder does
// not have. gone counts contents that were freed meanwhile.
func (b *backup) round(ctx context.Context, gone *int64) (err error) {
	d := b.depot
	if b.copy != nil {
		err = b.copy.Close()
		b.copy = nil
	}
	if err = errors.Join(err, engine.RemoveFile(b.newIndex())); err != nil {
		return err
	}
	*gone = 0
	b.sum = Result{
		To: b.dir, Taken: d.Now().UTC().Truncate(time.Second),
		Copied: b.sum.Copied, CopiedBytes: b.sum.CopiedBytes, Faults: b.sum.Faults,
	}
	if err := d.DB.Copies.Snapshot(ctx, b.newIndex(), nil); err != nil {
		return err
	}
	if b.copy, err = index.Open(ctx, b.newIndex(), index.Options{MustExist: true, Now: d.Now}); err != nil {
		return err
	}
	if err := b.copy.Copies.DropSecrets(ctx); err != nil {
		return err
	}
	stats, err := b.copy.Stats(ctx)
	if err != nil {
		return err
	}
	b.sum.Transactions, b.sum.Contents, b.sum.Bytes = stats.Transactions, stats.Contents, stats.Bytes
	if b.opt.AfterSnapshot != nil {
		b.opt.AfterSnapshot()
	}
	t := &transfer{from: b.from.Store, to: b.blobs, hash: b.opt.Verify}
	t.lost = func(ctx context.Context, c record.Content, cause error) error {
		// The plain bytes may be those of the depot, or those of an earlier backup.
		k, ok, err := plainInstead(ctx, b.copy, c.Ref, d.Now, b.from.Store.Below(), b.blobs)
		if ok {
			t.plain = append(t.plain, k)
			b.from.Contents.Report(cause)
			return nil
		}
		if err != nil {
			return err
		}
		return b.lost(ctx, c, cause, gone)
	}
	if b.opt.Progress != nil {
		t.progress = func(done int64) { b.opt.Progress(done, stats.Bytes) }
	}
	err = t.run(ctx, b.copy.Contents(ctx))
	b.sum.Copied += t.copied
	b.sum.CopiedBytes += t.bytes
	if err == nil && len(t.plain) > 0 { // the index of the copy was changed
		stats, err = b.copy.Stats(ctx)
		b.sum.Contents, b.sum.Bytes = stats.Contents, stats.Bytes
	}
	return err
}

// lost handles a content that cannot be read: it was freed, or is damaged.
func (b *backup) lost(ctx context.Context, c record.Content, cause error, gone *int64) error {
	known, err := b.depot.DB.HasContent(ctx, c.Ref)
	if err != nil {
		return err
	}
	if !known {
		*gone++
		return nil
	}
	if errors.Is(cause, fs.ErrNotExist) && !errors.Is(cause, blob.ErrDamaged) {
		// It may have been freed and added again since.
		if _, err := b.from.Store.Stat(ctx, c.Ref); err == nil {
			*gone++
			return nil
		}
		cause = b.from.Store.Missing(c.Ref)
	}
	if b.faults[c.Ref] {
		return nil // reported in an earlier round
	}
	b.faults[c.Ref] = true
	b.from.Contents.Report(cause)
	f, h, err := content.Faults{DB: b.depot.DB}.Of(ctx, c.Ref, "not in the backup: "+cause.Error())
	if err != nil {
		return err
	}
	switch {
	case h.Added, h.Needed:
		f.Remedy = "add a file with the same bytes again (symdepot add), then back up again"
	case h.Chilled:
		f.Remedy = "symdepot verify names the files that cannot be restored without it: add these again (symdepot add), then back up again"
	default:
		f.Remedy = "symdepot verify --repair, then back up again"
	}
	b.sum.Faults++
	if b.opt.Fault != nil {
		b.opt.Fault(*f)
	}
	return nil
}

// check checks the copied index before it replaces an earlier one.
func (b *backup) check(ctx context.Context) error {
	find := b.copy.Copies.Intact
	if b.opt.Verify {
		find = b.copy.Check
	}
	problems, err := find(ctx)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("the index of the depot has faults (symdepot verify lists all), "+
			"and an earlier backup is kept as it was: %s", problems[0])
	}
	return err
}

// switchTo replaces the index of the folder by the copied one.
func (b *backup) switchTo(ctx context.Context) error {
	now, err := b.copy.Copies.Moment(ctx)
	if err != nil {
		return err
	}
	before, found, err := b.target.Moment(ctx)
	if err != nil {
		return err
	}
	b.record.From, b.record.Moments = b.depot.Dir, []index.Moment{now}
	if found && before != now {
		b.record.Moments = append(b.record.Moments, before)
	}
	if err := b.record.write(b.dir, b.shared); err != nil {
		return err
	}
	if err := b.target.Replace(ctx, b.newIndex(), nil); err != nil {
		return err
	}
	// From here on the new backup is the one of the folder: finish also if
	// interrupted.
	if err := b.writeStamp(); err != nil {
		return err
	}
	b.record.Taken, b.record.Moments = b.sum.Taken, []index.Moment{now}
	return b.record.write(b.dir, b.shared)
}

// writeStamp makes the folder a depot.
func (b *backup) writeStamp() error {
	s, err := home.ReadStamp(b.depot.Dir)
	if err != nil {
		return err
	}
	return home.WriteStamp(b.dir, home.Stamp{Format: home.Format, Created: s.Created}, b.shared)
}

// removeOld removes the contents that only earlier backups needed.
func (b *backup) removeOld(ctx context.Context) error {
	cold, err := b.copy.Colds.Stats(ctx)
	if err != nil {
		return err
	}
	for info, err := range b.blobs.List(ctx) {
		if err != nil {
			return err
		}
		known, err := b.copy.HasContent(ctx, info.Ref)
		if err != nil {
			return err
		}
		if known && cold.Contents > 0 {
			row, err := b.copy.Colds.Of(ctx, info.Ref)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			// Else its cold file is in the backup, with all that it needs.
			known = err != nil || !row.PlainSince.IsZero() || len(b.faults) > 0
		}
		if known {
			continue
		}
		if err := b.blobs.Delete(ctx, info.Ref); err != nil {
			if errors.Is(err, blob.ErrInUse) {
				continue // the next backup removes it
			}
			return err
		}
		b.sum.Removed++
		b.sum.RemovedBytes += info.Size
	}
	return nil
}

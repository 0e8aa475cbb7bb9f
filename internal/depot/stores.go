package depot

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

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/vault"
)

// ErrNeedsBucket means that a depot in a database was opened without a bucket.
var ErrNeedsBucket = errors.New("a depot in PostgreSQL keeps its contents in a bucket, because several machines share it and network file systems give neither locks nor durability: name one with --blobs, such as s3://BUCKET/PREFIX")

// ErrNoDatabase means that the database of the depot does not answer: whether the
// depot has a file is not known.
var ErrNoDatabase = index.ErrUnavailable

// ConnectError says why a database server cannot be used, and what to do.
type ConnectError = index.ConnectError

// openStores opens the index and the store of contents. It sets name and dir
// also if it fails.
func (d *Depot) openStores(ctx context.Context, where string, opt *Options) (err error) {
	d.name, d.placed = where, opt.Bucket != nil
	at, fresh, err := d.prepareFolder(where, opt)
	if err != nil {
		return err
	}
	d.block = 1
	if !d.placed {
		d.block = durable.BlockSize(d.dir)
		if d.blobs, err = blob.OpenDisk(filepath.Join(d.dir, "blobs")); err != nil {
			return err
		}
	}
	err = d.openIndex(ctx, at, opt)
	if err == nil && d.placed {
		err = d.openVault(ctx, opt)
	}
	if err == nil && fresh {
		err = stampNew(d.dir, *opt)
	}
	if err == nil {
		return nil
	}
	if d.db != nil {
		err = errors.Join(err, d.db.Close())
	}
	if d.blobs != nil {
		err = errors.Join(err, d.blobs.Close())
	} else if opt.Bucket != nil {
		err = errors.Join(err, opt.Bucket.Close())
	}
	return err
}

// prepareFolder makes the folder of a depot, or that of this machine for a depot in a
// database, and sets name and dir. It returns the address of the index, and whether the depot
// is new.
func (d *Depot) prepareFolder(where string, opt *Options) (at string, fresh bool, err error) {
	if !index.IsURL(where) {
		if d.dir, err = filepath.Abs(where); err != nil {
			return "", false, err
		}
		d.name = d.dir
		fresh, err = prepare(d.dir, *opt)
		return filepath.Join(d.dir, "index.db"), fresh, err
	}
	d.name, d.dir = index.Name(where), opt.Local
	switch {
	case opt.Bucket == nil:
		return "", false, ErrNeedsBucket
	case d.dir == "":
		return "", false, errors.New("it needs a folder of this machine (depot.local)")
	}
	return where, false, durable.MkdirAll(d.dir, 0o700)
}

// openIndex opens the index, and sets the clock that all processes share if the options name
// none.
func (d *Depot) openIndex(ctx context.Context, at string, opt *Options) (err error) {
	shared := index.IsURL(at)
	d.db, err = index.Open(ctx, at, index.Options{
		Log: opt.Log, Now: opt.Now, Dial: opt.Dial, Replicas: opt.Replicas,
		Placed: d.placed, TempDir: d.dir, Block: d.block, MustExist: opt.MustExist && shared,
	})
	switch {
	case shared && errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; `symdepot add` makes one", ErrNoDepot)
	case err != nil:
		return err
	}
	if opt.Now == nil {
		opt.Now = index.ClockOf(d.db)
	}
	if !shared {
		return nil
	}
	closed, err := d.db.Closed(ctx)
	if err == nil && closed {
		err = movedError("another place")
	}
	return err
}

// openVault opens the store of contents in a bucket.
func (d *Depot) openVault(ctx context.Context, opt *Options) error {
	v, err := vault.Open(ctx, vault.Options{
		Bucket: opt.Bucket, Places: d.db.Places, Dir: filepath.Join(d.localDir(opt), "cache"),
		CacheBytes: opt.LocalSize, Probe: opt.Probe, Log: opt.Log, Now: opt.Now,
	})
	if err == nil {
		d.blobs = v
	}
	return err
}

// localDir returns the folder of this machine.
func (d *Depot) localDir(opt *Options) string {
	if opt.Local != "" {
		return opt.Local
	}
	return d.dir
}

// BucketOf returns the URL of the bucket that keeps the contents of the depot in
// a folder; empty if the folder does, or if there is no depot.
func BucketOf(dir string) (string, error) {
	b, err := durable.ReadFile(filepath.Join(dir, "depot.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var s stamp
	if err == nil {
		_ = json.Unmarshal(b, &s) // Open reports damage
	}
	return s.Contents, err
}

func newStamp(opt Options) stamp {
	now := opt.Now
	if now == nil { // there is no index yet
		now = time.Now
	}
	s := stamp{Format: Format, Created: now().UTC().Truncate(time.Second)}
	if opt.Bucket != nil {
		s.Contents = opt.Bucket.Name()
	}
	return s
}

// checkContents compares where the contents are with where they were.
func (s stamp) checkContents(opt Options) error {
	name := ""
	if opt.Bucket != nil {
		name = opt.Bucket.Name()
	}
	switch {
	case s.Contents == name:
		return nil
	case s.Contents == "":
		return fmt.Errorf("it keeps its contents in its folder, not in %s; open it without --blobs", name)
	case name == "":
		return fmt.Errorf("it keeps its contents in %s; name it with --blobs", s.Contents)
	}
	return fmt.Errorf("it keeps its contents in %s, not in %s", s.Contents, name)
}

// vacant returns an error if a folder without a depot.json cannot become a depot,
// because it has files of others. made means that it has a depot.json now: another
// process has just made the depot.
func vacant(dir string) (made bool, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	// A crash, or another process that is making the same depot, may have left these.
	// The folder watch is made by symdepot watch, which needs no depot.
	leftovers := []string{"blobs", "cache", "watch", "index.db", "index.db-wal", "index.db-shm", "index.db-journal"}
	for _, e := range entries {
		n := e.Name()
		if n == "depot.json" {
			if _, err := os.Stat(filepath.Join(dir, n)); err == nil { // not a broken link
				return true, nil
			}
		}
		if n[0] != '.' && !slices.Contains(leftovers, n) {
			return false, fmt.Errorf("it holds other files (%s) and is no depot; name an empty or new folder", n)
		}
	}
	return false, nil
}

// prepare checks the stamp of an existing depot or makes the folders of a new one.
// fresh reports the latter: stampNew makes it a depot.
func prepare(dir string, opt Options) (fresh bool, err error) {
	path := filepath.Join(dir, "depot.json")
	b, err := durable.ReadFile(path)
	switch {
	case err == nil:
		var s stamp
		if err := json.Unmarshal(b, &s); err != nil || s.Format < 1 {
			return false, stampError(fmt.Sprintf("depot.json is damaged; put {\"format\":%d} into it if you know that it is a depot of this version", Format))
		}
		if s.Moved != "" {
			return false, movedError(s.Moved)
		}
		if s.Format > Format && (s.Floor < 1 || s.Floor > Format) {
			return false, newerFormatError(s.Format)
		}
		return false, s.checkContents(opt)
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	case opt.MustExist:
		return false, fmt.Errorf("%w; `symdepot add` makes one", ErrNoDepot)
	}
	made, err := vacant(dir)
	if err != nil {
		return false, err
	}
	if made {
		return prepare(dir, opt)
	}
	if err := sharingOf(dir, opt.Group).makeFolders(dir); err != nil {
		return false, err
	}
	if opt.Bucket == nil {
		return false, stampNew(dir, opt)
	}
	return true, nil // a bucket that cannot be used must not be recorded
}

// stampNew writes the stamp of a new depot, unless another process has done so.
func stampNew(dir string, opt Options) error {
	if s, err := readStamp(dir); err == nil {
		return s.checkContents(opt)
	}
	err := writeStamp(dir, newStamp(opt), sharingOf(dir, opt.Group))
	if err != nil {
		// On Windows, the file of another process that makes the same depot cannot be
		// replaced while it is open.
		if made, _ := vacant(dir); made {
			_, err = prepare(dir, opt)
		}
	}
	return err
}

// stampError is the error for a damaged depot.json.
type stampError string

func (e stampError) Error() string { return string(e) }

// readStamp reads depot.json. If it does not exist, the error is fs.ErrNotExist.
func readStamp(dir string) (s stamp, err error) {
	b, err := durable.ReadFile(filepath.Join(dir, "depot.json"))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil || s.Format < 1 {
		return s, stampError(dir + ": depot.json is damaged")
	}
	return s, nil
}

// writeStamp writes depot.json.
func writeStamp(dir string, s stamp, with sharing) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "depot.json")
	if err := durable.WriteFile(path, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return with.file(path)
}

// newerFormatError is ErrNewer for the format of a depot or a backup.
type newerFormatError int

func (e newerFormatError) Error() string {
	return fmt.Sprintf("format %d is newer than this program (format %d); use the newer symdepot", int(e), Format)
}

func (newerFormatError) Is(target error) bool { return target == ErrNewer }

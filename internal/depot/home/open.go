// Package home opens the place of a depot, a folder or a database with a bucket: its stamp,
// the modes of its files, its index and the store of its contents. It also looks at one
// without changing it.
package home

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/depot/bucketstore"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// ErrNeedsBucket means that a depot in a database was opened without a bucket.
var ErrNeedsBucket = errors.New("a depot in PostgreSQL keeps its contents in a bucket, because several machines share it and " +
	"network file systems give neither locks nor durability: name one with --blobs, such as s3://BUCKET/PREFIX")

// ErrNoDatabase means that the database of the depot does not answer: whether the
// depot has a file is not known.
var ErrNoDatabase = engine.ErrUnavailable

// ConnectError says why a database server cannot be used, and what to do.
type ConnectError = engine.ConnectError

// Options of Open and Inspect. The zero value makes the depot if it does not exist.
type Options struct {
	// MustExist makes a missing depot an error instead of making one.
	MustExist bool
	// Bucket keeps the contents; nil: the folder does. It is closed with the store, and if
	// Open fails.
	Bucket bucket.Bucket
	// Probe checks that the store of the Bucket can keep contents: see bucketstore.Options.
	Probe bool
	// Local is the folder of this machine for temporary files and for recently used contents
	// of the Bucket, and LocalSize the limit of the latter in bytes.
	Local     string
	LocalSize int64
	// Group is the group of users that shares a new depot, by name; empty: nobody does.
	Group string
	// Dial connects to the server of a database; nil means a plain connection. Replicas are
	// the URLs of its standbys.
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	Replicas []string
	Log      *slog.Logger
	// Now is the clock; nil is that of the database, or time.Now for a depot in a folder.
	Now func() time.Time
}

// Home is where a depot is: its index, the store of its contents, and the folder of this
// machine.
type Home struct {
	Name string // for messages: the folder, or the address of the database without secrets
	Dir  string // the folder of the depot, or that of this machine
	// Fingerprint is what Inspection.Fingerprint is.
	Fingerprint string
	// Local is the folder of this machine: Dir, unless the options name another one.
	Local string
	// Placed is set if the contents are in a bucket: the index knows the place of each
	// content, and contents are deleted after a delay.
	Placed bool
	// Block is the unit in bytes in which the store allocates space; in a bucket 1.
	Block int64
	DB    *index.DB
	Blobs blob.Backend
	// Now is the clock that all processes with the depot share.
	Now func() time.Time
}

// Open opens the index and the store of contents of the depot in a folder or, if where is a
// URL that begins with postgres://, in a PostgreSQL database. It checks the format before it
// changes anything.
func Open(ctx context.Context, where string, opt Options) (*Home, error) {
	h := &Home{Name: where, Placed: opt.Bucket != nil, Now: opt.Now}
	if err := h.open(ctx, where, &opt); err != nil {
		return nil, fmt.Errorf("depot %s: %w", h.Name, err)
	}
	return h, nil
}

// open is Open. It sets Name also if it fails.
func (h *Home) open(ctx context.Context, where string, opt *Options) (err error) {
	at, fresh, err := h.prepareFolder(where, opt)
	if err != nil {
		return err
	}
	h.Local = cmp.Or(opt.Local, h.Dir)
	h.Block = 1
	if !h.Placed {
		h.Block = durable.BlockSize(h.Dir)
		if h.Blobs, err = blob.OpenDisk(filepath.Join(h.Dir, "blobs")); err != nil {
			return err
		}
	}
	err = h.openIndex(ctx, at, opt)
	if err == nil && h.Placed {
		err = h.openBucket(ctx, opt)
	}
	if err == nil && fresh {
		err = stampNew(h.Dir, *opt)
	}
	if err == nil {
		h.Fingerprint, err = fingerprintOf(ctx, where, h.DB)
	}
	if err == nil {
		return nil
	}
	if h.DB != nil {
		err = errors.Join(err, h.DB.Close())
	}
	if h.Blobs != nil {
		err = errors.Join(err, h.Blobs.Close())
	} else if opt.Bucket != nil {
		err = errors.Join(err, opt.Bucket.Close())
	}
	return err
}

// prepareFolder makes the folder of a depot, or that of this machine for a depot in a
// database, and sets Name and Dir. It returns the address of the index, and whether the depot
// is new.
func (h *Home) prepareFolder(where string, opt *Options) (at string, fresh bool, err error) {
	if !engine.IsURL(where) {
		if h.Dir, err = filepath.Abs(where); err != nil {
			return "", false, err
		}
		h.Name = h.Dir
		fresh, err = prepare(h.Dir, *opt)
		return filepath.Join(h.Dir, "index.db"), fresh, err
	}
	h.Name, h.Dir = engine.Name(where), opt.Local
	switch {
	case opt.Bucket == nil:
		return "", false, ErrNeedsBucket
	case h.Dir == "":
		return "", false, errors.New("it needs a folder of this machine (depot.local)")
	}
	return where, false, durable.MkdirAll(h.Dir, 0o700)
}

// openIndex opens the index, and sets the clock that all processes share if the options name
// none.
func (h *Home) openIndex(ctx context.Context, at string, opt *Options) (err error) {
	shared := engine.IsURL(at)
	h.DB, err = index.Open(ctx, at, index.Options{
		Log: opt.Log, Now: opt.Now, Dial: opt.Dial, Replicas: opt.Replicas,
		Placed: h.Placed, TempDir: h.Dir, Block: h.Block, MustExist: opt.MustExist && shared,
	})
	switch {
	case shared && errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; `symdepot add` makes one", ErrNoDepot)
	case err != nil && !shared:
		return deniedIndex(h.Dir, err)
	case err != nil:
		return err
	}
	if h.Now == nil {
		h.Now = index.ClockOf(h.DB)
	}
	if !shared {
		return nil
	}
	closed, err := h.DB.Closed(ctx)
	if err == nil && closed {
		err = MovedError("another place")
	}
	return err
}

// openBucket opens the store of contents in a bucket.
func (h *Home) openBucket(ctx context.Context, opt *Options) error {
	in, err := bucketstore.Open(ctx, bucketstore.Options{
		Bucket: opt.Bucket, Places: h.DB.Places, Dir: filepath.Join(h.Local, "cache"),
		CacheBytes: opt.LocalSize, Probe: opt.Probe, Log: opt.Log, Now: h.Now,
	})
	if err == nil {
		h.Blobs = in
	}
	return err
}

// Vacant returns an error if a folder without a depot.json cannot become a depot,
// because it has files of others. made means that it has a depot.json now: another
// process has just made the depot.
func Vacant(dir string) (made bool, err error) {
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
		var s Stamp
		if err := json.Unmarshal(b, &s); err != nil || s.Format < 1 {
			return false, stampError(fmt.Sprintf(
				"depot.json is damaged; put {\"format\":%d} into it if you know that it is a depot of this version", Format))
		}
		if s.Moved != "" {
			return false, MovedError(s.Moved)
		}
		if s.Format > Format && (s.Floor < 1 || s.Floor > Format) {
			return false, NewerFormatError(s.Format)
		}
		return false, s.checkContents(opt)
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	case opt.MustExist:
		return false, fmt.Errorf("%w; `symdepot add` makes one", ErrNoDepot)
	}
	made, err := Vacant(dir)
	if err != nil {
		return false, err
	}
	if made {
		return prepare(dir, opt)
	}
	if err := SharingOf(dir, opt.Group).MakeFolders(dir); err != nil {
		return false, err
	}
	if opt.Bucket == nil {
		return false, stampNew(dir, opt)
	}
	return true, nil // a bucket that cannot be used must not be recorded
}

// stampNew writes the stamp of a new depot, unless another process has done so.
func stampNew(dir string, opt Options) error {
	if s, err := ReadStamp(dir); err == nil {
		return s.checkContents(opt)
	}
	err := WriteStamp(dir, newStamp(opt), SharingOf(dir, opt.Group))
	if err != nil {
		// On Windows, the file of another process that makes the same depot cannot be
		// replaced while it is open.
		if made, _ := Vacant(dir); made {
			_, err = prepare(dir, opt)
		}
	}
	return err
}

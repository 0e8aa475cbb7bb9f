// Package watch indexes a folder of builds and packages where it lies, and answers
// requests out of it. Nothing is copied: the index says in which file an object is, and
// where in a package. A file that has changed since it was indexed is absent until it is
// indexed again.
//
// Symbolic links are not followed, and nothing outside of the folder is opened. What is
// in the folder is written by others: a file that is damaged or lies about itself is left
// out whole, with a line in the log, until it changes.
package watch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/internal/index/watched"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/symfile"
)

// Options of a watched folder.
type Options struct {
	// Index is the path of the folder's own index, an SQLite file. It may be deleted at
	// any time while the folder is not open. Points in large packages are kept in a folder beside
	// it, whose name ends with .points.
	Index string
	// Bucket is the bucket to watch, or the part of it below a prefix; nil: where is a
	// folder of this machine. The caller closes it.
	Bucket bucket.Bucket
	// Product and Version say for whom the objects are visible. They are kept for the
	// caller.
	Product, Version string
	// Rescan is the interval between scans. 0: 5 minutes.
	Rescan time.Duration
	// TempDir is the folder for unpacked members. Empty: that of the system.
	TempDir string
	// CacheBytes limits the unpacked members that are kept without readers. 0: 2 GiB.
	CacheBytes int64
	// Workers is the number of files that are read at the same time. 0: 2.
	Workers int
	// Progress, if not nil, is called during a scan, from one goroutine at a time.
	Progress func(Progress)
	// Scanned, if not nil, is called after each scan of the whole folder.
	Scanned func(ScanStats)
	// Log receives what is left out. Nil: nothing is logged.
	Log *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time

	unpackRatio int64 // of tests: see scan.Options.MaxRatio; the least limit is 1 MiB then
	pointEvery  int64 // of tests: see zstdpoint.Options.Every
}

// Progress is how far a scan has come.
type Progress struct {
	Files   int64  // seen so far
	Changed int64  // of them, new or changed
	Read    int64  // of them, read so far
	Bytes   int64  // of the files that were read
	Path    string // the file that was read last
}

// Folder is a watched folder. Its methods may be called by many goroutines.
type Folder struct {
	where  string
	opt    Options
	src    origin
	db     *watched.Watched
	shelf  *unpackcache.Cache
	points *pointFiles

	found    func(ctx context.Context, keys iter.Seq[symfile.Alias]) // see Tell; nil: nobody is told
	scanning chan struct{}                                           // holds one element during a scan
	dirty    *dirtyFolders

	mu       sync.Mutex
	last     ScanStats // guarded by mu; of the last complete scan
	failed   error     // guarded by mu; why the last scan ended early
	notifier notifier  // guarded by mu; nil: changes are found by scans
	// unreadable has the folders and files that could not be read last, for the log.
	unreadable map[string]bool // guarded by mu

	listing  chan struct{}               // holds one element for each object whose names are being read
	lists    keptLists[map[string]named] // names of objects
	packages keptLists[*packageNames]    // of packages
}

// Open opens a folder, or a prefix of a bucket, with its index. It does not scan, and the
// folder may be away: see ErrAway.
func Open(ctx context.Context, where string, opt Options) (*Folder, error) {
	f, err := newFolder(where, opt)
	if err != nil {
		return nil, err
	}
	if f.db, _, err = watched.OpenWatched(ctx, opt.Index); err == nil {
		err = f.checkPlace(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// OpenIndexed opens a folder that another process may be watching, with the index that
// it keeps. Nothing is written, and the folder must not be scanned; it may be away. The
// error wraps fs.ErrNotExist if there is no index.
func OpenIndexed(ctx context.Context, where string, opt Options) (*Folder, error) {
	f, err := newFolder(where, opt)
	if err != nil {
		return nil, err
	}
	if f.db, err = watched.ReadWatched(ctx, opt.Index); err == nil {
		var have string
		if have, err = f.db.Note(ctx, placeNote); err == nil && have != f.where {
			err = fmt.Errorf("%s is the index of another folder", opt.Index)
		}
	}
	if err == nil {
		f.failed = f.Present(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// newFolder returns a folder without its index.
func newFolder(where string, opt Options) (*Folder, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Rescan <= 0 {
		opt.Rescan = 5 * time.Minute
	}
	if opt.Workers <= 0 {
		opt.Workers = 2
	}
	var src origin
	if opt.Bucket != nil {
		src = &remote{b: opt.Bucket}
	} else {
		l, err := openLocal(where)
		if err != nil {
			return nil, err
		}
		src = l
	}
	return &Folder{
		where: src.name(), opt: opt, src: src,
		shelf:    unpackcache.New(unpackcache.Options{Dir: opt.TempDir, KeptBytes: opt.CacheBytes, KeptFiles: 512, AtOnce: 2}),
		points:   newPointFiles(&opt),
		scanning: make(chan struct{}, 1), dirty: newDirtyFolders(), unreadable: map[string]bool{},
		listing: make(chan struct{}, listsAtOnce),
	}, nil
}

// placeNote is the name under which an index says of which folder it is.
const placeNote = "folder"

// checkPlace makes sure that the index is that of this folder: the rows of another one
// are dropped.
func (f *Folder) checkPlace(ctx context.Context) error {
	have, err := f.db.Note(ctx, placeNote)
	if err != nil || have == f.where {
		return err
	}
	if have != "" {
		if err := f.db.Clear(ctx); err != nil {
			return err
		}
	}
	return f.db.Apply(ctx, watched.Change{Notes: map[string]string{placeNote: f.where}})
}

// Close releases the folder. Open files stay readable.
func (f *Folder) Close() error {
	f.shelf.Close()
	err := f.src.close()
	if f.db != nil {
		err = errors.Join(f.db.Close(), err)
	}
	return err
}

// IndexedFolder returns the folder, or the URL of the bucket, of which a file is the
// index.
func IndexedFolder(ctx context.Context, file string) (where string, err error) {
	db, err := watched.ReadWatched(ctx, file)
	if err != nil {
		return "", err
	}
	where, err = db.Note(ctx, placeNote)
	return where, errors.Join(err, db.Close())
}

// IndexFile returns the path of the index of a watched folder, in a folder for the
// indexes of all watched folders.
func IndexFile(dir, where string) (string, error) {
	if !strings.Contains(where, "://") {
		abs, err := filepath.Abs(where)
		if err != nil {
			return "", err
		}
		where = abs
	}
	sum := sha256.Sum256([]byte(where))
	return filepath.Join(dir, hex.EncodeToString(sum[:8])+".db"), nil
}

// Where returns the absolute path of the folder, or the URL of the bucket.
func (f *Folder) Where() string { return f.where }

// Tell has found called after files were indexed that are new or have changed, with the keys under which their objects are
// found. It is called before the first scan.
func (f *Folder) Tell(found func(ctx context.Context, keys iter.Seq[symfile.Alias])) { f.found = found }

// keysIn returns the keys of the objects that a change enters.
func keysIn(c *watched.Change) iter.Seq[symfile.Alias] {
	return func(yield func(symfile.Alias) bool) {
		for i := range c.Put {
			e := &c.Put[i]
			for j := range e.Objects {
				row := watched.Hit{Object: e.Objects[j], File: e.File}
				o, err := decodeObject(row.Data, rowName(&row), row.Size)
				if err != nil {
					continue // it was encoded just now
				}
				for _, a := range o.Aliases() {
					if !yield(a) {
						return
					}
				}
			}
		}
	}
}

// Product and Version return the options of these names.
func (f *Folder) Product() (product, version string) { return f.opt.Product, f.opt.Version }

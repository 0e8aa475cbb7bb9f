// Package depot keeps symbol files and answers who asks for them. It is the
// one room that composes the blobs, the index and what is derived from them;
// all policy lives here.
package depot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/fetch"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/symcachework"
	"github.com/symdepot/symdepot/internal/tree"
)

// Format is the version of the depot's folder. A depot of a newer format is
// left alone.
const Format = 1

// Errors that a command may want to tell apart.
var (
	ErrNoDepot = errors.New("no depot there")
	ErrNewer   = errors.New("the depot was made by a newer symdepot")
)

// IsDamaged reports whether err says that the depot's index is damaged or was
// made by a newer program.
func IsDamaged(err error) bool {
	return errors.Is(err, index.ErrCorrupt) || errors.Is(err, index.ErrNewer)
}

// Options of Open. The zero value opens for reading and writing and makes the
// depot if it is not there.
type Options struct {
	// MustExist makes a missing depot an error instead of making one.
	MustExist bool
	// MakeCabinets lets Work make the cabinet of a PE, PDB or DBG file that
	// was asked for. Cabinets that are there are served in any case.
	MakeCabinets bool
	// Sources are asked for what the depot does not have, in order. They have
	// no product: a scope sees them that sees "". The caller closes them, after
	// the depot.
	Sources []*tree.Folder
	// Upstreams are asked for what neither the depot nor the Sources have;
	// what they send is kept. The caller closes them, after the depot.
	Upstreams []Upstream
	// Limits, Lifetimes and Cache are for the Upstreams.
	Limits    Limits
	Lifetimes Lifetimes
	Cache     CacheLimits
	// Jobs says how SymCache files are made, SymCache where else they are.
	Jobs     JobOptions
	SymCache SymCacheOptions
	// Group is the group of users that shares a new depot, by name: folders get
	// the mode 0770 and files 0660. Empty: a new depot is for its owner only,
	// 0700 and 0600. An existing depot keeps its modes.
	Group string
	// ScrubRate is how many bytes per second Work reads to check all stored
	// contents in the background; zero is 8 MiB, negative is not at all.
	ScrubRate int64
	// Log takes what happens in the background; nil discards it.
	Log *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Depot is an open depot. Its methods may be called by many goroutines, and
// several processes may have one depot open.
type Depot struct {
	dir   string
	log   *slog.Logger
	now   func() time.Time
	blobs *blob.Disk
	db    *index.DB
	watch *index.Watch // nil where the file system does not let us

	filter     *index.Filter  // of what is there; see absent
	stale      chan uint64    // states for which the filter is behind
	background sync.WaitGroup // what Close waits for
	closing    context.Context
	close      context.CancelFunc

	makeCabinets bool
	sources      []*tree.Folder
	fetch        *fetch.Fetcher
	sectionWait  time.Duration // see downloadSection
	cache        cache
	damage       damage
	scrub        scrub
	wanted       wanted
	forms        forms

	symcache *symcachework.Service
}

// SymCacheWork has SymCache files made and does jobs.
type SymCacheWork = symcachework.Service

// stamp is the content of depot.json.
type stamp struct {
	Format  int       `json:"format"`
	Created time.Time `json:"created"`
}

// Open opens the depot in dir. The format is checked before anything there is
// touched.
func Open(ctx context.Context, dir string, opt Options) (*Depot, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("depot %s: %w", dir, err)
	}
	if err := prepare(abs, opt); err != nil {
		return nil, err
	}
	d := &Depot{dir: abs, log: opt.Log, now: opt.Now, makeCabinets: opt.MakeCabinets, sources: opt.Sources}
	others, servers := symcachework.SplitUpstreams(opt.Upstreams)
	d.fetch = fetch.New(keeper{d}, fetch.Options{Upstreams: others, Limits: opt.Limits, Lifetimes: opt.Lifetimes, Log: opt.Log, Now: opt.Now})
	d.sectionWait = cmp.Or(opt.Limits.FirstByte, sectionWait)
	d.cache.limits = opt.Cache
	d.cache.space = func() (total, free int64, err error) { return durable.Space(abs) }
	d.damage.log, d.damage.now = opt.Log, opt.Now
	d.scrub.init(opt.ScrubRate)
	d.closing, d.close = context.WithCancel(context.WithoutCancel(ctx))
	d.stale = make(chan uint64, 1)
	d.forms.init()
	if d.blobs, err = blob.OpenDisk(filepath.Join(abs, "blobs")); err != nil {
		return nil, errors.Join(fmt.Errorf("depot %s: %w", abs, err))
	}
	if d.db, err = index.Open(ctx, filepath.Join(abs, "index.db"), index.Options{Now: opt.Now}); err != nil {
		return nil, errors.Join(fmt.Errorf("depot %s: %w", abs, err), d.blobs.Close())
	}
	d.symcache, err = symcachework.New(ctx, symcachework.Options{
		Depot: pdbs{d}, DB: d.db, Blobs: d.blobs, Fetch: d.fetch, Servers: servers, Jobs: opt.Jobs, Folders: opt.SymCache, Log: opt.Log, Now: opt.Now,
	})
	if err != nil {
		return nil, errors.Join(err, d.db.Close(), d.blobs.Close())
	}
	d.filter = d.db.NewFilter()
	if d.watch, err = d.db.Watch(); err != nil {
		d.log.Debug("changes are looked up, which is slower", "error", err)
	}
	d.background.Go(d.keepFilter)
	return d, nil
}

// prepare checks the stamp of an existing depot or writes that of a new one.
func prepare(dir string, opt Options) error {
	path := filepath.Join(dir, "depot.json")
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
		var s stamp
		if err := json.Unmarshal(b, &s); err != nil || s.Format < 1 {
			return fmt.Errorf("depot %s: depot.json is damaged; put {\"format\":%d} into it if you know that it is a depot of this version", dir, Format)
		}
		if s.Format > Format {
			return fmt.Errorf("depot %s has format %d, this program knows %d: %w; use that one", dir, s.Format, Format, ErrNewer)
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("depot %s: %w", dir, err)
	case opt.MustExist:
		return fmt.Errorf("%s: %w; `symdepot add` makes one", dir, ErrNoDepot)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("depot %s: %w", dir, err)
	}
	for _, e := range entries {
		// What a crash or a neighbour in the middle of the same may leave.
		if n := e.Name(); n != "blobs" && n != "index.db" && n != "index.db-wal" && n != "index.db-shm" && n[0] != '.' {
			return fmt.Errorf("%s holds other files (%s) and is no depot; name an empty or new folder", dir, n)
		}
	}
	if err := makeFolders(dir, opt.Group); err != nil {
		return fmt.Errorf("depot %s: %w", dir, err)
	}
	b, err = json.Marshal(stamp{Format: Format, Created: opt.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	if err := durable.WriteFile(path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("depot %s: %w", dir, err)
	}
	if err := shareFile(path, opt.Group); err != nil {
		return fmt.Errorf("depot %s: %w", dir, err)
	}
	return nil
}

// SymCache returns the part of the depot that has SymCache files made.
func (d *Depot) SymCache() *SymCacheWork { return d.symcache }

// Dir returns the depot's folder.
func (d *Depot) Dir() string { return d.dir }

// Close ends what is being made and closes the index. Files that were opened
// stay readable.
func (d *Depot) Close() error {
	d.forms.close()
	d.close()
	d.background.Wait()
	d.fetch.Close()
	d.symcache.Stop()
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := errors.Join(d.writeWanted(last), d.writeUses(last), d.db.Close(), d.blobs.Close(), d.symcache.Close())
	if d.watch != nil { // after the index, see there
		err = errors.Join(err, d.watch.Close())
	}
	return err
}

// Ready reports whether the depot can answer.
func (d *Depot) Ready(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(d.dir, "blobs")); err != nil {
		return err
	}
	_, err := d.db.Generation(ctx)
	return err
}

// Generation returns a number that changes whenever any process changes what
// the depot holds; it may change without that. Nobody tells us of changes in
// the sources: with these it changes every second. It takes about a microsecond.
func (d *Depot) Generation(ctx context.Context) (uint64, error) {
	n, err := d.generation(ctx)
	if len(d.sources) > 0 {
		n = n*0x9e3779b97f4a7c15 + uint64(d.now().Unix()) // spread, so that no two moments meet
	}
	return n, err
}

// IndexReads returns how many queries of the index this process has run.
func (d *Depot) IndexReads() uint64 { return d.db.Reads() }

func (d *Depot) generation(ctx context.Context) (uint64, error) {
	if d.watch != nil {
		if n, err := d.watch.State(); err == nil {
			return n, nil
		}
	}
	return d.db.Generation(ctx)
}

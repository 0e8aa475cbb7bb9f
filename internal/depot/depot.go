// Package depot stores symbol files and answers requests for them. It makes the parts of a
// depot, which are packages of their own below it, and gives each what it needs of the others;
// how a file comes in is decided here.
package depot

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/symdepot/symdepot/internal/depot/audience"
	"github.com/symdepot/symdepot/internal/depot/backup"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/dumps"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/lookup"
	"github.com/symdepot/symdepot/internal/depot/migrate"
	"github.com/symdepot/symdepot/internal/depot/nodes"
	"github.com/symdepot/symdepot/internal/depot/search"
	"github.com/symdepot/symdepot/internal/depot/sourcefiles"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/depot/why"
	"github.com/symdepot/symdepot/internal/derive/arrivals"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/symcachework"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/tokens"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

// Depot is an open depot. Its methods may be called by many goroutines, and
// several processes may have the same depot open.
type Depot struct {
	// Cache is the part that keeps downloaded files.
	Cache *cache.Cache
	// Missing counts the requests that found no file.
	Missing *catalog.Missing
	// Check checks the stored contents.
	Check *check.Checker
	// Nodes is what this server shares with others.
	Nodes *nodes.Nodes
	// Symbols makes symbol files and looks addresses up.
	Symbols *Symbols
	// Arrivals are the files that crashes lacked and builds have brought since.
	Arrivals *arrivals.Service
	// Sources finds source files.
	Sources *sourcefiles.Files
	// Dumps keeps crash dumps.
	Dumps *dumps.Dumps
	// Watched are the folders of builds and packages that are indexed in place. They are
	// searched after the depot, and before its downloaded files.
	Watched *inplace.Watched
	// InPlace are all files that are served where they lie: Watched, and the served trees.
	InPlace *inplace.Places
	// Retention decides which transactions are kept.
	Retention *lifecycle.Retention
	// Tracer explains how requests are answered.
	Tracer *why.Tracer
	// Tokens is the part that keeps access tokens, without their secrets.
	Tokens tokens.Tokens
	// Remote is what administrators do with the upstreams.
	Remote *Remote
	// Catalog shows people what the depot holds.
	Catalog *catalog.Catalog
	// Cold keeps contents as differences from similar ones.
	Cold *coldstore.Cold
	// Confirmed checks what was added before anybody is told that it is there.
	Confirmed *Confirmations

	home  *home.Home
	dir   string // the folder of the depot, or that of this machine
	log   *slog.Logger
	now   func() time.Time
	hooks Hooks
	blobs blob.Backend
	db    *index.DB

	contents *content.Contents
	commits  *commits
	filter   *lookup.Filter
	forms    *forms.Forms
	lookups  *lookup.Lookups
	links    srclink.Rules
	places   *search.Places
	door     *audience.Door
	fetch    *fetch.Fetcher
	queue    *jobs.Queue
	stages   *stage.Stages
	reads    *Reads
	symcache *symcachework.Service
	swept    time.Time // when old rows were deleted; owned by Work
}

// SymCacheWork answers requests for SymCache files.
type SymCacheWork = symcachework.Service

// Token is a stored access token.
type Token = tokens.TokenRow

// Collect frees contents that have had no references for longer than grace, and
// blobs of that age that were never committed. With dryRun it only counts.
func (d *Depot) Collect(ctx context.Context, grace time.Duration, dryRun bool) (lifecycle.Collected, error) {
	return d.Retention.Collect(ctx, lifecycle.CollectOptions{Grace: grace, DryRun: dryRun})
}

// Secret returns the random key of that name; see home.Home.Secret.
func (d *Depot) Secret(name string) ([]byte, error) { return d.home.Secret(name) }

// Fingerprint tells the depot from every other one, and says nothing else of it.
func (d *Depot) Fingerprint() string { return d.home.Fingerprint }

// Backup copies the depot into a folder; see backup.Take.
func (d *Depot) Backup(ctx context.Context, dir string, opt backup.Options) (backup.Result, error) {
	return backup.Take(ctx, backup.Source{Home: d.home, Store: d.Cold.Store(), Contents: d.contents}, dir, opt)
}

// Migrate copies everything of the depot to a new one; see migrate.Run.
func (d *Depot) Migrate(ctx context.Context, to *Depot, progress func(done, all int64)) (migrate.Result, error) {
	return migrate.Run(ctx, d.home, to.home, progress)
}

// Jobs returns the queue of background jobs.
func (d *Depot) Jobs() *jobs.Queue { return d.queue }

// Reads returns the part of the depot that records reads.
func (d *Depot) Reads() *Reads { return d.reads }

// SymCache returns the part of the depot that answers requests for SymCache files.
func (d *Depot) SymCache() *SymCacheWork { return d.symcache }

// Name returns the folder of the depot, or the address of its database without
// secrets.
func (d *Depot) Name() string { return d.home.Name }

// Close cancels the background work and closes the index. Files that were opened
// stay readable.
func (d *Depot) Close() error {
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	left := d.Nodes.Leave(last)
	d.forms.Close()
	d.filter.Stop()
	d.fetch.Close()
	d.symcache.Stop()
	d.contents.Close()
	return errors.Join(left, d.Missing.Store(last), d.Cache.StoreUses(last), d.reads.store(last), d.Cold.StoreReads(last),
		d.Symbols.Close(), d.db.Close(), d.blobs.Close(), d.symcache.Close(), d.filter.Close())
}

// Ready reports whether the depot can answer. If only the bucket of its contents
// does not answer, the error is ErrUnavailable: lookups work, and contents of the
// local cache are served.
func (d *Depot) Ready(ctx context.Context) error {
	if _, err := d.db.Generation(ctx); err != nil {
		return err
	}
	return d.blobs.Ready(ctx)
}

// Generation returns a number that changes whenever any process changes the
// contents of the depot; it may also change at other times. Changes in the Sources
// cannot be detected: with these it changes every second. It takes about a
// microsecond.
func (d *Depot) Generation(ctx context.Context) (uint64, error) {
	n, err := d.filter.Generation(ctx)
	if d.InPlace.Exist() {
		n = n*0x9e3779b97f4a7c15 + uint64(d.now().Unix()) // spread, so that no two moments collide
	}
	return n, err
}

// CountMissing counts a request that found no file; see Missing.
func (d *Depot) CountMissing(req *layout.Request, client string) { d.Missing.Count(req, client) }

// ClockOf returns the clock that all processes with a depot share.
func ClockOf(d *Depot) func() time.Time { return d.now }

// IndexReads returns how many queries of the index this process has run.
func (d *Depot) IndexReads() uint64 { return d.db.Reads() }

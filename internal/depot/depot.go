// Package depot stores symbol files and answers requests for them. It combines
// the stored contents, the index, the upstreams and the derived contents; all
// decisions about which file answers a request are made here.
package depot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/depot/backup"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/migrate"
	"github.com/symdepot/symdepot/internal/depot/sourcefiles"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/depot/why"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/derive/symcachework"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/tokens"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/layout"
)

// Options of Open. The zero value opens for reading and writing and makes the
// depot if it does not exist.
type Options struct {
	// MustExist makes a missing depot an error instead of making one.
	MustExist bool
	// MakeCabinets lets Work make the cabinet of a PE, PDB or DBG file after a
	// request for it. Cabinets that have been made are served in any case.
	MakeCabinets bool
	// Records are those of a symbol store that are answered about stored files.
	Records RecordOptions
	// Sources are the folders that are searched, in order, for files that the
	// depot does not have. They have no product: a scope with the product ""
	// includes them. The caller closes them, after the depot.
	Sources []*tree.Folder
	// Upstreams are asked for files that neither the depot nor the Sources have.
	// Downloaded files are cached. The caller closes them, after the depot.
	Upstreams []Upstream
	// Limits, Lifetimes and Cache are for the Upstreams.
	Limits    Limits
	Lifetimes Lifetimes
	Cache     CacheLimits
	// Jobs configures the leases of background jobs; its Log and Now are not used.
	Jobs JobOptions
	// Transcode configures how SymCache files are made, SymCache the folders that
	// hold them besides the depot.
	Transcode TranscodeOptions
	SymCache  SymCacheOptions
	// Symbols configures how Breakpad and GSYM files are made.
	Symbols SymbolsOptions
	// Dial connects to the server of a depot in a database; nil means a plain
	// connection.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Replicas are the URLs of standbys of the database that answer lookups.
	Replicas []string
	// Bucket keeps the contents of the depot; nil keeps them in its folder. An
	// existing depot must be opened with the same choice. The depot closes it.
	Bucket bucket.Bucket
	// Probe makes Open check that the store of the Bucket can keep contents: see
	// vault.Options. It takes six requests.
	Probe bool
	// Local is the folder of this machine for temporary files and for recently
	// used contents of a Bucket; LocalSize limits the latter, in bytes (zero:
	// 50 GiB). A depot in a folder has a default.
	Local     string
	LocalSize int64
	// Group is the group of users that shares a new depot, by name: folders get
	// the mode 0770 and files 0660. Empty: only the owner may use a new depot,
	// 0700 and 0600. An existing depot keeps its modes.
	Group string
	// ScrubRate is how many bytes per second Work reads to check all stored
	// contents in the background; zero is 8 MiB, negative disables the check.
	ScrubRate int64
	// Cold configures how contents become cold.
	Cold coldstore.ColdOptions
	// Tracer records lookups, downloads and jobs; nil records nothing.
	Tracer *span.Tracer
	// Log receives events of the background; nil discards them.
	Log *slog.Logger
	// Now is the clock; nil is the clock of the database, or time.Now for a depot in
	// a folder.
	Now func() time.Time
	// Stages limits unfinished pushes.
	Stages stage.Limits
	// Links are the rules for links to source files in PDBs that are added or pushed.
	Links srclink.Rules
	// Nodes connects this server with the others of a depot in a database.
	Nodes NodeOptions
	// Hooks are called at events of the background.
	Hooks Hooks
}

// Home returns those of the options that say where the depot is.
func (o *Options) Home() home.Options {
	return home.Options{
		MustExist: o.MustExist, Bucket: o.Bucket, Probe: o.Probe, Local: o.Local, LocalSize: o.LocalSize, Group: o.Group,
		Dial: o.Dial, Replicas: o.Replicas, Log: o.Log, Now: o.Now,
	}
}

// Hooks are functions for tests, which wait for events of a depot with them. nil
// is not called. They must not block.
type Hooks struct {
	// Refreshed is called when the filter of missing keys has been refreshed.
	Refreshed func()
	// Derived is called when Work has made a derived content, or has failed to.
	Derived func(Form)
}

// Depot is an open depot. Its methods may be called by many goroutines, and
// several processes may have the same depot open.
type Depot struct {
	// Cache is the part that keeps downloaded files.
	Cache *Cache
	// Missing counts the requests that found no file.
	Missing *catalog.Missing
	// Check checks the stored contents.
	Check *check.Checker
	// Nodes is what this server shares with others.
	Nodes *Nodes
	// Symbols makes symbol files and looks addresses up.
	Symbols *Symbols
	// Sources finds source files.
	Sources *sourcefiles.Files
	// Watched are the folders of builds and packages that are indexed in place. They are
	// searched after the depot, and before its downloaded files.
	Watched *Watched
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

	home *home.Home
	dir  string // the folder of the depot, or that of this machine
	log  *slog.Logger
	// tracer is nil if nothing is recorded.
	tracer *span.Tracer
	now    func() time.Time
	hooks  Hooks
	blobs  blob.Backend
	db     *index.DB

	contents     *content.Contents
	commits      *commits
	filter       *keyFilter
	forms        *forms
	records      records
	makeCabinets bool
	links        srclink.Rules
	trees        trees
	fetch        *fetch.Fetcher
	sectionWait  time.Duration // see downloadSection
	queue        *jobs.Queue
	stages       *stage.Stages
	reads        *Reads
	symcache     *symcachework.Service
	swept        time.Time // when old rows were deleted; owned by Work
}

// SymCacheWork answers requests for SymCache files.
type SymCacheWork = symcachework.Service

// Token is a stored access token.
type Token = tokens.TokenRow

// Open opens the depot in a folder or, if where is a URL that begins with
// postgres://, in a PostgreSQL database. It checks the format before it changes
// anything.
func Open(ctx context.Context, where string, opt Options) (*Depot, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	d := &Depot{log: opt.Log, tracer: opt.Tracer, makeCabinets: opt.MakeCabinets, links: opt.Links, hooks: opt.Hooks, trees: trees{opt.Sources, opt.Log}}
	d.records = records{d, opt.Records}
	h, err := home.Open(ctx, where, opt.Home())
	if err != nil {
		return nil, err
	}
	opt.Now = h.Now
	d.home, d.dir, d.db, d.now = h, h.Dir, h.DB, h.Now
	d.Cold = coldstore.NewCold(coldstore.Home{DB: d.db, Below: h.Blobs, Placed: h.Placed, Dir: d.dir, Local: h.Local}, opt.Cold, opt.Log, opt.Now)
	h.Blobs = d.Cold.Store()
	d.blobs = h.Blobs
	d.contents = content.New(d.blobs, h.Placed, d.db, opt.Log, opt.Now)
	d.Cache = &Cache{db: d.db, blobs: d.blobs, now: opt.Now, limits: opt.Cache, space: d.Cold.Disk}
	pages := catalog.NewPages(h.Secret, opt.Log)
	d.Missing = catalog.NewMissing(d.db, pages, opt.Now)
	d.Check = check.New(h, d.Cold, d.contents, opt.ScrubRate, opt.Log)
	d.Tokens, d.Remote = d.db.Tokens, &Remote{d}
	d.Retention = lifecycle.NewRetention(lifecycle.Home{
		DB: d.db, Blobs: d.blobs, Placed: h.Placed, Block: h.Block, Cold: d.Cold, Audit: d.Check.AuditDue,
	}, opt.Log, opt.Now)
	d.Catalog = catalog.New(d.db, d.Retention.Policy, pages, opt.Log)
	d.reads = &Reads{db: d.db}
	d.forms = &forms{dir: d.dir, db: d.db, blobs: d.blobs, contents: d.contents}
	d.forms.init()
	others, servers := symcachework.SplitUpstreams(opt.Upstreams)
	d.fetch = fetch.New(fetchDepot{d}, fetch.Options{Upstreams: others, Limits: opt.Limits, Lifetimes: opt.Lifetimes, Log: opt.Log, Tracer: opt.Tracer, Now: opt.Now,
		MissEpoch: func() (uint64, bool) { return d.Nodes.missEpoch() }})
	d.db.OnRewind(d.fetch.ForgetMemory)
	d.sectionWait = cmp.Or(opt.Limits.FirstByte, sectionWait)
	opt.Jobs.Log, opt.Jobs.Now, opt.Jobs.Tracer = opt.Log, opt.Now, opt.Tracer
	opt.Jobs.Duty = func(ctx context.Context, chore string, every time.Duration, run func(context.Context) error) error {
		return d.Nodes.do(ctx, chore, every, run)
	}
	opt.Jobs.Others = func() []jobs.Worker { return d.Nodes.workers() }
	d.queue = jobs.New(d.db.Jobs, opt.Jobs)
	d.symcache, err = symcachework.New(ctx, symcachework.Options{
		Depot: symcacheDepot{d}, DB: d.db, Blobs: d.blobs, Fetch: d.fetch, Queue: d.queue, Servers: servers, Make: opt.Transcode, Folders: opt.SymCache, Log: opt.Log, Now: opt.Now,
	})
	if err != nil {
		return nil, errors.Join(err, d.db.Close(), d.blobs.Close())
	}
	d.Watched = &Watched{dir: d.dir, others: newOtherServers(d), log: opt.Log}
	d.Sources = sourcefiles.New(sourcefiles.Parts{
		DB: d.db, Blobs: d.blobs, Contents: d.contents, OpenHit: d.openHit, Log: opt.Log,
	})
	d.Symbols = &Symbols{symbolicate.New(symbolicate.Parts{Depot: symbolsDepot{d}, DB: d.db, Blobs: d.blobs, Queue: d.queue, Log: opt.Log, Now: opt.Now, Scratch: d.dir}, opt.Symbols), d}
	d.filter = newKeyFilter(d.db, opt.Log, opt.Hooks.Refreshed)
	d.Confirmed = newConfirmations(d.db, d.blobs.Suspect, opt.Log)
	d.commits = &commits{db: d.db, blobs: d.blobs, contents: d.contents, cold: d.Cold, symbols: d.Symbols, confirmed: d.Confirmed}
	if err := openNodes(ctx, d, &opt); err != nil {
		return nil, errors.Join(fmt.Errorf("depot %s: %w", h.Name, err), d.Close())
	}
	d.Check.UseAccepted(d.stages.Audit)
	d.Tracer = why.New(why.Parts{
		DB: d.db, Fetch: d.fetch, Cold: d.Cold, Symbols: d.Symbols.SymbolsWork, SymCache: d.symcache,
		Open: d.open, OpenMade: d.Symbols.open, Get: d.Get, DownloadAnew: d.downloadAnew,
		Form: d.forms.made, Compresses: compresses, HasCabinets: hasCabinets, MakesCabinets: d.makeCabinets,
	})
	return d, nil
}

// Collect frees contents that have had no references for longer than grace, and
// blobs of that age that were never committed. With dryRun it only counts.
func (d *Depot) Collect(ctx context.Context, grace time.Duration, dryRun bool) (lifecycle.Collected, error) {
	return d.Retention.Collect(ctx, lifecycle.CollectOptions{Grace: grace, DryRun: dryRun})
}

// Secret returns the random key of that name; see home.Home.Secret.
func (d *Depot) Secret(name string) ([]byte, error) { return d.home.Secret(name) }

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
	left := d.Nodes.leave(last)
	d.forms.close()
	d.filter.stop()
	d.fetch.Close()
	d.symcache.Stop()
	d.contents.Close()
	return errors.Join(left, d.Missing.Store(last), d.Cache.storeUses(last), d.reads.store(last), d.Cold.StoreReads(last), d.Symbols.Close(), d.db.Close(), d.blobs.Close(), d.symcache.Close(), d.filter.close())
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
	n, err := d.filter.generation(ctx)
	if d.servesFolders() {
		n = n*0x9e3779b97f4a7c15 + uint64(d.now().Unix()) // spread, so that no two moments collide
	}
	return n, err
}

// onlyIndexed reports whether nothing but the index could answer a request by its keys.
func onlyIndexed(d *Depot, req *layout.Request) bool {
	return !d.servesFolders() && !d.Fetches() && !d.records.parses(*req)
}

// servesFolders reports whether there are folders that are not in the index.
func (d *Depot) servesFolders() bool { return len(d.trees.list) > 0 || d.Watched.exist() }

// CountMissing counts a request that found no file; see Missing.
func (d *Depot) CountMissing(req *layout.Request, client string) { d.Missing.Count(req, client) }

// ClockOf returns the clock that all processes with a depot share.
func ClockOf(d *Depot) func() time.Time { return d.now }

// IndexReads returns how many queries of the index this process has run.
func (d *Depot) IndexReads() uint64 { return d.db.Reads() }

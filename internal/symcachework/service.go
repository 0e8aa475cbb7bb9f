// Package symcachework answers requests for SymCache files: from those that are
// held, from other SymCache servers, and from those that transcoders and workers
// make in jobs. It knows the depot as a small interface.
package symcachework

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/fetch"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/layout"
)

// Depot is what this package needs of the depot. Not found is fs.ErrNotExist.
type Depot interface {
	// NotIndexed reports whether the index certainly has nothing that answers a
	// request.
	NotIndexed(ctx context.Context, req layout.Request) bool
	// Find returns the ranked rows that answer a request for a caller who sees
	// these products; nil is all.
	Find(ctx context.Context, products []string, req layout.Request) ([]index.Hit, error)
	// OpenHit opens the content of a row.
	OpenHit(ctx context.Context, h index.Hit) (File, error)
	// InTrees returns nil if one of the trees that are served in place has what is
	// asked for.
	InTrees(ctx context.Context, req layout.Request) error
	// Open opens what is asked for, from wherever it can be had; local leaves out
	// the upstreams.
	Open(ctx context.Context, req layout.Request, local bool) (File, error)
	// Download asks all upstreams, without regard to remembered misses.
	Download(ctx context.Context, req layout.Request) (File, error)
}

// File is an open file, which may still be arriving; see fetch.File.
type File interface {
	io.ReaderAt
	io.Closer
	// OSFile returns the file on disk if it is exactly that, else nil.
	OSFile() *os.File
	// Content returns the name of the file, its SHA-256 (zero if unknown) and its
	// size (-1 if unknown).
	Content() (name string, ref blob.Ref, size int64)
}

// Options of New.
type Options struct {
	Depot   Depot
	DB      *index.DB
	Blobs   *blob.Disk
	Fetch   *fetch.Fetcher
	Servers []fetch.Upstream // that speak the SymCache protocol
	Jobs    JobOptions
	Folders FolderOptions
	Log     *slog.Logger
	Now     func() time.Time
}

// Service answers requests and has files made. Its methods may be called by many
// goroutines.
type Service struct {
	depot Depot
	db    *index.DB
	blobs *blob.Disk
	fetch *fetch.Fetcher
	log   *slog.Logger
	now   func() time.Time

	jobs      jobs
	symcaches symCaches
	servers   servers

	life context.Context // of downloads
	end  context.CancelFunc
}

// New opens the SymCache folders. Close must be called.
func New(ctx context.Context, opt Options) (*Service, error) {
	svc := &Service{depot: opt.Depot, db: opt.DB, blobs: opt.Blobs, fetch: opt.Fetch, log: opt.Log, now: opt.Now}
	svc.servers.init(opt.Servers)
	svc.jobs.init(opt.Jobs)
	svc.life, svc.end = context.WithCancel(context.Background())
	return svc, svc.openFolders(ctx, opt.Folders)
}

// Stop ends what is being downloaded and waits for it.
func (svc *Service) Stop() {
	svc.servers.downloads.Close()
	svc.end()
	svc.servers.downloads.Wait()
}

// Close closes the folders.
func (svc *Service) Close() error {
	svc.Stop()
	return svc.symcaches.close()
}

// Wait waits until no SymCache file is being downloaded.
func (svc *Service) Wait() { svc.servers.downloads.Wait() }

// Servers are the SymCache servers that are asked.
func (svc *Service) Servers() []fetch.Upstream { return svc.servers.sources }

// Run does jobs and keeps the store within its limits until ctx ends.
func (svc *Service) Run(ctx context.Context) {
	var side sync.WaitGroup
	defer side.Wait()
	side.Go(func() { svc.keepFolders(ctx) })
	svc.workJobs(ctx)
}

// scopeOf is the scope of a caller who sees these products; nil is all.
func scopeOf(products []string) index.Scope {
	return index.Scope{Products: products, All: products == nil}
}

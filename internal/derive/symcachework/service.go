// Package symcachework answers requests for SymCache files: from the index and
// SymCache folders, from other SymCache servers, and from those that transcoders
// and workers make in jobs. It knows the depot as a small interface.
package symcachework

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/memo"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
)

// Depot is what this package needs of the depot. Not found is fs.ErrNotExist.
type Depot interface {
	// NotIndexed reports whether the index certainly has no answer to a request
	// in the given products (nil: all).
	NotIndexed(ctx context.Context, products []string, req layout.Request) bool
	// Find returns the ranked rows that answer a request for a caller who sees
	// these products; nil is all.
	Find(ctx context.Context, products []string, req layout.Request) ([]record.Hit, error)
	// OpenHit opens the content of a row.
	OpenHit(ctx context.Context, h record.Hit) (File, error)
	// InTrees returns nil if a file in place answers the request, of a watched folder or else of
	// a served tree. An error that is not fs.ErrNotExist says that there may be one: it cannot be
	// unpacked now, or a folder has failed.
	InTrees(ctx context.Context, req layout.Request) error
	// Open opens the file of a request; with local, no upstream is asked.
	Open(ctx context.Context, req layout.Request, local bool) (File, error)
	// DropCached evicts the cached files with an id and a content, but not those that
	// are being read, and not those that belong to a product. It reports whether there
	// were any.
	DropCached(ctx context.Context, id string, ref blob.Ref) (bool, error)
	// Download asks all upstreams, without regard to remembered misses.
	Download(ctx context.Context, req layout.Request) (File, error)
}

// File is an open file, which may still be downloading; see fetch.File.
type File interface {
	jobs.File
	// OSFile returns the file on disk if it has exactly this content, else nil.
	OSFile() *os.File
}

// MakeOptions configure how SymCache files are made. Zero values mean the
// defaults in brackets.
type MakeOptions struct {
	// Transcoders make SymCache files on this machine; nil: none.
	Transcoders *transcode.Transcoders
	// Slots is how many of them run at once [half of the processors, at least one].
	Slots int
	// NoUpgrades keeps SymCache files even if newer versions could be made.
	NoUpgrades bool
	// DropPDBs evicts a cached PDB when its SymCache files are made, or cannot be made.
	DropPDBs bool
	// UpgradeQueue is how many jobs may be queued before no more upgrades are
	// entered [100].
	UpgradeQueue int
	// NotFound is how long the failure "no PDB found" is remembered [1 h].
	NotFound time.Duration
	// MaxResult is the largest size of a SymCache file, in bytes [4 GiB].
	MaxResult int64
}

func (o MakeOptions) withDefaults() MakeOptions {
	o.Slots = cmp.Or(o.Slots, defaultSlots())
	o.UpgradeQueue = cmp.Or(o.UpgradeQueue, 100)
	o.NotFound = cmp.Or(o.NotFound, time.Hour)
	o.MaxResult = cmp.Or(o.MaxResult, 4<<30)
	return o
}

// Options of New.
type Options struct {
	Depot   Depot
	DB      *index.DB
	Blobs   blob.Backend
	Fetch   *fetch.Fetcher
	Queue   *jobs.Queue      // New registers its kind of job
	Servers []fetch.Upstream // that speak the SymCache protocol
	Make    MakeOptions
	Folders FolderOptions
	Log     *slog.Logger
	Now     func() time.Time
}

// Service answers requests and has files made. Its methods may be called by many
// goroutines.
type Service struct {
	depot Depot
	db    *index.DB
	blobs blob.Backend
	fetch *fetch.Fetcher
	queue *jobs.Queue
	make  MakeOptions
	log   *slog.Logger
	now   func() time.Time

	folders folders
	servers servers

	life context.Context // of downloads
	end  context.CancelFunc
}

// Servers returns the SymCache servers that are asked.
func (svc *Service) Servers() []fetch.Upstream { return svc.servers.sources }

// refreshEvery is how often the files of the transcoders are checked for changes.
const refreshEvery = 15 * time.Second

// scopeOf is the scope of a caller who sees these products; nil is all.
func scopeOf(products []string) record.Scope {
	return record.Scope{Products: products, All: products == nil}
}

// servers are the SymCache servers that are asked before anything is made here. All
// clients share one download, which runs in the background. The version that a
// server has is unknown before the answer. Answers are remembered, and further
// requests ask no server.
type servers struct {
	sources []fetch.Upstream
	// got are recent answers, by key and version.
	got *memo.Map[string, serverAnswer]

	downloads *fetch.Group[string, *serverDownload] // by downloadKey
	clients   fetch.Clients
}

type serverAnswer struct {
	version symcache.Version
	until   time.Time
}

// FolderOptions name the SymCache folders beside the depot itself. The zero value
// names none.
type FolderOptions struct {
	// Folders are SymCache folders that other programs fill. They are only read,
	// and visible to the scope that sees everything.
	Folders []string
	// Store is a SymCache folder that also gets each file that is made or
	// downloaded, so that clients can read it over SMB. It is read like Folders.
	Store string
	// StoreBytes and StoreUnused limit the Store; zero is no limit. The least
	// recently used files are deleted first, and only those that the depot has or
	// can make again.
	StoreBytes  int64
	StoreUnused time.Duration
}

// folders are the SymCache folders.
type folders struct {
	list   []*folder
	store  *folder // one of list, or nil
	limits FolderOptions

	mu      sync.Mutex
	touched map[string]time.Time // guarded by mu; files of the store
}

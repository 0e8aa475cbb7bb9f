package symbolicate

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Depot is the part of the depot that this package uses. Not found is fs.ErrNotExist.
type Depot interface {
	// NotIndexed reports whether the index certainly has no object with this id for
	// a caller who sees these products; nil is all.
	NotIndexed(ctx context.Context, products []string, id string) bool
	// Lookup returns the objects that match a lookup for such a caller, in no order.
	Lookup(ctx context.Context, products []string, l symfile.Lookup) ([]record.Hit, error)
	// Named returns objects of a kind with a folded name, at most limit, those first
	// that were added in a transaction with a number close to the given one.
	Named(ctx context.Context, products []string, name string, kind symfile.Kind, number int64, limit int) ([]record.Hit, error)
	// OpenHit opens the content of a row.
	OpenHit(ctx context.Context, h record.Hit) (File, error)
	// OpenContent opens a content that the index lists.
	OpenContent(ctx context.Context, c record.Content) (File, error)
	// InTrees opens a file in place, of a watched folder or else of a served tree, for a
	// caller who sees these products. An error that is not fs.ErrNotExist says that there may
	// be one: it cannot be unpacked now, or a folder has failed. A file with a content, its
	// public form, is opened by OpenHit later.
	InTrees(ctx context.Context, products []string, req layout.Request) (File, error)
	// Fetch has the file of a request downloaded from the upstreams, and returns when
	// the download has ended.
	Fetch(ctx context.Context, ask Ask, req layout.Request) error
}

// Making is the choice of the files of which symbol files are made.
type Making string

// The values of Making.
const (
	MakeNothing  Making = "off"
	MakeHeld     Making = "held"      // of files in the depot and in served trees
	MakeUpstream Making = "upstreams" // of files at upstreams too
)

// Options configure a Service. Zero values mean the defaults in brackets.
type Options struct {
	// Make is the choice of the files of which symbol files are made [MakeHeld].
	Make Making
	// Slots is how many symbol files this machine makes at once [2].
	Slots int
	// Queued is how many more may wait [64].
	Queued int
	// PerClient is the time for which this machine works for one client in
	// PerClientEvery [5 min in 10 min].
	PerClient, PerClientEvery time.Duration
	// InProcess is the size in bytes of the files of a module up to which the process
	// itself makes symbol files [2 GiB]. Larger ones need a worker.
	InProcess int64
	// Open is how many modules are kept open for lookups [64].
	Open int
}

func (o Options) withDefaults() Options {
	o.Make = cmp.Or(o.Make, MakeHeld)
	o.Slots = cmp.Or(o.Slots, 2)
	o.Queued = cmp.Or(o.Queued, 64)
	o.PerClient = cmp.Or(o.PerClient, 5*time.Minute)
	o.PerClientEvery = cmp.Or(o.PerClientEvery, 10*time.Minute)
	o.InProcess = cmp.Or(o.InProcess, 2<<30)
	o.Open = cmp.Or(o.Open, 64)
	return o
}

// Parts that New needs.
type Parts struct {
	Depot Depot
	DB    *index.DB
	Blobs blob.Backend
	Queue *jobs.Queue // New registers its kind of job
	Log   *slog.Logger
	Now   func() time.Time
	// Scratch is the folder for temporary files; empty is the system's.
	Scratch string
	// Generation returns a number that changes when what Depot finds may change. Nil: files are
	// looked for in each request.
	Generation func(context.Context) (uint64, error)
}

// Service makes symbol files and answers lookups. Its methods may be called by
// many goroutines.
type Service struct {
	Parts
	opt     Options
	clients *clientTimes
	modules *modules
	recent  *recentAnswers // of Depot
}

// With returns a service with the same jobs, limits and open modules that finds the files of
// modules elsewhere. It is not closed.
func (svc *Service) With(d Depot) *Service {
	other := *svc
	other.Depot, other.recent = d, nil
	return &other
}

// Close closes the open modules.
func (svc *Service) Close() error { return svc.modules.close() }

// Makes reports whether anything is made.
func (svc *Service) Makes() bool { return svc.opt.Make != MakeNothing }

// mostClients is for how many clients times are kept.
const mostClients = 10_000

package symbolicate

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/jobs"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Depot is the part of the depot that this package uses. Not found is fs.ErrNotExist.
type Depot interface {
	// NotIndexed reports whether the index certainly has no object with this id for
	// a caller who sees these products; nil is all.
	NotIndexed(ctx context.Context, products []string, id string) bool
	// Lookup returns the objects that match a lookup for such a caller, in no order.
	Lookup(ctx context.Context, products []string, l symfile.Lookup) ([]index.Hit, error)
	// Named returns objects of a kind with a folded name, at most limit, those first
	// that were added in a transaction with a number close to the given one.
	Named(ctx context.Context, products []string, name string, kind symfile.Kind, number int64, limit int) ([]index.Hit, error)
	// OpenHit opens the content of a row.
	OpenHit(ctx context.Context, h index.Hit) (File, error)
	// OpenContent opens a content that the index lists.
	OpenContent(ctx context.Context, c index.Content) (File, error)
	// InTrees opens a file of the trees that are served in place, for a caller who
	// sees these products.
	InTrees(ctx context.Context, products []string, req layout.Request) (File, error)
	// Fetch has the file of a request downloaded from the upstreams, and returns when
	// the download has ended.
	Fetch(ctx context.Context, ask Ask, req layout.Request) error
}

// File is an open file.
type File interface {
	jobs.File
	// Tag changes whenever the content does.
	Tag() string
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

// perClientJobs is how many symbol files one client can have made at once.
const perClientJobs = 16

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
}

// Service makes symbol files and answers lookups. Its methods may be called by
// many goroutines.
type Service struct {
	Parts
	opt     Options
	clients clientTimes
	modules modules
}

// New registers the kind of job. Close must be called.
func New(p Parts, opt Options) *Service {
	svc := &Service{Parts: p, opt: opt.withDefaults()}
	svc.clients = clientTimes{
		limit: svc.opt.PerClient, every: svc.opt.PerClientEvery, now: p.Now, of: map[string]clientTime{},
		jobs: map[string]clientJob{},
	}
	svc.modules.max = svc.opt.Open
	limits := jobs.Limits{Queued: svc.opt.Queued, PerClient: perClientJobs, Attempts: 3}
	if svc.opt.Make != MakeNothing {
		limits.Slots = svc.opt.Slots
	}
	svc.Queue.Register(kind{svc}, limits)
	return svc
}

// Close closes the open modules.
func (svc *Service) Close() error { return svc.modules.close() }

// Makes reports whether anything is made.
func (svc *Service) Makes() bool { return svc.opt.Make != MakeNothing }

// clientTimes is how long this machine has worked for each client lately.
type clientTimes struct {
	limit, every time.Duration
	now          func() time.Time

	mu   sync.Mutex
	of   map[string]clientTime // guarded by mu; by address
	jobs map[string]clientJob  // guarded by mu; who asked for a job that is not done, by its key
}

// clientJob says which client asked for a job, and when. It counts against that client
// until the job ends, and for clientTimes.every at most: a job that another process ends is
// not noticed here.
type clientJob struct {
	client string
	at     time.Time
}

// clientTime is the time spent for a client. It falls by limit/every each second.
type clientTime struct {
	spent time.Duration
	at    time.Time
}

// mostClients is for how many clients times are kept.
const mostClients = 10_000

func (c *clientTimes) left(t clientTime, now time.Time) time.Duration {
	gone := time.Duration(float64(now.Sub(t.at)) * float64(c.limit) / float64(c.every))
	return max(0, t.spent-gone)
}

// admit reports whether more work may be done for a client.
func (c *clientTimes) admit(client string) bool {
	if client == "" {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left(c.of[client], c.now()) < c.limit
}

// began records that a job is entered for a client, unless it was entered for one
// before. forget takes that back.
func (c *clientTimes) began(key, client string) (forget func()) {
	if client == "" {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if j, ok := c.jobs[key]; ok && now.Sub(j.at) < c.every {
		return func() {}
	}
	if len(c.jobs) >= mostClients {
		clear(c.jobs)
	}
	c.jobs[key] = clientJob{client, now}
	return func() { c.done(key) }
}

// charge charges the time that an attempt at a job took to its client.
func (c *clientTimes) charge(key string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j, ok := c.jobs[key]
	if !ok || took <= 0 {
		return
	}
	if len(c.of) >= mostClients {
		clear(c.of)
	}
	now := c.now()
	c.of[j.client] = clientTime{c.left(c.of[j.client], now) + took, now}
}

// done forgets the client of a job that is done.
func (c *clientTimes) done(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.jobs, key)
}

// concat is a list of files as one.
type concat struct {
	files []File
	size  int64
}

// newConcat joins files of known sizes. It closes them on Close.
func newConcat(files []File) (*concat, error) {
	c := &concat{files: files}
	for _, f := range files {
		_, _, n := f.Content()
		if n < 0 {
			return nil, errors.New("a file of unknown size")
		}
		c.size += n
	}
	return c, nil
}

// Content implements jobs.File.
func (c *concat) Content() (name string, ref blob.Ref, size int64) {
	if len(c.files) == 1 {
		return c.files[0].Content()
	}
	name, _, _ = c.files[0].Content()
	return name, blob.Ref{}, c.size
}

// ReadAt implements io.ReaderAt.
func (c *concat) ReadAt(p []byte, off int64) (n int, err error) {
	for _, f := range c.files {
		_, _, size := f.Content()
		if off >= size {
			off -= size
			continue
		}
		want := p[n:]
		if int64(len(want)) > size-off {
			want = want[:size-off]
		}
		m, err := f.ReadAt(want, off)
		n += m
		if m < len(want) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return n, err
		}
		if n == len(p) {
			return n, nil
		}
		off = 0
	}
	return n, io.EOF
}

// Close implements io.Closer.
func (c *concat) Close() error { return closeAll(c.files) }

func closeAll(files []File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Package fetch downloads files from upstreams, once for all clients that wait
// for the same file. A download runs through stages with one input and one
// output each: plan (select the upstreams), ask, spool (copy the body to disk
// while clients read it), check (is it the requested file), keep, finish.
//
// The package does not depend on package depot: the interface Depot declares
// what it needs.
package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/span"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Depot declares what downloads need of a depot.
type Depot interface {
	// Holds reports whether the depot itself can answer a request for a caller
	// whose scope is these products; nil means all.
	Holds(ctx context.Context, products []string, req layout.Request) bool
	// Checksum returns the value of the header SymbolChecksum for the portable PDB
	// that a request asks for, from an image that a caller with this scope may read;
	// empty if there is none.
	Checksum(ctx context.Context, products []string, req layout.Request) string
	// Spool begins a content that can be read while it is being written.
	Spool() (*blob.Spool, error)
	// Keep adds a downloaded file to the index. Its content has been stored.
	Keep(ctx context.Context, f Kept) error
	// Misses returns the stored misses of a key by upstream. PutMisses stores
	// misses. ForgetMiss deletes the miss of one upstream.
	Misses(ctx context.Context, key string) (map[string]Miss, error)
	PutMisses(ctx context.Context, key string, misses map[string]Miss) error
	ForgetMiss(ctx context.Context, key, name string) error
}

// Kept describes a downloaded file for Depot.Keep.
type Kept struct {
	Upstream string // the upstream's name
	Product  string // the upstream's product
	Name     string // the file's name, as the upstream spells it
	URL      string // the file's address, without secrets
	Tag      string // the upstream's entity tag
	Ref      blob.Ref
	Size     int64
	ModTime  time.Time // the upstream's; zero if unknown
	Fetched  time.Time
	// Signature is the IMA signature of the content in hex, or empty.
	Signature string
	Objects   []Object // if empty, no lookup finds the file
}

// Object is one object of a downloaded file.
type Object struct {
	objfile.Object
	Aliases []symfile.Alias
	Path    string // the path that listings show
}

// Upstream is a Source with its place in the order of upstreams and its product.
type Upstream struct {
	Source Source
	// Rank orders the upstreams. Those with the same rank are asked at the same
	// time; the next rank follows when all of them have answered or after
	// Limits.NextRank.
	Rank int
	// Product is the product of the files from this upstream, for the scope of
	// callers. A caller whose scope is everything sees them in any case.
	Product string
}

// Question is the request of a client.
type Question struct {
	Products []string // the client's scope; nil means everything
	Request  layout.Request
	Checksum string   // the value of a SymbolChecksum header, or empty
	Via      []string // servers that the request has passed, this one last
	Origin   Origin
	// Client is the client's address, by which Limits.PerClient counts
	// downloads. An empty one is not counted.
	Client string
	// Span is where the download belongs in a trace: that of the client that starts it.
	Span span.Parent
}

// sees reports whether the client's scope includes a product.
func (q Question) sees(product string) bool {
	return q.Products == nil || slices.Contains(q.Products, product)
}

// Limits of downloads. The durations limit the lack of progress, not the
// duration of a whole download.
type Limits struct {
	// NextRank is the time until the upstreams of the next rank are asked too;
	// zero means 300 ms.
	NextRank time.Duration
	// FirstByte is how long an upstream may stay below MinRate before clients
	// receive the first bytes; zero means 3 s.
	FirstByte time.Duration
	// Stall is how long a transfer may stay below MinRate after that; zero means
	// 10 s.
	Stall time.Duration
	// MinRate is the lowest rate, in bytes per second; zero means 16 KiB.
	MinRate int64
	// MaxBytes is the largest file, in bytes; zero means 16 GiB.
	MaxBytes int64
	// Fetches is the number of concurrent downloads; zero means 64.
	Fetches int
	// PerClient is the number of downloads, running and queued, that one client
	// may have started; zero means 1024.
	PerClient int
}

func (l Limits) withDefaults() Limits {
	l.NextRank = cmp.Or(l.NextRank, 300*time.Millisecond)
	l.FirstByte = cmp.Or(l.FirstByte, 3*time.Second)
	l.Stall = cmp.Or(l.Stall, 10*time.Second)
	l.MinRate = cmp.Or(l.MinRate, 16<<10)
	l.MaxBytes = cmp.Or(l.MaxBytes, 16<<30)
	l.Fetches = cmp.Or(l.Fetches, 64)
	l.PerClient = cmp.Or(l.PerClient, mostDownloads/8)
	return l
}

const (
	queueTime     = 20 * time.Second // the longest wait of a download for the semaphore
	mostDownloads = 8192             // running and queued downloads
	refreshers    = 8                // concurrent renewals of misses
)

// Options of New.
type Options struct {
	// Upstreams are asked in the order of their ranks.
	Upstreams []Upstream
	Limits    Limits
	Lifetimes Lifetimes
	Log       *slog.Logger
	// MissEpoch, if not nil, returns a number that rises when any process deletes
	// stored misses. Until then memory holds them. While ok is false, and without
	// MissEpoch, the stored misses are read again every two seconds.
	MissEpoch func() (epoch uint64, ok bool)
	// Tracer records downloads; nil records nothing.
	Tracer *span.Tracer
	// Now is the clock of the negative cache. Timers measure the duration of
	// transfers.
	Now func() time.Time
}

// Fetcher downloads files that a depot does not have. Its methods may be called
// by several goroutines.
type Fetcher struct {
	depot     Depot
	upstreams []Upstream
	limits    Limits
	log       *slog.Logger
	tracer    *span.Tracer
	now       func() time.Time
	misses    *negative

	searches   chan struct{} // semaphore of metadata searches
	running    chan struct{} // semaphore of running downloads
	forwarding chan struct{} // semaphore of downloads from peers, which wait for those of the peers
	refreshing chan struct{} // semaphore of renewals of misses
	downloads  *Group[string, *download]
	clients    Clients
	failures   complaints
	checksums  bool // some upstream is asked only with a checksum
	peers      Peers
	kinds      map[string]func(context.Context, []byte) ([]byte, error) // see Serve

	life context.Context // the context of all downloads
	end  context.CancelFunc
}

// New returns a fetcher for a depot. It must be closed.
func New(d Depot, opt Options) *Fetcher {
	limits := opt.Limits.withDefaults()
	list := slices.Clone(opt.Upstreams)
	slices.SortStableFunc(list, func(a, b Upstream) int { return cmp.Compare(a.Rank, b.Rank) })
	f := &Fetcher{
		depot: d, upstreams: list, limits: limits, log: opt.Log, tracer: opt.Tracer, now: opt.Now, misses: newNegative(d, opt.Lifetimes, opt.Now, opt.MissEpoch),
		searches: make(chan struct{}, metadataSearches), running: make(chan struct{}, limits.Fetches), forwarding: make(chan struct{}, 4*limits.Fetches), refreshing: make(chan struct{}, refreshers),
		downloads: NewGroup[string, *download](mostDownloads),
		checksums: slices.ContainsFunc(list, func(u Upstream) bool { return u.Source.Traits().NeedsChecksum }),
	}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

// Close ends all downloads and waits for them.
func (f *Fetcher) Close() {
	f.downloads.Close()
	f.end()
	f.downloads.Wait()
}

// Wait waits until no download runs.
func (f *Fetcher) Wait() { f.downloads.Wait() }

// Enabled reports whether there are upstreams.
func (f *Fetcher) Enabled() bool { return len(f.upstreams) > 0 }

// Lifetimes returns the lifetimes of remembered misses.
func (f *Fetcher) Lifetimes() Lifetimes { return f.misses.lives }

// Statuses returns the counters of the upstreams, and of those in more, that
// have counters.
func (f *Fetcher) Statuses(more ...Upstream) []Status {
	var list []Status
	for _, u := range slices.Concat(f.upstreams, more) {
		if status := u.Source.Traits().Status; status != nil {
			list = append(list, status())
		}
	}
	return list
}

// find returns an upstream by its name; an unknown one is fs.ErrNotExist.
func (f *Fetcher) find(name string, more []Upstream) (Source, error) {
	for _, u := range slices.Concat(f.upstreams, more) {
		if u.Source.Name() == name {
			return u.Source, nil
		}
	}
	return nil, fmt.Errorf("upstream %q: %w", name, fs.ErrNotExist)
}

// Reset closes the circuit breaker of an upstream.
func (f *Fetcher) Reset(name string, more ...Upstream) error {
	s, err := f.find(name, more)
	if err != nil {
		return err
	}
	if reset := s.Traits().Reset; reset != nil {
		reset()
	}
	return nil
}

// probePath is the path of a file that nobody has.
var probePath = []string{"symdepot-probe.pdb", "000000000000000000000000000000001", "symdepot-probe.pdb"}

// Probe asks an upstream for a file that nobody has, also while its circuit breaker is
// open. It returns nil if the upstream answered; then the breaker is closed. Otherwise it
// stays as it was.
func (f *Fetcher) Probe(ctx context.Context, name string, more ...Upstream) error {
	s, err := f.find(name, more)
	if err != nil {
		return err
	}
	req, err := layout.Route(probePath)
	if err != nil {
		return err
	}
	undo := func() {}
	if reset := s.Traits().Reset; reset != nil {
		undo = reset()
	}
	r, err := s.Fetch(ctx, Ask{Request: req, Probe: true})
	if err == nil {
		return r.Body.Close()
	}
	if failure, ok := errors.AsType[*Failure](err); ok && (failure.Class == ClassNotFound || failure.Class == ClassSkipped) {
		return nil
	}
	undo()
	return err
}

// Open returns the file that answers a question. It waits for the first bytes.
// The error is fs.ErrNotExist if no upstream has the file, and ErrInDepot if the
// depot has it now.
func (f *Fetcher) Open(ctx context.Context, q Question) (*File, error) {
	q = f.asked(ctx, q)
	d, err := f.join(ctx, q)
	if err != nil {
		return nil, err
	}
	return d.open(ctx, f.coalesceKey(q, d.upstreams) == d.slot)
}

// OpenAnew is like Open but ignores remembered misses and asks all upstreams.
func (f *Fetcher) OpenAnew(ctx context.Context, q Question) (*File, error) {
	q = f.withChecksum(ctx, q)
	p := f.permitted(q)
	slot := f.coalesceKey(q, p)
	d, ok := f.start(missKey(q.Request), slot, p, q, anew)
	if !ok {
		return nil, notFound([]error{errManyDownloads})
	}
	return d.open(ctx, slot == d.slot)
}

// Start starts or joins a download and returns a channel that is closed when it
// ends. The error is fs.ErrNotExist if no upstream has the file.
func (f *Fetcher) Start(ctx context.Context, q Question) (<-chan struct{}, error) {
	d, err := f.join(ctx, f.asked(ctx, q))
	if err != nil {
		return nil, err
	}
	return d.ended, nil
}

// Remembered returns the stored misses of the upstreams that are permitted for a
// question, by upstream name, without expired ones.
func (f *Fetcher) Remembered(ctx context.Context, q Question) (map[string]Miss, error) {
	known, err := f.misses.depot.Misses(ctx, missKey(q.Request))
	if err != nil {
		return nil, err
	}
	now, list := f.misses.now(), map[string]Miss{}
	for _, u := range f.permitted(q) {
		if m, ok := known[u.Source.Name()]; ok && now.Before(m.Until) {
			list[u.Source.Name()] = m
		}
	}
	return list, nil
}

// ForgetMemory empties the negative cache in memory. The stored misses stay.
func (f *Fetcher) ForgetMemory() { f.misses.keys.InvalidateAll() }

// Reasons returns the classes of the failures that caused an error of Open, and
// the classes of the remembered misses.
func (f *Fetcher) Reasons(ctx context.Context, q Question, err error) (classes []Class) {
	if n, ok := errors.AsType[*notFoundError](err); ok {
		for _, w := range n.why {
			classes = append(classes, ClassOf(w))
		}
	} else if IsFailure(err) {
		classes = append(classes, ClassOf(err))
	}
	if known, err := f.depot.Misses(ctx, missKey(q.Request)); err == nil {
		now := f.now()
		for _, m := range known {
			if now.Before(m.Until) {
				classes = append(classes, m.Class)
			}
		}
	}
	return classes
}

// Errors of downloads.
var (
	// ErrInDepot means that the depot has the file now.
	ErrInDepot = errors.New("the depot has the file now")

	errManyDownloads = errors.New("too many downloads are running, in all or for this client, or the depot is closing")
	errClosing       = fmt.Errorf("the depot is closing: %w", fs.ErrClosed)
	errSlow          = errors.New("the transfer is slower than the limit")
	errLength        = errors.New("the body is longer or shorter than its Content-Length")
	errDisk          = errors.New("cannot write the download to disk")
	errWrongFile     = errors.New("the upstream sent a different file than requested")
	errTooLarge      = errors.New("the file is larger than the limit")
)

// IsFailure reports whether an upstream caused an error.
func IsFailure(err error) bool {
	_, ok := errors.AsType[*Failure](err)
	return ok
}

// notFound returns the error for clients when no upstream has the file.
func notFound(why []error) error {
	if len(why) == 0 {
		return fs.ErrNotExist
	}
	return &notFoundError{why}
}

// notFoundError is fs.ErrNotExist with the upstreams' failures.
type notFoundError struct{ why []error }

func (e *notFoundError) Error() string        { return errors.Join(e.why...).Error() }
func (e *notFoundError) Is(target error) bool { return target == fs.ErrNotExist }

var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

const copyBuffer = 128 << 10

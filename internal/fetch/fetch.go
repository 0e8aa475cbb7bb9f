// Package fetch downloads files from upstreams, once for all clients that wait
// for the same file. A download runs through stages with one input and one output
// each: plan (which upstreams are worth asking), ask, spool (copy the body to
// disk while clients read it), check (is it the file asked for), keep, tell.
//
// The package knows no depot: what it needs of one is the interface Depot.
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
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Depot is what downloads need of a depot.
type Depot interface {
	// Holds reports whether the depot can answer a request itself to a caller who
	// sees these products; nil is all.
	Holds(ctx context.Context, products []string, req layout.Request) bool
	// Spool begins a content that can be read while it is written.
	Spool() (*blob.Spool, error)
	// Keep makes a downloaded file, whose content has been stored, findable.
	Keep(ctx context.Context, f Kept) error
	// Misses returns the stored misses of a key by upstream, PutMisses stores
	// some, ForgetMiss deletes that of one upstream.
	Misses(ctx context.Context, key string) (map[string]Miss, error)
	PutMisses(ctx context.Context, key string, misses map[string]Miss) error
	ForgetMiss(ctx context.Context, key, name string) error
}

// Kept describes a downloaded file for Depot.Keep.
type Kept struct {
	Upstream string // its name
	Product  string // its product
	Name     string // of the file, as the upstream spells it
	URL      string // where the file was found, without secrets
	Tag      string // the upstream's entity tag
	Ref      blob.Ref
	Size     int64
	ModTime  time.Time // the upstream's; zero if unknown
	Fetched  time.Time
	Objects  []Object // none: nobody could find it
}

// Object is one object of a downloaded file.
type Object struct {
	objfile.Object
	Aliases []symfile.Alias
	Path    string // under which it is listed
}

// Upstream is a source that files are downloaded from, to be kept.
type Upstream struct {
	Source Source
	// Rank orders the upstreams: those of one rank are asked at once, the next
	// rank when all have answered or a short while has passed.
	Rank int
	// Product is the product under which what comes from there is seen; callers
	// who see everything see it in any case.
	Product string
}

// Question is what a client asks for.
type Question struct {
	Products []string // that the client may see; nil is all
	Request  layout.Request
	Checksum string   // the value of a SymbolChecksum header, or empty
	Via      []string // servers that the request has passed, this one last
	Origin   Origin
}

// sees reports whether the client may see what has a product.
func (q Question) sees(product string) bool {
	return q.Products == nil || slices.Contains(q.Products, product)
}

// Limits of downloads. The durations are about progress: a file may take as long
// as it keeps coming.
type Limits struct {
	// NextRank is how long the upstreams of a rank have before the next rank is
	// asked too; zero is 300 ms.
	NextRank time.Duration
	// FirstByte is how long an upstream may stay below MinRate until its first
	// bytes; zero is 3 s.
	FirstByte time.Duration
	// Stall is how long a transfer may stay below MinRate; zero is 10 s.
	Stall time.Duration
	// MinRate is in bytes per second; zero is 16 KiB.
	MinRate int64
	// MaxBytes is the most that a file may have; zero is 16 GiB.
	MaxBytes int64
	// Fetches is how many downloads may be under way at once; zero is 64.
	Fetches int
}

func (l Limits) withDefaults() Limits {
	l.NextRank = cmp.Or(l.NextRank, 300*time.Millisecond)
	l.FirstByte = cmp.Or(l.FirstByte, 3*time.Second)
	l.Stall = cmp.Or(l.Stall, 10*time.Second)
	l.MinRate = cmp.Or(l.MinRate, 16<<10)
	l.MaxBytes = cmp.Or(l.MaxBytes, 16<<30)
	l.Fetches = cmp.Or(l.Fetches, 64)
	return l
}

const (
	queueTime     = 20 * time.Second // a download waits for a place
	mostDownloads = 8192             // at once, those that wait for a place included
	refreshers    = 8                // misses that are looked at again at once
)

// Options of New.
type Options struct {
	// Upstreams are asked in the order of their ranks.
	Upstreams []Upstream
	Limits    Limits
	Lifetimes Lifetimes
	Log       *slog.Logger
	// Now is the clock of what is remembered. How long a transfer takes is
	// measured with timers.
	Now func() time.Time
}

// Fetcher downloads what a depot does not have. Its methods may be called by
// many goroutines.
type Fetcher struct {
	depot     Depot
	upstreams []Upstream
	limits    Limits
	log       *slog.Logger
	now       func() time.Time
	misses    *negative

	searches   chan struct{} // semaphore of metadata searches
	places     chan struct{} // semaphore of the downloads under way
	refreshing chan struct{} // semaphore of those that look at a miss again
	downloads  *Group[string, *download]
	checksums  bool // an upstream answers only questions with a checksum

	life context.Context // of downloads
	end  context.CancelFunc
}

// New returns a fetcher for a depot. Close must be called.
func New(d Depot, opt Options) *Fetcher {
	limits := opt.Limits.withDefaults()
	list := slices.Clone(opt.Upstreams)
	slices.SortStableFunc(list, func(a, b Upstream) int { return cmp.Compare(a.Rank, b.Rank) })
	f := &Fetcher{
		depot: d, upstreams: list, limits: limits, log: opt.Log, now: opt.Now, misses: newNegative(d, opt.Lifetimes, opt.Now),
		searches: make(chan struct{}, metadataSearches), places: make(chan struct{}, limits.Fetches), refreshing: make(chan struct{}, refreshers),
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

// Wait waits until no download is under way.
func (f *Fetcher) Wait() { f.downloads.Wait() }

// Enabled reports whether there is an upstream.
func (f *Fetcher) Enabled() bool { return len(f.upstreams) > 0 }

// Lifetimes are those of the misses.
func (f *Fetcher) Lifetimes() Lifetimes { return f.misses.lives }

// Statuses returns the counters of the upstreams that have some, and of more.
func (f *Fetcher) Statuses(more ...Upstream) []Status {
	var list []Status
	for _, u := range slices.Concat(f.upstreams, more) {
		if status := u.Source.Traits().Status; status != nil {
			list = append(list, status())
		}
	}
	return list
}

// Open returns the file that answers a question. It waits until the first bytes
// have arrived. fs.ErrNotExist says that no upstream has it, ErrHeld that the
// depot has it by now.
func (f *Fetcher) Open(ctx context.Context, q Question) (*File, error) {
	d, err := f.join(ctx, q)
	if err != nil {
		return nil, err
	}
	return d.open(ctx, f.coalesceKey(q, d.upstreams) == d.slot)
}

// OpenAnew is Open without regard to remembered misses: all upstreams are asked.
func (f *Fetcher) OpenAnew(ctx context.Context, q Question) (*File, error) {
	p := f.permitted(q)
	slot := f.coalesceKey(q, p)
	d, ok := f.start(missKey(q.Request), slot, p, q, true)
	if !ok {
		return nil, notFound([]error{errManyDownloads})
	}
	return d.open(ctx, slot == d.slot)
}

// Start begins a download, or joins one, and returns a channel that is closed
// when it has ended. fs.ErrNotExist says that no upstream has the file.
func (f *Fetcher) Start(ctx context.Context, q Question) (<-chan struct{}, error) {
	d, err := f.join(ctx, q)
	if err != nil {
		return nil, err
	}
	return d.ended, nil
}

// Missed reports whether memory alone says that no upstream has what is asked
// for. It takes a microsecond; false means that Open can tell.
func (f *Fetcher) Missed(q Question) bool {
	if f.checksums || q.Request.Form != layout.FormFile && q.Request.Form != layout.FormCabinet {
		return false
	}
	return f.misses.quick(f.coalesceKey(q, f.permitted(q)))
}

// Remembered returns the stored misses of the upstreams that may be asked for a
// question, by their names, without those that have expired.
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

// ForgetMemory empties the negative cache in memory; the stored misses stay.
func (f *Fetcher) ForgetMemory() { f.misses.keys.InvalidateAll() }

// Reasons returns the classes of the failures that an error of Open stands for,
// and of those that are remembered of the question.
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
	// ErrHeld is returned when the depot has the file by now.
	ErrHeld = errors.New("the depot has the file now")

	errManyDownloads = errors.New("too many downloads are under way, or the depot is closing")
	errClosing       = fmt.Errorf("the depot is closing: %w", fs.ErrClosed)
	errSlow          = errors.New("the transfer is slower than the limit")
	errLength        = errors.New("the body is longer or shorter than its Content-Length")
	errDisk          = errors.New("cannot write the download to disk")
	errWrongFile     = errors.New("the upstream sent a different file than the one asked for")
	errTooLarge      = errors.New("the file is larger than the limit")
)

// IsFailure reports whether an error is the fault of an upstream, not ours.
func IsFailure(err error) bool {
	_, ok := errors.AsType[*Failure](err)
	return ok
}

// notFound is the error for clients when no upstream has the file.
func notFound(why []error) error {
	if len(why) == 0 {
		return fs.ErrNotExist
	}
	return &notFoundError{why}
}

// notFoundError is fs.ErrNotExist with the reasons of the upstreams.
type notFoundError struct{ why []error }

func (e *notFoundError) Error() string        { return errors.Join(e.why...).Error() }
func (e *notFoundError) Is(target error) bool { return target == fs.ErrNotExist }

var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

const copyBuffer = 128 << 10

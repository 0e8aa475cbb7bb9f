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
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/layout"
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
	sorting.Stable(list, func(a, b Upstream) int { return cmp.Compare(a.Rank, b.Rank) })
	f := &Fetcher{
		depot: d, upstreams: list, limits: limits, log: opt.Log, tracer: opt.Tracer, now: opt.Now,
		misses:   newNegative(d, opt.Lifetimes, opt.Now, opt.MissEpoch),
		searches: make(chan struct{}, metadataSearches), running: make(chan struct{}, limits.Fetches),
		forwarding: make(chan struct{}, 4*limits.Fetches), refreshing: make(chan struct{}, refreshers),
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

// ForgetMemory empties the negative cache in memory. The stored misses stay.
func (f *Fetcher) ForgetMemory() { f.misses.keys.Clear() }

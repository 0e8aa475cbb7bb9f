package depot

import (
	"context"

	"github.com/symdepot/symdepot/internal/derive/symcachework"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/remote/fetch"
)

// Remote is what administrators do with the upstreams of a depot. Its methods may be
// called by many goroutines.
type Remote struct {
	db       *index.DB
	fetch    *fetch.Fetcher
	symcache *symcachework.Service
}

// Upstreams returns the states and counters of the upstreams that have some.
func (r *Remote) Upstreams() []UpstreamStatus { return r.fetch.Statuses(r.symcache.Servers()...) }

// ResetUpstream closes the circuit breaker of an upstream, so that the next request is
// sent. An unknown name is fs.ErrNotExist.
func (r *Remote) ResetUpstream(name string) error {
	return r.fetch.Reset(name, r.symcache.Servers()...)
}

// ProbeUpstream closes the circuit breaker of an upstream and asks it for a file that
// nobody has. It returns nil if the upstream answered; an unknown name is fs.ErrNotExist.
func (r *Remote) ProbeUpstream(ctx context.Context, name string) error {
	return r.fetch.Probe(ctx, name, r.symcache.Servers()...)
}

// FlushMisses forgets remembered misses of the upstreams and returns their number.
// Other processes that have the depot open notice it when the misses in their memory
// expire, or at once by a request over HTTP.
func (r *Remote) FlushMisses(ctx context.Context, f MissFilter) (int64, error) {
	r.fetch.ForgetMemory()
	return r.db.Misses.Flush(ctx, f)
}

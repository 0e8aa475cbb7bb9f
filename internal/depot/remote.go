package depot

import "context"

// Remote is what administrators do with the upstreams of a depot. Its methods may be
// called by many goroutines.
type Remote struct{ d *Depot }

// Upstreams returns the states and counters of the upstreams.
func (r *Remote) Upstreams() []UpstreamStatus { return r.d.Upstreams() }

// ResetUpstream closes the circuit breaker of an upstream, so that the next request is
// sent. An unknown name is fs.ErrNotExist.
func (r *Remote) ResetUpstream(name string) error {
	return r.d.fetch.Reset(name, r.d.symcache.Servers()...)
}

// ProbeUpstream closes the circuit breaker of an upstream and asks it for a file that
// nobody has. It returns nil if the upstream answered; an unknown name is fs.ErrNotExist.
func (r *Remote) ProbeUpstream(ctx context.Context, name string) error {
	return r.d.fetch.Probe(ctx, name, r.d.symcache.Servers()...)
}

// FlushMisses forgets remembered misses of the upstreams and returns their number.
// Other processes that have the depot open notice it when the misses in their memory
// expire, or at once by a request over HTTP.
func (r *Remote) FlushMisses(ctx context.Context, f MissFilter) (int64, error) {
	r.d.fetch.ForgetMemory()
	return r.d.db.Misses.Flush(ctx, f)
}

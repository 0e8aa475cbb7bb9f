package fetch

import (
	"context"
	"time"

	"github.com/symdepot/symdepot/layout"
)

// download is one transfer from an upstream, shared by all clients with the same
// coalesceKey. One goroutine runs it, and continues when the clients give up.
type download struct {
	*growing
	key       string     // missKey of the request
	slot      string     // coalesceKey of the client that started it
	at        string     // its key in the group: slot or, for a download from a peer, forwardKey
	alias     string     // second coalesceKey, once the debug id is known; used by run only
	q         Question   // of the client that started it
	upstreams []Upstream // permitted ones
	mode      mode

	want layout.Request // the request that the file must answer; used by run only
}

// mode is how a download regards remembered misses.
type mode uint8

const (
	normal  mode = iota
	renewal      // ask again about a miss that expires soon
	anew         // ignore all
)

// plan is the result of the first stage: the upstreams worth asking. It is
// updated while they are asked.
type plan struct {
	left  []Upstream
	known map[string]Miss // remembered misses by upstream
	why   []error         // failures so far
}

// note records an upstream's failure.
func (p *plan) note(n *negative, name string, err error) {
	p.why = append(p.why, err)
	if m, ok := n.missOf(err); ok {
		p.known[name] = m
	} else {
		delete(p.known, name)
	}
}

func (f *Fetcher) remember(ctx context.Context, d *download, p *plan) {
	if err := f.misses.remember(ctx, d.key, d.slot, d.upstreams, p.known, false); err != nil && ctx.Err() == nil {
		f.log.Warn("cannot store misses", "error", err)
	}
}

// plan selects the upstreams to ask.
func (f *Fetcher) plan(ctx context.Context, d *download) (*plan, error) {
	p := &plan{known: map[string]Miss{}}
	if d.mode == normal {
		if f.depot.Holds(ctx, d.q.Products, d.q.Request) {
			return nil, ErrInDepot // added since the client looked
		}
		if m, ok := f.misses.lookup(ctx, d.key, d.slot, d.upstreams); ok {
			// Another download has ended since the client looked. Not all that it
			// remembered is in the index.
			return nil, f.missError(ctx, d.key, d.upstreams, m)
		}
		if known, err := f.depot.Misses(ctx, d.key); err == nil { // without remembered misses, ask all
			p.known = known
		}
	}
	p.left = f.misses.withoutMiss(d.upstreams, p.known)
	return p, nil
}

func without(list []Upstream, name string) (rest []Upstream) {
	for _, u := range list {
		if u.Source.Name() != name {
			rest = append(rest, u)
		}
	}
	return rest
}

// answer is what one upstream answered: a file, or the reason why there is none.
type answer struct {
	from   Upstream
	asked  time.Time
	reply  *Reply
	cancel context.CancelCauseFunc // cancels the request and its body
	err    error
}

// result is a checked and stored file.
type result struct {
	size int64
	file File
}

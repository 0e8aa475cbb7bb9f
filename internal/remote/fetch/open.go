package fetch

import (
	"context"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/layout"
)

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

// Classes returns the classes of the failures that caused an error of Open.
func Classes(err error) (classes []Class) {
	if n, ok := errors.AsType[*notFoundError](err); ok {
		for _, w := range n.why {
			classes = append(classes, ClassOf(w))
		}
	} else if IsFailure(err) {
		classes = append(classes, ClassOf(err))
	}
	return classes
}

// Reasons returns the classes of the failures that caused an error of Open, and
// the classes of the remembered misses.
func (f *Fetcher) Reasons(ctx context.Context, q Question, err error) []Class {
	classes := Classes(err)
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

// OpenForPeer is Open, or OpenAnew, for a question of another server: this server
// downloads the file itself.
func (f *Fetcher) OpenForPeer(ctx context.Context, ask PeerAsk) (*File, error) {
	q := ask.Question
	list := f.permitted(q)
	if form := q.Request.Form; len(list) == 0 || len(q.Request.Lookups) == 0 || form != layout.FormFile && form != layout.FormSource {
		return nil, fs.ErrNotExist
	}
	key, slot := missKey(q.Request), f.coalesceKey(q, list)
	how := normal
	switch {
	case ask.Anew:
		how = anew
	case ask.Renew:
		how = renewal
		// Another server may have renewed it.
		if m, ok := f.misses.lookup(ctx, key, slot, list); ok && !f.now().After(m.renew) {
			return nil, f.missError(ctx, key, list, m)
		}
	default:
		if m, ok := f.knownMiss(ctx, q, key, slot, list); ok {
			return nil, f.missError(ctx, key, list, m)
		}
	}
	d, ok := f.startHere(key, slot, list, q, how)
	if !ok {
		return nil, notFound([]error{errManyDownloads})
	}
	return d.open(ctx, f.coalesceKey(q, d.upstreams) == d.slot)
}

package lookup

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/layout"
)

// refreshTime bounds one refresh of the filter; reading five million keys takes
// some seconds.
const refreshTime = 5 * time.Minute

// Filter answers most lookups of missing keys without a query: most requests
// that a symbol server gets are for files that it does not have.
type Filter struct {
	db     *index.DB
	watch  *engine.Watch // nil where the file system does not support it
	filter *index.Filter // for callers that see all products
	scoped *index.Filter // for other callers; empty until the first of them
	stale  chan staleFilter
	log    *slog.Logger
	hook   func() // called after each refresh, if not nil

	life       context.Context
	end        context.CancelFunc
	background sync.WaitGroup
}

// staleFilter is a filter that does not cover a state of the index yet.
type staleFilter struct {
	filter *index.Filter
	state  uint64
}

// NewFilter returns the filter of an index, which refreshes itself until Stop. refreshed is
// called after each refresh, if it is not nil.
func NewFilter(db *index.DB, log *slog.Logger, refreshed func()) *Filter {
	k := &Filter{db: db, filter: db.NewFilter(), scoped: db.NewScopeFilter(), stale: make(chan staleFilter, 2), log: log, hook: refreshed}
	k.life, k.end = context.WithCancel(context.Background())
	var err error
	if k.watch, err = db.Watch(); err != nil {
		log.Debug("cannot watch the index for changes; every request queries its generation instead", "error", err)
	}
	k.background.Go(k.keepFresh)
	return k
}

// Stop ends the refreshing. Close, after the index has been closed, ends the rest.
func (k *Filter) Stop() {
	k.end()
	k.background.Wait()
}

// Close ends the watch of the index.
func (k *Filter) Close() error {
	if k.watch == nil {
		return nil
	}
	return k.watch.Close()
}

// Watch returns what the filter knows the state of the index by; nil: it asks the index itself.
func (k *Filter) Watch() *engine.Watch { return k.watch }

// Generation returns a number that changes whenever the index changes.
func (k *Filter) Generation(ctx context.Context) (uint64, error) {
	if k.watch != nil {
		if n, err := k.watch.State(); err == nil {
			return n, nil
		}
	}
	return k.db.Generation(ctx)
}

// Excludes reports whether certainly nothing in the index and the scope answers
// req. It does not wait: a stale filter is refreshed in the background.
func (k *Filter) Excludes(ctx context.Context, scope record.Scope, req *layout.Request) bool {
	filter := k.scoped
	if scope.All {
		filter = k.filter
	}
	state, err := k.Generation(ctx)
	if err != nil {
		return false // the query returns the error
	}
	last := ""
	for i := range req.Lookups {
		id := req.Lookups[i].ID
		if i > 0 && id == last {
			continue // with the name and without it
		}
		if !k.excludes(filter, state, scope, id) {
			return false
		}
		last = id
	}
	return req.Age == nil || k.excludes(filter, state, scope, req.Age.GUID.Lower())
}

// excludes reports whether a filter excludes one id, and asks for a refresh of a stale filter.
func (k *Filter) excludes(filter *index.Filter, state uint64, scope record.Scope, id string) bool {
	excluded, fresh := filter.Excludes(state, scope, id)
	if !fresh {
		select {
		case k.stale <- staleFilter{filter, state}:
		default: // a refresh is in progress; a later request starts the next one
		}
	}
	return excluded
}

// keepFresh refreshes a filter whenever a request found it stale.
func (k *Filter) keepFresh() {
	for {
		select {
		case <-k.life.Done():
			return
		case s := <-k.stale:
			ctx, cancel := context.WithTimeout(k.life, refreshTime)
			if err := s.filter.Refresh(ctx, s.state); err != nil && ctx.Err() == nil {
				k.log.Warn("cannot refresh the filter of missing keys", "error", err)
			}
			cancel()
			if k.hook != nil {
				k.hook()
			}
		}
	}
}

package depot

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/layout"
)

// refreshTime bounds one refresh of the filter; reading five million keys takes
// some seconds.
const refreshTime = 5 * time.Minute

// keyFilter knows without a query that most missing keys are missing: most
// requests that a symbol server gets are for files that it does not have.
type keyFilter struct {
	db     *index.DB
	watch  *index.Watch // nil where the file system does not support it
	filter *index.Filter
	stale  chan uint64 // states of the index that the filter does not cover yet
	log    *slog.Logger

	life       context.Context
	end        context.CancelFunc
	background sync.WaitGroup
}

func newKeyFilter(db *index.DB, log *slog.Logger) *keyFilter {
	k := &keyFilter{db: db, filter: db.NewFilter(), stale: make(chan uint64, 1), log: log}
	k.life, k.end = context.WithCancel(context.Background())
	var err error
	if k.watch, err = db.Watch(); err != nil {
		log.Debug("cannot watch the index for changes; every request queries its generation instead", "error", err)
	}
	k.background.Go(k.keepFresh)
	return k
}

// stop ends the refreshing. close, after the index has been closed, ends the rest.
func (k *keyFilter) stop() {
	k.end()
	k.background.Wait()
}

func (k *keyFilter) close() error {
	if k.watch == nil {
		return nil
	}
	return k.watch.Close()
}

// generation returns a number that changes whenever the index changes.
func (k *keyFilter) generation(ctx context.Context) (uint64, error) {
	if k.watch != nil {
		if n, err := k.watch.State(); err == nil {
			return n, nil
		}
	}
	return k.db.Generation(ctx)
}

// excludes reports whether certainly nothing in the index answers req. It does
// not wait: a stale filter is refreshed in the background.
func (k *keyFilter) excludes(ctx context.Context, req layout.Request) bool {
	state, err := k.generation(ctx)
	if err != nil {
		return false // the query returns the error
	}
	ids := make([]string, 0, 8)
	for _, l := range req.Lookups {
		ids = append(ids, l.ID)
	}
	if req.Age != nil {
		ids = append(ids, req.Age.GUID.Lower())
	}
	for _, id := range ids {
		absent, fresh := k.filter.Absent(state, id)
		if !fresh {
			select {
			case k.stale <- state:
			default: // a refresh is in progress; a later request starts the next one
			}
		}
		if !absent {
			return false
		}
	}
	return true
}

// keepFresh refreshes the filter whenever a request found it stale.
func (k *keyFilter) keepFresh() {
	for {
		select {
		case <-k.life.Done():
			return
		case state := <-k.stale:
			ctx, cancel := context.WithTimeout(k.life, refreshTime)
			if err := k.filter.Refresh(ctx, state); err != nil && ctx.Err() == nil {
				k.log.Warn("cannot refresh the filter of missing keys", "error", err)
			}
			cancel()
		}
	}
}

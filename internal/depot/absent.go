package depot

import (
	"context"
	"time"

	"github.com/symdepot/symdepot/layout"
)

// refreshTime bounds one reading of new keys into the filter; five million
// keys take some seconds.
const refreshTime = 5 * time.Minute

// Absent reports whether certainly nothing answers to req, in whatever scope,
// without a query and without waiting. False means that Open can tell.
func (d *Depot) Absent(ctx context.Context, req layout.Request) bool {
	return len(d.sources) == 0 && !d.Fetches() && d.absent(ctx, req)
}

// absent reports whether certainly nothing in the index answers to req:
// most requests that a symbol server gets are for what it does not have. A
// filter that is behind is brought up to date beside the request.
func (d *Depot) absent(ctx context.Context, req layout.Request) bool {
	state, err := d.generation(ctx)
	if err != nil {
		return false // the query will meet the error and say it
	}
	ids := make([]string, 0, 8)
	for _, l := range req.Lookups {
		ids = append(ids, l.ID)
	}
	if req.Age != nil {
		ids = append(ids, req.Age.GUID.Lower())
	}
	for _, id := range ids {
		absent, fresh := d.filter.Absent(state, id)
		if !fresh {
			select {
			case d.stale <- state:
			default: // a reading is under way; a later request asks again
			}
		}
		if !absent {
			return false
		}
	}
	return true
}

// keepFilter reads new keys into the filter whenever a request found it behind.
func (d *Depot) keepFilter() {
	for {
		select {
		case <-d.closing.Done():
			return
		case state := <-d.stale:
			ctx, cancel := context.WithTimeout(d.closing, refreshTime)
			if err := d.filter.Refresh(ctx, state); err != nil && ctx.Err() == nil {
				d.log.Warn("the filter of absent keys could not be refreshed", "error", err)
			}
			cancel()
		}
	}
}

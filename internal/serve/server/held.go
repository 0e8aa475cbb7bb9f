package server

import (
	"io/fs"
	"net/http"
	"time"

	"github.com/symdepot/symdepot/internal/base/limit"
)

// turn returns the turn of a request at lookups, during which it may be held for longest
// (zero: as long as the work lasts) as one of held.
func (s *service) turn(x *exchange, r *http.Request, held limit.Semaphore, longest time.Duration) *limit.Turn {
	x.turn = limit.Turn{
		Lookups: s.lookups, Held: held, Wait: s.cfg.Wait, Start: x.start, Longest: longest, Request: r.Context(), Stopping: s.waits,
		Writer: x.w, Resume: s.cfg.Wait + s.cfg.WriteTimeout,
	}
	return &x.turn
}

const (
	// signedLife is how long a signed URL is valid.
	signedLife = 5 * time.Minute
	// symCacheSecret is the name of the key that signs URLs.
	symCacheSecret = "symcache-url"
	// One in heldShare of the requests under way may be held.
	heldShare = 4
)

// errPending is the error for a file that is being made.
type errPending struct{ retry time.Duration }

func (errPending) Error() string { return "the file is being made" }

func (errPending) Is(err error) bool { return err == fs.ErrNotExist }

// pendingHeader tells the client of a file that is being made when to ask again.
func pendingHeader(h http.Header, p errPending) {
	h["Retry-After"] = []string{itoa(max(1, int64((p.retry+time.Second-1)/time.Second)))}
}

var errLoop = missError{"not found: the request came back to the server that sent it; check the upstreams of the servers that it passed"}

package limit

import (
	"context"
	"net/http"
	"time"
)

// Turn is the turn of one request at lookups. While the request is held, because its file
// is being made, it does not count as a lookup. A nil Turn is not limited.
type Turn struct {
	// Lookups are those of all requests, and Held all requests that are held at once.
	Lookups, Held Semaphore
	// Wait is how long Enter waits, from Start on or from the end of a hold.
	Wait  time.Duration
	Start time.Time
	// Longest is how long the request may be held; zero: as long as the work lasts.
	Longest time.Duration
	// Request ends with the request, and Stopping with the server: then held requests give
	// up, with the error Stopped if it is not nil.
	Request, Stopping context.Context
	Stopped           error
	// Writer is that of the answer. It has no write deadline while the request is held, and
	// Resume to begin after it.
	Writer http.ResponseWriter
	Resume time.Duration

	looks bool // it counts as a lookup
	holds bool // it counts as held
	full  bool // too many others are held
	// limit ends when the request may be held no longer; nil before the first hold.
	limit  context.Context
	cancel []func()
}

// Enter makes the request count as a lookup. The time for which it was held does not
// count. After Wait the error is ErrBusy.
func (t *Turn) Enter() error {
	if t == nil {
		return nil
	}
	begin := t.Start
	if t.holds {
		begin = time.Now()
	}
	if err := t.Lookups.Enter(t.Request, begin.Add(t.Wait)); err != nil {
		return err
	}
	t.looks = true
	return nil
}

// Leave is called when the lookup has ended.
func (t *Turn) Leave() {
	if t != nil && t.looks {
		t.Lookups.Leave()
		t.looks = false
	}
}

// End gives back what the request holds.
func (t *Turn) End() {
	for _, cancel := range t.cancel {
		cancel()
	}
	if t.holds {
		t.Held.Leave()
	}
	t.Leave()
}

// limited returns a context that ends when the request may be held no longer.
func (t *Turn) limited() (context.Context, context.CancelFunc) {
	if t.Longest > 0 {
		return context.WithTimeout(t.Request, t.Longest)
	}
	return context.WithCancel(t.Request)
}

// Full reports whether the request was not held because too many others are.
func (t *Turn) Full() bool { return t.full }

// Over reports whether the request was held for as long as it may be.
func (t *Turn) Over() bool { return t.limit != nil && t.limit.Err() != nil }

// Hold waits until wait returns, or until the hold time ends, and then returns gaveUp. Too
// many held requests are refused, because a miss is better than a server that is full of
// waiting requests; those that came first are kept.
func (t *Turn) Hold(_ context.Context, wait func(context.Context) error) (gaveUp bool, err error) {
	if !t.holds {
		if t.holds = t.Held.Try(); !t.holds {
			t.full = true
			return true, nil
		}
		ctx, cancel := t.limited()
		stop := context.AfterFunc(t.Stopping, cancel)
		t.limit, t.cancel = ctx, []func(){cancel, func() { stop() }}
	}
	t.Leave()
	// Nothing is written to a held request. The kernel's probes (TCP keep-alive) find out that
	// a client has vanished.
	rc := http.NewResponseController(t.Writer)
	_ = rc.SetWriteDeadline(time.Time{})
	err = wait(t.limit)
	_ = rc.SetWriteDeadline(time.Now().Add(t.Resume))
	switch {
	case t.Request.Err() != nil:
		return true, context.Cause(t.Request)
	case t.Stopping.Err() != nil && t.Stopped != nil:
		return true, t.Stopped
	case err != nil && t.limit.Err() == nil:
		return false, err
	}
	return t.limit.Err() != nil, t.Enter()
}

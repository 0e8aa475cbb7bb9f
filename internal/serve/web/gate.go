package web

import (
	"sync"
	"time"
)

// Gate lets few requests do the same kind of work at the same time.
type Gate struct {
	places chan struct{}
	work   time.Duration // how long the work may take
	others string        // what those do that have all places
}

// newGate returns a gate with a number of places.
func newGate(places int, work time.Duration, others string) *Gate {
	return &Gate{make(chan struct{}, places), work, others}
}

// Enter waits for a place. The caller calls done, before it answers: the client may read
// slowly. Later calls of done do nothing.
func (g *Gate) Enter(r *Request) (done func(), err error) {
	r.Allow(ComputeWait + g.work)
	t := time.NewTimer(ComputeWait)
	defer t.Stop()
	select {
	case g.places <- struct{}{}:
		return sync.OnceFunc(func() {
			<-g.places
			r.Allow(0)
		}), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-t.C:
		return nil, &Problem{Word: "busy", Detail: g.others}
	}
}

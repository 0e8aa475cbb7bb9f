package stage

import (
	"context"
	"sync"

	"github.com/symdepot/symdepot/internal/index/stages"
)

// marks records arrived contents, those of concurrent requests together.
type marks struct {
	write func(ctx context.Context, list []stages.StageArrival) error

	mu      sync.Mutex
	waiting []mark // guarded by mu
	writing bool   // guarded by mu
}

type mark struct {
	arrival stages.StageArrival
	done    chan error
	turn    chan struct{} // it is this caller's turn to write for all that wait
}

// maxMarks is the number of contents that are recorded in one write.
const maxMarks = 256

// put records a content. The caller that comes first writes, those that come
// meanwhile wait, and the first of them writes next, for all.
func (m *marks) put(ctx context.Context, a stages.StageArrival) error {
	k := mark{a, make(chan error, 1), make(chan struct{}, 1)}
	m.mu.Lock()
	m.waiting = append(m.waiting, k)
	if !m.writing {
		m.writing = true
		k.turn <- struct{}{}
	}
	m.mu.Unlock()
	select {
	case err := <-k.done:
		return err
	case <-k.turn:
		m.run(context.WithoutCancel(ctx))
		return <-k.done
	case <-ctx.Done():
		go func() { // the others still need it if its turn comes
			select {
			case <-k.done: //nolint:errcheck // nobody waits for it any more
			case <-k.turn:
				m.run(context.WithoutCancel(ctx))
			}
		}()
		return ctx.Err()
	}
}

// run writes for all that wait, among them the caller, who is the first, and passes
// the turn on.
func (m *marks) run(ctx context.Context) {
	m.mu.Lock()
	n := min(len(m.waiting), maxMarks)
	batch := m.waiting[:n:n]
	m.waiting = m.waiting[n:]
	m.mu.Unlock()
	list := make([]stages.StageArrival, n)
	for i := range batch {
		list[i] = batch[i].arrival
	}
	err := m.write(ctx, list)
	for _, k := range batch {
		k.done <- err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) > 0 {
		m.waiting[0].turn <- struct{}{}
	} else {
		m.waiting, m.writing = nil, false
	}
}

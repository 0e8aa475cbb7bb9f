package fetch

import "sync"

// Group coalesces work: all callers of Join with one key share the work that
// runs for that key. Its methods may be called by several goroutines.
type Group[K comparable, W any] struct {
	limit int

	mu     sync.Mutex
	closed bool    // guarded by mu
	work   map[K]W // running work, guarded by mu
	all    sync.WaitGroup
}

// NewGroup returns a group that runs work for at most limit keys at the same
// time; zero means no limit.
func NewGroup[K comparable, W any](limit int) *Group[K, W] {
	return &Group[K, W]{limit: limit, work: make(map[K]W)}
}

// Join returns the running work for a key. If there is none, it calls create and
// starts run in a new goroutine. run must call Leave for the key before it
// reports that the work has ended. ok is false if the group is closed or full,
// or if create returns false.
func (g *Group[K, W]) Join(key K, create func() (W, bool), run func(W)) (w W, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w, ok = g.work[key]; ok {
		return w, true
	}
	if g.closed || g.limit > 0 && len(g.work) >= g.limit {
		return w, false
	}
	if w, ok = create(); ok {
		g.work[key] = w
		g.all.Go(func() { run(w) })
	}
	return w, ok
}

// Share lets callers of Join with a further key join running work. It returns
// false if other work runs for that key.
func (g *Group[K, W]) Share(key K, w W) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.work[key]; ok {
		return false
	}
	g.work[key] = w
	return true
}

// Leave makes the next Join for each of the keys start new work.
func (g *Group[K, W]) Leave(keys ...K) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range keys {
		delete(g.work, k)
	}
}

// Close makes Join start no more work.
func (g *Group[K, W]) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Wait waits for the end of all work.
func (g *Group[K, W]) Wait() { g.all.Wait() }

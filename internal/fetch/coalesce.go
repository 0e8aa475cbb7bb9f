package fetch

import "sync"

// Group coalesces work: everybody who asks for a key while the work for it is
// under way shares that work. Its methods may be called by many goroutines.
type Group[K comparable, W any] struct {
	limit int

	mu     sync.Mutex
	closed bool    // guarded by mu
	work   map[K]W // guarded by mu; under way
	all    sync.WaitGroup
}

// NewGroup returns a group in which work for up to limit keys is under way at
// once; zero is no limit.
func NewGroup[K comparable, W any](limit int) *Group[K, W] {
	return &Group[K, W]{limit: limit, work: make(map[K]W)}
}

// Join returns the work under way for a key. If there is none, it calls create
// and starts run in a goroutine of its own; run must call Leave for the key
// before it lets anybody know that the work has ended. ok is false if the group
// is closed or full, or create refuses.
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

// Share lets work that is under way be joined under a further key. It reports
// false if there is other work for that key.
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

// Close makes Join start nothing more.
func (g *Group[K, W]) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Wait waits until all work has ended.
func (g *Group[K, W]) Wait() { g.all.Wait() }

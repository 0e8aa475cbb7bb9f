package watch

import (
	"context"
	"slices"
	"sync"
)

// maxKept limits the lists of one kind in memory, in bytes.
const maxKept = 32 << 20

// kept is a list that was read.
type kept[T any] struct {
	key   string
	bytes int
	value T
}

// keptLists are the lists that were used last.
type keptLists[T any] struct {
	mu    sync.Mutex
	lists []*kept[T]               // guarded by mu; the one used last is the last
	bytes int                      // guarded by mu
	busy  map[string]chan struct{} // guarded by mu
}

// get returns the list of a key. If there is none, the caller makes it and calls put; all
// others wait for it.
func (l *keptLists[T]) get(ctx context.Context, key string) (*kept[T], error) {
	for {
		l.mu.Lock()
		if i := slices.IndexFunc(l.lists, func(n *kept[T]) bool { return n.key == key }); i >= 0 {
			n := l.lists[i]
			l.lists = append(slices.Delete(l.lists, i, i+1), n)
			l.mu.Unlock()
			return n, nil
		}
		wait := l.busy[key]
		if wait == nil {
			if l.busy == nil {
				l.busy = map[string]chan struct{}{}
			}
			l.busy[key] = make(chan struct{})
			l.mu.Unlock()
			return nil, nil
		}
		l.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// put ends the making of a list; n is nil if it failed.
func (l *keptLists[T]) put(key string, n *kept[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.busy[key])
	delete(l.busy, key)
	if n == nil {
		return
	}
	l.lists = append(l.lists, n)
	l.bytes += n.bytes
	for l.bytes > maxKept && len(l.lists) > 1 {
		l.bytes -= l.lists[0].bytes
		l.lists = slices.Delete(l.lists, 0, 1)
	}
}

// Package memo keeps what was asked for recently in memory, up to a bound.
package memo

import (
	"sync"
	"sync/atomic"
)

// Map is a map of bounded size, for several goroutines at once. What has not been used for
// long makes place for what is new.
//
// The entries are in the order in which they came. When place is needed, a hand goes from the
// oldest to the newest, and round again: it spares an entry that was used since the hand came
// by, once, and removes one that was not (Zhang et al., SIEVE, NSDI 2024). So a use only sets a
// mark, for which readers need not wait for each other.
type Map[K comparable, V any] struct {
	most  uint64                          // the largest weight of all entries
	weigh func(key K, value V) uint32     // nil: each entry weighs 1
	mu    sync.RWMutex                    // guards what follows, and the entries except used
	byKey map[K]*entry[K, V]              // all entries
	held  uint64                          // their weight
	ends  struct{ old, new *entry[K, V] } // the oldest and the newest; nil without entries
	hand  *entry[K, V]                    // nil: at the oldest
}

type entry[K comparable, V any] struct {
	key          K
	value        V
	weight       uint32
	used         atomic.Bool // since the hand came by
	older, newer *entry[K, V]
}

// New returns a map of at most so many keys.
func New[K comparable, V any](most int) *Map[K, V] {
	return &Map[K, V]{most: uint64(most), byKey: map[K]*entry[K, V]{}}
}

// NewWeighed returns a map whose values weigh at most so much together. weigh returns the
// weight of a key and its value, in bytes or any other unit. A value that weighs more than
// all together may is not kept.
func NewWeighed[K comparable, V any](most uint64, weigh func(key K, value V) uint32) *Map[K, V] {
	return &Map[K, V]{most: most, weigh: weigh, byKey: map[K]*entry[K, V]{}}
}

// Get returns the value of a key, which counts as a use of the key.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e := m.byKey[key]
	if e == nil {
		return value, false
	}
	if !e.used.Load() { // a write would take the mark from the caches of other processors
		e.used.Store(true)
	}
	return e.value, true
}

// Peek is Get, but counts as no use.
func (m *Map[K, V]) Peek(key K) (value V, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if e := m.byKey[key]; e != nil {
		return e.value, true
	}
	return value, false
}

// Set sets the value of a key. It counts as a use of a key that the map has.
func (m *Map[K, V]) Set(key K, value V) {
	weight := uint32(1)
	if m.weigh != nil {
		weight = m.weigh(key, value)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byKey[key]
	switch {
	case uint64(weight) > m.most:
		m.remove(e)
		return
	case e != nil:
		m.held -= uint64(e.weight)
		e.used.Store(true)
	default:
		m.makeRoom(uint64(weight))
		e = &entry[K, V]{key: key, older: m.ends.new}
		if m.ends.new != nil {
			m.ends.new.newer = e
		} else {
			m.ends.old = e
		}
		m.ends.new, m.byKey[key] = e, e
	}
	e.value, e.weight = value, weight
	m.held += uint64(weight)
	m.makeRoom(0)
}

// Delete removes a key.
func (m *Map[K, V]) Delete(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(m.byKey[key])
}

// Clear removes all keys.
func (m *Map[K, V]) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.byKey)
	m.held, m.hand, m.ends.old, m.ends.new = 0, nil, nil, nil
}

// sparedAtOnce is how many used entries the hand spares for one that it removes, so that
// nobody waits until it has passed all entries of a large map.
const sparedAtOnce = 1000

// makeRoom removes entries until the map has place for one of this weight.
func (m *Map[K, V]) makeRoom(weight uint64) {
	for spared := 0; m.held+weight > m.most && m.ends.old != nil; {
		e := m.hand
		if e == nil {
			e = m.ends.old
		}
		if e.used.Load() && spared < sparedAtOnce {
			e.used.Store(false)
			m.hand = e.newer
			spared++
			continue
		}
		m.remove(e)
		spared = 0
	}
}

// remove removes an entry; nil: none.
func (m *Map[K, V]) remove(e *entry[K, V]) {
	if e == nil {
		return
	}
	if m.hand == e {
		m.hand = e.newer
	}
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		m.ends.old = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		m.ends.new = e.older
	}
	delete(m.byKey, e.key)
	m.held -= uint64(e.weight)
}

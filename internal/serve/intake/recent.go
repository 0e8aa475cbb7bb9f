package intake

import (
	"sync"
	"time"
)

// recent remembers values for some time after their last use. If it is full, the
// value that was used least recently is dropped. It is safe for concurrent use.
type recent[V any] struct {
	max  int
	keep time.Duration
	now  func() time.Time
	drop func(V) // called for values that go without delete; may be nil

	mu sync.Mutex
	m  map[string]*remembered[V]
}

type remembered[V any] struct {
	v    V
	used time.Time
}

func newRecent[V any](max int, keep time.Duration, now func() time.Time, drop func(V)) *recent[V] {
	return &recent[V]{max: max, keep: keep, now: now, drop: drop, m: map[string]*remembered[V]{}}
}

// get returns a value and counts as a use.
func (r *recent[V]) get(key string) (v V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.m[key]
	if !ok || r.now().Sub(e.used) > r.keep {
		return v, false
	}
	e.used = r.now()
	return e.v, true
}

func (r *recent[V]) put(key string, v V) {
	r.mu.Lock()
	var gone []V
	if e, ok := r.m[key]; ok {
		gone = append(gone, e.v)
	} else if len(r.m) >= r.max {
		oldest := ""
		for k, e := range r.m {
			if oldest == "" || e.used.Before(r.m[oldest].used) {
				oldest = k
			}
		}
		gone = append(gone, r.m[oldest].v)
		delete(r.m, oldest)
	}
	r.m[key] = &remembered[V]{v, r.now()}
	r.mu.Unlock()
	r.dropAll(gone)
}

// add is put for a key that is not there; otherwise it does nothing and reports false.
func (r *recent[V]) add(key string, v V) bool {
	r.mu.Lock()
	_, there := r.m[key]
	full := len(r.m) >= r.max
	if !there && !full {
		r.m[key] = &remembered[V]{v, r.now()}
	}
	r.mu.Unlock()
	if !there && full {
		r.put(key, v)
	}
	return !there
}

// delete removes a value and returns it. The caller is its last user.
func (r *recent[V]) delete(key string) (v V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.m[key]
	if ok {
		v = e.v
		delete(r.m, key)
	}
	return v, ok
}

// expire removes the values that were not used for too long.
func (r *recent[V]) expire() {
	r.remove(func(e *remembered[V]) bool { return r.now().Sub(e.used) > r.keep })
}

func (r *recent[V]) clear() { r.remove(func(*remembered[V]) bool { return true }) }

func (r *recent[V]) remove(is func(*remembered[V]) bool) {
	r.mu.Lock()
	var gone []V
	for k, e := range r.m {
		if is(e) {
			gone = append(gone, e.v)
			delete(r.m, k)
		}
	}
	r.mu.Unlock()
	r.dropAll(gone)
}

func (r *recent[V]) dropAll(gone []V) {
	if r.drop != nil {
		for _, v := range gone {
			r.drop(v)
		}
	}
}

// Package memo keeps what was asked for recently in memory, up to a bound.
package memo

import "github.com/maypok86/otter/v2"

// Map is a map of bounded size, for several goroutines at once. What is used least makes
// place for what is new, soon after the bound is passed.
//
// It is an interface for the sake of compile time: a struct with a field of the type
// *otter.Cache[K, V] makes Go compile all methods of that type again in each package that
// imports the struct's package, directly or not. That took a quarter of the first build.
type Map[K comparable, V any] interface {
	// Get returns the value of a key, which counts as a use of the key.
	Get(key K) (V, bool)
	// Peek is Get, but counts as no use.
	Peek(key K) (V, bool)
	// Set sets the value of a key.
	Set(key K, value V)
	// Delete removes a key.
	Delete(key K)
	// Clear removes all keys.
	Clear()
}

// New returns a map of at most so many keys.
func New[K comparable, V any](most int) Map[K, V] {
	return kept[K, V]{otter.Must(&otter.Options[K, any]{MaximumSize: most})}
}

// NewWeighed returns a map whose values weigh at most so much together. weigh returns the
// weight of a key and its value, in bytes or any other unit.
func NewWeighed[K comparable, V any](most uint64, weigh func(key K, value V) uint32) Map[K, V] {
	return kept[K, V]{otter.Must(&otter.Options[K, any]{
		MaximumWeight: most,
		Weigher:       func(key K, value any) uint32 { return weigh(key, value.(V)) },
	})}
}

// kept is a map in a cache whose values are of any type: each type of key and value of a
// cache takes 200 KiB of the program, so the caches differ in their keys alone.
type kept[K comparable, V any] struct{ cache *otter.Cache[K, any] }

func (k kept[K, V]) Get(key K) (V, bool) {
	value, ok := k.cache.GetIfPresent(key)
	return of[V](value), ok
}

func (k kept[K, V]) Peek(key K) (V, bool) {
	entry, ok := k.cache.GetEntryQuietly(key)
	return of[V](entry.Value), ok
}

func (k kept[K, V]) Set(key K, value V) { k.cache.Set(key, value) }

func (k kept[K, V]) Delete(key K) { k.cache.Invalidate(key) }

func (k kept[K, V]) Clear() { k.cache.InvalidateAll() }

// of is a value of a cache, or the zero value for a key that is not there.
func of[V any](value any) V {
	v, _ := value.(V)
	return v
}

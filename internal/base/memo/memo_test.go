package memo_test

import (
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/symdepot/symdepot/internal/base/memo"
)

// held counts the keys below n that a map has.
func held(m *memo.Map[int, string], n int) (count int) {
	for i := range n {
		if _, ok := m.Peek(i); ok {
			count++
		}
	}
	return count
}

// TestMap: a map has what was set and not deleted.
func TestMap(t *testing.T) {
	t.Parallel()
	m := memo.New[int, string](10)
	m.Set(1, "one")
	m.Set(2, "two")
	m.Delete(2)
	for name, get := range map[string]func(int) (string, bool){"Get": m.Get, "Peek": m.Peek} {
		if v, ok := get(1); !ok || v != "one" {
			t.Errorf("%s(1): %q, %v; want one", name, v, ok)
		}
		if v, ok := get(2); ok || v != "" {
			t.Errorf("%s(2), which was deleted: %q, %v; want nothing", name, v, ok)
		}
	}
}

// TestBounds: a map forgets what it has no place for.
func TestBounds(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*memo.Map[int, string]{
		"by number": memo.New[int, string](10),
		"by weight": memo.NewWeighed(100, func(int, string) uint32 { return 10 }),
	} {
		for i := range 1000 {
			m.Set(i, "value")
		}
		if n := held(m, 1000); n != 10 {
			t.Errorf("a map bounded %s has %d keys, want 10", name, n)
		}
		m.Clear()
		if n := held(m, 1000); n != 0 {
			t.Errorf("a map bounded %s has %d keys after Clear, want none", name, n)
		}
	}
}

// TestUsedStays: what is used between two times that place is needed outlives what is not.
func TestUsedStays(t *testing.T) {
	t.Parallel()
	m := memo.New[int, string](10)
	for i := range 10 {
		m.Set(i, "old")
	}
	for i := 10; i < 1000; i++ {
		for used := range 5 {
			if _, ok := m.Get(used); !ok {
				t.Fatalf("key %d, which is used all the time, is gone when %d comes", used, i)
			}
		}
		m.Set(i, "new")
	}
	if n := held(m, 1000); n != 10 {
		t.Errorf("%d keys, want 10", n)
	}
}

// TestModel: whatever is done to a map, it never holds more than it may, a key has the value
// that it was given last, or none, and what weighs more than the whole map is not kept.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Uint64Range(0, 40).Draw(t, "most")
		m := memo.NewWeighed(most, func(_ int, weight uint32) uint32 { return weight })
		last := map[int]uint32{}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				key, weight := rapid.IntRange(0, 20).Draw(t, "key"), rapid.Uint32Range(0, 50).Draw(t, "weight")
				m.Set(key, weight)
				last[key] = weight
				if _, ok := m.Peek(key); ok != (uint64(weight) <= most) {
					t.Fatalf("a value of %d in a map of %d is kept: %v", weight, most, ok)
				}
			},
			"get": func(t *rapid.T) { m.Get(rapid.IntRange(0, 20).Draw(t, "key")) },
			"delete": func(t *rapid.T) {
				key := rapid.IntRange(0, 20).Draw(t, "key")
				m.Delete(key)
				delete(last, key)
			},
			"clear": func(*rapid.T) {
				m.Clear()
				clear(last)
			},
			"": func(t *rapid.T) {
				sum := uint64(0)
				for key := range 21 {
					weight, ok := m.Peek(key)
					if want, set := last[key]; ok && (!set || weight != want) {
						t.Fatalf("key %d has %d, want %d", key, weight, want)
					}
					if ok {
						sum += uint64(weight)
					}
				}
				if sum > most {
					t.Fatalf("the map holds %d, more than %d", sum, most)
				}
			},
		})
	})
}

// TestTogether: several goroutines may do everything at once.
func TestTogether(t *testing.T) {
	t.Parallel()
	m := memo.New[int, int](100)
	var all sync.WaitGroup
	for first := range 4 {
		all.Go(func() {
			for i := range 5000 {
				key := (first*7 + i*13) % 300
				m.Set(key, key)
				if v, ok := m.Get(key / 2); ok && v != key/2 {
					t.Errorf("key %d has %d", key/2, v)
				}
				switch i % 1000 {
				case 0:
					m.Clear()
				case 500:
					m.Delete(key)
				}
			}
		})
	}
	all.Wait()
	n := 0
	for key := range 300 {
		if _, ok := m.Peek(key); ok {
			n++
		}
	}
	if n > 100 {
		t.Errorf("%d keys, want at most 100", n)
	}
}

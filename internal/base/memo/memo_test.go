package memo_test

import (
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/memo"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

// held counts the keys below n that a map has.
func held(m memo.Map[int, string], n int) (count int) {
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
	for name, m := range map[string]memo.Map[int, string]{
		"by number": memo.New[int, string](10),
		"by weight": memo.NewWeighed(100, func(int, string) uint32 { return 10 }),
	} {
		for i := range 1000 {
			m.Set(i, "value")
		}
		symtest.Await(t, time.Minute, "a map bounded "+name+" has 1 to 10 keys", func() bool { n := held(m, 1000); return n > 0 && n <= 10 })
		m.Clear()
		if n := held(m, 1000); n != 0 {
			t.Errorf("a map bounded %s has %d keys after Clear, want none", name, n)
		}
	}
}

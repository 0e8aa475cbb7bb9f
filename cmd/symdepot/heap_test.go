package main

import (
	"runtime"
	"testing"
)

// TestSpareCollections: a small heap grows by the given bytes between two collections.
func TestSpareCollections(t *testing.T) {
	const room = 16 << 20
	t.Cleanup(func() { spare = nil })
	spareCollections(room, 50)
	if len(spare) != 2*room {
		t.Errorf("%d bytes are spare for collections at 50 percent, want %d", len(spare), 2*room)
	}
	spareCollections(room, 100)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if got := m.NextGC - m.HeapAlloc; got < room*9/10 {
		t.Errorf("the heap may grow by %d bytes until the next collection, want about %d or more", got, room)
	}
}

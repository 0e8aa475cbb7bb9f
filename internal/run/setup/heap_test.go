package setup

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestCollectAt: a small heap grows by the given bytes between two collections.
func TestCollectAt(t *testing.T) {
	const room = 16 << 20
	usual := debug.SetGCPercent(100)
	t.Cleanup(func() {
		spare = nil
		debug.SetGCPercent(usual)
	})
	CollectAt(50, room)
	if len(spare) != 2*room {
		t.Errorf("%d bytes are spare for collections at 50 percent, want %d", len(spare), 2*room)
	}
	CollectAt(100, room)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if got := m.NextGC - m.HeapAlloc; got < room*9/10 {
		t.Errorf("the heap may grow by %d bytes until the next collection, want about %d or more", got, room)
	}
}

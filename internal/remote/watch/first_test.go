package watch

import (
	"os"
	"testing"
	"time"
)

// TestFirstByteFigures asks for the last object of the index that TestScanFigures has made,
// and prints how long its first byte took, cold and warm.
func TestFirstByteFigures(t *testing.T) {
	dir, path := os.Getenv("SYMDEPOT_WATCH_DIR"), os.Getenv("SYMDEPOT_WATCH_INDEX")
	if dir == "" {
		t.Skip("SYMDEPOT_WATCH_DIR names no folder")
	}
	f := open(t, dir, Options{Index: path})
	scanned(t, f)
	list, err := f.Entries(t.Context(), 0, 1_000_000)
	if err != nil || len(list) == 0 {
		t.Fatalf("%d entries, %v", len(list), err)
	}
	e := list[len(list)*9/10]
	for _, what := range []string{"cold", "warm", "warm"} {
		start := time.Now()
		a, err := f.Open(t.Context(), route(t, "buildid/"+string(e.Object.BuildID)+"/debuginfo"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.ReadAt(make([]byte, 1), 0); err != nil {
			t.Fatal(err)
		}
		first := time.Since(start)
		if _, err := a.ReadAt(make([]byte, 1), a.Size-1); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s of %d bytes: first byte %v, last byte %v", what, e.Object.BuildID, a.Size, first, time.Since(start))
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

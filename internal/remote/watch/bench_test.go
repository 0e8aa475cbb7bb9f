package watch

import (
	"os"
	"runtime/pprof"
	"testing"
	"time"
)

// TestScanFigures scans the folder in SYMDEPOT_WATCH_DIR into SYMDEPOT_WATCH_INDEX and
// prints what it took.
func TestScanFigures(t *testing.T) {
	dir, path := os.Getenv("SYMDEPOT_WATCH_DIR"), os.Getenv("SYMDEPOT_WATCH_INDEX")
	if dir == "" {
		t.Skip("SYMDEPOT_WATCH_DIR names no folder")
	}
	if prof := os.Getenv("SYMDEPOT_WATCH_PROFILE"); prof != "" {
		w, err := os.Create(prof)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if err := pprof.StartCPUProfile(w); err != nil {
			t.Fatal(err)
		}
		defer pprof.StopCPUProfile()
	}
	opt := Options{Index: path}
	if os.Getenv("SYMDEPOT_WATCH_EACH") != "" {
		last := time.Now()
		opt.Workers = 1
		opt.Progress = func(p Progress) {
			t.Logf("%8v %s", time.Since(last).Round(time.Millisecond), p.Path)
			last = time.Now()
		}
	}
	f := open(t, dir, opt)
	for range 2 {
		start := time.Now()
		s := scanned(t, f)
		t.Logf("%v: %+v, index %d bytes", time.Since(start), s, f.db.Size())
	}
	b, err := os.ReadFile("/proc/self/status")
	if err == nil {
		t.Logf("%s", b)
	}
}

package index

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
)

func sortDurations(d []time.Duration) { slices.Sort(d) }

// status reads one value in KiB of /proc/self/status; 0 where there is none.
func status(key string) int {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			return n
		}
	}
	return 0
}

// TestFigures builds an index through Commit and measures lookups in a process
// of its own. SYMDEPOT_INDEX_KEYS sets the number of keys; from a million on
// the limits count: p99 1 ms, open 1 s, 200 MiB resident. SYMDEPOT_INDEX_FILE
// keeps the index for the next run.
func TestFigures(t *testing.T) { testFigures(t) }

// TestPostgresFigures does the same on PostgreSQL, if SYMDEPOT_INDEX_KEYS is set.
func TestPostgresFigures(t *testing.T) {
	if os.Getenv("SYMDEPOT_INDEX_KEYS") == "" {
		t.Skip("SYMDEPOT_INDEX_KEYS, the number of keys to measure with, is not set")
	}
	t.Run("postgres", testFigures)
}

func testFigures(t *testing.T) {
	symtest.Sequential(t)
	keys := 50_000
	if testing.Short() {
		keys = 5_000
	}
	if n, err := strconv.Atoi(os.Getenv("SYMDEPOT_INDEX_KEYS")); err == nil {
		keys = n
	}
	path := os.Getenv("SYMDEPOT_INDEX_FILE")
	if path == "" || strings.Contains(t.Name(), "/postgres") {
		path = address(t)
	}
	objects := build(t, path, keys)
	out, err := child(t.Context(), "figures", path, objects).Output()
	if err != nil {
		t.Fatal(err)
	}
	var f figures
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	if fi, err := os.Stat(path); err == nil {
		size = fi.Size()
	}
	t.Logf("%d keys, %d MiB: open %v, lookup p50 %v p99 %v max %v, %d/s, resident %d MiB (peak %d)",
		f.Keys, size>>20, f.Open, f.P50, f.P99, f.Max, f.PerSecond, f.RSSAfter>>10, f.RSSMax>>10)
	if keys < 1_000_000 || engine.IsURL(path) {
		return
	}
	if f.P99 > time.Millisecond || f.Open > time.Second || f.RSSMax > 200<<10 {
		t.Error("outside the limits: p99 1 ms, open 1 s, 200 MiB")
	}
}

// build commits objects until there are enough keys, unless the index is there
// already, and returns their number.
func build(t *testing.T, path string, keys int) int {
	t.Helper()
	return buildAs(t, path, keys, func(*DB) {})
}

// buildAs is build with an index that is prepared first.
func buildAs(t *testing.T, path string, keys int, prepare func(db *DB)) int {
	t.Helper()
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := db.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	prepare(db)
	start := time.Now()
	for n := s.Objects; s.Lookups < int64(keys); {
		var entries []record.Entry
		for range min(5000, keys/10) {
			entries = append(entries, figureEntry(int(2*n)))
			s.Lookups += int64(len(entries[len(entries)-1].Aliases))
			n++
		}
		commitTest(t, db, "product", entries...)
		s.Objects = n
	}
	if engine.IsURL(path) {
		// The servers of tests have no autovacuum, which would do this.
		if err := db.base.Update(t.Context(), "analyze", func(w *engine.Write) error { _, err := w.Exec("ANALYZE"); return err }); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("built in %v", time.Since(start))
	return int(s.Objects)
}

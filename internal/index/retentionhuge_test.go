package index

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
)

// TestHugeSnapshot measures what a plan reads of 10,000 builds of 2,000 files, of
// which each shares nine tenths with the one before.
func TestHugeSnapshot(t *testing.T) {
	builds, size := int64(10_000), int64(2_000)
	if os.Getenv("SYMDEPOT_TORTURE") == "" {
		t.Skip("writes 20 million rows: runs with make torture (SYMDEPOT_TORTURE=1)")
	}
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "index.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	fresh := size / 10
	begin := time.Now()
	for _, q := range []struct {
		text string
		args []any
	}{
		{"INSERT INTO product (id, name) VALUES (1, 'Game')", nil},
		{`INSERT INTO tx (id, kind, product_id, version, comment, who, host, tool, time, files, bytes, branch, class)
			WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < $1) SELECT n, 'add', 1, n, '', 'ci', '', '', n * 1000, $2, $2 * 1000, 'main', 'nightly' FROM k`, []any{builds, size}},
		{`INSERT INTO content (id, sha256, size, added) WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < $1)
			SELECT n, unhex(printf('%064d', n)), 1000 + n % 9000, 0 FROM k`, []any{size + (builds-1)*fresh}},
		{`INSERT INTO object (id, content_id, name, kind, name_fold, role, code_name, code_id, debug_id, info_age, build_id, of_kind, flags, version, hash, arch, features, debug_size)
			SELECT id, id, 'f' || id, 1, 'f' || id, 1, '', '', '', 0, '', 0, 0, 0, '', '', '', 0 FROM content`, nil},
		// Build b has the objects from (b-1)*fresh+1 on. Rows come in the order of the key.
		{`INSERT INTO tx_file (tx_id, seq, object_id, path, archive, by_path)
			WITH RECURSIVE o(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM o WHERE id < $1),
			  b(n) AS (SELECT 9 UNION ALL SELECT n - 1 FROM b WHERE n > 0)
			SELECT (o.id - 1) / $2 + 1 - b.n, o.id - ((o.id - 1) / $2 - b.n) * $2, o.id, '', '', 0 FROM o CROSS JOIN b
			WHERE (o.id - 1) / $2 + 1 - b.n BETWEEN 1 AND $3`, []any{size + (builds-1)*fresh, fresh, builds}},
	} {
		if err := db.base.Update(t.Context(), "test", func(w *engine.Write) error {
			_, err := w.Exec(q.text, q.args...)
			return err
		}); err != nil {
			t.Fatalf("%.60s: %v, want no error", q.text, err)
		}
	}
	t.Logf("written in %.0f s", time.Since(begin).Seconds())
	debug.FreeOSMemory()
	var before, after, held runtime.MemStats
	runtime.ReadMemStats(&before)
	begin = time.Now()
	s, err := db.Retention.State(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	runtime.GC()
	runtime.ReadMemStats(&held)
	files := 0
	for i := range s.Transactions {
		files += len(s.Transactions[i].Contents)
	}
	if want := int(builds * size); len(s.Transactions) != int(builds) || files != want {
		t.Errorf("%d builds of %d files were read, want %d of %d", len(s.Transactions), files, builds, want)
	}
	const mib = 1 << 20
	t.Logf("a snapshot of %d builds of %d files: %.1f s, %d MiB held, %d MiB of heap taken from the system", builds, size, took.Seconds(),
		int64(held.HeapAlloc-before.HeapAlloc)/mib, int64(after.HeapSys-before.HeapSys)/mib)
	if held := int64(held.HeapAlloc-before.HeapAlloc) / mib; held > 512 {
		t.Errorf("the snapshot holds %d MiB, want at most 512", held)
	}
	runtime.KeepAlive(s)
}

package index

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// The figures of PostgreSQL in BENCHMARKS.md. They run with SYMDEPOT_BENCH=1 only.

func needBench(t *testing.T) {
	t.Helper()
	if os.Getenv("SYMDEPOT_BENCH") == "" {
		t.Skip("runs with make bench (SYMDEPOT_BENCH=1)")
	}
}

// percentile returns the value below which that share of the times lies.
func percentile(times []time.Duration, share float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(int(float64(len(times))*share), len(times)-1)]
}

// TestBenchEngines compares lookups in PostgreSQL, over TCP, with those in SQLite, in
// indexes with the same objects: by default 300,000 keys (SYMDEPOT_INDEX_KEYS).
func TestBenchEngines(t *testing.T) {
	needBench(t)
	benchEngines(t, 300_000, 3, 40_000)
}

// TestBenchKeys is TestBenchEngines with ten million keys. Building both indexes
// takes most of its half an hour, even at the same time, so it runs with scripts/bench
// keys only.
func TestBenchKeys(t *testing.T) {
	if os.Getenv("SYMDEPOT_BENCH") != "keys" {
		t.Skip("needs SYMDEPOT_BENCH=keys and half an hour: run scripts/bench keys")
	}
	benchEngines(t, 10_000_000, 3, 100_000)
}

// benchEngines builds both indexes and looks up keys in them in turn.
func benchEngines(t *testing.T, keys, rounds, lookups int) {
	if n, err := strconv.Atoi(os.Getenv("SYMDEPOT_INDEX_KEYS")); err == nil {
		keys = n
	}
	server := pgtest.New(t)
	type index struct {
		name, where string
		built       time.Duration
		size        int64
		figures     []figures
	}
	file := filepath.Join(t.TempDir(), "index.db")
	list := []*index{{name: "SQLite", where: file}, {name: "PostgreSQL", where: server.Database(t)}}
	var objects int
	var wg sync.WaitGroup
	how := "one after the other"
	for _, x := range list {
		wg.Go(func() {
			t.Run("build "+x.name, func(t *testing.T) {
				start := time.Now()
				n := build(t, x.where, keys)
				x.built = time.Since(start)
				if x == list[0] {
					objects = n // the other index has as many
				}
			})
		})
		if keys <= 1_000_000 {
			wg.Wait()
		} else {
			how = "at the same time"
		}
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	fi, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	list[0].size = fi.Size()
	list[1].size = server.Size(t, list[1].where)
	for range rounds {
		for _, x := range list {
			c := child(t.Context(), "figures", x.where, objects)
			c.Env = append(c.Env, "SYMDEPOT_INDEX_LOOKUPS="+strconv.Itoa(lookups), "SYMDEPOT_INDEX_FILTER=1")
			out, err := c.Output()
			if err != nil {
				t.Fatal(err)
			}
			var f figures
			if err := json.Unmarshal(out, &f); err != nil {
				t.Fatal(err)
			}
			x.figures = append(x.figures, f)
		}
	}
	middle := func(x *index, of func(figures) float64) float64 {
		var v []float64
		for _, f := range x.figures {
			v = append(v, of(f))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	p50 := func(f figures) float64 { return f.P50.Seconds() * 1000 }
	p99 := func(f figures) float64 { return f.P99.Seconds() * 1000 }
	rate := func(f figures) float64 { return float64(f.PerSecond) }
	for _, x := range list {
		n := x.figures[0].Keys
		t.Logf("%-10s %d keys: built in %v (both %s), %d MiB on disk (%d bytes a key), open %.1f ms; lookups by 8 readers, half of them missing: p50 %.2f ms, p99 %.2f ms, %.0f/s; resident %.0f MiB, peak %.0f MiB (the process that looks up)",
			x.name, n, x.built.Round(time.Second/10), how, x.size>>20, x.size/max(1, n), middle(x, func(f figures) float64 { return f.Open.Seconds() * 1000 }),
			middle(x, p50), middle(x, p99), middle(x, rate), middle(x, func(f figures) float64 { return float64(f.RSSAfter) / 1024 }), middle(x, func(f figures) float64 { return float64(f.RSSMax) / 1024 }))
		last := x.figures[len(x.figures)-1]
		t.Logf("%-10s a new process: open %.1f ms; the filter that answers misses is there %.2f s later in the first process, %.2f s in the last one (goal 0.5 s; 20 s, and 1 s from stored segments)",
			x.name, last.Open.Seconds()*1000, x.figures[0].Filter.Seconds(), last.Filter.Seconds())
		t.Logf("%-10s extrapolated to 100 million keys, by proportion: %d GiB on disk, built in %v", x.name, 100_000_000*(x.size/max(1, n))>>30,
			time.Duration(float64(x.built)*100_000_000/float64(max(1, n))).Round(time.Minute))
	}
	t.Logf("PostgreSQL to SQLite: p99 %.1f times (goal 5), lookups/s %.2f (goal 0.25); the server runs with its default settings and without fsync",
		middle(list[1], p99)/middle(list[0], p99), middle(list[1], rate)/middle(list[0], rate))
}

// TestBenchPacked measures what keys take as rows and packed, in both engines, and how fast they are packed: by
// default 300,000 keys (SYMDEPOT_INDEX_KEYS).
func TestBenchPacked(t *testing.T) {
	needBench(t)
	keys := 300_000
	if n, err := strconv.Atoi(os.Getenv("SYMDEPOT_INDEX_KEYS")); err == nil {
		keys = n
	}
	server := pgtest.New(t)
	for name, where := range map[string]string{"SQLite": filepath.Join(t.TempDir(), "index.db"), "PostgreSQL": server.Database(t)} {
		build(t, where, keys)
		db, err := Open(t.Context(), where, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		size := func() float64 { return vacuumed(t, server, db, where) / float64(keys) }
		rows := size()
		begun := time.Now()
		n := packAll(t, db)
		took := time.Since(begun)
		packed := size()
		var bytes int64
		if err := db.base.Points.Row(t.Context(), "SELECT sum(length(body)) FROM old_key", nil, &bytes); err != nil {
			t.Fatal(err)
		}
		t.Logf("%-10s %d keys: %.0f bytes each as rows, %.0f packed (%.1f in the blocks); %d packed in %v (%.0f/s)", name, keys, rows, packed,
			float64(bytes)/float64(n), n, took.Round(time.Millisecond), float64(n)/took.Seconds())
	}
}

// vacuumed returns the bytes of an index after a VACUUM.
func vacuumed(t *testing.T, server *pgtest.Server, db *DB, where string) float64 {
	t.Helper()
	if db.base.Shared() {
		if _, err := rawConn(t, where).Exec(t.Context(), "VACUUM FULL"); err != nil {
			t.Fatal(err)
		}
		return float64(server.Size(t, where))
	}
	raw := rawFile(t, db)
	defer raw.Close()
	if _, err := raw.Exec("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(where)
	if err != nil {
		t.Fatal(err)
	}
	return float64(fi.Size())
}

// TestBenchShorten measures what an index takes whose rows were written long, and how fast they are made short, in both
// engines: by default 300,000 keys (SYMDEPOT_INDEX_KEYS).
func TestBenchShorten(t *testing.T) {
	needBench(t)
	keys := 300_000
	if n, err := strconv.Atoi(os.Getenv("SYMDEPOT_INDEX_KEYS")); err == nil {
		keys = n
	}
	server := pgtest.New(t)
	for name, where := range map[string]string{"SQLite": filepath.Join(t.TempDir(), "index.db"), "PostgreSQL": server.Database(t)} {
		objects := buildAs(t, where, keys, func(db *DB) { writePlain(t, db) })
		db, err := Open(t.Context(), where, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		long := vacuumed(t, server, db, where)
		if err := upgradeRows(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		var longest, took time.Duration
		parts := 0
		for ended := false; !ended; parts++ {
			begun := time.Now()
			if ended, err = contents.Shorten(t.Context(), db.base, contents.ShortenBatch); err != nil {
				t.Fatal(err)
			}
			took += time.Since(begun)
			longest = max(longest, time.Since(begun))
		}
		after := long
		free := ""
		if db.base.Shared() {
			after = float64(server.Size(t, where))
		} else {
			raw := rawFile(t, db)
			var pages, unused int64
			if err := raw.QueryRow("SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count").Scan(&pages, &unused); err != nil {
				t.Fatal(err)
			}
			free = fmt.Sprintf(" (%.1f%% of its pages free)", 100*float64(unused)/float64(pages))
		}
		begun := time.Now()
		const again = 1000
		for range again {
			if ended, err := contents.Shorten(t.Context(), db.base, contents.ShortenBatch); err != nil || !ended {
				t.Fatalf("ended %v, %v", ended, err)
			}
		}
		idle := time.Since(begun) / again
		n := float64(keys)
		t.Logf("%-10s %d keys of %d objects: %.0f bytes a key with long rows, %.0f when they are short%s, %.0f after VACUUM; %d parts in %v (%.0f rows/s), the longest %v; a look at an index without long rows %v",
			name, keys, objects, long/n, after/n, free, vacuumed(t, server, db, where)/n, parts, took.Round(time.Millisecond), 2*float64(objects)/took.Seconds(), longest.Round(time.Millisecond), idle)
		clean(t, db)
	}
}

// TestBenchSeen measures how long a commit takes to be known to three nodes, and how
// long until it returns.
func TestBenchSeen(t *testing.T) {
	needBench(t)
	where := pgtest.New(t).Database(t)
	nodes := []*nodeTest{openNode(t, where), openNode(t, where), openNode(t, where)}
	writer, err := Open(t.Context(), where, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	const commits = 300
	var returned, seen []time.Duration
	late := 0
	for i := range commits {
		var before []uint64
		for _, n := range nodes {
			before = append(before, n.state(t))
		}
		start := time.Now()
		times := make([]time.Duration, len(nodes))
		var wg sync.WaitGroup
		for j, n := range nodes {
			wg.Go(func() {
				for {
					if s, err := n.watch.State(); err == nil && s != before[j] || time.Since(start) > 10*time.Second {
						times[j] = time.Since(start)
						return
					}
					_ = ctxio.Pause(t.Context(), 100*time.Microsecond)
				}
			})
		}
		commitTest(t, writer, "", figureEntry(2*i))
		for j, n := range nodes {
			if s, err := n.watch.State(); err == nil && s == before[j] {
				late++
			}
		}
		returned = append(returned, time.Since(start))
		wg.Wait()
		seen = append(seen, slices.Max(times))
	}
	t.Logf("%d commits, 3 nodes: seen on all nodes after p50 %v, p99 %v, at most %v (goal p99 1 s); the commit returns after p50 %v, p99 %v; nodes that do not know it then: %d (goal 0)", commits,
		percentile(seen, 0.5).Round(time.Microsecond), percentile(seen, 0.99).Round(time.Microsecond), slices.Max(seen).Round(time.Microsecond),
		percentile(returned, 0.5).Round(time.Microsecond), percentile(returned, 0.99).Round(time.Microsecond), late)
}

// TestBenchCollect measures the commits of ten writers while 100,000 contents are
// collected.
func TestBenchCollect(t *testing.T) {
	needBench(t)
	contents, writers := 100_000, 10
	where := pgtest.New(t).Database(t)
	open := func() *DB {
		db, err := Open(t.Context(), where, Options{Placed: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	db := open()
	// uploaded enters finished uploads of some contents.
	uploaded := func(ctx context.Context, db *DB, entries []record.Entry) error {
		var ups []record.Upload
		var places []string
		for _, e := range entries {
			u := record.Upload{Place: fmt.Sprintf("%x-%d", e.Ref[:8], time.Now().UnixNano()), Content: record.Content{Ref: e.Ref, Size: e.Size}}
			ups, places = append(ups, u), append(places, u.Place)
		}
		if err := db.Places.Begin(ctx, "bench", time.Hour, ups); err != nil {
			return err
		}
		return db.Places.Done(ctx, places)
	}
	const batch = 5000
	var refs []blob.Ref
	for n := 0; n < contents; n += batch {
		var entries []record.Entry
		for i := range batch {
			e := figureEntry(2 * (n + i))
			entries, refs = append(entries, e), append(refs, e.Ref)
		}
		if err := uploaded(t.Context(), db, entries); err != nil {
			t.Fatal(err)
		}
		number := commitTest(t, db, "", entries...)
		if _, err := db.Remove(t.Context(), number); err != nil {
			t.Fatal(err)
		}
	}
	load := func(during func()) (times []time.Duration) {
		var stop atomic.Bool
		var mu sync.Mutex
		var wg sync.WaitGroup
		for w := range writers {
			db := open()
			wg.Go(func() {
				for i := 0; !stop.Load(); i++ {
					e := figureEntry(2*contents + 2*(w*1_000_000+i) + int(time.Now().UnixNano()%1000)*20_000_000)
					if err := uploaded(t.Context(), db, []record.Entry{e}); err != nil {
						t.Error(err)
						return
					}
					start := time.Now()
					if _, err := db.Commit(t.Context(), record.Tx{Kind: "add", Entries: []record.Entry{e}}, nil); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					times = append(times, time.Since(start))
					mu.Unlock()
				}
			})
		}
		during()
		stop.Store(true)
		wg.Wait()
		return times
	}
	idle := load(func() { _ = ctxio.Pause(t.Context(), 5*time.Second) })
	var took time.Duration
	busy := load(func() {
		start := time.Now()
		n, err := db.DropContents(t.Context(), refs, time.Now().Add(time.Hour), func(blob.Ref) error { return nil })
		took = time.Since(start)
		if err != nil || n != contents {
			t.Errorf("%d contents collected, %v, want %d", n, err, contents)
		}
	})
	t.Logf("%d writers alone: %d commits, p99 %v, longest %v", writers, len(idle), percentile(idle, 0.99).Round(time.Millisecond), slices.Max(idle).Round(time.Millisecond))
	t.Logf("gc of %d contents meanwhile took %v: %d commits, p99 %v, longest %v (goal 1 s)", contents, took.Round(time.Millisecond), len(busy),
		percentile(busy, 0.99).Round(time.Millisecond), slices.Max(busy).Round(time.Millisecond))
}

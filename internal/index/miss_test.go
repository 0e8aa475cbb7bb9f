package index

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/misses"
)

func putMisses(t testing.TB, db *DB, misses ...misses.Miss) {
	t.Helper()
	if err := db.Misses.Put(t.Context(), misses); err != nil {
		t.Fatal(err)
	}
}

// tally returns how many rows a bounded table has, as counted.
func tally(t testing.TB, db *DB, table string) (n int64) {
	t.Helper()
	if err := db.base.Scans.Row(t.Context(), "SELECT n FROM tally WHERE name = $1", []any{table}, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestMisses(t *testing.T) { onEngines(t, testMisses) }

func testMisses(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	w, err := db.Watch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	state, _ := w.State()
	writes, _ := w.Writes()
	m := func(key, source string, class uint8, hours int) misses.Miss {
		return misses.Miss{Key: key, Source: source, Class: class, Until: c.t.Add(time.Duration(hours) * time.Hour), Since: c.t, Detail: "why \x00" + key}
	}
	odd := "a\x00\xff'%_"
	putMisses(t, db, m("a/1", "one", 1, 1), m("a/1", "two", 2, 24), m("a/2", "one", 1, 1), m(odd, "one", 3, 2), m("a/1", "one", 4, 2))
	if s, _ := w.State(); s != state {
		t.Error("misses change the state")
	}
	if !db.base.Shared() {
		if n, _ := w.Writes(); n == writes {
			t.Error("misses were not written")
		}
	}
	got, err := db.Misses.Of(t.Context(), "a/1")
	want := []misses.Miss{m("a/1", "one", 4, 2), m("a/1", "two", 2, 24)}
	want[0].Detail, want[1].Detail = "why a/1", "why a/1"
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, error %v; want %v", got, err, want)
	}
	if got, err := db.Misses.Of(t.Context(), odd); err != nil || len(got) != 1 || got[0].Key != odd {
		t.Errorf("Of: %+v, error %v; want length 1, got[0].Key %v", got, err, odd)
	}
	if got, err := db.Misses.Of(t.Context(), "a"); err != nil || got != nil {
		t.Errorf(`Of("a"): %+v, error %v; want nil`, got, err)
	}
	clean(t, db)
	c.hours(1)
	stats, err := db.Misses.Stats(t.Context())
	if err != nil || !slices.Equal(stats, []misses.MissStats{{Class: 1, Misses: 1, Expired: 1}, {Class: 2, Misses: 1, Expired: 0}, {Class: 3, Misses: 1, Expired: 0}, {Class: 4, Misses: 1, Expired: 0}}) {
		t.Errorf("Stats: %+v, error %v; want []MissStats{{1, 1, 1}, {2, 1, 0}, {3, 1, 0}, {4, 1, 0}}", stats, err)
	}
	if n, err := db.Misses.Sweep(t.Context(), c.t.Add(1)); n != 0 || err != nil {
		t.Errorf("Sweep: %v, error %v; want 0", n, err)
	}
	if n, err := db.Misses.Sweep(t.Context(), c.t.Add(time.Millisecond)); n != 1 || err != nil {
		t.Errorf("Sweep: %v, error %v; want 1", n, err)
	}
	clean(t, db)
}

func TestFlushMisses(t *testing.T) { onEngines(t, testFlushMisses) }

func testFlushMisses(t *testing.T) {
	symtest.Sequential(t)
	c := newClock()
	db := openTest(t, c.options())
	fill := func() {
		var list []misses.Miss
		for i := range 6000 { // more than go at once
			list = append(list, misses.Miss{Key: fmt.Sprintf("k%d/%04d", i%2, i), Source: []string{"one", "two"}[i/2%2], Class: uint8(1 + i%3), Until: c.t, Since: c.t.Add(time.Duration(i) * time.Second)})
		}
		putMisses(t, db, list...)
	}
	for _, f := range []struct {
		f    misses.MissFilter
		want int64
	}{
		{misses.MissFilter{Key: "k1/0001"}, 1},
		{misses.MissFilter{Key: "k1/0001", Source: "two"}, 0},
		{misses.MissFilter{Key: "k1"}, 0},
		{misses.MissFilter{KeyPrefix: "k1/"}, 3000},
		{misses.MissFilter{KeyPrefix: "k1/", Source: "one"}, 1500},
		{misses.MissFilter{KeyPrefix: "k", Class: 2}, 2000},
		{misses.MissFilter{Source: "one", Class: 2, Before: c.t.Add(12 * time.Second)}, 2},
		{misses.MissFilter{Source: "%"}, 0},
		{misses.MissFilter{}, 6000},
	} {
		fill()
		if n, err := db.Misses.Flush(t.Context(), f.f); n != f.want || err != nil || tally(t, db, "miss") != 6000-f.want {
			t.Errorf(`%+v: Flush: %d, error %v; want %v, tally(t, db, "miss") %v`, f.f, n, err, f.want, 6000-f.want)
		}
		clean(t, db)
	}
}

func TestMissesAreBounded(t *testing.T) { onEngines(t, testMissesAreBounded) }

func testMissesAreBounded(t *testing.T) {
	symtest.Sequential(t)
	c := newClock()
	opt := c.options()
	opt.MaxMisses = 100
	db := openTest(t, opt)
	put := func(from, to int) {
		var list []misses.Miss
		for i := from; i < to; i++ {
			list = append(list, misses.Miss{Key: fmt.Sprint(i), Source: "s", Class: 1, Until: c.t, Since: c.t})
		}
		putMisses(t, db, list...)
	}
	have := func(i int) bool {
		list, err := db.Misses.Of(t.Context(), fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		return len(list) == 1
	}
	put(0, 100)
	put(0, 10) // written again: the newest
	put(100, 150)
	for i := range 150 {
		if want := i < 10 || i >= 60; have(i) != want {
			t.Errorf("%d is there: %v, want %v", i, !want, want)
		}
	}
	put(1000, 7000)
	if tally(t, db, "miss") != 100 || !have(6999) || have(6899) {
		t.Error("not the newest hundred")
	}
	clean(t, db)
}

func TestWanted(t *testing.T) { onEngines(t, testWanted) }

func testWanted(t *testing.T) {
	c := newClock()
	opt := c.options()
	opt.MaxWanted = 5
	db := openTest(t, opt)
	g, _ := db.Generation(t.Context())
	count := func(list ...misses.Wanted) {
		t.Helper()
		if err := db.Wanted.Count(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	start := c.t
	a := misses.Wanted{Name: "a.pdb", ID: "1", Client: "windbg", Count: 3, Last: c.t}
	b := misses.Wanted{Name: "b.pdb", ID: "2", Client: "gdb", Count: 2, Last: c.t}
	count(a, b)
	c.hours(1)
	b.Last, b.Kind = c.t, "pdb"
	count(b, misses.Wanted{Name: "a.pdb", ID: "1", Client: "gdb", Count: 1, Last: c.t})
	missing := func(f misses.WantedFilter) (list []string) {
		for w, err := range db.Wanted.List(t.Context(), f) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, fmt.Sprintf("%s/%s %s%s %d %v-%v", w.Name, w.ID, w.Client, w.Kind, w.Count, w.First.Sub(start).Hours(), w.Last.Sub(start).Hours()))
		}
		return list
	}
	for _, q := range []struct {
		f    misses.WantedFilter
		want string
	}{
		{misses.WantedFilter{}, "b.pdb/2 gdbpdb 4 0-1, a.pdb/1 windbg 3 0-0, a.pdb/1 gdb 1 1-1"},
		{misses.WantedFilter{Limit: 1}, "b.pdb/2 gdbpdb 4 0-1"},
		{misses.WantedFilter{Name: "a*", Limit: 2}, "a.pdb/1 windbg 3 0-0, a.pdb/1 gdb 1 1-1"},
		{misses.WantedFilter{Client: "gdb"}, "b.pdb/2 gdbpdb 4 0-1, a.pdb/1 gdb 1 1-1"},
		{misses.WantedFilter{Since: start.Add(time.Minute), Name: "a.pdb"}, "a.pdb/1 gdb 1 1-1"},
		{misses.WantedFilter{Name: "c"}, ""},
	} {
		if got := strings.Join(missing(q.f), ", "); got != q.want {
			t.Errorf("%+v: got %s, want %v", q.f, got, q.want)
		}
	}
	if g2, _ := db.Generation(t.Context()); g2 != g {
		t.Error("counting changes the generation")
	}
	// The one that is longest not asked for gives way.
	for i := range 3 {
		count(misses.Wanted{Name: "x", ID: fmt.Sprint(i), Count: 1, Last: c.t})
	}
	if got := missing(misses.WantedFilter{Client: "windbg"}); got != nil || len(missing(misses.WantedFilter{})) != 5 {
		t.Errorf("missing: %v, want nil, missing(WantedFilter{}) of length 5", got)
	}
	clean(t, db)
	c.hours(1)
	count(misses.Wanted{Name: "x", ID: "1", Count: 1, Last: c.t})
	if n, err := db.Wanted.Drop(t.Context(), c.t); n != 4 || err != nil {
		t.Errorf("Drop: %v, error %v; want 4", n, err)
	}
	if got := missing(misses.WantedFilter{}); len(got) != 1 {
		t.Errorf("missing: %v, want length 1", got)
	}
	clean(t, db)
}

// TestPages lists more than fits one page.
func TestWantedPages(t *testing.T) { onEngines(t, testWantedPages) }

func testWantedPages(t *testing.T) {
	symtest.Sequential(t)
	db := openTest(t, Options{})
	var list []misses.Wanted
	for i := range 2500 {
		list = append(list, misses.Wanted{Name: fmt.Sprint(i), ID: "x", Count: int64(i % 7), Last: db.base.Now()})
	}
	if err := db.Wanted.Count(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	seen, last := map[string]bool{}, int64(7)
	for w, err := range db.Wanted.List(t.Context(), misses.WantedFilter{}) {
		if err != nil || w.Count > last || seen[w.Name] {
			t.Fatalf("Wanted.List: %+v, error %v; want each name once, the highest count first (the last was %d)", w, err, last)
		}
		seen[w.Name], last = true, w.Count
	}
	if len(seen) != 2500 {
		t.Errorf("got length %v, want 2500", len(seen))
	}
}

// BenchmarkMisses looks misses up among many. SYMDEPOT_INDEX_MISSES sets their
// number.
func BenchmarkMisses(b *testing.B) {
	many := 50_000
	if n, err := strconv.Atoi(os.Getenv("SYMDEPOT_INDEX_MISSES")); err == nil {
		many = n
	}
	db := openTest(b, Options{})
	key := func(n int) string {
		return fmt.Sprintf("module%d.pdb/%032x1/2;module%d.pd_/%032x1/2;", n, n*2654435761%many, n, n)
	}
	now := time.Now()
	miss := func(n int) misses.Miss {
		return misses.Miss{Key: key(n), Source: "https://msdl.microsoft.com/download/symbols", Class: 1, Until: now, Since: now, Detail: "404 Not Found"}
	}
	var list []misses.Miss
	start := time.Now()
	for n := range many {
		if list = append(list, miss(n)); len(list) == 5000 {
			putMisses(b, db, list...)
			list = list[:0]
		}
	}
	putMisses(b, db, list...)
	b.Logf("%d misses written in %v", many, time.Since(start))
	rnd := rand.New(rand.NewPCG(1, 2))
	b.Run("there", func(b *testing.B) {
		var took []time.Duration
		for b.Loop() {
			t := time.Now()
			if list, err := db.Misses.Of(b.Context(), key(rnd.IntN(many))); err != nil || len(list) != 1 {
				b.Fatalf("Of: %v, error %v; want length 1", list, err)
			}
			took = append(took, time.Since(t))
		}
		sortDurations(took)
		b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
	})
	b.Run("absent", func(b *testing.B) {
		for b.Loop() {
			if list, err := db.Misses.Of(b.Context(), key(many+rnd.IntN(many))); err != nil || len(list) != 0 {
				b.Fatalf("Of: %v, error %v; want none", list, err)
			}
		}
	})
	b.Run("put", func(b *testing.B) {
		for b.Loop() {
			putMisses(b, db, miss(rnd.IntN(many)))
		}
	})
	b.Run("stats", func(b *testing.B) {
		for b.Loop() {
			if _, err := db.Misses.Stats(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sweep", func(b *testing.B) {
		for b.Loop() {
			if _, err := db.Misses.Sweep(b.Context(), now.Add(time.Hour)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

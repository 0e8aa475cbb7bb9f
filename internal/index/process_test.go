package index

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// children are the parts that the test binary plays when it is started again
// with SYMDEPOT_INDEX_CHILD set: real processes on one database.
var children = map[string]func(path string, arg int) error{"commit": childCommit, "cache": childCache, "figures": childFigures, "huge": childHuge, "pack": childPack, "shorten": childShorten,
	"heads": childHeads}

func TestMain(m *testing.M) {
	if part := os.Getenv("SYMDEPOT_INDEX_CHILD"); part != "" {
		arg, err := strconv.Atoi(os.Args[2])
		if err == nil {
			err = children[part](os.Args[1], arg)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	pgtest.End()
	os.Exit(code)
}

func child(ctx context.Context, part, path string, arg int) *exec.Cmd {
	c := exec.CommandContext(ctx, os.Args[0], path, strconv.Itoa(arg))
	c.Env = append(os.Environ(), "SYMDEPOT_INDEX_CHILD="+part)
	c.Stderr = os.Stderr
	return c
}

// childCommit commits arg transactions, or without end if arg is negative, and
// prints the number of each once it is acknowledged.
func childCommit(path string, arg int) error {
	ctx := context.Background()
	db, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	host := strconv.Itoa(os.Getpid())
	for i := 0; i != arg; i++ {
		var entries []record.Entry
		for j := range 20 {
			n := os.Getpid()*1000 + i*10 + j // half of them come again in the next transaction
			entries = append(entries, pdbAge(n, "p.pdb", byte(n), uint32(n)))
		}
		number, err := db.Commit(ctx, record.Tx{Kind: "add", Host: host, Comment: strconv.Itoa(i), Entries: entries}, nil)
		if err != nil {
			return err
		}
		fmt.Println(number)
	}
	return db.Close()
}

// childCache fetches, evicts, and remembers, without end, and prints the number
// of each round once all of it is acknowledged.
func childCache(path string, _ int) error {
	ctx := context.Background()
	db, err := Open(ctx, path, Options{MaxMisses: 50})
	if err != nil {
		return err
	}
	pid := os.Getpid()
	worker := strconv.Itoa(pid)
	for i := 0; ; i++ {
		e := figureEntry(pid*1000 + i)
		if err := db.Cached.Put(ctx, contents.CachedFile{Source: "s", Name: e.Object.Name, Ref: e.Ref, Size: e.Size, Entries: []record.Entry{e}}, nil); err != nil {
			return err
		}
		if err := db.PutDerived(ctx, e.Ref, record.Tool{Name: "t", Version: 1}, &record.Content{Ref: ref(pid*1000 + i), Size: 1}); err != nil {
			return err
		}
		if err := db.Misses.Put(ctx, []misses.Miss{{Key: e.Path, Source: "s"}, {Key: "same", Source: worker}}); err != nil {
			return err
		}
		if err := db.Wanted.Count(ctx, []misses.Wanted{{Name: "n", Count: 1}}); err != nil {
			return err
		}
		if _, _, err := db.Jobs.Enqueue(ctx, queue.Job{Kind: "k", Key: strconv.Itoa(pid*1000 + i)}); err != nil {
			return err
		}
		jobs, err := db.Jobs.Lease(ctx, worker, nil, nil, time.Hour, 1)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if err := db.Jobs.Complete(ctx, j.ID, worker, j.Token, queue.Outcome{Class: "ok", Result: &blob.Ref{}}); err != nil {
				return err
			}
		}
		if i >= 3 { // three are left at any time
			old := figureEntry(pid*1000 + i - 3)
			if _, _, err := db.Cached.Evict(ctx, []blob.Ref{old.Ref}, func(blob.Ref) error { return nil }); err != nil {
				return err
			}
		}
		fmt.Println(i + 1)
	}
}

// TestKillCache kills processes that download and evict at random points:
// acknowledged files exist, evicted files do not, and nothing is damaged.
func TestKillCache(t *testing.T) {
	t.Parallel()
	kills := 6
	if testing.Short() {
		kills = 2
	}
	path := filepath.Join(t.TempDir(), "index.db")
	rnd := rand.New(rand.NewPCG(symtest.Seed(t, 5), 6))
	done := int64(0)
	for round := range kills {
		c := child(t.Context(), "cache", path, 0)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		for range 1 + rnd.IntN(8) {
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			done++
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		rounds := done
		done += int64(len(scanNumbers(lines, -1)))
		_ = c.Wait()
		db, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatalf("%v: Open: error %v, want no error", round, err)
		}
		clean(t, db)
		n := 0
		for f, err := range db.Cached.Evictable(t.Context(), contents.CacheFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if is, _ := db.HasContent(t.Context(), f.Ref); !is {
				t.Errorf("%x is fetched and not known", f.Ref)
			}
			n++
		}
		if n == 0 || n > 4*(round+1) {
			t.Errorf("round %d: %d fetched files are left", round, n)
		}
		stats, err := db.Jobs.Stats(t.Context())
		if err != nil || len(stats) != 1 || len(stats[0].Outcomes) != 1 || stats[0].Outcomes[0].Jobs < rounds-int64(round) {
			t.Errorf("round %d: %d jobs ended, their figures are %+v, %v; want at least those", round, done, stats, err)
		}
		for w, err := range db.Wanted.List(t.Context(), misses.WantedFilter{}) {
			if err != nil || w.Count < done || w.Count > done+int64(round)+1 {
				t.Errorf("round %d: the miss was counted %d times, want %d or a little more; %v", round, w.Count, done, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestManyProcesses has processes that all make the database and commit to it
// at once. SYMDEPOT_INDEX_PROCESSES sets their number.
func TestManyProcesses(t *testing.T) {
	processes, each := 8, 10
	if testing.Short() {
		processes = 4
	}
	if n, err := strconv.Atoi(os.Getenv("SYMDEPOT_INDEX_PROCESSES")); err == nil {
		processes = n
	}
	path := filepath.Join(t.TempDir(), "index.db")
	type result struct {
		numbers []int64
		err     error
	}
	results := make(chan result)
	for range processes {
		go func() {
			c := child(t.Context(), "commit", path, each)
			out, err := c.StdoutPipe()
			if err == nil {
				err = c.Start()
			}
			if err != nil {
				results <- result{nil, err}
				return
			}
			numbers := scanNumbers(out, -1)
			results <- result{numbers, c.Wait()}
		}()
	}
	have := map[int64]bool{}
	for range processes {
		r := <-results
		if r.err != nil {
			t.Errorf("got %v, want nil", r.err)
		}
		for i, n := range r.numbers {
			if have[n] || i > 0 && n <= r.numbers[i-1] {
				t.Errorf("number %d was given out twice or late", n)
			}
			have[n] = true
		}
	}
	for n := range int64(processes * each) {
		if !have[n+1] {
			t.Errorf("no process got number %d, want every number taken", n+1)
		}
	}
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	clean(t, db)
}

// scanNumbers reads lines until there are limit of them, or all.
func scanNumbers(r io.Reader, limit int) (list []int64) {
	s := bufio.NewScanner(r)
	for len(list) != limit && s.Scan() {
		if n, err := strconv.ParseInt(s.Text(), 10, 64); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// TestKill kills committing processes at random points: every acknowledged
// transaction is complete, and nothing is damaged. SYMDEPOT_INDEX_KILLS sets
// the number of kills.
func TestKill(t *testing.T) {
	t.Parallel()
	kills := 5
	if testing.Short() {
		kills = 3
	}
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		kills = 50
	}
	if n, err := strconv.Atoi(os.Getenv("SYMDEPOT_INDEX_KILLS")); err == nil {
		kills = n
	}
	path := filepath.Join(t.TempDir(), "index.db")
	rnd := rand.New(rand.NewPCG(symtest.Seed(t, 3), 4))
	acked := map[int64]bool{}
	for round := range kills {
		// Two at once: one dies right after an acknowledgement, the other
		// wherever it happens to be, waiting or in the middle of a commit.
		var cs [2]*exec.Cmd
		var outs [2]io.Reader
		for i := range cs {
			cs[i] = child(t.Context(), "commit", path, -1)
			out, err := cs[i].StdoutPipe()
			if err == nil {
				err = cs[i].Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			outs[i] = out
		}
		lines := bufio.NewReader(outs[0])
		for range rnd.IntN(12) {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.ParseInt(line[:len(line)-1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			acked[n] = true
		}
		for i, c := range cs {
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			rest := outs[i]
			if i == 0 {
				rest = lines
			}
			for _, n := range scanNumbers(rest, -1) {
				acked[n] = true
			}
			_ = c.Wait()
		}
		db, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatalf("%v: Open: error %v, want no error", round, err)
		}
		clean(t, db)
		for n := range acked {
			if tx, err := db.Show(t.Context(), n, nil); err != nil || tx.Files != 20 {
				t.Errorf("round %d: build %d, which was acknowledged: %v; want its 20 files", round, n, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills, %d acknowledged builds", 2*kills, len(acked))
}

// Figures of an index of many keys, as childFigures prints them.
type figures struct {
	Keys             int64
	Open             time.Duration
	Filter           time.Duration // until the first filter of the process is there
	P50, P99, Max    time.Duration
	PerSecond        int
	RSSAfter, RSSMax int // KiB
	// The same after the first filter.
	RSSFilter, RSSFilterMax int
}

// figureEntry is object n of the generated index: a PDB or an ELF file with
// several keys. Only even numbers are committed; odd ones are absent.
func figureEntry(n int) record.Entry {
	rnd := rand.New(rand.NewPCG(uint64(n), 5))
	var g debugid.GUID
	for i := range g {
		g[i] = byte(rnd.Uint32())
	}
	o := symfile.Object{Role: symfile.Debug, Name: fmt.Sprintf("Module%d.pdb", n%100000), Kind: symfile.PDB, DebugID: debugid.ID{GUID: g, Age: 1}, InfoAge: 2}
	if n%4 == 0 {
		id := debugid.BuildID(g.Lower() + "01020304")
		o = symfile.Object{Role: symfile.Debug | symfile.Executable, Name: fmt.Sprintf("libmodule%d.so", n%100000), Kind: symfile.ELF,
			BuildID: id, CodeID: string(id), DebugID: id.DebugID(true)}
	}
	var r [32]byte
	copy(r[:], g[:])
	r[31] = 1
	return record.Entry{Object: o, Arch: "x86_64", Features: []string{"debug", "symtab"}, Ref: r, Size: int64(1000 + n), Aliases: o.Aliases(),
		Path: fmt.Sprintf("/builds/product/%d/bin/%s", n/5000, o.Name)}
}

// figure is the object of a number in the index that childFigures opens.
var figure = figureEntry

// childFigures opens the index and looks up random keys with eight readers.
// The index holds arg objects.
func childFigures(path string, arg int) error {
	ctx := context.Background()
	start := time.Now()
	db, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	f := figures{Open: time.Since(start)}
	const readers = 8
	perReader := max(200, min(50000, arg/11))
	if n, err := strconv.Atoi(os.Getenv("SYMDEPOT_INDEX_LOOKUPS")); err == nil {
		perReader = max(200, n/readers)
	}
	round := func(seed uint64) ([]time.Duration, error) {
		type result struct {
			took []time.Duration
			err  error
		}
		results := make(chan result)
		for r := range readers {
			go func() {
				rnd := rand.New(rand.NewPCG(seed, uint64(r)))
				var res result
				for range perReader {
					n := rnd.IntN(2 * arg)
					e := figure(n)
					a := e.Aliases[rnd.IntN(len(e.Aliases))]
					t := time.Now()
					hits, err := db.Lookup(ctx, record.Scope{All: true}, symfile.Lookup{Name: a.Name, ID: a.ID, Role: symfile.AnyRole})
					res.took = append(res.took, time.Since(t))
					if err == nil && (len(hits) == 1) != (n%2 == 0) {
						err = fmt.Errorf("object %d: %d hits", n, len(hits))
					}
					res.err = errors.Join(res.err, err)
				}
				results <- res
			}()
		}
		var all []time.Duration
		for range readers {
			r := <-results
			all, err = append(all, r.took...), errors.Join(err, r.err)
		}
		return all, err
	}
	if _, err := round(1); err != nil { // warm up
		return err
	}
	start = time.Now()
	took, err := round(2)
	if err != nil {
		return err
	}
	f.PerSecond = int(float64(len(took)) / time.Since(start).Seconds())
	sortDurations(took)
	f.P50, f.P99, f.Max = took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
	s, err := db.Stats(ctx)
	if err != nil {
		return err
	}
	f.Keys = s.Lookups
	f.RSSAfter, f.RSSMax = status("VmRSS"), status("VmHWM")
	if os.Getenv("SYMDEPOT_INDEX_FILTER") != "" {
		// Until the filter is there, misses are looked up.
		start = time.Now()
		filter := db.NewFilter()
		if err := filter.Refresh(ctx, 1); err != nil {
			return err
		}
		f.Filter = time.Since(start)
		f.RSSFilter, f.RSSFilterMax = status("VmRSS"), status("VmHWM")
		runtime.KeepAlive(filter)
	}
	return errors.Join(json.NewEncoder(os.Stdout).Encode(f), db.Close())
}

package symstore

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// childEnv makes the test binary a process that writes to a store. Its value is
// the work, a colon, a number, a colon, and the store.
const childEnv = "SYMDEPOT_SYMSTORE_TEST_CHILD"

// torture means that the long forms are asked for.
func torture() bool { return os.Getenv("SYMDEPOT_TORTURE") != "" }

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		if err := child(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(job string) error {
	work, rest, _ := strings.Cut(job, ":")
	number, dir, _ := strings.Cut(rest, ":")
	seed, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	var opt Options
	if symtest.Wine() != "" { // its speed on a busy machine is not tested
		opt.LockWait = 20 * time.Minute
	}
	s, err := Create(dir, One, opt)
	if err != nil {
		return err
	}
	defer s.Close()
	if work == "add" {
		return addChild(s, seed)
	}
	return endlessChild(s, uint64(seed))
}

// childFiles makes n files, of which every third has a key that all processes
// share.
func childFiles(dir string, seed, n int) ([]string, error) {
	var list []string
	for i := range n {
		stamp := uint32(seed+1)<<16 | uint32(i)
		if i%3 == 0 {
			stamp = uint32(i)
		}
		p := filepath.Join(dir, fmt.Sprintf("lib%d.dll", i))
		if err := os.WriteFile(p, peImage(stamp, 0x1000, strings.Repeat("content ", 2000)), 0o644); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// addChild adds as many files as it is told, as one transaction, and prints how
// long it waited and held the lock.
func addChild(s *Store, seed int) error {
	n, err := strconv.Atoi(os.Getenv(childEnv + "_FILES"))
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "symstore-child-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	list, err := childFiles(tmp, seed, n)
	if err != nil {
		return err
	}
	r, err := s.Add(context.Background(), AddOptions{Product: fmt.Sprint("p", seed), Compress: MSZIP}, paths(list...))
	if err != nil || r.Failed > 0 {
		return fmt.Errorf("%+v %w", r, err)
	}
	fmt.Println(r.ID, r.Waited.Microseconds(), r.Held.Microseconds())
	return nil
}

// endlessChild adds and deletes for ever and prints what it was promised.
func endlessChild(s *Store, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	tmp, err := os.MkdirTemp("", "symstore-child-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var mine []ID
	fmt.Println("ready")
	for {
		var list []string
		for i := range 1 + rng.IntN(6) {
			p := filepath.Join(tmp, fmt.Sprintf("lib%d.dll", i))
			if err := os.WriteFile(p, peImage(rng.Uint32N(40), 0x1000, "content"), 0o644); err != nil {
				return err
			}
			list = append(list, p)
		}
		if len(mine) > 2 && rng.IntN(3) == 0 {
			id := mine[0]
			mine = mine[1:]
			fmt.Println("deleting", id)
			if _, err := s.Del(context.Background(), id); err != nil {
				return err
			}
			continue
		}
		opt := AddOptions{Product: "kill"}
		if rng.IntN(2) == 0 {
			opt.Compress = MSZIP
		}
		fmt.Println("adding")
		r, err := s.Add(context.Background(), opt, paths(list...))
		if err != nil || r.Failed > 0 {
			return fmt.Errorf("%+v %w", r, err)
		}
		mine = append(mine, r.ID)
		fmt.Println("added", r.ID)
	}
}

// mustBeClean checks a store with its contents.
func mustBeClean(t testing.TB, s *Store) {
	t.Helper()
	found, err := s.Check(context.Background(), CheckOptions{Contents: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Errorf("check: %s, want nothing found", f)
	}
}

// TestProcesses lets many processes write to one store at once.
func TestProcesses(t *testing.T) {
	t.Parallel()
	processes, n := 10, 20
	switch {
	case torture() && symtest.Wine() != "": // one process serves all calls of the others
		n = 60
	case torture():
		processes, n = 30, 60
	case testing.Short():
		n = 5
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var mu sync.Mutex
	var ids []ID
	var waited, held time.Duration
	var wg sync.WaitGroup
	for i := range processes {
		wg.Go(func() {
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=add:%d:%s", childEnv, i, dir), fmt.Sprintf("%s_FILES=%d", childEnv, n))
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			f := strings.Fields(string(out))
			if err != nil || len(f) != 3 {
				t.Errorf("process %d: %v, %q; want three fields", i, err, out)
				return
			}
			id, err := ParseID(f[0])
			if err != nil {
				t.Error(err)
			}
			w, _ := strconv.Atoi(f[1])
			h, _ := strconv.Atoi(f[2])
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, id)
			waited = max(waited, time.Duration(w)*time.Microsecond)
			held = max(held, time.Duration(h)*time.Microsecond)
		})
	}
	wg.Wait()
	t.Logf("%d processes with %d files each: longest wait for the lock %v, longest hold %v", processes, n, waited, held)
	slices.Sort(ids)
	for i, id := range ids {
		if id != ID(i+1) {
			t.Fatalf("the numbers have gaps: %v, want every number", ids)
		}
	}
	if torture() && symtest.Wine() == "" && waited > time.Second {
		t.Errorf("a process waited %v for the lock, want at most 1 s", waited)
	}
	s := create(t, dir, One, Options{})
	total := 0
	for u, err := range s.Walk(t.Context()) {
		if err != nil || len(u.Entries) != n {
			t.Errorf("transaction %s has %d entries, %v; want no error and %v", u.ID, len(u.Entries), err, n)
		}
		total++
	}
	if total != processes {
		t.Errorf("%d transactions of %d, want %v", total, processes, processes)
	}
	checkOrder(t, s)
	mustBeClean(t, s)
}

// checkOrder makes sure that lines stand in the order of their numbers.
func checkOrder(t *testing.T, s *Store) {
	t.Helper()
	err := eachKeyDir(&s.disk, One, func(name, _, dir string) error {
		k, err := s.readKeyDir(dir, name)
		if err != nil {
			return err
		}
		if !slices.IsSortedFunc(k.refs, func(a, b Ref) int { return int(a.ID) - int(b.ID) }) {
			t.Errorf("%s: refs %q, want them in the order of their transactions", dir, printRefs(k.refs))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestGoroutines is the same within one process, on one Store and on many.
func TestGoroutines(t *testing.T) {
	t.Parallel()
	dir, src := t.TempDir(), t.TempDir()
	shared := create(t, dir, One, Options{})
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			s := shared
			if i%2 == 0 {
				s = create(t, dir, One, Options{})
			}
			sub := filepath.Join(src, fmt.Sprint(i))
			if err := os.Mkdir(sub, 0o755); err != nil {
				t.Error(err)
				return
			}
			list, err := childFiles(sub, i, 4)
			if err != nil {
				t.Error(err)
				return
			}
			r, err := s.Add(context.Background(), AddOptions{}, paths(list...))
			if err != nil || r.Failed > 0 {
				t.Errorf("Add: %+v, error %v; want Failed 0", r, err)
				return
			}
			if i%3 == 0 {
				if _, err := s.Del(context.Background(), r.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want(t, shared, "000Admin/lastid.txt", "0000000040")
	checkOrder(t, shared)
	mustBeClean(t, shared)
}

// TestKill kills processes that write, at random points.
func TestKill(t *testing.T) {
	t.Parallel()
	kills := 20
	switch {
	case torture() && symtest.Wine() != "":
		kills = 100
	case torture():
		kills = 300
	case testing.Short():
		kills = 5
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := create(t, dir, One, Options{})
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 0), 1))
	for i := range kills {
		live := map[ID]bool{}
		for tx, err := range s.Transactions(false) {
			if err != nil {
				t.Fatal(err)
			}
			live[tx.ID] = true
		}
		promised, gone := killOne(t, exe, fmt.Sprintf("endless:%d:%s", i, dir), rng)
		found, err := s.Check(t.Context(), CheckOptions{Contents: i%10 == 9})
		if err != nil {
			t.Fatalf("after kill %d: %v", i, err)
		}
		for _, f := range found {
			t.Errorf("after kill %d: %s, want nothing found", i, f)
		}
		for id := range live {
			promised[id] = true
		}
		for id := range promised {
			if gone[id] {
				continue
			}
			entries, err := s.Entries(id)
			if err != nil {
				t.Errorf("after kill %d: %v", i, err)
			}
			for _, e := range entries {
				if _, err := s.Find(e.Name, e.Key); err != nil {
					t.Errorf("after kill %d: %v", i, err)
				}
			}
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d kills", kills)
	if left := leftovers(t, s); len(left) > 0 {
		t.Errorf("left over: %q, want none", left)
	}
	mustBeClean(t, s)
}

// killOne starts a writer, kills it at a random time within one of its changes, and
// returns what it had been promised and what it may have deleted. It waits for up to
// twelve lines and then for a part of the time that the last whole change took, without
// sleeping, which would be too coarse.
func killOne(t *testing.T, exe, job string, rng *rand.Rand) (promised, gone map[ID]bool) {
	t.Helper()
	cmd := exec.Command(exe)
	promised, gone = map[ID]bool{}, map[ID]bool{}
	lines := symtest.Lines(t, cmd, childEnv+"="+job)
	left, part := 3+rng.IntN(10), rng.Float64()
	var began time.Time
	var took time.Duration
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		if id, err := ParseID(rest); err == nil {
			promised[id] = true
			if word == "deleting" {
				gone[id] = true
			}
		}
		switch word {
		case "adding":
			began = time.Now()
		case "added":
			took = time.Since(began)
		}
		if left--; left > 0 || word == "added" || took == 0 {
			continue
		}
		for limit := time.Now().Add(time.Duration(part * float64(took))); time.Now().Before(limit); {
			runtime.Gosched()
		}
		_ = cmd.Process.Kill()
	}
	if err := lines.Err(); err != nil && err != io.EOF {
		t.Log(err)
	}
	_ = cmd.Wait() // killed
	return promised, gone
}

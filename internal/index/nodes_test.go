package index

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/ctxio"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/symtest"
)

// openNodes opens one new database n times, each with a watch.
func openNodes(t *testing.T, n int) (dbs []*DB, watches []*engine.Watch) {
	t.Helper()
	where := newDatabase(t)
	for range n {
		db, err := Open(t.Context(), where, Options{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := db.Watch()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = db.Close()
			_ = w.Close()
		})
		dbs, watches = append(dbs, db), append(watches, w)
	}
	return dbs, watches
}

// A chore runs in one process at a time, once in its period, and is taken over
// from a process that died.
func TestDuties(t *testing.T) {
	t.Parallel()
	dbs, _ := openNodes(t, 3)
	var running, runs, most atomic.Int32
	run := func(context.Context) error {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer running.Add(-1)
		runs.Add(1)
		return nil
	}
	var wg sync.WaitGroup
	for range 4 {
		for _, db := range dbs {
			wg.Go(func() {
				if _, err := db.Nodes.Do(t.Context(), "chore", time.Hour, run); err != nil {
					t.Errorf(`Do("chore"): error %v, want no error`, err)
				}
			})
		}
	}
	wg.Wait()
	if runs.Load() != 1 || most.Load() != 1 {
		t.Errorf("the chore ran %d times, %d at once; want once in an hour", runs.Load(), most.Load())
	}
	failed := errors.New("failed")
	if ran, err := dbs[0].Nodes.Do(t.Context(), "failing", time.Hour, func(context.Context) error { return failed }); !ran || !errors.Is(err, failed) {
		t.Errorf("a failing chore: ran %v, error %v; want true and its own error", ran, err)
	}
	if ran, err := dbs[1].Nodes.Do(t.Context(), "failing", time.Hour, run); !ran || err != nil {
		t.Errorf("a chore after a failure elsewhere: ran %v, error %v, want another try", ran, err)
	}
	// Another process does not get the chore while it runs, longer than a lease.
	for _, db := range dbs {
		db.Nodes.life = 300 * time.Millisecond
	}
	ran, err := dbs[0].Nodes.Do(t.Context(), "long", 0, func(ctx context.Context) error {
		_ = ctxio.Pause(ctx, 3*dbs[0].Nodes.life)
		if ran, err := dbs[1].Nodes.Do(ctx, "long", 0, run); ran || err != nil {
			t.Errorf("a chore that another process runs: ran %v, error %v, want neither", ran, err)
		}
		return ctx.Err()
	})
	if !ran || err != nil {
		t.Errorf("a chore that lasts longer than its lease: ran %v, error %v", ran, err)
	}
	// A process that dies in a chore leaves its row.
	if held, err := dbs[0].Nodes.row(t.Context(), "", holdDuty, "orphan", "dead", 0.2, 0.0); !held || err != nil {
		t.Fatalf("take a duty: %v, %v; want true", held, err)
	}
	if ran, err := dbs[1].Nodes.Do(t.Context(), "orphan", 0, run); ran || err != nil {
		t.Errorf("the chore of a process that may be alive: ran %v, error %v, want neither", ran, err)
	}
	symtest.Await(t, 20*time.Second, "the takeover", func() bool {
		ran, err := dbs[1].Nodes.Do(t.Context(), "orphan", 0, run)
		if err != nil {
			t.Errorf("takeover: %v", err)
		}
		return ran
	})
	// The context of a chore ends when another process has taken it over.
	if _, err := dbs[0].Nodes.Do(t.Context(), "stolen", 0, func(ctx context.Context) error {
		if _, err := dbs[1].Nodes.row(ctx, "", "UPDATE duty SET node = 'thief' WHERE name = $1 RETURNING true", "stolen"); err != nil {
			t.Errorf("steal: %v", err)
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}); !errors.Is(err, errDutyLost) {
		t.Errorf("a chore whose lease was lost: error %v, want %v", err, errDutyLost)
	}
}

// Work that several processes want is done by one of them at a time, and can be
// done again.
func TestOnce(t *testing.T) {
	t.Parallel()
	dbs, _ := openNodes(t, 2)
	if ran, err := dbs[0].Nodes.Once(t.Context(), "form", func(ctx context.Context) error {
		if ran, err := dbs[1].Nodes.Once(ctx, "form", func(context.Context) error { return nil }); ran || err != nil {
			t.Errorf("work that another process does: ran %v, error %v, want neither", ran, err)
		}
		return nil
	}); !ran || err != nil {
		t.Errorf("Once: ran %v, error %v; want true and none", ran, err)
	}
	if ran, err := dbs[1].Nodes.Once(t.Context(), "form", func(context.Context) error { return nil }); !ran || err != nil {
		t.Errorf("work that was done before: ran %v, error %v; want true and none", ran, err)
	}
	var rows int
	if err := dbs[0].base.Points.Row(t.Context(), "SELECT count(*) FROM duty", nil, &rows); err != nil || rows != 0 {
		t.Errorf("%d rows after the work, error %v; want none", rows, err)
	}
}

// An index in a file has one process only as far as its parts are concerned.
func TestNodesOfAFile(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{})
	n := db.Nodes
	if n.Shared() {
		t.Error("a file is shared, want not")
	}
	if ran, err := n.Do(t.Context(), "chore", time.Hour, func(context.Context) error { return nil }); !ran || err != nil {
		t.Errorf("Do: ran %v, error %v; want true and none", ran, err)
	}
	if first, err := n.FirstUse(t.Context(), [16]byte{}, time.Hour); !first || err != nil {
		t.Errorf("FirstUse: %v, %v; want true", first, err)
	}
	if err := errors.Join(n.Pause(t.Context(), "s", time.Hour, ""), n.Sweep(t.Context())); err != nil {
		t.Error(err)
	}
	if _, ok := n.Pool(); ok {
		t.Error("a file has a pool of connections, want none")
	}
}

// An authenticator is new for one process only, until it expires.
func TestReplays(t *testing.T) {
	t.Parallel()
	dbs, _ := openNodes(t, 4)
	for i := range 5 {
		key := [16]byte{byte(i)}
		var first atomic.Int32
		var wg sync.WaitGroup
		for _, db := range dbs {
			wg.Go(func() {
				is, err := db.Nodes.FirstUse(t.Context(), key, time.Hour)
				if err != nil {
					t.Error(err)
				}
				if is {
					first.Add(1)
				}
			})
		}
		wg.Wait()
		if first.Load() != 1 {
			t.Errorf("authenticator %d: the first use of %d processes, want 1", i, first.Load())
		}
	}
	old := [16]byte{99}
	if is, err := dbs[0].Nodes.FirstUse(t.Context(), old, -time.Second); !is || err != nil {
		t.Fatalf("FirstUse: %v, %v; want true", is, err)
	}
	if is, err := dbs[1].Nodes.FirstUse(t.Context(), old, time.Hour); !is || err != nil {
		t.Errorf("an expired use counts: %v, %v; want true", is, err)
	}
	if err := dbs[0].Nodes.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if is, err := dbs[0].Nodes.FirstUse(t.Context(), old, time.Hour); is || err != nil {
		t.Errorf("a use after a sweep: first %v, error %v, want the recorded one", is, err)
	}
}

// What one process announces or pauses, the others know.
func TestSharedNews(t *testing.T) {
	t.Parallel()
	dbs, watches := openNodes(t, 3)
	for i, w := range watches[:2] {
		if err := w.Announce(t.Context(), []string{"10.0.0.1:1", "10.0.0.2:1"}[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i, w := range watches {
		symtest.Await(t, 20*time.Second, "two peers", func() bool {
			s, ok := w.Shared()
			return ok && len(s.Peers) == 2 && s.Nodes == 3
		})
		s, _ := w.Shared()
		if other, _ := watches[0].Shared(); !slices.Equal(s.Peers, other.Peers) {
			t.Errorf("node %d knows the peers %v, node 0 %v; want %v", i, s.Peers, other.Peers, other.Peers)
		}
	}
	if err := watches[1].Announce(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	symtest.Await(t, 20*time.Second, "one peer", func() bool {
		s, _ := watches[0].Shared()
		return len(s.Peers) == 1 && s.Peers[0].Address == "10.0.0.1:1" && s.Peers[0].ID == s.Self
	})
	start := time.Now()
	if err := dbs[0].Nodes.Pause(t.Context(), "corp", time.Hour, "429"); err != nil {
		t.Fatal(err)
	}
	if err := dbs[2].Nodes.Pause(t.Context(), "corp", time.Minute, "429 again"); err != nil { // does not shorten it
		t.Fatal(err)
	}
	for _, w := range watches {
		symtest.Await(t, 20*time.Second, "the pause", func() bool {
			s, _ := w.Shared()
			return len(s.Pauses) == 1 && s.Pauses[0].Upstream == "corp" && s.Pauses[0].Until.Sub(start) > 59*time.Minute
		})
	}
	if p, ok := dbs[0].Nodes.Pool(); !ok || p.Most < 8 {
		t.Errorf("pool %+v, %v; want at least 8 connections", p, ok)
	}
}

// When misses are forgotten in one process, all know before it returns.
func TestMissEpoch(t *testing.T) {
	t.Parallel()
	dbs, watches := openNodes(t, 3)
	epochs := func() (list []uint64) {
		for _, w := range watches {
			s, ok := w.Shared()
			if !ok {
				t.Error("a node knows nothing of the others")
			}
			list = append(list, s.MissEpoch)
		}
		return list
	}
	before := epochs()
	misses := []Miss{{Key: "a", Source: "s", Class: 1, Until: time.Now().Add(time.Hour)}, {Key: "b", Source: "s", Class: 1, Until: time.Now().Add(time.Hour)}}
	if err := dbs[0].Misses.Put(t.Context(), misses); err != nil {
		t.Fatal(err)
	}
	if n, err := dbs[1].Misses.Flush(t.Context(), MissFilter{Source: "other"}); n != 0 || err != nil {
		t.Errorf("Flush of nothing: %d, %v; want 0", n, err)
	}
	if now := epochs(); !slices.Equal(now, before) {
		t.Errorf("epochs %v after nothing was forgotten, want %v", now, before)
	}
	if n, err := dbs[1].Misses.Flush(t.Context(), MissFilter{Source: "s"}); n != 2 || err != nil {
		t.Errorf("Flush: %d, %v, want 2 misses", n, err)
	}
	for i, e := range epochs() {
		if e <= before[i] {
			t.Errorf("node %d: epoch %d after misses were forgotten elsewhere, want more than %d", i, e, before[i])
		}
	}
}

// A job that may begin at once may begin in a process whose idea of the server's
// time is a little behind.
func TestJobAtOnce(t *testing.T) {
	t.Parallel()
	where := newDatabase(t)
	dbs := make([]*DB, 2)
	for i, now := range []func() time.Time{func() time.Time { return dbs[1].base.Now().Add(900 * time.Millisecond) }, nil} {
		var err error
		if dbs[i], err = Open(t.Context(), where, Options{Now: now}); err != nil {
			t.Fatal(err)
		}
		defer dbs[i].Close()
	}
	if _, _, err := dbs[0].Jobs.Enqueue(t.Context(), Job{Kind: "symcache", Key: "k"}); err != nil {
		t.Fatal(err)
	}
	if jobs := lease(t, dbs[1], "w", 1); len(jobs) != 1 || !jobs[0].NotBefore.IsZero() {
		t.Errorf("%d jobs %+v, want one without a time before which it must not begin", len(jobs), jobs)
	}
}

// A process learns at once of the jobs that others enter and end.
func TestJobNews(t *testing.T) {
	t.Parallel()
	dbs, watches := openNodes(t, 2)
	heard := make(chan struct{}, 64)
	watches[1].OnJobs(func() {
		select {
		case heard <- struct{}{}:
		default:
		}
	})
	await := func(what string) {
		t.Helper()
		select {
		case <-heard:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: the other process heard nothing", what)
		}
	}
	if _, _, err := dbs[0].Jobs.Enqueue(t.Context(), Job{Kind: "symcache", Key: "k"}); err != nil {
		t.Fatal(err)
	}
	await("enqueue")
	jobs := lease(t, dbs[1], "w", 1)
	if len(jobs) != 1 {
		t.Fatalf("%d jobs, want 1", len(jobs))
	}
	if err := dbs[0].Jobs.Release(t.Context(), jobs[0].ID, "w", jobs[0].Token); err != nil {
		t.Fatal(err)
	}
	await("release")
	jobs = lease(t, dbs[1], "w", 1)
	if err := dbs[0].Jobs.Complete(t.Context(), jobs[0].ID, "w", jobs[0].Token, Outcome{Class: "ok"}); err != nil {
		t.Fatal(err)
	}
	await("complete")
}

package index

import (
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/internal/index/queue"
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
	list := []misses.Miss{{Key: "a", Source: "s", Class: 1, Until: time.Now().Add(time.Hour)}, {Key: "b", Source: "s", Class: 1, Until: time.Now().Add(time.Hour)}}
	if err := dbs[0].Misses.Put(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if n, err := dbs[1].Misses.Flush(t.Context(), misses.MissFilter{Source: "other"}); n != 0 || err != nil {
		t.Errorf("Flush of nothing: %d, %v; want 0", n, err)
	}
	if now := epochs(); !slices.Equal(now, before) {
		t.Errorf("epochs %v after nothing was forgotten, want %v", now, before)
	}
	if n, err := dbs[1].Misses.Flush(t.Context(), misses.MissFilter{Source: "s"}); n != 2 || err != nil {
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
	if _, _, err := dbs[0].Jobs.Enqueue(t.Context(), queue.Job{Kind: "symcache", Key: "k"}); err != nil {
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
	if _, _, err := dbs[0].Jobs.Enqueue(t.Context(), queue.Job{Kind: "symcache", Key: "k"}); err != nil {
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
	if err := dbs[0].Jobs.Complete(t.Context(), jobs[0].ID, "w", jobs[0].Token, queue.Outcome{Class: "ok"}); err != nil {
		t.Fatal(err)
	}
	await("complete")
}

package nodes

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/enginetest"
	"github.com/symdepot/symdepot/internal/index/pgtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.End()
	os.Exit(code)
}

// openNodes opens one new database n times.
func openNodes(t *testing.T, n int) (list []*Nodes) {
	t.Helper()
	for _, db := range enginetest.Shared(t, n) {
		nodes := NewNodes(db, 30*time.Second)
		list = append(list, &nodes)
	}
	return list
}

// A chore runs in one process at a time, once in its period, and is taken over
// from a process that died.
func TestDuties(t *testing.T) {
	t.Parallel()
	dbs := openNodes(t, 3)
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
				if _, err := db.Do(t.Context(), "chore", time.Hour, run); err != nil {
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
	if ran, err := dbs[0].Do(t.Context(), "failing", time.Hour, func(context.Context) error { return failed }); !ran || !errors.Is(err, failed) {
		t.Errorf("a failing chore: ran %v, error %v; want true and its own error", ran, err)
	}
	if ran, err := dbs[1].Do(t.Context(), "failing", time.Hour, run); !ran || err != nil {
		t.Errorf("a chore after a failure elsewhere: ran %v, error %v, want another try", ran, err)
	}
	// Another process does not get the chore while it runs, longer than a lease.
	for _, db := range dbs {
		db.life = 300 * time.Millisecond
	}
	ran, err := dbs[0].Do(t.Context(), "long", 0, func(ctx context.Context) error {
		_ = ctxio.Pause(ctx, 3*dbs[0].life)
		if ran, err := dbs[1].Do(ctx, "long", 0, run); ran || err != nil {
			t.Errorf("a chore that another process runs: ran %v, error %v, want neither", ran, err)
		}
		return ctx.Err()
	})
	if !ran || err != nil {
		t.Errorf("a chore that lasts longer than its lease: ran %v, error %v", ran, err)
	}
	// A process that dies in a chore leaves its row.
	if held, err := dbs[0].row(t.Context(), "", holdDuty, "orphan", "dead", 0.2, 0.0); !held || err != nil {
		t.Fatalf("take a duty: %v, %v; want true", held, err)
	}
	if ran, err := dbs[1].Do(t.Context(), "orphan", 0, run); ran || err != nil {
		t.Errorf("the chore of a process that may be alive: ran %v, error %v, want neither", ran, err)
	}
	symtest.Await(t, 20*time.Second, "the takeover", func() bool {
		ran, err := dbs[1].Do(t.Context(), "orphan", 0, run)
		if err != nil {
			t.Errorf("takeover: %v", err)
		}
		return ran
	})
	// The context of a chore ends when another process has taken it over.
	if _, err := dbs[0].Do(t.Context(), "stolen", 0, func(ctx context.Context) error {
		if _, err := dbs[1].row(ctx, "", "UPDATE duty SET node = 'thief' WHERE name = $1 RETURNING true", "stolen"); err != nil {
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
	dbs := openNodes(t, 2)
	if ran, err := dbs[0].Once(t.Context(), "form", func(ctx context.Context) error {
		if ran, err := dbs[1].Once(ctx, "form", func(context.Context) error { return nil }); ran || err != nil {
			t.Errorf("work that another process does: ran %v, error %v, want neither", ran, err)
		}
		return nil
	}); !ran || err != nil {
		t.Errorf("Once: ran %v, error %v; want true and none", ran, err)
	}
	if ran, err := dbs[1].Once(t.Context(), "form", func(context.Context) error { return nil }); !ran || err != nil {
		t.Errorf("work that was done before: ran %v, error %v; want true and none", ran, err)
	}
	var rows int
	if err := dbs[0].db.Points.Row(t.Context(), "SELECT count(*) FROM duty", nil, &rows); err != nil || rows != 0 {
		t.Errorf("%d rows after the work, error %v; want none", rows, err)
	}
}

// An index in a file has one process only as far as its parts are concerned.
func TestNodesOfAFile(t *testing.T) {
	t.Parallel()
	n := NewNodes(enginetest.File(t), time.Minute)
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
	dbs := openNodes(t, 4)
	for i := range 5 {
		key := [16]byte{byte(i)}
		var first atomic.Int32
		var wg sync.WaitGroup
		for _, db := range dbs {
			wg.Go(func() {
				is, err := db.FirstUse(t.Context(), key, time.Hour)
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
	if is, err := dbs[0].FirstUse(t.Context(), old, -time.Second); !is || err != nil {
		t.Fatalf("FirstUse: %v, %v; want true", is, err)
	}
	if is, err := dbs[1].FirstUse(t.Context(), old, time.Hour); !is || err != nil {
		t.Errorf("an expired use counts: %v, %v; want true", is, err)
	}
	if err := dbs[0].Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if is, err := dbs[0].FirstUse(t.Context(), old, time.Hour); is || err != nil {
		t.Errorf("a use after a sweep: first %v, error %v, want the recorded one", is, err)
	}
}

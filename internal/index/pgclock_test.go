package index

import (
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/queue"
)

// TestServerClock has a server whose clock differs: leases end by that clock, on
// all nodes, and a running node notices when it is set.
func TestServerClock(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	where := s.Database(t)
	const ahead = 4 * time.Minute
	name := where[len(s.URL(""))-len("?sslmode=disable") : len(where)-len("?sslmode=disable")]
	s.In(t, name, "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + interval ''4 minutes'''",
		"ALTER DATABASE "+name+" SET search_path = public, pg_catalog")
	n := openNode(t, where)
	near := func(what string, at, want time.Time) {
		t.Helper()
		if at.Sub(want).Abs() > 30*time.Second {
			t.Errorf("%s: %v, want about %v", what, at, want)
		}
	}
	near("the time", n.base.Now(), time.Now().Add(ahead))
	if _, _, err := n.Jobs.Enqueue(t.Context(), queue.Job{Kind: "k", Key: "x"}); err != nil {
		t.Fatal(err)
	}
	jobs, err := n.Jobs.Lease(t.Context(), "worker", nil, nil, 2*time.Minute, 1)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs leased, %v, want one", len(jobs), err)
	}
	near("the end of the lease", jobs[0].LeaseUntil, time.Now().Add(ahead+2*time.Minute))
	other := openNode(t, where)
	if jobs, err = other.Jobs.Lease(t.Context(), "thief", nil, nil, time.Minute, 1); err != nil || len(jobs) != 0 {
		t.Errorf("another node leases %d jobs, %v, want none: the lease has not ended", len(jobs), err)
	}
	s.In(t, name, "DROP FUNCTION public.clock_timestamp()")
	symtest.Await(t, time.Minute, "the new time of the server", func() bool { return time.Until(n.base.Now()) < ahead/2 })
}

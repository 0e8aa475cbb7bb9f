package index

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/queue"
)

func enqueue(t testing.TB, db *DB, j queue.Job) int64 {
	t.Helper()
	id, existing, err := db.Jobs.Enqueue(t.Context(), j)
	if err != nil || existing {
		t.Fatalf("Enqueue: %v, %v, error %v; want false", id, existing, err)
	}
	return id
}

func lease(t testing.TB, db *DB, worker string, n int) []queue.Job {
	t.Helper()
	jobs, err := db.Jobs.Lease(t.Context(), worker, []string{"symcache"}, nil, time.Minute, n)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func TestJobs(t *testing.T) { onEngines(t, testJobs) }

func testJobs(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	g, _ := db.Generation(t.Context())
	job := queue.Job{Kind: "symcache", Key: "k", Variant: 3, Payload: json.RawMessage(`{"a":1}`), Priority: 1, NotBefore: c.t.Add(time.Minute)}
	id := enqueue(t, db, job)
	job.Priority = 7
	want := queue.Job{ID: id, Kind: "symcache", Key: "k", Variant: 3, Payload: job.Payload, State: queue.JobQueued, Priority: 7, MaxAttempts: 5, Created: c.t, NotBefore: job.NotBefore}
	// check compares the stored job with want.
	check := func(t *testing.T) {
		t.Helper()
		got, err := db.Jobs.Job(t.Context(), id)
		if a, b := asJSON(t, got), asJSON(t, want); a != b || err != nil {
			t.Errorf("Job(%d): error %v and\n%s, want\n%s", id, err, a, b)
		}
		if last, err := db.Jobs.Last(t.Context(), "symcache", "k", 3); err != nil || last.ID != id {
			t.Errorf("LastJob: job %d, error %v; want job %d", last.ID, err, id)
		}
		clean(t, db)
	}
	// enterAgain enters the same job, which exists.
	enterAgain := func(t *testing.T) {
		t.Helper()
		if again, existing, err := db.Jobs.Enqueue(t.Context(), job); again != id || !existing || err != nil {
			t.Errorf("Enqueue: job %d, existing %v, error %v; want the existing job %d", again, existing, err, id)
		}
	}
	// leased leases the job to a worker and returns the token.
	leased := func(t *testing.T, worker string) string {
		t.Helper()
		jobs := lease(t, db, worker, 5)
		if len(jobs) != 1 || jobs[0].ID != id || jobs[0].Token == "" {
			t.Fatalf("Lease: %+v, want job %d with a token", jobs, id)
		}
		return jobs[0].Token
	}
	lost := func(t *testing.T, what string, err error) {
		t.Helper()
		if !errors.Is(err, queue.ErrLeaseLost) {
			t.Errorf("%s: error %v, want %v", what, err, queue.ErrLeaseLost)
		}
	}
	t.Run("malformed", func(t *testing.T) {
		for name, j := range map[string]queue.Job{
			"no key": {Kind: "symcache"}, "no kind": {Key: "k"}, "payload that is not JSON": {Kind: "symcache", Key: "x", Payload: json.RawMessage("{")},
			"large payload": {Kind: "a", Key: "b", Payload: make([]byte, 2<<20)},
		} {
			if _, _, err := db.Jobs.Enqueue(t.Context(), j); err == nil {
				t.Errorf("Enqueue of a job with %s succeeded, want an error", name)
			}
		}
	})
	t.Run("queued", func(t *testing.T) {
		enterAgain(t)
		if jobs := lease(t, db, "w", 5); jobs != nil {
			t.Errorf("Lease before the job's time: %+v, want none", jobs)
		}
		check(t)
	})
	var token string
	t.Run("running", func(t *testing.T) {
		c.hours(1)
		token = leased(t, "w")
		want.State, want.Attempts, want.Started, want.LeaseUntil, want.Worker = queue.JobRunning, 1, c.t, c.t.Add(time.Minute), "w"
		check(t)
		enterAgain(t)
		for _, bad := range []struct{ worker, token string }{{"w", "x"}, {"w", ""}, {"v", token}} {
			proof := fmt.Sprintf(" by %q with the token %q", bad.worker, bad.token)
			lost(t, "Heartbeat"+proof, db.Jobs.Heartbeat(t.Context(), id, bad.worker, bad.token, time.Hour))
			lost(t, "Release"+proof, db.Jobs.Release(t.Context(), id, bad.worker, bad.token))
			lost(t, "Complete"+proof, db.Jobs.Complete(t.Context(), id, bad.worker, bad.token, queue.Outcome{}))
			lost(t, "Fail"+proof, db.Jobs.Fail(t.Context(), id, bad.worker, bad.token, queue.Outcome{Retry: c.t}))
		}
		if err := db.Jobs.Heartbeat(t.Context(), id, "w", token, time.Hour); err != nil {
			t.Errorf("Heartbeat: %v", err)
		}
		want.LeaseUntil = c.t.Add(time.Hour)
		check(t)
	})
	retry := c.t.Add(2 * time.Hour)
	t.Run("failed, to be tried again", func(t *testing.T) {
		if err := db.Jobs.Fail(t.Context(), id, "w", token, queue.Outcome{Class: "busy", Detail: "no room", Retry: retry}); err != nil {
			t.Errorf("Fail: %v", err)
		}
		want.State, want.LeaseUntil, want.Outcome, want.Detail, want.NotBefore = queue.JobQueued, time.Time{}, "busy", "no room", retry
		check(t)
		lost(t, "Heartbeat after Fail", db.Jobs.Heartbeat(t.Context(), id, "w", token, time.Hour))
	})
	t.Run("done", func(t *testing.T) {
		c.hours(2)
		first := token
		if token = leased(t, "v"); token == first {
			t.Errorf("the second lease has the token of the first, want another")
		}
		c.t = c.t.Add(3 * time.Second)
		r := ref(9)
		for range 2 { // the first answer may have been lost
			if err := db.Jobs.Complete(t.Context(), id, "v", token, queue.Outcome{Class: "ok", Result: &r}); err != nil {
				t.Errorf("Complete: %v", err)
			}
		}
		want.State, want.Attempts, want.Started, want.Finished, want.Worker, want.Outcome, want.Detail, want.Result = queue.JobDone, 2, retry, c.t, "v", "ok", "", &r
		check(t)
		lost(t, "Fail after Complete", db.Jobs.Fail(t.Context(), id, "v", token, queue.Outcome{}))
		if was, err := db.Jobs.Cancel(t.Context(), id); was || err != nil {
			t.Errorf("Cancel of a job that is done: %v, error %v; want false", was, err)
		}
	})
	t.Run("not found", func(t *testing.T) {
		_, cancel := db.Jobs.Cancel(t.Context(), 99)
		_, byID := db.Jobs.Job(t.Context(), 99)
		_, byKey := db.Jobs.Last(t.Context(), "symcache", "k", 4)
		for name, err := range map[string]error{"Cancel": cancel, "Job": byID, "LastJob": byKey} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s of an unknown job: error %v, want %v", name, err, fs.ErrNotExist)
			}
		}
	})
	t.Run("entered again after its end", func(t *testing.T) {
		second := enqueue(t, db, queue.Job{Kind: "symcache", Key: "k", Variant: 3})
		if was, err := db.Jobs.Cancel(t.Context(), second); !was || err != nil {
			t.Errorf("Cancel of a queued job: %v, error %v; want true", was, err)
		}
	})
	if g2, _ := db.Generation(t.Context()); g2 != g {
		t.Errorf("generation %d after jobs, want still %d", g2, g)
	}
	clean(t, db)
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLeaseOrder(t *testing.T) { onEngines(t, testLeaseOrder) }

func testLeaseOrder(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	for i, p := range []int{0, 5, 0, 5, -1} {
		enqueue(t, db, queue.Job{Kind: "symcache", Key: strconv.Itoa(i), Variant: i % 2, Priority: p})
	}
	enqueue(t, db, queue.Job{Kind: "other", Key: "x", Priority: 9})
	if _, err := db.Jobs.Lease(t.Context(), "", nil, nil, time.Minute, 1); err == nil {
		t.Error("Lease by a worker without a name succeeded, want an error")
	}
	keys := func(jobs []queue.Job) (keys []string) {
		for _, j := range jobs {
			keys = append(keys, j.Key)
		}
		return keys
	}
	for _, c := range []struct {
		name     string
		kinds    []string
		variants []int
		n        int
		want     []string
	}{
		{"unknown kind", []string{"nothing"}, nil, 5, nil},
		{"one variant", []string{"symcache"}, []int{1}, 1, []string{"1"}},
		{"priority before age", []string{"symcache"}, []int{0, 1}, 2, []string{"3", "0"}},
		{"any kind", nil, []int{0}, 1, []string{"x"}},
		{"the rest", nil, nil, 9, []string{"2", "4"}},
	} {
		t.Run("lease, "+c.name, func(t *testing.T) {
			jobs, err := db.Jobs.Lease(t.Context(), "w", c.kinds, c.variants, time.Minute, c.n)
			if got := keys(jobs); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("Lease of kinds %v, variants %v: %v, error %v; want %v", c.kinds, c.variants, got, err, c.want)
			}
		})
	}
	newest, err := db.Jobs.List(t.Context(), queue.JobFilter{Kind: "symcache", Variants: []int{0}, States: []queue.JobState{queue.JobRunning}, Worker: "w", Limit: 2})
	if err != nil || len(newest) != 2 {
		t.Fatalf("Jobs: %d, error %v; want 2", len(newest), err)
	}
	for _, c := range []struct {
		name   string
		filter queue.JobFilter
		want   []string
	}{
		{"newest first, limited", queue.JobFilter{Kind: "symcache", Variants: []int{0}, States: []queue.JobState{queue.JobRunning}, Worker: "w", Limit: 2}, []string{"4", "2"}},
		{"before a job", queue.JobFilter{Before: newest[1].ID}, []string{"1", "0"}},
		{"other states", queue.JobFilter{Key: "4", States: []queue.JobState{queue.JobDone, queue.JobQueued}}, nil},
	} {
		t.Run("list, "+c.name, func(t *testing.T) {
			jobs, err := db.Jobs.List(t.Context(), c.filter)
			if got := keys(jobs); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("Jobs(%+v): %v, error %v; want %v", c.filter, got, err, c.want)
			}
		})
	}
}

// TestLostWorkers: the job of a worker that stopped sending heartbeats is
// leased to the next one, until the attempts are used up.
func TestLostWorkers(t *testing.T) { onEngines(t, testLostWorkers) }

func testLostWorkers(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	id := enqueue(t, db, queue.Job{Kind: "symcache", Key: "k", MaxAttempts: 3})
	first := lease(t, db, "a", 1)[0]
	if jobs := lease(t, db, "b", 1); jobs != nil {
		t.Fatalf("a leased job was leased again: %+v, want none", jobs)
	}
	c.hours(1)
	stats, err := db.Jobs.Stats(t.Context())
	if err != nil || len(stats) != 1 || stats[0].Running != 1 || stats[0].Lost != 1 {
		t.Errorf("JobStats: %+v, error %v; want length 1, stats[0].Running 1, stats[0].Lost 1", stats, err)
	}
	// Nobody took it yet: a late heartbeat keeps it, a late result counts.
	if err := db.Jobs.Heartbeat(t.Context(), id, "a", first.Token, time.Minute); err != nil {
		t.Error(err)
	}
	if jobs := lease(t, db, "b", 1); jobs != nil {
		t.Fatalf("a leased job was leased again: %+v, want none", jobs)
	}
	c.hours(1)
	if jobs, err := db.Jobs.Lease(t.Context(), "c", []string{"other"}, nil, time.Minute, 1); err != nil || jobs != nil {
		t.Errorf(`Lease("c", 1): %v, error %v; want nil`, jobs, err)
	}
	clean(t, db)
	if j, _ := db.Jobs.Job(t.Context(), id); j.State != queue.JobQueued || j.Outcome != queue.OutcomeLost || j.Detail != "no heartbeat from a" {
		t.Errorf(`Job: %+v, want State %v, Outcome %v, Detail "no heartbeat from a"`, j, queue.JobQueued, queue.OutcomeLost)
	}
	if err := db.Jobs.Heartbeat(t.Context(), id, "a", first.Token, time.Minute); err != nil {
		t.Error(err)
	}
	c.hours(1)
	second := lease(t, db, "b", 1)
	if len(second) != 1 || second[0].Attempts != 2 {
		t.Fatalf(`lease("b", 1): %+v, want length 1, second[0].Attempts 2`, second)
	}
	if err := db.Jobs.Complete(t.Context(), id, "a", first.Token, queue.Outcome{}); !errors.Is(err, queue.ErrLeaseLost) {
		t.Error(err)
	}
	// Giving back costs no attempt.
	if err := db.Jobs.Release(t.Context(), id, "b", second[0].Token); err != nil {
		t.Error(err)
	}
	for range 2 {
		if jobs := lease(t, db, "b", 1); len(jobs) != 1 {
			t.Fatal("not given out")
		}
		c.hours(1)
	}
	if jobs := lease(t, db, "b", 1); jobs != nil {
		t.Fatalf("given out too often: %+v", jobs)
	}
	if j, _ := db.Jobs.Job(t.Context(), id); j.State != queue.JobFailed || j.Outcome != queue.OutcomeLost || j.Finished.IsZero() {
		t.Errorf("Job: %+v, want State %v, Outcome %v, not j.Finished.IsZero()", j, queue.JobFailed, queue.OutcomeLost)
	}
	// With no attempts left, a failure is for good.
	id = enqueue(t, db, queue.Job{Kind: "symcache", Key: "k", MaxAttempts: 1})
	last := lease(t, db, "b", 1)[0]
	c.t = c.t.Add(5 * time.Second)
	for range 2 {
		if err := db.Jobs.Fail(t.Context(), id, "b", last.Token, queue.Outcome{Class: "crash", Retry: c.t}); err != nil {
			t.Error(err)
		}
	}
	enqueue(t, db, queue.Job{Kind: "symcache", Key: "k"})
	c.hours(1)
	enqueue(t, db, queue.Job{Kind: "symcache", Key: "l", NotBefore: c.t.Add(time.Second)})
	stats, err = db.Jobs.Stats(t.Context())
	want := []queue.JobStats{{Kind: "symcache", Queued: 2, Delayed: 1, Oldest: c.t.Add(-time.Hour), Outcomes: []queue.JobOutcome{
		{State: queue.JobFailed, Class: "crash", Jobs: 1, Total: 5 * time.Second, Longest: 5 * time.Second}, {State: queue.JobFailed, Class: queue.OutcomeLost, Jobs: 1, Total: time.Hour, Longest: time.Hour}}}}
	if a, b := asJSON(t, stats), asJSON(t, want); a != b || err != nil {
		t.Errorf("%s, %v, want\n%s", a, err, b)
	}
	if n, err := db.Jobs.Sweep(t.Context(), c.t); n != 2 || err != nil {
		t.Errorf("SweepJobs: %v, error %v; want 2", n, err)
	}
	clean(t, db)
	// Ids are never given out twice.
	if next := enqueue(t, db, queue.Job{Kind: "symcache", Key: "m"}); next != id+3 {
		t.Errorf("enqueue: %v, want %v", next, id+3)
	}
}

// TestManyWorkers: several handles lease from one queue at once; each job is
// leased once, and equal jobs are queued once.
func TestManyWorkers(t *testing.T) { onEngines(t, testManyWorkers) }

func testManyWorkers(t *testing.T) {
	db := openTest(t, Options{})
	const keys, handles = 40, 3
	dbs := []*DB{db}
	for len(dbs) < handles {
		dbs = append(dbs, reopen(t, db, Options{}))
	}
	var mu sync.Mutex
	created, done := 0, map[int64]int{}
	var wg sync.WaitGroup
	for i := range handles {
		wg.Go(func() {
			for k := range keys {
				_, existing, err := dbs[i].Jobs.Enqueue(t.Context(), queue.Job{Kind: "symcache", Key: strconv.Itoa((k + i*7) % keys)})
				if err != nil {
					t.Error(err)
				}
				if !existing {
					mu.Lock()
					created++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if created != keys {
		t.Errorf("%d jobs for %d purposes, want %v", created, keys, keys)
	}
	for i := range handles * 2 {
		wg.Go(func() {
			worker := "w" + strconv.Itoa(i)
			for {
				jobs, err := dbs[i%handles].Jobs.Lease(t.Context(), worker, nil, nil, time.Hour, 3)
				if err != nil {
					t.Error(err)
				}
				if len(jobs) == 0 {
					return
				}
				for _, j := range jobs {
					mu.Lock()
					done[j.ID]++
					mu.Unlock()
					if err := dbs[i%handles].Jobs.Complete(t.Context(), j.ID, worker, j.Token, queue.Outcome{Class: "ok"}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for id, n := range done {
		if n != 1 {
			t.Errorf("job %d was given out %d times, want 1", id, n)
		}
	}
	if len(done) != keys {
		t.Errorf("%d of %d jobs were given out, want %v", len(done), keys, keys)
	}
	clean(t, db)
}

func TestJobState(t *testing.T) {
	for s := queue.JobQueued; s <= queue.JobCancelled; s++ {
		if got, err := queue.ParseJobState(s.String()); got != s || err != nil {
			t.Errorf("ParseJobState: %v, %v, error %v; want %v", s, got, err, s)
		}
	}
	for _, word := range []string{"", "unknown", "Done"} {
		if _, err := queue.ParseJobState(word); err == nil {
			t.Errorf("%v: ParseJobState, want an error", word)
		}
	}
	if queue.JobState(200).String() != "unknown" {
		t.Error("a state from nowhere")
	}
}

package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/indextest"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// testKind is a kind of job whose functions a test decides. The zero value makes
// nothing on this machine, and each result is right.
type testKind struct {
	name     string
	able     []Ability
	full     bool // no resources for another job
	source   *blob.Ref
	rules    map[string]Rule
	existing func(Job) (*Outcome, error)
	make     func(context.Context, Job) (Outcome, error)
	open     func(Job) (File, error)
	keep     func(Job, Result) error
}

func (k *testKind) Name() string         { return k.name }
func (k *testKind) Abilities() []Ability { return k.able }
func (k *testKind) CanStart() bool       { return !k.full }
func (k *testKind) Rule(c string) Rule   { return k.rules[c] }

func (k *testKind) CheckAbility(a Ability) (Ability, error) {
	if a.Version == "" {
		return a, fmt.Errorf("%w: no version", ErrBadWorker)
	}
	return a, nil
}

func (k *testKind) CheckFailure(f Failure) (Failure, error) {
	if f.Class == "" {
		return f, fmt.Errorf("%w: no class", ErrBadWorker)
	}
	return f, nil
}

func (k *testKind) Input(_ context.Context, j Job) (Input, error) {
	return Input{Message: json.RawMessage(strconv.Quote(j.Key)), Source: k.source, Version: fmt.Sprint(j.Variant, ".0")}, nil
}

func (k *testKind) Existing(_ context.Context, j Job) (*Outcome, error) {
	if k.existing == nil {
		return nil, nil
	}
	return k.existing(j)
}

func (k *testKind) Make(ctx context.Context, j Job) (Outcome, error) { return k.make(ctx, j) }

func (k *testKind) Open(_ context.Context, j Job) (File, error) {
	if k.open == nil {
		return nopCloser{bytes.NewReader([]byte("input of " + j.Key))}, nil
	}
	return k.open(j)
}

func (k *testKind) Keep(_ context.Context, j Job, r Result, body io.Reader) (Outcome, error) {
	b, err := io.ReadAll(body)
	if err == nil && k.keep != nil {
		err = k.keep(j, r)
	}
	if err != nil {
		return Outcome{}, err
	}
	ref := blob.Sum(b)
	return Outcome{Class: "ok", Detail: r.Detail, Result: &ref}, nil
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

func (c nopCloser) Content() (string, blob.Ref, int64) { return "input", blob.Ref{}, c.Size() }

func TestMain(m *testing.M) {
	indextest.Prepare()
	os.Exit(m.Run())
}

// newQueue returns a queue on a new index with these kinds, all with limits l.
func newQueue(t *testing.T, opt Options, l Limits, kinds ...*testKind) *Queue {
	t.Helper()
	db := indextest.Open(t, t.TempDir(), index.Options{Now: opt.Now})
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	q := New(db.Jobs, opt)
	for _, k := range kinds {
		q.Register(k, l)
	}
	return q
}

// job is a job of the kind "k" with variant 1.
func job(key string) Job { return Job{Kind: "k", Key: key, Variant: 1} }

func enter(t *testing.T, q *Queue, j Job) Job {
	t.Helper()
	got, st, err := q.Enqueue(t.Context(), Entry{Job: j})
	if err != nil || st != Queued {
		t.Fatalf("Enqueue(%s): state %v, %v; want queued", j.Key, st, err)
	}
	return got
}

// state returns the job of an id, and checks its state.
func state(t *testing.T, q *Queue, id int64, want State) Job {
	t.Helper()
	j, err := q.store.Job(t.Context(), id)
	if err != nil || j.State != want {
		t.Fatalf("job %d is %v (%s: %s), %v; want %v", id, j.State, j.Outcome, j.Detail, err, want)
	}
	return j
}

// worker is a worker that makes variant 1 of the kind "k".
func worker(name string) Worker {
	return Worker{Name: name, Abilities: []Ability{{"k", 1, "1.0"}}, Slots: 1}
}

// take leases the one job that is there to a worker.
func take(t *testing.T, q *Queue, name string) Leased {
	t.Helper()
	list, err := q.Lease(t.Context(), worker(name), 0)
	if err != nil || len(list) != 1 {
		t.Fatalf("Lease by %s: %d jobs, %v; want 1", name, len(list), err)
	}
	return list[0]
}

// none checks that there is no job for a worker.
func none(t *testing.T, q *Queue, name, why string) {
	t.Helper()
	if list, err := q.Lease(t.Context(), worker(name), 0); err != nil || len(list) != 0 {
		t.Errorf("%s: Lease by %s gave %d jobs, %v; want none", why, name, len(list), err)
	}
}

// bubble runs a test with the time of a synctest bubble.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// TestEnter is the decision table of Enqueue: the result of a request for a
// job, by the last job for the same kind, key and variant.
func TestEnter(t *testing.T) {
	t.Parallel()
	past := func(class string) func(*testing.T, *Queue) {
		return func(t *testing.T, q *Queue) {
			enter(t, q, job("a"))
			if err := q.Fail(t.Context(), take(t, q, "w").Proof(), Failure{Class: class, Detail: "as asked"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	yes := func(context.Context) (bool, error) { return true, nil }
	boom := errors.New("boom")
	for _, c := range []struct {
		name    string
		before  func(*testing.T, *Queue)
		later   time.Duration // negative: the clock was set back
		entry   Entry
		want    State
		jobs    int // in the store afterwards
		wantErr error
	}{
		{name: "the first request", want: Queued, jobs: 1},
		{name: "already queued", before: func(t *testing.T, q *Queue) { enter(t, q, job("a")) }, want: Queued, jobs: 1},
		{name: "already queued, held meanwhile", before: func(t *testing.T, q *Queue) { enter(t, q, job("a")) }, entry: Entry{Held: yes}, want: Queued, jobs: 1},
		{name: "already queued, now more urgent", before: func(t *testing.T, q *Queue) { enter(t, q, job("a")) }, entry: Entry{Job: Job{Priority: 5}}, want: Queued, jobs: 1},
		{name: "already running", before: func(t *testing.T, q *Queue) { enter(t, q, job("a")); take(t, q, "w") }, want: Running, jobs: 1},
		{name: "another variant is queued", before: func(t *testing.T, q *Queue) { enter(t, q, Job{Kind: "k", Key: "a", Variant: 2}) }, want: Queued, jobs: 2},
		{name: "the result is held", entry: Entry{Held: yes}, want: Done},
		{name: "known to fail", entry: Entry{Failed: yes}, want: Failed},
		{name: "held and known to fail", entry: Entry{Held: yes, Failed: yes}, want: Done},
		{name: "failed just now, not remembered", before: past("passing"), later: 14 * time.Second, want: Failed, jobs: 1},
		{name: "failed, and the clock was set back since", before: past("passing"), later: -time.Hour, want: Queued, jobs: 2},
		{name: "failed some time ago, not remembered", before: past("passing"), later: 16 * time.Second, want: Queued, jobs: 2},
		{name: "failed just now, the memory has ended", before: past("lasting"), want: Queued, jobs: 2},
		{name: "failed just now, remembered", before: past("lasting"), entry: Entry{Failed: yes}, want: Failed, jobs: 1},
		{name: "cancelled just now", before: func(t *testing.T, q *Queue) {
			if was, err := q.Cancel(t.Context(), enter(t, q, job("a")).ID); err != nil || !was {
				t.Fatalf("Cancel: %v, %v; want true", was, err)
			}
		}, want: Failed, jobs: 1},
		{name: "the check of what is held fails", entry: Entry{Held: func(context.Context) (bool, error) { return false, boom }}, wantErr: boom},
		{name: "the check of failures fails", entry: Entry{Failed: func(context.Context) (bool, error) { return false, boom }}, wantErr: boom},
	} {
		bubble(t, c.name, func(t *testing.T) {
			q := newQueue(t, Options{}, Limits{}, &testKind{name: "k", rules: map[string]Rule{"lasting": {ByKey: time.Hour}}})
			if c.before != nil {
				c.before(t, q)
			}
			time.Sleep(c.later)
			if c.later < 0 {
				q.now = func() time.Time { return time.Now().Add(c.later) }
			}
			e := c.entry
			e.Job = Job{Kind: "k", Key: "a", Variant: 1, Priority: e.Priority}
			_, st, err := q.Enqueue(t.Context(), e)
			if !errors.Is(err, c.wantErr) || c.wantErr == nil && (err != nil || st != c.want) {
				t.Errorf("Enqueue: state %v, error %v; want %v, %v", st, err, c.want, c.wantErr)
			}
			list, err := q.List(t.Context(), Filter{})
			if err != nil || len(list) != c.jobs {
				t.Errorf("the store has %d jobs, %v; want %d", len(list), err, c.jobs)
			}
			if c.entry.Priority > 0 && list[0].Priority != c.entry.Priority {
				t.Errorf("the queued job has priority %d, want %d", list[0].Priority, c.entry.Priority)
			}
		})
	}
}

func TestUnknownKind(t *testing.T) {
	t.Parallel()
	q := newQueue(t, Options{}, Limits{}, &testKind{name: "k"})
	if _, _, err := q.Enqueue(t.Context(), Entry{Job: Job{Kind: "other", Key: "a"}}); err == nil || !strings.Contains(err.Error(), `kind "other"`) {
		t.Errorf("Enqueue of an unknown kind: %v; want an error that names the kind", err)
	}
	id, _, err := q.store.Enqueue(t.Context(), Job{Kind: "other", Key: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Retry(t.Context(), id); err == nil || !strings.Contains(err.Error(), `kind "other"`) {
		t.Errorf("Retry of an unknown kind: %v; want an error that names the kind", err)
	}
	if _, err := q.Retry(t.Context(), 99); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Retry of an unknown job: %v, want fs.ErrNotExist", err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	bubble(t, "all clients", func(t *testing.T) {
		q := newQueue(t, Options{}, Limits{Queued: 2}, &testKind{name: "k"}, &testKind{name: "other"})
		enter(t, q, job("a"))
		enter(t, q, job("b"))
		if _, _, err := q.Enqueue(t.Context(), Entry{Job: job("c")}); !errors.Is(err, ErrFull) {
			t.Errorf("a third job: %v, want ErrFull", err)
		}
		enter(t, q, job("a")) // it is queued already
		enter(t, q, Job{Kind: "other", Key: "c"})
		urgent := job("c")
		urgent.Priority = 1
		enter(t, q, urgent)
	})
	bubble(t, "one client", func(t *testing.T) {
		q := newQueue(t, Options{}, Limits{PerClient: 2}, &testKind{name: "k"})
		from := func(client, key string) (Job, error) {
			j, _, err := q.Enqueue(t.Context(), Entry{Job: job(key), Client: client})
			return j, err
		}
		first, err := from("192.0.2.1", "a")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			client, key string
			want        error
		}{
			{"192.0.2.1", "a", nil}, // the same job counts once
			{"192.0.2.1", "b", nil},
			{"192.0.2.1", "c", ErrFull},
			{"192.0.2.2", "c", nil},
			{"", "d", nil},
		} {
			if _, err := from(c.client, c.key); !errors.Is(err, c.want) {
				t.Errorf("job %s of client %q: %v, want %v", c.key, c.client, err, c.want)
			}
		}
		if _, err := q.Cancel(t.Context(), first.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := from("192.0.2.1", "e"); !errors.Is(err, ErrFull) {
			t.Errorf("at once after a job has ended: %v; want ErrFull, because ended jobs are counted every 2 s", err)
		}
		time.Sleep(checkClient)
		if _, err := from("192.0.2.1", "e"); err != nil {
			t.Errorf("2 s after a job has ended: %v, want no error", err)
		}
	})
	bubble(t, "a job under way is not refused", func(t *testing.T) {
		q := newQueue(t, Options{}, Limits{PerClient: 1, Queued: 2}, &testKind{name: "k"})
		upgrade := job("a")
		upgrade.Priority = -10
		want := enter(t, q, upgrade)
		for key, client := range map[string]string{"b": "192.0.2.1", "c": ""} {
			if _, _, err := q.Enqueue(t.Context(), Entry{Job: job(key), Client: client}); err != nil {
				t.Fatal(err)
			}
		}
		if j, st, err := q.Enqueue(t.Context(), Entry{Job: job("a"), Client: "192.0.2.1"}); err != nil || j.ID != want.ID || st != Queued {
			t.Errorf("the queued job, for a client at its limit: job %d, %v, %v; want job %d, queued", j.ID, st, err, want.ID)
		}
	})
	bubble(t, "background jobs", func(t *testing.T) {
		q := newQueue(t, Options{}, Limits{}, &testKind{name: "k"})
		spare := func() bool {
			ok, err := q.HasSpare(t.Context(), 2)
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		for i, want := range []bool{true, true, false, false} {
			if got := spare(); got != want {
				t.Errorf("HasSpare, call %d: %v, want %v", i+1, got, want)
			}
		}
		time.Sleep(statsFresh + time.Millisecond)
		enter(t, q, job("a"))
		if !spare() || spare() {
			t.Error("HasSpare with one of 2 jobs queued: want true once, then false")
		}
	})
}

// TestRun: this machine does jobs, no more at once than it has slots.
func TestRun(t *testing.T) {
	t.Parallel()
	bubble(t, "slots", func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		k := &testKind{name: "k", able: []Ability{{"k", 1, "1.0"}}, make: func(context.Context, Job) (Outcome, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(3 * time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return Outcome{Class: "ok"}, nil
		}}
		q := newQueue(t, Options{}, Limits{Slots: 2}, k)
		stop := run(t, q)
		defer stop()
		var ids []int64
		for i := range 6 {
			ids = append(ids, enter(t, q, job(fmt.Sprint(i))).ID)
		}
		began := time.Now()
		for _, id := range ids {
			if st, err := q.Wait(t.Context(), id, Queued); err != nil || st != Done {
				t.Errorf("Wait for job %d: %v, %v; want done", id, st, err)
			}
		}
		if took := time.Since(began); took != 9*time.Second || most != 2 {
			t.Errorf("6 jobs of 3 s took %v, %d at once; want 9s, 2 at once", took, most)
		}
	})
	bubble(t, "stopped", func(t *testing.T) {
		begun := make(chan struct{})
		k := &testKind{name: "k", able: []Ability{{"k", 1, "1.0"}}, make: func(ctx context.Context, _ Job) (Outcome, error) {
			close(begun)
			<-ctx.Done()
			return Outcome{}, ctx.Err()
		}}
		q := newQueue(t, Options{}, Limits{Slots: 1}, k)
		stop := run(t, q)
		id := enter(t, q, job("a")).ID
		<-begun
		stop()
		if j := state(t, q, id, Queued); j.Attempts != 0 {
			t.Errorf("the released job has %d attempts, want 0", j.Attempts)
		}
	})
	bubble(t, "cancelled", func(t *testing.T) {
		begun, ended := make(chan struct{}), make(chan error, 1)
		k := &testKind{name: "k", able: []Ability{{"k", 1, "1.0"}}, make: func(ctx context.Context, _ Job) (Outcome, error) {
			close(begun)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return Outcome{}, ctx.Err()
		}}
		q := newQueue(t, Options{Lease: 30 * time.Second}, Limits{Slots: 1}, k)
		stop := run(t, q)
		defer stop()
		id := enter(t, q, job("a")).ID
		<-begun
		began := time.Now()
		if was, err := q.Cancel(t.Context(), id); err != nil || !was {
			t.Fatalf("Cancel: %v, %v; want true", was, err)
		}
		if st, err := q.Wait(t.Context(), id, Running); err != nil || st != Failed {
			t.Errorf("Wait: %v, %v; want failed", st, err)
		}
		if err := <-ended; !errors.Is(err, ErrLeaseLost) || time.Since(began) > 10*time.Second {
			t.Errorf("Make ended with %v after %v; want ErrLeaseLost at the next heartbeat", err, time.Since(began))
		}
		state(t, q, id, Cancelled)
	})
	bubble(t, "existing result", func(t *testing.T) {
		ref := blob.Sum([]byte("made before"))
		k := &testKind{
			name: "k", able: []Ability{{"k", 1, "1.0"}},
			existing: func(Job) (*Outcome, error) { return &Outcome{Class: "held", Result: &ref}, nil },
			make:     func(context.Context, Job) (Outcome, error) { panic("the result exists") },
		}
		q := newQueue(t, Options{}, Limits{Slots: 1}, k)
		stop := run(t, q)
		defer stop()
		id := enter(t, q, job("a")).ID
		if st, err := q.Wait(t.Context(), id, Queued); err != nil || st != Done {
			t.Fatalf("Wait: %v, %v; want done", st, err)
		}
		if j := state(t, q, id, Done); j.Outcome != "held" || j.Result == nil || *j.Result != ref {
			t.Errorf("outcome %s, result %v; want held, %v", j.Outcome, j.Result, ref)
		}
	})
	bubble(t, "no resources", func(t *testing.T) {
		k := &testKind{name: "k", able: []Ability{{"k", 1, "1.0"}}, full: true}
		q := newQueue(t, Options{}, Limits{Slots: 1}, k)
		stop := run(t, q)
		id := enter(t, q, job("a")).ID
		time.Sleep(time.Minute)
		stop()
		state(t, q, id, Queued)
	})
	bubble(t, "old jobs are deleted", func(t *testing.T) {
		// The clock jumps over the week, in which the queue would look a thousand
		// times for jobs to delete.
		var ahead atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		q := newQueue(t, Options{Now: now}, Limits{}, &testKind{name: "k"})
		stop := run(t, q)
		defer stop()
		if _, err := q.Cancel(t.Context(), enter(t, q, job("a")).ID); err != nil {
			t.Fatal(err)
		}
		ahead.Store(int64(keepEnded - 2*sweepEvery))
		count := func(after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if list, err := q.List(t.Context(), Filter{}); err != nil || len(list) != want {
				t.Errorf("%d jobs, %v; want %d", len(list), err, want)
			}
		}
		count(2*sweepEvery-time.Minute, 1)
		count(sweepEvery+2*time.Minute, 0)
	})
}

// run runs a queue; the function ends that.
func run(t *testing.T, q *Queue) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { q.Run(ctx) })
	return func() { cancel(); done.Wait() }
}

// TestRetries: when attempts are repeated, and when the job fails.
func TestRetries(t *testing.T) {
	t.Parallel()
	rules := map[string]Rule{
		"again": {Retries: 3, Backoff: []time.Duration{5 * time.Second, 20 * time.Second, 65 * time.Second}},
		"once":  {Retries: 1, Backoff: []time.Duration{2 * time.Second}},
		"ever":  {Retries: 99, Backoff: []time.Duration{time.Second}},
		"other": {Retries: 1, Backoff: []time.Duration{2 * time.Second}, NeedsOther: true},
	}
	for _, c := range []struct {
		name    string
		classes []string // of the attempts, the last one repeats
		others  int      // workers on other machines
		want    []time.Duration
	}{
		{name: "no rule", classes: []string{"unknown"}, want: []time.Duration{0}},
		{name: "back-off", classes: []string{"again"}, want: []time.Duration{0, 5 * time.Second, 25 * time.Second, 90 * time.Second}},
		{name: "the last class decides", classes: []string{"again", "once"}, want: []time.Duration{0, 5 * time.Second, 7 * time.Second}},
		{name: "all attempts are limited", classes: []string{"ever"}, want: []time.Duration{0, 1 * time.Second, 2 * time.Second, 3 * time.Second}},
		{name: "no other machine", classes: []string{"other"}, want: []time.Duration{0}},
		{name: "another machine", classes: []string{"other"}, others: 1, want: []time.Duration{0, 2 * time.Second}},
	} {
		bubble(t, c.name, func(t *testing.T) {
			var times []time.Duration
			began := time.Now()
			k := &testKind{name: "k", rules: rules, able: []Ability{{"k", 1, "1.0"}}, make: func(context.Context, Job) (Outcome, error) {
				times = append(times, time.Since(began).Round(time.Second))
				return Outcome{}, Failure{Class: c.classes[min(len(times), len(c.classes))-1], Detail: "as asked"}
			}}
			q := newQueue(t, Options{WorkerSeen: time.Hour}, Limits{Slots: 1, Attempts: 4}, k)
			for i := range c.others {
				none(t, q, fmt.Sprint("worker", i), "nothing was entered")
			}
			began = time.Now()
			j := enter(t, q, job("a"))
			stop := run(t, q)
			defer stop()
			if st, err := q.Wait(t.Context(), j.ID, Queued); err != nil || st != Failed {
				t.Errorf("Wait: %v, %v; want failed", st, err)
			}
			// A slot looks at delayed jobs every 2 s.
			if !slices.EqualFunc(times, c.want, func(a, b time.Duration) bool { return a >= b && a-b <= pollEvery*time.Duration(len(c.want)) }) {
				t.Errorf("attempts after %v, want %v", times, c.want)
			}
		})
	}
}

// TestFailureMemory: which failures are remembered, by which key, and for how
// long.
func TestFailureMemory(t *testing.T) {
	t.Parallel()
	source, other := blob.Sum([]byte("the input")), blob.Sum([]byte("another input"))
	rules := map[string]Rule{
		"forgotten": {},
		"content":   {ByContent: time.Hour, Versioned: true},
		"key":       {ByKey: time.Minute},
		"both":      {ByContent: time.Hour, ByKey: time.Minute, Versioned: true},
	}
	for _, c := range []struct {
		name    string
		fail    Failure
		source  *blob.Ref // of the input
		byInput time.Duration
		byKey   time.Duration
		version string
	}{
		{name: "no memory", fail: Failure{Class: "forgotten"}, source: &source},
		{name: "by content", fail: Failure{Class: "content", Version: "1.2"}, source: &source, byInput: time.Hour, version: "1.2"},
		{name: "by content, version of the job", fail: Failure{Class: "content"}, source: &source, byInput: time.Hour, version: "1.0"},
		{name: "by content, unknown", fail: Failure{Class: "content"}},
		{name: "by content of the failure", fail: Failure{Class: "content", Source: &source}, source: &other, byInput: time.Hour, version: "1.0"},
		{name: "by key", fail: Failure{Class: "key", Version: "1.2"}, source: &source, byKey: time.Minute},
		{name: "by both", fail: Failure{Class: "both"}, source: &source, byInput: time.Hour, byKey: time.Minute, version: "1.0"},
	} {
		bubble(t, c.name, func(t *testing.T) {
			q := newQueue(t, Options{}, Limits{}, &testKind{name: "k", rules: rules, source: c.source})
			id := enter(t, q, job("a")).ID
			c.fail.Detail = "because\x1b[2J"
			if err := q.Fail(t.Context(), take(t, q, "w").Proof(), c.fail); err != nil {
				t.Fatal(err)
			}
			if j := state(t, q, id, Failed); j.Outcome != c.fail.Class || j.Detail != "because[2J" {
				t.Errorf("outcome %s %q; want %s and the detail without control characters", j.Outcome, j.Detail, c.fail.Class)
			}
			check := func(what string, ref *blob.Ref, version string, life time.Duration) {
				t.Helper()
				f, err := q.Failure(t.Context(), "k", "a", ref, version)
				switch {
				case life == 0 && !errors.Is(err, fs.ErrNotExist):
					t.Errorf("%s: %+v, %v; want fs.ErrNotExist", what, f, err)
				case life > 0 && (err != nil || f.Class != c.fail.Class || time.Until(f.Until).Round(time.Second) != life):
					t.Errorf("%s: %+v, %v; want class %s for %v", what, f, err, c.fail.Class, life)
				}
			}
			check("by content", &source, c.version, c.byInput)
			check("by key", nil, c.version, c.byKey)
			check("another version", &source, "9.9", 0)
			check("another content", &other, c.version, 0)
			time.Sleep(max(c.byInput, c.byKey))
			check("by content, later", &source, c.version, 0)
			check("by key, later", nil, c.version, 0)
		})
	}
	bubble(t, "retry forgets", func(t *testing.T) {
		q := newQueue(t, Options{}, Limits{}, &testKind{name: "k", rules: rules, source: &source})
		id := enter(t, q, job("a")).ID
		if n, err := q.Retry(t.Context(), id); err != nil || n != id {
			t.Errorf("Retry of a queued job: job %d, %v; want the same job %d", n, err, id)
		}
		if err := q.Fail(t.Context(), take(t, q, "w").Proof(), Failure{Class: "both"}); err != nil {
			t.Fatal(err)
		}
		n, err := q.Retry(t.Context(), id)
		if err != nil || n == id {
			t.Fatalf("Retry of a failed job: job %d, %v; want a new job", n, err)
		}
		state(t, q, n, Queued)
		for _, ref := range []*blob.Ref{nil, &source} {
			if f, err := q.Failure(t.Context(), "k", "a", ref, "1.0"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after Retry: failure %+v, %v of %v; want fs.ErrNotExist", f, err, ref)
			}
		}
	})
}

// TestLease: a worker has a job as long as it renews its lease.
func TestLease(t *testing.T) {
	t.Parallel()
	bubble(t, "silence", func(t *testing.T) {
		q := newQueue(t, Options{}, Limits{}, &testKind{name: "k"})
		id := enter(t, q, job("a")).ID
		one := take(t, q, "one")
		if one.ID != id || one.For != 30*time.Second || string(one.Input.Message) != `"a"` || one.Input.Version != "1.0" {
			t.Errorf("leased %+v; want job %d for 30s with the input a 1.0", one, id)
		}
		none(t, q, "two", "it is leased")
		time.Sleep(20 * time.Second)
		if d, err := q.Renew(t.Context(), one.Proof()); err != nil || d != 30*time.Second {
			t.Errorf("Renew: %v, %v; want 30s", d, err)
		}
		time.Sleep(29 * time.Second)
		none(t, q, "two", "the lease was renewed")
		time.Sleep(2 * time.Second)
		two := take(t, q, "two")
		if two.ID != id || two.Attempts != 2 {
			t.Errorf("leased %+v; want attempt 2 of job %d", two, id)
		}
		l := one.Proof()
		_, err := q.Renew(t.Context(), l)
		_, oerr := q.OpenInput(t.Context(), l)
		for what, err := range map[string]error{
			"Renew": err, "OpenInput": oerr, "Release": q.Release(t.Context(), l), "Fail": q.Fail(t.Context(), l, Failure{Class: "x"}),
			"Complete": q.Complete(t.Context(), l, Result{}, strings.NewReader("x")),
		} {
			if !errors.Is(err, ErrLeaseLost) {
				t.Errorf("%s by the worker that was silent: %v, want ErrLeaseLost", what, err)
			}
		}
		state(t, q, id, Running)
	})
	bubble(t, "released", func(t *testing.T) {
		q := newQueue(t, Options{}, Limits{}, &testKind{name: "k"})
		enter(t, q, job("a"))
		if err := q.Release(t.Context(), take(t, q, "one").Proof()); err != nil {
			t.Fatal(err)
		}
		if j := take(t, q, "two"); j.Attempts != 1 {
			t.Errorf("the released job is in attempt %d, want 1", j.Attempts)
		}
	})
	bubble(t, "abilities", func(t *testing.T) {
		q := newQueue(t, Options{}, Limits{}, &testKind{name: "k"}, &testKind{name: "other"})
		enter(t, q, job("a"))
		for _, c := range []struct {
			name      string
			abilities []Ability
			jobs      int
			err       error
		}{
			{name: "none"},
			{name: "another variant", abilities: []Ability{{"k", 2, "2.0"}}},
			{name: "another kind", abilities: []Ability{{"other", 1, "1.0"}}},
			{name: "an unknown kind only", abilities: []Ability{{"later", 1, "1.0"}}, err: ErrNoKind},
			{name: "not valid", abilities: []Ability{{"k", 1, ""}}, err: ErrBadWorker},
			{name: "a version that the kind refuses beside one that it knows", abilities: []Ability{{"k", 1, ""}, {"k", 2, "2.0"}}},
			{name: "a known and an unknown kind", abilities: []Ability{{"later", 1, ""}, {"k", 1, "1.0"}}, jobs: 1},
		} {
			list, err := q.Lease(t.Context(), Worker{Name: "w", Abilities: c.abilities, Slots: 1}, 0)
			if len(list) != c.jobs || !errors.Is(err, c.err) {
				t.Errorf("%s: %d jobs, error %v; want %d jobs, error %v", c.name, len(list), err, c.jobs, c.err)
			}
		}
		if got := q.Abilities("later"); len(got) != 0 {
			t.Errorf("abilities of an unknown kind: %v, want none", got)
		}
		if got := q.Kinds(); !slices.Equal(got, []string{"k", "other"}) {
			t.Errorf("kinds %q, want k and other", got)
		}
	})
	bubble(t, "not a failure of the kind", func(t *testing.T) {
		q := newQueue(t, Options{}, Limits{}, &testKind{name: "k"})
		id := enter(t, q, job("a")).ID
		if err := q.Fail(t.Context(), take(t, q, "w").Proof(), Failure{}); !errors.Is(err, ErrBadWorker) {
			t.Errorf("Fail without a class: %v, want ErrBadWorker", err)
		}
		state(t, q, id, Running)
	})
	bubble(t, "waiting", func(t *testing.T) {
		q := newQueue(t, Options{}, Limits{}, &testKind{name: "k"})
		began := time.Now()
		if list, err := q.Lease(t.Context(), worker("w"), 5*time.Second); err != nil || len(list) != 0 || time.Since(began) != 5*time.Second {
			t.Errorf("Lease on an empty queue: %d jobs, %v after %v; want none after 5s", len(list), err, time.Since(began))
		}
		got := make(chan int, 1)
		go func() {
			list, _ := q.Lease(t.Context(), worker("w"), time.Hour)
			got <- len(list)
		}()
		synctest.Wait()
		began = time.Now()
		enter(t, q, job("a"))
		if n := <-got; n != 1 || time.Since(began) != 0 {
			t.Errorf("a waiting worker got %d jobs after %v, want 1 at once", n, time.Since(began))
		}
	})
	bubble(t, "no work needed", func(t *testing.T) {
		done := map[string]bool{"done": true}
		k := &testKind{name: "k", existing: func(j Job) (*Outcome, error) {
			if j.Key == "bad" {
				return nil, Failure{Class: "known", Detail: "it failed before"}
			}
			if done[j.Key] {
				return &Outcome{Class: "held"}, nil
			}
			return nil, nil
		}}
		q := newQueue(t, Options{}, Limits{}, k)
		ids := map[string]int64{}
		for _, key := range []string{"done", "bad", "open"} {
			ids[key] = enter(t, q, job(key)).ID
		}
		if j := take(t, q, "w"); j.Key != "open" {
			t.Errorf("the worker got %s, want open", j.Key)
		}
		if j := state(t, q, ids["done"], Done); j.Outcome != "held" {
			t.Errorf("outcome %s, want held", j.Outcome)
		}
		if j := state(t, q, ids["bad"], Failed); j.Outcome != "known" {
			t.Errorf("outcome %s, want known", j.Outcome)
		}
	})
	bubble(t, "no input", func(t *testing.T) {
		k := &testKind{name: "k", open: func(Job) (File, error) { return nil, Failure{Class: "absent", Detail: "it is not found"} }}
		q := newQueue(t, Options{}, Limits{}, k)
		id := enter(t, q, job("a")).ID
		_, err := q.OpenInput(t.Context(), take(t, q, "w").Proof())
		if f, ok := errors.AsType[Failure](err); !ok || f.Class != "absent" {
			t.Errorf("OpenInput: %v, want a Failure of class absent", err)
		}
		state(t, q, id, Failed)
	})
}

// TestComplete: a result is taken once, and a bad one not at all.
func TestComplete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := fmt.Errorf("%w: too short", ErrBadResult)
		k := &testKind{name: "k"}
		q := newQueue(t, Options{}, Limits{}, k)
		id := enter(t, q, job("a")).ID
		l := take(t, q, "w").Proof()
		f, err := q.OpenInput(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 10)
		if _, err := f.ReadAt(b, 0); err != nil || string(b) != "input of a" {
			t.Errorf("the input is %q, %v; want input of a", b, err)
		}
		r := Result{Version: "1.0", SHA256: blob.Sum([]byte("made")), Size: 4, Detail: "by w"}
		k.keep = func(Job, Result) error { return bad }
		if err := q.Complete(t.Context(), l, r, strings.NewReader("mad")); !errors.Is(err, ErrBadResult) {
			t.Errorf("a bad result: %v, want ErrBadResult", err)
		}
		state(t, q, id, Running)
		k.keep = nil
		waited := make(chan State, 1)
		go func() {
			st, _ := q.Wait(t.Context(), id, Running)
			waited <- st
		}()
		synctest.Wait()
		began := time.Now()
		for range 2 { // the first response may have been lost
			if err := q.Complete(t.Context(), l, r, strings.NewReader("made")); err != nil {
				t.Errorf("Complete: %v, want no error", err)
			}
		}
		if st := <-waited; st != Done || time.Since(began) != 0 {
			t.Errorf("Wait returned %v after %v, want done at once", st, time.Since(began))
		}
		if j := state(t, q, id, Done); j.Detail != "by w" || j.Result == nil || *j.Result != r.SHA256 {
			t.Errorf("the done job is %+v, want the detail and the result of the worker", j)
		}
	})
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Options{}, Limits{}, &testKind{name: "k"})
		id := enter(t, q, job("a")).ID
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		if st, err := q.Wait(ctx, id, Queued); err != nil || st != Queued {
			t.Errorf("Wait until its context ends: %v, %v; want queued", st, err)
		}
		if _, err := q.Wait(t.Context(), 99, Queued); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Wait for an unknown job: %v, want fs.ErrNotExist", err)
		}
	})
}

// TestKinds: kinds share a queue and nothing else.
func TestKinds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Options{}, Limits{}, &testKind{name: "k"}, &testKind{name: "sym"})
		enter(t, q, job("a"))
		sym := enter(t, q, Job{Kind: "sym", Key: "a", Variant: 1})
		w := Worker{Name: "w", Abilities: []Ability{{"sym", 1, "1"}, {"k", 2, "2.0"}}, Slots: 5}
		list, err := q.Lease(t.Context(), w, 0)
		if err != nil || len(list) != 1 || list[0].ID != sym.ID {
			t.Errorf("Lease: %+v, %v; want the job of kind sym only, because nobody can make variant 1 of k", list, err)
		}
		if got := q.Abilities("k"); !slices.Equal(got, []Ability{{"k", 2, "2.0"}}) {
			t.Errorf("abilities of kind k: %v, want variant 2 of the worker", got)
		}
		stats, err := q.Stats(t.Context())
		if err != nil || len(stats) != 2 {
			t.Errorf("Stats: %+v, %v; want 2 kinds", stats, err)
		}
	})
}

// TestWorkers: a worker is known as long as it sends requests.
func TestWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Options{}, Limits{}, &testKind{name: "k"})
		names := func() (list []string) {
			for _, w := range q.Workers() {
				list = append(list, w.Name)
			}
			slices.Sort(list)
			return list
		}
		check := func(when string, want ...string) {
			t.Helper()
			if got := names(); !slices.Equal(got, want) {
				t.Errorf("%s: workers %v, want %v", when, got, want)
			}
		}
		none(t, q, "one", "empty queue")
		none(t, q, "two", "empty queue")
		check("at first", "one", "two")
		time.Sleep(45 * time.Second)
		if _, err := q.Renew(t.Context(), Lease{ID: 7, Worker: "one", Token: "x"}); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("Renew without a lease: %v, want ErrLeaseLost", err)
		}
		time.Sleep(45 * time.Second)
		check("one renewed after 45 s", "one")
		q.ForgetWorker("one")
		check("one has stopped")
		for i := range maxWorkers + 10 {
			none(t, q, fmt.Sprint("w", i), "empty queue")
		}
		if n := len(q.Workers()); n != maxWorkers {
			t.Errorf("%d workers are known, want at most %d", n, maxWorkers)
		}
	})
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Options{}, Limits{}, &testKind{name: "k"})
		if d := q.Estimate(t.Context(), "k"); d != time.Second {
			t.Errorf("no job has ended: %v, want the least, 1s", d)
		}
		enter(t, q, job("a"))
		l := take(t, q, "w").Proof()
		time.Sleep(10 * time.Second)
		if err := q.Complete(t.Context(), l, Result{}, strings.NewReader("made")); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			enter(t, q, job(fmt.Sprint(i)))
		}
		if d := q.Estimate(t.Context(), "k"); d != 30*time.Second {
			t.Errorf("3 jobs of 10 s for one worker: %v, want 30s", d)
		}
		none := Worker{Name: "second", Abilities: []Ability{{"k", 7, "7.0"}}, Slots: 2}
		if _, err := q.Lease(t.Context(), none, 0); err != nil {
			t.Fatal(err)
		}
		if d := q.Estimate(t.Context(), "k"); d != 10*time.Second {
			t.Errorf("3 jobs of 10 s for 3 slots: %v, want 10s", d)
		}
		if d := q.Estimate(t.Context(), "unknown"); d != time.Second {
			t.Errorf("an unknown kind: %v, want 1s", d)
		}
	})
}

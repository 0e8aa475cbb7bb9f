// Package jobs is a queue of background work that outlives requests and
// restarts. A job has a kind, a key, an input and a result. The queue enters one
// job at a time for each kind, key and variant, leases it to this machine or to a
// worker on another one, retries failed attempts after a delay, and remembers
// failures that will repeat. What a job makes is the business of its Kind.
package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/store/blob"
)

type (
	// Job is a job as the index stores it.
	Job = queue.Job
	// State is the state of a job.
	State = queue.JobState
	// Filter selects jobs to list.
	Filter = queue.JobFilter
	// Stats summarizes the jobs of one kind.
	Stats = queue.JobStats
	// Ended counts the jobs of a kind that ended in one way.
	Ended = queue.JobOutcome
	// Outcome is the end of a job.
	Outcome = queue.Outcome
)

// Shown is a job in JSON for people and programs.
type Shown struct {
	Job
	Result string `json:"result,omitempty"` // the SHA-256 of the made content
}

// Show returns a job for people and programs.
func Show(j Job) Shown {
	s := Shown{Job: j}
	if j.Result != nil {
		s.Result = j.Result.String()
	}
	return s
}

// ParseState returns the state with a name.
func ParseState(word string) (State, error) { return queue.ParseJobState(word) }

// The states of a job.
const (
	Queued    = queue.JobQueued
	Running   = queue.JobRunning
	Done      = queue.JobDone
	Failed    = queue.JobFailed
	Cancelled = queue.JobCancelled
)

var (
	// ErrLeaseLost is returned to a worker that no longer holds the lease of a job.
	ErrLeaseLost = queue.ErrLeaseLost
	// ErrFull is returned by Enqueue when too many jobs are queued, in all or by one
	// client.
	ErrFull = errors.New("too many jobs are queued")
	// ErrBadResult is wrapped by the error of Kind.Keep for a result that does not
	// belong to the job. The attempt goes on.
	ErrBadResult = errors.New("not a result of this job")
	// ErrBadWorker is wrapped by the error for an ability or a failure that a worker
	// of the kind cannot have.
	ErrBadWorker = errors.New("not an ability or a failure of this kind of job")
	// ErrNoKind is the error for a worker that can do only kinds of jobs that the
	// queue does not have.
	ErrNoKind = errors.New("the queue has no kind of job of this worker")
)

// Store is the storage of a queue. queue.Jobs implements it. Not found is
// fs.ErrNotExist.
type Store interface {
	// Enqueue stores a job durably. If one of the same kind, key and variant is
	// queued or running, existing is true. A job that exceeds its MaxQueued is
	// refused with queue.ErrQueueFull.
	Enqueue(ctx context.Context, j Job) (id int64, existing bool, err error)
	// Lease gives a worker up to n queued jobs of these kinds and variants, by
	// priority and then by age.
	Lease(ctx context.Context, worker string, kinds []string, variants []int, d time.Duration, n int) ([]Job, error)
	// Heartbeat, Complete, Fail and Release need the worker's lease; without it,
	// the error is ErrLeaseLost. Complete and Fail may be repeated.
	Heartbeat(ctx context.Context, id int64, worker, token string, d time.Duration) error
	Complete(ctx context.Context, id int64, worker, token string, o Outcome) error
	Fail(ctx context.Context, id int64, worker, token string, o Outcome) error
	Release(ctx context.Context, id int64, worker, token string) error
	// Cancel ends a job and reports whether it was queued or running.
	Cancel(ctx context.Context, id int64) (bool, error)
	Job(ctx context.Context, id int64) (Job, error)
	// Last returns the newest job of a kind, key and variant.
	Last(ctx context.Context, kind, key string, variant int) (Job, error)
	List(ctx context.Context, f Filter) ([]Job, error)
	Stats(ctx context.Context) ([]Stats, error)
	Sweep(ctx context.Context, before time.Time) (int64, error)

	// The memory of failures, by content, tool and version.
	PutFailure(ctx context.Context, f queue.Failure) error
	Failure(ctx context.Context, source blob.Ref, tool, version string) (queue.Failure, error)
	FlushFailures(ctx context.Context, f queue.FailureFilter) (int64, error)
}

// Ability is one thing that a machine can make: a variant of a kind in a version.
type Ability struct {
	Kind    string
	Variant int    // of the jobs; such as a major version
	Version string // of the tool
}

// Input is what a job is about.
type Input struct {
	// Message is what the kind tells its workers, as JSON. Names of files in it must
	// be safe on every system.
	Message json.RawMessage
	// Source is the content of the input file; nil if the depot does not have it.
	Source *blob.Ref
	// Version is the version of the tool for which the job was entered.
	Version string
}

// File is an open input file. It may still be downloading.
type File interface {
	io.ReaderAt
	io.Closer
	// Content returns the name of the file, its SHA-256 (zero if unknown) and its
	// size in bytes (-1 if unknown).
	Content() (name string, ref blob.Ref, size int64)
}

// Result describes what a worker made.
type Result struct {
	Version string   // of the tool
	SHA256  blob.Ref // of the body
	Size    int64    // bytes of the body; -1 if unknown
	Detail  string   // for people: who made it, and in what time
}

// Kind is one kind of job. Its methods may be called by many goroutines. Errors of
// the methods that take a job fail the attempt; an error that is no Failure has
// the class ClassInfra.
type Kind interface {
	// Name is the word for the kind in the index, in lists and in metrics. It is
	// also the tool under which failures are remembered.
	Name() string
	// Abilities returns what this machine can make now; none if it makes nothing.
	Abilities() []Ability
	// CanStart reports whether this machine has the resources for another job.
	CanStart() bool
	// Input describes the input of a job.
	Input(ctx context.Context, j Job) (Input, error)
	// Existing looks for an earlier result of the same work. nil means that there
	// is none and the job has to be done.
	Existing(ctx context.Context, j Job) (*Outcome, error)
	// Make does a job on this machine and stores the result.
	Make(ctx context.Context, j Job) (Outcome, error)
	// Open opens the input file of a job for a worker.
	Open(ctx context.Context, j Job) (File, error)
	// Keep stores the result of a worker. See ErrBadResult.
	Keep(ctx context.Context, j Job, r Result, body io.Reader) (Outcome, error)
	// CheckAbility returns an ability of a worker in normal form, or ErrBadWorker.
	CheckAbility(a Ability) (Ability, error)
	// CheckFailure returns a failure that a worker reports in normal form, or
	// ErrBadWorker. Every kind has ClassInfra.
	CheckFailure(f Failure) (Failure, error)
	// Rule returns the consequences of a failure of a class.
	Rule(class string) Rule
}

// Ender is a Kind that learns of the ends of its jobs.
type Ender interface {
	// Ended is called when a job has ended, with or without a result.
	Ended(ctx context.Context, j Job)
}

// Local is a Kind of which only machines that have the depot do jobs.
type Local interface {
	// Local does nothing.
	Local()
}

// OnServers has the methods of a Kind that workers on other machines do not do. It implements
// Local.
type OnServers struct{}

// errOnServers means that only machines with the depot do a job.
var errOnServers = fmt.Errorf("%w: only servers do these jobs", ErrBadWorker)

// Local implements Local.
func (OnServers) Local() {}

// Open implements Kind.
func (OnServers) Open(context.Context, Job) (File, error) { return nil, errOnServers }

// Keep implements Kind.
func (OnServers) Keep(context.Context, Job, Result, io.Reader) (Outcome, error) {
	return Outcome{}, errOnServers
}

// CheckAbility implements Kind.
func (OnServers) CheckAbility(a Ability) (Ability, error) { return a, errOnServers }

// CheckFailure implements Kind.
func (OnServers) CheckFailure(f Failure) (Failure, error) { return f, errOnServers }

// Tool is a program with which this machine does jobs of a kind.
type Tool struct {
	Kind, Name string
	Version    string    // of what it makes; empty while it cannot be used
	Fault      string    // why it cannot be used; empty: it can, or its first test run has not ended
	Tested     time.Time // end of the last test run
}

// Toolkit is a Kind whose jobs are done with programs of the operator's.
type Toolkit interface {
	// Tools lists the programs of this machine.
	Tools() []Tool
}

// Limits bound the jobs of one kind. Zero values mean the defaults in brackets.
type Limits struct {
	Slots     int // jobs that run at once on this machine [none]
	Queued    int // jobs of at least one's priority that may be queued [1000]
	PerClient int // jobs of one client that may be queued or running [250]
	Attempts  int // attempts of one job [8]
}

func (l Limits) withDefaults() Limits {
	l.Queued = cmp.Or(l.Queued, 1000)
	l.PerClient = cmp.Or(l.PerClient, 250)
	l.Attempts = cmp.Or(l.Attempts, 8)
	return l
}

// Options configure the leases of a queue. Zero values mean the defaults in
// brackets.
type Options struct {
	// Lease is how long a worker may send nothing [30 s].
	Lease time.Duration
	// WorkerSeen is how long the abilities of a worker count after its last
	// request [60 s].
	WorkerSeen time.Duration
	// Again is how long a failure that is not remembered, or a cancellation, is
	// reported before a new request enters the job again [15 s].
	Again time.Duration
	// Duty runs a chore unless another process runs it, or has run it within the
	// time every; nil: this process runs it.
	Duty func(ctx context.Context, chore string, every time.Duration, run func(ctx context.Context) error) error
	// Tracer records jobs; nil records nothing.
	Tracer *span.Tracer
	// Log takes what happens in the background; nil discards it.
	Log *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Others returns the workers that sent a request to another server of the store
	// lately; nil: there are no other servers. It must be fast.
	Others func() []Worker
	// Hooks are called at events of the queue.
	Hooks Hooks
}

// Hooks are functions for tests, which wait for events of a queue with them. nil
// is not called. They must not block.
type Hooks struct {
	// Waiting is called when a worker on another machine begins to wait for jobs.
	Waiting func(worker string)
	// Settled is called when the end of a failed attempt has been recorded.
	Settled func(j Job)
}

// Queue is a queue of jobs. Its methods may be called by many goroutines, and
// several processes may work on one store.
type Queue struct {
	store Store
	opt   Options
	log   *slog.Logger
	now   func() time.Time
	self  string // this process as a worker

	kinds   map[string]*kind // by name; complete before Run
	workers workers
	stats   statsCache

	entered broadcast // a job was entered or given back
	ended   broadcast // a job ended
}

// kind is a registered Kind.
type kind struct {
	Kind
	limits  Limits
	clients clients
}

// New returns a queue without kinds. Register must be called before any other
// method.
func New(store Store, opt Options) *Queue {
	opt.Lease = cmp.Or(opt.Lease, 30*time.Second)
	opt.WorkerSeen = cmp.Or(opt.WorkerSeen, time.Minute)
	opt.Again = cmp.Or(opt.Again, 15*time.Second)
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Duty == nil {
		opt.Duty = func(ctx context.Context, _ string, _ time.Duration, run func(context.Context) error) error {
			return run(ctx)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return &Queue{
		store: store, opt: opt, log: opt.Log, now: opt.Now, self: LocalWorker + host + ":" + strconv.Itoa(os.Getpid()),
		kinds: map[string]*kind{}, workers: workers{life: opt.WorkerSeen, seen: map[string]seenWorker{}},
	}
}

// LocalWorker begins the name of a worker that is a process of this machine.
const LocalWorker = "local:"

// Register adds a kind of job. Jobs of a kind that is not registered stay queued.
func (q *Queue) Register(k Kind, l Limits) {
	q.kinds[k.Name()] = &kind{Kind: k, limits: l.withDefaults(), clients: clients{byAddress: map[string]*clientJobs{}}}
}

// errKind is the error for a job of a kind that this program does not know.
func errKind(name string) error {
	return Failure{Class: ClassInfra, Detail: "this program does not know jobs of the kind " + strconv.Quote(name)}
}

// kindOf returns the kind of a job.
func (q *Queue) kindOf(j Job) (*kind, error) {
	if k := q.kinds[j.Kind]; k != nil {
		return k, nil
	}
	return nil, errKind(j.Kind)
}

// Wake makes waiting workers look at the queue now.
func (q *Queue) Wake() { q.entered.notify() }

// Changed makes all that wait for a job look at the queue now: another process
// has entered or ended one.
func (q *Queue) Changed() {
	q.entered.notify()
	q.ended.notify()
}

// Run does the jobs that this machine can do, and deletes old ones, until ctx
// ends. Unfinished jobs return to the queue.
func (q *Queue) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { q.sweep(ctx) })
	for _, k := range q.kinds {
		for range k.limits.Slots {
			all.Go(func() { q.workSlot(ctx, k) })
		}
	}
}

// List lists jobs, newest first.
func (q *Queue) List(ctx context.Context, f Filter) ([]Job, error) { return q.store.List(ctx, f) }

// Live lists the jobs of a kind and key that are queued or running, one for each
// variant at most.
func (q *Queue) Live(ctx context.Context, kind, key string) ([]Job, error) {
	return q.store.List(ctx, Filter{Kind: kind, Key: key, States: []State{Queued, Running}})
}

// Able reports whether this machine or a known worker can do jobs of a kind and
// variant.
func (q *Queue) Able(kind string, variant int) bool {
	return slices.ContainsFunc(q.Abilities(kind), func(a Ability) bool { return a.Variant == variant })
}

// Stats summarizes the jobs by kind.
func (q *Queue) Stats(ctx context.Context) ([]Stats, error) { return q.store.Stats(ctx) }

// Cancel ends a job and reports whether it was queued or running. An unknown job
// is fs.ErrNotExist.
func (q *Queue) Cancel(ctx context.Context, id int64) (bool, error) {
	was, err := q.store.Cancel(ctx, id)
	q.ended.notify()
	return was, err
}

// Retry enters a job that has ended again and forgets its failure. A job that has
// not ended stays as it is. Retry returns the id of the job to wait for.
func (q *Queue) Retry(ctx context.Context, id int64) (int64, error) {
	j, err := q.store.Job(ctx, id)
	if err != nil {
		return 0, err
	}
	if j.State == Queued || j.State == Running {
		return id, nil
	}
	k, err := q.kindOf(j)
	if err != nil {
		return 0, err
	}
	if err := q.forget(ctx, k, j); err != nil {
		return 0, err
	}
	n, _, err := q.store.Enqueue(ctx, Job{
		Kind: j.Kind, Key: j.Key, Variant: j.Variant, Payload: j.Payload, Priority: j.Priority,
		MaxAttempts: k.limits.Attempts,
	})
	q.entered.notify()
	return n, err
}

const (
	// pollEvery is how often waiting goroutines look at the store without a
	// notification: other processes cannot notify, and leases expire.
	pollEvery  = 2 * time.Second
	keepEnded  = 7 * 24 * time.Hour // how long a job that has ended is kept
	sweepEvery = 10 * time.Minute
)

// sweep deletes old jobs and expired failures until ctx ends.
func (q *Queue) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		err := q.opt.Duty(ctx, "jobs", sweepEvery*9/10, func(ctx context.Context) error {
			_, err := q.store.Sweep(ctx, q.now().Add(-keepEnded))
			for name := range q.kinds {
				_, ferr := q.store.FlushFailures(ctx, queue.FailureFilter{Tool: name, Ended: q.now()})
				err = errors.Join(err, ferr)
			}
			return err
		})
		if err != nil && ctx.Err() == nil {
			q.log.Warn("cannot delete old jobs", "error", err)
		}
		pause(ctx, nil, sweepEvery)
	}
}

// broadcast wakes all goroutines that wait for an event. The zero value is ready.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that the next notify closes.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

// pause waits for an event, for d, or for the end of ctx. It reports whether ctx
// goes on.
func pause(ctx context.Context, event <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-event:
	case <-t.C:
	}
	return ctx.Err() == nil
}

// isNotFound shortens the most frequent test of an error.
func isNotFound(err error) bool { return errors.Is(err, fs.ErrNotExist) }

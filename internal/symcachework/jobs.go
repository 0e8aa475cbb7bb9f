package symcachework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/transcode"
	"github.com/symdepot/symdepot/symcache"
)

// Jobs are work that outlives requests and restarts: they stand in the index,
// one at a time for each purpose, and are done by transcoders of this machine
// or by workers on others. A job is leased; a worker that does not report in time
// loses it to the next one.

// JobState says how far a job is.
type JobState = index.JobState

// The states of a job.
const (
	JobQueued    = index.JobQueued
	JobRunning   = index.JobRunning
	JobDone      = index.JobDone
	JobFailed    = index.JobFailed
	JobCancelled = index.JobCancelled
)

type (
	// Job is a job as the index has it.
	Job = index.Job
	// JobFilter says which jobs to list.
	JobFilter = index.JobFilter
	// JobStats sums up the jobs of one kind.
	JobStats = index.JobStats
)

// ErrLeaseLost is returned to a worker that no longer holds the lease of a job.
var ErrLeaseLost = index.ErrLeaseLost

// JobOptions say how jobs are done. The zero value takes the defaults in
// brackets.
type JobOptions struct {
	// Transcoders make SymCache files on this machine, in Work; nil: none.
	Transcoders *transcode.Transcoders
	// Slots is how many run at once [half of the processors, at least one].
	Slots int
	// Lease is how long a worker may be silent [30 s].
	Lease time.Duration
	// WorkerSeen is how long what a worker can make counts as producible after
	// it was last heard of [60 s].
	WorkerSeen time.Duration
	// NoUpgrades keeps SymCache files even if newer versions could be made.
	NoUpgrades bool
	// UpgradeQueue is how many jobs may wait before no more upgrades are
	// queued [100].
	UpgradeQueue int
	// Absent is the lifetime of the failure "no PDB found" [1 h].
	Absent time.Duration
	// Again is how long a failure that is nobody's fault, or a cancellation,
	// is reported before the next request begins anew [15 s].
	Again time.Duration
	// MaxResult is the most that a result may have, in bytes [4 GiB].
	MaxResult int64
}

func (o JobOptions) withDefaults() JobOptions {
	o.Slots = cmp.Or(o.Slots, max(1, runtime.NumCPU()/2))
	o.Lease = cmp.Or(o.Lease, 30*time.Second)
	o.WorkerSeen = cmp.Or(o.WorkerSeen, time.Minute)
	o.UpgradeQueue = cmp.Or(o.UpgradeQueue, 100)
	o.Absent = cmp.Or(o.Absent, time.Hour)
	o.Again = cmp.Or(o.Again, 15*time.Second)
	o.MaxResult = cmp.Or(o.MaxResult, 4<<30)
	return o
}

// jobs is the depot's part of the work.
type jobs struct {
	opt    JobOptions
	self   string // this process as a worker
	queued bell   // a job was entered, or given back
	ended  bell   // a job has ended

	mu      sync.Mutex
	workers map[string]workerSeen // guarded by mu; by name
	length  int64                 // guarded by mu; of the queue, at counted
	counted time.Time
	clients map[string]*clientJobs // guarded by mu; by address
}

// clientJobs are the jobs that one client had entered and that had not ended when
// they were last looked at.
type clientJobs struct {
	ids    []int64
	looked time.Time
}

const (
	// mostJobs is how many jobs that somebody waits for may be queued, and
	// mostClientJobs how many that one client had entered.
	mostJobs       = 1000
	mostClientJobs = 250
	// lookAtJobs is how often the jobs of a client at its limit are looked at.
	lookAtJobs  = 2 * time.Second
	mostClients = 10_000
)

// clientMayEnter reports whether a client may have another job entered.
func (j *jobs) clientMayEnter(ctx context.Context, db *index.DB, client string) bool {
	if client == "" {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.clients[client]
	if c == nil || len(c.ids) < mostClientJobs {
		return true
	}
	if time.Since(c.looked) < lookAtJobs {
		return false
	}
	c.looked = time.Now()
	c.ids = slices.DeleteFunc(c.ids, func(id int64) bool {
		job, err := db.Job(ctx, id)
		return err == nil && job.State > JobRunning || errors.Is(err, fs.ErrNotExist)
	})
	return len(c.ids) < mostClientJobs
}

// entered counts a job for the client that had it entered.
func (j *jobs) entered(client string, id int64) {
	if client == "" {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.clients) >= mostClients {
		clear(j.clients) // the limit for all holds in any case
	}
	c := j.clients[client]
	if c == nil {
		c = &clientJobs{}
		j.clients[client] = c
	}
	c.ids = append(c.ids, id)
}

type workerSeen struct {
	info WorkerInfo
	at   time.Time
}

func (j *jobs) init(opt JobOptions) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	j.opt, j.self = opt.withDefaults(), "local:"+host+":"+strconv.Itoa(os.Getpid())
	j.workers, j.clients = map[string]workerSeen{}, map[string]*clientJobs{}
}

// bell is a condition: ring wakes all goroutines that wait. The zero value is
// ready.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that is closed at the next ring.
func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

// pollEvery is how often waiting goroutines look at the index without a signal:
// other processes cannot signal, and leases expire by themselves.
const pollEvery = 2 * time.Second

// pause waits for a bell, for a while, or for ctx; it reports whether to go on.
func pause(ctx context.Context, rung <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-rung:
	case <-t.C:
	}
	return ctx.Err() == nil
}

// Wake makes those who wait for a job look at the queue now.
func (svc *Service) Wake() { svc.jobs.queued.ring() }

// workJobs does jobs with the transcoders of this machine until ctx ends; unfinished
// jobs are released then.
func (svc *Service) workJobs(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { svc.sweepJobs(ctx) })
	if svc.jobs.opt.Transcoders == nil {
		return
	}
	for range svc.jobs.opt.Slots {
		all.Go(func() { svc.workSlot(ctx) })
	}
}

// workSlot does one job after the other.
func (svc *Service) workSlot(ctx context.Context) {
	for ctx.Err() == nil {
		rung := svc.jobs.queued.wait()
		var jobs []Job
		var err error
		if majors := majorsOf(svc.jobs.opt.Transcoders.Versions()); len(majors) > 0 && svc.roomForWork() {
			jobs, err = svc.db.Lease(ctx, svc.jobs.self, []string{symCacheJob}, majors, svc.jobs.opt.Lease, 1)
		}
		if err != nil && ctx.Err() == nil {
			svc.log.Error("cannot lease jobs", "error", err)
		}
		for _, j := range jobs {
			svc.doJob(ctx, j)
		}
		if len(jobs) == 0 {
			pause(ctx, rung, pollEvery)
		}
	}
}

// leastRoom is how much the disk of the scratch folder must have left for
// another job to be begun.
const leastRoom = 512 << 20

func (svc *Service) roomForWork() bool {
	free, err := svc.jobs.opt.Transcoders.Room().Free()
	return err != nil || free >= leastRoom
}

func majorsOf(list []symcache.Version) (majors []int) {
	for _, v := range list {
		majors = append(majors, int(v.Major))
	}
	return majors
}

// doJob does one leased job and writes down what came of it.
func (svc *Service) doJob(ctx context.Context, j Job) {
	jctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	beat := make(chan struct{})
	go func() {
		defer close(beat)
		svc.heartbeats(jctx, j, cancel)
	}()
	err := svc.transcodeJob(jctx, j)
	lost := errors.Is(context.Cause(jctx), ErrLeaseLost)
	cancel(nil)
	<-beat
	// What has come of it is written down even if we are to stop.
	last, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	switch {
	case err == nil:
		return
	case lost:
		svc.log.Info("job lost to another worker or cancelled", "job", j.ID, "key", j.Key)
		return
	case ctx.Err() != nil:
		err = svc.db.Release(last, j.ID, j.Worker, j.Token)
		svc.jobs.queued.ring()
	default:
		err = svc.settle(last, j, failureOf(err))
	}
	if err != nil && !errors.Is(err, ErrLeaseLost) {
		svc.log.Error("cannot record the end of a job", "job", j.ID, "error", err)
	}
}

// heartbeats keeps a lease until ctx ends, or ends ctx when the job was taken away.
func (svc *Service) heartbeats(ctx context.Context, j Job, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(svc.jobs.opt.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := svc.db.Heartbeat(ctx, j.ID, j.Worker, j.Token, svc.jobs.opt.Lease)
		switch {
		case errors.Is(err, ErrLeaseLost):
			cancel(err)
			return
		case err != nil && ctx.Err() == nil:
			svc.log.Warn("cannot renew a lease", "job", j.ID, "error", err)
		}
	}
}

const (
	keepJobs  = 7 * 24 * time.Hour // that have ended
	sweepTime = 10 * time.Minute
)

// sweepJobs forgets old jobs and failures, and notices transcoders that changed,
// until ctx ends.
func (svc *Service) sweepJobs(ctx context.Context) {
	for ctx.Err() == nil {
		_, err := svc.db.SweepJobs(ctx, svc.now().Add(-keepJobs))
		_, ferr := svc.db.FlushFailures(ctx, index.FailureFilter{Tool: symCacheTool, Ended: svc.now()})
		if err := errors.Join(err, ferr); err != nil && ctx.Err() == nil {
			svc.log.Warn("cannot delete old jobs", "error", err)
		}
		end := time.Now().Add(sweepTime)
		for ctx.Err() == nil && time.Now().Before(end) {
			pause(ctx, nil, 15*time.Second)
			if svc.jobs.opt.Transcoders != nil && ctx.Err() == nil {
				svc.jobs.opt.Transcoders.Refresh(ctx)
			}
		}
	}
}

// Jobs lists jobs, newest first.
func (svc *Service) Jobs(ctx context.Context, f JobFilter) ([]Job, error) { return svc.db.Jobs(ctx, f) }

// JobStats sums up what there is to do and what was done, by kind.
func (svc *Service) JobStats(ctx context.Context) ([]JobStats, error) { return svc.db.JobStats(ctx) }

// CancelJob ends a job and reports whether it had not ended. An unknown one is
// fs.ErrNotExist.
func (svc *Service) CancelJob(ctx context.Context, id int64) (bool, error) {
	was, err := svc.db.Cancel(ctx, id)
	svc.jobs.ended.ring()
	return was, err
}

// RetryJob enters a job that has ended once more and forgets why it failed. One
// that has not ended is left alone. It returns the id of the job that is to be
// waited for.
func (svc *Service) RetryJob(ctx context.Context, id int64) (int64, error) {
	j, err := svc.db.Job(ctx, id)
	if err != nil {
		return 0, err
	}
	if j.State == JobQueued || j.State == JobRunning {
		return id, nil
	}
	if err := svc.forgetFailures(ctx, j); err != nil {
		return 0, err
	}
	n, _, err := svc.db.Enqueue(ctx, Job{Kind: j.Kind, Key: j.Key, Variant: j.Variant, Payload: j.Payload, Priority: j.Priority, MaxAttempts: jobAttempts})
	svc.jobs.queued.ring()
	return n, err
}

// WorkerInfo is what a worker on another machine reports of itself.
type WorkerInfo struct {
	Name     string
	Versions []symcache.Version // that its transcoders make
	Slots    int                // jobs that it can take now
}

// seen notes that a worker lives.
func (j *jobs) seen(w WorkerInfo, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for name, s := range j.workers {
		if now.Sub(s.at) > j.opt.WorkerSeen {
			delete(j.workers, name)
		}
	}
	if w.Versions == nil {
		if s, ok := j.workers[w.Name]; ok { // it is busy
			s.at = now
			j.workers[w.Name] = s
		}
		return
	}
	if len(j.workers) < maxWorkers {
		j.workers[w.Name] = workerSeen{w, now}
	}
}

const maxWorkers = 1000

// Workers returns the workers that live.
func (svc *Service) Workers() (list []WorkerInfo) {
	now := svc.now()
	svc.jobs.mu.Lock()
	defer svc.jobs.mu.Unlock()
	for _, s := range svc.jobs.workers {
		if now.Sub(s.at) <= svc.jobs.opt.WorkerSeen {
			list = append(list, s.info)
		}
	}
	return list
}

// ForgetWorker removes a worker that stops.
func (svc *Service) ForgetWorker(name string) {
	svc.jobs.mu.Lock()
	defer svc.jobs.mu.Unlock()
	delete(svc.jobs.workers, name)
}

// producers is how many there are that could make a major version.
func (svc *Service) producers(major int) (n int) {
	lists := [][]symcache.Version{svc.jobs.opt.Transcoders.Versions()}
	for _, w := range svc.Workers() {
		lists = append(lists, w.Versions)
	}
	for _, list := range lists {
		for _, v := range transcode.Newest(list) {
			if int(v.Major) == major {
				n++
			}
		}
	}
	return n
}

// WorkJob is a job as a worker is given it.
type WorkJob struct {
	Job
	// Name is the file name under which a transcoder is given the PDB; see
	// transcode.ProgramName.
	Name  string
	Key   SymCacheKey
	Lease time.Duration
}

// LeaseWork gives a worker up to w.Slots jobs; when there is nothing to do, it
// waits for up to wait.
func (svc *Service) LeaseWork(ctx context.Context, w WorkerInfo, wait time.Duration) ([]WorkJob, error) {
	svc.jobs.seen(w, svc.now())
	if w.Slots <= 0 || len(w.Versions) == 0 {
		return nil, nil
	}
	wctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		rung := svc.jobs.queued.wait()
		leased, err := svc.db.Lease(ctx, w.Name, []string{symCacheJob}, majorsOf(w.Versions), svc.jobs.opt.Lease, w.Slots)
		if err != nil {
			return nil, err
		}
		var list []WorkJob
		for _, j := range leased {
			key, _, err := readSymCacheJob(j)
			if err != nil {
				_ = svc.settle(ctx, j, failureOf(err))
				continue
			}
			if known, err := svc.alreadyMade(ctx, j); err != nil || known {
				if err != nil {
					_ = svc.settle(ctx, j, failureOf(err))
				}
				continue
			}
			list = append(list, WorkJob{Job: j, Name: svc.programName(ctx, key), Key: key, Lease: svc.jobs.opt.Lease})
		}
		if len(list) > 0 || len(leased) == 0 && !pause(wctx, rung, pollEvery) {
			svc.jobs.seen(w, svc.now())
			return list, nil
		}
	}
}

// programName returns the file name under which a transcoder is given the PDB of
// a key: the PDB's own, not the one in the request, if it is harmless.
func (svc *Service) programName(ctx context.Context, key SymCacheKey) string {
	name := key.Name
	if h, err := svc.FindPDB(ctx, key); err == nil {
		name = h.Object.Name
	}
	return transcode.ProgramName(name)
}

// RenewWork keeps a worker's lease; see JobOptions.Lease. ErrLeaseLost says that
// the job is not its own any more.
func (svc *Service) RenewWork(ctx context.Context, id int64, worker, token string) (time.Duration, error) {
	svc.jobs.seen(WorkerInfo{Name: worker}, svc.now())
	return svc.jobs.opt.Lease, svc.db.Heartbeat(ctx, id, worker, token, svc.jobs.opt.Lease)
}

// ReleaseWork takes a job back from a worker that stops.
func (svc *Service) ReleaseWork(ctx context.Context, id int64, worker, token string) error {
	err := svc.db.Release(ctx, id, worker, token)
	svc.jobs.queued.ring()
	return err
}

// held returns a job that a worker has, with its lease renewed.
func (svc *Service) held(ctx context.Context, id int64, worker, token string) (Job, error) {
	if _, err := svc.RenewWork(ctx, id, worker, token); err != nil {
		return Job{}, err
	}
	j, err := svc.db.Job(ctx, id)
	j.Worker, j.Token = worker, token
	return j, err
}

// FailWork ends a worker's attempt.
func (svc *Service) FailWork(ctx context.Context, id int64, worker, token string, f WorkFailure) error {
	j, err := svc.held(ctx, id, worker, token)
	if err != nil {
		return err
	}
	return svc.settle(ctx, j, f)
}

// WorkFailure says why an attempt failed.
type WorkFailure struct {
	Class   string           // of transcode.Class, or one of a source
	Version symcache.Version // of the transcoder; zero if it was not one's fault
	PDB     *blob.Ref        // that it could make nothing of, if known
	Detail  string
}

func (f WorkFailure) Error() string { return f.Detail }

// Classes of failures that no transcoder is to blame for.
const (
	ClassAbsent    = "absent"    // the PDB is not found
	ClassForbidden = "forbidden" // an upstream denies access to it
	ClassTransient = "transient" // an upstream cannot answer now
)

// failureOf turns an error into what is written down of it.
func failureOf(err error) WorkFailure {
	if f, ok := errors.AsType[WorkFailure](err); ok {
		return f
	}
	f := WorkFailure{Class: string(transcode.ClassOf(err)), Detail: err.Error()}
	if e, ok := errors.AsType[*transcode.ProgramError](err); ok {
		f.Version = e.Version
		if e.Output != "" {
			f.Detail += "\n" + e.Output
		}
	}
	return f
}

// rule is what follows from a failure.
type rule struct {
	retries int             // at the most
	backoff []time.Duration // the last one repeats
	life    time.Duration   // for which it is remembered of the content
	byKey   time.Duration   // and of the key, for when the PDB is not here
	tool    bool            // it is bound to the version of the transcoder
}

const day = 24 * time.Hour

// rule returns the rule for a class.
func (svc *Service) rule(class string) rule {
	soon := []time.Duration{2 * time.Second}
	switch transcode.Class(class) {
	case ClassAbsent:
		return rule{byKey: svc.jobs.opt.Absent}
	case ClassForbidden:
		return rule{}
	case ClassTransient:
		return rule{retries: 3, backoff: []time.Duration{5 * time.Second, 20 * time.Second, 65 * time.Second}}
	case transcode.ClassBadSource:
		return rule{life: day, byKey: day}
	case transcode.ClassTimeout, transcode.ClassMemory, transcode.ClassTooLarge:
		return rule{retries: 1, backoff: soon, life: 30 * day, byKey: day, tool: true}
	case transcode.ClassExit, transcode.ClassNoOutput, transcode.ClassBadOutput:
		return rule{retries: 1, backoff: soon, life: 30 * day, byKey: day, tool: true}
	}
	return rule{retries: jobAttempts, backoff: []time.Duration{5 * time.Second, 15 * time.Second, 45 * time.Second}}
}

const jobAttempts = 8

// settle ends an attempt that failed: it is tried again, or the failure is
// remembered and the job has failed.
func (svc *Service) settle(ctx context.Context, j Job, f WorkFailure) error {
	r := svc.rule(f.Class)
	o := index.Outcome{Class: f.Class, Detail: transcode.Printable(f.Detail)}
	tries := 1 // in a row that ended so
	if j.Outcome == f.Class {
		tries = max(j.Attempts, 2)
	}
	again := tries <= r.retries && j.Attempts < j.MaxAttempts
	switch transcode.Class(f.Class) {
	case transcode.ClassExit, transcode.ClassNoOutput, transcode.ClassBadOutput:
		again = again && svc.producers(j.Variant) > 1 // another one may fare better
	}
	if again {
		o.Retry = svc.now().Add(r.backoff[min(tries, len(r.backoff))-1])
	} else if err := svc.rememberFailure(ctx, j, f, r); err != nil {
		return err
	}
	svc.log.Warn("a job failed", "job", j.ID, "kind", j.Kind, "key", j.Key, "class", f.Class, "again", again, "error", o.Detail)
	err := svc.db.Fail(ctx, j.ID, j.Worker, j.Token, o)
	svc.jobs.ended.ring()
	svc.jobs.queued.ring()
	return err
}

// rememberFailure keeps why a job failed, as long as its class says.
func (svc *Service) rememberFailure(ctx context.Context, j Job, f WorkFailure, r rule) error {
	version := ""
	key, want, err := readSymCacheJob(j)
	if err != nil {
		return err
	}
	if r.tool {
		if f.Version == (symcache.Version{}) {
			f.Version = want
		}
		version = f.Version.String()
	}
	if f.PDB == nil && r.life > 0 {
		if h, err := svc.FindPDB(ctx, key); err == nil {
			f.PDB = &h.Ref
		}
	}
	row := index.Failure{Tool: symCacheTool, Version: version, Class: f.Class, Detail: transcode.Printable(f.Detail)}
	var errs []error
	if r.life > 0 && f.PDB != nil {
		row.Source, row.Until = *f.PDB, svc.now().Add(r.life)
		errs = append(errs, svc.db.PutFailure(ctx, row))
	}
	if r.byKey > 0 {
		row.Source, row.Until = keyRef(j.Key), svc.now().Add(r.byKey)
		errs = append(errs, svc.db.PutFailure(ctx, row))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("record the failure of job %d: %w", j.ID, err)
	}
	return nil
}

// keyRef stands for a key where the content of its PDB is not known.
func keyRef(key string) blob.Ref { return blob.Sum([]byte("symdepot job key: " + key)) }

package jobs

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/base/term"
)

// workSlot does one job of a kind after the other on this machine.
func (q *Queue) workSlot(ctx context.Context, k *kind) {
	for ctx.Err() == nil {
		entered := q.entered.next()
		var leased []Job
		var err error
		if variants := variantsOf(k.Abilities(), k.Name()); len(variants) > 0 && k.CanStart() {
			leased, err = q.store.Lease(ctx, q.self, []string{k.Name()}, variants, q.opt.Lease, 1)
		}
		if err != nil && ctx.Err() == nil {
			q.log.Error("cannot lease jobs", "error", err)
		}
		for _, j := range leased {
			q.do(ctx, k, j)
		}
		if len(leased) == 0 {
			pause(ctx, entered, pollEvery)
		}
	}
}

// variantsOf returns the variants of a kind among some abilities.
func variantsOf(list []Ability, kind string) (variants []int) {
	for _, a := range list {
		if a.Kind == kind {
			variants = append(variants, a.Variant)
		}
	}
	return variants
}

// do does one leased job and records its outcome.
func (q *Queue) do(ctx context.Context, k *kind, j Job) {
	jctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	beat := make(chan struct{})
	go func() {
		defer close(beat)
		q.heartbeats(jctx, j, cancel)
	}()
	traced, s := q.opt.Tracer.Start(jctx, "job "+j.Kind, span.Internal)
	s.Number("symdepot.job", j.ID)
	err := q.make(traced, k, j)
	if err != nil {
		s.Fail("the attempt failed")
	}
	s.End()
	lost := errors.Is(context.Cause(jctx), ErrLeaseLost)
	cancel(nil)
	<-beat
	// The outcome is recorded even if ctx has ended.
	last, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	switch {
	case err == nil:
		return
	case lost:
		q.log.Info("job lost to another worker or cancelled", "job", j.ID, "key", j.Key)
		return
	case ctx.Err() != nil:
		err = q.store.Release(last, j.ID, j.Worker, j.Token)
		q.entered.notify()
	default:
		err = q.endAttempt(last, k, j, failureOf(err))
	}
	if err != nil && !errors.Is(err, ErrLeaseLost) {
		q.log.Error("cannot record the end of a job", "job", j.ID, "error", err)
	}
}

// make does one leased job, or finds its result, and completes the job.
func (q *Queue) make(ctx context.Context, k *kind, j Job) error {
	o, err := k.Existing(ctx, j)
	if err == nil && o == nil {
		o = new(Outcome)
		*o, err = k.Make(ctx, j)
	}
	if err != nil {
		return err
	}
	return q.complete(ctx, j, *o)
}

func (q *Queue) complete(ctx context.Context, j Job, o Outcome) error {
	err := q.store.Complete(ctx, j.ID, j.Worker, j.Token, o)
	q.ended.notify()
	if err == nil {
		q.tellEnd(ctx, j)
	}
	return err
}

// tellEnd tells the kind of a job that it has ended.
func (q *Queue) tellEnd(ctx context.Context, j Job) {
	if k := q.kinds[j.Kind]; k != nil {
		if e, ok := k.Kind.(Ender); ok {
			e.Ended(ctx, j)
		}
	}
}

// heartbeats renews a lease until ctx ends, and ends ctx when the lease is lost.
func (q *Queue) heartbeats(ctx context.Context, j Job, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(q.opt.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := q.store.Heartbeat(ctx, j.ID, j.Worker, j.Token, q.opt.Lease)
		switch {
		case errors.Is(err, ErrLeaseLost):
			cancel(err)
			return
		case err != nil && ctx.Err() == nil:
			q.log.Warn("cannot renew a lease", "job", j.ID, "error", err)
		}
	}
}

// Worker is a worker on another machine.
type Worker struct {
	Name      string
	Abilities []Ability // what it can make
	Slots     int       // how many jobs it can take now
}

// workers are the workers that sent a request lately.
type workers struct {
	life time.Duration

	mu   sync.Mutex
	seen map[string]seenWorker // guarded by mu; by name
}

type seenWorker struct {
	Worker
	at time.Time
}

// maxWorkers is how many workers are known.
const maxWorkers = 1000

// record records a request of a worker for jobs.
func (s *workers) record(w Worker, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, old := range s.seen {
		if now.Sub(old.at) > s.life {
			delete(s.seen, name)
		}
	}
	if _, known := s.seen[w.Name]; known || len(s.seen) < maxWorkers {
		s.seen[w.Name] = seenWorker{w, now}
	}
}

// keep records that a known worker is alive.
func (s *workers) keep(name string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.seen[name]; ok && now.Sub(w.at) <= s.life {
		w.at = now
		s.seen[name] = w
	}
}

// OwnWorkers returns the workers that sent a request to this process lately.
func (q *Queue) OwnWorkers() (list []Worker) {
	now, s := q.now(), &q.workers
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.seen {
		if now.Sub(w.at) <= s.life {
			list = append(list, w.Worker)
		}
	}
	return list
}

// Kinds returns the names of the kinds of which workers do jobs, in order.
func (q *Queue) Kinds() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(q.kinds)) {
		if _, local := q.kinds[name].Kind.(Local); !local {
			list = append(list, name)
		}
	}
	return list
}

// Workers returns the workers that sent a request to any server lately.
func (q *Queue) Workers() []Worker {
	list := q.OwnWorkers()
	if q.opt.Others == nil {
		return list
	}
	for _, w := range q.opt.Others() {
		if !slices.ContainsFunc(list, func(own Worker) bool { return own.Name == w.Name }) {
			list = append(list, w)
		}
	}
	return list
}

// ForgetWorker removes a worker that stops.
func (q *Queue) ForgetWorker(name string) {
	s := &q.workers
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, name)
}

// Abilities returns what this machine and the workers can make of a kind; each
// machine has its own entries.
func (q *Queue) Abilities(kind string) (list []Ability) {
	if k := q.kinds[kind]; k != nil {
		list = append(list, k.Abilities()...)
	}
	for _, w := range q.Workers() {
		for _, a := range w.Abilities {
			if a.Kind == kind {
				list = append(list, a)
			}
		}
	}
	return list
}

// Tools lists the programs with which this machine does jobs, those that cannot be used too.
func (q *Queue) Tools() (list []Tool) {
	for _, name := range slices.Sorted(maps.Keys(q.kinds)) {
		if k, ok := q.kinds[name].Kind.(Toolkit); ok {
			list = append(list, k.Tools()...)
		}
	}
	return list
}

// Leased is a job that was given to a worker.
type Leased struct {
	Job
	Input Input
	For   time.Duration // how long the lease lasts unless it is renewed
}

// Lease is the proof that a worker holds a job.
type Lease struct {
	ID            int64
	Worker, Token string
}

// Proof returns the proof that the worker that got the job holds it.
func (j Leased) Proof() Lease { return Lease{ID: j.ID, Worker: j.Worker, Token: j.Token} }

// knownAbilities returns the abilities of a worker for the kinds of this queue. Those
// that a kind refuses, such as versions that it does not know, do not count.
func (q *Queue) knownAbilities(w Worker) (list []Ability, err error) {
	for _, a := range w.Abilities {
		k := q.kinds[a.Kind]
		if k == nil {
			continue
		}
		known, kerr := k.CheckAbility(a)
		if kerr != nil {
			err = kerr
			continue
		}
		list = append(list, known)
	}
	switch {
	case len(list) > 0 || len(w.Abilities) == 0:
		return list, nil
	case err != nil:
		return nil, err
	}
	return nil, ErrNoKind
}

// Lease gives a worker up to w.Slots jobs that it can do. Without one, it waits
// for up to wait. See ErrBadWorker and ErrNoKind.
func (q *Queue) Lease(ctx context.Context, w Worker, wait time.Duration) (leased []Leased, err error) {
	if w.Abilities, err = q.knownAbilities(w); err != nil {
		return nil, err
	}
	q.workers.record(w, q.now())
	if w.Slots <= 0 || len(w.Abilities) == 0 {
		return nil, nil
	}
	wctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if q.opt.Hooks.Waiting != nil {
		q.opt.Hooks.Waiting(w.Name)
	}
	for {
		entered := q.entered.next()
		list, settled, err := q.lease(ctx, w)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 || settled == 0 && !pause(wctx, entered, pollEvery) {
			q.workers.record(w, q.now())
			return list, nil
		}
	}
}

// lease leases jobs to a worker. It settles those that need no work, and returns
// their number.
func (q *Queue) lease(ctx context.Context, w Worker) (list []Leased, settled int, err error) {
	for name, k := range q.kinds {
		variants := variantsOf(w.Abilities, name)
		if len(variants) == 0 || len(list) >= w.Slots {
			continue
		}
		leased, err := q.store.Lease(ctx, w.Name, []string{name}, variants, q.opt.Lease, w.Slots-len(list))
		if err != nil {
			return list, settled, err
		}
		for _, j := range leased {
			o, err := k.Existing(ctx, j)
			var in Input
			switch {
			case err != nil:
			case o != nil:
				err = q.complete(ctx, j, *o)
			default:
				if in, err = k.Input(ctx, j); err == nil {
					list = append(list, Leased{Job: j, Input: in, For: q.opt.Lease})
					continue
				}
			}
			settled++
			if err != nil {
				_ = q.endAttempt(ctx, k, j, failureOf(err)) // the lease expires in any case
			}
		}
	}
	return list, settled, nil
}

// Renew renews the lease of a worker and returns how long it lasts. ErrLeaseLost
// means that the worker no longer holds the job.
func (q *Queue) Renew(ctx context.Context, l Lease) (time.Duration, error) {
	q.workers.keep(l.Worker, q.now())
	return q.opt.Lease, q.store.Heartbeat(ctx, l.ID, l.Worker, l.Token, q.opt.Lease)
}

// Release returns the job of a worker that stops to the queue. The attempt does
// not count.
func (q *Queue) Release(ctx context.Context, l Lease) error {
	err := q.store.Release(ctx, l.ID, l.Worker, l.Token)
	q.entered.notify()
	return err
}

// held returns the job of a lease and its kind, with the lease renewed.
func (q *Queue) held(ctx context.Context, l Lease) (Job, *kind, error) {
	if _, err := q.Renew(ctx, l); err != nil {
		return Job{}, nil, err
	}
	j, err := q.store.Job(ctx, l.ID)
	if err != nil {
		return Job{}, nil, err
	}
	j.Worker, j.Token = l.Worker, l.Token
	k, err := q.kindOf(j)
	return j, k, err
}

// Fail ends an attempt of a worker. See ErrBadWorker.
func (q *Queue) Fail(ctx context.Context, l Lease, f Failure) error {
	j, k, err := q.held(ctx, l)
	if err != nil {
		return err
	}
	if f, err = k.CheckFailure(f); err != nil {
		return err
	}
	return q.endAttempt(ctx, k, j, f)
}

// OpenInput opens the input file of a worker's job. If it cannot be obtained, the
// attempt has failed and the error is a Failure.
func (q *Queue) OpenInput(ctx context.Context, l Lease) (File, error) {
	j, k, err := q.held(ctx, l)
	if err != nil {
		return nil, err
	}
	f, err := k.Open(ctx, j)
	if err == nil {
		return f, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	fail := failureOf(err)
	if err := q.endAttempt(ctx, k, j, fail); err != nil {
		return nil, err
	}
	return nil, fail
}

// Complete stores the result of a worker. A repeated call is no error. See
// ErrBadResult.
func (q *Queue) Complete(ctx context.Context, l Lease, r Result, body io.Reader) error {
	if j, err := q.store.Job(ctx, l.ID); err == nil && j.State == Done && j.Result != nil && *j.Result == r.SHA256 {
		return nil
	}
	j, k, err := q.held(ctx, l)
	if err != nil {
		return err
	}
	r.Detail = term.PrintableText(r.Detail, maxDetail)
	o, err := k.Keep(ctx, j, r, body)
	if err != nil {
		return err
	}
	return q.complete(ctx, j, o)
}

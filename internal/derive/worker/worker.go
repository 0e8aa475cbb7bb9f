package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/wire"
)

// Kind is one kind of job that a worker does. Its methods may be called by many
// goroutines.
type Kind interface {
	// Name is the word for the kind, as the server has it.
	Name() string
	// Abilities returns what the programs of this machine can make now.
	Abilities(ctx context.Context) []wire.Ability
	// Do runs one job. input downloads its input file to a file. An error that is
	// not a Failure is reported with class infra. The context ends with the cause
	// ErrLeaseLost when the lease is lost.
	Do(ctx context.Context, j Job, input func(context.Context, *os.File) error) (Result, error)
}

// Worker leases jobs from a server and runs them.
type Worker struct {
	Server *Server
	// Slots is the number of concurrent jobs; zero means one.
	Slots int
	// Kinds are the kinds of jobs that it does.
	Kinds []Kind
	// Room returns the reason why no further job can start now, such as a full
	// disk, or nil. Room itself may be nil.
	Room func() error
	// Poll is how long the server may wait for a job before it answers a lease
	// request; zero means 20 s.
	Poll time.Duration
	// Log receives the course of each job; nil discards it.
	Log *slog.Logger
}

// Result is the result of a job: a file, the version of the tool and its output.
// Drop is called after the upload; it may be nil.
type Result struct {
	Path, Version, Detail string
	Drop                  func()
}

// Run runs jobs until ctx ends, then finishes the running ones. When hurry ends,
// it releases them instead.
func (w *Worker) Run(ctx, hurry context.Context) error {
	if w.Log == nil {
		w.Log = slog.New(slog.DiscardHandler)
	}
	slots := make(chan struct{}, cmp.Or(w.Slots, 1))
	var all sync.WaitGroup
	for ctx.Err() == nil {
		free := w.reserve(ctx, slots)
		if free == 0 {
			break
		}
		jobs := w.lease(ctx, free)
		for range free - len(jobs) {
			<-slots
		}
		for _, j := range jobs {
			all.Go(func() {
				defer func() { <-slots }()
				w.one(hurry, j)
			})
		}
	}
	if n := len(slots); n > 0 && hurry.Err() == nil {
		w.Log.Info("finishing the running jobs; interrupt again to release them", "jobs", n)
	}
	all.Wait()
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := w.Server.Bye(bye); err != nil {
		w.Log.Debug("cannot report the end of the worker to the server", "error", err)
	}
	return nil
}

// reserve waits for a free slot, then takes all free slots and returns their
// number. Zero means that ctx has ended.
func (w *Worker) reserve(ctx context.Context, slots chan struct{}) (n int) {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n = 1; ; n++ {
		select {
		case slots <- struct{}{}:
		default:
			return n
		}
	}
}

// abilities returns what the worker can make now.
func (w *Worker) abilities(ctx context.Context) (list []wire.Ability) {
	for _, k := range w.Kinds {
		list = append(list, k.Abilities(ctx)...)
	}
	return list
}

// do runs a job of any kind.
func (w *Worker) do(ctx context.Context, j Job) (Result, error) {
	for _, k := range w.Kinds {
		if k.Name() == j.Kind {
			return k.Do(ctx, j, func(ctx context.Context, f *os.File) error { return w.Server.Input(ctx, j, f) })
		}
	}
	return Result{}, Failure{
		Class:  wire.ClassInfra,
		Detail: "this worker does not know this kind of job; update it to the version of the server",
	}
}

// spaceRetry is the pause before the abilities and Room are checked again.
const spaceRetry = 15 * time.Second

// lease waits for jobs without a time limit. It returns none if ctx has ended.
func (w *Worker) lease(ctx context.Context, free int) (jobs []Job) {
	said := ""
	for ctx.Err() == nil && len(jobs) == 0 {
		var lack error
		abilities := w.abilities(ctx)
		if len(abilities) == 0 {
			lack = errors.New("none of the programs is usable")
		} else if w.Room != nil {
			lack = w.Room()
		}
		if lack != nil {
			if said != lack.Error() {
				said = lack.Error()
				w.Log.Warn("leasing no jobs for now", "error", lack)
			}
			_ = ctxio.Pause(ctx, spaceRetry)
			continue
		}
		said = ""
		err := w.Server.Try(ctx, "lease jobs", func(ctx context.Context) (err error) {
			jobs, err = w.Server.Lease(ctx, abilities, free, cmp.Or(w.Poll, 20*time.Second))
			if errors.Is(err, endpoint.ErrRefused) { // not final: the server may be replaced or reconfigured
				err = errors.New(err.Error())
			}
			return err
		})
		if err != nil && ctx.Err() == nil {
			w.Log.Error("cannot lease jobs", "error", err)
		}
	}
	return jobs
}

// one runs a job and reports the outcome to the server.
func (w *Worker) one(hurry context.Context, j Job) {
	log := w.Log.With("job", j.ID, "kind", j.Kind, "key", j.Key)
	ctx, cancel := context.WithCancelCause(hurry)
	beat := make(chan struct{})
	go func() {
		defer close(beat)
		w.heartbeats(ctx, j, cancel)
	}()
	log.Info("job started", "attempt", j.Attempts)
	r, err := w.do(ctx, j)
	if r.Drop != nil {
		defer r.Drop()
	}
	if err == nil {
		err = w.Server.Complete(ctx, j, r.Version, r.Path, r.Detail)
		if err == nil {
			log.Info("job done", "result", r.Detail)
		}
	}
	cause := context.Cause(ctx)
	switch {
	case err == nil:
	case errors.Is(err, ErrLeaseLost), errors.Is(cause, ErrLeaseLost):
		log.Info("the lease was lost: the job has ended or another worker has it")
	case errors.Is(err, ErrJobEnded):
		log.Info("the server ended the job", "why", err)
	case hurry.Err() != nil:
		last, end := context.WithTimeout(context.WithoutCancel(hurry), 5*time.Second)
		err := w.Server.Release(last, j)
		end()
		log.Info("job released", "error", err)
	default:
		f, ok := errors.AsType[Failure](err)
		if !ok {
			f = Failure{Class: wire.ClassInfra, Detail: err.Error()}
		}
		log.Warn("job failed", "class", f.Class, "error", f.Detail)
		if err := w.Server.Fail(ctx, j, f); err != nil {
			log.Warn("cannot report the failed job to the server", "error", err)
		}
	}
	cancel(nil)
	<-beat
}

// heartbeats renews the lease until ctx ends. If the lease is lost, it cancels the
// job with ErrLeaseLost. Other errors are only logged: the server may be reachable
// again before the lease ends.
func (w *Worker) heartbeats(ctx context.Context, j Job, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(max(time.Duration(j.Seconds)*time.Second/3, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := w.Server.Heartbeat(ctx, j)
		switch {
		case errors.Is(err, ErrLeaseLost):
			cancel(ErrLeaseLost)
			return
		case err != nil && ctx.Err() == nil:
			w.Log.Warn("a heartbeat failed", "job", j.ID, "error", err)
		}
	}
}

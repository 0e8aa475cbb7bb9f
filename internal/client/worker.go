package client

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Worker pulls jobs from a server and does them.
type Worker struct {
	Server *Server
	// Slots is how many jobs are done at once; zero is one.
	Slots int
	// Versions returns the versions that can be made now.
	Versions func() []string
	// Room is nil, or returns why no further job can be begun now.
	Room func() error
	// Do does one job. pdb writes its PDB to a file. An error is a Failure, or
	// the fault of this machine.
	Do func(ctx context.Context, j Job, pdb func(context.Context, *os.File) error) (Result, error)
	// Poll is how long the server may let us wait for a job; zero is 20 s.
	Poll time.Duration
	// Log takes what happens; nil discards.
	Log *slog.Logger
}

// Result is what was made of a job. Drop is called when it is not needed any
// more.
type Result struct {
	Path, Version, Detail string
	Drop                  func()
}

// Run does jobs until ctx ends, then finishes those that it has. When hurry
// ends, they are given back instead.
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
		w.Log.Info("finishing the jobs under way; interrupt again to give them back", "jobs", n)
	}
	all.Wait()
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := w.Server.Bye(bye); err != nil {
		w.Log.Debug("the server was not told of our end", "error", err)
	}
	return nil
}

// reserve waits for a slot, and takes all that are free; zero: ctx has ended.
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

const roomAgain = 15 * time.Second

// lease waits for jobs, as long as it takes; none: ctx has ended.
func (w *Worker) lease(ctx context.Context, free int) (jobs []Job) {
	said := ""
	for ctx.Err() == nil && len(jobs) == 0 {
		var lack error
		versions := w.Versions()
		if len(versions) == 0 {
			lack = errors.New("no transcoder can be used")
		} else if w.Room != nil {
			lack = w.Room()
		}
		if lack != nil {
			if said != lack.Error() {
				said = lack.Error()
				w.Log.Warn("taking no jobs for now", "error", lack)
			}
			t := time.NewTimer(roomAgain)
			select {
			case <-ctx.Done():
			case <-t.C:
			}
			t.Stop()
			continue
		}
		said = ""
		err := w.Server.Try(ctx, "get jobs", func(ctx context.Context) (err error) {
			jobs, err = w.Server.Lease(ctx, versions, free, cmp.Or(w.Poll, 20*time.Second))
			if errors.Is(err, ErrRefused) { // another server may stand there tomorrow
				err = errors.New(err.Error())
			}
			return err
		})
		if err != nil && ctx.Err() == nil {
			w.Log.Error("no jobs can be had", "error", err)
		}
	}
	return jobs
}

// one does a job and tells the server what came of it.
func (w *Worker) one(hurry context.Context, j Job) {
	log := w.Log.With("job", j.ID, "pdb", j.Name)
	ctx, cancel := context.WithCancelCause(hurry)
	beat := make(chan struct{})
	go func() {
		defer close(beat)
		w.heartbeats(ctx, j, cancel)
	}()
	log.Info("begun", "attempt", j.Attempts)
	r, err := w.Do(ctx, j, func(ctx context.Context, f *os.File) error { return w.Server.PDB(ctx, j, f) })
	if r.Drop != nil {
		defer r.Drop()
	}
	if err == nil {
		err = w.Server.Complete(ctx, j, r.Version, r.Path, r.Detail)
		if err == nil {
			log.Info("done", "result", r.Detail)
		}
	}
	cause := context.Cause(ctx)
	switch {
	case err == nil:
	case errors.Is(err, ErrLost), errors.Is(cause, ErrLost):
		log.Info("the job was given to another, or ended")
	case errors.Is(err, ErrGone):
		log.Info("the server ended the job", "why", err)
	case hurry.Err() != nil:
		last, end := context.WithTimeout(context.WithoutCancel(hurry), 5*time.Second)
		err := w.Server.Release(last, j)
		end()
		log.Info("given back", "error", err)
	default:
		f, ok := errors.AsType[Failure](err)
		if !ok {
			f = Failure{Class: "infra", Detail: err.Error()}
		}
		log.Warn("failed", "class", f.Class, "error", f.Detail)
		if err := w.Server.Fail(ctx, j, f); err != nil {
			log.Warn("the server was not told", "error", err)
		}
	}
	cancel(nil)
	<-beat
}

// heartbeats keeps the job until ctx ends, or ends ctx when it was lost. A
// server that cannot be reached may be there again in time.
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
		case errors.Is(err, ErrLost):
			cancel(ErrLost)
			return
		case err != nil && ctx.Err() == nil:
			w.Log.Warn("a heartbeat failed", "job", j.ID, "error", err)
		}
	}
}

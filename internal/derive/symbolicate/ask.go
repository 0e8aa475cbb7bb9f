package symbolicate

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Answer finds or makes a file. Not found is fs.ErrNotExist, a file that is being
// made a PendingError, and a limit ErrBusy.
func (svc *Service) Answer(ctx context.Context, ask Ask) (Answer, error) {
	return svc.answer(ctx, ask, ask.Format == lookupFormat)
}

// answer is Answer. With withSym, the file may be made of a .sym: if it cannot be read, of
// the next one, or of the other files of the module.
func (svc *Service) answer(ctx context.Context, ask Ask, withSym bool) (Answer, error) {
	var unusable error // the last attempt
	for {
		a, f, err := svc.prepare(ctx, ask, withSym)
		if f == nil && unusable != nil && errors.Is(err, fs.ErrNotExist) {
			return a, unusable // there is no other file
		}
		if f == nil || !errors.Is(err, fs.ErrNotExist) {
			return a, err
		}
		a, err = svc.make(ctx, ask, f)
		if !errors.As(err, new(UnusableError)) || !f.isSym() || len(ask.unfit) == maxUnfit {
			return a, err
		}
		unusable = err
		ask.unfit = append(ask.unfit, f.source())
	}
}

// maxUnfit is how many .sym files that cannot be read are passed over.
const maxUnfit = 8

// prepare is answer without the making: if the file would have to be made, the error is
// fs.ErrNotExist, and f has the files of which it would be made.
func (svc *Service) prepare(ctx context.Context, ask Ask, withSym bool) (a Answer, f *files, err error) {
	if !svc.Makes() {
		return a, nil, fs.ErrNotExist
	}
	f, err = svc.find(ctx, ask.Products, ask.Module, withSym, ask.unfit...)
	if errors.Is(err, fs.ErrNotExist) && svc.opt.Make == MakeUpstream && !ask.Local && ask.Hold != nil {
		f, err = svc.findUpstream(ctx, ask, withSym)
	}
	if err == nil && f.alternate != "" && svc.opt.Make == MakeUpstream && !ask.Local && ask.Hold != nil {
		f, err = svc.fetchAlternate(ctx, ask, f, withSym)
	}
	if err != nil {
		return a, nil, err
	}
	if f.byCode && !withSym && ask.Format == Breakpad && ask.Module.DebugFile != "" && !f.id.IsZero() {
		a, err = svc.redirect(f)
		return a, nil, err
	}
	a, err = svc.made(ctx, f, ask.Format)
	return a, f, err
}

// redirect answers a client that knows only the code id.
func (svc *Service) redirect(f *files) (Answer, error) {
	paths := layout.BreakpadTree.Paths(symfile.Object{Kind: symfile.Breakpad, Role: symfile.Symbols, Name: f.name, DebugID: f.id})
	if len(paths) == 0 {
		return Answer{}, fs.ErrNotExist
	}
	return Answer{Redirect: paths[0]}, nil
}

// fetchAlternate has the supplementary file of a module downloaded, and returns the
// files of the module with it. Without it, names may lack: the module is answered
// all the same.
func (svc *Service) fetchAlternate(ctx context.Context, ask Ask, f *files, withSym bool) (*files, error) {
	req, err := request([]string{"buildid", string(f.alternate), "debuginfo"})
	if err != nil {
		return f, nil //nolint:nilerr // no build-id that a server could have
	}
	gaveUp, err := ask.Hold(ctx, func(ctx context.Context) error { return svc.Depot.Fetch(ctx, ask, req) })
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return f, nil //nolint:nilerr // the file answers without its supplementary file
	case gaveUp:
		return nil, PendingError{}
	}
	return svc.find(ctx, ask.Products, ask.Module, withSym, ask.unfit...)
}

// findUpstream has the files of a module downloaded.
func (svc *Service) findUpstream(ctx context.Context, ask Ask, withSym bool) (*files, error) {
	q := ask.Module
	name := symfile.BaseName(q.DebugFile)
	var debug, code []string
	if name != "" && q.DebugID != "" {
		debug = []string{name, q.DebugID, name}
		if withSym {
			debug = []string{name, q.DebugID, layout.Stem(name) + ".sym"}
		}
	}
	if c := symfile.BaseName(q.CodeFile); c != "" && q.CodeID != "" {
		code = []string{c, q.CodeID, c}
		if len(q.CodeID) >= 32 {
			code = []string{"buildid", q.CodeID, "executable"}
			if !withSym || debug == nil { // a .sym has a name and a debug id
				debug = []string{"buildid", q.CodeID, "debuginfo"}
			}
		}
	}
	if err := svc.fetchFile(ctx, ask, debug); errors.Is(err, fs.ErrNotExist) && withSym {
		return svc.findUpstream(ctx, ask, false)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if code != nil {
		if err := svc.fetchFile(ctx, ask, code); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return svc.find(ctx, ask.Products, q, withSym, ask.unfit...)
}

// fetchFile has the file at a path downloaded from the upstreams.
func (svc *Service) fetchFile(ctx context.Context, ask Ask, path []string) error {
	req, err := layout.Route(path)
	if err != nil {
		return fs.ErrNotExist
	}
	gaveUp, err := ask.Hold(ctx, func(ctx context.Context) error { return svc.Depot.Fetch(ctx, ask, req) })
	if err == nil && gaveUp {
		err = PendingError{}
	}
	return err
}

// make enters a job for a result, and waits for it.
func (svc *Service) make(ctx context.Context, ask Ask, f *files) (Answer, error) {
	none := Answer{}
	if !svc.clients.admit(ask.Client) {
		return none, ErrBusy
	}
	variant, queued := int(ask.Format), svc.opt.Queued
	if f.size() > svc.opt.InProcess {
		variant += largeVariant
		if !svc.hasWorker(variant) {
			return none, NoWorkerError{f.size(), svc.opt.InProcess}
		}
		queued = max(1, queued/2) // jobs that wait for workers leave room for the others
	}
	payload, err := json.Marshal(payloadOf(f, ask.Format))
	if err != nil {
		return none, err
	}
	key := f.key(ask.Format)
	forget := svc.clients.began(key, ask.Client)
	job, st, err := svc.Queue.Enqueue(ctx, jobs.Entry{
		Job: jobs.Job{Kind: Kind, Key: key, Variant: variant, Payload: payload, MaxQueued: queued}, Client: ask.Client,
		Held:   func(ctx context.Context) (bool, error) { return found(svc.made(ctx, f, ask.Format)) },
		Failed: func(ctx context.Context) (bool, error) { return found(svc.failure(ctx, f, ask.Format)) },
	})
	if err != nil || st > jobs.Running {
		forget()
	}
	switch {
	case errors.Is(err, jobs.ErrFull):
		return none, ErrBusy
	case err != nil:
		return none, err
	}
	if st <= jobs.Running {
		if ask.Hold == nil {
			return none, PendingError{}
		}
		gaveUp, err := ask.Hold(ctx, func(ctx context.Context) error {
			var err error
			st, err = svc.Queue.Wait(ctx, job.ID, st)
			return err
		})
		if err != nil {
			return none, err
		}
		if st <= jobs.Running && gaveUp {
			return none, PendingError{}
		}
	}
	if st == jobs.Failed {
		failed, err := svc.failure(ctx, f, ask.Format)
		if err == nil {
			err = UnusableError{f.from(), failed.Class}
		}
		return none, err
	}
	a, err := svc.made(ctx, f, ask.Format)
	if errors.Is(err, fs.ErrNotExist) {
		return none, PendingError{} // or it has been replaced or evicted since
	}
	return a, err
}

// Retry returns the time after which a client should ask for a pending file again.
func (svc *Service) Retry(ctx context.Context) time.Duration { return svc.Queue.Estimate(ctx, Kind) }

// found reports whether a lookup found something: fs.ErrNotExist is no error.
func found[T any](_ T, err error) (bool, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

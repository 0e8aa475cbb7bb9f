package importexport

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

const (
	followPoll = time.Second // how often the index is asked whether it has changed
	// portion is how many files are written before the state in the target says so.
	portion = 512
	// retryFirst and retryMost are the pauses after a failure of the target or the depot.
	retryFirst, retryMost = time.Second, time.Minute
	failedPause           = 10 * time.Minute
)

// FollowOptions are the options of Follow.
type FollowOptions struct {
	ExportOptions        // without DryRun
	Product       string // only builds of this product; empty: all
	// Round is called when the target has all that the depot has, after each change, and once at
	// the start. Builds are the builds that were new, Gone those that are no longer there.
	Round func(r ExportResult, builds, gone []int64)
	// Waiting is called with what the start waits for.
	Waiting func(text string)
	// Away is called when the target or the depot fails; Follow tries again after retry. Back is
	// called when the failure has ended.
	Away func(err error, retry time.Duration)
	Back func()
}

// follower keeps a target equal to a depot. It belongs to one goroutine.
type follower struct {
	*exporter
	opt    FollowOptions
	w      writer
	claim  claim
	plan   *plan
	builds map[int64]builtFiles // that the target has
	// have is what the target has, or may have, under each path: the content in the depot that it
	// was made of; the zero Ref if that is not known.
	have  map[string]blob.Ref
	state followState
	// failed are the paths of files whose bytes could not be had. They are tried again after
	// failedPause.
	failed   map[string]bool
	failedAt time.Time
	failing  map[string]bool // those of the portion that is being written; several goroutines: events is held
}

// ErrCannotFollow is the error for options with which nothing can be followed.
const ErrCannotFollow = term.UsageError("--follow excludes --dry-run, --build, and layouts with records of builds: " +
	"use --layout native, ssqp, debuginfod or breakpad")

// Follow exports what a depot has to a target, in a layout without records of builds, and goes on
// when builds arrive or go, until ctx ends: that is no error. A file that no build has any longer
// is removed from the target. Only one process at a time can do that: see HeldError. A target that
// fails at the start is an error; later, Follow tries again.
func Follow(ctx context.Context, d *depot.Depot, to Target, opt FollowOptions) error {
	if opt.Layout.Records() != layout.NoRecords || opt.DryRun {
		return ErrCannotFollow
	}
	f := &follower{exporter: newExporter(ctx, d, to, opt.ExportOptions), opt: opt}
	f.have, f.failed, f.failing, f.failedAt = map[string]blob.Ref{}, map[string]bool{}, map[string]bool{}, time.Now()
	f.cannotOpen = f.without
	err := f.run(ctx)
	if ctx.Err() != nil && !errors.As(err, new(*HeldError)) {
		return nil
	}
	return err
}

func (f *follower) run(ctx context.Context) (err error) {
	if f.w, err = f.to.open(); err != nil {
		return err
	}
	defer f.w.close()
	if f.claim, err = f.w.hold(ctx, f.opt.Waiting); err != nil {
		return err
	}
	defer f.claim.release()
	if err = f.start(ctx); err != nil {
		return err
	}
	pause := retryFirst
	for away := false; ; {
		seen, err := f.d.Generation(ctx)
		if err == nil {
			err = f.claim.check()
		}
		if err == nil {
			err = f.round(ctx)
		}
		switch {
		case ctx.Err() != nil, errors.As(err, new(*HeldError)):
			return err
		case err != nil:
			f.opt.Away(err, pause)
			if err := ctxio.Pause(ctx, pause); err != nil {
				return err
			}
			away, pause = true, min(2*pause, retryMost)
			continue
		case away:
			f.opt.Back()
			away, pause = false, retryFirst
		}
		if err := f.await(ctx, seen); err != nil {
			return err
		}
	}
}

// await waits until the depot has changed since a generation.
func (f *follower) await(ctx context.Context, seen uint64) error {
	for {
		if err := ctxio.Pause(ctx, followPoll); err != nil {
			return err
		}
		lost := f.claim.check() != nil
		now, err := f.d.Generation(ctx)
		if lost || err != nil || now != seen {
			return nil //nolint:nilerr // the next round says what is wrong
		}
	}
}

// list returns the builds of the depot, the oldest first.
func (f *follower) list(ctx context.Context) ([]depot.Transaction, error) {
	filter := depot.ListFilter{}
	if f.opt.Product != "" {
		filter.Product = &f.opt.Product
	}
	list, err := f.d.List(ctx, answer.Scope{}, filter)
	slices.Reverse(list)
	return list, err
}

// round brings the target to what the depot has now.
func (f *follower) round(ctx context.Context) error {
	txs, err := f.list(ctx)
	if err != nil {
		return err
	}
	fresh, gone := f.changed(txs)
	again := f.retryFailed()
	anew := f.plan == nil || len(gone) > 0
	if !anew && len(fresh) == 0 && !again {
		return nil
	}
	f.result = newExporter(ctx, f.d, f.to, f.opt.ExportOptions).result
	if anew {
		fresh = txs
	}
	if err := f.extend(ctx, fresh, anew); err != nil {
		return err
	}
	list, err := f.plan.places()
	if err != nil {
		return err
	}
	before := f.builds
	f.builds = buildsOf(txs)
	todo, drop := f.difference(list)
	if err := f.bring(ctx, todo, drop); err != nil {
		f.builds, f.plan = before, nil // planned anew
		return err
	}
	f.result.Transactions = len(fresh)
	f.opt.Round(f.result, added(before, f.builds), added(f.builds, before))
	return nil
}

// bring writes and removes files, so that the target has what f.builds have. The state in the target
// says before what is about to change.
func (f *follower) bring(ctx context.Context, todo []*place, drop []string) error {
	if len(todo)+len(drop) > 0 {
		f.state.Adding, f.state.Done = f.builds, ""
		if err := f.save(ctx); err != nil {
			return err
		}
	}
	if err := f.writePortions(ctx, todo); err != nil {
		return err
	}
	if err := f.removeAll(ctx, drop); err != nil {
		return err
	}
	f.state.Builds, f.state.Forms, f.state.Adding, f.state.Done = f.builds, f.forms(), nil, ""
	return f.save(ctx)
}

// changed returns the builds that the target lacks or has in part, and those that it has and the
// depot no longer has, or has with fewer files.
func (f *follower) changed(txs []depot.Transaction) (fresh []depot.Transaction, gone []int64) {
	now := buildsOf(txs)
	for number, b := range f.builds {
		if n, ok := now[number]; !ok || n.less(b) {
			gone = append(gone, number)
		}
	}
	for _, tx := range txs {
		if have, ok := f.builds[tx.Number]; !ok || have != now[tx.Number] {
			fresh = append(fresh, tx)
		}
	}
	return fresh, gone
}

// extend adds builds to the plan; anew: to an empty one.
func (f *follower) extend(ctx context.Context, txs []depot.Transaction, anew bool) error {
	p := f.plan
	if anew {
		p = f.newPlan()
	}
	f.plan = nil // unless all are added
	for _, tx := range txs {
		if err := p.add(ctx, tx); err != nil {
			return err
		}
	}
	f.plan = p
	return nil
}

// difference returns the files to write, and the paths to remove.
func (f *follower) difference(list []*place) (todo []*place, drop []string) {
	wanted := make(map[string]bool, len(list))
	for _, p := range list {
		wanted[p.path] = true
		if ref, ok := f.have[p.path]; !ok || ref != p.file.Ref {
			todo = append(todo, p)
		}
	}
	for path := range f.have {
		if !wanted[path] {
			drop = append(drop, path)
		}
	}
	slices.Sort(drop)
	return todo, drop
}

// writePortions writes files. After each portion, the state in the target says how far that is.
func (f *follower) writePortions(ctx context.Context, todo []*place) error {
	var total int64
	for _, p := range todo {
		total += p.file.Size
	}
	for list := range slices.Chunk(todo, portion) {
		for _, p := range list {
			f.have[p.path] = blob.Ref{} // whatever happens
		}
		if err := f.claim.check(); err != nil {
			return err
		}
		if err := f.writeAll(watchedWriter{f.w, f.claim}, list, total); err != nil {
			return err
		}
		for _, p := range list {
			f.have[p.path] = p.file.Ref
			delete(f.failed, p.path)
		}
		for path := range f.failing {
			f.failed[path] = true
		}
		f.failing = map[string]bool{}
		f.state.Done = list[len(list)-1].path
		if err := f.save(ctx); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes files from the target.
func (f *follower) removeAll(ctx context.Context, paths []string) error {
	for _, p := range paths {
		if err := f.claim.check(); err != nil {
			return err
		}
		if err := f.removePath(ctx, p); err != nil {
			return err
		}
		delete(f.have, p)
		f.count(func(r *ExportResult) { r.Removed++ })
		f.event(EventRemoved, p, "", false)
	}
	return f.w.flush()
}

// removePath removes the file of a path, in each of its names.
func (f *follower) removePath(ctx context.Context, path string) error {
	if f.opt.Compress && f.layout.Packing() == layout.PackCabinet {
		if err := f.w.remove(ctx, layout.CabinetName(path)); err != nil {
			return err
		}
	}
	return f.w.remove(ctx, path)
}

// watchedWriter writes as long as the claim holds.
type watchedWriter struct {
	writer
	claim claim
}

// has implements writer. It comes before each file that is written.
func (w watchedWriter) has(ctx context.Context, name string, src *answer.File, how layout.Packing) (there, equal bool, err error) {
	if err := w.claim.check(); err != nil {
		return false, false, err
	}
	return w.writer.has(ctx, name, src, how)
}

// retryFailed reports whether it is time to try the files again whose bytes could not be had.
func (f *follower) retryFailed() bool {
	if len(f.failed) == 0 || time.Since(f.failedAt) < failedPause {
		return false
	}
	for path := range f.failed {
		f.have[path] = blob.Ref{}
	}
	f.failed, f.failedAt = map[string]bool{}, time.Now()
	return true
}

// without handles a file of which nothing can be written: it is private, or its stored bytes are
// damaged or missing. What the target may have of it goes. Another cause is returned.
func (f *follower) without(ctx context.Context, p *place, cause error) error {
	switch {
	case f.isPrivate(cause):
		f.private(p, cause)
	case errors.Is(cause, fs.ErrNotExist):
		f.count(func(*ExportResult) { f.failing[p.path] = true })
		f.notWritten(p.path, cause.Error())
	default:
		return cause
	}
	return f.removePath(ctx, p.path)
}

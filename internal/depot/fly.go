package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/upstream"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// resumes is how often a transfer that broke off is taken up again.
const resumes = 3

// fly drives a transfer: it asks the sources, takes the file in, checks it and
// keeps it. Its context ends with the depot.
func (d *Depot) fly(ctx context.Context, fl *transfer, again bool) {
	defer fl.leave(true)
	select {
	case d.fetch.slots <- struct{}{}:
		defer func() { <-d.fetch.slots }()
	case <-ctx.Done():
		fl.land(0, nil, errClosing)
		return
	case <-time.After(queueTime):
		fl.land(0, nil, notFound([]error{errCrowd}))
		return
	}
	known := map[string]failed{}
	if !again {
		if d.holds(ctx, fl.q.Scope, fl.q.Request) {
			fl.land(0, nil, errGone) // it came while we were on our way here
			return
		}
		known, _ = d.rememberedMisses(ctx, fl.key) // without them, all are asked
	}
	var why []error
	left := d.worthAsking(fl.sources, known)
	for len(left) > 0 {
		got := d.askRanks(ctx, fl, left)
		for src, err := range got.failures {
			why = append(why, err)
			if f, ok := d.lasting(err); ok {
				known[src] = f
			} else {
				delete(known, src)
			}
		}
		if got.reply == nil {
			break
		}
		err := d.receive(ctx, fl, got)
		if err == nil {
			if again {
				d.forget(ctx, fl, got.from)
			}
			return
		}
		if d.giveUp(ctx, fl, got.from, err, known) {
			return
		}
		name := got.from.Source.Name()
		why = append(why, err)
		if f, ok := d.lasting(err); ok {
			known[name] = f
		}
		left = d.worthAsking(without(left, name), known)
	}
	if ctx.Err() != nil {
		fl.land(0, nil, errClosing)
		return
	}
	d.remember(ctx, fl, known)
	fl.land(0, nil, notFound(why))
}

// errClosing ends transfers when the depot is closed.
var errClosing = fmt.Errorf("the depot is being closed: %w", fs.ErrClosed)

// giveUp ends a transfer that failed, unless another source may be asked
// because nobody has heard of the file.
func (d *Depot) giveUp(ctx context.Context, fl *transfer, from Upstream, err error, known map[string]failed) bool {
	switch {
	case ctx.Err() != nil:
		fl.land(0, nil, errClosing)
	case !isFailure(err):
		// Ours, as when the disk is full: said here, and nothing that a client
		// could do anything about. It is not remembered.
		d.log.Error("a file could not be fetched", "error", err)
		fl.land(0, nil, notFound([]error{err}))
	case fl.isAnnounced():
		if f, ok := d.lasting(err); ok {
			known[from.Source.Name()] = f
			d.remember(ctx, fl, known)
		}
		fl.land(0, nil, err)
	default:
		return false
	}
	return true
}

// forget lets go of the memory that a source has not what it has now. While the
// depot has the file it does no harm, but after its eviction.
func (d *Depot) forget(ctx context.Context, fl *transfer, from Upstream) {
	d.fetch.misses.Invalidate(fl.slot)
	if _, err := d.db.FlushMisses(ctx, MissFilter{Key: fl.key, Source: from.Source.Name()}); err != nil && ctx.Err() == nil {
		d.log.Warn("a miss that is none any more could not be forgotten", "error", err)
	}
}

// holds reports whether the depot can answer a request itself.
func (d *Depot) holds(ctx context.Context, scope Scope, req layout.Request) bool {
	if req.Form == layout.FormSource {
		req = sourceRequest(req)
	}
	_, _, err := d.find(ctx, scope, req)
	return err == nil
}

// isFailure reports whether an error is the fault of a source, not ours.
func isFailure(err error) bool {
	_, ok := errors.AsType[*upstream.Failure](err)
	return ok
}

func without(list []Upstream, name string) []Upstream {
	var rest []Upstream
	for _, u := range list {
		if u.Source.Name() != name {
			rest = append(rest, u)
		}
	}
	return rest
}

// worthAsking leaves out the sources that are known not to have the file.
func (d *Depot) worthAsking(list []Upstream, known map[string]failed) []Upstream {
	now := d.now()
	var rest []Upstream
	for _, u := range list {
		if k, ok := known[u.Source.Name()]; !ok || !now.Before(k.until) {
			rest = append(rest, u)
		}
	}
	return rest
}

// answer is what came of asking.
type answer struct {
	from     Upstream
	asked    time.Time
	reply    *upstream.Reply // nil: nobody has it
	cancel   context.CancelCauseFunc
	failures map[string]error
}

type said struct {
	from   Upstream
	asked  time.Time
	reply  *upstream.Reply
	cancel context.CancelCauseFunc
	err    error
}

// askRanks asks the sources rank by rank and returns the first file.
func (d *Depot) askRanks(ctx context.Context, fl *transfer, list []Upstream) answer {
	got := answer{failures: map[string]error{}}
	answers := make(chan said, len(list))
	cancels := make(map[string]context.CancelCauseFunc)
	next := time.NewTimer(0)
	defer next.Stop()
	for running := 0; running > 0 || len(list) > 0; {
		var tick <-chan time.Time
		if len(list) > 0 {
			tick = next.C
			if running == 0 {
				next.Reset(0)
			}
		}
		select {
		case <-tick:
			rank := list[0].Rank
			for len(list) > 0 && list[0].Rank == rank {
				u := list[0]
				list = list[1:]
				running++
				actx, cancel := context.WithCancelCause(ctx)
				cancels[u.Source.Name()] = cancel
				go d.askOne(actx, cancel, u, fl, nil, answers)
			}
			next.Reset(d.fetch.limits.NextRank)
		case s := <-answers:
			running--
			if s.err == nil {
				got.from, got.asked, got.reply, got.cancel = s.from, s.asked, s.reply, s.cancel
				for name, cancel := range cancels {
					if name != s.from.Source.Name() {
						cancel(context.Canceled)
					}
				}
				go drain(answers, running)
				return got
			}
			s.cancel(context.Canceled)
			got.failures[s.from.Source.Name()] = s.err
		}
	}
	return got
}

// drain closes what late answers bring.
func drain(answers <-chan said, n int) {
	for range n {
		s := <-answers
		s.cancel(context.Canceled)
		if s.reply != nil {
			_ = s.reply.Body.Close()
		}
	}
}

// errSlow ends a transfer that hardly moves.
var errSlow = errors.New("it sends less than the slowest rate that is waited for")

// askOne asks one source and gives it a limited time to come to its first bytes.
func (d *Depot) askOne(ctx context.Context, cancel context.CancelCauseFunc, u Upstream, fl *transfer, rest *upstream.Resume, to chan<- said) {
	asked := time.Now()
	late := time.AfterFunc(d.fetch.limits.FirstByte, func() { cancel(errSlow) })
	reply, err := u.Source.Fetch(ctx, upstream.Ask{
		Request: fl.q.Request, Checksum: fl.q.Checksum, Via: fl.q.Via, Resume: rest, Limit: d.fetch.most(fl),
		Queued: func(waits bool) {
			if waits {
				late.Reset(queueTime)
			} else if ctx.Err() == nil {
				late.Reset(d.fetch.limits.FirstByte)
				asked = time.Now()
			}
		},
	})
	if !late.Stop() && err == nil { // it came too late by a hair
		_ = reply.Body.Close()
		reply, err = nil, errSlow
	}
	if err != nil && errors.Is(context.Cause(ctx), errSlow) && upstream.ClassOf(err) != upstream.ClassBusy {
		err = &upstream.Failure{Source: u.Source.Name(), Class: upstream.ClassTimeout, Err: errSlow}
	}
	to <- said{u, asked, reply, cancel, err}
}

// receive takes a file in while readers follow, checks it and keeps it. An
// error that is no *upstream.Failure is our own.
func (d *Depot) receive(ctx context.Context, fl *transfer, got answer) error {
	defer got.cancel(context.Canceled)
	sp, err := d.blobs.Spool()
	if err != nil {
		_ = got.reply.Body.Close()
		return err
	}
	fetched := d.now()
	fl.begin(sp, got.reply, got.from.Product, fetched)
	if path := got.reply.CodeInfo; path != "" && wants(fl.want, symfile.CodeInfo) && !d.redirected(ctx, fl, path) {
		_ = got.reply.Body.Close()
		sp.Abort()
		fl.land(0, nil, errGone)
		return nil
	}
	if err := d.copyAll(ctx, fl, sp, got); err != nil {
		sp.Abort()
		return err
	}
	objs, err := d.check(fl, sp, got.reply)
	if err != nil {
		sp.Abort()
		fail := &upstream.Failure{Source: got.from.Source.Name(), Class: upstream.ClassBroken, Err: err}
		if blame := got.from.Source.Traits().Blame; blame != nil {
			blame(fail)
		}
		d.log.Warn("a source sent a file that is not the one asked for", "source", got.from.Source.Name(), "path", got.reply.Path, "error", err)
		return fail
	}
	file := File{ModTime: fetched, Object: fl.answer(objs), Ref: sp.Sum(), Path: got.reply.Name}
	if _, err := sp.Keep(); err != nil {
		// The file is right, and those who wait for it shall have it.
		d.log.Error("a fetched file could not be kept", "error", err)
	} else if err := d.keep(ctx, fl, got, file.Ref, sp.Size(), objs, fetched); err != nil && ctx.Err() == nil {
		d.log.Error("a fetched file could not be entered", "error", err)
	}
	file.ETag = file.Ref.String()[:32]
	fl.land(sp.Size(), &file, nil)
	return nil
}

// redirected sends those on who know a module's code id only, and lets those
// join the transfer who come back with the debug id from path. It returns false
// if the file itself is not needed here: the depot has it, or it is on its way.
func (d *Depot) redirected(ctx context.Context, fl *transfer, path string) bool {
	req, err := layout.BreakpadTree.Parse(path)
	if err != nil || req.Form != layout.FormFile {
		return true
	}
	fl.want = req
	q := fl.q
	q.Request = req
	needed := !d.holds(ctx, q.Scope, req)
	if needed {
		f := d.fetch
		f.mu.Lock()
		if other := f.slot(q, fl.sources); f.transfers[other] == nil {
			f.transfers[other], fl.other = fl, other
		} else {
			needed = false
		}
		f.mu.Unlock()
	}
	fl.leads(path)
	return needed
}

// copyAll reads the whole body into the spool, and takes it up again where it
// broke off if the source knows how.
func (d *Depot) copyAll(ctx context.Context, fl *transfer, sp *blob.Spool, got answer) error {
	reply, cancel, asked := got.reply, got.cancel, got.asked
	for try := 0; ; try++ {
		err := d.copyBody(fl, sp, reply.Body, asked, cancel)
		if err == nil {
			if reply.Size >= 0 && sp.Size() != reply.Size {
				return &upstream.Failure{Source: got.from.Source.Name(), Class: upstream.ClassBroken, Err: errLength}
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errSpool) {
			return err
		}
		if !isFailure(err) {
			err = &upstream.Failure{Source: got.from.Source.Name(), Class: upstream.ClassBroken, Err: err}
		}
		if f, ok := errors.AsType[*upstream.Failure](err); ok && f.Source == "" {
			f.Source = got.from.Source.Name() // it is we who found fault
		}
		if errors.Is(err, errSlow) || reply.Tag == "" || try == resumes || upstream.ClassOf(err) == upstream.ClassTooLarge || errors.Is(err, objfile.ErrNotSymbolFile) {
			return err
		}
		next, c, rerr := d.resume(ctx, fl, got.from, &upstream.Resume{Path: reply.Path, Tag: reply.Tag, Offset: sp.Size()})
		if rerr != nil {
			return err
		}
		if next.Offset != sp.Size() || next.Size != reply.Size {
			c(context.Canceled)
			_ = next.Body.Close()
			return err // another file by now
		}
		defer c(context.Canceled)
		reply, cancel, asked = next, c, time.Now()
	}
}

var (
	errLength = errors.New("it announced another length than it sent")
	errSpool  = errors.New("no room for what arrives")
)

func (d *Depot) resume(ctx context.Context, fl *transfer, from Upstream, at *upstream.Resume) (*upstream.Reply, context.CancelCauseFunc, error) {
	actx, cancel := context.WithCancelCause(ctx)
	answers := make(chan said, 1)
	d.askOne(actx, cancel, from, fl, at, answers)
	s := <-answers
	if s.err != nil {
		cancel(context.Canceled)
		return nil, nil, s.err
	}
	return s.reply, cancel, nil
}

const copyBuffer = 128 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// copyBody copies one body. A transfer that hardly moves is ended: soon while
// nobody has heard of the file, later when somebody has begun to read it.
func (d *Depot) copyBody(fl *transfer, sp *blob.Spool, body io.ReadCloser, asked time.Time, cancel context.CancelCauseFunc) error {
	defer body.Close()
	var slow atomic.Bool
	end := make(chan struct{})
	defer close(end)
	go func() {
		if d.tooSlow(fl, sp, asked, end) {
			slow.Store(true)
			cancel(errSlow)
			_ = body.Close() // for a Read that does not look at its context
		}
	}()
	buf := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buf)
	likely := sp.Size() >= headSize
	for {
		n, err := body.Read(buf[:])
		if n > 0 {
			if sp.Size()+int64(n) > d.fetch.most(fl) {
				return &upstream.Failure{Class: upstream.ClassTooLarge, Err: errors.New("the file is larger than the limit")}
			}
			if _, err := sp.Write(buf[:n]); err != nil {
				return errors.Join(errSpool, err)
			}
			if !likely && sp.Size() >= headSize {
				if err := d.checkHead(fl, sp); err != nil {
					return err
				}
				likely = true
			}
			if likely || fl.size >= 0 && fl.size < headSize {
				fl.arrived(sp.Size())
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case slow.Load():
			return &upstream.Failure{Class: upstream.ClassTimeout, Err: errSlow}
		case err != nil:
			return err
		}
	}
}

// headSize is how much of a file tells whether it may be a symbol file at all.
const headSize = 4 << 10

// checkHead refuses early what cannot be a symbol file, such as a page that
// says sorry, before a client hears of it and before there is too much of it.
func (d *Depot) checkHead(fl *transfer, sp *blob.Spool) error {
	if byHash(fl.want) || fl.want.Form == layout.FormSource {
		return nil
	}
	var head [headSize]byte
	if _, err := sp.ReadAt(head[:], 0); err != nil {
		return errors.Join(errSpool, err)
	}
	if err := objfile.Candidate(head[:], fl.file.Object.Name); err != nil {
		return &upstream.Failure{Class: upstream.ClassBroken, Err: err}
	}
	return nil
}

// byHash reports whether any file at all may be the answer, because a hash of
// its contents may be what is asked for.
func byHash(req layout.Request) bool {
	return slices.ContainsFunc(req.Lookups, func(l symfile.Lookup) bool {
		return l.Role&symfile.Other != 0 && (len(l.ID) == 40 || len(l.ID) == 64)
	})
}

// tooSlow watches a transfer until end is closed and returns true as soon as
// less than the slowest rate has arrived over the time that is waited for.
func (d *Depot) tooSlow(fl *transfer, sp *blob.Spool, asked time.Time, end <-chan struct{}) bool {
	const step = 200 * time.Millisecond
	limits := d.fetch.limits
	tick := time.NewTicker(step)
	defer tick.Stop()
	first := sp.Size()
	var seen []int64 // sizes at past ticks, since readers were told
	for {
		select {
		case <-end:
			return false
		case <-tick.C:
		}
		size := sp.Size()
		if !fl.isAnnounced() {
			since := time.Since(asked)
			if since >= limits.FirstByte && float64(size-first) < since.Seconds()*float64(limits.MinRate) {
				return true
			}
			continue
		}
		seen = append(seen, size)
		n := int(limits.Stall / step)
		if len(seen) <= n {
			continue
		}
		seen = seen[len(seen)-n-1:]
		if float64(size-seen[0]) < limits.Stall.Seconds()*float64(limits.MinRate) {
			return true
		}
	}
}

// check returns the objects of a whole file, if one of them is what was asked for.
func (d *Depot) check(fl *transfer, sp *blob.Spool, reply *upstream.Reply) ([]objfile.Object, error) {
	name := fl.file.Object.Name
	if !symfile.ValidName(name) {
		name = "file"
		if len(fl.want.Lookups) > 0 {
			name = fl.want.Lookups[0].ID
		}
	}
	if fl.want.Form == layout.FormSource {
		// Nothing in a text says what it is the source of: it is what the
		// server says.
		return objfile.Identify(sp, sp.Size(), sourceName(fl.want), objfile.Options{As: "sha1"})
	}
	if byHash(fl.want) {
		// Only its hash can tell whether it is the file.
		if objs, err := objfile.Identify(sp, sp.Size(), name, objfile.Options{As: "sha1"}); err == nil && answers(fl.want, objs) {
			return objs, nil
		}
	}
	objs, err := objfile.Identify(sp, sp.Size(), name, objfile.Options{})
	if err != nil {
		return nil, err
	}
	// The slices of a fat file are answered with the whole; what would have
	// to be unpacked first is not.
	objs = slices.DeleteFunc(objs, func(o objfile.Object) bool { return o.Deflated != 0 })
	if !answers(fl.want, objs) {
		return nil, errWrongFile
	}
	return objs, nil
}

// answer is the object of a file that was asked for.
func (fl *transfer) answer(objs []objfile.Object) symfile.Object {
	for _, o := range objs {
		if answers(fl.want, []objfile.Object{o}) {
			return o.Object
		}
	}
	return objs[0].Object
}

// answers reports whether one of a file's objects is what a request asks for.
func answers(req layout.Request, objs []objfile.Object) bool {
	for _, o := range objs {
		for _, a := range o.Aliases() {
			for _, l := range req.Lookups {
				if l.Matches(a) {
					return true
				}
			}
		}
		if req.Age != nil && (o.Kind == symfile.PDB || o.Kind == symfile.MSFZ && wants(req, symfile.Compressed)) && o.DebugID.GUID == req.Age.GUID &&
			max(o.DebugID.Age, o.InfoAge) >= req.Age.Age {
			return true
		}
	}
	return false
}

// keep enters a fetched file into the index.
func (d *Depot) keep(ctx context.Context, fl *transfer, got answer, ref blob.Ref, size int64, objs []objfile.Object, fetched time.Time) error {
	var entries []index.Entry
	for _, o := range objs {
		aliases, path := o.Aliases(), got.reply.Name
		if fl.want.Form == layout.FormSource {
			aliases, path = append(aliases, sourceAlias(fl.want)), sourcePath(fl.want)
		}
		if len(aliases) == 0 {
			continue
		}
		entries = append(entries, index.Entry{
			Object: o.Object, Arch: o.Arch, Features: o.Features.Words(), DebugSize: o.DebugSize, Ref: ref, Size: size,
			Aliases: aliases, Path: path, ModTime: got.reply.ModTime,
		})
	}
	if len(entries) == 0 {
		return nil
	}
	return d.db.PutCached(ctx, index.CachedFile{
		Source: got.from.Source.Name(), Name: got.reply.Name, URL: got.reply.Path, Tag: got.reply.Tag,
		Ref: ref, Size: size, Fetched: fetched, Product: got.from.Product, Entries: entries,
	}, func(ctx context.Context, _ []blob.Ref) error {
		_, err := d.blobs.Stat(ctx, ref)
		return err
	})
}

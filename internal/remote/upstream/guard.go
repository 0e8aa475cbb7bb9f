package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/symfile"
)

// GuardOptions say which requests an upstream receives, and how many at the same
// time. The zero value asks for everything except executables.
type GuardOptions struct {
	Rank int
	// Kinds are the kinds of files that the upstream is asked for; none means all.
	// The kind of a request is judged by the form of its name and id.
	Kinds []symfile.Kind
	// NamePatterns, if not empty, are patterns. The file's name must match one of
	// them. Case is ignored; * matches any characters including slashes, ?
	// matches one character. Requests without a name do not match.
	NamePatterns []string
	// IDs are patterns of ids, in the same syntax; hyphens are ignored.
	IDs []string
	// NeverAsk are patterns of names and ids that must never be sent to the
	// upstream.
	NeverAsk []string
	// Executables permits executables from the upstream.
	Executables bool
	// Public says that the upstream has only the public forms of files.
	Public bool
	// RequiresChecksum excludes requests for which the client sent no checksum.
	RequiresChecksum bool
	// Concurrency is the number of concurrent requests, including their bodies;
	// 0 means 16. Further requests wait. Servers that download for each other share
	// it; each sends at least one.
	Concurrency int
	// MaxBytes is the largest decompressed file; with 0 the upstream decides.
	MaxBytes int64
	Breaker  BreakerOptions
	Now      func() time.Time // nil: time.Now
}

// FormsPublic is the word for GuardOptions.Public.
const FormsPublic = "public"

// BreakerOptions configure the circuit breaker. Zero means the default in the
// comment.
type BreakerOptions struct {
	Failures int           // consecutive failures that open it; 5
	Timeouts int           // consecutive timeouts that open it; 3
	Pause    time.Duration // after the first opening, doubled with each further opening; 10 s
	MaxPause time.Duration // 5 min
}

const (
	// DefaultConcurrency is the number of requests to one upstream at the same time.
	DefaultConcurrency = 16
	politePause        = 10 * time.Second // after a 429 without Retry-After
	// The breaker opens after maxWrong wrong files within wrongWindow, if at
	// least half of the upstream's files were wrong.
	maxWrong    = 5
	wrongWindow = 10 * time.Minute
	// maxLosses is how many consecutive requests may be cancelled because
	// another upstream was faster before one of them is watched to its end.
	maxLosses = 10
	// watchTime limits a watched request.
	watchTime = 5 * time.Second
)

// Guarded is an upstream behind filters, a limit of concurrent requests and a
// circuit breaker. It sends nothing while the breaker is open, or before the
// time that the upstream asked for. A miss is not a failure.
type Guarded struct {
	src    fetch.Source
	opt    GuardOptions
	filter filter
	slots  semaphore
	life   context.Context // ends with Close
	end    context.CancelFunc

	mu        sync.Mutex
	breaker   breaker      // guarded by mu
	until     time.Time    // guarded by mu; no request before this time
	why       string       // guarded by mu; the reason for until
	asked     time.Time    // guarded by mu; the source asked this server not to be asked before
	wrongFrom time.Time    // guarded by mu; start of the window of good and wrong
	good      int          // guarded by mu; complete bodies
	wrong     int          // guarded by mu; wrong files among them
	losses    int          // guarded by mu; consecutive requests cancelled before a response
	watched   bool         // guarded by mu; a request is being watched to its end
	status    fetch.Status // guarded by mu; the counters
	times     times        // guarded by mu; how long the last requests took
}

// Guard puts a guard in front of an upstream. The guard owns the upstream and closes
// it.
func Guard(src fetch.Source, opt GuardOptions) *Guarded {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Concurrency <= 0 {
		opt.Concurrency = DefaultConcurrency
	}
	b := &opt.Breaker
	for _, o := range []struct {
		value *int
		def   int
	}{{&b.Failures, 5}, {&b.Timeouts, 3}} {
		if *o.value <= 0 {
			*o.value = o.def
		}
	}
	if b.Pause <= 0 {
		b.Pause = 10 * time.Second
	}
	if b.MaxPause <= 0 {
		b.MaxPause = 5 * time.Minute
	}
	b.MaxPause = max(b.MaxPause, b.Pause)
	g := &Guarded{src: src, opt: opt, filter: newFilter(opt), slots: semaphore{limit: opt.Concurrency}, breaker: breaker{opt: opt.Breaker}}
	g.life, g.end = context.WithCancel(context.Background())
	return g
}

// errNeutral is the outcome of a request that proves nothing about the upstream.
var errNeutral = errors.New("no verdict")

// Name returns the upstream's name.
func (g *Guarded) Name() string { return g.src.Name() }

// Traits returns the upstream's traits with the guard's additions.
func (g *Guarded) Traits() fetch.Traits {
	t := g.src.Traits()
	t.NeedsChecksum = t.NeedsChecksum || g.opt.RequiresChecksum
	t.Reset = g.reset
	t.Status, t.Blame, t.Paused, t.Pause, t.Share = g.State, g.Blame, g.paused, g.pause, g.share
	inner := t.Excludes
	t.Excludes = func(ask fetch.Ask) string {
		req, why := g.filter.apply(&ask)
		if ask.Request = req; why == "" && inner != nil {
			why = inner(ask)
		}
		return why
	}
	if t.Metadata != nil {
		t.Metadata = g.search(t.Metadata)
	}
	return t
}

// Rank returns the configured rank.
func (g *Guarded) Rank() int { return g.opt.Rank }

// Public reports whether the upstream has only the public forms of files.
func (g *Guarded) Public() bool { return g.opt.Public }

// Close closes the upstream.
func (g *Guarded) Close() error {
	g.end()
	return g.src.Close()
}

// State returns the counters and the state of the circuit breaker.
func (g *Guarded) State() fetch.Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.status
	s.Name, s.Rank = g.src.Name(), g.opt.Rank
	s.P50, s.P95 = g.times.percentiles()
	if g.opt.Now().Before(g.until) {
		s.Open, s.Until, s.Why = true, g.until, g.why
	}
	return s
}

// reset closes the circuit breaker. undo opens it again if it was open.
func (g *Guarded) reset() (undo func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old, until, why := g.breaker, g.until, g.why
	g.breaker = breaker{opt: g.opt.Breaker, generation: old.generation + 1}
	g.until, g.why = time.Time{}, ""
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if (old.open || g.opt.Now().Before(until)) && until.After(g.until) {
			old.generation, old.probing = g.breaker.generation+1, false // requests meanwhile say nothing about it
			g.breaker, g.until, g.why = old, until, why
		}
	}
}

// opened updates the status after the breaker has opened. mu is held.
func (g *Guarded) opened() {
	g.good, g.wrong = 0, 0
	if g.breaker.until.After(g.until) {
		g.until, g.why = g.breaker.until, "too many failures, the last one: "+g.status.LastError
	}
}

// busy returns a failure while requests must not be sent.
func (g *Guarded) busy() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.opt.Now().Before(g.until) {
		return nil
	}
	g.status.Refused++
	return &fetch.Failure{Source: g.src.Name(), Class: fetch.ClassBusy, Retry: g.until, Err: errors.New("circuit breaker is open: " + g.why)}
}

// Fetch asks the upstream if the filters and the breaker permit it.
func (g *Guarded) Fetch(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error) {
	req, why := g.filter.apply(&ask)
	if why != "" {
		g.mu.Lock()
		g.status.Skipped++
		g.mu.Unlock()
		return nil, &fetch.Failure{Source: g.src.Name(), Class: fetch.ClassSkipped, Err: errors.New(why)}
	}
	ask.Request = req
	if m := g.opt.MaxBytes; m > 0 && (ask.Limit <= 0 || ask.Limit > m) {
		ask.Limit = m
	}
	if err := g.busy(); err != nil {
		return nil, err
	}
	if err := g.enter(ctx, ask.Queued); err != nil {
		return nil, err
	}
	p, err := g.begin(ctx)
	if err != nil {
		g.leave()
		return nil, err
	}
	reply, err := g.request(ctx, ask, p)
	if err != nil {
		p.end(err)
		return nil, err
	}
	p.answered()
	body := &guardedBody{ReadCloser: reply.Body, pass: p, images: g.opt.Executables || reply.Offset > 0, sized: reply.Size >= 0}
	body.left.Store(reply.Size - reply.Offset)
	reply.Body = body
	return reply, nil
}

// request asks the upstream. If an upstream hangs and another one is faster, its
// requests are always cancelled before they fail. So after maxLosses such
// requests, one request at a time continues for watchTime after its caller has
// left, and its outcome counts.
func (g *Guarded) request(ctx context.Context, ask fetch.Ask, p *pass) (*fetch.Reply, error) {
	g.mu.Lock()
	watch := g.losses >= maxLosses && !g.watched
	g.watched = g.watched || watch
	g.mu.Unlock()
	if !watch {
		return g.src.Fetch(ctx, ask)
	}
	sctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	type outcome struct {
		reply *fetch.Reply
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		reply, err := g.src.Fetch(sctx, ask)
		done <- outcome{reply, err}
	}()
	select {
	case o := <-done:
		g.unwatch()
		if o.err != nil {
			stop(nil)
			return nil, o.err
		}
		context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })
		return o.reply, nil
	case <-ctx.Done():
	}
	if !errors.Is(context.Cause(ctx), context.Canceled) {
		stop(context.Cause(ctx))
		o := <-done
		g.unwatch()
		return o.reply, o.err
	}
	// This goroutine now owns the slot and reports the outcome; the caller's end
	// of the pass must not count.
	own := &pass{g: g, ctx: sctx, ticket: p.ticket}
	p.once.Do(func() {})
	go func() {
		defer g.unwatch()
		defer stop(nil)
		timer := time.NewTimer(watchTime)
		defer timer.Stop()
		select {
		case o := <-done:
			if o.err == nil {
				own.answered()
				_ = o.reply.Body.Close()
				o.err = errNeutral
			}
			own.end(o.err)
		case <-timer.C:
			own.end(&fetch.Failure{Source: g.src.Name(), Class: fetch.ClassTimeout, Err: errHeader})
			stop(errHeader)
			if o := <-done; o.reply != nil {
				_ = o.reply.Body.Close()
			}
		case <-g.life.Done():
			own.end(errNeutral)
			stop(nil)
			if o := <-done; o.reply != nil {
				_ = o.reply.Body.Close()
			}
		}
	}()
	return nil, &fetch.Failure{Source: g.src.Name(), Class: fetch.ClassTimeout, Err: context.Cause(ctx)}
}

func (g *Guarded) unwatch() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watched = false
}

// enter waits for the semaphore of concurrent requests.
func (g *Guarded) enter(ctx context.Context, queued func(bool)) error {
	if g.slots.try() {
		g.add(&g.status.Active, 1)
		return nil
	}
	g.add(&g.status.Waiting, 1)
	defer g.add(&g.status.Waiting, -1)
	if queued != nil {
		queued(true)
		defer queued(false)
	}
	if g.slots.enter(ctx) == nil {
		g.add(&g.status.Active, 1)
		return nil
	}
	// The upstream did not cause the wait.
	return &fetch.Failure{
		Source: g.src.Name(), Class: fetch.ClassBusy,
		Err: fmt.Errorf("the limit of %d concurrent requests is reached", g.slots.most()),
	}
}

// share implements fetch.Traits.Share.
func (g *Guarded) share(servers int) {
	g.slots.setLimit(max(1, g.opt.Concurrency/max(1, servers)))
}

func (g *Guarded) leave() {
	g.add(&g.status.Active, -1)
	g.slots.leave()
}

func (g *Guarded) add(n *int64, d int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*n += d
}

// begin gets a ticket from the breaker.
func (g *Guarded) begin(ctx context.Context) (*pass, error) {
	if err := g.busy(); err != nil { // the state may have changed while the request waited
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t, ok := g.breaker.allow(g.opt.Now())
	if !ok {
		g.status.Refused++
		return nil, &fetch.Failure{
			Source: g.src.Name(), Class: fetch.ClassBusy,
			Err: errors.New("circuit breaker is half-open: a probe request is in progress"),
		}
	}
	g.status.Requests++
	return &pass{g: g, ctx: ctx, ticket: t, begun: g.opt.Now()}, nil
}

// Blame counts a wrong file from the upstream. Too many of them open the breaker.
func (g *Guarded) Blame(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.opt.Now()
	if now.Sub(g.wrongFrom) > wrongWindow {
		g.wrongFrom, g.good, g.wrong = now, 0, 0
	}
	g.wrong++
	g.status.Wrong++
	g.noteError(err)
	if (g.breaker.probation > 0 || g.wrong >= maxWrong && 2*g.wrong >= g.good) && g.breaker.admits(now) {
		g.breaker.trip(now)
		g.opened()
	}
}

// noteError records an error in the status. mu is held.
func (g *Guarded) noteError(err error) {
	now := g.opt.Now()
	if g.status.Failures++; g.status.Failures == 1 {
		g.status.Since = now
	}
	g.status.LastError, g.status.LastTime = err.Error(), now
}

// pass is one permitted request.
type pass struct {
	g       *Guarded
	ctx     context.Context
	begun   time.Time
	once    sync.Once
	ticket  ticket // guarded by g.mu
	replied bool   // guarded by g.mu; the first bytes have arrived
}

// answered records that the first bytes have arrived. This completes a probe
// request, so that a long body does not block other requests.
func (p *pass) answered() {
	g := p.g
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status.Hits++
	g.times.add(g.opt.Now().Sub(p.begun))
	g.losses, p.replied = 0, true
	if p.ticket.probe {
		g.breaker.succeeded(p.ticket)
		p.ticket, _ = g.breaker.allow(g.opt.Now())
	}
}

// end reports the outcome of the request, nil for a complete body, and releases
// its slot. Only the first call counts.
func (p *pass) end(err error) {
	p.once.Do(func() {
		p.note(err, p.judge(err))
		p.g.leave()
	})
}

// judge returns the outcome for the breaker: nil, errNeutral or an error.
func (p *pass) judge(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, errNeutral) || p.ctx.Err() != nil {
		// Cancelled because another upstream was faster or because this upstream was
		// too slow.
		if why := context.Cause(p.ctx); why == nil || errors.Is(why, context.Canceled) {
			return errNeutral
		}
		return &fetch.Failure{Source: p.g.src.Name(), Class: fetch.ClassTimeout, Err: context.Cause(p.ctx)}
	}
	f, ok := errors.AsType[*fetch.Failure](err)
	if !ok {
		return errNeutral // a local error
	}
	switch f.Class {
	case fetch.ClassNotFound, fetch.ClassForbidden, fetch.ClassUnauthorized, fetch.ClassTooLarge:
		return nil // the upstream works
	case fetch.ClassSkipped, fetch.ClassBusy:
		return errNeutral
	}
	return f
}

// note counts the outcome.
func (p *pass) note(err, verdict error) {
	g := p.g
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.opt.Now()
	switch {
	case verdict == nil:
		g.breaker.succeeded(p.ticket)
		g.status.Failures, g.status.Since, g.losses = 0, time.Time{}, 0
		g.status.Unauthorized = ""
		switch fetch.ClassOf(err) { // it works, but not for this server
		case fetch.ClassUnauthorized:
			g.status.Unauthorized = err.Error()
			fallthrough
		case fetch.ClassForbidden:
			g.status.Errors++
			g.status.LastError, g.status.LastTime = err.Error(), now
			return
		}
		if err != nil {
			g.status.Misses++
			g.times.add(now.Sub(p.begun))
			return
		}
		if now.Sub(g.wrongFrom) > wrongWindow {
			g.wrongFrom, g.good, g.wrong = now, 0, 0
		}
		g.good++
	case !errors.Is(verdict, errNeutral):
		g.status.Errors++
		g.noteError(verdict)
		if g.breaker.failed(p.ticket, now, fetch.ClassOf(verdict) == fetch.ClassTimeout) {
			g.opened()
		}
	default:
		g.breaker.ignore(p.ticket)
		if !p.replied && p.ctx.Err() != nil {
			g.losses++
		}
		if f, ok := errors.AsType[*fetch.Failure](err); ok && f.Class == fetch.ClassBusy && p.ctx.Err() == nil {
			g.pauseUntilRetry(f, now)
		}
	}
}

// pauseUntilRetry stops requests until the time that the upstream asked for. mu is
// held.
func (g *Guarded) pauseUntilRetry(f *fetch.Failure, now time.Time) {
	until := f.Retry
	if until.IsZero() {
		until = now.Add(politePause)
	}
	if until.After(g.until) {
		g.until, g.why = until, whyPause
	}
	if until.After(g.asked) {
		g.asked = until
	}
	g.status.LastError, g.status.LastTime = f.Error(), now
}

const whyPause = "the upstream asked for a pause"

// paused implements fetch.Traits.Paused.
func (g *Guarded) paused() (time.Time, string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked, whyPause
}

// pause implements fetch.Traits.Pause.
func (g *Guarded) pause(until time.Time, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.until) {
		g.until, g.why = until, why+", as another server of the depot learned"
	}
}

// guardedBody reports the outcome of a body.
type guardedBody struct {
	io.ReadCloser
	pass   *pass
	images bool         // executables are permitted
	left   atomic.Int64 // atomic: Close may run while Read waits
	sized  bool
	head   [2]byte
	seen   int   // bytes of head
	bad    error // the failure that Read detected
}

// errImage means that an upstream sent a forbidden executable.
var errImage = errors.New("the upstream sent an executable, which executables=false forbids")

func (b *guardedBody) Read(p []byte) (int, error) {
	if b.bad != nil {
		return 0, b.bad
	}
	n, err := b.ReadCloser.Read(p)
	if !b.images && b.seen < len(b.head) {
		b.seen += copy(b.head[b.seen:], p[:n])
		if string(b.head[:b.seen]) == "MZ" {
			b.bad = &fetch.Failure{Source: b.pass.g.src.Name(), Class: fetch.ClassBroken, Err: errImage}
			n, err = 0, b.bad
		}
	}
	if n > 0 {
		b.pass.g.add(&b.pass.g.status.Bytes, int64(n))
		b.left.Add(int64(-n))
	}
	switch {
	case errors.Is(err, io.EOF):
		b.pass.end(nil)
	case err != nil:
		b.pass.end(err)
	}
	return n, err
}

// Close ends the request. A body that was not read to its end says nothing about
// the upstream, unless it was abandoned because it was too slow.
func (b *guardedBody) Close() error {
	err := b.ReadCloser.Close()
	if b.sized && b.left.Load() == 0 {
		b.pass.end(nil)
	}
	b.pass.end(errNeutral)
	return err
}

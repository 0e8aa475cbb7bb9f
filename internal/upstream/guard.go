package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/symdepot/symdepot/symfile"
)

// GuardOptions say what a source is asked for, and how hard. The zero value
// asks for everything but executables.
type GuardOptions struct {
	Rank int
	// Kinds are the kinds of files that it is asked for; none: all. What a
	// request is for is judged by the form of its name and id.
	Kinds []symfile.Kind
	// NamePatterns are those that a file's name must fit one of; none: all
	// fit. Case is ignored; * stands for any characters, slashes too, and ?
	// for one. Whatever has no name does not fit.
	NamePatterns []string
	// IDs are patterns for ids, likewise; hyphens do not count.
	IDs []string
	// NeverAsk are patterns of names and ids that the source must not hear of.
	NeverAsk []string
	// Executables may come from the source.
	Executables bool
	// RequiresChecksum leaves out whatever the client sent no checksum for.
	RequiresChecksum bool
	// Concurrency is how many requests may be under way at once, bodies
	// included; 0: 16. Further ones wait.
	Concurrency int
	// MaxBytes of a plain file; 0 leaves it to the source.
	MaxBytes int64
	Breaker  BreakerOptions
	Now      func() time.Time // nil: time.Now
}

// BreakerOptions say when a source is left alone, and for how long. What is 0
// has its default.
type BreakerOptions struct {
	Failures int           // in a row; 5
	Timeouts int           // in a row; 3
	Pause    time.Duration // after the first time, twice as long each time after; 10 s
	MaxPause time.Duration // 5 min
}

const (
	defaultConcurrency = 16
	politePause        = 10 * time.Second // after 429 without a word of when
	// A source that sends wrong files is left alone after maxWrong of them
	// within wrongWindow, if they are half of all that it sent.
	maxWrong    = 5
	wrongWindow = 10 * time.Minute
	// probation is how many requests after a pause must succeed before a
	// failure is taken lightly again.
	probation = 2
)

// Guarded is a source that is asked only for what it may be asked for, and left
// alone while it fails or has asked to be. A source that does not have a file
// has not failed.
type Guarded struct {
	src    Source
	opt    GuardOptions
	filter filter
	slots  chan struct{}
	cb     *gobreaker.TwoStepCircuitBreaker[struct{}]
	force  atomic.Bool // the next failure opens the breaker

	// mu is never held while cb is called: cb calls back.
	mu        sync.Mutex
	until     time.Time // guarded by mu; no request before
	why       string    // guarded by mu; why not
	tripped   int       // guarded by mu; pauses in a row
	probation int       // guarded by mu; successes that are still owed
	timeouts  int       // guarded by mu; in a row
	wrongFrom time.Time // guarded by mu; since when good and wrong count
	good      int       // guarded by mu; bodies that came to their end
	wrong     int       // guarded by mu; of them, wrong files
	status    Status    // guarded by mu; the counters
}

// Status is what a source has done so far.
type Status struct {
	Name string `json:"name"`
	Rank int    `json:"rank"`
	// Open is set while the source is left alone, until Until; a single
	// request will then find out whether that may end.
	Open      bool      `json:"open"`
	Until     time.Time `json:"until,omitzero"`
	Why       string    `json:"why,omitempty"`
	Failures  int       `json:"failures"` // in a row
	LastError string    `json:"last_error,omitempty"`
	LastTime  time.Time `json:"last_error_time,omitzero"`
	Requests  int64     `json:"requests"`
	Hits      int64     `json:"hits"`
	Misses    int64     `json:"misses"`
	Errors    int64     `json:"errors"`
	Wrong     int64     `json:"wrong"`   // files that were not what was asked for
	Skipped   int64     `json:"skipped"` // not asked for such a thing
	Refused   int64     `json:"refused"` // not asked because it is left alone
	Bytes     int64     `json:"bytes"`   // plain
	Active    int64     `json:"active"`  // requests under way
	Waiting   int64     `json:"waiting"`
}

// Guard puts a guard in front of a source, which then belongs to it.
func Guard(src Source, opt GuardOptions) *Guarded {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Concurrency <= 0 {
		opt.Concurrency = defaultConcurrency
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
	g := &Guarded{src: src, opt: opt, filter: newFilter(opt), slots: make(chan struct{}, opt.Concurrency)}
	g.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:          src.Name(),
		Timeout:       time.Nanosecond, // how long it stays open is ours to say: until
		ReadyToTrip:   g.tooMany,
		OnStateChange: func(_ string, _, to gobreaker.State) { g.changed(to) },
		IsExcluded:    func(err error) bool { return errors.Is(err, errNeutral) },
	})
	return g
}

// errNeutral is the outcome of a request that says nothing about the source.
var errNeutral = errors.New("neither good nor bad")

// Name is the source's.
func (g *Guarded) Name() string { return g.src.Name() }

// SymCacheServer reports whether the source speaks the SymCache protocol, and
// nothing else.
func (g *Guarded) SymCacheServer() bool {
	s, ok := g.src.(interface{ SymCacheServer() bool })
	return ok && s.SymCacheServer()
}

// Rank is the one configured.
func (g *Guarded) Rank() int { return g.opt.Rank }

// Close closes the source.
func (g *Guarded) Close() error { return g.src.Close() }

// State returns what the source has done so far, and whether it is left alone.
func (g *Guarded) State() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.status
	s.Name, s.Rank = g.src.Name(), g.opt.Rank
	if g.opt.Now().Before(g.until) {
		s.Open, s.Until, s.Why = true, g.until, g.why
	}
	return s
}

// tooMany is asked after a failure. The breaker's own lock is held.
func (g *Guarded) tooMany(c gobreaker.Counts) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.force.Load() || g.probation > 0 || int(c.ConsecutiveFailures) >= g.opt.Breaker.Failures || g.timeouts >= g.opt.Breaker.Timeouts
}

// changed is told of the breaker's state. Its lock is held.
func (g *Guarded) changed(to gobreaker.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch to {
	case gobreaker.StateOpen:
		pause := g.opt.Breaker.Pause
		for range g.tripped {
			if pause *= 2; pause >= g.opt.Breaker.MaxPause {
				pause = g.opt.Breaker.MaxPause
				break
			}
		}
		g.tripped++
		g.timeouts, g.good, g.wrong = 0, 0, 0
		if until := g.opt.Now().Add(pause); until.After(g.until) {
			g.until, g.why = until, "it failed too often: "+g.status.LastError
		}
	case gobreaker.StateClosed:
		g.probation = probation
	}
}

// busy returns a failure while the source is left alone.
func (g *Guarded) busy() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.opt.Now().Before(g.until) {
		return nil
	}
	g.status.Refused++
	return &Failure{Source: g.src.Name(), Class: ClassBusy, Retry: g.until, Err: errors.New("left alone, because " + g.why)}
}

// Fetch asks the source if it may be asked.
func (g *Guarded) Fetch(ctx context.Context, ask Ask) (*Reply, error) {
	req, why := g.filter.apply(&ask)
	if why != "" {
		g.mu.Lock()
		g.status.Skipped++
		g.mu.Unlock()
		return nil, &Failure{Source: g.src.Name(), Class: ClassSkipped, Err: errors.New(why)}
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
	reply, err := g.src.Fetch(ctx, ask)
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

// enter waits for a free slot.
func (g *Guarded) enter(ctx context.Context, queued func(bool)) error {
	select {
	case g.slots <- struct{}{}:
		g.add(&g.status.Active, 1)
		return nil
	default:
	}
	g.add(&g.status.Waiting, 1)
	defer g.add(&g.status.Waiting, -1)
	if queued != nil {
		queued(true)
		defer queued(false)
	}
	select {
	case g.slots <- struct{}{}:
		g.add(&g.status.Active, 1)
		return nil
	case <-ctx.Done():
		// Not the source's fault.
		return &Failure{Source: g.src.Name(), Class: ClassBusy, Err: fmt.Errorf("%d requests are under way already", cap(g.slots))}
	}
}

func (g *Guarded) leave() {
	g.add(&g.status.Active, -1)
	<-g.slots
}

func (g *Guarded) add(n *int64, d int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*n += d
}

// begin passes the breaker.
func (g *Guarded) begin(ctx context.Context) (*pass, error) {
	if err := g.busy(); err != nil { // since we began to wait
		return nil, err
	}
	done, err := g.cb.Allow()
	if err != nil {
		g.add(&g.status.Refused, 1)
		return nil, &Failure{Source: g.src.Name(), Class: ClassBusy, Err: errors.New("left alone but for one request, which finds out whether it works again")}
	}
	g.add(&g.status.Requests, 1)
	return &pass{g: g, ctx: ctx, done: done, probe: g.cb.State() == gobreaker.StateHalfOpen}, nil
}

// Blame counts a file against the source that was not what had been asked for.
func (g *Guarded) Blame(err error) {
	g.mu.Lock()
	now := g.opt.Now()
	if now.Sub(g.wrongFrom) > wrongWindow {
		g.wrongFrom, g.good, g.wrong = now, 0, 0
	}
	g.wrong++
	g.status.Wrong++
	g.noteError(err)
	trip := g.probation > 0 || g.wrong >= maxWrong && 2*g.wrong >= g.good
	g.mu.Unlock()
	if !trip {
		return
	}
	if done, open := g.cb.Allow(); open == nil {
		g.force.Store(true)
		done(err)
		g.force.Store(false)
	}
}

// noteError is called with mu held.
func (g *Guarded) noteError(err error) {
	g.status.Failures++
	g.status.LastError, g.status.LastTime = err.Error(), g.opt.Now()
}

// pass is one request that was let through.
type pass struct {
	g     *Guarded
	ctx   context.Context
	probe bool // it finds out whether the source works again
	once  sync.Once
	done  func(error)
}

// answered notes that the first bytes are there. A probe has done its work then:
// a long body must not keep everybody else waiting.
func (p *pass) answered() {
	p.g.add(&p.g.status.Hits, 1)
	if !p.probe {
		return
	}
	p.done(nil)
	if done, err := p.g.cb.Allow(); err == nil {
		p.done = done
	} else {
		p.done = func(error) {}
	}
}

// end reports how the request ended, nil for a whole body, and frees its slot.
// Only the first call counts.
func (p *pass) end(err error) {
	p.once.Do(func() {
		verdict := p.judge(err)
		p.note(err, verdict)
		p.done(verdict)
		p.g.leave()
	})
}

// judge returns what the breaker hears: nil, errNeutral, or an error.
func (p *pass) judge(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, errNeutral) || p.ctx.Err() != nil {
		// Given up: because another source was faster, or because this one
		// was too slow.
		if why := context.Cause(p.ctx); why == nil || errors.Is(why, context.Canceled) {
			return errNeutral
		}
		return &Failure{Source: p.g.src.Name(), Class: ClassTimeout, Err: context.Cause(p.ctx)}
	}
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		return errNeutral // an error of this machine
	}
	switch f.Class {
	case ClassAbsent, ClassForbidden, ClassTooLarge:
		return nil // it answered
	case ClassSkipped, ClassBusy:
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
	if f, ok := errors.AsType[*Failure](err); ok && f.Class == ClassBusy && verdict != nil && p.ctx.Err() == nil {
		until := f.Retry
		if until.IsZero() {
			until = now.Add(politePause)
		}
		if until.After(g.until) {
			g.until, g.why = until, "it asked for that"
		}
		g.status.LastError, g.status.LastTime = f.Error(), now
		return
	}
	switch {
	case verdict == nil:
		g.timeouts, g.status.Failures = 0, 0
		if g.probation > 0 {
			if g.probation--; g.probation == 0 {
				g.tripped = 0
			}
		}
		if err != nil {
			g.status.Misses++
			return
		}
		if now.Sub(g.wrongFrom) > wrongWindow {
			g.wrongFrom, g.good, g.wrong = now, 0, 0
		}
		g.good++
	case !errors.Is(verdict, errNeutral):
		if ClassOf(verdict) == ClassTimeout {
			g.timeouts++
		}
		g.status.Errors++
		g.noteError(verdict)
	}
}

// guardedBody reports how a body ends.
type guardedBody struct {
	io.ReadCloser
	pass   *pass
	images bool         // may be in it
	left   atomic.Int64 // Close may come while Read waits
	sized  bool
	head   [2]byte
	seen   int   // bytes of head
	bad    error // a source's fault that was found here
}

// errImage is the fault of a source that sends what it may not.
var errImage = errors.New("it sent an executable, and none are taken from it")

func (b *guardedBody) Read(p []byte) (int, error) {
	if b.bad != nil {
		return 0, b.bad
	}
	n, err := b.ReadCloser.Read(p)
	if !b.images && b.seen < len(b.head) {
		b.seen += copy(b.head[b.seen:], p[:n])
		if string(b.head[:b.seen]) == "MZ" {
			b.bad = &Failure{Source: b.pass.g.src.Name(), Class: ClassBroken, Err: errImage}
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

// Close ends the request. A body that was not read to its end says nothing
// about the source, unless it was given up because it was too slow.
func (b *guardedBody) Close() error {
	err := b.ReadCloser.Close()
	if b.sized && b.left.Load() == 0 {
		b.pass.end(nil)
	}
	b.pass.end(errNeutral)
	return err
}

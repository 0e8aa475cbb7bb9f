package fetch

import (
	"context"
	"errors"
	"time"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/layout"
)

// ask asks the upstreams of a plan rank by rank and returns the first file. If
// no upstream has the file, it remembers the misses and returns fs.ErrNotExist.
func (f *Fetcher) ask(ctx context.Context, d *download, p *plan) (answer, error) {
	list := p.left
	answers := make(chan answer, len(list))
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
				go func() { answers <- f.askOne(actx, cancel, u, f.askOf(d, nil)) }()
			}
			next.Reset(f.limits.NextRank)
		case a := <-answers:
			running--
			name := a.from.Source.Name()
			if a.err == nil {
				for other, cancel := range cancels {
					if other != name {
						cancel(context.Canceled)
					}
				}
				go drain(answers, running)
				return a, nil
			}
			a.cancel(context.Canceled)
			p.note(f.misses, name, a.err)
		}
	}
	if ctx.Err() != nil {
		return answer{}, errClosing
	}
	f.remember(ctx, d, p)
	return answer{}, notFound(p.why)
}

// drain cancels and closes the answers of the n requests that are still running.
func drain(answers <-chan answer, n int) {
	for range n {
		a := <-answers
		a.cancel(context.Canceled)
		if a.reply != nil {
			_ = a.reply.Body.Close()
		}
	}
}

// askOf returns the Ask for a download.
func (f *Fetcher) askOf(d *download, rest *Resume) Ask {
	limit := f.limits.MaxBytes
	if d.q.Request.Form == layout.FormSource {
		limit = min(limit, maxSourceFile)
	}
	return Ask{Request: d.q.Request, Checksum: d.q.Checksum, Via: d.q.Via, Origin: d.q.Origin, Resume: rest, Limit: limit}
}

// askOne asks one upstream. The time until its first bytes is limited.
func (f *Fetcher) askOne(ctx context.Context, cancel context.CancelCauseFunc, u Upstream, ask Ask) answer {
	a := answer{from: u, asked: time.Now(), cancel: cancel}
	late := time.AfterFunc(f.limits.FirstByte, func() { cancel(errSlow) })
	ask.Queued = func(waits bool) {
		if waits {
			late.Reset(queueTime)
		} else if ctx.Err() == nil {
			late.Reset(f.limits.FirstByte)
			a.asked = time.Now()
		}
	}
	within, s := f.tracer.Start(ctx, "upstream "+u.Source.Name(), span.Client)
	a.reply, a.err = u.Source.Fetch(within, ask)
	if a.err != nil {
		s.Text("symdepot.result", string(ClassOf(a.err)))
		if c := ClassOf(a.err); c != ClassNotFound && c != ClassSkipped {
			s.Fail(string(c))
		}
	}
	s.End()                           // its body is read later, in the span of the download
	if !late.Stop() && a.err == nil { // the timer fired while Fetch returned
		_ = a.reply.Body.Close()
		a.reply, a.err = nil, errSlow
	}
	if a.err != nil && errors.Is(context.Cause(ctx), errSlow) && ClassOf(a.err) != ClassBusy {
		a.err = &Failure{Source: u.Source.Name(), Class: ClassTimeout, Err: errSlow}
	}
	if cause := context.Cause(ctx); cause == nil || errors.Is(cause, errSlow) {
		f.failures.report(f.log, f.now(), u.Source.Name(), a.err)
	}
	return a
}

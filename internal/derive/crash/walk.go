package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/stackwalk"
)

// Limits of one walk.
const (
	// maxThreads is how many threads are walked, and maxFrames how many frames they have in all.
	maxThreads = 4096
	maxFrames  = 100_000
	// walkTime is how long the child itself walks: then the stacks are cut off. The time in which
	// it waits for answers does not count.
	walkTime = 8 * time.Second
	// walkers is how many threads are walked at once.
	walkers = 2
	// maxAsked is how many addresses are asked for, and maxKept how many answers are kept.
	maxAsked = 1 << 20
	maxKept  = 1 << 16
)

// Walk is what a dump says of a process, with the stacks of its threads.
type Walk struct {
	dump.Process // without Modules, Threads and Memory
	Modules      []dump.Module
	Threads      []Thread
	// Of a crash report: the model of the machine, what it says beside the reason, and the number of
	// the thread, plus one, that stands for the place where an exception was thrown; zero: none.
	Device, Details string
	Thrown          int
}

// Thread is a thread of a Walk.
type Thread struct {
	ID        uint64
	Name      string            // empty if the dump does not have it
	Registers map[string]uint64 // at the exception for the thread that crashed
	Frames    []Frame           // innermost first
	Writer    bool              // the thread wrote the dump and is none of the program
	// Problem says what could not be read, or why the walk ended early.
	Problem string
}

// Frame is a call.
type Frame struct {
	PC     uint64
	Module int // number of the module; -1: none
	Trust  stackwalk.Trust
	// Problem says why the rules of the function did not lead to the caller.
	Problem string `json:",omitempty"`
	// Reported is what a crash report says of the frame; nil for a dump.
	Reported *Reported `json:",omitempty"`
}

// Resolver answers what the walk of a dump asks.
type Resolver interface {
	// Modules is called once, before Ask, with the modules of the dump.
	Modules(p *dump.Process) error
	// Ask returns what is known of an address of a module. It may be called by many goroutines.
	// An error ends the walk.
	Ask(ctx context.Context, module int, rva uint64) (Answer, error)
}

// WalkDump walks the stacks of the dump of size bytes in r. The errors are those of dump.Open, of r,
// and of the Resolver. What cannot be walked in time, or is above the limits, is said in Problems of
// the result.
func WalkDump(ctx context.Context, r io.ReaderAt, size int64, res Resolver) (*Walk, error) {
	p, err := dump.Open(r, size)
	if err != nil {
		return nil, err
	}
	if err := res.Modules(p); err != nil {
		return nil, err
	}
	w := &Walk{Process: *p, Modules: p.Modules}
	w.Process.Modules, w.Process.Threads, w.Memory = nil, nil, dump.Memory{}
	src := &source{res: res, answers: map[place]Answer{}, start: time.Now()}
	proc := stackwalk.Process{Arch: p.Arch, OS: p.OS, Memory: &p.Memory, AddressMask: p.AddressMask}
	for _, m := range p.Modules {
		if m.Unloaded {
			m.Size = 0
		}
		proc.Modules = append(proc.Modules, stackwalk.Module{Base: m.Base, Size: m.Size})
	}
	walker, err := stackwalk.New(proc, src, stackwalk.Limits{})
	if err != nil {
		w.Problems = append(w.Problems, "the stacks cannot be walked: "+err.Error())
	}
	if err := w.walkAll(ctx, p, walker, src); err != nil {
		return nil, err
	}
	if err := p.Memory.Err(); err != nil {
		return nil, err
	}
	return w, nil
}

// walkAll walks the threads of a process. walker is nil for a processor that is not known.
func (w *Walk) walkAll(ctx context.Context, p *dump.Process, walker *stackwalk.Walker, src *source) error {
	list := order(len(p.Threads), p.Requesting)
	if len(list) > maxThreads {
		w.Problems = append(w.Problems, fmt.Sprintf("the dump has %d threads, of which %d are walked", len(list), maxThreads))
		list = list[:maxThreads]
	}
	w.Requesting = -1
	w.Threads = make([]Thread, len(list))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	src.stop = stop
	go src.watch(ctx)
	var next, frames atomic.Int64
	var cut atomic.Bool
	var all sync.WaitGroup
	for range walkers {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(list) {
					return
				}
				t, from := &w.Threads[i], &p.Threads[list[i]]
				t.describe(from)
				if walker == nil {
					continue
				}
				if frames.Load() >= maxFrames || ctx.Err() != nil {
					cut.Store(true)
					t.Problem = "not walked: the limit for one dump was reached"
					continue
				}
				t.walk(ctx, walker, from)
				frames.Add(int64(len(t.Frames)))
			}
		})
	}
	all.Wait()
	w.inOrder(list, p.Requesting)
	switch err := context.Cause(ctx); {
	case errors.Is(err, errWalkTime), errors.Is(err, errAsked):
		w.Problems = append(w.Problems, "the stacks were not walked to their ends: "+err.Error())
	case err != nil:
		return err
	case cut.Load():
		w.Problems = append(w.Problems, fmt.Sprintf("the stacks have more than %d frames: the others are left out", maxFrames))
	}
	return nil
}

// order lists the numbers of threads in the order in which they are walked: the one that
// crashed first.
func order(n, requesting int) []int {
	list := make([]int, 0, n)
	if requesting >= 0 && requesting < n {
		list = append(list, requesting)
	}
	for i := range n {
		if i != requesting {
			list = append(list, i)
		}
	}
	return list
}

// inOrder puts the threads into the order of the dump. They were walked in the order of list.
func (w *Walk) inOrder(list []int, requesting int) {
	if len(list) == 0 || requesting != list[0] {
		return
	}
	first := w.Threads[0]
	at := 0
	for at+1 < len(list) && list[at+1] < requesting {
		w.Threads[at] = w.Threads[at+1]
		at++
	}
	w.Threads[at] = first
	w.Requesting = at
}

// describe takes over what a dump says of a thread.
func (t *Thread) describe(from *dump.Thread) {
	t.ID, t.Name, t.Writer, t.Problem = from.ID, from.Name, from.Writer, from.Problem
	names := from.Registers.Names()
	t.Registers = make(map[string]uint64, len(names))
	for _, name := range names {
		t.Registers[name], _ = from.Registers.Get(name)
	}
}

// walk walks the stack of a thread.
func (t *Thread) walk(ctx context.Context, walker *stackwalk.Walker, from *dump.Thread) {
	if from.Writer {
		return
	}
	s, err := walker.Walk(ctx, stackwalk.Thread{Registers: &from.Registers, Stack: stackwalk.Range(from.Stack)})
	switch {
	case err != nil:
		t.Problem = "the walk was not finished"
	case t.Problem == "":
		t.Problem = s.Problem
	}
	t.Frames = make([]Frame, len(s.Frames))
	for i := range s.Frames {
		f := &s.Frames[i]
		t.Frames[i] = Frame{PC: f.PC, Module: f.Module, Trust: f.Trust, Problem: f.Problem}
	}
}

// place is an address of a module.
type place struct {
	module int
	rva    uint64
}

// Why the stacks are cut off.
var (
	errWalkTime = fmt.Errorf("the walk took more than %s", walkTime)
	errAsked    = fmt.Errorf("more than %d addresses were looked up", maxAsked)
)

// source asks a Resolver, once for each address. It implements stackwalk.Source.
type source struct {
	res  Resolver
	stop context.CancelCauseFunc

	start time.Time
	asked atomic.Int64

	mu      sync.Mutex
	answers map[place]Answer // guarded by mu
	asking  int              // questions under way; guarded by mu
	since   time.Time        // when a question was last put while none was under way; guarded by mu
	waited  time.Duration    // for answers, while any question was under way; guarded by mu
}

// at returns the answer for an address.
func (s *source) at(ctx context.Context, module int, rva uint64) Answer {
	key := place{module, rva}
	s.mu.Lock()
	a, ok := s.answers[key]
	if ok {
		s.mu.Unlock()
		return a
	}
	if s.asking++; s.asking == 1 {
		s.since = time.Now()
	}
	s.mu.Unlock()
	var err error
	if s.asked.Add(1) > maxAsked {
		err = errAsked
	} else {
		a, err = s.res.Ask(ctx, module, rva)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking--; s.asking == 0 {
		s.waited += time.Since(s.since)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.stop(err)
		}
		return Answer{}
	}
	if len(s.answers) >= maxKept {
		clear(s.answers)
	}
	s.answers[key] = a
	return a
}

// watch cuts the walk off when it takes too long.
func (s *source) watch(ctx context.Context) {
	tick := time.NewTicker(walkTime / 64)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		own := time.Since(s.start) - s.waited
		if s.asking > 0 {
			own -= time.Since(s.since)
		}
		s.mu.Unlock()
		if own > walkTime {
			s.stop(errWalkTime)
			return
		}
	}
}

// Rules implements stackwalk.Source.
func (s *source) Rules(ctx context.Context, module int, rva uint64) (functab.Rules, bool) {
	a := s.at(ctx, module, rva)
	return a.Rules, a.Known
}

// Code implements stackwalk.Source.
func (s *source) Code(ctx context.Context, module int, rva uint64) bool {
	return s.at(ctx, module, rva).Code
}

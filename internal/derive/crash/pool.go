package crash

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/base/proctree"
	"github.com/symdepot/symdepot/internal/base/term"
)

// Errors of a Pool.
var (
	// ErrBusy means that others have had all child processes for too long.
	ErrBusy = errors.New("too many dumps are being walked; ask again later")
	// ErrLimit is wrapped by the error for a dump whose walk exceeded a limit of a child process.
	ErrLimit = errors.New("the dump cannot be walked within the limits")
)

// Options configure a Pool. Zero values mean the defaults in brackets.
type Options struct {
	// Program is the file of a program that calls RunChild where IsChild reports true [this one].
	Program string
	// Children is how many dumps are walked at once [the number of processors, at least 2 and at
	// most 8], and PerClient how many of them are of one client [half of them, at least 1].
	Children, PerClient int
	// Time is how long a child may work for a dump [10 s]. The time in which it waits for answers
	// does not count.
	Time time.Duration
	// Uses is how many dumps a child walks before another one takes its place [1000], and Idle how
	// long it waits for one [5 min].
	Uses int
	Idle time.Duration
}

// Pool walks dumps in child processes, which it keeps for the next dumps. Its methods may be called
// by many goroutines.
type Pool struct {
	opt   Options
	slots limit.Semaphore

	mu      sync.Mutex
	idle    []*process         // guarded by mu; the one that was used last is the last
	clients map[string]*shared // those that have children or wait for them; guarded by mu
	closed  bool               // guarded by mu
}

// shared is the share of a client.
type shared struct {
	limit.Semaphore
	users int // guarded by Pool.mu
}

// NewPool returns a pool without children. Close must be called.
func NewPool(opt Options) *Pool {
	opt.Children = cmp.Or(opt.Children, min(max(runtime.GOMAXPROCS(0), 2), 8))
	opt.PerClient = cmp.Or(opt.PerClient, max(opt.Children/2, 1))
	opt.Time = cmp.Or(opt.Time, 10*time.Second)
	opt.Uses = cmp.Or(opt.Uses, 1000)
	opt.Idle = cmp.Or(opt.Idle, 5*time.Minute)
	return &Pool{opt: opt, slots: limit.NewSemaphore(opt.Children), clients: map[string]*shared{}}
}

// Close ends the children that nobody uses; the others end with their dumps.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.end()
	}
	return nil
}

// Walk is WalkFile in a child process. client is whose dump it is, for the shares of clients; empty:
// nobody's in particular. After the time until, a dump that waits for a child is refused with
// ErrBusy. Other errors are those of WalkFile, or wrap ErrLimit.
func (p *Pool) Walk(ctx context.Context, client string, until time.Time, r io.ReaderAt, size int64, res Resolver) (*Walk, error) {
	leave, err := p.enter(ctx, client, until)
	if err != nil {
		return nil, err
	}
	defer leave()
	c, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	w, err := c.walk(ctx, p.opt.Time, r, size, res)
	if c.uses++; c.broken || c.uses >= p.opt.Uses || !p.keep(c) {
		c.end()
	}
	return w, err
}

// enter waits for the turn of a client.
func (p *Pool) enter(ctx context.Context, client string, until time.Time) (leave func(), err error) {
	own := func() {}
	if client != "" {
		p.mu.Lock()
		s := p.clients[client]
		if s == nil {
			s = &shared{Semaphore: limit.NewSemaphore(p.opt.PerClient)}
			p.clients[client] = s
		}
		s.users++
		p.mu.Unlock()
		forget := func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if s.users--; s.users == 0 {
				delete(p.clients, client)
			}
		}
		if err := s.Enter(ctx, until); err != nil {
			forget()
			return nil, busy(err)
		}
		own = func() { s.Leave(); forget() }
	}
	if err := p.slots.Enter(ctx, until); err != nil {
		own()
		return nil, busy(err)
	}
	return func() { p.slots.Leave(); own() }, nil
}

func busy(err error) error {
	if errors.Is(err, limit.ErrBusy) {
		return ErrBusy
	}
	return err
}

// take returns a child that is ready.
func (p *Pool) take(ctx context.Context) (*process, error) {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return startProcess(ctx, p.opt.Program)
		}
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if !c.gone() {
			c.expire.Stop()
			return c, nil
		}
		c.end()
	}
}

// keep keeps a child for the next dump.
func (p *Pool) keep(c *process) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.idle = append(p.idle, c)
	c.expire = time.AfterFunc(p.opt.Idle, func() { p.expire(c) })
	return true
}

// expire ends a child that nobody has used for long.
func (p *Pool) expire(c *process) {
	p.mu.Lock()
	found := false
	for i, o := range p.idle {
		if o == c {
			p.idle, found = append(p.idle[:i:i], p.idle[i+1:]...), true
			break
		}
	}
	p.mu.Unlock()
	if found {
		c.end()
	}
}

// process is a child process, as the server sees it. One goroutine uses it at a time.
type process struct {
	*conn
	tree   *proctree.Tree
	in     io.Closer
	said   *tail
	ended  chan struct{} // closed when the process has ended
	state  *os.ProcessState
	killed sync.Once
	uses   int
	broken bool // it must not be used again
	expire *time.Timer
}

// startTime is how long a child may take to start.
const startTime = 10 * time.Second

// startProcess starts a child, and waits until it is ready.
func startProcess(ctx context.Context, program string) (*process, error) {
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, childWord) // it serves other requests too
	cmd.Env = append([]string{"GOMAXPROCS=2"}, childEnvironment()...)
	cmd.Dir = os.TempDir()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c := &process{conn: newConn(out, in), in: in, said: &tail{}, ended: make(chan struct{})}
	cmd.Stderr = c.said
	if c.tree, err = proctree.New(cmd, proctree.Limits{Memory: childMemory}); err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		// A child is killed when the thread that started it ends. The thread must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.tree.Start(cmd)
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // what it means is in the state
		c.state = cmd.ProcessState
		close(c.ended)
	}()
	if err := <-started; err != nil {
		c.tree.Close()
		return nil, fmt.Errorf("start a process for dumps: %w", err)
	}
	timer := time.AfterFunc(startTime, c.kill)
	stop := context.AfterFunc(ctx, c.kill)
	what, _, err := c.receive(func(byte) int { return 0 })
	stop()
	timer.Stop()
	if err == nil && what != msgReady {
		err = errMessage
	}
	if err != nil {
		c.end()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("start a process for dumps: %w%s", err, c.said.note())
	}
	return c, nil
}

// gone reports whether the process has ended.
func (c *process) gone() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// kill kills the process.
func (c *process) kill() { c.killed.Do(func() { _ = c.tree.Kill() }) }

// end ends the process and waits for that.
func (c *process) end() {
	if c.expire != nil {
		c.expire.Stop()
	}
	_ = c.in.Close()
	c.kill()
	<-c.ended
	c.tree.Close()
}

const (
	// wholeDump is the size of dumps that a child gets at once.
	wholeDump = 8 << 20
	// answering is how many questions of a child are answered at once.
	answering = 4
	// maxRead is how much of a dump a child reads at once.
	maxRead = 1 << 20
)

// walk has a dump walked.
func (c *process) walk(ctx context.Context, own time.Duration, r io.ReaderAt, size int64, res Resolver) (*Walk, error) {
	c.broken = true // until it has said that it is done
	have := 0
	if size <= wholeDump {
		have = int(size)
	}
	first := make([]byte, have)
	if n, err := r.ReadAt(first, 0); n < have {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		c.broken = false
		return nil, err
	}
	head, err := json.Marshal(begin{size, have})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	v := &visit{process: c, ctx: ctx, cancel: cancel, dump: r, size: size, res: res, left: own, places: limit.NewSemaphore(answering)}
	v.resume()
	defer v.pause()
	var w *Walk
	if err = c.send(msgDump, appendText(nil, string(head)), first); err == nil {
		w, err = v.run()
	}
	if c.broken {
		err = c.why(ctx, err)
	}
	stop()
	cancel(nil)
	v.answers.Wait() // nobody uses the dump any more
	return w, err
}

// why ends a child that does not answer as it should, and returns the error.
func (c *process) why(ctx context.Context, err error) error {
	c.kill()
	<-c.ended
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errMessage):
	case c.tree.Why(c.state) == proctree.MemoryLimit:
		return fmt.Errorf("%w of memory (%s): its process ended", ErrLimit, term.Size(childHeap))
	}
	return fmt.Errorf("%w: its process ended: %w%s", ErrLimit, err, c.said.note())
}

// visit is the walk of one dump, as the server sees it.
type visit struct {
	*process
	ctx    context.Context
	cancel context.CancelCauseFunc
	dump   io.ReaderAt
	size   int64
	res    Resolver

	modules []dump.Module
	places  limit.Semaphore // of questions that are answered
	answers sync.WaitGroup

	mu      sync.Mutex
	asked   int           // questions that are not answered; guarded by mu
	left    time.Duration // for the child's own work; guarded by mu
	since   time.Time     // when its work went on; guarded by mu
	overdue *time.Timer   // guarded by mu
}

// resume lets the time of the child run.
func (v *visit) resume() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asked--; v.asked > 0 {
		return
	}
	v.asked = 0
	v.since = time.Now()
	v.overdue = time.AfterFunc(v.left, func() { v.cancel(fmt.Errorf("%w of time", ErrLimit)) })
}

// pause stops the time of the child.
func (v *visit) pause() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asked++; v.asked > 1 {
		return
	}
	v.overdue.Stop()
	v.left -= time.Since(v.since)
}

// sizeOf is the largest content of a message of a child.
func sizeOf(what byte) int {
	switch what {
	case msgAsk, msgRead:
		return maxQuestion
	}
	return maxResult
}

// run answers the child until it is done.
func (v *visit) run() (*Walk, error) {
	for {
		what, b, err := v.receive(sizeOf)
		if err != nil {
			return nil, err
		}
		switch what {
		case msgModules:
			err = v.begin(b)
		case msgAsk, msgRead:
			err = v.answer(what, b)
		case msgWalk:
			w := &Walk{}
			if json.Unmarshal(b, w) != nil || !w.fits(len(v.modules)) {
				return nil, errMessage
			}
			w.Modules, v.broken = v.modules, false
			return w, nil
		case msgError:
			var f failure
			if json.Unmarshal(b, &f) != nil {
				return nil, errMessage
			}
			v.broken = false
			return nil, f.error(v.ctx)
		default:
			err = errMessage
		}
		if err != nil {
			return nil, err
		}
	}
}

// error returns the error of a failure.
func (f failure) error(ctx context.Context) error {
	switch f.Class {
	case failNotDump:
		return said{dump.ErrNotDump, f.Text}
	case failBroken:
		return said{dump.ErrBroken, f.Text}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.New(f.Text)
}

// said is an error with the text that a child has given.
type said struct {
	error
	text string
}

func (e said) Error() string { return e.text }
func (e said) Unwrap() error { return e.error }

// fits reports whether all frames are in modules that are there.
func (w *Walk) fits(modules int) bool {
	for i := range w.Threads {
		for _, f := range w.Threads[i].Frames {
			if f.Module < -1 || f.Module >= modules {
				return false
			}
		}
	}
	return w.Requesting >= -1 && w.Requesting < len(w.Threads)
}

// begin takes over the modules of the dump.
func (v *visit) begin(b []byte) error {
	var m modulesMessage
	if v.modules != nil || json.Unmarshal(b, &m) != nil {
		return errMessage
	}
	v.modules = m.Modules
	p := &dump.Process{Dump: dump.Dump{OS: m.OS, Arch: m.Arch, BigEndian: m.BigEndian, Modules: m.Modules}}
	return v.res.Modules(p)
}

// answer answers a question.
func (v *visit) answer(what byte, b []byte) error {
	body := content{b: b}
	number, first, second := body.number(), body.number(), body.number()
	if body.err != nil || len(body.b) > 0 {
		return errMessage
	}
	outside := what == msgRead && (second > maxRead || first > uint64(v.size) || second > uint64(v.size)-first)
	if outside || what == msgAsk && first >= uint64(len(v.modules)) {
		return errMessage
	}
	v.pause()
	if err := v.places.Enter(v.ctx, time.Now().Add(time.Hour)); err != nil {
		v.resume()
		return err
	}
	v.answers.Go(func() {
		defer v.places.Leave()
		kind, answer := byte(msgAnswer), numbers(number)
		if what == msgRead {
			kind = msgBytes
			part := make([]byte, second)
			n, err := v.dump.ReadAt(part, int64(first))
			if n < len(part) && err != io.EOF {
				v.cancel(fmt.Errorf("read the dump: %w", err))
			}
			answer = append(answer, part[:n]...)
		} else {
			a, err := v.res.Ask(v.ctx, int(first), second)
			if err != nil {
				v.cancel(err)
			}
			answer = a.append(answer)
		}
		v.resume()
		_ = v.send(kind, answer) // the child is gone: receive says that
	})
	return nil
}

// tail is the end of what a child has printed.
type tail struct {
	mu sync.Mutex
	b  []byte // guarded by mu
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 2 << 10
	t.b = append(t.b, p...)
	if len(t.b) > 2*most {
		t.b = append(t.b[:0], t.b[len(t.b)-most:]...)
	}
	return len(p), nil
}

// note is the first line of it, for an error.
func (t *tail) note() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, c := range t.b {
		if c == '\n' || i == 200 {
			return ": " + term.Printable(string(t.b[:i]))
		}
	}
	return ""
}

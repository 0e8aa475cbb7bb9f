package crash

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

func TestMain(m *testing.M) {
	if IsChild(os.Args) {
		os.Exit(RunChild(os.Stdin, os.Stdout))
	}
	if os.Getenv("TRY_CONFINED") != "" {
		os.Exit(tryConfined())
	}
	os.Exit(m.Run())
}

// blind knows nothing of modules.
type blind struct {
	asked atomic.Int64
	ask   func(ctx context.Context) error
}

func (*blind) Modules(*dump.Process) error { return nil }

func (b *blind) Ask(ctx context.Context, _ int, _ uint64) (Answer, error) {
	b.asked.Add(1)
	if b.ask != nil {
		return Answer{Code: true}, b.ask(ctx)
	}
	return Answer{Code: true}, nil
}

func testDumps(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../../../testdata/minidump/*.dmp")
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d dumps, error %v; want at least 8", len(paths), err)
	}
	list := map[string][]byte{}
	for _, p := range paths {
		if list[filepath.Base(p)], err = os.ReadFile(p); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

func newTestPool(t testing.TB, opt Options) *Pool {
	t.Helper()
	p := NewPool(opt)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func (p *Pool) try(ctx context.Context, b []byte, res Resolver) (*Walk, error) {
	return p.Walk(ctx, "", time.Now().Add(time.Minute), bytes.NewReader(b), int64(len(b)), res)
}

// TestPool: a child finds what the same process finds, of whole dumps and of those that it reads in
// blocks, one after the other.
func TestPool(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{Children: 1, Uses: 5})
	for name, b := range testDumps(t) {
		res := &blind{}
		want, err := WalkDump(t.Context(), bytes.NewReader(b), int64(len(b)), res)
		if err != nil || res.asked.Load() == 0 && len(want.Modules) > 0 && name != "macos_crashpad.dmp" {
			t.Fatalf("%s: error %v, %d questions; want no error, some", name, err, res.asked.Load())
		}
		for what, padded := range map[string][]byte{"whole": b, "in blocks": append(bytes.Clone(b), make([]byte, wholeDump)...)} {
			got, err := p.try(t.Context(), padded, &blind{})
			if err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
				continue
			}
			if !reflect.DeepEqual(got.Threads, want.Threads) || !reflect.DeepEqual(got.Modules, want.Modules) || !reflect.DeepEqual(got.Exception, want.Exception) ||
				got.Requesting != want.Requesting || got.Version != want.Version {
				t.Errorf("%s, %s: the child finds other stacks:\n%+v\nwant\n%+v", name, what, got, want)
			}
		}
	}
}

// TestPoolErrors: errors of dumps and of their readers come back as what they are, and the child goes on.
func TestPoolErrors(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{Children: 1})
	good := testDumps(t)["test_app.dmp"]
	ours := errors.New("ours")
	for what, c := range map[string]struct {
		b    []byte
		res  *blind
		want error
	}{
		"no dump": {[]byte("this is not a dump at all"), &blind{}, dump.ErrNotDump},
		"empty":   {nil, &blind{}, dump.ErrNotDump},
		"broken":  {good[:100], &blind{}, dump.ErrBroken},
		"answers": {good, &blind{ask: func(context.Context) error { return ours }}, ours},
	} {
		if _, err := p.try(t.Context(), c.b, c.res); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", what, err, c.want)
		}
		if _, err := p.try(t.Context(), good, &blind{}); err != nil {
			t.Errorf("after %s: error %v, want none", what, err)
		}
	}
	failing := io.NewSectionReader(readerFunc(func([]byte, int64) (int, error) { return 0, ours }), 0, 2*wholeDump)
	if _, err := p.Walk(t.Context(), "", time.Now().Add(time.Minute), failing, 2*wholeDump, &blind{}); !errors.Is(err, ours) {
		t.Errorf("a dump that cannot be read: error %v, want %v", err, ours)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.try(gone, good, &blind{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who has gone: error %v, want %v", err, context.Canceled)
	}
	if _, err := p.try(t.Context(), good, &blind{}); err != nil {
		t.Errorf("in the end: error %v, want none", err)
	}
}

type readerFunc func(p []byte, off int64) (int, error)

func (f readerFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// TestPoolKilled: a child that is killed, or that takes too long, is an error of its dump only.
func TestPoolKilled(t *testing.T) {
	t.Parallel()
	good := testDumps(t)["test_app.dmp"]
	p := newTestPool(t, Options{Children: 1})
	if _, err := p.try(t.Context(), good, &blind{}); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	c := p.idle[0]
	p.mu.Unlock()
	_, err := p.try(t.Context(), good, &blind{ask: func(context.Context) error { c.kill(); <-c.ended; return nil }})
	if !errors.Is(err, ErrLimit) {
		t.Errorf("killed at work: error %v, want %v", err, ErrLimit)
	}
	if _, err := p.try(t.Context(), good, &blind{}); err != nil {
		t.Errorf("after that: error %v, want none", err)
	}
	p.mu.Lock()
	c = p.idle[0]
	p.mu.Unlock()
	c.kill()
	<-c.ended
	if _, err := p.try(t.Context(), good, &blind{}); err != nil {
		t.Errorf("killed while it waits: error %v, want none", err)
	}

	hurried := newTestPool(t, Options{Children: 1, Time: time.Nanosecond})
	if _, err := hurried.try(t.Context(), good, &blind{}); !errors.Is(err, ErrLimit) {
		t.Errorf("no time: error %v, want %v", err, ErrLimit)
	}
}

// TestOwnTime: the time in which a child waits for answers is not its own.
func TestOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		v := &visit{ctx: ctx, cancel: cancel, left: 10 * time.Second}
		v.resume()
		time.Sleep(9 * time.Second)
		v.pause() // two questions
		v.pause()
		time.Sleep(time.Hour)
		v.resume()
		time.Sleep(time.Hour)
		if err := context.Cause(ctx); err != nil {
			t.Errorf("after 9 s of its own and 2 h of answers: %v, want no error", err)
		}
		v.resume()
		time.Sleep(2 * time.Second)
		if err := context.Cause(ctx); !errors.Is(err, ErrLimit) {
			t.Errorf("after 11 s of its own: %v, want %v", err, ErrLimit)
		}
	})
}

// TestPoolShares: a client has no more children than its share, and others go on.
func TestPoolShares(t *testing.T) {
	t.Parallel()
	good := testDumps(t)["test_app.dmp"]
	p := newTestPool(t, Options{Children: 2, PerClient: 1})
	asked, release := make(chan bool, 100), make(chan bool)
	hold := &blind{ask: func(context.Context) error { asked <- true; <-release; return nil }}
	done := make(chan error)
	go func() {
		_, err := p.Walk(t.Context(), "greedy", time.Now().Add(time.Minute), bytes.NewReader(good), int64(len(good)), hold)
		done <- err
	}()
	<-asked
	walk := func(client string) error {
		_, err := p.Walk(t.Context(), client, time.Now(), bytes.NewReader(good), int64(len(good)), &blind{})
		return err
	}
	if err := walk("greedy"); !errors.Is(err, ErrBusy) {
		t.Errorf("the same client: error %v, want %v", err, ErrBusy)
	}
	if err := p.try2(t.Context(), good); err != nil {
		t.Errorf("another client: error %v, want none", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Errorf("the first: error %v, want none", err)
	}
	if len(p.clients) != 0 {
		t.Errorf("%d clients are remembered, want none", len(p.clients))
	}
}

func (p *Pool) try2(ctx context.Context, b []byte) error {
	_, err := p.Walk(ctx, "modest", time.Now().Add(time.Minute), bytes.NewReader(b), int64(len(b)), &blind{})
	return err
}

// hostileDump is a minidump for x64 with many threads, which share a context and a stack full of
// addresses of the first module, and many modules, which share a name.
func hostileDump(threads, modules int) []byte {
	le := binary.LittleEndian
	const (
		headers = 32 + 4*12
		stack   = 64 << 10
		base    = 0x7ff600000000
		sp      = 0x10000
	)
	b := make([]byte, headers)
	le.PutUint32(b, 0x504d444d)
	le.PutUint32(b[4:], 0xa793)
	le.PutUint32(b[8:], 4)
	le.PutUint32(b[12:], 32)
	stream := func(i int, kind uint32, content []byte) {
		le.PutUint32(b[32+12*i:], kind)
		le.PutUint32(b[32+12*i+4:], uint32(len(content)))
		le.PutUint32(b[32+12*i+8:], uint32(len(b)))
		b = append(b, content...)
	}
	at := func(content []byte) uint32 {
		b = append(b, content...)
		return uint32(len(b) - len(content))
	}
	context := make([]byte, 1232)
	le.PutUint32(context[0x30:], 0x10000b)
	le.PutUint64(context[0x98:], sp)
	le.PutUint64(context[0xf8:], base+0x1000)
	contextAt := at(context)
	words := make([]byte, stack)
	for i := 0; i < stack; i += 8 {
		le.PutUint64(words[i:], base+0x1000+uint64(i))
	}
	stackAt := at(words)
	name := le.AppendUint32(nil, 10)
	for _, c := range "a.dll" {
		name = le.AppendUint16(name, uint16(c))
	}
	nameAt := at(append(name, 0, 0))
	system := make([]byte, 56)
	le.PutUint16(system, 9)
	le.PutUint32(system[20:], 2)
	stream(0, 7, system)
	list := le.AppendUint32(nil, uint32(threads))
	for i := range threads {
		e := make([]byte, 48)
		le.PutUint32(e, uint32(i+1))
		le.PutUint64(e[24:], sp)
		le.PutUint32(e[32:], stack)
		le.PutUint32(e[36:], stackAt)
		le.PutUint32(e[40:], uint32(len(context)))
		le.PutUint32(e[44:], contextAt)
		list = append(list, e...)
	}
	stream(1, 3, list)
	list = le.AppendUint32(nil, uint32(modules))
	for i := range modules {
		e := make([]byte, 108)
		le.PutUint64(e, base+uint64(i)<<20)
		le.PutUint32(e[8:], 1<<20)
		le.PutUint32(e[16:], uint32(i+1))
		le.PutUint32(e[20:], nameAt)
		list = append(list, e...)
	}
	stream(2, 4, list)
	memory := le.AppendUint32(nil, 1)
	memory = le.AppendUint64(memory, sp)
	memory = le.AppendUint32(le.AppendUint32(memory, stack), stackAt)
	stream(3, 5, memory)
	return b
}

// TestHostile: dumps with very many threads or modules end within the limits, with what was found, and
// the child's memory stays within 256 MiB.
func TestHostile(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ threads, modules int }{
		"threads": {100_000, 1}, "modules": {1, 100_000}, "both": {4000, 4000},
	} {
		p := NewPool(Options{Children: 1})
		c0, err := p.take(t.Context())
		if err != nil || !p.keep(c0) {
			t.Fatal(err)
		}
		start := time.Now()
		w, err := p.try(t.Context(), hostileDump(c.threads, c.modules), &blind{})
		took := time.Since(start)
		switch {
		case errors.Is(err, dump.ErrBroken) || errors.Is(err, ErrLimit):
			t.Logf("%s: %v", what, err)
		case err != nil:
			t.Errorf("%s: error %v, want none, or that of a limit", what, err)
		case len(w.Threads) == 0 || len(w.Threads[0].Frames) < 2:
			t.Errorf("%s: no stack, want one", what)
		default:
			t.Logf("%s: %d threads, %d modules, problems %q, %s", what, len(w.Threads), len(w.Modules), w.Problems, took)
		}
		if most := 30 * time.Second; took > most { // of which the child itself has 10 s; other tests run too
			t.Errorf("%s: %s, want %s at most", what, took, most)
		}
		_ = p.Close()
		<-c0.ended
		t.Run("memory of "+what, func(t *testing.T) {
			symtest.Unraced(t, "the detector needs more memory")
			if n, ok := residentOf(c0.state); ok && n > 256<<20 {
				t.Errorf("the child had %d MiB, want 256 at most", n>>20)
			} else if ok {
				t.Logf("the child had %d MiB", n>>20)
			}
		})
	}
}

// TestMutated: truncated and changed dumps are walked or refused, and no child is lost by them.
func TestMutated(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(symtest.Seed(t, 34), 1))
	p := newTestPool(t, Options{Children: 2})
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for name, b := range testDumps(t) {
		for i := range rounds {
			changed := bytes.Clone(b)
			if i%3 == 0 {
				changed = changed[:random.IntN(len(b))]
			} else {
				for range 1 + random.IntN(20) {
					at := random.IntN(len(b))
					if i%3 == 1 {
						at = random.IntN(min(len(b), 4096)) // the lists are at the beginning
					}
					changed[at] = byte(random.Uint32())
				}
			}
			if _, err := p.try(t.Context(), changed, &blind{}); err != nil && !errors.Is(err, dump.ErrNotDump) && !errors.Is(err, dump.ErrBroken) {
				t.Errorf("%s, round %d: error %v, want none, or that of a broken dump", name, i, err)
			}
		}
	}
}

// FuzzConversation: a child that sends anything harms nobody.
func FuzzConversation(f *testing.F) {
	a := Answer{Code: true, Known: true}
	a.Rules.CFI = []string{".cfa: $rsp 8 +", ""}
	f.Add([]byte{msgReady, 0, msgModules, 2, '{', '}'}, a.append(nil))
	f.Add([]byte{msgAsk, 3, 1, 0, 5, msgRead, 3, 2, 0, 9, msgError, 2, '{', '}'}, []byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, said, answer []byte) {
		c := content{b: answer}
		if got := c.answer(); c.err == nil && len(c.b) == 0 {
			again := content{b: got.append(nil)}
			if back := again.answer(); again.err != nil || !reflect.DeepEqual(got, back) {
				t.Errorf("%+v is read as %+v, error %v", got, back, again.err)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		v := &visit{
			process: &process{conn: newConn(bytes.NewReader(said), io.Discard)}, ctx: ctx, cancel: cancel, dump: bytes.NewReader(answer), size: int64(len(answer)),
			res: &blind{}, left: time.Minute, places: make(chan struct{}, answering),
		}
		v.resume()
		if _, err := v.run(); err == nil && v.modules == nil && !bytes.Contains(said, []byte{msgWalk}) {
			t.Error("a walk without a message, want an error")
		}
		v.answers.Wait()
		v.pause()
		cancel(nil)
	})
}

// BenchmarkPool walks a dump in a child that knows nothing of modules.
func BenchmarkPool(b *testing.B) {
	d := testDumps(b)["macos_threads.dmp"]
	p := newTestPool(b, Options{Children: 1})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.try(b.Context(), d, &blind{}); err != nil {
			b.Fatal(err)
		}
	}
}

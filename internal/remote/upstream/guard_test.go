package upstream

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/symfile"
)

// actor is a source that does what a test says.
type actor struct {
	fetch func(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error)
	asked atomic.Int64
}

func (a *actor) Name() string         { return "actor" }
func (a *actor) Traits() fetch.Traits { return fetch.Traits{} }
func (a *actor) Close() error         { return nil }
func (a *actor) Fetch(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error) {
	a.asked.Add(1)
	return a.fetch(ctx, ask)
}

func says(class fetch.Class) func(context.Context, fetch.Ask) (*fetch.Reply, error) {
	return func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		return nil, &fetch.Failure{Source: "actor", Class: class, Err: errors.New("as told")}
	}
}

func gives(text string) func(context.Context, fetch.Ask) (*fetch.Reply, error) {
	return func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		return &fetch.Reply{Body: io.NopCloser(strings.NewReader(text)), Size: int64(len(text))}, nil
	}
}

// breaks gives the beginning of a file, then an error of that class.
func breaks(class fetch.Class) func(context.Context, fetch.Ask) (*fetch.Reply, error) {
	return func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		r, w := io.Pipe()
		go func() {
			_, _ = w.Write([]byte("begin"))
			_ = w.CloseWithError(&fetch.Failure{Source: "actor", Class: class, Err: errors.New("broke off")})
		}()
		return &fetch.Reply{Body: r, Size: -1}, nil
	}
}

func hangs(ctx context.Context, _ fetch.Ask) (*fetch.Reply, error) {
	<-ctx.Done()
	return nil, &fetch.Failure{Source: "actor", Class: fetch.ClassTimeout, Err: context.Cause(ctx)}
}

const guardPath = "hello.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello.pdb"

// ask fetches and reads all; the class is that of whatever went wrong.
func (g *Guarded) ask(t *testing.T, ctx context.Context) fetch.Class {
	t.Helper()
	reply, err := g.Fetch(ctx, wish(t, guardPath))
	if err != nil {
		return fetch.ClassOf(err)
	}
	_, err = io.Copy(io.Discard, reply.Body)
	_ = reply.Body.Close()
	return fetch.ClassOf(err)
}

// TestGuardUnauthorized: the state says that an upstream asks for credentials, until it
// answers otherwise.
func TestGuardUnauthorized(t *testing.T) {
	a := &actor{}
	g := Guard(a, GuardOptions{})
	for _, class := range []fetch.Class{fetch.ClassUnauthorized, fetch.ClassNotFound, fetch.ClassUnauthorized, fetch.ClassForbidden} {
		a.fetch = says(class)
		g.ask(t, t.Context())
		if s := g.State(); (s.Unauthorized != "") != (class == fetch.ClassUnauthorized) || s.Unauthorized != "" && s.Unauthorized != s.LastError {
			t.Errorf("after %v: Unauthorized %q, want the last error after unauthorized, and else nothing", class, s.Unauthorized)
		}
	}
}

func TestGuardBreaker(t *testing.T) {
	for _, c := range []struct {
		name  string
		fetch func(context.Context, fetch.Ask) (*fetch.Reply, error)
		want  fetch.Class
		after int64 // requests until it is left alone; 0: never
	}{
		{"absent", says(fetch.ClassNotFound), fetch.ClassNotFound, 0},
		{"forbidden", says(fetch.ClassForbidden), fetch.ClassForbidden, 0},
		{"unauthorized", says(fetch.ClassUnauthorized), fetch.ClassUnauthorized, 0},
		{"too large", says(fetch.ClassTooLarge), fetch.ClassTooLarge, 0},
		{"good", gives("good"), fetch.ClassNone, 0},
		{"broken", says(fetch.ClassBroken), fetch.ClassBroken, 5},
		{"timeout", says(fetch.ClassTimeout), fetch.ClassTimeout, 3},
		{"breaks off", breaks(fetch.ClassBroken), fetch.ClassBroken, 5},
		{"stalls", breaks(fetch.ClassTimeout), fetch.ClassTimeout, 3},
		{"no egress", says(fetch.ClassSkipped), fetch.ClassSkipped, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &actor{fetch: c.fetch}
				g := Guard(a, GuardOptions{})
				for range 20 {
					if got := g.ask(t, t.Context()); got != c.want && (c.after == 0 || got != fetch.ClassBusy) {
						t.Fatalf("%v, wanted %v", got, c.want)
					}
				}
				want := c.after
				if want == 0 {
					want = 20
				}
				if n := a.asked.Load(); n != want {
					t.Errorf("asked %d times, wanted %d", n, want)
				}
				if s := g.State(); s.Open != (c.after > 0) || s.Since.IsZero() != (c.after == 0) || s.Active != 0 || s.Waiting != 0 || s.Requests != want || s.Refused != 20-want {
					t.Errorf("State: %+v, want Open and Since after failures only, Active 0, Waiting 0, Requests %v, Refused %v", s, want, 20-want)
				}
			})
		})
	}
}

// Pauses grow from 10 s to 5 min; one request finds out whether the source works
// again, and success makes all forgotten.
func TestGuardPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &actor{fetch: says(fetch.ClassBroken)}
		g := Guard(a, GuardOptions{})
		for range 5 {
			g.ask(t, t.Context())
		}
		for _, pause := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
			pause *= time.Second
			if s := g.State(); !s.Open || time.Until(s.Until) != pause || s.LastError == "" {
				t.Fatalf("wanted a pause of %v: %+v", pause, s)
			}
			before := a.asked.Load()
			time.Sleep(pause - time.Millisecond)
			_, err := g.Fetch(t.Context(), wish(t, guardPath))
			if f, ok := errors.AsType[*fetch.Failure](err); !ok || f.Class != fetch.ClassBusy || time.Until(f.Retry) != time.Millisecond {
				t.Fatalf("at the end of a pause: %v, want busy for one millisecond", err)
			}
			time.Sleep(2 * time.Millisecond)
			if g.ask(t, t.Context()); a.asked.Load() != before+1 {
				t.Fatalf("no probe after %v", pause)
			}
		}
		a.fetch = says(fetch.ClassNotFound) // works again
		time.Sleep(5*time.Minute + time.Second)
		for range 4 {
			if got := g.ask(t, t.Context()); got != fetch.ClassNotFound {
				t.Fatalf("after it worked again: %v, want %v", got, fetch.ClassNotFound)
			}
		}
		a.fetch = says(fetch.ClassBroken)
		for range 5 {
			g.ask(t, t.Context())
		}
		if s := g.State(); !s.Open || time.Until(s.Until) != 10*time.Second {
			t.Errorf("pauses do not begin anew: %+v", s)
		}
	})
}

// A breaker that is closed by hand lets requests through; if that is undone, because the
// upstream still fails, it is open as long as before. Since is the first failure in a row.
func TestGuardReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &actor{fetch: says(fetch.ClassBroken)}
		g := Guard(a, GuardOptions{})
		begun := time.Now()
		for range 5 {
			g.ask(t, t.Context())
			time.Sleep(time.Second)
		}
		before := g.State()
		if !before.Open || !before.Since.Equal(begun) {
			t.Fatalf("after five failures: %+v, want an open breaker, since %v", before, begun)
		}
		undo := g.reset()
		if got := g.ask(t, t.Context()); got != fetch.ClassBroken {
			t.Errorf("a request after the reset: %v, want %v", got, fetch.ClassBroken)
		}
		undo()
		if s := g.State(); !s.Open || !s.Until.Equal(before.Until) || s.Why != before.Why || g.ask(t, t.Context()) != fetch.ClassBusy {
			t.Errorf("after the reset was undone: %+v, want the breaker open until %v, because %s", s, before.Until, before.Why)
		}
		g.reset()
		a.fetch = gives("good")
		if got := g.ask(t, t.Context()); got != fetch.ClassNone {
			t.Errorf("the upstream is back: %v, want its file", got)
		}
		if s := g.State(); s.Open || s.Failures != 0 || !s.Since.IsZero() {
			t.Errorf("the upstream is back: %+v, want no failure and a closed breaker", s)
		}
	})
}

// While the probe is under way nobody else is let through; its first bytes open
// the way, and the next failure closes it at once.
func TestGuardProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &actor{fetch: says(fetch.ClassTimeout)}
		g := Guard(a, GuardOptions{})
		for range 3 {
			g.ask(t, t.Context())
		}
		time.Sleep(11 * time.Second)
		answer := make(chan struct{})
		r, w := io.Pipe()
		a.fetch = func(context.Context, fetch.Ask) (*fetch.Reply, error) {
			<-answer
			return &fetch.Reply{Body: r, Size: -1}, nil
		}
		var body io.ReadCloser
		go func() {
			if reply, err := g.Fetch(t.Context(), wish(t, guardPath)); err == nil {
				body = reply.Body
			}
		}()
		synctest.Wait()
		if got := g.ask(t, t.Context()); got != fetch.ClassBusy || a.asked.Load() != 4 {
			t.Errorf("beside a probe request: %v after %d requests, want busy and 4", got, a.asked.Load())
		}
		close(answer)
		synctest.Wait()
		a.fetch = says(fetch.ClassNotFound)
		if got := g.ask(t, t.Context()); got != fetch.ClassNotFound {
			t.Errorf("while the probe's body comes: %v, want %v", got, fetch.ClassNotFound)
		}
		if body == nil {
			t.Fatal("the response has no body, want one")
		}
		_ = w.CloseWithError(&fetch.Failure{Source: "actor", Class: fetch.ClassBroken})
		if _, err := io.Copy(io.Discard, body); err == nil {
			t.Error("the cut body was read without an error, want one")
		}
		if s := g.State(); !s.Open || time.Until(s.Until) != 20*time.Second {
			t.Errorf("a probe that broke off: %+v; want an open breaker for 20 s", s)
		}
	})
}

func TestGuardBlame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &actor{fetch: gives("wrong")}
		g := Guard(a, GuardOptions{})
		wrong := &fetch.Failure{Source: "actor", Class: fetch.ClassBroken, Err: errors.New("another file")}
		for i := range 5 {
			if got := g.ask(t, t.Context()); got != fetch.ClassNone {
				t.Fatalf("file %d: %v, want %v", i, got, fetch.ClassNone)
			}
			g.Blame(wrong)
		}
		if s := g.State(); !s.Open || s.Wrong != 5 || s.LastError != wrong.Error() {
			t.Fatalf("after five wrong files: %+v; want an open breaker and the last error", s)
		}
		time.Sleep(11 * time.Second)
		if got := g.ask(t, t.Context()); got != fetch.ClassNone {
			t.Fatalf("the probe: %v, want %v", got, fetch.ClassNone)
		}
		g.Blame(wrong)
		if s := g.State(); !s.Open || time.Until(s.Until) != 20*time.Second {
			t.Errorf("after a wrong probe: %+v; want an open breaker for 20 s", s)
		}
		// A few among many are no reason.
		g = Guard(a, GuardOptions{})
		for i := range 100 {
			g.ask(t, t.Context())
			if i%10 == 9 {
				g.Blame(wrong)
			}
		}
		if s := g.State(); s.Open {
			t.Errorf("one in ten: %+v; want a closed breaker", s)
		}
	})
}

func TestGuardRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(90 * time.Second)
		a := &actor{fetch: func(context.Context, fetch.Ask) (*fetch.Reply, error) {
			return nil, &fetch.Failure{Source: "actor", Class: fetch.ClassBusy, Retry: until}
		}}
		g := Guard(a, GuardOptions{})
		for range 10 {
			_, err := g.Fetch(t.Context(), wish(t, guardPath))
			if f, ok := errors.AsType[*fetch.Failure](err); !ok || f.Class != fetch.ClassBusy || !f.Retry.Equal(until) {
				t.Fatal(err)
			}
		}
		if a.asked.Load() != 1 || !g.State().Open {
			t.Errorf("asked %d times, want once and an open breaker", a.asked.Load())
		}
		time.Sleep(90 * time.Second)
		a.fetch = gives("x")
		if got := g.ask(t, t.Context()); got != fetch.ClassNone {
			t.Errorf("after that time: %v, want %v", got, fetch.ClassNone)
		}
		a.fetch = says(fetch.ClassBusy) // without a word of when
		g.ask(t, t.Context())
		if s := g.State(); !s.Open || time.Until(s.Until) != politePause {
			t.Errorf("State: %+v, want Open true, time.Until(s.Until) %v", s, politePause)
		}
	})
}

// Being given up says nothing about a source if another was faster, and that it
// is too slow otherwise.
func TestGuardGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for why, open := range map[error]bool{context.Canceled: false, errIdle: true, context.DeadlineExceeded: true} {
			g := Guard(&actor{fetch: hangs}, GuardOptions{})
			for range 10 {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(why) })
				g.ask(t, ctx)
			}
			if s := g.State(); s.Open != open || s.Active != 0 {
				t.Errorf("given up for %v: %+v; want open: %v, and none active", why, s, open)
			}
			// The same with a body that stops.
			g = Guard(&actor{fetch: func(ctx context.Context, _ fetch.Ask) (*fetch.Reply, error) {
				return &fetch.Reply{Body: waits{ctx}, Size: 100}, nil
			}}, GuardOptions{})
			for range 10 {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(why) })
				g.ask(t, ctx)
			}
			if s := g.State(); s.Open != open || s.Active != 0 {
				t.Errorf("body given up for %v: %+v; want open: %v, and none active", why, s, open)
			}
		}
	})
}

type waits struct{ ctx context.Context }

func (w waits) Read([]byte) (int, error) { <-w.ctx.Done(); return 0, w.ctx.Err() }
func (w waits) Close() error             { return nil }

func TestGuardConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := &actor{fetch: func(ctx context.Context, _ fetch.Ask) (*fetch.Reply, error) {
			<-release
			return &fetch.Reply{Body: io.NopCloser(strings.NewReader("x")), Size: 1}, nil
		}}
		g := Guard(a, GuardOptions{Concurrency: 2})
		var ok atomic.Int64
		for range 5 {
			go func() {
				if g.ask(t, t.Context()) == fetch.ClassNone {
					ok.Add(1)
				}
			}()
		}
		synctest.Wait()
		if s := g.State(); a.asked.Load() != 2 || s.Active != 2 || s.Waiting != 3 {
			t.Errorf("asked %d: %+v; want 2 active and 3 waiting", a.asked.Load(), s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := g.ask(t, ctx); got != fetch.ClassBusy {
			t.Errorf("who cannot wait: %v, want %v", got, fetch.ClassBusy)
		}
		close(release)
		synctest.Wait()
		if s := g.State(); ok.Load() != 5 || s.Active != 0 || s.Waiting != 0 || s.Hits != 5 || s.Bytes != 5 {
			t.Errorf("State: %d, %+v; want 5, Active 0, Waiting 0, Hits 5, Bytes 5", ok.Load(), s)
		}
		// A body that nobody reads to its end frees its slot.
		for range 5 {
			reply, err := g.Fetch(t.Context(), wish(t, guardPath))
			if err != nil {
				t.Fatal(err)
			}
			_ = reply.Body.Close()
			_ = reply.Body.Close()
		}
	})
}

// Servers that download for each other share the limit of concurrent requests.
func TestGuardShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := &actor{fetch: func(ctx context.Context, _ fetch.Ask) (*fetch.Reply, error) {
			<-release
			return &fetch.Reply{Body: io.NopCloser(strings.NewReader("x")), Size: 1}, nil
		}}
		g := Guard(a, GuardOptions{Concurrency: 9})
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 20 {
			ctx := ctx
			if i < 12 {
				ctx = t.Context()
			}
			go g.ask(t, ctx)
			synctest.Wait()
		}
		for _, c := range []struct{ servers, active int64 }{{1, 9}, {4, 9}, {100, 9}} {
			g.Traits().Share(int(c.servers))
			synctest.Wait()
			if s := g.State(); s.Active != c.active || s.Waiting != 20-c.active {
				t.Errorf("%d servers: %d requests, %d waiting; running ones continue; want %v, %v", c.servers, s.Active, s.Waiting, c.active, 20-c.active)
			}
		}
		cancel() // of 8 that wait, some of them behind others
		synctest.Wait()
		if s := g.State(); s.Active != 9 || s.Waiting != 3 {
			t.Errorf("after some have left: %d requests, %d waiting, want 9 and 3", s.Active, s.Waiting)
		}
		close(release)
		synctest.Wait()
		release = make(chan struct{})
		for _, c := range []struct{ servers, active int64 }{{100, 1}, {4, 2}, {2, 4}, {1, 9}, {0, 9}} {
			g.Traits().Share(int(c.servers))
			for range 10 {
				go g.ask(t, t.Context())
			}
			synctest.Wait()
			if s := g.State(); s.Active != c.active || s.Waiting != 10-c.active {
				t.Errorf("%d servers: %d requests, %d waiting, want %d requests", c.servers, s.Active, s.Waiting, c.active)
			}
			close(release)
			synctest.Wait()
			release = make(chan struct{})
			if s := g.State(); s.Active != 0 || s.Waiting != 0 {
				t.Errorf("in the end: %d requests, %d waiting; want 0 and 0", s.Active, s.Waiting)
			}
		}
	})
}

func TestGuardExecutables(t *testing.T) {
	for _, c := range []struct {
		path string
		want bool // without executables
	}{
		{"hello.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello.pdb", true},
		{"hello.dbg/5E1F2B3C1f000/hello.dbg", true},
		{"hello.dll/5E1F2B3C1f000/hello.dll", false},
		{"hello/5E1F2B3C1f000/hello", false},
		{"libx.so/elf-buildid-adac45aa231bba3143d7af433767c61f31021c16/libx.so", false},
		{"_.debug/elf-buildid-sym-adac45aa231bba3143d7af433767c61f31021c16/_.debug", true},
		{"buildid/adac45aa231bba3143d7af433767c61f31021c16/executable", false},
		{"buildid/adac45aa231bba3143d7af433767c61f31021c16/debuginfo", true},
		{"ad/ac45aa231bba3143d7af433767c61f31021c16/executable", false},
		{"a.wasm/adac45aa231bba3143d7af433767c61f31021c16/a.wasm", false},
		{"hello.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello.sym", true},
	} {
		for _, allowed := range []bool{true, false} {
			a := &actor{fetch: gives("x")}
			_, err := Guard(a, GuardOptions{Executables: allowed}).Fetch(t.Context(), wish(t, c.path))
			if (err == nil) != (c.want || allowed) || err != nil && (fetch.ClassOf(err) != fetch.ClassSkipped || !errors.Is(err, fs.ErrNotExist)) {
				t.Errorf("%s, executables %v: %v; want success: %v", c.path, allowed, err, c.want || allowed)
			}
		}
	}
	// Whatever it was asked for, it may not send one.
	a := &actor{fetch: func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		return &fetch.Reply{Body: io.NopCloser(&drip{"MZ and so on"}), Size: -1}, nil
	}}
	g := Guard(a, GuardOptions{})
	if got := g.ask(t, t.Context()); got != fetch.ClassBroken {
		t.Errorf("an image in the place of a PDB: %v, want %v", got, fetch.ClassBroken)
	}
	if got := Guard(a, GuardOptions{Executables: true}).ask(t, t.Context()); got != fetch.ClassNone {
		t.Errorf("an image that is allowed: %v, want %v", got, fetch.ClassNone)
	}
}

// drip reads one byte at a time.
type drip struct{ s string }

func (d *drip) Read(p []byte) (int, error) {
	if d.s == "" {
		return 0, io.EOF
	}
	n := copy(p[:1], d.s)
	d.s = d.s[n:]
	return n, nil
}

func TestGuardFilters(t *testing.T) {
	const (
		portable = "lib.pdb/F9EFE0B6AE7500394C4C44205044422EFFFFFFFF/lib.pdb"
		breakpad = "libX.so/F9EFE0B6AE7500394C4C44205044422E0/libX.so.sym"
		byID     = "buildid/adac45aa231bba3143d7af433767c61f31021c16/debuginfo"
		source   = "buildid/adac45aa231bba3143d7af433767c61f31021c16/source/home/me/oursecret/main.c"
		image    = "Electron.exe/5E1F2B3C1f000/Electron.exe"
	)
	sum := func(s string) func(*fetch.Ask) { return func(a *fetch.Ask) { a.Checksum = s } }
	for _, c := range []struct {
		path string
		opt  GuardOptions
		ask  func(*fetch.Ask)
		want bool
	}{
		{guardPath, GuardOptions{NamePatterns: []string{"*electron*"}}, nil, false},
		{image, GuardOptions{NamePatterns: []string{"*ELECTRON*"}, Executables: true}, nil, true},
		{byID, GuardOptions{NamePatterns: []string{"*"}}, nil, false},
		{guardPath, GuardOptions{NamePatterns: []string{"h?llo.p*b"}}, nil, true},
		{guardPath, GuardOptions{NeverAsk: []string{"Hello*"}}, nil, false},
		{breakpad, GuardOptions{NeverAsk: []string{"libx.so"}}, nil, false},
		{source, GuardOptions{NeverAsk: []string{"*/OurSecret/*"}}, nil, false},
		{source, GuardOptions{NeverAsk: []string{"main.c"}}, nil, false},
		{byID, GuardOptions{NeverAsk: []string{"adac45*"}}, nil, false},
		{byID, GuardOptions{NeverAsk: []string{"hello*"}}, nil, true},
		{byID, GuardOptions{IDs: []string{"ADAC-45AA*"}}, nil, true},
		{byID, GuardOptions{IDs: []string{"00*"}}, nil, false},
		{portable, GuardOptions{RequiresChecksum: true}, nil, false},
		{portable, GuardOptions{RequiresChecksum: true}, sum("SHA256:00"), true},
		{portable, GuardOptions{Kinds: []symfile.Kind{symfile.PortablePDB}}, nil, true},
		{portable, GuardOptions{Kinds: []symfile.Kind{symfile.PDB}}, nil, false},
		{guardPath, GuardOptions{Kinds: []symfile.Kind{symfile.PDB}}, nil, true},
		{guardPath, GuardOptions{Kinds: []symfile.Kind{symfile.ELF, symfile.Breakpad}}, nil, false},
		{breakpad, GuardOptions{Kinds: []symfile.Kind{symfile.Breakpad}}, nil, true},
		{byID, GuardOptions{Kinds: []symfile.Kind{symfile.ELF}}, nil, true},
		{byID, GuardOptions{Kinds: []symfile.Kind{symfile.PDB, symfile.MachO}}, nil, false},
		{image, GuardOptions{Kinds: []symfile.Kind{symfile.PE}, Executables: true}, nil, true},
		{image, GuardOptions{Kinds: []symfile.Kind{symfile.PDB}, Executables: true}, nil, false},
	} {
		var got fetch.Ask
		a := &actor{fetch: func(_ context.Context, ask fetch.Ask) (*fetch.Reply, error) { got = ask; return gives("x")(nil, ask) }}
		g := Guard(a, c.opt)
		ask := wish(t, c.path)
		if c.ask != nil {
			c.ask(&ask)
		}
		lookups := len(ask.Request.Lookups)
		_, err := g.Fetch(t.Context(), ask)
		if (err == nil) != c.want || err != nil && fetch.ClassOf(err) != fetch.ClassSkipped || (a.asked.Load() == 1) != c.want {
			t.Errorf("%s with %+v: %v; want success: %v", c.path, c.opt, err, c.want)
		}
		if len(ask.Request.Lookups) != lookups || c.want && len(got.Request.Lookups) == 0 {
			t.Errorf("%s: the question was changed", c.path)
		}
	}
	a := &actor{}
	for _, c := range [][3]int64{{0, 5, 5}, {3, 5, 3}, {5, 3, 3}, {5, 0, 5}} {
		a.fetch = func(_ context.Context, ask fetch.Ask) (*fetch.Reply, error) {
			if ask.Limit != c[2] {
				t.Errorf("limits %d and %d: %d, want %v", c[0], c[1], ask.Limit, c[2])
			}
			return says(fetch.ClassNotFound)(nil, ask)
		}
		ask := wish(t, guardPath)
		ask.Limit = c[0]
		_, _ = Guard(a, GuardOptions{MaxBytes: c[1]}).Fetch(t.Context(), ask)
	}
}

// TestGuardHangsBesideFaster: if all requests of an upstream are cancelled
// because a different one was faster, its circuit breaker opens if it never
// answers, and not if it is only slower.
func TestGuardHangsBesideFaster(t *testing.T) {
	for _, c := range []struct {
		name  string
		fetch func(context.Context, fetch.Ask) (*fetch.Reply, error)
		open  bool
	}{
		{"hangs", hangs, true},
		{"is slower", func(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error) {
			select {
			case <-time.After(200 * time.Millisecond):
				return gives("x")(ctx, ask)
			case <-ctx.Done():
				return hangs(ctx, ask)
			}
		}, false},
		{"is slower and has nothing", func(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error) {
			select {
			case <-time.After(200 * time.Millisecond):
				return says(fetch.ClassNotFound)(ctx, ask)
			case <-ctx.Done():
				return hangs(ctx, ask)
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := Guard(&actor{fetch: c.fetch}, GuardOptions{})
				opened := false
				for range 200 {
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(50*time.Millisecond, func() { cancel(context.Canceled) })
					began := time.Now()
					g.ask(t, ctx)
					if d := time.Since(began); d > 50*time.Millisecond {
						t.Fatalf("a request returned %v after its cancellation, want at once", d-50*time.Millisecond)
					}
					if s := g.State(); s.Active > 1 {
						t.Fatalf("%d requests are active after their cancellation, want at most one", s.Active)
					}
					opened = opened || g.State().Open
					time.Sleep(500 * time.Millisecond)
				}
				if opened != c.open {
					t.Errorf("breaker opened: %v, want %v; %+v", opened, c.open, g.State())
				}
				time.Sleep(2 * watchTime)
				if s := g.State(); s.Active != 0 {
					t.Errorf("%d requests are still active, want 0", s.Active)
				}
			})
		})
	}
}

// TestGuardCloseEndsWatch: closing a source ends the request that outlived its
// cancellation.
func TestGuardCloseEndsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Guard(&actor{fetch: hangs}, GuardOptions{})
		for range maxLosses + 1 {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Millisecond, func() { cancel(context.Canceled) })
			g.ask(t, ctx)
		}
		if s := g.State(); s.Active != 1 {
			t.Fatalf("%d requests are active, want the one that is watched", s.Active)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := g.State(); s.Active != 0 || s.Errors != 0 {
			t.Errorf("after Close: %+v; want nothing active and no error", s)
		}
	})
}

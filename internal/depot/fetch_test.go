package depot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
)

// elsewhere is a source whose answers the test writes.
type elsewhere struct {
	name  string
	asked atomic.Int32
	fetch func(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error)
}

func (e *elsewhere) Name() string         { return e.name }
func (e *elsewhere) Close() error         { return nil }
func (e *elsewhere) Traits() fetch.Traits { return fetch.Traits{} }
func (e *elsewhere) Fetch(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error) {
	e.asked.Add(1)
	return e.fetch(ctx, ask)
}

func (e *elsewhere) fails(c fetch.Class) {
	e.fetch = func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		return nil, &fetch.Failure{Source: e.name, Class: c, Err: errors.New("for the test")}
	}
}

// sends answers with a body, at once and whole.
func (e *elsewhere) sends(name string, body []byte) {
	e.fetch = func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		return &fetch.Reply{Body: io.NopCloser(bytes.NewReader(body)), Size: int64(len(body)), Name: name, Path: "http://" + e.name + "/" + name}, nil
	}
}

// hangs never answers.
func (e *elsewhere) hangs() {
	e.fetch = func(ctx context.Context, _ fetch.Ask) (*fetch.Reply, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

// pipe answers with what the test writes into it.
func (e *elsewhere) pipe(name string, size int64) *io.PipeWriter {
	r, w := io.Pipe()
	e.fetch = func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		return &fetch.Reply{Body: r, Size: size, Name: name, Path: "http://" + e.name + "/" + name}, nil
	}
	return w
}

func withUpstreams(t *testing.T, opt Options, sources ...*elsewhere) (*Depot, *clock) {
	t.Helper()
	c := &clock{t: time.Now()}
	opt.Now = c.now
	for i, s := range sources {
		opt.Upstreams = append(opt.Upstreams, Upstream{Source: s, Rank: i})
	}
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, c
}

const symID = "44E4EC8C2F41492B9369D6B9A059577C2"

// symFile is a Breakpad file of about size bytes.
func symFile(id string, size int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "MODULE windows x86_64 %s app.pdb\n", id)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "PUBLIC %x 0 function_%d\n", 0x1000+i*16, i)
	}
	return b.Bytes()
}

const symPath = "app.pdb/" + symID + "/app.sym"

func request(t *testing.T, path string) layout.Request {
	t.Helper()
	req, err := layout.Route(strings.Split(path, "/"))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// fetched is all of a file that Get returns.
func fetched(ctx context.Context, t *testing.T, d *Depot, path string) ([]byte, error) {
	t.Helper()
	req := request(t, path)
	f, err := d.Get(ctx, answer.Question{Request: req})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

func readAll(f *answer.File) ([]byte, error) {
	var b []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := f.ReadAt(buf, int64(len(b)))
		b = append(b, buf[:n]...)
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

func TestFetchOnceForEverybody(t *testing.T) {
	body := symFile(symID, 3<<20)
	s := &elsewhere{name: "s"}
	w := s.pipe("app.sym", int64(len(body)))
	d, _ := withUpstreams(t, Options{}, s)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			path := symPath
			if i%2 == 1 { // another spelling of the same
				path = "APP.PDB/" + strings.ToLower(symID) + "/app.sym"
			}
			got, err := fetched(t.Context(), t, d, path)
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("got %d bytes of %d: %v, want all", len(got), len(body), err)
			}
		})
	}
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	wg.Wait()
	if n := s.asked.Load(); n != 1 {
		t.Errorf("the source was asked %d times, want 1", n)
	}
	// From now on it is the depot's.
	got, err := fetched(t.Context(), t, d, symPath)
	if err != nil || !bytes.Equal(got, body) || s.asked.Load() != 1 {
		t.Errorf("from the cache: %d bytes, %v, asked %d times; want the file after one request", len(got), err, s.asked.Load())
	}
}

// TestEndIsWithheld: whoever has the last byte has a right file.
func TestEndIsWithheld(t *testing.T) {
	body := symFile(symID, 300<<10)
	for _, size := range []int64{int64(len(body)), -1} {
		s := &elsewhere{name: "s"}
		w := s.pipe("app.sym", size)
		d, _ := withUpstreams(t, Options{}, s)
		written := make(chan struct{})
		go func() {
			_, _ = w.Write(body)
			close(written)
		}()
		f, err := d.places.Download(t.Context(), answer.Question{Request: request(t, symPath)})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Size != size || !f.Growing {
			t.Errorf("a growing file of %d bytes has size %d, growing %v; want its size", size, f.Size, f.Growing)
		}
		got := make([]byte, len(body)-64<<10)
		if n, err := readFull(f, got); err != nil || !bytes.Equal(got, body[:len(got)]) {
			t.Fatalf("size %d: read %d: %v, want the first bytes", size, n, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		g, err := d.places.Download(ctx, answer.Question{Request: request(t, symPath)})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if n, err := g.ReadAt(got[:1], int64(len(got))); n != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("size %d: byte %d was given before the end: %d, %v; want 0 and the error %v", size, len(got), n, err, context.Canceled)
		}
		_ = g.Close()
		<-written
		_ = w.Close()
		all, err := readAll(f)
		if err != nil || !bytes.Equal(all, body) {
			t.Errorf("size %d: %d bytes, %v; want the file", size, len(all), err)
		}
	}
}

func readFull(f *answer.File, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = f.ReadAt(p[n:], int64(n))
		n += m
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}

// TestWrongFileIsNeverWhole: the body of a file with a wrong id ends early and
// is not cached; the next upstream is tried if no client has begun to read.
func TestWrongFileIsNeverWhole(t *testing.T) {
	wrong := symFile("11111111111111111111111111111111A", 500<<10)
	s := &elsewhere{name: "wrong"}
	s.sends("app.sym", wrong)
	d, _ := withUpstreams(t, Options{}, s)
	got, err := fetched(t.Context(), t, d, symPath)
	if err == nil || len(got) > len(wrong)-64<<10 || errors.Is(err, fs.ErrNotExist) && len(got) > 0 {
		t.Errorf("%d bytes of %d, %v; want an error before the last 64 KiB", len(got), len(wrong), err)
	}
	if n := countBlobs(t, d); n != 0 {
		t.Errorf("%d files were kept, want 0", n)
	}
	// Remembered as broken: not asked again.
	if _, err := fetched(t.Context(), t, d, symPath); !errors.Is(err, fs.ErrNotExist) || s.asked.Load() != 1 {
		t.Errorf("%v, asked %d times; want the error %v and 1", err, s.asked.Load(), fs.ErrNotExist)
	}

	short, right := &elsewhere{name: "short"}, &elsewhere{name: "right"}
	short.sends("app.sym", wrong[:9000])
	body := symFile(symID, 100<<10)
	right.sends("app.sym", body)
	d, _ = withUpstreams(t, Options{}, short, right)
	if got, err := fetched(t.Context(), t, d, symPath); err != nil || !bytes.Equal(got, body) {
		t.Errorf("the second upstream: %d bytes, %v; want the file", len(got), err)
	}
}

func countBlobs(t *testing.T, d *Depot) (n int) {
	t.Helper()
	for _, err := range d.blobs.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func TestMissesAreRememberedByClass(t *testing.T) {
	for _, c := range []struct {
		class fetch.Class
		life  time.Duration
	}{
		{fetch.ClassNotFound, time.Hour}, {fetch.ClassForbidden, 24 * time.Hour}, {fetch.ClassTimeout, time.Minute},
		{fetch.ClassBroken, 10 * time.Minute}, {fetch.ClassTooLarge, 24 * time.Hour},
	} {
		s := &elsewhere{name: "s"}
		s.fails(c.class)
		d, clk := withUpstreams(t, Options{}, s)
		ask := func(path string, want int32) {
			t.Helper()
			if _, err := fetched(t.Context(), t, d, path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v: fetched: error %v, want fs.ErrNotExist", c.class, err)
			}
			if n := s.asked.Load(); n != want {
				t.Errorf("%v: asked %d times, want %d", c.class, n, want)
			}
		}
		ask("app.pdb/"+symID+"/app.pdb", 1)
		for _, p := range []string{"app.pdb/" + symID + "/app.pdb", "app.pdb/" + symID + "/app.pd_", "ap/App.pdb/" + strings.ToLower(symID) + "/APP.PDB"} {
			ask(p, 1)
		}
		d.fetch.ForgetMemory() // as after a restart
		ask("app.pdb/"+symID+"/app.pdb", 1)
		clk.t = clk.t.Add(c.life/2 + time.Second)
		ask("app.pdb/"+symID+"/app.pdb", 1)
		clk.t = clk.t.Add(c.life / 2)
		ask("app.pdb/"+symID+"/app.pdb", 2)
		if _, err := d.Remote.FlushMisses(t.Context(), misses.MissFilter{}); err != nil {
			t.Fatal(err)
		}
		ask("app.pdb/"+symID+"/app.pdb", 3)
	}
}

// TestMissIsRefreshedInBackground: a miss in the last quarter of its lifetime
// is checked again in the background.
func TestMissIsRefreshedInBackground(t *testing.T) {
	s := &elsewhere{name: "s"}
	s.fails(fetch.ClassNotFound)
	d, clk := withUpstreams(t, Options{}, s)
	if _, err := fetched(t.Context(), t, d, symPath); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	body := symFile(symID, 1000)
	s.sends("app.sym", body)
	clk.t = clk.t.Add(50 * time.Minute)
	if _, err := fetched(t.Context(), t, d, symPath); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the remembered answer: %v, want the error %v", err, fs.ErrNotExist)
	}
	d.fetch.Wait()
	if got, err := fetched(t.Context(), t, d, symPath); err != nil || !bytes.Equal(got, body) || s.asked.Load() != 2 {
		t.Errorf("after the refresh: %v, asked %d times; want the file after two requests", err, s.asked.Load())
	}
}

// TestAddingEndsAMiss: an added file is found at once, even if a miss is
// remembered.
func TestAddingEndsAMiss(t *testing.T) {
	s := &elsewhere{name: "s"}
	s.fails(fetch.ClassForbidden)
	d, _ := withUpstreams(t, Options{}, s)
	if _, err := fetched(t.Context(), t, d, symPath); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	body := symFile(symID, 1000)
	add(t, d, "", file{"app.sym", body})
	if got, err := fetched(t.Context(), t, d, symPath); err != nil || !bytes.Equal(got, body) {
		t.Error(err)
	}
}

func TestRanks(t *testing.T) {
	body := symFile(symID, 1000)
	hung, late := &elsewhere{name: "hung"}, &elsewhere{name: "late"}
	hung.hangs()
	late.sends("app.sym", body)
	d, _ := withUpstreams(t, Options{Limits: Limits{NextRank: 20 * time.Millisecond, FirstByte: time.Minute}}, hung, late)
	start := time.Now()
	if got, err := fetched(t.Context(), t, d, symPath); err != nil || !bytes.Equal(got, body) {
		t.Error(err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("waited %v for an upstream that hangs, want at most 30 s", took)
	}
	// A source that has answered No lets the next rank begin at once.
	no, yes := &elsewhere{name: "no"}, &elsewhere{name: "yes"}
	no.fails(fetch.ClassNotFound)
	yes.sends("app.sym", body)
	d, _ = withUpstreams(t, Options{Limits: Limits{NextRank: time.Hour}}, no, yes)
	if got, err := fetched(t.Context(), t, d, symPath); err != nil || !bytes.Equal(got, body) {
		t.Error(err)
	}
	// And the first rank's answer keeps the others from being asked.
	first, second := &elsewhere{name: "first"}, &elsewhere{name: "second"}
	first.sends("app.sym", body)
	second.sends("app.sym", body)
	d, _ = withUpstreams(t, Options{Limits: Limits{NextRank: time.Hour}}, first, second)
	if _, err := fetched(t.Context(), t, d, symPath); err != nil || second.asked.Load() != 0 {
		t.Errorf("fetched: error %v, %v; want 0", err, second.asked.Load())
	}
}

// TestSlowUpstreamIsDropped: before a client receives an answer, an upstream that sends too slowly
// is given up for the next one.
func TestSlowUpstreamIsDropped(t *testing.T) {
	body := symFile(symID, 200<<10)
	slow, good := &elsewhere{name: "slow"}, &elsewhere{name: "good"}
	w := slow.pipe("app.sym", int64(len(body)))
	go func() { _, _ = w.Write(body[:100]) }() // and no more
	good.sends("app.sym", body)
	d, _ := withUpstreams(t, Options{Limits: Limits{FirstByte: 300 * time.Millisecond, NextRank: time.Hour}}, slow, good)
	if got, err := fetched(t.Context(), t, d, symPath); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes, %v; want the file", len(got), err)
	}
	// After it, the answer breaks.
	stalls := &elsewhere{name: "stalls"}
	w = stalls.pipe("app.sym", int64(len(body)))
	go func() { _, _ = w.Write(body[:150<<10]) }()
	d, _ = withUpstreams(t, Options{Limits: Limits{Stall: 400 * time.Millisecond}}, stalls)
	got, err := fetched(t.Context(), t, d, symPath)
	if err == nil || len(got) == 0 || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%d bytes, %v; want some bytes and an error", len(got), err)
	}
	if countBlobs(t, d) != 0 {
		t.Error("half a file was kept")
	}
}

// TestBrokenTransferResumes: an interrupted body is resumed, but only if the
// upstream still has the same file.
func TestBrokenTransferResumes(t *testing.T) {
	body := symFile(symID, 400<<10)
	s := &elsewhere{name: "s"}
	s.fetch = func(_ context.Context, ask fetch.Ask) (*fetch.Reply, error) {
		r := &fetch.Reply{Size: int64(len(body)), Name: "app.sym", Path: "p", Tag: "v1"}
		if ask.Resume == nil {
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:123_456]), broken{}))
			return r, nil
		}
		if ask.Resume.Tag != "v1" || ask.Resume.Path != "p" || ask.Resume.Offset != 123_456 {
			t.Errorf("asked to resume %+v; want tag v1, path p and offset 123456", ask.Resume)
		}
		r.Offset = ask.Resume.Offset
		r.Body = io.NopCloser(bytes.NewReader(body[ask.Resume.Offset:]))
		return r, nil
	}
	d, _ := withUpstreams(t, Options{}, s)
	if got, err := fetched(t.Context(), t, d, symPath); err != nil || !bytes.Equal(got, body) || s.asked.Load() != 2 {
		t.Errorf("%d bytes, %v, asked %d times; want the file after two requests", len(got), err, s.asked.Load())
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("reset by the test") }

// TestFetchOutlivesItsClient: a download continues after its last client has
// disconnected.
func TestFetchOutlivesItsClient(t *testing.T) {
	body := symFile(symID, 200<<10)
	s := &elsewhere{name: "s"}
	w := s.pipe("app.sym", int64(len(body)))
	d, _ := withUpstreams(t, Options{}, s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := fetched(ctx, t, d, symPath)
		done <- err
	}()
	if _, err := w.Write(body[:1000]); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the client: %v, want the error %v", err, context.Canceled)
	}
	if _, err := w.Write(body[1000:]); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	d.fetch.Wait()
	if got, err := fetched(t.Context(), t, d, symPath); err != nil || !bytes.Equal(got, body) || s.asked.Load() != 1 {
		t.Errorf("%d bytes, %v, asked %d times; want the file after one request", len(got), err, s.asked.Load())
	}
}

// TestHigherAgeIsTaken: a PDB of equal GUID and higher age is a right answer.
func TestHigherAgeIsTaken(t *testing.T) {
	pdb := testdata(t, "pdb/hello-x64.pdb")
	d0, _ := newDepot(t)
	add(t, d0, "", pdb)
	found, err := d0.Find(t.Context(), answer.Scope{}, "hello-x64.pdb", 1)
	if err != nil || len(found) != 1 {
		t.Fatalf(`Find("hello-x64.pdb", 1): %v, error %v; want length 1`, found, err)
	}
	id := found[0].Object.DebugID
	s := &elsewhere{name: "s"}
	s.sends("hello-x64.pdb", pdb.body)
	d, _ := withUpstreams(t, Options{}, s)
	lower := fmt.Sprintf("hello-x64.pdb/%s0/hello-x64.pdb", strings.ToUpper(id.GUID.Lower()))
	if got, err := fetched(t.Context(), t, d, lower); err != nil || !bytes.Equal(got, pdb.body) {
		t.Errorf("age %d for 0: %v; want the file", id.Age, err)
	}
	higher := fmt.Sprintf("hello-x64.pdb/%s%x/hello-x64.pdb", strings.ToUpper(id.GUID.Lower()), id.Age+1)
	if _, err := fetched(t.Context(), t, d, higher); err == nil {
		t.Errorf("age %d was taken for %d", id.Age, id.Age+1)
	}
}

func TestEviction(t *testing.T) {
	s := &elsewhere{name: "s"}
	s.fetch = func(_ context.Context, ask fetch.Ask) (*fetch.Reply, error) {
		id := strings.ToUpper(ask.Request.Lookups[0].ID)
		body := symFile(id, 100<<10)
		return &fetch.Reply{Body: io.NopCloser(bytes.NewReader(body)), Size: int64(len(body)), Name: "app.sym", Path: "p"}, nil
	}
	d, clk := withUpstreams(t, Options{Cache: cache.Limits{MaxBytes: 350 << 10, MaxUnused: 24 * time.Hour}}, s)
	path := func(i int) string { return fmt.Sprintf("app.pdb/%032X1/app.sym", i+1) }
	for i := range 6 {
		clk.t = clk.t.Add(time.Minute)
		if _, err := fetched(t.Context(), t, d, path(i)); err != nil {
			t.Fatal(err)
		}
	}
	add(t, d, "", file{"app.sym", symFile(fmt.Sprintf("%032X1", 2), 100<<10)}) // one of them is added too
	// Opened, and used since: it stays, though it is the oldest.
	f, err := d.Open(t.Context(), answer.Scope{}, request(t, path(0)))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Cache.StoreUses(t.Context()); err != nil {
		t.Fatal(err)
	}
	ev, err := d.Cache.Evict(t.Context())
	if err != nil || ev.Files < 3 {
		t.Fatalf("Evict: %+v, error %v; want Files at least 3", ev, err)
	}
	if b, err := readAll(f); err != nil || !bytes.Equal(b, symFile(fmt.Sprintf("%032X1", 1), 100<<10)) {
		t.Errorf("the open file: %v; want its bytes", err)
	}
	_ = f.Close()
	asked := s.asked.Load()
	for i, want := range []bool{true, true, false, false} {
		f, err := d.Open(t.Context(), answer.Scope{}, request(t, path(i)))
		if (err == nil) != want {
			t.Errorf("file %d: %v, want it there: %v", i, err, want)
		}
		if err == nil {
			_ = f.Close()
		}
	}
	if s.asked.Load() != asked {
		t.Error("Open asks sources")
	}
	clk.t = clk.t.Add(48 * time.Hour)
	if _, err := d.Cache.Evict(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(t.Context(), answer.Scope{}, request(t, path(0))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unused for two days: %v, want the error %v", err, fs.ErrNotExist)
	}
	if f, err = d.Open(t.Context(), answer.Scope{}, request(t, path(1))); err != nil {
		t.Fatalf("added: %v", err)
	}
	_ = f.Close()
	if _, err := d.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("verify: %+v, want no fault", f) }, nil); err != nil {
		t.Error(err)
	}
}

// TestMissingIsCounted: requested files are listed as missing until they are
// added.
func TestMissingIsCounted(t *testing.T) {
	d, _ := newDepot(t)
	for i := range 3 {
		req := request(t, symPath)
		d.Missing.Count(&req, "gdb")
		if i == 0 {
			other := request(t, "b.pdb/"+symID+"/b.pdb")
			d.Missing.Count(&other, "symsrv")
		}
	}
	list := func() (names []string) {
		t.Helper()
		d.tidy(t.Context())
		if err := d.Missing.List(t.Context(), catalog.WantedFilter{}, func(w catalog.Wanted) error {
			names = append(names, fmt.Sprint(w.Name, " ", w.Client, " ", w.Count))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return names
	}
	if got := strings.Join(list(), ", "); got != "app.pdb gdb 3, b.pdb symsrv 1" {
		t.Errorf(`got %q, want "app.pdb gdb 3, b.pdb symsrv 1"`, got)
	}
	add(t, d, "", file{"app.sym", symFile(symID, 100)})
	if got := strings.Join(list(), ", "); got != "b.pdb symsrv 1" {
		t.Errorf(`got %q, want "b.pdb symsrv 1"`, got)
	}
}

// TestExpiredRowsAreDeleted: expired misses and failures are deleted.
func TestExpiredRowsAreDeleted(t *testing.T) {
	s := &elsewhere{name: "s"}
	s.fails(fetch.ClassNotFound)
	d, clk := withUpstreams(t, Options{}, s)
	if _, err := fetched(t.Context(), t, d, symPath); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	req := request(t, symPath)
	d.Missing.Count(&req, "gdb")
	d.tidy(t.Context())
	clk.t = clk.t.Add(wantedLife + 2*time.Hour)
	d.tidy(t.Context())
	_, misses, err := d.Cache.Stats(t.Context())
	if err != nil || len(misses) != 0 {
		t.Errorf("misses are left: %+v, %v; want no error and 0 in misses", misses, err)
	}
	if err := d.Missing.List(t.Context(), catalog.WantedFilter{}, func(w catalog.Wanted) error {
		t.Errorf("still wanted: %+v", w)
		return nil
	}); err != nil {
		t.Error(err)
	}
}

package fetch

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

// source is an upstream whose answers a test decides.
type source struct {
	name  string
	asked atomic.Int32
	fetch func(context.Context, Ask) (*Reply, error)
}

func (s *source) Name() string   { return s.name }
func (s *source) Traits() Traits { return Traits{} }
func (s *source) Close() error   { return nil }
func (s *source) Fetch(ctx context.Context, ask Ask) (*Reply, error) {
	s.asked.Add(1)
	return s.fetch(ctx, ask)
}

// memory is a depot that keeps what it is told and holds nothing.
type memory struct {
	disk *blob.Disk

	mu     sync.Mutex
	misses map[string]map[string]Miss
	kept   []Kept
}

func (m *memory) Holds(context.Context, []string, layout.Request) bool { return false }
func (m *memory) Checksum(context.Context, []string, layout.Request) string {
	return ""
}
func (m *memory) Spool() (*blob.Spool, error) { return m.disk.Spool() }
func (m *memory) Keep(_ context.Context, f Kept) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = append(m.kept, f)
	return nil
}
func (m *memory) Misses(_ context.Context, key string) (map[string]Miss, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := map[string]Miss{}
	for name, miss := range m.misses[key] {
		known[name] = miss
	}
	return known, nil
}
func (m *memory) PutMisses(_ context.Context, key string, misses map[string]Miss) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.misses[key] = misses
	return nil
}
func (m *memory) ForgetMiss(_ context.Context, key, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.misses[key], name)
	return nil
}

func newFetcher(t *testing.T, sources ...*source) (*Fetcher, *memory) {
	t.Helper()
	disk, err := blob.OpenDisk(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{disk: disk, misses: map[string]map[string]Miss{}}
	var list []Upstream
	for i, s := range sources {
		list = append(list, Upstream{Source: s, Rank: i})
	}
	f := New(m, Options{Upstreams: list, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	t.Cleanup(func() {
		f.Close()
		_ = disk.Close()
	})
	return f, m
}

const (
	symID   = "0E7712BEAF064421884B496F833C8EC121"
	symPath = "app.pdb/" + symID + "/app.sym"
)

func question(t *testing.T, path string) Question {
	t.Helper()
	req, err := layout.Route(strings.Split(path, "/"))
	if err != nil {
		t.Fatal(err)
	}
	return Question{Request: req}
}

func symFile(size int) string {
	head := "MODULE windows x86_64 " + symID + " app.pdb\n"
	return head + strings.Repeat("PUBLIC 1000 0 a_name_of_a_function\n", size/35)
}

// readAfter reads once a group has come to its end.
type readAfter struct {
	after *sync.WaitGroup
	io.Reader
}

func (r readAfter) Read(p []byte) (int, error) {
	r.after.Wait()
	return r.Reader.Read(p)
}

// TestStages: a file goes through all stages, and is kept under its aliases.
func TestStages(t *testing.T) {
	t.Parallel()
	body := symFile(300_000)
	// The second half arrives when all clients have opened the file: a client
	// that comes after the end is sent back to the depot.
	const clients = 20
	var opened sync.WaitGroup
	opened.Add(clients)
	s := &source{name: "s", fetch: func(context.Context, Ask) (*Reply, error) {
		half := len(body) / 2
		rest := io.MultiReader(strings.NewReader(body[:half]), readAfter{&opened, strings.NewReader(body[half:])})
		return &Reply{Body: io.NopCloser(rest), Size: int64(len(body)), Name: "app.sym"}, nil
	}}
	f, m := newFetcher(t, s)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			file, err := f.Open(t.Context(), question(t, symPath))
			opened.Done()
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			defer file.Close()
			got, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<30))
			if err != nil || string(got) != body {
				t.Errorf("read %d bytes, %v; want %d", len(got), err, len(body))
			}
		})
	}
	all.Wait()
	f.Wait()
	if len(m.kept) == 0 || len(m.kept[0].Objects) != 1 || len(m.kept[0].Objects[0].Aliases) == 0 || m.kept[0].Ref != blob.Sum([]byte(body)) {
		t.Errorf("kept: %+v; want one object with aliases", m.kept)
	}
}

// TestFailureClasses: each class of failure is remembered for its own time.
func TestFailureClasses(t *testing.T) {
	t.Parallel()
	for class, want := range map[Class]time.Duration{
		ClassNotFound: time.Hour, ClassForbidden: 24 * time.Hour, ClassTimeout: time.Minute,
		ClassBroken: 10 * time.Minute, ClassTooLarge: 24 * time.Hour,
	} {
		s := &source{name: "s", fetch: func(context.Context, Ask) (*Reply, error) {
			return nil, &Failure{Source: "s", Class: class}
		}}
		f, m := newFetcher(t, s)
		q := question(t, symPath)
		for range 3 {
			if _, err := f.Open(t.Context(), q); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: Open = %v, want fs.ErrNotExist", class, err)
			}
		}
		if n := s.asked.Load(); n != 1 {
			t.Errorf("%s: asked %d times, want once", class, n)
		}
		if _, ok := f.misses.keys.Get(f.coalesceKey(q, f.permitted(q))); !ok {
			t.Errorf("%s: the miss is not in memory", class)
		}
		known, _ := m.Misses(t.Context(), missKey(q.Request))
		if got := known["s"].Until.Sub(known["s"].Since); got != want {
			t.Errorf("%s: remembered for %v, want %v", class, got, want)
		}
	}
}

// TestUnauthorizedIsNotRemembered: an upstream that asks for credentials is asked again for
// each file, and gives it after a sign-in.
func TestUnauthorizedIsNotRemembered(t *testing.T) {
	t.Parallel()
	var signedIn atomic.Bool
	body := symFile(1000)
	s := &source{name: "s"}
	s.fetch = func(context.Context, Ask) (*Reply, error) {
		if signedIn.Load() {
			return &Reply{Body: io.NopCloser(strings.NewReader(body)), Size: int64(len(body)), Name: "app.sym"}, nil
		}
		return nil, &Failure{Source: "s", Class: ClassUnauthorized}
	}
	f, m := newFetcher(t, s)
	q := question(t, symPath)
	for n := range int32(3) {
		_, err := f.Open(t.Context(), q)
		if !errors.Is(err, fs.ErrNotExist) || !slices.Equal(Classes(err), []Class{ClassUnauthorized}) {
			t.Errorf("Open = %v of the classes %v, want fs.ErrNotExist of %v", err, Classes(err), ClassUnauthorized)
		}
		if got := s.asked.Load(); got != n+1 {
			t.Errorf("asked %d times, want %d", got, n+1)
		}
	}
	if known, _ := m.Misses(t.Context(), missKey(q.Request)); len(known) > 0 {
		t.Errorf("%v is stored, want nothing", known)
	}
	signedIn.Store(true)
	file, err := f.Open(t.Context(), q)
	if err == nil {
		_ = file.Close()
	}
	f.Wait()
	if err != nil && !errors.Is(err, ErrInDepot) || len(m.kept) != 1 {
		t.Errorf("Open after a sign-in: error %v, %d files kept, want one", err, len(m.kept))
	}
}

// TestCoalesceKey: questions share a download only if everything that decides
// about the answer is equal.
func TestCoalesceKey(t *testing.T) {
	t.Parallel()
	f, _ := newFetcher(t, &source{name: "a"}, &source{name: "b"})
	f.upstreams[1].Product = "secret"
	f.checksums = true
	key := func(q Question) string { return f.coalesceKey(q, f.permitted(q)) }
	one := question(t, "app.pdb/"+symID+"/app.pdb")
	msfz := question(t, "app.pdb/"+symID+"/app.pdb")
	msfz.Request.AcceptMSFZ()
	sum, scope, other := one, one, one
	sum.Checksum = "SHA256:00"
	scope.Products = []string{""}
	other.Products = []string{"", "x"}
	for what, q := range map[string]Question{"MSFZ": msfz, "a checksum": sum, "a scope": scope} {
		if key(q) == key(one) {
			t.Errorf("a question with %s shares the download of one without", what)
		}
	}
	if key(scope) == key(other) {
		t.Error("different scopes share a download")
	}
	if spelled := question(t, "APP.PDB/"+strings.ToLower(symID)+"/app.pdb"); key(spelled) != key(one) {
		t.Error("another spelling of the same request does not share its download")
	}
}

// TestGroup: one piece of work for a key at a time, within the limit.
func TestGroup(t *testing.T) {
	t.Parallel()
	g := NewGroup[string, *int](2)
	end := make(chan struct{})
	runs := atomic.Int32{}
	join := func(key string) bool {
		_, ok := g.Join(key, func() (*int, bool) { return new(int), true }, func(*int) {
			runs.Add(1)
			<-end
			g.Leave(key)
		})
		return ok
	}
	for _, c := range []struct {
		key string
		ok  bool
	}{{"a", true}, {"a", true}, {"b", true}, {"c", false}, {"a", true}} {
		if got := join(c.key); got != c.ok {
			t.Errorf("Join(%s) = %v, want %v", c.key, got, c.ok)
		}
	}
	if g.Share("a", new(int)) {
		t.Error("Share took a key that has work")
	}
	close(end)
	g.Wait()
	if n := runs.Load(); n != 2 {
		t.Errorf("%d runs, want 2", n)
	}
	if !join("a") {
		t.Error("no new work after the old has ended")
	}
	g.Wait()
	g.Close()
	if join("a") {
		t.Error("new work after Close")
	}
}

// A client that looked before a download ended starts no second one, also after a
// failure that only memory holds.
func TestLateClient(t *testing.T) {
	busy := &Failure{Source: "up", Class: ClassBusy, Retry: time.Now().Add(time.Hour), Err: errors.New("429")}
	up := &source{name: "up", fetch: func(context.Context, Ask) (*Reply, error) { return nil, busy }}
	f, _ := newFetcher(t, up)
	q := question(t, symPath)
	if _, err := f.Open(t.Context(), q); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("error %v, want %v", err, fs.ErrNotExist)
	}
	list := f.permitted(q)
	d, ok := f.startHere(missKey(q.Request), f.coalesceKey(q, list), list, q, normal) // as a client that found no miss does
	if !ok {
		t.Fatal("the download did not start")
	}
	<-d.ended
	if n := up.asked.Load(); n != 1 {
		t.Errorf("%d requests to the upstream, want 1", n)
	}
	if _, err := d.open(t.Context(), true); len(Why(err)) != 1 || ClassOf(Why(err)[0]) != ClassBusy {
		t.Errorf("error %v of %v, want the remembered reason", err, Why(err))
	}
}

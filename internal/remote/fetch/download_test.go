package fetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/store/blob"
)

// fails answers with a failure of a class.
func (s *source) fails(c Class) {
	s.fetch = func(context.Context, Ask) (*Reply, error) {
		return nil, &Failure{Source: s.name, Class: c, Err: errors.New("for the test")}
	}
}

// sends answers with a body, at once and whole.
func (s *source) sends(body string) {
	s.fetch = func(context.Context, Ask) (*Reply, error) {
		return &Reply{Body: io.NopCloser(strings.NewReader(body)), Size: int64(len(body)), Name: "app.sym", Path: "http://" + s.name + "/app.sym"}, nil
	}
}

// pipes answers with what the test writes. The size is told before.
func (s *source) pipes(size int64) *io.PipeWriter {
	r, w := io.Pipe()
	s.fetch = func(context.Context, Ask) (*Reply, error) {
		return &Reply{Body: r, Size: size, Name: "app.sym", Path: "http://" + s.name + "/app.sym"}, nil
	}
	return w
}

// whole reads a file to its end.
func whole(f *File) ([]byte, error) {
	defer func() { _ = f.Close() }()
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

// downloaded opens a file and reads all of it, from the depot if the download has ended
// before.
func downloaded(t *testing.T, f *Fetcher, m *memory, path string) (string, error) {
	t.Helper()
	file, err := f.Open(t.Context(), question(t, path))
	if errors.Is(err, ErrInDepot) {
		return m.stored(t)
	}
	if err != nil {
		return "", err
	}
	b, err := whole(file)
	return string(b), err
}

// stored returns the file that was kept last. Without one, the depot is another server's.
func (m *memory) stored(t *testing.T) (string, error) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.kept) == 0 {
		return "", ErrInDepot
	}
	b, err := m.disk.Open(t.Context(), m.kept[len(m.kept)-1].Ref)
	if err != nil {
		return "", err
	}
	defer func() { _ = b.Close() }()
	text, err := io.ReadAll(io.NewSectionReader(b, 0, b.Size()))
	return string(text), err
}

// TestOneDownload: clients that want one file, in whatever spelling, share one download, which
// is kept once.
func TestOneDownload(t *testing.T) {
	t.Parallel()
	body := symFile(1 << 20)
	s := &source{name: "s"}
	w := s.pipes(int64(len(body)))
	f, m := newFetcher(t, s)
	var all, opened sync.WaitGroup
	opened.Add(20)
	for i := range 20 {
		path := symPath
		if i%2 == 1 {
			path = "APP.PDB/" + strings.ToLower(symID) + "/app.sym"
		}
		all.Go(func() {
			file, err := f.Open(t.Context(), question(t, path))
			opened.Done()
			if err != nil {
				t.Errorf("client %d: %v", i, err)
				return
			}
			if got, err := whole(file); err != nil || string(got) != body {
				t.Errorf("client %d: %d bytes, %v; want the file", i, len(got), err)
			}
		})
	}
	if _, err := io.WriteString(w, body[:500<<10]); err != nil {
		t.Fatal(err)
	}
	opened.Wait() // nobody comes after the end
	if _, err := io.WriteString(w, body[500<<10:]); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	all.Wait()
	f.Wait()
	if len(m.kept) != 1 || m.kept[0].Ref != blob.Sum([]byte(body)) || m.kept[0].Upstream != "s" || len(m.kept[0].Objects) != 1 {
		t.Errorf("kept: %+v; want the file of s", m.kept)
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("%d requests for 20 clients, want 1", n)
	}
}

// TestGrowing: a client reads a file while it arrives, and gets its end only after it was
// checked. Its size may be unknown until then.
func TestGrowing(t *testing.T) {
	t.Parallel()
	body := symFile(300 << 10)
	for _, size := range []int64{int64(len(body)), -1} {
		s := &source{name: "s"}
		w := s.pipes(size)
		f, _ := newFetcher(t, s)
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, _ = io.WriteString(w, body)
		}()
		file, err := f.Open(t.Context(), question(t, symPath))
		if err != nil {
			t.Fatal(err)
		}
		if file.Size != size || !file.Growing {
			t.Errorf("a file of %d bytes that arrives: size %d, growing %t", size, file.Size, file.Growing)
		}
		most := len(body) - 64<<10
		got := make([]byte, most)
		for n := 0; n < most; {
			m, err := file.ReadAt(got[n:], int64(n))
			if n += m; err != nil {
				t.Fatalf("size %d: byte %d: %v", size, n, err)
			}
		}
		if string(got) != body[:most] {
			t.Errorf("size %d: the first bytes are others", size)
		}
		<-written
		ctx, cancel := context.WithCancel(t.Context())
		late, err := f.Open(ctx, question(t, symPath))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if n, err := late.ReadAt(got[:1], int64(len(body)-1)); n != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("size %d: the last byte before the check: %d, %v; want none", size, n, err)
		}
		_ = late.Close()
		_ = w.Close()
		if all, err := whole(file); err != nil || string(all) != body {
			t.Errorf("size %d: %d bytes, %v; want the file", size, len(all), err)
		}
	}
}

// TestWrongFile: a file that has not the id that was asked for is not kept, its client does
// not get its end, and the next upstream is asked.
func TestWrongFile(t *testing.T) {
	t.Parallel()
	other := strings.Replace(symFile(300<<10), symID, "11111111AF064421884B496F833C8EC12A", 1)
	s := &source{name: "wrong"}
	s.sends(other)
	f, m := newFetcher(t, s)
	if got, err := downloaded(t, f, m, symPath); err == nil || len(got) == len(other) {
		t.Errorf("a wrong file: %d of %d bytes, %v; want an error", len(got), len(other), err)
	}
	f.Wait()
	if len(m.kept) != 0 {
		t.Errorf("kept: %+v, want nothing", m.kept)
	}
	short := other[:2000] // it is checked before anybody gets a byte
	s, right := &source{name: "wrong"}, &source{name: "right"}
	s.sends(short)
	body := symFile(1000)
	right.sends(body)
	f, m = newFetcher(t, s, right)
	if got, err := downloaded(t, f, m, symPath); err != nil || got != body {
		t.Errorf("after a wrong file: %d bytes, %v; want that of the next upstream", len(got), err)
	}
	f.Wait()
	if len(m.kept) != 1 || m.kept[0].Upstream != "right" {
		t.Errorf("kept: %+v, want the right file", m.kept)
	}
}

// TestMissMemory: why an upstream gave no file is remembered for the time of its class, also
// after a restart, until it is forgotten.
func TestMissMemory(t *testing.T) {
	t.Parallel()
	for class, life := range map[Class]time.Duration{
		ClassNotFound: time.Hour, ClassForbidden: 24 * time.Hour, ClassTimeout: time.Minute, ClassBroken: 10 * time.Minute, ClassTooLarge: 24 * time.Hour,
	} {
		s := &source{name: "s"}
		s.fails(class)
		f, m := newFetcher(t, s)
		var now time.Time
		f = New(m, Options{Upstreams: []Upstream{{Source: s}}, Log: f.log, Now: func() time.Time { return now }})
		now = time.Now()
		asked := func(when string, want int32) {
			t.Helper()
			if _, err := downloaded(t, f, m, symPath); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v, %s: %v, want not found", class, when, err)
			}
			f.Wait()
			if n := s.asked.Load(); n != want {
				t.Errorf("%v, %s: asked %d times, want %d", class, when, n, want)
			}
		}
		asked("at first", 1)
		asked("again", 1)
		f.ForgetMemory()
		asked("after a restart", 1)
		now = now.Add(life / 2)
		asked("at half of its time", 1)
		now = now.Add(life/2 + time.Second)
		asked("after its time", 2)
		f.Close()
	}
}

// TestRanks: the next rank is asked when one has answered that it has nothing, and not while
// an upstream of a better rank has the file.
func TestRanks(t *testing.T) {
	t.Parallel()
	body := symFile(1000)
	no, yes, third := &source{name: "no"}, &source{name: "yes"}, &source{name: "third"}
	no.fails(ClassNotFound)
	yes.sends(body)
	third.sends(body)
	f, m := newFetcher(t, no, yes, third)
	f.limits.NextRank = time.Hour
	if got, err := downloaded(t, f, m, symPath); err != nil || got != body {
		t.Errorf("got %d bytes, %v; want the file", len(got), err)
	}
	f.Wait()
	if no.asked.Load() != 1 || third.asked.Load() != 0 || len(m.kept) != 1 || m.kept[0].Upstream != "yes" {
		t.Errorf("asked: no %d times, third %d; kept %+v; want that of yes", no.asked.Load(), third.asked.Load(), m.kept)
	}
}

// breaks is a body whose connection breaks.
type breaks struct{}

func (breaks) Read([]byte) (int, error) { return 0, errors.New("reset by the test") }

// TestResume: a transfer that breaks goes on where it stopped, if the upstream has a tag.
func TestResume(t *testing.T) {
	t.Parallel()
	body := symFile(200 << 10)
	const at = 123_456
	s := &source{name: "s"}
	s.fetch = func(_ context.Context, ask Ask) (*Reply, error) {
		r := &Reply{Size: int64(len(body)), Name: "app.sym", Path: "p", Tag: "v1"}
		if ask.Resume == nil {
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader(body[:at]), breaks{}))
			return r, nil
		}
		if *ask.Resume != (Resume{Path: "p", Tag: "v1", Offset: at}) {
			t.Errorf("asked to resume %+v, want v1 of p at %d", *ask.Resume, at)
		}
		r.Offset, r.Body = at, io.NopCloser(strings.NewReader(body[at:]))
		return r, nil
	}
	f, m := newFetcher(t, s)
	if got, err := downloaded(t, f, m, symPath); err != nil || got != body || s.asked.Load() != 2 {
		t.Errorf("%d bytes, %v, asked %d times; want the file after two requests", len(got), err, s.asked.Load())
	}
}

// TestClientsLeave: a download goes on without its clients, and is kept.
func TestClientsLeave(t *testing.T) {
	t.Parallel()
	body := symFile(300 << 10)
	s := &source{name: "s"}
	w := s.pipes(int64(len(body)))
	f, m := newFetcher(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, _ = io.WriteString(w, body[:150<<10]) }()
	file, err := f.Open(ctx, question(t, symPath))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = file.Close()
	if _, err := io.WriteString(w, body[150<<10:]); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	f.Wait()
	if len(m.kept) != 1 || m.kept[0].Size != int64(len(body)) {
		t.Errorf("kept: %+v, want the whole file", m.kept)
	}
}

// testPeer is another server of the depot.
type testPeer struct {
	body string
	err  error
}

func (p *testPeer) Fetch(context.Context, PeerAsk) (*PeerReply, error) {
	if p.err != nil {
		return nil, p.err
	}
	file := File{Size: int64(len(p.body)), Ref: blob.Sum([]byte(p.body))}
	return &PeerReply{File: file, Body: io.NopCloser(bytes.NewReader([]byte(p.body))), End: func() File { return file }}, nil
}

func (p *testPeer) Run(context.Context, string, []byte) ([]byte, error) { return nil, ErrNoPeer }

func (p *testPeer) Owners(string) []Peer { return []Peer{p} }

// TestPeers: the server that owns a key downloads its file for all; if it does not answer,
// each downloads for itself, and what it does not find is not asked for again.
func TestPeers(t *testing.T) {
	t.Parallel()
	body := symFile(200 << 10)
	for _, c := range []struct {
		what  string
		peer  testPeer
		found bool
		asked int32
	}{
		{"the owner sends the file", testPeer{body: body}, true, 0},
		{"the owner does not answer", testPeer{err: ErrNoPeer}, true, 1},
		{"the owner finds nothing", testPeer{err: NotFound([]error{&Failure{Source: "s", Class: ClassNotFound}})}, false, 0},
	} {
		s := &source{name: "s"}
		s.sends(body)
		f, m := newFetcher(t, s)
		f.UsePeers(&c.peer)
		got, err := downloaded(t, f, m, symPath)
		if errors.Is(err, ErrInDepot) { // the owner has kept it before this server could send it
			got, err = body, nil
		}
		if c.found && (err != nil || got != body) || !c.found && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %d bytes, %v; want the file: %t", c.what, len(got), err, c.found)
		}
		if n := s.asked.Load(); n != c.asked {
			t.Errorf("%s: the upstream was asked %d times, want %d", c.what, n, c.asked)
		}
	}
}

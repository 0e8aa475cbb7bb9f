package depot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

func ask(ctx context.Context, d *Depot, q answer.Question) ([]byte, error) {
	f, err := d.places.Download(ctx, q)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

// picky is asked only with a checksum.
type picky struct{ *elsewhere }

func (picky) Traits() fetch.Traits { return fetch.Traits{NeedsChecksum: true} }

// TestChecksumIsPartOfTheQuestion: a request without a checksum does not change
// the answer to requests with one.
func TestChecksumIsPartOfTheQuestion(t *testing.T) {
	body := symFile(symID, 1000)
	s := &elsewhere{name: "s"}
	s.fetch = func(_ context.Context, ask fetch.Ask) (*fetch.Reply, error) {
		if ask.Checksum == "" {
			return nil, &fetch.Failure{Source: "s", Class: fetch.ClassSkipped, Err: errors.New("only with a checksum")}
		}
		return &fetch.Reply{Body: io.NopCloser(bytes.NewReader(body)), Size: int64(len(body)), Name: "app.sym", Path: "p"}, nil
	}
	d, _ := withUpstreams(t, Options{Upstreams: []Upstream{{Source: picky{s}}}})
	q := answer.Question{Request: request(t, symPath)}
	for range 2 {
		if _, err := ask(t.Context(), d, q); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	q.Checksum = "SHA256:00"
	if got, err := ask(t.Context(), d, q); err != nil || !bytes.Equal(got, body) || s.asked.Load() != 2 {
		t.Errorf("%v, asked %d times; want the file after two requests", err, s.asked.Load())
	}
}

// TestMSFZIsAnotherQuestion: a client that does not take MSFZ never joins the
// transfer of one that does, and gains by its misses.
func TestMSFZIsAnotherQuestion(t *testing.T) {
	s := &elsewhere{name: "s"}
	var took, plain atomic.Int32
	s.fetch = func(_ context.Context, ask fetch.Ask) (*fetch.Reply, error) {
		if slices.ContainsFunc(ask.Request.Lookups, func(l symfile.Lookup) bool { return l.Role&symfile.Compressed != 0 }) {
			took.Add(1)
		} else {
			plain.Add(1)
		}
		return nil, &fetch.Failure{Source: "s", Class: fetch.ClassNotFound}
	}
	d, _ := withUpstreams(t, Options{}, s)
	req := func(id string, msfz bool) answer.Question {
		q := answer.Question{Request: request(t, "app.pdb/"+id+"/app.pdb")}
		if msfz {
			q.Request.AcceptMSFZ()
		}
		return q
	}
	// Plain first: the other question is asked too.
	one, two := symID, "11111111111111111111111111111111A"
	for _, q := range []answer.Question{req(one, false), req(one, true), req(two, true), req(two, false), req(one, false)} {
		if _, err := ask(t.Context(), d, q); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	if took.Load() != 2 || plain.Load() != 1 {
		t.Errorf("asked %d times with and %d without MSFZ, want 2 and 1", took.Load(), plain.Load())
	}
}

// TestSlowIsNotResumed: a transfer that was given up because it is slow is not
// taken up again at the same source.
func TestSlowIsNotResumed(t *testing.T) {
	body := symFile(symID, 300<<10)
	s := &elsewhere{name: "s"}
	r, w := io.Pipe()
	s.fetch = func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		return &fetch.Reply{Body: r, Size: int64(len(body)), Name: "app.sym", Path: "p", Tag: "v1"}, nil
	}
	go func() { _, _ = w.Write(body[:200<<10]) }()
	d, _ := withUpstreams(t, Options{Limits: Limits{Stall: 400 * time.Millisecond}}, s)
	if got, err := fetched(t.Context(), t, d, symPath); err == nil || len(got) == 0 || s.asked.Load() != 1 {
		t.Errorf("%d bytes, %v, asked %d times; want an error in the middle and one request", len(got), err, s.asked.Load())
	}
}

// TestQueueTimeIsNotSlowness: a request that waits behind other requests of
// this server is sent in the end, and the upstream is not treated as slow.
func TestQueueTimeIsNotSlowness(t *testing.T) {
	synctest.Test(t, queueIsNotTheSourcesFault)
}

func queueIsNotTheSourcesFault(t *testing.T) {
	s := &elsewhere{name: "s"}
	s.fetch = func(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error) {
		select {
		case <-time.After(80 * time.Millisecond): // of a bubble
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		body := symFile(strings.ToUpper(ask.Request.Lookups[0].ID), 1000)
		return &fetch.Reply{Body: io.NopCloser(bytes.NewReader(body)), Size: int64(len(body)), Name: "app.sym", Path: "p"}, nil
	}
	g := upstream.Guard(s, upstream.GuardOptions{Concurrency: 1})
	d, _ := withUpstreams(t, Options{Upstreams: []Upstream{{Source: g}}, Limits: Limits{FirstByte: 400 * time.Millisecond}})
	var wg sync.WaitGroup
	for i := range 15 {
		wg.Go(func() {
			id := strings.Repeat("123456789ABCDEF"[i:i+1], 32) + "1"
			if _, err := fetched(t.Context(), t, d, "app.pdb/"+id+"/app.sym"); err != nil {
				t.Errorf("%d: fetched: error %v, want no error", i, err)
			}
		})
	}
	wg.Wait()
	if st := g.State(); st.Open || st.Errors > 0 {
		t.Errorf("State: %+v, want Open false, Errors 0", st)
	}
}

// twin is another server of ours as a source.
type twin struct {
	id string
	of func() *Depot
}

func (w twin) Name() string         { return w.id }
func (w twin) Traits() fetch.Traits { return fetch.Traits{ServerID: w.id} }
func (w twin) Close() error         { return nil }
func (w twin) Fetch(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error) {
	f, err := w.of().places.Download(ctx, answer.Question{Request: ask.Request, Via: append(ask.Via[:len(ask.Via):len(ask.Via)], w.id)})
	if err != nil {
		return nil, &fetch.Failure{Source: w.id, Class: fetch.ClassNotFound, Err: err}
	}
	return &fetch.Reply{Body: struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, 0, 1<<40), f}, Size: f.Size, Name: "app.sym", Path: "p"}, nil
}

// TestMutualUpstreams: two servers that are each other's upstream
// answer their clients at once, and both serve a file of a third server.
func TestMutualUpstreams(t *testing.T) {
	body := symFile(symID, 1000)
	third := &elsewhere{name: "third"}
	third.fetch = func(_ context.Context, ask fetch.Ask) (*fetch.Reply, error) {
		if ask.Request.Lookups[0].Name != "app.pdb" {
			return nil, &fetch.Failure{Source: "third", Class: fetch.ClassNotFound}
		}
		return &fetch.Reply{Body: io.NopCloser(bytes.NewReader(body)), Size: int64(len(body)), Name: "app.sym", Path: "p"}, nil
	}
	var a, b *Depot
	a, _ = withUpstreams(t, Options{Upstreams: []Upstream{{Source: twin{"B", func() *Depot { return b }}}, {Source: third}}})
	b, _ = withUpstreams(t, Options{Upstreams: []Upstream{{Source: twin{"A", func() *Depot { return a }}}}})
	start := time.Now()
	var wg sync.WaitGroup
	// The id must be another one: an id that only one file has is enough to find it.
	for _, path := range []string{"none.pdb/55E4EC8C2F41492B9369D6B9A059577C2/none.sym", symPath} {
		for id, d := range map[string]*Depot{"A": a, "B": b} {
			for range 4 {
				wg.Go(func() {
					got, err := ask(t.Context(), d, answer.Question{Request: request(t, path), Via: []string{id}})
					if path == symPath && (err != nil || !bytes.Equal(got, body)) {
						t.Errorf("%s: %d bytes, %v; want the file", id, len(got), err)
					}
					if path != symPath && !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s: error %v, want fs.ErrNotExist", id, err)
					}
				})
			}
		}
	}
	wg.Wait()
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it took %v, want at most 2 s", took)
	}
}

// TestRefreshedAndEvicted: a remembered miss is forgotten when the upstream has
// the file after all.
func TestRefreshedAndEvicted(t *testing.T) {
	s := &elsewhere{name: "s"}
	s.fails(fetch.ClassNotFound)
	d, clk := withUpstreams(t, Options{}, s)
	if _, err := fetched(t.Context(), t, d, symPath); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	s.sends("app.sym", symFile(symID, 1000))
	clk.t = clk.t.Add(50 * time.Minute)
	if _, err := fetched(t.Context(), t, d, symPath); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	d.fetch.Wait()
	if ev, err := d.Cache.Drop(t.Context(), cache.Filter{}); err != nil || ev.Files != 1 {
		t.Fatalf("Drop: %v, error %v; want Files 1", ev, err)
	}
	if _, err := fetched(t.Context(), t, d, symPath); err != nil {
		t.Error(err)
	}
}

// TestSourceTexts: source files are downloaded whole, cached by build-id and
// path, and distinguished by case.
func TestSourceTexts(t *testing.T) {
	const id = "adac45aa231bba3143d7af433767c61f31021c16"
	s := &elsewhere{name: "s"}
	s.fetch = func(_ context.Context, ask fetch.Ask) (*fetch.Reply, error) {
		if ask.Request.Form != layout.FormSource || !strings.Contains(ask.Request.Part, ".c") {
			return nil, &fetch.Failure{Source: "s", Class: fetch.ClassNotFound}
		}
		text := strings.Repeat("// "+symfile.BaseName(ask.Request.Part)+"\n", 20000)
		return &fetch.Reply{Body: io.NopCloser(strings.NewReader(text)), Size: -1, Name: "x.c", Path: "p"}, nil
	}
	d, _ := withUpstreams(t, Options{}, s)
	for range 2 {
		for _, c := range []struct{ path, first string }{
			{"usr/src/Main.c", "// Main.c\n"}, {"usr/src/main.c", "// main.c\n"}, {"usr/src/../src/main.c", "// main.c\n"},
		} {
			got, err := fetched(t.Context(), t, d, "buildid/"+id+"/source/"+c.path)
			if err != nil || !bytes.HasPrefix(got, []byte(c.first)) || len(got) != 20000*len(c.first) {
				t.Errorf("%s: %d bytes, %v; want %d bytes", c.path, len(got), err, 20000*len(c.first))
			}
		}
	}
	if s.asked.Load() != 2 {
		t.Errorf("asked %d times, want 2", s.asked.Load())
	}
	for range 2 {
		if _, err := fetched(t.Context(), t, d, "buildid/"+id+"/source/none.h"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	if s.asked.Load() != 3 {
		t.Errorf("asked %d times, want 3", s.asked.Load())
	}
	if _, err := d.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("Verify reports %+v, want no fault", f) }, nil); err != nil {
		t.Error(err)
	}
}

// TestSectionDownloadsDebugFile: a request for a section downloads the debug
// information and is answered from it; the upstream gets no other request.
func TestSectionDownloadsDebugFile(t *testing.T) {
	elf := testdata(t, "elf/prog-sha1")
	s := &elsewhere{name: "s"}
	s.fetch = func(_ context.Context, ask fetch.Ask) (*fetch.Reply, error) {
		if ask.Request.Form != layout.FormFile {
			t.Errorf("asked for form %d, want %v", ask.Request.Form, layout.FormFile)
		}
		return &fetch.Reply{Body: io.NopCloser(bytes.NewReader(elf.body)), Size: int64(len(elf.body)), Name: "prog", Path: "p"}, nil
	}
	d, _ := withUpstreams(t, Options{}, s)
	const base = "buildid/adac45aa231bba3143d7af433767c61f31021c16/"
	got, err := fetched(t.Context(), t, d, base+"section/.note.gnu.build-id")
	if err != nil || len(got) == 0 || !bytes.Contains(elf.body, got) {
		t.Errorf("%d bytes, %v; want a section of the file", len(got), err)
	}
	if _, err := fetched(t.Context(), t, d, base+"section/.gdb_index"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if got, err := fetched(t.Context(), t, d, base+"debuginfo"); err != nil || !bytes.Equal(got, elf.body) || s.asked.Load() != 1 {
		t.Errorf("%v, asked %d times; want the file after one request", err, s.asked.Load())
	}
}

// TestCodeInfoRedirects: a client that knows only the code id is redirected as
// soon as the upstream has answered, and then shares the same download.
func TestCodeInfoRedirects(t *testing.T) {
	body := symFile(symID, 300<<10)
	s := &elsewhere{name: "s"}
	r, w := io.Pipe()
	s.fetch = func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		return &fetch.Reply{Body: r, Size: int64(len(body)), Name: "app.pdb", Path: "p", CodeInfo: symPath}, nil
	}
	d, _ := withUpstreams(t, Options{}, s)
	for range 2 {
		f, err := d.places.Download(t.Context(), answer.Question{Request: request(t, "app.exe/5B2AC3D71E000/app.sym")})
		if err != nil || f.Redirect != symPath {
			t.Fatalf("download: %+v, error %v; want Redirect %v", f, err, symPath)
		}
		_ = f.Close()
	}
	go func() {
		_, _ = w.Write(body)
		_ = w.Close()
	}()
	if got, err := fetched(t.Context(), t, d, symPath); err != nil || !bytes.Equal(got, body) || s.asked.Load() != 1 {
		t.Errorf("%d bytes, %v, asked %d times; want the file after one request", len(got), err, s.asked.Load())
	}
	d.fetch.Wait()
	// It is held by now, and the file says nothing of the code id: the source
	// is asked where to, and not for the file.
	s.sends("app.pdb", nil)
	f := s.fetch
	s.fetch = func(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error) {
		reply, err := f(ctx, ask)
		reply.CodeInfo = symPath
		return reply, err
	}
	g, err := d.places.Download(t.Context(), answer.Question{Request: request(t, "app.exe/5B2AC3D71E000/app.sym")})
	if err != nil || g.Redirect != symPath || s.asked.Load() != 2 {
		t.Errorf("download: %+v, error %v; want Redirect %v, s.asked.Load() 2", g, err, symPath)
	}
	d.fetch.Wait()
}

// TestFatFile: a request for one slice downloads the whole file, and each slice
// is served as if the file had been added.
func TestFatFile(t *testing.T) {
	fat := testdata(t, "macho/app-fat")
	d0, _ := newDepot(t)
	add(t, d0, "", fat)
	found, err := d0.Find(t.Context(), answer.Scope{}, "app-fat", 10)
	if err != nil || len(found) < 2 {
		t.Fatalf(`Find("app-fat", 10): %v, error %v; want length at least 2`, found, err)
	}
	s := &elsewhere{name: "s"}
	s.sends("app-fat", fat.body)
	d, _ := withUpstreams(t, Options{}, s)
	for _, f := range found {
		paths := layout.SSQP.Paths(f.Object)
		if len(paths) == 0 {
			t.Fatalf("no path for %+v", f.Object)
		}
		want, err := fetched(t.Context(), t, d0, paths[0])
		if err != nil || len(want) == 0 || len(want) >= len(fat.body) {
			t.Fatalf("%s: %d bytes of an added file, %v; want a slice", paths[0], len(want), err)
		}
		if got, err := fetched(t.Context(), t, d, paths[0]); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v; want the slice of %d bytes", paths[0], len(got), err, len(want))
		}
	}
	if s.asked.Load() != 1 {
		t.Errorf("asked %d times, want 1", s.asked.Load())
	}
}

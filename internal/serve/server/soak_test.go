package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/remote/upstream"
)

// soakFile is the file of one of many keys: its id, its path and its bytes.
func soakFile(key int) (id, path string, body []byte) {
	id = fmt.Sprintf("%032X1", key+1)
	rng := rand.New(rand.NewPCG(7, uint64(key)))
	size := 200 + rng.IntN(3000)
	switch key % 4 {
	case 1:
		size = 20<<10 + rng.IntN(80<<10)
	case 2:
		size = 100<<10 + rng.IntN(500<<10)
	}
	return id, "/app.pdb/" + id + "/app.sym", sym(id, "app.pdb", "", size)
}

const soakKeys = 160

// soakSource is a server that fails in every way, at random.
type soakSource struct {
	files map[string][]byte
	wrong []byte
	seen  [8]atomic.Int64
}

func (s *soakSource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := s.files[r.URL.Path]
	fault := rand.IntN(24)
	if fault < len(s.seen) {
		s.seen[fault].Add(1)
	}
	flush := func() { _ = http.NewResponseController(w).Flush() }
	size := func(n int) { w.Header().Set("Content-Length", fmt.Sprint(n)) }
	pause := func(d time.Duration) {
		select {
		case <-r.Context().Done():
		case <-time.After(d):
		}
	}
	switch {
	case body == nil || fault == 0:
		http.NotFound(w, r)
	case fault == 1: // stalls, before or in the middle
		if rand.IntN(2) == 0 {
			size(len(body))
			_, _ = w.Write(body[:len(body)/2])
			flush()
		}
		pause(10 * time.Second)
	case fault == 2: // breaks off, and may be resumed
		w.Header().Set("ETag", `"1"`)
		size(len(body))
		_, _ = w.Write(body[:rand.IntN(len(body))])
		flush()
		panic(http.ErrAbortHandler)
	case fault == 3:
		_, _ = w.Write(s.wrong)
	case fault == 4: // is damaged at its beginning
		size(len(body))
		_, _ = w.Write(bytes.Replace(body, []byte("MODULE windows"), []byte("M\x00DULE windows"), 1))
	case fault == 5:
		http.Error(w, "no", []int{403, 429, 500, 502, 503}[rand.IntN(5)])
	case fault == 6: // tells another length
		size(len(body) + 100 - 200*rand.IntN(2))
		_, _ = w.Write(body)
	case fault == 7: // is slow, but not too slow
		for len(body) > 0 && r.Context().Err() == nil {
			n := min(len(body), 16<<10)
			_, _ = w.Write(body[:n])
			flush()
			body = body[n:]
			pause(20 * time.Millisecond)
		}
	default:
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}
}

// soak is a server in front of such sources, and what its clients saw.
type soak struct {
	t     *testing.T
	d     *depot.Depot
	addr  string
	files [][]byte
	paths []string
	mu    sync.Mutex
	saw   map[string]int
	log   symtest.Output // the errors of the server

	sources []*upstream.HTTP
}

func newSoak(t *testing.T) *soak {
	k := &soak{t: t, saw: map[string]int{}}
	byPath := map[string][]byte{}
	for i := range soakKeys {
		_, path, body := soakFile(i)
		k.files, k.paths = append(k.files, body), append(k.paths, path)
		if i%5 != 4 {
			byPath[path] = body
		}
	}
	var ups []depot.Upstream
	dialer := upstream.NewDialer(upstream.DialerOptions{})
	for i := range 3 {
		far := httptest.NewUnstartedServer(&soakSource{files: byPath, wrong: sym("11111111111111111111111111111111A", "app.pdb", "", 300<<10)})
		far.Config.ErrorLog = nil
		far.Start()
		t.Cleanup(far.Close)
		src, err := upstream.NewHTTP(upstream.HTTPConfig{Name: fmt.Sprint("far", i), URL: far.URL, Layout: "breakpad"}, dialer)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = src.Close() })
		k.sources = append(k.sources, src)
		ups = append(ups, depot.Upstream{Rank: i / 2, Source: upstream.Guard(src, upstream.GuardOptions{
			Breaker: upstream.BreakerOptions{Pause: 50 * time.Millisecond, MaxPause: 200 * time.Millisecond},
		})})
	}
	short := 300 * time.Millisecond
	var err error
	k.d, err = depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{
		Upstreams: ups, Cache: cache.Limits{MaxBytes: 4 << 20},
		Limits:    depot.Limits{NextRank: 50 * time.Millisecond, FirstByte: 500 * time.Millisecond, Stall: time.Second},
		Lifetimes: depot.Lifetimes{NotFound: short, Forbidden: short, Timeout: short, Broken: short, TooLarge: short},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.d.Close(); err != nil {
			t.Error(err)
		}
	})
	log := slog.New(slog.NewTextHandler(&k.log, &slog.HandlerOptions{Level: slog.LevelError}))
	k.addr = listen(t, newServer(t, Config{Depot: k.d, ID: "soak", Log: log}))
	return k
}

func (k *soak) note(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.saw[what]++
}

// client asks at random until ctx ends; every answer is right or broken.
func (k *soak) client(ctx context.Context) {
	tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4}
	defer tr.CloseIdleConnections()
	for ctx.Err() == nil {
		i := rand.IntN(soakKeys)
		switch rand.IntN(8) {
		case 0:
			k.old(ctx, i)
		case 1:
			short, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(30))*time.Millisecond)
			k.get(short, tr, i, "GET", "")
			cancel()
		case 2:
			k.get(ctx, tr, i, "HEAD", "")
		case 3:
			from := rand.IntN(len(k.files[i]))
			k.get(ctx, tr, i, "GET", fmt.Sprintf("bytes=%d-%d", from, from+rand.IntN(len(k.files[i])-from)))
		default:
			k.get(ctx, tr, i, "GET", "")
		}
	}
}

func (k *soak) get(ctx context.Context, tr *http.Transport, i int, method, ranges string) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+k.addr+k.paths[i], nil)
	if err != nil {
		k.t.Error(err)
		return
	}
	if ranges != "" {
		req.Header.Set("Range", ranges)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		k.note("broken")
		return
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		k.note("broken")
		return
	}
	want := k.files[i]
	switch resp.StatusCode {
	case http.StatusOK:
		if method == "HEAD" {
			want = nil
		}
	case http.StatusPartialContent:
		var from, to int
		if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/", &from, &to); err != nil || to >= len(want) {
			// A range of a wrong file may be answered before that is known;
			// it tells its own length.
			k.note("range of a wrong file")
			return
		}
		want = want[from : to+1]
		if !bytes.Equal(got, want) {
			k.note("range of a wrong file")
			return
		}
	case http.StatusNotFound:
		k.note("404")
		return
	case http.StatusRequestedRangeNotSatisfiable:
		k.note("range of a wrong file")
		return
	default:
		k.t.Errorf("status %d: %q, want one that this request can have; the server's log:\n%s", resp.StatusCode, got, &k.log)
		return
	}
	if !bytes.Equal(got, want) {
		k.t.Errorf("%s: %d bytes of a wrong file that seems whole, of %d", k.paths[i], len(got), len(want))
	}
	k.note(fmt.Sprint("right ", resp.StatusCode))
}

// old is a client that takes the end of the connection for that of the file.
func (k *soak) old(ctx context.Context, i int) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", k.addr)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_, _ = io.WriteString(c, "GET "+k.paths[i]+" HTTP/1.0\r\nHost: "+k.addr+"\r\n\r\n")
	all, err := io.ReadAll(bufio.NewReader(c))
	if err != nil {
		k.note("broken")
		return
	}
	head, body, ok := bytes.Cut(all, []byte("\r\n\r\n"))
	switch {
	case !ok:
		k.note("broken")
	case bytes.Contains(head, []byte(" 404 ")):
		k.note("404")
	case !bytes.Contains(head, []byte(" 200 ")):
		k.t.Errorf("response %q, want status 200; the server's log:\n%s", head, &k.log)
	case bytes.Equal(body, k.files[i]):
		k.note("right 200")
	case bytes.Contains(head, []byte("\r\nContent-Length: "+fmt.Sprint(len(body))+"\r\n")) || !bytes.Contains(head, []byte("\r\nContent-Length: ")):
		k.t.Errorf("%s: %d bytes of a wrong file that seems whole, of %d", k.paths[i], len(body), len(k.files[i]))
	default:
		k.note("broken")
	}
}

// beside adds, removes, evicts and forgets until ctx ends.
func (k *soak) beside(ctx context.Context) {
	_, _ = k.d.Retention.SetPolicy(ctx, "policy", []byte("retention: {trash: 0}\n"), "", -1)
	for n := 0; ctx.Err() == nil; n++ {
		i := rand.IntN(soakKeys)
		if tx, err := k.d.Begin(ctx, depot.TxInfo{Product: "soak"}); err == nil {
			_, err = tx.Add(ctx, depot.Source{Path: "app.sym", Content: memFile{bytes.NewReader(k.files[i])}})
			if err == nil {
				if number, err := tx.Commit(ctx); err == nil && rand.IntN(4) > 0 {
					_, _ = k.d.Retention.Remove(ctx, number, "")
				}
			}
			tx.Rollback()
		}
		switch n % 4 {
		case 0:
			_, _ = k.d.Cache.Evict(ctx)
		case 1:
			_, _ = k.d.Cache.Drop(ctx, cache.Filter{Source: "far1"})
		case 2:
			_, _ = k.d.Remote.FlushMisses(ctx, depot.MissFilter{})
		case 3:
			_, _ = k.d.Collect(ctx, time.Minute, false)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(20+rand.IntN(100)) * time.Millisecond):
		}
	}
}

// run lets clients ask for d and waits until all is quiet again.
func (k *soak) run(d time.Duration, clients int) {
	ctx, cancel := context.WithTimeout(k.t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() { k.client(ctx) })
	}
	wg.Go(func() { k.beside(ctx) })
	wg.Wait()
	_, _ = k.quiet()
}

// quiet waits until no transfer is under way: they outlive their clients. It
// returns what is left of them.
func (k *soak) quiet() (left []os.DirEntry, err error) {
	ctx, cancel := context.WithTimeout(k.t.Context(), 30*time.Second)
	defer cancel()
	_ = symtest.Poll(ctx, func() bool {
		left, err = os.ReadDir(filepath.Join(k.d.Name(), "blobs", "tmp"))
		return len(left) == 0
	})
	return left, err
}

// usage is what a process holds; files are those that no thread needs.
type usage struct {
	goroutines, files int
	heap              uint64
}

// within reports whether u is at most most.
func (u usage) within(most usage) bool {
	return u.goroutines <= most.goroutines && u.files <= most.files && u.heap <= most.heap
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d files besides those of threads, %d KiB", u.goroutines, u.files, u.heap>>10)
}

// settle waits until no more than most is held, or for a while.
func (k *soak) settle(ctx context.Context, most usage) (u usage) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_ = symtest.Poll(ctx, func() bool {
		for _, s := range k.sources {
			_ = s.Close() // lets go of connections that wait now, and can be used on
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		u = usage{runtime.NumGoroutine(), openFiles() - ofThread*pprof.Lookup("threadcreate").Count(), m.HeapAlloc}
		return u.within(most)
	})
	return u
}

// TestSoak lets clients of all kinds request files from servers that fail in
// every way, while files are added, removed and evicted. Every answer is right
// or visibly broken, and no resource is leaked. SYMDEPOT_SOAK sets the
// duration.
func TestSoak(t *testing.T) {
	long := soakTime
	if testing.Short() {
		long = min(long, 10*time.Second)
	}
	if v := os.Getenv("SYMDEPOT_SOAK"); v != "" {
		var err error
		if long, err = time.ParseDuration(v); err != nil {
			t.Fatalf("SYMDEPOT_SOAK: %v", err)
		}
	}
	k := newSoak(t)
	k.run(long/4, 12)
	before := k.settle(t.Context(), usage{24, 60, 64 << 20})
	k.run(long-long/4, 12)
	most := usage{before.goroutines + 10, before.files + 10, before.heap + before.heap/2 + 8<<20}
	after := k.settle(t.Context(), most)
	t.Logf("before: %v; after: %v; answers: %v", before, after, k.saw)
	if !after.within(most) {
		t.Errorf("grown from %v to %v, want no growth", before, after)
		if after.goroutines > most.goroutines {
			buf := make([]byte, 1<<20)
			t.Log(string(buf[:runtime.Stack(buf, true)]))
		}
	}
	if k.saw["right 200"] == 0 || k.saw["404"] == 0 || k.saw["broken"] == 0 {
		t.Error("not all happened that should")
	}
	if _, err := k.d.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("verify: %+v, want no fault", f) }, nil); err != nil {
		t.Error(err)
	}
	left, err := k.quiet()
	if err == nil && len(left) > 0 {
		t.Errorf("%d temporary files are left", len(left))
	}
	if _, err := k.d.Cache.Evict(t.Context()); err != nil {
		t.Error(err)
	}
}

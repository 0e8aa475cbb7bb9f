package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// far serves a tree of Breakpad files and counts what it is asked for.
type far struct {
	*httptest.Server
	requests atomic.Int64
	delay    time.Duration
}

func newFar(t *testing.T, dir string, delay time.Duration) *far {
	t.Helper()
	f := &far{delay: delay}
	files := http.FileServer(http.Dir(dir))
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "index2.txt") {
			http.NotFound(w, r)
			return
		}
		f.requests.Add(1)
		time.Sleep(f.delay)
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// eager keeps many connections alive.
func eager(n int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n, DisableCompression: true}}
}

// fetchURL reads an answer to its end and returns its status, its length and
// when its first byte came.
func fetchURL(ctx context.Context, c *http.Client, url string) (status int, n int64, first time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, 0, 0, err
	}
	start := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		return 0, 0, 0, err
	}
	defer resp.Body.Close()
	var b [1]byte
	m, err := io.ReadFull(resp.Body, b[:])
	first = time.Since(start)
	if err == io.EOF {
		return resp.StatusCode, 0, first, nil
	}
	if err != nil {
		return resp.StatusCode, 0, first, err
	}
	n, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, n + int64(m), first, err
}

// TestBenchColdMiss compares the first byte of files that have to be fetched
// with the first byte at the source.
func TestBenchColdMiss(t *testing.T) {
	needBench(t)
	tree := t.TempDir()
	paths := randomSyms(t, tree, 50, 300<<10)
	up := newFar(t, tree, 0)
	s := serveDepot(t, filepath.Join(t.TempDir(), "depot"), "--quiet", "--upstream", up.URL+",layout=breakpad")
	c := eager(4)
	var direct, through, extra []float64
	for _, p := range paths {
		_, _, a, err := fetchURL(t.Context(), c, up.URL+p)
		if err != nil {
			t.Fatal(err)
		}
		status, _, b, err := fetchURL(t.Context(), c, s.url+p)
		if err != nil || status != http.StatusOK {
			t.Fatalf("fetchURL: %v, error %v; want %v", status, err, http.StatusOK)
		}
		direct, through, extra = append(direct, a.Seconds()*1e3), append(through, b.Seconds()*1e3), append(extra, (b-a).Seconds()*1e3)
	}
	t.Logf("cold miss, first byte: direct %.2f ms, through symdepot %.2f ms, extra %.2f ms, median of 50 (want <= 10: %s)",
		median(direct), median(through), median(extra), verdict(median(extra) <= 10))
}

func verdict(ok bool) string {
	if ok {
		return "reached"
	}
	return "NOT REACHED"
}

// TestBenchManyForOne lets a hundred clients ask for one large file at once.
func TestBenchManyForOne(t *testing.T) {
	needBench(t)
	const clients, size = 100, 200 << 20
	tree := t.TempDir()
	p := randomSyms(t, tree, 1, size)[0]
	c := eager(clients)
	all := func(url string) time.Duration {
		start := time.Now()
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				if status, n, _, err := fetchURL(t.Context(), c, url); err != nil || status != 200 || n != size {
					t.Errorf("%d, %d bytes, %v; want no error, 200 and %v", status, n, err, size)
				}
			})
		}
		wg.Wait()
		return time.Since(start)
	}
	var ratios []float64
	for range 3 {
		up := newFar(t, tree, 0)
		s := serveDepot(t, filepath.Join(t.TempDir(), "depot"), "--quiet", "--upstream", up.URL+",layout=breakpad")
		_, _, _, err := fetchURL(t.Context(), c, up.URL+p)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, _, _, err := fetchURL(t.Context(), c, up.URL+p); err != nil {
			t.Fatal(err)
		}
		direct := time.Since(start)
		up.requests.Store(0)
		cold := all(s.url + p)
		asked := up.requests.Load()
		held := all(s.url + p)
		if asked != 1 {
			t.Errorf("%d requests reached the source, want 1", asked)
		}
		peak, _ := resident(t, s.cmd.Process.Pid)
		ratios = append(ratios, cold.Seconds()/(direct+held).Seconds())
		t.Logf("200 MiB to 100 clients: one direct %v, 100 of the held file %v, 100 while it arrives %v, %d upstream requests, peak %.0f MiB", direct.Round(time.Millisecond), held.Round(time.Millisecond), cold.Round(time.Millisecond), asked, peak)
	}
	t.Logf("200 MiB to 100 clients: ratio %.2f, median of 3 (want <= 1.15: %s)", median(ratios), verdict(median(ratios) <= 1.15))
}

// loadgen asks a URL at a steady rate and prints the latencies' percentiles in
// milliseconds, 50, 99 and 100, and 50 and 99 of the first byte: a process of its own, so that it does not wait for what it
// measures. Arguments: URL, requests per second, seconds.
func loadgen() {
	url := os.Args[1]
	rate, _ := strconv.Atoi(os.Args[2])
	seconds, _ := strconv.Atoi(os.Args[3])
	c := eager(64)
	var mu sync.Mutex
	var took, begun []float64
	var bad int
	work := make(chan time.Time, rate)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for due := range work {
				late := time.Since(due)
				status, _, first, err := fetchURL(context.Background(), c, url)
				d := time.Since(due)
				mu.Lock()
				begun = append(begun, (late+first).Seconds()*1e3)
				if took = append(took, d.Seconds()*1e3); err != nil || status != http.StatusNotFound && status != http.StatusOK {
					bad++
				}
				mu.Unlock()
			}
		})
	}
	start := time.Now()
	for i := range rate * seconds {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(due))
		work <- due
	}
	close(work)
	wg.Wait()
	slices.Sort(took)
	slices.Sort(begun)
	fmt.Printf("%d %d %.3f %.3f %.3f %.3f %.3f\n", len(took), bad, took[len(took)/2], took[len(took)*99/100], took[len(took)-1], begun[len(begun)/2], begun[len(begun)*99/100])
}

// TestBenchKnownMiss requests remembered misses at a steady rate.
func TestBenchKnownMiss(t *testing.T) {
	needBench(t)
	up := newFar(t, t.TempDir(), 0)
	s := serveDepot(t, filepath.Join(t.TempDir(), "depot"), "--quiet", "--upstream", up.URL+",layout=symstore")
	url := s.url + "/none.pdb/3BD8C3C3B1544CE9AB8D71A9F3E9A4D31/none.pdb"
	if status, _, _, err := fetchURL(t.Context(), http.DefaultClient, url); err != nil || status != 404 {
		t.Fatalf("fetchURL: %v, error %v; want 404", status, err)
	}
	before := up.requests.Load()
	out, err := exec.CommandContext(t.Context(), "loadgen", url, "2000", "20").Output()
	if err != nil {
		t.Fatal(err)
	}
	var n, bad int
	var p50, p99, most float64
	if _, err := fmt.Sscan(string(out), &n, &bad, &p50, &p99, &most); err != nil || bad > 0 {
		t.Fatalf("got %s, error %v, %v; want 0", out, err, bad)
	}
	if up.requests.Load() != before {
		t.Error("the source was asked again")
	}
	t.Logf("known miss at 2000/s for 20 s: %d answers, p50 %.2f ms, p99 %.2f ms, most %.1f ms (want p99 <= 2: %s)", n, p50, p99, most, verdict(p99 <= 2))
}

// dumpOpen is what a debugger asks for when it opens a dump.
type dumpOpen struct {
	there  []string
	absent [][]string // probes, one after the other
}

// open asks for everything, with some clients at once, and returns how long it
// took.
func (o dumpOpen) open(t *testing.T, base string, clients int) time.Duration {
	t.Helper()
	c := eager(clients)
	work := make(chan []string)
	var wg sync.WaitGroup
	start := time.Now()
	for range clients {
		wg.Go(func() {
			for probes := range work {
				for _, p := range probes {
					want := http.StatusOK
					if strings.Contains(p, "gone") {
						want = http.StatusNotFound
					}
					if status, _, _, err := fetchURL(t.Context(), c, base+p); err != nil || status != want {
						t.Errorf("%s: fetchURL: %d, error %v; want %v", p, status, err, want)
					}
				}
			}
		})
	}
	for i := range max(len(o.there), len(o.absent)) {
		if i < len(o.there) {
			work <- o.there[i : i+1]
		}
		if i < len(o.absent) {
			work <- o.absent[i]
		}
	}
	close(work)
	wg.Wait()
	return time.Since(start)
}

func newDumpOpen(t *testing.T, tree string, files, size, absent int) dumpOpen {
	o := dumpOpen{there: randomSyms(t, tree, files, size)}
	for i := range absent {
		key := fmt.Sprintf("/gone%d.pdb/%032X1/", i, i+1)
		o.absent = append(o.absent, []string{key + fmt.Sprintf("gone%d.pdb", i), key + fmt.Sprintf("gone%d.pd_", i), key + "file.ptr"})
	}
	return o
}

// TestDumpOpensTwice: opening a dump a second time sends no request to the
// upstream.
func TestDumpOpensTwice(t *testing.T) {
	tree := t.TempDir()
	o := newDumpOpen(t, tree, 20, 8<<10, 20)
	up := newFar(t, tree, 0)
	s := serveDepot(t, filepath.Join(t.TempDir(), "depot"), "--quiet", "--upstream", up.URL+",layout=native")
	o.open(t, s.url, 8)
	before := up.requests.Load()
	o.open(t, s.url, 8)
	if n := up.requests.Load(); n != before {
		t.Errorf("%d requests reached the upstream the second time, want none", n-before)
	}
}

// TestBenchDumpOpen is TestDumpOpensTwice at full size, with a distant
// upstream.
func TestBenchDumpOpen(t *testing.T) {
	needBench(t)
	tree := t.TempDir()
	o := newDumpOpen(t, tree, 1090, 175<<10, 430)
	up := newFar(t, tree, 100*time.Millisecond)
	s := serveDepot(t, filepath.Join(t.TempDir(), "depot"), "--quiet", "--upstream", up.URL+",layout=native")
	direct := o.open(t, up.URL, 8)
	first := o.open(t, s.url, 8)
	before := up.requests.Load()
	var second []float64
	for range 3 {
		second = append(second, o.open(t, s.url, 8).Seconds())
	}
	if n := up.requests.Load(); n != before {
		t.Errorf("%d requests reached the upstream the second time, want none", n-before)
	}
	ratio := direct.Seconds() / median(second)
	t.Logf("opening a dump (1090 files, 186 MB, 430 absent x 3 probes, 8 clients, 100 ms away): direct %.1f s, first %.1f s, second %.2f s, %.0f times as fast as direct (want >= 20: %s)",
		direct.Seconds(), first.Seconds(), median(second), ratio, verdict(ratio >= 20))
}

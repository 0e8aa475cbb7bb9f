package bench

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestBenchColdMiss compares the first byte of files that have to be fetched
// with the first byte at the source.
func TestBenchColdMiss(t *testing.T) {
	commandtest.NeedBench(t)
	tree := t.TempDir()
	paths := commandtest.RandomSyms(t, tree, 50, 300<<10)
	up := commandtest.NewFar(t, tree, 0)
	s := commandtest.ServeDepot(t, filepath.Join(t.TempDir(), "depot"), "--quiet", "--upstream", up.URL+",layout=breakpad")
	c := commandtest.Eager(4)
	var direct, through, extra []float64
	for _, p := range paths {
		_, _, a, err := commandtest.FetchURL(t.Context(), c, up.URL+p)
		if err != nil {
			t.Fatal(err)
		}
		status, _, b, err := commandtest.FetchURL(t.Context(), c, s.URL+p)
		if err != nil || status != http.StatusOK {
			t.Fatalf("fetchURL: %v, error %v; want %v", status, err, http.StatusOK)
		}
		direct, through, extra = append(direct, a.Seconds()*1e3), append(through, b.Seconds()*1e3), append(extra, (b-a).Seconds()*1e3)
	}
	t.Logf("cold miss, first byte: direct %.2f ms, through symdepot %.2f ms, extra %.2f ms, median of 50 (want <= 10: %s)",
		median(direct), median(through), median(extra), commandtest.Verdict(median(extra) <= 10))
}

// TestBenchManyForOne lets a hundred clients ask for one large file at once.
func TestBenchManyForOne(t *testing.T) {
	commandtest.NeedBench(t)
	const clients, size = 100, 200 << 20
	tree := t.TempDir()
	p := commandtest.RandomSyms(t, tree, 1, size)[0]
	c := commandtest.Eager(clients)
	all := func(url string) time.Duration {
		start := time.Now()
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				if status, n, _, err := commandtest.FetchURL(t.Context(), c, url); err != nil || status != 200 || n != size {
					t.Errorf("%d, %d bytes, %v; want no error, 200 and %v", status, n, err, size)
				}
			})
		}
		wg.Wait()
		return time.Since(start)
	}
	var ratios []float64
	for range 3 {
		up := commandtest.NewFar(t, tree, 0)
		s := commandtest.ServeDepot(t, filepath.Join(t.TempDir(), "depot"), "--quiet", "--upstream", up.URL+",layout=breakpad")
		_, _, _, err := commandtest.FetchURL(t.Context(), c, up.URL+p)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, _, _, err := commandtest.FetchURL(t.Context(), c, up.URL+p); err != nil {
			t.Fatal(err)
		}
		direct := time.Since(start)
		up.Requests.Store(0)
		cold := all(s.URL + p)
		asked := up.Requests.Load()
		held := all(s.URL + p)
		if asked != 1 {
			t.Errorf("%d requests reached the source, want 1", asked)
		}
		peak, _ := commandtest.Resident(t, s.Cmd.Process.Pid)
		ratios = append(ratios, cold.Seconds()/(direct+held).Seconds())
		t.Logf("200 MiB to 100 clients: one direct %v, 100 of the held file %v, 100 while it arrives %v, %d upstream requests, peak %.0f MiB", direct.Round(time.Millisecond), held.Round(time.Millisecond), cold.Round(time.Millisecond), asked, peak)
	}
	t.Logf("200 MiB to 100 clients: ratio %.2f, median of 3 (want <= 1.15: %s)", median(ratios), commandtest.Verdict(median(ratios) <= 1.15))
}

// TestBenchKnownMiss requests remembered misses at a steady rate.
func TestBenchKnownMiss(t *testing.T) {
	commandtest.NeedBench(t)
	up := commandtest.NewFar(t, t.TempDir(), 0)
	s := commandtest.ServeDepot(t, filepath.Join(t.TempDir(), "depot"), "--quiet", "--upstream", up.URL+",layout=symstore")
	url := s.URL + "/none.pdb/3BD8C3C3B1544CE9AB8D71A9F3E9A4D31/none.pdb"
	if status, _, _, err := commandtest.FetchURL(t.Context(), http.DefaultClient, url); err != nil || status != 404 {
		t.Fatalf("fetchURL: %v, error %v; want 404", status, err)
	}
	before := up.Requests.Load()
	out, err := exec.CommandContext(t.Context(), "loadgen", url, "2000", "20").Output()
	if err != nil {
		t.Fatal(err)
	}
	var n, bad int
	var p50, p99, most float64
	if _, err := fmt.Sscan(string(out), &n, &bad, &p50, &p99, &most); err != nil || bad > 0 {
		t.Fatalf("got %s, error %v, %v; want 0", out, err, bad)
	}
	if up.Requests.Load() != before {
		t.Error("the source was asked again")
	}
	t.Logf("known miss at 2000/s for 20 s: %d answers, p50 %.2f ms, p99 %.2f ms, most %.1f ms (want p99 <= 2: %s)", n, p50, p99, most, commandtest.Verdict(p99 <= 2))
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
	c := commandtest.Eager(clients)
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
					if status, _, _, err := commandtest.FetchURL(t.Context(), c, base+p); err != nil || status != want {
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
	o := dumpOpen{there: commandtest.RandomSyms(t, tree, files, size)}
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
	up := commandtest.NewFar(t, tree, 0)
	s := commandtest.ServeDepot(t, filepath.Join(t.TempDir(), "depot"), "--quiet", "--upstream", up.URL+",layout=native")
	o.open(t, s.URL, 8)
	before := up.Requests.Load()
	o.open(t, s.URL, 8)
	if n := up.Requests.Load(); n != before {
		t.Errorf("%d requests reached the upstream the second time, want none", n-before)
	}
}

// TestBenchDumpOpen is TestDumpOpensTwice at full size, with a distant
// upstream.
func TestBenchDumpOpen(t *testing.T) {
	commandtest.NeedBench(t)
	tree := t.TempDir()
	o := newDumpOpen(t, tree, 1090, 175<<10, 430)
	up := commandtest.NewFar(t, tree, 100*time.Millisecond)
	s := commandtest.ServeDepot(t, filepath.Join(t.TempDir(), "depot"), "--quiet", "--upstream", up.URL+",layout=native")
	direct := o.open(t, up.URL, 8)
	first := o.open(t, s.URL, 8)
	before := up.Requests.Load()
	var second []float64
	for range 3 {
		second = append(second, o.open(t, s.URL, 8).Seconds())
	}
	if n := up.Requests.Load(); n != before {
		t.Errorf("%d requests reached the upstream the second time, want none", n-before)
	}
	ratio := direct.Seconds() / median(second)
	t.Logf("opening a dump (1090 files, 186 MB, 430 absent x 3 probes, 8 clients, 100 ms away): direct %.1f s, first %.1f s, second %.2f s, %.0f times as fast as direct (want >= 20: %s)",
		direct.Seconds(), first.Seconds(), median(second), ratio, commandtest.Verdict(ratio >= 20))
}

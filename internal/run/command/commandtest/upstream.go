package commandtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
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
	Requests atomic.Int64
	delay    time.Duration
}

// NewFar serves a folder; each answer begins after a delay.
func NewFar(t *testing.T, dir string, delay time.Duration) *far {
	t.Helper()
	f := &far{delay: delay}
	files := http.FileServer(http.Dir(dir))
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "index2.txt") {
			http.NotFound(w, r)
			return
		}
		f.Requests.Add(1)
		time.Sleep(f.delay)
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// Eager keeps many connections alive.
func Eager(n int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n, DisableCompression: true}}
}

// FetchURL reads an answer to its end and returns its status, its length and
// when its first byte came.
func FetchURL(ctx context.Context, c *http.Client, url string) (status int, n int64, first time.Duration, err error) {
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

// Verdict returns the word of BENCHMARKS.md for a bar that is reached or not.
func Verdict(ok bool) string {
	if ok {
		return "reached"
	}
	return "NOT REACHED"
}

// loadgen asks a URL at a steady rate and prints the latencies' percentiles in
// milliseconds, 50, 99 and 100, and 50 and 99 of the first byte: a process of its own, so that it does not wait for what it
// measures. Arguments: URL, requests per second, seconds.
func loadgen() {
	url := os.Args[1]
	rate, _ := strconv.Atoi(os.Args[2])
	seconds, _ := strconv.Atoi(os.Args[3])
	c := Eager(64)
	var mu sync.Mutex
	var took, begun []float64
	var bad int
	work := make(chan time.Time, rate)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for due := range work {
				late := time.Since(due)
				status, _, first, err := FetchURL(context.Background(), c, url)
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

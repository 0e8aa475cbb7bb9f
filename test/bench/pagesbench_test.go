package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// pageLoad sends requests for pages and for symbol files at fixed rates.
type pageLoad struct {
	t    *testing.T
	base string
	http *http.Client

	mu    sync.Mutex
	times map[string][]time.Duration // guarded by mu; by the kind of page
}

// get sends a request, and notes how long the answer took under a word.
func (l *pageLoad) get(word, path string, want int) []byte {
	start := time.Now()
	resp, err := l.http.Get(l.base + path)
	if err != nil {
		l.t.Error(err)
		return nil
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	took := time.Since(start)
	if err != nil || resp.StatusCode != want {
		l.t.Errorf("GET %s: status %d, %v; want %d", path, resp.StatusCode, err, want)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times[word] = append(l.times[word], took)
	return b
}

// read decodes an answer of the API.
func (l *pageLoad) read(path string, v any) {
	l.t.Helper()
	if err := json.Unmarshal(l.get("setup", "/-/api/v1/"+path, 200), v); err != nil {
		l.t.Fatalf("GET %s: %v", path, err)
	}
}

// percentile returns a percentile of the times of a word, and their number.
func (l *pageLoad) percentile(word string, p int) (time.Duration, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := slices.Sorted(slices.Values(l.times[word]))
	if len(list) == 0 {
		return 0, 0
	}
	return list[(len(list)-1)*p/100], len(list)
}

// pace calls work at a rate for a time, each call in a goroutine of its own.
func pace(rate int, d time.Duration, work func(n int)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	end := time.After(d)
	for n := 0; ; n++ {
		select {
		case <-tick.C:
			wg.Go(func() { work(n) })
		case <-end:
			return
		}
	}
}

// TestBenchPages measures 20 pages a second beside 1,000 lookups a second, on a depot of
// a million objects: SYMDEPOT_BENCH_DEPOT, which TestPages of internal/depot fills. The load and
// the server share the machine.
func TestBenchPages(t *testing.T) {
	dir := os.Getenv("SYMDEPOT_BENCH_DEPOT")
	if os.Getenv("SYMDEPOT_BENCH") != "pages" || dir == "" {
		t.Skip("needs SYMDEPOT_BENCH=pages and SYMDEPOT_BENCH_DEPOT, a depot that TestPages of internal/depot has filled: run scripts/bench pages")
	}
	if code, _, errs := commandtest.Symdepot(t, dir, "add", "--product", "Held", "--version", "1", filepath.Join("..", "..", "testdata", "pdb")); code != 0 {
		t.Fatalf("add: exit code %d, want 0: %s", code, errs)
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("depot:\n  scrub_rate: 0\n"), 0o666); err != nil { // most contents are not there
		t.Fatal(err)
	}
	s := commandtest.ServeDepot(t, dir, "--config", config)
	l := &pageLoad{t: t, base: s.URL, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}, times: map[string][]time.Duration{}}
	var objects struct {
		Items []struct{ Name, Sha256, Debug_id, Code_id string }
	}
	l.read("objects?sort=size&limit=1000", &objects)
	var products struct{ Items []struct{ Product string } }
	l.read("products?limit=200", &products)
	q := url.QueryEscape
	pages := []struct {
		word  string
		limit time.Duration
		path  func(n int) string
	}{
		{"home", 50, func(int) string { return "/" }},
		{"object", 25, func(n int) string { return "/-/file/" + objects.Items[n%len(objects.Items)].Sha256 }},
		{"search by id", 25, func(n int) string {
			o := objects.Items[n%len(objects.Items)]
			return "/-/search?q=" + q(max(o.Debug_id, o.Code_id))
		}},
		{"search by name", 50, func(n int) string { return "/-/search?q=" + q(objects.Items[n%len(objects.Items)].Name) }},
		{"search by prefix", 50, func(n int) string { return "/-/search?q=" + q(objects.Items[n%len(objects.Items)].Name[:5]+"*") }},
		{"search inside names", 150, func(n int) string {
			return "/-/search?q=" + q("*"+[]string{"render", "physics", "kernel", "json"}[n%4]+"*")
		}},
		{"builds", 50, func(int) string { return "/-/builds" }},
		{"build", 25, func(n int) string { return fmt.Sprint("/-/builds/", 1+n%1000) }},
		{"products", 50, func(int) string { return "/-/products" }},
		{"product", 50, func(n int) string { return "/-/product?p=" + q(products.Items[n%len(products.Items)].Product) }},
		{"usage", 50, func(int) string { return "/-/disk" }},
		{"misses", 100, func(int) string { return "/-/missing" }},
		{"trace", 100, func(n int) string {
			return "/-/trace?path=" + q(fmt.Sprintf("/%s/%032X1/%s", objects.Items[n%len(objects.Items)].Name, n, objects.Items[n%len(objects.Items)].Name))
		}},
	}
	const held = "/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb"
	lookup := func(word string) func(int) {
		return func(n int) {
			if n%10 == 0 {
				l.get(word+" found", held, 200)
				return
			}
			l.get(word, fmt.Sprintf("/absent%d.pdb/%032X1/absent%d.pdb", n%5000, rand.Uint64(), n%5000), 404)
		}
	}
	for _, p := range pages { // caches, and the first usage
		for n := range 3 {
			l.get("setup", p.path(n), 200)
		}
	}
	symtest.Await(t, 3*time.Minute, "the first usage of the depot", func() bool { return strings.Contains(string(l.get("setup", "/-/disk", 200)), "By product") })
	const length = 30 * time.Second
	pace(1000, length, lookup("lookups alone"))
	var wg sync.WaitGroup
	wg.Go(func() { pace(1000, 2*length, lookup("lookups beside pages")) })
	wg.Go(func() {
		pace(20, 2*length, func(n int) {
			p := pages[n%len(pages)]
			l.get(p.word, p.path(n/len(pages)), 200)
		})
	})
	wg.Wait()
	for _, p := range pages {
		p50, n := l.percentile(p.word, 50)
		p99, _ := l.percentile(p.word, 99)
		t.Logf("%-20s p50 %6.1f ms  p99 %6.1f ms of %d (goal %d ms)", p.word, p50.Seconds()*1e3, p99.Seconds()*1e3, n, p.limit)
	}
	for _, kind := range []string{"", " found"} {
		alone, n := l.percentile("lookups alone"+kind, 99)
		beside, m := l.percentile("lookups beside pages"+kind, 99)
		t.Logf("lookups%-7s p99 alone %.2f ms of %d, beside pages %.2f ms of %d: %.2f times (goal 1.1)", kind, alone.Seconds()*1e3, n, beside.Seconds()*1e3, m, beside.Seconds()/alone.Seconds())
	}
}

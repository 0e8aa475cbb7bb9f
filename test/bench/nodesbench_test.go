package bench

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// storeCounter counts the requests to a store by method, and passes them on.
type storeCounter struct {
	url string
	mu  sync.Mutex
	n   map[string]int // guarded by mu
}

func newStoreCounter(t *testing.T, endpoint string) *storeCounter {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	c := &storeCounter{n: map[string]int{}}
	// Requests are signed with the host that the client knows.
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }, Transport: buckettest.Transport(nil)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		if strings.HasSuffix(r.URL.Path, "/symdepot.json") {
			c.n["marker"]++ // a server compares it before it collects, from time to time
		} else {
			c.n[r.Method]++
		}
		c.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

// take returns the requests since the last call.
func (c *storeCounter) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = map[string]int{}
	return n
}

func sumOf(n map[string]int) (sum int) {
	for _, v := range n {
		sum += v
	}
	return sum
}

// TestNodesStoreRequests counts the requests to the store: one for a cold hit, none
// for a warm one and for a miss, and one for each new content besides those of the
// command. A content that a command calls stored costs one, which asks for its object.
func TestNodesStoreRequests(t *testing.T) {
	t.Parallel()
	files := 20
	if os.Getenv("SYMDEPOT_BENCH") != "" {
		files = 1000
	}
	s3 := buckettest.S3(t)
	counter := newStoreCounter(t, s3.Endpoint)
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": t.TempDir(), "SYMDEPOT_DEPOT": pgtest.Shared(t).Database(t), "SYMDEPOT_DEPOT_BLOBS": "s3://" + s3.Bucket + "/depot",
		"AWS_ENDPOINT_URL": counter.url, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": s3.User, "AWS_SECRET_ACCESS_KEY": s3.Secret,
	}
	c := &commandtest.Cluster{}
	for k, v := range env {
		c.Env = append(c.Env, k+"="+v)
	}
	first := t.TempDir()
	commandtest.RandomSyms(t, first, 1, 5_000)
	c.Run(t, "add", first)
	counter.take()
	c.Run(t, "add", first) // nothing new
	fixed := counter.take()
	if fixed["HEAD"]--; fixed["HEAD"] < 0 {
		t.Errorf("a command without new contents asks the store %v, want a HEAD of the content that it calls stored", fixed)
	}
	dir := t.TempDir()
	paths := commandtest.RandomSyms(t, dir, files, 10_000)
	c.Run(t, "add", dir)
	added := counter.take()
	if got := sumOf(added) - sumOf(fixed); got != files || added["PUT"]-fixed["PUT"] != files {
		t.Errorf("%d new contents cost %v, and a command without new ones %v; want %d PUT more", files, added, fixed, files)
	}
	node := &commandtest.ChaosNode{Env: maps.Clone(env), Transport: &http.Transport{}}
	node.Env["HOME"] = t.TempDir()
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.End)
	get := func(what string, want int, status int, path func(i int) string) {
		t.Helper()
		counter.take()
		for i := range files {
			if got, _ := node.Get(t.Context(), path(i)); got != status {
				t.Fatalf("%s: GET %s: %d, want %d", what, path(i), got, status)
			}
		}
		n := counter.take()
		if n["marker"] > 2 {
			t.Errorf("%d requests for %s read the marker %d times, want at most 2", files, what, n["marker"])
		}
		delete(n, "marker")
		if sumOf(n) != want*files || n["GET"] != want*files {
			t.Errorf("%d requests for %s cost %v, want %d GET each", files, what, n, want)
		}
	}
	hit := func(i int) string { return paths[i] }
	get("cold hits", 1, 200, hit)
	get("warm hits", 0, 200, hit)
	get("misses", 0, 404, func(i int) string { return fmt.Sprintf("/gone%d.pdb/%032X1/gone%d.pdb", i, i+1, i) })
	t.Logf("requests to the store for %d files: %v when they were added (%v without new contents), 1 for each cold hit, 0 for warm hits and misses", files, added, fixed)
}

// TestBenchNodes compares a server on PostgreSQL and a bucket with one on a folder:
// missing keys, and small files that both have on their disks.
func TestBenchNodes(t *testing.T) {
	commandtest.NeedBench(t)
	pairs, seconds := 5, 4
	if s := os.Getenv("SYMDEPOT_BENCH_SECONDS"); s != "" {
		seconds, _ = strconv.Atoi(s)
	}
	c := commandtest.NewCluster(t, 1)
	tree := t.TempDir()
	small := commandtest.RandomSyms(t, tree, 256, 64<<10)
	c.Run(t, "add", tree)
	folder := filepath.Join(t.TempDir(), "depot")
	if code, _, errs := commandtest.Symdepot(t, folder, "add", tree); code != 0 {
		t.Fatalf(`symdepot("add"): %v, %v; want 0`, errs, code)
	}
	embedded := commandtest.ServeDepot(t, folder, "--quiet")
	var missing []string
	for i := range 200_000 {
		missing = append(missing, fmt.Sprintf("/gone%d.pdb/%032X1/gone%d.pdb", i, i+1, i))
	}
	for _, f := range []struct {
		name   string
		paths  []string
		status int
		want   float64
	}{{"missing keys, 404/s", missing, 404, 0.9}, {"warm 64 KiB files, answers/s", small, 200, 0.95}} {
		var nodes, embeddeds, ratios []float64
		for _, url := range []string{c.Nodes[0].URL, embedded.URL} {
			load(t, url, 2, 32, f.paths, f.status)
		}
		for range pairs {
			n, e := load(t, c.Nodes[0].URL, seconds, 32, f.paths, f.status), load(t, embedded.URL, seconds, 32, f.paths, f.status)
			nodes, embeddeds, ratios = append(nodes, n), append(embeddeds, e), append(ratios, n/e)
		}
		verdict := "reached"
		if median(ratios) < f.want {
			verdict = "NOT REACHED"
		}
		t.Logf("%-28s node %8.0f, folder %8.0f; node to folder %.2f (want %.2f: %s)", f.name, median(nodes), median(embeddeds), median(ratios), f.want, verdict)
	}
}

// TestBenchSpread measures what further servers of a depot cost and bring: the processor
// time of requests at four servers beside one; and cold files from two servers beside
// one, with the database and the store 5 ms away, so that waiting decides.
func TestBenchSpread(t *testing.T) {
	commandtest.NeedBench(t)
	const runs, clients = 3, 64
	const files = 1500 // of a run; each is requested once
	c := commandtest.NewCluster(t, 4)
	tree := t.TempDir()
	cold := commandtest.RandomSyms(t, tree, 3*runs*files, 20<<10)
	c.Run(t, "add", tree)
	missing := make([]string, 60_000)
	for i := range missing {
		missing[i] = fmt.Sprintf("/gone%d.pdb/%032X1/gone%d.pdb", i, i+1, i)
	}
	cost := func(list []*commandtest.Serving) float64 {
		before := 0.0
		for _, s := range list {
			before -= cpuTime(t, s.Cmd.Process.Pid)
		}
		spread(t, list, clients, missing, http.StatusNotFound)
		for _, s := range list {
			before += cpuTime(t, s.Cmd.Process.Pid)
		}
		return before * 1000 / (float64(len(missing)) / 1000)
	}
	// What four processes cost that share nothing: each of them is less busy, and wakes up
	// for fewer requests at once.
	var apart []*commandtest.Serving
	for range c.Nodes {
		apart = append(apart, commandtest.ServeDepot(t, filepath.Join(t.TempDir(), "depot"), "--quiet"))
	}
	var one, four, ratios, controls []float64
	for range runs {
		a, b := cost(c.Nodes[:1]), cost(c.Nodes)
		one, four, ratios = append(one, a), append(four, b), append(ratios, b/a)
		a, b = cost(apart[:1]), cost(apart)
		controls = append(controls, b/a)
	}
	t.Logf("processor time of 1,000 missing keys: one server %.1f ms, four %.1f ms; four to one %.2f (want at most 1.1); four servers with depots of their own to one %.2f",
		median(one), median(four), median(ratios), median(controls))
	for _, s := range c.Nodes {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		c.Killed[s] = true
	}
	c.MoveAway(t, 2500*time.Microsecond)
	rate := func(n int) float64 {
		list := make([]*commandtest.Serving, n)
		for i := range list {
			s, err := c.Start(t)
			if err != nil {
				t.Fatal(err)
			}
			list[i] = s
		}
		began := time.Now()
		spread(t, list, clients, cold[:files], http.StatusOK)
		took := time.Since(began)
		cold = cold[files:]
		for _, s := range list {
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			c.Killed[s] = true
		}
		return files / took.Seconds()
	}
	var alone, both []float64
	ratios = nil
	for range runs {
		a, b := rate(1), rate(2)
		alone, both, ratios = append(alone, a), append(both, b), append(ratios, b/a)
	}
	t.Logf("cold files of 20 KiB, database and store 5 ms away: one server %.0f/s, two %.0f/s; two to one %.2f (want at least 1.8)", median(alone), median(both), median(ratios))
}

// spread requests each path once from one of the servers, as several clients do.
func spread(t *testing.T, servers []*commandtest.Serving, clients int, paths []string, status int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(paths) {
					return
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, servers[i%len(servers)].URL+paths[i], nil)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := client.Do(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				if err != nil || resp.StatusCode != status {
					t.Errorf("GET %s: %v, %v; want %d", req.URL, resp, err, status)
					return
				}
			}
		})
	}
	all.Wait()
}

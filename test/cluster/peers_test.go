package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// heldUpstream is an upstream that counts its requests. It sends the first half of
// a file at once, and the rest when it is told to.
type heldUpstream struct {
	url string

	mu     sync.Mutex
	files  map[string][]byte // by path
	asked  map[string]int    // by path
	rest   chan struct{}     // closed: whole files are sent at once
	refuse string            // the Retry-After of a 429 to every request; empty: none
}

func newHeldUpstream(t *testing.T) *heldUpstream {
	t.Helper()
	u := &heldUpstream{files: map[string][]byte{}, asked: map[string]int{}, rest: make(chan struct{})}
	srv := httptest.NewServer(u)
	t.Cleanup(srv.Close)
	u.url = srv.URL
	return u
}

func (u *heldUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	u.asked[r.URL.Path]++
	file, ok := u.files[r.URL.Path]
	rest, refuse := u.rest, u.refuse
	u.mu.Unlock()
	switch {
	case refuse != "":
		w.Header().Set("Retry-After", refuse)
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case !ok:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(file)))
	_, _ = w.Write(file[:len(file)/2])
	_ = http.NewResponseController(w).Flush()
	select {
	case <-rest:
		_, _ = w.Write(file[len(file)/2:])
	case <-r.Context().Done():
	}
}

// add makes the upstream have files below a folder.
func (u *heldUpstream) add(t *testing.T, dir string, paths []string) {
	t.Helper()
	for _, p := range paths {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(p)))
		if err != nil {
			t.Fatal(err)
		}
		u.mu.Lock()
		u.files[p] = b
		u.mu.Unlock()
	}
}

// count returns how often a path was requested.
func (u *heldUpstream) count(path string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.asked[path]
}

// total returns the number of requests for the paths of a list.
func (u *heldUpstream) total(paths []string) (n int) {
	for _, p := range paths {
		n += u.count(p)
	}
	return n
}

// configs returns the arguments of servers that download for each other. more is added to the configuration of each.
func configs(t *testing.T, u *heldUpstream, more func(i int) string) func(i int) []string {
	t.Helper()
	dir := t.TempDir()
	return func(i int) []string {
		file := filepath.Join(dir, fmt.Sprint("config", i, ".yaml"))
		text := `depot: {peer_listen: "127.0.0.1:0"}
upstreams: [{name: up, url: "` + u.url + `", layout: breakpad, timeout: 60s}]
`
		if more != nil {
			text += more(i)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"--config", file}
	}
}

// TestNodesOneDownload has a hundred clients of four servers request a file that
// only an upstream has: one of the servers downloads it, and all pass on the bytes
// while they arrive. A miss costs one request, too.
func TestNodesOneDownload(t *testing.T) {
	t.Parallel()
	u := newHeldUpstream(t)
	c := commandtest.NewClusterWith(t, 4, configs(t, u, nil))
	c.AwaitPeers(t, 4)
	dir := t.TempDir()
	paths := commandtest.RandomSyms(t, dir, 1, 400_000)
	u.add(t, dir, paths)
	path := paths[0]
	statuses, result := c.Clients(t, 100, path)
	close(u.rest) // all have the header while the upstream has sent half of the file
	for i, status := range statuses {
		if b, err := result(i); err != nil || status != 200 || string(b) != string(u.files[path]) {
			t.Errorf("client %d: status %d, %d bytes, error %v; want 200 and %d bytes", i, status, len(b), err, len(u.files[path]))
		}
	}
	if n := u.count(path); n != 1 {
		t.Errorf("%d requests to the upstream for %s, want 1", n, path)
	}
	missing := strings.ReplaceAll(path, "00010/", "00020/")
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if status, _, err := commandtest.Get(t.Context(), c.Nodes[i%4].URL+missing); err != nil || status != 404 {
				t.Errorf("client %d: GET %s: status %d, error %v; want 404", i, missing, status, err)
			}
		})
	}
	all.Wait()
	if n := u.count(missing); n != 1 {
		t.Errorf("%d requests to the upstream for %s, which it does not have, want 1", n, missing)
	}
	if got := c.Statuses(t, path); !slices.Equal(got, []int{200, 200, 200, 200}) {
		t.Errorf("GET %s afterwards: %v, want 200 from each server", path, got)
	}
	if n := u.count(path); n != 1 {
		t.Errorf("%d requests to the upstream in the end, want 1", n)
	}
	if out := c.Run(t, "verify"); !strings.HasPrefix(out, "clean: 1 content") {
		t.Errorf("verify: %s, want %q at the beginning", out, "clean: 1 content")
	}
}

// TestNodesOwnerKilled kills the server that downloads a file for all: each client
// gets the right bytes or a broken answer, and the next request the file, at one
// more request to the upstream.
func TestNodesOwnerKilled(t *testing.T) {
	t.Parallel()
	u := newHeldUpstream(t)
	c := commandtest.NewClusterWith(t, 4, configs(t, u, nil))
	c.AwaitPeers(t, 4)
	dir := t.TempDir()
	paths := commandtest.RandomSyms(t, dir, 1, 400_000)
	u.add(t, dir, paths)
	path, want := paths[0], u.files[paths[0]]
	statuses, result := c.Clients(t, 40, path)
	owner := -1
	for i, s := range c.Nodes {
		if commandtest.Metric(t, s, `symdepot_peer_questions_total{result="served"}`) > 0 {
			if owner >= 0 {
				t.Errorf("servers %d and %d both download for others, want one", owner, i)
			}
			owner = i
		}
	}
	if owner < 0 {
		t.Fatal("no server downloads for others")
	}
	dead := c.Nodes[owner]
	if err := dead.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Killed[dead] = true
	_ = dead.Cmd.Wait()
	for i, status := range statuses {
		b, err := result(i)
		if status != 200 || err == nil && string(b) != string(want) || !strings.HasPrefix(string(want), string(b)) {
			t.Errorf("client %d: status %d, %d bytes, error %v; want the right bytes or a broken answer", i, status, len(b), err)
		}
		if err == nil {
			t.Errorf("client %d has a whole file of which the upstream has sent half, want an error", i)
		}
	}
	close(u.rest)
	for i, s := range c.Nodes {
		if i == owner {
			continue
		}
		status, b, err := commandtest.Get(t.Context(), s.URL+path)
		if status != 200 || err != nil || string(b) != string(want) {
			t.Errorf("server %d afterwards: status %d, %d bytes, error %v; want 200 and %d bytes", i, status, len(b), err, len(want))
		}
	}
	if n := u.count(path); n != 2 {
		t.Errorf("%d requests to the upstream, want 2: of the killed server and of its successor", n)
	}
	c.AwaitPeers(t, 3)
}

// TestNodesForget: `cache forget` takes effect on all servers when it returns.
func TestNodesForget(t *testing.T) {
	t.Parallel()
	u := newHeldUpstream(t)
	close(u.rest)
	c := commandtest.NewClusterWith(t, 3, configs(t, u, nil))
	c.AwaitPeers(t, 3)
	dir := t.TempDir()
	paths := commandtest.RandomSyms(t, dir, 4, 50_000)
	for range 3 {
		for _, p := range paths {
			if got := c.Statuses(t, p); !slices.Equal(got, []int{404, 404, 404}) {
				t.Fatalf("GET %s, which no upstream has: %v, want 404 from each server", p, got)
			}
		}
	}
	if n := u.total(paths); n != len(paths) {
		t.Errorf("%d requests to the upstream for %d missing files, want one for each", n, len(paths))
	}
	u.add(t, dir, paths)
	for _, p := range paths {
		if got := c.Statuses(t, p); !slices.Equal(got, []int{404, 404, 404}) {
			t.Errorf("GET %s while the miss is remembered: %v, want 404 from each server", p, got)
		}
	}
	if out := c.Run(t, "cache", "forget"); !strings.HasPrefix(out, "misses forgotten: 4") {
		t.Errorf("cache forget: %s, want 4 misses", out)
	}
	for i, p := range paths { // another server first each time
		slices.Reverse(c.Nodes[:1+i%3])
		if got := c.Statuses(t, p); !slices.Equal(got, []int{200, 200, 200}) {
			t.Errorf("GET %s after the misses were forgotten: %v, want 200 from each server", p, got)
		}
	}
	if n := u.total(paths); n != 2*len(paths) {
		t.Errorf("%d requests to the upstream in all, want %d", n, 2*len(paths))
	}
}

// TestNodesPause: when an upstream asks one server for patience, the others do not
// ask it either.
func TestNodesPause(t *testing.T) {
	t.Parallel()
	u := newHeldUpstream(t)
	u.refuse = "3600"
	c := commandtest.NewClusterWith(t, 3, configs(t, u, nil))
	c.AwaitPeers(t, 3)
	paths := commandtest.RandomSyms(t, t.TempDir(), 30, 2_000)
	if status, _, err := commandtest.Get(t.Context(), c.Nodes[0].URL+paths[0]); err != nil || status != 404 {
		t.Fatalf("GET %s: status %d, error %v, want 404", paths[0], status, err)
	}
	for i, s := range c.Nodes {
		symtest.Await(t, time.Minute, fmt.Sprintf("the pause at server %d", i), func() bool {
			return commandtest.Metric(t, s, `symdepot_upstream_open{upstream="up"}`) == 1
		})
	}
	before := u.total(paths)
	for _, p := range paths[1:] {
		if got := c.Statuses(t, p); !slices.Equal(got, []int{404, 404, 404}) {
			t.Errorf("GET %s: %v, want 404 from each server", p, got)
		}
	}
	if n := u.total(paths) - before; n != 0 {
		t.Errorf("%d requests to an upstream that asked for a pause, want none", n)
	}
}

// TestNodesTokens: a token that is revoked through one process is refused by all
// servers when the command returns. Each server writes its own audit log and stores
// it in the bucket; `symdepot audit` merges them.
func TestNodesTokens(t *testing.T) {
	t.Parallel()
	u := newHeldUpstream(t)
	logs := t.TempDir()
	log := func(i int) string { return filepath.Join(logs, fmt.Sprint("audit", i, ".jsonl")) }
	c := commandtest.NewClusterWith(t, 3, configs(t, u, func(i int) string {
		return fmt.Sprintf("auth: {demand: true, audit: {file: %q}}\n", log(i))
	}))
	dir := t.TempDir()
	paths := commandtest.RandomSyms(t, dir, 1, 50_000)
	c.Run(t, "add", "-p", "P", dir)
	ask := func(token string, want int) {
		t.Helper()
		if got := c.Statuses(t, "/t/"+token+paths[0]); !slices.Equal(got, []int{want, want, want}) {
			t.Errorf("GET with a token: %v, want %d from each server", got, want)
		}
	}
	for round := range 3 {
		var made struct{ ID, Token string }
		if err := json.Unmarshal([]byte(c.Run(t, "token", "new", "--name", fmt.Sprint("ci", round), "--json")), &made); err != nil {
			t.Fatal(err)
		}
		token := made.Token
		ask(token, 200)
		ask(token, 200) // from memory
		c.Run(t, "token", "revoke", made.ID)
		ask(token, 401) // whether the file exists or not
	}
	for _, s := range c.Nodes { // the logs are whole then
		if err := s.Stop(); err != nil {
			t.Errorf("serve: %v", err)
		}
		c.Killed[s] = true
	}
	out := c.Run(t, "audit", log(0), log(1), log(2))
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 1+18 || !strings.HasSuffix(lines[0], "SERVER") {
		t.Errorf("audit: %d lines, want a heading with SERVER and 18 records:\n%s", len(lines), out)
	}
	// A server records a download after its end. So two records of different servers may
	// be in another order than the requests; each server keeps its own.
	var last time.Time
	who := map[string][]string{}
	for line := range strings.Lines(c.Run(t, "audit", "--json", log(2), log(0), log(1))) {
		var e struct {
			Time      time.Time
			Node, Who string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("audit: %v in %q", err, line)
		}
		if e.Time.Before(last) {
			t.Errorf("audit: a record of %v after one of %v, want the order of time", e.Time, last)
		}
		last, who[e.Node] = e.Time, append(who[e.Node], e.Who)
	}
	servers := slices.Sorted(maps.Keys(who))
	if len(servers) != 3 {
		t.Fatalf("audit: records of the servers %q, want three:\n%s", servers, out)
	}
	for _, s := range servers {
		if got := strings.Join(who[s], " "); got != "ci0 ci0 ci1 ci1 ci2 ci2" || !strings.HasPrefix(s, "127.0.0.1:") {
			t.Errorf("audit: records of %s: %s, want two of each token in their order", s, got)
		}
	}
	if out := c.Run(t, "audit", "--node", servers[1], log(0), log(1), log(2)); strings.Count(out, servers[1]) != 6 || strings.Contains(out, servers[2]) {
		t.Errorf("audit --node %s:\n%s\nwant 6 records of this node and none of others", servers[1], out)
	}
	// Each server has stored its log in the bucket when it stopped.
	stored := c.Run(t, "audit", "--json", "--stored")
	if n := strings.Count(stored, "\n"); n != 18 {
		t.Errorf("audit --stored: %d records, want the 18 of all servers:\n%s", n, stored)
	}
	if both := c.Run(t, "audit", "--json", "--stored", log(1)); both != stored {
		t.Errorf("audit --stored with the log of one server:\n%s\nwant each record once:\n%s", both, stored)
	}
	if n := strings.Count(c.Run(t, "audit", "--json", "--stored", "--who", "ci1"), "\n"); n != 6 {
		t.Errorf("audit --stored --who ci1: %d records, want 6", n)
	}
}

// TestNodesRefusals: a wrong configuration of the servers is refused in one line.
func TestNodesRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ depot, says string }{
		{"{peer_listen: nonsense}", "depot.peer_listen: an address and a port are expected"},
		{"{peer_listen: '0.0.0.0:8081'}", "set depot.peer_address too"},
		{"{peer_address: 'node1:8081'}", "depot.peer_listen is missing"},
		{"{peer_listen: '127.0.0.1:0', peer_address: node1}", "a host and a port are expected"},
		{"{peer_listen: '127.0.0.1:0'}", "depot.peer_listen is for a depot in PostgreSQL"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(file, []byte("depot: "+c.depot+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := (&commandtest.Cluster{Env: os.Environ()}).Command(ctx, "--depot", filepath.Join(dir, "depot"), "serve", "--listen", "127.0.0.1:0", "--config", file)
		out, err := cmd.CombinedOutput()
		if err == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) || !strings.Contains(string(out), c.says) {
			t.Errorf("depot: %s: %v, %s\nwant an error that says %q", c.depot, err, out, c.says)
		}
		cancel()
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/client"
	"github.com/symdepot/symdepot/internal/symtest"
	"github.com/symdepot/symdepot/internal/wire"
)

// balancer sends the requests of clients to servers in turn, and not to one that
// has not answered.
type balancer struct {
	url string

	mu       sync.Mutex
	backends []*serving        // guarded by mu
	next     int               // guarded by mu
	opened   map[*serving]bool // servers that have opened a stage; guarded by mu
	taken    map[string]int    // 201 for whole contents, by path; guarded by mu
	got      chan struct{}     // closed at the first stage; guarded by mu
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	b := &balancer{}
	b.reset(nil)
	b.url = front(t, b)
	return b
}

// front serves a handler until the test ends, and then cancels its requests:
// those of killed clients may wait for a body.
func front(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	life, end := context.WithCancel(context.Background())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		h.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	t.Cleanup(end)
	return srv.URL
}

// reset sets the servers.
func (b *balancer) reset(backends []*serving) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends, b.opened, b.taken, b.got = slices.Clone(backends), map[*serving]bool{}, map[string]int{}, make(chan struct{})
}

// owner returns the server that has opened a stage.
func (b *balancer) owner() *serving {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.opened {
		return s
	}
	return nil
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	if len(b.backends) == 0 {
		b.mu.Unlock()
		http.Error(w, "no server", http.StatusBadGateway)
		return
	}
	b.next++
	s := b.backends[b.next%len(b.backends)]
	b.mu.Unlock()
	to, err := url.Parse(s.url)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p := httputil.NewSingleHostReverseProxy(to)
	p.ErrorLog = log.New(io.Discard, "", 0) // of killed servers
	p.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		b.mu.Lock()
		if i := slices.Index(b.backends, s); i >= 0 && len(b.backends) > 1 {
			b.backends = slices.Delete(b.backends, i, i+1)
		}
		b.mu.Unlock()
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
	p.ModifyResponse = func(resp *http.Response) error {
		if resp.StatusCode != http.StatusCreated {
			return nil
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/stages"):
			if len(b.opened) == 0 {
				close(b.got)
			}
			b.opened[s] = true
		case r.Method == http.MethodPut:
			b.taken[r.URL.Path]++
		}
		return nil
	}
	p.ServeHTTP(w, r)
}

// TestNodesPush pushes through a balancer to three servers of one depot, and kills
// the server with the parts of the push at a random moment. The push succeeds
// nevertheless, sends no whole content twice, and makes one whole transaction.
func TestNodesPush(t *testing.T) {
	t.Parallel()
	rounds := 1
	if torture() {
		rounds = 50
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("depot: {peer_listen: \"127.0.0.1:0\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--config", config, "--auth"}
	c := newClusterWith(t, 3, func(int) []string { return args })
	token, _, _ := strings.Cut(c.run(t, "token", "new", "--name", "ci", "--scope", "write", "--scope", "read", "--product", "app"), "\n")
	b := newBalancer(t)
	const small, big = 12, 88 << 20 // six parts
	src := t.TempDir()
	push := func(n int) (client.PushResult, error) {
		dir := filepath.Join(src, fmt.Sprint(n))
		symFiles(t, dir, n, small, 20_000)
		body := fmt.Sprintf("MODULE Linux x86_64 %s big%d.so\nFUNC 1000 10 0 f\n", symID(n, small), n)
		line := fmt.Sprintf("PUBLIC 2000 0 g%d\n", n)
		if err := os.WriteFile(filepath.Join(dir, "big.so.sym"), []byte(body+strings.Repeat(line, big/len(line))), 0o644); err != nil {
			return client.PushResult{}, err
		}
		defer os.RemoveAll(dir)
		p := &client.Pusher{URL: b.url, Token: func() (string, error) { return token, nil }, HTTP: &http.Client{}, Backoff: 50 * time.Millisecond, RetryFor: 2 * time.Minute}
		return p.Do(t.Context(), client.PushOptions{PushSpec: wire.PushSpec{Product: "app", Version: fmt.Sprint(n), Key: fmt.Sprint(n)}, Paths: []string{dir}})
	}
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 0), 1))
	b.reset(c.nodes)
	start := time.Now()
	r, err := push(0)
	if err != nil || r.Files != small+1 {
		t.Fatalf("push without a kill: %+v, %v", r, err)
	}
	span := time.Since(start)
	last := r.Transaction
	for round := 1; round <= rounds; round++ {
		b.reset(c.nodes)
		killed := make(chan *serving, 1)
		after := time.Duration(rng.Int64N(int64(span)))
		b.mu.Lock()
		got := b.got
		b.mu.Unlock()
		go func() {
			<-got
			owner := b.owner()
			timer := time.NewTimer(after)
			defer timer.Stop()
			<-timer.C
			_ = owner.cmd.Process.Kill()
			killed <- owner
		}()
		begun := time.Now()
		r, err := push(round)
		owner := <-killed
		t.Logf("round %d: killed %v after the stage was opened; the push took %v", round, after.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
		_ = owner.cmd.Wait()
		c.killed[owner] = true
		if err != nil || r.Files != small+1 || r.Transaction <= last {
			t.Fatalf("round %d, killed after %v: %+v, %v; want a transaction of %d files", round, after, r, err, small+1)
		}
		last = r.Transaction
		b.mu.Lock()
		for path, n := range b.taken {
			if n > 1 {
				t.Errorf("round %d: %s was taken %d times, want once", round, path, n)
			}
		}
		b.mu.Unlock()
		i := slices.Index(c.nodes, owner)
		s, err := c.start(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		c.nodes[i] = s
		for _, k := range []int{0, small - 1} {
			if out, err := c.command(t.Context(), "find", symID(round, k)).CombinedOutput(); err != nil {
				t.Errorf("round %d: file %d: %v: %s", round, k, err, out)
			}
		}
		if t.Failed() {
			break
		}
	}
	if out := c.run(t, "list", "--product", "app"); strings.Count(out, "app") != rounds+1 {
		t.Errorf("list: %s, want %d transactions", out, rounds+1)
	}
	if out := c.run(t, "verify"); !strings.HasPrefix(out, "clean: ") {
		t.Errorf("verify: %s, want clean", out)
	}
}

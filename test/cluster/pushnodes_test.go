package cluster

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

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
	c := commandtest.NewClusterWith(t, 3, func(int) []string { return args })
	token, _, _ := strings.Cut(c.Run(t, "token", "new", "--name", "ci", "--scope", "write", "--scope", "read", "--product", "app"), "\n")
	b := commandtest.NewBalancer(t)
	const small, big = 12, 88 << 20 // six parts
	src := t.TempDir()
	push := func(n int) (client.PushResult, error) {
		dir := filepath.Join(src, fmt.Sprint(n))
		commandtest.SymFiles(t, dir, n, small, 20_000)
		body := fmt.Sprintf("MODULE Linux x86_64 %s big%d.so\nFUNC 1000 10 0 f\n", commandtest.SymID(n, small), n)
		line := fmt.Sprintf("PUBLIC 2000 0 g%d\n", n)
		if err := os.WriteFile(filepath.Join(dir, "big.so.sym"), []byte(body+strings.Repeat(line, big/len(line))), 0o644); err != nil {
			return client.PushResult{}, err
		}
		defer os.RemoveAll(dir)
		p := &client.Pusher{URL: b.URL, Token: func() (string, error) { return token, nil }, HTTP: &http.Client{}, Backoff: 50 * time.Millisecond, RetryFor: 2 * time.Minute}
		return p.Do(t.Context(), client.PushOptions{PushSpec: wire.PushSpec{Product: "app", Version: fmt.Sprint(n), Key: fmt.Sprint(n)}, Paths: []string{dir}})
	}
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 0), 1))
	b.Reset(c.Nodes)
	start := time.Now()
	r, err := push(0)
	if err != nil || r.Files != small+1 {
		t.Fatalf("push without a kill: %+v, %v", r, err)
	}
	span := time.Since(start)
	last := r.Transaction
	for round := 1; round <= rounds; round++ {
		b.Reset(c.Nodes)
		killed := make(chan *commandtest.Serving, 1)
		after := time.Duration(rng.Int64N(int64(span)))
		b.Mu.Lock()
		got := b.Got
		b.Mu.Unlock()
		go func() {
			<-got
			owner := b.Owner()
			timer := time.NewTimer(after)
			defer timer.Stop()
			<-timer.C
			_ = owner.Cmd.Process.Kill()
			killed <- owner
		}()
		begun := time.Now()
		r, err := push(round)
		owner := <-killed
		t.Logf("round %d: killed %v after the stage was opened; the push took %v", round, after.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
		_ = owner.Cmd.Wait()
		c.Killed[owner] = true
		if err != nil || r.Files != small+1 || r.Transaction <= last {
			t.Fatalf("round %d, killed after %v: %+v, %v; want a build of %d files", round, after, r, err, small+1)
		}
		last = r.Transaction
		b.Mu.Lock()
		for path, n := range b.Taken {
			if n > 1 {
				t.Errorf("round %d: %s was taken %d times, want once", round, path, n)
			}
		}
		b.Mu.Unlock()
		i := slices.Index(c.Nodes, owner)
		s, err := c.Start(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		c.Nodes[i] = s
		for _, k := range []int{0, small - 1} {
			if out, err := c.Command(t.Context(), "find", commandtest.SymID(round, k)).CombinedOutput(); err != nil {
				t.Errorf("round %d: file %d: %v: %s", round, k, err, out)
			}
		}
		if t.Failed() {
			break
		}
	}
	if out := c.Run(t, "list", "--product", "app"); strings.Count(out, "app") != rounds+1 {
		t.Errorf("list: %s, want %d builds", out, rounds+1)
	}
	if out := c.Run(t, "verify"); !strings.HasPrefix(out, "clean: ") {
		t.Errorf("verify: %s, want clean", out)
	}
}

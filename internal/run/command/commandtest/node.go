package commandtest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/bucketstore"
	nodes "github.com/symdepot/symdepot/internal/remote/peer"
	"github.com/symdepot/symdepot/internal/remote/proxytest"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/setup"
)

// setClock turns the clock of this process, if the test that has started it says so.
func setClock() {
	text := os.Getenv("SYMDEPOT_TEST_CLOCK")
	if text == "" {
		return
	}
	by, err := time.ParseDuration(text)
	var jump func(time.Duration)
	if err == nil {
		jump, err = turnClock(by)
	}
	if err == nil {
		onJump(func() {
			by = -by
			jump(by)
		})
	} else {
		fmt.Fprintln(os.Stderr, "cannot turn the clock:", err)
		os.Exit(ClockStuck)
	}
}

// ClockStuck is the exit code of a process whose clock cannot be turned.
const ClockStuck = 99

// hasten changes the waiting times of the depot in this process, if the test that
// has started it says so, and returns the options of its commands.
func hasten() (opt console.Options) {
	if d, err := time.ParseDuration(os.Getenv("SYMDEPOT_TEST_REACH")); err == nil {
		nodes.SetReach(d)
	}
	if d, err := time.ParseDuration(os.Getenv("SYMDEPOT_TEST_PATIENCE")); err == nil {
		opt.Downloads = setup.Limits()
		opt.Downloads.FirstByte, opt.Downloads.Stall = d, d
	}
	text := os.Getenv("SYMDEPOT_TEST_TIMES")
	if text == "" {
		return opt
	}
	var t bucketstore.Times
	for i, word := range strings.Split(text, ",") {
		d, err := time.ParseDuration(word)
		if err != nil {
			panic(err)
		}
		*[]*time.Duration{&t.Lease, &t.Expired, &t.Hold, &t.Resweep}[i] = d
	}
	bucketstore.SetTimes(t)
	return opt
}

// ChaosNode is a server behind proxies, or what commands use.
type ChaosNode struct {
	Env       map[string]string
	Args      []string // of serve
	PG, S3    []*proxytest.Proxy
	Transport *http.Transport
	mu        sync.RWMutex
	serving   *Serving // nil while it is down; guarded by mu
	Logs      []string // of its earlier processes; guarded by mu
}

// Start starts the server.
func (n *ChaosNode) Start() error {
	s, err := StartServe(func(k string) string { return n.Env[k] }, ".", append([]string{"--quiet"}, n.Args...)...)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.serving = s
	return nil
}

// Kill ends the server without a word.
func (n *ChaosNode) Kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.serving == nil {
		return
	}
	_ = n.serving.Cmd.Process.Kill()
	_ = n.serving.Cmd.Wait()
	n.Logs = append(n.Logs, n.serving.Log.String())
	n.serving = nil
}

// End stops the server, which may take its time.
func (n *ChaosNode) End() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.serving == nil {
		return
	}
	if err := n.serving.Stop(); err != nil {
		_ = n.serving.Cmd.Process.Kill()
	}
	n.Logs = append(n.Logs, n.serving.Log.String())
	n.serving = nil
}

// URL returns the address of the node, or an empty text while it does not run.
func (n *ChaosNode) URL() string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.serving == nil {
		return "http://127.0.0.1:1"
	}
	return n.serving.URL
}

// Signal sends a signal to the server, if it runs.
func (n *ChaosNode) Signal(s os.Signal) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.serving != nil {
		_ = n.serving.Cmd.Process.Signal(s)
	}
}

// Faults sets the faults of all proxies.
func (n *ChaosNode) Faults(pg, s3 proxytest.Fault) {
	for _, p := range n.PG {
		p.Set(pg)
	}
	for _, p := range n.S3 {
		p.Set(s3)
	}
}

// Get requests a path. A status of 0 means no answer, or one that broke off.
func (n *ChaosNode) Get(ctx context.Context, path string) (status int, sum [32]byte) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL()+path, nil)
	if err != nil {
		return 0, sum
	}
	resp, err := n.Transport.RoundTrip(req)
	if err != nil {
		return 0, sum
	}
	defer resp.Body.Close()
	h := sha256.New()
	size, err := io.Copy(h, resp.Body)
	if err != nil || resp.ContentLength >= 0 && size != resp.ContentLength {
		return 0, sum
	}
	return resp.StatusCode, [32]byte(h.Sum(nil))
}

// Metrics returns the lines of a metric of the server, without its name; empty: it
// does not answer.
func (n *ChaosNode) Metrics(t *testing.T, name string) string {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.URL()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := n.Transport.RoundTrip(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var found []string
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		if line, ok := strings.CutPrefix(s.Text(), name); ok {
			found = append(found, line+";")
		}
	}
	return strings.Join(found, " ")
}

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/bucket/buckettest"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/symtest"
)

// cluster is a depot in PostgreSQL and a bucket, with servers on it.
type cluster struct {
	env    []string
	nodes  []*serving
	killed map[*serving]bool
}

// newCluster starts a database, an object store and n servers.
func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	return newClusterWith(t, n, func(int) []string { return nil })
}

// newClusterWith is newCluster with further arguments for each server.
func newClusterWith(t *testing.T, n int, args func(i int) []string) *cluster {
	t.Helper()
	pg := pgtest.Shared(t)
	s3 := buckettest.S3(t)
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "SYMDEPOT_TEST_PATIENCE": "120s", // a busy machine: see hasten
		"SYMDEPOT_DEPOT": pg.Database(t), "SYMDEPOT_DEPOT_BLOBS": "s3://" + s3.Bucket + "/depot",
		"AWS_ENDPOINT_URL": s3.Endpoint, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": s3.User, "AWS_SECRET_ACCESS_KEY": s3.Secret,
	}
	env["SYMDEPOT_TEST_REACH"] = "60s" // of a busy machine
	c := &cluster{killed: map[*serving]bool{}}
	for k, v := range env {
		c.env = append(c.env, k+"="+v)
	}
	c.env = append(c.env, "HOME="+t.TempDir())
	if out, err := c.command(t.Context(), "list").CombinedOutput(); err == nil {
		t.Fatalf("list before there is a depot: %s, want an error", out)
	}
	for i := range n {
		s, err := c.start(t, args(i)...)
		if err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, s)
	}
	return c
}

// start starts one more server.
func (c *cluster) start(t *testing.T, args ...string) (*serving, error) {
	t.Helper()
	home := t.TempDir()
	s, err := startServe(func(k string) string {
		if k == "HOME" {
			return home
		}
		return c.value(k)
	}, ".", append([]string{"--quiet"}, args...)...)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if c.killed[s] {
			return
		}
		if err := s.stop(); err != nil {
			t.Errorf("serve: %v\n%s", err, s.log.String())
		}
	})
	return s, nil
}

func (c *cluster) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "symdepot", args...)
	cmd.Env = c.env
	return cmd
}

// run runs a command that must succeed, and returns its output.
func (c *cluster) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := c.command(t.Context(), args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("symdepot %s: %v\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}

// statuses requests a path from every node.
func (c *cluster) statuses(t *testing.T, path string) (list []int) {
	t.Helper()
	for _, n := range c.nodes {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		list = append(list, resp.StatusCode)
	}
	return list
}

var transactionLine = regexp.MustCompile(`^transaction (\d+)`)

// TestNodes adds and removes through commands while three servers on one
// PostgreSQL database and one bucket answer: when a command returns, every
// server knows.
func TestNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	same := func(what, path string, want int) {
		t.Helper()
		if got := c.statuses(t, path); !slices.Equal(got, []int{want, want, want}) {
			t.Errorf("%s: GET %s: %v from the three servers, want %d from each", what, path, got, want)
		}
	}
	dir := t.TempDir()
	paths := randomSyms(t, dir, 3, 100_000)
	for _, p := range paths {
		same("before the add", p, 404) // from now on each server remembers that it is missing
	}
	for i, p := range paths {
		c.run(t, "add", "-p", "P", filepath.Join(dir, filepath.FromSlash(p)))
		same(fmt.Sprint("after add ", i+1), p, 200)
	}
	c.run(t, "rm", "2")
	same("after rm", paths[1], 404)
	same("after rm of another", paths[0], 200)
	if out := c.run(t, "verify"); !strings.HasPrefix(out, "clean: 3 contents") {
		t.Errorf("verify: %s, want %q at the beginning", out, "clean: 3 contents")
	}
	if out := c.run(t, "gc", "--grace", "0s"); !strings.Contains(out, "1 object") || !strings.Contains(out, "wait in the bucket") {
		t.Errorf("gc: %s, want one object that waits in the bucket", out)
	}
	same("after gc", paths[2], 200)
}

// TestNodesStorm has several processes add and remove at once, half of them the
// same files, while three servers answer. Then every acknowledged transaction is
// there, the numbers have no gaps, and all servers agree.
func TestNodesStorm(t *testing.T) {
	t.Parallel()
	writers, rounds := 3, 3
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		writers, rounds = 10, 30
	}
	seed := symtest.Seed(t, 1)
	c := newCluster(t, 3)
	shared := t.TempDir()
	common := randomSyms(t, shared, 5, 20_000)
	var mu sync.Mutex
	var numbers []int
	kept := map[string]bool{} // paths that some transaction certainly holds
	for _, p := range common {
		kept[p] = true
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed+uint64(w), 1))
			for r := range rounds {
				own := t.TempDir()
				paths := randomSyms(t, own, 2, 30_000+1000*(w*rounds+r))
				out, err := c.command(t.Context(), "add", shared, own).Output()
				m := transactionLine.FindStringSubmatch(string(out))
				if err != nil || m == nil {
					t.Errorf("add: %v\n%s\nwant success and the number of the transaction", err, out)
					return
				}
				n, _ := strconv.Atoi(m[1])
				mu.Lock()
				numbers = append(numbers, n)
				mu.Unlock()
				for _, p := range paths {
					if got := c.statuses(t, p); !slices.Equal(got, []int{200, 200, 200}) {
						t.Errorf("GET %s after transaction %d: %v, want 200 from each server", p, n, got)
					}
				}
				if rng.IntN(3) == 0 && r+1 < rounds {
					if out, err := c.command(t.Context(), "rm", m[1]).CombinedOutput(); err != nil {
						t.Errorf("CombinedOutput: %s, error %v, %s; want no error", m[1], err, out)
					}
					continue
				}
				mu.Lock()
				for _, p := range paths {
					kept[p] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(numbers)
	for i, n := range numbers {
		if n != i+1 {
			t.Fatalf("transaction numbers %v have a gap or a repetition at %d", numbers, i+1)
		}
	}
	for p := range kept {
		if got := c.statuses(t, p); !slices.Equal(got, []int{200, 200, 200}) {
			t.Errorf("GET %s in the end: %v, want 200 from each server", p, got)
		}
	}
	c.run(t, "gc", "--grace", "0s")
	if out := c.run(t, "verify"); !strings.HasPrefix(out, "clean: ") {
		t.Errorf("verify: %s, want %q at the beginning", out, "clean: ")
	}
}

// TestMigrate moves a depot from a folder to PostgreSQL and a bucket and back:
// the files, numbers and listings stay the same, and each moved depot is
// refused until it is unmoved.
func TestMigrate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0)
	src := t.TempDir()
	paths := randomSyms(t, src, 20, 50_000)
	old, back := filepath.Join(t.TempDir(), "old"), filepath.Join(t.TempDir(), "back")
	for i, args := range [][]string{{"add", "-p", "P", "-v", "1", src}, {"add", "-p", "Q", src}, {"rm", "1"}} {
		if code, out, errs := symdepot(t, old, args...); code != 0 {
			t.Fatalf("command %d: %s%s, want exit code 0", i, out, errs)
		}
	}
	in := func(depot, blobs string, args ...string) (string, error) {
		t.Helper()
		cmd := c.command(t.Context(), append([]string{"--depot", depot}, args...)...)
		for i, kv := range cmd.Env {
			if strings.HasPrefix(kv, "SYMDEPOT_DEPOT_BLOBS=") {
				cmd.Env[i] = "SYMDEPOT_DEPOT_BLOBS=" + blobs
			}
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(depot, blobs string, args ...string) string {
		t.Helper()
		out, err := in(depot, blobs, args...)
		if err != nil {
			t.Fatalf("symdepot %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	database, bucket := c.value("SYMDEPOT_DEPOT"), c.value("SYMDEPOT_DEPOT_BLOBS")
	want := must(old, "", "list", "--all", "--json")
	if out := must(old, "", "depot", "migrate", "--to", database, "--to-blobs", bucket); !strings.Contains(out, "20 contents") {
		t.Errorf("migrate: %s, want 20 contents", out)
	}
	if out, err := in(old, "", "list"); err == nil || !strings.Contains(out, "was moved to postgres://") {
		t.Errorf("the old depot after the migration: %v, want an error and %q in the output\n%s", err, "was moved to postgres://", out)
	}
	if got := must(database, bucket, "list", "--all", "--json"); got != want {
		t.Errorf("transactions in PostgreSQL:\n%swant\n%s", got, want)
	}
	if out := must(database, bucket, "verify"); !strings.HasPrefix(out, "clean: 20 contents") {
		t.Errorf("verify in PostgreSQL: %s, want %q at the beginning", out, "clean: 20 contents")
	}
	must(database, bucket, "depot", "migrate", "--to", back)
	if out, err := in(database, bucket, "list"); err == nil || !strings.Contains(out, "was moved") {
		t.Errorf("the database after the migration back: %v, want an error and %q in the output\n%s", err, "was moved", out)
	}
	if got := must(back, "", "list", "--all", "--json"); got != want {
		t.Errorf("transactions back in a folder:\n%swant\n%s", got, want)
	}
	s := serveDepot(t, back, "--quiet")
	for _, p := range paths {
		status, _, _, err := fetchURL(t.Context(), http.DefaultClient, s.url+p)
		if err != nil || status != 200 {
			t.Errorf("GET %s from the depot that came back: %d, %v; want no error and 200", p, status, err)
		}
	}
	must(old, "", "depot", "unmove")
	if got := must(old, "", "list", "--all", "--json"); got != want {
		t.Errorf("the first depot after unmove:\n%swant\n%s", got, want)
	}
	if out := must(old, "", "add", "-p", "R", src); !strings.HasPrefix(out, "transaction 3") {
		t.Errorf("add after unmove: %s, want transaction 3", out)
	}
}

// value returns a variable of the environment of the commands.
func (c *cluster) value(name string) string {
	for _, kv := range c.env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

package commandtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/remote/proxytest"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// Cluster is a depot in PostgreSQL and a bucket, with servers on it.
type Cluster struct {
	Env    []string
	Nodes  []*Serving
	Killed map[*Serving]bool
}

// NewCluster starts a database, an object store and n servers.
func NewCluster(t *testing.T, n int) *Cluster {
	t.Helper()
	return NewClusterWith(t, n, func(int) []string { return nil })
}

// NewClusterWith is newCluster with further arguments for each server.
func NewClusterWith(t *testing.T, n int, args func(i int) []string) *Cluster {
	t.Helper()
	pg := pgtest.Shared(t)
	s3 := buckettest.S3(t)
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "SYMDEPOT_TEST_PATIENCE": "120s", // a busy machine: see hasten
		"SYMDEPOT_DEPOT": pg.Database(t), "SYMDEPOT_DEPOT_BLOBS": "s3://" + s3.Bucket + "/depot",
		"AWS_ENDPOINT_URL": s3.Endpoint, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": s3.User, "AWS_SECRET_ACCESS_KEY": s3.Secret,
	}
	env["SYMDEPOT_TEST_REACH"] = "60s" // of a busy machine
	c := &Cluster{Killed: map[*Serving]bool{}}
	for k, v := range env {
		c.Env = append(c.Env, k+"="+v)
	}
	c.Env = append(c.Env, "HOME="+t.TempDir())
	if out, err := c.Command(t.Context(), "list").CombinedOutput(); err == nil {
		t.Fatalf("list before there is a depot: %s, want an error", out)
	}
	for i := range n {
		s, err := c.Start(t, args(i)...)
		if err != nil {
			t.Fatal(err)
		}
		c.Nodes = append(c.Nodes, s)
	}
	return c
}

// Start starts one more server.
func (c *Cluster) Start(t *testing.T, args ...string) (*Serving, error) {
	t.Helper()
	home := t.TempDir()
	s, err := StartServe(func(k string) string {
		if k == "HOME" {
			return home
		}
		return c.Value(k)
	}, ".", append([]string{"--quiet"}, args...)...)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if c.Killed[s] {
			return
		}
		if err := s.Stop(); err != nil {
			t.Errorf("serve: %v\n%s", err, s.Log.String())
		}
	})
	return s, nil
}

// Command returns a command with the environment of the cluster.
func (c *Cluster) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "symdepot", args...)
	cmd.Env = c.Env
	return cmd
}

// Run runs a command that must succeed, and returns its output.
func (c *Cluster) Run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := c.Command(t.Context(), args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("symdepot %s: %v\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}

// Statuses requests a path from every node.
func (c *Cluster) Statuses(t *testing.T, path string) (list []int) {
	t.Helper()
	for _, n := range c.Nodes {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.URL+path, nil)
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

// Value returns a variable of the environment of the commands.
func (c *Cluster) Value(name string) string {
	for _, kv := range c.Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// Objects returns the number of objects of contents in the bucket of the cluster.
func (c *Cluster) Objects(t *testing.T) (n int) {
	t.Helper()
	b, err := bucket.OpenS3(bucket.S3Config{Bucket: "symbols", Prefix: "depot", Endpoint: c.Value("AWS_ENDPOINT_URL"), AccessKey: c.Value("AWS_ACCESS_KEY_ID"), SecretKey: c.Value("AWS_SECRET_ACCESS_KEY")}, buckettest.Transport(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, err := range b.List(t.Context(), "c/") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// MoveAway puts a proxy before the database and one before the store that delay each
// direction of the servers that are started from now on.
func (c *Cluster) MoveAway(t *testing.T, delay time.Duration) {
	t.Helper()
	for i, kv := range c.Env {
		name, value, _ := strings.Cut(kv, "=")
		if name != "SYMDEPOT_DEPOT" && name != "AWS_ENDPOINT_URL" {
			continue
		}
		u, err := url.Parse(value)
		if err != nil {
			t.Fatal(err)
		}
		p := proxytest.New(t, u.Host)
		p.Set(proxytest.Fault{Delay: delay})
		u.Host = p.Addr()
		c.Env[i] = name + "=" + u.String()
	}
}

// Metric returns the value of a metric of a server, with its labels; -1 if there
// is none.
func Metric(t *testing.T, s *Serving, name string) float64 {
	t.Helper()
	_, body, err := Get(t.Context(), s.URL+"/metrics")
	if err != nil {
		return -1
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(body)
	if m == nil {
		return -1
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatalf("metric %s: %v", name, err)
	}
	return v
}

// Get requests a URL and reads the whole answer.
func Get(ctx context.Context, url string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// AwaitPeers waits until each of n servers knows all.
func (c *Cluster) AwaitPeers(t *testing.T, n int) {
	t.Helper()
	for i, s := range c.Nodes {
		if c.Killed[s] {
			continue
		}
		symtest.Await(t, time.Minute, fmt.Sprintf("%d servers that node %d knows", n, i), func() bool {
			return Metric(t, s, "symdepot_nodes_peers") == float64(n)
		})
	}
}

// Clients has n clients spread over the servers request a path. They return when
// all have the header; result then waits for the end of client i.
func (c *Cluster) Clients(t *testing.T, n int, path string) (statuses []int, result func(i int) ([]byte, error)) {
	t.Helper()
	statuses = make([]int, n)
	bodies, errs := make([]io.ReadCloser, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Nodes[i%len(c.Nodes)].URL+path, nil)
			if err != nil {
				errs[i] = err
				return
			}
			resp, err := http.DefaultClient.Do(req) //nolint:bodyclose // result closes it
			if err != nil {
				errs[i] = err
				return
			}
			statuses[i], bodies[i] = resp.StatusCode, resp.Body
		})
	}
	all.Wait()
	return statuses, func(i int) ([]byte, error) {
		if errs[i] != nil {
			return nil, errs[i]
		}
		defer bodies[i].Close()
		return io.ReadAll(bodies[i])
	}
}

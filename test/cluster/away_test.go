package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/remote/proxytest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// awayServer is a server whose database and object store are behind proxies.
type awayServer struct {
	*commandtest.Serving
	pg, s3 *proxytest.Proxy
	env    map[string]string
	limit  time.Duration // of an answer
}

func newAwayServer(t *testing.T, src string) *awayServer {
	t.Helper()
	pg, s3 := pgtest.Shared(t), buckettest.S3(t)
	where, err := url.Parse(pg.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	a := &awayServer{pg: proxytest.New(t, where.Host), s3: proxytest.New(t, strings.TrimPrefix(s3.Endpoint, "http://"))}
	where.Host = a.pg.Addr()
	a.env = map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": t.TempDir(), "SYMDEPOT_DEPOT": where.String(), "SYMDEPOT_DEPOT_BLOBS": "s3://" + s3.Bucket + "/depot",
		"AWS_ENDPOINT_URL": "http://" + a.s3.Addr(), "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": s3.User, "AWS_SECRET_ACCESS_KEY": s3.Secret,
	}
	cmd := exec.CommandContext(t.Context(), "symdepot", "add", src)
	for k, v := range a.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Env = append(cmd.Env, "HOME="+t.TempDir()) // another machine: the server's cache stays empty
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("add: %v\n%s", err, out)
	}
	if a.Serving, err = commandtest.StartServe(func(k string) string { return a.env[k] }, ".", "--quiet"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Cmd.Process.Kill() }) // if the test has failed
	return a
}

// get requests a path and returns the status, Retry-After and the body.
func (a *awayServer) get(t *testing.T, path string) (status int, retry, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Errorf("GET %s: %v", path, err)
		return 0, "", ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("GET %s: %v", path, err)
	}
	return resp.StatusCode, resp.Header.Get("Retry-After"), string(b)
}

// is expects a status; a 503 says when to try again.
func (a *awayServer) is(t *testing.T, when, path string, want int) {
	t.Helper()
	start := time.Now()
	status, retry, _ := a.get(t, path)
	if status != want || (retry != "") != (want == http.StatusServiceUnavailable) {
		t.Errorf("%s: GET %s: status %d with Retry-After %q, want %d", when, path, status, retry, want)
	}
	if took := time.Since(start); took > a.limit {
		t.Errorf("%s: GET %s took %v, want at most %v", when, path, took.Round(time.Millisecond), a.limit)
	}
}

// metric returns the value of a metric without labels, or "".
func (a *awayServer) metric(t *testing.T, name string) string {
	t.Helper()
	_, _, body := a.get(t, "/metrics")
	for l := range strings.Lines(body) {
		if v, ok := strings.CutPrefix(l, name+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// awayFaults are ways in which a service goes away.
var awayFaults = map[string]proxytest.Fault{
	"refuses":    {Refuse: true},
	"black hole": {ToServer: true, ToClient: true},
}

// TestDatabaseAway takes the database away. What the server knows well enough is
// answered for two seconds; then lookups get 503, never a 404 that the server does
// not know.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	for name, fault := range awayFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := t.TempDir()
			commandtest.SymFiles(t, src, 1, 3, 4000)
			a := newAwayServer(t, src)
			a.limit = 9 * time.Second // lookups wait for five seconds
			sym := func(i int) string { return fmt.Sprintf("/lib1-%d.so/%s/lib1-%d.so.sym", i, commandtest.SymID(1, i), i) }
			for range 2 { // the second time from memory
				a.is(t, "before", sym(0), 200)
				a.is(t, "before", sym(7), 404)
			}
			a.is(t, "before", "/readyz", 200)
			if v := a.metric(t, "symdepot_database_up"); v != "1" {
				t.Errorf("symdepot_database_up is %q, want 1", v)
			}
			a.pg.Set(proxytest.Fault{Delay: 50 * time.Millisecond})
			a.is(t, "slow database", sym(0), 200)
			a.is(t, "slow database", sym(2), 200)
			a.is(t, "slow database", sym(7), 404)
			a.pg.Set(proxytest.Fault{})

			a.pg.Set(fault)
			if fault.Refuse {
				a.pg.Cut()
			}
			gone := time.Now()
			for _, c := range []struct {
				path string
				want int
			}{{sym(0), 200}, {sym(7), 404}} {
				status, _, _ := a.get(t, c.path)
				if time.Since(gone) < time.Second && status != c.want {
					t.Errorf("%v after the database went: GET %s: status %d, want %d", time.Since(gone).Round(time.Millisecond), c.path, status, c.want)
				}
			}
			symtest.Await(t, 20*time.Second, "503 for a file and for a missing one", func() bool {
				one, _, _ := a.get(t, sym(0))
				other, _, _ := a.get(t, sym(7))
				if time.Since(gone) > 3*time.Second && (one == 404 || other == 404) {
					t.Errorf("%v after the database went: %d and %d; a 404 that the server does not know", time.Since(gone), one, other)
				}
				return one == 503 && other == 503
			})
			for _, path := range []string{sym(1), "/buildid/0123456789abcdef0123456789abcdef01234567/debuginfo", "/readyz"} {
				a.is(t, "database away", path, 503)
			}
			a.is(t, "database away", "/healthz", 200)
			if v := a.metric(t, "symdepot_database_up"); v != "0" {
				t.Errorf("symdepot_database_up is %q, want 0", v)
			}
			a.pg.Set(proxytest.Fault{})
			symtest.Await(t, 30*time.Second, "the file after the database has come back", func() bool {
				status, _, _ := a.get(t, sym(0))
				return status == 200
			})
			a.is(t, "database back", sym(1), 200)
			a.is(t, "database back", sym(7), 404)
			a.is(t, "database back", "/readyz", 200)
			a.wantLines(t, "the database is not available", "the database answers again")
		})
	}
}

// TestStoreAwayPostgres takes the object store away: cached files are served, others
// get 503, and a missing file is a 404, because the index knows.
func TestStoreAwayPostgres(t *testing.T) {
	t.Parallel()
	for name, fault := range awayFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := t.TempDir()
			commandtest.SymFiles(t, src, 1, 3, 4000)
			a := newAwayServer(t, src)
			a.limit = 18 * time.Second // the first download waits for ten seconds, and is tried again
			sym := func(i int) string { return fmt.Sprintf("/lib1-%d.so/%s/lib1-%d.so.sym", i, commandtest.SymID(1, i), i) }
			a.is(t, "before", sym(0), 200)
			a.s3.Set(proxytest.Fault{Delay: 50 * time.Millisecond})
			a.is(t, "slow store", sym(1), 200)
			a.s3.Set(fault)
			if fault.Refuse {
				a.s3.Cut()
			}
			for range 2 {
				a.is(t, "store away", sym(0), 200)
				a.is(t, "store away", sym(1), 200)
				a.is(t, "store away", sym(2), 503)
				a.is(t, "store away", sym(7), 404)
				a.is(t, "store away", "/readyz", 200)
			}
			if v := a.metric(t, "symdepot_bucket_up"); v != "0" {
				t.Errorf("symdepot_bucket_up is %q, want 0", v)
			}
			a.s3.Set(proxytest.Fault{})
			symtest.Await(t, 30*time.Second, "the file after the store has come back", func() bool {
				status, _, _ := a.get(t, sym(2))
				return status == 200
			})
			a.is(t, "store back", "/readyz", 200)
			if v := a.metric(t, "symdepot_bucket_up"); v != "1" {
				t.Errorf("symdepot_bucket_up is %q, want 1", v)
			}
			a.wantLines(t, "the object store does not answer", "the object store answers again")
		})
	}
}

// wantLines stops the server and expects each text once in its log.
func (a *awayServer) wantLines(t *testing.T, texts ...string) {
	t.Helper()
	if err := a.Stop(); err != nil {
		t.Errorf("serve: %v", err)
	}
	for _, text := range texts {
		if n := strings.Count(a.Log.String(), `"msg":"`+text); n != 1 {
			t.Errorf("%d log lines with %q, want 1:\n%s", n, text, a.Log.String())
		}
	}
}

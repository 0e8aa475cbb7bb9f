package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// needTools skips a test unless the programs are installed.
func needTools(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		symtest.Tool(t, n)
	}
}

// freePort is one that nobody listens on just now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// peer runs a program until the test ends, or until the function is called, and
// waits until ready.
func peer(t *testing.T, env []string, ready func() bool, name string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), name, args...)
	var said symtest.Output
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = &said, &said, append(os.Environ(), env...), t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { _ = cmd.Wait(); close(gone) }()
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-gone
		}
	})
	t.Cleanup(stop)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, &said)
		}
	})
	symtest.Await(t, 30*time.Second, name+" answers", func() bool {
		select {
		case <-gone:
			t.Fatalf("%s ended before it answered", name)
		default:
		}
		return ready()
	})
	return stop
}

// answerOf reads what is at an address.
func answerOf(t *testing.T, url string) (status int, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("got %s, error %v; want no error", url, err)
	}
	return resp.StatusCode, body
}

func runTool(t *testing.T, env []string, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir = append(os.Environ(), env...), dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("CombinedOutput: %s, %s, error %v, %s; want no error", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

const elfutilsSource = `#include <stdio.h>
struct point { int x, y; };
__attribute__((noinline)) int crash_here(int *q) { return *q + 1; }
int main(int argc, char **argv) { struct point p = {argc, 2}; printf("%d\n", crash_here(&p.x)); return 0; }
`

// startElfutils runs elfutils' server over a folder and waits until it has the
// debug information of an id.
func startElfutils(t *testing.T, dir, id, urls string) (address string, stop func()) {
	t.Helper()
	port := freePort(t)
	address = "http://127.0.0.1:" + port
	env := []string{"DEBUGINFOD_URLS=" + urls, "HOME=" + t.TempDir(), "DEBUGINFOD_CACHE_PATH=" + t.TempDir()}
	stop = peer(t, env, func() bool {
		if id == "" {
			status, _ := answerOf(t, address+"/metrics")
			return status == http.StatusOK
		}
		status, _ := answerOf(t, address+"/buildid/"+id+"/source"+dir+"/app.c")
		return status == http.StatusOK
	}, "debuginfod", "-d", ":memory:", "-F", "-p", port, "-t", "1", dir)
	return address, stop
}

// TestElfutilsUpstream runs symdepot between elfutils' server and its clients:
// functions, lines and sources that it downloaded once are available without
// the upstream.
func TestElfutilsUpstream(t *testing.T) {
	t.Parallel()
	needTools(t, "debuginfod", "debuginfod-find", "gdb", "gcc", "strip", "readelf")
	dir := filepath.Join(t.TempDir(), "build")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "app.c"), []byte(elfutilsSource), 0o644); err != nil {
		t.Fatal(err)
	}
	runTool(t, nil, dir, "gcc", "-g", "-O1", "-o", "app", filepath.Join(dir, "app.c"), "-Wl,--build-id=sha1")
	stripped := filepath.Join(t.TempDir(), "app")
	runTool(t, nil, dir, "strip", "-o", stripped, "app")
	_, id, _ := strings.Cut(runTool(t, nil, dir, "readelf", "-n", "app"), "Build ID: ")
	id = strings.Fields(id)[0]
	far, stop := startElfutils(t, dir, id, "")
	s := commandtest.ServeDepot(t, filepath.Join(t.TempDir(), "depot"), "--upstream", far+",layout=debuginfod,executables=true")
	find := func(args ...string) string {
		env := []string{"DEBUGINFOD_URLS=" + s.URL, "DEBUGINFOD_CACHE_PATH=" + t.TempDir()}
		path := strings.TrimSpace(runTool(t, env, dir, "debuginfod-find", args...))
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "app"))
	if err != nil {
		t.Fatal(err)
	}
	if note := find("section", id, ".note.gnu.build-id"); len(note) < 20 || !strings.Contains(string(whole), note) {
		t.Errorf("a section of %d bytes, want one of at least 20 that the file contains", len(note))
	}
	for range 2 { // the second time without elfutils' server and without its files
		if got := find("debuginfo", id); got != string(whole) {
			t.Errorf("debuginfo: %d bytes, want the %d of the file", len(got), len(whole))
		}
		if got := find("source", id, dir+"/app.c"); got != elfutilsSource {
			t.Errorf("source: %q, want %v", got, elfutilsSource)
		}
		env := []string{"DEBUGINFOD_URLS=" + s.URL, "DEBUGINFOD_CACHE_PATH=" + t.TempDir(), "HOME=" + t.TempDir()}
		out := runTool(t, env, t.TempDir(), "gdb", "-nx", "-batch", "-iex", "set debuginfod enabled on", "-ex", "info line crash_here", "-ex", "list crash_here", stripped)
		if !strings.Contains(out, "Line 3 of") || !strings.Contains(out, "return *q + 1") {
			t.Errorf("gdb: %s, want %q in the output and %q in the output", out, "Line 3 of", "return *q + 1")
		}
		stop()
		if err := os.Rename(dir, dir+".gone"); err == nil {
			t.Cleanup(func() { _ = os.Rename(dir+".gone", dir) })
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// serveAt is serveDepot on a port that is known before.
func serveAt(t *testing.T, port string, args ...string) string {
	t.Helper()
	base := "http://127.0.0.1:" + port
	peer(t, []string{"SYMDEPOT_DEPOT=" + filepath.Join(t.TempDir(), "depot")}, func() bool {
		status, _ := answerOf(t, base+"/healthz")
		return status == http.StatusOK
	}, "symdepot", append([]string{"serve", "--quiet", "--listen", "127.0.0.1:" + port}, args...)...)
	return base
}

// absentSoon asks many servers at once for what nobody has.
func absentSoon(t *testing.T, within time.Duration, urls ...string) {
	t.Helper()
	var wg sync.WaitGroup
	for _, u := range urls {
		wg.Go(func() {
			start := time.Now()
			status, _ := answerOf(t, u)
			if took := time.Since(start); status != http.StatusNotFound || took > within {
				t.Errorf("%s: %d after %v; want 404 within %v", u, status, took, within)
			}
		})
	}
	wg.Wait()
}

// TestServersInALoop: our own server as a source of itself, two that ask each
// other, and one more with elfutils' server in between.
func TestServersInALoop(t *testing.T) {
	t.Parallel()
	pdb, err := filepath.Abs("../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	one, a, b := freePort(t), freePort(t), freePort(t)
	const none = "/none.pdb/3BD8C3C3B1544CE9AB8D71A9F3E9A4D%d1/none.pdb"
	self := serveAt(t, one, "--upstream", "http://127.0.0.1:"+one)
	absentSoon(t, time.Second, self+fmt.Sprintf(none, 0))
	left := serveAt(t, a, "--upstream", "http://127.0.0.1:"+b+",layout=symstore")
	right := serveAt(t, b, "--upstream", "http://127.0.0.1:"+a+",layout=symstore", "--add", pdb)
	// Both have heard of each other after the first question.
	absentSoon(t, time.Second, left+fmt.Sprintf(none, 1))
	absentSoon(t, time.Second, right+fmt.Sprintf(none, 2))
	var urls []string
	for i := 3; i < 10; i++ {
		urls = append(urls, left+fmt.Sprintf(none, i), right+fmt.Sprintf(none, i))
	}
	absentSoon(t, time.Second, urls...)
	want, err := os.ReadFile(pdb)
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{left, right} {
		if status, got := answerOf(t, base+farPDB); status != http.StatusOK || !bytes.Equal(got, want) {
			t.Errorf("%s: %d, %d bytes; want 200 and the %d bytes of the PDB", base, status, len(got), len(want))
		}
	}
	needTools(t, "debuginfod")
	c := freePort(t)
	far, _ := startElfutils(t, t.TempDir(), "", "http://127.0.0.1:"+c)
	around := serveAt(t, c, "--upstream", far+",layout=debuginfod")
	absentSoon(t, time.Second, around+"/buildid/adac45aa231bba3143d7af433767c61f31021c17/debuginfo")
	// This way about, elfutils' server waits for itself, as it tells nobody who it
	// is: that ends when our patience with it does.
	absentSoon(t, 5*time.Second, far+"/buildid/adac45aa231bba3143d7af433767c61f31021c18/debuginfo")
}

// TestNginxUpstream: nginx with a two-tier store of cabinets.
func TestNginxUpstream(t *testing.T) {
	if _, err := os.Stat("/usr/sbin/nginx"); err == nil {
		t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin")
	}
	needTools(t, "nginx")
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	if code, out, errs := commandtest.Symdepot(t, filepath.Join(dir, "none"), "symstore", "add", "/r", "/f", "../../testdata/pdb/*.*", "/s", store, "/t", "Product", "/compress", "/3"); code != 0 {
		t.Fatalf("symdepot: %v, %v, %v; want 0", out, errs, code)
	}
	if err := os.WriteFile(filepath.Join(store, "index2.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	conf := fmt.Sprintf("daemon off; worker_processes 1; pid %[1]s/pid; error_log %[1]s/error.log; events {}\nhttp { access_log %[1]s/access.log; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/c; server { listen 127.0.0.1:%[2]s; root %[3]s; } }\n", dir, port, store)
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // its worker is somebody else
		for d := dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
			_ = os.Chmod(d, 0o755)
		}
	}
	far := "http://127.0.0.1:" + port
	peer(t, nil, func() bool { status, _ := answerOf(t, far+"/index2.txt"); return status == http.StatusOK }, "nginx", "-c", filepath.Join(dir, "nginx.conf"), "-e", filepath.Join(dir, "error.log"))
	s := commandtest.ServeDepot(t, filepath.Join(t.TempDir(), "depot"), "--upstream", far+",layout=symstore")
	want, err := os.ReadFile("../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if status, got := answerOf(t, s.URL+farPDB); status != http.StatusOK || !bytes.Equal(got, want) {
			t.Errorf("status %d, %d bytes; want 200 and the %d bytes of the PDB", status, len(got), len(want))
		}
		if status, _ := answerOf(t, s.URL+strings.Replace(farPDB, "F9EF", "F9EE", 1)); status != http.StatusNotFound {
			t.Errorf("what is not there: %d, want %d", status, http.StatusNotFound)
		}
	}
	log, err := os.ReadFile(filepath.Join(dir, "access.log"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), "/he/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pd_ "); n != 1 {
		t.Errorf("the cabinet was asked for %d times, want 1\n%s", n, log)
	}
}

// TestBucketUpstream: real object stores as sources of the real server, and a
// folder with the same tree.
func TestBucketUpstream(t *testing.T) {
	want, err := os.ReadFile("../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, env map[string]string, source string, fill func() error) {
		for k, v := range env {
			t.Setenv(k, v)
		}
		if err := fill(); err != nil {
			t.Fatal(err)
		}
		depot := filepath.Join(t.TempDir(), "depot")
		port := freePort(t)
		base := "http://127.0.0.1:" + port
		peer(t, []string{"SYMDEPOT_DEPOT=" + depot}, func() bool { status, _ := answerOf(t, base+"/healthz"); return status == http.StatusOK },
			"symdepot", "serve", "--quiet", "--listen", "127.0.0.1:"+port, "--upstream", source)
		for range 2 {
			if status, got := answerOf(t, base+farPDB); status != http.StatusOK || !bytes.Equal(got, want) {
				t.Errorf("status %d, %d bytes; want 200 and the %d bytes of the PDB", status, len(got), len(want))
			}
			if status, _ := answerOf(t, base+farSym); status != http.StatusNotFound {
				t.Errorf("what is not there: %d, want %d", status, http.StatusNotFound)
			}
		}
		if _, list, _ := commandtest.Symdepot(t, depot, "cache", "list", "--json"); strings.Count(list, "\n") != 1 || !strings.Contains(list, sum(want)) {
			t.Errorf("kept: %s, want the PDB once", list)
		}
	}
	put := func(t *testing.T, address string) func() error {
		return func() error {
			cfg, err := bucket.ParseURL(address)
			if err != nil {
				return err
			}
			b, err := cfg.Open(buckettest.Transport(nil))
			if err != nil {
				return err
			}
			defer b.Close()
			_, err = b.Put(t.Context(), strings.TrimPrefix(farPDB, "/"), int64(len(want)), bytes.NewReader(want), bucket.PutOptions{})
			return err
		}
	}
	t.Run("s3", func(t *testing.T) {
		p := buckettest.S3(t)
		u := "s3://" + p.Bucket + "/deep/symbols?endpoint=" + url.QueryEscape(p.Endpoint) + "&region=us-east-1&auth=env"
		check(t, map[string]string{"AWS_ACCESS_KEY_ID": p.User, "AWS_SECRET_ACCESS_KEY": p.Secret}, u+",layout=symstore", put(t, u))
	})
	t.Run("az", func(t *testing.T) {
		p := buckettest.Azure(t)
		u := "az://" + p.User + "/" + p.Bucket + "/deep?auth=key&endpoint=" + url.QueryEscape(p.Endpoint)
		check(t, map[string]string{"AZURE_STORAGE_ACCOUNT": p.User, "AZURE_STORAGE_KEY": p.Secret}, u+",layout=symstore", put(t, u))
	})
	t.Run("gs", func(t *testing.T) {
		p := buckettest.GCS(t)
		metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Metadata-Flavor", "Google")
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"expires_in":3600,"token_type":"Bearer"}`, p.Secret)
		}))
		t.Cleanup(metadata.Close)
		u := "gs://" + p.Bucket + "/deep?auth=metadata&endpoint=" + url.QueryEscape(p.Endpoint)
		check(t, map[string]string{"GCE_METADATA_HOST": strings.TrimPrefix(metadata.URL, "http://")}, u+",layout=symstore", put(t, u))
	})
	t.Run("folder", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, filepath.FromSlash(farPDB))
		check(t, nil, dir, func() error {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			return os.WriteFile(path, want, 0o644)
		})
	})
}

package bench

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// nginx serves a folder as fast as it can until the test ends, with a worker for each core
// that this process may use.
func nginx(t *testing.T, root string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	dir := t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`daemon off; worker_processes %[4]d; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 1024; }
http { access_log off; log_not_found off; sendfile on; tcp_nopush on; keepalive_requests 1000000; default_type application/octet-stream;
 client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
 server { listen %[2]s; root %[3]s; } }
`, dir, addr, root, runtime.GOMAXPROCS(0))
	if os.Geteuid() == 0 {
		text = "user root;\n" + text
	}
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), "nginx", "-c", conf, "-p", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
	symtest.Await(t, 10*time.Second, "nginx listens on "+addr, func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return "http://" + addr
}

// bare serves a tree as well as net/http alone can: files of up to a mebibyte
// from memory, longer ones with http.ServeContent, and 404 for the rest. Its
// answers have the header fields of those of another server.
func bare(t *testing.T, tree, like string, paths ...string) string {
	t.Helper()
	type answer struct {
		header http.Header
		file   string // or body
		body   []byte
	}
	answers := make(map[string]*answer)
	var missing http.Header
	for _, p := range paths {
		resp, err := http.Get(like + p)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		resp.Header.Del("Date")
		a := &answer{header: resp.Header, body: body}
		if resp.StatusCode == http.StatusNotFound {
			missing = resp.Header
			continue
		}
		if len(body) > 1<<20 {
			resp.Header.Del("Content-Length")
			a.file, a.body = filepath.Join(tree, filepath.FromSlash(p)), nil
		}
		answers[p] = a
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := answers[r.URL.Path]
		if a == nil {
			maps.Copy(w.Header(), missing)
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "not found\n")
			return
		}
		maps.Copy(w.Header(), a.header)
		if a.file == "" {
			_, _ = w.Write(a.body)
			return
		}
		f, err := os.Open(a.file)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		defer func() { _ = f.Close() }()
		http.ServeContent(w, r, "", time.Time{}, f)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// clients are the cores of the load program, in the form of taskset; empty: all.
var clients string

// apart gives this process, and the servers that the test starts from here on, one half of the
// cores until the test ends, and the load program the other half, so that neither waits for the
// other. It returns what a row says of that.
func apart(t *testing.T) string {
	t.Helper()
	n := runtime.NumCPU()
	if n < 2 || runtime.GOOS != "linux" {
		return "servers and client on the same cores"
	}
	pin := func(cores string) {
		if out, err := exec.CommandContext(context.Background(), "taskset", "-acp", cores, strconv.Itoa(os.Getpid())).CombinedOutput(); err != nil {
			t.Fatalf("taskset: %v\n%s", err, out)
		}
	}
	pin(fmt.Sprintf("0-%d", n/2-1))
	usual := runtime.GOMAXPROCS(n / 2)
	clients = fmt.Sprintf("%d-%d", n/2, n-1)
	t.Cleanup(func() {
		clients = ""
		runtime.GOMAXPROCS(usual)
		pin(fmt.Sprintf("0-%d", n-1))
	})
	return fmt.Sprintf("each server on %d cores, the client on %d others", n/2, n-n/2)
}

// load runs the load program for some seconds over paths and returns requests
// per second.
func load(t *testing.T, base string, seconds, conns int, paths []string, status int) float64 {
	t.Helper()
	script := filepath.Join(t.TempDir(), "paths.lua")
	var b strings.Builder
	b.WriteString("local p = {\n")
	for _, q := range paths {
		fmt.Fprintf(&b, "%q,\n", q)
	}
	fmt.Fprintf(&b, "}\nlocal i = 0\nrequest = function() i = i %% #p + 1 return wrk.format(nil, p[i]) end\n")
	if err := os.WriteFile(script, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	checkStatus(t, base+paths[0], status)
	args := []string{"wrk", "-t2", "-c" + strconv.Itoa(conns), "-d" + strconv.Itoa(seconds) + "s", "--timeout", "30s"}
	if clients != "" {
		args = append([]string{"taskset", "-c", clients}, args...)
	}
	// A callback on each answer would make wrk collect every body.
	args = append(args, "-s", script, base)
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("wrk: %v\n%s", err, out)
	}
	m := regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("wrk said:\n%s\nwant its figures", out)
	}
	rps, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return rps
}

// missingPaths returns more paths of files that no depot has than any memory of answers holds.
func missingPaths() (paths []string) {
	for i := range 200_000 {
		paths = append(paths, fmt.Sprintf("/gone%d.pdb/%032X1/gone%d.pdb", i, i+1, i))
	}
	return paths
}

func checkStatus(t *testing.T, url string, want int) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != want {
		t.Fatalf("%s: status %d, want %d", url, resp.StatusCode, want)
	}
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// asReleased builds the program as make release does, with the profile of scripts/bench profile,
// and returns its folder.
func asReleased(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-pgo=../../packaging/release/release.pgo", "-ldflags=-s -w",
		"-o", filepath.Join(dir, "symdepot"), "../../cmd/symdepot")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	return dir
}

// TestBenchServe compares serve with nginx on the same files on the same disk,
// and with what net/http alone does on this machine. The program is that of a release; what the
// profile of a release gains is measured beside the same program without it.
func TestBenchServe(t *testing.T) {
	commandtest.NeedBench(t, "nginx")
	pairs, seconds := 7, 5
	if s := os.Getenv("SYMDEPOT_BENCH_SECONDS"); s != "" {
		seconds, _ = strconv.Atoi(s)
	}
	tree := t.TempDir()
	big := commandtest.RandomSyms(t, tree, 8, 10<<20)
	small := commandtest.RandomSyms(t, tree, 256, 64<<10)
	missing := missingPaths()
	depot := filepath.Join(t.TempDir(), "depot")
	if code, _, errs := commandtest.Symdepot(t, depot, "add", tree); code != 0 {
		t.Fatalf(`symdepot("add"): %v, %v; want 0`, errs, code)
	}
	released := asReleased(t)
	t.Log(apart(t))
	s := commandtest.ServeDepotOf(t, released, depot, "--quiet")
	unprofiled := commandtest.ServeDepot(t, depot, "--quiet")
	ng := nginx(t, tree)
	plain := bare(t, tree, s.URL, slices.Concat(big, small, missing[:1])...)
	for _, c := range []struct {
		name   string
		paths  []string
		status int
		want   float64
	}{{"10 MiB files, answers/s", big, 200, 1.4}, {"64 KiB files, answers/s", small, 200, 0.9}, {"missing keys, 404/s", missing, 404, 0.65}} {
		servers := []string{s.URL, ng, plain, unprofiled.URL}
		rates := make([][]float64, len(servers))
		var ratios, bareRatios, gains []float64
		for _, url := range servers {
			load(t, url, 2, 32, c.paths, c.status)
		}
		for range pairs {
			for i, url := range servers {
				rates[i] = append(rates[i], load(t, url, seconds, 32, c.paths, c.status))
			}
			n := len(rates[0]) - 1
			ratios, bareRatios = append(ratios, rates[0][n]/rates[1][n]), append(bareRatios, rates[2][n]/rates[1][n])
			gains = append(gains, rates[0][n]/rates[3][n])
		}
		peak, now := commandtest.Resident(t, s.Cmd.Process.Pid)
		verdict := "reached"
		if median(ratios) < c.want {
			verdict = "NOT REACHED"
		}
		t.Logf("%-24s symdepot %8.0f, nginx %8.0f, bare net/http %8.0f; symdepot to nginx %.2f (want %.2f: %s), bare net/http to nginx %.2f; "+
			"the profile of the release gains %.1f %%; resident %.0f MiB, peak %.0f MiB",
			c.name, median(rates[0]), median(rates[1]), median(rates[2]), median(ratios), c.want, verdict, median(bareRatios),
			100*(median(gains)-1), now, peak)
	}
}

// TestBenchAdd compares adding 2 GiB in 2,000 files with hashing and copying.
func TestBenchAdd(t *testing.T) {
	commandtest.NeedBench(t, "sha256sum", "cp")
	files, size := 2000, 1<<20
	src := t.TempDir()
	commandtest.RandomSyms(t, src, files, size)
	timed := func(name string, args ...string) float64 {
		start := time.Now()
		if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			t.Fatalf("CombinedOutput: %s, error %v, %s; want no error", name, err, out)
		}
		return time.Since(start).Seconds()
	}
	var ratios, adds, hashes, copies []float64
	for i := range 5 {
		work := t.TempDir()
		timed("sync")
		h := timed("sh", "-c", fmt.Sprintf("cd %s && (find . -type f | sort | sed -n 'p;n' | xargs sha256sum >/dev/null) & cd %s && find . -type f | sort | sed -n 'n;p' | xargs sha256sum >/dev/null; wait", src, src))
		timed("sync")
		c := timed("sh", "-c", fmt.Sprintf("cp -r %s %s/copy && sync", src, work))
		timed("sync")
		depot := filepath.Join(work, "depot")
		start := time.Now()
		if code, _, errs := commandtest.Symdepot(t, depot, "add", src); code != 0 {
			t.Fatalf(`symdepot("add"): %v, %v; want 0`, errs, code)
		}
		a := time.Since(start).Seconds()
		adds, hashes, copies, ratios = append(adds, a), append(hashes, h), append(copies, c), append(ratios, a/max(h, c))
		_ = os.RemoveAll(work)
		t.Logf("run %d: add %.2f s, two sha256sum %.2f s, cp -r and sync %.2f s", i+1, a, h, c)
	}
	t.Logf("add 2 GiB in 2,000 files: %.2f s; two sha256sum %.2f s; cp -r and sync %.2f s; ratio to the larger %.2f (want at most 1.5)",
		median(adds), median(hashes), median(copies), median(ratios))
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/bucket"
	"github.com/symdepot/symdepot/internal/bucket/buckettest"
	"github.com/symdepot/symdepot/internal/command"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/proxytest"
	"github.com/symdepot/symdepot/internal/symtest"
)

// bucketDepot is a depot in a folder whose contents are in a bucket behind a
// proxy that can be cut.
type bucketDepot struct {
	dir, blobs string
	times      string // see hasten
	peer       *buckettest.Peer
	line       *proxytest.Proxy
}

func newBucketDepot(t *testing.T) *bucketDepot {
	t.Helper()
	p := buckettest.S3(t)
	l := proxytest.New(t, strings.TrimPrefix(p.Endpoint, "http://"))
	return &bucketDepot{dir: filepath.Join(t.TempDir(), "depot"), peer: p, line: l,
		blobs: "s3://" + p.Bucket + "/depot?endpoint=" + url.QueryEscape("http://"+l.Addr())}
}

func (b *bucketDepot) env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + b.peer.User, "AWS_SECRET_ACCESS_KEY=" + b.peer.Secret}
}

func (b *bucketDepot) command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "symdepot", append([]string{"--depot", b.dir, "--blobs", b.blobs}, args...)...)
	cmd.Env = append(os.Environ(), append(b.env(), "SYMDEPOT_TEST_TIMES="+b.times)...)
	return cmd
}

// run runs the real command and returns its exit code and output.
func (b *bucketDepot) run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	out, err := b.command(t, args...).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode(), string(out)
	case err != nil:
		t.Fatal(err)
	}
	return 0, string(out)
}

func (b *bucketDepot) must(t *testing.T, args ...string) string {
	t.Helper()
	code, out := b.run(t, args...)
	if code != 0 {
		t.Fatalf("symdepot %s: exit %d, want 0\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

func (b *bucketDepot) open(t *testing.T) bucket.Bucket {
	t.Helper()
	s3, err := bucket.OpenS3(bucket.S3Config{Bucket: b.peer.Bucket, Prefix: "depot", Endpoint: "http://" + b.line.Addr(), AccessKey: b.peer.User, SecretKey: b.peer.Secret}, buckettest.Transport(nil))
	if err != nil {
		t.Fatal(err)
	}
	return s3
}

// objects returns the number of objects of contents in the bucket.
func (b *bucketDepot) objects(t *testing.T) (n int) {
	t.Helper()
	s3 := b.open(t)
	defer s3.Close()
	for _, err := range s3.List(t.Context(), "c/") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// collect collects as if it were later.
func (b *bucketDepot) collect(t *testing.T, later time.Duration) {
	t.Helper()
	d, err := depot.Open(t.Context(), b.dir, depot.Options{MustExist: true, Bucket: b.open(t), Now: func() time.Time { return time.Now().Add(later) }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Collect(t.Context(), 0, false); err != nil {
		t.Fatalf("collect %v later: %v", later, err)
	}
}

// TestKilledAddsBucket kills adds to a bucket at random moments: the depot must
// verify clean each time and hold what was reported. The objects of killed adds
// are deleted once their leases and the hold have ended.
func TestKilledAddsBucket(t *testing.T) {
	t.Parallel()
	rounds := 3
	if torture() {
		rounds = 20
	}
	const files = 40
	b := newBucketDepot(t)
	src := t.TempDir()
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 3), 4))
	symFiles(t, filepath.Join(src, "0"), 0, files, 4000)
	start := time.Now()
	b.must(t, "add", filepath.Join(src, "0"))
	span := time.Since(start)
	reported := []int{0}
	killed := 0
	for round := 1; round <= rounds; round++ {
		dir := filepath.Join(src, fmt.Sprint(round))
		symFiles(t, dir, round, files, 4000)
		cmd := b.command(t, "add", dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(span/4+time.Duration(rng.Int64N(int64(span/2))), func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		kill.Stop()
		if err == nil {
			reported = append(reported, round)
		} else {
			killed++
		}
		b.must(t, "verify")
	}
	for _, round := range reported {
		for _, i := range []int{0, files - 1} {
			b.must(t, "find", symID(round, i))
		}
	}
	committed := 0
	for round := range rounds + 1 {
		found := 0
		for _, i := range []int{0, files - 1} {
			if code, _ := b.run(t, "find", symID(round, i)); code == 0 {
				found++
			}
		}
		switch found {
		case 1:
			t.Errorf("round %d is partly committed: want all of its files visible, or none", round)
		case 2:
			committed++
		}
	}
	before := b.objects(t)
	b.collect(t, 0)
	if n := b.objects(t); n != before {
		t.Errorf("%d of %d objects were deleted before the leases ended, want none", before-n, before)
	}
	b.collect(t, 2*time.Hour)     // dooms the uploads without a lease
	b.collect(t, 10*24*time.Hour) // deletes their objects
	if n := b.objects(t); n != committed*files {
		t.Errorf("%d objects for %d contents, want one for each", n, committed*files)
	}
	b.must(t, "verify")
	t.Logf("%d of %d adds were killed; %d objects were left over", killed, rounds, before-committed*files)
}

// TestTogetherBucket adds the same files in two processes at once, and collects
// in two processes at once.
func TestTogetherBucket(t *testing.T) {
	t.Parallel()
	const files = 30
	b := newBucketDepot(t)
	src := t.TempDir()
	symFiles(t, src, 1, files, 4000)
	together := func(args ...string) {
		t.Helper()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if code, out := b.run(t, args...); code != 0 {
					t.Errorf("symdepot %s: exit %d, want 0\n%s", strings.Join(args, " "), code, out)
				}
			})
		}
		wg.Wait()
	}
	together("add", src)
	b.must(t, "verify")
	together("gc", "--grace", "0s")
	b.must(t, "verify")
	b.collect(t, 2*time.Hour)
	b.collect(t, 10*24*time.Hour)
	if n := b.objects(t); n != files {
		t.Errorf("%d objects for %d contents, want %v", n, files, files)
	}
	b.must(t, "verify")
}

// TestServeStoreAway serves what the local cache has while the store is away, and
// answers 503 for the rest, never 404.
func TestServeStoreAway(t *testing.T) {
	t.Parallel()
	b := newBucketDepot(t)
	src := t.TempDir()
	symFiles(t, src, 1, 2, 4000)
	b.must(t, "add", src)
	env := map[string]string{"SYMDEPOT_DEPOT": b.dir, "PATH": os.Getenv("PATH"), "HOME": t.TempDir(), "AWS_ACCESS_KEY_ID": b.peer.User, "AWS_SECRET_ACCESS_KEY": b.peer.Secret}
	s, err := startServe(func(k string) string { return env[k] }, ".", "--quiet")
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, http.Header) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: buckettest.Transport(nil)}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.Header
	}
	sym := func(i int) string {
		return fmt.Sprintf("/lib1-%d.so/%s/lib1-%d.so.sym", i, symID(1, i), i)
	}
	is := func(path string, want int) {
		t.Helper()
		if got, h := get(path); got != want || (h.Get("Retry-After") != "") != (want == 503) {
			t.Errorf("GET %s: status %d with Retry-After %q, want %d", path, got, h.Get("Retry-After"), want)
		}
	}
	is(sym(0), 200)
	b.line.Set(proxytest.Fault{Refuse: true})
	b.line.Cut()
	for range 2 {
		is(sym(0), 200)
		is(sym(1), 503)
		is(sym(7), 404) // the index knows
	}
	is("/readyz", 200) // a balancer that took the server away would take the cached files away too
	b.line.Set(proxytest.Fault{})
	is("/readyz", 200)
	is(sym(1), 200)
	if err := s.stop(); err != nil {
		t.Errorf("serve: %v", err)
	}
	for _, text := range []string{"does not answer", "answers again"} {
		if n := strings.Count(s.log.String(), text); n != 1 {
			t.Errorf("%d log lines with %q, want 1:\n%s", n, text, s.log.String())
		}
	}
}

// TestCopiedDepot copies the folder of a depot with a bucket. The copy deletes no
// object until it claims the bucket; then the original deletes none.
func TestCopiedDepot(t *testing.T) {
	t.Parallel()
	b := newBucketDepot(t)
	b.times = "1s,1s,1ms,1h"
	src := t.TempDir()
	symFiles(t, src, 1, 3, 4000)
	b.must(t, "add", src)
	c := *b
	c.dir = filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(c.dir, os.DirFS(b.dir)); err != nil {
		t.Fatal(err)
	}
	stopped := func(d *bucketDepot, what string) {
		t.Helper()
		if code, out := d.run(t, "gc", "--grace", "0s"); code != command.ExitFailed || !strings.Contains(out, "gc --claim") {
			t.Errorf("gc of %s: exit %d\n%swant exit %d and the way to claim", what, code, out, command.ExitFailed)
		}
	}
	c.must(t, "rm", "1")
	stopped(&c, "the copy")
	stopped(&c, "the copy")
	if n := b.objects(t); n != 3 {
		t.Errorf("%d objects, want 3", n)
	}
	b.must(t, "gc", "--grace", "0s")
	b.must(t, "verify")
	if code, out := b.run(t, "gc", "--claim", "--dry-run"); code != command.ExitUsage {
		t.Errorf("gc --claim --dry-run: exit %d, want %d\n%s", code, command.ExitUsage, out)
	}
	c.must(t, "gc", "--claim", "--grace", "0s")
	if n := b.objects(t); n != 0 {
		t.Errorf("%d objects after the copy has claimed and collected, want none", n)
	}
	b.must(t, "rm", "1")
	stopped(b, "the original")

	disk := filepath.Join(t.TempDir(), "disk")
	if code, _, errs := symdepot(t, disk, "add", src); code != 0 {
		t.Fatalf(`symdepot("add"): %v, %v; want 0`, errs, code)
	}
	if code, _, errs := symdepot(t, disk, "gc", "--claim"); code != command.ExitFailed || !strings.Contains(errs, "nothing to claim") {
		t.Errorf("gc --claim on disk: exit %d, want %d and %q in the messages: %s", code, command.ExitFailed, "nothing to claim", errs)
	}
}

// TestVerifyDeep compares the bucket with the index: what is missing is named with its
// product and transaction, without a request for any object.
func TestVerifyDeep(t *testing.T) {
	t.Parallel()
	b := newBucketDepot(t)
	src := t.TempDir()
	symFiles(t, src, 1, 3, 4000)
	b.must(t, "add", "-p", "Game", "-v", "1.2", src)
	if out := b.must(t, "verify", "--deep", "--rows"); !strings.HasPrefix(out, "clean: 3 contents") || !strings.Contains(out, "the rows checked") || !strings.Contains(out, "3 objects in the bucket") {
		t.Errorf("verify --deep --rows: %s, want %q at the beginning, %q in the output and %q in the output", out, "clean: 3 contents", "the rows checked", "3 objects in the bucket")
	}
	s3 := b.open(t)
	defer s3.Close()
	n := 0
	for info, err := range s3.List(t.Context(), "c/") {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 {
			if err := s3.Delete(t.Context(), info.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s3.Put(t.Context(), "c/00/"+strings.Repeat("00", 32)+"/STRAY", 1, strings.NewReader("x"), bucket.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", "--deep", "--rows"}, {"verify", "--deep"}, {"verify"}} {
		code, out := b.run(t, args...)
		if code != command.ExitNo || strings.Count("\n"+out, "\nfault:") != 1 || !strings.Contains(out, "of transaction 1 (Game 1.2)") || !strings.Contains(out, "verify --repair, then add") {
			t.Errorf("%v: exit %d\n%swant one fault with the product and the transaction", args, code, out)
		}
	}
	if code, out := b.run(t, "verify", "--repair", "--rows", "--deep"); code != command.ExitNo || !strings.Contains(out, "to get it back: add a file") {
		t.Errorf("verify --repair: exit %d\n%swant the fault and the remedy", code, out)
	}
	if code, out := b.run(t, "verify"); code != command.ExitNo || strings.Count("\n"+out, "\nfault:") != 1 {
		t.Errorf("verify after the repair: exit %d\n%swant one fault", code, out)
	}
	if out := b.must(t, "add", src); !strings.Contains(out, "restored       1 object") {
		t.Errorf("add: %s, want one restored object", out)
	}
	if out := b.must(t, "verify", "--deep", "--json"); !strings.Contains(out, `"objects":4`) || strings.Contains(out, `"unknown"`) {
		t.Errorf("verify --deep --json: %s, want 4 objects, one of them unknown but young", out)
	}
}

// TestRefusedBuckets starts commands with buckets that cannot be used: exit code
// and one line that names the cause.
func TestRefusedBuckets(t *testing.T) {
	t.Parallel()
	b := newBucketDepot(t)
	src := t.TempDir()
	symFiles(t, src, 1, 1, 100)
	b.must(t, "add", src)
	plain := t.TempDir()
	folder := filepath.Join(plain, "plain")
	if code, _, errs := symdepot(t, folder, "add", src); code != 0 {
		t.Fatalf(`symdepot("add"): %v, %v; want 0`, errs, code)
	}
	s3, err := bucket.OpenS3(bucket.S3Config{Bucket: b.peer.Bucket, Prefix: "site", Endpoint: "http://" + b.line.Addr(), AccessKey: b.peer.User, SecretKey: b.peer.Secret}, buckettest.Transport(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer s3.Close()
	if _, err := s3.Put(t.Context(), "a/index.html", 1, strings.NewReader("x"), bucket.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	fresh := func() string { return filepath.Join(t.TempDir(), "d") }
	endpoint := "?endpoint=" + url.QueryEscape("http://"+b.line.Addr())
	for name, c := range map[string]struct {
		dir, blobs, secret, want string
	}{
		"missing bucket":            {fresh(), "s3://nowhere/x" + endpoint, "", "no such bucket; create the bucket (Azure: the container), or correct its name or the address"},
		"files of another program":  {fresh(), "s3://symbols/site" + endpoint, "", "it holds a/index.html, and no symdepot.json that names its depot; name an empty prefix"},
		"wrong credentials":         {fresh(), "s3://symbols/x" + endpoint, "wrong", "refuses the credentials"},
		"bucket of another depot":   {fresh(), b.blobs, "", "name another prefix"},
		"another bucket":            {b.dir, "s3://symbols/other" + endpoint, "", "it keeps its contents in s3://symbols/depot"},
		"folder with a bucket":      {folder, b.blobs, "", "open it without --blobs"},
		"URL with a password":       {fresh(), "s3://user:pass@symbols/x", "", "AWS_SECRET_ACCESS_KEY"},
		"database without a bucket": {"postgres://u@127.0.0.1/db", "", "", "--blobs"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "symdepot", "--depot", c.dir, "list")
			if c.blobs != "" {
				cmd = exec.CommandContext(t.Context(), "symdepot", "--depot", c.dir, "--blobs", c.blobs, "add", src)
			}
			cmd.Env = append(os.Environ(), b.env()...)
			if c.secret != "" {
				cmd.Env = append(cmd.Env, "AWS_SECRET_ACCESS_KEY="+c.secret)
			}
			var errs bytes.Buffer
			cmd.Stderr = &errs
			if err := cmd.Run(); err == nil {
				t.Fatal("it was opened")
			}
			if said := errs.String(); !strings.Contains(said, c.want) || strings.Count(said, "\n") > 2 || !strings.Contains(strings.Split(said, "\n")[0], c.want) || strings.Contains(said, "pass@") || strings.Contains(said, b.peer.Secret) {
				t.Errorf("it says %q, want a first line with %q", said, c.want)
			}
		})
	}
	b.must(t, "verify")
}

// TestBenchBucket compares adding to a bucket with plain uploads of the same
// files, and the first byte of a cold file with that of the store.
func TestBenchBucket(t *testing.T) {
	needBench(t)
	const files = 2000
	size := 1 << 20
	if os.Getenv("SYMDEPOT_BENCH") == "short" {
		size = 64 << 10
	}
	b := newBucketDepot(t)
	src := t.TempDir()
	paths := randomSyms(t, src, files, size)
	for i, p := range paths {
		paths[i] = "/" + strings.Trim(filepath.ToSlash(p), "/")
	}
	s3 := b.open(t)
	defer s3.Close()
	start := time.Now()
	b.must(t, "add", src)
	added := time.Since(start)
	start = time.Now()
	var wg sync.WaitGroup
	next := make(chan string)
	for range 16 {
		wg.Go(func() {
			for p := range next {
				f, err := os.Open(filepath.Join(src, p))
				if err != nil {
					t.Error(err)
					continue
				}
				if _, err := s3.Put(t.Context(), "plain"+p, int64(size), struct{ io.Reader }{f}, bucket.PutOptions{}); err != nil {
					t.Error(err)
				}
				_ = f.Close()
			}
		})
	}
	for _, p := range paths {
		next <- p
	}
	close(next)
	wg.Wait()
	plain := time.Since(start)
	t.Logf("add of %d files of %d bytes: %.1f s; 16 parallel plain PUTs: %.1f s; ratio %.2f (goal 1.3)", files, size, added.Seconds(), plain.Seconds(), added.Seconds()/plain.Seconds())

	env := map[string]string{"SYMDEPOT_DEPOT": b.dir, "PATH": os.Getenv("PATH"), "HOME": t.TempDir(), "AWS_ACCESS_KEY_ID": b.peer.User, "AWS_SECRET_ACCESS_KEY": b.peer.Secret}
	s, err := startServe(func(k string) string { return env[k] }, ".", "--quiet")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.stop() }()
	client := &http.Client{Transport: buckettest.Transport(nil)}
	var cold, store []time.Duration
	one := make([]byte, 1)
	for _, p := range paths[:50] {
		start := time.Now()
		o, err := s3.Get(t.Context(), "plain"+p, 0, -1, "")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadFull(o.Body, one)
		store = append(store, time.Since(start))
		_, _ = io.Copy(io.Discard, o.Body)
		o.Body.Close()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+p, nil)
		if err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, one); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: status %d, %v; want no error and %d", p, resp.StatusCode, err, http.StatusOK)
		}
		cold = append(cold, time.Since(start))
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	slices.Sort(cold)
	slices.Sort(store)
	t.Logf("first byte of a cold file: median %v, of the store %v, beyond it %v (goal 10 ms)", cold[25], store[25], cold[25]-store[25])
}

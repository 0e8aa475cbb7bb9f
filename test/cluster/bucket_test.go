package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/remote/proxytest"
	"github.com/symdepot/symdepot/internal/run/command"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

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
	b := commandtest.NewBucketDepot(t)
	src := t.TempDir()
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 3), 4))
	commandtest.SymFiles(t, filepath.Join(src, "0"), 0, files, 4000)
	start := time.Now()
	b.Must(t, "add", filepath.Join(src, "0"))
	span := time.Since(start)
	reported := []int{0}
	killed := 0
	for round := 1; round <= rounds; round++ {
		dir := filepath.Join(src, fmt.Sprint(round))
		commandtest.SymFiles(t, dir, round, files, 4000)
		cmd := b.Command(t, "add", dir)
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
		b.Must(t, "verify")
	}
	for _, round := range reported {
		for _, i := range []int{0, files - 1} {
			b.Must(t, "find", commandtest.SymID(round, i))
		}
	}
	committed := 0
	for round := range rounds + 1 {
		found := 0
		for _, i := range []int{0, files - 1} {
			if code, _ := b.Run(t, "find", commandtest.SymID(round, i)); code == 0 {
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
	before := b.Objects(t)
	b.Collect(t, 0)
	if n := b.Objects(t); n != before {
		t.Errorf("%d of %d objects were deleted before the leases ended, want none", before-n, before)
	}
	b.Collect(t, 2*time.Hour)     // dooms the uploads without a lease
	b.Collect(t, 10*24*time.Hour) // deletes their objects
	if n := b.Objects(t); n != committed*files {
		t.Errorf("%d objects for %d contents, want one for each", n, committed*files)
	}
	b.Must(t, "verify")
	t.Logf("%d of %d adds were killed; %d objects were left over", killed, rounds, before-committed*files)
}

// TestTogetherBucket adds the same files in two processes at once, and collects
// in two processes at once.
func TestTogetherBucket(t *testing.T) {
	t.Parallel()
	const files = 30
	b := commandtest.NewBucketDepot(t)
	src := t.TempDir()
	commandtest.SymFiles(t, src, 1, files, 4000)
	together := func(args ...string) {
		t.Helper()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if code, out := b.Run(t, args...); code != 0 {
					t.Errorf("symdepot %s: exit %d, want 0\n%s", strings.Join(args, " "), code, out)
				}
			})
		}
		wg.Wait()
	}
	together("add", src)
	b.Must(t, "verify")
	together("gc", "--grace", "0s")
	b.Must(t, "verify")
	b.Collect(t, 2*time.Hour)
	b.Collect(t, 10*24*time.Hour)
	if n := b.Objects(t); n != files {
		t.Errorf("%d objects for %d contents, want %v", n, files, files)
	}
	b.Must(t, "verify")
}

// TestServeStoreAway serves what the local cache has while the store is away, and
// answers 503 for the rest, never 404.
func TestServeStoreAway(t *testing.T) {
	t.Parallel()
	b := commandtest.NewBucketDepot(t)
	src := t.TempDir()
	commandtest.SymFiles(t, src, 1, 2, 4000)
	b.Must(t, "add", src)
	env := map[string]string{"SYMDEPOT_DEPOT": b.Dir, "PATH": os.Getenv("PATH"), "HOME": t.TempDir(), "AWS_ACCESS_KEY_ID": b.Peer.User, "AWS_SECRET_ACCESS_KEY": b.Peer.Secret}
	s, err := commandtest.StartServe(func(k string) string { return env[k] }, ".", "--quiet")
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, http.Header) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
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
		return fmt.Sprintf("/lib1-%d.so/%s/lib1-%d.so.sym", i, commandtest.SymID(1, i), i)
	}
	is := func(path string, want int) {
		t.Helper()
		if got, h := get(path); got != want || (h.Get("Retry-After") != "") != (want == 503) {
			t.Errorf("GET %s: status %d with Retry-After %q, want %d", path, got, h.Get("Retry-After"), want)
		}
	}
	is(sym(0), 200)
	b.Line.Set(proxytest.Fault{Refuse: true})
	b.Line.Cut()
	for range 2 {
		is(sym(0), 200)
		is(sym(1), 503)
		is(sym(7), 404) // the index knows
	}
	is("/readyz", 200) // a balancer that took the server away would take the cached files away too
	b.Line.Set(proxytest.Fault{})
	is("/readyz", 200)
	is(sym(1), 200)
	if err := s.Stop(); err != nil {
		t.Errorf("serve: %v", err)
	}
	for _, text := range []string{"does not answer", "answers again"} {
		if n := strings.Count(s.Log.String(), text); n != 1 {
			t.Errorf("%d log lines with %q, want 1:\n%s", n, text, s.Log.String())
		}
	}
}

// TestCopiedDepot copies the folder of a depot with a bucket. The copy deletes no
// object until it claims the bucket; then the original deletes none.
func TestCopiedDepot(t *testing.T) {
	t.Parallel()
	b := commandtest.NewBucketDepot(t)
	b.Times = "1s,1s,1ms,1h"
	src := t.TempDir()
	commandtest.SymFiles(t, src, 1, 3, 4000)
	b.Must(t, "add", src)
	c := *b
	c.Dir = filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(c.Dir, os.DirFS(b.Dir)); err != nil {
		t.Fatal(err)
	}
	stopped := func(d *commandtest.BucketDepot, what string) {
		t.Helper()
		if code, out := d.Run(t, "gc", "--empty-trash", "--grace", "0s"); code != command.ExitFailed || !strings.Contains(out, "gc --claim") {
			t.Errorf("gc of %s: exit %d\n%swant exit %d and the way to claim", what, code, out, command.ExitFailed)
		}
	}
	c.Must(t, "rm", "1")
	stopped(&c, "the copy")
	stopped(&c, "the copy")
	if n := b.Objects(t); n != 3 {
		t.Errorf("%d objects, want 3", n)
	}
	b.Must(t, "gc", "--empty-trash", "--grace", "0s")
	b.Must(t, "verify")
	if code, out := b.Run(t, "gc", "--claim", "--dry-run"); code != command.ExitUsage {
		t.Errorf("gc --claim --dry-run: exit %d, want %d\n%s", code, command.ExitUsage, out)
	}
	c.Must(t, "gc", "--claim", "--empty-trash", "--grace", "0s")
	if n := b.Objects(t); n != 0 {
		t.Errorf("%d objects after the copy has claimed and collected, want none", n)
	}
	b.Must(t, "rm", "1")
	stopped(b, "the original")

	disk := filepath.Join(t.TempDir(), "disk")
	if code, _, errs := commandtest.Symdepot(t, disk, "add", src); code != 0 {
		t.Fatalf(`symdepot("add"): %v, %v; want 0`, errs, code)
	}
	if code, _, errs := commandtest.Symdepot(t, disk, "gc", "--claim"); code != command.ExitFailed || !strings.Contains(errs, "nothing to claim") {
		t.Errorf("gc --claim on disk: exit %d, want %d and %q in the messages: %s", code, command.ExitFailed, "nothing to claim", errs)
	}
}

// TestVerifyDeep compares the bucket with the index: what is missing is named with its
// product and transaction, without a request for any object.
func TestVerifyDeep(t *testing.T) {
	t.Parallel()
	b := commandtest.NewBucketDepot(t)
	src := t.TempDir()
	commandtest.SymFiles(t, src, 1, 3, 4000)
	b.Must(t, "add", "-p", "Game", "-v", "1.2", src)
	if out := b.Must(t, "verify", "--deep", "--rows"); !strings.HasPrefix(out, "clean: 3 contents") || !strings.Contains(out, "the rows checked") || !strings.Contains(out, "3 objects in the bucket") {
		t.Errorf("verify --deep --rows: %s, want %q at the beginning, %q in the output and %q in the output", out, "clean: 3 contents", "the rows checked", "3 objects in the bucket")
	}
	s3 := b.Open(t)
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
		code, out := b.Run(t, args...)
		if code != command.ExitNo || strings.Count("\n"+out, "\nfault:") != 1 || !strings.Contains(out, "of build 1 (Game 1.2)") || !strings.Contains(out, "verify --repair, then add") {
			t.Errorf("%v: exit %d\n%swant one fault with the product and the build", args, code, out)
		}
	}
	if code, out := b.Run(t, "verify", "--repair", "--rows", "--deep"); code != command.ExitNo || !strings.Contains(out, "to get it back: add a file") {
		t.Errorf("verify --repair: exit %d\n%swant the fault and the remedy", code, out)
	}
	if code, out := b.Run(t, "verify"); code != command.ExitNo || strings.Count("\n"+out, "\nfault:") != 1 {
		t.Errorf("verify after the repair: exit %d\n%swant one fault", code, out)
	}
	if out := b.Must(t, "add", src); !strings.Contains(out, "restored       1 file") {
		t.Errorf("add: %s, want one restored object", out)
	}
	if out := b.Must(t, "verify", "--deep", "--json"); !strings.Contains(out, `"objects":4`) || strings.Contains(out, `"unknown"`) {
		t.Errorf("verify --deep --json: %s, want 4 objects, one of them unknown but young", out)
	}
}

// TestRefusedBuckets starts commands with buckets that cannot be used: exit code
// and one line that names the cause.
func TestRefusedBuckets(t *testing.T) {
	t.Parallel()
	b := commandtest.NewBucketDepot(t)
	src := t.TempDir()
	commandtest.SymFiles(t, src, 1, 1, 100)
	b.Must(t, "add", src)
	plain := t.TempDir()
	folder := filepath.Join(plain, "plain")
	if code, _, errs := commandtest.Symdepot(t, folder, "add", src); code != 0 {
		t.Fatalf(`symdepot("add"): %v, %v; want 0`, errs, code)
	}
	s3, err := bucket.OpenS3(bucket.S3Config{Bucket: b.Peer.Bucket, Prefix: "site", Endpoint: "http://" + b.Line.Addr(), AccessKey: b.Peer.User, SecretKey: b.Peer.Secret}, buckettest.Transport(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer s3.Close()
	if _, err := s3.Put(t.Context(), "a/index.html", 1, strings.NewReader("x"), bucket.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	fresh := func() string { return filepath.Join(t.TempDir(), "d") }
	endpoint := "?endpoint=" + url.QueryEscape("http://"+b.Line.Addr())
	for name, c := range map[string]struct {
		dir, blobs, secret, want string
	}{
		"missing bucket":            {fresh(), "s3://nowhere/x" + endpoint, "", "no such bucket; create the bucket (Azure: the container), or correct its name or the address"},
		"files of another program":  {fresh(), "s3://symbols/site" + endpoint, "", "it holds a/index.html, and no symdepot.json that names its depot; name an empty prefix"},
		"wrong credentials":         {fresh(), "s3://symbols/x" + endpoint, "wrong", "refuses the credentials"},
		"bucket of another depot":   {fresh(), b.Blobs, "", "name another prefix"},
		"another bucket":            {b.Dir, "s3://symbols/other" + endpoint, "", "it keeps its contents in s3://symbols/depot"},
		"folder with a bucket":      {folder, b.Blobs, "", "open it without --blobs"},
		"URL with a password":       {fresh(), "s3://user:pass@symbols/x", "", "AWS_SECRET_ACCESS_KEY"},
		"database without a bucket": {"postgres://u@127.0.0.1/db", "", "", "--blobs"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "symdepot", "--depot", c.dir, "list")
			if c.blobs != "" {
				cmd = exec.CommandContext(t.Context(), "symdepot", "--depot", c.dir, "--blobs", c.blobs, "add", src)
			}
			cmd.Env = append(os.Environ(), b.Env()...)
			if c.secret != "" {
				cmd.Env = append(cmd.Env, "AWS_SECRET_ACCESS_KEY="+c.secret)
			}
			var errs bytes.Buffer
			cmd.Stderr = &errs
			if err := cmd.Run(); err == nil {
				t.Fatal("it was opened")
			}
			if said := errs.String(); !strings.Contains(said, c.want) || strings.Count(said, "\n") > 2 || !strings.Contains(strings.Split(said, "\n")[0], c.want) || strings.Contains(said, "pass@") || strings.Contains(said, b.Peer.Secret) {
				t.Errorf("it says %q, want a first line with %q", said, c.want)
			}
		})
	}
	b.Must(t, "verify")
}

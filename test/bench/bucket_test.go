package bench

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// TestBenchBucket compares adding to a bucket with plain uploads of the same
// files, and the first byte of a cold file with that of the store.
func TestBenchBucket(t *testing.T) {
	commandtest.NeedBench(t)
	const files = 2000
	size := 1 << 20
	if os.Getenv("SYMDEPOT_BENCH") == "short" {
		size = 64 << 10
	}
	b := commandtest.NewBucketDepot(t)
	src := t.TempDir()
	paths := commandtest.RandomSyms(t, src, files, size)
	for i, p := range paths {
		paths[i] = "/" + strings.Trim(filepath.ToSlash(p), "/")
	}
	s3 := b.Open(t)
	defer s3.Close()
	start := time.Now()
	b.Must(t, "add", src)
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

	env := map[string]string{"SYMDEPOT_DEPOT": b.Dir, "PATH": os.Getenv("PATH"), "HOME": t.TempDir(), "AWS_ACCESS_KEY_ID": b.Peer.User, "AWS_SECRET_ACCESS_KEY": b.Peer.Secret}
	s, err := commandtest.StartServe(func(k string) string { return env[k] }, ".", "--quiet")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Stop() }()
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
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+p, nil)
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

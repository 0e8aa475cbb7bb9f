package bucket_test

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// headers records the requests with a body, and changes the bodies.
type headers struct {
	mu      sync.Mutex
	seen    []http.Header
	running atomic.Int32
	most    atomic.Int32
	spoil   bool
}

func (h *headers) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.ContentLength > 1<<16 {
		h.most.Store(max(h.most.Load(), h.running.Add(1)))
		defer h.running.Add(-1)
		h.mu.Lock()
		h.seen = append(h.seen, req.Header.Clone())
		h.mu.Unlock()
		if h.spoil {
			b, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			b[len(b)/2] ^= 1
			req = req.Clone(req.Context())
			req.Body = io.NopCloser(bytes.NewReader(b))
		}
	}
	return buckettest.Transport(nil).RoundTrip(req)
}

// TestChecksums sends checksums that the stores check: a body that changes on
// its way is refused.
func TestChecksums(t *testing.T) {
	clearEnv(t)
	s3, az, gs := buckettest.S3(t), buckettest.Azure(t), buckettest.GCS(t)
	content := buckettest.Content(1, 12<<20)
	sum, md := sha256.Sum256(content), md5.Sum(content)
	part := sha256.Sum256(content[:5<<20])
	blockSum := md5.Sum(content[:5<<20])
	b64 := base64.StdEncoding.EncodeToString
	for name, c := range map[string]struct {
		cfg    bucket.Config
		single int64
		want   map[string]string // headers of the first request
		n      int               // requests
	}{
		"S3":          {s3Config(s3), 0, map[string]string{"X-Amz-Content-Sha256": hex.EncodeToString(sum[:]), "X-Amz-Checksum-Sha256": b64(sum[:])}, 1},
		"S3 parts":    {s3Config(s3), 5 << 20, map[string]string{"X-Amz-Content-Sha256": hex.EncodeToString(part[:]), "X-Amz-Checksum-Sha256": b64(part[:])}, 3},
		"Azure":       {&bucket.AzureConfig{Account: az.User, Container: az.Bucket, Endpoint: az.Endpoint, AccountKey: az.Secret}, 0, map[string]string{"Content-Md5": b64(md[:])}, 1},
		"Azure parts": {&bucket.AzureConfig{Account: az.User, Container: az.Bucket, Endpoint: az.Endpoint, AccountKey: az.Secret}, 5 << 20, map[string]string{"Content-Md5": b64(blockSum[:])}, 3},
		"Google":      {&bucket.GCSConfig{Bucket: gs.Bucket, Endpoint: gs.Endpoint, Token: gs.Secret}, 0, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := &headers{}
			b := open(t, c.cfg, h)
			if c.single > 0 {
				bucket.SetSingle(b, c.single)
			}
			put := func() error {
				_, err := b.Put(t.Context(), "k", int64(len(content)), io.NewSectionReader(bytes.NewReader(content), 0, int64(len(content))), bucket.PutOptions{SHA256: sum[:]})
				return err
			}
			if err := put(); err != nil {
				t.Fatal(err)
			}
			if len(h.seen) != c.n {
				t.Fatalf("%d requests, want %d", len(h.seen), c.n)
			}
			if c.n > 1 && h.most.Load() < 2 {
				t.Error("the parts were sent one after the other")
			}
			for k, want := range c.want {
				found := false
				for _, seen := range h.seen {
					found = found || seen.Get(k) == want
				}
				if !found {
					t.Errorf("no request has %s: %s", k, want)
				}
			}
			o, err := b.Get(t.Context(), "k", 0, -1, "")
			if err != nil {
				t.Fatal(err)
			}
			defer o.Body.Close()
			if got, err := io.ReadAll(o.Body); err != nil || !bytes.Equal(got, content) {
				t.Errorf("read %d of %d bytes, %v; want the content", len(got), len(content), err)
			}
			h.spoil = true
			if err := put(); err == nil {
				t.Error("a body that changed on its way was accepted")
			}
		})
	}
}

// TestDeleteAll removes many objects, some of them missing.
func TestDeleteAll(t *testing.T) {
	clearEnv(t)
	s3, az := buckettest.S3(t), buckettest.Azure(t)
	for name, c := range map[string]struct {
		cfg      bucket.Config
		requests int
	}{
		"S3":    {&bucket.S3Config{Bucket: s3.Bucket, Prefix: "a b", Endpoint: s3.Endpoint, AccessKey: s3.User, SecretKey: s3.Secret}, 1},
		"Azure": {&bucket.AzureConfig{Account: az.User, Container: az.Bucket, Prefix: "a b", Endpoint: az.Endpoint, AccountKey: az.Secret}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			n := &requests{}
			b := open(t, c.cfg, n)
			var keys []string
			for i := range 5 {
				k := "x/ä &<" + strconv.Itoa(i)
				if _, err := b.Put(t.Context(), k, 1, strings.NewReader("x"), bucket.PutOptions{}); err != nil {
					t.Fatal(err)
				}
				keys = append(keys, k)
			}
			if _, err := b.Put(t.Context(), "kept", 1, strings.NewReader("x"), bucket.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			n.n.Store(0)
			for i, err := range bucket.DeleteAll(t.Context(), b, append(keys, "missing")) {
				if err != nil {
					t.Errorf("key %d: %v", i, err)
				}
			}
			if got := int(n.n.Load()); got != c.requests {
				t.Errorf("%d requests, want %d", got, c.requests)
			}
			for _, k := range keys {
				if _, err := b.Head(t.Context(), k); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %v, want fs.ErrNotExist", k, err)
				}
			}
			if _, err := b.Head(t.Context(), "kept"); err != nil {
				t.Error(err)
			}
		})
	}
	for name, status := range map[string]int{"without bulk deletion": 501, "away": 503} {
		t.Run(name, func(t *testing.T) {
			b := open(t, &bucket.S3Config{Bucket: "symbols", Endpoint: serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost || status == 503 {
					w.WriteHeader(status)
					return
				}
				w.WriteHeader(http.StatusNoContent)
			}), AccessKey: "u", SecretKey: "s"}, buckettest.Transport(nil))
			for i, err := range bucket.DeleteAll(t.Context(), b, []string{"a", "b"}) {
				if (err == nil) != (status == 501) || err != nil && !errors.As(err, new(*bucket.Error)) {
					t.Errorf("key %d: %v; want success only with 501, and otherwise a bucket.Error", i, err)
				}
			}
		})
	}
}

// requests counts requests.
type requests struct{ n atomic.Int32 }

func (r *requests) RoundTrip(req *http.Request) (*http.Response, error) {
	r.n.Add(1)
	return buckettest.Transport(nil).RoundTrip(req)
}

package bucketstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/blob/blobtest"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// add puts and commits pseudo-random contents and returns them.
func (s *store) add(t *testing.T, sizes ...int) [][]byte {
	t.Helper()
	var list [][]byte
	for i, size := range sizes {
		c := blobtest.Content(uint64(i+1), size)
		if err := s.Put(t.Context(), blob.Sum(c), int64(size), bytes.NewReader(c)); err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

// same reads a content and compares it.
func (s *store) same(t *testing.T, c []byte) {
	t.Helper()
	f, err := s.Open(t.Context(), blob.Sum(c))
	if err != nil {
		t.Errorf("open %d bytes: %v", len(c), err)
		return
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || !bytes.Equal(b, c) {
		t.Errorf("read %d of %d bytes, %v, want all", len(b), len(c), err)
	}
}

// TestStoreAway serves the local cache while the store does not answer. Other
// contents are unavailable, never missing. Each change is logged once.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	s := openStore(t, buckettest.S3(t), "p", 0)
	list := s.add(t, 1000, 2000, 2<<20)
	warm, cold := list[0], list[1:]
	s.same(t, warm)
	s.background.Wait()
	s.requests.down.Store(true)
	for range 2 {
		s.same(t, warm)
		for _, c := range cold {
			f, err := s.Open(t.Context(), blob.Sum(c))
			if err == nil {
				_ = f.Close()
			}
			if !errors.Is(err, blob.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("open %d cold bytes: %v, want ErrUnavailable", len(c), err)
			}
			if s.Suspect(blob.Sum(c)) {
				t.Error("a content of an unavailable store is believed to be damaged")
			}
		}
		if err := s.Ready(t.Context()); !errors.Is(err, blob.ErrUnavailable) {
			t.Errorf("ready: %v, want ErrUnavailable", err)
		}
	}
	if err := s.Put(t.Context(), blob.Sum([]byte("x")), 1, strings.NewReader("x")); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("put: %v, want ErrUnavailable", err)
	}
	s.requests.down.Store(false)
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("ready again: %v", err)
	}
	for _, c := range cold {
		s.same(t, c)
	}
	for _, text := range []string{"does not answer", "answers again"} {
		if n := s.logged.count(text); n != 1 {
			t.Errorf("%d log lines with %q, want 1", n, text)
		}
	}
}

// TestAnswers sorts the errors of requests.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err               error
		away, unavailable bool
	}{
		{nil, false, false},
		{fs.ErrNotExist, false, false},
		{fmt.Errorf("put: %w", bucket.ErrPrecondition), false, false},
		{bucket.ErrRange, false, false},
		{bucket.ErrNoBucket, true, true},
		{fs.ErrPermission, true, true},
		{bucket.ErrThrottled, true, true},
		{bucket.ErrCredentials, true, true},
		{errStalled, true, true},
		{context.DeadlineExceeded, true, true},
		{context.Canceled, false, false},
		{&writeError{syscall.ENOSPC}, false, false}, // the local disk
	} {
		v := &Store{log: nopLog, bucket: named{}}
		v.note(c.err)
		if v.isFailing() != c.away {
			t.Errorf("%v: the store is away: %v, want %v", c.err, v.isFailing(), c.away)
		}
		err := unavailable(c.err)
		if errors.Is(err, blob.ErrUnavailable) != c.unavailable || c.unavailable && errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: becomes %v, ErrUnavailable wanted: %v", c.err, err, c.unavailable)
		}
	}
}

// TestHealedByOtherProcess: a content that one process found damaged and another one
// has uploaded again is intact for both.
func TestHealedByOtherProcess(t *testing.T) {
	t.Parallel()
	p := buckettest.S3(t)
	s := openStore(t, p, "p", 0)
	b, _ := peer(t, p, "p")
	o := s.another(t, b)
	for name, find := range map[string]func(ref blob.Ref){
		"verified": func(ref blob.Ref) { _ = s.Verify(t.Context(), ref, -1, nil) },
		"missing":  func(ref blob.Ref) { _ = s.Missing(ref) },
	} {
		c := blobtest.Content(uint64(len(name)), 1000)
		ref := blob.Sum(c)
		if err := s.Put(t.Context(), ref, int64(len(c)), bytes.NewReader(c)); err != nil {
			t.Fatal(err)
		}
		damage := damageOf(t, s)
		damage(t, ref, nil, true)
		find(ref)
		if !s.Suspect(ref) {
			t.Errorf("%s: the damage is not known", name)
		}
		_ = o.Verify(t.Context(), ref, -1, nil)
		if err := o.Put(t.Context(), ref, int64(len(c)), bytes.NewReader(c)); err != nil {
			t.Fatal(err)
		}
		if s.Suspect(ref) {
			t.Errorf("%s: still damaged after another process has uploaded it", name)
		}
		s.same(t, c)
	}
}

// TestSpoolIsCounted: a fetched content is part of the cache from the start.
func TestSpoolIsCounted(t *testing.T) {
	t.Parallel()
	s := openStore(t, buckettest.S3(t), "p", 2500)
	for i := range uint64(4) {
		sp, err := s.Spool()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sp.Write(blobtest.Content(i, 1000)); err != nil {
			t.Fatal(err)
		}
		ref, err := sp.Keep(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = sp.Close()
		if err := s.commit(t.Context(), ref, 1000); err != nil {
			t.Fatal(err)
		}
		if u := s.CacheUsage(); u.Files != min(int64(i)+1, 2) || u.Bytes != 1000*u.Files {
			t.Errorf("after %d files of 1000 bytes: %+v; want at most 2 files", i+1, u)
		}
	}
	n := 0
	for _, err := range s.local.disk.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d files in the cache, want 2", n)
	}
}

// TestWholeFileStays: a content larger than the cache is a file until it is
// closed.
func TestWholeFileStays(t *testing.T) {
	t.Parallel()
	s := openStore(t, buckettest.S3(t), "p", 1500)
	list := s.add(t, 2000, 1000)
	f, err := s.OpenWhole(t.Context(), blob.Sum(list[0]))
	if err != nil {
		t.Fatal(err)
	}
	s.same(t, list[1])
	s.background.Wait()
	if blob.OSFile(f) == nil {
		t.Error("the content has no file")
	}
	if _, err := s.local.disk.Stat(t.Context(), blob.Sum(list[0])); err != nil {
		t.Errorf("an open whole file was evicted: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	s.same(t, list[1])
	s.background.Wait()
	if u := s.CacheUsage(); u.Bytes > u.Limit {
		t.Errorf("the cache holds %+v after the file was closed, want no more than the limit", u)
	}
}

// TestClose breaks off downloads and refuses new ones.
func TestClose(t *testing.T) {
	t.Parallel()
	stall := &stalling{started: make(chan struct{})}
	p := buckettest.S3(t)
	s := openStore(t, p, "p", 0)
	c := s.add(t, 1000)[0]
	via := &counter{next: stall}
	b, err := bucket.OpenS3(bucket.S3Config{Bucket: p.Bucket, Prefix: "p", Endpoint: p.Endpoint, Region: "us-east-1", AccessKey: p.User, SecretKey: p.Secret}, via)
	if err != nil {
		t.Fatal(err)
	}
	o := s.another(t, b)
	opened := make(chan error, 1)
	go func() {
		_, err := o.Store.Open(t.Context(), blob.Sum(c))
		opened <- err
	}()
	<-stall.started
	if err := o.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-opened; err == nil {
		t.Error("a download went on after Close")
	}
	if _, err := o.Store.Open(t.Context(), blob.Sum(c)); err == nil || errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrClosed) {
		t.Errorf("open after Close: %v, want an error that is not a miss", err)
	}
}

// stalling is a store whose downloads of contents never answer.
type stalling struct {
	once    sync.Once
	started chan struct{}
}

func (s *stalling) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/c/") {
		s.once.Do(func() { close(s.started) })
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return buckettest.Transport(nil).RoundTrip(req)
}

// faulty is a bucket with faults.
type faulty struct {
	bucket.Bucket
	keep  string        // an object that cannot be deleted
	blind bool          // it does not read what it has written
	deaf  bool          // it does not list it
	stays bool          // it does not delete
	ahead time.Duration // of its clock
}

func (f *faulty) Delete(ctx context.Context, key string) error {
	if key == f.keep {
		return &bucket.Error{Op: "delete", Key: key, Status: 403, Err: fs.ErrPermission}
	}
	if f.stays {
		return nil
	}
	return f.Bucket.Delete(ctx, key)
}

func (f *faulty) Get(ctx context.Context, key string, off, n int64, ifMatch string) (*bucket.Object, error) {
	if f.blind && strings.HasPrefix(key, "probe/") {
		return nil, &bucket.Error{Op: "get", Key: key, Status: 404, Err: fs.ErrNotExist}
	}
	o, err := f.Bucket.Get(ctx, key, off, n, ifMatch)
	if err == nil && f.ahead != 0 {
		o.ModTime = o.ModTime.Add(f.ahead)
	}
	return o, err
}

// drop removes contents and lets the hold pass.
func (s *store) drop(t *testing.T, list ...[]byte) {
	t.Helper()
	for _, c := range list {
		ref := blob.Sum(c)
		for _, n := range s.txs[ref] {
			if _, err := s.db.Trash.Remove(t.Context(), removals.Removal{Number: n, Reason: "rm"}); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := s.db.DropContents(t.Context(), []blob.Ref{ref}, s.clock(), nil); n != 1 || err != nil {
			t.Fatalf("dropped %d contents, %v; want 1 and no error", n, err)
		}
	}
	s.pass(defaultHold + 1e9)
}

// objects returns the number of objects of contents in the bucket.
func (s *store) objects(t *testing.T) (n int) {
	t.Helper()
	for _, err := range s.bucket.List(t.Context(), "c/") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestBulkDelete deletes many objects with one request, after one that reads the
// marker and one that begins a turn.
func TestBulkDelete(t *testing.T) {
	t.Parallel()
	s := openStore(t, buckettest.S3(t), "p", 0)
	list := s.add(t, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
	s.drop(t, list[1:]...)
	before := s.requests.n.Load()
	n, err := s.Sweep(t.Context(), 0)
	if requests := s.requests.n.Load() - before; n != 9 || err != nil || requests != 3 {
		t.Errorf("deleted %d objects with %d requests, %v; want 9 with 3", n, requests, err)
	}
	if n := s.objects(t); n != 1 {
		t.Errorf("%d objects are left, want 1", n)
	}
	s.same(t, list[0])
}

// TestUndeletable: an object that cannot be deleted does not keep the others.
func TestUndeletable(t *testing.T) {
	t.Parallel()
	b, via := peer(t, buckettest.S3(t), "p")
	f := &faulty{Bucket: b}
	s := openIn(t, f, via, 0)
	list := s.add(t, 10, 11, 12)
	u, _, err := s.db.Places.Of(t.Context(), blob.Sum(list[0]))
	if err != nil {
		t.Fatal(err)
	}
	f.keep = keyOf(u)
	s.drop(t, list...)
	for want := 2; want >= 0; want -= 2 {
		if n, err := s.Sweep(t.Context(), 0); n != want || !errors.Is(err, blob.ErrUnavailable) {
			t.Errorf("deleted %d objects, %v; want %d and an error", n, err, want)
		}
	}
	if n, _, err := s.db.Places.Pending(t.Context()); n != 1 || err != nil {
		t.Errorf("%d places are pending, %v; want 1", n, err)
	}
	f.keep = ""
	if n, err := s.Sweep(t.Context(), 0); n != 1 || err != nil {
		t.Errorf("deleted %d objects, %v; want 1", n, err)
	}
}

// TestSweepTogether collects in two processes at once while a third one adds the
// same contents again.
func TestSweepTogether(t *testing.T) {
	t.Parallel()
	p := buckettest.S3(t)
	s := openStore(t, p, "p", 0)
	b, _ := peer(t, p, "p")
	o := s.another(t, b)
	b, _ = peer(t, p, "p")
	adder := s.another(t, b)
	list := s.add(t, 10, 11, 12, 13, 14, 15, 16, 17)
	s.drop(t, list...)
	o.pass(defaultHold + 1e9)
	adder.now = s.clock()
	var wg sync.WaitGroup
	for _, v := range []*store{s, o} {
		wg.Go(func() {
			if _, err := v.Sweep(t.Context(), 0); err != nil {
				t.Errorf("sweep: %v", err)
			}
		})
	}
	wg.Go(func() { adder.add(t, 10, 11, 12, 13, 14, 15, 16, 17) })
	wg.Wait()
	for _, c := range list {
		s.same(t, c)
	}
	if n := s.objects(t); n != len(list) {
		t.Errorf("%d objects, want %d", n, len(list))
	}
}

// TestRefusals opens buckets that cannot be used.
func TestRefusals(t *testing.T) {
	t.Parallel()
	p := buckettest.S3(t)
	with := func(change func(c *bucket.S3Config)) bucket.Bucket {
		c := bucket.S3Config{Bucket: p.Bucket, Prefix: "fresh", Endpoint: p.Endpoint, Region: "us-east-1", AccessKey: p.User, SecretKey: p.Secret}
		change(&c)
		b, err := bucket.OpenS3(c, buckettest.Transport(nil))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	plain := func(*bucket.S3Config) {}
	used := openStore(t, p, "used", 0)
	if _, err := used.bucket.Put(t.Context(), "c/00/x", 1, strings.NewReader("x"), bucket.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	others := with(func(c *bucket.S3Config) { c.Prefix = "others" })
	for _, key := range []string{"probe/killed", "site/index.html"} {
		if _, err := others.Put(t.Context(), key, 1, strings.NewReader("x"), bucket.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		bucket bucket.Bucket
		is     error
		text   string
	}{
		"an object of another program":      {others, nil, "it holds site/index.html, and no symdepot.json that names its depot; name an empty prefix"},
		"a missing bucket":                  {with(func(c *bucket.S3Config) { c.Bucket = "nowhere" }), bucket.ErrNoBucket, "nowhere"},
		"wrong credentials":                 {with(func(c *bucket.S3Config) { c.SecretKey = "wrong" }), ErrRefused, "check them"},
		"the bucket of another depot":       {with(func(c *bucket.S3Config) { c.Prefix = "used" }), ErrOtherDepot, "another prefix"},
		"a store that does not read":        {&faulty{Bucket: with(plain), blind: true}, ErrStore, "cannot be read"},
		"a store that does not delete":      {&faulty{Bucket: with(plain), stays: true}, ErrStore, "just deleted"},
		"a store that does not list":        {&faulty{Bucket: with(plain), deaf: true}, ErrStore, "not listed"},
		"a fast clock of the store":         {&faulty{Bucket: with(plain), ahead: 6 * time.Minute}, ErrStore, "synchronize both clocks"},
		"a slow clock of the store":         {&faulty{Bucket: with(plain), ahead: -6 * time.Minute}, ErrStore, "synchronize both clocks"},
		"a rule that deletes":               {ruled(t, p, "fresh", deletes("depot", "fresh/c/1")), ErrStore, "remove the rule"},
		"a bucket without a running server": {with(func(c *bucket.S3Config) { c.Endpoint = "http://127.0.0.1:1" }), nil, "127.0.0.1:1"},
	} {
		db, err := index.Open(t.Context(), filepath.Join(t.TempDir(), "index.db"), index.Options{Placed: true})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		v, err := Open(t.Context(), Options{Bucket: c.bucket, Places: db.Places, Dir: t.TempDir()})
		if err == nil {
			_ = v.Close()
			t.Errorf("%s: the store was opened, want an error", name)
			continue
		}
		if c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), p.Secret) {
			t.Errorf("%s: %v, want %v with %q", name, err, c.is, c.text)
		}
	}
}

func (f *faulty) List(ctx context.Context, prefix string) iter.Seq2[bucket.Info, error] {
	if f.deaf {
		return func(func(bucket.Info, error) bool) {}
	}
	return f.Bucket.List(ctx, prefix)
}

// named is a bucket that is only named in a log.
type named struct{ bucket.Bucket }

func (named) Name() string { return "s3://b" }

var nopLog = slog.New(slog.DiscardHandler)

// deletes is the configuration of a bucket with a rule that deletes objects.
func deletes(id, prefix string) string {
	return "<LifecycleConfiguration><Rule><ID>" + id + "</ID><Status>Enabled</Status><Filter><Prefix>" + prefix + "</Prefix></Filter><Expiration><Days>30</Days></Expiration></Rule></LifecycleConfiguration>"
}

// ruled is a bucket of a store that tells these lifecycle rules.
func ruled(t *testing.T, p *buckettest.Peer, prefix, rules string) bucket.Bucket {
	t.Helper()
	b, err := bucket.OpenS3(bucket.S3Config{Bucket: p.Bucket, Prefix: prefix, Endpoint: p.Endpoint, Region: "us-east-1", AccessKey: p.User, SecretKey: p.Secret}, rulesFrom(rules))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rulesFrom answers requests for lifecycle rules.
type rulesFrom string

func (r rulesFrom) RoundTrip(req *http.Request) (*http.Response, error) {
	if !req.URL.Query().Has("lifecycle") {
		return buckettest.Transport(nil).RoundTrip(req)
	}
	return &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/xml"}},
		Body: io.NopCloser(strings.NewReader(string(r))), ContentLength: int64(len(r)), Request: req}, nil
}

// TestProbeAtStart checks a store again whenever Options.Probe demands it, and leaves
// nothing behind.
func TestProbeAtStart(t *testing.T) {
	t.Parallel()
	p := buckettest.S3(t)
	s := openStore(t, p, "p", 0)
	s.add(t, 100)
	for name, c := range map[string]struct {
		change func(f *faulty)
		rules  string
		text   string
	}{
		"blind":             {func(f *faulty) { f.blind = true }, "", "cannot be read"},
		"deaf":              {func(f *faulty) { f.deaf = true }, "", "not listed"},
		"keeps":             {func(f *faulty) { f.stays = true }, "", "just deleted"},
		"late":              {func(f *faulty) { f.ahead = -time.Hour }, "", "synchronize"},
		"a little late":     {func(f *faulty) { f.ahead = -time.Minute }, "", ""},
		"rules of others":   {nil, deletes("logs", "logs/"), ""},
		"rules for a probe": {nil, deletes("probes", "p/probe/"), ""},
		"rules for all":     {nil, deletes("all", ""), "remove the rule"},
		"rules for us":      {nil, deletes("us", "p/"), "remove the rule"},
		"rules for a part":  {nil, deletes("part", "p/c/00"), "remove the rule"},
		"fine":              {nil, "", ""},
	} {
		b, _ := peer(t, p, "p")
		if c.rules != "" {
			b = ruled(t, p, "p", c.rules)
		}
		f := &faulty{Bucket: b}
		open := b
		if c.change != nil {
			c.change(f)
			open = f
		}
		var logged logBuffer
		v, err := Open(t.Context(), Options{Bucket: open, Places: s.db.Places, Dir: t.TempDir(), Probe: true, Log: slog.New(slog.NewTextHandler(&logged, nil))})
		if err == nil {
			_ = v.Close()
		}
		if (err == nil) != (c.text == "") || err != nil && (!strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", name, err, c.text)
		}
		if n := logged.count("synchronize both"); n != 0 && name != "a little late" || n != 1 && name == "a little late" {
			t.Errorf("%s: %d warnings about the clock; want one only for a clock that is a little late", name, n)
		}
		for info, err := range s.bucket.List(t.Context(), "probe/") {
			if err != nil {
				t.Fatal(err)
			}
			if !f.stays {
				t.Errorf("%s: %s was left behind", name, info.Key)
			}
			if err := s.bucket.Delete(t.Context(), info.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
}

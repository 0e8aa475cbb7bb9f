package bucketstore

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/blob/blobtest"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
	"github.com/symdepot/symdepot/symfile"
)

// counter counts the requests that reach the store. While it is down, they fail.
type counter struct {
	n    atomic.Int64
	down atomic.Bool
	next http.RoundTripper
}

func (c *counter) RoundTrip(req *http.Request) (*http.Response, error) {
	c.n.Add(1)
	if c.down.Load() {
		return nil, errors.New("no route to the store")
	}
	return c.next.RoundTrip(req)
}

// store is a Store with its index, as a depot uses them: what is put is
// committed, what is deleted is dropped and collected.
type store struct {
	*Store
	db       *index.DB
	requests *counter
	logged   logBuffer

	mu  sync.Mutex
	now time.Time
	txs map[blob.Ref][]int64
}

func (s *store) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *store) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// peer is a bucket of a running object store.
func peer(t *testing.T, p *buckettest.Peer, prefix string) (bucket.Bucket, *counter) {
	t.Helper()
	via := &counter{next: buckettest.Transport(nil)}
	b, err := bucket.OpenS3(bucket.S3Config{Bucket: p.Bucket, Prefix: prefix, Endpoint: p.Endpoint, Region: "us-east-1", AccessKey: p.User, SecretKey: p.Secret}, via)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b, via
}

func openStore(t *testing.T, p *buckettest.Peer, prefix string, cache int64) *store {
	t.Helper()
	b, via := peer(t, p, prefix)
	return openIn(t, b, via, cache)
}

func openIn(t *testing.T, b bucket.Bucket, via *counter, cache int64) *store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "index.db"), b, via, cache)
}

// openAt opens a store whose index is in a file or in PostgreSQL.
func openAt(t *testing.T, where string, b bucket.Bucket, via *counter, cache int64) *store {
	t.Helper()
	s := &store{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), txs: map[blob.Ref][]int64{}}
	dir := t.TempDir()
	var err error
	if s.db, err = index.Open(t.Context(), where, index.Options{Placed: true, Now: s.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	s.requests = via
	if s.Store, err = Open(t.Context(), Options{Bucket: b, Places: s.db.Places, Dir: filepath.Join(dir, "cache"), CacheBytes: cache, Now: s.clock,
		Log: s.logger()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (s *store) logger() *slog.Logger { return slog.New(slog.NewTextHandler(&s.logged, nil)) }

// another returns a second process with the same index and bucket.
func (s *store) another(t *testing.T, b bucket.Bucket) *store {
	t.Helper()
	o := &store{db: s.db, now: s.clock(), txs: map[blob.Ref][]int64{}}
	var err error
	if o.Store, err = Open(t.Context(), Options{Bucket: b, Places: s.db.Places, Dir: t.TempDir(), Now: o.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o
}

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// commit makes a content one of the depot.
func (s *store) commit(ctx context.Context, ref blob.Ref, size int64) error {
	var id debugid.ID
	copy(id.GUID[:], ref[:])
	id.Age = 1
	o := symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: hex.EncodeToString(ref[:8]) + ".pdb", DebugID: id, InfoAge: 1}
	n, err := s.db.Commit(ctx, record.Tx{Kind: "add", Entries: []record.Entry{{Object: o, Ref: ref, Size: size, Aliases: o.Aliases(), Path: o.Name}}}, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.txs[ref] = append(s.txs[ref], n)
	return err
}

func (s *store) Put(ctx context.Context, ref blob.Ref, size int64, r io.Reader) error {
	if err := s.Store.Put(ctx, ref, size, r); err != nil {
		return err
	}
	return s.commit(ctx, ref, size)
}

func (s *store) Delete(ctx context.Context, ref blob.Ref) error {
	s.mu.Lock()
	txs := s.txs[ref]
	delete(s.txs, ref)
	s.mu.Unlock()
	for _, n := range txs {
		if _, err := s.db.Trash.Remove(ctx, removals.Removal{Number: n, Reason: "rm"}); err != nil {
			return err
		}
	}
	if _, err := s.db.DropContents(ctx, []blob.Ref{ref}, s.clock(), nil); err != nil {
		return err
	}
	if err := s.Store.Delete(ctx, ref); err != nil {
		return err
	}
	s.pass(defaultHold + time.Second)
	_, err := s.Sweep(ctx, time.Hour)
	return err
}

// Open returns the file with the time of the index, as a depot does.
func (s *store) Open(ctx context.Context, ref blob.Ref) (blob.File, error) {
	f, err := s.Store.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	info, err := s.Stat(ctx, ref)
	return timed{f, info.ModTime}, err
}

type timed struct {
	blob.File
	time time.Time
}

func (f timed) ModTime() time.Time { return f.time }

// List leaves out the objects of contents that the index does not have.
func (s *store) List(ctx context.Context) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for info, err := range s.Store.List(ctx) {
			if err == nil {
				_, added, perr := s.db.Places.Of(ctx, info.Ref)
				if perr != nil {
					continue
				}
				info.ModTime = added
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

func (s *store) Begin(ctx context.Context) (blob.Batch, error) {
	b, err := s.Store.Begin(ctx)
	return &committing{Batch: b, s: s, refs: map[blob.Ref]int64{}}, err
}

// committing is a batch whose contents are committed with it.
type committing struct {
	blob.Batch
	s     *store
	mu    sync.Mutex
	refs  map[blob.Ref]int64
	known []blob.Ref // of refs
}

func (c *committing) Put(ctx context.Context, size int64, r io.Reader) (blob.Ref, int64, error) {
	ref, n, err := c.Batch.Put(ctx, size, r)
	if err == nil {
		c.mu.Lock()
		c.refs[ref] = n
		c.mu.Unlock()
	}
	return ref, n, err
}

func (c *committing) Known(ctx context.Context, ref blob.Ref) bool {
	known := c.Batch.Known(ctx, ref)
	if info, err := c.s.Stat(ctx, ref); known && err == nil {
		c.mu.Lock()
		c.refs[ref] = info.Size
		c.known = append(c.known, ref)
		c.mu.Unlock()
	}
	return known
}

func (c *committing) Commit(ctx context.Context) error {
	if err := c.Batch.Commit(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A depot commits all of them at once. Only the known ones can be missing, so
	// that they come first: nothing is committed if one is.
	refs := append(slices.Clone(c.known), slices.Collect(maps.Keys(c.refs))...)
	done := map[blob.Ref]bool{}
	for _, ref := range refs {
		if done[ref] {
			continue
		}
		done[ref] = true
		if err := c.s.commit(ctx, ref, c.refs[ref]); err != nil {
			if errors.Is(err, record.ErrNotUploaded) {
				return &blob.GoneError{Refs: []blob.Ref{ref}}
			}
			return err
		}
	}
	return nil
}

func TestStore(t *testing.T) {
	t.Parallel()
	p := buckettest.S3(t)
	blobtest.Run(t, func(t *testing.T) blob.Store { return openStore(t, p, t.Name(), 0) })
}

// TestDamage changes objects in the bucket.
func TestDamage(t *testing.T) {
	symtest.Sequential(t)
	t.Parallel()
	p := buckettest.S3(t)
	blobtest.RunDamage(t, func(t *testing.T) (blob.Store, blobtest.Damage) {
		s := openStore(t, p, t.Name(), 0)
		return s, damageOf(t, s)
	})
}

// others are the stores besides S3.
var others = map[string]func(t *testing.T) func(t *testing.T) *store{
	"Google": func(t *testing.T) func(t *testing.T) *store {
		p := buckettest.GCS(t)
		return func(t *testing.T) *store {
			via := &counter{next: buckettest.Transport(nil)}
			b, err := bucket.OpenGCS(bucket.GCSConfig{Bucket: p.Bucket, Endpoint: p.Endpoint, Token: p.Secret, Prefix: prefixOf(t)}, via)
			if err != nil {
				t.Fatal(err)
			}
			return openIn(t, b, via, 0)
		}
	},
	"Azure": func(t *testing.T) func(t *testing.T) *store {
		p := buckettest.Azure(t)
		return func(t *testing.T) *store {
			via := &counter{next: buckettest.Transport(nil)}
			b, err := bucket.OpenAzure(bucket.AzureConfig{Account: p.User, Container: p.Bucket, Endpoint: p.Endpoint, AccountKey: p.Secret, Prefix: prefixOf(t)}, via)
			if err != nil {
				t.Fatal(err)
			}
			return openIn(t, b, via, 0)
		}
	},
}

func prefixOf(t *testing.T) string { return strings.NewReplacer(" ", "-", "#", "-").Replace(t.Name()) }

// TestOtherStores runs the suites with the other stores: whole with
// SYMDEPOT_TORTURE, otherwise the short damage suite.
func TestOtherStores(t *testing.T) {
	symtest.Sequential(t)
	for name, start := range others {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opened := start(t)
			whole := os.Getenv("SYMDEPOT_TORTURE") != ""
			t.Run("store", func(t *testing.T) {
				if whole {
					blobtest.Run(t, func(t *testing.T) blob.Store { return opened(t) })
					return
				}
				blobtest.RunShort(t, func(t *testing.T) blob.Store { return opened(t) })
			})
			t.Run("damage", func(t *testing.T) {
				run := blobtest.RunDamageShort
				if whole {
					run = blobtest.RunDamage
				}
				run(t, func(t *testing.T) (blob.Store, blobtest.Damage) {
					s := opened(t)
					return s, damageOf(t, s)
				})
			})
		})
	}
}

// TestRequests counts the requests to the store: none for a miss and for a
// content in the local cache, one for any other, also for many readers at once.
func TestRequests(t *testing.T) {
	t.Parallel()
	s := openStore(t, buckettest.S3(t), "p", 0)
	ctx := t.Context()
	during := func(what string, want int64, do func()) {
		t.Helper()
		before := s.requests.n.Load()
		do()
		if n := s.requests.n.Load() - before; n != want {
			t.Errorf("%s: %d requests to the store, want %d", what, n, want)
		}
	}
	small, large := blobtest.Content(1, 100_000), blobtest.Content(2, 9<<20)
	during("two new contents", 2, func() {
		for _, c := range [][]byte{small, large} {
			if err := s.Put(ctx, blob.Sum(c), int64(len(c)), bytes.NewReader(c)); err != nil {
				t.Fatal(err)
			}
		}
	})
	during("known contents", 0, func() {
		b, err := s.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.Put(ctx, -1, bytes.NewReader(large)); err != nil || !b.Known(ctx, blob.Sum(small)) {
			t.Errorf("put again: %v", err)
		}
		if err := b.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	})
	during("a miss", 0, func() {
		if _, err := s.Open(ctx, blob.Sum([]byte("missing"))); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open of a missing content: %v, want the error %v", err, fs.ErrNotExist)
		}
	})
	read := func(c []byte) {
		t.Helper()
		f, err := s.Open(ctx, blob.Sum(c))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if b, err := io.ReadAll(f); err != nil || !bytes.Equal(b, c) {
			t.Errorf("read %d of %d bytes, %v, want all", len(b), len(c), err)
		}
	}
	for _, c := range [][]byte{small, large} {
		during("16 readers of a content outside the cache", 1, func() {
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() { read(c) })
			}
			wg.Wait()
		})
		during("a content in the cache", 0, func() {
			read(c)
			f, err := s.OpenWhole(ctx, blob.Sum(c))
			if err != nil || blob.OSFile(f) == nil {
				t.Fatalf("a content in the cache is no file: %v", err)
			}
			_ = f.Close()
		})
	}
}

// TestEviction keeps the local cache within its limit, the most recently used
// contents in it, and open files readable.
func TestEviction(t *testing.T) {
	t.Parallel()
	s := openStore(t, buckettest.S3(t), "p", 250_000)
	ctx := t.Context()
	open := func(seed uint64) blob.File {
		t.Helper()
		f, err := s.Open(ctx, blob.Sum(blobtest.Content(seed, 100_000)))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for seed := range uint64(4) {
		c := blobtest.Content(seed, 100_000)
		if err := s.Put(ctx, blob.Sum(c), int64(len(c)), bytes.NewReader(c)); err != nil {
			t.Fatal(err)
		}
	}
	kept := open(0)
	defer kept.Close()
	for _, seed := range []uint64{1, 0, 2, 3} {
		_ = open(seed).Close()
		s.background.Wait() // the download ends after its last reader has all bytes
	}
	if u := s.CacheUsage(); u.Files != 2 || u.Bytes != 200_000 {
		t.Errorf("the cache holds %+v, want two files of 100,000 bytes", u)
	}
	before := s.requests.n.Load()
	for _, seed := range []uint64{2, 3} {
		_ = open(seed).Close()
	}
	if n := s.requests.n.Load() - before; n != 0 {
		t.Errorf("%d requests for the two contents used last, want none", n)
	}
	if b, err := io.ReadAll(kept); err != nil || !bytes.Equal(b, blobtest.Content(0, 100_000)) {
		t.Errorf("an open file after its eviction: %d bytes, %v, want all", len(b), err)
	}
}

// TestClaim refuses buckets of other depots and buckets with foreign objects.
func TestClaim(t *testing.T) {
	t.Parallel()
	p := buckettest.S3(t)
	first := openStore(t, p, "a", 0)
	again := func(db *index.DB, prefix string) error {
		b, _ := peer(t, p, prefix)
		v, err := Open(t.Context(), Options{Bucket: b, Places: db.Places, Dir: t.TempDir()})
		if err == nil {
			_ = v.Close()
		}
		return err
	}
	if err := again(first.db, "a"); err != nil {
		t.Errorf("the same depot: %v", err)
	}
	other := openStore(t, p, "b", 0)
	if err := again(other.db, "a"); !errors.Is(err, ErrOtherDepot) {
		t.Errorf("the bucket of another depot: %v, want ErrOtherDepot", err)
	}
	b, _ := peer(t, p, "c")
	if _, err := b.Put(t.Context(), "c/00/x", 1, bytes.NewReader([]byte("x")), bucket.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := again(first.db, "c"); err == nil || errors.Is(err, ErrOtherDepot) {
		t.Errorf("a bucket with objects and without a marker: %v, want an error that names an object", err)
	}
}

// damageOf returns a function that changes the object of a content and removes
// it from the local cache. An unreadable object is one that is missing. A store
// learns of damage when it reads an object, so the second call verifies it.
func damageOf(t *testing.T, s *store) blobtest.Damage {
	calls := 0
	return func(tb testing.TB, ref blob.Ref, stored []byte, unreadable bool) {
		tb.Helper()
		ctx := t.Context()
		s.background.Wait()
		u, _, err := s.db.Places.Of(ctx, ref)
		if err == nil {
			err = s.bucket.Delete(ctx, keyOf(u))
		}
		if err == nil && !unreadable {
			_, err = s.bucket.Put(ctx, keyOf(u), int64(len(stored)), bytes.NewReader(stored), bucket.PutOptions{})
		}
		if err == nil {
			err = s.local.evict(ctx, ref)
		}
		if err != nil {
			tb.Fatal(err)
		}
		if calls++; calls > 1 {
			if err := s.Verify(ctx, ref, -1, nil); !errors.Is(err, blob.ErrDamaged) {
				tb.Errorf("verify: %v, want ErrDamaged", err)
			}
		}
	}
}

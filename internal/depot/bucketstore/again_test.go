package bucketstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/blob/blobtest"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// repeater is a batch that can upload its contents again.
type repeater interface {
	blob.Batch
	Again(ctx context.Context) error
}

// sleepPast lets all leases end and collects, as another process does.
func (s *store) sleepPast(t *testing.T) {
	t.Helper()
	s.pass(lease + expired + time.Minute)
	if _, err := s.places.Expire(t.Context(), s.clock().Add(-expired)); err != nil {
		t.Fatal(err)
	}
}

// TestAgain: a process stood still between its uploads and its commit, and another
// one has given the uploads up, or dropped contents that the batch had found. The
// batch uploads them again, to new places.
func TestAgain(t *testing.T) {
	t.Parallel()
	s := openStore(t, buckettest.S3(t), "p", 0)
	known := s.add(t, 500)[0]
	batch, err := s.Store.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := batch.(repeater)
	list := [][]byte{known, blobtest.Content(11, 1000), blobtest.Content(12, 2000)}
	for _, c := range list {
		if _, _, err := b.Put(t.Context(), int64(len(c)), bytes.NewReader(c)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Again(t.Context()); err != nil {
		t.Errorf("with leases: %v", err)
	}
	if n := s.objects(t); n != 3 {
		t.Errorf("%d objects, want 3: nothing had to be uploaded again", n)
	}
	for _, n := range s.txs[blob.Sum(known)] {
		if _, err := s.db.Trash.Remove(t.Context(), removals.Removal{Number: n, Reason: "rm"}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.db.DropContents(t.Context(), []blob.Ref{blob.Sum(known)}, s.clock(), nil); n != 1 || err != nil {
		t.Fatalf("dropped %d, %v; want 1 and no error", n, err)
	}
	s.sleepPast(t)
	for _, c := range list {
		if err := s.commit(t.Context(), blob.Sum(c), int64(len(c))); !errors.Is(err, record.ErrNotUploaded) {
			t.Fatalf("commit of %d bytes after the leases: %v, want ErrNotUploaded", len(c), err)
		}
	}
	if err := b.Again(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.objects(t); n != 6 {
		t.Errorf("%d objects, want 6: each was uploaded to a new place", n)
	}
	for _, c := range list {
		if err := s.commit(t.Context(), blob.Sum(c), int64(len(c))); err != nil {
			t.Errorf("commit of %d bytes: %v", len(c), err)
		}
		s.same(t, c)
	}
	s.pass(defaultHold + time.Hour)
	if n, err := s.Sweep(t.Context(), 0); n != 3 || err != nil {
		t.Errorf("deleted %d objects, %v; want those of the 3 old places", n, err)
	}
	for _, c := range list {
		s.same(t, c)
	}
}

// TestAgainTooLate: the objects are deleted already.
func TestAgainTooLate(t *testing.T) {
	t.Parallel()
	s := openStore(t, buckettest.S3(t), "p", 0)
	batch, err := s.Store.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := blobtest.Content(1, 1000)
	if _, _, err := batch.Put(t.Context(), -1, bytes.NewReader(c)); err != nil {
		t.Fatal(err)
	}
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.sleepPast(t)
	s.pass(defaultHold + time.Hour)
	if n, err := s.Sweep(t.Context(), 0); n != 1 || err != nil {
		t.Fatalf("deleted %d, %v; want 1 and no error", n, err)
	}
	if err := batch.(repeater).Again(t.Context()); err == nil || !strings.Contains(err.Error(), blob.Sum(c).String()) {
		t.Errorf("again: %v, want an error that names the content", err)
	}
}

// sleepy is a bucket during whose first upload the process stands still.
type sleepy struct {
	bucket.Bucket
	done  atomic.Bool
	sleep func()
	fail  error // of the first upload, which has not arrived
	keys  []string
}

func (s *sleepy) Put(ctx context.Context, key string, size int64, r io.Reader, opt bucket.PutOptions) (bucket.Info, error) {
	if s.fail != nil && strings.HasPrefix(key, "c/") && !s.done.Swap(true) {
		s.sleep()
		return bucket.Info{}, s.fail
	}
	info, err := s.Bucket.Put(ctx, key, size, r, opt)
	if strings.HasPrefix(key, "c/") {
		s.keys = append(s.keys, key)
		if s.sleep != nil && !s.done.Swap(true) {
			s.sleep()
		}
	}
	return info, err
}

// TestSleepWhileUploading: the lease ends between the first byte and the
// acknowledgement.
func TestSleepWhileUploading(t *testing.T) {
	t.Parallel()
	inner, via := peer(t, buckettest.S3(t), "p")
	b := &sleepy{Bucket: inner}
	s := openIn(t, b, via, 0)
	b.sleep = func() { s.sleepPast(t) }
	c := s.add(t, 3000)[0]
	s.same(t, c)
	if len(b.keys) != 2 || b.keys[0] == b.keys[1] {
		t.Errorf("uploads to %q, want two places", b.keys)
	}
	u, _, err := s.places.Of(t.Context(), blob.Sum(c))
	if err != nil || keyOf(u) != b.keys[1] {
		t.Errorf("the content is at %s, %v; want the second place", keyOf(u), err)
	}
}

// TestSleepBeforeRepeating: an upload is lost, and the process stands still until its
// place is forgotten. The place is not used: nobody would ever delete its object.
func TestSleepBeforeRepeating(t *testing.T) {
	t.Parallel()
	inner, via := peer(t, buckettest.S3(t), "p")
	b := &sleepy{Bucket: inner, fail: errors.New("the connection broke")}
	s := openIn(t, b, via, 0)
	b.sleep = func() {
		s.sleepPast(t)
		for _, d := range []time.Duration{defaultHold, resweep} {
			s.pass(d + time.Hour)
			if _, err := s.Sweep(t.Context(), 0); err != nil {
				t.Error(err)
			}
		}
	}
	c := s.add(t, 3000)[0]
	s.same(t, c)
	u, _, err := s.places.Of(t.Context(), blob.Sum(c))
	if err != nil || len(b.keys) != 1 || keyOf(u) != b.keys[0] {
		t.Errorf("the content is at %s, %v, uploads were made to %q; want one upload, to its place", keyOf(u), err, b.keys)
	}
}

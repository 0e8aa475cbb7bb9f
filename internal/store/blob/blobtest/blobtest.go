// Package blobtest tests implementations of [blob.Store] against its contract.
package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/symdepot/symdepot/internal/store/blob"
)

// Content returns n pseudo-random bytes that depend only on the seed and n.
func Content(seed uint64, n int) []byte {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
	return b
}

// Refs lists the refs of all blobs in a store, and fails the test if they are
// out of order.
func Refs(t testing.TB, s blob.Store) []blob.Ref {
	t.Helper()
	var refs []blob.Ref
	for info, err := range s.List(context.Background()) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if n := len(refs); n > 0 && bytes.Compare(refs[n-1][:], info.Ref[:]) >= 0 {
			t.Errorf("list: %s after %s", info.Ref, refs[n-1])
		}
		refs = append(refs, info.Ref)
	}
	return refs
}

// Check fails the test if a blob does not match its ref. It returns the number
// of blobs.
func Check(t testing.TB, s blob.Store) int {
	t.Helper()
	refs := Refs(t, s)
	for _, ref := range refs {
		f, err := s.Open(context.Background(), ref)
		if err != nil {
			t.Errorf("a listed blob cannot be opened: %v", err)
			continue
		}
		hash := sha256.New()
		n, err := io.Copy(hash, f)
		if got := blob.Ref(hash.Sum(nil)); err != nil || got != ref || n != f.Size() {
			t.Errorf("blob %s of %d bytes: read %d of hash %s, %v", ref, f.Size(), n, got, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	return len(refs)
}

// put stores a content and returns its ref.
func put(t *testing.T, s blob.Store, content []byte) blob.Ref {
	t.Helper()
	ref := blob.Sum(content)
	if err := s.Put(t.Context(), ref, int64(len(content)), bytes.NewReader(content)); err != nil {
		t.Fatalf("put %d bytes: %v", len(content), err)
	}
	return ref
}

// holds fails the test unless the store has the content.
func holds(t *testing.T, s blob.Store, content []byte) {
	t.Helper()
	ref := blob.Sum(content)
	info, err := s.Stat(t.Context(), ref)
	if err != nil || info.Ref != ref || info.Size != int64(len(content)) || info.ModTime.IsZero() {
		t.Errorf("stat of %d bytes: %+v, %v", len(content), info, err)
	}
	f, err := s.Open(t.Context(), ref)
	if err != nil {
		t.Fatalf("open %d bytes: %v", len(content), err)
	}
	defer func() { _ = f.Close() }()
	if f.Size() != int64(len(content)) || !f.ModTime().Equal(info.ModTime) {
		t.Errorf("file has size %d, time %v; want %d, %v", f.Size(), f.ModTime(), len(content), info.ModTime)
	}
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("read %d bytes, %v; they differ from the %d put", len(got), err, len(content))
	}
	half := len(content) / 2
	if pos, err := f.Seek(int64(half), io.SeekStart); err != nil || pos != int64(half) {
		t.Errorf("seek: %d, %v", pos, err)
	}
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, content[half:]) {
		t.Errorf("after seek: read %d bytes, %v", len(got), err)
	}
	part := make([]byte, len(content)-half)
	if n, err := f.ReadAt(part, int64(half)); n != len(part) || err != nil && err != io.EOF || !bytes.Equal(part, content[half:]) {
		t.Errorf("read at %d: %d bytes, %v", half, n, err)
	}
}

// lacks fails the test if the store has the content.
func lacks(t *testing.T, s blob.Store, ref blob.Ref) {
	t.Helper()
	if _, err := s.Stat(t.Context(), ref); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat of a missing blob: error %v, want fs.ErrNotExist", err)
	}
	if f, err := s.Open(t.Context(), ref); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of a missing blob: %v, error %v, want fs.ErrNotExist", f, err)
	}
}

// empty fails the test unless the store is empty.
func empty(t *testing.T, s blob.Store) {
	t.Helper()
	if refs := Refs(t, s); len(refs) > 0 {
		t.Errorf("the store holds %v", refs)
	}
}

// sizes are at and around the thresholds of implementations.
var sizes = []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 5 << 20}

// Run runs the tests. open returns a new, empty store.
func Run(t *testing.T, open func(t *testing.T) blob.Store) { run(t, nil, open) }

// RunShort is Run with the tests that depend most on how a store writes and
// deletes.
func RunShort(t *testing.T, open func(t *testing.T) blob.Store) {
	run(t, []string{"RoundTrip", "Delete", "BatchCommit", "BatchKnown"}, open)
}

// run runs the named tests, or all if names is nil.
func run(t *testing.T, names []string, open func(t *testing.T) blob.Store) {
	tests := []struct {
		name string
		run  func(*testing.T, blob.Store)
	}{
		{"RoundTrip", testRoundTrip},
		{"Rejected", testRejected},
		{"PutAgain", testPutAgain},
		{"Concurrent", testConcurrent},
		{"Delete", testDelete},
		{"List", testList},
		{"Cancelled", testCancelled},
	}
	for _, test := range tests {
		if names != nil && !slices.Contains(names, test.name) {
			continue
		}
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
	batches := []struct {
		name string
		run  func(*testing.T, blob.Store, func(*testing.T) blob.Batch)
	}{
		{"BatchCommit", testBatchCommit},
		{"BatchAbort", testBatchAbort},
		{"BatchRejected", testBatchRejected},
		{"BatchKnown", testBatchKnown},
		{"BatchDeleted", testBatchDeleted},
		{"BatchConcurrent", testBatchConcurrent},
		{"BatchMany", testBatchMany},
		{"BatchEnded", testBatchEnded},
	}
	for _, test := range batches {
		if names != nil && !slices.Contains(names, test.name) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			s := open(t)
			batcher, ok := s.(blob.Batcher)
			if !ok {
				t.Skip("the store has no batches")
			}
			test.run(t, s, func(t *testing.T) blob.Batch {
				b, err := batcher.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(b.Abort)
				return b
			})
		})
	}
}

func testRoundTrip(t *testing.T, s blob.Store) {
	empty(t, s)
	for i, n := range sizes {
		content := Content(uint64(i), n)
		lacks(t, s, blob.Sum(content))
		put(t, s, content)
		holds(t, s, content)
		// A reader with short reads that returns io.EOF together with the last
		// bytes.
		content = Content(uint64(100+i), min(n, 64<<10+1))
		r := iotest.DataErrReader(iotest.HalfReader(bytes.NewReader(content)))
		if err := s.Put(t.Context(), blob.Sum(content), int64(len(content)), r); err != nil {
			t.Error(err)
		}
		holds(t, s, content)
	}
	if n := Check(t, s); n != 2*len(sizes)-1 { // the empty content is the same for both seeds
		t.Errorf("%d blobs", n)
	}
}

var errReader = errors.New("the reader fails")

func testRejected(t *testing.T, s blob.Store) {
	for i, n := range sizes {
		content := Content(uint64(i), n)
		ref, size := blob.Sum(content), int64(n)
		tests := []struct {
			name string
			ref  blob.Ref
			size int64
			r    io.Reader
			want error
		}{
			{"wrong hash", blob.Sum([]byte("other")), size, bytes.NewReader(content), blob.ErrMismatch},
			{"short", ref, size + 1, bytes.NewReader(content), blob.ErrMismatch},
			{"long", ref, size, io.MultiReader(bytes.NewReader(content), bytes.NewReader([]byte{1})), blob.ErrMismatch},
			{"very long", ref, size, io.MultiReader(bytes.NewReader(content), bytes.NewReader(make([]byte, 1<<20))), blob.ErrMismatch},
			{"negative", ref, -1, bytes.NewReader(content), blob.ErrMismatch},
			{"error midway", ref, size, io.MultiReader(bytes.NewReader(content[:n/2]), iotest.ErrReader(errReader)), errReader},
			{"error at the end", ref, size, io.MultiReader(bytes.NewReader(content), iotest.ErrReader(errReader)), errReader},
			{"cut short", ref, size, io.MultiReader(bytes.NewReader(content[:n/2]), iotest.ErrReader(io.ErrUnexpectedEOF)), io.ErrUnexpectedEOF},
		}
		for _, test := range tests {
			if err := s.Put(t.Context(), test.ref, test.size, test.r); !errors.Is(err, test.want) {
				t.Errorf("%d bytes, %s: %v, want %v", n, test.name, err, test.want)
			}
			lacks(t, s, test.ref)
		}
	}
	empty(t, s)
}

func testPutAgain(t *testing.T, s blob.Store) {
	content := Content(1, 100000)
	ref := put(t, s, content)
	before, err := s.Stat(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, content)
	holds(t, s, content)
	after, err := s.Stat(t.Context(), ref)
	if err != nil || after.ModTime.Before(before.ModTime) {
		t.Errorf("time was %v and is %v, %v", before.ModTime, after.ModTime, err)
	}
	if n := Check(t, s); n != 1 {
		t.Errorf("%d blobs", n)
	}
}

func testConcurrent(t *testing.T, s blob.Store) {
	content := Content(1, 1<<20)
	ref := blob.Sum(content)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := s.Put(t.Context(), ref, int64(len(content)), bytes.NewReader(content)); err != nil {
				t.Error(err)
			}
			if _, err := s.Stat(t.Context(), ref); err != nil {
				t.Errorf("after put: %v", err)
			}
		})
	}
	wg.Wait()
	holds(t, s, content)
	if n := Check(t, s); n != 1 {
		t.Errorf("%d blobs", n)
	}
}

func testDelete(t *testing.T, s blob.Store) {
	content := Content(1, 100000)
	ref := put(t, s, content)
	f, err := s.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for range 2 {
		if err := s.Delete(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		lacks(t, s, ref)
		empty(t, s)
	}
	if runtime.GOOS != "windows" {
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, content) {
			t.Errorf("open file after delete: %d bytes, %v", len(got), err)
		}
	}
	if err := s.Delete(t.Context(), blob.Ref{}); err != nil {
		t.Errorf("delete of a blob that never existed: %v", err)
	}
	put(t, s, content)
	holds(t, s, content)
}

func testList(t *testing.T, s blob.Store) {
	var want []blob.Ref
	for i := range 50 {
		want = append(want, put(t, s, Content(uint64(i), i)))
	}
	slices.SortFunc(want, func(a, b blob.Ref) int { return bytes.Compare(a[:], b[:]) })
	if got := Refs(t, s); !slices.Equal(got, want) {
		t.Errorf("listed %d of %d", len(got), len(want))
	}
	var n int
	for info, err := range s.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		stat, err := s.Stat(t.Context(), info.Ref)
		if err != nil || stat.Size != info.Size || !stat.ModTime.Equal(info.ModTime) {
			t.Errorf("listed as %+v, is %+v, %v", info, stat, err)
		}
		if err := s.Delete(t.Context(), info.Ref); err != nil {
			t.Error(err)
		}
		if n++; n == 10 {
			break
		}
	}
	if got := Refs(t, s); len(got) != len(want)-n {
		t.Errorf("%d left of %d after %d deletions while listing", len(got), len(want), n)
	}
}

// cancelReader cancels the context after the first read.
type cancelReader struct {
	io.Reader
	cancel context.CancelFunc
}

func (r cancelReader) Read(p []byte) (int, error) {
	defer r.cancel()
	return r.Reader.Read(p)
}

func testCancelled(t *testing.T, s blob.Store) {
	content := Content(1, 1<<20)
	ref := blob.Sum(content)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Put(ctx, ref, int64(len(content)), cancelReader{bytes.NewReader(content), cancel})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("put, cancelled midway: %v", err)
	}
	empty(t, s)
	put(t, s, content)
	if err := s.Put(ctx, ref, int64(len(content)), bytes.NewReader(content)); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if _, err := s.Open(ctx, ref); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
	if _, err := s.Stat(ctx, ref); !errors.Is(err, context.Canceled) {
		t.Errorf("stat: %v", err)
	}
	if err := s.Delete(ctx, ref); !errors.Is(err, context.Canceled) {
		t.Errorf("delete: %v", err)
	}
	for _, err := range s.List(ctx) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("list: %v", err)
		}
	}
	holds(t, s, content)
}

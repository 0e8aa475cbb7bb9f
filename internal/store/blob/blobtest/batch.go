package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/symdepot/symdepot/internal/store/blob"
)

// add puts a content into a batch.
func add(t *testing.T, b blob.Batch, content []byte, size int64) blob.Ref {
	t.Helper()
	ref, n, err := b.Put(t.Context(), size, bytes.NewReader(content))
	if err != nil || ref != blob.Sum(content) || n != int64(len(content)) {
		t.Errorf("put of %d bytes: %s, %d, %v", len(content), ref, n, err)
	}
	return ref
}

func commit(t *testing.T, b blob.Batch) {
	t.Helper()
	if err := b.Commit(t.Context()); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func testBatchCommit(t *testing.T, s blob.Store, begin func(*testing.T) blob.Batch) {
	b := begin(t)
	for i, n := range sizes {
		content := Content(uint64(i), n)
		if b.Has(t.Context(), blob.Sum(content)) {
			t.Errorf("%d bytes are in the batch before they are put", n)
		}
		// Add it three times: with unknown size, with known size, by its ref.
		ref := add(t, b, content, -1)
		add(t, b, content, int64(n))
		if !b.Has(t.Context(), ref) || !b.Known(t.Context(), ref) {
			t.Errorf("%d bytes are not in the batch that they are put in", n)
		}
	}
	commit(t, b)
	for i, n := range sizes {
		holds(t, s, Content(uint64(i), n))
	}
	if n := Check(t, s); n != len(sizes) {
		t.Errorf("%d blobs", n)
	}
	commit(t, begin(t)) // an empty batch
}

func testBatchAbort(t *testing.T, s blob.Store, begin func(*testing.T) blob.Batch) {
	old := put(t, s, []byte("old"))
	b := begin(t)
	ref := add(t, b, Content(1, 1<<20), -1)
	add(t, b, []byte("old"), -1)
	b.Abort()
	b.Abort()
	lacks(t, s, ref)
	if b.Has(t.Context(), ref) {
		t.Error("an aborted batch has its content")
	}
	if refs := Refs(t, s); len(refs) != 1 || refs[0] != old {
		t.Errorf("the store holds %v", refs)
	}
}

func testBatchRejected(t *testing.T, s blob.Store, begin func(*testing.T) blob.Batch) {
	b := begin(t)
	for i, n := range sizes {
		content := Content(uint64(i), n)
		size := int64(n)
		ctx, cancel := context.WithCancel(t.Context())
		tests := []struct {
			name string
			size int64
			r    io.Reader
			want error
		}{
			{"short", size + 1, bytes.NewReader(content), blob.ErrMismatch},
			{"long", size, io.MultiReader(bytes.NewReader(content), bytes.NewReader([]byte{1})), blob.ErrMismatch},
			{"error midway", size, io.MultiReader(bytes.NewReader(content[:n/2]), iotest.ErrReader(errReader)), errReader},
			{"error at the end", -1, io.MultiReader(bytes.NewReader(content), iotest.ErrReader(errReader)), errReader},
			{"cancelled", -1, cancelReader{iotest.HalfReader(bytes.NewReader(content)), cancel}, context.Canceled},
		}
		for _, test := range tests {
			if test.want == context.Canceled && n == 0 {
				continue // the first read is the end
			}
			if ref, _, err := b.Put(ctx, test.size, test.r); !errors.Is(err, test.want) || ref != (blob.Ref{}) {
				t.Errorf("%d bytes, %s: %s, %v, want %v", n, test.name, ref, err, test.want)
			}
			if b.Known(t.Context(), blob.Sum(content)) {
				t.Errorf("%d bytes, %s: in the batch after the error", n, test.name)
			}
		}
		cancel()
	}
	add(t, b, []byte("good"), -1) // the batch is still usable
	commit(t, b)
	if refs := Refs(t, s); len(refs) != 1 || refs[0] != blob.Sum([]byte("good")) {
		t.Errorf("the store holds %v", refs)
	}
}

func testBatchKnown(t *testing.T, s blob.Store, begin func(*testing.T) blob.Batch) {
	content := Content(1, 1<<20)
	ref := put(t, s, content)
	b := begin(t)
	if !b.Has(t.Context(), ref) || !b.Known(t.Context(), ref) {
		t.Error("a blob of the store is not known")
	}
	other := blob.Sum([]byte("missing"))
	if b.Has(t.Context(), other) || b.Known(t.Context(), other) {
		t.Error("a missing blob is known")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b.Known(ctx, ref) {
		t.Error("known with a cancelled context")
	}
	add(t, b, content, -1)
	commit(t, b)
	holds(t, s, content)
	if n := Check(t, s); n != 1 {
		t.Errorf("%d blobs", n)
	}
}

// testBatchDeleted deletes a blob between Known and Commit, as the collector
// may.
func testBatchDeleted(t *testing.T, s blob.Store, begin func(*testing.T) blob.Batch) {
	content := Content(1, 1000)
	ref := put(t, s, content)
	b := begin(t)
	if !b.Known(t.Context(), ref) {
		t.Error("a blob of the store is not known")
	}
	add(t, b, []byte("new"), -1)
	if err := s.Delete(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if b.Has(t.Context(), ref) {
		t.Error("the batch has a deleted blob")
	}
	err := b.Commit(t.Context())
	if gone, ok := errors.AsType[*blob.GoneError](err); !ok || len(gone.Refs) != 1 || gone.Refs[0] != ref || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("commit: %v, want that %s is gone", err, ref)
	}
	empty(t, s)
}

func testBatchConcurrent(t *testing.T, s blob.Store, begin func(*testing.T) blob.Batch) {
	b := begin(t)
	const distinct = 10
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range distinct {
				content := Content(uint64((i+j)%distinct), 300000)
				if ref, _, err := b.Put(t.Context(), -1, bytes.NewReader(content)); err != nil || !b.Known(t.Context(), ref) {
					t.Errorf("put: %v", err)
				}
			}
		})
	}
	wg.Wait()
	// A second batch adds some of the same contents at the same time.
	other := begin(t)
	add(t, other, Content(0, 300000), -1)
	add(t, other, Content(distinct, 300000), -1)
	commit(t, other)
	commit(t, b)
	if n := Check(t, s); n != distinct+1 {
		t.Errorf("%d blobs, want %d", n, distinct+1)
	}
}

// testBatchMany adds more contents than a batch keeps open files for.
func testBatchMany(t *testing.T, s blob.Store, begin func(*testing.T) blob.Batch) {
	const n = 300
	for range 2 { // all new, then all known
		b := begin(t)
		for i := range n {
			add(t, b, Content(uint64(i), 100+i), -1)
		}
		commit(t, b)
		if got := Check(t, s); got != n {
			t.Errorf("%d blobs, want %d", got, n)
		}
	}
}

func testBatchEnded(t *testing.T, s blob.Store, begin func(*testing.T) blob.Batch) {
	ends := map[string]func(blob.Batch){
		"commit": func(b blob.Batch) { commit(t, b) },
		"abort":  func(b blob.Batch) { b.Abort() },
		"cancelled commit": func(b blob.Batch) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := b.Commit(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("commit: %v", err)
			}
		},
	}
	for name, end := range ends {
		b := begin(t)
		end(b)
		if _, _, err := b.Put(t.Context(), -1, bytes.NewReader([]byte("late"))); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("put after %s: %v", name, err)
		}
		if err := b.Commit(t.Context()); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("commit after %s: %v", name, err)
		}
		b.Abort()
	}
	empty(t, s)
}

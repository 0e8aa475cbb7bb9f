package bucket

import (
	"context"
	"errors"
	"io"
	"sync"
)

// readerAt returns r if it can read at any offset, is at its start and has exactly
// size bytes; otherwise nil.
func readerAt(r io.Reader, size int64) io.ReaderAt {
	s, ok := r.(interface {
		io.ReaderAt
		io.Seeker
		Size() int64
	})
	if !ok || s.Size() != size {
		return nil
	}
	if off, err := s.Seek(0, io.SeekCurrent); err != nil || off != 0 {
		return nil
	}
	return s
}

// parallelParts is the number of parts of one object that are sent at once.
const parallelParts = 4

// inParts calls send for all parts of a content, numbered from 0. Several are
// sent at once if at is not nil; otherwise r yields them one after the other.
// The error is that of the first part that failed.
func inParts(
	ctx context.Context, size, part int64, r io.Reader, at io.ReaderAt,
	send func(ctx context.Context, i int, n int64, body io.Reader) error,
) error {
	if at == nil {
		for i, off := 0, int64(0); off < size; i, off = i+1, off+part {
			n := min(part, size-off)
			if err := send(ctx, i, n, io.LimitReader(r, n)); err != nil {
				return err
			}
		}
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallelParts)
	for i, off := 0, int64(0); off < size; i, off = i+1, off+part {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			n := min(part, size-off)
			if err := send(ctx, i, n, io.NewSectionReader(at, off, n)); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// hashAt writes n bytes of a content to h, which hashes them.
func hashAt(h io.Writer, at io.ReaderAt, n int64) error {
	m, err := io.Copy(h, io.NewSectionReader(at, 0, n))
	if err == nil && m != n {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// DeleteAll removes objects, with few requests if the store can do that, and
// returns an error for each key, nil for those that are removed. A missing object
// is not an error.
func DeleteAll(ctx context.Context, b Bucket, keys []string) []error {
	if m, ok := b.(interface {
		deleteAll(ctx context.Context, keys []string) []error
	}); ok {
		return m.deleteAll(ctx, keys)
	}
	return deleteEach(ctx, b, keys)
}

// parallelDeletes is the number of concurrent requests of deleteEach.
const parallelDeletes = 8

func deleteEach(ctx context.Context, b Bucket, keys []string) []error {
	errs := make([]error, len(keys))
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallelDeletes)
	for i, k := range keys {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = b.Delete(ctx, k)
		})
	}
	wg.Wait()
	return errs
}

// errNoBulk means that a store has no request that removes many objects.
var errNoBulk = errors.New("the store removes objects one by one")

// maxBulk is the number of objects that one request removes in any store.
const maxBulk = 1000

func (f *front) deleteAll(ctx context.Context, keys []string) []error {
	bulk, ok := f.backend.(interface {
		// removeMany removes up to maxBulk objects. The first result has the error
		// for each key; the second one is errNoBulk or nil.
		removeMany(ctx context.Context, keys []string) ([]error, error)
	})
	var errs []error
	for len(keys) > 0 {
		some := keys[:min(len(keys), maxBulk)]
		keys = keys[len(some):]
		if !ok {
			errs = append(errs, deleteEach(ctx, f, some)...)
			continue
		}
		full := make([]string, len(some))
		for i, k := range some {
			full[i] = f.prefix + k
		}
		each, err := bulk.removeMany(ctx, full)
		if errors.Is(err, errNoBulk) {
			ok = false
			each = deleteEach(ctx, f, some)
		}
		for i, err := range each {
			if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Op == "") {
				each[i] = f.fail("delete", some[i], err)
			}
		}
		errs = append(errs, each...)
	}
	return errs
}

package vault

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/bucket"
	"github.com/symdepot/symdepot/internal/index"
)

const (
	// attempts is how often a transfer is tried.
	attempts = 4
	// firstPause is the pause before the second attempt; each further one is
	// four times as long.
	firstPause = 100 * time.Millisecond
)

// errSize means that an object has a different size than its content.
var errSize = errors.New("the object has a different size")

// again reports whether another attempt may succeed.
func again(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrInvalid) &&
		!errors.Is(err, bucket.ErrPrecondition) && !errors.Is(err, bucket.ErrCredentials) && !errors.Is(err, errSize)
}

// pause waits before the attempt with a number, counted from 1, at least until
// the time that the store names.
func pause(ctx context.Context, attempt int, err error) error {
	d := firstPause
	for range attempt - 1 {
		d *= 4
	}
	if be, ok := errors.AsType[*bucket.Error](err); ok && !be.Retry.IsZero() {
		d = min(max(d, time.Until(be.Retry)), time.Minute)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// get writes the object of a content to w. An interrupted transfer goes on where
// it stopped. The error is blob.ErrUnavailable if the store does not answer.
func (v *Vault) get(ctx context.Context, u index.Upload, w io.Writer) error {
	select {
	case v.downloads <- struct{}{}:
		defer func() { <-v.downloads }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var done int64
	var tag string
	for attempt := 1; ; attempt++ {
		away := v.isFailing() // clients do not wait for the pauses then
		n, err := v.getFrom(ctx, u, done, &tag, w)
		v.note(err)
		if done += n; done == u.Size && !errors.Is(err, errSize) {
			return nil // a connection that broke after the last byte did no harm
		}
		if _, ok := errors.AsType[*writeError](err); ok || away || attempt == attempts || !again(ctx, err) {
			return unavailable(err)
		}
		if err := pause(ctx, attempt, err); err != nil {
			return err
		}
	}
}

// writeError is the error of a writer, as opposed to that of the store.
type writeError struct{ error }

func (e *writeError) Unwrap() error { return e.error }

// failing makes the errors of a writer writeErrors.
type failing struct{ w io.Writer }

func (f failing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err != nil {
		err = &writeError{err}
	}
	return n, err
}

// stall is how long a download may wait for the next byte.
const stall = time.Minute

// errStalled ends such a download.
var errStalled = errors.New("no byte has arrived for a minute")

func (v *Vault) getFrom(ctx context.Context, u index.Upload, off int64, tag *string, w io.Writer) (n int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(stall, func() { cancel(errStalled) })
	defer watch.Stop()
	o, err := v.bucket.Get(ctx, keyOf(u), off, -1, *tag)
	if err != nil {
		return 0, err
	}
	defer o.Body.Close()
	*tag = o.ETag
	if o.Total >= 0 && o.Total != u.Size {
		return 0, fmt.Errorf("%w: %d bytes instead of %d", errSize, o.Total, u.Size)
	}
	n, err = io.Copy(failing{w}, alive{io.LimitReader(o.Body, u.Size-off+1), watch})
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errStalled) {
		err = cause
	}
	if err == nil && off+n != u.Size {
		err = fmt.Errorf("%w: %d bytes instead of %d", errSize, off+n, u.Size)
	}
	return n, err
}

// alive restarts a watchdog with every read.
type alive struct {
	r     io.Reader
	watch *time.Timer
}

func (a alive) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	a.watch.Reset(stall)
	return n, err
}

// sum hashes what is written to it.
type sum struct {
	hash hash.Hash
	pace func(n int) error
}

func newSum(pace func(n int) error) *sum { return &sum{sha256.New(), pace} }

func (s *sum) Write(p []byte) (int, error) {
	s.hash.Write(p)
	if s.pace != nil {
		if err := s.pace(len(p)); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (s *sum) ref() (ref blob.Ref) {
	s.hash.Sum(ref[:0])
	return ref
}

// newUpload returns an upload to a new place.
func newUpload(ref blob.Ref, size int64) index.Upload {
	return index.Upload{Place: rand.Text(), Content: index.Content{Ref: ref, Size: size}}
}

// put writes the object of an upload whose row exists. The error is
// blob.ErrUnavailable if the store does not answer.
func (v *Vault) put(ctx context.Context, u index.Upload, r io.ReaderAt) error {
	select {
	case v.uploads <- struct{}{}:
		defer func() { <-v.uploads }()
	case <-ctx.Done():
		return ctx.Err()
	}
	key := keyOf(u)
	for attempt := 1; ; attempt++ {
		// No other upload has this key, so repeating a lost one overwrites nothing
		// else.
		_, err := v.bucket.Put(ctx, key, u.Size, io.NewSectionReader(r, 0, u.Size), bucket.PutOptions{SHA256: u.Ref[:]})
		v.note(err)
		if err == nil || attempt == attempts || !again(ctx, err) {
			return unavailable(err)
		}
		if err := pause(ctx, attempt, err); err != nil {
			return err
		}
	}
}

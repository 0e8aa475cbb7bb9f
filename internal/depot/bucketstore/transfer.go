package bucketstore

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

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

const (
	// attempts is how often a transfer is tried.
	attempts = 4
	// firstPause is the pause before the second attempt; each further one is
	// four times as long.
	firstPause = 100 * time.Millisecond
)

// again reports whether another attempt may succeed.
func again(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil &&
		!errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrInvalid) &&
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
	return ctxio.Pause(ctx, d)
}

// get writes the object of a content to w. An interrupted transfer goes on where
// it stopped. The error is blob.ErrUnavailable if the store does not answer.
func (s *Store) get(ctx context.Context, u record.Upload, w io.Writer) error {
	select {
	case s.downloads <- struct{}{}:
		defer func() { <-s.downloads }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var done int64
	var tag string
	for attempt := 1; ; attempt++ {
		away := s.isFailing() // clients do not wait for the pauses then
		n, err := s.getFrom(ctx, u, done, &tag, w)
		s.note(err)
		if done += n; done == u.Size && !errors.Is(err, errSize) {
			s.downloaded.Add(1)
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

// failing makes the errors of a writer writeErrors.
type failing struct{ w io.Writer }

func (f failing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err != nil {
		err = &writeError{err}
	}
	return n, err
}

const (
	// firstByte is how long a download may wait for its first byte, firstByteAway the
	// same while the store does not answer: clients wait for it.
	firstByte     = 10 * time.Second
	firstByteAway = 3 * time.Second
	// stall is how long a download may wait for the next byte.
	stall = time.Minute
	// stallUp is how long the store may take none of an upload, and may then take to
	// acknowledge it; stallParts the same for an upload in many parts.
	stallUp    = 2 * time.Minute
	stallParts = 15 * time.Minute
	// small is how long a request without contents may take.
	small = 30 * time.Second
)

// Errors of stalled transfers.
var (
	errStalled = errors.New("no byte has arrived for a minute")
	errSilent  = errors.New("the store has not answered in time")
)

func (s *Store) getFrom(ctx context.Context, u record.Upload, off int64, tag *string, w io.Writer) (n int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first := firstByte
	if s.isFailing() {
		first = firstByteAway
	}
	answered := time.AfterFunc(first, func() { cancel(errSilent) })
	defer answered.Stop()
	o, err := s.bucket.Get(ctx, keyOf(u), off, -1, *tag)
	if err != nil {
		return 0, causeOf(ctx, err)
	}
	defer o.Body.Close()
	answered.Stop()
	watch := time.AfterFunc(stall, func() { cancel(errStalled) })
	defer watch.Stop()
	*tag = o.ETag
	if o.Total >= 0 && o.Total != u.Size {
		return 0, fmt.Errorf("%w: %d bytes instead of %d", errSize, o.Total, u.Size)
	}
	n, err = io.Copy(failing{w}, alive{io.LimitReader(o.Body, u.Size-off+1), watch})
	err = causeOf(ctx, err)
	if err == nil && off+n != u.Size {
		err = fmt.Errorf("%w: %d bytes instead of %d", errSize, off+n, u.Size)
	}
	return n, err
}

// causeOf returns why this package has ended a request, or its error.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errStalled) || errors.Is(cause, errSilent)) {
		return cause
	}
	return err
}

// watched is an upload's content that restarts a watchdog with every read.
type watched struct {
	*io.SectionReader
	watch *time.Timer
	limit time.Duration
}

func (w watched) Read(p []byte) (int, error) {
	w.watch.Reset(w.limit)
	return w.SectionReader.Read(p)
}

func (w watched) ReadAt(p []byte, off int64) (int, error) {
	w.watch.Reset(w.limit)
	return w.SectionReader.ReadAt(p, off)
}

// send writes an object once.
func (s *Store) send(ctx context.Context, key string, size int64, r io.ReaderAt, opt bucket.PutOptions) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := stallUp
	if size > 64<<20 {
		limit = stallParts
	}
	watch := time.AfterFunc(limit, func() { cancel(errSilent) })
	defer watch.Stop()
	_, err := s.bucket.Put(ctx, key, size, watched{io.NewSectionReader(r, 0, size), watch, limit}, opt)
	return causeOf(ctx, err)
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
func newUpload(ref blob.Ref, size int64) record.Upload {
	return record.Upload{Place: rand.Text(), Content: record.Content{Ref: ref, Size: size}}
}

// put writes the object of an upload whose row was made at the time begun. The error is
// blob.ErrUnavailable if the store does not answer, and record.ErrNotUploaded if the row
// does not exist any more.
func (s *Store) put(ctx context.Context, u record.Upload, begun time.Time, r io.ReaderAt) error {
	select {
	case s.uploads <- struct{}{}:
		defer func() { <-s.uploads }()
	case <-ctx.Done():
		return ctx.Err()
	}
	key := keyOf(u)
	for attempt := 1; ; attempt++ {
		if err := s.held(ctx, u, begun); err != nil {
			return err
		}
		// No other upload has this key, so repeating a lost one overwrites nothing
		// else.
		err := s.send(ctx, key, u.Size, r, bucket.PutOptions{SHA256: u.Ref[:]})
		s.note(err)
		if err == nil {
			s.uploaded.Add(1)
			s.seen.add(u.Place, s.now())
			return nil
		}
		if attempt == attempts || !again(ctx, err) {
			return unavailable(err)
		}
		if err := pause(ctx, attempt, err); err != nil {
			return err
		}
	}
}

// held returns record.ErrNotUploaded if the row of an upload does not exist any more. It
// asks only if the lease may have ended since the row was made, because this process
// stood still or could not renew it: an object that is sent after its place is forgotten
// would stay until the next audit. If the index does not answer, the upload goes on.
func (s *Store) held(ctx context.Context, u record.Upload, begun time.Time) error {
	if s.now().Sub(begun) < lease {
		return nil
	}
	if is, err := s.places.IsUpload(ctx, u.Place); err == nil && !is {
		return fmt.Errorf("upload %s: its lease has expired: %w", u.Place, record.ErrNotUploaded)
	}
	return nil
}

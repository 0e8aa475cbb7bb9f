package bucketstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// fill is a running download of a content into the local cache. Readers get the
// bytes as they arrive, except the last ones, which they get once the hash of
// all is right.
type fill struct {
	upload record.Upload
	added  time.Time
	spool  *blob.Spool

	mu       sync.Mutex
	changed  sync.Cond // of what follows
	released int64     // number of bytes that may be read
	readers  int       // including the download itself
	done     bool
	err      error

	kept chan struct{} // closed once the content is in the local cache, or cannot be
	lost error         // why it is not in the cache; set before kept is closed
}

// Open implements [blob.Store].
func (s *Store) Open(ctx context.Context, ref blob.Ref) (blob.File, error) {
	if f, err := s.local.open(ctx, ref); err == nil {
		return f, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := s.fill(ctx, ref, false)
	if errors.Is(err, errArrived) {
		if f, err := s.local.open(ctx, ref); err == nil {
			return f, nil
		}
		f, err = s.fill(ctx, ref, true)
	}
	if err != nil {
		return nil, err
	}
	if f.upload.Size <= blob.HashedAtOpen {
		return s.whole(ctx, f)
	}
	// The first bytes show that the store answers, before a status is sent.
	if err := f.wait(ctx, 0); err != nil {
		f.leave()
		return nil, err
	}
	return f.reader(s), nil
}

// OpenWhole implements [blob.Backend]. The file is not evicted while it is open.
func (s *Store) OpenWhole(ctx context.Context, ref blob.Ref) (blob.File, error) {
	unpin := s.local.pin(ref)
	f, err := s.openWhole(ctx, ref)
	if err != nil {
		unpin()
		return nil, err
	}
	return &pinned{cached: f, unpin: unpin}, nil
}

func (s *Store) openWhole(ctx context.Context, ref blob.Ref) (blob.File, error) {
	f, err := s.local.openWhole(ctx, ref)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	fl, err := s.fill(ctx, ref, true)
	if err != nil {
		return nil, err
	}
	defer fl.leave()
	if err := fl.wait(ctx, fl.upload.Size); err != nil {
		return nil, err
	}
	select {
	case <-fl.kept:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if fl.lost != nil {
		return nil, fmt.Errorf("keep blob %s in the local cache: %w", ref, fl.lost)
	}
	return s.local.openWhole(ctx, ref)
}

// pinned is a file of the local cache that is not evicted before it is closed.
type pinned struct {
	cached
	once  sync.Once
	unpin func()
}

type cached = blob.File

// File returns the operating system's file: see [blob.OSFile].
func (p *pinned) File() *os.File { return blob.OSFile(p.cached) }

func (p *pinned) Close() error {
	p.once.Do(p.unpin)
	return p.cached.Close()
}

// errArrived means that a download ended since the local cache was asked.
var errArrived = errors.New("the content is in the local cache")

// fill joins or starts the download of a content. The caller gives the result
// to reader or whole. If anyway is false and the content is in the cache meanwhile,
// the error is errArrived.
func (s *Store) fill(ctx context.Context, ref blob.Ref, anyway bool) (*fill, error) {
	u, added, err := s.places.Of(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", ref, err)
	}
	if err := s.suspected(u); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("blob %s: %w", ref, fs.ErrClosed)
	}
	if f := s.fills[u.Place]; f != nil {
		f.mu.Lock()
		f.readers++
		f.mu.Unlock()
		return f, nil
	}
	if !anyway && s.local.holds(ref) {
		return nil, errArrived
	}
	sp, err := s.local.disk.Spool()
	if err != nil {
		return nil, err
	}
	f := &fill{upload: u, added: added, spool: sp, readers: 2, kept: make(chan struct{})}
	f.changed.L = &f.mu
	s.fills[u.Place] = f
	// The download goes on if its first reader leaves: others may wait for it.
	s.background.Go(func() { s.run(s.life, f) })
	return f, nil
}

func (s *Store) run(ctx context.Context, f *fill) {
	ref := f.upload.Ref
	err := s.get(ctx, f.upload, f)
	switch {
	case err != nil && errors.Is(err, fs.ErrNotExist) && !errors.Is(err, bucket.ErrNoBucket):
		err = s.damaged(ref, f.upload.Place, missingObject)
	case errors.Is(err, errSize):
		err = s.damaged(ref, f.upload.Place, err.Error())
	case err == nil && f.spool.Sum() != ref:
		err = s.damaged(ref, f.upload.Place, fmt.Sprintf("its %d bytes have SHA-256 %s", f.upload.Size, f.spool.Sum()))
	case err != nil:
		err = fmt.Errorf("blob %s: %w", ref, err)
	}
	// The readers need not wait until the file is durable, and get the bytes also
	// if it cannot be kept.
	f.end(err)
	if err == nil {
		if _, f.lost = f.spool.Keep(ctx); f.lost != nil {
			s.log.Warn("cannot keep a content in the local cache", "error", f.lost)
		} else {
			s.local.used(ref, f.upload.Size)
		}
	} else {
		f.lost = err
		f.spool.Abort()
	}
	close(f.kept)
	s.mu.Lock()
	delete(s.fills, f.upload.Place)
	s.mu.Unlock()
	f.leave()
	if err := s.local.shrink(ctx); err != nil {
		s.log.Warn("cannot evict from the local cache", "error", err)
	}
}

// Write adds downloaded bytes.
func (f *fill) Write(p []byte) (int, error) {
	n, err := f.spool.Write(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.released = max(f.released, min(f.spool.Size(), f.upload.Size-blob.Withheld))
	f.changed.Broadcast()
	return n, err
}

func (f *fill) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done, f.err = true, err
	if err == nil {
		f.released = f.upload.Size
	}
	f.changed.Broadcast()
}

// leave ends the use of the spool by one reader.
func (f *fill) leave() {
	f.mu.Lock()
	f.readers--
	last := f.readers == 0
	f.mu.Unlock()
	if last {
		_ = f.spool.Close() // only read from
	}
}

// wait waits until the byte at off may be read or the download has ended, and
// returns its error.
func (f *fill) wait(ctx context.Context, off int64) error {
	stop := context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changed.Broadcast()
	})
	defer stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.done && f.released <= off && ctx.Err() == nil {
		f.changed.Wait()
	}
	switch {
	case f.released > off:
		return nil
	case f.done:
		return f.err
	}
	return ctx.Err()
}

// whole waits until a content is complete and opens it.
func (s *Store) whole(ctx context.Context, f *fill) (blob.File, error) {
	// No byte is released at the size: the wait ends with the download.
	if err := f.wait(ctx, f.upload.Size); err != nil {
		f.leave()
		return nil, err
	}
	return f.reader(s), nil
}

// reader returns a file that reads from the spool.
func (f *fill) reader(s *Store) blob.File {
	r := &reader{fill: f, store: s}
	r.SectionReader = io.NewSectionReader(spoolReader{f}, 0, f.upload.Size)
	return r
}

// spoolReader waits for the bytes that it reads.
type spoolReader struct{ fill *fill }

func (s spoolReader) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		if off+int64(n) >= s.fill.upload.Size {
			return n, io.EOF
		}
		if err := s.fill.wait(context.Background(), off+int64(n)); err != nil {
			return n, err
		}
		s.fill.mu.Lock()
		released := s.fill.released
		s.fill.mu.Unlock()
		m, err := s.fill.spool.ReadAt(p[n:min(int64(len(p)), released-off)], off+int64(n))
		n += m
		if err != nil && (err != io.EOF || m == 0) {
			return n, err
		}
	}
	return n, nil
}

// reader is an open content that may still be arriving. It gives no access to
// the operating system's file, which may be incomplete.
type reader struct {
	*io.SectionReader
	fill  *fill
	store *Store
	once  sync.Once
}

func (r *reader) Size() int64        { return r.fill.upload.Size }
func (r *reader) ModTime() time.Time { return r.fill.added }

// Reject implements [blob.File]: the copy in the local cache goes.
func (r *reader) Reject(what string) error {
	_ = r.store.local.evict(context.Background(), r.fill.upload.Ref)
	return r.store.damaged(r.fill.upload.Ref, r.fill.upload.Place, what)
}

func (r *reader) Close() error {
	err := os.ErrClosed
	r.once.Do(func() { r.fill.leave(); err = nil })
	return err
}

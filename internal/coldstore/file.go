package coldstore

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/shelf"
)

// full reports whether a content cannot be kept: the near cache, or its disk, is full.
func full(err error) bool { return errors.Is(err, shelf.ErrFull) || durable.IsNoSpace(err) }

// open opens a cold content. With whole it is restored first. If it cannot be kept, its
// hash is checked and it is read range by range.
func (s *Store) open(ctx context.Context, row index.Cold, whole bool) (blob.File, error) {
	if err := s.Complete(ctx, row); err != nil {
		return nil, err
	}
	f := &file{s: s, row: row, life: context.WithoutCancel(ctx)}
	key := row.Ref.String()
	if !whole && !s.near.Has(key) {
		return f, nil
	}
	r, err := f.reader()
	if err == nil && whole {
		_, err = r.Wait(ctx)
	}
	if full(err) {
		if err = nil; whole {
			err = s.Restore(ctx, row, io.Discard, nil)
		}
	}
	if err != nil {
		_ = f.Close() // opened for reading
		return nil, err
	}
	return f, nil
}

// file is an open cold content.
type file struct {
	s    *Store
	row  index.Cold
	life context.Context // for opening the parts: a read has no context of its own
	off  int64           // of Read; see blob.File

	mu    sync.Mutex
	near  *shelf.Reader // guarded by mu; nil before the first byte is read
	parts *source       // guarded by mu; for ranges
	asked bool          // guarded by mu
	over  bool          // guarded by mu; closed
}

// reader returns the file of the near cache, which may still be growing.
func (f *file) reader() (*shelf.Reader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return nil, os.ErrClosed
	}
	f.noteRead()
	if f.near != nil {
		return f.near, nil
	}
	r, err := f.s.near.Open(f.row.Ref.String(), f.restore, func() {})
	if err == nil {
		f.near = r
	}
	return r, err
}

// restore writes the content into a file of the near cache.
func (f *file) restore(ctx context.Context, w io.Writer) error {
	err := f.s.Restore(ctx, f.row, w, nil)
	if err == nil {
		f.s.restored.Add(1)
		f.s.restoredBytes.Add(uint64(f.row.Size))
	}
	return err
}

// noteRead counts the use of the content once. mu is held.
func (f *file) noteRead() {
	if !f.asked && f.s.opt.Asked != nil && f.life.Value(uncounted{}) == nil {
		f.s.opt.Asked(f.row.Ref)
	}
	f.asked = true
}

// alone reports whether a range shall be restored by itself, and the content not as a
// whole: the first range of a large content that does not begin at its start.
func (f *file) alone(off int64) bool {
	if f.row.Size < rangesFrom || off == 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.near != nil || f.parts != nil {
		return f.near == nil
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if _, again := f.s.ranged[f.row.Ref]; again {
		return false
	}
	if len(f.s.ranged) >= maxRanged {
		clear(f.s.ranged)
	}
	f.s.ranged[f.row.Ref] = struct{}{}
	return true
}

// ranges returns the reader of ranges; nil if too many are in use.
func (f *file) ranges() (*source, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return nil, os.ErrClosed
	}
	f.noteRead()
	if f.parts != nil {
		return f.parts, nil
	}
	select {
	case f.s.slots <- struct{}{}:
	default:
		return nil, nil
	}
	c, err := f.s.source(f.life, f.row)
	if err != nil {
		<-f.s.slots
		return nil, err
	}
	f.parts = c
	return c, nil
}

// ReadAt implements [io.ReaderAt].
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if off >= f.row.Size && off >= 0 {
		return 0, io.EOF
	}
	if f.alone(off) {
		if c, err := f.ranges(); c != nil || err != nil {
			return f.readRange(c, err, p, off)
		}
	}
	r, err := f.reader()
	if err == nil && r.Growing() && off > r.Written()+ahead {
		if c, err := f.ranges(); c != nil || err != nil {
			return f.readRange(c, err, p, off)
		}
	}
	if err == nil {
		var n int
		if n, err = r.ReadAt(p, off); !full(err) {
			return n, err
		}
	}
	if !full(err) {
		return 0, err
	}
	c, err := f.ranges() // the near cache or its disk is full: restored and not kept
	if c == nil && err == nil {
		err = errors.New("too many cold contents are being restored")
	}
	return f.readRange(c, err, p, off)
}

// readRange reads from the parts. Damage is that of the content.
func (f *file) readRange(c *source, err error, p []byte, off int64) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := c.ReadAt(p, off)
	if err != nil && err != io.EOF {
		err = f.s.failed(f.row, "its cold file", f.row.File.Ref, err)
	}
	return n, err
}

// Read implements [io.Reader].
func (f *file) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if left := f.row.Size - f.off; left <= 0 {
		return 0, io.EOF
	} else if int64(len(p)) > left {
		p = p[:left]
	}
	n, err := f.ReadAt(p, f.off)
	f.off += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Seek implements [io.Seeker].
func (f *file) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += f.off
	case io.SeekEnd:
		off += f.row.Size
	}
	if off < 0 {
		return 0, errors.New("negative position")
	}
	f.off = off
	return off, nil
}

// Size and ModTime implement [blob.File].
func (f *file) Size() int64        { return f.row.Size }
func (f *file) ModTime() time.Time { return f.row.Made }

// Reject implements [blob.File].
func (f *file) Reject(what string) error { return f.s.lose(f.row, what) }

// File returns the file of the near cache, if it is complete: its hash is right.
func (f *file) File() *os.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.near == nil {
		return nil
	}
	return f.near.OSFile()
}

// Close implements [io.Closer].
func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return os.ErrClosed
	}
	f.over = true
	if f.near != nil {
		_ = f.near.Close() // opened for reading
	}
	if f.parts != nil {
		f.parts.close()
		<-f.s.slots
	}
	return nil
}

package coldstore

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// unkept reports whether the near cache, or its disk, is the reason that a content cannot
// be restored: then it is restored without being kept.
func unkept(err error) bool {
	return err != nil && !errors.Is(err, blob.ErrDamaged) && !errors.Is(err, blob.ErrUnavailable) && !errors.Is(err, os.ErrClosed) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// open opens a cold content. With whole it is restored first. If it cannot be kept, its
// hash is checked and it is read range by range.
func (s *Store) open(ctx context.Context, row record.Cold, whole bool) (blob.File, error) {
	if err := s.Complete(ctx, row); err != nil {
		return nil, s.noticed(row, err)
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
	if unkept(err) && !errors.Is(err, errStale) {
		if err = nil; whole {
			err = s.hash(ctx, row)
		}
	}
	if err != nil {
		_ = f.Close() // opened for reading
		return nil, err
	}
	return f, nil
}

// hash restores and hashes a content, and keeps nothing.
func (s *Store) hash(ctx context.Context, row record.Cold) error {
	if err := s.lent.enter(ctx); err != nil {
		return err
	}
	defer s.lent.leave()
	return s.Restore(ctx, row, io.Discard, nil)
}

// parts is what a content is read from range by range.
type parts interface {
	io.ReaderAt
	close()
}

// plainParts is a content that has become plain.
type plainParts struct{ blob.File }

func (p plainParts) close() { _ = p.Close() } // opened for reading

// file is an open cold content.
type file struct {
	s    *Store
	row  record.Cold
	life context.Context // for opening the parts: a read has no context of its own
	off  int64           // of Read; see blob.File

	// Guarded by the mu of the lender. parts is nil while the file has no decoder, uses
	// are the reads that use it.
	parts parts
	uses  int
	over  bool // closed

	opening sync.Mutex // held while parts are opened
	mu      sync.Mutex
	near    *unpackcache.Reader // guarded by mu; nil before the first byte is read
	asked   bool                // guarded by mu
	lone    bool                // guarded by mu; see alone
	// ahead are bytes at aheadAt that were decoded with others: another reader may get the
	// decoder before the next read.
	ahead   []byte // guarded by mu
	aheadAt int64  // guarded by mu
}

// drop closes the parts. mu of the lender is held.
func (f *file) drop() {
	f.parts.close()
	f.parts = nil
}

// closed reports whether Close was called.
func (f *file) closed() bool {
	f.s.lent.mu.Lock()
	defer f.s.lent.mu.Unlock()
	return f.over
}

// reader returns the file of the near cache, which may still be growing.
func (f *file) reader() (*unpackcache.Reader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed() {
		return nil, os.ErrClosed
	}
	f.noteRead()
	if f.near != nil {
		return f.near, nil
	}
	if f.row.Size > f.s.most { // it would push out all others in vain
		return nil, unpackcache.ErrFull
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
	if f.near != nil || f.lone {
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
	f.lone = true
	return true
}

// borrow returns what ranges are read from, until the lender's done; nil if too many
// decoders are in use and wait is not set.
func (f *file) borrow(wait bool) (parts, error) {
	f.mu.Lock()
	f.noteRead()
	f.mu.Unlock()
	f.opening.Lock()
	defer f.opening.Unlock()
	l := f.s.lent
	if f.closed() {
		return nil, os.ErrClosed
	}
	if l.use(f) {
		return f.parts, nil
	}
	if !wait && !l.try() {
		return nil, nil
	}
	if wait {
		if err := l.enter(f.life); err != nil {
			return nil, err
		}
	}
	p, err := f.openParts()
	if err != nil {
		l.leave()
		return nil, err
	}
	l.give(f, p)
	return p, nil
}

// openParts opens the cold file with its base, or the content if it is plain by now.
func (f *file) openParts() (parts, error) {
	c, err := f.s.source(f.life, f.row)
	if err == nil {
		return c, nil
	}
	if errors.Is(err, errStale) {
		if p, perr := f.s.Backend.Open(f.life, f.row.Ref); perr == nil {
			return plainParts{p}, nil
		}
	}
	return nil, err
}

// ReadAt implements [io.ReaderAt].
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if off >= f.row.Size && off >= 0 {
		return 0, io.EOF
	}
	if f.alone(off) {
		if n, ok, err := f.readRange(p, off, false); ok {
			return n, err
		}
	}
	r, err := f.reader()
	if err == nil && r.Growing() && off > r.Written()+ahead {
		if n, ok, err := f.readRange(p, off, false); ok {
			return n, err
		}
	}
	if err == nil {
		var n int
		if n, err = r.ReadAt(p, off); err == io.EOF || !unkept(err) {
			return n, err
		}
	}
	if !unkept(err) {
		return 0, err
	}
	n, _, err := f.readRange(p, off, true)
	return n, err
}

// readRange restores a range by itself. It waits for a decoder if wait is set; otherwise
// ok says whether there was one. Damage is that of the content.
func (f *file) readRange(p []byte, off int64, wait bool) (n int, ok bool, err error) {
	if n, ok := f.fromAhead(p, off); ok {
		return n, true, nil
	}
	c, err := f.borrow(wait)
	if c == nil {
		return 0, err != nil, err
	}
	defer f.s.lent.done(f)
	if wait && len(p) < aheadBytes && off >= 0 {
		n, err = f.fillAhead(c, p, off)
	} else {
		n, err = c.ReadAt(p, off)
	}
	if err != nil && err != io.EOF {
		err = f.s.failed(f.row, "its cold file", f.row.File.Ref, err)
	}
	return n, true, err
}

// aheadBytes is how much a read without a near cache decodes at once, at most.
const aheadBytes = 256 << 10

// fromAhead reads bytes that were decoded before, if all of p are.
func (f *file) fromAhead(p []byte, off int64) (int, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at := off - f.aheadAt; at >= 0 && at+int64(len(p)) <= int64(len(f.ahead)) {
		return copy(p, f.ahead[at:]), true
	}
	return 0, false
}

// fillAhead reads bytes with those behind them.
func (f *file) fillAhead(c parts, p []byte, off int64) (int, error) {
	b := make([]byte, min(aheadBytes, f.row.Size-off))
	n, err := c.ReadAt(b, off)
	f.mu.Lock()
	f.ahead, f.aheadAt = b[:n], off
	f.mu.Unlock()
	k := copy(p, b[:n])
	if k == len(p) {
		return k, nil
	}
	if err == nil {
		err = io.EOF
	}
	return k, err
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
	if f.closed() {
		return os.ErrClosed
	}
	f.s.lent.end(f)
	if f.near != nil {
		_ = f.near.Close() // opened for reading
	}
	f.ahead = nil
	return nil
}

// Package coldstore lets a store of contents keep some of them cold: as differences
// from a similar content, in a file of package cold. Cold decides which contents become
// cold and makes them cold or plain again; Store reads them.
//
// Who opens a cold content gets its plain bytes. They are restored into a file of a
// shelf, the near cache, while they are read, and the last of them are returned only
// if the hash is right. Later readers get that file. Ranges of large contents are
// restored by themselves at first.
package coldstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/cold"
)

const (
	nearBytes  = 8 << 30   // of the near cache, by default
	nearFiles  = 1024      // in the near cache, without readers: each has an open file
	restoring  = 4         // contents restored at the same time
	rangesFrom = 64 << 20  // ranges of longer contents are restored by themselves at first
	ahead      = 4 << 20   // bytes that a reader waits for while a content is restored
	maxLost    = 4096      // damaged contents that are remembered
	lostFor    = time.Hour // until a damaged content is tried again
	maxRanged  = 1024      // contents remembered after a range of them was read
)

// Records are the records of cold contents: those of contents.Colds.
type Records interface {
	Of(ctx context.Context, ref blob.Ref) (record.Cold, error)
}

// StoreOptions of New.
type StoreOptions struct {
	Records Records
	// Dir is the folder of the near cache on this machine, NearBytes its size; zero is 8 GiB.
	Dir       string
	NearBytes int64
	Log       *slog.Logger
	Now       func() time.Time
	// Asked, if not nil, is called when a cold content is read. It must not block.
	Asked func(ref blob.Ref)
}

// Store is a store some of whose contents are cold. Its methods are those of the store
// below, which keeps the cold files too.
type Store struct {
	blob.Backend
	opt  StoreOptions
	near *unpackcache.Cache
	most int64 // length of the contents that fit into near
	lent *lender

	restored, restoredBytes, failures atomic.Uint64 // see Counts

	mu     sync.Mutex
	lost   map[blob.Ref]lost     // guarded by mu
	ranged map[blob.Ref]struct{} // guarded by mu; see file.alone
}

// lost is a cold content that could not be restored. It is tried again after a while,
// and at once when what it is made from has changed.
type lost struct {
	row   record.Cold
	what  string
	until time.Time
	state state
}

// state are the modification times of the blobs that a cold content can be read from: of its
// plain bytes, of its cold file, of the plain bytes of its base and of the cold file of its
// base. The time of a blob that is missing is 0.
type state [4]int64

func (s *Store) state(row record.Cold) (st state) {
	ctx := context.Background()
	stored := func(ref blob.Ref) int64 {
		if info, err := s.Backend.Stat(ctx, ref); err == nil {
			return info.ModTime.UnixNano()
		}
		return 0
	}
	st[0], st[1] = stored(row.Ref), stored(row.File.Ref)
	if row.Base != nil {
		st[2] = stored(row.Base.Ref)
		if key, err := s.opt.Records.Of(ctx, row.Base.Ref); err == nil {
			st[3] = stored(key.File.Ref)
		}
	}
	return st
}

// New returns the store over another one, which it closes.
func New(below blob.Backend, opt StoreOptions) *Store {
	keep := cmp.Or(opt.NearBytes, nearBytes)
	most := keep + keep/2
	return &Store{
		Backend: below, opt: opt, most: most,
		near: unpackcache.New(unpackcache.Options{
			Dir: opt.Dir, KeptBytes: keep, KeptFiles: nearFiles, HeldBytes: most, HeldFiles: nearFiles,
			AtOnce: restoring, Timeout: 6 * time.Hour,
		}),
		lent: newLender(),
		lost: map[blob.Ref]lost{}, ranged: map[blob.Ref]struct{}{},
	}
}

// Below returns the store that keeps the plain contents and the cold files.
func (s *Store) Below() blob.Backend { return s.Backend }

// NearBytes returns the bytes of the near cache.
func (s *Store) NearBytes() int64 { return s.near.Held() }

// Forget removes the restored bytes of a content from this machine.
func (s *Store) Forget(ref blob.Ref) { s.near.Forget(ref.String()) }

// Counts are what a store has done since it was opened.
type Counts struct {
	// Restored contents, with their plain bytes, were put into the near cache.
	Restored, RestoredBytes uint64
	// Failures are attempts to restore a content, or a range of it, that found damage.
	Failures uint64
}

// Counts returns what the store has done.
func (s *Store) Counts() Counts {
	return Counts{s.restored.Load(), s.restoredBytes.Load(), s.failures.Load()}
}

// uncounted is the key of a context whose reads are not counted.
type uncounted struct{}

// Uncounted returns a context in which opening a content is no use of it: StoreOptions.Asked
// is not called.
func Uncounted(ctx context.Context) context.Context {
	return context.WithValue(ctx, uncounted{}, true)
}

// Close implements [blob.Backend].
func (s *Store) Close() error {
	s.near.Close()
	return s.Backend.Close()
}

// record returns the record of a content that the store below does not have, or has
// damaged: err is its error. Any other error is returned as it is.
func (s *Store) record(ctx context.Context, ref blob.Ref, err error) (record.Cold, error) {
	if !errors.Is(err, fs.ErrNotExist) {
		return record.Cold{}, err
	}
	row, rerr := s.opt.Records.Of(ctx, ref)
	if errors.Is(rerr, fs.ErrNotExist) {
		return row, err
	}
	return row, rerr
}

// errStale means that a content has become plain, or was removed, since its record was
// read.
var errStale = fmt.Errorf("the content is not cold any more: %w", fs.ErrNotExist)

// either calls plain and, if the content is cold, chilled. A content that changes
// between the two is asked for again.
func either[T any](
	ctx context.Context, s *Store, ref blob.Ref, plain func() (T, error), chilled func(record.Cold) (T, error),
) (v T, err error) {
	for range 3 {
		if v, err = plain(); err == nil {
			return v, nil
		}
		row, rerr := s.record(ctx, ref, err)
		if errors.Is(rerr, fs.ErrNotExist) && !errors.Is(rerr, blob.ErrDamaged) {
			return plain()
		}
		if rerr != nil {
			return v, rerr
		}
		if v, err = chilled(row); !errors.Is(err, errStale) {
			return v, err
		}
	}
	return v, err
}

// Open implements [blob.Store]. A cold content of up to [blob.HashedAtOpen] bytes is
// restored before it returns.
func (s *Store) Open(ctx context.Context, ref blob.Ref) (blob.File, error) {
	return either(ctx, s, ref, func() (blob.File, error) { return s.Backend.Open(ctx, ref) }, func(row record.Cold) (blob.File, error) {
		return s.open(ctx, row, row.Size <= blob.HashedAtOpen)
	})
}

// OpenWhole implements [blob.Backend].
func (s *Store) OpenWhole(ctx context.Context, ref blob.Ref) (blob.File, error) {
	return either(ctx, s, ref, func() (blob.File, error) { return s.Backend.OpenWhole(ctx, ref) }, func(row record.Cold) (blob.File, error) {
		return s.open(ctx, row, true)
	})
}

// OpenBase is OpenWhole for a content that others are to be built from. It does not
// count as a read.
func (s *Store) OpenBase(ctx context.Context, ref blob.Ref) (blob.File, error) {
	return s.OpenWhole(Uncounted(ctx), ref)
}

// Stat implements [blob.Store].
func (s *Store) Stat(ctx context.Context, ref blob.Ref) (blob.Info, error) {
	return either(ctx, s, ref, func() (blob.Info, error) { return s.Backend.Stat(ctx, ref) }, func(row record.Cold) (blob.Info, error) {
		if err := s.Complete(ctx, row); err != nil {
			return blob.Info{}, err
		}
		return blob.Info{Ref: ref, Size: row.Size, ModTime: row.Made}, nil
	})
}

// Complete returns an error if a cold content cannot be restored, as far as that is
// known without reading: its cold file or its base is missing, or something is damaged.
func (s *Store) Complete(ctx context.Context, row record.Cold) error {
	if what := s.lostFor(row); what != "" {
		return &blob.DamageError{Ref: row.Ref, What: what}
	}
	if _, err := s.Backend.Stat(ctx, row.File.Ref); err != nil {
		return s.explain(row, "its cold file", row.File.Ref, err)
	}
	if row.Base == nil {
		return nil
	}
	plain := func() (blob.Info, error) { return s.Backend.Stat(ctx, row.Base.Ref) }
	_, err := either(ctx, s, row.Base.Ref, plain, func(key record.Cold) (blob.Info, error) {
		info, err := s.Backend.Stat(ctx, key.File.Ref)
		return info, s.changed(key, err)
	})
	return s.explain(row, "its base", row.Base.Ref, err)
}

// explain returns the error for a cold content that a part of it has: damage if the part
// does not exist.
func (s *Store) explain(row record.Cold, part string, ref blob.Ref, err error) error {
	if err = s.changed(row, err); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, errStale) {
		return err
	}
	what := "is missing"
	if d, ok := errors.AsType[*blob.DamageError](err); ok {
		what = "is damaged: " + d.What
	}
	return &blob.DamageError{Ref: row.Ref, What: fmt.Sprintf("%s %s %s", part, ref, what)}
}

// Verify implements [blob.Store]: it restores and hashes a cold content.
func (s *Store) Verify(ctx context.Context, ref blob.Ref, size int64, pace func(n int) error) error {
	plain := func() (struct{}, error) { return struct{}{}, s.Backend.Verify(ctx, ref, size, pace) }
	_, err := either(ctx, s, ref, plain, func(row record.Cold) (struct{}, error) {
		return struct{}{}, s.Restore(ctx, row, io.Discard, pace)
	})
	return err
}

// Suspect implements [blob.Store]. A cold content that can be restored is not suspect,
// even if its plain bytes were found damaged or missing.
func (s *Store) Suspect(ref blob.Ref) bool {
	if s.Backend.Suspect(ref) {
		row, err := s.opt.Records.Of(context.Background(), ref)
		return err != nil || s.Complete(context.Background(), row) != nil
	}
	l, ok := s.lostLately(ref)
	return ok && l.state[0] == 0 // else the plain bytes are stored
}

// lostFor returns why a content could not be restored lately, or "".
func (s *Store) lostFor(row record.Cold) string {
	if l, ok := s.lostLately(row.Ref); ok && l.row.File == row.File {
		return l.what
	}
	return ""
}

// lostLately returns what is remembered of a content that could not be restored. Nothing
// is after an hour, or when what it is made from has changed since.
func (s *Store) lostLately(ref blob.Ref) (lost, bool) {
	s.mu.Lock()
	l, ok := s.lost[ref]
	s.mu.Unlock()
	if left := l.until.Sub(s.opt.Now()); ok && (left <= 0 || left > lostFor || s.state(l.row) != l.state) { // a clock may be set back
		s.found(ref)
		return l, false
	}
	return l, ok
}

// lose remembers that a content cannot be restored, and returns the error.
func (s *Store) lose(row record.Cold, what string) error {
	s.failures.Add(1)
	l := lost{row, what, s.opt.Now().Add(lostFor), s.state(row)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lost) >= maxLost {
		clear(s.lost)
	}
	s.lost[row.Ref] = l
	return &blob.DamageError{Ref: row.Ref, What: what}
}

// noticed remembers that a content cannot be restored if that is what an error of Complete
// says, and returns the error.
func (s *Store) noticed(row record.Cold, err error) error {
	if d, ok := errors.AsType[*blob.DamageError](err); ok && s.lostFor(row) == "" {
		return s.lose(row, d.What)
	}
	return err
}

// found forgets that a content could not be restored.
func (s *Store) found(ref blob.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lost, ref)
}

// source is an open cold content: the cold file, the base, and a reader of both.
type source struct {
	*cold.Reader
	opened []io.Closer
}

func (c *source) close() {
	if c.Reader != nil {
		_ = c.Reader.Close() //nolint:staticcheck // of the reader, not of its parts // opened for reading
	}
	for _, o := range c.opened {
		_ = o.Close() // opened for reading
	}
}

// source opens the parts of a cold content. What is missing or damaged is the damage of
// the content.
func (s *Store) source(ctx context.Context, row record.Cold) (_ *source, err error) {
	c := &source{}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	var base io.ReaderAt
	if row.Base != nil {
		if base, err = s.base(ctx, c, row); err != nil {
			return nil, err
		}
	}
	f, err := s.Backend.Open(ctx, row.File.Ref)
	if err != nil {
		return nil, s.failed(row, "its cold file", row.File.Ref, err)
	}
	c.opened = append(c.opened, f)
	r, err := cold.Open(f, f.Size(), base)
	if err != nil {
		return nil, s.failed(row, "its cold file", row.File.Ref, err)
	}
	c.Reader = r
	h := r.Header()
	fits := h.Size == row.Size && h.Sum == row.Ref && (row.Base != nil) == (h.Form == cold.DeltaForm)
	if fits && row.Base != nil {
		fits = h.BaseSize == row.Base.Size && h.BaseSum == row.Base.Ref
	}
	if !fits {
		return nil, s.lose(row, fmt.Sprintf("its cold file %s holds another content, or has another base", row.File.Ref))
	}
	return c, nil
}

// base opens the base of a delta: the plain content, or its key. The base may change from
// one to the other meanwhile.
func (s *Store) base(ctx context.Context, c *source, row record.Cold) (io.ReaderAt, error) {
	ref := row.Base.Ref
	r, err := either(ctx, s, ref, func() (io.ReaderAt, error) {
		f, err := s.Backend.Open(ctx, ref)
		if err == nil {
			c.opened = append(c.opened, f)
		}
		return f, err
	}, func(key record.Cold) (io.ReaderAt, error) {
		f, err := s.Backend.Open(ctx, key.File.Ref)
		if err != nil {
			return nil, s.changed(key, err)
		}
		c.opened = append(c.opened, f)
		r, err := cold.Open(f, f.Size(), nil)
		if err != nil {
			return nil, err
		}
		c.opened = append(c.opened, r)
		if h := r.Header(); h.Sum != ref || h.Size != row.Base.Size {
			return nil, &blob.DamageError{Ref: key.File.Ref, What: "it holds another content"}
		}
		return r, nil
	})
	if err != nil {
		return nil, s.failed(row, "its base", ref, err)
	}
	return r, nil
}

// changed returns the error of opening a part of a cold content: errStale if the part does
// not exist because the content has changed since its record was read.
func (s *Store) changed(row record.Cold, err error) error {
	if errors.Is(err, fs.ErrNotExist) && s.stale(row) {
		return errStale
	}
	return err
}

// stale reports whether a record is not the present one any more. One whose Made is zero
// has not been stored yet: that there is none does not make it stale.
func (s *Store) stale(row record.Cold) bool {
	now, err := s.opt.Records.Of(context.Background(), row.Ref)
	return errors.Is(err, fs.ErrNotExist) && !row.Made.IsZero() || err == nil && now.File != row.File
}

// failed returns the error for a part of a cold content that cannot be used. Missing
// and damaged parts make the content damaged.
func (s *Store) failed(row record.Cold, part string, ref blob.Ref, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, cold.ErrDamaged) {
		if s.stale(row) {
			return errStale
		}
		what := err.Error()
		if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, blob.ErrDamaged) {
			what = "missing"
		}
		return s.lose(row, fmt.Sprintf("%s %s cannot be used: %s", part, ref, what))
	}
	if _, newer := errors.AsType[*cold.VersionError](err); newer {
		return s.lose(row, fmt.Sprintf("%s %s: %v", part, ref, err))
	}
	return fmt.Errorf("content %s: %s %s: %w", row.Ref, part, ref, err)
}

// Restore writes the plain bytes of a cold content to w. The last [blob.Withheld] of
// them are written only if the hash is right. pace is as for [blob.Store.Verify]. What
// is damaged is a [blob.DamageError].
func (s *Store) Restore(ctx context.Context, row record.Cold, w io.Writer, pace func(n int) error) error {
	c, err := s.source(ctx, row)
	if err != nil {
		return err
	}
	defer c.close()
	out := newWithheld(ctx, w, row.Size, pace)
	n, err := c.WriteTo(out)
	switch {
	case out.err != nil:
		return out.err // of w, of pace, or of ctx
	case (err != nil || n != row.Size || out.sum() != row.Ref) && s.stale(row):
		return errStale
	case errors.Is(err, cold.ErrDamaged) || errors.Is(err, fs.ErrNotExist):
		return s.lose(row, s.blame(ctx, row, err))
	case err != nil:
		return err
	case n != row.Size || out.sum() != row.Ref:
		return s.lose(row, s.blame(ctx, row, errors.New("the restored bytes have another hash")))
	}
	s.found(row.Ref)
	return out.release()
}

// blame says which part of a content is damaged: it hashes the cold file and the base.
func (s *Store) blame(ctx context.Context, row record.Cold, err error) string {
	parts := []struct {
		name string
		record.Content
	}{{"its cold file", row.File}}
	if row.Base != nil {
		parts = append(parts, struct {
			name string
			record.Content
		}{"its base", *row.Base})
		if key, err := s.opt.Records.Of(ctx, row.Base.Ref); err == nil && key.PlainSince.IsZero() {
			parts[1].name, parts[1].Content = "the key of its base", key.File
		}
	}
	for _, p := range parts {
		if verr := s.Backend.Verify(ctx, p.Ref, p.Size, nil); errors.Is(verr, fs.ErrNotExist) {
			return fmt.Sprintf("%s %s is damaged or missing", p.name, p.Ref)
		}
	}
	return err.Error()
}

// Put implements [blob.Store]. A cold content that is complete is not written.
func (s *Store) Put(ctx context.Context, ref blob.Ref, size int64, r io.Reader) error {
	if _, err := s.Backend.Stat(ctx, ref); errors.Is(err, fs.ErrNotExist) {
		if row, rerr := s.record(ctx, ref, err); rerr == nil && row.Size == size && s.Complete(ctx, row) == nil {
			return nil
		}
	}
	return s.Backend.Put(ctx, ref, size, r)
}

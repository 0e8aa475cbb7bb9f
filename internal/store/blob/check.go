package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/base/filestamp"
)

const (
	// HashedAtOpen is the largest size in bytes of a blob that Open hashes
	// before it returns. A larger blob is hashed while it is read for the first
	// time.
	HashedAtOpen = 4 << 20
	// Withheld is the number of bytes at the end of a larger blob that are
	// returned only after the hash of the whole blob has been checked.
	Withheld = 64 << 10

	// settle is the age from which a later change of a file certainly has a
	// different time. The clocks of file systems tick every few milliseconds.
	settle = 100 * time.Millisecond
	// maxGood and maxBad limit the remembered results, of about 100 bytes each.
	// Blobs without a result are hashed again.
	maxGood, maxBad = 1 << 18, 1 << 12
)

// ErrDamaged is wrapped by the errors for a blob whose stored bytes differ from
// the content of its Ref or cannot be read. Such an error also wraps
// [fs.ErrNotExist], because the content is not available.
var ErrDamaged = errors.New("the stored bytes are damaged")

// DamageError describes a damaged blob.
type DamageError struct {
	Ref  Ref
	What string // for users: how the stored bytes differ
}

// Error names the blob and the damage.
func (e *DamageError) Error() string { return fmt.Sprintf("blob %s is damaged: %s", e.Ref, e.What) }

// Is makes the error an [ErrDamaged] and an [fs.ErrNotExist].
func (e *DamageError) Is(target error) bool { return target == ErrDamaged || target == fs.ErrNotExist }

// deniedError says that the user of this process may not read a blob, or list the store: see
// [account.DeniedError]. It says nothing about the bytes, and is an [ErrUnavailable].
type deniedError struct {
	what string // "blob REF", or the store
	why  *account.DeniedError
}

func (e *deniedError) Error() string { return e.what + ": " + e.why.Error() }

// Is makes the error an [ErrUnavailable].
func (*deniedError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns what refuses, and the cure.
func (e *deniedError) Unwrap() error { return e.why }

// stamp identifies one state of a stored blob. It changes whenever the bytes
// change.
type stamp = filestamp.Stamp

// settled reports whether every later change gives a different stamp.
func settled(s stamp, now time.Time) bool {
	age := now.Sub(time.Unix(0, max(s.Written, s.Changed)))
	return age > settle || age < -settle
}

// stored is an open blob that has not been checked.
type stored interface {
	File
	stamp() (stamp, error)
}

// checks remembers the results of hashing, each with the blob's stamp. The zero
// value is empty.
type checks struct {
	now func() time.Time // nil: remember the results of unsettled stamps too

	mu      sync.Mutex
	good    map[Ref]stamp         // guarded by mu; the newer results
	older   map[Ref]stamp         // guarded by mu; good moves here when it is full
	bad     map[Ref]damage        // guarded by mu
	anyBad  atomic.Bool           // bad has had an entry
	running map[Ref]chan struct{} // guarded by mu; blobs being hashed; closed at the end
	inRead  map[Ref]bool          // guarded by mu; large blobs that a reader hashes while it reads
}

type damage struct {
	stamp stamp
	what  string
}

// result returns the remembered result for a blob with the stamp s. known is
// false if the blob must be hashed.
func (c *checks) result(ref Ref, s stamp) (known bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.bad[ref]; ok {
		if b.stamp == s {
			return true, &DamageError{ref, b.what}
		}
		delete(c.bad, ref) // the blob has been replaced
	}
	if g, ok := c.good[ref]; ok {
		return g == s, nil
	}
	if g, ok := c.older[ref]; ok && g == s {
		c.recordGood(ref, s)
		return true, nil
	}
	return false, nil
}

func (c *checks) recordGood(ref Ref, s stamp) {
	if len(c.good) >= maxGood/2 {
		c.good, c.older = nil, c.good
	}
	if c.good == nil {
		c.good = make(map[Ref]stamp)
	}
	c.good[ref] = s
}

// passed remembers that a blob is intact.
func (c *checks) passed(ref Ref, s stamp) {
	if c.now != nil && !settled(s, c.now()) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.bad, ref)
	c.recordGood(ref, s)
}

// failed remembers that a blob is damaged.
func (c *checks) failed(ref Ref, s stamp, what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bad == nil {
		c.bad = make(map[Ref]damage)
	}
	for r := range c.bad {
		if len(c.bad) < maxBad {
			break
		}
		delete(c.bad, r)
	}
	delete(c.good, ref)
	delete(c.older, ref)
	c.bad[ref] = damage{s, what}
	c.anyBad.Store(true)
	return &DamageError{ref, what}
}

// suspect reports whether a blob was found damaged, with any stamp.
func (c *checks) suspect(ref Ref) bool {
	if !c.anyBad.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.bad[ref]
	return ok
}

// enter waits until no other goroutine hashes the blob.
func (c *checks) enter(ctx context.Context, ref Ref) (leave func(), err error) {
	for {
		c.mu.Lock()
		other := c.running[ref]
		if other == nil {
			done := make(chan struct{})
			if c.running == nil {
				c.running = make(map[Ref]chan struct{})
			}
			c.running[ref] = done
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				delete(c.running, ref)
				c.mu.Unlock()
				close(done)
			}, nil
		}
		c.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// openChecked returns an open blob if it is known to be intact. It hashes an unknown
// small blob first, and a large one while the caller reads it. On an error it
// closes the blob.
func (c *checks) openChecked(ctx context.Context, ref Ref, f stored) (File, error) {
	s, err := f.stamp()
	if err != nil {
		_ = f.Close() // opened for reading
		return nil, err
	}
	known, err := c.result(ref, s)
	switch {
	case err == nil && known:
		return f, nil
	case err == nil && (f.Size() > HashedAtOpen || ctx.Value(unhashed{}) != nil):
		return newChecking(c, ref, s, f), nil
	case err == nil:
		err = c.hashOnce(ctx, ref, s, f)
	}
	if err != nil {
		_ = f.Close() // opened for reading
		return nil, err
	}
	return f, nil
}

// hashOnce hashes an open blob unless another goroutine has just hashed it.
func (c *checks) hashOnce(ctx context.Context, ref Ref, s stamp, f stored) error {
	leave, err := c.enter(ctx, ref)
	if err != nil {
		return err
	}
	defer leave()
	if known, err := c.result(ref, s); known || err != nil {
		return err
	}
	return c.hash(ctx, ref, s, f, nil)
}

// beginRead reports whether no other reader hashes a large blob. If so, the
// caller does, until it calls endRead.
func (c *checks) beginRead(ref Ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inRead[ref] {
		return false
	}
	if c.inRead == nil {
		c.inRead = make(map[Ref]bool)
	}
	c.inRead[ref] = true
	return true
}

func (c *checks) endRead(ref Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inRead, ref)
}

// known hashes an open blob unless a result is remembered.
func (c *checks) known(ctx context.Context, ref Ref, f stored) error {
	s, err := f.stamp()
	if err != nil {
		return err
	}
	return c.hashOnce(ctx, ref, s, f)
}

// verify hashes an open blob even if a result is remembered.
func (c *checks) verify(ctx context.Context, ref Ref, f stored, pace func(n int) error) error {
	s, err := f.stamp()
	if err != nil {
		return err
	}
	return c.hash(ctx, ref, s, f, pace)
}

// isRejected reports whether an open blob still has the stamp with which it was
// found damaged.
func (c *checks) isRejected(ref Ref, f stored) bool {
	s, err := f.stamp()
	if err != nil {
		return true
	}
	_, err = c.result(ref, s)
	return err != nil
}

// reject remembers that an open blob is damaged.
func (c *checks) reject(ref Ref, f stored, what string) error {
	s, err := f.stamp()
	if err != nil {
		return &DamageError{ref, what}
	}
	return c.failed(ref, s, what)
}

// hash hashes an open blob and remembers the result. pace is that of Verify.
func (c *checks) hash(ctx context.Context, ref Ref, s stamp, f stored, pace func(n int) error) error {
	got, err := sumAt(ctx, f, f.Size(), pace)
	switch {
	case errors.Is(err, errChanged) || unreadable(err):
		return c.failed(ref, s, "cannot read it: "+err.Error())
	case err != nil:
		return err
	}
	return c.judge(ref, s, f, got)
}

// judge compares the hash of an open blob with its Ref and remembers the result.
// s is the stamp from before the blob was read.
func (c *checks) judge(ref Ref, s stamp, f stored, got Ref) error {
	after, err := f.stamp()
	switch {
	case got == ref:
		if err == nil && after == s {
			c.passed(ref, s)
		}
		return nil
	case err == nil && after != s:
		return &DamageError{ref, "its file changed while it was read"} // not remembered
	}
	return c.failed(ref, s, fmt.Sprintf("its %d bytes have SHA-256 %s", f.Size(), got))
}

// errChanged is the error for a blob that is shorter than when it was opened.
var errChanged = errors.New("file is shorter than at open")

// sumAt hashes the first size bytes of r.
func sumAt(ctx context.Context, r io.ReaderAt, size int64, pace func(n int) error) (ref Ref, err error) {
	buf := chunks.Get().(*[chunk]byte)
	defer chunks.Put(buf)
	h := sha256.New()
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return ref, err
		}
		n, err := r.ReadAt(buf[:min(chunk, size-off)], off)
		h.Write(buf[:n])
		off += int64(n)
		if err == io.EOF && off < size {
			err = errChanged
		}
		if err == nil || err == io.EOF {
			err = nil
			if pace != nil {
				err = pace(n)
			}
		}
		if err != nil {
			return ref, err
		}
	}
	h.Sum(ref[:0])
	return ref, nil
}

// unreadable reports whether an error of opening or reading concerns the file
// itself, as opposed to a shortage of resources or a lack of rights.
func unreadable(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EISDIR) || deviceError(err)
}

// checking is an open blob that is hashed while it is read from its first byte
// to its last. Until the hash has been checked it does not give access to the
// operating system's file, because the kernel would send unchecked bytes.
//
// Of several readers of one blob only the first hashes what it reads. The others
// do not wait for it, because its client may be slow: when they come to the end,
// the blob is hashed once for all of them.
type checking struct {
	f      stored
	checks *checks
	ref    Ref
	stamp  stamp
	first  bool // this reader hashes what it reads
	*io.SectionReader

	mu   sync.Mutex
	hash hash.Hash // nil once the blob has been checked; guarded by mu
	next int64     // number of bytes read in order so far; guarded by mu
	tail []byte    // the end of the blob once it has been checked; guarded by mu

	closed sync.Once
}

// unhashed is the key of a context of Unhashed.
type unhashed struct{}

// Unhashed returns a context in which Open does not hash a small blob that has not been hashed yet: it
// is opened as a large one is. It is for those who read the blob with [Unchecked].
func Unhashed(ctx context.Context) context.Context { return context.WithValue(ctx, unhashed{}, true) }

// Unchecked returns the bytes of an open blob as they are stored. They are not hashed while they are
// read: for those who hash what they make of them, or to whom damage makes no difference.
func Unchecked(f File) io.ReaderAt {
	if k, ok := f.(*checking); ok {
		return k.f
	}
	return f
}

func newChecking(c *checks, ref Ref, s stamp, f stored) *checking {
	k := &checking{f: f, checks: c, ref: ref, stamp: s, first: c.beginRead(ref), hash: sha256.New()}
	k.SectionReader = io.NewSectionReader(inOrder{k}, 0, f.Size())
	return k
}

// inOrder is the io.ReaderAt behind Read and ReadAt of a checking.
type inOrder struct{ k *checking }

func (o inOrder) ReadAt(p []byte, off int64) (int, error) { return o.k.readAt(p, off) }

// readAt reads at off. It hashes reads that continue the bytes hashed so far; a
// read at 0 starts over. Other reads are not hashed.
func (k *checking) readAt(p []byte, off int64) (int, error) {
	k.mu.Lock()
	if start := k.f.Size() - int64(len(k.tail)); k.hash == nil && off >= start {
		tail := k.tail[off-start:]
		k.mu.Unlock()
		n := copy(p, tail)
		if n < len(p) {
			return n, io.EOF
		}
		return n, nil
	}
	if off == 0 && k.next > 0 && k.hash != nil {
		k.hash.Reset()
		k.next = 0
	}
	if k.hash == nil || off != k.next {
		k.mu.Unlock()
		return k.f.ReadAt(p, off)
	}
	if !k.first {
		return k.readUnhashed(p, off)
	}
	defer k.mu.Unlock()
	size := k.f.Size()
	n := 0
	if open := size - Withheld - off; open > 0 {
		m, err := k.f.ReadAt(p[:min(int64(len(p)), open)], off)
		k.hash.Write(p[:m])
		k.next += int64(m)
		n = m
		if err == io.EOF && k.next < size-Withheld {
			err = errChanged
		}
		if err != nil && err != io.EOF {
			return n, k.fail(err)
		}
		if n == len(p) {
			return n, nil
		}
	}
	if err := k.end(size); err != nil {
		return n, err
	}
	m := copy(p[n:], k.tail[off+int64(n)-(size-int64(len(k.tail))):])
	if n += m; n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readUnhashed continues the reading in order of a reader that is not the first.
// Before the end of the blob it has the whole blob hashed. It unlocks k.mu.
func (k *checking) readUnhashed(p []byte, off int64) (n int, err error) {
	if open := k.f.Size() - Withheld - off; open > 0 {
		n, err = k.f.ReadAt(p[:min(int64(len(p)), open)], off)
		k.next += int64(n)
		if err == io.EOF {
			err = errChanged
		}
		if err != nil {
			err = k.fail(err)
		}
	}
	k.mu.Unlock()
	if err != nil || n == len(p) {
		return n, err
	}
	if err := k.checks.hashOnce(context.Background(), k.ref, k.stamp, k.f); err != nil {
		return n, err
	}
	k.mu.Lock()
	k.hash = nil
	k.mu.Unlock()
	m, err := k.f.ReadAt(p[n:], off+int64(n))
	return n + m, err
}

// end reads the rest of the blob and checks the whole hash.
func (k *checking) end(size int64) error {
	tail := make([]byte, size-k.next)
	m, err := k.f.ReadAt(tail, k.next)
	if m < len(tail) {
		if err == nil || err == io.EOF {
			err = errChanged
		}
		return k.fail(err)
	}
	k.hash.Write(tail)
	var got Ref
	k.hash.Sum(got[:0])
	k.hash.Reset()
	k.next = 0
	if err := k.checks.judge(k.ref, k.stamp, k.f, got); err != nil {
		return err
	}
	k.hash, k.tail = nil, tail
	return nil
}

// fail returns the error for a blob that cannot be read.
func (k *checking) fail(err error) error {
	if errors.Is(err, errChanged) || unreadable(err) {
		return k.checks.failed(k.ref, k.stamp, "cannot read it: "+err.Error())
	}
	return err
}

func (k *checking) ReadAt(p []byte, off int64) (int, error) { return k.SectionReader.ReadAt(p, off) }
func (k *checking) Size() int64                             { return k.f.Size() }
func (k *checking) ModTime() time.Time                      { return k.f.ModTime() }
func (k *checking) Reject(what string) error                { return k.f.Reject(what) }

// Close implements [File].
func (k *checking) Close() error {
	if k.first {
		k.closed.Do(func() { k.checks.endRead(k.ref) })
	}
	return k.f.Close()
}

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
)

const (
	// HashedAtOpen is the size in bytes up to which Open hashes a blob before
	// it returns. A larger blob is hashed while it is read for the first time.
	HashedAtOpen = 4 << 20
	// Withheld is how many bytes at the end of such a larger blob are returned
	// only once the hash of the whole blob is right.
	Withheld = 64 << 10

	// settle is how old a change must be for the time of the next change to
	// differ from it: clocks of file systems tick every few milliseconds.
	settle = 100 * time.Millisecond
	// maxGood and maxBad bound the results that a process remembers, 100 bytes
	// each. Forgotten blobs are hashed again.
	maxGood, maxBad = 1 << 18, 1 << 12
)

// ErrDamaged is wrapped by the errors for a blob whose stored bytes are not
// the content of its Ref, or cannot be read. Such an error also wraps
// [fs.ErrNotExist]: the content is not available.
var ErrDamaged = errors.New("the stored bytes are damaged")

// DamageError describes a damaged blob.
type DamageError struct {
	Ref  Ref
	What string // for people: how the stored bytes differ
}

// Error names the blob and the damage.
func (e *DamageError) Error() string { return fmt.Sprintf("blob %s is damaged: %s", e.Ref, e.What) }

// Is reports that the error is an [ErrDamaged] and an [fs.ErrNotExist].
func (e *DamageError) Is(target error) bool { return target == ErrDamaged || target == fs.ErrNotExist }

// stamp identifies one state of a stored blob: the bytes cannot change without
// the stamp.
type stamp struct {
	inode              uint64
	size, mtime, ctime int64 // bytes; nanoseconds since 1970
}

// settled reports whether a later change would give another stamp.
func (s stamp) settled(now time.Time) bool {
	age := now.Sub(time.Unix(0, max(s.mtime, s.ctime)))
	return age > settle || age < -settle
}

// stored is an open blob of which nobody knows yet whether it is intact.
type stored interface {
	File
	stamp() (stamp, error)
}

// checks remembers which blobs were hashed, each for one stamp. The zero value
// remembers nothing.
type checks struct {
	now func() time.Time // nil: all results are remembered

	mu      sync.Mutex
	good    map[Ref]stamp         // guarded by mu; the newer half
	older   map[Ref]stamp         // guarded by mu; replaced by good when that is full
	bad     map[Ref]damage        // guarded by mu
	anyBad  atomic.Bool           // bad is not empty, or was not
	running map[Ref]chan struct{} // guarded by mu; closed when the hashing in Open ends
}

type damage struct {
	stamp stamp
	what  string
}

// result returns what is remembered of a blob in the state s. Known is false
// if the blob has to be hashed.
func (c *checks) result(ref Ref, s stamp) (known bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.bad[ref]; ok {
		if b.stamp == s {
			return true, &DamageError{ref, b.what}
		}
		delete(c.bad, ref) // replaced since
	}
	if g, ok := c.good[ref]; ok {
		return g == s, nil
	}
	if g, ok := c.older[ref]; ok && g == s {
		c.rememberGood(ref, s)
		return true, nil
	}
	return false, nil
}

func (c *checks) rememberGood(ref Ref, s stamp) {
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
	if c.now != nil && !s.settled(c.now()) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.bad, ref)
	c.rememberGood(ref, s)
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

// suspect reports whether a blob was found damaged, in whatever state.
func (c *checks) suspect(ref Ref) bool {
	if !c.anyBad.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.bad[ref]
	return ok
}

// enter waits until no other goroutine hashes the blob in Open.
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

// admit returns an open blob to whoever opened it: as it is if it is known to
// be intact, hashed if it is small, and else hashed while it is read. On an
// error the blob is closed.
func (c *checks) admit(ctx context.Context, ref Ref, f stored) (File, error) {
	s, err := f.stamp()
	if err != nil {
		_ = f.Close() // opened for reading
		return nil, err
	}
	known, err := c.result(ref, s)
	switch {
	case err == nil && known:
		return f, nil
	case err == nil && f.Size() > HashedAtOpen:
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

// hashOnce hashes an open blob unless another goroutine just did.
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

// known hashes an open blob unless its state is remembered.
func (c *checks) known(ctx context.Context, ref Ref, f stored) error {
	s, err := f.stamp()
	if err != nil {
		return err
	}
	return c.hashOnce(ctx, ref, s, f)
}

// verify hashes an open blob, whatever is remembered.
func (c *checks) verify(ctx context.Context, ref Ref, f stored, pace func(n int) error) error {
	s, err := f.stamp()
	if err != nil {
		return err
	}
	return c.hash(ctx, ref, s, f, pace)
}

// stillBad reports whether an open blob is in the state in which it was found
// damaged.
func (c *checks) stillBad(ref Ref, f stored) bool {
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

// hash reads an open blob and remembers the result. pace, if not nil, is
// called with the number of bytes of each read and may wait.
func (c *checks) hash(ctx context.Context, ref Ref, s stamp, f stored, pace func(n int) error) error {
	got, err := sumAt(ctx, f, f.Size(), pace)
	switch {
	case errors.Is(err, errChanged) || unreadable(err):
		return c.failed(ref, s, "it cannot be read: "+err.Error())
	case err != nil:
		return err
	}
	return c.judge(ref, s, f, got)
}

// judge remembers whether the hash of an open blob, which had the stamp s
// before it was read, is the right one.
func (c *checks) judge(ref Ref, s stamp, f stored, got Ref) error {
	after, err := f.stamp()
	switch {
	case got == ref:
		if err == nil && after == s {
			c.passed(ref, s)
		}
		return nil
	case err == nil && after != s:
		return &DamageError{ref, "it is being written to"} // not remembered
	}
	return c.failed(ref, s, fmt.Sprintf("its %d bytes have the SHA-256 %s", f.Size(), got))
}

// errChanged is the error for a blob that is shorter than it was when it was
// opened.
var errChanged = errors.New("it ends early")

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

// unreadable reports whether an error of opening or reading says that these
// bytes cannot be had, as opposed to a shortage of something else.
func unreadable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EISDIR) || deviceError(err)
}

// checking is an open blob that is hashed while it is read from its first byte
// to its last. Until the hash is found right it has no operating system's
// file, because the kernel would send bytes that nobody has hashed.
type checking struct {
	f      stored
	checks *checks
	ref    Ref
	stamp  stamp
	*io.SectionReader

	mu   sync.Mutex
	hash hash.Hash // nil once the end was reached; guarded by mu
	next int64     // all bytes before it were hashed; guarded by mu
	tail []byte    // the end of a blob that was found right; guarded by mu
}

func newChecking(c *checks, ref Ref, s stamp, f stored) *checking {
	k := &checking{f: f, checks: c, ref: ref, stamp: s, hash: sha256.New()}
	k.SectionReader = io.NewSectionReader(inOrder{k}, 0, f.Size())
	return k
}

// inOrder is the io.ReaderAt behind Read and ReadAt of a checking blob.
type inOrder struct{ k *checking }

func (o inOrder) ReadAt(p []byte, off int64) (int, error) { return o.k.readAt(p, off) }

// readAt reads and hashes what continues the bytes hashed before. A read from
// the first byte begins anew; other reads are not hashed.
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

// end reads the rest of the blob and judges the whole of it.
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
		return k.checks.failed(k.ref, k.stamp, "it cannot be read: "+err.Error())
	}
	return err
}

func (k *checking) ReadAt(p []byte, off int64) (int, error) { return k.SectionReader.ReadAt(p, off) }
func (k *checking) Size() int64                             { return k.f.Size() }
func (k *checking) ModTime() time.Time                      { return k.f.ModTime() }
func (k *checking) Reject(what string) error                { return k.f.Reject(what) }
func (k *checking) Close() error                            { return k.f.Close() }

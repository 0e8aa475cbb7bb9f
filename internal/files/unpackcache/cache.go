// Package unpackcache keeps unpacked files for a while in temporary files, within limits:
// clients that read by ranges request a file many times.
package unpackcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// ErrFull means that the limits of a cache are reached. It is fs.ErrNotExist: other places
// are searched for the file.
var ErrFull = fmt.Errorf("too many unpacked files are in use: %w", fs.ErrNotExist)

// Options of a cache. A value of zero means the default named at its field.
type Options struct {
	// Dir is the folder of the temporary files. Empty: that of the system.
	Dir string
	// KeptBytes and KeptFiles limit the files without readers: 2 GiB, 32.
	KeptBytes int64
	KeptFiles int
	// HeldBytes limits all files, those in use included: 8 GiB. HeldFiles limits those
	// that are in use or being filled: 256.
	HeldBytes int64
	HeldFiles int
	// AtOnce is the number of files that are filled at the same time: 2.
	AtOnce int
	// Timeout ends the filling of a file: 10 minutes.
	Timeout time.Duration
	// Create returns an empty file that nobody else has and that needs not be removed;
	// nil creates one in Dir. Tests replace it.
	Create func() (*os.File, error)
}

// Cache is a set of temporary files. Its methods may be called by many goroutines.
type Cache struct {
	opt   Options
	slots chan struct{} // one for each file that is being filled
	queue atomic.Int64  // files that wait for a slot

	life  context.Context // ends with the cache
	end   context.CancelFunc
	under sync.WaitGroup

	mu    sync.Mutex
	items map[string]*item // guarded by mu
	idle  []*item          // guarded by mu; without readers, the longest unused first
	bytes int64            // guarded by mu; of idle
	held  int64            // guarded by mu; of all, those being filled included
}

// item is a file; err is set when done is closed.
type item struct {
	key  string
	done chan struct{}
	err  error
	f    *os.File // set before the first byte is written
	gone bool     // its name has been removed

	readers int   // guarded by the cache's mu
	held    int64 // guarded by the cache's mu; bytes counted so far

	mu   sync.Mutex
	more *sync.Cond // signals size and done
	size int64      // guarded by mu; bytes written so far
	over bool       // guarded by mu; done is closed
}

// New returns an empty cache.
func New(opt Options) *Cache {
	defaults := func(p *int64, v int64) {
		if *p <= 0 {
			*p = v
		}
	}
	count := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	defaults(&opt.KeptBytes, 2<<30)
	defaults(&opt.HeldBytes, 8<<30)
	count(&opt.KeptFiles, 32)
	count(&opt.HeldFiles, 256)
	count(&opt.AtOnce, 2)
	if opt.Timeout <= 0 {
		opt.Timeout = 10 * time.Minute
	}
	s := &Cache{opt: opt, slots: make(chan struct{}, opt.AtOnce), items: map[string]*item{}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Limit changes HeldBytes and HeldFiles, where they are positive.
func (s *Cache) Limit(bytes int64, files int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes > 0 {
		s.opt.HeldBytes = bytes
	}
	if files > 0 {
		s.opt.HeldFiles = files
	}
}

// Held returns the bytes of all files.
func (s *Cache) Held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// Reader reads a file of a cache. It must be closed.
type Reader struct {
	s    *Cache
	it   *item
	once sync.Once
	own  *os.File // of OSFile; nil until it is asked for
}

// Fill writes the content of a file. It runs in a goroutine of the cache, and ends when
// ctx does.
type Fill func(ctx context.Context, w io.Writer) error

// Open returns the file with a key, which names its content. If there is none, fill
// makes it; give is called when fill is not needed any more, or was not. The file may
// still be growing: ReadAt waits for the bytes.
func (s *Cache) Open(key string, fill Fill, give func()) (*Reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		give()
		return nil, os.ErrClosed
	}
	it := s.items[key]
	switch {
	case it != nil:
		s.wake(it)
		give()
	case len(s.items)-len(s.idle) >= s.opt.HeldFiles:
		give()
		return nil, ErrFull
	default:
		it = newItem(key)
		s.items[key] = it
		s.under.Go(func() {
			defer give()
			s.fill(it, fill)
			s.endRead(it)
		})
	}
	it.readers++
	return &Reader{s: s, it: it}, nil
}

func newItem(key string) *item {
	it := &item{key: key, done: make(chan struct{})}
	it.more = sync.NewCond(&it.mu)
	return it
}

// Has reports whether there is a file with a key, complete or growing.
func (s *Cache) Has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[key] != nil
}

// Forget removes the file with a key: at once if nobody reads it, otherwise when its last
// reader closes it. The next Open fills a new one.
func (s *Cache) Forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[key]
	if it == nil {
		return
	}
	delete(s.items, key)
	if i := slices.Index(s.idle, it); i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
		s.bytes -= it.size
		s.drop(it)
	}
}

// Waiting reports whether requests wait until another file is filled. Who fills a file
// should do nothing then that nobody has asked for.
func (s *Cache) Waiting() bool { return s.queue.Load() > 0 }

// Add makes a file of r that nobody has asked for yet. It never displaces others: if
// size bytes more are not free, or if there is a file with the key, it does nothing and
// returns false.
func (s *Cache) Add(ctx context.Context, key string, size int64, r io.Reader) (added bool, err error) {
	s.mu.Lock()
	if s.items[key] != nil || s.life.Err() != nil || size > s.opt.KeptBytes-s.bytes || size > s.opt.HeldBytes-s.held ||
		len(s.idle) >= s.opt.KeptFiles {
		s.mu.Unlock()
		return false, nil //nolint:nilerr // a closed cache keeps nothing
	}
	it := newItem(key)
	s.items[key] = it
	s.mu.Unlock()
	s.write(ctx, it, func(_ context.Context, w io.Writer) error {
		n, err := io.Copy(w, r)
		if err == nil && n != size {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	s.endRead(it)
	return it.err == nil, it.err
}

// Wait waits until the file is complete, and returns its size.
func (r *Reader) Wait(ctx context.Context) (int64, error) {
	select {
	case <-r.it.done:
		return r.it.size, r.it.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Ready waits until the file has its first byte or is complete. An error of filling it
// that comes later is returned by ReadAt.
func (r *Reader) Ready(ctx context.Context) error {
	stop := context.AfterFunc(ctx, r.it.wakeAll)
	defer stop()
	r.it.mu.Lock()
	defer r.it.mu.Unlock()
	for r.it.size == 0 && !r.it.over {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.it.more.Wait()
	}
	if r.it.over {
		return r.it.err
	}
	return nil
}

func (it *item) wakeAll() {
	it.mu.Lock()
	defer it.mu.Unlock()
	it.more.Broadcast()
}

// Growing reports whether the file is not complete yet.
func (r *Reader) Growing() bool {
	select {
	case <-r.it.done:
		return false
	default:
		return true
	}
}

// Arrived waits until there are bytes at off, and returns how many; io.EOF if off is the
// end.
func (r *Reader) Arrived(off int64) (int64, error) { return r.it.await(off, off+1) }

// Written returns the number of bytes that the file has so far.
func (r *Reader) Written() int64 {
	r.it.mu.Lock()
	defer r.it.mu.Unlock()
	return r.it.size
}

// await waits until the file has end bytes or is complete. It returns how many bytes
// there are at off.
func (it *item) await(off, end int64) (int64, error) {
	it.mu.Lock()
	defer it.mu.Unlock()
	for it.size < end && !it.over {
		it.more.Wait()
	}
	if it.over && it.err != nil {
		return 0, it.err
	}
	if off >= it.size {
		return 0, io.EOF
	}
	return it.size - off, nil
}

// ReadAt implements io.ReaderAt.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	n, err := r.it.await(off, off+int64(len(p)))
	if err != nil {
		return 0, err
	}
	if n >= int64(len(p)) {
		return r.it.f.ReadAt(p, off)
	}
	m, err := r.it.f.ReadAt(p[:n], off)
	if err == nil {
		err = io.EOF
	}
	return m, err
}

// OSFile returns the file, opened for this reader alone, so that its offset is not that of
// others; nil if the file is not complete, or if the system cannot open it again. It is
// open until Close, and the caller calls both one after the other.
func (r *Reader) OSFile() *os.File {
	if r.own != nil || r.Growing() || r.it.err != nil {
		return r.own
	}
	name := r.it.f.Name()
	if r.it.gone {
		if runtime.GOOS != "linux" {
			return nil
		}
		name = "/proc/self/fd/" + strconv.FormatUint(uint64(r.it.f.Fd()), 10)
	}
	if f, err := os.Open(name); err == nil {
		r.own = f
	}
	return r.own
}

// Close gives the file back. Further calls do nothing.
func (r *Reader) Close() error {
	r.once.Do(func() {
		if r.own != nil {
			_ = r.own.Close() // opened for reading
		}
		r.s.put(r.it)
	})
	return nil
}

// fill waits for its turn and fills an item.
func (s *Cache) fill(it *item, fill Fill) {
	ctx, cancel := context.WithTimeout(s.life, s.opt.Timeout)
	defer cancel()
	s.queue.Add(1)
	select {
	case s.slots <- struct{}{}:
		s.queue.Add(-1)
		defer func() { <-s.slots }()
	case <-ctx.Done():
		s.queue.Add(-1)
		it.finish(ctx.Err())
		return
	}
	s.write(ctx, it, fill)
}

// create returns an empty file; gone reports whether it has no name any more.
func (s *Cache) create() (f *os.File, gone bool, err error) {
	if s.opt.Create != nil {
		f, err = s.opt.Create()
		return f, true, err
	}
	if f, err = os.CreateTemp(s.opt.Dir, "symdepot-*"); err == nil {
		gone = os.Remove(f.Name()) == nil // not on Windows
	}
	return f, gone, err
}

// write makes the file of an item.
func (s *Cache) write(ctx context.Context, it *item, fill Fill) {
	f, gone, err := s.create()
	if err != nil {
		it.finish(err)
		return
	}
	it.gone = gone
	it.f = f
	it.finish(fill(ctx, cacheWriter{s, it}))
	if it.err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held -= it.held // the file is closed when its last reader leaves
		it.held = 0
	}
}

// finish says that an item is complete.
func (it *item) finish(err error) {
	it.mu.Lock()
	defer it.mu.Unlock()
	it.err, it.over = err, true
	close(it.done)
	it.more.Broadcast()
}

// cacheWriter writes an item and counts its bytes.
type cacheWriter struct {
	s  *Cache
	it *item
}

func (w cacheWriter) Write(p []byte) (int, error) {
	if err := w.s.reserve(w.it, int64(len(p))); err != nil {
		return 0, err
	}
	n, err := w.it.f.Write(p)
	w.it.mu.Lock()
	defer w.it.mu.Unlock()
	w.it.size += int64(n)
	w.it.more.Broadcast()
	return n, err
}

// reserve counts n more bytes of an item. It evicts files without readers.
func (s *Cache) reserve(it *item, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.held+n > s.opt.HeldBytes {
		if len(s.idle) == 0 {
			return ErrFull
		}
		s.dropOldest()
	}
	s.held += n
	it.held += n
	return nil
}

// wake removes an item from the idle ones. mu is held.
func (s *Cache) wake(it *item) {
	if i := slices.Index(s.idle, it); i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
		s.bytes -= it.size
	}
}

// put gives an item back.
func (s *Cache) put(it *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it.readers--; it.readers > 0 {
		return
	}
	select {
	case <-it.done:
	default:
		return // fill makes it idle
	}
	s.keepIdle(it)
}

// endRead makes an item idle that was completed after its last reader left.
func (s *Cache) endRead(it *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it.err != nil && s.items[it.key] == it {
		delete(s.items, it.key) // the next request tries again
	}
	switch {
	case it.readers > 0:
	case it.err != nil || s.items[it.key] == it:
		s.wake(it) // it may have been made idle by a different reader
		s.keepIdle(it)
	default:
		s.drop(it) // forgotten
	}
}

// keepIdle keeps an item without readers, within the limits. mu is held.
func (s *Cache) keepIdle(it *item) {
	if it.err != nil || s.life.Err() != nil || s.items[it.key] != it {
		if s.items[it.key] == it {
			delete(s.items, it.key)
		}
		s.drop(it)
		return
	}
	s.idle = append(s.idle, it)
	s.bytes += it.size
	for len(s.idle) > s.opt.KeptFiles || s.bytes > s.opt.KeptBytes {
		s.dropOldest()
	}
}

// dropOldest removes the longest unused file. mu is held.
func (s *Cache) dropOldest() {
	old := s.idle[0]
	s.idle, s.bytes = s.idle[1:], s.bytes-old.size
	delete(s.items, old.key)
	s.drop(old)
}

// drop removes an item's file. mu is held.
func (s *Cache) drop(it *item) {
	s.held -= it.held
	it.held = 0
	if it.f == nil {
		return
	}
	_ = it.f.Close()
	if !it.gone {
		_ = os.Remove(it.f.Name())
	}
	it.f = nil
}

// Close ends running work and removes files without readers. Files in use are removed
// when they are closed.
func (s *Cache) Close() {
	s.mu.Lock()
	s.end()
	for _, it := range s.idle {
		delete(s.items, it.key)
		s.drop(it)
	}
	s.idle, s.bytes = nil, 0
	s.mu.Unlock()
	s.under.Wait()
}

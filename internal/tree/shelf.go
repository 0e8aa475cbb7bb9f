package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/unpack"
)

// Limits of files that are unpacked for requests.
const (
	defaultUnpacked = 4 << 30 // bytes of one file
	keptBytes       = 2 << 30 // of all temporary files without readers
	keptFiles       = 32      // likewise
	heldBytes       = 8 << 30 // of all temporary files, those in use included
	heldFiles       = 256     // that are in use or being unpacked
	unpackAtOnce    = 2
	unpackTime      = 10 * time.Minute
)

// errCacheFull is fs.ErrNotExist: requests beyond the limits are answered as if
// the file did not exist.
var errCacheFull = fmt.Errorf("too many unpacked files are in use: %w", fs.ErrNotExist)

// unpackCache keeps unpacked files for a while in temporary files: clients that read
// by ranges request a file many times.
type unpackCache struct {
	dir   string
	limit int64
	slots chan struct{} // one for each file that is being unpacked

	life  context.Context // ends with the folder
	end   context.CancelFunc
	under sync.WaitGroup

	mu    sync.Mutex
	items map[string]*item // guarded by mu
	idle  []*item          // guarded by mu; without readers, the longest unused first
	bytes int64            // guarded by mu; of idle
	held  int64            // guarded by mu; of all, those being unpacked included

	maxBytes int64 // of held
	maxFiles int   // that are in use or being unpacked
}

// item is an unpacked file; all but done is set when done is closed.
type item struct {
	key  string
	done chan struct{}
	err  error
	f    *os.File
	size int64
	gone bool // its name has been removed

	readers int   // guarded by the shelf's mu
	held    int64 // guarded by the shelf's mu; bytes written so far
}

func newUnpackCache(dir string, limit int64) *unpackCache {
	if limit <= 0 {
		limit = defaultUnpacked
	}
	s := &unpackCache{dir: dir, limit: limit, slots: make(chan struct{}, unpackAtOnce), items: map[string]*item{}, maxBytes: max(heldBytes, limit), maxFiles: heldFiles}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// get returns the unpacked content of the compressed file f, and closes f. key names
// the content. The caller must put the item back.
func (s *unpackCache) get(ctx context.Context, key string, f *os.File, size int64) (*item, error) {
	s.mu.Lock()
	if s.life.Err() != nil {
		s.mu.Unlock()
		return nil, errors.Join(os.ErrClosed, f.Close())
	}
	it := s.items[key]
	if it == nil && len(s.items)-len(s.idle) >= s.maxFiles {
		s.mu.Unlock()
		return nil, errors.Join(errCacheFull, f.Close())
	}
	if it == nil {
		it = &item{key: key, done: make(chan struct{})}
		s.items[key] = it
		s.under.Go(func() {
			s.fill(it, f, size)
			s.endRead(it)
		})
	} else {
		defer f.Close()
		s.wake(it)
	}
	it.readers++
	s.mu.Unlock()
	select {
	case <-it.done:
		if it.err != nil {
			s.put(it)
			return nil, it.err
		}
		return it, nil
	case <-ctx.Done():
		s.put(it)
		return nil, ctx.Err()
	}
}

// fill unpacks f into a temporary file.
func (s *unpackCache) fill(it *item, f *os.File, size int64) {
	defer close(it.done)
	defer f.Close()
	ctx, cancel := context.WithTimeout(s.life, unpackTime)
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		it.err = ctx.Err()
		return
	}
	if it.f, it.err = os.CreateTemp(s.dir, "symdepot-*"); it.err != nil {
		return
	}
	it.gone = os.Remove(it.f.Name()) == nil // not on Windows
	it.size, it.err = unpack.File(ctx, cacheWriter{s, it}, f, size, s.limit)
	if it.err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(it)
	}
}

// cacheWriter writes an item and counts its bytes.
type cacheWriter struct {
	s  *unpackCache
	it *item
}

func (w cacheWriter) Write(p []byte) (int, error) {
	if err := w.s.reserve(w.it, int64(len(p))); err != nil {
		return 0, err
	}
	return w.it.f.Write(p)
}

// reserve counts n more bytes of an item. It evicts files without readers.
func (s *unpackCache) reserve(it *item, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.held+n > s.maxBytes {
		if len(s.idle) == 0 {
			return errCacheFull
		}
		s.dropOldest()
	}
	s.held += n
	it.held += n
	return nil
}

// wake removes an item from the idle ones. mu is held.
func (s *unpackCache) wake(it *item) {
	for i, have := range s.idle {
		if have == it {
			s.idle = append(s.idle[:i], s.idle[i+1:]...)
			s.bytes -= it.size
			return
		}
	}
}

// put gives an item back.
func (s *unpackCache) put(it *item) {
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
func (s *unpackCache) endRead(it *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it.readers == 0 && s.items[it.key] == it {
		s.wake(it) // it may have been made idle by a different reader
		s.keepIdle(it)
	}
}

// keepIdle keeps an item without readers, within the limits. mu is held.
func (s *unpackCache) keepIdle(it *item) {
	if it.err != nil || s.life.Err() != nil {
		delete(s.items, it.key)
		s.drop(it)
		return
	}
	s.idle = append(s.idle, it)
	s.bytes += it.size
	for len(s.idle) > keptFiles || s.bytes > keptBytes {
		s.dropOldest()
	}
}

// dropOldest removes the longest unused file. mu is held.
func (s *unpackCache) dropOldest() {
	old := s.idle[0]
	s.idle, s.bytes = s.idle[1:], s.bytes-old.size
	delete(s.items, old.key)
	s.drop(old)
}

// drop removes an item's file. mu is held.
func (s *unpackCache) drop(it *item) {
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

// close ends running work and removes files without readers.
func (s *unpackCache) close() {
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

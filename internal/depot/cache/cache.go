// Package cache keeps downloaded files within their limits: which are used, which are
// evicted. The files themselves are contents like others, and the index lists them.
package cache

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Limits limit the cached files. Added files are never evicted. The zero
// value evicts only when the disk is nearly full.
type Limits struct {
	// MaxBytes limits the sum of all cached files. Zero: eviction begins when
	// less than a twentieth of the disk, or less than 2 GiB, is free, whichever
	// is less. Negative: no limit.
	MaxBytes    int64
	MaxUnused   time.Duration    // since the last use; zero is no limit
	PerUpstream map[string]int64 // bytes, by the name of the upstream
}

// Filter selects cached files.
type Filter = contents.CacheFilter

// minFree is how much of a disk of this size is kept free by default, in
// bytes.
func minFree(total int64) int64 { return min(total/20, 2<<30) }

// Cache is the part of a depot that keeps downloaded files. Its methods may be
// called by many goroutines.
type Cache struct {
	db     *index.DB
	blobs  blob.Backend
	now    func() time.Time
	limits Limits
	space  func() (total, free int64, err error)

	mu   sync.Mutex
	used map[blob.Ref]time.Time // guarded by mu; since the last write
	open map[blob.Ref]int       // guarded by mu; readers
}

// New returns the cache of a depot. space returns the size of the depot's disk and how much
// of it is free, in bytes.
func New(db *index.DB, blobs blob.Backend, limits Limits, space func() (total, free int64, err error), now func() time.Time) *Cache {
	return &Cache{db: db, blobs: blobs, now: now, limits: limits, space: space, used: map[blob.Ref]time.Time{}, open: map[blob.Ref]int{}}
}

// Use records that a cached file is being read until the closer returned is closed.
func (c *Cache) Use(ref blob.Ref, file io.Closer) io.Closer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used[ref] = c.now()
	c.open[ref]++
	return &inUse{Closer: file, cache: c, ref: ref}
}

type inUse struct {
	io.Closer
	cache *Cache
	ref   blob.Ref
	once  sync.Once
}

func (i *inUse) Close() error {
	err := i.Closer.Close()
	i.once.Do(func() {
		i.cache.mu.Lock()
		defer i.cache.mu.Unlock()
		if i.cache.open[i.ref]--; i.cache.open[i.ref] <= 0 {
			delete(i.cache.open, i.ref)
		}
	})
	return err
}

// inUse reports whether a cached file is being read.
func (c *Cache) inUse(ref blob.Ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[ref] > 0
}

// StoreUses stores in the index when cached files were used.
func (c *Cache) StoreUses(ctx context.Context) error {
	c.mu.Lock()
	used := c.used
	c.used = make(map[blob.Ref]time.Time)
	c.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	return c.db.Cached.Touch(ctx, used)
}

// Evicted counts evicted files.
type Evicted struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Evict removes cached files until the limits are met, least recently used
// first. Files that are being read stay.
func (c *Cache) Evict(ctx context.Context) (Evicted, error) {
	var sum Evicted
	limits := c.limits
	if limits.MaxUnused > 0 {
		if err := c.evictUntil(ctx, Filter{UnusedSince: c.now().Add(-limits.MaxUnused)}, -1, &sum); err != nil {
			return sum, err
		}
	}
	if limits.MaxBytes == 0 {
		if err := c.evictForSpace(ctx, &sum); err != nil {
			return sum, err
		}
	}
	if limits.MaxBytes <= 0 && len(limits.PerUpstream) == 0 {
		return sum, nil
	}
	stats, err := c.db.Cached.Stats(ctx)
	if err != nil {
		return sum, err
	}
	var all int64
	for _, s := range stats {
		before := sum.Bytes
		if most, ok := limits.PerUpstream[s.Source]; ok && s.Bytes > most {
			if err := c.evictUntil(ctx, Filter{Source: s.Source}, s.Bytes-most, &sum); err != nil {
				return sum, err
			}
		}
		all += s.Bytes - (sum.Bytes - before)
	}
	if limits.MaxBytes > 0 && all > limits.MaxBytes {
		// A tenth below the limit, so that not every download causes an eviction.
		return sum, c.evictUntil(ctx, Filter{}, all-limits.MaxBytes+limits.MaxBytes/10, &sum)
	}
	return sum, nil
}

// evictForSpace evicts until the least part of the disk is free.
func (c *Cache) evictForSpace(ctx context.Context, sum *Evicted) error {
	total, free, err := c.space()
	if err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		return err
	}
	least := minFree(total)
	if free >= least {
		return nil
	}
	// A tenth more, so that not every download causes an eviction.
	return c.evictUntil(ctx, Filter{}, least-free+least/10, sum)
}

// evictUntil evicts bytes of the files that the filter selects, all of them if
// bytes is negative. Files that are being read stay.
func (c *Cache) evictUntil(ctx context.Context, f Filter, bytes int64, sum *Evicted) error {
	var refs []blob.Ref
	var n int64
	for file, err := range c.db.Cached.Evictable(ctx, f) {
		if err != nil {
			return err
		}
		if bytes >= 0 && n >= bytes {
			break
		}
		if c.inUse(file.Ref) {
			continue
		}
		refs = append(refs, file.Ref)
		n += file.Size
	}
	for len(refs) > 0 {
		some := refs[:min(len(refs), 200)]
		refs = refs[len(some):]
		files, size, err := c.db.Cached.Evict(ctx, some, content.Deleter(ctx, c.blobs, nil))
		sum.Files += int64(files)
		sum.Bytes += size
		if err != nil {
			return err
		}
	}
	return nil
}

// DropContent evicts a content that the filter selects. It stays while it is being read,
// or if the files of an upstream that has it belong to a product: who may see what was
// made of a file depends on who sees the file.
func (c *Cache) DropContent(ctx context.Context, f Filter, ref blob.Ref) (bool, error) {
	is := false
	for file, err := range c.db.Cached.Evictable(ctx, f) {
		switch {
		case err != nil:
			return false, err
		case file.Ref != ref:
		case file.Product != "" || c.inUse(ref):
			return false, nil
		default:
			is = true
		}
	}
	if !is {
		return false, nil
	}
	n, _, err := c.db.Cached.Evict(ctx, []blob.Ref{ref}, content.Deleter(ctx, c.blobs, nil))
	return n > 0, err
}

// Files returns cached files, the longest unused first.
func (c *Cache) Files(ctx context.Context, f Filter) iter.Seq2[contents.Cached, error] {
	return c.db.Cached.Evictable(ctx, f)
}

// Stats sums up the cached files by upstream and the remembered misses by class.
func (c *Cache) Stats(ctx context.Context) ([]contents.CachedStats, []misses.MissStats, error) {
	files, err := c.db.Cached.Stats(ctx)
	if err != nil {
		return nil, nil, err
	}
	misses, err := c.db.Misses.Stats(ctx)
	return files, misses, err
}

// Drop evicts cached files, even those that are being read.
func (c *Cache) Drop(ctx context.Context, f Filter) (Evicted, error) {
	n, bytes, err := c.db.Cached.Drop(ctx, f, content.Deleter(ctx, c.blobs, nil))
	return Evicted{int64(n), bytes}, err
}

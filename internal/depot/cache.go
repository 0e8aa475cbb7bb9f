package depot

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
)

// CacheLimits say when cached files are evicted. Added files are never evicted.
// The zero value keeps as much as leaves some room on the disk.
type CacheLimits struct {
	// MaxBytes bounds the sum of all cached files. Zero: eviction begins when
	// less than a twentieth of the disk, or less than 2 GiB, is free, whichever
	// is less. Negative: no limit.
	MaxBytes  int64
	MaxUnused time.Duration    // since the last use; zero is no limit
	PerSource map[string]int64 // bytes, by the name of the upstream
}

// leastFree is how much of a disk of this size is kept free by default, in
// bytes.
func leastFree(total int64) int64 { return min(total/20, 2<<30) }

// cache knows which cached files are in use.
type cache struct {
	limits CacheLimits
	// space returns the size of the depot's disk and what is free of it.
	space func() (total, free int64, err error)

	mu   sync.Mutex
	used map[blob.Ref]time.Time // guarded by mu; since the last write
	open map[blob.Ref]int       // guarded by mu; readers
}

// use notes that a fetched file is being read until the closer returned is closed.
func (d *Depot) use(ref blob.Ref, c io.Closer) io.Closer {
	u := &d.cache
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.used == nil {
		u.used, u.open = make(map[blob.Ref]time.Time), make(map[blob.Ref]int)
	}
	u.used[ref] = d.now()
	u.open[ref]++
	return &inUse{Closer: c, cache: u, ref: ref}
}

type inUse struct {
	io.Closer
	cache *cache
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

// inUse reports whether somebody reads a fetched file.
func (u *cache) inUse(ref blob.Ref) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.open[ref] > 0
}

// writeUses writes down when fetched files were used.
func (d *Depot) writeUses(ctx context.Context) error {
	u := &d.cache
	u.mu.Lock()
	used := u.used
	if used != nil {
		u.used = make(map[blob.Ref]time.Time)
	}
	u.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	return d.db.Cached.Touch(ctx, used)
}

// Evicted says what Evict let go of.
type Evicted struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Evict removes cached files until the limits are met, least recently used
// first. Files that are being read stay.
func (d *Depot) Evict(ctx context.Context) (Evicted, error) {
	var sum Evicted
	limits := d.cache.limits
	if limits.MaxUnused > 0 {
		if err := d.evictUntil(ctx, index.CacheFilter{UnusedSince: d.now().Add(-limits.MaxUnused)}, -1, &sum); err != nil {
			return sum, err
		}
	}
	if limits.MaxBytes == 0 {
		if err := d.evictForSpace(ctx, &sum); err != nil {
			return sum, err
		}
	}
	if limits.MaxBytes <= 0 && len(limits.PerSource) == 0 {
		return sum, nil
	}
	stats, err := d.db.Cached.Stats(ctx)
	if err != nil {
		return sum, err
	}
	var all int64
	for _, s := range stats {
		before := sum.Bytes
		if most, ok := limits.PerSource[s.Source]; ok && s.Bytes > most {
			if err := d.evictUntil(ctx, index.CacheFilter{Source: s.Source}, s.Bytes-most, &sum); err != nil {
				return sum, err
			}
		}
		all += s.Bytes - (sum.Bytes - before)
	}
	if limits.MaxBytes > 0 && all > limits.MaxBytes {
		// A tenth below the limit, so that not every file brings an eviction.
		return sum, d.evictUntil(ctx, index.CacheFilter{}, all-limits.MaxBytes+limits.MaxBytes/10, &sum)
	}
	return sum, nil
}

// evictForSpace evicts until the least part of the disk is free.
func (d *Depot) evictForSpace(ctx context.Context, sum *Evicted) error {
	total, free, err := d.cache.space()
	if err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		return err
	}
	least := leastFree(total)
	if free >= least {
		return nil
	}
	// A tenth more, so that not every file brings an eviction.
	return d.evictUntil(ctx, index.CacheFilter{}, least-free+least/10, sum)
}

// evictUntil lets go of bytes of what the filter gives, of all if negative.
func (d *Depot) evictUntil(ctx context.Context, f index.CacheFilter, bytes int64, sum *Evicted) error {
	var refs []blob.Ref
	var n int64
	for c, err := range d.db.Cached.Evictable(ctx, f) {
		if err != nil {
			return err
		}
		if bytes >= 0 && n >= bytes {
			break
		}
		if d.cache.inUse(c.Ref) {
			continue
		}
		refs = append(refs, c.Ref)
		n += c.Size
	}
	for len(refs) > 0 {
		some := refs[:min(len(refs), 200)]
		refs = refs[len(some):]
		files, size, err := d.db.Cached.Evict(ctx, some, func(ref blob.Ref) error { return d.blobs.Delete(ctx, ref) })
		sum.Files += int64(files)
		sum.Bytes += size
		if err != nil {
			return err
		}
	}
	return nil
}

// CacheFilter says which fetched files are meant.
type CacheFilter = index.CacheFilter

// Cached returns the fetched files, the longest unused first.
func (d *Depot) Cached(ctx context.Context, f CacheFilter) iter.Seq2[index.Cached, error] {
	return d.db.Cached.Evictable(ctx, f)
}

// CacheStats sums up what was fetched, by source, and what is remembered to be
// missing, by class.
func (d *Depot) CacheStats(ctx context.Context) ([]index.CachedStats, []index.MissStats, error) {
	files, err := d.db.Cached.Stats(ctx)
	if err != nil {
		return nil, nil, err
	}
	misses, err := d.db.Misses.Stats(ctx)
	return files, misses, err
}

// DropCached lets go of fetched files, also of such as are being read.
func (d *Depot) DropCached(ctx context.Context, f CacheFilter) (Evicted, error) {
	n, bytes, err := d.db.Cached.Drop(ctx, f, func(ref blob.Ref) error { return d.blobs.Delete(ctx, ref) })
	return Evicted{int64(n), bytes}, err
}

package bucketstore

import (
	"container/list"
	"context"
	"sync"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// local is the cache of contents on the local disk, limited by size. The least
// recently used ones are evicted; open files stay readable.
type local struct {
	disk *blob.Disk
	most int64 // bytes

	mu    sync.Mutex
	bytes int64                      // sum of the sizes; guarded by mu
	order *list.List                 // of blob.Info, most recently used first; guarded by mu
	held  map[blob.Ref]*list.Element // guarded by mu
	pins  map[blob.Ref]int           // contents that are not evicted; guarded by mu
}

// openLocal opens the cache in a folder. The times of the files are
// those of the last uses in earlier processes.
func openLocal(ctx context.Context, dir string, most int64) (*local, error) {
	disk, err := blob.OpenDisk(dir)
	if err != nil {
		return nil, err
	}
	l := &local{disk: disk, most: most, order: list.New(), held: map[blob.Ref]*list.Element{}, pins: map[blob.Ref]int{}}
	var all []blob.Info
	for info, err := range disk.List(ctx) {
		if err != nil {
			_ = disk.Close()
			return nil, err
		}
		all = append(all, info)
	}
	sorting.By(all, func(a, b blob.Info) int { return a.ModTime.Compare(b.ModTime) })
	for _, info := range all {
		l.used(info.Ref, info.Size)
	}
	return l, nil
}

// used notes the use of a held content.
func (l *local) used(ref blob.Ref, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.held[ref]; e != nil {
		l.order.MoveToFront(e)
		return
	}
	l.held[ref] = l.order.PushFront(blob.Info{Ref: ref, Size: size})
	l.bytes += size
}

// holds reports whether a content is in the list of held ones.
func (l *local) holds(ref blob.Ref) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[ref] != nil
}

// pin keeps a content, if it is or comes into the cache, until unpin is called.
func (l *local) pin(ref blob.Ref) (unpin func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pins[ref]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.pins[ref]--; l.pins[ref] == 0 {
			delete(l.pins, ref)
		}
	}
}

// victim returns the least recently used content that may be evicted, or nil.
// l.mu is locked.
func (l *local) victim() *list.Element {
	for e := l.order.Back(); e != nil; e = e.Prev() {
		if l.pins[e.Value.(blob.Info).Ref] == 0 {
			return e
		}
	}
	return nil
}

// shrink evicts contents until the cache fits its limit. Pinned ones stay.
func (l *local) shrink(ctx context.Context) error {
	for {
		l.mu.Lock()
		if l.bytes <= l.most {
			l.mu.Unlock()
			return nil
		}
		e := l.victim()
		if e == nil {
			l.mu.Unlock()
			return nil
		}
		ref := e.Value.(blob.Info).Ref
		l.forget(ref)
		l.mu.Unlock()
		if err := l.disk.Delete(ctx, ref); err != nil {
			return err
		}
	}
}

// forget removes a content from the list. l.mu is locked.
func (l *local) forget(ref blob.Ref) {
	if e := l.held[ref]; e != nil {
		l.bytes -= e.Value.(blob.Info).Size
		l.order.Remove(e)
		delete(l.held, ref)
	}
}

func (l *local) evict(ctx context.Context, ref blob.Ref) error {
	l.mu.Lock()
	l.forget(ref)
	l.mu.Unlock()
	return l.disk.Delete(ctx, ref)
}

// open opens a held content. A damaged one is evicted and not held.
func (l *local) open(ctx context.Context, ref blob.Ref) (blob.File, error) {
	f, err := l.disk.Open(ctx, ref)
	return l.opened(ctx, ref, f, err)
}

// openWhole opens a held content as [blob.Disk.OpenWhole] does.
func (l *local) openWhole(ctx context.Context, ref blob.Ref) (blob.File, error) {
	f, err := l.disk.OpenWhole(ctx, ref)
	return l.opened(ctx, ref, f, err)
}

func (l *local) opened(ctx context.Context, ref blob.Ref, f blob.File, err error) (blob.File, error) {
	if err != nil {
		if l.disk.Suspect(ref) {
			_ = l.evict(ctx, ref) // it is downloaded again
		}
		return nil, err
	}
	l.used(ref, f.Size())
	return f, nil
}

// Usage describes the local cache.
type Usage struct {
	Files, Bytes, Limit int64
}

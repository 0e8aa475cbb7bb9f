package symbolicate

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objtab"
)

// idleModule is how long an unused module stays open; it is closed within twice that time.
const idleModule = 5 * time.Minute

// modules are the open GSYM files, portable PDBs and ELF modules, by content. The least recently used ones are
// closed when there are too many.
type modules struct {
	max int

	mu   sync.Mutex
	open map[blob.Ref]*openModule // guarded by mu
	idle *time.Timer              // closes idle modules; nil if none is open; guarded by mu
	// links are the files to which a content refers, by the tag of the content.
	links    map[string]objtab.Links // guarded by mu
	linkText int                     // guarded by mu; bytes of names in links
	// sums are the CRC-32 of contents, by their tags.
	sums map[string]uint32 // guarded by mu
}

// openModule is one open file.
type openModule struct {
	ready  chan struct{} // closed when looker and err are set
	looker Looker
	file   io.Closer
	err    error
	memory int64     // that looker may need, in bytes; guarded by modules.mu
	users  int       // guarded by modules.mu
	used   time.Time // guarded by modules.mu
}

// get opens a GSYM file or a portable PDB, or shares an open one. The caller calls put.
func (ms *modules) get(ctx context.Context, ref blob.Ref, open func(context.Context) (File, error)) (*openModule, error) {
	return ms.share(ctx, ref, func(ctx context.Context) (Looker, io.Closer, error) {
		f, err := open(ctx)
		if err != nil {
			return nil, nil, err
		}
		_, _, size := f.Content()
		l, err := openLooker(f, size)
		if err != nil {
			err = errors.Join(err, f.Close())
		}
		return l, f, err
	})
}

// share is get for what opens a module in any way.
func (ms *modules) share(
	ctx context.Context, ref blob.Ref, open func(context.Context) (Looker, io.Closer, error),
) (*openModule, error) {
	ms.mu.Lock()
	if ms.open == nil {
		ms.open = map[blob.Ref]*openModule{}
	}
	m, ok := ms.open[ref]
	if !ok {
		m = &openModule{ready: make(chan struct{})}
		ms.open[ref] = m
	}
	m.users++
	m.used = time.Now()
	stale := ms.stale()
	ms.mu.Unlock()
	_ = closeAll(stale) // opened for reading
	if !ok {
		m.looker, m.file, m.err = open(context.WithoutCancel(ctx))
		if l, sized := m.looker.(sizedLooker); sized {
			ms.mu.Lock()
			m.memory = l.memory()
			ms.mu.Unlock()
		}
		close(m.ready)
	}
	select {
	case <-m.ready:
	case <-ctx.Done():
		ms.put(ref, m)
		return nil, ctx.Err()
	}
	if m.err != nil {
		ms.mu.Lock()
		if ms.open[ref] == m {
			delete(ms.open, ref)
		}
		ms.mu.Unlock()
		return nil, m.err
	}
	return m, nil
}

// put ends the use of a module.
func (ms *modules) put(_ blob.Ref, m *openModule) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m.users--
	if ms.idle == nil {
		ms.idle = time.AfterFunc(idleModule, ms.closeIdle)
	}
}

// closeIdle closes the modules that are idle. A server that nobody asks must not keep
// their memory.
func (ms *modules) closeIdle() {
	ms.mu.Lock()
	stale := ms.stale()
	if len(ms.open) > 0 {
		ms.idle.Reset(idleModule)
	} else {
		ms.idle = nil
	}
	ms.mu.Unlock()
	_ = closeAll(stale) // opened for reading
}

// sizedLooker is a Looker that says how much memory it may need.
type sizedLooker interface{ memory() int64 }

// maxOpenMemory is how much memory the open modules that nobody uses may need, with those
// that somebody uses, in bytes.
const maxOpenMemory = 1 << 30

// stale removes the modules that are idle or too many, or need too much memory, and
// returns their files. The caller holds mu.
func (ms *modules) stale() (files []io.Closer) {
	now := time.Now()
	for {
		var oldest blob.Ref
		var found *openModule
		memory := int64(0)
		for ref, m := range ms.open {
			memory += m.memory
			if m.users == 0 && (found == nil || m.used.Before(found.used)) {
				oldest, found = ref, m
			}
		}
		if found == nil || len(ms.open) <= ms.max && memory <= maxOpenMemory && now.Sub(found.used) < idleModule {
			return files
		}
		delete(ms.open, oldest)
		if found.file != nil {
			files = append(files, found.file)
		}
	}
}

// close closes all modules. Nobody uses one any more.
func (ms *modules) close() error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	var files []io.Closer
	for _, m := range ms.open {
		select {
		case <-m.ready:
			if m.err == nil {
				files = append(files, m.file)
			}
		default:
		}
	}
	clear(ms.open)
	if ms.idle != nil {
		ms.idle.Stop()
	}
	return closeAll(files)
}

// linksOf returns the links that keepLinks has kept.
func (ms *modules) linksOf(tag string) (objtab.Links, bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	l, ok := ms.links[tag]
	return l, ok
}

// keepLinks keeps the links of a content. At a limit it forgets all others.
func (ms *modules) keepLinks(tag string, l objtab.Links) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	n := len(l.Debug) + len(l.Alternate)
	for _, s := range l.Splits {
		n += len(s.Name) + len(s.Dir)
	}
	if len(ms.links) >= maxLinks || ms.linkText+n > maxLinkText || ms.links == nil {
		ms.links, ms.linkText = map[string]objtab.Links{}, 0
	}
	if n > maxLinkText {
		return
	}
	ms.linkText += n
	ms.links[tag] = l
}

// sumOf returns the checksum that keepSum has kept.
func (ms *modules) sumOf(tag string) (uint32, bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	sum, ok := ms.sums[tag]
	return sum, ok
}

// keepSum keeps the checksum of a content. At a limit it forgets all others.
func (ms *modules) keepSum(tag string, sum uint32) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if len(ms.sums) >= maxSums || ms.sums == nil {
		ms.sums = map[string]uint32{}
	}
	ms.sums[tag] = sum
}

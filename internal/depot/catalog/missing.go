package catalog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// missingKeys limits the distinct keys counted between two writes (20 s apart), so
// that counting a flood of requests does not cost more than answering them.
const missingKeys = 16384

// Missing counts the requests that found no file. Its methods may be called by
// many goroutines.
type Missing struct {
	db    *index.DB
	pages *Pages
	now   func() time.Time

	mu     sync.Mutex
	counts map[missingKey]*counted // guarded by mu; since the last write
	full   atomic.Bool             // too many keys: nothing is counted until the next write
}

type missingKey struct{ name, id, client string }

type counted struct {
	n    int64
	last time.Time
}

type (
	// Wanted is a file that clients requested and did not get.
	Wanted = misses.Wanted
	// WantedFilter selects such files.
	WantedFilter = misses.WantedFilter
)

// NewMissing returns the counts of a depot.
func NewMissing(db *index.DB, pages *Pages, now func() time.Time) *Missing {
	return &Missing{db: db, pages: pages, now: now}
}

// Count counts a request that found no file. It is cheap: Store stores
// the counts.
func (m *Missing) Count(req *layout.Request, client string) {
	if len(req.Lookups) == 0 || m.full.Load() {
		return
	}
	k := missingKey{req.Lookups[0].Name, req.Lookups[0].ID, client}
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.counts[k]
	if c == nil {
		if len(m.counts) >= missingKeys {
			m.full.Store(true)
			return
		}
		if m.counts == nil {
			m.counts = make(map[missingKey]*counted)
		}
		c = new(counted)
		m.counts[k] = c
	}
	c.n++
	c.last = now
}

// Store stores the counts in the index.
func (m *Missing) Store(ctx context.Context) error {
	m.mu.Lock()
	counts := m.counts
	m.counts = nil
	m.full.Store(false)
	m.mu.Unlock()
	if len(counts) == 0 {
		return nil
	}
	rows := make([]misses.Wanted, 0, len(counts))
	for k, c := range counts {
		rows = append(rows, misses.Wanted{Name: k.name, ID: k.id, Client: k.client, Count: c.n, Last: c.last})
	}
	return m.db.Wanted.Count(ctx, rows)
}

// Page returns a part of the list of List, of at most f.Limit files (0: 100). after is
// the text that the page before it has returned, "" for the first page; another text is
// fs.ErrInvalid. next is "" if there are no more.
func (m *Missing) Page(ctx context.Context, f WantedFilter, after string) (list []Wanted, next string, err error) {
	name := "missing count"
	if f.Latest {
		name = "missing last"
	}
	var k pageKey
	if err := m.pages.open(&k, after, name); err != nil {
		return nil, "", err
	}
	if after != "" {
		f.After = &misses.WantedKey{Number: k.Number, No: k.ID}
	}
	limit := pageLimit(f.Limit)
	f.Limit = limit + 1
	err = m.List(ctx, f, func(w Wanted) error {
		list = append(list, w)
		return nil
	})
	if len(list) > limit {
		list = list[:limit]
		last := list[limit-1].Key(f.Latest)
		next = m.pages.seal(pageKey{Number: last.Number, ID: last.No}, name)
	}
	return list, next, err
}

// List calls each for the files that clients requested and did not get, the most
// requested first, or the latest first. Files that the depot has by now are omitted.
func (m *Missing) List(ctx context.Context, f WantedFilter, each func(Wanted) error) error {
	limit := f.Limit
	f.Limit = 0
	n := 0
	for w, err := range m.db.Wanted.List(ctx, f) {
		if err != nil {
			return err
		}
		hits, err := m.db.Lookup(ctx, answer.Scope{}.Index(), symfile.Lookup{Name: w.Name, ID: w.ID, Role: symfile.AnyRole})
		if err != nil {
			return err
		}
		if len(hits) > 0 {
			continue
		}
		if err := each(w); err != nil {
			return err
		}
		if n++; limit > 0 && n == limit {
			return nil
		}
	}
	return nil
}

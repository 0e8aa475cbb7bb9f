package index

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Filter is a Bloom filter of all ids. It answers most misses without a query,
// and most requests to a symbol server are misses.
//
// It is valid for one state of the index, as Watch returns it, and gives no
// answer for other states. Refresh updates it by reading the keys of new
// objects, or all keys if that is not sufficient. Its methods may be called by
// several goroutines.
type Filter struct {
	db   *DB
	seed maphash.Seed
	now  atomic.Pointer[bloom]

	refresh sync.Mutex // held by the running Refresh
}

// bloom is a filter for one state. Refresh shares the bits between successive
// ones: a bit that is set too early does no harm.
type bloom struct {
	bits  []uint64
	state uint64
	last  int64 // highest object id of which the keys are included
	late  int64 // counter of keys added to older objects
	keys  int64 // number of keys included, also of deleted objects
}

// bitsPerKey with seven probes lets about one missing id in 300 through to a
// query.
const bitsPerKey, probes = 12, 7

// full reports whether more keys would let too many missing ids through.
func (b *bloom) full() bool { return 2*b.keys*bitsPerKey > int64(len(b.bits))*64 }

// NewFilter returns a filter that must be refreshed before it answers.
func (db *DB) NewFilter() *Filter { return &Filter{db: db, seed: maphash.MakeSeed()} }

// Absent reports whether, in the given state, certainly no key has this id or,
// for the 32 digits of a GUID, begins with it. If it returns false, only a query
// can decide; fresh is then false if a Refresh would help.
func (f *Filter) Absent(state uint64, id string) (absent, fresh bool) {
	b := f.now.Load()
	if b == nil || b.state != state {
		return false, false
	}
	return !b.has(maphash.String(f.seed, id)), true
}

func (b *bloom) has(h uint64) bool {
	n := uint64(len(b.bits)) * 64
	for i := range uint64(probes) {
		at := (h + i*(h>>32|1)) % n
		if atomic.LoadUint64(&b.bits[at/64])&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

func (b *bloom) add(h uint64) {
	n := uint64(len(b.bits)) * 64
	for i := range uint64(probes) {
		at := (h + i*(h>>32|1)) % n
		atomic.OrUint64(&b.bits[at/64], 1<<(at%64))
	}
}

// Refresh reads the new keys. state must have been returned by a Watch before
// the call, so that the keys belong to this state or a later one. If another
// Refresh is running, it returns immediately.
func (f *Filter) Refresh(ctx context.Context, state uint64) error {
	if !f.refresh.TryLock() {
		return nil
	}
	defer f.refresh.Unlock()
	return f.db.fail("read keys", f.db.engine.snapshot(ctx, func(r reader) error { return f.read(ctx, r, state) }))
}

// read brings the filter to a state.
func (f *Filter) read(ctx context.Context, r reader, state uint64) error {
	next := bloom{state: state}
	old := f.now.Load()
	if old == nil {
		old = &bloom{}
	}
	var keys int64
	if err := r.row(ctx, "SELECT lookups, late_keys, max(last_object, (SELECT coalesce(max(id), 0) FROM object)) FROM state", nil,
		&keys, &next.late, &next.last); err != nil {
		return err
	}
	read := func(query string, args ...any) error {
		return r.each(ctx, false, query, args, func(scan func(...any) error) (bool, error) {
			var id string
			if err := scan(&id); err != nil {
				return false, err
			}
			next.keys++
			next.add(maphash.String(f.seed, id))
			if len(id) > 32 {
				// PDBs of a higher age are looked up by the GUID alone.
				next.add(maphash.String(f.seed, id[:32]))
			}
			return true, nil
		})
	}
	// Most changes only add objects, with higher ids than all existing ones, or
	// delete some, whose bits do no harm while they are few.
	if old.bits != nil && next.late == old.late && !old.full() && old.keys-keys <= keys/4+1000 {
		next.bits, next.keys = old.bits, old.keys
		if err := read("SELECT l.id FROM lookup l WHERE l.object_id > $1", old.last); err != nil {
			return err
		}
		if !next.full() {
			f.now.Store(&next)
			return nil
		}
	}
	// Space for twice as many keys, each with two entries: an id and its GUID.
	next.keys, next.bits = 0, make([]uint64, max(1<<10, 3*keys*bitsPerKey/64))
	if err := read("SELECT id FROM lookup"); err != nil {
		return err
	}
	f.now.Store(&next)
	return nil
}

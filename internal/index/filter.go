package index

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Filter answers questions for what is not there, and most that a symbol
// server gets are such, without a query: it is a Bloom filter of all ids.
//
// It is good for one state of the index, as Watch tells it, and says nothing
// at any other. Refresh brings it up to date by reading the keys of new
// objects, or all keys when that does not do. Its methods may be called by many
// goroutines.
type Filter struct {
	db   *DB
	seed maphash.Seed
	now  atomic.Pointer[bloom]

	refresh sync.Mutex // held by the one refresh under way
}

// bloom is a filter that is good for one state. Refresh shares bits between
// one and the next: a bit that is set too early does no harm.
type bloom struct {
	bits  []uint64
	state uint64
	last  int64 // highest object id whose keys are in
	late  int64 // counter of the keys that went to older objects
	keys  int64 // number of keys that are in, of objects that went too
}

// bitsPerKey with seven probes lets about one absent id in 300 through to a
// query.
const bitsPerKey, probes = 12, 7

// full reports whether more keys would let too many absent ids through.
func (b *bloom) full() bool { return 2*b.keys*bitsPerKey > int64(len(b.bits))*64 }

// NewFilter returns a filter that knows nothing yet.
func (db *DB) NewFilter() *Filter { return &Filter{db: db, seed: maphash.MakeSeed()} }

// Absent reports whether certainly no key has this id, or begins with it if it
// is the 32 digits of a GUID, in the given state. False means that only a
// query can tell; fresh is then false if a Refresh would help.
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

// Refresh reads what is new. state must have been asked of a Watch before the
// call: what is read then is that state or a later one. Without waiting it
// does nothing while another Refresh is under way.
func (f *Filter) Refresh(ctx context.Context, state uint64) error {
	if !f.refresh.TryLock() {
		return nil
	}
	defer f.refresh.Unlock()
	conn, err := f.db.scans.db.Conn(ctx)
	if err != nil {
		return f.db.fail("read keys", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, "BEGIN DEFERRED"); err != nil {
		return f.db.fail("read keys", err)
	}
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") }()
	next := bloom{state: state}
	old := f.now.Load()
	if old == nil {
		old = &bloom{}
	}
	var keys int64
	if err := conn.QueryRowContext(ctx, "SELECT lookups, late_keys, max(last_object, (SELECT coalesce(max(id), 0) FROM object)) FROM state").
		Scan(&keys, &next.late, &next.last); err != nil {
		return f.db.fail("read keys", err)
	}
	read := func(query string, args ...any) error {
		rows, err := conn.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			next.keys++
			next.add(maphash.String(f.seed, id))
			if len(id) > 32 {
				// A PDB of higher age is asked for by the GUID alone.
				next.add(maphash.String(f.seed, id[:32]))
			}
		}
		return rows.Err()
	}
	// Most changes only bring new objects, whose ids are higher than those of
	// all before, or take some away, whose bits do no harm while they are few.
	if old.bits != nil && next.late == old.late && !old.full() && old.keys-keys <= keys/4+1000 {
		next.bits, next.keys = old.bits, old.keys
		err := read("SELECT l.id FROM lookup l WHERE l.object_id > $1", old.last)
		if err != nil {
			return f.db.fail("read keys", err)
		}
		if !next.full() {
			f.now.Store(&next)
			return nil
		}
	}
	// Room for as many again, twice each: an id and its GUID.
	next.keys, next.bits = 0, make([]uint64, max(1<<10, 3*keys*bitsPerKey/64))
	if err := read("SELECT id FROM lookup"); err != nil {
		return f.db.fail("read keys", err)
	}
	f.now.Store(&next)
	return nil
}

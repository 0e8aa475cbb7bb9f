package index

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Filter is a Bloom filter of ids. It answers most misses without a query, and
// most requests to a symbol server are misses.
//
// It is valid for one state of the index, as Watch returns it, and gives no
// answer for other states. Refresh updates it by reading the keys of new
// objects, or all keys if that is not sufficient. Its methods may be called by
// several goroutines.
type Filter struct {
	db      *DB
	seed    maphash.Seed
	now     atomic.Pointer[bloom]
	queries *filterQueries

	refresh sync.Mutex // held by the running Refresh
}

// filterQueries are the queries that return the keys for a filter: rows of a
// product and an id.
type filterQueries struct {
	all        string
	newObjects string // keys of objects above $1

	// products is set if the filter has an entry for each product that holds a
	// key. Only then the other fields are set.
	products        bool
	count           string // number of rows that all returns
	newTransactions string // keys of objects up to $1 in transactions above $2
}

var allProducts = &filterQueries{
	all:        "SELECT '', id FROM lookup",
	newObjects: "SELECT '', l.id FROM lookup l WHERE l.object_id > $1",
}

var eachProduct = &filterQueries{
	products:   true,
	count:      "SELECT count(*) FROM lookup l JOIN seen s ON s.object_id = l.object_id",
	all:        "SELECT p.name, l.id FROM lookup l JOIN seen s ON s.object_id = l.object_id JOIN product p ON p.id = s.product_id",
	newObjects: "SELECT p.name, l.id FROM lookup l JOIN seen s ON s.object_id = l.object_id JOIN product p ON p.id = s.product_id WHERE l.object_id > $1",
	newTransactions: `SELECT p.name, l.id FROM tx t JOIN product p ON p.id = t.product_id JOIN tx_file f ON f.tx_id = t.id
		JOIN lookup l ON l.object_id = f.object_id WHERE t.id > $2 AND f.object_id + 0 <= $1`,
}

// bloom is a filter for one state. Refresh shares the bits between successive
// ones: a bit that is set too early does no harm.
type bloom struct {
	bits  []uint64
	state uint64
	last  int64 // highest object id of which the keys are included
	tx    int64 // newest transaction of which the keys are included
	late  int64 // counter of keys added to older objects
	keys  int64 // number of keys included, also of deleted objects
}

// bitsPerKey with seven probes lets about one missing id in 300 through to a
// query.
const bitsPerKey, probes = 12, 7

// full reports whether more keys would let too many missing ids through.
func (b *bloom) full() bool { return 2*b.keys*bitsPerKey > int64(len(b.bits))*64 }

// NewFilter returns a filter for callers that see all products. It must be
// refreshed before it answers.
func (db *DB) NewFilter() *Filter {
	return &Filter{db: db, seed: maphash.MakeSeed(), queries: allProducts}
}

// NewScopeFilter returns a filter for callers that see some products. It
// excludes the ids of hidden objects like ids that no object has, so neither the
// number of queries nor the time of an answer distinguishes them. It must be
// refreshed before it answers.
func (db *DB) NewScopeFilter() *Filter {
	return &Filter{db: db, seed: maphash.MakeSeed(), queries: eachProduct}
}

// maxFilterProducts limits the products in a scope for which a filter is
// consulted; for larger scopes one query costs less.
const maxFilterProducts = 64

// Excludes reports whether, in the given state, certainly no key of an object in
// the scope has this id or, for the 32 digits of a GUID, begins with it. If it
// returns false, only a query can decide; fresh is then false if a Refresh would
// help. A filter of NewFilter ignores the scope.
func (f *Filter) Excludes(state uint64, scope Scope, id string) (excluded, fresh bool) {
	b := f.now.Load()
	if b == nil || b.state != state {
		return false, false
	}
	if !f.queries.products {
		return !b.has(f.hash("", id)), true
	}
	if scope.All || len(scope.Products) > maxFilterProducts {
		return false, true
	}
	for _, p := range scope.Products {
		if b.has(f.hash(p, id)) {
			return false, true
		}
	}
	return true, true
}

// hash returns the hash of an entry. Names of products contain no NUL.
func (f *Filter) hash(product, id string) uint64 {
	if !f.queries.products {
		return maphash.String(f.seed, id)
	}
	var h maphash.Hash
	h.SetSeed(f.seed)
	_, _ = h.WriteString(product)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(id)
	return h.Sum64()
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
	if err := r.row(ctx, "SELECT lookups, late_keys, last_tx, "+lastObject+" FROM state", nil,
		&keys, &next.late, &next.tx, &next.last); err != nil {
		return err
	}
	read := func(query string, args ...any) error {
		return r.each(ctx, false, query, args, func(scan func(...any) error) (bool, error) {
			var product, id string
			if err := scan(&product, &id); err != nil {
				return false, err
			}
			next.keys++
			next.add(f.hash(product, id))
			if len(id) > 32 {
				// PDBs of a higher age are looked up by the GUID alone.
				next.add(f.hash(product, id[:32]))
			}
			return true, nil
		})
	}
	// Most changes only add objects, with higher ids than all existing ones, or
	// delete some, whose bits do no harm while they are few.
	few := f.queries.products || old.keys-keys <= keys/4+1000
	if old.bits != nil && next.late == old.late && !old.full() && few {
		next.bits, next.keys = old.bits, old.keys
		if err := read(f.queries.newObjects, old.last); err != nil {
			return err
		}
		if f.queries.products {
			if err := read(f.queries.newTransactions, old.last, old.tx); err != nil {
				return err
			}
		}
		if !next.full() {
			f.now.Store(&next)
			return nil
		}
	}
	if f.queries.products {
		if err := r.row(ctx, f.queries.count, nil, &keys); err != nil {
			return err
		}
	}
	// Space for twice as many keys, each with two entries: an id and its GUID.
	next.keys, next.bits = 0, make([]uint64, max(1<<10, 3*keys*bitsPerKey/64))
	if err := read(f.queries.all); err != nil {
		return err
	}
	f.now.Store(&next)
	return nil
}

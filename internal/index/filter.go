package index

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
)

// Filter is a set of ids. It answers most misses without a query, and most
// requests to a symbol server are misses. About one missing id in 200 is taken
// for an existing one and costs a query.
//
// New keys are in a Bloom filter. In an index with many keys, those up to some
// point are in segments that the index stores; a process builds them anew when
// the Bloom filter has become too full.
//
// An id has one entry, for its first entryDigits characters: all ages of a GUID share it, so that whoever asks for a GUID of
// any age finds it too. A wrong age of a GUID that is there costs a query.
//
// A filter is valid for one state of the index, as Watch returns it, and gives no
// answer for other states. Refresh updates it by reading the keys of new
// objects, or all keys if that is not sufficient. Its methods may be called by
// several goroutines.
type Filter struct {
	db      *engine.Database
	tempDir string
	now     atomic.Pointer[bloom]
	queries *filterQueries
	least   int64 // keys from which on there are segments

	refresh sync.Mutex // held by the running Refresh
	retry   time.Time  // guarded by refresh: when to ask again for the lease of a build
}

// filterQueries are the queries that return the keys for a filter: rows of a
// product and an id.
type filterQueries struct {
	kind       int64 // of the stored segments, above formerKinds
	all        string
	newObjects string // keys of objects above $1
	late       string // keys of objects that gained some since $1

	// products is set if the filter has an entry for each product that holds a
	// key. Only then the other fields are set.
	products        bool
	count           string // number of rows that all returns
	newTransactions string // keys of objects up to $1 in transactions above $2

	// The same for packed keys: the product and the columns of oldkeys.ObjectColumns.
	packedLate            string
	packedNewTransactions string
}

var allProducts = &filterQueries{
	kind:       3,
	all:        "SELECT '', id FROM lookup",
	newObjects: "SELECT '', l.id FROM lookup l WHERE l.object_id > $1",
	late:       "SELECT '', l.id FROM late_object k JOIN lookup l ON l.object_id = k.object_id WHERE k.no > $1",
	packedLate: "SELECT DISTINCT " + oldkeys.ObjectColumns + ", '' FROM late_object k JOIN object o ON o.id = k.object_id WHERE k.no > $1",
}

var eachProduct = &filterQueries{
	kind:     4,
	products: true,
	count:    "SELECT count(*) FROM lookup l JOIN seen s ON s.object_id = l.object_id",
	all:      "SELECT p.name, l.id FROM lookup l JOIN seen s ON s.object_id = l.object_id JOIN product p ON p.id = s.product_id",
	newObjects: "SELECT p.name, l.id FROM lookup l JOIN seen s ON s.object_id = l.object_id JOIN product p ON p.id = s.product_id " +
		"WHERE l.object_id > $1",
	late: "SELECT p.name, l.id FROM late_object k JOIN lookup l ON l.object_id = k.object_id " +
		"JOIN seen s ON s.object_id = l.object_id JOIN product p ON p.id = s.product_id WHERE k.no > $1",
	newTransactions: `SELECT p.name, l.id FROM tx t JOIN product p ON p.id = t.product_id JOIN tx_file f ON f.tx_id = t.id
		JOIN lookup l ON l.object_id = f.object_id WHERE t.id > $2 AND f.object_id + 0 <= $1`,
	packedLate: "SELECT DISTINCT " + oldkeys.ObjectColumns + ", p.name FROM late_object k JOIN object o ON o.id = k.object_id " +
		"JOIN seen s ON s.object_id = o.id JOIN product p ON p.id = s.product_id WHERE k.no > $1",
	packedNewTransactions: "SELECT DISTINCT " + oldkeys.ObjectColumns + `, p.name FROM tx t JOIN product p ON p.id = t.product_id
		JOIN tx_file f ON f.tx_id = t.id JOIN object o ON o.id = f.object_id WHERE t.id > $2 AND f.object_id + 0 <= $1`,
}

// bloom is a filter for one state: the keys of base, and in bits those that have
// come since. Refresh shares both between successive ones: a bit that is set too
// early does no harm.
type bloom struct {
	base  *segments // nil in a small index
	bits  []uint64
	state uint64
	at    int64 // state of the index that was read: state or a later one
	last  int64 // highest object id whose keys are included
	tx    int64 // newest transaction whose keys are included
	late  int64 // counter of older objects that gained keys
	keys  int64 // number of keys in bits, also of deleted objects
	some  bool  // there are packed keys

	packed int64 // the highest object that has some
}

// bitsPerKey with seven probes lets about one missing id in 300 through to a
// query.
const bitsPerKey, probes = 12, 7

// full reports whether more keys would let too many missing ids through.
func (b *bloom) full() bool { return b.keys*bitsPerKey > int64(len(b.bits))*64 }

// all returns the number of keys included.
func (b *bloom) all() int64 {
	if b.base == nil {
		return b.keys
	}
	return b.base.keys + b.keys
}

// room makes space for half as many keys again.
func room(keys int64) []uint64 { return make([]uint64, max(1<<9, 3*keys*bitsPerKey/128)) }

// spare is the number of keys that a filter has room for beside its segments: in a large index, a process would
// need more memory for a quarter than for all that there are.
func spare(segments int64) int64 { return min(segments/4, max(segments/16, 1_000_000)) }

// NewFilter returns a filter for callers that see all products. It must be
// refreshed before it answers.
func (db *DB) NewFilter() *Filter {
	return &Filter{db: db.base, tempDir: db.tempDir, queries: allProducts, least: segmentKeys}
}

// NewScopeFilter returns a filter for callers that see some products. It
// excludes the ids of hidden objects like ids that no object has, so neither the
// number of queries nor the time of an answer distinguishes them. It must be
// refreshed before it answers.
func (db *DB) NewScopeFilter() *Filter {
	return &Filter{db: db.base, tempDir: db.tempDir, queries: eachProduct, least: segmentKeys}
}

// maxFilterProducts limits the products in a scope for which a filter is
// consulted; for larger scopes one query costs less.
const maxFilterProducts = 64

// Excludes reports whether, in the given state, certainly no key of an object in
// the scope has this id or, for the 32 digits of a GUID, begins with it. If it
// returns false, only a query can decide; fresh is then false if a Refresh would
// help. A filter of NewFilter ignores the scope.
func (f *Filter) Excludes(state uint64, scope record.Scope, id string) (excluded, fresh bool) {
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

// entryDigits is the length up to which an entry has an id: that of a GUID.
const entryDigits = 32

// hash returns the hash of the entry of an id, the same in all processes. Names of products
// contain no NUL.
func (f *Filter) hash(product, id string) uint64 {
	id = id[:min(len(id), entryDigits)]
	if !f.queries.products {
		return xxhash.Sum64String(id)
	}
	var h xxhash.Digest
	h.Reset()
	_, _ = h.WriteString(product)
	_, _ = h.WriteString("\x00")
	_, _ = h.WriteString(id)
	return h.Sum64()
}

func (b *bloom) has(h uint64) bool { return b.base.has(h) || b.recent(h) }

// recent reports whether a key is among those that came after base.
func (b *bloom) recent(h uint64) bool {
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
	err := f.read(ctx, state, false)
	if !errors.Is(err, errBuild) {
		return f.db.Fail("read keys", err)
	}
	// One process builds segments, the others use what there is.
	now := time.Now()
	if now.Before(f.retry) {
		return nil
	}
	f.retry = now.Add(buildRetry)
	// A process that cannot store a build makes one for itself alone.
	if is, err := f.lease(ctx); !is && !errors.Is(err, engine.ErrReadOnly) {
		return err
	}
	if err := f.read(ctx, state, true); err != nil {
		return f.db.Fail("read keys", err)
	}
	if err := f.store(ctx, f.now.Load().base); !errors.Is(err, engine.ErrReadOnly) {
		return err
	}
	return nil
}

// buildRetry is how long a process leaves the lease of a build to others.
const buildRetry = 5 * time.Second

// errBuild means that segments must be built.
var errBuild = errors.New("the filter must be built anew")

// followsText reads the state, and whether state $1 was an earlier one.
var followsText = engine.Dialects("SELECT generation, $1 <= generation FROM state WHERE one = 1",
	"SELECT salt, EXISTS (SELECT 1 FROM history WHERE history.salt = $1) FROM state WHERE one = 1")

// read brings the filter to a state. If that needs new segments and build is not
// set, it returns errBuild; the filter then answers as well as it can.
func (f *Filter) read(ctx context.Context, state uint64, build bool) error {
	return f.db.Snapshot(ctx, func(r engine.Reader) error {
		next := bloom{state: state}
		var keys, floor int64
		if err := r.Row(ctx, "SELECT lookups, late_keys, late_floor, last_tx, "+record.LastObject+" FROM state", nil,
			&keys, &next.late, &floor, &next.tx, &next.last); err != nil {
			return err
		}
		old, before, follows := f.now.Load(), int64(0), false
		if old != nil {
			before = old.at
		}
		if err := r.Row(ctx, followsText, []any{before}, &next.at, &follows); err != nil {
			return err
		}
		if !follows {
			old = nil // writes were undone: ids of objects and numbers come again
		}
		var err error
		if next.packed, next.some, err = oldkeys.Some(ctx, r); err != nil {
			return err
		}
		if build {
			return f.build(ctx, r, next)
		}
		if old != nil && f.usable(old, &next, floor, keys) {
			if err := f.extend(ctx, r, &next, *old); err != nil {
				return err
			}
			if !next.full() {
				f.now.Store(&next)
				return nil
			}
			if keys >= f.least {
				f.now.Store(&next) // while the segments are built
			}
		}
		if base, err := loadSegments(ctx, r, f.queries.kind, floor); err != nil {
			return err
		} else if base != nil && (old == nil || old.base == nil || base.last > old.base.last) {
			from := bloom{base: base, bits: room(max(keys-base.keys, spare(base.keys))), last: base.last, tx: base.tx, late: base.late}
			if f.usable(&from, &next, floor, keys) {
				if err := f.extend(ctx, r, &next, from); err != nil {
					return err
				}
				f.now.Store(&next)
				if next.full() {
					return errBuild
				}
				return nil
			}
		}
		if f.queries.products {
			if keys, err = f.count(ctx, r, &next, keys); err != nil {
				return err
			}
		}
		if keys >= f.least {
			return errBuild
		}
		next.base, next.keys, next.bits = nil, 0, room(keys)
		if err := f.all(ctx, r, next.some, func(h uint64) error { next.add(h); return nil }, &next.keys); err != nil {
			return err
		}
		f.now.Store(&next)
		return nil
	})
}

// count returns the number of entries for all keys.
func (f *Filter) count(ctx context.Context, r engine.Reader, next *bloom, keys int64) (n int64, err error) {
	if err := r.Row(ctx, f.queries.count, nil, &n); err != nil || !next.some {
		return n, err
	}
	return max(n, keys), nil // most objects are seen in one product
}

// all calls add with the hashes of all keys.
func (f *Filter) all(ctx context.Context, r engine.Reader, packed bool, add func(h uint64) error, keys *int64) error {
	if err := f.each(ctx, r, f.queries.all, nil, add, keys); err != nil || !packed {
		return err
	}
	if !f.queries.products {
		return oldkeys.All(ctx, r, func(k oldkeys.Key) error { return f.add("", k.ID, add, keys) })
	}
	var some []oldkeys.Key
	flush := func() error {
		objects := make([]int64, len(some))
		for i, k := range some {
			objects[i] = k.Object
		}
		products := make(map[int64][]string)
		for _, cond := range oldkeys.Among("s.object_id", objects) {
			if err := r.Each(ctx, false, "SELECT s.object_id, p.name FROM seen s JOIN product p ON p.id = s.product_id WHERE "+cond, nil,
				func(scan engine.Scan) (bool, error) {
					var object int64
					var name string
					err := scan(&object, &name)
					products[object] = append(products[object], name)
					return true, err
				}); err != nil {
				return err
			}
		}
		for _, k := range some {
			for _, name := range slices.Compact(products[k.Object]) {
				if err := f.add(name, k.ID, add, keys); err != nil {
					return err
				}
			}
		}
		some = some[:0]
		return nil
	}
	// On the connection of a snapshot one statement runs at a time.
	for from, more := "", true; more; {
		more = false
		if err := r.Each(ctx, true, oldkeys.Page, []any{from}, func(scan engine.Scan) (bool, error) {
			first, keys, err := oldkeys.ScanPage(scan)
			from, more, some = first, true, append(some, keys...)
			return true, err
		}); err != nil {
			return err
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

// usable reports whether adding the keys of the objects that are newer than old is
// enough. Most changes only add objects, whose ids are higher than all existing
// ones, or delete some. The bits of few deleted objects do no harm.
//
// Of the keys of objects that came since, none may be packed: those are not read by object.
func (f *Filter) usable(old, next *bloom, floor, keys int64) bool {
	few := f.queries.products || old.all()-keys <= keys/4+1000
	// While segments are built, a Bloom filter that is too full goes on up to twice
	// its size.
	full := old.full() && (keys < f.least || old.keys*bitsPerKey > 2*int64(len(old.bits))*64)
	return old.late >= floor && old.last >= next.packed && !full && few
}

// extend adds the keys of new objects, and those that older ones gained.
func (f *Filter) extend(ctx context.Context, r engine.Reader, next *bloom, old bloom) error {
	next.base, next.bits, next.keys = old.base, old.bits, old.keys
	add := func(h uint64) error { next.add(h); return nil }
	if err := f.each(ctx, r, f.queries.newObjects, []any{old.last}, add, &next.keys); err != nil {
		return err
	}
	if next.late > old.late {
		if err := f.each(ctx, r, f.queries.late, []any{old.late}, add, &next.keys); err != nil {
			return err
		}
		if err := f.packed(ctx, r, next, f.queries.packedLate, []any{old.late}, add); err != nil {
			return err
		}
	}
	if !f.queries.products {
		return nil
	}
	if err := f.each(ctx, r, f.queries.newTransactions, []any{old.last, old.tx}, add, &next.keys); err != nil {
		return err
	}
	return f.packed(ctx, r, next, f.queries.packedNewTransactions, []any{old.last, old.tx}, add)
}

// packed calls add with the hashes of the packed keys of the objects that a query returns.
func (f *Filter) packed(ctx context.Context, r engine.Reader, next *bloom, query string, args []any, add func(h uint64) error) error {
	if !next.some {
		return nil
	}
	type seen struct {
		oldkeys.Object
		product string
	}
	var list []seen
	if err := r.Each(ctx, false, query, args, func(scan engine.Scan) (bool, error) {
		var s seen
		var err error
		s.Object, err = oldkeys.ScanObject(scan, &s.product)
		list = append(list, s)
		return true, err
	}); err != nil {
		return err
	}
	for _, s := range list {
		keys, err := oldkeys.OfObject(ctx, r, s.Object)
		for _, k := range keys {
			if err == nil {
				err = f.add(s.product, k.ID, add, &next.keys)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls add with the hashes of the keys that a query returns.
func (f *Filter) each(ctx context.Context, r engine.Reader, query string, args []any, add func(h uint64) error, keys *int64) error {
	return r.Each(ctx, false, query, args, func(scan engine.Scan) (bool, error) {
		var product, id string
		if err := scan(&product, &id); err != nil {
			return false, err
		}
		err := f.add(product, id, add, keys)
		return err == nil, err
	})
}

// add calls add with the hash of one key.
func (f *Filter) add(product, id string, add func(h uint64) error, keys *int64) error {
	*keys++
	return add(f.hash(product, id))
}

// build reads all keys into new segments.
func (f *Filter) build(ctx context.Context, r engine.Reader, next bloom) error {
	s, err := newSpool(f.tempDir)
	if err != nil {
		return err
	}
	defer s.close()
	next.base = &segments{last: next.last, tx: next.tx, late: next.late, at: next.at}
	if err := f.all(ctx, r, next.some, s.add, &next.base.keys); err != nil {
		return err
	}
	if err := s.build(next.base); err != nil {
		return err
	}
	next.bits = room(spare(next.base.keys))
	f.now.Store(&next)
	return nil
}

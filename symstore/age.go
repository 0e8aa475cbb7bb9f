package symstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/symdepot/symdepot/symfile"
)

// AgeOptions say which transactions Age selects. The zero value selects all.
type AgeOptions struct {
	// ByAge goes by the time of storing. Otherwise the last use counts: the
	// latest time at which a file of the transaction was read.
	ByAge bool
	// Before selects only transactions that were last used before this time.
	// Zero: no limit.
	Before time.Time
	// MaxBytes selects the least recently used transactions until the remaining
	// files have at most so many bytes. Negative: no limit.
	MaxBytes int64
	// Keep spares the newest transactions of each product. 0: none.
	Keep int
	// Match selects only transactions for which it is true. Nil: all.
	Match func(Upload) bool
	// Problem, if set, receives the error of each transaction that cannot be
	// read. Such a transaction is not selected.
	Problem func(ID, error)
}

// Aged is a transaction that Age selected.
type Aged struct {
	Transaction
	// Used is the last use, or the time of storing with AgeOptions.ByAge.
	Used time.Time
	// Frees is the number of bytes that deleting the transaction frees if all
	// transactions before it in the list are deleted first.
	Frees int64
}

// Age selects transactions for deletion, least recently used first, and returns
// the size in bytes of all stored files. It deletes nothing: pass the ids to
// Del in this order.
//
// Open the store with Options.ReadOnly, so that reading it does not count as a
// use. The last use is as exact as the access times of the file system; see
// RecordsLastUse.
func (s *Store) Age(ctx context.Context, opt AgeOptions) (list []Aged, total int64, err error) {
	a := &ager{s: s, opt: opt, uses: map[string]*keyUse{}, newer: map[string]int{}}
	for u, err := range s.Walk(ctx) {
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if err != nil {
			if opt.Problem != nil {
				opt.Problem(u.ID, err)
			}
			continue
		}
		if err := a.add(u); err != nil {
			return nil, 0, err
		}
	}
	return a.selected(), a.total, nil
}

// ager sums up the transactions of a store.
type ager struct {
	s     *Store
	opt   AgeOptions
	uses  map[string]*keyUse // by folded name and key
	newer map[string]int     // live transactions of each product
	all   []candidate        // that Match accepts
	total int64
}

// candidate is a transaction with its folded keys, without duplicates.
type candidate struct {
	Aged
	keys []string
}

// keyUse is shared by the transactions of one key.
type keyUse struct {
	used              time.Time
	fileSize, ptrSize int64
	files, pointers   int // live transactions
}

// drop removes a transaction from a key and returns the number of bytes that
// this frees.
func (k *keyUse) drop(pointer bool) (freed int64) {
	if pointer {
		k.pointers--
	} else if k.files--; k.files == 0 {
		freed, k.fileSize = k.fileSize, 0
	}
	if k.files == 0 && k.pointers == 0 {
		freed += k.ptrSize
		k.ptrSize = 0
	}
	return freed
}

func (a *ager) add(u Upload) error {
	c := candidate{Aged: Aged{Transaction: u.Transaction, Used: u.Time}}
	a.newer[u.Product]++
	for _, e := range u.Entries {
		k := symfile.Fold(e.Name + "/" + e.Key)
		use := a.uses[k]
		if use == nil {
			var err error
			if use, err = a.useOf(e); err != nil {
				return err
			}
			a.uses[k] = use
			a.total += use.fileSize + use.ptrSize
		}
		c.keys = append(c.keys, k)
		if !a.opt.ByAge && use.used.After(c.Used) {
			c.Used = use.used
		}
	}
	slices.Sort(c.keys)
	c.keys = slices.Compact(c.keys)
	for _, k := range c.keys {
		if u.Pointer {
			a.uses[k].pointers++
		} else {
			a.uses[k].files++
		}
	}
	if a.opt.Match == nil || a.opt.Match(u) {
		a.all = append(a.all, c)
	}
	return nil
}

// useOf sums up the files of a key.
func (a *ager) useOf(e Entry) (*keyUse, error) {
	kept, err := a.s.StoredFiles(e.Name, e.Key)
	use := &keyUse{}
	for _, k := range kept {
		if k.Pointer {
			use.ptrSize += k.Info.Size()
		} else {
			use.fileSize += k.Info.Size()
		}
		if t := LastUse(k.Info); !a.opt.ByAge && t.After(use.used) {
			use.used = t
		}
	}
	return use, err
}

// selected applies the limits.
func (a *ager) selected() []Aged {
	a.spareNewest()
	slices.SortStableFunc(a.all, func(x, y candidate) int {
		return cmp.Or(x.Used.Compare(y.Used), cmp.Compare(x.ID, y.ID))
	})
	var list []Aged
	left := a.total
	for _, c := range a.all {
		if !a.opt.Before.IsZero() && !c.Used.Before(a.opt.Before) || a.opt.MaxBytes >= 0 && left <= a.opt.MaxBytes {
			continue
		}
		for _, k := range c.keys {
			c.Frees += a.uses[k].drop(c.Pointer)
		}
		left -= c.Frees
		list = append(list, c.Aged)
	}
	return list
}

// spareNewest excludes the newest transactions of each product from the
// selection.
func (a *ager) spareNewest() {
	if a.opt.Keep == 0 {
		return
	}
	spared := map[ID]bool{}
	for t, err := range a.s.Transactions(false) {
		if err != nil || t.Deletes != 0 {
			continue
		}
		spared[t.ID] = a.newer[t.Product] <= a.opt.Keep
		a.newer[t.Product]--
	}
	a.all = slices.DeleteFunc(a.all, func(c candidate) bool { return spared[c.ID] })
}

package symstore

import (
	"cmp"
	"context"
	"path"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/symfile"
)

// AgeOptions are the criteria by which Age selects transactions. The zero value
// selects all.
type AgeOptions struct {
	// ByAge uses the time of storing. Otherwise the last use counts: the latest time
	// at which a file of the transaction was read.
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
	// transactions before it in the list are deleted first. It counts the stored
	// files, their cabinets and the pointers (file.ptr), as the total does. It is
	// negative if the deletion only brings back the pointer of an earlier
	// transaction.
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
	list, err = a.selected()
	return list, a.total, err
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
	files             []ID // live transactions that store the file
	pointers          bool // there are others, or a file.ptr
	// dir is the folder of the key, for simulated deletions. It is read only for
	// keys with pointers. Without pointers the file stays until its last
	// transaction is deleted.
	dir *keyDir
}

// drop removes a transaction from a key and returns the number of bytes that
// this frees.
func (k *keyUse) drop(id ID) (freed int64) {
	k.files = slices.DeleteFunc(k.files, func(f ID) bool { return f == id })
	if k.dir == nil {
		if len(k.files) == 0 {
			freed, k.fileSize = k.fileSize, 0
		}
		return freed
	}
	left := without(k.dir.refs, id)
	held := slices.ContainsFunc(k.files, func(f ID) bool {
		return !slices.ContainsFunc(left, func(r Ref) bool { return r.ID == f })
	})
	for _, o := range k.dir.opsToKeep(left, held) {
		leaf := symfile.Fold(path.Base(o.Path))
		switch {
		case leaf == refsLeaf || o.Do == opRmdir:
		case leaf == pointerLeaf:
			size := int64(len(o.Data)) // none for a removal
			freed, k.ptrSize = freed+k.ptrSize-size, size
		default:
			freed, k.fileSize = freed+k.fileSize, 0 // the file and its cabinet are removed together
		}
		if delete(k.dir.found, leaf); o.Do == opWrite {
			k.dir.found[leaf] = path.Base(o.Path)
		}
	}
	k.dir.refs = left
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
			a.uses[k].pointers = true
		} else {
			a.uses[k].files = append(a.uses[k].files, u.ID)
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
			use.pointers = true
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
func (a *ager) selected() ([]Aged, error) {
	a.spareNewest()
	sorting.Stable(a.all, func(x, y candidate) int {
		return cmp.Or(x.Used.Compare(y.Used), cmp.Compare(x.ID, y.ID))
	})
	var list []Aged
	left := a.total
	for _, c := range a.all {
		if !a.opt.Before.IsZero() && !c.Used.Before(a.opt.Before) || a.opt.MaxBytes >= 0 && left <= a.opt.MaxBytes {
			continue
		}
		for _, k := range c.keys {
			use := a.uses[k]
			if err := a.readDir(use, k); err != nil {
				return nil, err
			}
			c.Frees += use.drop(c.ID)
		}
		left -= c.Frees
		list = append(list, c.Aged)
	}
	return list, nil
}

// readDir reads the folder of a key with pointers. key is the folded name and
// key.
func (a *ager) readDir(use *keyUse, key string) error {
	if !use.pointers || use.dir != nil {
		return nil
	}
	dir, name, ok := a.s.locate(path.Dir(key), path.Base(key))
	if !ok {
		return nil // deleted meanwhile
	}
	kd, err := a.s.readKeyDir(dir, name)
	if err == nil && kd.found != nil {
		use.dir = kd
	}
	return err
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

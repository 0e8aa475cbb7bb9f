package oldkeys

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// BlockOf is a query of the block in which an id is, if it is packed. $1 is the id.
const BlockOf = "SELECT body FROM old_key WHERE first <= $1 ORDER BY first DESC LIMIT 1"

// BlocksFrom is a query of the blocks in which ids from $1 on and before $2 are.
const BlocksFrom = "SELECT body FROM old_key WHERE first < $2 " +
	"AND first >= coalesce((SELECT max(first) FROM old_key WHERE first <= $1), '') ORDER BY first"

// In returns the keys of a block, as one of the queries has returned it, whose ids are from
// from on and before to; with an empty to those of the id from.
func In(block []byte, from, to string) (keys []Key, err error) {
	if to == "" {
		return find(block, from)
	}
	err = each(block, func(id []byte, k Key) bool {
		if string(id) >= to {
			return false
		}
		if string(id) >= from {
			k.ID = string(id)
			keys = append(keys, k)
		}
		return true
	})
	return keys, err
}

// Of returns the packed keys of an id.
func Of(ctx context.Context, r engine.Reader, id string) (keys []Key, err error) {
	err = r.Each(ctx, true, BlockOf, []any{id}, func(scan engine.Scan) (bool, error) {
		var block []byte
		if err := scan(&block); err != nil {
			return false, err
		}
		keys, err = find(block, id)
		return true, err
	})
	return keys, err
}

// Between calls fn for the packed keys of the ids from from on and before to, until it returns
// an error.
func Between(ctx context.Context, r engine.Reader, from, to string, fn func(Key) error) error {
	return r.Each(ctx, true, BlocksFrom, []any{from, to}, func(scan engine.Scan) (bool, error) {
		var block []byte
		if err := scan(&block); err != nil {
			return false, err
		}
		keys, err := In(block, from, to)
		for _, k := range keys {
			if err == nil {
				err = fn(k)
			}
		}
		return err == nil, err
	})
}

// All calls fn for all packed keys, in their order, until it returns an error.
func All(ctx context.Context, r engine.Reader, fn func(Key) error) error {
	return r.Each(ctx, false, "SELECT first, keys, body FROM old_key ORDER BY first", nil, func(scan engine.Scan) (bool, error) {
		_, keys, err := ScanPage(scan)
		for _, k := range keys {
			if err == nil {
				err = fn(k)
			}
		}
		return err == nil, err
	})
}

// Page is a query of the next blocks after the one that begins with $1, for ScanPage; with an empty text, of the
// first ones.
const Page = "SELECT first, keys, body FROM old_key WHERE first > $1 ORDER BY first LIMIT 20"

// ScanPage reads a row of Page: the first id of a block, and its keys.
func ScanPage(scan engine.Scan) (first string, keys []Key, err error) {
	var count int
	var block []byte
	if err := scan(&first, &count, &block); err != nil {
		return "", nil, err
	}
	keys, err = unpack(block)
	if err == nil && (len(keys) != count || count == 0 || keys[0].ID < first) {
		err = errBlock
	}
	return first, keys, err
}

// Objects returns the numbers of the objects that have packed keys with ids from from on and
// before to, or with an empty to with the id from; each once, the highest first.
func Objects(ctx context.Context, r engine.Reader, from, to string) (list []int64, err error) {
	if to == "" {
		var keys []Key
		keys, err = Of(ctx, r, from)
		for _, k := range keys {
			list = append(list, k.Object)
		}
	} else {
		err = Between(ctx, r, from, to, func(k Key) error {
			list = append(list, k.Object)
			return nil
		})
	}
	slices.Sort(list)
	list = slices.Compact(list)
	slices.Reverse(list)
	return list, err
}

// someObjects is how many objects a condition of Among names.
const someObjects = 500

// Among yields conditions that a column is one of the numbers, a part of them each.
func Among(column string, list []int64) (conds []string) {
	for some := range slices.Chunk(list, someObjects) {
		texts := make([]string, len(some))
		for i, n := range some {
			texts[i] = strconv.FormatInt(n, 10)
		}
		conds = append(conds, column+" IN ("+strings.Join(texts, ", ")+")")
	}
	return conds
}

// Object is what the ids of an object's packed keys follow from: from an object, all its packed
// keys are found.
type Object struct {
	ID                       int64
	Name                     string // folded
	CodeID, DebugID, BuildID string
	InfoAge                  int64
}

// ObjectColumns are the columns of an object o that ScanObject reads.
const ObjectColumns = "o.id, o.name_fold, " + record.CodeIDColumn + ", " + record.DebugIDColumn + ", " +
	record.BuildIDColumn + ", o.info_age"

// ScanObject reads ObjectColumns, and the columns after them into more.
func ScanObject(scan engine.Scan, more ...any) (o Object, err error) {
	err = scan(append([]any{&o.ID, &o.Name, &o.CodeID, &o.DebugID, &o.BuildID, &o.InfoAge}, more...)...)
	return o, err
}

// ids returns the ids under which keys of the object may be packed; other keys stay rows. An
// index relies on it: an id that is not here any more would keep its keys when the object is
// dropped.
func (o Object) ids() (list []string) {
	add := func(id string) {
		if id = symfile.Fold(id); id != "" && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	add(o.BuildID)
	add(o.CodeID)
	add(o.DebugID)
	if o.InfoAge != 0 && len(o.DebugID) > 32 {
		add(o.DebugID[:32] + strconv.FormatInt(o.InfoAge, 16))
	}
	return list
}

// OfName returns the objects that have a packed key of an id and a folded name.
func OfName(ctx context.Context, r engine.Reader, id, name string) (objects []int64, err error) {
	keys, err := Of(ctx, r, id)
	for _, k := range keys {
		if err != nil {
			break
		}
		if k.Own {
			if err = r.Row(ctx, "SELECT name_fold FROM object WHERE id = $1", []any{k.Object}, &k.Name); errors.Is(err, sql.ErrNoRows) {
				err = nil // dropped meanwhile
				continue
			}
		}
		if k.Name == name {
			objects = append(objects, k.Object)
		}
	}
	return objects, err
}

// Finds reports whether a packed key of an id is found from the object.
func (o Object) Finds(id string) bool { return slices.Contains(o.ids(), id) }

// OfObject returns the packed keys of an object, with their names.
func OfObject(ctx context.Context, r engine.Reader, o Object) (keys []Key, err error) {
	for _, id := range o.ids() {
		some, err := Of(ctx, r, id)
		if err != nil {
			return nil, err
		}
		keys = append(keys, o.own(some)...)
	}
	return keys, nil
}

// own returns those of some keys that are of the object, with their names.
func (o Object) own(some []Key) (keys []Key) {
	for _, k := range some {
		if k.Object == o.ID {
			keys = append(keys, o.named(k))
		}
	}
	return keys
}

// named returns a key of the object with its name.
func (o Object) named(k Key) Key {
	if k.Own {
		k.Name, k.Own = o.Name, false
	}
	return k
}

// Some reports whether any key is packed, and the highest object that has one.
func Some(ctx context.Context, r engine.Reader) (last int64, some bool, err error) {
	err = r.Row(ctx, someText, nil, &last, &some)
	return last, some, err
}

const someText = "SELECT last_object, EXISTS (SELECT 1 FROM old_key) FROM old_keys WHERE one = 1"

// beginRest is the time between the decision to pack keys and the first packed key, and knownLife how long a process
// may rely on that the decision has not been taken.
const (
	beginRest = time.Minute
	knownLife = 20 * time.Second
)

// Known is what a process knows of whether an index may have packed keys. Most indexes have none, and pay
// nothing for it.
type Known struct {
	may atomic.Bool
	no  atomic.Pointer[time.Time] // when there was no decision to pack
}

// May reports whether keys may be packed, as far as the process knows. What was read without regard to packed keys
// counts only if Still then confirms that there were none.
func (k *Known) May() bool { return k.may.Load() }

// Still reports whether no key was packed before the call.
func (k *Known) Still(ctx context.Context, r engine.Reader) (bool, error) {
	now := time.Now()
	if last := k.no.Load(); last != nil && now.Sub(*last) < knownLife {
		// The time of day goes on while a machine sleeps, unlike that of a process.
		if day := now.Round(0).Sub(last.Round(0)); day >= 0 && day < knownLife {
			return true, nil
		}
	}
	var decided bool
	if err := r.Row(ctx, "SELECT begins IS NOT NULL FROM old_keys WHERE one = 1", nil, &decided); err != nil {
		return false, err
	}
	if decided {
		k.may.Store(true)
		return false, nil
	}
	k.no.Store(&now)
	return true, nil
}

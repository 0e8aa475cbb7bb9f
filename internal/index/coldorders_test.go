package index

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// coldWorld is an index with a store of contents that is only a set of hashes. What a
// cold file needs is known by its name.
type coldWorld struct {
	t      *testing.T
	db     *DB
	store  map[blob.Ref]bool
	plan   map[blob.Ref]blob.Ref // the base of a cold file; the zero value for a key
	builds []record.Entry
	log    []string
}

func (w *coldWorld) has(ref blob.Ref) error {
	if !w.store[ref] {
		return fmt.Errorf("blob %s: %w", ref, fs.ErrNotExist)
	}
	return nil
}

func (w *coldWorld) drop(ref blob.Ref) error {
	delete(w.store, ref)
	return nil
}

// readable returns an error if a content cannot be read from the store.
func (w *coldWorld) readable(ref blob.Ref, base bool) error {
	if w.store[ref] {
		return nil
	}
	row, err := w.db.Colds.Of(context.Background(), ref)
	if err != nil {
		return fmt.Errorf("content %s has no plain bytes and no record: %w", ref, err)
	}
	if err := w.has(row.File.Ref); err != nil {
		return fmt.Errorf("the cold file: %w", err)
	}
	if row.Base == nil {
		return nil
	}
	if base {
		return errors.New("the base of a delta is a delta")
	}
	if row.Base.Ref != w.plan[row.File.Ref] {
		return errors.New("the cold file has another base than its record")
	}
	return w.readable(row.Base.Ref, true)
}

// check reads every content that a transaction holds.
func (w *coldWorld) check() error {
	for _, e := range w.builds {
		for _, h := range lookupEntry(w.t, w.db, all, e) {
			if err := w.readable(h.Ref, false); err != nil {
				return fmt.Errorf("%s: %w", e.Object.Name, err)
			}
		}
	}
	return nil
}

// A coldStep is one transaction of the index or one act on the store. One that the
// index refuses ends its actor.
type coldStep struct {
	name string
	do   func(ctx context.Context, w *coldWorld) error
}

// cooler makes content i cold, as a delta to content j or as a key if j is negative.
// The name of its file says so.
func cooler(i, j int) []coldStep {
	content := func(w *coldWorld) blob.Ref { return w.builds[i].Ref }
	file := record.Content{Ref: blob.Sum(fmt.Appendf(nil, "cold %d %d", i, j)), Size: 10}
	chosen := false // the base was there when it was chosen
	return []coldStep{
		{fmt.Sprintf("encode %d with %d", i, j), func(_ context.Context, w *coldWorld) error {
			if err := w.readable(content(w), false); err != nil || !w.store[content(w)] {
				return fs.ErrNotExist // it is gone or cold
			}
			if j >= 0 && w.readable(w.builds[j].Ref, true) != nil {
				return fs.ErrNotExist
			}
			chosen = true
			w.store[file.Ref] = true
			if j >= 0 {
				w.plan[file.Ref] = w.builds[j].Ref
			}
			return nil
		}},
		{fmt.Sprintf("record %d with %d", i, j), func(ctx context.Context, w *coldWorld) error {
			if !chosen {
				return nil
			}
			var base *blob.Ref
			if j >= 0 {
				base = &w.builds[j].Ref
			}
			return w.db.Colds.Put(ctx, content(w), file, base, func() error {
				if err := w.has(file.Ref); err != nil || base == nil {
					return err
				}
				return w.readable(*base, true)
			})
		}},
		{fmt.Sprintf("strip %d", i), func(ctx context.Context, w *coldWorld) error {
			_, err := w.db.Colds.Strip(ctx, []blob.Ref{content(w)}, time.Now().Add(time.Hour), w.drop)
			return err
		}},
	}
}

// warmer makes content i plain.
func warmer(i int) []coldStep {
	content := func(w *coldWorld) record.Content { return record.Content{Ref: w.builds[i].Ref, Size: w.builds[i].Size} }
	return []coldStep{
		{fmt.Sprintf("restore %d", i), func(ctx context.Context, w *coldWorld) error {
			if _, err := w.db.Colds.Of(ctx, content(w).Ref); err != nil {
				return err
			}
			if err := w.readable(content(w).Ref, false); err != nil {
				return err
			}
			w.store[content(w).Ref] = true
			return nil
		}},
		{fmt.Sprintf("warm %d", i), func(ctx context.Context, w *coldWorld) error {
			return w.db.Colds.Warm(ctx, content(w), func() error { return w.has(content(w).Ref) })
		}},
	}
}

// collector removes the transaction of content i and frees what nothing refers to.
func collector(i int) []coldStep {
	var list []blob.Ref
	survey := coldStep{"survey", func(ctx context.Context, w *coldWorld) error {
		list = nil
		for u, err := range w.db.Unreferenced(ctx, time.Now().Add(time.Hour)) {
			if err != nil {
				return err
			}
			list = append(list, u.Ref)
		}
		return nil
	}}
	free := coldStep{"free", func(ctx context.Context, w *coldWorld) error {
		_, err := w.db.DropContents(ctx, list, time.Now().Add(time.Hour), w.drop)
		return err
	}}
	strays := coldStep{"free strays", func(ctx context.Context, w *coldWorld) error {
		for ref := range w.store {
			if err := w.db.Locked(ctx, func(known func(blob.Ref) (bool, error)) error {
				is, err := known(ref)
				if err == nil && !is {
					err = w.drop(ref)
				}
				return err
			}); err != nil {
				return err
			}
			if _, err := w.db.Colds.Leftover(ctx, ref, func(ref blob.Ref) error {
				plain := w.store[ref]
				w.store[ref] = false
				if w.readable(ref, false) == nil { // proven, as the depot does it before
					return nil
				}
				w.store[ref] = plain
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	}}
	remove := coldStep{fmt.Sprintf("remove %d", i), func(ctx context.Context, w *coldWorld) error {
		_, err := w.db.Trash.Remove(ctx, removals.Removal{Number: int64(i + 1)})
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}}
	return []coldStep{remove, survey, free, strays}
}

// adder adds content i again.
func adder(i int) []coldStep {
	return []coldStep{{fmt.Sprintf("add %d", i), func(ctx context.Context, w *coldWorld) error {
		e := w.builds[i]
		if w.readable(e.Ref, false) != nil {
			w.store[e.Ref] = true // it is written
		}
		_, err := w.db.Commit(ctx, record.Tx{Kind: "add", Entries: []record.Entry{e}}, func(context.Context, []blob.Ref) error { return w.readable(e.Ref, false) })
		return err
	}}}
}

// TestColdOrders runs two coolers, one that warms, one that adds and a garbage
// collector on three contents in many orders of their steps: after each step every
// content that a transaction holds can be read.
func TestColdOrders(t *testing.T) {
	orders := 60
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		orders = 4000
	} else if testing.Short() {
		orders = 10
	}
	casts := []func() [][]coldStep{
		func() [][]coldStep { return [][]coldStep{cooler(1, 0), cooler(1, 2), warmer(0), collector(0)} },
		func() [][]coldStep { return [][]coldStep{cooler(1, 0), cooler(0, -1), cooler(2, 1), collector(1)} },
		func() [][]coldStep { return [][]coldStep{cooler(1, 0), warmer(1), warmer(0), collector(0), adder(0)} },
		func() [][]coldStep {
			return [][]coldStep{cooler(0, 2), cooler(2, 0), collector(2), collector(0), warmer(0)}
		},
	}
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 15), 3))
	for n := range orders {
		w := &coldWorld{t: t, store: map[blob.Ref]bool{}, plan: map[blob.Ref]blob.Ref{}}
		var err error
		if w.db, err = Open(t.Context(), newIndex(t), Options{}); err != nil {
			t.Fatal(err)
		}
		for i := 1; i <= 3; i++ {
			w.builds = append(w.builds, pdb(i))
			w.store[pdb(i).Ref] = true
			commitTest(t, w.db, "app", pdb(i))
		}
		if n%3 > 0 { // content 0 is a key already, and has no plain bytes
			for _, s := range cooler(0, -1) {
				if err := s.do(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
		}
		actors := casts[n%len(casts)]()
		for left := true; left; {
			left = false
			for _, k := range rng.Perm(len(actors)) {
				if len(actors[k]) == 0 {
					continue
				}
				left = true
				s := actors[k][0]
				actors[k] = actors[k][1:]
				w.log = append(w.log, s.name)
				if err := s.do(t.Context(), w); errors.Is(err, contents.ErrColdRefused) || errors.Is(err, fs.ErrNotExist) {
					w.log[len(w.log)-1] += " (refused)"
					actors[k] = nil
				} else if err != nil {
					t.Fatalf("order %d: %s: %v", n, strings.Join(w.log, ", "), err)
				}
				if err := w.check(); err != nil {
					t.Fatalf("order %d: after %s: %v", n, strings.Join(w.log, ", "), err)
				}
				break
			}
		}
		clean(t, w.db)
		_ = w.db.Close()
	}
}

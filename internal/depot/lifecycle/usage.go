package lifecycle

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/symfile"
)

// Usage says what takes the space of a depot. All sizes are disk space in bytes:
// whole blocks, with what was made from a content.
type Usage struct {
	Time time.Time
	// By are the shares of products, versions, classes and kinds, in this order of
	// keys, the largest first.
	Products, Versions, Classes, Kinds []Share
	// Live is what live transactions hold, Cached what only cached files and
	// unfinished pushes do.
	Live, Cached int64
	// Garbage is what gc frees now, its grace aside; Trash what it frees after the
	// trash, and InTrash the number of transactions there.
	Garbage, Trash int64
	InTrash        int
	// Plan is what the policy would remove now; nil if none was set.
	Plan *PlanSum
	// Cold are the sums of cold contents. Bucket is set if the contents are in a bucket.
	Cold   coldstore.ColdStats
	Bucket bool
}

// PlanSum is what a policy would remove.
type PlanSum struct {
	Transactions int
	Frees        int64
}

// Share is the part of one product, version, class or kind.
type Share struct {
	Product, Version, Class, Kind string // those that tell it apart
	Transactions                  int
	// Own is what nothing else of this kind of division holds: its removal alone frees
	// that. Shared is what others hold too. The base of a cold file is held by what holds
	// that.
	Own, Shared int64
}

// Usage computes what takes the space. Its cost is that of a preview.
func (r *Retention) Usage(ctx context.Context) (*Usage, error) {
	p, err := r.Policy(ctx)
	if err != nil {
		return nil, err
	}
	now := r.now()
	s, err := r.db.Retention.State(ctx, now)
	if err != nil {
		return nil, err
	}
	kinds := make([]symfile.Kind, len(s.Contents))
	if err := r.db.Retention.Kinds(ctx, func(content, kind int64) {
		if i, ok := s.Position(content); ok && kinds[i] == symfile.KindUnknown {
			kinds[i] = symfile.Kind(kind)
		}
	}); err != nil {
		return nil, err
	}
	state := r.stateOf(s)
	u := &Usage{Time: now, Bucket: r.placed}
	if u.Cold, err = r.cold.Stats(ctx); err != nil {
		return nil, err
	}
	w := newWeights(state)
	live := slices.DeleteFunc(slices.Clone(state.Transactions), func(t retention.Transaction) bool { return !t.Removed.IsZero() })
	class := func(t *retention.Transaction) string { return p.Policy.ClassOf(t) }
	if p.Number == 0 {
		class = func(t *retention.Transaction) string { return t.Class }
	}
	u.Products = w.divide(live, func(t *retention.Transaction) Share { return Share{Product: t.Product} })
	u.Versions = w.divide(live, func(t *retention.Transaction) Share { return Share{Product: t.Product, Version: t.Version} })
	u.Classes = w.divide(live, func(t *retention.Transaction) Share { return Share{Class: class(t)} })
	u.Kinds, u.Live = w.kinds(live, kinds)
	for i := range state.Contents {
		if c := state.Contents[i]; (c.Pinned || c.Pushed) && !w.held[i] {
			u.Cached += w.of[i]
		}
	}
	g, err := state.Garbage(now, false)
	if err != nil {
		return nil, err
	}
	u.Garbage, u.Trash, u.InTrash = g.Frees.Stored, g.Waits.Stored, len(g.Waiting)
	if p.Number > 0 {
		plan, err := p.Policy.Plan(state, now)
		if err != nil {
			return nil, err
		}
		u.Plan = &PlanSum{plan.Builds(), plan.Frees.Stored}
	}
	return u, nil
}

// weights are the sizes of contents with what was made from them.
type weights struct {
	of   []int64
	held []bool // by a live transaction
	met  []uint32
	n    uint32
	// bases are the files that a file is built from while it is cold.
	bases map[uint32]uint32
}

func newWeights(s *retention.State) *weights {
	n := len(s.Contents)
	w := &weights{of: make([]int64, n), held: make([]bool, n), met: make([]uint32, n), bases: map[uint32]uint32{}}
	for i := range s.Contents {
		w.of[i] = s.Contents[i].Stored
	}
	file := make([]bool, len(s.Contents))
	for i := range s.Transactions {
		for _, c := range s.Transactions[i].Contents {
			file[c] = true
		}
	}
	// What is a file itself counts as that, anything else as part of the file that it
	// was made from or that needs it: w.met holds a source plus one.
	for _, d := range s.Derived {
		if file[d.Result] && file[d.Source] {
			w.bases[d.Source] = d.Result
		}
		if !file[d.Result] && w.met[d.Result] == 0 {
			w.met[d.Result] = d.Source + 1
		}
	}
	for i := range s.Contents {
		at := i
		for steps := 0; !file[at] && w.met[at] > 0 && steps < 8; steps++ {
			at = int(w.met[at]) - 1
		}
		if at != i {
			w.of[at] += s.Contents[i].Stored
			w.of[i] -= s.Contents[i].Stored
		}
	}
	clear(w.met)
	return w
}

// divide adds up the contents of transactions by what key tells apart.
func (w *weights) divide(live []retention.Transaction, key func(*retention.Transaction) Share) []Share {
	at := make(map[Share]int)
	var shares []Share
	var members [][]int
	for i := range live {
		k := key(&live[i])
		j, ok := at[k]
		if !ok {
			j = len(shares)
			at[k] = j
			shares, members = append(shares, k), append(members, nil)
		}
		shares[j].Transactions++
		members[j] = append(members[j], i)
	}
	holders := make([]uint8, len(w.of)) // 0, 1, or 2 for more
	each := func(j int, fn func(c uint32)) {
		w.n++
		once := func(c uint32) {
			if w.met[c] != w.n {
				w.met[c] = w.n
				fn(c)
			}
		}
		for _, i := range members[j] {
			for _, c := range live[i].Contents {
				once(c)
				if base, ok := w.bases[c]; ok { // it is needed as long as c is
					once(base)
				}
			}
		}
	}
	for j := range shares {
		each(j, func(c uint32) { holders[c] = min(holders[c]+1, 2) })
	}
	for j := range shares {
		each(j, func(c uint32) {
			if holders[c] == 1 {
				shares[j].Own += w.of[c]
			} else {
				shares[j].Shared += w.of[c]
			}
		})
	}
	sorting.Stable(shares, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Own+b.Shared, a.Own+a.Shared),
			cmp.Compare(a.Product, b.Product), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Class, b.Class))
	})
	return shares
}

// kinds adds up the contents of live transactions by kind, and all of them.
func (w *weights) kinds(live []retention.Transaction, kinds []symfile.Kind) (shares []Share, sum int64) {
	at := make(map[symfile.Kind]int)
	w.n++
	for i := range live {
		for _, c := range live[i].Contents {
			if w.met[c] == w.n {
				continue
			}
			w.met[c], w.held[c] = w.n, true
			j, ok := at[kinds[c]]
			if !ok {
				j = len(shares)
				at[kinds[c]] = j
				shares = append(shares, Share{Kind: kinds[c].String()})
			}
			shares[j].Own += w.of[c]
			sum += w.of[c]
		}
	}
	sorting.Stable(shares, func(a, b Share) int { return cmp.Or(cmp.Compare(b.Own, a.Own), cmp.Compare(a.Kind, b.Kind)) })
	return shares, sum
}

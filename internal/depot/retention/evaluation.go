package retention

import (
	"cmp"
	"slices"
	"time"
)

// evaluation is the state of one call of Policy.Plan. Its methods are called in the
// order of section "Order of evaluation".
type evaluation struct {
	policy *Policy
	now    time.Time
	plan   *Plan
	*graph
	// ledger holds the pins and the transactions that are kept so far.
	ledger *ledger
	// products are the verdicts by product, newest number first.
	products [][]*Verdict
	// needs and neededBy are, by position in plan.Verdicts, the positions of the live
	// transactions that one needs and that need it.
	needs, neededBy [][]int32
}

// find returns the position of a live transaction.
func (e *evaluation) find(number int64) (int, bool) {
	return slices.BinarySearchFunc(e.plan.Verdicts, number, func(v Verdict, n int64) int { return cmp.Compare(v.Number, n) })
}

// newestFirst sorts by own time, then by number.
func newestFirst(list []*Verdict) {
	slices.SortFunc(list, func(a, b *Verdict) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(b.Number, a.Number))
	})
}

package retention

import (
	"cmp"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
)

// Plan computes which transactions of a state the policy keeps and removes at a time. The error
// reports a state that contradicts itself.
func (p *Policy) Plan(s *State, now time.Time) (*Plan, error) {
	now = now.UTC().Truncate(time.Millisecond)
	if err := s.check(); err != nil {
		return nil, err
	}
	live, err := s.sorted((*Transaction).live)
	if err != nil {
		return nil, err
	}
	g, err := newGraph(s, live)
	if err != nil {
		return nil, err
	}
	e := &evaluation{policy: p, now: now, graph: g, plan: &Plan{
		Now: now, PolicyHash: p.Hash(), Trash: p.Trash, Warnings: p.Warnings(), Verdicts: make([]Verdict, len(live)),
	}}
	for i, t := range live {
		e.plan.Verdicts[i] = Verdict{at: int32(i), Transaction: t, Class: p.ClassOf(t), Age: now.Sub(t.arrived())}
	}
	e.products = e.byProduct()
	e.lastUse()
	e.protect()
	e.keep()
	e.references()
	e.ledger = newLedger(g)
	for _, t := range live {
		e.ledger.add(t)
	}
	e.plan.Live = e.ledger.seen
	e.ledger.pin(true)
	before := e.ledger.seen
	for v := range e.plan.Removed() {
		e.ledger.drop(v.Transaction)
	}
	e.caps()
	e.plan.Frees = before.sub(e.ledger.seen)
	for i := range e.plan.Verdicts {
		e.plan.Count[e.plan.Verdicts[i].Reason]++
	}
	if err := e.freesNow(s); err != nil {
		return nil, err
	}
	e.brake()
	e.sums()
	return e.plan, nil
}

// lastUse finds out when each transaction was used. A read of a content counts for
// the newest live transaction, by number, of each product that holds the content.
func (e *evaluation) lastUse() {
	for _, list := range e.products {
		e.walk()
		for _, v := range list {
			read := int64(0)
			for _, c := range v.Contents {
				if e.meet(c) {
					read = max(read, e.contents[c].LastRead)
				}
			}
			v.Unused = v.Age
			if d := e.now.Sub(time.Unix(read, 0)); read > 0 && d < v.Age {
				v.Unused, v.WasRead = d, true
			}
		}
	}
}

// byProduct returns the verdicts of each product, newest number first.
func (e *evaluation) byProduct() [][]*Verdict {
	products := map[string]int{}
	var lists [][]*Verdict
	for i := range slices.Backward(e.plan.Verdicts) {
		v := &e.plan.Verdicts[i]
		at, ok := products[v.Product]
		if !ok {
			at = len(lists)
			products[v.Product] = at
			lists = append(lists, nil)
		}
		lists[at] = append(lists[at], v)
	}
	sorting.By(lists, func(a, b []*Verdict) int { return cmp.Compare(a[0].Product, b[0].Product) })
	return lists
}

// protect keeps transactions that are held, without rules, or young.
func (e *evaluation) protect() {
	for i := range e.plan.Verdicts {
		v := &e.plan.Verdicts[i]
		rules, some := e.policy.Rules(v.Class)
		v.rules = rules
		var held bool
		switch v.hold, held = v.Held(e.now); {
		case held:
			v.Reason = Held
		case !some:
			v.Reason = NoRule
		case v.Open || v.Age < time.Duration(e.policy.MinAge):
			v.Reason = Young
		}
	}
}

// keep applies the keep rules of each group.
func (e *evaluation) keep() {
	type name struct{ product, branch, class string }
	groups := map[name]int{}
	var order []*Verdict
	for i := range e.plan.Verdicts {
		v := &e.plan.Verdicts[i]
		n := name{v.Product, v.Branch, v.Class}
		g, ok := groups[n]
		if !ok {
			g = len(groups)
			groups[n] = g
		}
		v.group = g
		if !v.rules.forever() {
			order = append(order, v)
		}
	}
	newestFirst(order)
	rank := make([]int, len(groups))
	for _, v := range order {
		if v.Reason == Held {
			continue
		}
		rank[v.group]++
		v.Rank = rank[v.group]
		if v.Reason != Expired {
			continue // young ones count too
		}
		switch r := v.rules; {
		case v.Rank <= r.KeepLast:
			v.Reason = Last
		case r.KeepWithin > 0 && v.Age <= time.Duration(r.KeepWithin):
			v.Reason = Within
		case r.KeepUsed > 0 && v.Unused <= time.Duration(r.KeepUsed):
			v.Reason = Used
		}
	}
}

// references keeps the transactions that kept ones need, transitively.
func (e *evaluation) references() {
	verdicts := e.plan.Verdicts
	e.needs, e.neededBy = make([][]int32, len(verdicts)), make([][]int32, len(verdicts))
	var queue []int32
	for i := range verdicts {
		var needs []int32
		for _, number := range verdicts[i].Needs {
			if j, ok := e.find(number); ok && j != i {
				needs = append(needs, int32(j))
			}
		}
		slices.Sort(needs)
		e.needs[i] = slices.Compact(needs)
		for _, j := range e.needs[i] {
			e.neededBy[j] = append(e.neededBy[j], int32(i))
		}
		if verdicts[i].Reason.Keeps() {
			queue = append(queue, int32(i))
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, j := range e.needs[queue[0]] {
			if v := &verdicts[j]; v.Reason == Expired {
				v.Reason, v.NeededBy = Needed, verdicts[queue[0]].Number
				queue = append(queue, j)
			}
		}
	}
}

// orphans finds the transactions that were kept because others need them, all of which a cap
// removes. For the rest it names one that stays.
func (e *evaluation) orphans() {
	var queue []*Verdict
	for i := range e.plan.Verdicts {
		v := &e.plan.Verdicts[i]
		if v.Orphan = v.Reason == Needed; !v.Orphan && v.Reason.Keeps() {
			queue = append(queue, v)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, j := range e.needs[queue[0].at] {
			if v := &e.plan.Verdicts[j]; v.Orphan {
				v.Orphan, v.NeededBy = false, queue[0].Number
				queue = append(queue, v)
			}
		}
	}
}

// freesNow computes which part of Frees needs no waiting.
func (e *evaluation) freesNow(s *State) error {
	if e.policy.Trash > 0 {
		return nil
	}
	// Contents in the trash are held for now. The ledger has only pins and kept transactions.
	trash, err := s.sorted(func(t *Transaction) bool { return !t.live() && t.TrashUntil.After(e.now) })
	if err != nil {
		return err
	}
	l := e.ledger
	for _, t := range trash {
		l.add(t)
	}
	with := l.seen
	for v := range e.plan.Removed() {
		l.add(v.Transaction)
	}
	e.plan.FreesNow = l.seen.sub(with)
	for v := range e.plan.Removed() {
		l.drop(v.Transaction)
	}
	for _, t := range trash {
		l.drop(t)
	}
	return nil
}

// brake finds the products of which too much would go.
func (e *evaluation) brake() {
	if e.plan.Builds() == 0 {
		return
	}
	for _, list := range e.products {
		b := Braked{Product: list[0].Product, Live: len(list)}
		e.walk()
		for _, v := range list {
			if v.Reason.Keeps() {
				b.Total += e.reach(v.Transaction)
			} else {
				b.Removed++
			}
		}
		if b.Removed == 0 {
			continue
		}
		// What the walk has not met yet is seen through removed transactions only.
		for _, v := range list {
			if !v.Reason.Keeps() {
				b.Bytes += e.reach(v.Transaction)
			}
		}
		b.Total += b.Bytes
		if e.policy.Brake.exceeded(int64(b.Removed), int64(b.Live)) || e.policy.Brake.exceeded(b.Bytes, b.Total) {
			e.plan.Brake = append(e.plan.Brake, b)
		}
	}
}

// sums adds up verdicts and computes the space that removals would free alone.
func (e *evaluation) sums() {
	var groups [][]*Verdict
	for i := range e.plan.Verdicts {
		v := &e.plan.Verdicts[i]
		for len(groups) <= v.group {
			groups = append(groups, nil)
		}
		groups[v.group] = append(groups[v.group], v)
		if !v.Reason.Keeps() {
			e.ledger.add(v.Transaction) // back to the state before the plan
		}
	}
	for v := range e.plan.Removed() {
		v.Listed, v.Alone = e.listed(v.Transaction), e.ledger.frees(v.Transaction)
	}
	for _, list := range groups {
		g := GroupSum{Class: list[0].Class, Product: list[0].Product, Branch: list[0].Branch}
		var removed []*Transaction
		for _, v := range list {
			if v.Reason.Keeps() {
				g.Kept[v.Reason]++
				continue
			}
			g.Listed += v.Listed
			removed = append(removed, v.Transaction)
		}
		g.Removed = len(removed)
		g.Frees = e.ledger.frees(removed...)
		e.plan.Listed += g.Listed
		e.plan.Groups = append(e.plan.Groups, g)
	}
	sorting.By(e.plan.Groups, func(a, b GroupSum) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Product, b.Product), cmp.Compare(a.Branch, b.Branch))
	})
}

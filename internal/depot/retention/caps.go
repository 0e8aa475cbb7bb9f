package retention

import (
	"cmp"
	"maps"
	"slices"
)

// caps removes transactions that rules keep until each cap is met or nothing more
// can go.
func (e *evaluation) caps() {
	type scope struct {
		CapUse
		in func(*Verdict) bool
	}
	var scopes []scope
	for _, c := range e.policy.Classes {
		if c.Cap > 0 {
			scopes = append(scopes,
				scope{CapUse{Scope: ClassScope, Name: c.Name, Limit: int64(c.Cap)}, func(v *Verdict) bool { return v.Class == c.Name }})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.policy.ProductCaps)) {
		if size := e.policy.ProductCaps[name]; size > 0 {
			scopes = append(scopes,
				scope{CapUse{Scope: ProductScope, Name: name, Limit: int64(size)}, func(v *Verdict) bool { return v.Product == name }})
		}
	}
	if e.policy.Cap > 0 {
		scopes = append(scopes, scope{CapUse{Scope: DepotScope, Limit: int64(e.policy.Cap)}, func(*Verdict) bool { return true }})
	}
	if len(scopes) == 0 {
		return
	}
	e.floor()
	members := make([][]*Verdict, len(scopes))
	for i := range e.plan.Verdicts {
		for j := range scopes {
			if v := &e.plan.Verdicts[i]; scopes[j].in(v) {
				members[j] = append(members[j], v)
			}
		}
	}
	for j := range scopes {
		e.plan.Caps = append(e.plan.Caps, scopes[j].CapUse)
		c := &e.plan.Caps[j]
		c.Before = e.unique(members[j], func(*Verdict) bool { return true })
		if c.Before > c.Limit {
			e.evict(j, c, members[j])
		}
	}
	e.orphans()
	for j := range e.plan.Caps { // a later cap may have removed more of an earlier scope
		c := &e.plan.Caps[j]
		c.After = e.unique(members[j], func(v *Verdict) bool { return v.Reason.Keeps() })
		c.Unmet = max(0, c.After-c.Limit)
		for _, v := range members[j] {
			if v.Reason == Cap && v.CapOf == j {
				c.Removed++
			}
		}
	}
}

// unique adds up the stored bytes of those transactions that pass, each content
// once.
func (e *evaluation) unique(list []*Verdict, pass func(*Verdict) bool) (sum int64) {
	e.walk()
	for _, v := range list {
		if pass(v) {
			sum += e.reach(v.Transaction)
		}
	}
	return sum
}

// floor marks the newest transactions of each group: no cap removes them.
func (e *evaluation) floor() {
	if e.policy.Floor <= 0 {
		return
	}
	var kept []*Verdict
	groups := 0
	for i := range e.plan.Verdicts {
		v := &e.plan.Verdicts[i]
		groups = max(groups, v.group+1)
		if v.Reason.Keeps() {
			kept = append(kept, v)
		}
	}
	newestFirst(kept)
	met := make([]int, groups)
	for _, v := range kept {
		if met[v.group]++; met[v.group] <= e.policy.Floor {
			v.floor = true
		}
	}
}

// evict removes transactions of a scope, the least lately used first, until cap c,
// number at, is met. It spares what is held, kept forever, young, needed by a
// transaction that is live at that moment, or among the newest of its group, and
// those that could free nothing.
func (e *evaluation) evict(at int, c *CapUse, members []*Verdict) {
	scope := newLedger(e.graph)
	var order []*Verdict
	for _, v := range members {
		if !v.Reason.Keeps() {
			continue
		}
		scope.add(v.Transaction)
		switch v.Reason {
		case Held, NoRule, Young:
		default:
			if !v.floor {
				order = append(order, v)
			}
		}
	}
	slices.SortFunc(order, func(a, b *Verdict) int {
		return cmp.Or(cmp.Compare(b.Unused, a.Unused), cmp.Compare(a.Number, b.Number))
	})
	e.useful(order)
	var gone []*Verdict
	var before []Reason
	for _, v := range order {
		if scope.seen.Stored <= c.Limit {
			break
		}
		if !v.useful || e.isNeeded(v, func(by *Verdict) bool { return by.Reason.Keeps() }) {
			continue
		}
		gone, before = append(gone, v), append(before, v.Reason)
		v.Reason, v.CapOf = Cap, at
		scope.drop(v.Transaction)
		e.ledger.drop(v.Transaction)
	}
	// A transaction whose contents all stayed, because the cap was met before the
	// others that hold them were removed, would be lost without any gain.
	for i, v := range slices.Backward(gone) {
		if e.ledger.free(v.Transaction) || e.needsGone(v) {
			continue
		}
		if scope.add(v.Transaction); scope.seen.Stored > c.Limit {
			scope.drop(v.Transaction)
			continue
		}
		e.ledger.add(v.Transaction)
		v.Reason, v.CapOf = before[i], 0
	}
}

// useful marks the transactions of a list, in the order in which a cap removes
// them, that could free anything: those that have a content that nothing refers to
// once the whole list is removed.
func (e *evaluation) useful(order []*Verdict) {
	for _, v := range order {
		v.goes, v.useful = false, false
	}
	for _, v := range order {
		// Only what is removed earlier does not need it any more.
		if v.goes = !e.isNeeded(v, func(by *Verdict) bool { return by.Reason.Keeps() && !by.goes }); v.goes {
			e.ledger.drop(v.Transaction)
		}
	}
	for _, v := range order {
		v.useful = v.goes && e.ledger.free(v.Transaction)
	}
	for _, v := range order {
		if v.goes {
			e.ledger.add(v.Transaction)
			v.goes = false
		}
	}
}

// isNeeded reports whether a transaction is needed by one that passes.
func (e *evaluation) isNeeded(v *Verdict, pass func(*Verdict) bool) bool {
	return slices.ContainsFunc(e.neededBy[v.at], func(j int32) bool { return pass(&e.plan.Verdicts[j]) })
}

// needsGone reports whether a cap has removed a transaction that this one needs.
func (e *evaluation) needsGone(v *Verdict) bool {
	return slices.ContainsFunc(e.needs[v.at], func(j int32) bool { return e.plan.Verdicts[j].Reason == Cap })
}

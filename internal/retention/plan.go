package retention

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/term"
)

// Reason is the reason why a transaction is kept or removed.
type Reason uint8

// Reasons, in the order of evaluation. The first that applies counts. Up to Cap they
// are reasons for a removal.
const (
	Expired Reason = iota // no rule keeps it
	Cap                   // a cap removes it although a rule keeps it
	Held                  // a hold is in force
	NoRule                // its class has no keep rules
	Young                 // it arrived less than MinAge ago, or is still open
	Last                  // rule keep_last
	Within                // rule keep_within
	Used                  // rule keep_used
	Needed                // a kept transaction needs it
	reasons
)

var reasonWords = [reasons]string{"expired", "cap", "hold", "no rule", "young", "last", "within", "used", "ref"}

// String returns the word for the reason, as the specification's test vectors have it.
func (r Reason) String() string { return reasonWords[r] }

// MarshalText is String.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Keeps reports whether this is a reason to keep a transaction.
func (r Reason) Keeps() bool { return r > Cap }

// Verdict is the decision of a plan about one live transaction.
type Verdict struct {
	*Transaction
	// Class is the class by which the transaction is judged: its own, or the one that
	// the policy chose.
	Class  string
	Reason Reason
	// Age is the time since its arrival; negative if the depot's clock was ahead.
	Age time.Duration
	// Unused is the time since its last use: its arrival, or the last read of one of its
	// contents that counts for it.
	Unused time.Duration
	// WasRead is set if Unused counts from a read.
	WasRead bool
	// Rank is its place, from 1, among the transactions of its group that are not held,
	// newest first. 0: it is held, or its class has no rules.
	Rank int
	// NeededBy is a kept transaction that needs it, for the reason Needed.
	NeededBy int64
	// CapOf is the position in Plan.Caps of the cap that removes it, for the reason Cap.
	CapOf int
	// Listed is the sum of the lengths of its contents, and Alone the space that removing it alone
	// would free. Both are computed for removed transactions only.
	Listed int64
	Alone  Bytes

	at    int32 // position in Plan.Verdicts
	group int
	rules Rules
	hold  Hold
	// For caps: it is among the newest of its group; it is meant to be removed; its
	// removal could free something.
	floor, goes, useful bool
}

// Scope is the kind of group that a cap limits.
type Scope string

// Scopes of caps, in the order of evaluation.
const (
	ClassScope   Scope = "class"
	ProductScope Scope = "product"
	DepotScope   Scope = "depot"
)

// CapUse is the state of a cap after a plan.
type CapUse struct {
	Scope Scope  `json:"scope"`
	Name  string `json:"name"` // of the class or product; empty for the depot
	Limit int64  `json:"limit"`
	// Before and After are the stored bytes seen through the scope, each content once:
	// before the plan and after all of it.
	Before int64 `json:"before"`
	After  int64 `json:"after"`
	// Unmet is by how much After is above the limit.
	Unmet int64 `json:"unmet"`
	// Removed is the number of transactions that this cap removes.
	Removed int `json:"removed"`
}

// Braked is a product of which a plan removes more than the policy's brake allows.
type Braked struct {
	Product string `json:"product"`
	Removed int    `json:"removed"` // transactions
	Live    int    `json:"live"`    // transactions before the plan
	// Bytes of Total are no longer seen through the product. Both are stored bytes, each
	// content once.
	Bytes int64 `json:"bytes"`
	Total int64 `json:"total"`
}

// GroupSum adds up the transactions of one product, branch and class.
type GroupSum struct {
	Class   string
	Product string
	Branch  string
	Kept    [reasons]int // transactions by reason
	Removed int          // transactions
	Listed  int64        // sum of Verdict.Listed
	Frees   Bytes        // what the removals of this group would free alone
}

// Plan is the outcome of a policy for a state and a time. It refers to the
// transactions of the state, which must not change meanwhile.
type Plan struct {
	// Now is the time for which the plan was computed, in UTC, in milliseconds.
	Now time.Time
	// PolicyHash is [Policy.Hash] of the policy.
	PolicyHash string
	// Verdicts are about all live transactions, by number.
	Verdicts []Verdict
	// Count is the number of transactions by reason.
	Count [reasons]int
	// Listed is the sum of the lengths of the contents of all removed transactions, a
	// content once for each.
	Listed int64
	// Frees is the space that the plan frees in the end: contents that no live transaction holds any
	// more, that are not pinned, and the contents derived from them.
	Frees Bytes
	// FreesNow is the part of Frees that garbage collection can free at once: nothing of
	// it if the policy has a trash, and no contents that an earlier removal still holds
	// in the trash. [State.Garbage] with empty set frees all of Frees.
	FreesNow Bytes
	// Live is the space that live transactions hold before the plan.
	Live Bytes
	// Trash is how long the removed transactions can be restored. Zero: they cannot.
	Trash term.Duration
	// Caps are the caps of the policy in the order of evaluation: classes in the order of
	// the policy, products by name, the depot.
	Caps []CapUse
	// Brake lists the products for which the plan needs confirmation.
	Brake []Braked
	// Groups are the sums by class, product and branch, in this order.
	Groups []GroupSum
	// Warnings are those of the policy.
	Warnings []string
}

// Removed yields the verdicts on the transactions that the plan removes, by number.
func (p *Plan) Removed() func(yield func(*Verdict) bool) {
	return func(yield func(*Verdict) bool) {
		for i := range p.Verdicts {
			if v := &p.Verdicts[i]; !v.Reason.Keeps() && !yield(v) {
				return
			}
		}
	}
}

// Builds is the number of transactions that the plan removes.
func (p *Plan) Builds() int { return p.Count[Expired] + p.Count[Cap] }

// Shared is the part of Listed that the plan does not free, because other
// transactions or pins hold it or because it was listed for several transactions.
// It is in plain lengths.
func (p *Plan) Shared() int64 { return p.Listed - (p.Frees.Size - p.Frees.DerivedSize) }

// FreesAfterTrash is the part of Frees that has to wait for the trash.
func (p *Plan) FreesAfterTrash() Bytes { return p.Frees.sub(p.FreesNow) }

// Unmet reports whether a cap is not met.
func (p *Plan) Unmet() bool {
	return slices.ContainsFunc(p.Caps, func(c CapUse) bool { return c.Unmet > 0 })
}

// Why returns the verdict on a transaction, nil if it is not live.
func (p *Plan) Why(number int64) *Verdict {
	i, ok := slices.BinarySearchFunc(p.Verdicts, number, func(v Verdict, n int64) int { return cmp.Compare(v.Number, n) })
	if !ok {
		return nil
	}
	return &p.Verdicts[i]
}

// Detail explains a verdict in one sentence without a period:
//
//	50 days old (limit 14 days), not among the last 20, last read 44 days ago (limit 30 days)
func (p *Plan) Detail(v *Verdict) string {
	switch v.Reason {
	case Held:
		text := "held"
		if v.hold.By != "" {
			text += " by " + v.hold.By
		}
		if !v.hold.Until.IsZero() {
			text += " until " + day(v.hold.Until).Format(time.DateOnly)
		}
		if v.hold.Reason != "" {
			text += ": " + v.hold.Reason
		}
		return text
	case NoRule:
		if v.Class == Forever {
			return "kept forever"
		}
		return fmt.Sprintf("class %s has no keep rules: kept forever", v.Class)
	case Young:
		if v.Open {
			return "still open"
		}
		return ago(v.Age) + " old: too young to be removed"
	case Last:
		return fmt.Sprintf("number %d of the last %d", v.Rank, v.rules.KeepLast)
	case Within:
		return fmt.Sprintf("%s old, kept for %s", ago(v.Age), span(time.Duration(v.rules.KeepWithin)))
	case Used:
		return fmt.Sprintf("%s, kept for %s after the last use", v.use(), span(time.Duration(v.rules.KeepUsed)))
	case Needed:
		return fmt.Sprintf("needed by transaction %d", v.NeededBy)
	case Cap:
		c := p.Caps[v.CapOf]
		return fmt.Sprintf("%s is above its cap of %s; %s", strings.TrimSpace(string(c.Scope)+" "+c.Name), term.ByteSize(c.Limit), v.use())
	}
	parts := []string{ago(v.Age) + " old"}
	if v.rules.KeepWithin > 0 {
		parts[0] += limit(v.rules.KeepWithin)
	}
	if v.rules.KeepLast > 0 {
		parts = append(parts, fmt.Sprintf("not among the last %d", v.rules.KeepLast))
	}
	if v.rules.KeepUsed > 0 {
		use := v.use()
		if v.WasRead {
			use += limit(v.rules.KeepUsed)
		}
		parts = append(parts, use)
	}
	return strings.Join(parts, ", ")
}

func (v *Verdict) use() string {
	if v.WasRead {
		return "last read " + ago(v.Unused) + " ago"
	}
	return "never read"
}

// ago prints an age in whole days, or in hours below two days.
func ago(d time.Duration) string {
	if d < 48*time.Hour {
		return units(int(d/time.Hour), "hour")
	}
	return units(int(d/(24*time.Hour)), "day")
}

func limit(d term.Duration) string { return " (limit " + span(time.Duration(d)) + ")" }

// span prints a duration of a rule exactly.
func span(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return units(int(d/(24*time.Hour)), "day")
	}
	return term.Duration(d).String()
}

func units(n int, unit string) string {
	if n == 1 || n == -1 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

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
	slices.SortFunc(lists, func(a, b []*Verdict) int { return cmp.Compare(a[0].Product, b[0].Product) })
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

// newestFirst sorts by own time, then by number.
func newestFirst(list []*Verdict) {
	slices.SortFunc(list, func(a, b *Verdict) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(b.Number, a.Number))
	})
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
	slices.SortFunc(e.plan.Groups, func(a, b GroupSum) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Product, b.Product), cmp.Compare(a.Branch, b.Branch))
	})
}

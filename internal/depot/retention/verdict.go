package retention

import (
	"cmp"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
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
	// NeededBy is a transaction that needs it, for the reason Needed. It is kept, unless Orphan is set.
	NeededBy int64
	// Orphan: a cap removes what needs it. It stays for this run, and has only the other rules in the next.
	Orphan bool
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

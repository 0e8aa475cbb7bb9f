// Package retention decides which transactions a policy keeps.
//
// It is pure: a snapshot of the depot ([State]), a [Policy] and a time go in, a
// [Plan] comes out. It reads no clock, no file and no database. The result
// depends on nothing else, not even on the order of the snapshot, so that a plan
// can be computed again when it is applied and compared with the preview.
//
// The rules follow the reference specification of push and retention, sections
// "Model", "Order of evaluation" and "Sums".
package retention

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// State is a snapshot of a depot: what a plan is computed from. All parts belong
// to one read transaction of the index. The order of each list has no meaning.
type State struct {
	// Transactions are the live transactions, and those in the trash.
	Transactions []Transaction
	// Contents are the contents that Transactions and Derived refer to by their
	// position in this list. Positions that nothing refers to are harmless.
	Contents []Content
	// Derived lists contents that were made from other contents.
	Derived []Derivation
}

// Transaction holds the facts about one transaction that retention needs. Both times are
// needed because a transaction that was imported from another store keeps its own
// date, which orders it, but ages from its arrival (section "Traps").
type Transaction struct {
	Number  int64 // its number in the depot, above 0
	Product string
	Version string
	Branch  string
	// Class is the class given by the push or by a promotion. Empty: none was
	// given, and the policy chooses one; see [Policy.ClassOf].
	Class string
	// Time is the transaction's own time. It orders the transactions of a group.
	Time time.Time
	// Arrived is the time at which the depot committed the transaction. Zero: Time.
	Arrived time.Time
	// Open is set while a transaction still collects files. An open transaction
	// counts as young.
	Open bool
	// Removed is the time of the removal. Zero: the transaction is live.
	Removed time.Time
	// TrashUntil is the time until which a removed transaction can be restored.
	// Zero: it is not in the trash, and its contents are not held by it.
	TrashUntil time.Time
	// Holds are the holds on the transaction, ended ones included.
	Holds []Hold
	// Needs are the numbers of the transactions that must be kept as long as this
	// one is kept. Numbers of unknown or removed transactions have no effect.
	Needs []int64
	// Contents are positions in State.Contents: the contents of the transaction's
	// files. A position may be repeated; it counts once. In ascending order without
	// repetitions they need not be copied.
	Contents []uint32
}

// arrived returns the time from which the transaction ages.
func (t *Transaction) arrived() time.Time {
	if t.Arrived.IsZero() {
		return t.Time
	}
	return t.Arrived
}

func (t *Transaction) live() bool { return t.Removed.IsZero() }

// Held returns the hold that lasts longest of those in force at a time, and
// whether there is one. A transaction with a hold is never removed, neither by a
// policy nor by a command.
func (t *Transaction) Held(now time.Time) (Hold, bool) {
	var found Hold
	ok := false
	for _, h := range t.Holds {
		if h.Active(now) && (!ok || h.lasts(found) > 0) {
			found, ok = h, true
		}
	}
	return found, ok
}

// Hold protects a transaction from removal.
type Hold struct {
	Name   string // distinguishes several holds on one transaction
	By     string // the principal who placed it
	Reason string
	// Until is the last day on which the hold is in force, in UTC; the time of day
	// has no meaning. Zero: the hold does not end.
	Until time.Time
}

// Active reports whether the hold is in force. The day of Until still counts.
func (h Hold) Active(now time.Time) bool {
	return h.Until.IsZero() || now.Before(day(h.Until).AddDate(0, 0, 1))
}

// lasts compares two holds by their ends; an endless hold is the greatest.
func (h Hold) lasts(other Hold) int {
	end := func(h Hold) int64 {
		if h.Until.IsZero() {
			return math.MaxInt64
		}
		return day(h.Until).Unix()
	}
	return cmp.Or(cmp.Compare(end(h), end(other)), cmp.Compare(other.Name, h.Name), cmp.Compare(other.Reason, h.Reason),
		cmp.Compare(other.By, h.By))
}

func day(t time.Time) time.Time {
	y, m, d := t.UTC().Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// Content is the bytes of one or more files, kept once however many transactions
// hold them.
type Content struct {
	// Size is the length in bytes.
	Size int64
	// Stored is the space in bytes that the content occupies: the allocated blocks of
	// its file, or its length if the storage does not report them.
	Stored int64
	// LastRead is the time of the last successful read, in seconds since 1970 UTC.
	// Zero: it was never read. The depot rounds it to the day.
	LastRead int64
	// Pinned is set if something other than a transaction or a derivation needs the
	// content: the upstream cache, a content stored as a difference from it. No plan
	// frees a pinned content.
	Pinned bool
	// Pushed is set if an unfinished push relies on the content. Only a purge frees it:
	// the push is then told to send it.
	Pushed bool
}

// Derivation says that one content was made from another. A derived content lives
// as long as one of its sources, a live transaction or a pin does.
type Derivation struct {
	Source, Result uint32 // positions in State.Contents
}

// check rejects states that contradict themselves.
func (s *State) check() error {
	if uint64(len(s.Contents)) > math.MaxUint32 {
		return fmt.Errorf("%d contents: at most %d are supported", len(s.Contents), uint32(math.MaxUint32))
	}
	n := uint32(len(s.Contents))
	for i := range s.Contents {
		if c := &s.Contents[i]; c.Size < 0 || c.Stored < 0 {
			return fmt.Errorf("content %d has a negative size", i)
		}
	}
	for i := range s.Transactions {
		t := &s.Transactions[i]
		if t.Number <= 0 {
			return fmt.Errorf("build %d: a number above 0 is expected", t.Number)
		}
		for _, c := range t.Contents {
			if c >= n {
				return fmt.Errorf("build %d refers to content %d of %d", t.Number, c, n)
			}
		}
	}
	for _, d := range s.Derived {
		if d.Source >= n || d.Result >= n {
			return fmt.Errorf("content %d is derived from content %d, of %d contents", d.Result, d.Source, n)
		}
	}
	return nil
}

// sorted returns the transactions that pass a filter, by number, with their contents
// in ascending order without repetitions. A number that occurs twice is an error.
func (s *State) sorted(keep func(*Transaction) bool) ([]*Transaction, error) {
	var list []*Transaction
	for i := range s.Transactions {
		t := &s.Transactions[i]
		if !keep(t) {
			continue
		}
		if !ascending(t.Contents) {
			clone := *t
			clone.Contents = slices.Clone(t.Contents)
			slices.Sort(clone.Contents)
			clone.Contents = slices.Compact(clone.Contents)
			t = &clone
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *Transaction) int { return cmp.Compare(a.Number, b.Number) })
	for i := 1; i < len(list); i++ {
		if list[i].Number == list[i-1].Number {
			return nil, fmt.Errorf("build %d occurs twice", list[i].Number)
		}
	}
	return list, nil
}

func ascending(list []uint32) bool {
	for i := 1; i < len(list); i++ {
		if list[i] <= list[i-1] {
			return false
		}
	}
	return true
}

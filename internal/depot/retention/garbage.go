package retention

import (
	"fmt"
	"slices"
	"time"
)

// Garbage is the space that garbage collection would free, the grace period of unfinished
// adds aside.
type Garbage struct {
	// Frees are the contents that no live transaction, pin, live source or transaction
	// in the trash holds.
	Frees    Bytes
	Contents int
	// Waiting are the transactions in the trash, by number.
	Waiting []Waiting
	// Waits is the space that all of Waiting together hold back.
	Waits Bytes
}

// Waiting is a transaction in the trash.
type Waiting struct {
	Number int64
	Until  time.Time // when the trash gives it up
	Alone  Bytes     // what it alone holds back
}

// Garbage computes the space that garbage collection would free at a time. empty gives up the
// trash at once (gc --empty-trash). The state must have all contents of the depot,
// those without a transaction included.
func (s *State) Garbage(now time.Time, empty bool) (*Garbage, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	list, err := s.sorted(func(t *Transaction) bool { return t.live() || !empty && t.TrashUntil.After(now) })
	if err != nil {
		return nil, err
	}
	g, err := newGraph(s, list)
	if err != nil {
		return nil, err
	}
	l := newLedger(g)
	l.pin(true)
	var trash []*Transaction
	for _, t := range list {
		l.add(t)
		if !t.live() {
			trash = append(trash, t)
		}
	}
	var out Garbage
	for c := range s.Contents {
		if l.refs[c] == 0 {
			out.Contents++
			out.Frees = out.Frees.add(g.bytes(uint32(c)))
		}
	}
	for _, t := range trash {
		out.Waiting = append(out.Waiting, Waiting{Number: t.Number, Until: t.TrashUntil, Alone: l.frees(t)})
	}
	out.Waits = l.frees(trash...)
	return &out, nil
}

// Removal is the effect of removing one transaction.
type Removal struct {
	// Listed is the sum of the lengths of its contents.
	Listed int64
	// Frees is the space that is freed, and Shared the part of Listed that others still need.
	Frees  Bytes
	Shared int64
	// Pinned is set if a pin or, unless it is a purge, an unfinished push needs one of
	// its contents.
	Pinned bool
	// Open means that files are still added to the transaction: those that come after
	// its removal are another transaction.
	Open bool
	// Holders are other transactions, live or in the trash, that hold one of its
	// contents: the newest, at most 20.
	Holders []int64
}

// maxHolders limits Removal.Holders.
const maxHolders = 20

// Removal computes the space that the removal of a transaction frees that is live or in the
// trash.
func (s *State) Removal(number int64) (*Removal, error) { return s.removal(number, false) }

// Purge is Removal for a purge, which must say when others still need the bytes.
// Unfinished pushes do not keep any.
func (s *State) Purge(number int64) (*Removal, error) { return s.removal(number, true) }

func (s *State) removal(number int64, purge bool) (*Removal, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	list, err := s.sorted(func(t *Transaction) bool { return t.live() || !t.TrashUntil.IsZero() })
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(t *Transaction) bool { return t.Number == number })
	if i < 0 {
		return nil, fmt.Errorf("build %d is neither live nor in the trash", number)
	}
	g, err := newGraph(s, list)
	if err != nil {
		return nil, err
	}
	l := newLedger(g)
	l.pin(!purge)
	for _, t := range list {
		l.add(t)
	}
	out := &Removal{Listed: g.listed(list[i]), Frees: l.frees(list[i]), Open: list[i].live() && list[i].Open}
	out.Shared = out.Listed - (out.Frees.Size - out.Frees.DerivedSize)
	own := make(map[uint32]bool, len(list[i].Contents))
	for _, c := range list[i].Contents {
		own[c] = true
		out.Pinned = out.Pinned || s.Contents[c].Pinned || !purge && s.Contents[c].Pushed
	}
	for _, d := range s.Derived { // a cold content needs its base
		if own[d.Result] {
			own[d.Source] = true
		}
	}
	for j, t := range slices.Backward(list) {
		if len(out.Holders) == maxHolders {
			break
		}
		if j != i && slices.ContainsFunc(t.Contents, func(c uint32) bool { return own[c] }) {
			out.Holders = append(out.Holders, t.Number)
		}
	}
	return out, nil
}

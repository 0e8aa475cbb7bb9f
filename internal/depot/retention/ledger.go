package retention

import (
	"errors"
	"slices"

	"github.com/symdepot/symdepot/internal/base/sorting"
)

// Bytes is an amount of data in both measures.
type Bytes struct {
	// Stored is the space on disk that it occupies.
	Stored int64 `json:"stored"`
	// Size is the sum of the plain lengths.
	Size int64 `json:"size"`
	// DerivedStored and DerivedSize are the parts of Stored and Size that belong to
	// contents which are no file of a transaction but were derived from one.
	DerivedStored int64 `json:"derived_stored"`
	DerivedSize   int64 `json:"derived_size"`
}

func (b Bytes) add(o Bytes) Bytes {
	return Bytes{b.Stored + o.Stored, b.Size + o.Size, b.DerivedStored + o.DerivedStored, b.DerivedSize + o.DerivedSize}
}

func (b Bytes) sub(o Bytes) Bytes {
	return Bytes{b.Stored - o.Stored, b.Size - o.Size, b.DerivedStored - o.DerivedStored, b.DerivedSize - o.DerivedSize}
}

// graph is the contents of a state with the derivations in a form that can be
// followed: the results of content c are results[first[c]:first[c+1]].
type graph struct {
	contents []Content
	first    []uint32 // nil if nothing is derived
	results  []uint32
	derived  []bool // whether a content is derived and no file of a transaction

	// mark and epoch show whether one walk has already visited a content.
	mark  []uint32
	epoch uint32
	stack []uint32
}

var errLoop = errors.New("a content is derived from itself, directly or through others")

// newGraph returns the graph of a state. What is a file of one of the transactions
// does not count as derived.
func newGraph(s *State, list []*Transaction) (*graph, error) {
	g := &graph{contents: s.Contents, mark: make([]uint32, len(s.Contents))}
	if len(s.Derived) == 0 {
		return g, nil
	}
	edges := slices.Clone(s.Derived)
	sorting.By(edges, func(a, b Derivation) int {
		if a.Source != b.Source {
			return int(int64(a.Source) - int64(b.Source))
		}
		return int(int64(a.Result) - int64(b.Result))
	})
	edges = slices.Compact(edges) // two tools may make the same content
	g.first = make([]uint32, len(s.Contents)+1)
	g.results = make([]uint32, len(edges))
	g.derived = make([]bool, len(s.Contents))
	sources := make([]uint32, len(s.Contents))
	for i, d := range edges {
		g.first[d.Source+1]++
		g.results[i] = d.Result
		g.derived[d.Result] = true
		sources[d.Result]++
	}
	for c := range s.Contents {
		g.first[c+1] += g.first[c]
	}
	// Counting references needs derivations without loops: remove all contents
	// without sources, again and again.
	var ready []uint32
	for c := range s.Contents {
		if sources[c] == 0 {
			ready = append(ready, uint32(c))
		}
	}
	done := 0
	for len(ready) > 0 {
		c := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		done++
		for _, r := range g.made(c) {
			if sources[r]--; sources[r] == 0 {
				ready = append(ready, r)
			}
		}
	}
	if done < len(s.Contents) {
		return nil, errLoop
	}
	for _, t := range list {
		for _, c := range t.Contents {
			g.derived[c] = false
		}
	}
	return g, nil
}

// made returns the contents that were derived from a content directly.
func (g *graph) made(c uint32) []uint32 {
	if g.first == nil {
		return nil
	}
	return g.results[g.first[c]:g.first[c+1]]
}

// bytes returns the size of one content.
func (g *graph) bytes(c uint32) Bytes {
	b := Bytes{Stored: g.contents[c].Stored, Size: g.contents[c].Size}
	if g.derived != nil && g.derived[c] {
		b.DerivedStored, b.DerivedSize = b.Stored, b.Size
	}
	return b
}

// walk starts a walk in which meet reports whether a content is met for the first
// time.
func (g *graph) walk() {
	if g.epoch++; g.epoch == 0 {
		clear(g.mark)
		g.epoch = 1
	}
}

func (g *graph) meet(c uint32) bool {
	if g.mark[c] == g.epoch {
		return false
	}
	g.mark[c] = g.epoch
	return true
}

// reach adds up the stored bytes of the contents of a transaction, and of what was
// derived from them, that the walk has not met yet.
func (g *graph) reach(t *Transaction) (sum int64) {
	for _, c := range t.Contents {
		if !g.meet(c) {
			continue
		}
		sum += g.contents[c].Stored
		g.stack = append(g.stack, g.made(c)...)
		for len(g.stack) > 0 {
			c := g.stack[len(g.stack)-1]
			g.stack = g.stack[:len(g.stack)-1]
			if g.meet(c) {
				sum += g.contents[c].Stored
				g.stack = append(g.stack, g.made(c)...)
			}
		}
	}
	return sum
}

// listed returns the sum of the lengths of a transaction's contents.
func (g *graph) listed(t *Transaction) (sum int64) {
	for _, c := range t.Contents {
		sum += g.contents[c].Size
	}
	return sum
}

// ledger counts the references to each content: transactions, pins, and sources
// that are needed themselves. A content without references is free.
type ledger struct {
	*graph
	refs []uint32
	// seen is the sum of the contents with references.
	seen Bytes
}

// newLedger returns a ledger without references.
func newLedger(g *graph) *ledger { return &ledger{graph: g, refs: make([]uint32, len(g.contents))} }

// pin adds a reference to each pinned content, and to those of unfinished pushes.
func (l *ledger) pin(pushes bool) {
	for c := range l.contents {
		if l.contents[c].Pinned || pushes && l.contents[c].Pushed {
			l.grab(uint32(c))
		}
	}
}

// grab adds a reference to a content.
func (l *ledger) grab(c uint32) {
	if l.refs[c]++; l.refs[c] == 1 {
		l.seen = l.seen.add(l.bytes(c))
		l.follow(c, 1, 1)
	}
}

// release removes a reference from a content.
func (l *ledger) release(c uint32) {
	if l.refs[c]--; l.refs[c] == 0 {
		l.seen = l.seen.sub(l.bytes(c))
		l.follow(c, ^uint32(0), 0)
	}
}

// follow changes the references to contents derived from a content by delta, and
// continues from each content that now has turn references.
func (l *ledger) follow(c, delta, turn uint32) {
	if l.first == nil {
		return
	}
	l.stack = append(l.stack, l.made(c)...)
	for len(l.stack) > 0 {
		c := l.stack[len(l.stack)-1]
		l.stack = l.stack[:len(l.stack)-1]
		if l.refs[c] += delta; l.refs[c] != turn {
			continue
		}
		if turn == 1 {
			l.seen = l.seen.add(l.bytes(c))
		} else {
			l.seen = l.seen.sub(l.bytes(c))
		}
		l.stack = append(l.stack, l.made(c)...)
	}
}

// add counts the references of a transaction.
func (l *ledger) add(t *Transaction) {
	for _, c := range t.Contents {
		l.grab(c)
	}
}

// drop removes the references of a transaction and returns the space that became free.
func (l *ledger) drop(t *Transaction) Bytes {
	before := l.seen
	for _, c := range t.Contents {
		l.release(c)
	}
	return before.sub(l.seen)
}

// frees returns the space that would become free without some transactions, and leaves the
// ledger as it is.
func (l *ledger) frees(list ...*Transaction) (sum Bytes) {
	for _, t := range list {
		sum = sum.add(l.drop(t))
	}
	for _, t := range list {
		l.add(t)
	}
	return sum
}

// free reports whether some content of a transaction has no references any more.
func (l *ledger) free(t *Transaction) bool {
	return slices.ContainsFunc(t.Contents, func(c uint32) bool { return l.refs[c] == 0 && l.contents[c].Stored > 0 })
}

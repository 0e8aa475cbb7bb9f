package bucketstore

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// The explorer steps a model of the places protocol through all interleavings of
// two processes that add one content, two that collect, a removal, a rewind of
// the database to an earlier state, and a store whose requests arrive late. Every
// step of the model is one transaction of the index or one request to the store,
// as in places.Places, batch and collect.

// modelPlaces is the number of names that the model can use.
const modelPlaces = 4

// States of the row of a place.
const (
	rowNone uint8 = iota
	rowUpload
	rowDone
	rowContent
	rowDoomed // shorter than the hold
	rowOld    // doomed for longer
	rowSwept  // deleted once
	rowSweptOld
)

// Steps of an adder.
const (
	addLook uint8 = iota // ask the index for the content
	addBegin
	addSend
	addWait
	addMark
	addCommit
	addEnded
)

// modelDB is what a rewind of the database restores.
type modelDB struct {
	rows       [modelPlaces + 1]uint8 // by place, from 1
	content    uint8                  // place of the content; 0: it has no row
	referenced bool                   // a transaction refers to it
}

type modelAdder struct{ step, place, tries uint8 }

type modelCollector struct {
	drop  bool  // it has read that nothing refers to the content
	doom  uint8 // places that it is about to delete, as bits
	sent  bool  // the requests are sent, not recorded
	spent uint8 // batches of deletions
}

type modelState struct {
	db         modelDB
	saved      modelDB // the state that a rewind restores
	hasSaved   bool
	adders     [2]modelAdder
	collectors [2]modelCollector
	// As bits by place: objects in the store, acknowledged uploads, and requests
	// that have not arrived.
	stored, acked, puts, deletes     uint8
	next                             uint8 // last used place: random names survive a rewind
	removals, rewinds, ages, repeats uint8 // how many were used
}

// modelLimits bound the search.
type modelLimits struct{ tries, removals, rewinds, ages, repeats, batches uint8 }

// mutant is a wrong protocol.
type mutant struct {
	reused       bool // an object has the name of its content
	noHold       bool // objects are deleted at once
	doneEarly    bool // uploads are marked before the store has acknowledged them
	testedBefore bool // references are tested before the lock is taken
	comesBack    bool // a commit takes doomed places
}

func bit(place uint8) uint8 { return 1 << place }

// sort orders the adders and the collectors: which of two equal processes is in
// a state makes no difference.
func (s *modelState) sort() {
	key := func(a modelAdder) int { return int(a.step)<<16 | int(a.place)<<8 | int(a.tries) }
	if a := &s.adders; key(a[0]) > key(a[1]) {
		a[0], a[1] = a[1], a[0]
	}
	rank := func(c modelCollector) int {
		n := int(c.doom)<<8 | int(c.spent)
		if c.drop {
			n |= 1 << 16
		}
		if c.sent {
			n |= 1 << 17
		}
		return n
	}
	if c := &s.collectors; rank(c[0]) > rank(c[1]) {
		c[0], c[1] = c[1], c[0]
	}
}

// wrong returns which promise a state breaks.
func (s *modelState) wrong() string {
	switch {
	case s.db.content != 0 && s.stored&bit(s.db.content) == 0:
		return fmt.Sprintf("the content names place %d, which has no object", s.db.content)
	case s.db.referenced && s.db.content == 0:
		return "a build refers to a content without a row"
	}
	return ""
}

// doom moves a row to the doomed places.
func (s *modelState) doom(place uint8, m mutant) {
	s.db.rows[place] = rowDoomed
	if m.noHold {
		s.db.rows[place] = rowOld
	}
}

// explorer searches all states.
type explorer struct {
	mutant
	modelLimits
	visit func(next modelState, what string)
}

// steps calls visit for each state that one step leads to.
func (e *explorer) steps(s modelState) {
	for i := range s.adders {
		e.adder(s, i)
	}
	for i := range s.collectors {
		e.collector(s, i)
	}
	for p := uint8(1); p <= modelPlaces; p++ {
		if s.puts&bit(p) != 0 {
			n := s
			n.puts &^= bit(p)
			n.stored |= bit(p)
			n.acked |= bit(p)
			e.visit(n, fmt.Sprintf("the store writes object %d", p))
		}
		if s.deletes&bit(p) != 0 {
			n := s
			n.deletes &^= bit(p)
			n.stored &^= bit(p)
			e.visit(n, fmt.Sprintf("the store deletes object %d", p))
		}
		if r := s.db.rows[p]; r == rowUpload || r == rowDone {
			n := s
			n.doom(p, e.mutant)
			e.visit(n, fmt.Sprintf("the lease of place %d expires or its adder gives up", p))
		}
	}
	if s.db.referenced && s.removals < e.removals {
		n := s
		n.db.referenced = false
		n.removals++
		e.visit(n, "the builds are removed")
	}
	if !s.hasSaved && s.rewinds < e.rewinds {
		n := s
		n.saved, n.hasSaved = s.db, true
		e.visit(n, "a copy of the database is taken")
	}
	if s.hasSaved && s.db != s.saved {
		n := s
		n.db, n.saved, n.hasSaved = s.saved, modelDB{}, false
		n.rewinds++
		e.visit(n, "the database is rewound to the copy")
	}
	if s.ages < e.ages && slices.ContainsFunc(s.db.rows[:], func(r uint8) bool { return r == rowDoomed || r == rowSwept }) {
		n := s
		n.ages++
		// The copy is older than the hold from now on and must not be used.
		n.saved, n.hasSaved = modelDB{}, false
		for p, r := range n.db.rows {
			switch r {
			case rowDoomed:
				n.db.rows[p] = rowOld
			case rowSwept:
				n.db.rows[p] = rowSweptOld
			}
		}
		e.visit(n, "the hold passes")
	}
}

func (e *explorer) adder(s modelState, i int) {
	a := s.adders[i]
	say := func(n modelState, format string, args ...any) {
		e.visit(n, "adder: "+fmt.Sprintf(format, args...))
	}
	n := s
	to := func(step uint8) { n.adders[i].step = step }
	again := func() {
		n.adders[i] = modelAdder{step: addLook, tries: a.tries + 1}
		if a.tries+1 >= e.tries {
			n.adders[i] = modelAdder{step: addEnded}
		}
	}
	switch a.step {
	case addLook:
		if s.db.content != 0 {
			to(addCommit)
			say(n, "the index has the content")
		} else {
			to(addBegin)
			say(n, "the index does not have the content")
		}
	case addBegin:
		p := s.next + 1
		if e.reused {
			p = 1
		}
		if p > modelPlaces {
			return
		}
		n.next = p
		n.db.rows[p] = rowUpload
		n.adders[i] = modelAdder{step: addSend, place: p, tries: a.tries}
		say(n, "writes the row of place %d", p)
	case addSend:
		n.puts |= bit(a.place)
		n.acked &^= bit(a.place)
		to(addWait)
		say(n, "sends object %d", a.place)
	case addWait:
		if s.acked&bit(a.place) != 0 || e.doneEarly {
			to(addMark)
			say(n, "learns that object %d is stored", a.place)
		}
		if n := s; s.puts&bit(a.place) == 0 && s.repeats < e.repeats {
			n.puts |= bit(a.place)
			n.repeats++
			say(n, "misses the answer and sends object %d again", a.place)
		}
	case addMark:
		if r := s.db.rows[a.place]; r == rowUpload || e.reused && r != rowDone {
			n.db.rows[a.place] = rowDone
			to(addCommit)
			say(n, "marks place %d", a.place)
		} else {
			again()
			say(n, "has no row of place %d any more", a.place)
		}
	case addCommit:
		taken := false
		for p := uint8(1); p <= modelPlaces; p++ {
			r := s.db.rows[p]
			if r != rowDone && (!e.comesBack || r < rowDoomed) {
				continue
			}
			taken = true
			n := s
			if old := s.db.content; old != 0 && old != p {
				n.doom(old, e.mutant)
			}
			n.db.content, n.db.rows[p], n.db.referenced = p, rowContent, true
			n.adders[i] = modelAdder{step: addEnded}
			say(n, "commits with place %d", p)
		}
		switch {
		case taken:
		case s.db.content != 0:
			n.db.referenced = true
			n.adders[i] = modelAdder{step: addEnded}
			say(n, "commits the known content")
		default:
			again()
			say(n, "finds neither the content nor an upload")
		}
	}
}

func (e *explorer) collector(s modelState, i int) {
	c := s.collectors[i]
	say := func(n modelState, format string, args ...any) {
		e.visit(n, "collector: "+fmt.Sprintf(format, args...))
	}
	n := s
	me := &n.collectors[i]
	if !c.drop && s.db.content != 0 && !s.db.referenced {
		n = s
		me.drop = true
		say(n, "reads that nothing refers to the content")
	}
	if c.drop {
		n = s
		me.drop = false
		if s.db.content != 0 && (!s.db.referenced || e.testedBefore) {
			n.doom(s.db.content, e.mutant)
			n.db.content = 0
		}
		say(n, "drops the content if nothing refers to it")
	}
	if c.doom == 0 && c.spent < e.batches {
		n = s
		for p, r := range s.db.rows {
			if r == rowOld || r == rowSweptOld {
				me.doom |= bit(uint8(p))
			}
		}
		if me.doom != 0 {
			me.spent++
			say(n, "reads the places %05b doomed long ago", me.doom)
		}
	}
	if c.doom != 0 && !c.sent {
		n = s
		me.sent = true
		n.deletes |= c.doom
		say(n, "sends the deletions of %05b", c.doom)
	}
	if c.sent {
		// The model does not wait for the answers: a stricter test than needed.
		n = s
		for p, r := range s.db.rows {
			if c.doom&bit(uint8(p)) == 0 {
				continue
			}
			switch r {
			case rowOld:
				n.db.rows[p] = rowSwept
			case rowSweptOld:
				n.db.rows[p] = rowNone
			}
		}
		me.doom, me.sent = 0, false
		say(n, "records the deletions of %05b", c.doom)
	}
}

// maxStates limits the memory of a search, to about 2 GB. It goes by the number
// of steps, so a search that ends early has tried all shorter sequences.
const maxStates = 10_000_000

// explore returns the number of reachable states and the steps to the first one
// that breaks a promise, if any.
func explore(m mutant, l modelLimits) (states int, trace []string) {
	type origin struct {
		from modelState
		what string
	}
	var first modelState
	cameFrom := map[modelState]origin{first: {}}
	queue := []modelState{first}
	for len(queue) > 0 && trace == nil && len(cameFrom) < maxStates {
		s := queue[0]
		queue = queue[1:]
		e := explorer{mutant: m, modelLimits: l}
		e.visit = func(n modelState, what string) {
			n.sort()
			if _, seen := cameFrom[n]; seen || trace != nil {
				return
			}
			cameFrom[n] = origin{s, what}
			if w := n.wrong(); w != "" {
				for at := n; at != first; at = cameFrom[at].from {
					trace = append(trace, cameFrom[at].what)
				}
				slices.Reverse(trace)
				trace = append(trace, w)
				return
			}
			queue = append(queue, n)
		}
		e.steps(s)
	}
	return len(cameFrom), trace
}

// TestExplorer finds no state in which a content names a place without an object,
// and finds one for each wrong protocol.
func TestExplorer(t *testing.T) {
	t.Parallel()
	limits := modelLimits{tries: 1, removals: 1, rewinds: 1, ages: 1, repeats: 1, batches: 1}
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		limits = modelLimits{tries: 1, removals: 2, rewinds: 1, ages: 2, repeats: 1, batches: 1}
	}
	t.Run("protocol", func(t *testing.T) {
		t.Parallel()
		states, trace := explore(mutant{}, limits)
		t.Logf("%d states; all: %v", states, states < maxStates)
		if trace != nil {
			t.Errorf("the invariants fail after %d of the steps, want them to hold\n%s", len(trace)-1, strings.Join(trace, "\n"))
		}
	})
	wide := modelLimits{tries: 2, removals: 1, rewinds: 1, ages: 1, repeats: 0, batches: 1}
	for name, m := range map[string]mutant{
		"names reused":               {reused: true},
		"no hold":                    {noHold: true},
		"marked before acknowledged": {doneEarly: true},
		"tested before the lock":     {testedBefore: true},
		"doomed places come back":    {comesBack: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, trace := explore(m, wide)
			if trace == nil {
				t.Fatalf("no state of %d breaks a promise", states)
			}
			t.Logf("found after %d states:\n%s", states, strings.Join(trace, "\n"))
		})
	}
}

package cold

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// learner finds the moves of a block.
type learner struct {
	moves moves
	plain []byte // what the block takes of its base, where it is in the block
	base  []byte // the same, moved
	other []byte // of try
	bad   [maxParts]int32
	after [maxParts]int32 // of try
	want  parts           // where moves may help
	some  parts           // a sample of them
	share int             // one in how many of them is in the sample
	votes []vote
	still int // how many of the fields did not change
	spare []vote
	count [3][digits + 1]int32 // of sort
	near  [nears]uint8         // of thin
	nodes []node
	table []state
	turn  uint32

	spareStep step // of choose

	// The block that is learned.
	b        []byte
	place    int64
	x        *index
	segments []segment
	size     int
}

// vote is a field: the value in the base, and by how much it is larger in the content.
type vote struct{ value, by uint32 }

// node is where a shift begins.
type node struct {
	at, by uint32
	before int32 // node; -1 if none
	gain   int32 // how many more of the fields before it are right than without shifts
}

// state is the best way to a value that ends with a shift.
type state struct {
	turn  uint32
	by    uint32
	score int32
	node  int32
}

const (
	tableBits = 11
	digit     = 11 // bits of a value that are sorted at once
	digits    = 1<<digit - 1
	// limitCost is how many fields more must be right for another limit.
	limitCost = 3
	// A step takes time each time the block is read. It must make leastGain bytes more equal, another
	// one moreGain, and partGain in each part that it names. One is looked for if worthBad bytes
	// differ, in parts where partGain do.
	leastGain = 24
	moreGain  = 1024
	partGain  = 32
	worthBad  = 256
)

// learn finds the moves of block b, which is at place in its content and takes segments of
// the window x; none if nothing may move. Then l.base has the bytes of the segments, moved.
func (l *learner) learn(b []byte, place int64, x *index, segments []segment, moving bool) {
	l.moves.reset()
	if l.table == nil {
		for _, b := range []*[]byte{&l.plain, &l.base, &l.other} {
			*b = make([]byte, 1<<deltaLog)
		}
		// All at once: what grows leaves its smaller selves to the garbage collector.
		l.table = make([]state, 1<<tableBits)
		l.votes, l.spare, l.nodes = make([]vote, 0, 1<<18), make([]vote, 1<<18), make([]node, 0, 1<<17)
	}
	l.b, l.place, l.x, l.segments, l.size = b, place, x, segments, len(b)
	clear(l.bad[:])
	for i := range l.want {
		l.want[i] = ^uint64(0)
	}
	bad := 0
	l.pieces(&l.want, func(p piece) {
		at := p.from - x.from
		copy(l.plain[p.at:p.end], x.data[at:])
		copy(l.base[p.at:p.end], x.data[at:])
		n := p.end - p.at - equal(l.base[p.at:p.end], b[p.at:])
		l.bad[p.part()] += int32(n)
		bad += n
	})
	for moving && l.moves.n < maxSteps && bad >= worthBad {
		least := leastGain
		if l.moves.n > 0 {
			least = moreGain
		}
		gain := 0
		if kind, phase := l.choose(least); kind != steps {
			gain = l.try(kind, phase)
		}
		if gain < least {
			break
		}
		bad -= gain
	}
	l.b, l.x, l.segments = nil, nil, nil
}

// cost gives how many bytes of each part, and of all parts that cost much, differ after the moves or are in no
// segment.
func (l *learner) cost(segments []segment) (cost *[maxParts]int32, much int32) {
	l.after = l.bad
	at := 0
	for i := 0; i <= len(segments); i++ {
		end := l.size
		if i < len(segments) {
			end = segments[i].at
		}
		for at < end {
			n := min(end, (at>>partLog+1)<<partLog) - at
			l.after[at>>partLog] += int32(n)
			at += n
		}
		if i < len(segments) {
			at += segments[i].n
		}
	}
	for _, n := range l.after {
		if n >= dear {
			much += n
		}
	}
	return &l.after, much
}

// piece is what a segment has of a part of the block.
type piece struct {
	at, end  int   // in the block
	from, to int64 // in the base and in the content
}

func (p piece) part() int { return p.at >> partLog }

// pieces visits the pieces of some parts of the block.
func (l *learner) pieces(in *parts, visit func(piece)) {
	for _, g := range l.segments {
		for at, end := g.at, g.at+g.n; at < end; {
			stop := min(end, (at>>partLog+1)<<partLog)
			if in.has(at >> partLog) {
				visit(piece{at, stop, l.x.from + int64(g.from+at-g.at), l.place + int64(at)})
			}
			at = stop
		}
	}
}

// samples is one in how many parts is in the sample, unless those are too few.
const (
	samples = 8
	enoughs = 24
)

// choose chooses the kind of the next step by a sample of the block; steps if none makes at
// least a number of bytes more equal.
func (l *learner) choose(least int) (kind, phase uint8) {
	l.want, l.some = parts{}, parts{}
	n := 0
	for _, k := range l.bad {
		if k >= partGain {
			n++
		}
	}
	l.share = min(max(n/enoughs, 1), samples)
	n = 0
	for i, k := range l.bad {
		if k >= partGain {
			l.want.add(i)
			if n%l.share == 0 {
				l.some.add(i)
			}
			n++
		}
	}
	// A field has up to four bytes, and the sample may be a poor one.
	kind, best := steps, max(least/(8*l.share), 2)
	for i := range uint8(steps) {
		if n := l.moves.n; n > 0 && l.moves.steps[n-1].kind == i {
			continue
		}
		p := uint8(0)
		if i == stepWord {
			p = l.phase()
		}
		l.collect(i, p, &l.some)
		if gain := l.fit(&l.spareStep, i == stepCode); gain > best {
			kind, phase, best = i, p, gain
		}
	}
	return kind, phase
}

// try adds a step of a kind to those that there are, if it helps. It gives how many bytes more
// are equal with it, less its own.
func (l *learner) try(kind, phase uint8) (gain int) {
	s := l.moves.add()
	s.kind, s.phase = kind, phase
	l.collect(kind, phase, &l.want)
	if l.fit(s, kind == stepCode) > 0 && l.limits() <= maxMoves {
		gain = l.measure(s)
	}
	least := leastGain
	if l.moves.n > 1 {
		least = moreGain
	}
	if gain < least {
		l.moves.n--
		return 0
	}
	l.pieces(&s.parts, func(p piece) {
		copy(l.base[p.at:p.end], l.other[p.at:])
		l.bad[p.part()] = l.after[p.part()]
	})
	return gain
}

// measure finds the parts in which a step helps. It gives how many bytes more are equal with it,
// less its own.
func (l *learner) measure(s *step) (gain int) {
	s.index()
	clear(l.after[:])
	l.pieces(&l.want, func(p piece) {
		to := l.other[p.at:p.end]
		copy(to, l.base[p.at:])
		s.apply(to, p.from, p.to, &l.moves.places)
		l.after[p.part()] += int32(len(to) - equal(to, l.b[p.at:]))
	})
	for i, k := range l.bad {
		if n := int(k - l.after[i]); n >= partGain && l.want.has(i) {
			s.parts.add(i)
			gain += n
		}
	}
	return gain - 3*len(s.limits)
}

// limits counts the limits of all steps.
func (l *learner) limits() (n int) {
	for i := range l.moves.n {
		n += len(l.moves.steps[i].limits)
	}
	return n
}

// phase is where, modulo 4, most runs of bytes begin that differ.
func (l *learner) phase() uint8 {
	var n [4]int
	l.pieces(&l.some, func(p piece) {
		old, now := l.base[p.at:p.end], l.b[p.at:p.end]
		for at := 0; at < len(old); {
			at += same(old[at:], now[at:])
			n[(p.from+int64(at))&3]++
			for at < len(old) && old[at] != now[at] {
				at++
			}
		}
	})
	best := 0
	for i, k := range n {
		if k > n[best] {
			best = i
		}
	}
	return uint8(best)
}

// collect collects the fields of a kind in some parts, with what became of them, by their values.
func (l *learner) collect(kind, phase uint8, in *parts) {
	l.votes, l.still = l.votes[:0], 0
	// The smallest power of two that no offset of the base reaches.
	size := uint32(1<<min(max(bits.Len64(uint64(l.x.size)), 24), 32) - 1)
	f := &l.moves.places
	l.pieces(in, func(p piece) {
		old, now := l.base[p.at:p.end], l.b[p.at:p.end]
		switch kind {
		case stepWord:
			l.words(old, now, int((int64(phase)-p.from)&3))
		case stepAny:
			f.any(old, leastAny, size-leastAny)
			l.fields(old, now, f, 0, 0, 0)
		case stepCode:
			f.code(old, uint32(p.from), 0, size)
			l.fields(old, now, f, uint32(p.from), 1, uint32(p.to-p.from))
		}
	})
	if kind != stepCode { // operands of code change if only the code moves
		l.thin()
	}
	l.sort()
}

const (
	nears = 26 << 8 // groups of values that have their first eight bits in common
	// stay is how many fields of a group are enough: more than the two limits cost that would keep a
	// shift from them.
	stay = 2*limitCost + 2
)

// thin leaves out most of the fields that stay where no field whose value is near changes.
func (l *learner) thin() {
	clear(l.near[:])
	near := func(v uint32) *uint8 {
		n := uint32(bits.Len32(v >> 8))
		return &l.near[n<<8+v>>n]
	}
	for _, v := range l.votes {
		if v.by != 0 {
			*near(v.value) = 255
		}
	}
	n := 0
	for _, v := range l.votes {
		if k := near(v.value); *k < stay {
			*k++
		} else if *k == stay {
			l.still--
			continue
		}
		l.votes[n] = v
		n++
	}
	l.votes = l.votes[:n]
}

// fields enters fields of a piece. Those of code name what is relative to them, from an offset on,
// and move.
func (l *learner) fields(old, now []byte, f *places, from, each, moved uint32) {
	votes, still := l.votes, 0
	for _, p := range f.at[:f.n] {
		w := binary.LittleEndian.Uint32(old[p:])
		by := binary.LittleEndian.Uint32(now[p:]) - w
		if by == 0 {
			still++
		}
		votes = append(votes, vote{w + from + uint32(p)*each, by + moved})
	}
	l.votes, l.still = votes, l.still+still
}

// words enters the words of a piece, from the first whole one on.
func (l *learner) words(old, now []byte, at int) {
	votes, still := l.votes, 0
	for ; at+4 <= len(old); at += 4 {
		v := binary.LittleEndian.Uint32(old[at:])
		if v == 0 {
			continue
		}
		by := binary.LittleEndian.Uint32(now[at:]) - v
		if by == 0 {
			still++
		}
		votes = append(votes, vote{v, by})
	}
	l.votes, l.still = votes, l.still+still
}

// sort sorts the fields by their values.
func (l *learner) sort() {
	from, to := l.votes, l.spare[:len(l.votes)]
	all := uint32(0)
	clear(l.count[:])
	for _, v := range from {
		all |= v.value
		l.count[0][v.value&digits]++
		l.count[1][v.value>>digit&digits]++
		l.count[2][v.value>>(2*digit)]++
	}
	for i := range l.count {
		shift, count := i*digit, &l.count[i]
		if all>>shift == 0 {
			break
		}
		n := int32(0)
		for i, k := range count {
			count[i] = n
			n += k
		}
		for _, v := range from {
			c := &count[v.value>>shift&digits]
			to[*c] = v
			*c++
		}
		from, to = to, from
	}
	l.votes, l.spare = from, to
}

// of finds the state of a shift, or one that may be used for it: one that is free or whose score
// is too low to go on with.
func (l *learner) of(by uint32, low int32) (found *state) {
	h := by * 0x9e3779b1 >> (32 - tableBits)
	for i := range uint32(8) {
		s := &l.table[(h+i)&(1<<tableBits-1)]
		switch {
		case s.turn != l.turn:
			if found == nil {
				found = s
			}
			return found
		case s.by == by:
			return s
		case found == nil && s.score < low:
			found = s
		}
	}
	return found
}

// fit finds the shifts by which most fields, less the cost of limits, become what they are. It
// gives how many more they are than without. For code there is a shift for each value, since an
// operand changes also where only the code moved.
func (l *learner) fit(s *step, code bool) (gain int) {
	s.limits, s.by = s.limits[:0], s.by[:0]
	if len(l.votes) == 0 {
		return 0
	}
	if l.turn++; l.turn == 0 {
		clear(l.table)
		l.turn = 1
	}
	l.nodes = append(l.nodes[:0], node{before: -1})
	stay := state{} // the best way that ends with a shift of 0
	best := stay
	still := int32(0) // fields before a value that do not change
	for i := 0; i < len(l.votes) && len(l.nodes) < cap(l.nodes)-1; {
		value := l.votes[i].value
		before, stood := best, still
		for ; i < len(l.votes) && l.votes[i].value == value; i++ {
			by := l.votes[i].by
			to := &stay
			if by == 0 {
				still++
			} else {
				if to = l.of(by, before.score-limitCost); to == nil {
					continue
				}
			}
			if by != 0 && to.turn != l.turn || to.score < before.score-limitCost {
				if len(l.nodes) == cap(l.nodes) {
					continue
				}
				l.nodes = append(l.nodes, node{value, by, before.node, before.score - stood})
				*to = state{l.turn, by, before.score - limitCost, int32(len(l.nodes) - 1)}
			}
			if to.score++; to.score > best.score {
				best = *to
			}
		}
	}
	l.limit(s, best, code)
	if len(s.by) == 0 || len(s.limits) != len(s.by)+1 {
		return 0
	}
	return int(best.score) - l.still
}

// rest is which part of the gain may be left out at each end of the limits: the more values are
// within them, the longer it takes to read the block.
const rest = 64

// limit gives a step the limits of the best way.
func (l *learner) limit(s *step, best state, code bool) {
	gain := best.score - int32(l.still)
	end := l.votes[len(l.votes)-1].value
	// From the last limit back to the first.
	for n := best.node; n > 0; n = l.nodes[n].before {
		k := l.nodes[n]
		s.limits, s.by = append(s.limits, k.at), append(s.by, k.by)
		if code {
			continue
		}
		if k.at < end/4 && gain-k.gain <= gain/rest {
			s.limits, s.by, end = append(s.limits[:0], k.at), append(s.by[:0], 0), k.at
		}
		if k.gain <= gain/rest {
			break
		}
	}
	if code && (len(s.limits) == 0 || s.limits[len(s.limits)-1] > 0) {
		s.limits, s.by = append(s.limits, 0), append(s.by, 0)
	}
	slices.Reverse(s.limits)
	slices.Reverse(s.by)
	n := len(s.limits)
	switch {
	case n > 0 && s.by[n-1] == 0 && !code:
		s.by = s.by[:n-1]
	case n > 0 && end > s.limits[n-1]:
		s.limits = append(s.limits, max(end, end+1)) // end+1 may be 0
	}
}

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
	votes []vote
	still int // how many of the fields did not change
	spare []vote
	count [1 << 11]int32
	nodes []node
	table []state
	turn  uint32

	spareStep step // of choose

	// The block that is learned.
	b        []byte
	place    int64
	x        *index
	segments []segment
}

// vote is a field: the value in the base, and by how much it is larger in the content.
type vote struct{ value, by uint32 }

// node is where a shift begins.
type node struct {
	at, by uint32
	before int32 // node; -1 if none
}

// state is the best way to a value that ends with a shift.
type state struct {
	turn  uint32
	by    uint32
	score int32
	node  int32
}

const (
	tableBits = 13
	// limitCost is how many fields more must be right for another limit.
	limitCost = 3
	// leastGain is how many bytes more must be equal for a step, moreGain for another, which takes
	// time each time the block is read, and worthBad how many must differ before one is looked for.
	leastGain = 24
	moreGain  = 1024
	worthBad  = 256
)

// learn finds the moves of block b, which is at place in its content and takes segments of
// the window x. Then l.base has the bytes of the segments, moved.
func (l *learner) learn(b []byte, place int64, x *index, segments []segment) {
	l.moves.reset()
	if l.table == nil {
		for _, b := range []*[]byte{&l.plain, &l.base, &l.other} {
			*b = make([]byte, 1<<deltaLog)
		}
		// All at once: what grows leaves its smaller selves to the garbage collector.
		l.table = make([]state, 1<<tableBits)
		l.votes, l.spare, l.nodes = make([]vote, 0, 1<<18), make([]vote, 1<<18), make([]node, 0, 1<<17)
	}
	bad := 0
	for _, s := range segments {
		n := copy(l.plain[s.at:s.at+s.n], x.data[s.from:])
		copy(l.base[s.at:], l.plain[s.at:s.at+n])
		bad += n - equal(l.plain[s.at:s.at+n], b[s.at:])
	}
	l.b, l.place, l.x, l.segments = b, place, x, segments
	for l.moves.n < maxSteps && bad >= worthBad {
		kind, phase := l.choose()
		if kind == steps {
			break
		}
		now := l.try(kind, phase)
		if now+leastGain > bad || l.moves.n > 1 && now+moreGain > bad {
			l.moves.n--
			break
		}
		l.base, l.other = l.other, l.base
		bad = now
	}
	l.b, l.x, l.segments = nil, nil, nil
}

// choose chooses the kind of the next step by a sample of the block; steps if none helps.
func (l *learner) choose() (kind, phase uint8) {
	kind, best := steps, leastGain/8
	for i := range uint8(steps) {
		if n := l.moves.n; n > 0 && l.moves.steps[n-1].kind == i {
			continue
		}
		p := uint8(0)
		if i == stepWord {
			p = l.phase()
		}
		l.collect(i, p, true)
		if gain := l.fit(&l.spareStep, i == stepCode); gain > best {
			kind, phase, best = i, p, gain
		}
	}
	return kind, phase
}

// try makes a step of a kind behind those that there are, and l.other. It gives how many bytes
// differ with it, the cost of the step added.
func (l *learner) try(kind, phase uint8) int {
	s := l.moves.add()
	s.kind, s.phase = kind, phase
	l.collect(kind, phase, false)
	if l.fit(s, kind == stepCode) <= 0 || l.limits() > maxMoves {
		return 1 << deltaLog
	}
	s.index()
	now := 3 * len(s.limits)
	for _, g := range l.segments {
		to := l.other[g.at : g.at+g.n]
		copy(to, l.base[g.at:])
		s.apply(to, l.x.from+int64(g.from), l.place+int64(g.at))
		now += g.n - equal(to, l.b[g.at:])
	}
	return now
}

// limits counts the limits of all steps.
func (l *learner) limits() (n int) {
	for i := range l.moves.n {
		n += len(l.moves.steps[i].limits)
	}
	return n
}

// Of a sample, one in samples parts of partSize bytes is visited, and otherwise one in samples of
// those parts in which nothing differs.
const (
	partSize = 2 << 10
	samples  = 8
)

// parts visits the segments, or a sample of them, in parts: what the block takes of an offset of
// the base, for an offset of the content, and what is there.
func (l *learner) parts(sample bool, visit func(old, now []byte, from, to int64)) {
	for _, g := range l.segments {
		for at, end := g.at, g.at+g.n; at < end; {
			stop := min(end, (at/partSize+1)*partSize)
			old, now := l.base[at:stop], l.b[at:stop]
			if at/partSize%samples == 0 || !sample && same(old, now) < len(old) {
				visit(old, now, l.x.from+int64(g.from+at-g.at), l.place+int64(at))
			}
			at = stop
		}
	}
}

// phase is where, modulo 4, most runs of bytes begin that differ.
func (l *learner) phase() uint8 {
	var n [4]int
	l.parts(true, func(old, now []byte, from, _ int64) {
		for p := 0; p < len(old); {
			p += same(old[p:], now[p:])
			n[(from+int64(p))&3]++
			for p < len(old) && old[p] != now[p] {
				p++
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

// collect collects the fields of a kind, with what became of them, by their values.
func (l *learner) collect(kind, phase uint8, sample bool) {
	l.votes, l.still = l.votes[:0], 0
	// The smallest power of two that no offset of the base reaches.
	size := uint32(1<<min(max(bits.Len64(uint64(l.x.size)), 24), 32) - 1)
	l.parts(sample, func(old, now []byte, from, to int64) {
		switch kind {
		case stepWord:
			l.words(old, now, int((int64(phase)-from)&3))
		case stepAny:
			l.any(old, now, size)
		case stepCode:
			l.code(old, now, uint32(from), uint32(to), size)
		}
	})
	l.sort()
}

// vote enters a field, whose bytes changed by a difference, though what it is in moved.
func (l *learner) vote(value, by, moved uint32) {
	l.votes = append(l.votes, vote{value, by + moved})
	if by == 0 {
		l.still++
	}
}

func (l *learner) words(old, now []byte, p int) {
	for ; p+4 <= len(old); p += 4 {
		if v := binary.LittleEndian.Uint32(old[p:]); v != 0 {
			l.vote(v, binary.LittleEndian.Uint32(now[p:])-v, 0)
		}
	}
}

func (l *learner) any(old, now []byte, size uint32) {
	for p := 0; p+4 <= len(old); p++ {
		if v := binary.LittleEndian.Uint32(old[p:]); v-leastAny < size-leastAny && !letters(v) {
			l.vote(v, binary.LittleEndian.Uint32(now[p:])-v, 0)
			p += 3
		}
	}
}

func (l *learner) code(old, now []byte, from, to, size uint32) {
	for p := 0; p+6 <= len(old); p++ {
		skip := operand[old[p]]
		if skip == 0 || skip == 2 && old[p+1]&0xf0 != 0x80 {
			continue
		}
		at := p + int(skip)
		w := binary.LittleEndian.Uint32(old[at:])
		if v := w + from + uint32(at); v < size {
			l.vote(v, binary.LittleEndian.Uint32(now[at:])-w, to-from)
			p = at + 3
		}
	}
}

// sort sorts the fields by their values.
func (l *learner) sort() {
	from, to := l.votes, l.spare[:len(l.votes)]
	all := uint32(0)
	for _, v := range from {
		all |= v.value
	}
	for shift := 0; shift < 33 && all>>shift > 0; shift += 11 {
		clear(l.count[:])
		for _, v := range from {
			l.count[v.value>>shift&(1<<11-1)]++
		}
		n := int32(0)
		for i, k := range l.count {
			l.count[i] = n
			n += k
		}
		for _, v := range from {
			c := &l.count[v.value>>shift&(1<<11-1)]
			to[*c] = v
			*c++
		}
		from, to = to, from
	}
	l.votes, l.spare = from, to
}

// of finds the state of a shift, or a free one.
func (l *learner) of(by uint32) *state {
	h := by * 0x9e3779b1 >> (32 - tableBits)
	for range 64 {
		s := &l.table[h]
		if s.turn != l.turn || s.by == by {
			return s
		}
		h = (h + 1) & (1<<tableBits - 1)
	}
	return nil
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
	for i := 0; i < len(l.votes) && len(l.nodes) < cap(l.nodes)-1; {
		value := l.votes[i].value
		before := best
		for ; i < len(l.votes) && l.votes[i].value == value; i++ {
			by := l.votes[i].by
			to := &stay
			if by != 0 {
				if to = l.of(by); to == nil {
					continue
				}
			}
			if by != 0 && to.turn != l.turn || to.score < before.score-limitCost {
				if len(l.nodes) == cap(l.nodes) {
					continue
				}
				l.nodes = append(l.nodes, node{value, by, before.node})
				*to = state{l.turn, by, before.score - limitCost, int32(len(l.nodes) - 1)}
			}
			if to.score++; to.score > best.score {
				best = *to
			}
		}
	}
	// From the last limit back to the first.
	for n := best.node; n > 0; n = l.nodes[n].before {
		s.limits, s.by = append(s.limits, l.nodes[n].at), append(s.by, l.nodes[n].by)
	}
	if code && (len(s.limits) == 0 || s.limits[len(s.limits)-1] > 0) {
		s.limits, s.by = append(s.limits, 0), append(s.by, 0)
	}
	slices.Reverse(s.limits)
	slices.Reverse(s.by)
	n, end := len(s.limits), l.votes[len(l.votes)-1].value
	switch {
	case n > 0 && s.by[n-1] == 0 && !code:
		s.by = s.by[:n-1]
	case n > 0 && end > s.limits[n-1]:
		s.limits = append(s.limits, max(end, end+1)) // end+1 may be 0
	}
	if len(s.by) == 0 || len(s.limits) != len(s.by)+1 {
		return 0
	}
	return int(best.score) - l.still
}

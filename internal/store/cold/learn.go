package cold

import (
	"encoding/binary"
	"math/bits"
)

// learner finds the moves of a block.
type learner struct {
	moves moves
	plain []byte // what the block takes of its base, where it is in the block
	base  []byte // the same, moved
	other []byte // of try
	kept  []byte // of best
	votes []vote
	spare []vote
	count [1 << 11]int32
	nodes []node
	table []state
	turn  uint32
	last  [maxSteps]uint8 // the kinds that helped last
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
	// leastGain is how many bytes more must be equal for a step.
	leastGain = 24
)

// learn finds the moves of block b, which is at place in its content and takes segments of
// the window x. Then l.base has the bytes of the segments, moved.
func (l *learner) learn(b []byte, place int64, x *index, segments []segment) {
	l.moves.reset()
	if l.table == nil {
		for _, b := range []*[]byte{&l.plain, &l.base, &l.other, &l.kept} {
			*b = make([]byte, 1<<deltaLog)
		}
		l.table = make([]state, 1<<tableBits)
	}
	bad := 0
	for _, s := range segments {
		n := copy(l.plain[s.at:s.at+s.n], x.data[s.from:])
		copy(l.base[s.at:], l.plain[s.at:s.at+n])
		bad += n - equal(l.plain[s.at:s.at+n], b[s.at:])
	}
	for l.moves.n < maxSteps && bad >= leastGain {
		now := l.best(b, place, x, segments, bad)
		if now == bad {
			break
		}
		bad = now
	}
}

// best adds the step that makes most bytes equal, and gives how many differ still. The kind
// that helped last is taken at once if it does most of what can be done.
func (l *learner) best(b []byte, place int64, x *index, segments []segment, bad int) int {
	at, least := l.moves.n, bad
	var kept step
	for i := range uint8(steps) {
		kind := i
		switch {
		case i == 0:
			kind = l.last[at]
		case i == l.last[at]:
			kind = 0
		}
		if at > 0 && l.moves.steps[at-1].kind == kind {
			continue
		}
		now := l.try(kind, b, place, x, segments, bad)
		if now < least {
			// The step is the last one, and l.other has what it does.
			l.kept, l.other = l.other, l.kept
			kept, l.moves.steps[at] = l.moves.steps[at], kept
			least = now
			l.last[at] = kind
			if now < bad/10 {
				break
			}
		}
	}
	if least == bad {
		return bad
	}
	l.base, l.kept = l.kept, l.base
	l.moves.steps[at] = kept
	l.moves.n = at + 1
	return least
}

// try makes a step of a kind behind those that there are, and gives how many bytes differ
// with it, the cost of the step added; bad if it helps too little.
func (l *learner) try(kind uint8, b []byte, place int64, x *index, segments []segment, bad int) int {
	phase := uint8(0)
	if kind == stepWord {
		phase = l.phase(b, x, segments)
	}
	l.collect(kind, phase, b, place, x, segments)
	changed := 0
	for _, v := range l.votes {
		if v.by != 0 {
			changed++
		}
	}
	if changed < leastGain/2 {
		return bad
	}
	l.sort()
	s := l.moves.add()
	l.moves.n--
	s.kind, s.phase = kind, phase
	if !l.fit(s) || l.limits()+len(s.limits) > maxMoves {
		return bad
	}
	s.index()
	now := 3 * len(s.limits)
	for _, g := range segments {
		to := l.other[g.at : g.at+g.n]
		copy(to, l.base[g.at:])
		s.apply(to, x.from+int64(g.from), place+int64(g.at))
		now += g.n - equal(to, b[g.at:])
	}
	if now+leastGain > bad {
		return bad
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

// phase is where, modulo 4, most runs of bytes begin that differ.
func (l *learner) phase(b []byte, x *index, segments []segment) uint8 {
	var n [4]int
	for _, g := range segments {
		from := x.from + int64(g.from)
		old, now := l.base[g.at:g.at+g.n], b[g.at:]
		for p := 0; p < len(old); {
			p += same(old[p:], now[p:len(old)])
			n[(from+int64(p))&3]++
			for p < len(old) && old[p] != now[p] {
				p++
			}
		}
	}
	best := 0
	for i, k := range n {
		if k > n[best] {
			best = i
		}
	}
	return uint8(best)
}

// collect collects the fields of a kind, with what became of them.
func (l *learner) collect(kind, phase uint8, b []byte, place int64, x *index, segments []segment) {
	l.votes = l.votes[:0]
	size := uint32(min(max(x.size, 1<<24), 1<<32-1))
	size = uint32(min(uint64(1)<<bits.Len32(size-1), 1<<32-1))
	for _, g := range segments {
		from, to := x.from+int64(g.from), place+int64(g.at)
		old, now := l.base[g.at:g.at+g.n], b[g.at:g.at+g.n]
		switch kind {
		case stepWord:
			for p := int((int64(phase) - from) & 3); p+4 <= len(old); p += 4 {
				if v := binary.LittleEndian.Uint32(old[p:]); v != 0 {
					l.votes = append(l.votes, vote{v, binary.LittleEndian.Uint32(now[p:]) - v})
				}
			}
		case stepAny:
			for p := 0; p+4 <= len(old); p++ {
				if v := binary.LittleEndian.Uint32(old[p:]); v >= leastAny && v < size && !letters(v) {
					l.votes = append(l.votes, vote{v, binary.LittleEndian.Uint32(now[p:]) - v})
					p += 3
				}
			}
		case stepCode:
			moved := uint32(to - from)
			for p := 2; p+4 <= len(old); p++ {
				if !operand[old[p-1]] || !isOperand(old[p-2], old[p-1]) {
					continue
				}
				w := binary.LittleEndian.Uint32(old[p:])
				if v := w + uint32(from) + uint32(p); v < size {
					l.votes = append(l.votes, vote{v, binary.LittleEndian.Uint32(now[p:]) - w + moved})
					p += 3
				}
			}
		}
	}
}

// sort sorts the fields by their values.
func (l *learner) sort() {
	if cap(l.spare) < len(l.votes) {
		l.spare = make([]vote, cap(l.votes))
	}
	from, to := l.votes, l.spare[:len(l.votes)]
	for shift := 0; shift < 33; shift += 11 {
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

// fit finds the shifts by which most fields, less the cost of limits, become what they are.
func (l *learner) fit(s *step) bool {
	if l.turn++; l.turn == 0 {
		clear(l.table)
		l.turn = 1
	}
	l.nodes = append(l.nodes[:0], node{by: 0, before: -1})
	stay := state{} // the best way that ends without a shift
	best := stay
	for i := 0; i < len(l.votes); {
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
				l.nodes = append(l.nodes, node{value, by, before.node})
				*to = state{l.turn, by, before.score - limitCost, int32(len(l.nodes) - 1)}
			}
			if to.score++; to.score > best.score {
				best = *to
			}
		}
	}
	// From the last limit back to the first.
	end := l.votes[len(l.votes)-1].value + 1
	if end == 0 {
		end--
	}
	for n := best.node; n > 0; n = l.nodes[n].before {
		s.limits, s.by = append(s.limits, l.nodes[n].at), append(s.by, l.nodes[n].by)
	}
	for i, k := 0, len(s.limits)-1; i < k; i, k = i+1, k-1 {
		s.limits[i], s.limits[k] = s.limits[k], s.limits[i]
		s.by[i], s.by[k] = s.by[k], s.by[i]
	}
	n := len(s.limits)
	if n == 0 || n == 1 && s.by[0] == 0 {
		return false
	}
	if s.by[n-1] == 0 {
		s.by = s.by[:n-1]
		return true
	}
	s.limits = append(s.limits, end)
	return s.limits[n] > s.limits[n-1]
}

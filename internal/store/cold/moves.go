package cold

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Fields of a content that say where something is: offsets, addresses, indexes. When
// something is inserted, all that is behind it moves, and the fields that name it change by
// equal amounts, wherever they are. A step of moves changes the fields of one kind in the
// bytes that a block takes from its base, by a shift that depends on the value of the field.
const (
	stepWord = 0 // words of four bytes at a phase of the base, modulo 4
	stepAny  = 1 // four bytes at any place
	stepCode = 2 // operands of x86-64 relative to the next instruction
	steps    = 3
)

const (
	maxSteps = 6       // in a block
	maxMoves = 1 << 16 // limits in the steps of a block
	leastAny = 1 << 16 // the smallest value of a field at any place
	partLog  = 12      // of the parts of a block that a step names
	partLen  = 1 << partLog
	maxParts = 1 << (deltaLog - partLog)
)

// step changes the fields of one kind.
type step struct {
	kind  uint8
	phase uint8 // of words
	parts parts
	shifts
}

// parts are parts of a block.
type parts [maxParts / 64]uint64

func (p *parts) has(i int) bool { return p[uint(i)/64]>>(uint(i)%64)&1 != 0 }
func (p *parts) add(i int)      { p[uint(i)/64] |= 1 << (uint(i) % 64) }

// append writes the parts: the number of runs, then for each run how many parts are left out
// before it, and its length.
func (p *parts) append(b []byte) []byte {
	at := len(b)
	b = append(b, 0)
	end := 0 // of the last run
	for i := range maxParts {
		switch {
		case !p.has(i):
			continue
		case i == 0 || !p.has(i-1): // a run begins
			b = binary.AppendUvarint(b, uint64(i-end))
			end = i
			for end < maxParts && p.has(end) {
				end++
			}
			b = binary.AppendUvarint(b, uint64(end-i))
			b[at]++
		}
	}
	return b
}

// parse reads what append has written. It is false if that contradicts itself.
func (p *parts) parse(b []byte) (rest []byte, ok bool) {
	*p = parts{}
	if len(b) == 0 {
		return nil, false
	}
	end := uint64(0)
	n, b := int(b[0]), b[1:]
	for i := range n {
		skip, k := binary.Uvarint(b)
		if k <= 0 || skip > maxParts || skip == 0 && i > 0 {
			return nil, false
		}
		take, j := binary.Uvarint(b[k:])
		if j <= 0 || take == 0 || take > maxParts || end+skip+take > maxParts {
			return nil, false
		}
		for i := range take {
			p.add(int(end + skip + i))
		}
		end, b = end+skip+take, b[k+j:]
	}
	return b, n > 0
}

// shifts says by how much a value moves: limits[i] ≤ value < limits[i+1] by by[i]. What is
// before the first limit or from the last one on stays.
type shifts struct {
	limits []uint32 // ascending
	by     []uint32 // modulo 2^32; one less than limits
	lo     uint32   // the first limit
	span   uint32   // from there to the last one

	// Values, counted from the first limit, are found by their upper bits: ranges of one length have
	// cells, the more the more limits there are in the range, and so have cells with many limits.
	log    uint8 // of the length of a range
	ranges []cells
	all    tier
	inner  tier // cells in cells
}

// cells are where the cells of a range are, and the log2 of how many values each has.
type cells struct {
	at  uint32
	log uint8
}

// tier has cells, and the number of the shift of the smallest value of each.
type tier struct {
	cells  []cell
	number []uint16
}

// cell says what holds for some values: the shift of the smallest one, up to which value, counted from
// the first limit, and the shift from there on. If there are more limits in the cell, they must be
// searched. If there are many, it has inner cells: from until on, and next is the log2 of how many values each has.
type cell struct {
	by, until, next uint32
	more, many      bool
}

const (
	rangesLog = 8 // of the number of ranges
	cellsPer  = 8 // for each limit of a range
	innerPer  = 2 // for each limit of a cell
	fewLimits = 4 // of a cell
)

// index prepares the search.
func (s *shifts) index() {
	last := len(s.limits) - 1
	s.lo, s.span = s.limits[0], s.limits[last]-s.limits[0]
	s.log = uint8(max(0, bits.Len32(s.span-1)-rangesLog))
	s.ranges = s.ranges[:0]
	for _, t := range [...]*tier{&s.all, &s.inner} {
		t.cells, t.number = t.cells[:0], t.number[:0]
	}
	i := 0 // shift of the smallest value of the range
	for begin := uint64(0); begin < uint64(s.span); begin += 1 << s.log {
		end, next := begin+1<<s.log, s.last(i, begin+1<<s.log)
		log := uint8(max(0, int(s.log)-bits.Len(uint(cellsPer*(next-i)))))
		s.ranges = append(s.ranges, cells{uint32(len(s.all.cells)), log})
		i = s.divide(&s.all, begin, min(end, uint64(s.span)), log, i)
		for i+1 < last && uint64(s.limits[i+1]-s.lo) <= end {
			i++
		}
	}
}

// last gives the shift of the last value before end, of which it gets one that is not behind it.
func (s *shifts) last(i int, end uint64) int {
	for i+1 < len(s.by) && uint64(s.limits[i+1]-s.lo) < end {
		i++
	}
	return i
}

// divide makes cells of 2^log values for those from begin to end, the smallest of which has shift i. It gives the
// shift of the smallest value of the last cell.
func (s *shifts) divide(t *tier, begin, end uint64, log uint8, i int) int {
	for v := begin; v < end; v += 1 << log {
		for uint64(s.limits[i+1]-s.lo) <= v {
			i++
		}
		c := cell{by: s.by[i], until: s.limits[i+1] - s.lo}
		if i+1 < len(s.by) {
			c.next = s.by[i+1]
			c.more = uint64(s.limits[i+2]-s.lo) < v+1<<log
		}
		if c.more && t == &s.all {
			if n := s.last(i, v+1<<log) - i; n > fewLimits {
				inner := max(0, int(log)-bits.Len(uint(innerPer*n)))
				c.many, c.until, c.next = true, uint32(len(s.inner.cells)), uint32(inner)
				s.divide(&s.inner, v, min(v+1<<log, end), uint8(inner), i)
			}
		}
		t.cells, t.number = append(t.cells, c), append(t.number, uint16(i))
	}
	return i
}

// cellOf gives the number of the cell of a value, of which it gets the distance from the first limit.
func (s *shifts) cellOf(d uint32) uint32 {
	r := s.ranges[d>>(s.log&31)]
	return r.at + d&(1<<(s.log&31)-1)>>(r.log&31)
}

// of gives the shift of a value between the first limit and the last, of which it gets the
// distance from the first. If ok is false, search finds it.
func (s *shifts) of(d uint32) (by uint32, ok bool) {
	c := &s.all.cells[s.cellOf(d)]
	by, next := c.by, c.next
	if d >= c.until { // without a jump, which would often be mispredicted
		by = next
	}
	return by, !c.more
}

// search finds any shift.
func (s *shifts) search(d uint32) uint32 {
	t, c := &s.all, s.cellOf(d)
	if x := &t.cells[c]; x.many {
		log := s.ranges[d>>(s.log&31)].log
		c = x.until + d&(1<<(log&31)-1)>>(x.next&31)
		t = &s.inner
		if x = &t.cells[c]; !x.more {
			if d >= x.until {
				return x.next
			}
			return x.by
		}
	}
	i := int(t.number[c])
	rest := s.limits[i+1:]
	d += s.lo
	for k, limit := range rest[:min(fewLimits, len(rest))] { // most cells have few limits
		if d < limit {
			return s.by[i+k]
		}
	}
	k, _ := slices.BinarySearch(rest, d+1)
	return s.by[i+k]
}

// places are offsets of fields in a part of a block.
type places struct {
	at [partLen / 4]uint16
	n  int
}

func (f *places) add(p int) {
	f.at[f.n&(partLen/4-1)] = uint16(p)
	f.n++
}

// apply changes the fields of b, which are bytes of the base from an offset on, within one part,
// and are to become bytes of the content at to. Only fields are changed that lie in b as a whole,
// with what is before them.
func (s *step) apply(b []byte, from, to int64, f *places) {
	switch s.kind {
	case stepWord:
		f.words(b, int((int64(s.phase)-from)&3), s.lo, s.span)
		s.fields(b, f, 0, 0, 0)
	case stepAny:
		f.any(b, s.lo, s.span)
		s.fields(b, f, 0, 0, 0)
	case stepCode:
		f.code(b, uint32(from), s.lo, s.span)
		s.fields(b, f, uint32(from), 1, uint32(to-from))
	}
}

// fields changes fields of b. Those of code name what is relative to them, from an offset on, and
// move.
func (s *step) fields(b []byte, f *places, from, each, moved uint32) {
	from -= s.lo
	for _, p := range f.at[:f.n] {
		v := binary.LittleEndian.Uint32(b[p:])
		d := v + from + uint32(p)*each
		by, ok := s.of(d)
		if !ok {
			by = s.search(d)
		}
		binary.LittleEndian.PutUint32(b[p:], v+by-moved)
	}
}

// Eight bytes at a time are examined as one word.
const (
	ones = 0x0101010101010101
	high = 0x8080808080808080 // the upper bit of each byte
)

// nonzero has the upper bit of each byte that is not zero.
func nonzero(x uint64) uint64 { return (x&^high + ^uint64(high)) | x }

// words finds words, the first at an offset, whose values are from lo on, less than span above it.
// It enters each, to have no jump that would often be mispredicted, and leaves out the others.
func (f *places) words(b []byte, at int, lo, span uint32) {
	n := 0
	for ; at+8 <= len(b); at += 8 {
		x := binary.LittleEndian.Uint64(b[at:])
		f.at[n&(partLen/4-1)] = uint16(at)
		if uint32(x)-lo < span {
			n++
		}
		f.at[n&(partLen/4-1)] = uint16(at + 4)
		if uint32(x>>32)-lo < span {
			n++
		}
	}
	if at+4 <= len(b) {
		f.at[n&(partLen/4-1)] = uint16(at)
		if binary.LittleEndian.Uint32(b[at:])-lo < span {
			n++
		}
	}
	f.n = n
}

// stretch has 64 bytes that are searched at once, and those behind them that fields may have.
type stretch [64 + 11]byte

// any finds fields at any place whose values are from lo on, less than span above it.
func (f *places) any(b []byte, lo, span uint32) {
	f.n = 0
	i, next := 0, 0
	// A field ends with a byte that is not above that of the largest value, and the two last are
	// not both zero, since lo is not below leastAny.
	if most := (lo + span - 1) >> 24; most < 0x7f {
		most := ones * (uint64(most) + 1)
		for ; i+len(stretch{}) <= len(b); i += 64 {
			part := (*stretch)(b[i:])
			m := uint64(0)
			for k := uint(0); k < 64; k += 8 {
				x, y := binary.LittleEndian.Uint64(part[k+3:k+11]), binary.LittleEndian.Uint64(part[k+2:k+10])
				// Borrows may set other bits, too, but never clear one.
				m |= upper((x-most)&^x&nonzero(x|y)) << k
			}
			for m &= ^uint64(0) << max(0, next-i); m != 0; {
				k := bits.TrailingZeros64(m)
				m &= m - 1
				if v := binary.LittleEndian.Uint32(part[k : k+4]); v-lo < span && !letters(v) {
					f.add(i + k)
					m &= ^uint64(0) << (k + 4)
					next = i + k + 4
				}
			}
		}
	}
	for i = max(i, next); i+4 <= len(b); {
		if v := binary.LittleEndian.Uint32(b[i:]); v-lo < span && !letters(v) {
			f.add(i)
			i += 4
		} else {
			i++
		}
	}
}

// code finds operands in code at a place of the base that name what is from lo on, less than
// span above it.
func (f *places) code(b []byte, place, lo, span uint32) {
	f.n = 0
	place -= lo
	i, next := 0, 0
	for ; i+len(stretch{}) <= len(b); i += 64 {
		part := (*stretch)(b[i:])
		m := uint64(0)
		for k := uint(0); k < 64; k += 8 {
			m |= upper(operands(binary.LittleEndian.Uint64(part[k:k+8]), binary.LittleEndian.Uint64(part[k+1:k+9]))) << k
		}
		for m &= ^uint64(0) << max(0, next-i); m != 0; {
			k := bits.TrailingZeros64(m)
			m &= m - 1
			if part[k] == 0x0f {
				k++
			}
			k++
			if binary.LittleEndian.Uint32(part[k:k+4])+place+uint32(i+k) < span {
				f.add(i + k)
				m &= ^uint64(0) << (k + 4)
				next = i + k + 4
			}
		}
	}
	for i = max(i, next); i+6 <= len(b); i++ {
		at := i + 1
		switch c := b[i]; {
		case c == 0x0f && b[at]&0xf0 == 0x80:
			at++
		case c&0xfe != 0xe8 && c&0xc7 != 5:
			continue
		}
		if binary.LittleEndian.Uint32(b[at:])+place+uint32(at) < span {
			f.add(at)
			i = at + 3
		}
	}
}

// upper gives the upper bits of eight bytes.
func upper(x uint64) uint64 { return x & high * 0x0002040810204081 >> 56 }

// operands says behind which of eight bytes of code, by their upper bits, an operand is that is
// relative to the next instruction: behind E8 or E9 (call, jump), the mode byte of an instruction
// with memory relative to the instruction pointer, or 0F if one of 80 to 8F (conditional jumps)
// follows it, before the operand. after are the eight bytes from the second on.
func operands(b, after uint64) uint64 {
	call := b&(ones*0xfe) ^ ones*0xe8
	memory := b&(ones*0xc7) ^ ones*5
	jump := (b ^ ones*0x0f) | (after&(ones*0xf0) ^ ones*0x80)
	return ^(nonzero(call) & nonzero(memory) & nonzero(jump)) & high
}

// letters is true for values whose lower three bytes are printable: the end of a text, and
// what is behind it.
func letters(v uint32) bool {
	v &= 0xffffff
	// No byte is below 0x20, and none above 0x7e.
	return ((v-0x202020)&^v|(v+0x010101|v))&0x808080 == 0
}

// moves are the steps of a block, one after the other.
type moves struct {
	steps  []step
	n      int
	places places
}

func (m *moves) reset() { m.n = 0 }

// add gives another step to be filled.
func (m *moves) add() *step {
	if m.n == len(m.steps) {
		m.steps = append(m.steps, step{})
	}
	s := &m.steps[m.n]
	m.n++
	s.limits, s.by, s.parts = s.limits[:0], s.by[:0], parts{}
	return s
}

// apply changes what was taken of the base from an offset on, for the content at to, which is at
// a place of its block.
func (m *moves) apply(b []byte, at int, from, to int64) {
	for m.n > 0 && len(b) > 0 {
		part := at >> partLog
		n := min(len(b), (part+1)<<partLog-at)
		for i := range m.n {
			if s := &m.steps[i]; s.parts.has(part) {
				s.apply(b[:n], from, to, &m.places)
			}
		}
		b, at, from, to = b[n:], at+n, from+int64(n), to+int64(n)
	}
}

// append writes the steps: their number, then for each its kind, phase, number of limits and
// parts, then all limits and all shifts, as distances from the one before.
func (m *moves) append(b []byte) []byte {
	b = append(b, byte(m.n))
	for i := range m.n {
		s := &m.steps[i]
		b = append(b, s.kind|s.phase<<4)
		b = binary.AppendUvarint(b, uint64(len(s.limits)))
		b = s.parts.append(b)
	}
	for i := range m.n {
		before := uint32(0)
		for _, v := range m.steps[i].limits {
			b = binary.AppendUvarint(b, uint64(v-before))
			before = v
		}
	}
	for i := range m.n {
		before := uint32(0)
		for _, v := range m.steps[i].by {
			b = binary.AppendVarint(b, int64(int32(v-before)))
			before = v
		}
	}
	return b
}

// parse reads what append has written. It is false if it contradicts itself.
func (m *moves) parse(b []byte) (rest []byte, ok bool) {
	m.reset()
	if len(b) == 0 || b[0] > maxSteps {
		return nil, false
	}
	count := int(b[0])
	b = b[1:]
	var lens [maxSteps]int
	sum := uint64(0)
	for i := range count {
		if len(b) == 0 {
			return nil, false
		}
		s := m.add()
		s.kind, s.phase = b[0]&15, b[0]>>4
		n, k := binary.Uvarint(b[1:])
		if k <= 0 || n < 2 || n > maxMoves || s.kind >= steps || s.phase > 3 || s.phase > 0 && s.kind != stepWord {
			return nil, false
		}
		if sum += n; sum > maxMoves {
			return nil, false
		}
		lens[i] = int(n)
		if b, ok = s.parts.parse(b[1+k:]); !ok {
			return nil, false
		}
	}
	for i := range count {
		if b, ok = m.steps[i].parseLimits(b, lens[i]); !ok {
			return nil, false
		}
	}
	for i := range count {
		s, v := &m.steps[i], uint32(0)
		for range lens[i] - 1 {
			d, k := binary.Varint(b)
			if k <= 0 || int64(int32(d)) != d {
				return nil, false
			}
			v += uint32(d)
			s.by, b = append(s.by, v), b[k:]
		}
		s.index()
	}
	return b, true
}

// parseLimits reads the n limits of a step: each is above the one before.
func (s *step) parseLimits(b []byte, n int) (rest []byte, ok bool) {
	v := uint64(0)
	for j := range n {
		d, k := binary.Uvarint(b)
		if k <= 0 || d > 1<<32-1 || d == 0 && j > 0 {
			return nil, false
		}
		if v += d; v > 1<<32-1 {
			return nil, false
		}
		s.limits, b = append(s.limits, uint32(v)), b[k:]
	}
	return b, s.kind != stepAny || s.limits[0] >= leastAny
}

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
)

// step changes the fields of one kind.
type step struct {
	kind  uint8
	phase uint8 // of words
	shifts
}

// shifts says by how much a value moves: limits[i] ≤ value < limits[i+1] by by[i]. What is
// before the first limit or from the last one on stays.
type shifts struct {
	limits []uint32 // ascending
	by     []uint32 // modulo 2^32; one less than limits
	cells  []cell   // from that of the first limit on; see cellOf
	first  uint32
}

// cell says what holds for the smallest of some values: the shift, up to which value, and the
// number of both.
type cell struct{ by, until, i uint32 }

// cellOf gives the number of the cell of a value: values below 1024 have one each, larger ones
// share theirs with those that have the same ten upper bits.
func cellOf(v uint32) uint32 {
	n := uint32(bits.Len32(v >> 10))
	return n<<9 + v>>n
}

// cellBegin gives the smallest value of a cell.
func cellBegin(c uint32) uint32 {
	if c < 1<<10 {
		return c
	}
	n := c>>9 - 1
	return (c - n<<9) << n
}

// index prepares the search.
func (s *shifts) index() {
	s.first = cellOf(s.limits[0])
	s.cells = s.cells[:0]
	i, last := 0, cellOf(s.limits[len(s.limits)-1]-1)
	for c := s.first; c <= last; c++ {
		for v := cellBegin(c); s.limits[i+1] <= v; {
			i++
		}
		s.cells = append(s.cells, cell{s.by[i], s.limits[i+1], uint32(i)})
	}
}

// of gives the shift of a value between the first limit and the last.
func (s *shifts) of(v uint32) uint32 {
	c := &s.cells[cellOf(v)-s.first]
	if v < c.until {
		return c.by
	}
	return s.search(c.i+1, v)
}

// search finds the shift of a value that is not before a limit.
func (s *shifts) search(i uint32, v uint32) uint32 {
	rest := s.limits[i+1:]
	for k, limit := range rest[:min(4, len(rest))] { // most cells have few limits
		if v < limit {
			return s.by[int(i)+k]
		}
	}
	k, _ := slices.BinarySearch(rest, v+1)
	return s.by[int(i)+k]
}

// apply changes the fields of b, which are bytes of the base from an offset on and are to
// become bytes of the content at to. Only fields are changed that lie in b as a whole, with
// what is before them.
func (s *step) apply(b []byte, from, to int64) {
	if len(s.limits) < 2 {
		return
	}
	switch s.kind {
	case stepWord:
		s.words(b[min(int((int64(s.phase)-from)&3), len(b)):])
	case stepAny:
		s.any(b)
	case stepCode:
		s.code(b, uint32(from), uint32(to-from))
	}
}

// words changes words.
func (s *step) words(b []byte) {
	lo, span := s.limits[0], s.limits[len(s.limits)-1]-s.limits[0]
	for ; len(b) >= 4; b = b[4:] {
		v := binary.LittleEndian.Uint32(b)
		if v-lo < span {
			binary.LittleEndian.PutUint32(b, v+s.of(v))
		}
	}
}

// any changes fields at any place.
func (s *step) any(b []byte) {
	lo, span := s.limits[0], s.limits[len(s.limits)-1]-s.limits[0]
	for len(b) >= 4 {
		v := binary.LittleEndian.Uint32(b)
		if v-lo >= span || letters(v) {
			b = b[1:]
			continue
		}
		binary.LittleEndian.PutUint32(b, v+s.of(v))
		b = b[4:]
	}
}

// code changes operands of code that is at place of the base, and moves by a distance.
func (s *step) code(b []byte, place, moved uint32) {
	lo, span := s.limits[0], s.limits[len(s.limits)-1]-s.limits[0]
	for p := 0; p+6 <= len(b); p++ {
		skip := operand[b[p]]
		if skip == 0 || skip == 2 && b[p+1]&0xf0 != 0x80 {
			continue
		}
		at := p + int(skip)
		w := binary.LittleEndian.Uint32(b[at:])
		if v := w + place + uint32(at); v-lo < span {
			binary.LittleEndian.PutUint32(b[at:], w+s.of(v)-moved)
			p = at + 3
		}
	}
}

// letters is true for values whose lower three bytes are printable: the end of a text, and
// what is behind it.
func letters(v uint32) bool {
	v &= 0xffffff
	// No byte is below 0x20, and none above 0x7e.
	return (v-0x202020)&^v&0x808080 == 0 && (v+0x010101|v)&0x808080 == 0
}

// operand says how far behind a byte of code an operand is that is relative to the next
// instruction: behind E8 or E9 (call, jump) and the mode byte of an instruction with memory
// relative to the instruction pointer, one byte; behind 0F, if one of 80 to 8F (conditional
// jumps) follows it, two. 0 if there is none.
var operand = func() (t [256]uint8) {
	for i := range t {
		switch {
		case i == 0xe8 || i == 0xe9 || i&0xc7 == 5:
			t[i] = 1
		case i == 0x0f:
			t[i] = 2
		}
	}
	return t
}()

// moves are the steps of a block, one after the other.
type moves struct {
	steps []step
	n     int
}

func (m *moves) reset() { m.n = 0 }

// add gives another step to be filled.
func (m *moves) add() *step {
	if m.n == len(m.steps) {
		m.steps = append(m.steps, step{})
	}
	s := &m.steps[m.n]
	m.n++
	s.limits, s.by = s.limits[:0], s.by[:0]
	return s
}

// apply changes what was taken of the base from an offset on, for the content at to.
func (m *moves) apply(b []byte, from, to int64) {
	for i := range m.n {
		m.steps[i].apply(b, from, to)
	}
}

// append writes the steps: their number, then for each its kind, phase and number of limits,
// then all limits and all shifts, as distances from the one before.
func (m *moves) append(b []byte) []byte {
	b = append(b, byte(m.n))
	for i := range m.n {
		s := &m.steps[i]
		b = append(b, s.kind|s.phase<<4)
		b = binary.AppendUvarint(b, uint64(len(s.limits)))
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
		lens[i], b = int(n), b[1+k:]
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

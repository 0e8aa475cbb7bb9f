package cold

import (
	"encoding/binary"
	"math/bits"
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
	starts []int32  // for a quick search: for the upper bits of the distance to limits[0]
	drop   uint
}

// index prepares the search.
func (s *shifts) index() {
	n := len(s.limits)
	if n < 2 {
		return
	}
	span := s.limits[n-1] - s.limits[0]
	s.drop = uint(max(bits.Len32(span)-min(bits.Len(uint(n))+2, 14), 0))
	s.starts = s.starts[:0]
	i := int32(0)
	for b := uint64(0); b<<s.drop <= uint64(span); b++ {
		for int(i)+1 < n-1 && uint64(s.limits[i+1]-s.limits[0]) <= b<<s.drop {
			i++
		}
		s.starts = append(s.starts, i)
	}
	s.starts = append(s.starts, int32(n-2))
}

// of gives the shift of a value.
func (s *shifts) of(v uint32) uint32 {
	d := v - s.limits[0]
	b := d >> s.drop
	from, end := s.starts[b], s.starts[b+1]
	for end-from > 8 {
		if m := (from + end + 1) / 2; s.limits[m] <= v {
			from = m
		} else {
			end = m - 1
		}
	}
	for from < end && s.limits[from+1] <= v {
		from++
	}
	return s.by[from]
}

// apply changes the fields of b, which are bytes of the base from an offset on and are to
// become bytes of the content at to. Only fields are changed that lie in b as a whole, and
// for stepCode with what is before them.
func (s *step) apply(b []byte, from, to int64) {
	if len(s.limits) < 2 {
		return
	}
	lo, span := s.limits[0], s.limits[len(s.limits)-1]-s.limits[0]
	switch s.kind {
	case stepWord:
		for p := int((int64(s.phase) - from) & 3); p+4 <= len(b); p += 4 {
			if v := binary.LittleEndian.Uint32(b[p:]); v-lo < span {
				binary.LittleEndian.PutUint32(b[p:], v+s.of(v))
			}
		}
	case stepAny:
		for p := 0; p+4 <= len(b); p++ {
			if v := binary.LittleEndian.Uint32(b[p:]); v-lo < span && !letters(v) {
				binary.LittleEndian.PutUint32(b[p:], v+s.of(v))
				p += 3
			}
		}
	case stepCode:
		place, moved := uint32(from), uint32(to-from)
		for p := 2; p+4 <= len(b); p++ {
			if !operand[b[p-1]] || !isOperand(b[p-2], b[p-1]) {
				continue
			}
			w := binary.LittleEndian.Uint32(b[p:])
			if v := w + place + uint32(p); v-lo < span {
				binary.LittleEndian.PutUint32(b[p:], w+s.of(v)-moved)
				p += 3
			}
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

// operand marks the bytes that may come before a relative operand.
var operand = func() (t [256]bool) {
	for i := range t {
		t[i] = i == 0xe8 || i == 0xe9 || i&0xf0 == 0x80 || i&0xc7 == 5
	}
	return t
}()

// isOperand says whether a relative operand of four bytes follows two bytes, of which operand
// marks the second: that of a call, a jump, a conditional jump, or of an instruction with
// memory relative to the instruction pointer.
func isOperand(a, b byte) bool { return b&0xf0 != 0x80 || a == 0x0f }

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
		s, v := &m.steps[i], uint64(0)
		for j := range lens[i] {
			d, k := binary.Uvarint(b)
			if k <= 0 || d > 1<<32-1 || d == 0 && j > 0 {
				return nil, false
			}
			if v += d; v > 1<<32-1 {
				return nil, false
			}
			s.limits, b = append(s.limits, uint32(v)), b[k:]
		}
		if s.kind == stepAny && s.limits[0] < leastAny {
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

package deflate

import (
	"encoding/binary"
	"math/bits"
)

// bitString is a string of bits, the first in the lowest bit of the first byte.
type bitString struct {
	b   []byte // whole bytes
	acc uint64
	n   uint // bits in acc, below 32
}

func (s *bitString) reset() { *s = bitString{b: s.b[:0]} }

// add appends the lowest k bits of v, at most 32; the others are zero.
func (s *bitString) add(v uint64, k uint) {
	s.acc |= v << s.n
	s.n += k
	if s.n >= 32 {
		s.b = binary.LittleEndian.AppendUint32(s.b, uint32(s.acc))
		s.acc >>= 32
		s.n -= 32
	}
}

// len is the number of bits.
func (s *bitString) len() int { return len(s.b)*8 + int(s.n) }

// align appends zeros up to the end of a byte, and brings all bytes into b.
func (s *bitString) align() {
	for n := (s.n + 7) / 8; n > 0; n-- {
		s.b = append(s.b, byte(s.acc))
		s.acc >>= 8
	}
	s.acc, s.n = 0, 0
}

// bytes returns the bits, with zeros up to the end of the last byte.
func (s *bitString) bytes() []byte {
	c := *s
	c.align()
	s.b = c.b[:len(s.b)]
	return c.b
}

// addAll appends the first n bits of b.
func (s *bitString) addAll(b []byte, n int) {
	for ; n > 0; n, b = n-8, b[1:] {
		k := uint(min(8, n))
		s.add(uint64(b[0])&(1<<k-1), k)
	}
}

func (s *bitString) equal(o *bitString) bool {
	return s.len() == o.len() && string(s.bytes()) == string(o.bytes())
}

// encodeTable has the code of each symbol, in the order in which its bits are written, above
// the length in the lower five bits.
type encodeTable [litCodes + 2]uint32

func (t *encodeTable) build(lengths []uint8) {
	var count, next [maxCode + 2]int
	for _, n := range lengths {
		count[n]++
	}
	count[0] = 0
	for n := 1; n <= maxCode; n++ {
		next[n] = (next[n-1] + count[n-1]) << 1
	}
	for s, n := range lengths {
		t[s] = 0
		if n > 0 {
			t[s] = uint32(bits.Reverse16(uint16(next[n]))>>(16-n))<<5 | uint32(n)
			next[n]++
		}
	}
}

// add appends the code of a symbol. It is false if the symbol has none.
func (t *encodeTable) add(s *bitString, symbol int) bool {
	e := t[symbol]
	s.add(uint64(e>>5), uint(e&31))
	return e != 0
}

// blockWriter writes blocks.
type blockWriter struct {
	bitString
	lit, dis encodeTable
}

// write appends a block. data are the bytes of a stored one. It is false for a token that
// the codes of the block do not have.
func (w *blockWriter) write(b *block, data []byte) bool {
	w.add(uint64(b.coding.kind)<<1|boolBit(b.final), 3)
	if b.coding.kind == stored {
		w.align()
		w.b = binary.LittleEndian.AppendUint16(w.b, uint16(len(data)))
		w.b = binary.LittleEndian.AppendUint16(w.b, ^uint16(len(data)))
		w.b = append(w.b, data...)
		return len(data) <= 0xffff
	}
	if h := &b.coding.header; b.coding.kind == dynamic {
		w.addAll(h.bytes(), h.len())
	}
	w.lit.build(b.coding.lit[:])
	w.dis.build(b.coding.dis[:])
	ok := true
	for _, t := range b.tokens {
		if t.literal() {
			ok = w.lit.add(&w.bitString, int(t)) && ok
			continue
		}
		n, distance := t.size(), t.distance()
		c := int(lengthCode[n])
		ok = w.lit.add(&w.bitString, endBlock+1+c) && ok
		w.add(uint64(n-lengthBase[c]), lengthExtra[c])
		c = codeOf(distance)
		ok = w.dis.add(&w.bitString, c) && ok
		w.add(uint64(distance-disBase[c]), disExtra[c])
	}
	ok = w.lit.add(&w.bitString, endBlock) && ok
	if b.final {
		w.align()
	}
	return ok
}

func boolBit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

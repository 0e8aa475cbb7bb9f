package zstdseq

import (
	"encoding/binary"
	"math/bits"
)

// bitReader reads bits from the end of a bit string to its begin, as RFC 8878, 4.1, has it. The bits of
// one read keep their order: the one nearest to the begin is the lowest.
type bitReader struct {
	b   []byte // with at least 8 bytes behind the bit string
	low int    // where the bit string begins, in bits
	pos int    // where the bits that are not read end; below low after bits that are not there
}

// begin takes the bytes from up to end of b, of which the last one ends with a 1 and the zeros that fill
// it. It is false if there is none.
func (r *bitReader) begin(b []byte, from, end int) bool {
	if end <= from || b[end-1] == 0 {
		return false
	}
	*r = bitReader{b: b, low: from * 8, pos: end*8 - 8 + bits.Len8(b[end-1]) - 1}
	return true
}

// left is the number of bits that are not read; negative after bits that are not there.
func (r *bitReader) left() int { return r.pos - r.low }

// take reads k bits, at most 56.
func (r *bitReader) take(k uint) uint64 {
	r.pos -= int(k)
	if r.pos < r.low {
		return 0
	}
	return binary.LittleEndian.Uint64(r.b[r.pos>>3:]) >> (r.pos & 7) & (1<<k - 1)
}

// bitWriter writes a bit string that a bitReader reads backwards. Its first bits are the last that are
// read.
type bitWriter struct {
	b   []byte
	acc uint64
	n   uint // bits in acc, below 32
}

// add writes the lowest k bits of v, at most 32; the others are zero.
func (w *bitWriter) add(v uint64, k uint) {
	w.acc |= v << w.n
	if w.n += k; w.n >= 32 {
		w.b = binary.LittleEndian.AppendUint32(w.b, uint32(w.acc))
		w.acc >>= 32
		w.n -= 32
	}
}

// close writes the 1 that shows where the bits end, and fills the last byte with zeros.
func (w *bitWriter) close() {
	w.add(1, 1)
	w.pad()
}

// pad fills the last byte with zeros, and brings all bytes into b.
func (w *bitWriter) pad() {
	for i := uint(0); i < w.n; i += 8 {
		w.b = append(w.b, byte(w.acc>>i))
	}
	w.acc, w.n = 0, 0
}

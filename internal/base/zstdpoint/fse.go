package zstdpoint

import (
	"errors"
	"io"
	"math/bits"
)

var errDamaged = errors.New("zstd: a damaged block")

// The three tables of a block's sequences, in the order of their descriptions.
const (
	literalLengths = iota
	offsets
	matchLengths
	tables
)

// kind says what is fixed for one of the three tables.
type kind struct {
	most       int  // largest symbol
	mostLog    uint // largest accuracy
	predefined []int16
	log        uint // of predefined
}

var kinds = [tables]kind{
	literalLengths: {35, 9, []int16{
		4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1,
	}, 6},
	offsets: {31, 8, []int16{1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1}, 5},
	matchLengths: {52, 9, []int16{
		1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
		1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
	}, 6},
}

// extraBits is the number of bits that follow the code of a length.
func extraBits(table int, code uint8) uint {
	const lengths = "\x01\x01\x01\x01\x02\x02\x03\x03\x04\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10"     // from 16 on
	const matches = "\x01\x01\x01\x01\x02\x02\x03\x03\x04\x04\x05\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10" // from 32 on
	switch {
	case table == literalLengths && code >= 16:
		return uint(lengths[code-16])
	case table == matchLengths && code >= 32:
		return uint(matches[code-32])
	}
	return 0
}

// distribution reads the description of a table (RFC 8878, section 4.1.1): how often each
// symbol is, and the accuracy. size is the number of bytes of the description.
func distribution(b []byte, k *kind) (counts []int16, log uint, size int, err error) {
	at := uint(0) // bit
	peek := func(n uint) int {
		v := 0
		for i := range n {
			if p := (at + i) / 8; p < uint(len(b)) {
				v |= int(b[p]>>((at+i)%8)&1) << i
			}
		}
		return v
	}
	log = uint(peek(4)) + 5
	at += 4
	if log > k.mostLog {
		return nil, 0, 0, errDamaged
	}
	left := 1<<log + 1
	for left > 1 {
		width := uint(bits.Len(uint(left)))
		few := 1<<width - 1 - left // values that are written with a bit less
		v := peek(width - 1)
		if v < few {
			at += width - 1
		} else {
			if v = peek(width); v >= 1<<(width-1) {
				v -= few
			}
			at += width
		}
		n := v - 1
		if n < 0 {
			left--
		} else {
			left -= n
		}
		counts = append(counts, int16(n))
		if n == 0 {
			for more := 3; more == 3 && len(counts) <= k.most; {
				more = peek(2)
				at += 2
				counts = append(counts, make([]int16, more)...)
			}
		}
		if len(counts) > k.most+1 || left < 1 || at > uint(len(b))*8 {
			return nil, 0, 0, errDamaged
		}
	}
	return counts, log, int(at+7) / 8, nil
}

// state is an entry of a table: the symbol, and how the next entry is found.
type state struct {
	symbol uint8
	bits   uint8
	base   uint16
}

// build makes the table of a distribution (RFC 8878, section 4.1.1).
func build(counts []int16, log uint) []state {
	size := 1 << log
	list := make([]state, size)
	next := make([]uint16, len(counts))
	high := size
	for s, n := range counts {
		next[s] = uint16(max(n, 1))
		if n < 0 {
			high--
			list[high].symbol = uint8(s)
		}
	}
	pos, step := 0, size>>1+size>>3+3
	for s, n := range counts {
		for range n {
			list[pos].symbol = uint8(s)
			for pos = (pos + step) & (size - 1); pos >= high; {
				pos = (pos + step) & (size - 1)
			}
		}
	}
	for i := range list {
		e := &list[i]
		n := next[e.symbol]
		next[e.symbol]++
		e.bits = uint8(log - uint(bits.Len16(n)) + 1)
		e.base = n<<e.bits - uint16(size)
	}
	return list
}

// backward reads bits from the end of a block to its beginning.
type backward struct {
	b    []byte // not yet in word
	word uint64
	left uint // bits in word
	bad  bool
}

func newBackward(b []byte) (backward, error) {
	if len(b) == 0 || b[len(b)-1] == 0 {
		return backward{}, io.ErrUnexpectedEOF
	}
	r := backward{b: b}
	r.read(8 - uint(bits.Len8(b[len(b)-1])) + 1) // zeros, and the mark in front of the first bit
	return r, nil
}

// read returns the next n bits, at most 32.
func (r *backward) read(n uint) uint32 {
	for r.left < n && len(r.b) > 0 {
		r.word = r.word<<8 | uint64(r.b[len(r.b)-1])
		r.b = r.b[:len(r.b)-1]
		r.left += 8
	}
	if r.left < n {
		r.bad = true
		return 0
	}
	r.left -= n
	return uint32(r.word >> r.left & (1<<n - 1))
}

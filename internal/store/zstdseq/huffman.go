package zstdseq

import (
	"encoding/binary"
	"math/bits"
)

const (
	maxHuffLog   = 11 // bits of a code of a literal
	maxWeightLog = 6  // of the table of weights
)

// huffTree has the length of the code of each literal, 0 for those that have none.
type huffTree struct {
	lengths [256]uint8
	log     uint // length of the longest code
	n       int  // literals up to the last one that has a code
}

// read reads the description of a tree, and returns its length in bytes; 0 if it is none (RFC 8878,
// 4.2.1). There are at least 8 bytes behind b.
func (t *huffTree) read(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	var weights [256]uint8
	n, size := int(b[0])-127, 1+int(b[0])
	if n > 0 {
		if size = 1 + (n+1)/2; size > len(b) {
			return 0
		}
		for i := range n {
			weights[i] = b[1+i/2] >> (4 * (1 - i&1)) & 15
		}
	} else {
		if size > len(b) {
			return 0
		}
		if n = readWeights(b[:size+8], size, &weights); n == 0 {
			return 0
		}
	}
	sum := 0
	for _, w := range weights[:n] {
		if w > maxHuffLog {
			return 0
		}
		sum += 1 << w >> 1
	}
	if sum == 0 {
		return 0
	}
	t.log = uint(bits.Len(uint(sum)))
	rest := 1<<t.log - sum
	if t.log > maxHuffLog || rest&(rest-1) != 0 {
		return 0
	}
	weights[n] = uint8(bits.Len(uint(rest)))
	t.n = n + 1
	clear(t.lengths[:])
	for s, w := range weights[:t.n] {
		if w > 0 {
			t.lengths[s] = uint8(t.log + 1 - uint(w))
		}
	}
	return size
}

// readWeights reads the weights that b has from its second byte to an end, and returns their number; 0 if
// they are damaged.
func readWeights(b []byte, end int, weights *[256]uint8) (n int) {
	var c counts
	head := c.read(b[1:end], maxHuffLog+2, maxWeightLog)
	var r bitReader
	if head == 0 || !r.begin(b, 1+head, end) {
		return 0
	}
	var d fseDecoder
	d.build(&c)
	one, two := r.take(d.log), r.take(d.log)
	for n < 254 && r.left() >= 0 {
		x := &d.states[one]
		weights[n] = x.symbol
		n++
		if r.left() < int(x.bits) {
			weights[n] = d.states[two].symbol
			return n + 1
		}
		one, two = two, uint64(x.base)+r.take(uint(x.bits))
	}
	return 0
}

// codes calls emit with each literal that has a code, in the order of the codes: from the longest to the
// shortest.
func (t *huffTree) codes(emit func(literal int, length uint)) {
	for k := t.log; k > 0; k-- {
		for s, l := range t.lengths[:t.n] {
			if uint(l) == k {
				emit(s, k)
			}
		}
	}
}

// huffDecoder has the literal and the length of its code for the next bits.
type huffDecoder struct {
	log    uint
	states [1 << maxHuffLog]struct{ literal, length uint8 }
}

func (d *huffDecoder) build(t *huffTree) {
	d.log = t.log
	at := 0
	t.codes(func(literal int, length uint) {
		for range 1 << (t.log - length) {
			d.states[at].literal, d.states[at].length = uint8(literal), uint8(length)
			at++
		}
	})
}

// decode fills out with the literals that b has between two offsets. It is false if they do not take all
// bits.
func (d *huffDecoder) decode(out, b []byte, from, end int) bool {
	var r bitReader
	if !r.begin(b, from, end) {
		return false
	}
	log := d.log & 15
	i := 0
	for ; i+4 <= len(out) && r.left() >= 56; i += 4 {
		v := binary.LittleEndian.Uint64(b[(r.pos-56)>>3:]) >> ((r.pos - 56) & 7) << 8
		used := uint(0)
		for k := range 4 {
			x := d.states[v<<used>>(64-log)]
			out[i+k] = x.literal
			used += uint(x.length)
		}
		r.pos -= int(used)
	}
	for ; i < len(out); i++ {
		k := min(int(log), r.left())
		if k <= 0 {
			return false
		}
		v := binary.LittleEndian.Uint64(b[(r.pos-k)>>3:]) >> ((r.pos - k) & 7) & (1<<k - 1) << (int(log) - k)
		x := d.states[v]
		out[i] = x.literal
		r.pos -= int(x.length)
	}
	return r.left() == 0
}

// huffEncoder has the code of each literal above its length in the lower four bits.
type huffEncoder [256]uint16

func (e *huffEncoder) build(t *huffTree) {
	clear(e[:])
	at := uint16(0)
	t.codes(func(literal int, length uint) {
		e[literal] = at>>(t.log-length)<<4 | uint16(length)
		at += 1 << (t.log - length)
	})
}

// append writes literals. It is false if one of them has no code.
func (e *huffEncoder) append(w *bitWriter, literals []byte) bool {
	ok := true
	for i := len(literals) - 1; i >= 0; i-- {
		x := e[literals[i]]
		w.add(uint64(x>>4), uint(x&15))
		ok = ok && x != 0
	}
	w.close()
	return ok
}

// append writes the description of a tree as libzstd does: the weights of all literals but the last one
// are compressed if that takes less than half a byte for each. It is false if there is no description.
func (t *huffTree) append(b []byte) ([]byte, bool) {
	var weights [256]uint8
	var freq [maxHuffLog + 2]int
	n := t.n - 1
	for s, l := range t.lengths[:n] {
		if l > 0 {
			weights[s] = uint8(t.log) + 1 - l
		}
		freq[weights[s]]++
	}
	if packed := packWeights(weights[:n], freq[:]); len(packed) > 1 && len(packed) < n/2 {
		return append(append(b, byte(len(packed))), packed...), true
	}
	if n > 128 {
		return b, false
	}
	b = append(b, byte(127+n))
	for i := 0; i < n; i += 2 {
		b = append(b, weights[i]<<4|weights[i+1])
	}
	return b, true
}

// packWeights compresses weights that occur freq times; the result is empty if that is of no use.
func packWeights(weights []uint8, freq []int) []byte {
	for len(freq) > 0 && freq[len(freq)-1] == 0 {
		freq = freq[:len(freq)-1]
	}
	most := 0
	for _, f := range freq {
		most = max(most, f)
	}
	if n := len(weights); n <= 1 || most == n || most == 1 {
		return nil
	}
	var c counts
	if !c.normalize(freq, len(weights), tableLog(maxWeightLog, len(weights), len(freq)-1, 2), false) {
		return nil
	}
	var e fseEncoder
	e.build(&c)
	w := bitWriter{b: c.append(nil)}
	n := len(weights)
	states := [2]uint32{}
	states[(n-1)&1] = e.first(weights[n-1])
	states[(n-2)&1] = e.first(weights[n-2])
	for i := n - 3; i >= 0; i-- {
		states[i&1] = e.next(&w, states[i&1], weights[i])
	}
	e.end(&w, states[1])
	e.end(&w, states[0])
	w.close()
	return w.b
}

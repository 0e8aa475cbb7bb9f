package oldkeys

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A block of version 2 has the fields of its keys in bits, the highest one first. It begins with bytes, numbers as uvarints:
//
//	the version, and the number of keys
//	the number of shapes, and of each shape the length of the id, doubled, plus one if the id has lower-case hex digits
//	  only, and the role, doubled, plus one if a name follows
//	the length of the beginning that all ids share, and the number of bits of an object
//
// The bits of a key are:
//
//	its shape, in as many bits as the highest shape needs
//	the length of the beginning that its id shares with the one before, without what all share, in 4 bits; 15 means that
//	  the length is in the next 8 bits
//	the rest of the id: 4 bits for a hex digit, else 8 for a byte
//	the length of the name in 8 bits and its bytes, if it is not that of the object
//	the object
//
// The id before the first one is what all ids share, which stands in the first key.
const (
	bitsVersion = 2
	sharedBits  = 4
	moreShared  = 1<<sharedBits - 1
)

// BitsFormat is the floor of an index from which on blocks are written in version 2.
const BitsFormat = 11

// shape is what many keys of a block have in common.
type shape struct {
	length int // of the id
	hex    bool
	role   int64
	own    bool
}

func shapeOf(k Key) shape { return shape{len(k.ID), isHex(k.ID), k.Role, k.Own} }

// digit is the number of bits of a byte of the id.
func (s *shape) digit() int {
	if s.hex {
		return 4
	}
	return 8
}

func flagged(n uint64, flag bool) uint64 {
	if flag {
		return n<<1 | 1
	}
	return n << 1
}

// sharedWith returns the length of the beginning that two texts share.
func sharedWith(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// bitWriter appends bits to bytes.
type bitWriter struct {
	b    []byte
	free int // bits of the last byte
}

func (w *bitWriter) add(v uint64, n int) {
	for n > 0 {
		if w.free == 0 {
			w.b, w.free = append(w.b, 0), 8
		}
		some := min(n, w.free)
		n -= some
		w.free -= some
		w.b[len(w.b)-1] |= byte(v>>n&(1<<some-1)) << w.free
	}
}

// packBits returns the block of sorted keys in version 2.
func packBits(keys []Key) []byte {
	numbers := make(map[shape]int)
	var shapes []shape
	common, objects := maxText, int64(1)
	for i, k := range keys {
		s := shapeOf(k)
		if _, is := numbers[s]; !is {
			numbers[s] = len(shapes)
			shapes = append(shapes, s)
		}
		if i > 0 {
			common = min(common, sharedWith(keys[i-1].ID, k.ID))
		}
		objects |= k.Object
	}
	if len(keys) == 1 {
		common = 0
	}
	w := bitWriter{b: binary.AppendUvarint([]byte{bitsVersion}, uint64(len(keys)))}
	w.b = binary.AppendUvarint(w.b, uint64(len(shapes)))
	for _, s := range shapes {
		w.b = binary.AppendUvarint(w.b, flagged(uint64(s.length), s.hex))
		w.b = binary.AppendUvarint(w.b, flagged(uint64(s.role), !s.own))
	}
	width, shapeBits := bits.Len64(uint64(objects)), bits.Len(uint(len(shapes)-1))
	w.b = append(w.b, byte(common), byte(width))
	before := ""
	for i, k := range keys {
		s := shapeOf(k)
		w.add(uint64(numbers[s]), shapeBits)
		shared := 0
		if i > 0 {
			shared = sharedWith(before, k.ID)
			if n := shared - common; n < moreShared {
				w.add(uint64(n), sharedBits)
			} else {
				w.add(moreShared<<8|uint64(n), sharedBits+8)
			}
		}
		for _, c := range []byte(k.ID[shared:]) {
			if s.hex {
				c = nibble(c)
			}
			w.add(uint64(c), s.digit())
		}
		if !k.Own {
			w.add(uint64(len(k.Name)), 8)
			for _, c := range []byte(k.Name) {
				w.add(uint64(c), 8)
			}
		}
		w.add(uint64(k.Object), width)
		before = k.ID
	}
	return w.b
}

// bitsOf returns about how many bytes a key takes that follows one with the id before, if its object is one of so many bits.
func bitsOf(before string, k Key, object int) int {
	shared := sharedWith(before, k.ID)
	s := shapeOf(k)
	n := 2 + sharedBits + (len(k.ID)-shared)*s.digit() + object
	if shared >= moreShared {
		n += 8
	}
	if !k.Own {
		n += 8 + 8*len(k.Name)
	}
	return n
}

// bitReader reads bits.
type bitReader struct {
	b   []byte // with 8 bytes more
	end int    // in bits
	pos int    // in bits
	bad bool
}

// skip passes over bits.
func (r *bitReader) skip(n int) {
	if r.pos += n; r.pos > r.end {
		r.bad, r.pos = true, r.end
	}
}

// peek returns the next 56 bits at least, at the high end.
func (r *bitReader) peek() uint64 {
	return binary.BigEndian.Uint64(r.b[r.pos>>3:]) << (r.pos & 7)
}

// read returns the next bits, up to 56.
func (r *bitReader) read(n int) uint64 {
	v := r.peek() >> (64 - n)
	r.skip(n)
	return v
}

// bitBlock reads the keys of a block of version 2.
type bitBlock struct {
	bitReader
	count, left              int
	shapes                   []shape
	shapeBits, common, width int

	// Of the present key:
	shape  *shape
	shared int
	rest   int // position of the rest of the id
}

// openBits reads the beginning of a block.
func openBits(block []byte) (b bitBlock, ok bool) {
	r := reader{b: block[1:]}
	b.count = int(r.number(maxBlock))
	shapes := r.number(maxBlock)
	if r.bad || shapes > uint64(len(r.b))/2 || (shapes == 0) != (b.count == 0) {
		return b, false
	}
	b.shapes = make([]shape, shapes)
	for i := range b.shapes {
		length, role := r.number(2*maxText+1), r.number(math.MaxInt64)
		b.shapes[i] = shape{int(length >> 1), length&1 == 1, int64(role >> 1), role&1 == 0}
		if length>>1 == 0 {
			return b, false
		}
	}
	last := r.bytes(2)
	if r.bad || last[1] == 0 || last[1] > 63 {
		return b, false
	}
	b.common, b.width = int(last[0]), int(last[1])
	b.b, b.end = append(r.b[:len(r.b):len(r.b)], make([]byte, 8)...), 8*len(r.b)
	b.left, b.shapeBits = b.count, bits.Len(uint(max(1, shapes)-1))
	return b, true
}

// next reads the next key up to its id. length is that of the id before.
func (b *bitBlock) next(length int) bool {
	v := b.peek()
	n := v >> (64 - b.shapeBits)
	used := b.shapeBits
	b.shared = 0
	if b.left < b.count {
		v <<= b.shapeBits
		more := v >> (64 - sharedBits)
		used += sharedBits
		if more == moreShared {
			more = v << sharedBits >> 56
			used += 8
		}
		b.shared = b.common + int(more)
	}
	b.left--
	if b.skip(used); b.bad || n >= uint64(len(b.shapes)) {
		b.bad = true
		return false
	}
	b.shape, b.rest = &b.shapes[n], b.pos
	b.bad = b.shared > min(length, b.shape.length)
	return !b.bad
}

// pass passes over the id and what follows it.
func (b *bitBlock) pass() {
	b.pos = b.rest
	n := (b.shape.length - b.shared) * b.shape.digit()
	if b.shape.own {
		b.skip(n + b.width)
		return
	}
	b.skip(n)
	b.skip(8*int(b.read(8)) + b.width)
}

// id appends the rest of the id to what it shares with the one before.
func (b *bitBlock) id(before []byte) []byte {
	id := before[:b.shared]
	n := b.shape.length - b.shared
	if !b.shape.hex {
		for range n {
			id = append(id, byte(b.read(8)))
		}
		return id
	}
	for ; n >= 8; n -= 8 {
		v := b.read(32)
		for at := 28; at >= 0; at -= 4 {
			id = append(id, hexDigits[v>>at&15])
		}
	}
	for range n {
		id = append(id, hexDigits[b.read(4)])
	}
	return id
}

// compare compares the rest of the id with a text, and returns how many bytes of them are equal.
func (b *bitBlock) compare(text string) (order, equal int) {
	n, digit := b.shape.length-b.shared, b.shape.digit()
	for ; equal < n; equal++ {
		c := byte(b.read(digit))
		if b.shape.hex {
			c = hexDigits[c&15]
		}
		switch {
		case equal == len(text) || c > text[equal]:
			return 1, equal
		case c < text[equal]:
			return -1, equal
		}
	}
	if equal < len(text) {
		return -1, equal
	}
	return 0, equal
}

// key reads what follows the id.
func (b *bitBlock) key() Key {
	k := Key{Own: b.shape.own, Role: b.shape.role}
	if !k.Own {
		name := make([]byte, 0, maxText)
		for range b.read(8) {
			name = append(name, byte(b.read(8)))
		}
		k.Name = string(name)
	}
	high := b.read(max(0, b.width-32))
	k.Object = int64(high<<32 | b.read(min(b.width, 32)))
	return k
}

// ended reports whether nothing follows the last key.
func (b *bitBlock) ended() bool { return !b.bad && b.end-b.pos < 8 }

// eachBits is each for a block of version 2.
func eachBits(block []byte, fn func(id []byte, k Key) bool) error {
	b, ok := openBits(block)
	if !ok {
		return errBlock
	}
	id := make([]byte, 0, 64)
	for b.left > 0 {
		if !b.next(len(id)) {
			return errBlock
		}
		id = b.id(id)
		k := b.key()
		if b.bad {
			return errBlock
		}
		if !fn(id, k) {
			return nil
		}
	}
	if !b.ended() {
		return errBlock
	}
	return nil
}

// findBits is find for a block of version 2. It reads the ids only as far as they decide.
func findBits(block []byte, id string) (keys []Key, err error) {
	b, ok := openBits(block)
	if !ok {
		return nil, errBlock
	}
	length := 0  // of the id before, which is not above the wanted one
	matched := 0 // so long is the beginning that these two share
	for b.left > 0 {
		if !b.next(length) {
			return nil, errBlock
		}
		length = b.shape.length
		if b.shared < matched {
			return keys, nil // it is above, because the one before is lower at a byte that it shares with the wanted one
		}
		is := false
		if b.shared == matched { // else it differs from the wanted one where the one before did
			order, equal := b.compare(id[matched:])
			if b.bad {
				return nil, errBlock
			}
			if order > 0 {
				return keys, nil
			}
			is, matched = order == 0, matched+equal
		}
		if is {
			k := b.key()
			k.ID = id
			keys = append(keys, k)
		} else {
			b.pass()
		}
		if b.bad {
			return nil, errBlock
		}
	}
	if !b.ended() {
		return nil, errBlock
	}
	return keys, nil
}

// Package deflate takes a deflate stream apart, into its bytes and a recipe from which
// exactly the same stream can be made of them again.
//
// Most streams were made by few programs. The package knows how these choose matches,
// end blocks and build codes, predicts each token, block and code of a stream, and
// writes down where the stream differs. A stream of a known program has a recipe of a
// few bytes; the recipe of another one may be as long as the stream, and is refused.
package deflate

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
)

const (
	history  = 32 << 10 // how far back a match reaches
	minMatch = 3
	maxMatch = 258
	endBlock = 256 // the symbol that ends a block
	litCodes = 286
	disCodes = 30
	maxCode  = 15 // bits
)

// A block with more than maxBlock bytes or maxTokens tokens is refused: it is in memory
// as a whole, and known programs make none.
const (
	maxBlock  = 8 << 20
	maxTokens = 1 << 20
)

// ErrRefused is what every error wraps that says that bytes are no deflate stream, or none
// that this package takes apart. Other errors are those of reading.
var ErrRefused = errors.New("the deflate stream is damaged or of an unknown kind")

// token is a literal byte, or the length of a match in the upper and its distance in the
// lower 16 bits.
type token uint32

func match(length, distance int) token { return token(length<<16 | distance) }

// size is the number of bytes that a token stands for.
func (t token) size() int { return max(1, int(t>>16)) }

func (t token) distance() int { return int(t & 0xffff) }

func (t token) literal() bool { return t < 256 }

// The kinds of blocks.
const (
	stored  = 0
	fixed   = 1
	dynamic = 2
)

// block is a block of a stream.
type block struct {
	final  bool
	coding coding
	tokens []token // none of a stored block
	size   int     // bytes that the block stands for
}

// coding is how the tokens of a block are written.
type coding struct {
	kind   uint8
	lit    [litCodes + 2]uint8 // lengths of codes
	dis    [disCodes + 2]uint8
	header bitString // of a dynamic block: all between its kind and its first token
}

// set takes the lengths of the fixed codes.
func (c *coding) setFixed() {
	c.kind = fixed
	c.header.reset()
	for i := range c.lit {
		switch {
		case i < 144, i >= 280:
			c.lit[i] = 8
		case i < 256:
			c.lit[i] = 9
		default:
			c.lit[i] = 7
		}
	}
	for i := range c.dis {
		c.dis[i] = 5
	}
}

// bitReader reads the bits of a part of a file.
type bitReader struct {
	r    io.ReaderAt
	next int64 // offset in r of what follows buf
	end  int64 // of the part; reads may go on for less where the file ends
	buf  []byte
	at   int // in buf
	acc  uint64
	n    uint // bits in acc
	err  error
	mem  []byte
}

const readAhead = 32 << 10

// reset begins at a bit of a file.
func (b *bitReader) reset(r io.ReaderAt, bit, end int64) {
	if b.mem == nil {
		b.mem = make([]byte, readAhead+8)
	}
	*b = bitReader{r: r, next: bit / 8, end: end, mem: b.mem}
	if skip := uint(bit % 8); skip > 0 {
		b.fill()
		b.take(skip)
	}
}

// position is the offset of the next bit.
func (b *bitReader) position() int64 {
	return (b.next-int64(len(b.buf)-b.at))*8 - int64(b.n)
}

// fill makes at least 56 bits available, or all that are left.
func (b *bitReader) fill() {
	if b.at+8 <= len(b.buf) {
		b.acc |= binary.LittleEndian.Uint64(b.buf[b.at:]) << b.n
		b.at += int(63-b.n) >> 3
		b.n |= 56
		return
	}
	b.slowFill()
}

func (b *bitReader) slowFill() {
	if want := min(readAhead, b.end-b.next); want > 0 && b.err == nil {
		k := copy(b.mem, b.buf[b.at:])
		n, err := b.r.ReadAt(b.mem[k:k+int(want)], b.next)
		if n == 0 || err != nil && err != io.EOF {
			b.end = b.next
			if err != nil && err != io.EOF {
				b.err = err
			}
		}
		b.buf, b.at = b.mem[:k+n], 0
		b.next += int64(n)
	}
	b.acc &= 1<<b.n - 1
	for b.n <= 56 && b.at < len(b.buf) {
		b.acc |= uint64(b.buf[b.at]) << b.n
		b.at++
		b.n += 8
	}
}

// take returns the next k bits, at most 16, after fill.
func (b *bitReader) take(k uint) int {
	if k > b.n {
		if b.fill(); k > b.n {
			b.fail()
			return 0
		}
	}
	v := int(b.acc & (1<<k - 1))
	b.acc >>= k
	b.n -= k
	return v
}

func (b *bitReader) fail() {
	if b.err == nil {
		b.err = ErrRefused
	}
}

// decodeTable finds symbols by the next bits: the symbol in the upper bits, the length of
// its code in the lower four; 0 where there is none.
type decodeTable struct {
	entries []uint16
	bits    uint
}

// build makes the table of a code. It is false for lengths that no code has.
func (t *decodeTable) build(lengths []uint8) bool {
	var count [maxCode + 1]int
	longest := uint(0)
	for _, n := range lengths {
		count[n]++
		longest = max(longest, uint(n))
	}
	count[0] = 0
	var next [maxCode + 2]int
	code, left := 0, 1
	for n := 1; n <= maxCode; n++ {
		left = left<<1 - count[n]
		if left < 0 {
			return false
		}
		code = (code + count[n-1]) << 1
		next[n] = code
	}
	if longest == 0 {
		longest = 1
	}
	t.bits = longest
	if cap(t.entries) < 1<<longest {
		t.entries = make([]uint16, 1<<longest)
	}
	t.entries = t.entries[:1<<longest]
	if left > 0 {
		clear(t.entries)
	}
	for s, n := range lengths {
		if n == 0 {
			continue
		}
		c := int(bits.Reverse16(uint16(next[n])) >> (16 - n))
		next[n]++
		e := uint16(s)<<4 | uint16(n)
		for ; c < 1<<longest; c += 1 << n {
			t.entries[c] = e
		}
	}
	return true
}

// symbol reads a symbol; it is negative if there is none.
func (t *decodeTable) symbol(b *bitReader) int {
	e := t.entries[b.acc&(1<<t.bits-1)]
	if n := uint(e & 15); n == 0 || n > b.n {
		b.fail()
		return -1
	}
	b.acc >>= e & 15
	b.n -= uint(e & 15)
	return int(e >> 4)
}

// decoder decodes the blocks of a stream.
type decoder struct {
	bitReader
	lit, dis, lens decodeTable
	out            []byte // what was decoded before, and the bytes of the block
	from           int    // where in out the bytes of the block begin
	total          int64
}

// begin begins at a bit in front of which past was decoded.
func (d *decoder) begin(r io.ReaderAt, bit, end int64, past []byte) {
	d.reset(r, bit, end)
	d.out = append(d.out[:0], past...)
	d.from, d.total = len(d.out), 0
}

// bytes are those of the last block.
func (d *decoder) bytes() []byte { return d.out[d.from:] }

// past are the bytes up to here that a match may reach.
func (d *decoder) past() []byte { return d.out[max(0, len(d.out)-history):] }

// next decodes the next block.
func (d *decoder) next(b *block) error {
	if len(d.out) > 4*history {
		d.out = append(d.out[:0], d.out[len(d.out)-history:]...)
	}
	d.from = len(d.out)
	b.tokens = b.tokens[:0]
	d.fill()
	b.final = d.take(1) == 1
	b.coding.kind = uint8(d.take(2))
	b.coding.header.reset()
	switch b.coding.kind {
	case stored:
		d.storedBlock()
	case fixed:
		b.coding.setFixed()
		d.lit.build(b.coding.lit[:])
		d.dis.build(b.coding.dis[:])
		d.tokens(b)
	case dynamic:
		if d.readCodes(&b.coding) {
			d.tokens(b)
		}
	default:
		d.fail()
	}
	b.size = len(d.out) - d.from
	d.total += int64(b.size)
	return d.err
}

func (d *decoder) storedBlock() {
	d.fill()
	if d.take(d.n&7) != 0 {
		d.fail() // no known program writes other bits than zeros
		return
	}
	n := d.take(16)
	d.fill()
	if d.take(16) != n^0xffff {
		d.fail()
		return
	}
	for ; n > 0 && d.err == nil; n-- {
		d.out = append(d.out, byte(d.take(8)))
	}
}

// codeOrder is the order in which the lengths of the code of lengths are written.
var codeOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// readCodes reads the codes of a dynamic block.
func (d *decoder) readCodes(c *coding) bool {
	read := func(k uint) int {
		v := d.take(k)
		c.header.add(uint64(v), k)
		return v
	}
	lits, diss, lens := read(5)+257, read(5)+1, read(4)+4
	if lits > litCodes || diss > disCodes {
		d.fail()
		return false
	}
	var l [19]uint8
	for _, i := range codeOrder[:lens] {
		l[i] = uint8(read(3))
	}
	if !d.lens.build(l[:]) {
		d.fail()
		return false
	}
	var all [litCodes + disCodes]uint8
	for i := 0; i < lits+diss; {
		d.fill()
		bit := d.acc
		s := d.lens.symbol(&d.bitReader)
		if s < 0 {
			return false
		}
		c.header.add(bit&(1<<l[s]-1), uint(l[s]))
		n, v := 1, uint8(s)
		switch s {
		case 16:
			if i == 0 {
				d.fail()
				return false
			}
			n, v = 3+read(2), all[i-1]
		case 17:
			n, v = 3+read(3), 0
		case 18:
			n, v = 11+read(7), 0
		}
		if n > lits+diss-i || d.err != nil {
			d.fail()
			return false
		}
		for ; n > 0; n-- {
			all[i] = v
			i++
		}
	}
	clear(c.lit[:])
	clear(c.dis[:])
	copy(c.lit[:], all[:lits])
	copy(c.dis[:], all[lits:lits+diss])
	if c.lit[endBlock] == 0 || !d.lit.build(c.lit[:lits]) || !d.dis.build(c.dis[:diss]) {
		d.fail()
		return false
	}
	return true
}

// base and extra bits of the codes of lengths and distances.
var (
	lengthBase, lengthExtra = bases(29, 3, 2)
	disBase, disExtra       = bases(disCodes, 1, 1)
	lengthCode              = lengthCodes()
	disCode                 = disCodesTable()
)

// bases returns the smallest value and the number of extra bits of codes: the first ones
// have one value each, then 1<<log codes have the same number of extra bits.
func bases(n, from, log int) (base []int, extra []uint) {
	for i := range n {
		e := max(0, i>>log-1)
		base, extra = append(base, from), append(extra, uint(e))
		from += 1 << e
	}
	if log == 2 { // the longest match has a code of its own
		base[n-1], extra[n-1] = maxMatch, 0
	}
	return base, extra
}

func lengthCodes() (t [maxMatch + 1]uint8) {
	for i, b := range lengthBase {
		for n := b; n < b+1<<lengthExtra[i] && n <= maxMatch; n++ {
			t[n] = uint8(i)
		}
	}
	return t
}

func disCodesTable() (t [512]uint8) {
	for i, b := range disBase {
		for n := b; n < b+1<<disExtra[i]; n++ {
			if n <= 256 {
				t[n-1] = uint8(i)
			} else {
				t[256+(n-1)>>7] = uint8(i)
			}
		}
	}
	return t
}

// codeOf is the code of a distance.
func codeOf(distance int) int {
	if distance <= 256 {
		return int(disCode[distance-1])
	}
	return int(disCode[256+(distance-1)>>7])
}

// tokens decodes the tokens of a block.
func (d *decoder) tokens(b *block) {
	out, limit := d.out, d.from+maxBlock
	tokens := b.tokens
	for d.err == nil {
		d.fill()
		s := d.lit.symbol(&d.bitReader)
		if s < endBlock {
			if s < 0 {
				break
			}
			out = append(out, byte(s))
			tokens = append(tokens, token(s))
			continue
		}
		if s == endBlock {
			break
		}
		s -= endBlock + 1
		if s >= len(lengthBase) || len(out) > limit || len(tokens) > maxTokens {
			d.fail()
			break
		}
		n := lengthBase[s] + d.take(lengthExtra[s])
		if n == maxMatch && lengthExtra[s] > 0 { // there is a shorter way to write that
			d.fail()
			break
		}
		s = d.dis.symbol(&d.bitReader)
		if s < 0 || s >= disCodes {
			d.fail()
			break
		}
		distance := disBase[s] + d.take(disExtra[s])
		if distance > len(out) {
			d.fail()
			break
		}
		tokens = append(tokens, match(n, distance))
		for n > 0 {
			from := out[len(out)-distance:]
			k := min(n, len(from))
			out = append(out, from[:k]...)
			n -= k
		}
	}
	if len(out) > limit+maxMatch || len(tokens) > maxTokens {
		d.fail()
	}
	d.out, b.tokens = out, tokens
}

package mszip

import (
	"encoding/binary"
	"math/bits"
)

// Table geometry. A literal/length code of up to 11 bits and a distance code of
// up to 9 bits are decoded with one table look-up. A longer code needs a second
// look-up in a sub-table, which follows the main table. The tables are large
// enough for one sub-table per symbol.
const (
	litBits   = 11
	litSize   = 1<<litBits + 288<<(maxBits-litBits)
	distBits  = 9
	distSize  = 1<<distBits + 32<<(maxBits-distBits)
	lenBits   = 7
	maxBits   = 15
	winSlack  = 320 // bytes that one symbol may write beyond the end of a block before the check
	winBlocks = 8
	winSize   = historySize + winBlocks*BlockSize + winSlack
	inSlack   = 32 // zeros after the input, into which the bit reader may run
)

// Layout of a table entry:
//
//	bits  0-7   code bits to drop (for a link: the index width of the main table)
//	bits  8-12  extra bits of a length or distance, index width of a link
//	bit   13    end of block
//	bit   14    link: bits 16-31 hold the index of the sub-table
//	bit   15    literal
//	bits 16-31  literal, base length, base distance
//
// A zero entry marks an unused code.
const (
	entryEnd  = 1 << 13
	entryLink = 1 << 14
	entryLit  = 1 << 15
)

// Decoder expands the blocks of one folder in order and keeps the history to
// which blocks may refer back. The zero value is not usable; see NewDecoder.
type Decoder struct {
	win  []byte // history, then the data decoded since the last slide
	pos  int    // end of the decoded data
	in   [MaxBlock + inSlack + 16]byte
	lit  [litSize]uint32
	dist [distSize]uint32
	pre  [1 << lenBits]uint32
	lens [288 + 32]uint8
	// lens holds the lengths of nlit literal/length codes, then of ndist distance
	// codes.
	nlit, ndist int
	strict      bool // reject incomplete codes; set by tests only

	// Bit reader over in[:inLen]; ip may run up to inSlack bytes beyond inLen,
	// where in holds zeros.
	bb    uint64
	nb    uint
	ip    int
	inLen int
}

// NewDecoder returns a Decoder for a new folder. It uses about 350 KiB of memory.
func NewDecoder() *Decoder { return &Decoder{win: make([]byte, winSize)} }

// Reset prepares the Decoder for a new folder. It may be called after an error.
func (d *Decoder) Reset() { d.pos = 0 }

// Decode expands one block, which must yield exactly size bytes. The result is
// valid until the next call. The error is ErrFormat; after an error the Decoder
// must not be used for later blocks of the folder.
func (d *Decoder) Decode(src []byte, size int) ([]byte, error) {
	if len(src) < 2 || src[0] != 'C' || src[1] != 'K' || len(src) > MaxBlock || size < 0 || size > BlockSize {
		return nil, ErrFormat
	}
	if d.pos+BlockSize+winSlack > len(d.win) {
		copy(d.win, d.win[d.pos-historySize:d.pos])
		d.pos = historySize
	}
	d.load(src[2:])
	start, end := d.pos, d.pos+size
	for {
		d.refill()
		if d.overrun() {
			return nil, ErrFormat
		}
		final, kind := d.bb&1 != 0, d.bb>>1&3
		d.drop(3)
		ok := false
		switch kind {
		case 0:
			ok = d.stored(end)
		case 1:
			d.fixedTables()
			ok = d.inflate(end)
		case 2:
			ok = d.dynamicTables() && d.inflate(end)
		}
		if !ok {
			return nil, ErrFormat
		}
		if final {
			break
		}
	}
	if d.pos != end || d.overrun() {
		return nil, ErrFormat
	}
	return d.win[start:end], nil
}

// load sets the input of the bit reader to src.
func (d *Decoder) load(src []byte) {
	d.inLen = copy(d.in[:MaxBlock], src)
	clear(d.in[d.inLen : d.inLen+inSlack])
	d.bb, d.nb, d.ip = 0, 0, 0
}

// bit returns the offset of the next bit from the start of the input.
func (d *Decoder) bit() int { return 8*d.ip - int(d.nb) }

// refill makes at least 56 bits available. Bits after the end of the input are
// zero.
func (d *Decoder) refill() {
	if d.ip > d.inLen+inSlack-8 {
		d.nb = 63 // far beyond the end: overrun reports it
		return
	}
	d.bb |= binary.LittleEndian.Uint64(d.in[d.ip:]) << d.nb
	d.ip += int((63 - d.nb) >> 3)
	d.nb |= 56
}

func (d *Decoder) drop(n uint) { d.bb >>= n; d.nb -= n }

// take returns the next n <= 16 bits after a refill.
func (d *Decoder) take(n uint) int {
	v := int(d.bb & (1<<n - 1))
	d.drop(n)
	return v
}

// overrun reports whether bits beyond the end of the input were consumed.
func (d *Decoder) overrun() bool { return d.ip-int(d.nb>>3) > d.inLen }

func (d *Decoder) stored(end int) bool {
	d.ip -= int(d.nb >> 3)
	d.bb, d.nb = 0, 0
	if d.ip+4 > d.inLen {
		return false
	}
	n := int(binary.LittleEndian.Uint16(d.in[d.ip:]))
	if n^int(binary.LittleEndian.Uint16(d.in[d.ip+2:])) != 0xFFFF {
		return false
	}
	d.ip += 4
	if n > d.inLen-d.ip || n > end-d.pos {
		return false
	}
	d.pos += copy(d.win[d.pos:end], d.in[d.ip:d.ip+n])
	d.ip += n
	return true
}

var lengthBase = [29]uint16{
	3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258,
}
var lengthExtra = [29]uint8{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}
var lengthOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// litEntry, distEntry and preEntry return the table entry of a symbol without
// its code length, which build adds. Reserved symbols have a zero entry.
func litEntry(sym int) uint32 {
	switch {
	case sym < 256:
		return uint32(sym)<<16 | entryLit
	case sym == 256:
		return entryEnd
	case sym < 286:
		return uint32(lengthBase[sym-257])<<16 | uint32(lengthExtra[sym-257])<<8
	}
	return 0
}

func distEntry(sym int) uint32 {
	if sym < 4 {
		return uint32(sym+1) << 16
	}
	if sym >= 30 {
		return 0
	}
	extra := uint32(sym/2 - 1)
	return (uint32(2+sym&1)<<extra+1)<<16 | extra<<8
}

func preEntry(sym int) uint32 { return uint32(sym)<<16 | entryLit }

// build fills a table from code lengths. It returns false for an over-subscribed
// code. An incomplete code leaves zero entries, on which decoding fails.
func build(table []uint32, width uint, lens []uint8, meaning func(int) uint32) bool {
	var count, next [maxBits + 1]int
	for _, n := range lens {
		count[n]++
	}
	count[0] = 0
	code, left := 0, 1
	for n := 1; n <= maxBits; n++ {
		left = left<<1 - count[n]
		if left < 0 {
			return false
		}
		code = (code + count[n-1]) << 1
		next[n] = code
	}
	longest := maxBits
	for longest > 0 && count[longest] == 0 {
		longest--
	}
	clear(table[:1<<width])
	used := 1 << width
	for sym, l := range lens {
		if l == 0 {
			continue
		}
		n := uint(l)
		c := next[n]
		next[n]++
		rev := int(bits.Reverse16(uint16(c)) >> (16 - n))
		e := meaning(sym)
		if e == 0 {
			continue
		}
		e |= uint32(n)
		if n <= width {
			for i := rev; i < 1<<width; i += 1 << n {
				table[i] = e
			}
			continue
		}
		link := &table[rev&(1<<width-1)]
		if *link == 0 {
			sub := uint(longest) - width
			if used+1<<sub > len(table) {
				return false
			}
			*link = uint32(used)<<16 | entryLink | uint32(sub)<<8 | uint32(width)
			clear(table[used : used+1<<sub])
			used += 1 << sub
		}
		at, sub := int(*link>>16), uint(*link>>8&31)
		for i := rev >> width; i < 1<<sub; i += 1 << (n - width) {
			table[at+i] = e
		}
	}
	return true
}

func (d *Decoder) fixedTables() {
	for i := range 288 {
		switch {
		case i < 144:
			d.lens[i] = 8
		case i < 256:
			d.lens[i] = 9
		case i < 280:
			d.lens[i] = 7
		default:
			d.lens[i] = 8
		}
	}
	build(d.lit[:], litBits, d.lens[:288], litEntry)
	for i := range 32 {
		d.lens[288+i] = 5
	}
	build(d.dist[:], distBits, d.lens[288:], distEntry)
}

func (d *Decoder) dynamicTables() bool {
	if !d.codeLengths() || d.strict && !(complete(d.lens[:d.nlit]) && complete(d.lens[d.nlit:d.nlit+d.ndist])) {
		return false
	}
	return build(d.lit[:], litBits, d.lens[:d.nlit], litEntry) &&
		build(d.dist[:], distBits, d.lens[d.nlit:d.nlit+d.ndist], distEntry)
}

// complete reports whether lens describes a complete code.
func complete(lens []uint8) bool {
	sum := 0
	for _, n := range lens {
		if n > 0 {
			sum += 1 << (maxBits - n)
		}
	}
	return sum == 1<<maxBits
}

// codeLengths reads the code lengths of a dynamic block into d.lens.
func (d *Decoder) codeLengths() bool {
	d.refill()
	nlit, ndist, npre := 257+d.take(5), 1+d.take(5), 4+d.take(4)
	if nlit > 286 {
		return false
	}
	d.nlit, d.ndist = nlit, ndist
	var pre [19]uint8
	for i := range npre {
		d.refill()
		pre[lengthOrder[i]] = uint8(d.take(3))
	}
	if d.strict && !complete(pre[:]) || !build(d.pre[:], lenBits, pre[:], preEntry) {
		return false
	}
	for i := 0; i < nlit+ndist; {
		d.refill()
		e := d.pre[d.bb&(1<<lenBits-1)]
		if e == 0 || d.overrun() {
			return false
		}
		d.drop(uint(e & 0xFF))
		sym := e >> 16
		if sym < 16 {
			d.lens[i] = uint8(sym)
			i++
			continue
		}
		var v uint8
		var n int
		switch sym {
		case 16:
			if i == 0 {
				return false
			}
			v, n = d.lens[i-1], 3+d.take(2)
		case 17:
			n = 3 + d.take(3)
		default:
			n = 11 + d.take(7)
		}
		if i+n > nlit+ndist {
			return false
		}
		for range n {
			d.lens[i] = v
			i++
		}
	}
	return true
}

// inflate decodes symbols up to the end-of-block code. On invalid input it may
// write up to winSlack bytes beyond end before it returns false.
func (d *Decoder) inflate(end int) bool {
	bb, nb, ip, op := d.bb, d.nb, d.ip, d.pos
	win, in := d.win, &d.in
	last := d.inLen + inSlack - 8
	for {
		if op > end || ip > last {
			return false
		}
		bb |= binary.LittleEndian.Uint64(in[ip:]) << (nb & 63)
		ip += int((63 - nb) >> 3)
		nb |= 56
		// Three literals from the main table use at most 33 of the 56 bits. That
		// leaves enough for a fourth code of 15 bits with 5 extra bits.
		e := d.lit[bb&(1<<litBits-1)]
		if e&entryLit != 0 {
			bb >>= e & 63
			nb -= uint(e & 0xFF)
			win[op] = byte(e >> 16)
			op++
			e = d.lit[bb&(1<<litBits-1)]
			if e&entryLit != 0 {
				bb >>= e & 63
				nb -= uint(e & 0xFF)
				win[op] = byte(e >> 16)
				op++
				e = d.lit[bb&(1<<litBits-1)]
				if e&entryLit != 0 {
					bb >>= e & 63
					nb -= uint(e & 0xFF)
					win[op] = byte(e >> 16)
					op++
					continue
				}
			}
		}
		if e&entryLink != 0 {
			e = d.lit[e>>16+uint32(bb>>litBits)&(1<<(e>>8&31)-1)]
		}
		n := uint(e & 0xFF)
		bb >>= n & 63
		nb -= n
		if e&entryLit != 0 {
			win[op] = byte(e >> 16)
			op++
			continue
		}
		if e&entryEnd != 0 {
			break
		}
		if e == 0 {
			return false
		}
		extra := uint(e >> 8 & 31)
		length := int(e>>16) + int(bb&(1<<extra-1))
		bb >>= extra
		nb -= extra

		bb |= binary.LittleEndian.Uint64(in[ip:]) << (nb & 63)
		ip += int((63 - nb) >> 3)
		nb |= 56
		e = d.dist[bb&(1<<distBits-1)]
		if e&entryLink != 0 {
			e = d.dist[e>>16+uint32(bb>>distBits)&(1<<(e>>8&31)-1)]
		}
		if e == 0 {
			return false
		}
		bb >>= e & 63
		nb -= uint(e & 0xFF)
		extra = uint(e >> 8 & 31)
		from := op - int(e>>16) - int(bb&(1<<extra-1))
		bb >>= extra
		nb -= extra
		if from < 0 || op > end {
			return false
		}
		copyMatch(win, op, from, length)
		op += length
	}
	d.bb, d.nb, d.ip, d.pos = bb, nb, ip, op
	return op <= end
}

// copyMatch copies length <= 258 bytes from win[from:] to win[to:], from < to; the
// ranges may overlap. It may write up to 24 bytes beyond the match.
func copyMatch(win []byte, to, from, length int) {
	dist := to - from
	switch {
	case dist >= 8 && length <= 24:
		s, t := win[from:from+24], win[to:to+24]
		binary.LittleEndian.PutUint64(t, binary.LittleEndian.Uint64(s))
		if length > 8 {
			binary.LittleEndian.PutUint64(t[8:], binary.LittleEndian.Uint64(win[from+8:]))
			if length > 16 {
				binary.LittleEndian.PutUint64(t[16:], binary.LittleEndian.Uint64(win[from+16:]))
			}
		}
	case dist >= length:
		copy(win[to:to+length], win[from:from+length])
	case dist == 1:
		t, b := win[to:to+length], win[from]
		for i := range t {
			t[i] = b
		}
	default:
		for done := 0; done < length; {
			done += copy(win[to+done:to+length], win[from:to+done])
		}
	}
}

package lzx

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Index widths, in bits, of the decoding tables of the trees, and ringSlack, the
// number of bytes that copyMatch may write beyond a match.
const (
	mainBits    = 11
	lengthBits  = 10
	alignedBits = 7
	preBits     = 6
	ringSlack   = 24
)

// huff decodes one canonical Huffman code. Codes longer than the table width are
// resolved by comparison with the first code of each length.
type huff struct {
	table []uint16 // symbol<<5 | length; 0: longer than width, or not a code
	width uint
	// By code length: first is the smallest code of this length, left-justified
	// in 16 bits; at is the index of its symbol in sorted; limit is the end of
	// the range of left-justified codes of this or a smaller length.
	limit, first [maxCode + 1]uint32
	at           [maxCode + 1]int32
	sorted       []uint16
	empty        bool
}

func newHuff(width uint, symbols int) huff {
	return huff{table: make([]uint16, 1<<width), width: width, sorted: make([]uint16, symbols), empty: true}
}

// build sets up the tables for the code lengths lens. It returns false unless
// the code is complete. A code without symbols is accepted, but decoding with it
// fails.
func (h *huff) build(lens []uint8) bool {
	var count [maxCode + 1]int
	for _, n := range lens {
		count[n]++
	}
	h.empty = count[0] == len(lens)
	if h.empty {
		clear(h.table)
		h.limit = [maxCode + 1]uint32{}
		return true
	}
	count[0] = 0
	var next [maxCode + 1]int32
	code, place := uint32(0), int32(0)
	for n := 1; n <= maxCode; n++ {
		h.first[n] = code
		h.at[n], next[n] = place, place
		place += int32(count[n])
		code += uint32(count[n]) << (maxCode - n)
		h.limit[n] = code
		if code > 1<<maxCode {
			return false
		}
	}
	if code != 1<<maxCode {
		return false
	}
	for sym, n := range lens {
		if n != 0 {
			h.sorted[next[n]] = uint16(sym)
			next[n]++
		}
	}
	fill := 0
	for n := uint(1); n <= h.width; n++ {
		for i := range count[n] {
			e := h.sorted[int(h.at[n])+i]<<5 | uint16(n)
			run := h.table[fill : fill+1<<(h.width-n)]
			for k := range run {
				run[k] = e
			}
			fill += len(run)
		}
	}
	clear(h.table[fill:])
	return true
}

// long resolves a code that is longer than the table width; v is the next 16
// bits. The length is 0 if v does not start with a code.
func (h *huff) long(v uint32) (sym, n uint) {
	for n = h.width + 1; n <= maxCode; n++ {
		if v < h.limit[n] {
			return uint(h.sorted[int(h.at[n])+int((v-h.first[n])>>(maxCode-n))]), n
		}
	}
	return 0, 0
}

// Decoder expands the frames of one folder in order. The zero value is not
// usable; see NewDecoder.
type Decoder struct {
	ring  []byte // window plus one frame, written in whole frames, then ringSlack bytes
	size  int    // length of the ring without the slack
	far   int    // longest valid match offset
	total int64  // bytes produced so far
	out   []byte // buffer for a frame after E8 translation

	r          [3]uint32 // repeated offsets
	kind       int       // type of the current block, 0 before the first block
	left       int       // bytes of the current block still to be produced
	pad        bool      // the pad byte of an odd-sized uncompressed block is not yet skipped
	translated int32     // E8 translation size, 0: no translation
	started    bool      // the folder header has been read
	slots      int       // number of position slots for this window

	mainLens   [maxMain]uint8
	lengthLens [numLengths]uint8
	main       huff
	length     huff
	aligned    huff
	pre        huff

	// Bit reader: the top nb bits of bb are the next bits of in[:end]. The
	// reader may run beyond end; the bytes there are zero.
	bb  uint64
	nb  uint
	ip  int
	end int
	in  [MaxFrame + 64]byte
}

// NewDecoder returns a Decoder for a folder with a window of 1<<window bytes that
// expands to at most limit bytes. It allocates only the part of the window that
// a folder of limit bytes can use. It returns ErrFormat for a window outside
// MinWindow to MaxWindow.
func NewDecoder(window int, limit int64) (*Decoder, error) {
	if window < MinWindow || window > MaxWindow {
		return nil, fmt.Errorf("%w: window of 2^%d bytes", ErrFormat, window)
	}
	size := FrameSize
	for size < 1<<window && int64(size) < limit {
		size <<= 1
	}
	return &Decoder{
		ring: make([]byte, size+FrameSize+ringSlack), size: size + FrameSize, far: size, out: make([]byte, 0, FrameSize),
		r: [3]uint32{1, 1, 1}, slots: slotsOf[window-MinWindow],
		main: newHuff(mainBits, maxMain), length: newHuff(lengthBits, numLengths),
		aligned: newHuff(alignedBits, numAligned), pre: newHuff(preBits, numPre),
	}, nil
}

// Decode expands one frame, which must yield exactly size bytes: FrameSize for
// every frame of a folder except the last one. The result is valid until the
// next call. The error is ErrFormat; after an error the Decoder must not be used
// for later frames.
func (d *Decoder) Decode(src []byte, size int) ([]byte, error) {
	if size < 1 || size > FrameSize || len(src) > MaxFrame || d.total%FrameSize != 0 {
		return nil, ErrFormat
	}
	d.end = copy(d.in[:], src)
	clear(d.in[d.end : d.end+64])
	d.bb, d.nb, d.ip = 0, 0, 0
	if !d.started {
		d.started = true
		d.refill()
		if d.take(1) != 0 {
			hi := d.take(16)
			d.translated = int32(uint32(hi)<<16 | uint32(d.take(16)))
		}
	}
	start := int(d.total % int64(d.size))
	for op, stop := start, start+size; op < stop; {
		if d.left == 0 && !d.header() {
			return nil, ErrFormat
		}
		n := min(d.left, stop-op)
		var ok bool
		if d.kind == blockUncompressed {
			ok = d.copyRaw(op, n)
		} else {
			ok = d.symbols(op, op+n, int64(op-start)+d.total)
		}
		if !ok || d.overrun() {
			return nil, ErrFormat
		}
		op += n
		d.left -= n
	}
	if d.pad && d.left == 0 && d.kind == blockUncompressed && d.ip < d.end {
		d.pad = false // the pad byte is in this frame, otherwise at the start of the next
	}
	frame := d.ring[start : start+size]
	if d.translated > 0 && d.total < translatedFrames*FrameSize && size > translationTail {
		d.out = append(d.out[:0], frame...)
		frame = d.out
		translate(frame, int32(d.total), d.translated, false)
	}
	d.total += int64(size)
	return frame, nil
}

// refill makes at least 49 bits available. Bits after the end of the input are
// zero.
func (d *Decoder) refill() {
	if d.ip > d.end+48 {
		d.nb = 64 // overrun reports it
		return
	}
	d.bb |= words(d.in[d.ip:]) >> d.nb
	n := (64 - d.nb) >> 4
	d.ip += int(n) << 1
	d.nb += n << 4
}

// words loads four little-endian 16-bit words, the first one into the highest
// bits.
func words(p []byte) uint64 {
	v := bits.ReverseBytes64(binary.LittleEndian.Uint64(p))
	return v>>8&0x00FF00FF00FF00FF | v&0x00FF00FF00FF00FF<<8
}

// take returns the next 1 to 17 bits after a refill.
func (d *Decoder) take(n uint) uint {
	v := uint(d.bb >> (64 - n))
	d.bb <<= n
	d.nb -= n
	return v
}

// overrun reports whether whole words beyond the end of the input were consumed.
func (d *Decoder) overrun() bool { return d.ip-int(d.nb>>3) > d.end+1 }

func (d *Decoder) symbol(h *huff) (uint, bool) {
	d.refill()
	if e := h.table[d.bb>>(64-h.width)]; e != 0 {
		d.take(uint(e & 31))
		return uint(e >> 5), true
	}
	sym, n := h.long(uint32(d.bb >> 48))
	if n == 0 {
		return 0, false
	}
	d.take(n)
	return sym, true
}

// header reads the header and the trees of a block.
func (d *Decoder) header() bool {
	if d.pad {
		d.pad = false
		d.ip++
	}
	d.refill()
	d.kind = int(d.take(3))
	n := d.take(8) << 16
	d.left = int(n | d.take(16))
	if d.left == 0 || d.overrun() {
		return false
	}
	switch d.kind {
	case blockUncompressed:
		return d.rawHeader()
	case blockAligned:
		var lens [numAligned]uint8
		for i := range lens {
			d.refill()
			lens[i] = uint8(d.take(3))
		}
		if !d.aligned.build(lens[:]) {
			return false
		}
	case blockVerbatim:
	default:
		return false
	}
	symbols := numChars + 8*d.slots
	return d.lengths(d.mainLens[:], 0, numChars) && d.lengths(d.mainLens[:], numChars, symbols) &&
		d.lengths(d.lengthLens[:], 0, numLengths) &&
		d.main.build(d.mainLens[:symbols]) && d.length.build(d.lengthLens[:numLengths]) && !d.main.empty
}

// rawHeader skips the padding before an uncompressed block and reads the repeated
// offsets. The padding ends at a 16-bit boundary and is 1 to 16 bits long: a
// reader already at a boundary skips a whole word.
func (d *Decoder) rawHeader() bool {
	unread := int(d.nb >> 4) // whole words that were loaded but not used
	if d.nb&15 == 0 {
		unread--
	}
	d.ip -= 2 * unread
	d.bb, d.nb = 0, 0
	if d.ip+12 > d.end {
		return false
	}
	for i := range d.r {
		d.r[i] = binary.LittleEndian.Uint32(d.in[d.ip:])
		d.ip += 4
	}
	d.pad = d.left&1 != 0
	return true
}

func (d *Decoder) copyRaw(op, n int) bool {
	if n > d.end-d.ip {
		return false
	}
	copy(d.ring[op:op+n], d.in[d.ip:d.ip+n])
	d.ip += n
	return true
}

// lengths reads the code lengths lens[from:to]. The format stores them as
// differences from the lengths of the previous block.
func (d *Decoder) lengths(lens []uint8, from, to int) bool {
	var pre [numPre]uint8
	for i := range pre {
		d.refill()
		pre[i] = uint8(d.take(4))
	}
	if !d.pre.build(pre[:]) {
		return false
	}
	for i := from; i < to; {
		sym, ok := d.symbol(&d.pre)
		if !ok || d.overrun() {
			return false
		}
		run, v := 1, uint8(0)
		switch {
		case sym <= maxCode:
			v = uint8((uint(lens[i]) + 17 - sym) % 17)
		case sym == 17:
			run = 4 + int(d.take(4))
		case sym == 18:
			run = 20 + int(d.take(5))
		default:
			run = 4 + int(d.take(1))
			if sym, ok = d.symbol(&d.pre); !ok || sym > maxCode {
				return false
			}
			v = uint8((uint(lens[i]) + 17 - sym) % 17)
		}
		if i+run > to {
			return false
		}
		for range run {
			lens[i] = v
			i++
		}
	}
	return true
}

// symbols decodes ring[op:stop] from a verbatim or aligned block; total is the
// position of op in the folder. A match must not extend beyond stop.
func (d *Decoder) symbols(op, stop int, total int64) bool {
	var (
		ring       = d.ring
		in         = &d.in
		bb, nb, ip = d.bb, d.nb, d.ip
		last       = d.end + 48
		main       = (*[1 << mainBits]uint16)(d.main.table)
		r0, r1, r2 = d.r[0], d.r[1], d.r[2]
		aligned    = d.kind == blockAligned
		behind     = total - int64(op) // op + behind is the position in the folder
	)
	for op < stop {
		if ip > last {
			return false
		}
		bb |= words(in[ip:]) >> nb
		k := (64 - nb) >> 4
		ip += int(k) << 1
		nb += k << 4

		e := uint(main[bb>>(64-mainBits)])
		n := e & 31
		e >>= 5
		if n == 0 {
			if e, n = d.main.long(uint32(bb >> 48)); n == 0 {
				return false
			}
		}
		bb <<= n & 63
		nb -= n
		if e < numChars {
			ring[op] = byte(e)
			op++
			continue
		}
		e -= numChars
		length, slot := int(e&7)+minMatch, e>>3
		if length == 7+minMatch {
			le := uint(d.length.table[bb>>(64-lengthBits)])
			n, le = le&31, le>>5
			if n == 0 {
				if le, n = d.length.long(uint32(bb >> 48)); n == 0 {
					return false
				}
			}
			bb <<= n & 63
			nb -= n
			length += int(le)
		}
		switch slot {
		case 0:
		case 1:
			r0, r1 = r1, r0
		case 2:
			r0, r2 = r2, r0
		default:
			if slot >= maxSlots {
				return false
			}
			extra := uint(slotExtra[slot])
			off := slotBase[slot] - 2
			if aligned && extra >= 3 {
				off += uint32(bb>>1>>(63-(extra-3))) << 3
				bb <<= (extra - 3) & 63
				nb -= extra - 3
				if nb < alignedBits {
					bb |= words(in[ip:]) >> nb
					k = (64 - nb) >> 4
					ip += int(k) << 1
					nb += k << 4
				}
				a := d.aligned.table[bb>>(64-alignedBits)]
				if a == 0 {
					return false
				}
				off += uint32(a >> 5)
				bb <<= a & 31
				nb -= uint(a & 31)
			} else {
				off += uint32(bb >> 1 >> (63 - extra))
				bb <<= extra & 63
				nb -= extra
			}
			r0, r1, r2 = off, r0, r1
		}
		dist := int(r0)
		if length > stop-op || dist == 0 || dist > d.far || int64(dist) > int64(op)+behind {
			return false
		}
		d.repeat(op, dist, length)
		op += length
	}
	d.bb, d.nb, d.ip = bb, nb, ip
	d.r = [3]uint32{r0, r1, r2}
	return true
}

// repeat copies length bytes to ring[op:] from dist bytes before op.
func (d *Decoder) repeat(op, dist, length int) {
	from := op - dist
	if from < 0 {
		from += d.size
	}
	if from+length <= d.size {
		copyMatch(d.ring, op, from, length)
		return
	}
	n := copy(d.ring[op:op+length], d.ring[from:d.size])
	copyMatch(d.ring, op+n, 0, length-n)
}

// copyMatch copies length bytes from p[from:] to p[to:]. The ranges may overlap
// only if from < to. It may write up to ringSlack bytes beyond the match: in the
// ring they are outside the reach of the window.
func copyMatch(p []byte, to, from, length int) {
	dist := to - from
	if dist < 0 {
		dist = length // the match wraps around the ring: no overlap
	}
	switch {
	case dist >= 8 && length <= 24:
		s, t := p[from:from+24], p[to:to+24]
		binary.LittleEndian.PutUint64(t, binary.LittleEndian.Uint64(s))
		if length > 8 {
			binary.LittleEndian.PutUint64(t[8:], binary.LittleEndian.Uint64(p[from+8:]))
			if length > 16 {
				binary.LittleEndian.PutUint64(t[16:], binary.LittleEndian.Uint64(p[from+16:]))
			}
		}
	case dist >= length:
		copy(p[to:to+length], p[from:from+length])
	default:
		for done := 0; done < length; {
			done += copy(p[to+done:to+length], p[from:to+done])
		}
	}
}

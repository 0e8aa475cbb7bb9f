package lzx

import (
	"encoding/binary"
	"fmt"
	"math"
)

// bitWriter collects bits in little-endian words, from the highest bit of each
// word down.
type bitWriter struct {
	out []byte
	acc uint64
	n   uint
}

// put appends the low n <= 32 bits of v.
func (w *bitWriter) put(v uint32, n uint) {
	w.acc = w.acc<<n | uint64(v)
	w.n += n
	for w.n >= 16 {
		w.n -= 16
		w.out = binary.LittleEndian.AppendUint16(w.out, uint16(w.acc>>w.n))
	}
}

// align pads the last word with zeros.
func (w *bitWriter) align() {
	if w.n > 0 {
		w.put(0, 16-w.n)
	}
}

// token is an item in the form to be written: the main symbol and, for a match,
// the bits that follow.
type token struct {
	main  uint16
	tail  uint8  // length symbol, if the main symbol needs one
	extra uint32 // bits of the offset within its slot
}

func (t token) bytes() int {
	switch h := t.main & 7; {
	case t.main < numChars:
		return 1
	case h == 7:
		return int(t.tail) + 7 + minMatch
	default:
		return int(h) + minMatch
	}
}

// histogram counts the symbols in a part of a folder.
type histogram struct {
	main    [maxMain]uint32
	length  [numLengths]uint32
	aligned [numAligned]uint32
	extra   int // bits of offsets, except those that the aligned tree could encode
	low     int // number of offsets that the aligned tree could encode
}

func (h *histogram) count(t token) {
	h.main[t.main]++
	if t.main < numChars {
		return
	}
	if t.main&7 == 7 {
		h.length[t.tail]++
	}
	extra := int(slotExtra[(t.main-numChars)>>3])
	if extra >= 3 {
		h.aligned[t.extra&7]++
		h.low++
		extra -= 3
	}
	h.extra += extra
}

func (h *histogram) add(o *histogram) {
	for i, n := range o.main {
		h.main[i] += n
	}
	for i, n := range o.length {
		h.length[i] += n
	}
	for i, n := range o.aligned {
		h.aligned[i] += n
	}
	h.extra += o.extra
	h.low += o.low
}

// entropy estimates the number of bits of all symbols.
func (h *histogram) entropy() float64 {
	return entropy(h.main[:]) + entropy(h.length[:]) + min(entropy(h.aligned[:]), float64(3*h.low)) + float64(h.extra)
}

// log2 has the logarithms of small numbers.
var log2 = func() (t [4096]float64) {
	for i := range t {
		t[i] = math.Log2(max(float64(i), 1))
	}
	return t
}()

func entropy(freq []uint32) float64 {
	var sum float64
	var total uint32
	for _, f := range freq {
		if f == 0 {
			continue
		}
		total += f
		if f < uint32(len(log2)) {
			sum -= float64(f) * log2[f]
		} else {
			sum -= float64(f) * math.Log2(float64(f))
		}
	}
	if total == 0 {
		return 0
	}
	return sum + float64(total)*math.Log2(float64(total))
}

// Blocks are made of segments. A segment never crosses a frame.
const (
	segmentTokens = 1024
	// newBlockBits is the estimated size of the header of a block. A new block
	// must save more than that.
	newBlockBits = 900
	// rawOverhead is the largest number of bytes that an uncompressed block
	// adds.
	rawOverhead = 20
	// portionRoom is the number of bytes by which a block's portion of a frame
	// may exceed the plain bytes. Beyond it the segments become blocks of their
	// own, and none of these exceeds its plain bytes by more than rawOverhead.
	// A frame has at most two such portions, so its size stays far below
	// MaxFrame.
	portionRoom = 1024
)

type segment struct {
	tokens []token
	plain  []byte
	r      repeats // after the segment
}

// encoder writes items as frames. A block ends with its call of encode. Code
// lengths and repeated offsets continue.
type encoder struct {
	w          bitWriter
	emit       func(frame []byte, size int) error
	slots      int
	begun      bool
	inFrame    int // plain bytes in the current frame
	r          repeats
	mainLens   [maxMain]uint8
	lengthLens [numLengths]uint8

	tokens   []token
	segments []segment
	hist     histogram // of the current block
	seg      histogram // of the next segment
	joined   histogram
	code     blockCode
	scratch  []byte
}

// blockCode is the content of a block's header.
type blockCode struct {
	mainLens    [maxMain]uint8
	lengthLens  [numLengths]uint8
	alignedLens [numAligned]uint8
	main        [maxMain]uint16
	length      [numLengths]uint16
	aligned     [numAligned]uint16
	useAligned  bool
	work        [maxMain]uint64
}

func newEncoder(window int, emit func([]byte, int) error) *encoder {
	return &encoder{emit: emit, slots: slotsOf[window-MinWindow], r: repeats{1, 1, 1}}
}

// encode writes the items of plain. All frames are whole, except the last one
// of the folder.
func (e *encoder) encode(items []item, plain []byte) error {
	if !e.begun {
		e.begun = true
		e.w.put(1, 1)
		e.w.put(translationSize>>16, 16)
		e.w.put(translationSize&0xFFFF, 16)
	}
	e.cut(items, plain)
	for from := 0; from < len(e.segments); {
		to := e.blockEnd(from)
		if err := e.block(e.segments[from:to]); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// cut converts items to tokens and groups them into segments.
func (e *encoder) cut(items []item, plain []byte) {
	e.tokens, e.segments = e.tokens[:0], e.segments[:0]
	at, begin, first := 0, 0, 0
	for i, it := range items {
		t := token{main: uint16(it & 0xFF)}
		n := 1
		if it.isMatch() {
			n = it.length()
			slot := e.r.use(it.offset())
			t.main = uint16(numChars + slot*8 + uint32(min(n-minMatch, 7)))
			if n >= 7+minMatch {
				t.tail = uint8(n - 7 - minMatch)
			}
			if slot > 2 {
				t.extra = it.offset() + 2 - slotBase[slot]
			}
		}
		e.tokens = append(e.tokens, t)
		at += n
		if i+1-first == segmentTokens || at%FrameSize == 0 || i == len(items)-1 {
			e.segments = append(e.segments, segment{plain: plain[begin:at], r: e.r})
			begin, first = at, i+1
		}
	}
	from := 0
	for i := range e.segments {
		s := &e.segments[i]
		to := from
		for n := 0; n < len(s.plain); to++ {
			n += e.tokens[to].bytes()
		}
		s.tokens = e.tokens[from:to]
		from = to
	}
}

// blockEnd returns the number of segments, from the first one on, that form the
// next block.
func (e *encoder) blockEnd(first int) int {
	e.hist = histogram{}
	for _, t := range e.segments[first].tokens {
		e.hist.count(t)
	}
	cost := e.hist.entropy()
	for i := first + 1; i < len(e.segments); i++ {
		e.seg = histogram{}
		for _, t := range e.segments[i].tokens {
			e.seg.count(t)
		}
		e.joined = e.hist
		e.joined.add(&e.seg)
		one := e.joined.entropy()
		if one > cost+e.seg.entropy()+newBlockBits {
			return i
		}
		e.hist, cost = e.joined, one
	}
	return len(e.segments)
}

// block writes segments as one block. It writes several if a frame would become
// too long, or if the bytes are smaller uncompressed.
func (e *encoder) block(segs []segment) error {
	c := &e.code
	e.hist = histogram{}
	size := 0
	for _, s := range segs {
		for _, t := range s.tokens {
			e.hist.count(t)
		}
		size += len(s.plain)
	}
	c.make(&e.hist, numChars+8*e.slots)
	bits, portion, inFrame, tooLong := e.headerBits(), 0, e.inFrame, false
	for _, s := range segs {
		n := c.bits(s.tokens)
		bits += n
		portion += n - 8*len(s.plain)
		tooLong = tooLong || portion > 8*portionRoom
		if inFrame += len(s.plain); inFrame >= FrameSize {
			portion, inFrame = 0, 0
		}
	}
	switch {
	case len(segs) > 1 && tooLong:
		for i := range segs {
			if err := e.block(segs[i : i+1]); err != nil {
				return err
			}
		}
		return nil
	case bits > 8*(size+rawOverhead):
		return e.raw(segs, size)
	}
	return e.coded(segs, size)
}

// raw writes an uncompressed block. Its header has the repeated offsets that
// the encoder assumes after it.
func (e *encoder) raw(segs []segment, size int) error {
	e.w.put(blockUncompressed, 3)
	e.w.put(uint32(size)>>8, 16)
	e.w.put(uint32(size)&0xFF, 8)
	e.w.put(0, 16-e.w.n) // a whole word if the position is aligned already
	for _, offset := range segs[len(segs)-1].r {
		e.w.out = binary.LittleEndian.AppendUint32(e.w.out, offset)
	}
	for i, s := range segs {
		e.w.out = append(e.w.out, s.plain...)
		if i == len(segs)-1 && size&1 != 0 {
			e.w.out = append(e.w.out, 0)
		}
		if err := e.advance(len(s.plain)); err != nil {
			return err
		}
	}
	return nil
}

// advance counts written bytes. It emits a frame when it is complete.
func (e *encoder) advance(n int) error {
	e.inFrame += n
	if e.inFrame < FrameSize {
		return nil
	}
	return e.flush()
}

// flush emits the incomplete frame, if any.
func (e *encoder) flush() error {
	if e.inFrame == 0 {
		return nil
	}
	e.w.align()
	if len(e.w.out) > MaxFrame {
		return fmt.Errorf("lzx: frame of %d bytes exceeds the limit of the format", len(e.w.out))
	}
	err := e.emit(e.w.out, e.inFrame)
	e.w.out, e.inFrame = e.w.out[:0], 0
	return err
}

// coded writes a verbatim or aligned block.
func (e *encoder) coded(segs []segment, size int) error {
	c := &e.code
	kind := uint32(blockVerbatim)
	if c.useAligned {
		kind = blockAligned
	}
	e.w.put(kind, 3)
	e.w.put(uint32(size)>>8, 16)
	e.w.put(uint32(size)&0xFF, 8)
	if c.useAligned {
		for _, n := range c.alignedLens {
			e.w.put(uint32(n), 3)
		}
	}
	e.trees(&e.w)
	copy(e.mainLens[:], c.mainLens[:])
	copy(e.lengthLens[:], c.lengthLens[:])
	for _, s := range segs {
		for _, t := range s.tokens {
			e.token(t)
		}
		if err := e.advance(len(s.plain)); err != nil {
			return err
		}
	}
	return nil
}

// trees writes the code lengths as differences from those of the previous
// block.
func (e *encoder) trees(w *bitWriter) {
	c, symbols := &e.code, numChars+8*e.slots
	lengths(w, e.mainLens[:numChars], c.mainLens[:numChars])
	lengths(w, e.mainLens[numChars:symbols], c.mainLens[numChars:symbols])
	lengths(w, e.lengthLens[:], c.lengthLens[:])
}

// headerBits returns the size in bits of the header of a coded block.
func (e *encoder) headerBits() int {
	w := bitWriter{out: e.scratch[:0]}
	e.trees(&w)
	e.scratch = w.out
	n := 3 + 24 + 8*len(w.out) + int(w.n)
	if e.code.useAligned {
		n += 3 * numAligned
	}
	return n
}

func (e *encoder) token(t token) {
	c := &e.code
	e.w.put(uint32(c.main[t.main]), uint(c.mainLens[t.main]))
	if t.main < numChars {
		return
	}
	if t.main&7 == 7 {
		e.w.put(uint32(c.length[t.tail]), uint(c.lengthLens[t.tail]))
	}
	extra := uint(slotExtra[(t.main-numChars)>>3])
	if c.useAligned && extra >= 3 {
		e.w.put(t.extra>>3, extra-3)
		e.w.put(uint32(c.aligned[t.extra&7]), uint(c.alignedLens[t.extra&7]))
		return
	}
	e.w.put(t.extra, extra)
}

// make computes the codes for a histogram.
func (c *blockCode) make(h *histogram, symbols int) {
	codeLengths(h.main[:symbols], c.mainLens[:symbols], maxCode, c.work[:])
	codeLengths(h.length[:], c.lengthLens[:], maxCode, c.work[:])
	codeLengths(h.aligned[:], c.alignedLens[:], 7, c.work[:])
	codes(c.mainLens[:symbols], c.main[:])
	codes(c.lengthLens[:], c.length[:])
	codes(c.alignedLens[:], c.aligned[:])
	aligned := 3 * numAligned
	for i, n := range h.aligned {
		aligned += int(n) * int(c.alignedLens[i])
	}
	c.useAligned = h.low > 0 && aligned < 3*h.low
}

// bits returns the size in bits of the tokens, without the header of the block.
func (c *blockCode) bits(tokens []token) int {
	n := 0
	for _, t := range tokens {
		n += int(c.mainLens[t.main])
		if t.main < numChars {
			continue
		}
		if t.main&7 == 7 {
			n += int(c.lengthLens[t.tail])
		}
		extra := int(slotExtra[(t.main-numChars)>>3])
		if c.useAligned && extra >= 3 {
			extra += int(c.alignedLens[t.extra&7]) - 3
		}
		n += extra
	}
	return n
}

// lengths writes code lengths as differences from the previous ones.
func lengths(w *bitWriter, old, lens []uint8) {
	type step struct {
		sym, extra, bits uint8
		next             int16 // a second symbol, or -1
	}
	var steps [maxMain]step
	var freq [numPre]uint32
	n := 0
	add := func(s step) {
		steps[n] = s
		n++
		freq[s.sym]++
		if s.next >= 0 {
			freq[s.next]++
		}
	}
	difference := func(i int) uint8 { return uint8((17 + int(old[i]) - int(lens[i])) % 17) }
	for i := 0; i < len(lens); {
		run := 1
		for i+run < len(lens) && lens[i+run] == lens[i] && run < 51 {
			run++
		}
		switch {
		case lens[i] == 0 && run >= 20:
			add(step{18, uint8(run - 20), 5, -1})
		case lens[i] == 0 && run >= 4:
			run = min(run, 19)
			add(step{17, uint8(run - 4), 4, -1})
		case lens[i] != 0 && run >= 4:
			run = min(run, 5)
			add(step{19, uint8(run - 4), 1, int16(difference(i))})
		default:
			run = 1
			add(step{difference(i), 0, 0, -1})
		}
		i += run
	}
	var preLens [numPre]uint8
	var pre [numPre]uint16
	var work [numPre]uint64
	codeLengths(freq[:], preLens[:], 15, work[:])
	codes(preLens[:], pre[:])
	for _, l := range preLens {
		w.put(uint32(l), 4)
	}
	for _, s := range steps[:n] {
		w.put(uint32(pre[s.sym]), uint(preLens[s.sym]))
		w.put(uint32(s.extra), uint(s.bits))
		if s.next >= 0 {
			w.put(uint32(pre[s.next]), uint(preLens[s.next]))
		}
	}
}

package zstdseq

import "math/bits"

// seq is a sequence: literals, and a match behind them. off is the offset value of RFC 8878, 3.1.1.5: one
// of the last offsets if it is 1 to 3, else 3 more than the offset.
type seq struct{ literals, length, off uint32 }

// The kinds of blocks, the modes of literals, and those of tables: numbers of RFC 8878, 3.1.1.2 and
// 3.1.1.3.
const (
	rawBlock        = 0
	rleBlock        = 1
	compressedBlock = 2

	rawLiterals        = 0
	rleLiterals        = 1
	compressedLiterals = 2
	treelessLiterals   = 3

	predefinedTable = 0
	rleTable        = 1
	describedTable  = 2
	repeatTable     = 3
)

const (
	maxBlock  = 128 << 10 // bytes
	blockHead = 3
	spare     = 8 // bytes behind a bit string
	minMatch  = 3
)

// The tables of a block, in the order of their descriptions.
const (
	literalTable = iota
	offsetTable
	matchTable
)

// block is what a block of a frame is made of, but for its bytes.
type block struct {
	kind uint8
	last bool
	size int // bytes it stands for

	// Of a compressed block:
	literals  uint8 // their mode
	form      uint8 // their size format: how many bytes name their number, and how many streams they are
	tree      []byte
	sequences []seq
	modes     [3]uint8
	tables    [3][]byte // descriptions of tables
}

// code is how the codes of a number are made: the bits behind each code, and the lowest number of each.
type code struct {
	bits, base []uint32
	most       int // codes
	log        uint
	predefined counts
}

// codes are those of the three tables (RFC 8878, 3.1.1.3.2.1.1 and 3.1.1.3.2.2).
var codes = [3]code{
	literalTable: {most: 36, log: 9, bits: []uint32{16: 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		predefined: counts{6, []int16{4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1,
			-1, -1, -1, -1}}},
	offsetTable: {most: 32, log: 8,
		predefined: counts{5, []int16{1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1}}},
	matchTable: {most: 53, log: 9, bits: []uint32{32: 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		predefined: counts{6, []int16{1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
			1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1}}},
}

var (
	predefinedDecoders [3]fseDecoder
	predefinedEncoders [3]fseEncoder
	// The codes of small numbers.
	literalCodes [64]uint8
	matchCodes   [128]uint8
)

func init() {
	for i := range codes {
		c := &codes[i]
		predefinedDecoders[i].build(&c.predefined)
		predefinedEncoders[i].build(&c.predefined)
		base := uint32(0)
		for k := range c.bits {
			c.base = append(c.base, base)
			base += 1 << c.bits[k]
		}
	}
	fill := func(to []uint8, c *code) {
		for k, base := range c.base {
			for v := base; v < base+1<<c.bits[k] && int(v) < len(to); v++ {
				to[v] = uint8(k)
			}
		}
	}
	fill(literalCodes[:], &codes[literalTable])
	fill(matchCodes[:], &codes[matchTable])
}

// literalCode is the code of a number of literals.
func literalCode(n uint32) uint8 {
	if n < 64 {
		return literalCodes[n]
	}
	return uint8(bits.Len32(n)) + 18
}

// matchCode is the code of the length of a match.
func matchCode(n uint32) uint8 {
	if n -= minMatch; n < 128 {
		return matchCodes[n]
	}
	return uint8(bits.Len32(n)) + 35
}

// offsetCode is the code of an offset value.
func offsetCode(off uint32) uint8 { return uint8(bits.Len32(off) - 1) }

// parser takes compressed blocks apart.
type parser struct {
	tree     huffTree
	huff     huffDecoder
	hasTree  bool
	own      [3]fseDecoder
	tables   [3]*fseDecoder // nil if there is none yet
	literals []byte
}

func (p *parser) reset() {
	p.hasTree, p.tables = false, [3]*fseDecoder{}
}

// parse takes the content of a compressed block apart. It has spare bytes behind. The literals stay until
// the next call.
func (p *parser) parse(b *block, content []byte) bool {
	at, ok := p.parseLiterals(b, content)
	return ok && p.parseSequences(b, content, at)
}

// literalsHead reads the head of the literals: their number, that of the bytes of their streams, and its
// own length; 0 if it is damaged.
func literalsHead(mode, form uint8, b []byte) (n, packed, head int) {
	v := uint64(0)
	for i := range min(5, len(b)) {
		v |= uint64(b[i]) << (8 * i)
	}
	if mode == rawLiterals || mode == rleLiterals {
		head = [4]int{1, 2, 1, 3}[form]
		if form&1 == 0 {
			n = int(v >> 3 & 31)
		} else {
			n = int(v >> 4 & (1<<(8*head-4) - 1))
		}
	} else {
		k := [4]uint{10, 10, 14, 18}[form]
		head = int(4+2*k) / 8
		n, packed = int(v>>4&(1<<k-1)), int(v>>(4+k)&(1<<k-1))
	}
	if head > len(b) || n > maxBlock {
		return 0, 0, 0
	}
	return n, packed, head
}

// shortForm is the size format of literals that are not in streams: where one byte names their number, its
// upper bit belongs to the number.
func shortForm(form uint8) uint8 {
	if form == 2 {
		return 0
	}
	return form
}

func (p *parser) parseLiterals(b *block, content []byte) (at int, ok bool) {
	if len(content) == 0 {
		return 0, false
	}
	b.literals, b.form, b.tree = content[0]&3, content[0]>>2&3, nil
	n, packed, at := literalsHead(b.literals, b.form, content)
	if at == 0 {
		return 0, false
	}
	if cap(p.literals) < n {
		p.literals = make([]byte, maxBlock)
	}
	p.literals = p.literals[:n]
	switch b.literals {
	case rawLiterals:
		b.form = shortForm(b.form)
		return at + n, copy(p.literals, content[at:]) == n
	case rleLiterals:
		b.form = shortForm(b.form)
		if at == len(content) {
			return 0, false
		}
		for i := range p.literals {
			p.literals[i] = content[at]
		}
		return at + 1, true
	}
	end := at + packed
	if end > len(content) {
		return 0, false
	}
	if b.literals == compressedLiterals {
		k := p.tree.read(content[at:end])
		if p.hasTree = k > 0; !p.hasTree {
			return 0, false
		}
		p.huff.build(&p.tree)
		b.tree = content[at : at+k]
		at += k
	}
	return end, p.hasTree && p.parseStreams(b, content, at, end)
}

// parseStreams decodes the literals, in one stream or in four.
func (p *parser) parseStreams(b *block, content []byte, at, end int) bool {
	to := p.literals
	content = content[:len(content)+spare]
	if b.form == 0 {
		return p.huff.decode(to, content, at, end)
	}
	if end-at < 6 {
		return false
	}
	jumps := content[at:]
	at += 6
	part := (len(to) + 3) / 4
	if 3*part > len(to) {
		return false
	}
	for i := range 3 {
		next := at + (int(jumps[2*i]) | int(jumps[2*i+1])<<8)
		if next > end || !p.huff.decode(to[:part], content, at, next) {
			return false
		}
		to, at = to[part:], next
	}
	return p.huff.decode(to, content, at, end)
}

func (p *parser) parseSequences(b *block, content []byte, at int) bool {
	b.sequences, b.modes, b.tables = b.sequences[:0], [3]uint8{}, [3][]byte{}
	c := content[at:]
	if len(c) == 0 {
		return false
	}
	n, head := int(c[0]), 1
	switch {
	case n == 255:
		if len(c) < 3 {
			return false
		}
		n, head = int(c[1])+int(c[2])<<8+0x7f00, 3
	case n >= 128:
		if len(c) < 2 {
			return false
		}
		n, head = (n-128)<<8+int(c[1]), 2
	}
	if n == 0 {
		return len(c) == head
	}
	if len(c) == head || n > maxBlock/minMatch {
		return false
	}
	modes := c[head]
	at += head + 1
	if modes&3 != 0 {
		return false
	}
	for i := range 3 {
		b.modes[i] = modes >> (6 - 2*i) & 3
		k := p.table(b, i, content[at:])
		if k < 0 {
			return false
		}
		at += k
	}
	return p.decode(b, n, content, at)
}

// table makes ready one of the three tables, whose description b begins with, and returns the length of
// that; -1 if it is damaged.
func (p *parser) table(b *block, i int, content []byte) int {
	switch b.modes[i] {
	case predefinedTable:
		p.tables[i] = &predefinedDecoders[i]
		return 0
	case repeatTable:
		if p.tables[i] == nil {
			return -1
		}
		return 0
	case rleTable:
		if len(content) == 0 || int(content[0]) >= codes[i].most {
			return -1
		}
		p.own[i].one(content[0])
		p.tables[i] = &p.own[i]
		return 1
	}
	var c counts
	n := c.read(content, codes[i].most, codes[i].log)
	if n == 0 {
		return -1
	}
	b.tables[i] = content[:n]
	p.own[i].build(&c)
	p.tables[i] = &p.own[i]
	return n
}

// decode reads the sequences.
func (p *parser) decode(b *block, n int, content []byte, at int) bool {
	var r bitReader
	if !r.begin(content[:len(content)+spare], at, len(content)) {
		return false
	}
	lit, off, mat := p.tables[literalTable], p.tables[offsetTable], p.tables[matchTable]
	l, o, m := r.take(lit.log), r.take(off.log), r.take(mat.log)
	lc, mc := &codes[literalTable], &codes[matchTable]
	for i := range n {
		x, y, z := lit.states[l], off.states[o], mat.states[m]
		s := seq{off: 1<<y.symbol + uint32(r.take(uint(y.symbol)))}
		s.length = minMatch + mc.base[z.symbol] + uint32(r.take(uint(mc.bits[z.symbol])))
		s.literals = lc.base[x.symbol] + uint32(r.take(uint(lc.bits[x.symbol])))
		if r.left() < 0 {
			return false
		}
		b.sequences = append(b.sequences, s)
		if i+1 < n {
			l = uint64(x.base) + r.take(uint(x.bits))
			m = uint64(z.base) + r.take(uint(z.bits))
			o = uint64(y.base) + r.take(uint(y.bits))
		}
	}
	return r.left() == 0
}

package unwind

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/symdepot/symdepot/functab"
)

// Kinds of pages and modes of compact unwind information.
const (
	pageRegular    = 2
	pageCompressed = 3

	modeX86Frame, modeX86Frameless, modeX86Large, modeX86DWARF = 1, 2, 3, 4
	modeArmFrameless, modeArmDWARF, modeArmFrame               = 2, 3, 4
)

// Compact adds the frames of a Mach-O file: those of __eh_frame and __debug_frame
// as EHFrame does, and those of __unwind_info for all other code. Compact
// information has one rule for a whole function, which is wrong in its prolog, so
// that the others come first. Source: compact_unwind_encoding.h of LLVM's
// libunwind.
func Compact(ctx context.Context, s Sections, b *functab.Builder) error {
	d := newCompact(ctx, &s, b)
	if err := readFrames(ctx, &s, b, func(r span) { d.taken = append(d.taken, r) }); err != nil {
		return err
	}
	if len(s.CompactUnwind) == 0 {
		return nil
	}
	if d.decode == nil {
		b.Warn("__unwind_info for the processor %q is not translated", s.Arch)
		return nil
	}
	slices.SortFunc(d.taken, func(x, y span) int {
		if x.start < y.start {
			return -1
		}
		return 1
	})
	err := d.all()
	if errors.Is(err, errWork) {
		b.Warn("__unwind_info: %v; the rest is omitted", err)
		return nil
	}
	return omit(b, "__unwind_info", 0, err)
}

// newCompact returns a reader of __unwind_info. Its decode is nil for a processor that is not known.
func newCompact(ctx context.Context, s *Sections, b sink) *compact {
	d := &compact{s: s, b: b, work: newWork(ctx, int64(len(s.CompactUnwind))), le: binary.LittleEndian}
	switch s.Arch {
	case "x86_64", "x86_64h":
		d.decode, d.word = d.x86, 8
		d.names = []uint8{0, 3, 12, 13, 14, 15, 6}
		d.sp, d.fp, d.ra = 7, 6, 16
	case "x86":
		d.decode, d.word = d.x86, 4
		d.names = []uint8{0, 3, 1, 2, 7, 6, 5}
		d.sp, d.fp, d.ra = 4, 5, 8
	case "arm64", "arm64e", "arm64v8", "arm64_32":
		d.decode = d.arm
		d.sp, d.fp, d.ra = armSP, armFP, armLR
	default:
		return d
	}
	d.style = machineFor(s.Arch, false).style
	d.style.raReg = int(d.ra)
	return d
}

// compact reads __unwind_info.
type compact struct {
	s     *Sections
	b     sink
	work  *work
	le    binary.ByteOrder
	style style
	frame frame
	taken []span // ranges of other frames, sorted

	decode     func(start uint64, encoding uint32) (rules, error)
	word       int64 // bytes of a register
	names      []uint8
	sp, fp, ra uint8

	common  uint32 // offset of the encodings of all pages, and their number
	commons uint32

	pending  bool // an entry whose end is not known
	start    uint32
	encoding uint32
}

// u32 reads a field of the section.
func (d *compact) u32(at uint64) (uint32, error) {
	if n := uint64(len(d.s.CompactUnwind)); at > n || n-at < 4 {
		return 0, bad("the section of %#x bytes has no word at offset %#x", n, at)
	}
	return d.le.Uint32(d.s.CompactUnwind[at:]), nil
}

// words reads consecutive fields.
func (d *compact) words(at uint64, to ...*uint32) (err error) {
	for i, p := range to {
		if *p, err = d.u32(at + 4*uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// all reads the index and its pages.
func (d *compact) all() error {
	var version, index, count uint32
	if err := d.words(0, &version, &d.common, &d.commons); err != nil {
		return err
	}
	if version != 1 {
		return bad("version %d is not known", version)
	}
	if err := d.words(20, &index, &count); err != nil {
		return err
	}
	for i := range uint64(count) {
		var start, page uint32
		if err := d.words(uint64(index)+12*i, &start, &page); err != nil {
			return err
		}
		var err error
		if page == 0 { // the last entry has the end of the last function
			err = d.entry(start, 0, false)
		} else {
			err = d.page(start, uint64(page))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// page reads one page of the second level.
func (d *compact) page(start uint32, at uint64) error {
	p, err := d.open(start, at)
	if err != nil {
		return err
	}
	for i := range p.count {
		from, err := p.start(i)
		if err != nil {
			return err
		}
		encoding, err := p.encoding(i)
		if err != nil {
			return err
		}
		if err := d.entry(from, encoding, true); err != nil {
			return err
		}
	}
	return nil
}

// secondPage is a page of the second level.
type secondPage struct {
	d       *compact
	kind    uint32
	first   uint32 // address that the entries of a compressed page count from
	at      uint64 // offset in the section
	entries uint64 // offset of the entries
	count   uint32
	palette uint32 // place and number of the encodings of a compressed page
}

// open returns the page at an offset.
func (d *compact) open(first uint32, at uint64) (p secondPage, err error) {
	var shape uint32
	p = secondPage{d: d, first: first, at: at}
	if err := d.words(at, &p.kind, &shape); err != nil {
		return p, err
	}
	p.entries, p.count = at+uint64(shape&0xffff), shape>>16
	switch p.kind {
	case pageRegular:
		return p, nil
	case pageCompressed:
		return p, d.words(at+8, &p.palette)
	}
	return p, bad("the page at offset %#x has the kind %d", at, p.kind)
}

// start returns the address of entry i.
func (p *secondPage) start(i uint32) (uint32, error) {
	if p.kind == pageRegular {
		return p.d.u32(p.entries + 8*uint64(i))
	}
	e, err := p.d.u32(p.entries + 4*uint64(i))
	return p.first + e&0xffffff, err
}

// encoding returns the encoding of entry i.
func (p *secondPage) encoding(i uint32) (uint32, error) {
	if p.kind == pageRegular {
		return p.d.u32(p.entries + 8*uint64(i) + 4)
	}
	e, err := p.d.u32(p.entries + 4*uint64(i))
	if err != nil {
		return 0, err
	}
	return p.d.lookup(e>>24, p.at+uint64(p.palette&0xffff), p.palette>>16)
}

// lookup returns an encoding by its index: of those of all pages, then of the
// page's own.
func (d *compact) lookup(i uint32, own uint64, n uint32) (uint32, error) {
	if i < d.commons {
		return d.u32(uint64(d.common) + 4*uint64(i))
	}
	if i -= d.commons; i >= n {
		return 0, bad("encoding %d of a page that has %d", i, n)
	}
	return d.u32(own + 4*uint64(i))
}

// entry handles the start of a function. It ends the function before, whose frame
// is added.
func (d *compact) entry(start, encoding uint32, more bool) error {
	if err := d.work.spend(0); err != nil {
		return err
	}
	if d.pending && start < d.start {
		return bad("the function at %#x follows the one at %#x", start, d.start)
	}
	if d.pending && start > d.start {
		if err := d.add(uint64(d.start), uint64(start), d.encoding); err != nil {
			return err
		}
	}
	d.pending, d.start, d.encoding = more, start, encoding
	return nil
}

// add adds the frame of a range of code, except where other frames are.
func (d *compact) add(start, end uint64, encoding uint32) error {
	r, err := d.decode(start, encoding)
	if err != nil {
		return omit(d.b, "compact unwind information", start, err)
	}
	if r.cfa.kind == ruleUndefined {
		return nil // the frame is in __eh_frame
	}
	i, _ := slices.BinarySearchFunc(d.taken, start, func(s span, at uint64) int {
		if s.end <= at {
			return -1
		}
		return 1
	})
	for start < end {
		stop := end
		if i < len(d.taken) && d.taken[i].start < end {
			stop = max(d.taken[i].start, start)
		}
		d.frame.begin(&d.style, start, stop, &r)
		if err := d.frame.add(d.b, d.work); err != nil {
			return err
		}
		if stop == end {
			break
		}
		start = max(stop, d.taken[i].end)
		i++
	}
	return nil
}

// leaf returns the rules of a function that does not change the frame.
func (d *compact) leaf() rules {
	r := rules{cfa: rule{kind: ruleReg, reg: d.sp, n: d.word}, ra: rule{kind: ruleReg, reg: d.ra}}
	if d.word > 0 {
		r.ra = rule{kind: ruleSaved, n: -d.word}
	}
	return r
}

// x86 decodes an encoding for x86 and x86_64.
func (d *compact) x86(start uint64, encoding uint32) (rules, error) {
	r := d.leaf()
	switch mode := encoding >> 24 & 15; mode {
	case 0:
		return r, nil
	case modeX86Frame:
		r.cfa = rule{kind: ruleReg, reg: d.fp, n: 2 * d.word}
		r.regs[d.fp] = rule{kind: ruleSaved, n: -2 * d.word}
		at := -2*d.word - d.word*int64(encoding>>16&0xff)
		for bits := encoding & 0x7fff; bits != 0; bits >>= 3 {
			if n := int(bits & 7); n >= len(d.names) {
				return r, bad("register %d of encoding %#x is not known", n, encoding)
			} else if n != 0 {
				r.regs[d.names[n]] = rule{kind: ruleSaved, n: at}
			}
			at += d.word
		}
		return r, nil
	case modeX86Frameless, modeX86Large:
		size := d.word * int64(encoding>>16&0xff)
		if mode == modeX86Large {
			var imm [4]byte
			if d.s.Text == nil {
				return r, bad("the size of the frame is in the code, which was not given")
			}
			if n, err := d.s.Text.ReadAt(imm[:], int64(start)+int64(encoding>>16&0xff)); n < len(imm) {
				return r, err
			}
			size = int64(d.le.Uint32(imm[:])) + d.word*int64(encoding>>13&7)
		}
		r.cfa.n = size
		saved, err := permutation(int(encoding>>10&7), encoding&0x3ff)
		if err != nil {
			return r, err
		}
		at := -d.word * int64(1+len(saved))
		for _, n := range saved {
			r.regs[d.names[n]] = rule{kind: ruleSaved, n: at}
			at += d.word
		}
		return r, nil
	case modeX86DWARF:
		return rules{cfa: rule{kind: ruleUndefined}}, nil
	default:
		return r, bad("mode %d of encoding %#x is not known", mode, encoding)
	}
}

// permutation returns the numbers of n saved registers, the lowest address first.
// They are encoded as a Lehmer code: each digit picks one of the numbers 1 to 6
// that are left.
func permutation(n int, code uint32) ([]int, error) {
	var digits []uint32
	switch n {
	case 0:
		return nil, nil
	case 1:
		digits = []uint32{1}
	case 2:
		digits = []uint32{5, 1}
	case 3:
		digits = []uint32{20, 4, 1}
	case 4:
		digits = []uint32{60, 12, 3, 1}
	case 5, 6:
		digits = []uint32{120, 24, 6, 2, 1}
	default:
		return nil, bad("%d registers are saved", n)
	}
	left := []int{1, 2, 3, 4, 5, 6}
	var out []int
	for i := range n {
		pick := uint32(0)
		if i < len(digits) {
			pick = code / digits[i]
			code %= digits[i]
		}
		if int(pick) >= len(left) {
			return nil, bad("the permutation of %d registers is not valid", n)
		}
		out = append(out, left[pick])
		left = slices.Delete(left, int(pick), int(pick)+1)
	}
	return out, nil
}

// arm decodes an encoding for ARM64.
func (d *compact) arm(_ uint64, encoding uint32) (rules, error) {
	r := d.leaf()
	at := int64(0)
	switch mode := encoding >> 24 & 15; mode {
	case 0:
		return r, nil
	case modeArmFrameless:
		r.cfa.n = 16 * int64(encoding>>12&0xfff)
	case modeArmFrame:
		r.cfa = rule{kind: ruleReg, reg: d.fp, n: 16}
		r.ra = rule{kind: ruleSaved, n: -8}
		r.regs[d.fp] = rule{kind: ruleSaved, n: -16}
		at = -16
	case modeArmDWARF:
		return rules{cfa: rule{kind: ruleUndefined}}, nil
	default:
		return r, bad("mode %d of encoding %#x is not known", mode, encoding)
	}
	for i := range 5 {
		if encoding>>i&1 == 0 {
			continue
		}
		r.regs[19+2*i] = rule{kind: ruleSaved, n: at - 8}
		r.regs[20+2*i] = rule{kind: ruleSaved, n: at - 16}
		at -= 16
	}
	return r, nil
}

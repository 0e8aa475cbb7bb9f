package unwind

import (
	"github.com/symdepot/symdepot/functab"
)

// maxCodeSections limits the search for code outside of the exception table.
const maxCodeSections = 64

// gaps finds the code between the entries of an exception table. Such code is of leaf functions, which have
// no entry: they change neither the stack pointer nor the link register.
type gaps struct {
	b        sink
	p        *pages
	work     *work
	frame    *frame
	style    *style
	leaf     rules
	padding  func(p []byte) int // length of the padding at the start of code
	sections []functab.Section
	last     uint32 // end of the entries so far
	ticks    int
}

// find sets the sections in which code may be.
func (g *gaps) find(img Image) *gaps {
	img.CodeSections(func(name string, rva, size uint32) bool {
		g.sections = append(g.sections, functab.Section{Name: name, Start: uint64(rva), Size: uint64(size)})
		return len(g.sections) < maxCodeSections
	})
	return g
}

// newGaps returns the gaps of an image for x64: the return address is at the top of the stack.
func newGaps(d *x64, img Image) *gaps {
	s := stateX64{size: leafReturn}
	g := &gaps{b: d.b, p: d.p, work: d.work, frame: &d.frame, style: &styleX64Windows, leaf: s.rules(), padding: paddingX64}
	return g.find(img)
}

func paddingX64(p []byte) int {
	for i, c := range p {
		if c != 0xcc && c != 0x90 && c != 0 {
			return i
		}
	}
	return len(p)
}

// until adds the code between the entries so far and the next one.
func (g *gaps) until(begin, end uint32) error {
	for _, s := range g.sections {
		from, to := max(uint64(g.last), s.Start), min(uint64(begin), s.Start+s.Size)
		if from >= to {
			continue
		}
		if err := g.add(uint32(from), uint32(to)); err != nil {
			return err
		}
	}
	g.last = max(g.last, end)
	return nil
}

// add adds the frame of the code in a range, from the first byte that is not padding.
func (g *gaps) add(from, to uint32) error {
	for from < to {
		if g.ticks++; g.ticks&1023 == 0 {
			if err := g.work.ctx.Err(); err != nil {
				return err
			}
		}
		n := min(to-from, 64)
		p, err := g.p.at(from, int(n))
		if err != nil {
			// Only a part of the range is stored, or reading fails, which the next
			// entry reports.
			return nil //nolint:nilerr // no code there
		}
		if i := uint32(g.padding(p)); i < n {
			g.frame.begin(g.style, uint64(from+i), uint64(to), &g.leaf)
			return g.frame.add(g.b, g.work)
		}
		from += n
	}
	return nil
}

// Instructions of an epilog.
const (
	insOther = iota
	insAdd   // add rsp, n
	insLea   // lea rsp, [frame register + n], or mov rsp, frame register
	insPop
	insLeave // ret, or a jump to another function
)

// instruction decodes one of the instructions that an epilog may have. size is 0
// for any other.
func instruction(p []byte) (kind int, arg int64, size int) {
	var rex byte
	i := 0
	if i < len(p) && p[i]&0xf0 == 0x40 {
		rex = p[i]
		i++
	}
	q := p[i:]
	at := func(n int) byte {
		if n < len(q) {
			return q[n]
		}
		return 0
	}
	done := func(kind int, arg int64, n int) (int, int64, int) {
		if n > len(q) {
			return insOther, 0, 0
		}
		return kind, arg, i + n
	}
	switch op, modrm := at(0), at(1); {
	case len(q) == 0:
	case op >= 0x58 && op <= 0x5f:
		return done(insPop, int64(op-0x58)|int64(rex&1)<<3, 1)
	case op == 0x83 && modrm == 0xc4 && rex == 0x48:
		return done(insAdd, int64(int8(at(2))), 3)
	case op == 0x81 && modrm == 0xc4 && rex == 0x48:
		return done(insAdd, int64(int32(uint32(at(2))|uint32(at(3))<<8|uint32(at(4))<<16|uint32(at(5))<<24)), 6)
	case op == 0x8d && modrm>>3&7 == x64RSP && rex&0x4c == 0x48 && modrm>>6 != 0 && modrm>>6 != 3:
		return done(insLea, 0, leaSize(modrm))
	case op == 0x8b && modrm>>3 == 3<<3|x64RSP && rex&0x4c == 0x48, op == 0x89 && modrm&0xc7 == 0xc4 && rex&0x49 == 0x48:
		return done(insLea, 0, 2)
	default:
		if n := leaveSize(op, modrm); n > 0 {
			return done(insLeave, 0, n)
		}
	}
	return insOther, 0, 0
}

// leaSize returns the size without prefix of a lea with a displacement.
func leaSize(modrm byte) int {
	n := 3
	if modrm>>6 == 2 { // 32 bits
		n = 6
	}
	if modrm&7 == 4 { // a SIB byte
		n++
	}
	return n
}

// leaveSize returns the size of an instruction that leaves the function, or 0 for any other.
func leaveSize(op, modrm byte) int {
	switch {
	case op == 0xc3: // ret
		return 1
	case op == 0xf3 && modrm == 0xc3, op == 0xeb: // rep ret; jmp to an address nearby
		return 2
	case op == 0xc2: // ret n
		return 3
	case op == 0xe9: // jmp
		return 5
	case op == 0xff && modrm == 0x25: // jmp [rip + n]
		return 6
	case op == 0xff && modrm&0xf8 == 0xe0: // jmp register
		return 2
	}
	return 0
}

// epilogStep is one instruction of an epilog.
type epilogStep struct {
	kind int
	arg  int64
	at   uint32
	left int64 // bytes from rsp to the CFA before the instruction
}

// epilog adds the rows of an epilog that unwind data of version 2 describes. It
// adds none if the instructions are not those of an epilog.
func (d *x64) epilog(body *rules, e epilog) {
	const longest = 256
	end := uint32(min(uint64(e.end)+16, d.frame.end)) // the description may end before the return
	if end <= e.start {
		return
	}
	p, err := d.p.at(e.start, int(min(end-e.start, longest)))
	if err != nil {
		return
	}
	var steps []epilogStep
	for at := 0; ; {
		kind, arg, n := instruction(p[at:])
		if n == 0 {
			return
		}
		steps = append(steps, epilogStep{kind: kind, arg: arg, at: e.start + uint32(at)})
		at += n
		if kind == insLeave {
			end = e.start + uint32(at)
			break
		}
	}
	left := int64(leafReturn)
	known := len(steps) // the rows of the steps before are those of the body
	for i := len(steps) - 1; i >= 0; i-- {
		switch steps[i].kind {
		case insPop:
			left += 8
		case insAdd:
			left += steps[i].arg
		case insLea:
			left = -1
		}
		if left < leafReturn {
			break
		}
		steps[i].left, known = left, i
	}
	r := *body
	for i, s := range steps {
		if i >= known {
			r.cfa = rule{kind: ruleReg, reg: x64RSP, n: s.left}
			d.frame.row(uint64(s.at), &r)
		}
		if s.kind == insPop {
			r.regs[s.arg] = rule{}
		}
	}
	d.frame.row(uint64(end), body)
}

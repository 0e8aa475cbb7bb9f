package unwind

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/symdepot/symdepot/functab"
)

// namesX64Windows are the registers by their numbers in x64 unwind codes.
var namesX64Windows = []string{
	"$rax", "$rcx", "$rdx", "$rbx", "$rsp", "$rbp", "$rsi", "$rdi",
	"$r8", "$r9", "$r10", "$r11", "$r12", "$r13", "$r14", "$r15",
}

var styleX64Windows = style{names: namesX64Windows, minus: true, raReg: -1}

const x64RSP = 4

// Flags and operations of x64 unwind data.
const (
	unwindChained  = 4
	indirectEntry  = 1
	maxUnwindInfo  = 4 + 2*256 + 12
	leafReturn     = 8 // bytes between rsp and the CFA at a function's start
	opPush         = 0
	opAllocLarge   = 1
	opAllocSmall   = 2
	opSetFP        = 3
	opSave         = 4
	opSaveFar      = 5
	opEpilog       = 6 // version 2; in version 1 a save of a XMM register
	opSpare        = 7
	opSaveXMM      = 8
	opSaveXMMFar   = 9
	opMachineFrame = 10
	// opSetFPLarge is written by .NET for other systems than Windows, for a frame register more than 240
	// bytes from rsp; the distance is a number of 32 bits, in steps of 16 bytes (src/coreclr/inc/win64unwind.h
	// of dotnet/runtime).
	opSetFPLarge = 11
)

// code is one unwind code.
type code struct {
	offset uint8 // end of the instruction, from the start of the function
	op     uint8
	info   uint8
	n      int64 // bytes allocated, or the offset of a saved register
}

// unwindInfo is one UNWIND_INFO.
type unwindInfo struct {
	begin, end uint32
	frameReg   uint8 // 0: none
	frameOff   int64
	chained    bool
	codes      []code // in the order of the prolog
	epilogs    []epilog
}

// epilog is the range of an epilog of version 2.
type epilog struct{ start, end uint32 }

// x64 converts the exception table of one image.
type x64 struct {
	b     sink
	p     *pages
	work  *work
	frame frame
	chain []unwindInfo // reused
}

// PE64 adds the unwind rules of an image for x64: exact rows in prologs, chained
// entries, machine frames, the epilogs that version 2 describes, and the rules of
// leaf functions for code between the entries. Source: "x64 exception handling" of
// Microsoft's documentation.
func PE64(ctx context.Context, img Image, b *functab.Builder) error {
	sorted, entries, err := sorted64(ctx, img, b)
	if err != nil || entries == 0 {
		return err
	}
	t, err := openTable(ctx, img, b, entry64)
	d := &x64{b: b, p: &pages{r: img}, work: t.work}
	gaps := newGaps(d, img)
	for err == nil && t.next() {
		begin, end, info := t.uint32(0), t.uint32(4), t.uint32(8)
		if sorted {
			err = gaps.until(begin, end)
		}
		if err == nil && begin < end {
			err = omit(b, "unwind data", uint64(begin), d.entry(begin, end, info))
		}
	}
	if err == nil && t.err == nil && sorted {
		err = gaps.until(1<<32-1, 1<<32-1)
	}
	return t.close(err)
}

// sorted64 counts the entries and reports whether their ranges ascend, as the
// format demands. Code outside of the entries is known only then.
func sorted64(ctx context.Context, img Image, b *functab.Builder) (sorted bool, n int, err error) {
	t, err := openTable(ctx, img, b, entry64)
	sorted = true
	last := uint32(0)
	for err == nil && t.next() {
		n++
		sorted = sorted && t.uint32(0) >= last
		last = max(t.uint32(0), t.uint32(4))
	}
	return sorted, n, t.close(err)
}

// entry adds the frame of one entry of the exception table.
func (d *x64) entry(begin, end, info uint32) error {
	indirect := false
	for n := 0; info&indirectEntry != 0; n++ {
		// The entry refers to the entry of the function's first part.
		e, err := d.p.at(info&^indirectEntry, entry64)
		if err != nil {
			return err
		}
		if n == maxChain {
			return bad("more than %d entries refer to each other", maxChain)
		}
		indirect = indirect || binary.LittleEndian.Uint32(e) != begin
		info = binary.LittleEndian.Uint32(e[8:])
	}
	if err := d.load(begin, end, info); err != nil {
		return err
	}
	var s stateX64
	s.reset()
	for i := len(d.chain) - 1; i > 0; i-- {
		s.enter(&d.chain[i], true)
		for _, c := range d.chain[i].codes {
			s.apply(c)
		}
	}
	own := &d.chain[0]
	s.enter(own, own.chained || indirect)
	codes := own.codes
	for len(codes) > 0 && (indirect || codes[0].op == opMachineFrame) {
		s.apply(codes[0])
		codes = codes[1:]
	}
	r := s.rules()
	f := &d.frame
	f.begin(&styleX64Windows, uint64(begin), uint64(end), &r)
	for len(codes) > 0 {
		at := codes[0].offset
		for len(codes) > 0 && codes[0].offset == at {
			s.apply(codes[0])
			codes = codes[1:]
		}
		r = s.rules()
		f.row(uint64(begin)+uint64(at), &r)
	}
	body := s.rules()
	for _, e := range own.epilogs {
		d.epilog(&body, e)
	}
	return f.add(d.b, d.work)
}

// load reads the unwind data of an entry and of the entries it is chained to:
// chain[0] is the entry's own.
func (d *x64) load(begin, end, info uint32) error {
	d.chain = d.chain[:0]
	for {
		if len(d.chain) == maxChain {
			return bad("the chain has more than %d entries", maxChain)
		}
		i := len(d.chain)
		d.chain = slices.Grow(d.chain, 1)[:i+1]
		parent, err := d.info(&d.chain[i], begin, end, info)
		if err != nil || !d.chain[i].chained {
			return err
		}
		begin, end = binary.LittleEndian.Uint32(parent), binary.LittleEndian.Uint32(parent[4:])
		info = binary.LittleEndian.Uint32(parent[8:])
		for n := 0; info&indirectEntry != 0; n++ {
			e, err := d.p.at(info&^indirectEntry, entry64)
			if err != nil {
				return err
			}
			if n == maxChain {
				return bad("more than %d entries refer to each other", maxChain)
			}
			info = binary.LittleEndian.Uint32(e[8:])
		}
	}
}

// info reads one UNWIND_INFO. parent is the entry that follows it, valid until the
// next read.
func (d *x64) info(u *unwindInfo, begin, end, rva uint32) (parent []byte, err error) {
	h, err := d.p.at(rva, 4)
	if err != nil {
		return nil, err
	}
	version, slots := h[0]&7, int(h[2])
	*u = unwindInfo{
		begin: begin, end: end, frameReg: h[3] & 15, frameOff: 16 * int64(h[3]>>4),
		chained: h[0]>>3&unwindChained != 0, codes: u.codes[:0], epilogs: u.epilogs[:0],
	}
	if version != 1 && version != 2 {
		return nil, bad("version %d is not known", version)
	}
	if err := d.work.spend(slots); err != nil {
		return nil, err
	}
	after := 4 + (slots+1)&^1*2
	size := 4 + slots*2
	if u.chained {
		size = after + entry64
	}
	p, err := d.p.at(rva, size)
	if err != nil {
		return nil, err
	}
	if err := u.parse(p[4:4+2*slots], version); err != nil {
		return nil, err
	}
	return p[min(after, len(p)):], nil
}

// parse reads the unwind codes.
func (u *unwindInfo) parse(p []byte, version byte) error {
	le := binary.LittleEndian
	size := uint32(0) // of epilogs
	first := true     // no epilog so far
	for len(p) > 0 {
		c := code{offset: p[0], op: p[1] & 15, info: p[1] >> 4}
		if version == 2 && c.op == opEpilog {
			u.addEpilog(c, &size, first)
			first = false
			p = p[2:]
			continue
		}
		slots := 1
		switch c.op {
		case opSave, opEpilog, opSaveXMM:
			slots = 2
		case opSaveFar, opSpare, opSaveXMMFar, opSetFPLarge:
			slots = 3
		case opAllocLarge:
			slots = 2 + int(min(c.info, 1))
		case opPush, opAllocSmall, opSetFP, opMachineFrame:
		default:
			return bad("unwind code %d is not known", c.op)
		}
		if len(p) < 2*slots {
			return bad("the last unwind code is cut off")
		}
		switch {
		case c.op == opAllocSmall:
			c.n = 8*int64(c.info) + 8
		case slots == 2:
			c.n = 8 * int64(le.Uint16(p[2:]))
		case slots == 3:
			c.n = int64(le.Uint32(p[2:]))
		}
		if c.op == opSetFPLarge {
			c.op, u.frameOff = opSetFP, 16*c.n
		}
		switch c.op {
		case opPush, opAllocLarge, opAllocSmall, opSetFP, opSave, opSaveFar, opMachineFrame:
			u.codes = append(u.codes, c)
		}
		p = p[2*slots:]
	}
	slices.Reverse(u.codes)
	// The format demands falling offsets. Others would give rows in disorder.
	if !slices.IsSortedFunc(u.codes, func(a, b code) int { return int(a.offset) - int(b.offset) }) {
		return bad("the unwind codes are not sorted")
	}
	return nil
}

// addEpilog adds the epilog that a code of version 2 describes. The first code
// has the size of all epilogs, and says whether one of them ends the function; the
// others have the distance from the function's end.
func (u *unwindInfo) addEpilog(c code, size *uint32, first bool) {
	distance := uint32(c.info)<<8 | uint32(c.offset)
	if first {
		*size = uint32(c.offset)
		if distance = 0; c.info&1 != 0 {
			distance = *size
		}
	}
	if distance == 0 || distance > u.end-u.begin || *size == 0 {
		return
	}
	start := u.end - distance
	u.epilogs = append(u.epilogs, epilog{start, start + min(*size, distance)})
	slices.SortFunc(u.epilogs, func(a, b epilog) int { return int(int64(a.start) - int64(b.start)) })
}

// stateX64 is the frame at one place of a prolog.
type stateX64 struct {
	size   int64 // bytes pushed and allocated, with the return address
	pushed [16]slotX64
	saved  [16]slotX64
	fp     bool // the CFA is found by the frame register
	fpReg  uint8
	fpCFA  int64 // CFA minus the frame register

	// Of the unwind data that is applied. The last one is the entry's own.
	reg         uint8
	off         int64
	established bool // offsets of saved registers count from the frame register

	machine bool
}

type slotX64 struct {
	set bool
	n   int64
}

func (s *stateX64) reset() { *s = stateX64{size: leafReturn} }

// enter begins the codes of one UNWIND_INFO. finished says that its prolog was
// executed as a whole.
func (s *stateX64) enter(u *unwindInfo, finished bool) {
	s.reg, s.off = u.frameReg, u.frameOff
	s.established = u.frameReg != 0 && finished
}

// apply executes one code in the order of the prolog. A register that is saved
// twice has the value of the caller in the first place.
func (s *stateX64) apply(c code) {
	switch c.op {
	case opPush:
		s.size += 8
		if !s.pushed[c.info].set && !s.saved[c.info].set {
			s.pushed[c.info] = slotX64{set: true, n: s.size}
		}
	case opAllocLarge, opAllocSmall:
		s.size += c.n
	case opSetFP:
		if s.reg != 0 {
			s.fp, s.fpReg, s.fpCFA = true, s.reg, s.size-s.off
			s.established = true
		}
	case opSave, opSaveFar:
		if !s.pushed[c.info].set && !s.saved[c.info].set {
			s.saved[c.info] = slotX64{set: true, n: c.n}
		}
	case opMachineFrame:
		// rip, cs, eflags, rsp, ss, after an error code if info says so.
		s.machine = true
		s.size = 48
		if c.info == 1 {
			s.size = 56
		}
	}
}

// rules returns the rules of the place. Windows counts the offset of a saved
// register from the frame register, or from rsp at the place.
func (s *stateX64) rules() rules {
	r := rules{cfa: rule{kind: ruleReg, reg: x64RSP, n: s.size}, ra: rule{kind: ruleSaved, n: -8}}
	if s.fp {
		r.cfa = rule{kind: ruleReg, reg: s.fpReg, n: s.fpCFA}
	}
	if s.machine {
		r.ra.n = -48
		r.regs[x64RSP] = rule{kind: ruleSaved, n: -24}
	}
	for i := range s.pushed {
		if s.pushed[i].set {
			r.regs[i] = rule{kind: ruleSaved, n: -s.pushed[i].n}
		} else if s.saved[i].set {
			r.regs[i] = s.savedAt(s.saved[i].n)
		}
	}
	return r
}

// savedAt returns the rule of a register that is saved at an offset.
func (s *stateX64) savedAt(n int64) rule {
	switch {
	case s.established && s.fp && s.fpReg == s.reg:
		return rule{kind: ruleSaved, n: n - s.off - s.fpCFA}
	case s.established:
		return rule{kind: ruleRegSaved, reg: s.reg, n: n - s.off}
	case s.fp:
		return rule{kind: ruleRegSaved, reg: x64RSP, n: n}
	}
	return rule{kind: ruleSaved, n: n - s.size}
}

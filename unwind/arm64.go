package unwind

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/symdepot/symdepot/functab"
)

// namesArm64 are the registers by their numbers in DWARF and in the unwind data of
// Windows.
var namesArm64 = []string{
	"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
	"x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp",
}

// Walkers take the return address of the caller's caller from x30 where the rules
// do not say otherwise, so that both are written.
var styleArm64Windows = style{names: namesArm64, raReg: armLR, both: true}

const (
	armFP, armLR, armSP = 29, 30, 31
	armInstruction      = 4
	maxArmCodes         = 4 * 255 // bytes of unwind codes in one record
)

// armKind is the effect of one instruction of a prolog on the frame.
type armKind uint8

const (
	armNop   armKind = iota
	armAlloc         // sub sp, n
	armSave          // registers stored at sp + n, or below sp after it falls by n
	armNext          // as the save before, of the next pair
	armSetFP         // mov x29, sp
	armAddFP         // add x29, sp, n
	armStop          // the frame cannot be described
	armEnd           // end of the codes
	armEndC          // end of the codes of this part of a function; those of its parent follow
)

// armOp is one unwind code.
type armOp struct {
	kind   armKind
	count  uint8 // registers saved: 1 or 2
	vector bool  // registers of floating point, which walkers do not know
	pre    bool  // sp falls by n first
	regs   [2]uint8
	n      int64
}

func (o armOp) pair(first, second uint8) armOp {
	o.kind, o.count, o.regs = armSave, 2, [2]uint8{first, second}
	return o
}

func (o armOp) one(reg uint8) armOp {
	o.kind, o.count, o.regs = armSave, 1, [2]uint8{reg}
	return o
}

// at returns the operation with an offset in units of 8 bytes: of the store, or of
// sp before it.
func (o armOp) at(units int64, pre bool) armOp {
	o.n, o.pre = 8*units, pre
	return o
}

// decodeArm decodes the unwind code at the start of p. Source: "ARM64 exception
// handling" of Microsoft's documentation, section "Unwind codes".
func decodeArm(p []byte) (op armOp, size int, err error) {
	c := p[0]
	if size = armCodeSize(c); size > len(p) {
		return op, 0, bad("the last unwind code is cut off")
	}
	w := int64(c)
	if size > 1 {
		w = w<<8 | int64(p[1])
	}
	switch {
	case c < 0xdf:
		op = decodeArmFrame(c, w)
	case c == 0xe0:
		op = armOp{kind: armAlloc, n: 16 * (int64(p[1])<<16 | int64(p[2])<<8 | int64(p[3]))}
	case c == 0xe1:
		op.kind = armSetFP
	case c == 0xe2:
		op = armOp{kind: armAddFP, n: 8 * int64(p[1])}
	case c == 0xe3, c == 0xec, c == 0xfc: // nop, a flag of the unwinder, or the return address is signed
	case c == 0xe4:
		op.kind = armEnd
	case c == 0xe5:
		op.kind = armEndC
	case c == 0xe6:
		op.kind = armNext
	case c == 0xe7:
		op, err = decodeAnyReg(p)
	case c == 0xdf, c >= 0xe8 && c <= 0xeb:
		// An allocation of unknown size, or a frame that the kernel made.
		op.kind = armStop
	default:
		err = bad("unwind code %#x is not known", c)
	}
	if op.kind == armSave && !op.vector && (op.regs[0] > armLR || op.regs[1] > armLR) {
		return op, 0, bad("unwind code %#x saves a register after the last one", c)
	}
	return op, size, err
}

// armCodeSize returns the bytes of the unwind code that begins with c.
func armCodeSize(c byte) int {
	switch {
	case c >= 0xc0 && c <= 0xdf || c == 0xe2:
		return 2
	case c == 0xe0:
		return 4
	case c == 0xe7:
		return 3
	}
	return 1
}

// decodeArmFrame decodes a code below 0xdf, which allocates or saves registers. w has the
// code's first two bytes, or its only one.
func decodeArmFrame(c byte, w int64) (op armOp) {
	z5, z6 := w&0x1f, w&0x3f
	reg := func(bits, base int64) uint8 { return uint8(base + w>>6&(1<<bits-1)) }
	var fp armOp
	fp.vector = true
	switch {
	case c < 0x20:
		op = armOp{kind: armAlloc, n: 16 * w}
	case c < 0x40:
		op = op.pair(19, 20).at(z5, true)
	case c < 0x80:
		op = op.pair(armFP, armLR).at(z6, false)
	case c < 0xc0:
		op = op.pair(armFP, armLR).at(z6+1, true)
	case c < 0xc8:
		op = armOp{kind: armAlloc, n: 16 * (w & 0x7ff)}
	case c < 0xcc:
		op = op.pair(reg(4, 19), reg(4, 20)).at(z6, false)
	case c < 0xd0:
		op = op.pair(reg(4, 19), reg(4, 20)).at(z6+1, true)
	case c < 0xd4:
		op = op.one(reg(4, 19)).at(z6, false)
	case c < 0xd6:
		op = op.one(uint8(19+w>>5&15)).at(z5+1, true)
	case c < 0xd8:
		op = op.pair(uint8(19+2*(w>>6&7)), armLR).at(z6, false)
	case c < 0xda:
		op = fp.pair(reg(3, 8), reg(3, 9)).at(z6, false)
	case c < 0xdc:
		op = fp.pair(reg(3, 8), reg(3, 9)).at(z6+1, true)
	case c < 0xde:
		op = fp.one(reg(3, 8)).at(z6, false)
	default: // 0xde
		op = fp.one(uint8(8+w>>5&7)).at(z5+1, true)
	}
	return op
}

// decodeAnyReg decodes save_any_reg.
func decodeAnyReg(p []byte) (armOp, error) {
	reg, pair, pre := p[1]&0x1f, p[1]&0x40 != 0, p[1]&0x20 != 0
	units := int64(p[2] & 0x3f)
	class := p[2] >> 6
	if class == 3 {
		return armOp{}, nil // registers of SVE, which walkers do not know
	}
	if p[1]&0x80 != 0 {
		return armOp{}, bad("unwind code 0xe7 with the byte %#x is not known", p[1])
	}
	if pre {
		units++
	}
	if pair || pre || class == 2 {
		units *= 2
	}
	op := armOp{vector: class != 0}
	if !pair {
		return op.one(reg).at(units, pre), nil
	}
	return op.pair(reg, reg+1).at(units, pre), nil
}

// stateArm is the frame at one place of a prolog.
type stateArm struct {
	size  int64 // bytes from sp to the CFA
	fp    bool  // the CFA is found by x29
	fpCFA int64 // CFA minus x29
	saved [32]struct {
		set bool
		at  int64 // distance from the CFA
	}
	stop bool
}

// apply executes one operation in the order of the prolog. A register that is
// saved twice has the value of the caller in the first place.
func (s *stateArm) apply(o armOp) {
	switch o.kind {
	case armAlloc:
		s.size += o.n
	case armSave:
		at := o.n
		if o.pre {
			s.size += o.n
			at = 0
		}
		for i := range int64(o.count) {
			slot := &s.saved[o.regs[i]&31]
			if !o.vector && !slot.set {
				slot.set, slot.at = true, at+8*i-s.size
			}
		}
	case armSetFP, armAddFP:
		s.fp, s.fpCFA = true, s.size-o.n
	case armStop:
		s.stop = true
	}
}

// rules returns the rules of the place.
func (s *stateArm) rules() rules {
	r := rules{cfa: rule{kind: ruleReg, reg: armSP, n: s.size}, ra: rule{kind: ruleReg, reg: armLR}}
	if s.stop {
		r.ra = rule{kind: ruleUndefined}
		return r
	}
	if s.fp {
		r.cfa = rule{kind: ruleReg, reg: armFP, n: s.fpCFA}
	}
	for i, slot := range s.saved[:armSP] {
		if slot.set {
			r.regs[i] = rule{kind: ruleSaved, n: slot.at}
		}
	}
	if s.saved[armLR].set {
		r.ra = r.regs[armLR]
	}
	return r
}

// arm64 converts the exception table of one image.
type arm64 struct {
	b     sink
	p     *pages
	work  *work
	frame frame
	codes [maxArmCodes]byte
	ops   []armOp
	ends  [4 * 128]byte // epilog scopes

	states []rules // of the epilogs
	of     int     // the index that states are for
}

// PEArm64 adds the unwind rules of an image for ARM64, from packed and from full
// records, with exact rows in prologs and epilogs, and the rules of leaf functions for
// code between the entries. Source: "ARM64 exception handling" of Microsoft's documentation.
func PEArm64(ctx context.Context, img Image, b *functab.Builder) error {
	t, err := openTable(ctx, img, b, entryArm64)
	sorted, entries, last := true, 0, uint32(0)
	for err == nil && t.next() {
		entries++
		sorted = sorted && t.uint32(0) >= last
		last = t.uint32(0)
	}
	if err = t.close(err); err != nil || entries == 0 {
		return err
	}
	t, err = openTable(ctx, img, b, entryArm64)
	d := &arm64{b: b, p: &pages{r: img}, work: t.work}
	gaps := d.gaps(img)
	for err == nil && t.next() {
		begin, word := t.uint32(0), t.uint32(4)
		if sorted {
			if gaps.last == noEnd {
				gaps.last = begin
			}
			err = gaps.until(begin, begin)
			gaps.last = d.end(begin, word)
		}
		if err == nil {
			err = omit(b, "unwind data", uint64(begin), d.record(begin, word))
		}
	}
	if err == nil && t.err == nil && sorted {
		err = gaps.until(noEnd, noEnd)
	}
	return t.close(err)
}

// noEnd is behind all code.
const noEnd = 1<<32 - 1

// end returns where the code of an entry ends; noEnd if the entry does not say it: then nothing is
// known of the code behind it.
func (d *arm64) end(begin, word uint32) uint32 {
	n, err := d.length(word)
	if err != nil || n > noEnd-begin {
		return noEnd
	}
	return begin + n
}

// gaps returns the gaps of an image: the return address is in the link register.
func (d *arm64) gaps(img Image) *gaps {
	var s stateArm
	g := &gaps{b: d.b, p: d.p, work: d.work, frame: &d.frame, style: &styleArm64Windows, leaf: s.rules(), padding: paddingArm64}
	return g.find(img)
}

// paddingArm64 returns the length of the zeros, nop and brk instructions at the start of code.
func paddingArm64(p []byte) (n int) {
	for ; n+armInstruction <= len(p); n += armInstruction {
		switch word := binary.LittleEndian.Uint32(p[n:]); {
		case word == 0, word == 0xd503201f, word&0xffe0001f == 0xd4200000:
		default:
			return n
		}
	}
	return len(p)
}

// record adds the frame of one entry of the exception table.
func (d *arm64) record(begin, word uint32) error {
	if word&3 == 0 {
		return d.full(begin, word)
	}
	return d.packed(begin, word)
}

// length returns the number of bytes of code that an entry describes.
func (d *arm64) length(word uint32) (uint32, error) {
	switch word & 3 {
	case 0:
		p, err := d.p.at(word, 4)
		if err != nil {
			return 0, err
		}
		return binary.LittleEndian.Uint32(p) & 0x3ffff * armInstruction, nil
	case 3:
		return 0, bad("packed unwind data of kind 3 is not known")
	}
	return word >> 2 & 0x7ff * armInstruction, nil
}

// packed adds the frame of an entry with packed unwind data.
func (d *arm64) packed(begin, word uint32) error {
	length, err := d.length(word)
	if err != nil {
		return err
	}
	ops, ending, err := d.canonical(word)
	if err != nil {
		return err
	}
	f := &d.frame
	var s stateArm
	if word&3 == 2 {
		// A part of a function without a prolog or an epilog.
		for _, o := range ops {
			s.apply(o)
		}
		r := s.rules()
		f.begin(&styleArm64Windows, uint64(begin), uint64(begin)+uint64(length), &r)
		return f.add(d.b, d.work)
	}
	body := d.prolog(begin, length, &s, ops)
	d.states = d.states[:0]
	d.of = -1
	var e stateArm
	d.addState(&e)
	for _, o := range ending {
		e.apply(o)
		d.addState(&e)
	}
	if size := uint32(len(ending)+1) * armInstruction; size <= length {
		d.epilog(&body, begin+length-size)
	}
	return f.add(d.b, d.work)
}

// prolog begins the frame of a function, adds the rows of its prolog, and returns
// the rules of its body.
func (d *arm64) prolog(begin, length uint32, s *stateArm, ops []armOp) rules {
	r := s.rules()
	d.frame.begin(&styleArm64Windows, uint64(begin), uint64(begin)+uint64(length), &r)
	for i, o := range ops {
		s.apply(o)
		r = s.rules()
		d.frame.row(uint64(begin)+armInstruction*uint64(i+1), &r)
	}
	return r
}

// addState adds the rules at one instruction of an epilog, last instruction first.
func (d *arm64) addState(s *stateArm) { d.states = append(d.states, s.rules()) }

// epilog adds the rows of an epilog: the states backwards, the last one at the
// return, then the rules of the body.
func (d *arm64) epilog(body *rules, start uint32) {
	at := uint64(start)
	for i := len(d.states) - 1; i >= 0; i-- {
		d.frame.row(at, &d.states[i])
		at += armInstruction
	}
	d.frame.row(at, body)
}

// canonical returns the prolog that packed unwind data stands for, and the
// instructions that its epilog undoes, both in the order of the prolog. Source:
// the documentation's section "Packed unwind data". Compilers leave "mov sp, x29"
// and the loads of parameters out of the epilog.
func (d *arm64) canonical(word uint32) (ops, ending []armOp, err error) {
	k, err := parsePacked(word)
	if err != nil {
		return nil, nil, err
	}
	ops = d.ops[:0]
	if k.cr == 2 {
		ops = append(ops, armOp{kind: armNop})
	}
	ops = k.saveInts(ops)
	ops = k.saveFloats(ops)
	ending = slices.Clone(ops)
	if k.home {
		for n := int64(0); n < 64; n += 16 {
			ops = k.store(ops, armOp{vector: true}.pair(0, 0), k.ints+k.floats+n)
		}
		if k.ints+k.floats == 0 {
			ending = append(ending, armOp{kind: armAlloc, n: k.saved})
		}
	}
	body := len(ops)
	ops = k.saveFrame(ops)
	ending = append(ending, ops[body:]...)
	if k.cr >= 2 {
		ops = append(ops, armOp{kind: armSetFP})
	}
	d.ops = ops
	return ops, ending, nil
}

// packedArm is packed unwind data: what a prolog of the usual form saves.
type packedArm struct {
	regI         int    // registers from x19 on
	cr           uint32 // CR: 1 saves lr, 2 and 3 save a frame record
	home         bool   // the parameter registers are stored
	ints, floats int64  // bytes of saved registers
	saved, local int64  // bytes of all that is saved, and of the rest of the frame
}

func parsePacked(word uint32) (k packedArm, err error) {
	regF := int64(word >> 13 & 7)
	k.regI = int(word >> 16 & 15)
	k.home, k.cr = word>>20&1 != 0, word>>21&3
	frame := 16 * int64(word>>23)
	if k.regI > 10 {
		return k, bad("packed unwind data saves %d registers", k.regI)
	}
	k.ints = 8 * int64(k.regI)
	if k.cr == 1 {
		k.ints += 8
	}
	k.floats = 8 * regF
	if regF > 0 {
		k.floats += 8
	}
	k.saved = k.ints + k.floats
	if k.home {
		k.saved += 64
	}
	k.saved = (k.saved + 15) &^ 15
	k.local = frame - k.saved
	if k.local < 0 || k.cr >= 2 && k.local < 16 {
		return k, bad("packed unwind data saves more than the frame of %d bytes holds", frame)
	}
	return k, nil
}

// store appends what stores registers at sp + at. The first one makes room for all.
func (k *packedArm) store(ops []armOp, o armOp, at int64) []armOp {
	o.n = at
	if at == 0 {
		o.n, o.pre = k.saved, true
	}
	return append(ops, o)
}

// saveInts appends what saves x19 and the following registers, and lr beside them.
func (k *packedArm) saveInts(ops []armOp) []armOp {
	var x armOp
	i := 0
	for ; i+2 <= k.regI; i += 2 {
		ops = k.store(ops, x.pair(uint8(19+i), uint8(20+i)), 8*int64(i))
	}
	switch {
	case k.regI == 1 && k.cr == 1:
		// No unwind code stores this pair below sp. The documentation does not tell how
		// compilers store it: they decrement sp first.
		return append(ops, armOp{kind: armAlloc, n: k.saved}, x.pair(19, armLR))
	case i < k.regI && k.cr == 1:
		return k.store(ops, x.pair(uint8(19+i), armLR), 8*int64(i))
	case i < k.regI:
		return k.store(ops, x.one(uint8(19+i)), 8*int64(i))
	case k.cr == 1:
		return k.store(ops, x.one(armLR), 8*int64(i))
	}
	return ops
}

// saveFloats appends what saves d8 and the following registers.
func (k *packedArm) saveFloats(ops []armOp) []armOp {
	v := armOp{vector: true}
	for n := int64(0); n < k.floats; n += 16 {
		o := v.pair(0, 0)
		if k.floats-n == 8 {
			o = v.one(0)
		}
		ops = k.store(ops, o, k.ints+n)
	}
	return ops
}

// saveFrame appends what makes room for the rest of the frame, and saves the frame record.
func (k *packedArm) saveFrame(ops []armOp) []armOp {
	if k.cr >= 2 && k.local <= 512 {
		return append(ops, armOp{n: k.local, pre: true}.pair(armFP, armLR))
	}
	const step = 4080
	left := k.local
	if left > 4088 {
		ops = append(ops, armOp{kind: armAlloc, n: step})
		left -= step
	}
	if left > 0 {
		ops = append(ops, armOp{kind: armAlloc, n: left})
	}
	if k.cr >= 2 {
		ops = append(ops, armOp{}.pair(armFP, armLR))
	}
	return ops
}

// full adds the frame of an entry with a record in .xdata.
func (d *arm64) full(begin, rva uint32) error {
	h, err := d.p.at(rva, 4)
	if err != nil {
		return err
	}
	w := binary.LittleEndian.Uint32(h)
	length := w & 0x3ffff * armInstruction
	if v := w >> 18 & 3; v != 0 {
		return bad("version %d is not known", v)
	}
	single, epilogs, words := w>>21&1 != 0, w>>22&31, int(w>>27)
	at := rva + 4
	if epilogs == 0 && words == 0 {
		if h, err = d.p.at(at, 4); err != nil {
			return err
		}
		w = binary.LittleEndian.Uint32(h)
		epilogs, words = w&0xffff, int(w>>16&0xff)
		at += 4
	}
	scopes := at
	if !single {
		at += 4 * epilogs
	}
	c, err := d.p.at(at, 4*words)
	if err != nil {
		return err
	}
	codes := d.codes[:copy(d.codes[:], c)]
	ops, own, err := d.sequence(codes, 0)
	if err != nil {
		return err
	}
	var s stateArm
	for _, o := range ops[:len(ops)-own] {
		s.apply(o)
	}
	if s.stop {
		own = 0
	}
	f := &d.frame
	body := d.prolog(begin, length, &s, ops[len(ops)-own:])
	d.of = -1
	if s.stop {
		// The prolog is unknown, and so is its frame.
		f.begin(&styleArm64Windows, f.start, f.end, &body)
		return f.add(d.b, d.work)
	}
	if single {
		if err := d.prepare(codes, int(epilogs)); err != nil {
			return err
		}
		if size := uint32(len(d.states)) * armInstruction; size <= length {
			d.epilog(&body, begin+length-size)
		}
		return f.add(d.b, d.work)
	}
	if err := d.scopes(begin, scopes, int(epilogs), codes, &body); err != nil {
		return err
	}
	return f.add(d.b, d.work)
}

// scopes adds the rows of the epilogs that a record lists.
func (d *arm64) scopes(begin, rva uint32, n int, codes []byte, body *rules) error {
	for n > 0 {
		part := min(n, len(d.ends)/4)
		p, err := d.p.at(rva, 4*part)
		if err != nil {
			return err
		}
		p = d.ends[:copy(d.ends[:], p)]
		for ; len(p) > 0; p = p[4:] {
			w := binary.LittleEndian.Uint32(p)
			if err := d.prepare(codes, int(w>>22)); err != nil {
				return err
			}
			if err := d.work.spend(len(d.states)); err != nil {
				return err
			}
			d.epilog(body, begin+w&0x3ffff*armInstruction)
		}
		n -= part
		rva += uint32(4 * part)
	}
	return nil
}

// sequence decodes the codes from an index on and returns the operations in the
// order of the prolog. The last own of them have instructions in this part of the
// function.
func (d *arm64) sequence(codes []byte, index int) (ops []armOp, own int, err error) {
	ops = d.ops[:0]
	own = -1
	if index >= len(codes) {
		return nil, 0, bad("the unwind codes have %d bytes, an epilog begins at %d", len(codes), index)
	}
	// Compilers leave the end out where the codes fill the record.
	for done := false; !done && index < len(codes); {
		o, n, err := decodeArm(codes[index:])
		if err != nil {
			return nil, 0, err
		}
		index += n
		switch o.kind {
		case armEnd:
			done = true
		case armEndC:
			if own < 0 {
				own = len(ops)
			}
		default:
			ops = append(ops, o)
		}
	}
	if own < 0 {
		own = len(ops)
	}
	d.ops = ops
	if err := d.work.spend(len(ops)); err != nil {
		return nil, 0, err
	}
	slices.Reverse(ops)
	for i := range ops {
		if ops[i].kind != armNext {
			continue
		}
		if i == 0 || ops[i-1].kind != armSave || ops[i-1].count != 2 || ops[i-1].regs[1] >= armFP {
			return nil, 0, bad("the code save_next follows no pair of registers")
		}
		before := ops[i-1]
		if before.pre {
			before.n, before.pre = 0, false
		}
		before.n += 16
		before.regs[0] += 2
		before.regs[1] += 2
		ops[i] = before
	}
	return ops, own, nil
}

// prepare computes the states of the epilog whose codes begin at an index.
func (d *arm64) prepare(codes []byte, index int) error {
	if d.of == index {
		return nil
	}
	ops, own, err := d.sequence(codes, index)
	if err != nil {
		return err
	}
	d.of, d.states = index, d.states[:0]
	var s stateArm
	for i, o := range ops {
		if i >= len(ops)-own {
			d.addState(&s)
		}
		s.apply(o)
	}
	d.addState(&s)
	return nil
}

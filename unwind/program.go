package unwind

// fde reads a frame description entry up to its program, and sets the range of its frame. has is false
// if there is no code.
func (d *frames) fde(c cursor, e *cie) (program cursor, has bool, err error) {
	c.bytes(uint64(e.segmentSize))
	encoding := byte(0)
	if d.eh {
		encoding = e.encoding
	}
	start, err := d.pointer(&c, encoding, e.addressSize)
	if err != nil {
		return c, false, err
	}
	size, err := d.pointer(&c, encoding&0x0f, e.addressSize)
	if err != nil {
		return c, false, err
	}
	if e.augmented {
		c.bytes(c.uleb())
	}
	if c.short {
		return c, false, bad("the entry of the frame is cut off")
	}
	if size == 0 || !d.live(start, e.addressSize) {
		return c, false, nil
	}
	d.location, d.end = start, start+size
	if d.end < start {
		return c, false, bad("the frame of %#x bytes at %#x exceeds the address space", size, start)
	}
	return c, true, nil
}

// live reports whether the code of a frame is in the module. Linkers write 0, -1
// or -2 for code that they removed.
func (d *frames) live(start uint64, size int) bool {
	highest := uint64(1<<64 - 1)
	if size == 4 {
		highest = 1<<32 - 1
	}
	if start < d.s.Base || start >= highest-1 {
		return false
	}
	if len(d.s.Code) > 0 {
		return inSections(d.s.Code, start-d.s.Base)
	}
	return start != 0
}

// noCFA is the rule of the CFA before a program defines one.
var noCFA = rule{kind: ruleUndefined, n: 1}

// run executes the programs of an entry and adds its frame.
func (d *frames) run(program cursor, e *cie) error {
	start := d.location - d.s.Base
	d.style = d.m.style
	d.style.raReg = int(e.ra)
	d.now = rules{cfa: noCFA, ra: rule{kind: ruleReg, reg: e.ra}}
	d.initial = d.now
	d.memory, d.slots = d.memory[:0], d.slots[:0]
	d.frame.begin(&d.style, start, d.end-d.s.Base, &d.now)
	more, err := d.execute(e.program, e, true)
	if err != nil {
		return err
	}
	d.initial = d.now
	if more {
		if more, err = d.execute(program, e, false); err != nil {
			return err
		}
	}
	if more {
		d.flush(d.end)
	}
	if d.frame.end <= start {
		return nil
	}
	if d.seen != nil {
		d.seen(span{start, d.frame.end})
	}
	return d.frame.add(d.b, d.work)
}

// flush adds the rows for the addresses up to next, and continues there. It returns
// false where the CFA is not known: the frame ends before.
func (d *frames) flush(next uint64) bool {
	at := d.location - d.s.Base
	switch d.now.cfa.kind {
	case ruleUndefined:
		d.frame.end = min(d.frame.end, at)
		return false
	case ruleSlots:
		d.flushSlots(next)
	default:
		d.frame.row(at, &d.now)
	}
	d.location = next
	return true
}

// flushSlots adds the rows of the slots of a procedure linkage table.
func (d *frames) flushSlots(next uint64) {
	s := d.slots[d.now.cfa.n]
	r := d.now
	next = min(next, d.frame.end+d.s.Base)
	for at := d.location; at < next && !d.frame.full; {
		place := (at + uint64(s.bias)) & s.mask
		r.cfa = rule{kind: ruleReg, reg: uint8(d.m.sp), n: s.low}
		step := s.from - place
		if place >= s.from {
			r.cfa.n = s.high
			step = s.mask + 1 - place
		}
		d.frame.row(at-d.s.Base, &r)
		if at += step; at < step {
			break
		}
	}
}

// stop ends the frame at the current address: the rest of the program cannot be
// read.
func (d *frames) stop(format string, args ...any) (bool, error) {
	at := d.location - d.s.Base
	d.b.Warn("%s: frame at %#x: %s; the rules from %#x on are omitted", d.name(), d.frame.start, bad(format, args...), at)
	d.frame.end = min(d.frame.end, at)
	return false, nil
}

// advance moves on to a later address.
func (d *frames) advance(n uint64, e *cie) bool {
	if n == 0 || e.codeAlign == 0 {
		return true
	}
	next := d.location + n*e.codeAlign
	if n > (1<<64-1)/e.codeAlign || next < d.location || next >= d.end {
		next = d.end // rows after the end do not matter
	}
	return d.flush(next)
}

// save sets the rule of a register to a place at the CFA + n units.
func (d *frames) save(reg uint64, n int64, kind ruleKind) {
	if i, ok := d.m.number(reg); ok {
		d.set(i, rule{kind: kind, n: n})
	}
}

// set sets the rule of a register, and that of the return address if it is its
// register.
func (d *frames) set(i uint8, r rule) {
	d.now.regs[i] = r
	if int(i) != d.style.raReg {
		return
	}
	switch r.kind {
	case ruleSame:
		r = rule{kind: ruleReg, reg: i}
	case ruleUndefined:
		r = rule{kind: ruleEnd}
	}
	d.now.ra = r
}

// restore sets the rule of a register to the one of the common entry.
func (d *frames) restore(reg uint64) {
	i, ok := d.m.number(reg)
	if !ok {
		return
	}
	d.now.regs[i] = d.initial.regs[i]
	if int(i) == d.style.raReg {
		d.now.ra = d.initial.ra
	}
}

// defineCFA sets the CFA to a register + n.
func (d *frames) defineCFA(reg uint64, n int64) {
	d.now.cfa = rule{kind: ruleUndefined}
	if i, ok := d.m.number(reg); ok && d.m.style.names[i] != "" {
		d.now.cfa = rule{kind: ruleReg, reg: i, n: n}
	}
}

// expressionCFA sets the CFA to the value of an expression.
func (d *frames) expressionCFA(p []byte, e *cie) {
	if s, ok := d.m.slots(p, d.s.order()); ok {
		d.slots = append(d.slots, s)
		d.now.cfa = rule{kind: ruleSlots, n: int64(len(d.slots) - 1)}
		return
	}
	d.now.cfa = rule{kind: ruleUndefined}
	if text, ok := d.m.translate(p, d.s.order(), e.addressSize, ""); ok {
		d.now.cfa = rule{kind: ruleText, text: text}
	}
}

// expression sets the rule of a register to the value of an expression, or to the
// value stored there. Walkers must not use a register whose rule is not
// translated.
func (d *frames) expression(reg uint64, p []byte, e *cie, stored bool) {
	i, ok := d.m.number(reg)
	if !ok {
		return
	}
	text, ok := d.m.translate(p, d.s.order(), e.addressSize, ".cfa")
	if ok && stored {
		text += " ^"
	}
	r := rule{kind: ruleText, text: text}
	if !ok {
		r = rule{kind: ruleUndefined}
	}
	d.set(i, r)
	if !ok && int(i) == d.style.raReg {
		d.now.ra = r
	}
}

// execute runs a program. It returns false if the frame ends before the program
// does. Source: DWARF 5, section 6.4.2, and the extensions of GCC and of
// AArch64.
func (d *frames) execute(c cursor, e *cie, common bool) (more bool, err error) {
	for len(c.p) > 0 {
		if err := d.work.spend(0); err != nil {
			return false, err
		}
		if common && c.p[0]&0xc0 == 0x40 {
			return d.stop("the common entry changes the address")
		}
		op := c.u8()
		low := uint64(op & 0x3f)
		more := true
		switch op & 0xc0 {
		case 0x40:
			more = d.advance(low, e)
		case 0x80:
			d.save(low, int64(c.uleb())*e.dataAlign, ruleSaved)
		case 0xc0:
			d.restore(low)
		default:
			more, err = d.extended(op, &c, e, common)
		}
		if c.short {
			return d.stop("the program is cut off")
		}
		if !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// extended executes an instruction whose operands follow it.
func (d *frames) extended(op byte, c *cursor, e *cie, common bool) (more bool, err error) {
	switch op {
	case 0x00: // nop
	case 0x01, 0x02, 0x03, 0x04, 0x1d:
		return d.moveLocation(op, c, e, common)
	case 0x0a: // remember_state
		if len(d.memory) == maxRemember {
			return d.stop("the program remembers more than %d states", maxRemember)
		}
		d.memory = append(d.memory, d.now)
	case 0x0b: // restore_state
		if len(d.memory) == 0 {
			return d.stop("the program restores a state that it did not remember")
		}
		d.now = d.memory[len(d.memory)-1]
		d.memory = d.memory[:len(d.memory)-1]
	case 0x2c, 0x2d: // the signing of the return address changes; walkers remove the signature
		if d.s.Arch == "arm64" || d.s.Arch == "arm64e" {
			break
		}
		return d.stop("instruction %#x is not known", op)
	case 0x2e: // GNU_args_size
		c.uleb()
	default:
		if !d.defineFrame(op, c, e) && !d.defineRule(op, c, e) {
			return d.stop("instruction %#x is not known", op)
		}
	}
	return true, nil
}

// moveLocation executes an instruction that changes the address.
func (d *frames) moveLocation(op byte, c *cursor, e *cie, common bool) (more bool, err error) {
	var n uint64
	switch op {
	case 0x01: // set_loc
		encoding := byte(0)
		if d.eh {
			encoding = e.encoding
		}
		to, err := d.pointer(c, encoding, e.addressSize)
		if err != nil || to < d.location || common {
			return d.stop("the address cannot be read")
		}
		if to > d.location && !c.short {
			return d.flush(min(to, d.end)), nil
		}
		return true, nil
	case 0x02: // advance_loc1
		n = c.uint(1)
	case 0x03: // advance_loc2
		n = c.uint(2)
	case 0x04: // advance_loc4
		n = c.uint(4)
	case 0x1d: // MIPS_advance_loc8
		n = c.uint(8)
	}
	switch {
	case c.short:
		return true, nil // execute reports it
	case common:
		return d.stop("the common entry changes the address")
	}
	return d.advance(n, e), nil
}

// defineRule executes an instruction that says where the value of a register is. It returns
// false for other instructions.
func (d *frames) defineRule(op byte, c *cursor, e *cie) bool {
	switch op {
	case 0x05: // offset_extended
		reg := c.uleb()
		d.save(reg, int64(c.uleb())*e.dataAlign, ruleSaved)
	case 0x06: // restore_extended
		d.restore(c.uleb())
	case 0x07: // undefined
		d.save(c.uleb(), 0, ruleUndefined)
	case 0x08: // same_value
		d.save(c.uleb(), 0, ruleSame)
	case 0x09: // register
		d.inRegister(c.uleb(), c.uleb())
	case 0x10: // expression
		reg := c.uleb()
		d.expression(reg, c.bytes(c.uleb()), e, true)
	case 0x11: // offset_extended_sf
		reg := c.uleb()
		d.save(reg, c.sleb()*e.dataAlign, ruleSaved)
	case 0x14: // val_offset
		reg := c.uleb()
		d.save(reg, int64(c.uleb())*e.dataAlign, ruleCFA)
	case 0x15: // val_offset_sf
		reg := c.uleb()
		d.save(reg, c.sleb()*e.dataAlign, ruleCFA)
	case 0x16: // val_expression
		reg := c.uleb()
		d.expression(reg, c.bytes(c.uleb()), e, false)
	case 0x2f: // GNU_negative_offset_extended
		reg := c.uleb()
		d.save(reg, -int64(c.uleb())*e.dataAlign, ruleSaved)
	default:
		return false
	}
	return true
}

// inRegister sets the rule of a register whose value is in another one.
func (d *frames) inRegister(reg, from uint64) {
	i, known := d.m.number(reg)
	j, source := d.m.number(from)
	switch {
	case !known:
	case !source || d.m.style.names[j] == "":
		d.set(i, rule{kind: ruleUndefined})
	default:
		d.set(i, rule{kind: ruleReg, reg: j})
	}
}

// defineFrame executes an instruction that says where the frame (CFA) is. It returns false
// for other instructions.
func (d *frames) defineFrame(op byte, c *cursor, e *cie) bool {
	switch op {
	case 0x0c: // def_cfa
		reg := c.uleb()
		d.defineCFA(reg, int64(c.uleb()))
	case 0x0d: // def_cfa_register
		switch reg := c.uleb(); {
		case d.now.cfa.kind == ruleReg:
			d.defineCFA(reg, d.now.cfa.n)
		case d.now.cfa == noCFA: // compilers for MIPS
			d.defineCFA(reg, 0)
		default:
			d.now.cfa = rule{kind: ruleUndefined}
		}
	case 0x0e: // def_cfa_offset
		d.offsetCFA(int64(c.uleb()))
	case 0x0f: // def_cfa_expression
		d.expressionCFA(c.bytes(c.uleb()), e)
	case 0x12: // def_cfa_sf
		reg := c.uleb()
		d.defineCFA(reg, c.sleb()*e.dataAlign)
	case 0x13: // def_cfa_offset_sf
		d.offsetCFA(c.sleb() * e.dataAlign)
	default:
		return false
	}
	return true
}

// offsetCFA changes the distance of the CFA from its register.
func (d *frames) offsetCFA(n int64) {
	if d.now.cfa.kind == ruleReg {
		d.now.cfa.n = n
	} else {
		d.now.cfa = rule{kind: ruleUndefined}
	}
}

package stackwalk

// maxGap is the largest distance between a saved frame pointer and the frame it points to.
const maxGap = 128 << 10

// byFramePointer finds the caller by the frame pointer.
func (k *walk) byFramePointer(f *Frame) (Frame, bool) {
	switch k.m {
	case x86:
		return x86FramePointer(k, f)
	case x64:
		return x64FramePointer(k, f)
	case arm:
		return armFramePointer(k, f)
	}
	return arm64FramePointer(k, f)
}

// byPointer returns the caller with the three registers that a frame pointer leads to.
func (k *walk) byPointer(pc, sp, fp uint64) (c Frame) {
	c = Frame{Trust: FramePointer, Registers: Registers{m: k.m}}
	c.Registers.set(k.m.pc, pc)
	c.Registers.set(k.m.sp, sp)
	c.Registers.set(k.m.fp, fp)
	return c
}

// record reads what a function stores first: the frame pointer of its caller and, above it, the
// return address.
func (k *walk) record(at uint64) (fp, pc uint64, ok bool) {
	size := uint64(k.m.word)
	if at >= 1<<(8*size-1)<<1-1-2*size {
		return 0, 0, false
	}
	fp, ok1 := k.word(at)
	pc, ok2 := k.word(at + size)
	return fp, pc, ok1 && ok2
}

// x86FramePointer follows ebp. Nothing is tested: code without rules often keeps ebp as it was, so
// that the chain leads to a caller, if not to the nearest.
func x86FramePointer(k *walk, f *Frame) (Frame, bool) {
	if !f.Registers.has(x86.fp) {
		return Frame{}, false
	}
	at := f.Registers.v[x86.fp]
	fp, pc, ok := k.record(at)
	return k.byPointer(pc, at+8, fp), ok
}

// x64FramePointer follows rbp if what it points to looks like a frame. On Windows, rbp points up to
// 240 bytes below the frame, in steps of 16.
func x64FramePointer(k *walk, f *Frame) (Frame, bool) {
	if !f.Registers.has(x64.fp) {
		return Frame{}, false
	}
	last := uint64(0)
	if k.p.OS == "windows" {
		last = 240
	}
	for off := uint64(0); off <= last; off += 16 {
		at := f.Registers.v[x64.fp] + off
		fp, pc, ok := k.record(at)
		if !ok {
			return Frame{}, false
		}
		sp := at + 16
		if fp < sp {
			continue
		}
		if _, ok := k.word(fp); !ok {
			return Frame{}, false
		}
		if _, ok := k.word(sp); !ok || x64.outside(pc) || sp <= f.SP {
			continue
		}
		return k.byPointer(pc, sp, fp), true
	}
	return Frame{}, false
}

// armFramePointer follows r7 on Apple's systems, whose frames are all alike. Elsewhere it follows r11
// only to what looks like a frame of Clang.
func armFramePointer(k *walk, f *Frame) (Frame, bool) {
	const appleFP = 7
	apple := k.p.OS == "ios" || k.p.OS == "macos"
	from := arm.fp
	if apple {
		from = appleFP
	}
	if !f.Registers.has(from) {
		return Frame{}, false
	}
	at := f.Registers.v[from]
	if at == 0 {
		return k.byPointer(0, f.SP, 0), apple
	}
	fp, pc, ok := k.record(at)
	if !ok || !apple && (at < f.SP || fp <= at || !k.code(pc)) {
		return Frame{}, false
	}
	c := k.byPointer(pc, at+8, fp)
	if apple {
		c.Registers.forget(arm.fp)
		c.Registers.set(appleFP, fp)
	}
	return c, true
}

// arm64FramePointer follows x29. The link register of the caller is in the caller's own frame.
func arm64FramePointer(k *walk, f *Frame) (Frame, bool) {
	if !f.Registers.has(arm64.fp) {
		return Frame{}, false
	}
	at := f.Registers.v[arm64.fp]
	if at == 0 {
		return k.byPointer(0, f.SP, 0), true // the end of the stack
	}
	fp, pc, ok := k.record(at)
	if fp, pc = fp&k.mask, pc&k.mask; !ok || arm64.outside(pc) {
		return Frame{}, false
	}
	c := k.byPointer(pc, at+16, fp)
	if fp != 0 {
		if _, lr, ok := k.record(fp); ok {
			c.Registers.set(arm64.lr, lr&k.mask)
		}
	}
	return c, true
}

// byScan takes the first word of the stack that may be a return address.
func (k *walk) byScan(f *Frame) (Frame, bool) {
	n := uint64(shortScan)
	if f.Trust == Context || f.Trust == CFI {
		n = longScan
	}
	size := uint64(k.m.word)
	for i := range n {
		at := f.SP + i*size
		pc, ok := k.word(at)
		if !ok || at < f.SP {
			return Frame{}, false
		}
		if !k.code(pc) {
			continue
		}
		c := Frame{Trust: Scan, Registers: Registers{m: k.m}}
		c.Registers.set(k.m.pc, pc)
		c.Registers.set(k.m.sp, at+size)
		if i > 0 && k.m.lr < 0 {
			if fp, ok := k.scannedPointer(f, at); ok {
				c.Registers.set(k.m.fp, fp)
			}
		}
		return c, true
	}
	return Frame{}, false
}

// scannedPointer returns the frame pointer of a caller on x86 and x64 whose return address is at an
// address: the word below it, if that may be a saved one, or the callee's.
func (k *walk) scannedPointer(f *Frame, at uint64) (uint64, bool) {
	below := at - uint64(k.m.word)
	own, has := f.Registers.v[k.m.fp], f.Registers.has(k.m.fp)
	if k.m == x64 && !has {
		return 0, false
	}
	fp, _ := k.word(below)
	if fp > at && fp-below <= maxGap && (k.m == x86 || own == below) {
		_, ok := k.word(fp)
		return fp, ok
	}
	if !has || own < at+uint64(k.m.word) {
		return 0, false
	}
	_, ok := k.word(own)
	return own, ok || k.m == x64
}

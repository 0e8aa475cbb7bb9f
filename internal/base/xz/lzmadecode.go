package xz

// The state of the range coder is passed and returned by all functions here, so that it
// stays in registers, and the decoding of a bit is written out where it is needed: these
// loops are nearly all of the time of unpacking a package. Bits that are hard to foresee
// are decoded without a branch.

// literal decodes a literal that follows another one.
func literal(probs *[0x400]uint16, in *[inMask + 1]byte, rng, code uint32, ip int) (byte, uint32, uint32, int) {
	sym, p := uint32(1), uint32(probs[1])
	for sym < 0x100 {
		next := sym << 1
		p0, p1 := uint32(probs[next]), uint32(probs[next+1])
		if rng < 1<<24 {
			rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
		}
		bound := rng >> 11 * p
		less := int64(code) - int64(bound)
		zero := uint32(less >> 63) // all ones if the bit is 0
		probs[sym] = uint16(int32(p) - int32(p+zero&(1<<32-2017))>>5)
		p = p1 ^ (p0^p1)&zero
		sym = next + 1 + zero
		code = uint32(less) + bound&zero
		rng -= bound
		rng ^= (bound ^ rng) & zero
	}
	return byte(sym), rng, code, ip
}

// matchedLiteral decodes a literal that follows a match. match is the byte that would have
// been the next of the match.
func matchedLiteral(probs *[0x400]uint16, in *[inMask + 1]byte, rng, code uint32, ip int, match uint32) (byte, uint32, uint32, int) {
	sym, offset := uint32(1), uint32(0x100) // offset is 0 behind the first bit that is not that of match
	match <<= 1
	matched := match & offset
	at := offset + matched + sym
	p := uint32(probs[at&0x3ff])
	for sym < 0x100 {
		match <<= 1
		offset0, offset1 := offset&^matched, matched
		matched0, matched1 := match&offset0, match&offset1
		at0, at1 := offset0+matched0+sym<<1, offset1+matched1+sym<<1+1
		p0, p1 := uint32(probs[at0&0x3ff]), uint32(probs[at1&0x3ff])
		if rng < 1<<24 {
			rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
		}
		bound := rng >> 11 * p
		less := int64(code) - int64(bound)
		zero := uint32(less >> 63) // all ones if the bit is 0
		probs[at&0x3ff] = uint16(int32(p) - int32(p+zero&(1<<32-2017))>>5)
		p = p1 ^ (p0^p1)&zero
		at = at1 ^ (at0^at1)&zero
		sym = sym<<1 + 1 + zero
		offset &= matched ^ zero
		matched = match & offset
		code = uint32(less) + bound&zero
		rng -= bound
		rng ^= (bound ^ rng) & zero
	}
	return byte(sym), rng, code, ip
}

// decode decodes the length of a match.
func (l *lengths) decode(in *[inMask + 1]byte, rng, code uint32, ip int, posState uint32) (int, uint32, uint32, int) {
	if rng < 1<<24 {
		rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
	}
	if p, bound := uint32(l.choice), rng>>11*uint32(l.choice); code < bound {
		rng, l.choice = bound, uint16(p+(2048-p)>>5)
		return few(&l.low[posState&15], in, rng, code, ip, 2)
	} else {
		rng, code, l.choice = rng-bound, code-bound, uint16(p-p>>5)
	}
	if rng < 1<<24 {
		rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
	}
	if p, bound := uint32(l.choice2), rng>>11*uint32(l.choice2); code < bound {
		rng, l.choice2 = bound, uint16(p+(2048-p)>>5)
		return few(&l.mid[posState&15], in, rng, code, ip, 10)
	} else {
		rng, code, l.choice2 = rng-bound, code-bound, uint16(p-p>>5)
	}
	n, rng, code, ip := literal(&l.high, in, rng, code, ip)
	return int(n) + 18, rng, code, ip
}

// few decodes one of eight lengths, the least of which is least.
func few(probs *[16]uint16, in *[inMask + 1]byte, rng, code uint32, ip, least int) (int, uint32, uint32, int) {
	sym, p := uint32(1), uint32(probs[1])
	for sym < 8 {
		next := sym << 1
		p0, p1 := uint32(probs[next]), uint32(probs[next+1])
		if rng < 1<<24 {
			rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
		}
		bound := rng >> 11 * p
		less := int64(code) - int64(bound)
		zero := uint32(less >> 63) // all ones if the bit is 0
		probs[sym] = uint16(int32(p) - int32(p+zero&(1<<32-2017))>>5)
		p = p1 ^ (p0^p1)&zero
		sym = next + 1 + zero
		code = uint32(less) + bound&zero
		rng -= bound
		rng ^= (bound ^ rng) & zero
	}
	return int(sym) - 8 + least, rng, code, ip
}

// distance decodes the distance of a match of n bytes, less one.
func (d *probabilities) distance(in *[inMask + 1]byte, rng, code uint32, ip, n int) (uint32, uint32, uint32, int) {
	slot, rng, code, ip := slot(&d.slot[min(n-2, 3)&3], in, rng, code, ip)
	if slot < 4 {
		return slot, rng, code, ip
	}
	bits := slot>>1 - 1
	dist := 2 | slot&1
	if slot < 14 {
		return d.near(in, rng, code, ip, dist<<bits, dist<<bits-slot+1, bits)
	}
	dist, rng, code, ip = direct(in, rng, code, ip, dist, bits-4)
	low, rng, code, ip := align(&d.align, in, rng, code, ip)
	return dist<<4 + low, rng, code, ip
}

// slot decodes the two highest bits of a distance, and how many bits it has.
func slot(probs *[128]uint16, in *[inMask + 1]byte, rng, code uint32, ip int) (uint32, uint32, uint32, int) {
	sym, p := uint32(1), uint32(probs[1])
	for sym < 64 {
		next := sym << 1
		p0, p1 := uint32(probs[next]), uint32(probs[next+1])
		if rng < 1<<24 {
			rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
		}
		bound := rng >> 11 * p
		less := int64(code) - int64(bound)
		zero := uint32(less >> 63) // all ones if the bit is 0
		probs[sym] = uint16(int32(p) - int32(p+zero&(1<<32-2017))>>5)
		p = p1 ^ (p0^p1)&zero
		sym = next + 1 + zero
		code = uint32(less) + bound&zero
		rng -= bound
		rng ^= (bound ^ rng) & zero
	}
	return sym - 64, rng, code, ip
}

// near adds the low bits of a distance, beginning with the lowest. at is the first node of
// their tree: in any order of the nodes, each has a place of its own.
func (d *probabilities) near(in *[inMask + 1]byte, rng, code uint32, ip int, dist, at, bits uint32) (uint32, uint32, uint32, int) {
	for bit := uint32(1); bit>>(bits&31) == 0; bit <<= 1 {
		p := uint32(d.special[at&127])
		if rng < 1<<24 {
			rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
		}
		bound := rng >> 11 * p
		less := int64(code) - int64(bound)
		zero := uint32(less >> 63) // all ones if the bit is 0
		d.special[at&127] = uint16(int32(p) - int32(p+zero&(1<<32-2017))>>5)
		at += bit + bit&^zero
		dist += bit &^ zero
		code = uint32(less) + bound&zero
		rng -= bound
		rng ^= (bound ^ rng) & zero
	}
	return dist, rng, code, ip
}

// align decodes the four lowest bits of a long distance, beginning with the lowest. The order
// of the nodes is that of near.
func align(probs *[64]uint16, in *[inMask + 1]byte, rng, code uint32, ip int) (uint32, uint32, uint32, int) {
	at, p := uint32(1), uint32(probs[1])
	for bit := uint32(1); bit < 16; {
		above := bit << 1
		p0, p1 := uint32(probs[(at+bit)&63]), uint32(probs[(at+above)&63])
		if rng < 1<<24 {
			rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
		}
		bound := rng >> 11 * p
		less := int64(code) - int64(bound)
		zero := uint32(less >> 63) // all ones if the bit is 0
		probs[at&63] = uint16(int32(p) - int32(p+zero&(1<<32-2017))>>5)
		p = p1 ^ (p0^p1)&zero
		at += above - bit&zero
		bit = above
		code = uint32(less) + bound&zero
		rng -= bound
		rng ^= (bound ^ rng) & zero
	}
	return at - 16, rng, code, ip
}

// direct appends n bits that have no probabilities to a number. It is a function of its own
// because the compiler then makes a conditional move of the subtraction.
//
//go:noinline
func direct(in *[inMask + 1]byte, rng, code uint32, ip int, number, n uint32) (uint32, uint32, uint32, int) {
	for range n {
		if rng < 1<<24 {
			rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
		}
		rng >>= 1
		less := code - rng
		number = number<<1 + 1 + uint32((int64(code)-int64(rng))>>63)
		if code >= rng {
			code = less
		}
	}
	return number, rng, code, ip
}

// oneByte is the result of earlier for a match of one byte.
const oneByte = 4

// earlier decodes which of the last four distances a match has, 0 for the latest; or that
// the match is one byte at the latest.
func (d *probabilities) earlier(in *[inMask + 1]byte, rng, code uint32, ip int, state, posState uint32) (int, uint32, uint32, int) {
	if rng < 1<<24 {
		rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
	}
	if p, bound := uint32(d.isRep0[state&15]), rng>>11*uint32(d.isRep0[state&15]); code < bound {
		rng, d.isRep0[state&15] = bound, uint16(p+(2048-p)>>5)
		if rng < 1<<24 {
			rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
		}
		long := &d.isRep0Long[state&15][posState&15]
		if p, bound := uint32(*long), rng>>11*uint32(*long); code < bound {
			rng, *long = bound, uint16(p+(2048-p)>>5)
			return oneByte, rng, code, ip
		} else {
			rng, code, *long = rng-bound, code-bound, uint16(p-p>>5)
			return 0, rng, code, ip
		}
	} else {
		rng, code, d.isRep0[state&15] = rng-bound, code-bound, uint16(p-p>>5)
	}
	if rng < 1<<24 {
		rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
	}
	if p, bound := uint32(d.isRep1[state&15]), rng>>11*uint32(d.isRep1[state&15]); code < bound {
		rng, d.isRep1[state&15] = bound, uint16(p+(2048-p)>>5)
		return 1, rng, code, ip
	} else {
		rng, code, d.isRep1[state&15] = rng-bound, code-bound, uint16(p-p>>5)
	}
	if rng < 1<<24 {
		rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
	}
	if p, bound := uint32(d.isRep2[state&15]), rng>>11*uint32(d.isRep2[state&15]); code < bound {
		rng, d.isRep2[state&15] = bound, uint16(p+(2048-p)>>5)
		return 2, rng, code, ip
	} else {
		rng, code, d.isRep2[state&15] = rng-bound, code-bound, uint16(p-p>>5)
		return 3, rng, code, ip
	}
}

// after returns the state after a match: what came before it was a literal or not.
func after(state, literal, other uint32) uint32 {
	if state < 7 {
		return literal
	}
	return other
}

// run decodes until pos is limit, or the chunk is damaged; then it returns false.
func (d *lzma) run(limit int) bool {
	buf, in := d.buf, &d.in
	rng, code, ip := d.rng, d.code, d.ip
	pos, state, n := d.pos, d.state, d.left
	rep0, rep1, rep2, rep3 := d.rep[0], d.rep[1], d.rep[2], d.rep[3]
	for ip <= d.inEnd {
		if n > 0 {
			m := min(n, limit-pos)
			if from := pos - int(rep0) - 1; m <= 16 && m <= int(rep0)+1 && from >= 0 && rep0 < uint32(d.dict) && pos+16 <= len(buf) {
				// Short matches are frequent, and what is behind them is written again.
				*(*[16]byte)(buf[pos:]) = *(*[16]byte)(buf[from:])
			} else if !d.repeat(pos, int(rep0)+1, m) {
				return false
			}
			pos += m
			n -= m
		}
		if pos >= limit {
			if rng < 1<<24 {
				rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
			}
			d.rng, d.code, d.ip = rng, code, ip
			d.pos, d.state, d.left = pos, state, n
			d.rep = [4]uint32{rep0, rep1, rep2, rep3}
			return true
		}
		posState := uint32(pos) & d.posMask & 15
		if rng < 1<<24 {
			rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
		}
		if p, bound := uint32(d.isMatch[state&15][posState]), rng>>11*uint32(d.isMatch[state&15][posState]); code < bound {
			rng, d.isMatch[state&15][posState] = bound, uint16(p+(2048-p)>>5)
			var prev uint32
			if pos > 0 {
				prev = uint32(buf[pos-1])
			} else {
				prev = uint32(d.last())
			}
			probs := &d.literal[(uint32(pos)&d.lpMask<<d.lc+prev>>(8-d.lc))&15]
			if state < 7 {
				buf[pos], rng, code, ip = literal(probs, in, rng, code, ip)
				state = max(state, 3) - 3
			} else {
				from := pos - int(rep0) - 1
				if from < 0 {
					if from += len(buf); from < 0 {
						return false // the history has no such byte
					}
				}
				buf[pos], rng, code, ip = matchedLiteral(probs, in, rng, code, ip, uint32(buf[from]))
				if state -= 3; state >= 7 {
					state -= 3
				}
			}
			pos++
			continue
		} else {
			rng, code, d.isMatch[state&15][posState] = rng-bound, code-bound, uint16(p-p>>5)
		}
		if rng < 1<<24 {
			rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
		}
		if p, bound := uint32(d.isRep[state&15]), rng>>11*uint32(d.isRep[state&15]); code < bound {
			rng, d.isRep[state&15] = bound, uint16(p+(2048-p)>>5)
			// A match with a distance of its own.
			rep3, rep2, rep1 = rep2, rep1, rep0
			n, rng, code, ip = d.matchLen.decode(in, rng, code, ip, posState)
			rep0, rng, code, ip = d.distance(in, rng, code, ip, n)
			state = after(state, 7, 10)
			continue
		} else {
			rng, code, d.isRep[state&15] = rng-bound, code-bound, uint16(p-p>>5)
		}
		var which int
		switch which, rng, code, ip = d.earlier(in, rng, code, ip, state, posState); which {
		case oneByte:
			n = 1
			state = after(state, 9, 11)
			continue
		case 1:
			rep0, rep1 = rep1, rep0
		case 2:
			rep0, rep1, rep2 = rep2, rep0, rep1
		case 3:
			rep0, rep1, rep2, rep3 = rep3, rep0, rep1, rep2
		}
		// A match with an earlier distance.
		n, rng, code, ip = d.repLen.decode(in, rng, code, ip, posState)
		state = after(state, 8, 11)
	}
	return false
}

// repeat copies m bytes from dist bytes ahead of pos. It returns false if the history has
// none so far back.
func (d *lzma) repeat(pos, dist, m int) bool {
	if dist > d.full(pos) {
		return false
	}
	buf := d.buf
	from := pos - dist
	if from < 0 {
		from += len(buf)
	}
	switch {
	case from+m <= len(buf) && (m <= dist || from > pos):
		copy(buf[pos:pos+m], buf[from:from+m])
	case from < pos:
		for end := pos + m; pos < end; { // what was copied is a part of the source
			pos += copy(buf[pos:end], buf[from:pos])
		}
	default:
		for range m {
			buf[pos] = buf[from]
			pos++
			if from++; from == len(buf) {
				from = 0
			}
		}
	}
	return true
}

package xz

// run decodes until pos is limit, or the chunk is damaged; then it returns false. The
// range coder is written out at each bit, because its state must stay in registers: this
// loop is nearly all of the time of unpacking a package.
//
//nolint:gocyclo,funlen,maintidx // see above
func (d *lzma) run(limit int) bool {
	buf, in := d.buf, &d.in
	rng, code, ip := d.rng, d.code, d.ip
	pos, state := d.pos, d.state
	rep0, rep1, rep2, rep3 := d.rep[0], d.rep[1], d.rep[2], d.rep[3]
	n := d.left // bytes of a match that are still to be copied
	prev := d.last()
	ok := false
	for {
		if n > 0 {
			// Copy from the history.
			dist := int(rep0) + 1
			if dist > d.full(pos) {
				break
			}
			m := min(n, limit-pos)
			n -= m
			from := pos - dist
			if from < 0 {
				from += len(buf)
			}
			switch {
			case m <= 16 && m <= dist && from+16 <= len(buf) && pos+16 <= len(buf):
				// Short matches are frequent, and what is behind them is written again.
				*(*[16]byte)(buf[pos:]) = *(*[16]byte)(buf[from:])
				pos += m
			case from+m <= len(buf) && (m <= dist || from > pos):
				pos += copy(buf[pos:pos+m], buf[from:from+m])
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
			prev = buf[pos-1]
		}
		if pos >= limit {
			ok = true
			break
		}
		if ip > d.inEnd {
			break
		}
		posState := uint32(pos) & d.posMask & 15
		if rng < 1<<24 {
			rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
		}
		if p, bound := uint32(d.isMatch[state&15][posState]), rng>>11*uint32(d.isMatch[state&15][posState]); code < bound {
			rng, d.isMatch[state&15][posState] = bound, uint16(p+(2048-p)>>5)
			probs := &d.literal[(uint32(pos)&d.lpMask<<d.lc+uint32(prev)>>(8-d.lc))&15]
			if state < 7 {
				sym := uint32(1)
				for range 8 {
					if rng < 1<<24 {
						rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
					}
					{
						p := uint32(probs[sym&0x3ff])
						bound := rng >> 11 * p
						zero := uint32((int64(code) - int64(bound)) >> 63) // all ones if the bit is 0
						rng = bound&zero | (rng-bound)&^zero
						code -= bound &^ zero
						probs[sym&0x3ff] = uint16(int32(p) - int32(p+zero&(1<<32-2017))>>5)
						sym = sym<<1 + 1 + zero
					}
				}
				prev = byte(sym)
			} else {
				from := pos - int(rep0) - 1
				if from < 0 {
					if from += len(buf); from < 0 {
						return false // the history has no such byte
					}
				}
				match := uint32(buf[from]) << 1
				offset := uint32(0x100)
				sym := uint32(1)
				for range 8 {
					at := (offset + match&offset + sym) & 0x3ff
					matched := match & offset
					if rng < 1<<24 {
						rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
					}
					p := uint32(probs[at])
					bound := rng >> 11 * p
					zero := uint32((int64(code) - int64(bound)) >> 63) // all ones if the bit is 0
					rng = bound&zero | (rng-bound)&^zero
					code -= bound &^ zero
					probs[at] = uint16(int32(p) - int32(p+zero&(1<<32-2017))>>5)
					sym = sym<<1 + 1 + zero
					offset &= matched ^ zero
					match <<= 1
				}
				prev = byte(sym)
			}
			buf[pos] = prev
			pos++
			switch {
			case state < 4:
				state = 0
			case state < 10:
				state -= 3
			default:
				state -= 6
			}
			continue

		} else {
			rng, code, d.isMatch[state&15][posState] = rng-bound, code-bound, uint16(p-p>>5)

		}
		lens := &d.matchLen
		if rng < 1<<24 {
			rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
		}
		if p, bound := uint32(d.isRep[state&15]), rng>>11*uint32(d.isRep[state&15]); code < bound {
			rng, d.isRep[state&15] = bound, uint16(p+(2048-p)>>5)
			// A match with a distance of its own.
			rep3, rep2, rep1 = rep2, rep1, rep0
			if state < 7 {
				state = 7
			} else {
				state = 10
			}
			if rng < 1<<24 {
				rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
			}
			if p, bound := uint32(lens.choice), rng>>11*uint32(lens.choice); code < bound {
				rng, lens.choice = bound, uint16(p+(2048-p)>>5)
				probs := &lens.low[posState]
				sym := uint32(1)
				for range 3 {
					if rng < 1<<24 {
						rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
					}
					if p, bound := uint32(probs[sym&7]), rng>>11*uint32(probs[sym&7]); code < bound {
						rng, probs[sym&7] = bound, uint16(p+(2048-p)>>5)
						sym <<= 1
					} else {
						rng, code, probs[sym&7] = rng-bound, code-bound, uint16(p-p>>5)
						sym = sym<<1 | 1
					}
				}
				n = int(sym) - 8 + 2
			} else {
				rng, code, lens.choice = rng-bound, code-bound, uint16(p-p>>5)
				if rng < 1<<24 {
					rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
				}
				if p, bound := uint32(lens.choice2), rng>>11*uint32(lens.choice2); code < bound {
					rng, lens.choice2 = bound, uint16(p+(2048-p)>>5)
					probs := &lens.mid[posState]
					sym := uint32(1)
					for range 3 {
						if rng < 1<<24 {
							rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
						}
						if p, bound := uint32(probs[sym&7]), rng>>11*uint32(probs[sym&7]); code < bound {
							rng, probs[sym&7] = bound, uint16(p+(2048-p)>>5)
							sym <<= 1
						} else {
							rng, code, probs[sym&7] = rng-bound, code-bound, uint16(p-p>>5)
							sym = sym<<1 | 1
						}
					}
					n = int(sym) - 8 + 10
				} else {
					rng, code, lens.choice2 = rng-bound, code-bound, uint16(p-p>>5)
					probs := &lens.high
					sym := uint32(1)
					for range 8 {
						if rng < 1<<24 {
							rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
						}
						if p, bound := uint32(probs[sym&255]), rng>>11*uint32(probs[sym&255]); code < bound {
							rng, probs[sym&255] = bound, uint16(p+(2048-p)>>5)
							sym <<= 1
						} else {
							rng, code, probs[sym&255] = rng-bound, code-bound, uint16(p-p>>5)
							sym = sym<<1 | 1
						}
					}
					n = int(sym) - 256 + 18
				}

			}
			slots := &d.slot[min(n-2, 3)]
			slot := uint32(1)
			for range 6 {
				if rng < 1<<24 {
					rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
				}
				if p, bound := uint32(slots[slot&63]), rng>>11*uint32(slots[slot&63]); code < bound {
					rng, slots[slot&63] = bound, uint16(p+(2048-p)>>5)
					slot <<= 1
				} else {
					rng, code, slots[slot&63] = rng-bound, code-bound, uint16(p-p>>5)
					slot = slot<<1 | 1
				}
			}
			slot -= 64
			if slot < 4 {
				rep0 = slot
			} else {
				bits := slot>>1 - 1
				rep0 = 2 | slot&1
				if slot < 14 {
					rep0 <<= bits
					base := rep0 - slot
					sym := uint32(1)
					for i := range bits {
						if rng < 1<<24 {
							rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
						}
						if p, bound := uint32(d.special[(base+sym)&127]), rng>>11*uint32(d.special[(base+sym)&127]); code < bound {
							rng, d.special[(base+sym)&127] = bound, uint16(p+(2048-p)>>5)
							sym <<= 1
						} else {
							rng, code, d.special[(base+sym)&127] = rng-bound, code-bound, uint16(p-p>>5)
							sym = sym<<1 | 1
							rep0 += 1 << i
						}
					}
				} else {
					for range bits - 4 {
						if rng < 1<<24 {
							rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
						}
						rng >>= 1
						zero := uint32((int64(code) - int64(rng)) >> 63)
						code -= rng &^ zero
						rep0 = rep0<<1 + 1 + zero
					}
					rep0 <<= 4
					sym := uint32(1)
					for i := range 4 {
						if rng < 1<<24 {
							rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
						}
						if p, bound := uint32(d.align[sym&15]), rng>>11*uint32(d.align[sym&15]); code < bound {
							rng, d.align[sym&15] = bound, uint16(p+(2048-p)>>5)
							sym <<= 1
						} else {
							rng, code, d.align[sym&15] = rng-bound, code-bound, uint16(p-p>>5)
							sym = sym<<1 | 1
							rep0 += 1 << i
						}
					}
				}
			}
			continue

		} else {
			rng, code, d.isRep[state&15] = rng-bound, code-bound, uint16(p-p>>5)
			lens = &d.repLen

		}
		// A match with an earlier distance.
		if rng < 1<<24 {
			rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
		}
		if p, bound := uint32(d.isRep0[state&15]), rng>>11*uint32(d.isRep0[state&15]); code < bound {
			rng, d.isRep0[state&15] = bound, uint16(p+(2048-p)>>5)
			if rng < 1<<24 {
				rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
			}
			if p, bound := uint32(d.isRep0Long[state&15][posState]), rng>>11*uint32(d.isRep0Long[state&15][posState]); code < bound {
				rng, d.isRep0Long[state&15][posState] = bound, uint16(p+(2048-p)>>5)
				if state < 7 {
					state = 9
				} else {
					state = 11
				}
				n = 1
				continue

			} else {
				rng, code, d.isRep0Long[state&15][posState] = rng-bound, code-bound, uint16(p-p>>5)

			}

		} else {
			rng, code, d.isRep0[state&15] = rng-bound, code-bound, uint16(p-p>>5)
			if rng < 1<<24 {
				rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
			}
			if p, bound := uint32(d.isRep1[state&15]), rng>>11*uint32(d.isRep1[state&15]); code < bound {
				rng, d.isRep1[state&15] = bound, uint16(p+(2048-p)>>5)
				rep0, rep1 = rep1, rep0
			} else {
				rng, code, d.isRep1[state&15] = rng-bound, code-bound, uint16(p-p>>5)
				if rng < 1<<24 {
					rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
				}
				if p, bound := uint32(d.isRep2[state&15]), rng>>11*uint32(d.isRep2[state&15]); code < bound {
					rng, d.isRep2[state&15] = bound, uint16(p+(2048-p)>>5)
					rep0, rep1, rep2 = rep2, rep0, rep1
				} else {
					rng, code, d.isRep2[state&15] = rng-bound, code-bound, uint16(p-p>>5)
					rep0, rep1, rep2, rep3 = rep3, rep0, rep1, rep2
				}

			}

		}
		if state < 7 {
			state = 8
		} else {
			state = 11
		}
		if rng < 1<<24 {
			rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
		}
		if p, bound := uint32(lens.choice), rng>>11*uint32(lens.choice); code < bound {
			rng, lens.choice = bound, uint16(p+(2048-p)>>5)
			probs := &lens.low[posState]
			sym := uint32(1)
			for range 3 {
				if rng < 1<<24 {
					rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
				}
				if p, bound := uint32(probs[sym&7]), rng>>11*uint32(probs[sym&7]); code < bound {
					rng, probs[sym&7] = bound, uint16(p+(2048-p)>>5)
					sym <<= 1
				} else {
					rng, code, probs[sym&7] = rng-bound, code-bound, uint16(p-p>>5)
					sym = sym<<1 | 1
				}
			}
			n = int(sym) - 8 + 2
		} else {
			rng, code, lens.choice = rng-bound, code-bound, uint16(p-p>>5)
			if rng < 1<<24 {
				rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
			}
			if p, bound := uint32(lens.choice2), rng>>11*uint32(lens.choice2); code < bound {
				rng, lens.choice2 = bound, uint16(p+(2048-p)>>5)
				probs := &lens.mid[posState]
				sym := uint32(1)
				for range 3 {
					if rng < 1<<24 {
						rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
					}
					if p, bound := uint32(probs[sym&7]), rng>>11*uint32(probs[sym&7]); code < bound {
						rng, probs[sym&7] = bound, uint16(p+(2048-p)>>5)
						sym <<= 1
					} else {
						rng, code, probs[sym&7] = rng-bound, code-bound, uint16(p-p>>5)
						sym = sym<<1 | 1
					}
				}
				n = int(sym) - 8 + 10
			} else {
				rng, code, lens.choice2 = rng-bound, code-bound, uint16(p-p>>5)
				probs := &lens.high
				sym := uint32(1)
				for range 8 {
					if rng < 1<<24 {
						rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
					}
					if p, bound := uint32(probs[sym&255]), rng>>11*uint32(probs[sym&255]); code < bound {
						rng, probs[sym&255] = bound, uint16(p+(2048-p)>>5)
						sym <<= 1
					} else {
						rng, code, probs[sym&255] = rng-bound, code-bound, uint16(p-p>>5)
						sym = sym<<1 | 1
					}
				}
				n = int(sym) - 256 + 18
			}

		}
	}
	if rng < 1<<24 {
		rng, code, ip = rng<<8, code<<8|uint32(in[ip&inMask]), ip+1
	}
	d.rng, d.code, d.ip = rng, code, ip
	d.pos, d.state, d.left = pos, state, n
	d.rep = [4]uint32{rep0, rep1, rep2, rep3}
	return ok
}

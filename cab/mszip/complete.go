package mszip

// completer converts the output of a flushed deflate writer to a complete stream
// that every cabinet decoder accepts. It adds a final block, and it completes
// the distance code of a block that uses no or only one distance symbol. Deflate
// allows such an incomplete code, but cabinet decoders such as cabextract reject
// it.
type completer struct {
	d   Decoder // its window is allocated on first use
	out []byte
}

// endMark is an empty final block with the fixed code.
var endMark = [2]byte{0x03, 0x00}

// fillerLens holds the lengths of the code length code in rewritten headers:
// short codes for zeros and long runs of zeros, 5 bits for all other symbols.
var fillerLens = func() (lens [19]uint8) {
	for i := range lens {
		lens[i] = 5
	}
	lens[0], lens[17], lens[18] = 3, 3, 2
	return lens
}()

// complete returns the complete stream for the flushed stream, which expands to
// size bytes that follow history. The result is valid until the next call; it is
// empty if the flushed stream cannot be completed.
func (c *completer) complete(flushed, history []byte, size int) []byte {
	c.out = c.out[:0]
	if len(flushed) > BlockSize {
		return nil // a stored block is about as short
	}
	d := &c.d
	d.load(flushed)
	d.refill()
	final, kind := d.bb&1 != 0, d.bb>>1&3
	d.drop(3)
	if final || kind == 3 {
		return nil
	}
	if kind == 2 {
		if !d.codeLengths() {
			return nil
		}
		if added := addDistances(d.lens[d.nlit : d.nlit+d.ndist]); added != nil {
			return c.rewrite(flushed, history, added, size)
		}
	}
	c.out = append(append(c.out, flushed...), endMark[:]...)
	return c.out
}

// addDistances returns the lengths of a complete distance code if lens has no or
// one used symbol, which keeps its code. Otherwise it returns nil.
func addDistances(lens []uint8) []uint8 {
	used, last := 0, 0
	for i, n := range lens {
		if n > 0 {
			used++
			last = i
		}
	}
	if used > 1 {
		return nil
	}
	all := make([]uint8, max(len(lens), 3))
	if used == 0 {
		all[0], all[1] = 1, 1
		return all
	}
	for i, n := 0, 0; n < 2; i++ {
		if i != last {
			all[i] = 2
			n++
		}
	}
	all[last] = 1
	return all
}

// rewrite replaces the distance code of the flushed block and marks the block as
// final. It decodes the block to find its end.
func (c *completer) rewrite(flushed, history []byte, distances []uint8, size int) []byte {
	d := &c.d
	if d.win == nil {
		d.win = make([]byte, historySize+BlockSize+winSlack)
	}
	d.pos = copy(d.win, history)
	from, end := d.bit(), d.pos+size
	lens := append([]uint8(nil), d.lens[:d.nlit]...)
	nlit := d.nlit
	if !build(d.lit[:], litBits, d.lens[:nlit], litEntry) || !build(d.dist[:], distBits, d.lens[nlit:nlit+d.ndist], distEntry) ||
		!d.inflate(end) || d.pos != end {
		return nil
	}
	to := d.bit()
	w := lsbWriter{out: c.out}
	w.put(1|2<<1, 3)
	w.put(nlit-257, 5)
	w.put(len(distances)-1, 5)
	w.put(19-4, 4)
	for _, sym := range lengthOrder {
		w.put(int(fillerLens[sym]), 3)
	}
	w.lengths(append(lens, distances...))
	for ; from < to; from += 8 {
		n := min(8, to-from)
		v := int(flushed[from>>3])
		if from>>3+1 < len(flushed) {
			v |= int(flushed[from>>3+1]) << 8
		}
		w.put(v>>(from&7)&(1<<n-1), n)
	}
	w.put(0, -w.n&7)
	c.out = w.out
	return c.out
}

// lsbWriter writes bits, starting at the least significant bit of each byte.
type lsbWriter struct {
	out []byte
	acc int
	n   int
}

func (w *lsbWriter) put(v, n int) {
	w.acc |= v << w.n
	w.n += n
	for w.n >= 8 {
		w.out = append(w.out, byte(w.acc))
		w.acc >>= 8
		w.n -= 8
	}
}

// lengths writes code lengths with the code of fillerLens.
func (w *lsbWriter) lengths(lens []uint8) {
	for i := 0; i < len(lens); {
		run := 0
		for i+run < len(lens) && lens[i+run] == 0 && run < 138 {
			run++
		}
		switch {
		case run >= 11:
			w.code(18)
			w.put(run-11, 7)
		case run >= 3:
			w.code(17)
			w.put(run-3, 3)
		default:
			w.code(int(lens[i]))
			run = 1
		}
		i += run
	}
}

// code writes a symbol with the code of fillerLens, most significant bit first.
func (w *lsbWriter) code(sym int) {
	var code uint32
	n := fillerLens[sym]
	for i, l := range fillerLens {
		// A canonical code is the sum of the code space of all codes before it.
		if l < n || l == n && i < sym {
			code += 1 << (5 - l)
		}
	}
	for b := range n {
		w.put(int(code>>(4-b)&1), 1)
	}
}

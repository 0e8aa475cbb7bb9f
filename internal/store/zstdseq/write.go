package zstdseq

// writer puts compressed blocks together. What a block brings, a tree and tables, counts for the blocks
// behind it only from commit on.
type writer struct {
	bits bitWriter
	mem  []byte // of descriptions, with spare bytes behind

	trees   [2]huffTree
	huffs   [2]huffEncoder
	tree    int // of the two; the other is for the next
	hasTree bool
	newTree bool

	own       [3][2]fseEncoder
	counts    [3][2]counts
	turn      [3]int
	tables    [3]*fseEncoder // nil if there is none yet
	next      [3]*fseEncoder // of the block that was written; nil if it has none
	described [3]bool        // whether the table in force has counts
}

func (w *writer) reset() {
	w.hasTree, w.newTree = false, false
	w.tables, w.next, w.described = [3]*fseEncoder{}, [3]*fseEncoder{}, [3]bool{}
}

// lastTree is the tree of the blocks before; nil if there is none.
func (w *writer) lastTree() *huffTree {
	if !w.hasTree {
		return nil
	}
	return &w.trees[w.tree]
}

// lastCounts are the counts of a table of the blocks before; nil if it was not described.
func (w *writer) lastCounts(i int) *counts {
	if !w.described[i] {
		return nil
	}
	return &w.counts[i][w.turn[i]]
}

// commit takes over what the block brought that was written last.
func (w *writer) commit(b *block) {
	if w.newTree {
		w.tree, w.hasTree, w.newTree = 1-w.tree, true, false
	}
	for i, t := range w.next {
		if t == nil {
			continue
		}
		w.tables[i], w.next[i] = t, nil
		if b.modes[i] != predefinedTable && b.modes[i] != repeatTable {
			w.turn[i] = 1 - w.turn[i]
		}
		if b.modes[i] != repeatTable {
			w.described[i] = b.modes[i] == describedTable
		}
	}
}

// padded is a copy of a description with spare bytes behind it.
func (w *writer) padded(b []byte) []byte {
	w.mem = append(append(w.mem[:0], b...), make([]byte, spare)...)
	return w.mem[:len(b)]
}

// write gives the content of a compressed block, which stays until the next call. It is false for what no
// block can have.
func (w *writer) write(b *block, literals []byte) ([]byte, bool) {
	w.bits = bitWriter{b: w.bits.b[:0]}
	w.newTree, w.next = false, [3]*fseEncoder{}
	ok := w.writeLiterals(b, literals) && w.writeSequences(b)
	return w.bits.b, ok
}

func (w *writer) writeLiterals(b *block, literals []byte) bool {
	n := len(literals)
	if b.literals == rawLiterals || b.literals == rleLiterals {
		v := uint32(b.literals) | uint32(b.form)<<2
		head := 1
		if b.form&1 == 0 {
			v |= uint32(n) << 3
		} else {
			head = 2 + int(b.form>>1)
			v |= uint32(n) << 4
		}
		w.bits.add(uint64(v), uint(8*head))
		w.bits.pad()
		if b.literals == rleLiterals {
			if n == 0 {
				return false
			}
			literals = literals[:1]
		}
		w.bits.b = append(w.bits.b, literals...)
		return v < 1<<(8*head)
	}
	huff := &w.huffs[w.tree]
	if b.literals == compressedLiterals {
		t := 1 - w.tree
		if n := w.trees[t].read(w.padded(b.tree)); n == 0 || n != len(b.tree) {
			return false
		}
		huff = &w.huffs[t]
		huff.build(&w.trees[t])
		w.newTree = true
	} else if !w.hasTree {
		return false
	}
	k := [4]uint{10, 10, 14, 18}[b.form]
	head := int(4+2*k) / 8
	at := len(w.bits.b)
	w.bits.b = append(w.bits.b, make([]byte, head)...)
	w.bits.b = append(w.bits.b, b.tree...)
	ok := w.streams(huff, literals, b.form)
	packed := len(w.bits.b) - at - head
	v := uint64(b.literals) | uint64(b.form)<<2 | uint64(n)<<4 | uint64(packed)<<(4+k)
	for i := range head {
		w.bits.b[at+i] = byte(v >> (8 * i))
	}
	return ok && n < 1<<k && packed < 1<<k
}

// streams writes literals in one stream or in four.
func (w *writer) streams(huff *huffEncoder, literals []byte, form uint8) bool {
	if form == 0 {
		return huff.append(&w.bits, literals)
	}
	at := len(w.bits.b)
	w.bits.b = append(w.bits.b, make([]byte, 6)...)
	part := (len(literals) + 3) / 4
	if 3*part > len(literals) {
		return false
	}
	ok := true
	for i := range 3 {
		from := len(w.bits.b)
		ok = huff.append(&w.bits, literals[:part]) && ok
		n := len(w.bits.b) - from
		ok = ok && n <= 0xffff
		w.bits.b[at+2*i], w.bits.b[at+2*i+1] = byte(n), byte(n>>8)
		literals = literals[part:]
	}
	return huff.append(&w.bits, literals) && ok
}

func (w *writer) writeSequences(b *block) bool {
	n := len(b.sequences)
	to := &w.bits
	switch {
	case n < 128:
		to.b = append(to.b, byte(n))
	case n < 0x7f00:
		to.b = append(to.b, byte(n>>8+128), byte(n))
	default:
		to.b = append(to.b, 255, byte(n-0x7f00), byte((n-0x7f00)>>8))
	}
	if n == 0 {
		return true
	}
	to.b = append(to.b, b.modes[literalTable]<<6|b.modes[offsetTable]<<4|b.modes[matchTable]<<2)
	last := b.sequences[n-1]
	for i, c := range [3]uint8{literalTable: literalCode(last.literals), offsetTable: offsetCode(last.off),
		matchTable: matchCode(last.length)} {
		if !w.table(b, i, c) {
			return false
		}
	}
	return w.encode(b.sequences)
}

// table makes ready one of the three tables, and writes its description. c is one of the codes that are
// used.
func (w *writer) table(b *block, i int, c uint8) bool {
	own := &w.own[i][1-w.turn[i]]
	switch b.modes[i] {
	case predefinedTable:
		w.next[i] = &predefinedEncoders[i]
	case repeatTable:
		w.next[i] = w.tables[i]
	case rleTable:
		own.one(c)
		w.bits.b = append(w.bits.b, c)
		w.next[i] = own
	case describedTable:
		counts := &w.counts[i][1-w.turn[i]]
		if n := counts.read(b.tables[i], codes[i].most, codes[i].log); n == 0 || n != len(b.tables[i]) {
			return false
		}
		own.build(counts)
		w.bits.b = append(w.bits.b, b.tables[i]...)
		w.next[i] = own
	}
	return w.next[i] != nil
}

// encode writes the sequences, the last one first.
func (w *writer) encode(sequences []seq) bool {
	lit, off, mat := w.next[literalTable], w.next[offsetTable], w.next[matchTable]
	lc, mc := &codes[literalTable], &codes[matchTable]
	to := &w.bits
	var l, o, m uint32
	for i := len(sequences) - 1; i >= 0; i-- {
		s := &sequences[i]
		x, y, z := literalCode(s.literals), offsetCode(s.off), matchCode(s.length)
		if int(x) >= lc.most || int(z) >= mc.most || !lit.has(x) || !off.has(y) || !mat.has(z) {
			return false
		}
		if i == len(sequences)-1 {
			l, o, m = lit.first(x), off.first(y), mat.first(z)
		} else {
			o = off.next(to, o, y)
			m = mat.next(to, m, z)
			l = lit.next(to, l, x)
		}
		to.add(uint64(s.literals-lc.base[x]), uint(lc.bits[x]))
		to.add(uint64(s.length-minMatch-mc.base[z]), uint(mc.bits[z]))
		to.add(uint64(s.off-1<<y), uint(y))
	}
	mat.end(to, m)
	off.end(to, o)
	lit.end(to, l)
	to.close()
	return true
}

package zstdseq

import (
	"math"
	"math/bits"
)

// chooser chooses how a block is written, as libzstd does for a strategy.
type chooser struct {
	strategy uint8 // without variants
	freq     [256]int
	tree     huffTree
	maker    huffMaker
	mem      []byte // descriptions
}

const (
	// fewLiterals are too few for a tree.
	fewLiterals = 64
	// So many literals take the tree of the block before, if it has codes for all.
	keepTree = 1024
	// Fewer literals are one stream.
	oneStream = 256
	// treeExtra is how many bytes a tree saves at least.
	treeExtra = 12
	// manyStates is the number of sequences from which on rare codes are marked in a table.
	manyStates = 2048
	// Literals are suspected to be noise if they are this often more than the sequences; then two samples of
	// them are looked at.
	suspicion  = 20
	sampleSize = 4096
)

// saved is how many bytes a block or its literals have to save.
func saved(n int) int { return n>>6 + 2 }

// choose chooses how the literals of a block and its sequences are written.
func (c *chooser) choose(b *block, literals []byte, w *writer) {
	c.mem = c.mem[:0]
	c.chooseLiterals(b, literals, w.lastTree())
	b.modes, b.tables = [3]uint8{}, [3][]byte{}
	if len(b.sequences) > 0 {
		for i := range 3 {
			c.chooseTable(b, i, w.lastCounts(i))
		}
	}
}

// keep appends what f appends, and returns that.
func (c *chooser) keep(f func(b []byte) []byte) []byte {
	from := len(c.mem)
	c.mem = f(c.mem)
	return c.mem[from:len(c.mem):len(c.mem)]
}

func (c *chooser) chooseLiterals(b *block, literals []byte, last *huffTree) {
	n := len(literals)
	b.tree = nil
	b.literals = c.literalsMode(b, literals, last)
	b.form = 0
	switch b.literals {
	case rawLiterals, rleLiterals:
		if n > 31 {
			b.form = 1
		}
		if n > 4095 {
			b.form = 3
		}
	default:
		switch {
		case n >= 16<<10:
			b.form = 3
		case n >= 1<<10:
			b.form = 2
		case n >= oneStream:
			b.form = 1
		}
	}
}

func (c *chooser) literalsMode(b *block, literals []byte, last *huffTree) uint8 {
	n := len(literals)
	if n < fewLiterals || c.noise(literals, len(b.sequences)) {
		return rawLiterals
	}
	clear(c.freq[:])
	for _, v := range literals {
		c.freq[v]++
	}
	most := 0
	for _, f := range c.freq {
		most = max(most, f)
	}
	switch {
	case most == n:
		return rleLiterals
	case most <= n>>7+4:
		return rawLiterals
	}
	if last != nil && !last.covers(&c.freq) {
		last = nil
	}
	if last != nil && c.strategy < lazyStrategy && n <= keepTree {
		return c.worth(treelessLiterals, literals, 0, last)
	}
	top := 255
	for c.freq[top] == 0 {
		top--
	}
	c.maker.make(&c.tree, &c.freq, tableLog(maxHuffLog, n, top, 1))
	ok := false
	tree := c.keep(func(b []byte) []byte {
		b, ok = c.tree.append(b)
		return b
	})
	if !ok {
		return rawLiterals
	}
	if last != nil && (last.size(&c.freq) <= len(tree)+c.tree.size(&c.freq) || len(tree)+treeExtra >= n) {
		return c.worth(treelessLiterals, literals, 0, last)
	}
	if len(tree)+treeExtra >= n {
		return rawLiterals
	}
	if mode := c.worth(compressedLiterals, literals, len(tree), &c.tree); mode != compressedLiterals {
		return mode
	}
	b.tree = tree
	return compressedLiterals
}

// noise says whether literals look as if nothing were to be saved.
func (c *chooser) noise(literals []byte, sequences int) bool {
	n := len(literals)
	if n < 10*sampleSize || sequences > 0 && n/sequences < suspicion {
		return false
	}
	most := 0
	for _, part := range [][]byte{literals[:sampleSize], literals[n-sampleSize:]} {
		clear(c.freq[:])
		for _, v := range part {
			c.freq[v]++
		}
		top := 0
		for _, f := range c.freq {
			top = max(top, f)
		}
		most += top
	}
	return most <= 2*sampleSize>>7+4
}

// worth is a mode of literals with a tree, or that of raw ones if it does not save enough. described is the
// length of the description of the tree.
func (c *chooser) worth(mode uint8, literals []byte, described int, t *huffTree) uint8 {
	n := len(literals)
	size, part := described, n
	if n >= oneStream {
		size, part = size+6, (n+3)/4
	}
	for from := 0; from < n; from += part {
		bits := 0
		for _, v := range literals[from:min(from+part, n)] {
			bits += int(t.lengths[v])
		}
		size += bits>>3 + 1
	}
	if size >= n-saved(n) {
		return rawLiterals
	}
	return mode
}

// covers says whether a tree has codes for all literals that occur.
func (t *huffTree) covers(freq *[256]int) bool {
	for s, f := range freq {
		if f > 0 && t.lengths[s] == 0 {
			return false
		}
	}
	return true
}

// size is the number of bytes that literals take.
func (t *huffTree) size(freq *[256]int) int {
	n := 0
	for s, f := range freq {
		n += f * int(t.lengths[s])
	}
	return n >> 3
}

// chooseTable chooses one of the tables of a block. last are the counts of the one before, if it was
// described.
func (c *chooser) chooseTable(b *block, i int, last *counts) {
	freq := c.freq[:codes[i].most]
	clear(freq)
	end := uint8(0)
	for _, s := range b.sequences {
		switch i {
		case literalTable:
			end = literalCode(s.literals)
		case offsetTable:
			end = offsetCode(s.off)
		case matchTable:
			end = matchCode(s.length)
		}
		freq[end]++
	}
	most := 0
	for _, f := range freq {
		most = max(most, f)
	}
	for freq[len(freq)-1] == 0 {
		freq = freq[:len(freq)-1]
	}
	n := len(b.sequences)
	common := &codes[i].predefined
	allowed := len(freq) <= len(common.n)
	switch {
	case most == n && allowed && n <= 2:
		b.modes[i] = predefinedTable
		return
	case most == n:
		b.modes[i] = rleTable
		return
	case c.strategy < lazyStrategy:
		few := 1 << common.log * (10 - int(c.strategy)) >> 3
		if allowed && (n < few || most < n>>(common.log-1)) {
			b.modes[i] = predefinedTable
			return
		}
	default:
		mode := c.cheapest(freq, n, i, last)
		if mode != describedTable {
			b.modes[i] = mode
			return
		}
	}
	b.modes[i] = describedTable
	var t counts
	total := n
	if freq[end] > 1 { // the last code needs no state before it
		freq[end]--
		total--
	}
	t.normalize(freq, total, tableLog(codes[i].log, n, len(freq)-1, 2), total >= manyStates)
	b.tables[i] = c.keep(t.append)
}

// inverseLog has -log2 of i/256, in 1/256, rounded down.
var inverseLog [256]int

func init() {
	for i := 1; i < len(inverseLog); i++ {
		inverseLog[i] = int(256 * (8 - math.Log2(float64(i))))
	}
}

// cheapest is the mode of a table that takes the fewest bits, as libzstd counts them.
func (c *chooser) cheapest(freq []int, n, i int, last *counts) uint8 {
	const none = 1 << 60
	common := &codes[i].predefined
	fixed, again := none, none
	if len(freq) <= len(common.n) {
		fixed = 0
		for s, f := range freq {
			p := max(int(common.n[s]), 1) << (8 - common.log)
			fixed += f * inverseLog[p]
		}
		fixed >>= 8
	}
	if last != nil && len(freq) <= len(last.n) {
		again = 0
		for s, f := range freq {
			if f > 0 && last.n[s] == 0 {
				again = none
				break
			}
			again += f * stateCost(last, s)
		}
		if again < none {
			again >>= 8
		}
	}
	var t counts
	described := none
	if t.normalize(freq, n, tableLog(codes[i].log, n, len(freq)-1, 2), n >= manyStates) {
		cost := 0
		for _, f := range freq {
			p := f * 256 / n
			if f > 0 && p == 0 {
				p = 1
			}
			cost += f * inverseLog[p]
		}
		described = len(t.append(nil))<<3 + cost>>8
	}
	switch {
	case fixed <= again && fixed <= described:
		return predefinedTable
	case again <= described:
		return repeatTable
	}
	return describedTable
}

// stateCost is what a symbol costs with a table, in 1/256 of a bit.
func stateCost(c *counts, symbol int) int {
	n := int(c.n[symbol])
	if n == 0 {
		return 0
	}
	if n = max(n, 1); n == 1 {
		return int(c.log) << 8
	}
	most := int(c.log) - bits.Len(uint(n-1)) + 1 // bits that are written at most
	// The states below the limit take a bit less.
	limit := n << most
	size := 1 << c.log
	return most<<8 - (limit-size)<<8/size
}

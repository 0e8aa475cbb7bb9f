package deflate

import (
	"math"
	"slices"
)

// goCodes chooses codes as compress/flate of Go does at its fastest level.
type goCodes struct {
	list  []uint64 // frequencies above symbols
	rows  [maxCode + 1][]int
	leafs [maxCode + 1][]int // how many of the first items of a row are symbols
}

// code makes a code of at most limit bits for symbols that occur freq times: the best one, by
// collecting pairs.
func (g *goCodes) code(lengths []uint8, freq []int, limit int) {
	clear(lengths)
	g.list = g.list[:0]
	for s, f := range freq {
		if f > 0 {
			g.list = append(g.list, uint64(f)<<16|uint64(s))
		}
	}
	n := len(g.list)
	if n <= 2 {
		for _, e := range g.list {
			lengths[e&0xffff] = 1
		}
		return
	}
	slices.Sort(g.list)
	limit = min(limit, n-1)
	for row := 1; row <= limit; row++ {
		g.row(row)
	}
	// The first 2n-2 items of the last row are the code: a symbol has one bit for each row
	// in which it is.
	want := 2*n - 2
	var at [maxCode + 2]int // symbols with at least that many bits
	for row, bit := limit, 1; row >= 1; row, bit = row-1, bit+1 {
		at[bit] = g.leafs[row][want]
		want = 2 * (want - at[bit])
	}
	for bit := 1; bit <= limit; bit++ {
		// The rarest symbols have the longest codes.
		for _, e := range g.list[at[bit+1]:at[bit]] {
			lengths[e&0xffff] = uint8(bit)
		}
	}
}

// row makes a row: symbols and pairs of the row before, from the rarest on.
func (g *goCodes) row(row int) {
	n := len(g.list)
	items, leafs := g.rows[row][:0], append(g.leafs[row][:0], 0)
	var below []int
	if row > 1 {
		below = g.rows[row-1]
	}
	leaf, pair := 0, 0
	for len(items) < 2*n-2 {
		f, p := math.MaxInt, math.MaxInt
		if leaf < n {
			f = int(g.list[leaf] >> 16)
		}
		if 2*pair+1 < len(below) {
			p = below[2*pair] + below[2*pair+1]
		}
		if f == math.MaxInt && p == math.MaxInt {
			break
		}
		if f < p {
			items = append(items, f)
			leaf++
		} else {
			items = append(items, p)
			pair++
		}
		leafs = append(leafs, leaf)
	}
	g.rows[row], g.leafs[row] = items, leafs
}

// goRuns is what runsOf is for zlib.
func goRuns(lengths []uint8, emit func(symbol, rest int, bits uint)) {
	for i := 0; i < len(lengths); {
		l, n := lengths[i], 1
		for i+n < len(lengths) && lengths[i+n] == l {
			n++
		}
		i += n
		if l != 0 {
			emit(int(l), 0, 0)
			n--
			for n >= 3 {
				k := min(6, n)
				emit(16, k-3, 2)
				n -= k
			}
		} else {
			for n >= 11 {
				k := min(138, n)
				emit(18, k-11, 7)
				n -= k
			}
			if n >= 3 {
				emit(17, n-3, 3)
				n = 0
			}
		}
		for ; n > 0; n-- {
			emit(int(l), 0, 0)
		}
	}
}

// choose chooses how a block of size bytes is written.
func (g *goCodes) choose(c *coding, n *counts, size int) {
	if size <= 16 {
		c.kind = stored
		c.header.reset()
		return
	}
	if bits := g.dynamic(c, n); (size+5)*8 < bits+bits>>4 {
		c.kind = stored
		c.header.reset()
	}
}

// dynamic makes codes of the block's own, and returns the bits of the block without those that
// follow its symbols.
func (g *goCodes) dynamic(c *coding, n *counts) (bits int) {
	n.lit[endBlock]++
	lits, diss := litCodes, disCodes
	for n.lit[lits-1] == 0 {
		lits--
	}
	for diss > 0 && n.dis[diss-1] == 0 {
		diss--
	}
	if diss == 0 {
		n.dis[0], diss = 1, 1
	}
	g.code(c.lit[:], n.lit[:], maxCode)
	g.code(c.dis[:], n.dis[:], maxCode)
	all := append(slices.Clone(c.lit[:lits]), c.dis[:diss]...)
	var runs [19]int
	goRuns(all, func(symbol, _ int, rest uint) {
		runs[symbol]++
		bits += int(rest)
	})
	var lens [19]uint8
	g.code(lens[:], runs[:], 7)
	k := used(lens[:])
	bits += 3 + 5 + 5 + 4 + 3*k
	for s, f := range runs {
		bits += f * int(lens[s])
	}
	for s, f := range n.lit {
		bits += f * int(c.lit[s])
	}
	for s, f := range n.dis {
		bits += f * int(c.dis[s])
	}
	c.kind = dynamic
	header(&c.header, c.lit[:lits], c.dis[:diss], lens[:], k, func(emit func(symbol, rest int, bits uint)) { goRuns(all, emit) })
	return bits
}

package zstdseq

import "math/bits"

// How libzstd makes tables of what a block has. What it does is deterministic; where another version or
// program does otherwise, a recipe has the table itself.

// tableLog is the number of bits of the states of a table for n symbols up to last: at most most, less if
// they are few, more than enough for each to have one.
func tableLog(most uint, n, last int, less int) uint {
	log := min(int(most), bits.Len(uint(n-1))-1-less)
	return uint(max(minFSELog, log, min(bits.Len(uint(n)), bits.Len(uint(last))+1)))
}

// roundUp is from which rest on the share of a rare symbol, below 8 states, is rounded up, in 2^-20.
var roundUp = [8]uint64{0, 473195, 504333, 520860, 550000, 700000, 750000, 830000}

// normalize shares 1<<log states between symbols that occur freq times, total in all. With rare, those
// below one state are marked. It is false where there is no such table.
func (c *counts) normalize(freq []int, total int, log uint, rare bool) bool {
	c.log, c.n = log, c.n[:0]
	low := int16(1)
	if rare {
		low = -1
	}
	scale := 62 - log
	share := uint64(1) << 62 / uint64(total)
	left, most := 1<<log, 0
	for s, f := range freq {
		p := int16(0)
		switch {
		case f == total:
			return false
		case f == 0:
		case f <= total>>log:
			p = low
			left--
		default:
			exact := uint64(f) * share
			p = int16(exact >> scale)
			if p < 8 && exact-uint64(p)<<scale > roundUp[p]<<(scale-20) {
				p++
			}
			left -= int(p)
		}
		c.n = append(c.n, p)
		if p > c.n[most] {
			most = s
		}
	}
	if -left >= int(c.n[most]>>1) {
		return c.divide(freq, total, low)
	}
	c.n[most] += int16(left)
	return true
}

// divide is normalize where rounding up gave too many states: rare symbols have one, and the others share
// what is left as the borders between them fall.
func (c *counts) divide(freq []int, total int, low int16) bool {
	const open = -2
	left := 1 << c.log
	least, one := total>>c.log, total*3>>(c.log+1)
	give := func(s int, p int16) {
		c.n[s] = p
		left--
		total -= freq[s]
	}
	whole := total
	for s, f := range freq {
		switch {
		case f == 0:
			c.n[s] = 0
		case f <= least:
			give(s, low)
		case f <= one:
			give(s, 1)
		default:
			c.n[s] = open
		}
	}
	if left == 0 {
		return true
	}
	if total/left > one {
		one = total * 3 / (left * 2)
		for s, f := range freq {
			if c.n[s] == open && f <= one {
				give(s, 1)
			}
		}
	}
	switch {
	case 1<<c.log-left == len(freq): // all are rare: the most frequent one has the rest
		most := 0
		for s, f := range freq {
			if f > freq[most] {
				most = s
			}
		}
		c.n[most] += int16(left)
		return true
	case total == 0 && whole > 0:
		for s := 0; left > 0; s = (s + 1) % len(freq) {
			if c.n[s] > 0 {
				c.n[s]++
				left--
			}
		}
		return true
	}
	scale := 62 - c.log
	half := uint64(1)<<(scale-1) - 1
	step := (uint64(left)<<scale + half) / uint64(total)
	at := half
	for s, f := range freq {
		if c.n[s] != open {
			continue
		}
		end := at + uint64(f)*step
		if c.n[s] = int16(end>>scale - at>>scale); c.n[s] < 1 {
			return false
		}
		at = end
	}
	return true
}

// huffNode is a literal or a node of a tree.
type huffNode struct {
	freq   int
	symbol uint8
	length uint8
	parent int
}

// huffMaker makes trees.
type huffMaker struct {
	leaves [257]huffNode // the most frequent literal first
	nodes  [257]huffNode
	places [192 + 1]struct{ from, to int }
}

// exactPlaces is below which a frequency has a place of its own in the order; those above share one for
// each power of two, and are sorted.
const (
	exactPlaces = 165
	sharedPlace = 158
)

func placeOf(freq int) int {
	if freq < exactPlaces {
		return freq
	}
	return bits.Len(uint(freq)) - 1 + sharedPlace
}

// make makes the tree of literals that occur freq times: one at least, and not only one of them. Its codes
// have at most limit bits.
func (m *huffMaker) make(t *huffTree, freq *[256]int, limit uint) {
	last := 255
	for freq[last] == 0 {
		last--
	}
	m.order(freq[:last+1])
	n := last + 1
	for m.leaves[n-1].freq == 0 {
		n--
	}
	leaves := m.leaves[:n]
	m.tree(leaves)
	log := m.shorten(leaves, limit)
	clear(t.lengths[:])
	for i := range leaves {
		t.lengths[leaves[i].symbol] = leaves[i].length
	}
	t.log, t.n = log, last+1
}

// order sorts literals by their frequency.
func (m *huffMaker) order(freq []int) {
	clear(m.places[:])
	for _, f := range freq {
		m.places[placeOf(f)].from++
	}
	at := 0
	for i := len(m.places) - 1; i >= 0; i-- {
		n := m.places[i].from
		m.places[i].from, m.places[i].to = at, at
		at += n
	}
	for s, f := range freq {
		p := &m.places[placeOf(f)]
		m.leaves[p.to] = huffNode{freq: f, symbol: uint8(s)}
		p.to++
	}
	for _, p := range m.places[exactPlaces-1:] {
		if p.to-p.from > 1 {
			sortNodes(m.leaves[p.from:p.to])
		}
	}
}

// sortNodes sorts by falling frequency. Where frequencies are equal, the order is that of libzstd, whose
// way of sorting does not keep it.
func sortNodes(x []huffNode) {
	if len(x) <= 8 {
		for i := range x {
			for ; i > 0 && x[i].freq > x[i-1].freq; i-- {
				x[i], x[i-1] = x[i-1], x[i]
			}
		}
		return
	}
	for len(x) > 1 {
		at, last := 0, len(x)-1
		for i := range last {
			if x[i].freq > x[last].freq {
				x[i], x[at] = x[at], x[i]
				at++
			}
		}
		x[at], x[last] = x[last], x[at]
		if at < last-at {
			sortNodes(x[:at])
			x = x[at+1:]
		} else {
			sortNodes(x[at+1:])
			x = x[:at]
		}
	}
}

// tree gives each leaf the length of its code in the tree that joins the two rarest until one is left. Of
// a leaf and a node that are equally rare, the node is taken.
func (m *huffMaker) tree(leaves []huffNode) {
	leaf, node, n := len(leaves)-1, 0, 0
	rarest := func() *huffNode {
		if node == n || leaf >= 0 && leaves[leaf].freq < m.nodes[node].freq {
			leaf--
			return &leaves[leaf+1]
		}
		node++
		return &m.nodes[node-1]
	}
	for n < len(leaves)-1 {
		a, b := rarest(), rarest()
		m.nodes[n] = huffNode{freq: a.freq + b.freq}
		a.parent, b.parent = n, n
		n++
	}
	m.nodes[n-1].length = 0
	for i := n - 2; i >= 0; i-- {
		m.nodes[i].length = m.nodes[m.nodes[i].parent].length + 1
	}
	for i := range leaves {
		leaves[i].length = m.nodes[leaves[i].parent].length + 1
	}
}

// shorten makes all codes as short as limit, longer ones in return, and returns the length of the longest.
func (m *huffMaker) shorten(leaves []huffNode, limit uint) uint {
	longest := uint(leaves[len(leaves)-1].length)
	if longest <= limit {
		return longest
	}
	// What is owed is counted in codes of limit bits.
	owed, n := 0, len(leaves)-1
	for ; uint(leaves[n].length) > limit; n-- {
		owed += 1<<(longest-limit) - 1<<(longest-uint(leaves[n].length))
		leaves[n].length = uint8(limit)
	}
	owed >>= longest - limit
	for n >= 0 && uint(leaves[n].length) == limit {
		n--
	}
	// rarest has the last leaf whose code is shorter than limit by a number of bits; -1 if there is none.
	var rarest [maxHuffLog + 3]int
	for i := range rarest {
		rarest[i] = -1
	}
	for i, length := n, limit; i >= 0; i-- {
		if l := uint(leaves[i].length); l < length {
			length = l
			rarest[limit-l] = i
		}
	}
	for owed > 0 {
		k := bits.Len(uint(owed))
		for ; k > 1; k-- {
			high, low := rarest[k], rarest[k-1]
			if high < 0 {
				continue
			}
			if low < 0 || leaves[high].freq <= 2*leaves[low].freq {
				break
			}
		}
		for k < len(rarest)-1 && rarest[k] < 0 {
			k++
		}
		i := rarest[k]
		if i < 0 {
			break
		}
		owed -= 1 << (k - 1)
		leaves[i].length++
		if rarest[k-1] < 0 {
			rarest[k-1] = i
		}
		if rarest[k] = i - 1; i > 0 && uint(leaves[i-1].length) != limit-uint(k) {
			rarest[k] = -1
		}
	}
	for ; owed < 0; owed++ {
		if rarest[1] < 0 { // none is shorter by one bit: the first of limit bits is made so
			for n >= 0 && uint(leaves[n].length) == limit {
				n--
			}
			leaves[n+1].length--
			rarest[1] = n + 1
			continue
		}
		rarest[1]++
		leaves[rarest[1]].length--
	}
	return limit
}

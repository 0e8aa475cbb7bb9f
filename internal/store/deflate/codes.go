package deflate

// counts are how often each symbol occurs in a block.
type counts struct {
	lit [litCodes]int
	dis [disCodes]int
}

func (c *counts) reset() { *c = counts{} }

func (c *counts) add(t token) {
	if t.literal() {
		c.lit[t]++
		return
	}
	c.lit[endBlock+1+int(lengthCode[t.size()])]++
	c.dis[codeOf(t.distance())]++
}

// zlibCodes chooses codes as zlib does.
type zlibCodes struct {
	freq  [2*litCodes + 1]int
	depth [2*litCodes + 1]int
	dad   [2*litCodes + 1]int
	level [2*litCodes + 1]int // of a node: bits
	heap  [2*litCodes + 1]int
	bits  int // what all symbols take with the code
	fixed int // and with the fixed code
	runs  [19]int
}

// code makes a code of at most limit bits for symbols that occur freq times, and gives the
// largest symbol that has a code. extra are the bits behind each symbol, and fixed the
// lengths of the fixed code; both may be nil.
func (z *zlibCodes) code(lengths []uint8, freq []int, limit int, extra func(int) int, fixedBits func(int) int) (last int) {
	n := len(freq)
	clear(lengths)
	heap := z.heap[:1]
	last = -1
	for s, f := range freq {
		z.freq[s], z.depth[s] = f, 0
		if f > 0 {
			heap = append(heap, s)
			last = s
		}
	}
	for len(heap) < 3 { // a code has two symbols at least
		s := 0
		if last < 2 {
			last++
			s = last
		}
		z.freq[s], z.depth[s] = 1, 0
		heap = append(heap, s)
		z.bits--
		if fixedBits != nil {
			z.fixed -= fixedBits(s)
		}
	}
	for i := (len(heap) - 1) / 2; i >= 1; i-- {
		z.down(heap, i)
	}
	// Nodes are noted from the rarest to the root, at the end of the same array.
	top := len(z.heap)
	node := n
	for {
		a := heap[1]
		heap[1] = heap[len(heap)-1]
		heap = heap[:len(heap)-1]
		z.down(heap, 1)
		b := heap[1]
		top -= 2
		z.heap[top+1], z.heap[top] = a, b
		z.freq[node] = z.freq[a] + z.freq[b]
		z.depth[node] = max(z.depth[a], z.depth[b]) + 1
		z.dad[a], z.dad[b] = node, node
		heap[1] = node
		node++
		z.down(heap, 1)
		if len(heap) <= 2 {
			break
		}
	}
	top--
	z.heap[top] = heap[1]
	z.lengths(lengths, top, n, limit, extra, fixedBits)
	return last
}

// down moves a node of the heap down to its place.
func (z *zlibCodes) down(heap []int, i int) {
	v := heap[i]
	less := func(a, b int) bool {
		return z.freq[a] < z.freq[b] || z.freq[a] == z.freq[b] && z.depth[a] <= z.depth[b]
	}
	for j := 2 * i; j < len(heap); j *= 2 {
		if j+1 < len(heap) && less(heap[j+1], heap[j]) {
			j++
		}
		if less(v, heap[j]) {
			break
		}
		heap[i] = heap[j]
		i = j
	}
	heap[i] = v
}

// lengths takes the lengths of codes from the tree whose nodes are noted from top on.
func (z *zlibCodes) lengths(lengths []uint8, top, n, limit int, extra, fixedBits func(int) int) {
	var count [maxCode + 1]int
	z.level[z.heap[top]] = 0
	over := 0
	for _, s := range z.heap[top+1:] {
		l := z.level[z.dad[s]] + 1
		if l > limit {
			l = limit
			over++
		}
		z.level[s] = l
		if s >= n {
			continue
		}
		count[l]++
		lengths[s] = uint8(l)
		x := 0
		if extra != nil {
			x = extra(s)
		}
		z.bits += z.freq[s] * (l + x)
		if fixedBits != nil {
			z.fixed += z.freq[s] * (fixedBits(s) + x)
		}
	}
	if over == 0 {
		return
	}
	for ; over > 0; over -= 2 {
		l := limit - 1
		for count[l] == 0 {
			l--
		}
		count[l]--
		count[l+1] += 2
		count[limit]--
	}
	h := len(z.heap)
	for l := limit; l > 0; l-- {
		for k := count[l]; k > 0; {
			h--
			s := z.heap[h]
			if s >= n {
				continue
			}
			z.bits += (l - int(lengths[s])) * z.freq[s]
			lengths[s] = uint8(l)
			k--
		}
	}
}

// runsOf calls emit with the symbols that describe the lengths of a code, and with the number
// that follows each and its bits.
func runsOf(lengths []uint8, emit func(symbol, rest int, bits uint)) {
	before, n := -1, 0
	most, least := 7, 4
	for i, l := range lengths {
		next := -1
		if i+1 < len(lengths) {
			next = int(lengths[i+1])
		}
		if i == 0 && l == 0 {
			most, least = 138, 3
		}
		n++
		switch {
		case n < most && int(l) == next:
			continue
		case n < least:
			for ; n > 0; n-- {
				emit(int(l), 0, 0)
			}
		case l != 0:
			if int(l) != before {
				emit(int(l), 0, 0)
				n--
			}
			emit(16, n-3, 2)
		case n <= 10:
			emit(17, n-3, 3)
		default:
			emit(18, n-11, 7)
		}
		n, before = 0, int(l)
		switch next {
		case 0:
			most, least = 138, 3
		case int(l):
			most, least = 6, 3
		default:
			most, least = 7, 4
		}
	}
}

// header writes the codes of a block.
func header(h *bitString, lit, dis []uint8, lens []uint8, lensUsed int, runs func(func(symbol, rest int, bits uint))) {
	h.reset()
	h.add(uint64(len(lit)-257), 5)
	h.add(uint64(len(dis)-1), 5)
	h.add(uint64(lensUsed-4), 4)
	for _, s := range codeOrder[:lensUsed] {
		h.add(uint64(lens[s]), 3)
	}
	var t encodeTable
	t.build(lens)
	runs(func(symbol, rest int, bits uint) {
		t.add(h, symbol)
		h.add(uint64(rest), bits)
	})
}

// used is how many lengths of the code of lengths are written.
func used(lens []uint8) int {
	n := len(codeOrder)
	for n > 4 && lens[codeOrder[n-1]] == 0 {
		n--
	}
	return n
}

// choose chooses how zlib writes a block of size bytes.
func (z *zlibCodes) choose(c *coding, n *counts, size int) {
	n.lit[endBlock]++
	z.bits, z.fixed = 0, 0
	lastLit := z.code(c.lit[:litCodes], n.lit[:], maxCode, func(s int) int {
		if s <= endBlock {
			return 0
		}
		return int(lengthExtra[s-endBlock-1])
	}, func(s int) int { return int(fixedCoding.lit[s]) })
	lastDis := z.code(c.dis[:disCodes], n.dis[:], maxCode,
		func(s int) int { return int(disExtra[s]) }, func(int) int { return 5 })
	c.lit[litCodes], c.lit[litCodes+1], c.dis[disCodes], c.dis[disCodes+1] = 0, 0, 0, 0
	clear(z.runs[:])
	lit, dis := c.lit[:lastLit+1], c.dis[:lastDis+1]
	runs := func(emit func(symbol, rest int, bits uint)) {
		runsOf(lit, emit)
		runsOf(dis, emit)
	}
	runs(func(symbol, _ int, _ uint) { z.runs[symbol]++ })
	var lens [19]uint8
	z.code(lens[:], z.runs[:], 7, func(s int) int { return [...]int{2, 3, 7}[max(s-16, 0)] * int(boolBit(s >= 16)) }, nil)
	k := used(lens[:])
	k = max(k, 4)
	z.bits += 3*k + 5 + 5 + 4
	best, plain := (z.bits+3+7)>>3, (z.fixed+3+7)>>3
	switch {
	case size+4 <= min(best, plain):
		c.kind = stored
		c.header.reset()
	case plain <= best:
		c.setFixed()
	default:
		c.kind = dynamic
		header(&c.header, lit, dis, lens[:], k, runs)
	}
}

var fixedCoding = func() (c coding) {
	c.setFixed()
	return c
}()

package lzx

import (
	"math"
	"math/bits"
)

// item is one element of a parse: a literal byte, or itemMatch with the length
// and the offset of a match.
type item uint32

const (
	itemMatch   = 1 << 31
	offsetBits  = 21
	costShift   = 4 // costs are in units of 1/16 bit
	tableCosts  = 4096
	firstPasses = 3 // passes over the first frame, to estimate its costs
)

func matchItem(length, offset uint32) item {
	return item(itemMatch | (length-minMatch)<<offsetBits | offset)
}

func (i item) isMatch() bool  { return i&itemMatch != 0 }
func (i item) length() int    { return int(i>>offsetBits&0xFF) + minMatch }
func (i item) offset() uint32 { return uint32(i & (1<<offsetBits - 1)) }

// slotOf returns the position slot of an offset that is not a repeated offset.
func slotOf(offset uint32) uint32 {
	f := offset + 2
	if f >= 1<<18 {
		return 34 + f>>17
	}
	n := uint32(bits.Len32(f)) - 1
	return 2*n + f>>(n-1)&1
}

// repeats holds the three most recently used offsets.
type repeats [3]uint32

// use returns the position slot of offset and updates the repeated offsets as the
// decoder does.
func (r *repeats) use(offset uint32) uint32 {
	switch offset {
	case r[0]:
		return 0
	case r[1]:
		r[0], r[1] = r[1], r[0]
		return 1
	case r[2]:
		r[0], r[2] = r[2], r[0]
		return 2
	}
	r[0], r[1], r[2] = offset, r[0], r[1]
	return slotOf(offset)
}

// costs estimates the cost of each symbol from the symbol frequencies of the
// preceding frames.
type costs struct {
	mainFreq    [maxMain]uint32
	lengthFreq  [numLengths]uint32
	alignedFreq [numAligned]uint32

	main    [maxMain]uint32
	tail    [maxMatch + 1]uint32 // cost of the length symbol, by match length
	aligned [numAligned]uint32
}

// bitCost[i] is the cost of a symbol of probability i/tableCosts.
var bitCost = func() (t [tableCosts + 1]uint32) {
	for i := range t {
		t[i] = uint32(math.Round(-math.Log2(max(float64(i), 0.7)/tableCosts) * (1 << costShift)))
	}
	return t
}()

// toCosts computes costs from frequencies, then halves the frequencies so that
// older frames count less.
func toCosts(freq, cost []uint32) {
	var total uint64
	for _, f := range freq {
		total += uint64(f)
	}
	total++
	for i, f := range freq {
		cost[i] = bitCost[uint64(f)*tableCosts/total]
		freq[i] = f >> 1
	}
}

// learn computes the costs for the next frame from the frequencies counted so far.
func (c *costs) learn() {
	toCosts(c.mainFreq[:], c.main[:])
	var lengths [numLengths]uint32
	toCosts(c.lengthFreq[:], lengths[:])
	copy(c.tail[9:], lengths[:])
	toCosts(c.alignedFreq[:], c.aligned[:])
}

// start sets the initial costs for the first frame: literals by their frequency
// in the frame, matches expensive enough that the parser still uses literals.
func (c *costs) start(frame []byte) {
	clear(c.mainFreq[:])
	clear(c.lengthFreq[:])
	clear(c.alignedFreq[:])
	for _, b := range frame {
		c.mainFreq[b] += 2
	}
	share := uint32(len(frame))/(maxMain-numChars) + 1
	for i := numChars; i < maxMain; i++ {
		c.mainFreq[i] = share
	}
	for i := range c.lengthFreq {
		c.lengthFreq[i] = uint32(numLengths - i)
	}
	for i := range c.alignedFreq {
		c.alignedFreq[i] = 8
	}
	c.learn()
}

// offsetCost returns the cost of the offset bits that follow a main symbol with
// this position slot.
func (c *costs) offsetCost(slot, offset uint32) uint32 {
	extra := uint32(slotExtra[slot])
	if extra >= 3 {
		return (extra-3)<<costShift + c.aligned[(offset+2)&7]
	}
	return extra << costShift
}

// count adds an item of the chosen parse to the frequencies.
func (c *costs) count(it item, r *repeats) {
	if !it.isMatch() {
		c.mainFreq[it]++
		return
	}
	slot, n := r.use(it.offset()), it.length()
	c.mainFreq[numChars+slot*8+uint32(min(n-minMatch, 7))]++
	if n >= 9 {
		c.lengthFreq[n-9]++
	}
	if slotExtra[slot] >= 3 {
		c.alignedFreq[(it.offset()+2)&7]++
	}
}

// node is the cheapest known path to a position in the frame.
type node struct {
	cost uint32
	last item // last item of the path
	r    repeats
}

// parser converts plain bytes to items at a near-minimal cost.
type parser struct {
	find  *finder
	costs costs
	nodes [FrameSize + maxMatch + 1]node
	// found[first[i]:first[i+1]] are the matches at position i of the frame.
	found []match
	first [FrameSize + 1]int32
	path  []item
}

// Search effort of the finder: the number of nodes per search, and the match
// length that ends a search.
const (
	searchDepth = 10
	niceLength  = 80
)

func newParser(window int) *parser {
	p := &parser{find: newFinder(1 << window), found: make([]match, 0, 1<<16)}
	p.find.depth, p.find.nice = searchDepth, niceLength
	return p
}

// parse appends the items of buf[from:], in which only the last frame may be
// shorter than FrameSize. buf[:from] is history. r holds the repeated offsets, or
// zeros if they are unknown.
func (p *parser) parse(items []item, buf []byte, from int, r repeats) []item {
	p.find.reset(buf)
	p.find.prime(from)
	for at := from; at < len(buf); at += FrameSize {
		frame := buf[at:min(at+FrameSize, len(buf))]
		p.matches(len(frame))
		passes := 1
		if at == from {
			p.costs.start(frame)
			passes = firstPasses
		}
		for pass := range passes {
			p.cheapest(buf, at, len(frame), r)
			end := r
			for i := len(p.path) - 1; i >= 0; i-- {
				p.costs.count(p.path[i], &end)
			}
			p.costs.learn()
			if pass == passes-1 {
				r = end
			}
		}
		for i := len(p.path) - 1; i >= 0; i-- {
			items = append(items, p.path[i])
		}
	}
	return items
}

// matches fills found for the n positions of the next frame. It does not search
// inside a match of at least find.nice bytes.
func (p *parser) matches(n int) {
	p.found = p.found[:0]
	for i := 0; i < n; i++ {
		p.first[i] = int32(len(p.found))
		p.found = p.find.next(p.found)
		if k := len(p.found); k > int(p.first[i]) && int(p.found[k-1].length) >= p.find.nice {
			skip := min(int(p.found[k-1].length), n-i) - 1
			p.find.skip(skip)
			for range skip {
				i++
				p.first[i] = int32(k)
			}
		}
	}
	p.first[n] = int32(len(p.found))
}

// cheapest finds the cheapest path through the frame buf[at:at+n] and stores its
// items in p.path in reverse order.
func (p *parser) cheapest(buf []byte, at, n int, r repeats) {
	nodes := p.nodes[:n+1]
	for i := range nodes {
		nodes[i].cost = math.MaxUint32
	}
	nodes[0] = node{r: r}
	for i := 0; i < n; {
		here := &nodes[i]
		if i > 0 && here.last.isMatch() {
			here.r = nodes[i-here.last.length()].r
			here.r.use(here.last.offset())
		} else if i > 0 {
			here.r = nodes[i-1].r
		}
		i += p.step(nodes, i, buf, at)
	}
	p.path = p.path[:0]
	for i := n; i > 0; {
		it := nodes[i].last
		p.path = append(p.path, it)
		if it.isMatch() {
			i -= it.length()
		} else {
			i--
		}
	}
}

// step updates the nodes that a literal or a match reaches from nodes[i]. It
// returns the number of positions to advance: 1, or the length of the longest
// match if that is at least niceLength.
func (p *parser) step(nodes []node, i int, buf []byte, at int) int {
	c, here := &p.costs, &nodes[i]
	limit := min(maxMatch, len(nodes)-1-i)
	if cost, to := here.cost+c.main[buf[at+i]], &nodes[i+1]; cost < to.cost {
		to.cost, to.last = cost, item(buf[at+i])
	}
	if limit < minMatch {
		return 1
	}
	far := 1
	for slot, offset := range here.r {
		from := at + i - int(offset)
		if offset == 0 || from < 0 || buf[from] != buf[at+i] || buf[from+1] != buf[at+i+1] {
			continue
		}
		length := extend(buf, at+i, from, minMatch, limit)
		p.relax(nodes, i, minMatch, length, uint32(slot), offset, here.cost)
		far = max(far, length)
	}
	shortest := minMatch
	for _, m := range p.found[p.first[i]:p.first[i+1]] {
		length := min(int(m.length), limit)
		if length < shortest {
			break
		}
		slot := slotOf(m.offset)
		p.relax(nodes, i, shortest, length, slot, m.offset, here.cost+c.offsetCost(slot, m.offset))
		shortest = length + 1
		far = max(far, length)
	}
	if far >= niceLength {
		return far
	}
	return 1
}

// relax updates the nodes that matches with this slot and offset reach from
// nodes[i], for all match lengths from "from" to "length".
func (p *parser) relax(nodes []node, i, from, length int, slot, offset, cost uint32) {
	c := &p.costs
	main := (*[8]uint32)(c.main[numChars+slot*8:])
	for n := from; n <= length; n++ {
		sum := cost + main[min(n-minMatch, 7)] + c.tail[n]
		if to := &nodes[i+n]; sum < to.cost {
			to.cost, to.last = sum, matchItem(uint32(n), offset)
		}
	}
}

package lzx

import (
	"math"
	"math/bits"
)

// An item is one step of a parse: a literal byte, or a match flag with the
// length and the offset.
type item uint32

const (
	itemMatch   = 1 << 31
	offsetBits  = 21
	costShift   = 4 // costs are in sixteenths of a bit
	tableCosts  = 4096
	firstPasses = 3 // over the first frame, until its costs are known
)

func matchItem(length, offset uint32) item {
	return item(itemMatch | (length-minMatch)<<offsetBits | offset)
}

func (i item) isMatch() bool  { return i&itemMatch != 0 }
func (i item) length() int    { return int(i>>offsetBits&0xFF) + minMatch }
func (i item) offset() uint32 { return uint32(i & (1<<offsetBits - 1)) }

// slotOf gives the position slot of an offset that is no repeated one.
func slotOf(offset uint32) uint32 {
	f := offset + 2
	if f >= 1<<18 {
		return 34 + f>>17
	}
	n := uint32(bits.Len32(f)) - 1
	return 2*n + f>>(n-1)&1
}

// repeats are the three offsets that were used last.
type repeats [3]uint32

// use enters an offset and gives its position slot, as a decoder will see it.
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

// costs estimate what each symbol will take, learnt from the frames before.
type costs struct {
	mainFreq    [maxMain]uint32
	lengthFreq  [numLengths]uint32
	alignedFreq [numAligned]uint32

	main    [maxMain]uint32
	tail    [maxMatch + 1]uint32 // length symbol of each match length
	aligned [numAligned]uint32
}

// bitCost[i] is the cost of a symbol of probability i/tableCosts.
var bitCost = func() (t [tableCosts + 1]uint32) {
	for i := range t {
		t[i] = uint32(math.Round(-math.Log2(max(float64(i), 0.7)/tableCosts) * (1 << costShift)))
	}
	return t
}()

// toCosts turns frequencies into costs and halves them.
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

// learn takes what was counted into account from the next frame on.
func (c *costs) learn() {
	toCosts(c.mainFreq[:], c.main[:])
	var lengths [numLengths]uint32
	toCosts(c.lengthFreq[:], lengths[:])
	copy(c.tail[9:], lengths[:])
	toCosts(c.alignedFreq[:], c.aligned[:])
}

// start guesses before anything was seen: literals by their share, matches
// dear enough that literals are not forgotten.
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

// offsetCost is what stands behind a main symbol of the slot.
func (c *costs) offsetCost(slot, offset uint32) uint32 {
	extra := uint32(slotExtra[slot])
	if extra >= 3 {
		return (extra-3)<<costShift + c.aligned[(offset+2)&7]
	}
	return extra << costShift
}

// count enters what was chosen.
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

// node is the cheapest known way to a place in the frame.
type node struct {
	cost uint32
	last item // the step that leads here
	r    repeats
}

// parser turns plain bytes into items, close to the fewest bits.
type parser struct {
	find  *finder
	costs costs
	nodes [FrameSize + maxMatch + 1]node
	// The matches of each place of a frame: found[first[i]:first[i+1]].
	found []match
	first [FrameSize + 1]int32
	path  []item
}

// Effort: how deep the finder looks and which length it takes without asking.
const (
	searchDepth = 10
	niceLength  = 80
)

func newParser(window int) *parser {
	p := &parser{find: newFinder(1 << window), found: make([]match, 0, 1<<16)}
	p.find.depth, p.find.nice = searchDepth, niceLength
	return p
}

// parse appends the items of buf[from:], whole frames but for the last. What
// stands before is history. r holds the repeated offsets, zeros if unknown.
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

// matches fills found for the n places of the frame that comes next. Inside a
// match of nice length nothing is looked for.
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

// cheapest finds the cheapest path through the frame buf[at:at+n] and leaves
// its steps in path, the last one first.
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

// step enters where one literal or match leads from nodes[i], and says how far
// to go on: one place, or to the end of a match of nice length.
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

// relax enters the matches of lengths from to length.
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

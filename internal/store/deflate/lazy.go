package deflate

import "encoding/binary"

// lazy finds matches as package compress/flate of Go does at its levels 4 to 9, or package flate of
// github.com/klauspost/compress at 7 and 8 when each block is flushed: our own cabinets are made so
// (cab/mszip). Places with equal hashes of four bytes are in chains, and a match is given up for a
// longer one at the next byte.
type lazy struct {
	lazyCodes
	text  *text
	limit int // a match of that length is not given up
	nice  int
	chain int
	head  [1 << 17]int32 // place + 1
	prev  [history]int32

	tokens []token
	i, at  int // next of them, and its place
	end    int // what the tokens stand for ends here

	// Where the search is.
	b         []byte
	base      int // place of b
	place     int
	waiting   bool // the byte before the place has no token yet
	length    int  // of the match at the place before; below 4 if there is none
	distance  int
	candidate int    // place + 1 that the last hash had before
	misses    uint16 // bytes without a match
}

// lazyTunings are what the levels stand for: see lazy. Those of Go are from 4 on.
var lazyTunings = [...]struct{ limit, nice, chain int }{
	4: {4, 16, 16}, 5: {16, 32, 32}, 6: {16, 128, 128}, 7: {32, 128, 256}, 8: {128, 258, 1024}, 9: {258, 258, 4096},
}

var flushedTunings = [...]struct{ limit, nice, chain int }{7: {12, 16, 24}, 8: {30, 40, 64}}

// reset begins a stream, for a level.
func (f *lazy) reset(t *text, level int, flushes bool) {
	tuning := lazyTunings[:]
	if flushes {
		tuning = flushedTunings[:]
	}
	f.text, f.flushes = t, flushes
	f.limit, f.nice, f.chain = tuning[level].limit, tuning[level].nice, tuning[level].chain
	f.restart(0, 0)
}

func (f *lazy) forget(p int) { f.restart(p, p) }

// restart begins at p, and knows of all before only what lies behind a place.
func (f *lazy) restart(from, p int) {
	clear(f.head[:])
	clear(f.prev[:])
	f.candidate, f.misses, f.waiting, f.length = 0, 0, false, 0
	f.tokens, f.i, f.at, f.end, f.place = f.tokens[:0], 0, p, p, p
	if p-from >= 4 {
		b := f.text.bytes(from, p)
		for i := range len(b) - 3 {
			f.insert(b[i:], from+i)
		}
	}
}

func (f *lazy) hash(b []byte) uint32 {
	if f.flushes {
		return (binary.LittleEndian.Uint32(b) * 2654435761) >> 15
	}
	return (binary.BigEndian.Uint32(b) * 0x1e35a7bd) >> 15
}

// insert brings a place with its bytes into the chains, and returns the one before it.
func (f *lazy) insert(b []byte, p int) int32 {
	h := f.hash(b)
	before := f.head[h]
	f.prev[p&(history-1)] = before
	f.head[h] = int32(p) + 1
	return before
}

func (f *lazy) next(p int) token {
	if p >= f.end {
		f.search(p)
	}
	for f.at < p && f.i < len(f.tokens) {
		f.at += f.tokens[f.i].size()
		f.i++
	}
	if f.at == p && f.i < len(f.tokens) {
		return f.tokens[f.i]
	}
	return token(f.text.b[p-f.text.from])
}

func (f *lazy) take(int, token) {}

// full says whether a block has the most tokens that it may have.
func (f *lazy) full(n, _ int) bool {
	if f.flushes {
		return n == 1<<15
	}
	return n == 1<<14
}

// search makes tokens up to a while behind p, all of whose bytes are at hand.
func (f *lazy) search(p int) {
	f.tokens, f.i, f.at = f.tokens[:0], 0, f.end
	f.base, f.b = f.text.from, f.text.b
	for end := min(f.text.size, p+history); f.place < end; {
		f.step()
	}
	f.end = f.place
	if f.waiting {
		if f.end--; f.place == f.text.size {
			f.literal(f.end)
			f.waiting, f.end = false, f.place
		}
	}
}

func (f *lazy) literal(p int) { f.tokens = append(f.tokens, token(f.b[p-f.base])) }

// insertable is the first place that is not brought into the chains.
func (f *lazy) insertable() int { return f.text.size - 3 }

// put brings the place into the chains, if enough bytes follow it.
func (f *lazy) put() {
	if p := f.place; p < f.insertable() {
		f.candidate = int(f.insert(f.b[p-f.base:], p))
	}
}

// step goes on from the place.
func (f *lazy) step() {
	f.put()
	p := f.place
	length, distance := max(f.length, 3), f.distance
	f.length, f.distance = 3, 0
	if first := f.candidate - 1; first >= max(p-history, 0) && f.text.size-p > length && length < f.limit {
		f.length, f.distance = f.longest(p, first)
	}
	if length >= 4 && f.length <= length {
		if f.flushes {
			length, distance = f.behind(length, distance)
		}
		f.match(length, distance)
		return
	}
	if f.length >= 4 {
		f.misses = 0
	}
	if !f.waiting {
		f.waiting = true
		f.place++
		return
	}
	f.literal(p - 1)
	f.place++
	if f.misses++; f.flushes {
		f.pass()
	}
}

// pass passes over bytes where matches are rare.
func (f *lazy) pass() {
	n := int(f.misses) - f.chain
	if n <= 0 {
		return
	}
	for n = 1 + n>>6; n > 0 && f.place < f.text.size-1; n-- {
		f.literal(f.place - 1)
		f.put()
		f.place++
	}
	f.literal(f.place - 1)
	f.waiting = false
}

// longest is the longest match at a place, of those in the chain from first on; 3 if there is
// none.
func (f *lazy) longest(p, first int) (length, distance int) {
	least := max(p-history, 0)
	most := min(f.text.size-p, maxMatch)
	nice := min(f.nice, f.text.size-p)
	here := f.b[p-f.base:][:most]
	length = 3
	for tries := f.chain; tries > 0; tries-- {
		if there := f.b[first-f.base:][:most]; there[length] == here[length] {
			if n := same(there, here); n > length && (f.flushes || n > 4 || p-first <= tooFar) {
				if length, distance = n, p-first; n >= nice {
					break
				}
			}
		}
		if first <= least {
			break
		}
		if first = int(f.prev[first&(history-1)]) - 1; first < least {
			break
		}
	}
	return length, distance
}

// behind returns the match at the place before, or a longer one that the end of it leads to. The
// bytes before the longer one become literals.
func (f *lazy) behind(length, distance int) (int, int) {
	const skipped = 2
	p, from := f.place, f.place-1
	if length >= maxMatch-skipped || from+length >= f.insertable() {
		return length, distance
	}
	end := from + min(f.text.size-p, maxMatch+skipped)
	other := int(f.head[f.hash(f.b[from+length-f.base:])]) - 1 - length
	if from-other == distance || other <= max(p-history, 0)+skipped {
		return length, distance
	}
	here := f.b[from+skipped-f.base : end-f.base]
	n := same(f.b[other+skipped-f.base:][:len(here)], here)
	if n <= length {
		return length, distance
	}
	for i := skipped - 1; i >= 0; i-- {
		if n < maxMatch && f.b[from+i-f.base] == f.b[other+i-f.base] {
			n++
			continue
		}
		for j := range i + 1 {
			f.literal(from + j)
			f.place++
			f.put()
		}
		break
	}
	return n, from - other
}

// match takes a match that begins at the place before.
func (f *lazy) match(length, distance int) {
	f.tokens = append(f.tokens, match(length, distance))
	next := f.place + length - 1
	for i := f.place + 1; i < min(next, f.insertable()); i++ {
		f.insert(f.b[i-f.base:], i)
	}
	f.place, f.waiting, f.length, f.misses = next, false, 3, 0
}

// lazyCodes chooses codes as those packages do.
type lazyCodes struct {
	goCodes
	// flushes says that an empty stored block and an empty last one follow each block.
	flushes bool
	empties int
}

// choose chooses how a block of size bytes is written.
func (f *lazyCodes) choose(c *coding, n *counts, size int) {
	if size == 0 {
		if f.empties++; f.empties > 1 && f.flushes {
			c.setFixed()
			return
		}
		c.kind = stored
		c.header.reset()
		return
	}
	total, more, plain := 1, 0, 3
	for s, k := range n.lit {
		if s > endBlock {
			more += k * int(lengthExtra[s-endBlock-1])
		}
		total += k
	}
	for s, k := range n.dis {
		more += k * int(disExtra[s])
	}
	whole := size*8 + 40 // bits of a stored block
	if size > 0xffff {
		whole, more = 1<<62, 0
	}
	best := f.dynamic(c, n) + more
	for s, k := range n.lit {
		plain += k * int(fixedCoding.lit[s])
	}
	for _, k := range n.dis {
		plain += 5 * k
	}
	if plain += more; plain <= best && (!f.flushes || total < 250) {
		best = plain
		c.setFixed()
	}
	if whole < best || whole == best && f.flushes {
		c.kind = stored
		c.header.reset()
	}
}

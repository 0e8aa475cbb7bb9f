package deflate

import "encoding/binary"

// flushed finds matches as package flate of github.com/klauspost/compress does at its levels 7
// and 8, when each block is flushed: our own cabinets are made so (cab/mszip). Places with equal
// hashes of four bytes are in chains, and a match is given up for a longer one at the next byte.
type flushed struct {
	flushedCodes
	text   *text
	lazy   int // a match of that length is not given up
	nice   int
	chain  int
	head   [1 << 17]int32 // place + 1
	prev   [history]int32
	tokens []token // of the block
	i, at  int     // next of them, and its place
	end    int     // of the block

	// What a block leaves to the next one.
	candidate int    // place + 1 that the last hash had before
	misses    uint16 // bytes without a match
}

// reset begins a stream, for a level.
func (f *flushed) reset(t *text, level int) {
	f.text = t
	if f.lazy, f.nice, f.chain = 12, 16, 24; level == 8 {
		f.lazy, f.nice, f.chain = 30, 40, 64
	}
	f.restart(0, 0)
}

func (f *flushed) forget(p int) { f.restart(p, p) }

// restart forgets all before a place, except what lies behind another one.
func (f *flushed) restart(from, p int) {
	clear(f.head[:])
	clear(f.prev[:])
	f.candidate, f.misses = 0, 0
	f.tokens, f.i, f.at, f.end = f.tokens[:0], 0, p, p
	if p-from >= 4 {
		b := f.text.bytes(from, p)
		for i := range len(b) - 3 {
			f.insert(b[i:], from+i)
		}
	}
}

// insert brings a place with its bytes into the chains, and returns the one before it.
func (f *flushed) insert(b []byte, p int) int32 {
	h := (binary.LittleEndian.Uint32(b) * 2654435761) >> 15
	before := f.head[h]
	f.prev[p&(history-1)] = before
	f.head[h] = int32(p) + 1
	return before
}

func (f *flushed) next(p int) token {
	if p >= f.end {
		f.block(p)
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

func (f *flushed) take(int, token) {}

// full says whether a block has the most tokens that it may have.
func (f *flushed) full(n, _ int) bool { return n == 1<<15 }

// block makes the tokens of all that is left of a block.
func (f *flushed) block(from int) {
	w := walk{flushed: f, base: f.text.from, b: f.text.b, end: f.text.size, insertable: f.text.size - 3}
	f.tokens, f.i, f.at, f.end = f.tokens[:0], 0, from, f.text.size
	for p := from; p < w.end; {
		p = w.step(p)
	}
	if w.waiting {
		w.literal(w.end - 1)
	}
}

// walk is the way through one block.
type walk struct {
	*flushed
	base       int // place of b
	b          []byte
	end        int
	insertable int // the first place that is not brought into the chains

	waiting  bool // the byte before the place has no token yet
	length   int  // of the match at the place before; below 4 if there is none
	distance int
}

func (w *walk) literal(p int) { w.tokens = append(w.tokens, token(w.b[p-w.base])) }

// put brings a place into the chains, if enough bytes follow it.
func (w *walk) put(p int) {
	if p < w.insertable {
		w.candidate = int(w.insert(w.b[p-w.base:], p))
	}
}

// step goes on from a place, and returns the next one.
func (w *walk) step(p int) int {
	w.put(p)
	length, distance := w.length, w.distance
	w.length, w.distance = 3, 0
	length = max(length, 3)
	if first := w.candidate - 1; first >= max(p-history, 0) && w.end-p > length && length < w.lazy {
		w.length, w.distance = w.longest(p, first)
	}
	if length >= 4 && w.length <= length {
		return w.match(p, length, distance)
	}
	if w.length >= 4 {
		w.misses = 0
	}
	if !w.waiting {
		w.waiting = true
		return p + 1
	}
	w.misses++
	w.literal(p - 1)
	p++
	// Where matches are rare, bytes are passed over.
	if n := int(w.misses) - w.chain; n > 0 {
		for n = 1 + n>>6; n > 0 && p < w.end-1; n-- {
			w.literal(p - 1)
			w.put(p)
			p++
		}
		w.literal(p - 1)
		w.waiting = false
	}
	return p
}

// longest is the longest match at a place, of those in the chain from first on; 3 if there is
// none.
func (w *walk) longest(p, first int) (length, distance int) {
	least := max(p-history, 0)
	most := min(w.end-p, maxMatch)
	nice := min(w.nice, w.end-p)
	here := w.b[p-w.base:][:most]
	length = 3
	for tries := w.chain; tries > 0; tries-- {
		if there := w.b[first-w.base:][:most]; there[length] == here[length] {
			if n := same(there, here); n > length {
				if length, distance = n, p-first; n >= nice {
					break
				}
			}
		}
		if first <= least {
			break
		}
		if first = int(w.prev[first&(history-1)]) - 1; first < least {
			break
		}
	}
	return length, distance
}

// match takes the match at the place before p, unless one that the end of it leads to is longer.
func (w *walk) match(p, length, distance int) int {
	const skipped = 2
	from := p - 1
	if length < maxMatch-skipped && from+length < w.insertable {
		end := from + min(w.end-p, maxMatch+skipped)
		h := (binary.LittleEndian.Uint32(w.b[from+length-w.base:]) * 2654435761) >> 15
		other := int(w.head[h]) - 1 - length
		if from-other != distance && other > max(p-history, 0)+skipped {
			here := w.b[from+skipped-w.base : end-w.base]
			if n := same(w.b[other+skipped-w.base:][:len(here)], here); n > length {
				length, distance = n, from-other
				for i := skipped - 1; i >= 0; i-- {
					if length < maxMatch && w.b[from+i-w.base] == w.b[other+i-w.base] {
						length++
						continue
					}
					for j := range i + 1 {
						w.literal(from + j)
						p++
						w.put(p)
					}
					break
				}
			}
		}
	}
	w.tokens = append(w.tokens, match(length, distance))
	next := p + length - 1
	for i := p + 1; i < min(next, w.insertable); i++ {
		w.insert(w.b[i-w.base:], i)
	}
	w.waiting, w.length, w.misses = false, 3, 0
	return next
}

// flushedCodes chooses codes as that package does. An empty stored block and an empty last one
// follow each block.
type flushedCodes struct {
	goCodes
	empties int
}

// choose chooses how a block of size bytes is written.
func (f *flushedCodes) choose(c *coding, n *counts, size int) {
	if size == 0 {
		if f.empties++; f.empties == 1 {
			c.kind = stored
			c.header.reset()
		} else {
			c.setFixed()
		}
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
	best := f.dynamic(c, n) + more
	for s, k := range n.lit {
		plain += k * int(fixedCoding.lit[s])
	}
	for _, k := range n.dis {
		plain += 5 * k
	}
	if plain += more; total < 250 && plain <= best {
		if best = plain; size*8+40 > best {
			c.setFixed()
		}
	}
	if size*8+40 <= best {
		c.kind = stored
		c.header.reset()
	}
}

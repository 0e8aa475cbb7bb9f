package deflate

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
)

// lookahead is how many bytes after a place a predictor looks at most.
const lookahead = goChunk + maxMatch

// text has the part of the bytes of a stream that predictors look at.
type text struct {
	r     io.Reader
	b     []byte
	from  int // offset of b
	size  int // of the stream
	store []byte
}

const textSize = 512 << 10

func (t *text) reset(r io.Reader, size int) {
	if t.store == nil {
		t.store = make([]byte, textSize)
	}
	t.r, t.size, t.from, t.b = r, size, 0, t.store[:0]
}

// at makes the bytes around an offset available.
func (t *text) at(p int) error {
	end := t.from + len(t.b)
	if end >= min(t.size, p+lookahead) {
		return nil
	}
	if keep := p - t.from - 2*history; keep > 0 {
		t.b = t.store[:copy(t.store, t.b[keep:])]
		t.from += keep
	}
	n := min(len(t.store)-len(t.b), t.size-end)
	k, err := io.ReadFull(t.r, t.store[len(t.b):len(t.b)+n])
	t.b = t.store[:len(t.b)+k]
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return err
}

// bytes are those from offset p up to offset end, which are at hand.
func (t *text) bytes(p, end int) []byte { return t.b[p-t.from : end-t.from] }

// predictor says what a program would write. It is told what is in the stream instead.
type predictor interface {
	// next is the token that is expected at p.
	next(p int) token
	// take says which token the stream has at p. next was called before.
	take(p int, t token)
	// full says whether a block ends that has n tokens up to p.
	full(n, p int) bool
	// forget says that nothing before p is referred to any more.
	forget(p int)
	// choose says how a block is written.
	choose(c *coding, n *counts, size int)
}

// tuning is what the levels of zlib stand for.
type tuning struct {
	good, lazy, nice, chain int
	fast                    bool // no match is given up for a better one at the next byte
}

var tunings = [...]tuning{
	1: {4, 4, 8, 4, true},
	2: {4, 5, 16, 8, true},
	3: {4, 6, 32, 32, true},
	4: {4, 4, 16, 16, false},
	5: {8, 16, 32, 32, false},
	6: {8, 16, 128, 128, false},
	7: {8, 32, 128, 256, false},
	8: {32, 128, 258, 1024, false},
	9: {32, 258, 258, 4096, false},
}

const (
	// farthest is how far zlib looks back: the rest of its window is for what it reads.
	farthest = history - maxMatch - minMatch - 1
	// tooFar is from where on zlib does not take a match of three bytes.
	tooFar = 4096
)

// chains finds matches as zlib does: places with equal hashes of three bytes are in chains,
// the last one first.
type chains struct {
	tuning
	zlibCodes
	text   *text
	block  int // tokens of a block
	shift  uint
	mask   uint32
	head   []int32 // place + 1
	prev   [history]int32
	origin int // nothing at or before this place is a match
	upto   int // places before are in the chains

	place  int // of now
	now    token
	ahead  token // at place + 1, where it was looked for
	looked bool
}

// reset begins a stream, for a level of zlib and its memLevel.
func (c *chains) reset(t *text, level, memory int) {
	hashBits := uint(memory + 7)
	c.tuning, c.text, c.block = tunings[level], t, 1<<(memory+6)-1
	c.shift, c.mask = (hashBits+2)/3, 1<<hashBits-1
	if cap(c.head) < 1<<hashBits {
		c.head = make([]int32, 1<<hashBits)
	}
	c.head = c.head[:1<<hashBits]
	clear(c.head)
	c.origin, c.upto, c.place, c.looked = 0, 0, -1, false
}

func (c *chains) forget(p int) {
	clear(c.head)
	c.origin, c.upto, c.place, c.looked = p, p, -1, false
}

// insert brings the places up to p into the chains.
func (c *chains) insert(p int) {
	end := min(p+1, c.text.size-minMatch+1)
	if c.upto >= end {
		return
	}
	b := c.text.bytes(c.upto, end+2)
	for i := range b[2:] {
		h := (uint32(b[i])<<(2*c.shift) ^ uint32(b[i+1])<<c.shift ^ uint32(b[i+2])) & c.mask
		at := c.upto + i
		c.prev[at&(history-1)] = c.head[h]
		c.head[h] = int32(at-c.text.size) + bias
	}
	c.upto = end
}

// Places are kept so that none of them is 0.
const bias = 1<<31 - 1

func (c *chains) placeOf(v int32) int { return int(v) - bias + c.text.size }

// search looks for a match at p, which is in the chains, that is longer than length.
func (c *chains) search(p, length int) token {
	ahead := c.text.size - p
	if ahead < minMatch || length >= ahead {
		return 0
	}
	v := c.prev[p&(history-1)]
	if v == 0 {
		return 0
	}
	from := c.placeOf(v)
	if from <= c.origin || p-from > farthest {
		return 0
	}
	tries, nice := c.chain, min(c.nice, ahead)
	if length >= c.good {
		tries >>= 2
	}
	limit := max(c.origin, p-farthest)
	most := min(maxMatch, ahead)
	base := c.text.from
	b := c.text.b
	here := b[p-base : p-base+most]
	found := token(0)
	for {
		there := b[from-base : from-base+most]
		if there[length] == here[length] && there[length-1] == here[length-1] && there[0] == here[0] && there[1] == here[1] {
			if n := same(there, here); n > length {
				found, length = match(n, p-from), n
				if n >= nice {
					break
				}
			}
		}
		tries--
		v = c.prev[from&(history-1)]
		if tries == 0 || v == 0 {
			break
		}
		if from = c.placeOf(v); from <= limit {
			break
		}
	}
	return found
}

// same counts the bytes that a and b, of one length, have in common at their beginning.
func same(a, b []byte) int {
	n := 0
	for len(a)-n >= 8 {
		if d := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); d != 0 {
			return n + bits.TrailingZeros64(d)>>3
		}
		n += 8
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}

func (c *chains) next(p int) token {
	if c.place != p {
		c.insert(p)
		c.now = c.worth(c.search(p, minMatch-1))
		c.place = p
	}
	c.looked = false
	if c.now == 0 {
		return token(c.text.b[p-c.text.from])
	}
	if n := c.now.size(); !c.fast && n < c.lazy {
		c.insert(p + 1)
		if p+1 < c.text.size {
			c.ahead = c.worth(c.search(p+1, n))
			c.looked = true
			if c.ahead != 0 && c.ahead.size() > n {
				return token(c.text.b[p-c.text.from])
			}
		}
	}
	return c.now
}

// worth drops a short match that is far away.
func (c *chains) worth(t token) token {
	if !c.fast && t.size() == minMatch && t.distance() > tooFar {
		return 0
	}
	return t
}

func (c *chains) take(p int, t token) {
	n := t.size()
	if t.literal() {
		if c.place = p + 1; !c.looked || c.ahead == 0 {
			c.place = -1
		}
		c.now = c.ahead
		return
	}
	c.place = -1
	if c.fast && (n > c.lazy || c.text.size-p-n < minMatch) {
		c.upto = max(c.upto, p+n)
		return
	}
	c.insert(p + n - 1)
}

func (c *chains) full(n, _ int) bool { return n == c.block }

// goChunk is how many bytes compress/flate of Go puts into a block at its fastest level.
const goChunk = 1<<16 - 1

// goFast finds matches as compress/flate of Go does at its fastest level: a table has the
// last place of each hash of four bytes, and bytes are passed over where nothing is found.
type goFast struct {
	goCodes
	text   *text
	table  [1 << 14]goPlace
	tokens []token // of the chunk
	i      int     // next of them
	at     int     // its place
	end    int     // of the chunk
}

type goPlace struct {
	value uint32
	at    int
}

// reset begins a stream.
func (g *goFast) reset(t *text) {
	g.text = t
	g.forget(0)
}

func (g *goFast) forget(p int) {
	for i := range g.table {
		g.table[i] = goPlace{at: -2 * history}
	}
	g.tokens, g.i, g.at, g.end = g.tokens[:0], 0, p, p
}

func (g *goFast) next(p int) token {
	for p >= g.end {
		g.chunk()
	}
	for g.at < p {
		g.at += g.tokens[g.i].size()
		g.i++
	}
	if g.at == p && g.i < len(g.tokens) {
		return g.tokens[g.i]
	}
	return token(g.text.b[p-g.text.from])
}

func (g *goFast) take(int, token) {}

func (g *goFast) full(_, p int) bool { return p >= g.end }

// chunk finds the tokens of the next chunk.
func (g *goFast) chunk() {
	from := g.end
	g.i, g.at, g.end = 0, from, min(from+goChunk, g.text.size)
	g.tokens = g.tokens[:0]
	if g.end-from >= 128 {
		g.matches(from)
	}
	done := from
	for _, t := range g.tokens {
		done += t.size()
	}
	g.literals(done, g.end)
	if n := g.end - from; len(g.tokens) > n-n>>4 { // then it writes literals only
		g.tokens = g.tokens[:0]
		g.literals(from, g.end)
	}
}

func (g *goFast) literals(from, end int) {
	for _, v := range g.text.bytes(from, end) {
		g.tokens = append(g.tokens, token(v))
	}
}

// matches finds the matches of a chunk, and the literals before each.
func (g *goFast) matches(from int) {
	base := g.text.from
	b := g.text.b[:g.end-base]
	word := func(p int) uint32 { return binary.LittleEndian.Uint32(b[p-base:]) }
	hash := func(v uint32) uint32 { return v * 0x1e35a7bd >> 18 }
	last := g.end - 15 // no match begins after
	p, done := from, from
	for {
		// Look for four equal bytes, at every byte, then at every second one, and so on.
		var found goPlace
		for skip := 32; ; {
			next := p + skip>>5
			skip += skip >> 5
			if next > last {
				return
			}
			v := word(p)
			slot := &g.table[hash(v)]
			found = *slot
			*slot = goPlace{v, p}
			if p-found.at <= history && found.value == v {
				break
			}
			p = next
		}
		g.literals(done, p)
		for {
			most := min(p+maxMatch, g.end) - p
			n := 4 + same(b[p+4-base:p+most-base], b[found.at+4-base:found.at+most-base])
			g.tokens = append(g.tokens, match(n, p-found.at))
			p += n
			done = p
			if p >= last {
				return
			}
			v := word(p - 1)
			g.table[hash(v)] = goPlace{v, p - 1}
			v = word(p)
			slot := &g.table[hash(v)]
			found = *slot
			*slot = goPlace{v, p}
			if p-found.at > history || found.value != v {
				p++
				break
			}
		}
	}
}

package zstdseq

import (
	"encoding/binary"
	"math/bits"
)

// setting is how a program looks for matches. Settings are stored: their meaning never changes.
type setting struct {
	strategy uint8
	window   uint8 // log2 of how far back matches are
	chain    uint8 // log2 of the places of the second table
	hash     uint8 // log2 of the places of the first table
	search   uint8 // log2 of the tries for a match
	least    uint8 // bytes of which hashes are made
	step     uint8 // between two places of the fast strategy, less one
}

// The strategies: numbers of libzstd, and variants of them.
const (
	fastStrategy   = 1
	doubleStrategy = 2
	greedyStrategy = 3
	lazyStrategy   = 4
	lazy2Strategy  = 5
	// newer is added for what newer versions of libzstd do otherwise: from 1.5.5 on, the first place of a
	// row is not used; from 1.5.7 on, two tables give the longer of two matches.
	newer = 0x40
)

const settingSize = 7

func (s setting) append(b []byte) []byte {
	return append(b, s.strategy, s.window, s.chain, s.hash, s.search, s.least, s.step)
}

func parseSetting(b []byte) setting { return setting{b[0], b[1], b[2], b[3], b[4], b[5], b[6]} }

// valid says whether there is such a setting.
func (s setting) valid() bool {
	most := uint8(23)
	kind := s.strategy &^ newer
	switch {
	case s.window < 10 || s.window > 23 || s.hash < 6 || s.hash > most || s.chain < 6 || s.chain > most || s.least < 4 || s.least > 8:
		return false
	case s.strategy == fastStrategy:
		return s.step < 128
	case kind == doubleStrategy:
		return true
	}
	return kind >= greedyStrategy && kind <= lazy2Strategy && s.least <= 6 && s.hash >= 12 && s.search < 8
}

// finder says which sequences a program would write. It is told what is there instead.
type finder interface {
	// begin begins a block, whose bytes are the last n of the text.
	begin(t *text, n int, r repeats)
	// next is the sequence that is expected next; its length is 0 if there is none.
	next() seq
	// take says which sequence there is. next was called before.
	take(s seq)
}

// finders are those of all strategies, whose memory is used again.
type finders struct {
	fast   *fast
	double *double
	rows   *rows
}

// of returns the finder of a setting, for a new frame.
func (f *finders) of(s setting) finder {
	switch s.strategy &^ newer {
	case fastStrategy:
		if f.fast == nil {
			f.fast = &fast{}
		}
		f.fast.reset(s)
		return f.fast
	case doubleStrategy:
		if f.double == nil {
			f.double = &double{}
		}
		f.double.reset(s)
		return f.double
	}
	if f.rows == nil {
		f.rows = &rows{}
	}
	f.rows.reset(s)
	return f.rows
}

// hasher makes hashes of the bytes at a place.
type hasher struct {
	prime    uint64
	up, down uint8
}

// primes are those of libzstd for hashes of 4 to 8 bytes.
var primes = [...]uint64{4: 2654435761, 889523592379, 227718039650203, 58295818150454627, 0xcf1bbcdcb7a56463}

func newHasher(bytes, log uint8) hasher { return hasher{primes[bytes], 64 - 8*bytes, 64 - log} }

func (h hasher) of(v uint64) uint32 { return uint32(v << (h.up & 63) * h.prime >> (h.down & 63)) }

// table is a table with n places, which are empty.
func table(old []uint32, log uint8) []uint32 {
	n := 1 << log
	if cap(old) < n {
		return make([]uint32, n)
	}
	old = old[:n]
	clear(old)
	return old
}

// search is where a finder is.
type search struct {
	b        []byte
	base     int // place of b in the content
	reach    int // how far back the program looks
	window   int // and how far back the frame does
	from     int // of the block
	end      int
	limit    int // no match is looked for behind
	lowest   int // place of the first byte that can be referred to
	anchor   int // where the last sequence ends
	p        int // where the search goes on
	one, two int // the last offsets; 0 if there is none
	repeats  repeats
	after    bool // the place is behind a match
	guess    seq
}

// begin begins a block, of which margin bytes are not looked at.
func (s *search) begin(t *text, n, margin int, r repeats) {
	s.b, s.base, s.end, s.window = t.b, t.from, t.end(), min(s.reach, t.keep)
	s.from = s.end - n
	s.limit, s.anchor, s.p = s.end-margin, s.from, s.from
	if n < shortest { // such a block is not compressed
		s.limit = -1
	}
	s.repeats, s.after = r, false
	s.one, s.two = int(r[0]), int(r[1])
	if s.p == 0 {
		s.p = 1
	}
	s.bound(s.p - max(0, s.p-s.window))
}

// bound lets go of offsets that lead too far back.
func (s *search) bound(most int) {
	if s.one > most {
		s.one = 0
	}
	if s.two > most {
		s.two = 0
	}
}

// shortest is how many bytes a block has at least that is compressed.
const shortest = 7

func (s *search) word(p int) uint32  { return binary.LittleEndian.Uint32(s.b[p-s.base:]) }
func (s *search) words(p int) uint64 { return binary.LittleEndian.Uint64(s.b[p-s.base:]) }

// repeated says whether the four bytes at p are there before, at an offset.
func (s *search) repeated(p, offset int) bool { return offset > 0 && s.word(p) == s.word(p-offset) }

// same counts the equal bytes at two places, of which p is the later one, up to the end of the block.
func (s *search) same(p, other int) int {
	a, b := s.b[p-s.base:s.end-s.base], s.b[other-s.base:]
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

// match is the sequence of a match at p with what is at other: n bytes are known to be equal.
func (s *search) match(p, other, n int) seq {
	n += s.same(p+n, other+n)
	off := uint32(p-other) + 3
	for p > s.anchor && other > s.lowest && s.b[p-1-s.base] == s.b[other-1-s.base] {
		p, other, n = p-1, other-1, n+1
	}
	return seq{uint32(p - s.anchor), uint32(n), off}
}

// repeat is the sequence of a match at p with the last offset.
func (s *search) repeat(p int) seq {
	return seq{uint32(p - s.anchor), uint32(4 + s.same(p+4, p+4-s.one)), 1}
}

// swap is the sequence of a match with the last offset but one, directly behind another match.
func (s *search) swap() (seq, bool) {
	if !s.after || s.p > s.limit || !s.repeated(s.p, s.two) {
		return seq{}, false
	}
	return seq{0, uint32(4 + s.same(s.p+4, s.p+4-s.two)), 1}, true
}

// take takes a sequence, and returns where its match begins.
func (s *search) take(q seq) (start int) {
	start = s.anchor + int(q.literals)
	s.anchor = start + int(q.length)
	s.p, s.after = s.anchor, true
	s.repeats.take(q)
	switch {
	case q.off > 3:
		s.two, s.one = s.one, int(q.off)-3
	case q.off == 1 && q.literals > 0:
	case q.off == 1 || q.off == 2 && q.literals > 0:
		s.one, s.two = s.two, s.one
		if s.one == 0 {
			s.one = int(s.repeats[0])
		}
	default:
		s.one, s.two = int(s.repeats[0]), int(s.repeats[1])
	}
	s.bound(min(s.window, s.anchor))
	return start
}

// swapped says whether a sequence is what swap finds.
func (q seq) swapped() bool { return q.literals == 0 && q.off == 1 }

// double finds matches as libzstd does with two tables: of hashes of eight bytes, and of fewer. Where nothing is
// found for a while, places are passed over.
type double struct {
	search
	long, short []uint32 // place + 1
	eight, few  hasher
	compares    bool // of two matches, the longer one is taken
	at          int  // the last place that was brought into both tables
}

func (d *double) reset(s setting) {
	d.long, d.short = table(d.long, s.hash), table(d.short, s.chain)
	d.eight, d.few = newHasher(8, s.hash), newHasher(s.least, s.chain)
	d.reach, d.compares = 1<<s.window, s.strategy&newer != 0
}

func (d *double) begin(t *text, n int, r repeats) {
	d.search.begin(t, n, 8, r)
	d.lowest = max(0, d.end-d.window)
	d.at = d.p
}

func (d *double) putLong(p int)  { d.long[d.eight.of(d.words(p))] = uint32(p) + 1 }
func (d *double) putShort(p int) { d.short[d.few.of(d.words(p))] = uint32(p) + 1 }

func (d *double) next() seq {
	q, ok := d.swap()
	if !ok {
		q = d.find()
	}
	d.guess = q
	return q
}

// passStep is how many places are looked at before the step between them grows.
const passStep = 256

// find looks for a match from the place on.
func (d *double) find() seq {
	long, short, eight, few := d.long, d.short, d.eight, d.few
	b, base, lowest, one := d.b, d.base, d.lowest, d.one
	p, step := d.p, 1
	border, next := p+passStep, p+1
	if next > d.limit {
		return seq{}
	}
	v := binary.LittleEndian.Uint64(b[p-base:])
	slot := eight.of(v)
	far := int(long[slot]) - 1
	for next <= d.limit {
		near := &short[few.of(v)]
		other := int(*near) - 1
		long[slot], *near = uint32(p)+1, uint32(p)+1
		d.at = p
		if one > 0 && binary.LittleEndian.Uint32(b[p+1-one-base:]) == uint32(v>>8) {
			return d.repeat(p + 1)
		}
		w := binary.LittleEndian.Uint64(b[next-base:])
		slot = eight.of(w)
		if far > lowest && far < p && binary.LittleEndian.Uint64(b[far-base:]) == v {
			d.remember(slot, next, step)
			return d.match(p, far, 8)
		}
		far = int(long[slot]) - 1
		if other > lowest && other < p && binary.LittleEndian.Uint32(b[other-base:]) == uint32(v) {
			d.remember(slot, next, step)
			return d.longer(p, other, next, far)
		}
		if next >= border {
			step++
			border += passStep
		}
		p, v = next, w
		next += step
	}
	return seq{}
}

// longer is the match of four bytes at p, or one of eight at the next place.
func (d *double) longer(p, other, next, far int) seq {
	if far > d.lowest && far < next && d.words(far) == d.words(next) && (!d.compares || d.same(next, far) > d.same(p, other)) {
		return d.match(next, far, 8)
	}
	return d.match(p, other, 4)
}

// remember brings the place that would have been next into the table, unless it may be behind the match.
func (d *double) remember(slot uint32, next, step int) {
	if step < 4 {
		d.long[slot] = uint32(next) + 1
	}
}

func (d *double) take(q seq) {
	start := d.search.take(q)
	if q.swapped() {
		if start <= d.limit {
			d.putLong(start)
			d.putShort(start)
		}
		return
	}
	if q != d.guess { // as if it had been found where it begins
		for d.at+1 <= min(start, d.limit) {
			d.at++
			d.putLong(d.at)
			d.putShort(d.at)
		}
		d.at = min(start, d.limit)
	}
	if d.p > d.limit {
		return
	}
	d.putLong(d.at + 2)
	d.putLong(d.p - 2)
	d.putShort(d.at + 2)
	d.putShort(d.p - 1)
}

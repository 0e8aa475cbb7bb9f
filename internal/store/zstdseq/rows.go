package zstdseq

import (
	"encoding/binary"
	"math/bits"
)

const (
	// Of a long match, only the first and the last places are brought into the rows.
	skipPlaces  = 384
	firstPlaces = 96
	lastPlaces  = 32
	keptPlaces  = 192
	// passPlaces is where the step between places has become so large that those between are not brought
	// into the rows, with headed rows.
	passPlaces = 8
	rowMargin  = 16
)

// rows finds matches as libzstd does with a table of rows: a row has the last places whose hashes are
// equal but for the lowest eight bits, which are beside them as a tag. A match is given up for a better one that begins one
// or two places behind it, in the lazy strategies.
type rows struct {
	search
	places  []uint32 // place + 1
	tags    []uint8
	heads   []uint8 // of each row: its newest place
	hash    hasher
	log     uint // of the places of a row
	tries   int
	depth   int  // how many places behind a match are looked at
	headed  bool // the first place of a row is not used
	put     int  // places before are in the rows
	passing bool
	found   [64]uint32
}

func (r *rows) reset(s setting) {
	r.log = uint(min(max(s.search, 4), 6))
	r.tries = 1 << min(uint(s.search), r.log)
	r.depth = int(s.strategy&^newer - greedyStrategy)
	r.headed = s.strategy&newer != 0
	r.places = table(r.places, s.hash)
	if n := len(r.places); cap(r.tags) < n {
		r.tags = make([]uint8, n)
	} else {
		r.tags = r.tags[:n]
		clear(r.tags)
	}
	if n := len(r.places) >> r.log; cap(r.heads) < n {
		r.heads = make([]uint8, n)
	} else {
		r.heads = r.heads[:n]
		clear(r.heads)
	}
	r.hash = newHasher(s.least, s.hash-uint8(r.log)+8)
	r.reach, r.put = 1<<s.window, 0
}

func (r *rows) begin(t *text, n int, last repeats) {
	r.search.begin(t, n, rowMargin, last)
	r.lowest = max(0, r.from-r.window)
	if far := r.from - r.put - skipPlaces; far > 0 {
		r.put = r.from - min(keptPlaces, far)
	}
	r.passing = false
}

// insert brings a place into its row.
func (r *rows) insert(p int) {
	h := r.hash.of(r.words(p))
	mask := uint8(1)<<r.log - 1
	head := (r.heads[h>>8] - 1) & mask
	if r.headed && head == 0 {
		head = mask
	}
	r.heads[h>>8] = head
	i := int(h>>8)<<r.log + int(head)
	r.places[i], r.tags[i] = uint32(p)+1, uint8(h)
}

// update brings the places before p into the rows.
func (r *rows) update(p int) {
	if p-r.put > skipPlaces {
		for end := r.put + firstPlaces; r.put < end; r.put++ {
			r.insert(r.put)
		}
		r.put = p - lastPlaces
	}
	for ; r.put < p; r.put++ {
		r.insert(r.put)
	}
}

// longest is the longest match at p of those that are tried: its length, 3 if there is none, and its offset value.
func (r *rows) longest(p int) (length int, off uint32) {
	if r.passing {
		r.put = p
	}
	r.update(p)
	h := r.hash.of(r.words(p))
	row := int(h>>8) << r.log
	n := r.candidates(p, row, int(r.heads[h>>8]), uint8(h))
	if r.put == p {
		r.insert(p)
		r.put++
	}
	length = 3
	here := r.b[p-r.base : r.end-r.base]
	for _, other := range r.found[:n] {
		if there := r.b[int(other)-r.base:]; there[length] != here[length] {
			continue
		}
		if k := r.same(p, int(other)); k > length {
			length, off = k, uint32(p)-other+3
			if k == len(here) {
				break
			}
		}
	}
	return length, off
}

// candidates collects the places of a row with a tag, the newest first.
func (r *rows) candidates(p, row, head int, tag uint8) (n int) {
	size := 1 << r.log
	tags, places := r.tags[row:row+size], r.places[row:row+size]
	lowest := max(r.lowest, p-r.window)
	var mask uint64
	for i := 0; i < size; i += 8 {
		mask |= equalBytes(binary.LittleEndian.Uint64(tags[i:]), tag) << i
	}
	mask = mask>>head | mask<<(size-head)
	if size < 64 {
		mask &= 1<<size - 1
	}
	for tries := r.tries; mask != 0 && tries > 0; tries-- {
		i := (head + bits.TrailingZeros64(mask)) & (size - 1)
		mask &= mask - 1
		if r.headed && i == 0 {
			continue
		}
		place := int(places[i]) - 1
		if place < lowest {
			break
		}
		if place < p {
			r.found[n] = uint32(place)
			n++
		}
	}
	return n
}

// equalBytes has a bit for each byte of v, the lowest first, that is b.
func equalBytes(v uint64, b uint8) uint64 {
	const low = 0x0101010101010101
	v ^= uint64(b) * low
	// The highest bit of each byte that is 0 becomes 1.
	v = ^(v&(low*0x7f) + low*0x7f | v | low*0x7f)
	return v >> 7 * 0x0102040810204080 >> 56
}

func (r *rows) next() seq {
	q, ok := r.swap()
	if !ok {
		q = r.find()
	}
	return q
}

// find looks for a match from the place on.
func (r *rows) find() seq {
	for r.p < r.limit {
		p := r.p
		length, start, off := 0, p+1, uint32(1)
		if r.repeated(p+1, r.one) {
			q := r.repeat(p + 1)
			if r.depth == 0 {
				return q
			}
			length = int(q.length)
		}
		if n, o := r.longest(p); n > length {
			length, start, off = n, p, o
		}
		if length < 4 {
			step := (p-r.anchor)>>8 + 1
			r.p += step
			r.passing = r.headed && step > passPlaces
			continue
		}
		if r.depth > 0 {
			length, start, off = r.better(p, length, start, off)
		}
		return r.sequence(length, start, off)
	}
	return seq{}
}

// gain is what a match saves, about: bits that its bytes take, less those of its offset.
func gain(length, each int, off uint32) int { return length*each - bits.Len32(off) + 1 }

// better looks for better matches at the places behind p.
func (r *rows) better(p, length, start int, off uint32) (int, int, uint32) {
	// at looks at one place; bonus is what a match there must gain more.
	at := func(p, repeatGain, bonus int) bool {
		if r.repeated(p, r.one) {
			n := 4 + r.same(p+4, p+4-r.one)
			if n*repeatGain > gain(length, repeatGain, off)+1 {
				length, start, off = n, p, 1
			}
		}
		n, o := r.longest(p)
		if n >= 4 && gain(n, 4, o) > gain(length, 4, off)+bonus {
			length, start, off = n, p, o
			return true
		}
		return false
	}
	for p < r.limit {
		if p++; at(p, 3, 4) {
			continue
		}
		if r.depth == 2 && p < r.limit {
			if p++; at(p, 4, 7) {
				continue
			}
		}
		break
	}
	return length, start, off
}

// sequence is that of a match, whose begin is moved back over equal bytes.
func (r *rows) sequence(length, start int, off uint32) seq {
	if off > 3 {
		for other := start - int(off) + 3; start > r.anchor && other > r.lowest && r.b[start-1-r.base] == r.b[other-1-r.base]; other-- {
			start--
			length++
		}
	}
	return seq{uint32(start - r.anchor), uint32(length), off}
}

func (r *rows) take(q seq) {
	r.search.take(q)
	r.passing = false
}

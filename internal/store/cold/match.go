package cold

import (
	"encoding/binary"
	"slices"
)

// segment is a part of a block that is made of bytes of the base, by adding.
type segment struct {
	at, n int // in the block
	from  int // in the window
	gain  int // strict or loose
}

// matcher finds the segments of a block.
type matcher struct {
	x       *index
	moving  bool   // fields may move
	allowed []bool // units of the base that the block may use; nil allows all
	out     []segment
	votes   []int32
	ranked  []int32
	mask    []bool
	seen    [64]seenBy // of tell
	turn    uint32
	moved   moved
	cuts    []segment // of cut
}

// seenBy is a difference of two words that was seen in a turn of tell.
type seenBy struct{ turn, by uint32 }

// bounds gives the part of the window around p that may be used.
func (m *matcher) bounds(p int) (from, end int) {
	if m.allowed == nil {
		return 0, len(m.x.data)
	}
	u := (m.x.from + int64(p)) / unit
	first := m.x.from / unit
	a, b := u-first, u-first
	if a < 0 || a >= int64(len(m.allowed)) || !m.allowed[a] {
		return p, p
	}
	for a > 0 && m.allowed[a-1] {
		a--
	}
	for b < int64(len(m.allowed)) && m.allowed[b] {
		b++
	}
	return max(0, int((first+a)*unit-m.x.from)), min(len(m.x.data), int((first+b)*unit-m.x.from))
}

// block finds the segments of a block that is at place in its content.
func (m *matcher) block(t []byte, place int64) []segment {
	m.allowed = nil
	m.scan(t, place)
	if m.count(t) > maxUnits {
		m.choose()
		m.scan(t, place)
	}
	return m.out
}

// again searches those parts of a block that are worth it in the window, whose fields move as the learner found
// out. cost is how many bytes of each part differ or are insertions. It is false if nothing moves, if that is
// hardly better, or if the block would use too much of the base.
func (m *matcher) again(t []byte, place int64, l *learner, cost *[maxParts]int32) bool {
	if !m.moved.begin(l, m.x, m.out) {
		return false
	}
	defer m.moved.end(m.x)
	old := m.bad(t)
	m.cut(cost)
	known := len(m.out)
	from := int(min(max(place-m.x.from, 0), int64(len(m.x.data)))) // of what is next
	for i, at := 0, 0; i <= known; i++ {
		end := len(t)
		if i < known {
			end = m.out[i].at
		}
		if end-at >= apart {
			s := scan{m: m, t: t[:end], i: at, last: segment{at: at, from: from, gain: strict}, shift: from - at, seen: at, again: true}
			s.lo, s.hi = m.bounds(from)
			s.run()
		}
		if i < known {
			at, from = end+m.out[i].n, m.out[i].from+m.out[i].n
		}
	}
	slices.SortFunc(m.out, func(a, b segment) int { return a.at - b.at })
	return old-m.bad(t) >= max(gainAgain, old/8) && m.count(t) <= maxUnits
}

// cut takes the parts of a block that cost much out of its segments.
func (m *matcher) cut(cost *[maxParts]int32) {
	m.cuts = append(m.cuts[:0], m.out...)
	m.out = m.out[:0]
	for _, s := range m.cuts {
		for at, end := s.at, s.at+s.n; at < end; {
			next := at
			for next < end && cost[next>>partLog] < dear {
				next = min(end, (next>>partLog+1)<<partLog)
			}
			if next > at {
				m.out = append(m.out, segment{at: at, n: next - at, from: s.from + at - s.at, gain: s.gain})
			}
			for at = next; at < end && cost[at>>partLog] >= dear; {
				at = min(end, (at>>partLog+1)<<partLog)
			}
		}
	}
}

// bad counts the bytes of a block that are not equal to those of their segments in the window, or in none.
func (m *matcher) bad(t []byte) int {
	n := len(t)
	for _, s := range m.out {
		n -= equal(t[s.at:s.at+s.n], m.x.data[s.from:s.from+s.n])
	}
	return n
}

// count counts the units of the base that the segments use, and how many bytes each
// gives.
func (m *matcher) count(t []byte) int {
	first := m.x.from / unit
	n := int((m.x.from+int64(len(m.x.data))-1)/unit - first + 1)
	if cap(m.votes) < n {
		m.votes, m.mask = make([]int32, n), make([]bool, n)
	}
	m.votes, m.mask = m.votes[:n], m.mask[:n]
	clear(m.votes)
	used := 0
	for _, s := range m.out {
		for p, end := s.from, s.from+s.n; p < end; {
			u := (m.x.from + int64(p)) / unit
			next := min(end, int((u+1)*unit-m.x.from))
			if m.votes[u-first] == 0 {
				used++
			}
			m.votes[u-first] += int32(next - p)
			p = next
		}
	}
	return used
}

// choose allows the units with most bytes.
func (m *matcher) choose() {
	m.ranked = m.ranked[:0]
	for u, v := range m.votes {
		if v > 0 {
			m.ranked = append(m.ranked, int32(u))
		}
	}
	slices.SortFunc(m.ranked, func(a, b int32) int {
		if m.votes[a] != m.votes[b] {
			return int(m.votes[b]) - int(m.votes[a])
		}
		return int(a) - int(b)
	})
	clear(m.mask)
	for _, u := range m.ranked[:maxUnits] {
		m.mask[u] = true
	}
	m.allowed = m.mask
}

// apart is after how many bytes that are not equal a new segment begins, though the
// shift stays.
const apart = 64

// scan is the search for the segments of a block.
type scan struct {
	m      *matcher
	t      []byte  // the block
	last   segment // the one that is being made
	lo, hi int     // what of the window it may use
	shift  int     // of block against window
	i      int     // where the search is
	again  bool    // only for bytes that moved

	seen   int // where the last equal bytes ended
	judged int // up to where drift was asked, or need not be
	wait   int // after how many bytes it is asked again
	asked  int // where realign was asked
	pause  int // after how many bytes it is asked again

	probed int   // where probe was asked
	found  uint8 // its answer
}

// scan finds segments from begin to end. At each place it goes on with the shift
// between block and base that it has, as long as the bytes are equal; where they are
// not, it looks for another place of the base, and takes it if more bytes are equal
// there. Where no run of bytes is found anywhere for a while, drift looks nearby for
// bytes of which many are equal.
func (m *matcher) scan(t []byte, place int64) {
	m.out = m.out[:0]
	from := int(min(max(place-m.x.from, 0), int64(len(m.x.data))))
	s := scan{m: m, t: t, last: segment{from: from, gain: strict}, shift: from, wait: sample, pause: record, probed: -probes}
	s.lo, s.hi = m.bounds(from)
	if !m.moving {
		s.pause = len(t)
	}
	s.run()
}

// run finds the segments from where the search is to the end.
func (s *scan) run() {
	t := s.t
	for s.i < len(t) {
		if !s.again && s.i-s.asked >= s.pause && s.i+record+4 <= len(t) {
			s.realign()
		}
		if !s.again && s.i-s.judged >= s.wait && s.judged+sample <= len(t) {
			s.drift()
			continue
		}
		if s.equals() {
			continue
		}
		if s.i+seed > len(t) {
			break
		}
		if !s.alike() && s.jump() {
			continue
		}
		s.i++
	}
	s.m.end(t, s.last, s.hi, len(t), 0, 0)
}

// realign goes on with another shift if the records at the present one are others.
func (s *scan) realign() {
	s.asked = s.i
	d, ok := s.m.realign(s.t[s.i:], s.i+s.shift, s.lo, s.hi)
	switch {
	case !ok:
		s.pause = min(2*s.pause, 256*record)
	case d != 0:
		s.shift += d
		s.last = s.m.next(s.t, s.last, s.hi, s.i, s.lo, s.i+s.shift, loose)
		s.seen, s.judged, s.wait, s.pause = s.i, s.i, sample, record
	default:
		s.pause = min(2*s.pause, 2*record)
	}
}

// drift goes on with another shift if more bytes are equal nearby.
func (s *scan) drift() {
	d, ok := s.m.drift(s.t[s.judged:], s.judged+s.shift, s.lo, s.hi)
	if !ok {
		s.wait = min(2*(s.i-s.judged), 16*sample)
		s.judged = s.i
		return
	}
	if d != 0 {
		s.shift += d
		s.last = s.m.next(s.t, s.last, s.hi, s.judged, s.lo, s.judged+s.shift, loose)
		s.seen, s.i = s.judged, s.judged+sample
	}
	s.judged, s.wait = s.judged+sample, sample
}

// equals goes on behind the bytes that are equal at the present shift, if those are enough.
func (s *scan) equals() bool {
	i, p := s.i, s.i+s.shift
	if p < s.lo || p >= s.hi {
		return false
	}
	n := same(s.t[i:], s.m.x.data[p:s.hi])
	if n < 8 {
		return false
	}
	if n >= seed && i-s.seen > apart && !s.outweighed(i, p) {
		// The bytes between may be better as insertions.
		s.last = s.m.next(s.t, s.last, s.hi, i, s.lo, p, s.last.gain)
	}
	i += n
	s.i, s.seen = i, i
	if n >= seed {
		s.judged, s.wait = i, sample
	}
	return true
}

// outweighed is true if the bytes that are equal before a gap outweigh those of the gap, from where
// equal bytes ended to i of the block and p of the window, that are not.
func (s *scan) outweighed(i, p int) bool {
	t, base, gain := s.t, s.m.x.data, s.last.gain
	n := min(i-s.last.at, p-s.lo)
	gap := min(i-s.seen, n)
	same := equal(t[i-gap:i], base[p-gap:p])
	score := same*gain - (gap - same)
	for k := gap + 8; k <= n && score <= 0 && score > -forgive*gain; k += 8 {
		score += 8*gain - (gain+1)*unequal(binary.LittleEndian.Uint64(t[i-k:])^binary.LittleEndian.Uint64(base[p-k:]))
	}
	return score > 0
}

// alike is true if most of the next bytes are equal at the present shift.
func (s *scan) alike() bool {
	p := s.i + s.shift
	if p < s.lo || p+seed > s.hi {
		return false
	}
	a, b := (*[seed]byte)(s.t[s.i:]), (*[seed]byte)(s.m.x.data[p:])
	x := flags(binary.LittleEndian.Uint64(a[:]) ^ binary.LittleEndian.Uint64(b[:]))
	x += flags(binary.LittleEndian.Uint64(a[8:]) ^ binary.LittleEndian.Uint64(b[8:]))
	x += flags(binary.LittleEndian.Uint64(a[16:]) ^ binary.LittleEndian.Uint64(b[16:]))
	return seed-sum(x) > seed*2/3
}

// jump goes on with another shift if there are more equal bytes anywhere.
func (s *scan) jump() bool {
	i, p, t, base := s.i, s.i+s.shift, s.t, s.m.x.data
	q := s.find()
	if q < 0 || q == p {
		return false
	}
	lo, hi := s.m.bounds(q)
	n := same(t[i:], base[q:max(q, hi)])
	if n < seed || p >= s.lo && p < s.hi && n <= equal(t[i:i+n], base[p:min(s.hi, p+n)])+8 {
		return false
	}
	// Another shift begins here, or before.
	s.last = s.m.next(t, s.last, s.hi, i, lo, q, strict)
	s.lo, s.hi, s.shift = lo, hi, q-i
	s.i = i + n
	s.seen, s.judged, s.wait = s.i, s.i, sample
	return true
}

// find gives a place in the window that has the next bytes, or -1.
func (s *scan) find() int {
	b := s.t[s.i:]
	if s.again {
		if flat(b) {
			return -1
		}
		return s.m.moved.find(s.m.x, b)
	}
	if s.i < s.probed || s.i >= s.probed+probes {
		s.probed, s.found = s.i, s.m.x.probe(b)
	}
	if s.found>>(s.i-s.probed)&1 == 0 || flat(b) {
		return -1
	}
	return s.m.x.find(b)
}

// drift compares sample bytes, and looks reach bytes around a place, or only near bytes
// where the present shift is not that bad. A place must have enough more equal bytes
// than any other: in records of one length all places are alike.
const (
	sample = 128
	reach  = 4096
	near   = 512
	enough = 4
)

// drift looks around p of the window for bytes that are like the first ones of t,
// though no long run of them is equal: tables of addresses and indexes, all of which
// changed when one was added. d is how far from p such bytes are; ok says that there are
// some.
func (m *matcher) drift(t []byte, p, lo, hi int) (d int, ok bool) {
	base := m.x.data
	t = t[:sample]
	far := reach
	if p >= lo && p+sample <= hi {
		switch n := equal(t, base[p:p+sample]); {
		case n >= sample*3/4:
			return 0, true
		case n >= sample/2:
			far = near
		}
	}
	// A second one is too good only from sample/4+1-enough equal bytes on.
	best, second := sample/4, sample/4-enough
	bytes := (*[sample]byte)(t)
	a, b := binary.LittleEndian.Uint64(t), binary.LittleEndian.Uint64(t[8:])
	for q := max(lo, p-far); q <= min(hi-sample, p+far); q++ {
		// Most places are ruled out by the first 16 bytes.
		now := (*[sample]byte)(base[q:])
		x := flags(binary.LittleEndian.Uint64(now[:])^a) + flags(binary.LittleEndian.Uint64(now[8:])^b)
		if sum(x) > 11 {
			continue
		}
		x += flags8((*[64]byte)(bytes[16:]), (*[64]byte)(now[16:]))
		if sample-sum(x) <= second {
			continue
		}
		for i := 80; i < sample; i += 8 {
			x += flags(binary.LittleEndian.Uint64(bytes[i:]) ^ binary.LittleEndian.Uint64(now[i:]))
		}
		n := sample - sum(x)
		switch {
		case n > best && ok:
			best, second, d = n, best, q-p
		case n > best:
			best, d, ok = n, q-p, true
		case n > second:
			second = n
		}
	}
	if !ok || best < second+enough {
		return 0, false
	}
	return d, true
}

// record is how many bytes realign compares, and records how far from a place it looks.
const (
	record  = 256
	records = 1024
	// few differences of words are those of fields that moved.
	few = record / 4 / 6
)

// realign looks for records around p of the window of which those at the begin of t are
// copies whose fields moved: in the right place their words differ by few amounts, in a wrong
// one by many, though as many bytes may be equal. d is how far from p they are; ok is false if
// the words at p differ by many amounts, and no other place is right.
func (m *matcher) realign(t []byte, p, lo, hi int) (d int, ok bool) {
	skip := -(int(m.x.from&3) + p) & 3
	t, p = t[skip:skip+record], p+skip
	if p < lo || p+record > hi {
		return 0, false
	}
	base := m.x.data
	now := m.tell(t, base[p:], record)
	if now <= few {
		return 0, true
	}
	best := now/2 + 1
	for by := 4; by <= records; by += 4 {
		for _, q := range [2]int{p - by, p + by} {
			if q < lo || q+record > hi {
				continue
			}
			if n := m.tell(t, base[q:], best); n < best {
				best, d = n, q-p
			}
		}
	}
	return d, d != 0
}

// tell counts the different amounts, up to a number of them, by which the words at the begin
// of a and b differ.
func (m *matcher) tell(a, b []byte, most int) (n int) {
	m.turn++
	a, b = a[:record], b[:record]
	for i := 0; i < record && n < most; i += 4 {
		by := binary.LittleEndian.Uint32(a[i:]) - binary.LittleEndian.Uint32(b[i:])
		if by == 0 {
			continue
		}
		if s := &m.seen[by*0x9e3779b1>>26]; s.turn != m.turn || s.by != by {
			*s = seenBy{m.turn, by}
			n++
		}
	}
	return n
}

// next ends segment s and gives the one after it, which has equal bytes from i of the
// block and q of the window on, and may begin before: in the window not before lo.
func (m *matcher) next(t []byte, s segment, hi, i, lo, q, gain int) segment {
	back := backward(t[s.at:i], m.x.data[lo:q], gain)
	back -= m.end(t, s, hi, i, back, q)
	to := segment{at: i - back, from: q - back, gain: gain}
	if k := len(m.out) - 1; k >= 0 && m.out[k].at == s.at && s.at+m.out[k].n == to.at && s.from-s.at == to.from-to.at {
		m.out = m.out[:k]
		return s
	}
	return to
}

// end ends segment s before i, where the equal bytes of the next one begin, whose place
// in the window is q. The next one could begin back bytes earlier; the result says how
// many of these bytes s takes.
func (m *matcher) end(t []byte, s segment, hi, i, back, q int) (taken int) {
	base := m.x.data
	s.n = forward(t[s.at:i], base[s.from:max(s.from, hi)], s.gain)
	begin := i - back
	if over := s.at + s.n - begin; over > 0 {
		// Both claim these bytes: they are divided where most are equal.
		best, score := 0, 0
		for k := range over {
			v := t[begin+k]
			if v == base[s.from+begin-s.at+k] {
				score++
			}
			if v == base[q-back+k] {
				score--
			}
			if score > best {
				best, taken = score, k+1
			}
		}
		s.n += taken - over
	}
	if s.n > 0 {
		m.out = append(m.out, s)
	}
	return taken
}

// forgive is how many bytes more may differ than are equal before forward and backward
// give up.
const forgive = 512

// How many bytes that differ one equal byte outweighs: in a segment that drift found,
// fewer bytes are equal.
const (
	strict = 1
	loose  = 2
)

// forward says how far it pays to take bytes of b for those of a: as long as the equal
// ones outweigh the others.
func forward(a, b []byte, gain int) int {
	n := min(len(a), len(b))
	best, at, score := 0, 0, 0
	for i := 0; i < n; {
		if i+8 <= n {
			d := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:])
			if d == 0 {
				i += 8
				if score += 8 * gain; score > best {
					best, at = score, i
				}
				continue
			}
			if score+8*gain <= best { // none of these bytes can be the best end
				i += 8
				if score += 8*gain - (gain+1)*unequal(d); score < best-forgive*gain {
					break
				}
				continue
			}
		}
		for k := min(i+8, n); i < k; i++ {
			if a[i] == b[i] {
				if score += gain; score > best {
					best, at = score, i+1
				}
			} else {
				score--
			}
		}
		if score < best-forgive*gain {
			break
		}
	}
	return at
}

// backward says how far it pays to take the last bytes of b for those of a.
func backward(a, b []byte, gain int) int {
	n := min(len(a), len(b))
	a, b = a[len(a)-n:], b[len(b)-n:]
	best, at, score := 0, 0, 0
	for i := n; i > 0; {
		if i >= 8 {
			d := binary.LittleEndian.Uint64(a[i-8:]) ^ binary.LittleEndian.Uint64(b[i-8:])
			if d == 0 {
				i -= 8
				if score += 8 * gain; score > best {
					best, at = score, n-i
				}
				continue
			}
			if score+8*gain <= best {
				i -= 8
				if score += 8*gain - (gain+1)*unequal(d); score < best-forgive*gain {
					break
				}
				continue
			}
		}
		for k := max(i-8, 0); i > k; {
			i--
			if a[i] == b[i] {
				if score += gain; score > best {
					best, at = score, n-i
				}
			} else {
				score--
			}
		}
		if score < best-forgive*gain {
			break
		}
	}
	return at
}

// unequal counts the bytes of a word that are not zero.
func unequal(d uint64) int { return sum(flags(d)) }

// flags has a 1 in each byte that is not zero.
func flags(d uint64) uint64 { return nonzero(d) >> 7 & ones }

// sum adds the bytes of a word, up to 255.
func sum(x uint64) int { return int(x * ones >> 56) }

// flags8 adds the flags of the bytes that differ in eight words.
func flags8(a, b *[64]byte) (x uint64) {
	x = flags(binary.LittleEndian.Uint64(a[:]) ^ binary.LittleEndian.Uint64(b[:]))
	x += flags(binary.LittleEndian.Uint64(a[8:]) ^ binary.LittleEndian.Uint64(b[8:]))
	x += flags(binary.LittleEndian.Uint64(a[16:]) ^ binary.LittleEndian.Uint64(b[16:]))
	x += flags(binary.LittleEndian.Uint64(a[24:]) ^ binary.LittleEndian.Uint64(b[24:]))
	x += flags(binary.LittleEndian.Uint64(a[32:]) ^ binary.LittleEndian.Uint64(b[32:]))
	x += flags(binary.LittleEndian.Uint64(a[40:]) ^ binary.LittleEndian.Uint64(b[40:]))
	x += flags(binary.LittleEndian.Uint64(a[48:]) ^ binary.LittleEndian.Uint64(b[48:]))
	return x + flags(binary.LittleEndian.Uint64(a[56:])^binary.LittleEndian.Uint64(b[56:]))
}

// equal counts equal bytes at equal places.
func equal(a, b []byte) (n int) {
	n = min(len(a), len(b))
	for ; len(a) >= 64 && len(b) >= 64; a, b = a[64:], b[64:] {
		n -= sum(flags8((*[64]byte)(a), (*[64]byte)(b)))
	}
	x := uint64(0)
	for ; len(a) >= 8 && len(b) >= 8; a, b = a[8:], b[8:] {
		x += flags(binary.LittleEndian.Uint64(a) ^ binary.LittleEndian.Uint64(b))
	}
	n -= sum(x)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			n--
		}
	}
	return n
}

package functab

import (
	"hash/maphash"
	"slices"
	"strings"
)

// An arena holds records of bytes. Positions count units of four bytes.
type arena struct {
	chunks [][]byte // each but a large record's has at most chunkSize bytes
	size   int64    // capacity of all chunks
}

const (
	chunkBits = 20
	chunkSize = 1 << chunkBits
	maxChunks = 1 << (32 + 2 - chunkBits)
)

// put copies a record and returns its position. ok is false if the arena is full.
func (a *arena) put(p []byte) (pos uint32, ok bool) {
	n := len(a.chunks)
	if n == 0 || len(a.chunks[n-1])+len(p) > chunkSize || a.chunks[n-1] == nil {
		// A record larger than a chunk occupies several chunks.
		more := max(1, (len(p)+chunkSize-1)>>chunkBits)
		if n+more > maxChunks {
			return 0, false
		}
		// The first chunk grows as small tables need; later ones would grow to the
		// full size anyway.
		room := len(p)
		if n > 0 {
			room = max(room, chunkSize)
		}
		a.chunks = append(a.chunks, make([]byte, 0, room))
		a.size += int64(room)
		for range more - 1 {
			a.chunks = append(a.chunks, nil)
		}
		if more > 1 {
			a.chunks[n] = append(a.chunks[n], p...)
			return uint32(n << (chunkBits - 2)), true
		}
		n++
	}
	c := a.chunks[n-1]
	at := len(c)
	before := cap(c)
	c = append(c, p...)
	for len(c)&3 != 0 {
		c = append(c, 0)
	}
	a.size += int64(cap(c) - before)
	a.chunks[n-1] = c
	return uint32((n-1)<<(chunkBits-2) + at/4), true
}

// at returns the bytes from a position to the end of its chunk.
func (a *arena) at(pos uint32) []byte {
	return a.chunks[pos>>(chunkBits-2)][pos<<2&(chunkSize-1):]
}

// An index is a list of addresses, each with the position of a record. An address
// below 4 GiB needs eight bytes.
type index struct {
	low  []uint64 // address<<32 | position
	high []wide
}

type wide struct {
	address uint64
	pos     uint32
}

func (x *index) add(address uint64, pos uint32) {
	if address < 1<<32 {
		x.low = append(x.low, address<<32|uint64(pos))
		return
	}
	x.high = append(x.high, wide{address, pos})
}

func (x *index) len() int { return len(x.low) + len(x.high) }

func (x *index) size() int64 { return int64(8*cap(x.low) + 16*cap(x.high)) }

func (x *index) get(i int) (address uint64, pos uint32) {
	if i < len(x.low) {
		return x.low[i] >> 32, uint32(x.low[i])
	}
	w := x.high[i-len(x.low)]
	return w.address, w.pos
}

// sort orders the entries by address, and by position at one address: records
// added earlier come first.
func (x *index) sort() {
	slices.Sort(x.low)
	slices.SortFunc(x.high, func(a, b wide) int {
		if c := compare(a.address, b.address); c != 0 {
			return c
		}
		return compare(uint64(a.pos), uint64(b.pos))
	})
}

// emptied returns an index that reuses the memory of x. While x is read in order,
// at most as many entries may be added as were read.
func (x *index) emptied() index { return index{low: x.low[:0], high: x.high[:0]} }

// drop removes the last entry.
func (x *index) drop() {
	if n := len(x.high); n > 0 {
		x.high = x.high[:n-1]
		return
	}
	x.low = x.low[:len(x.low)-1]
}

// last returns the number of the last entry at or below address, or -1.
func (x *index) last(address uint64) int {
	i, n := 0, x.len()
	for i < n {
		h := int(uint(i+n) >> 1)
		if a, _ := x.get(h); a > address {
			n = h
		} else {
			i = h + 1
		}
	}
	return i - 1
}

func compare(x, y uint64) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// slots is a hash table of numbers: hash<<32 | number, 0 for an empty slot.
type slots struct {
	list []uint64
	n    int
}

// find returns the number with the given hash that eq accepts, or 0.
func (s *slots) find(hash uint32, eq func(uint32) bool) uint32 {
	if len(s.list) == 0 {
		return 0
	}
	mask := uint32(len(s.list) - 1)
	for i := hash & mask; s.list[i] != 0; i = (i + 1) & mask {
		if uint32(s.list[i]>>32) == hash && eq(uint32(s.list[i])) {
			return uint32(s.list[i])
		}
	}
	return 0
}

func (s *slots) add(hash, number uint32) {
	if s.n*4 >= len(s.list)*3 {
		old := s.list
		s.list = make([]uint64, max(64, 2*len(old)))
		for _, v := range old {
			if v != 0 {
				s.place(v)
			}
		}
	}
	s.place(uint64(hash)<<32 | uint64(number))
	s.n++
}

func (s *slots) place(v uint64) {
	mask := uint32(len(s.list) - 1)
	i := uint32(v>>32) & mask
	for s.list[i] != 0 {
		i = (i + 1) & mask
	}
	s.list[i] = v
}

// texts numbers distinct texts, from 1 on; 0 is the empty text. A text has at most
// maxText bytes, and all texts together have less than 4 GiB.
type texts struct {
	chunks []*strings.Builder
	at     []uint32 // at[n-1] is where text n starts; it ends at the next one or with its chunk
	slots  slots
	seed   maphash.Seed
	full   int64 // capacity of all chunks but the last one
}

const maxText = chunkSize

// number returns the number of s, or 0 if s is empty or does not fit.
func (t *texts) number(s string) uint32 {
	if s == "" {
		return 0
	}
	if t.at == nil {
		t.seed = maphash.MakeSeed()
	}
	hash := uint32(maphash.String(t.seed, s))
	if n := t.slots.find(hash, func(n uint32) bool { return t.text(n) == s }); n != 0 {
		return n
	}
	last := len(t.chunks) - 1
	if last < 0 || t.chunks[last].Len()+len(s) > chunkSize {
		if len(s) > maxText || last+1 >= 1<<(32-chunkBits) {
			return 0
		}
		if last >= 0 {
			t.full += int64(t.chunks[last].Cap())
		}
		t.chunks = append(t.chunks, new(strings.Builder))
		if last++; last > 0 {
			t.chunks[last].Grow(chunkSize)
		}
	}
	t.at = append(t.at, uint32(last<<chunkBits+t.chunks[last].Len()))
	t.chunks[last].WriteString(s)
	n := uint32(len(t.at))
	t.slots.add(hash, n)
	return n
}

// text returns a text without copying it.
func (t *texts) text(n uint32) string {
	if n == 0 || int64(n) > int64(len(t.at)) {
		return ""
	}
	start := t.at[n-1]
	s := t.chunks[start>>chunkBits].String()
	if int(n) < len(t.at) && t.at[n]>>chunkBits == start>>chunkBits {
		s = s[:t.at[n]&(chunkSize-1)]
	}
	return s[start&(chunkSize-1):]
}

func (t *texts) size() int64 {
	n := t.full + int64(4*cap(t.at)) + int64(8*len(t.slots.list))
	if last := len(t.chunks) - 1; last >= 0 {
		n += int64(t.chunks[last].Cap())
	}
	return n
}

package lzx

import (
	"encoding/binary"
	"math/bits"
)

const (
	hash3Bits = 15
	hash4Bits = 19
	sample    = 4        // inside a repetition, one position in sample is inserted
	none      = -1 << 30 // no position: lies before every window
)

// match is a copy of length bytes that start offset bytes before the position.
type match struct{ length, offset uint32 }

// finder finds matches with binary trees. Positions with equal hashes of their
// first four bytes form one tree, which is sorted by the bytes at the positions
// and has the most recent position as its root. The table head3 holds the most
// recent position for each hash of three bytes.
type finder struct {
	buf    []byte
	pos    int // next position to insert
	window int // window size in bytes; the longest offset is window-3
	nice   int // match length that ends the search
	depth  int // limit of the nodes visited in one search
	head3  [1 << hash3Bits]int32
	head4  [1 << hash4Bits]int32
	child  [][2]int32 // by position modulo window: subtrees that sort before and after it

	repeated bool // next has found a match of at least nice bytes
}

func newFinder(window int) *finder {
	return &finder{window: window, child: make([][2]int32, window)}
}

func (f *finder) reset(buf []byte) {
	f.buf, f.pos = buf, 0
	for i := range f.head3 {
		f.head3[i] = none
	}
	for i := range f.head4 {
		f.head4[i] = none
	}
}

// extend returns the length of the common prefix of buf[a:] and buf[b:], at most
// limit. The first n bytes are known to be equal. b < a and a+limit <= len(buf)
// must hold.
func extend(buf []byte, a, b, n, limit int) int {
	for n+8 <= limit {
		if x := binary.LittleEndian.Uint64(buf[a+n:]) ^ binary.LittleEndian.Uint64(buf[b+n:]); x != 0 {
			return n + bits.TrailingZeros64(x)>>3
		}
		n += 8
	}
	for n < limit && buf[a+n] == buf[b+n] {
		n++
	}
	return n
}

// next inserts the next position and appends its matches to found in order of
// increasing length. If found is nil, next only inserts the position.
func (f *finder) next(found []match) []match {
	buf, pos := f.buf, f.pos
	f.pos++
	limit := min(maxMatch, len(buf)-pos)
	if limit < 5 {
		return found
	}
	record := found != nil
	v := binary.LittleEndian.Uint32(buf[pos:])
	h3 := (v << 8) * 0x9E3779B1 >> (32 - hash3Bits)
	h4 := v * 0x9E3779B1 >> (32 - hash4Bits)
	cutoff := max(int32(pos-(f.window-3)), 0)
	best := 3
	if p := f.head3[h3]; record && p >= cutoff && binary.LittleEndian.Uint32(buf[p:])<<8 == v<<8 {
		found = append(found, match{3, uint32(pos) - uint32(p)})
	}
	f.head3[h3] = int32(pos)
	node := f.head4[h4]
	f.head4[h4] = int32(pos)
	if !record {
		best, limit = f.nice-1, min(limit, f.nice)
	}

	child, mask := f.child, f.window-1
	lower, upper := &child[pos&mask][0], &child[pos&mask][1]
	n, lowerLen, upperLen := 0, 0, 0
	for depth := f.depth; ; depth-- {
		if node < cutoff || depth == 0 {
			*lower, *upper = none, none
			return found
		}
		pair := &child[int(node)&mask]
		if buf[int(node)+n] == buf[pos+n] {
			n = extend(buf, pos, int(node), n+1, limit)
			if n > best {
				best = n
				if record {
					found = append(found, match{uint32(n), uint32(pos) - uint32(node)})
				}
				if n >= f.nice || n == limit {
					f.repeated = true
					*lower, *upper = pair[0], pair[1]
					return found
				}
			} else if n == limit {
				*lower, *upper = pair[0], pair[1]
				return found
			}
		}
		if buf[int(node)+n] < buf[pos+n] {
			*lower = node
			lower, node = &pair[1], pair[1]
			lowerLen = n
			n = min(n, upperLen)
		} else {
			*upper = node
			upper, node = &pair[0], pair[0]
			upperLen = n
			n = min(n, lowerLen)
		}
	}
}

// skip advances n positions inside a repetition. The trees already contain its
// earlier occurrence, so skip inserts only a sample of the positions, and all
// positions near the end, where matches of the following bytes may start.
func (f *finder) skip(n int) {
	for end := f.pos + n; f.pos < end; {
		if f.pos%sample == 0 || end-f.pos < 2*sample {
			f.next(nil)
		} else {
			f.pos++
		}
	}
}

// prime inserts the first n positions as history; inside repetitions it inserts
// only a sample.
func (f *finder) prime(n int) {
	for f.pos < n {
		f.repeated = false
		f.next(nil)
		if f.repeated {
			f.pos = min(f.pos+sample-1, n)
		}
	}
}

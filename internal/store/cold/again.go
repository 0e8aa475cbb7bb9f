package cold

import "encoding/binary"

// Where many fields moved, few bytes are equal, and segments are found in wrong places or not at all. The moves
// that are learned from the others say what became of these fields: what costs much is searched again, in a base
// whose fields are moved.

const (
	// Parts of a block are searched again of whose bytes dear or more differ or are insertions, if those are
	// worthAgain together, and must be gainAgain fewer then.
	worthAgain = 12 << 10
	gainAgain  = 4 << 10
	dear       = partLen / 8
	// around is how many bytes of the base before and behind those of the block are moved, too.
	around    = 256 << 10
	movedLen  = 1<<deltaLog + 2*around
	movedStep = 2 // log2 of the distance of places
	movedLog  = 19
	movedBits = 19 // of a slot, that say where
)

// moved are bytes of the window whose fields are moved while a block is searched again, and their
// fingerprints.
type moved struct {
	lo, hi int // in the window; nothing is moved if they are equal
	saved  []byte
	slots  []uint32
	places places
}

// begin moves the fields of the window around the segments of a block, as the moves of l do. It is
// false if there is nothing to move.
func (v *moved) begin(l *learner, x *index, segments []segment) bool {
	shift, ok := usual(segments)
	if !ok || l.moves.n == 0 {
		return false
	}
	v.lo = min(max(shift-around, 0), len(x.data))
	v.hi = min(max(shift+1<<deltaLog+around, 0), len(x.data))
	if v.saved == nil {
		v.saved, v.slots = make([]byte, movedLen), make([]uint32, 1<<movedLog)
	}
	copy(v.saved, x.data[v.lo:v.hi])
	any := false
	for i := range l.moves.n {
		s := &l.moves.steps[i]
		if s.kind == stepCode { // by how much operands move depends on where they come to
			continue
		}
		any = true
		for from := v.lo; from < v.hi; from += partLen {
			s.apply(x.data[from:min(from+partLen, v.hi)], x.from+int64(from), x.from+int64(from), &v.places)
		}
	}
	if !any {
		v.end(x)
		return false
	}
	v.enter(x)
	return true
}

// end puts the bytes of the window back.
func (v *moved) end(x *index) {
	copy(x.data[v.lo:v.hi], v.saved)
	v.lo, v.hi = 0, 0
}

// enter enters the fingerprints of the bytes that are moved.
func (v *moved) enter(x *index) {
	clear(v.slots)
	for p := v.lo; p+seed <= v.hi; p += 1 << movedStep {
		b := x.data[p:]
		if flat(b) {
			continue
		}
		h := fingerprint(b)
		v.slots[h>>(64-movedLog)] = uint32(h)<<movedBits | uint32(p-v.lo)>>movedStep
	}
}

// find gives a place in the window that has the first bytes of b, or -1.
func (v *moved) find(x *index, b []byte) int {
	h := fingerprint(b)
	s := v.slots[h>>(64-movedLog)]
	if (s^uint32(h)<<movedBits)>>movedBits != 0 {
		return -1
	}
	p := v.lo + int(s&(1<<movedBits-1))<<movedStep
	if p+seed > v.hi || binary.LittleEndian.Uint64(x.data[p:]) != binary.LittleEndian.Uint64(b) {
		return -1
	}
	return p
}

// usual gives by how much most bytes of a block are before their place in the window.
func usual(segments []segment) (shift int, ok bool) {
	sum := 0
	for _, s := range segments {
		sum += s.n
	}
	count := 0
	// The middle one, in the order of the block: most shifts grow with it.
	for _, s := range segments {
		if count += s.n; 2*count >= sum {
			return s.from - s.at, true
		}
	}
	return 0, false
}

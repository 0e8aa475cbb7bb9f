package cold

import (
	"encoding/binary"
	"io"
	"math/bits"
)

const (
	// window is how much of the base is in memory at once, and slide how much it
	// moves on at a time for a larger base.
	window = 56 << 20
	slide  = 8 << 20
	// tableLog is the number of slots of the fingerprint table.
	tableLog = 23
	// placeBits of a slot say where, the others check what.
	placeBits = 23
	placeMask = 1<<placeBits - 1
)

// index finds equal bytes in a base: it has the base, or a window on it, in memory,
// and the fingerprints of bytes at places a few bytes apart.
type index struct {
	r     io.ReaderAt
	size  int64
	from  int64  // offset of data in the base
	data  []byte // the window
	slots []uint32
	taken []uint64 // a bit for each slot: these are in a cache, which the slots are too long for
	shift uint     // slots are found by the upper bits of a fingerprint
	step  uint     // log2 of the distance of places
	done  int64
	store []byte

	of     [32]byte // SHA-256 of the base
	layout *layout  // of an unpacked base
	whole  bool     // all of the base is in the window
}

// seed is how many bytes a fingerprint covers.
const seed = 24

func fingerprint(b []byte) uint64 {
	_ = b[seed-1]
	h := binary.LittleEndian.Uint64(b) * 0x9e3779b185ebca87
	h = (bits.RotateLeft64(h, 29) ^ binary.LittleEndian.Uint64(b[8:])) * 0xc2b2ae3d27d4eb4f
	h = (bits.RotateLeft64(h, 29) ^ binary.LittleEndian.Uint64(b[16:])) * 0x9e3779b185ebca87
	return h ^ h>>29
}

// reset makes the index ready for a base, of which it gets the size and the layout. What it has of the same base stays:
// one base is compared with a content before that is encoded, and several contents have one base.
func (x *index) reset(base *Source, size int64, l *layout) {
	x.r = base
	if x.whole && x.of == base.Sum && x.size == size && x.layout.same(l) {
		return
	}
	x.of, x.layout, x.whole = base.Sum, l, false
	x.size, x.from, x.done, x.data = size, 0, 0, x.store[:0]
	x.step = 2
	for x.step < 4 && min(size, window)>>x.step > placeMask>>1 {
		x.step++
	}
	log := bits.Len64(uint64(min(size, window)>>x.step)) + 1
	log = min(max(log, 12), tableLog)
	x.shift = uint(64 - log)
	if len(x.slots) < 1<<log {
		x.slots, x.taken = make([]uint32, 1<<log), make([]uint64, 1<<(log-6))
	}
	x.slots = x.slots[:cap(x.slots)]
	x.slots, x.taken = x.slots[:1<<log], x.taken[:1<<(log-6)]
	clear(x.slots)
	clear(x.taken)
	if n := int(min(size, window)); cap(x.store) < n {
		x.store = nil // before more is taken
		x.store = make([]byte, n)
	}
}

// at moves the window so that it has the surroundings of a place of the content.
func (x *index) at(place int64) error {
	want := place - window/2
	want = max(0, min(want-want%slide, (x.size-window+slide-1)/slide*slide))
	end := min(x.size, want+window)
	if have := x.from + int64(len(x.data)); len(x.data) > 0 && want >= x.from && end <= have {
		return nil
	}
	keep := x.data[:0]
	if have := x.from + int64(len(x.data)); want >= x.from && want < have {
		keep = x.data[want-x.from:]
	}
	n := copy(x.store[:cap(x.store)], keep)
	x.from, x.data = want, x.store[:int(end-want)]
	for n < len(x.data) {
		part := x.data[n:min(n+1<<20, len(x.data))]
		if err := readFull(x.r, part, want+int64(n), "the base"); err != nil {
			return err
		}
		n += len(part)
	}
	x.done = max(x.done, want)
	x.add(end)
	x.whole = want == 0 && end == x.size && x.of != [32]byte{}
	return nil
}

// add enters the fingerprints of the places before end that are not in yet.
func (x *index) add(end int64) {
	step := int64(1) << x.step
	p := (x.done + step - 1) &^ (step - 1)
	for ; p+seed <= end; p += step {
		b := x.data[p-x.from:]
		if flat(b) {
			continue
		}
		h := fingerprint(b)
		k := h >> x.shift
		x.slots[k] = x.slot(h, p)
		x.taken[k/64] |= 1 << (k % 64)
	}
	x.done = p
}

// flat is true for bytes that repeat: they are everywhere, and say nothing.
func flat(b []byte) bool {
	v := binary.LittleEndian.Uint64(b)
	return v == binary.LittleEndian.Uint64(b[8:]) && v == binary.LittleEndian.Uint64(b[16:])
}

func (x *index) slot(h uint64, p int64) uint32 {
	return uint32(h)<<placeBits | uint32(p>>x.step)&placeMask
}

// probes is how many places probe looks up.
const probes = 8

// probe says for each of the first places of b, bit by bit, whether find could find something
// there. Its look-ups do not wait for each other, as those of find do.
func (x *index) probe(b []byte) (mask uint8) {
	var prints [probes]uint64
	for i := range min(probes, len(b)-seed+1) {
		h := fingerprint(b[i:])
		prints[i] = h
		k := h >> x.shift
		mask |= uint8(x.taken[k/64]>>(k%64)&1) << i
	}
	for rest := mask; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros8(rest)
		h := prints[i]
		if s := x.slots[h>>x.shift]; s == 0 || (s^uint32(h)<<placeBits)>>placeBits != 0 {
			mask &^= 1 << i
		}
	}
	return mask
}

// find gives a place in the window that has the first bytes of b, or -1.
func (x *index) find(b []byte) int {
	h := fingerprint(b)
	s := x.slots[h>>x.shift]
	if (s^uint32(h)<<placeBits)>>placeBits != 0 || s == 0 {
		return -1
	}
	// Places repeat after 2^placeBits of them; the window is not longer.
	const all = 1 << placeBits
	p := int64(s&placeMask) - x.from>>x.step
	p = (p&(all-1))<<x.step - x.from&(1<<x.step-1)
	if p < 0 || p+seed > int64(len(x.data)) {
		return -1
	}
	if binary.LittleEndian.Uint64(x.data[p:]) != binary.LittleEndian.Uint64(b) {
		return -1
	}
	return int(p)
}

// same counts the bytes that a and b have in common at their beginning.
func same(a, b []byte) int {
	n := 0
	for len(a) >= 8 && len(b) >= 8 {
		if d := binary.LittleEndian.Uint64(a) ^ binary.LittleEndian.Uint64(b); d != 0 {
			return n + bits.TrailingZeros64(d)>>3
		}
		n += 8
		a, b = a[8:], b[8:]
	}
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return n + i
		}
	}
	return n + min(len(a), len(b))
}

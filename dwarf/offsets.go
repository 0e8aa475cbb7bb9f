package dwarf

const (
	firstOffsets = 1 << 9
	maxOffsets   = 1 << 17 // slots of 16 bytes
)

// offsets remembers numbers by offsets in a section. It has no pointers, so that the
// garbage collector does not read it, and forgets everything when it is full.
type offsets struct {
	slots []offsetSlot // a power of two; the offset is stored plus 1, so that 0 is empty
	n     int
	shift uint8
}

type offsetSlot struct {
	key   uint64
	value uint64
}

// slot returns the slot of an offset, or the empty one where it would be.
func (t *offsets) slot(off uint64) *offsetSlot {
	mask := uint64(len(t.slots) - 1)
	i := off * 0x9E3779B97F4A7C15 >> t.shift
	for t.slots[i].key != off+1 && t.slots[i].key != 0 {
		i = (i + 1) & mask
	}
	return &t.slots[i]
}

func (t *offsets) get(off uint64) (value uint64, ok bool) {
	if t.n == 0 {
		return 0, false
	}
	s := t.slot(off)
	return s.value, s.key != 0
}

// set remembers a number. The offset is below the highest uint64.
func (t *offsets) set(off, value uint64) {
	if 4*t.n >= 3*len(t.slots) {
		t.grow()
	}
	s := t.slot(off)
	if s.key == 0 {
		t.n++
	}
	*s = offsetSlot{off + 1, value}
}

func (t *offsets) grow() {
	old := t.slots
	if len(old) >= maxOffsets {
		clear(old)
		t.n = 0
		return
	}
	t.slots = make([]offsetSlot, max(firstOffsets, 4*len(old)))
	t.shift = 64
	for n := len(t.slots); n > 1; n /= 2 {
		t.shift--
	}
	for _, s := range old {
		if s.key != 0 {
			*t.slot(s.key - 1) = s
		}
	}
}

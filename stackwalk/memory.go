package stackwalk

import "encoding/binary"

const (
	blockSize = 512
	blocks    = 16
)

// memory reads words and keeps a few blocks: the words of a frame lie together.
type memory struct {
	from Memory
	kept [blocks]struct {
		start uint64
		n     int
		data  [blockSize]byte
	}
}

// word reads a word of 4 or 8 bytes. It returns false if the dump does not hold it.
func (m *memory) word(address uint64, size int) (uint64, bool) {
	start := address &^ (blockSize - 1)
	b := &m.kept[address/blockSize%blocks]
	if b.n == 0 || b.start != start {
		b.start, b.n = start, m.from.ReadMemory(b.data[:], start)
	}
	at := int(address - start)
	p := b.data[min(at, b.n):b.n]
	if len(p) < size {
		// The memory that the dump holds begins in the block, or the word crosses its end.
		var own [8]byte
		if m.from.ReadMemory(own[:size], address) < size {
			return 0, false
		}
		p = own[:]
	}
	if size == 4 {
		return uint64(binary.LittleEndian.Uint32(p)), true
	}
	return binary.LittleEndian.Uint64(p), true
}

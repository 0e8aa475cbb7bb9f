package zstdpoint

import "encoding/binary"

// How a block has one of its tables.
const (
	modePredefined = iota
	modeOneSymbol
	modeDescribed
	modeRepeat
)

// table is one of the three tables as the last block left it.
type table struct {
	described []byte // its description; nil: it has none that a dictionary can have
	list      []state
	counts    []int16 // of list, if that is not built yet
	log       uint
}

func (t *table) states() []state {
	if t.list == nil && t.counts != nil {
		t.list = build(t.counts, t.log)
	}
	return t.list
}

// coding is what one block of a frame takes over from the blocks in front of it, besides
// their bytes.
type coding struct {
	huffman []byte // the description of the table of literals; nil: none yet
	tables  [tables]table
	recent  [3]uint32 // the last three offsets; 0: unknown
	follows bool      // the offsets of the sequences are read
}

// The parts of coding, as a set.
const partHuffman = 1 << tables

// use is how a block uses what the blocks in front of it have left.
type use struct{ needs, sets uint8 }

// block reads a compressed block: what it describes replaces what is known.
func (c *coding) block(b []byte) (use, error) {
	rest, u, err := c.literals(b)
	if err != nil || len(rest) == 0 {
		return u, err
	}
	n := int(rest[0])
	switch {
	case n == 0:
		return u, nil
	case n < 128:
		rest = rest[1:]
	case n < 255 && len(rest) >= 2:
		n, rest = (n-128)<<8+int(rest[1]), rest[2:]
	case n == 255 && len(rest) >= 3:
		n, rest = int(binary.LittleEndian.Uint16(rest[1:]))+0x7f00, rest[3:]
	default:
		return u, errDamaged
	}
	if len(rest) == 0 || rest[0]&3 != 0 {
		return u, errDamaged
	}
	modes := rest[0]
	rest = rest[1:]
	for t := range tables {
		mode := modes >> (6 - 2*t) & 3
		if mode == modeRepeat {
			u.needs |= 1 << t
			continue
		}
		u.sets |= 1 << t
		size, err := c.tables[t].read(mode, rest, &kinds[t])
		if err != nil {
			return u, err
		}
		rest = rest[size:]
	}
	if !c.follows {
		c.recent = [3]uint32{}
		return u, nil
	}
	return u, c.sequences(n, rest)
}

// literals reads the header of the literals and returns what is behind them.
func (c *coding) literals(b []byte) (rest []byte, u use, err error) {
	if len(b) == 0 {
		return nil, u, errDamaged
	}
	kind, format := b[0]&3, b[0]>>2&3
	var head, size int
	var n [8]byte
	copy(n[:], b)
	v := binary.LittleEndian.Uint64(n[:])
	if kind < 2 { // as they are, or one byte many times
		switch format {
		case 1:
			head, size = 2, int(v>>4&0xfff)
		case 3:
			head, size = 3, int(v>>4&0xfffff)
		default:
			head, size = 1, int(v>>3&0x1f)
		}
		if kind == 1 {
			size = 1
		}
	} else {
		switch format {
		case 2:
			head, size = 4, int(v>>18&0x3fff)
		case 3:
			head, size = 5, int(v>>22&0x3ffff)
		default:
			head, size = 3, int(v>>14&0x3ff)
		}
	}
	if head+size > len(b) {
		return nil, u, errDamaged
	}
	switch kind {
	case 2:
		d := b[head : head+size]
		if len(d) == 0 {
			return nil, u, errDamaged
		}
		// The description begins with its size, or with the number of its weights of four bits.
		length := 1 + int(d[0])
		if d[0] >= 128 {
			length = 1 + (int(d[0])-127+1)/2
		}
		if length > len(d) {
			return nil, u, errDamaged
		}
		c.huffman = append(c.huffman[:0], d[:length]...)
		u.sets = partHuffman
	case 3:
		u.needs = partHuffman
	}
	return b[head+size:], u, nil
}

// read reads a table that a block has, and returns the number of its bytes.
func (t *table) read(mode byte, b []byte, k *kind) (size int, err error) {
	kept := t.described[:0]
	*t = table{}
	switch mode {
	case modePredefined:
		t.counts, t.log = k.predefined, k.log
	case modeOneSymbol:
		if len(b) == 0 || int(b[0]) > k.most {
			return 0, errDamaged
		}
		size, t.list = 1, []state{{symbol: b[0]}}
	default:
		if t.counts, t.log, size, err = distribution(b, k); err != nil {
			return 0, err
		}
		t.described = append(kept, b[:size]...)
	}
	return size, nil
}

// sequences reads n sequences, for their offsets.
func (c *coding) sequences(n int, b []byte) error {
	r, err := newBackward(b)
	if err != nil {
		return err
	}
	var lists [tables][]state
	var at [tables]state
	for t := range tables {
		list := c.tables[t].states()
		if list == nil {
			return errDamaged
		}
		lists[t] = list
		at[t] = list[r.read(log2(len(list)))]
	}
	for i := range n {
		code := at[offsets].symbol
		value := uint64(1)<<code + uint64(r.read(uint(code)))
		r.read(extraBits(matchLengths, at[matchLengths].symbol))
		length := at[literalLengths].symbol
		r.read(extraBits(literalLengths, length))
		c.offset(value, length == 0)
		if i == n-1 {
			break
		}
		for _, t := range [...]int{literalLengths, matchLengths, offsets} {
			next := int(at[t].base) + int(r.read(uint(at[t].bits)))
			if next >= len(lists[t]) {
				return errDamaged
			}
			at[t] = lists[t][next]
		}
	}
	if r.bad || r.left > 0 || len(r.b) > 0 {
		return errDamaged
	}
	return nil
}

func log2(n int) (log uint) {
	for ; n > 1; n >>= 1 {
		log++
	}
	return log
}

// offset notes the offset of a sequence. alone says that it has no literals.
func (c *coding) offset(value uint64, alone bool) {
	r := &c.recent
	if value > 3 {
		r[0], r[1], r[2] = uint32(value-3), r[0], r[1]
		return
	}
	if alone {
		value++
	}
	switch value {
	case 2:
		r[0], r[1] = r[1], r[0]
	case 3:
		r[0], r[1], r[2] = r[2], r[0], r[1]
	case 4:
		less := uint32(0)
		if r[0] > 1 {
			less = r[0] - 1
		}
		r[0], r[1], r[2] = less, r[0], r[1]
	}
}

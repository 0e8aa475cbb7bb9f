package cold

import (
	"bufio"
	"encoding/binary"
	"io"
	"io/fs"
	"math/bits"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// decoder decodes frames one at a time, for any number of readers. It takes no memory
// for a frame that claims more than a payload.
var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxPayload), zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true), zstd.IgnoreChecksum(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
})

const (
	group     = 64       // blocks between two checkpoints
	keptBytes = 11 << 20 // of decoded blocks of a key
	keptKey   = keptBytes >> keyLog
)

// checkpoint is where a group of blocks begins.
type checkpoint struct{ frame, entry int64 }

// Reader reads the content of a cold file. Each block is checked before a byte of it is
// given. ReadAt may be called by several goroutines; one at a time decodes.
type Reader struct {
	r      io.ReaderAt
	base   io.ReaderAt
	header Header
	foot   foot
	points []checkpoint
	packer *packer // nil for a content that is not unpacked

	mu      sync.Mutex
	group   int64 // whose entries are at hand; -1 if none are
	entries []entry
	frames  []int64 // offsets of the group's frames
	kept    []keptBlock
	clock   int64
	*scratch
}

// scratch is memory for decoding a block.
type scratch struct {
	frame   []byte
	payload []byte
	units   [][]byte // of the base, that a block names
	gather  []byte   // those that are not in blocks of a key
	moves   moves
}

// The memory of a Reader is kept for the next one, until the garbage collector wants it.
var (
	scratches   = sync.Pool{New: func() any { return new(scratch) }}
	keyBlocks   = sync.Pool{New: func() any { return new([1<<keyLog + slack]byte) }}
	deltaBlocks = sync.Pool{New: func() any { return new([1<<deltaLog + slack]byte) }}
)

// With slack bytes more than a block has, and most bytes more than a frame has, the decoder takes
// quick copies that may write behind the end.
const (
	slack = 16
	most  = 128<<10 + slack
)

// newData gives memory for a block.
func (c *Reader) newData() []byte {
	switch size := c.header.UnpackedSize(); {
	case size < c.header.BlockSize:
		return make([]byte, size, size+slack)
	case c.header.Form == KeyForm:
		return keyBlocks.Get().(*[1<<keyLog + slack]byte)[:1<<keyLog]
	}
	return deltaBlocks.Get().(*[1<<deltaLog + slack]byte)[:1<<deltaLog]
}

// release gives the memory of the Reader back.
func (c *Reader) release() {
	if c.scratch != nil {
		clear(c.units)
		scratches.Put(c.scratch)
	}
	for _, b := range c.kept {
		switch b := b.data[:cap(b.data)]; len(b) {
		case 1<<keyLog + slack:
			keyBlocks.Put((*[1<<keyLog + slack]byte)(b))
		case 1<<deltaLog + slack:
			deltaBlocks.Put((*[1<<deltaLog + slack]byte)(b))
		}
	}
	c.kept, c.scratch, c.entries, c.frames, c.group = nil, nil, nil, nil, -1
}

// keptBlock is a decoded block.
type keptBlock struct {
	block int64 // -1 if none
	used  int64
	data  []byte
}

// Open opens a cold file of size bytes. For a delta, base is the plain content of the
// base, of which the caller knows that its hash is Header.BaseSum: the plain file or a
// Reader of its key. For a key, base is nil. The Reader uses r and base until it is
// closed, and closes neither.
func Open(r io.ReaderAt, size int64, base io.ReaderAt) (*Reader, error) {
	h, f, err := readEnds(r, size)
	if err != nil {
		return nil, err
	}
	c := &Reader{r: r, base: base, header: h, foot: f, group: -1}
	n := 2
	if h.Form == KeyForm {
		n = keptKey
	}
	c.kept = make([]keptBlock, n)
	for i := range c.kept {
		c.kept[i].block = -1
	}
	if s, ok := base.(interface{ Size() int64 }); ok && s.Size() != h.BaseSize {
		return nil, damaged("the base has %d bytes, not %d", s.Size(), h.BaseSize)
	}
	if h.Form == DeltaForm && base == nil {
		return nil, damaged("a delta is opened without its base")
	}
	if h.base != nil {
		c.base = unpackedBase(base, h.base)
	}
	if h.own != nil {
		c.packer = newPacker(storedForm{c}, h.own, true)
	}
	err = walk(r, h, f, func(i int64, _ *entry, frame, at int64) error {
		if i%group == 0 {
			c.points = append(c.points, checkpoint{frame, at})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// unpackedBase returns the unpacked form of a base: what its key stores, if that has the same
// streams.
func unpackedBase(base io.ReaderAt, l *layout) io.ReaderAt {
	if key, ok := base.(*Reader); ok && key.header.own.same(l) {
		return storedForm{key}
	}
	return newUnpacker(base, l, keptBytes/pieceSize)
}

// storedForm reads what the blocks of a cold file hold: the unpacked form with recipes.
type storedForm struct{ c *Reader }

func (s storedForm) ReadAt(b []byte, offset int64) (int, error) { return s.c.readStored(b, offset) }

// Header is the head of the file.
func (c *Reader) Header() Header { return c.header }

// Size is the length of the content.
func (c *Reader) Size() int64 { return c.header.Size }

// Close frees the memory of the Reader.
func (c *Reader) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release()
	return nil
}

// ReadAt reads bytes of the content.
func (c *Reader) ReadAt(b []byte, offset int64) (n int, err error) {
	if c.packer != nil {
		return c.packer.ReadAt(b, offset)
	}
	return c.readStored(b, offset)
}

// readStored reads what the blocks hold.
func (c *Reader) readStored(b []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, io.EOF
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for n < len(b) {
		if offset >= c.header.UnpackedSize() {
			return n, io.EOF
		}
		i := offset / c.header.BlockSize
		data, err := c.block(i)
		if err != nil {
			return n, err
		}
		k := copy(b[n:], data[offset-i*c.header.BlockSize:])
		n += k
		offset += int64(k)
	}
	return n, nil
}

// WriteTo writes the whole content.
func (c *Reader) WriteTo(w io.Writer) (n int64, err error) {
	if c.packer != nil && c.header.own.isHashes() {
		return c.writeHashed(w)
	}
	if c.packer != nil {
		// A packer of its own: the streams are made once, and nothing of them is kept.
		return io.CopyBuffer(struct{ io.Writer }{w}, io.NewSectionReader(newPacker(storedForm{c}, c.header.own, false), 0, c.header.Size),
			make([]byte, pieceSize))
	}
	for i := range c.header.blocks() {
		k, err := c.writeBlock(w, i)
		n += int64(k)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (c *Reader) writeBlock(w io.Writer, i int64) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	data, err := c.block(i)
	if err != nil {
		return 0, err
	}
	return w.Write(data)
}

// block gives the bytes of a block, which stay until the next call.
func (c *Reader) block(i int64) ([]byte, error) {
	if c.kept == nil {
		return nil, fs.ErrClosed
	}
	c.clock++
	oldest := &c.kept[0]
	for k := range c.kept {
		b := &c.kept[k]
		if b.block == i {
			b.used = c.clock
			return b.data[:c.header.blockLen(i)], nil
		}
		if b.used < oldest.used {
			oldest = b
		}
	}
	e, at, err := c.entry(i)
	if err != nil {
		return nil, err
	}
	oldest.block = -1
	if oldest.data == nil {
		oldest.data = c.newData()
	}
	if c.scratch == nil {
		c.scratch = scratches.Get().(*scratch)
	}
	data := oldest.data[:c.header.blockLen(i)]
	if err := c.decode(data, i, e, at); err != nil {
		return nil, err
	}
	if xxhash.Sum64(data) != e.sum {
		return nil, damaged("block %d has another sum", i)
	}
	oldest.block, oldest.used = i, c.clock
	return data, nil
}

// entry gives the entry of a block and the offset of its frame. It reads the entries
// of a group of blocks, and checks them as Open did: the file may have changed.
func (c *Reader) entry(i int64) (*entry, int64, error) {
	g := i / group
	if g == c.group {
		return &c.entries[i%group], c.frames[i%group], nil
	}
	c.group = -1
	from, end := c.points[g], c.foot.len
	if g+1 < int64(len(c.points)) {
		end = c.points[g+1].entry
	}
	t := tableReader{h: c.header, next: g * group,
		r: bufio.NewReader(io.NewSectionReader(c.r, c.foot.table+from.entry, end-from.entry))}
	n := min(group, c.header.blocks()-g*group)
	if c.entries == nil {
		c.entries, c.frames = make([]entry, group), make([]int64, group)
	}
	frame := from.frame
	for k := range n {
		if err := t.read(&c.entries[k]); err != nil {
			return nil, 0, err
		}
		c.frames[k] = frame
		if frame += int64(c.entries[k].frame); frame > c.foot.table {
			return nil, 0, damaged("the frames are longer than the file")
		}
	}
	c.group = g
	return &c.entries[i%group], c.frames[i%group], nil
}

// decode makes the bytes of a block, all len(data) of them.
func (c *Reader) decode(data []byte, i int64, e *entry, at int64) error {
	switch e.kind {
	case kindZero:
		clear(data)
		return nil
	case kindCopy:
		return readFull(c.base, data, e.extents[0].first*unit, "the base")
	}
	c.frame = grow(c.frame, int(e.frame))
	if err := readFull(c.r, c.frame, at, "a frame"); err != nil {
		return err
	}
	if e.kind == kindPlain {
		out, err := decoder().DecodeAll(c.frame, data[:0:min(len(data)+slack, cap(data))])
		if err != nil || len(out) != len(data) {
			return damaged("the frame of block %d", i)
		}
		return nil
	}
	size := e.controls + e.diffs + len(data)
	c.payload = grow(c.payload, size+most)
	out, err := decoder().DecodeAll(c.frame, c.payload[:0:size+most])
	if err != nil || len(out) < e.controls+e.diffs || len(out) > size {
		return damaged("the frame of block %d", i)
	}
	free, err := c.gatherBase(e)
	if err != nil {
		return err
	}
	defer free()
	if !c.apply(data, c.units, e, i<<deltaLog, out) {
		return damaged("the controls of block %d", i)
	}
	return nil
}

// gatherBase gets the units of the base that a block names, one after the other. They stay as they
// are until free is called.
func (c *Reader) gatherBase(e *entry) (free func(), err error) {
	c.units = c.units[:0]
	if key := c.key(); key != nil && key.fits(e.extents) {
		key.mu.Lock()
		if err := c.gatherKey(key, e); err != nil {
			key.mu.Unlock()
			return nil, err
		}
		return key.mu.Unlock, nil
	}
	c.gather = grow(c.gather, int(e.units())*unit)
	n := 0
	for _, x := range e.extents {
		from := x.first * unit
		part := c.gather[n:][:min(x.n*unit, c.header.unpackedBase()-from)]
		if err := readFull(c.base, part, from, "the base"); err != nil {
			return nil, err
		}
		n += len(part)
		clear(c.gather[n : n+int(x.n)*unit-len(part)])
		n += int(x.n)*unit - len(part)
	}
	for n := 0; n < len(c.gather); n += unit {
		c.units = append(c.units, c.gather[n:n+unit])
	}
	return func() {}, nil
}

// key is the base, if it is a key whose blocks hold what the delta was made of.
func (c *Reader) key() *Reader {
	switch base := c.base.(type) {
	case *Reader:
		if base.packer == nil {
			return base
		}
	case storedForm:
		return base.c
	}
	return nil
}

// fits is true if a key keeps all blocks at once in which some units are.
func (c *Reader) fits(extents []extent) bool {
	n, end := int64(0), int64(0)
	for _, x := range extents {
		first := max(end, x.first*unit/c.header.BlockSize)
		end = ((x.first+x.n)*unit + c.header.BlockSize - 1) / c.header.BlockSize
		n += end - first
	}
	return c.header.Form == KeyForm && n <= int64(len(c.kept))
}

// gatherKey gets units as parts of the blocks of a key, which is locked.
func (c *Reader) gatherKey(key *Reader, e *entry) error {
	size := c.header.unpackedBase()
	for _, x := range e.extents {
		for u := x.first; u < x.first+x.n; u++ {
			at := u * unit
			data, err := key.block(at / key.header.BlockSize)
			if err != nil {
				return err
			}
			data = data[at%key.header.BlockSize:]
			if n := size - at; n < unit { // the last one ends early, and zeros are behind it
				c.gather = grow(c.gather, unit)
				clear(c.gather[copy(c.gather, data[:n]):])
				data = c.gather
			}
			c.units = append(c.units, data[:unit:unit])
		}
	}
	return nil
}

// grow gives a slice of n bytes, b if it is large enough.
func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n, 1<<bits.Len(uint(max(n, 1)-1))) // not a little more each time
	}
	return b[:n]
}

// apply rebuilds a block from the gathered units of the base and the payload of its
// frame. pos is where in the base the first step begins. It is false if the payload
// contradicts itself or leaves the ranges.
func (c *Reader) apply(data []byte, gathered [][]byte, e *entry, pos int64, payload []byte) bool {
	controls, rest := payload[:e.controls], payload[e.controls:]
	inserts, rest := rest[e.diffs:], rest[:e.diffs]
	c.moves.reset()
	if e.kind == kindMoved {
		var ok bool
		if rest, ok = c.moves.parse(rest); !ok {
			return false
		}
	}
	var diffs differences
	if !diffs.parse(rest) {
		return false
	}
	block, whole := pos, len(data)
	for len(controls) > 0 {
		n, a := binary.Uvarint(controls)
		if a <= 0 {
			return false
		}
		m, b := binary.Uvarint(controls[a:])
		if b <= 0 {
			return false
		}
		step, d := binary.Varint(controls[a+b:])
		if d <= 0 {
			return false
		}
		controls = controls[a+b+d:]
		if n > uint64(len(data)) || m > uint64(len(data))-n || m > uint64(len(inserts)) || n+m == 0 {
			return false
		}
		if pos += step; pos < 0 || pos > maxSize {
			return false
		}
		if n > 0 {
			from, ok := place(e.extents, pos, int64(n))
			if !ok {
				return false
			}
			for to := data[:n]; len(to) > 0; {
				k := copy(to, gathered[from/unit][from%unit:])
				to, from = to[k:], from+int64(k)
			}
			at := whole - len(data)
			c.moves.apply(data[:n], at, pos, block+int64(at))
			if !diffs.add(data[:n]) {
				return false
			}
			pos += int64(n)
		}
		copy(data[n:n+m], inserts)
		data, inserts = data[n+m:], inserts[m:]
	}
	return len(data) == 0 && len(inserts) == 0 && diffs.end()
}

// place says where n bytes at pos of the base are among the gathered units.
func place(extents []extent, pos, n int64) (int64, bool) {
	before := int64(0)
	for _, x := range extents {
		if from := x.first * unit; pos >= from && n <= x.n*unit && pos-from <= x.n*unit-n {
			return before + pos - from, true
		}
		before += x.n * unit
	}
	return 0, false
}

package xz

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"
)

// Limits of an index.
const (
	maxIndex   = 16 << 20 // bytes of the indexes of a file
	maxStreams = 1 << 16
	maxBlocks  = 1 << 18 // of a file: their list takes 40 bytes each
)

// errNoBlocks and errManyBlocks mean that a file is read from its beginning.
var (
	errNoBlocks   = errors.New("xz: the data has one block only, or other filters")
	errManyBlocks = fmt.Errorf("xz: the data has more than %d blocks", maxBlocks)
)

// block is a part that can be decompressed alone.
type block struct {
	at, unpadded int64 // where it is, and its size without the padding
	from, plain  int64 // its offset in the decompressed bytes, and their number
	check        byte
}

// Blocks decompresses data that was compressed in several blocks, which the data's own
// index lists. What is skipped is not decompressed where that is possible: neither blocks from
// which nothing is read, nor what follows the last byte that is read of one. The checksum of a
// block is compared when it is read to its end.
type Blocks struct {
	at   io.ReaderAt
	most uint32
	list []block
	size int64 // of the decompressed bytes

	pos  int64
	cur  int     // the current block
	end  int64   // of it
	z    *reader // of it, or
	own  *ahead  // it was begun ahead; both are nil if it is closed
	next *ahead  // the block after it; may be nil
	used int64   // how much was read of the last blocks on average, of 1,024 parts

	spare chan struct{}
	free  []*ahead // whose memory is used again
}

// NewBlocks reads the index of the data of size bytes at r. It returns an error if nothing
// would be gained: NewReader reads the data then. As long as spare has an element, which is
// taken and given back, another goroutine decompresses the next block; spare may be nil.
func NewBlocks(r io.ReaderAt, size int64, dictionary uint32, spare chan struct{}) (*Blocks, error) {
	b := &Blocks{at: r, most: dictionary, spare: spare, used: 1024}
	left := int64(maxIndex)
	for end, n := size, 0; end > 0; n++ {
		if n > maxStreams {
			return nil, errDamaged
		}
		// The footer, behind zeros in groups of four.
		var foot [headerSize]byte
		if end < 2*headerSize {
			return nil, errDamaged
		}
		if err := readAt(r, foot[:], end-headerSize); err != nil {
			return nil, err
		}
		if binary.LittleEndian.Uint32(foot[8:]) == 0 {
			end -= 4
			continue
		}
		start, blocks, err := readIndex(r, end, foot, &left)
		if err != nil {
			return nil, err
		}
		if b.list = append(b.list, blocks...); len(b.list) > maxBlocks {
			return nil, errManyBlocks
		}
		end = start
	}
	slices.Reverse(b.list)
	for i := range b.list {
		b.list[i].from = b.size
		if b.size += b.list[i].plain; b.size < 0 || b.size > 1<<61 {
			return nil, errDamaged
		}
	}
	if len(b.list) < 2 {
		return nil, errNoBlocks
	}
	return b, b.open(0)
}

func readAt(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return noEOF(err)
}

// readIndex reads the index of the stream that ends at end, with this footer. It returns
// where the stream starts, and its blocks from the last to the first.
func readIndex(r io.ReaderAt, end int64, foot [headerSize]byte, left *int64) (start int64, list []block, err error) {
	le := binary.LittleEndian
	size := (int64(le.Uint32(foot[4:])) + 1) * 4
	if string(foot[10:]) != footMagic || crc32.ChecksumIEEE(foot[4:10]) != le.Uint32(foot[:]) || size > end-2*headerSize {
		return 0, nil, errDamaged
	}
	if *left -= size; *left < 0 {
		return 0, nil, fmt.Errorf("xz: an index of more than %d bytes", maxIndex)
	}
	index := make([]byte, size)
	at := end - headerSize - size
	if err := readAt(r, index, at); err != nil {
		return 0, nil, err
	}
	if index[0] != 0 || crc32.ChecksumIEEE(index[:size-4]) != le.Uint32(index[size-4:]) {
		return 0, nil, errDamaged
	}
	p := index[1 : size-4]
	number := func() int64 {
		n, w := binary.Uvarint(p)
		if w <= 0 || n > 1<<61 {
			err, p = errDamaged, nil
			return 0
		}
		p = p[w:]
		return int64(n)
	}
	n := number()
	if n > maxBlocks {
		return 0, nil, errManyBlocks
	}
	for ; n > 0 && err == nil; n-- {
		list = append(list, block{unpadded: number(), plain: number(), check: foot[9]})
	}
	if err != nil {
		return 0, nil, err
	}
	slices.Reverse(list)
	for i := range list {
		if at -= (list[i].unpadded + 3) &^ 3; at < headerSize {
			return 0, nil, errDamaged
		}
		list[i].at = at
	}
	at -= headerSize
	var head [headerSize]byte
	if err := readAt(r, head[:], at); err != nil {
		return 0, nil, err
	}
	if string(head[:6]) != headMagic || head[7] != foot[9] {
		return 0, nil, errDamaged
	}
	return at, list, nil
}

// open opens a block.
func (b *Blocks) open(i int) error {
	b.closeBlock()
	if left := b.list[b.cur]; left.plain > 0 && left.plain <= maxAhead && b.pos >= left.from {
		b.used = (3*b.used + min(b.pos-left.from, left.plain)*1024/left.plain) / 4
	}
	l := b.list[i]
	b.cur, b.pos, b.end = i, l.from, l.from+l.plain
	if b.next != nil && b.next.i == i {
		b.own, b.next = b.next, nil
		b.own.most.Store(l.plain)
	} else {
		b.drop(b.next)
		b.next = nil
		if err := b.stream(); err != nil {
			return err
		}
	}
	b.start(i + 1)
	return nil
}

// stream opens the current block to be decompressed from its beginning as it is read.
func (b *Blocks) stream() (err error) {
	d, ok := decoders.Get().(*lzma)
	if !ok {
		d = &lzma{}
	}
	b.z, err = b.block(b.cur, d, bufio.NewReaderSize(nil, 32<<10))
	return err
}

// block returns a reader of one block, which reads through r.
func (b *Blocks) block(i int, d *lzma, r *bufio.Reader) (*reader, error) {
	l := b.list[i]
	r.Reset(io.NewSectionReader(b.at, l.at, (l.unpadded+3)&^3))
	z := &reader{r: r, most: b.most, d: d, one: true}
	err := z.setCheck(l.check)
	if err == nil {
		err = noEOF(z.step()) // the header
	}
	if err != nil {
		_ = z.Close()
		return nil, err
	}
	return z, nil
}

func (b *Blocks) closeBlock() {
	if b.z != nil {
		_ = b.z.Close()
	}
	b.drop(b.own)
	b.z, b.own = nil, nil
}

// Close makes the memory free for the next reader.
func (b *Blocks) Close() error {
	b.closeBlock()
	b.drop(b.next)
	b.next = nil
	for _, a := range b.free {
		freeRoom(a.room)
	}
	b.free = nil
	return nil
}

// Size returns the number of decompressed bytes.
func (b *Blocks) Size() int64 { return b.size }

// Read implements io.Reader.
func (b *Blocks) Read(p []byte) (int, error) {
	for {
		n, err := b.read(p)
		if b.pos += int64(n); b.pos > b.end || err == io.EOF && b.pos != b.end {
			return 0, errDamaged
		}
		if err != io.EOF || n > 0 {
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
		if b.cur+1 == len(b.list) {
			return 0, io.EOF
		}
		if err := b.open(b.cur + 1); err != nil {
			return 0, noEOF(err)
		}
	}
}

// read reads from the current block. The error is io.EOF at its end, where its checksum is
// compared.
func (b *Blocks) read(p []byte) (int, error) {
	if b.own != nil {
		n, err := b.readAhead(p)
		if !errors.Is(err, errResets) {
			return n, err
		}
		b.drop(b.own)
		b.own = nil
		if err := b.stream(); err != nil {
			return 0, noEOF(err)
		}
		if _, err := io.CopyN(io.Discard, b.z, b.pos-b.list[b.cur].from); err != nil {
			return 0, noEOF(err)
		}
	}
	if b.z == nil {
		return 0, io.ErrClosedPipe
	}
	if left := b.end - b.pos; int64(len(p)) > left+1 {
		p = p[:left+1] // one more, to meet the end of the block
	}
	return b.z.Read(p)
}

// holder returns the block that has the byte at an offset, or the last one.
func (b *Blocks) holder(off int64) int {
	i := sort.Search(len(b.list), func(i int) bool { return b.list[i].from+b.list[i].plain > off })
	return min(i, len(b.list)-1)
}

// Restart returns how many bytes ahead the block begins that has the byte n bytes ahead. It
// is 0 if that is the current block, or there is no such byte.
func (b *Blocks) Restart(n int64) int64 {
	to := b.pos + n
	if to < b.end || to >= b.size {
		return 0
	}
	return max(0, b.list[b.holder(to)].from-b.pos)
}

// Skip moves n bytes forward.
func (b *Blocks) Skip(n int64) error {
	to := b.pos + n
	if n < 0 || to < b.pos || to > b.size {
		return io.ErrUnexpectedEOF
	}
	if to >= b.end && b.cur+1 < len(b.list) {
		if err := b.open(b.holder(to)); err != nil {
			return noEOF(err)
		}
	}
	if b.own != nil {
		b.pos = to // it is decompressed so far when the next byte is read
		return nil
	}
	_, err := io.CopyN(io.Discard, b, to-b.pos)
	return noEOF(err)
}

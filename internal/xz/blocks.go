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
)

// errNoBlocks means that a file cannot be read from the middle.
var errNoBlocks = errors.New("xz: the data has one block only, or other filters")

// block is a part that can be decompressed alone.
type block struct {
	at, unpadded int64 // where it is, and its size without the padding
	from, plain  int64 // its offset in the decompressed bytes, and their number
	check        byte
}

// Blocks decompresses data that was compressed in several blocks, which the data's own
// index lists. What is skipped is not decompressed where that is possible.
type Blocks struct {
	at   io.ReaderAt
	most uint32
	list []block
	size int64 // of the decompressed bytes

	pos  int64
	next int // the block after the current one
	z    *reader
	end  int64 // of the current block
}

// NewBlocks reads the index of the data of size bytes at r. It returns an error if nothing
// would be gained: NewReader reads the data then.
func NewBlocks(r io.ReaderAt, size int64, dictionary uint32) (*Blocks, error) {
	b := &Blocks{at: r, most: dictionary}
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
		b.list = append(b.list, blocks...)
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
	for n := number(); n > 0 && err == nil; n-- {
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
	_ = b.Close()
	l := b.list[i]
	z := newReader(bufio.NewReaderSize(io.NewSectionReader(b.at, l.at, (l.unpadded+3)&^3), 32<<10), b.most)
	z.one = true
	b.z, b.next, b.pos, b.end = z, i+1, l.from, l.from+l.plain
	if err := z.setCheck(l.check); err != nil {
		return err
	}
	return noEOF(z.step()) // the header
}

// Close makes the memory free for the next reader.
func (b *Blocks) Close() error {
	if b.z != nil {
		_ = b.z.Close()
		b.z = nil
	}
	return nil
}

// Size returns the number of decompressed bytes.
func (b *Blocks) Size() int64 { return b.size }

// Read implements io.Reader.
func (b *Blocks) Read(p []byte) (int, error) {
	for {
		if b.z == nil {
			return 0, io.ErrClosedPipe
		}
		if left := b.end - b.pos; int64(len(p)) > left+1 {
			p = p[:left+1] // one more, to meet the end of the block
		}
		n, err := b.z.Read(p)
		if b.pos += int64(n); b.pos > b.end || err == io.EOF && b.pos != b.end {
			return 0, errDamaged
		}
		if err != io.EOF || n > 0 {
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
		if b.next == len(b.list) {
			return 0, io.EOF
		}
		if err := b.open(b.next); err != nil {
			return 0, noEOF(err)
		}
	}
}

// Skip moves n bytes forward.
func (b *Blocks) Skip(n int64) error {
	to := b.pos + n
	if n < 0 || to < b.pos || to > b.size {
		return io.ErrUnexpectedEOF
	}
	if to >= b.end && b.next < len(b.list) {
		i := sort.Search(len(b.list), func(i int) bool { return b.list[i].from+b.list[i].plain > to })
		if err := b.open(min(i, len(b.list)-1)); err != nil {
			return noEOF(err)
		}
	}
	_, err := io.CopyN(io.Discard, b, to-b.pos)
	return noEOF(err)
}

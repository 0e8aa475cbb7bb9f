package xz

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"
	"sync/atomic"
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
// index lists. What is skipped is not decompressed where that is possible.
type Blocks struct {
	at   io.ReaderAt
	most uint32
	list []block
	size int64 // of the decompressed bytes

	pos  int64
	next int       // the block after the current one
	z    *reader   // of the current block; nil if it was decompressed ahead
	cur  io.Reader // of the current block; nil if closed
	end  int64     // of the current block

	spare chan struct{}
	ahead *ahead
	room  []byte // for the block that is decompressed ahead, and then the current one
}

// ahead is a block that another goroutine decompresses.
type ahead struct {
	i       int
	done    chan struct{}
	err     error // set when done is closed
	dropped atomic.Bool
}

// errResets means that a block begins anew within itself, so that it cannot be decompressed
// ahead.
var errResets = errors.New("xz: a block with several beginnings")

// maxAhead is the largest block that is decompressed ahead.
const maxAhead = 32 << 20

// NewBlocks reads the index of the data of size bytes at r. It returns an error if nothing
// would be gained: NewReader reads the data then. As long as spare has an element, which is
// taken and given back, another goroutine decompresses the next block; spare may be nil.
func NewBlocks(r io.ReaderAt, size int64, dictionary uint32, spare chan struct{}) (*Blocks, error) {
	b := &Blocks{at: r, most: dictionary, spare: spare}
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
	l := b.list[i]
	b.next, b.pos, b.end = i+1, l.from, l.from+l.plain
	if a := b.ahead; a != nil && a.i == i {
		b.ahead = nil
		<-a.done
		if a.err == nil {
			b.cur = bytes.NewReader(b.room[:l.plain])
		}
		if !errors.Is(a.err, errResets) {
			return a.err
		}
	}
	b.drop()
	d, ok := decoders.Get().(*lzma)
	if !ok {
		d = &lzma{}
	}
	z, err := b.block(i, d)
	if err != nil {
		return err
	}
	b.z, b.cur = z, z
	b.start(i + 1)
	return nil
}

// block returns a reader of one block.
func (b *Blocks) block(i int, d *lzma) (*reader, error) {
	l := b.list[i]
	r := bufio.NewReaderSize(io.NewSectionReader(b.at, l.at, (l.unpadded+3)&^3), 32<<10)
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

// start lets another goroutine decompress a block, if one may.
func (b *Blocks) start(i int) {
	if b.spare == nil || i >= len(b.list) || b.list[i].plain > maxAhead || b.list[i].plain == 0 {
		return
	}
	select {
	case <-b.spare:
	default:
		return
	}
	a := &ahead{i: i, done: make(chan struct{})}
	if need := int(b.list[i].plain); len(b.room) < need {
		b.freeRoom()
		b.room = newRoom(need)
	}
	if b.room == nil {
		b.spare <- struct{}{}
		return
	}
	b.ahead = a
	go func() {
		a.err = b.whole(a)
		close(a.done)
		b.spare <- struct{}{}
	}()
}

// whole decompresses a block into the room.
func (b *Blocks) whole(a *ahead) error {
	plain := int(b.list[a.i].plain)
	z, err := b.block(a.i, &lzma{flat: true, buf: b.room[:plain:plain]})
	if err != nil {
		return err
	}
	for err == nil && !a.dropped.Load() {
		err = z.step()
	}
	if err == io.EOF && z.d.pos == plain {
		return nil
	}
	if err == io.EOF {
		err = errDamaged
	}
	return err
}

// drop ends what is decompressed ahead.
func (b *Blocks) drop() {
	if a := b.ahead; a != nil {
		a.dropped.Store(true)
		<-a.done // soon: it looks after each part
		b.ahead = nil
	}
}

func (b *Blocks) closeBlock() {
	if b.z != nil {
		_ = b.z.Close()
	}
	b.z, b.cur = nil, nil
}

func (b *Blocks) freeRoom() {
	if b.room != nil {
		freeRoom(b.room)
		b.room = nil
	}
}

// Close makes the memory free for the next reader.
func (b *Blocks) Close() error {
	b.drop()
	b.closeBlock()
	b.freeRoom()
	return nil
}

// Size returns the number of decompressed bytes.
func (b *Blocks) Size() int64 { return b.size }

// Read implements io.Reader.
func (b *Blocks) Read(p []byte) (int, error) {
	for {
		if b.cur == nil {
			return 0, io.ErrClosedPipe
		}
		if left := b.end - b.pos; int64(len(p)) > left+1 {
			p = p[:left+1] // one more, to meet the end of the block
		}
		n, err := b.cur.Read(p)
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

// Package xz decompresses xz data. Streams whose only filter is LZMA2, which are nearly
// all, are decoded here; others by a module, which only this package links.
package xz

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
	"sync"

	"github.com/mikelolasagasti/xz"
)

// ErrDictionary is wrapped if the data needs a larger dictionary than allowed.
var ErrDictionary = xz.ErrMemlimit

const (
	headMagic      = "\xfd7zXZ\x00"
	footMagic      = "YZ"
	headerSize     = 12 // of a stream's header and footer
	maxBlockHeader = 1024
)

// NewReader returns a reader of the decompressed bytes of r. Dictionaries larger
// than dictionary bytes are refused. Closing it makes its memory free for the next one.
func NewReader(r io.Reader, dictionary uint32) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, 32<<10)
	head, err := b.Peek(headerSize + maxBlockHeader)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(head) > headerSize && head[headerSize] != 0 && !plainBlock(head[headerSize:]) {
		m, err := xz.NewReader(b, dictionary)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(m), nil
	}
	z := newReader(b, dictionary)
	if err := z.streamHeader(); err != nil {
		_ = z.Close()
		return nil, err
	}
	return z, nil
}

// plainBlock reports whether the header of a block has LZMA2 as its only filter. A damaged
// one is reported when it is read.
func plainBlock(b []byte) bool {
	_, err := parseBlockHeader(b)
	return err == nil || !errors.Is(err, errFilters)
}

// errFilters means that a block has other filters than LZMA2.
var errFilters = errors.New("xz: the filters of a later block are not supported")

// blockHeader is the header of a block.
type blockHeader struct {
	size          int   // of the header
	packed, plain int64 // -1: not said
	dict          uint64
}

func parseBlockHeader(b []byte) (h blockHeader, err error) {
	h.size = (int(b[0]) + 1) * 4
	if h.size > len(b) {
		return h, io.ErrUnexpectedEOF
	}
	b = b[:h.size]
	if crc32.ChecksumIEEE(b[:h.size-4]) != binary.LittleEndian.Uint32(b[h.size-4:]) {
		return h, errDamaged
	}
	flags := b[1]
	if flags&0x3c != 0 {
		return h, errDamaged
	}
	b = b[2 : h.size-4]
	h.packed, h.plain = -1, -1
	number := func() (n uint64) {
		var w int
		if n, w = binary.Uvarint(b); w <= 0 || n > 1<<62 {
			b, err = nil, errDamaged
			return 0
		}
		b = b[w:]
		return n
	}
	if flags&0x40 != 0 {
		h.packed = int64(number())
	}
	if flags&0x80 != 0 {
		h.plain = int64(number())
	}
	if err != nil {
		return h, err
	}
	if flags&3 != 0 {
		return h, errFilters
	}
	id, n := number(), number()
	switch {
	case err != nil:
		return h, err
	case id != 0x21:
		return h, errFilters
	case n != 1 || len(b) < 1 || b[0] > 40 || len(bytes.Trim(b[1:], "\x00")) > 0:
		return h, errDamaged
	case b[0] == 40:
		h.dict = 1<<32 - 1
	default:
		h.dict = uint64(2|b[0]&1) << (b[0]/2 + 11)
	}
	return h, nil
}

// reader decompresses streams.
type reader struct {
	r    *bufio.Reader
	most uint32 // of the dictionary
	one  bool   // end after one block
	d    *lzma
	err  error

	check   byte // of the stream
	sum     hash.Hash
	records hash.Hash64 // of the sizes of the blocks
	blocks  uint64
	first   bool // no stream has been read

	block         blockHeader // the current one
	inBlock       bool
	packed, plain int64 // of the block, so far
	needDict      bool  // the next chunk must reset the dictionary
	needProps     bool  // the next compressed chunk must set the parameters
	needState     bool

	left   int    // bytes of the current chunk that are still to be decoded
	copied bool   // the current chunk is not compressed
	out    []byte // decoded, and not yet read
}

// decoders are the decoders that are not in use: each has 8 MiB for the usual dictionary.
var decoders sync.Pool

func newReader(b *bufio.Reader, dictionary uint32) *reader {
	d, ok := decoders.Get().(*lzma)
	if !ok {
		d = &lzma{}
	}
	return &reader{r: b, most: dictionary, d: d, first: true}
}

// Close makes the memory free for the next reader.
func (z *reader) Close() error {
	if z.d != nil {
		if !z.d.flat {
			decoders.Put(z.d)
		}
		z.d, z.err, z.out = nil, io.ErrClosedPipe, nil
	}
	return nil
}

// Read implements io.Reader.
func (z *reader) Read(p []byte) (int, error) {
	for len(z.out) == 0 && z.err == nil {
		if z.err = z.step(); z.err != nil && z.err != io.EOF {
			z.err = noEOF(z.err)
		}
	}
	if len(z.out) > 0 {
		n := copy(p, z.out)
		z.out = z.out[n:]
		return n, nil
	}
	return 0, z.err
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// step reads the next chunk, or what is between blocks. The error is io.EOF at the end.
func (z *reader) step() error {
	switch {
	case z.left > 0:
		return z.part()
	case z.inBlock:
		return z.chunk()
	}
	next, err := z.r.ReadByte()
	if err != nil {
		return noEOF(err)
	}
	if next == 0 {
		if z.one {
			return errDamaged // a block was expected
		}
		if err := z.index(); err != nil {
			return noEOF(err)
		}
		return z.nextStream()
	}
	head := make([]byte, (int(next)+1)*4)
	head[0] = next
	if _, err := io.ReadFull(z.r, head[1:]); err != nil {
		return noEOF(err)
	}
	return z.startBlock(head)
}

func (z *reader) startBlock(head []byte) (err error) {
	if z.block, err = parseBlockHeader(head); err != nil {
		return err
	}
	if z.block.dict > uint64(z.most) {
		return fmt.Errorf("%w: %d bytes", ErrDictionary, z.block.dict)
	}
	z.inBlock, z.packed, z.plain = true, 0, 0
	z.needDict, z.needProps, z.needState = true, true, true
	z.d.start(int(max(z.block.dict, 4096)))
	if z.sum != nil {
		z.sum.Reset()
	}
	return nil
}

// streamHeader reads the header of a stream.
func (z *reader) streamHeader() error {
	var h [headerSize]byte
	if _, err := io.ReadFull(z.r, h[:]); err != nil {
		return noEOF(err)
	}
	if string(h[:6]) != headMagic {
		return xz.ErrFormat
	}
	if h[6] != 0 || h[7]&0xf0 != 0 || crc32.ChecksumIEEE(h[6:8]) != binary.LittleEndian.Uint32(h[8:]) {
		return errDamaged
	}
	z.blocks, z.records, z.first = 0, crc64.New(crcTable), false
	return z.setCheck(h[7])
}

var crcTable = crc64.MakeTable(crc64.ECMA)

func (z *reader) setCheck(id byte) error {
	switch z.check = id; id {
	case 0:
		z.sum = nil
	case 1:
		z.sum = crc32.NewIEEE()
	case 4:
		z.sum = crc64.New(crcTable)
	case 10:
		z.sum = sha256.New()
	default:
		return xz.ErrUnsupportedCheck
	}
	return nil
}

// part decodes a part of the current chunk.
func (z *reader) part() (err error) {
	if z.copied {
		z.out, err = z.d.copyPart(z.r, z.left)
	} else {
		z.out, err = z.d.part(z.left)
	}
	if err != nil {
		return noEOF(err)
	}
	if z.sum != nil && !z.d.flat {
		_, _ = z.sum.Write(z.out)
	}
	z.left -= len(z.out)
	z.plain += int64(len(z.out))
	return nil
}

// chunk starts one chunk of LZMA2.
func (z *reader) chunk() error {
	control, err := z.r.ReadByte()
	if err != nil {
		return noEOF(err)
	}
	z.packed++
	if control == 0 {
		return z.endBlock()
	}
	var h [5]byte
	n := 2
	if control >= 0x80 {
		if n = 4; control >= 0xc0 {
			n = 5
		}
	} else if control > 2 {
		return errDamaged
	}
	if _, err := io.ReadFull(z.r, h[:n]); err != nil {
		return noEOF(err)
	}
	z.packed += int64(n)
	plain := int(binary.BigEndian.Uint16(h[:])) + 1
	reset := control == 1 || control >= 0xe0
	if z.needDict && !reset {
		return errDamaged
	}
	if reset {
		if z.d.flat && z.d.pos > 0 {
			return errResets
		}
		z.needDict = false
		if control == 1 {
			z.needProps = true
		}
		z.d.resetDict()
	}
	if control < 0x80 {
		z.packed += int64(plain)
		z.needState = true
		z.left, z.copied = plain, true
		return nil
	}
	plain += int(control&0x1f) << 16
	packed := int(binary.BigEndian.Uint16(h[2:])) + 1
	switch {
	case control >= 0xc0:
		if err := z.d.setProps(h[4]); err != nil {
			return err
		}
		z.needProps, z.needState = false, false
		z.d.resetState()
	case z.needProps:
		return errDamaged
	case control >= 0xa0:
		z.needState = false
		z.d.resetState()
	case z.needState:
		return errDamaged
	}
	z.packed += int64(packed)
	z.left, z.copied = plain, false
	return noEOF(z.d.startChunk(z.r, packed))
}

// endBlock checks the block that has ended.
func (z *reader) endBlock() error {
	if z.block.packed >= 0 && z.block.packed != z.packed || z.block.plain >= 0 && z.block.plain != z.plain {
		return errDamaged
	}
	pad := int(-z.packed & 3)
	tail := make([]byte, pad, pad+sha256.Size)
	size := 0
	if z.sum != nil {
		if size = z.sum.Size(); z.d.flat { // not before: most such blocks are left earlier
			_, _ = z.sum.Write(z.d.buf[:z.d.pos])
		}
	}
	tail = tail[:pad+size]
	if _, err := io.ReadFull(z.r, tail); err != nil {
		return noEOF(err)
	}
	if len(bytes.Trim(tail[:pad], "\x00")) > 0 {
		return errDamaged
	}
	if z.sum != nil {
		want := z.sum.Sum(nil)
		if size <= 8 { // stored with the lowest byte first
			for i, j := 0, size-1; i < j; i, j = i+1, j-1 {
				want[i], want[j] = want[j], want[i]
			}
		}
		if !bytes.Equal(want, tail[pad:]) {
			return errDamaged
		}
	}
	z.inBlock = false
	z.blocks++
	if z.one {
		return io.EOF
	}
	note(z.records, uint64(z.block.size)+uint64(z.packed)+uint64(size), uint64(z.plain))
	return nil
}

// note adds the sizes of a block to a hash.
func note(h hash.Hash64, unpadded, plain uint64) {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], unpadded)
	binary.LittleEndian.PutUint64(b[8:], plain)
	_, _ = h.Write(b[:])
}

// index reads the index of a stream behind its first byte, and the footer, and compares
// them with the blocks.
func (z *reader) index() error {
	crc := crc32.NewIEEE()
	_, _ = crc.Write([]byte{0})
	c := &crcReader{z.r, crc, 1}
	n, err := binary.ReadUvarint(c)
	if err != nil {
		return err
	}
	if n != z.blocks {
		return errDamaged
	}
	records := crc64.New(crcTable)
	for range n {
		unpadded, err := binary.ReadUvarint(c)
		if err != nil {
			return err
		}
		plain, err := binary.ReadUvarint(c)
		if err != nil {
			return err
		}
		note(records, unpadded, plain)
	}
	for c.n%4 != 0 {
		if b, err := c.ReadByte(); err != nil || b != 0 {
			return errors.Join(errDamaged, err)
		}
	}
	var tail [4 + headerSize]byte
	if _, err := io.ReadFull(z.r, tail[:]); err != nil {
		return err
	}
	le := binary.LittleEndian
	foot := tail[4:]
	if records.Sum64() != z.records.Sum64() || le.Uint32(tail[:]) != crc.Sum32() ||
		string(foot[10:]) != footMagic || crc32.ChecksumIEEE(foot[4:10]) != le.Uint32(foot) || foot[8] != 0 || foot[9] != z.check ||
		(int64(le.Uint32(foot[4:]))+1)*4 != c.n+4 {
		return errDamaged
	}
	return nil
}

// crcReader reads bytes, and counts and sums them.
type crcReader struct {
	r   *bufio.Reader
	crc hash.Hash32
	n   int64
}

// ReadByte implements io.ByteReader.
func (c *crcReader) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		_, _ = c.crc.Write([]byte{b})
		c.n++
	}
	return b, err
}

// nextStream skips the padding between streams. The error is io.EOF if there is no other.
func (z *reader) nextStream() error {
	for n := 0; ; n++ {
		b, err := z.r.ReadByte()
		if errors.Is(err, io.EOF) {
			if n%4 != 0 {
				return errDamaged
			}
			return io.EOF
		}
		if err != nil {
			return err
		}
		if b != 0 {
			if n%4 != 0 {
				return errDamaged
			}
			if err := z.r.UnreadByte(); err != nil {
				return err
			}
			return z.streamHeader()
		}
	}
}

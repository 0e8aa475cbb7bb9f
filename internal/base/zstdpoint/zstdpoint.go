// Package zstdpoint notes points in zstd data from which it can be decompressed without
// what is in front of them. A block of a frame depends on the bytes of the window before it,
// on the last tables of literals and sequences, and on the last three offsets. That is what a
// zstd dictionary can have. So a point is a dictionary, and what follows it is a frame that
// needs this dictionary.
package zstdpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	maxBlock    = 128 << 10
	blockHeader = 3
	magic       = "\x28\xb5\x2f\xfd"
	dictMagic   = "\x37\xa4\x30\xec"
	dictID      = 1
	followed    = 1 << 20 // bytes in front of a point in which the offsets are read
)

// Descriptions of tables that are not used, where a point needs none.
const (
	anyHuffman = "\x80\x10"
	anyTable   = "\x10\x3f"
)

// Point is a place in zstd data, at the beginning of a block.
type Point struct {
	Packed, Plain int64  // its offset in the data, and in what that decompresses to
	Window        byte   // the window descriptor of the frame
	Checksum      bool   // the frame ends with a checksum
	State         []byte // a dictionary: the bytes in front of the point, tables and offsets
}

// Options say which points are noted.
type Options struct {
	// MaxWindow limits the window of a frame that is decompressed, in bytes.
	MaxWindow uint64
	// Every is the least number of decompressed bytes between two points. 0: none are noted.
	Every int64
	// Windows is the least number of windows between two points.
	Windows int64
	// MaxState limits the window of a frame of which points are noted.
	MaxState int64
	// Note receives the points, in order. It may keep them. An error ends the noting.
	Note func(Point) error
}

// Reader decompresses zstd data and notes points in its first frame.
type Reader struct {
	z *zstd.Decoder
	t *tracker
}

// NewReader returns a reader of the decompressed bytes of r.
func NewReader(r io.Reader, opt Options) (*Reader, error) {
	t := &tracker{r: r, opt: opt}
	if opt.Every > 0 {
		t.frameHeader()
	}
	z, err := newDecoder(t, opt.MaxWindow)
	if err != nil {
		return nil, err
	}
	return &Reader{z, t}, nil
}

// newDecoder returns a decoder that asks for a block only when all bytes of the blocks in front
// of it were read.
func newDecoder(r io.Reader, window uint64, more ...zstd.DOption) (*zstd.Decoder, error) {
	return zstd.NewReader(r, append(more, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(max(window, zstd.MinWindowSize)), zstd.WithDecodeBuffersBelow(0))...)
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.z.Read(p)
	r.t.decompressed(p[:n])
	return n, err
}

// Close releases the decoder.
func (r *Reader) Close() error {
	r.z.Close()
	r.t.stop()
	return nil
}

// tracker passes zstd data to a decoder, block by block, and notes what blocks leave to the
// next ones.
type tracker struct {
	r   io.Reader
	opt Options
	out []byte // to be passed on
	buf []byte // room for out

	on     bool
	last   bool // the last block was passed on
	coding coding
	window int64
	point  Point // the next one; Packed and Plain are where the next block begins

	next    int64  // the least offset of the next point in the decompressed bytes
	history []byte // the last bytes, as a ring; nil while the next point is far
	end     int    // of the ring
	full    bool

	wait    *Point // a point without some tables, which must not be used
	missing uint8
}

// stop ends the noting.
func (t *tracker) stop() { t.on, t.history, t.wait, t.coding = false, nil, nil, coding{} }

// frameHeader reads the header of the first frame.
func (t *tracker) frameHeader() {
	t.buf = make([]byte, zstd.HeaderMaxSize, blockHeader+maxBlock)
	n, err := io.ReadFull(t.r, t.buf)
	t.out = t.buf[:n]
	var h zstd.Header
	if err != nil || h.Decode(t.out) != nil || h.Skippable || h.SingleSegment || h.DictionaryID != 0 ||
		int64(h.WindowSize) > t.opt.MaxState {
		return
	}
	t.on, t.window = true, int64(h.WindowSize)
	t.coding.recent = [3]uint32{1, 4, 8}
	t.point = Point{Packed: int64(h.HeaderSize), Window: t.out[len(magic)+1], Checksum: h.HasCheckSum}
	t.opt.Every = max(t.opt.Every, t.window*max(t.opt.Windows, 1))
	t.next = t.opt.Every
	// What was read behind the header belongs to the blocks.
	t.r = io.MultiReader(bytes.NewReader(bytes.Clone(t.out[h.HeaderSize:])), t.r)
	t.out = t.out[:h.HeaderSize]
}

// Read implements io.Reader.
func (t *tracker) Read(p []byte) (int, error) {
	if len(t.out) == 0 {
		if !t.on {
			return t.r.Read(p)
		}
		if t.last {
			t.finish()
			return t.r.Read(p)
		}
		if err := t.block(); err != nil {
			return 0, err
		}
	}
	n := copy(p, t.out)
	t.out = t.out[n:]
	return n, nil
}

// decompressed notes bytes that were decompressed.
func (t *tracker) decompressed(p []byte) {
	if !t.on {
		return
	}
	t.point.Plain += int64(len(p))
	if t.history == nil {
		return
	}
	for len(p) > 0 {
		n := copy(t.history[t.end:], p)
		p = p[n:]
		if t.end += n; t.end == len(t.history) {
			t.end, t.full = 0, true
		}
	}
}

// block reads the next block.
func (t *tracker) block() error {
	if err := t.boundary(); err != nil {
		t.stop()
	}
	n, err := io.ReadFull(t.r, t.buf[:blockHeader])
	t.out = t.buf[:n]
	if err != nil {
		t.stop()
		if n > 0 {
			err = nil // the decoder finds that there is too little
		}
		return err
	}
	head := uint32(t.buf[0]) | uint32(t.buf[1])<<8 | uint32(t.buf[2])<<16
	kind, size := head>>1&3, int(head>>3)
	if kind == 1 {
		size = 1
	}
	if kind == 3 || size > maxBlock {
		t.stop() // the decoder finds it
		return nil
	}
	t.last = head&1 != 0
	n, err = io.ReadFull(t.r, t.buf[blockHeader:blockHeader+size])
	t.out = t.buf[:blockHeader+n]
	if err != nil {
		t.stop()
		return nil //nolint:nilerr // the decoder finds that there is too little
	}
	t.point.Packed += int64(len(t.out))
	if !t.on || kind != 2 {
		return nil
	}
	u, err := t.coding.block(t.out[blockHeader:])
	if err == nil && t.wait != nil {
		err = t.used(u)
	}
	if err != nil {
		t.stop()
	}
	return nil
}

// boundary makes a point where a block begins, if it is time for one.
func (t *tracker) boundary() error {
	if !t.on || t.wait != nil {
		return nil
	}
	if t.history == nil && t.point.Plain >= t.next-t.window-maxBlock {
		t.history, t.end, t.full = make([]byte, t.window), 0, false
	}
	if !t.coding.follows && t.point.Plain >= t.next-followed {
		t.coding.follows = true
	}
	if t.point.Plain < t.next || !t.full {
		return nil
	}
	for _, n := range t.coding.recent {
		if n == 0 || int64(n) > t.window {
			return nil
		}
	}
	p := t.point
	p.State, t.missing = t.state()
	t.next = p.Plain + t.opt.Every
	t.history, t.coding.follows = nil, false
	if t.missing == 0 {
		return t.opt.Note(p)
	}
	t.wait = &p
	return nil
}

// state returns the dictionary of a point here, and which of its tables stand for none.
func (t *tracker) state() (d []byte, missing uint8) {
	d = make([]byte, 0, t.window+1024)
	d = binary.LittleEndian.AppendUint32(append(d, dictMagic...), dictID)
	if c := &t.coding; c.huffman == nil {
		d, missing = append(d, anyHuffman...), partHuffman
	} else {
		d = append(d, c.huffman...)
	}
	for _, i := range [...]int{offsets, matchLengths, literalLengths} {
		if described := t.coding.tables[i].described; described == nil {
			d, missing = append(d, anyTable...), missing|1<<i
		} else {
			d = append(d, described...)
		}
	}
	for _, n := range t.coding.recent {
		d = binary.LittleEndian.AppendUint32(d, n)
	}
	return append(append(d, t.history[t.end:]...), t.history[:t.end]...), missing
}

// used decides about the waiting point when a block behind it is known.
func (t *tracker) used(u use) error {
	p := t.wait
	if u.needs&t.missing != 0 {
		t.wait, t.next = nil, t.point.Plain+t.window // another place
		return nil
	}
	if t.missing &^= u.sets; t.missing != 0 {
		return nil
	}
	t.wait = nil
	return t.opt.Note(*p)
}

// finish ends the noting behind the last block of the frame.
func (t *tracker) finish() {
	if t.wait != nil {
		_ = t.opt.Note(*t.wait) // no block has needed what it lacks
	}
	t.stop()
}

// Resume returns a reader of what is decompressed from a point on. r reads the zstd data from
// the point on.
func Resume(r io.Reader, p Point, window uint64) (io.ReadCloser, error) {
	head := append([]byte(magic), 1, p.Window, dictID)
	z, err := newDecoder(&blocks{r: r, out: head, checksum: p.Checksum}, window, zstd.WithDecoderDicts(p.State))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}

// blocks passes on the rest of a frame without its checksum, which is that of the whole
// frame, and then what follows.
type blocks struct {
	r        io.Reader
	out      []byte
	left     int // of the current block
	last     bool
	over     bool // the frame is over
	checksum bool
}

// Read implements io.Reader.
func (b *blocks) Read(p []byte) (int, error) {
	switch {
	case len(b.out) > 0:
		n := copy(p, b.out)
		b.out = b.out[n:]
		return n, nil
	case b.left > 0:
		n, err := b.r.Read(p[:min(len(p), b.left)])
		b.left -= n
		if b.left > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return n, err
	case b.last && !b.over:
		b.over = true
		if b.checksum {
			if _, err := io.CopyN(io.Discard, b.r, 4); err != nil {
				return 0, io.ErrUnexpectedEOF
			}
		}
	}
	if b.over {
		return b.r.Read(p)
	}
	var h [blockHeader]byte
	if _, err := io.ReadFull(b.r, h[:]); err != nil {
		return 0, io.ErrUnexpectedEOF
	}
	head := uint32(h[0]) | uint32(h[1])<<8 | uint32(h[2])<<16
	b.last, b.left = head&1 != 0, int(head>>3)
	if head>>1&3 == 1 {
		b.left = 1
	}
	b.out = h[:]
	return b.Read(p)
}

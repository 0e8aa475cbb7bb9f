// Package zstdseq takes frames of zstd apart into their bytes and a recipe, and makes the same frames of
// them again, bit for bit.
//
// A recipe is short if the program that made the frame chooses its sequences, tables and blocks in a way
// that is known here: it has only what is otherwise than predicted. The format is that of RFC 8878; how
// programs choose was seen from what libzstd writes.
package zstdseq

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/cespare/xxhash/v2"
)

// ErrRefused is the error of bytes that are no frame, or none that is worth taking apart.
var ErrRefused = errors.New("no frame of zstd that can be made again")

// Magic is how a frame begins.
const Magic = "\x28\xb5\x2f\xfd"

const (
	maxHead    = 4 + 2 + 8     // bytes of the head of a frame, without a dictionary
	maxContent = 1<<31 - 1<<20 // bytes
	maxWindow  = 8 << 20
	checkSize  = 4
)

// Bits of the first byte behind the magic number (RFC 8878, 3.1.1.1.1).
const (
	hasDictionary = 3
	hasChecksum   = 4
	reservedBits  = 0x18
	singleSegment = 0x20
)

// head is the head of a frame.
type head struct {
	descriptor byte
	window     byte // its descriptor, unless there is a single segment
}

// named is the number of bytes that name the size of the content.
func (h head) named() int {
	switch n := int(h.descriptor >> 6); {
	case n > 0:
		return 1 << n
	case h.descriptor&singleSegment != 0:
		return 1
	}
	return 0
}

// parseHead reads a head, and returns the size of the content, -1 if it is not named, and the length of the
// head; 0 if it is none.
func parseHead(b []byte) (h head, size int64, n int) {
	if len(b) < 5 || string(b[:4]) != Magic || b[4]&(hasDictionary|reservedBits) != 0 {
		return h, 0, 0
	}
	h.descriptor, n = b[4], 5
	if h.descriptor&singleSegment == 0 {
		if len(b) < 6 {
			return h, 0, 0
		}
		h.window, n = b[5], 6
	}
	k := h.named()
	if len(b) < n+k {
		return h, 0, 0
	}
	var v [8]byte
	copy(v[:], b[n:n+k])
	size = int64(binary.LittleEndian.Uint64(v[:]))
	switch k {
	case 0:
		size = -1
	case 2:
		size += 256
	}
	if k > 0 && size < 0 {
		return h, 0, 0
	}
	return h, size, n + k
}

// append writes the head of a frame for size bytes.
func (h head) append(b []byte, size int64) []byte {
	b = append(append(b, Magic...), h.descriptor)
	if h.descriptor&singleSegment == 0 {
		b = append(b, h.window)
	}
	k := h.named()
	if k == 2 {
		size -= 256
	}
	return append(b, binary.LittleEndian.AppendUint64(nil, uint64(size))[:k]...)
}

// windowSize is how far back sequences of a frame for size bytes go.
func (h head) windowSize(size int64) int64 {
	if h.descriptor&singleSegment != 0 {
		return size
	}
	base := int64(1) << (10 + h.window>>3)
	return base + base/8*int64(h.window&7)
}

// text has the bytes of a frame that can be referred to.
type text struct {
	b    []byte
	from int // place of b in the content
	keep int // bytes before the end that are kept
}

func (t *text) reset(keep int) { t.b, t.from, t.keep = t.b[:0], 0, keep }

// end is the place behind the last byte.
func (t *text) end() int { return t.from + len(t.b) }

// room makes room for n bytes, and lets go of those that are too far back.
func (t *text) room(n int) {
	if len(t.b)+n <= cap(t.b) {
		return
	}
	if old := len(t.b) - t.keep; old >= max(t.keep, maxBlock) {
		t.from += old
		t.b = t.b[:copy(t.b, t.b[old:])]
	}
	if len(t.b)+n > cap(t.b) {
		t.b = append(make([]byte, 0, 2*len(t.b)+2*maxBlock), t.b...)
	}
}

// repeats are the last three offsets.
type repeats [3]uint32

var firstRepeats = repeats{1, 4, 8}

// take returns the offset of a sequence; 0 if it has none (RFC 8878, 3.1.1.5).
func (r *repeats) take(s seq) uint32 {
	i := s.off - 1
	if s.literals == 0 {
		i++
	}
	switch {
	case s.off > 3:
		*r = repeats{s.off - 3, r[0], r[1]}
	case i == 1:
		*r = repeats{r[1], r[0], r[2]}
	case i == 2:
		*r = repeats{r[2], r[0], r[1]}
	case i == 3:
		*r = repeats{r[0] - 1, r[0], r[1]}
	}
	return r[0]
}

// decoder decodes a frame block by block.
type decoder struct {
	r       io.ReaderAt
	at, end int64
	head    head
	size    int64 // of the content; -1 if the head does not name it
	most    int   // bytes of a block
	text    text
	parser  parser
	repeats repeats
	mem     []byte
	sum     xxhash.Digest
	packed  []byte // the block that was decoded last, with its head
	over    bool
}

// begin reads the head of a frame that ends before end.
func (d *decoder) begin(r io.ReaderAt, at, end int64) error {
	if d.mem == nil {
		d.mem = make([]byte, blockHead+maxBlock+spare)
	}
	n, err := r.ReadAt(d.mem[:min(maxHead, end-at)], at)
	if err != nil && err != io.EOF {
		return err
	}
	var k int
	if d.head, d.size, k = parseHead(d.mem[:n]); k == 0 {
		return ErrRefused
	}
	window := d.head.windowSize(d.size)
	if window > maxWindow || d.size > maxContent {
		return ErrRefused
	}
	d.r, d.at, d.end, d.over = r, at+int64(k), end, false
	d.most = int(min(maxBlock, window))
	d.text.reset(int(window))
	d.parser.reset()
	d.repeats = firstRepeats
	d.sum.Reset()
	return nil
}

// readBlock reads the next block, but does not decode it.
func (d *decoder) readBlock(b *block) error {
	n, err := d.r.ReadAt(d.mem[:min(blockHead+maxBlock, d.end-d.at)], d.at)
	if err != nil && err != io.EOF {
		return err
	}
	if n < blockHead {
		return ErrRefused
	}
	v := uint32(d.mem[0]) | uint32(d.mem[1])<<8 | uint32(d.mem[2])<<16
	b.last, b.kind, b.size = v&1 != 0, uint8(v>>1&3), int(v>>3)
	packed := b.size
	if b.kind == rleBlock {
		packed = 1
	}
	if b.size > d.most || b.kind > compressedBlock || n < blockHead+packed {
		return ErrRefused
	}
	d.packed = d.mem[:blockHead+packed]
	d.at += int64(len(d.packed))
	d.over = b.last
	return nil
}

// next decodes the next block, whose bytes are the last of text.
func (d *decoder) next(b *block) error {
	if err := d.readBlock(b); err != nil {
		return err
	}
	d.text.room(maxBlock)
	from := len(d.text.b)
	content := d.packed[blockHead:]
	switch b.kind {
	case rawBlock:
		d.text.b = append(d.text.b, content...)
	case rleBlock:
		for range b.size {
			d.text.b = append(d.text.b, content[0])
		}
	case compressedBlock:
		if !d.parser.parse(b, content) || !d.execute(b.sequences) {
			return ErrRefused
		}
		b.size = len(d.text.b) - from
	}
	_, _ = d.sum.Write(d.text.b[from:])
	if d.size >= 0 && (int64(d.text.end()) > d.size || b.last && int64(d.text.end()) != d.size) {
		return ErrRefused
	}
	if b.last {
		return d.checksum()
	}
	return nil
}

// checksum checks what follows the last block.
func (d *decoder) checksum() error {
	if d.head.descriptor&hasChecksum == 0 {
		return nil
	}
	var b [checkSize]byte
	if d.end-d.at < checkSize {
		return ErrRefused
	}
	if _, err := d.r.ReadAt(b[:], d.at); err != nil && err != io.EOF {
		return err
	}
	d.at += checkSize
	if binary.LittleEndian.Uint32(b[:]) != uint32(d.sum.Sum64()) {
		return ErrRefused
	}
	return nil
}

// execute appends the bytes that the literals of a block and its sequences stand for.
func (d *decoder) execute(sequences []seq) bool {
	out, literals := d.text.b, d.parser.literals
	limit := len(out) + d.most
	for _, s := range sequences {
		offset, n := int(d.repeats.take(s)), int(s.length)
		if int(s.literals) > len(literals) || len(out)+int(s.literals)+n > limit {
			return false
		}
		out = append(out, literals[:s.literals]...)
		literals = literals[s.literals:]
		if offset == 0 || offset > len(out) || offset > d.text.keep {
			return false
		}
		for at := len(out) - offset; n > 0; {
			k := min(n, len(out)-at)
			out = append(out, out[at:at+k]...)
			n -= k
		}
	}
	if len(out)+len(literals) > limit {
		return false
	}
	d.text.b = append(out, literals...)
	return true
}

// Package cold stores a content as differences from a similar one.
//
// A cold file is a key or a delta. A key is the content in zstd frames of 256 KiB
// each, which decode on their own. A delta is the content in blocks of 1 MiB; a block
// is rebuilt from ranges of a base, to whose bytes differences are added, and from
// bytes that are inserted between. The base is the plain content or a key of it, never
// a delta. docs/cold-format.md describes the format.
package cold

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Version is the newest version of the format that this package reads. Keys have the oldest version that has
// what they need: 1 without unpacked streams, 3 with folders of cabinets, frames of zstd or with recipes that
// are newer than version 2, 4 without the hashes of types of a PDB.
const Version = 4

// deltaVersion is the version of deltas that need no later one.
const deltaVersion = 3

// Form says what a cold file is.
type Form uint8

// The forms.
const (
	KeyForm   Form = 0 // the content alone
	DeltaForm Form = 1 // the content as differences from a base
)

// String is "key" or "delta".
func (f Form) String() string {
	switch f {
	case KeyForm:
		return "key"
	case DeltaForm:
		return "delta"
	}
	return fmt.Sprintf("form %d", uint8(f))
}

// What a block is.
const (
	kindPlain = 0 // a frame with the bytes
	kindDelta = 1 // a frame with controls, differences and insertions
	kindCopy  = 2 // no frame: bytes of the base that begin at a unit
	kindZero  = 3 // no frame: zeros; only in a delta, like kindCopy
	kindMoved = 4 // a frame with controls, moves, differences and insertions; from version 3 on
)

const (
	magic      = "SDC1\r\n\x1a\n"
	headLen    = 92 // of version 1; later ones add headMore bytes and two layouts
	headMore   = 8
	footLen    = 52
	entryLen   = 20 // of a block in the table, without its ranges
	keyLog     = 18 // of the blocks of a key
	deltaLog   = 20 // of the blocks of a delta
	unit       = 64 << 10
	maxUnits   = 96      // of the base for one block
	maxPayload = 3 << 20 // of a frame, decoded
	maxWindow  = 4 << 20 // of a frame
	maxSize    = 1 << 44 // of a content: sums cannot overflow
	// A frame that does not compress is hardly longer than its payload.
	maxFrame = maxPayload + 64<<10
)

// ErrDamaged is what every error wraps that says that a cold file, or the base it was
// opened with, is not what it was when the file was written.
var ErrDamaged = errors.New("cold file is damaged")

// DamageError says what of a cold file is damaged.
type DamageError struct{ What string }

func (e *DamageError) Error() string { return "cold file is damaged: " + e.What }

// Unwrap gives ErrDamaged.
func (e *DamageError) Unwrap() error { return ErrDamaged }

func damaged(format string, a ...any) error {
	return &DamageError{fmt.Sprintf(format, a...)}
}

// VersionError is the error of a cold file of a newer version than Version.
type VersionError struct{ Version int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("cold file has version %d of the format; this program reads up to version %d", e.Version, Version)
}

// Header is what the first bytes of a cold file say.
type Header struct {
	Version   int
	Form      Form
	BlockSize int64
	Size      int64    // of the plain content
	Sum       [32]byte // SHA-256 of the plain content
	BaseSize  int64    // 0 for a key
	BaseSum   [32]byte // zeros for a key

	own, base *layout // of the content and of its base; nil if they have no streams
	more      int64   // bytes of the head that version 2 and later ones add
}

// Streams is the number of deflate streams, folders of cabinets and frames of zstd of the content that are
// stored unpacked.
func (h Header) Streams() int {
	if h.own == nil {
		return 0
	}
	return len(h.own.streams) - h.HashRuns()
}

// HashRuns is the number of runs of hashes of types that are not stored.
func (h Header) HashRuns() (n int) {
	if h.own != nil {
		for i := range h.own.streams {
			if h.own.streams[i].Kind == typeHashes {
				n++
			}
		}
	}
	return n
}

// UnpackedSize is the length of what is stored in blocks: the content with its
// streams unpacked, and their recipes.
func (h Header) UnpackedSize() int64 {
	if h.own == nil {
		return h.Size
	}
	return h.own.stored()
}

// unpackedBase is the length of the base with its streams unpacked.
func (h Header) unpackedBase() int64 {
	if h.base == nil {
		return h.BaseSize
	}
	return h.base.unpacked
}

// blocks counts the blocks of the unpacked content.
func (h Header) blocks() int64 { return (h.UnpackedSize() + h.BlockSize - 1) / h.BlockSize }

// blockLen is the length of one block.
func (h Header) blockLen(i int64) int { return int(min(h.BlockSize, h.UnpackedSize()-i*h.BlockSize)) }

func (h Header) append(b []byte) []byte {
	log := byte(keyLog)
	for int64(1)<<log != h.BlockSize {
		log++
	}
	b = append(b, magic...)
	b = append(b, byte(h.Version), byte(h.Form), log, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Size))
	b = append(b, h.Sum[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.BaseSize))
	b = append(b, h.BaseSum[:]...)
	if h.Version < 2 {
		return b
	}
	at := len(b)
	b = append(b, make([]byte, headMore)...)
	b = appendLayout(appendLayout(b, h.own, h.Version), h.base, h.Version)
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-headMore))
	return b
}

// readMore reads what version 2 and later ones add to the head, up to an offset.
func (h *Header) readMore(r io.ReaderAt, end int64) error {
	if h.Version < 2 {
		return nil
	}
	var b [headMore]byte
	if err := readFull(r, b[:], headLen, "the head"); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(b[:]))
	h.more = headMore + n
	if n > 2*maxLayout || headLen+h.more > end || binary.LittleEndian.Uint32(b[4:]) != 0 {
		return damaged("its list of streams is too long")
	}
	list := make([]byte, n)
	if err := readFull(r, list, headLen+headMore, "the head"); err != nil {
		return err
	}
	own, list, ok := parseLayout(list, h.Size, h.Version)
	if !ok {
		return damaged("its list of streams contradicts itself")
	}
	base, list, ok := parseLayout(list, h.BaseSize, h.Version)
	if !ok || len(list) > 0 || base.stored() != base.unpacked || h.Form == KeyForm && len(base.streams) > 0 || base.hasRecipes() {
		return damaged("the list of streams of its base contradicts itself")
	}
	h.own, h.base = own.orNil(), base.orNil()
	return nil
}

func parseHeader(b []byte) (h Header, err error) {
	if string(b[:8]) != magic {
		return h, damaged("the first bytes are not those of a cold file")
	}
	if b[8] > Version {
		return h, &VersionError{int(b[8])}
	}
	h = Header{Version: int(b[8]), Form: Form(b[9]), BlockSize: 1 << (b[10] & 31),
		Size: int64(binary.LittleEndian.Uint64(b[12:])), BaseSize: int64(binary.LittleEndian.Uint64(b[52:]))}
	copy(h.Sum[:], b[20:])
	copy(h.BaseSum[:], b[60:])
	switch {
	case b[8] == 0:
		return h, damaged("version 0")
	case b[11] != 0:
		return h, damaged("unknown flags %#x", b[11])
	case h.Form == KeyForm && b[10] != keyLog, h.Form == DeltaForm && b[10] != deltaLog, h.Form > DeltaForm:
		return h, damaged("a %v with blocks of 2^%d bytes", h.Form, b[10])
	case h.Size < 0 || h.Size > maxSize || h.BaseSize < 0 || h.BaseSize > maxSize:
		return h, damaged("a size that no content has")
	case h.Form == KeyForm && (h.BaseSize != 0 || h.BaseSum != [32]byte{}):
		return h, damaged("a key that names a base")
	}
	return h, nil
}

// extent is a run of units of the base.
type extent struct{ first, n int64 }

// entry is what the table says of one block.
type entry struct {
	frame    uint32 // length
	kind     uint8
	controls int // length
	diffs    int // length
	sum      uint64
	extents  []extent // ascending, apart from each other
}

func (e *entry) units() (n int64) {
	for _, x := range e.extents {
		n += x.n
	}
	return n
}

func (e *entry) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, e.frame)
	b = append(b, e.kind, byte(e.controls), byte(e.controls>>8), byte(e.controls>>16),
		byte(e.diffs), byte(e.diffs>>8), byte(e.diffs>>16))
	b = binary.LittleEndian.AppendUint64(b, e.sum)
	b = append(b, byte(len(e.extents)))
	end := int64(0)
	for _, x := range e.extents {
		b = binary.AppendUvarint(b, uint64(x.first-end))
		b = binary.AppendUvarint(b, uint64(x.n))
		end = x.first + x.n
	}
	return b
}

// tableReader reads the entries of a table, and checks each.
type tableReader struct {
	h    Header
	r    io.ByteReader
	next int64 // block
	n    int64 // bytes that were read
	buf  [entryLen]byte
}

func (t *tableReader) byte() (byte, error) {
	b, err := t.r.ReadByte()
	switch err {
	case nil:
		t.n++
	case io.EOF, io.ErrUnexpectedEOF:
		err = damaged("the table is too short")
	}
	return b, err
}

// read reads the next entry into e, whose slice it uses again.
func (t *tableReader) read(e *entry) error {
	i := t.next
	t.next++
	b := t.buf[:]
	for k := range b {
		c, err := t.byte()
		if err != nil {
			return err
		}
		b[k] = c
	}
	*e = entry{frame: binary.LittleEndian.Uint32(b), kind: b[4],
		controls: int(b[5]) | int(b[6])<<8 | int(b[7])<<16, diffs: int(b[8]) | int(b[9])<<8 | int(b[10])<<16,
		sum: binary.LittleEndian.Uint64(b[11:]), extents: e.extents[:0]}
	units := (t.h.unpackedBase() + unit - 1) / unit
	var end, sum int64
	for range int(b[19]) {
		gap, err := t.varint()
		if err != nil {
			return err
		}
		n, err := t.varint()
		if err != nil {
			return err
		}
		if n == 0 || len(e.extents) > 0 && gap == 0 || gap > units-end || n > units-end-gap {
			return damaged("block %d names a part of the base that is not there", i)
		}
		e.extents = append(e.extents, extent{end + gap, n})
		end += gap + n
		sum += n
	}
	return t.check(i, e, sum)
}

// check checks an entry that names n units of the base.
func (t *tableReader) check(i int64, e *entry, n int64) error {
	size := t.h.blockLen(i)
	delta := t.h.Form == DeltaForm
	empty := e.controls == 0 && e.diffs == 0
	ok := false
	switch e.kind {
	case kindPlain:
		ok = e.frame > 0 && empty && n == 0
	case kindDelta, kindMoved:
		known := e.kind == kindDelta || t.h.Version >= 3
		ok = known && delta && e.frame > 0 && e.controls > 0 && e.controls+e.diffs+size <= maxPayload && n > 0
	case kindCopy:
		ok = delta && e.frame == 0 && empty && t.copies(e, int64(size))
	case kindZero:
		ok = delta && e.frame == 0 && empty && n == 0
	}
	if !ok || n > maxUnits || e.frame > maxFrame {
		return damaged("the table contradicts itself at block %d", i)
	}
	return nil
}

// copies reports whether an entry names one range of the base, of the length of the block.
func (t *tableReader) copies(e *entry, size int64) bool {
	return len(e.extents) == 1 && e.extents[0].n == (size+unit-1)/unit && e.extents[0].first*unit+size <= t.h.unpackedBase()
}

func (t *tableReader) varint() (v int64, err error) {
	for shift := 0; shift < 49; shift += 7 {
		b, err := t.byte()
		if err != nil {
			return 0, err
		}
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, damaged("a number in the table is too large")
}

// readFull reads all of b at offset. An end within it is damage.
func readFull(r io.ReaderAt, b []byte, offset int64, what string) error {
	n, err := r.ReadAt(b, offset)
	switch {
	case n == len(b):
		return nil
	case err == nil, err == io.EOF, err == io.ErrUnexpectedEOF:
		return damaged("%s ends early", what)
	}
	return err
}

// foot is what the last bytes of a cold file say.
type foot struct {
	table int64 // offset
	len   int64 // of the table
	sum   [32]byte
}

func (f foot) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(f.table))
	b = binary.LittleEndian.AppendUint32(b, uint32(f.len))
	b = append(b, f.sum[:]...)
	return append(b, magic...)
}

// readEnds reads head and foot. The table is not read.
func readEnds(r io.ReaderAt, size int64) (h Header, f foot, err error) {
	if size < headLen+footLen {
		return h, f, damaged("it is too short")
	}
	var b [headLen]byte
	if err := readFull(r, b[:], 0, "the head"); err != nil {
		return h, f, err
	}
	if h, err = parseHeader(b[:]); err != nil {
		return h, f, err
	}
	e := b[:footLen]
	if err := readFull(r, e, size-footLen, "the foot"); err != nil {
		return h, f, err
	}
	f = foot{table: int64(binary.LittleEndian.Uint64(e)), len: int64(binary.LittleEndian.Uint32(e[8:]))}
	copy(f.sum[:], e[12:])
	switch {
	case !bytes.Equal(e[44:], []byte(magic)):
		return h, f, damaged("the last bytes are not those of a cold file")
	case f.table < headLen || f.table != size-footLen-f.len:
		return h, f, damaged("the table is not where the foot says")
	}
	if err := h.readMore(r, f.table); err != nil {
		return h, f, err
	}
	if f.len < h.blocks()*entryLen {
		return h, f, damaged("the table is too short")
	}
	return h, f, nil
}

// ReadHeader reads the head of a cold file of size bytes, and checks head, foot and
// the hash of the table. It reads the table once and keeps nothing of it.
func ReadHeader(r io.ReaderAt, size int64) (Header, error) {
	h, f, err := readEnds(r, size)
	if err != nil {
		return h, err
	}
	return h, walk(r, h, f, nil)
}

// walk reads the table once, checks each entry, and that the table has the hash of the
// foot. Then it knows that the frames lie between head and table without gaps. It
// calls visit, which may be nil, with each block, the offset of its frame and the
// offset of its entry in the table.
func walk(r io.ReaderAt, h Header, f foot, visit func(i int64, e *entry, frame, at int64) error) error {
	head := make([]byte, headLen+h.more)
	if err := readFull(r, head, 0, "the head"); err != nil {
		return err
	}
	sum := sha256.New()
	sum.Write(head)
	t := tableReader{h: h, r: bufio.NewReaderSize(io.TeeReader(io.NewSectionReader(r, f.table, f.len), sum), 32<<10)}
	var e entry
	frame := headLen + h.more
	for i := range h.blocks() {
		at := t.n
		if err := t.read(&e); err != nil {
			return err
		}
		if visit != nil {
			if err := visit(i, &e, frame, at); err != nil {
				return err
			}
		}
		if frame += int64(e.frame); frame > f.table {
			return damaged("the frames are longer than the file")
		}
	}
	switch {
	case t.n != f.len || frame != f.table:
		return damaged("frames and table do not fill the file")
	case [32]byte(sum.Sum(nil)) != f.sum:
		return damaged("the table has another hash")
	}
	return nil
}

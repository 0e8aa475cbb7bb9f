package cold

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// Source is a plain content.
type Source struct {
	io.ReaderAt
	Size int64
	Sum  [32]byte // SHA-256

	layout *layout // of an unpacked content, whose unpacked form is what is read; else nil
}

// Stats is what was written.
type Stats struct {
	Bytes  int64 // of the cold file
	Blocks int
	Delta  int // blocks that are differences
	Moved  int // of those, blocks whose fields moved
	Copied int // blocks that are equal to a part of the base
	Zero   int // blocks of zeros
	Plain  int // blocks without a base
}

// EncodeKey writes a key of src to w. It reads src once, from begin to end. It calls
// pace, unless that is nil, with the bytes of src that are done since the last call;
// pace may wait, and its error ends the work. It does not check the hash of src.
func EncodeKey(ctx context.Context, w io.Writer, src Source, pace func(int) error) (Stats, error) {
	h := Header{Version: 1, Form: KeyForm, BlockSize: 1 << keyLog, Size: src.Size, Sum: src.Sum}
	return encode(ctx, w, src, nil, h, pace)
}

// EncodeDelta writes a delta of src against base to w. It reads src once, from begin to
// end, and the base once. Both may be of any size: of a large base, the surroundings of
// a block's own place are searched. The base must not be a delta. For pace see EncodeKey.
func EncodeDelta(ctx context.Context, w io.Writer, src, base Source, pace func(int) error) (Stats, error) {
	return encodeDelta(ctx, w, src, base, deltaVersion, pace)
}

// encodeDelta writes a delta of a version, or of the oldest later one that has what it needs.
func encodeDelta(ctx context.Context, w io.Writer, src, base Source, version int, pace func(int) error) (Stats, error) {
	h := Header{Version: version, Form: DeltaForm, BlockSize: 1 << deltaLog, Size: src.Size, Sum: src.Sum,
		BaseSize: base.Size, BaseSum: base.Sum}
	return encode(ctx, w, src, &base, h, pace)
}

func encode(ctx context.Context, w io.Writer, src Source, base *Source, h Header, pace func(int) error) (s Stats, err error) {
	if h.Size < 0 || h.Size > maxSize || h.BaseSize < 0 || h.BaseSize > maxSize {
		return s, fmt.Errorf("cold: a content of %d bytes against one of %d cannot be stored", h.Size, h.BaseSize)
	}
	if err := h.take(src, base); err != nil {
		return s, err
	}
	e := workers.Get().(*encoder)
	defer workers.Put(e)
	e.reset(base, h)
	defer e.release()
	out := h.append(nil)
	sum := sha256.New()
	sum.Write(out)
	if _, err := w.Write(out); err != nil {
		return s, err
	}
	f := foot{table: int64(len(out))}
	var table []byte
	for i := range h.blocks() {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		block := e.plain[:h.blockLen(i)]
		if err := readAll(src, block, i*h.BlockSize); err != nil {
			return s, err
		}
		frame, err := e.block(block, i*h.BlockSize)
		if err != nil {
			return s, err
		}
		if _, err := w.Write(frame); err != nil {
			return s, err
		}
		f.table += int64(len(frame))
		table = e.entry.append(table)
		s.count(e.entry.kind)
		if pace != nil {
			if err := pace(len(block)); err != nil {
				return s, err
			}
		}
	}
	if len(table) > math.MaxUint32 {
		return s, fmt.Errorf("cold: a content of %d bytes has too many blocks", h.Size)
	}
	sum.Write(table)
	f.len, f.sum = int64(len(table)), [32]byte(sum.Sum(nil))
	table = f.append(table)
	s.Bytes = f.table + int64(len(table))
	_, err = w.Write(table)
	return s, err
}

// take takes the layouts of a content and its base.
func (h *Header) take(src Source, base *Source) error {
	h.own = src.layout
	if base != nil && base.layout != nil { // the recipes of a base are of no use for a delta
		h.base = newLayout(base.Size, base.layout.streams, make([]int64, len(base.layout.streams)))
	}
	if h.UnpackedSize() > maxSize || h.unpackedBase() > maxSize {
		return fmt.Errorf("cold: a content of %d bytes unpacked cannot be stored", h.UnpackedSize())
	}
	h.Version = max(h.Version, h.own.version(), h.base.version())
	return nil
}

// readAll reads all of b. A content that ends early is not the one it is said to be.
func readAll(r io.ReaderAt, b []byte, offset int64) error {
	n, err := r.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("cold: read the content at %d: %w", offset, err)
}

func (s *Stats) count(kind uint8) {
	s.Blocks++
	switch kind {
	case kindPlain:
		s.Plain++
	case kindDelta:
		s.Delta++
	case kindMoved:
		s.Delta++
		s.Moved++
	case kindCopy:
		s.Copied++
	case kindZero:
		s.Zero++
	}
}

// encoder makes the blocks of one file after another.
type encoder struct {
	delta    bool // there is a base
	moving   bool // fields may move
	zstd     *zstd.Encoder
	index    index
	match    matcher
	before   []segment // of again
	learner  learner
	moves    []byte
	plain    []byte
	controls []byte
	diffs    differences
	spare    differences
	inserts  []byte
	frame    buffer
	other    buffer
	entry    entry
	finder   finder
	bases    bases
}

// buffer is a writer to memory that is used again.
type buffer struct{ b []byte }

func (w *buffer) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// workers keeps the memory of an encoder for the next file, until the garbage
// collector wants it.
var workers = sync.Pool{New: func() any {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(true), zstd.WithZeroFrames(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return &encoder{zstd: z, plain: make([]byte, 1<<deltaLog)}
}}

func (e *encoder) reset(base *Source, h Header) {
	e.delta, e.moving = base != nil, h.Version >= 3
	if e.delta {
		e.index.reset(base, h.unpackedBase(), h.base)
		e.match.x, e.match.moving = &e.index, e.moving
	}
}

// release lets go of what is not memory.
func (e *encoder) release() { e.index.r = nil }

// block makes the entry and the frame of a block at place in its content. The frame
// stays until the next call.
func (e *encoder) block(b []byte, place int64) ([]byte, error) {
	e.entry = entry{sum: xxhash.Sum64(b), extents: e.entry.extents[:0]}
	if !e.delta {
		return e.whole(b) // also zeros: the frames of a key alone make the content
	}
	if b[0] == 0 && same(b, b[1:]) == len(b)-1 {
		e.entry.kind = kindZero
		return nil, nil
	}
	if err := e.index.at(place); err != nil {
		return nil, err
	}
	segments := e.match.block(b, place)
	if len(segments) == 1 && e.copied(b, segments[0]) {
		return nil, nil
	}
	e.learner.learn(b, place, &e.index, segments, e.moving)
	if e.learner.moves.n > 0 {
		segments = e.again(b, place)
	}
	if ok, err := e.differ(b, place, segments); !ok || err != nil {
		if err == nil {
			return e.whole(b)
		}
		return nil, err
	}
	// Where the base helps little, it may not help at all.
	if len(e.frame.b) > len(b)/8 && len(e.inserts) > len(b)/4 {
		if err := e.compress(&e.other, b); err != nil {
			return nil, err
		}
		if len(e.other.b) <= len(e.frame.b) {
			e.entry = entry{sum: e.entry.sum, extents: e.entry.extents[:0], kind: kindPlain, frame: uint32(len(e.other.b))}
			return e.other.b, nil
		}
	}
	return e.frame.b, nil
}

// again searches a block again, if that may help, and returns its segments.
func (e *encoder) again(b []byte, place int64) []segment {
	l, m := &e.learner, &e.match
	cost, much := l.cost(m.out)
	if much < worthAgain {
		return m.out
	}
	e.before = append(e.before[:0], m.out...)
	if m.again(b, place, l, cost) {
		l.learn(b, place, &e.index, m.out, e.moving)
	} else {
		m.out = append(m.out[:0], e.before...)
	}
	return m.out
}

// differ makes a frame of differences, in e.frame, and its entry; false if the base gives
// nothing, or too much.
func (e *encoder) differ(b []byte, place int64, segments []segment) (bool, error) {
	l := &e.learner
	if e.collect(b, place, segments) == 0 {
		return false, nil
	}
	subtract(&e.diffs, b, segments, l.base)
	e.moves = e.moves[:0]
	if l.moves.n > 0 {
		e.moves = l.moves.append(e.moves)
		subtract(&e.spare, b, segments, l.plain)
		// What differs may cost little without moves, since it is all alike.
		if e.spare.estimate() <= e.diffs.estimate()+len(e.moves) {
			e.diffs, e.spare = e.spare, e.diffs
			e.moves = e.moves[:0]
		}
	}
	e.entry.kind, e.entry.controls, e.entry.diffs = kindDelta, len(e.controls), len(e.moves)+e.diffs.len()
	if len(e.moves) > 0 {
		e.entry.kind = kindMoved
	}
	if e.entry.controls+e.entry.diffs+len(b) > maxPayload {
		return false, nil
	}
	err := e.compress(&e.frame, append(e.diffs.append([][]byte{e.controls, e.moves}), e.inserts)...)
	e.entry.frame = uint32(len(e.frame.b))
	return true, err
}

// subtract makes the differences between a block and what its segments take of the base.
func subtract(d *differences, b []byte, segments []segment, base []byte) {
	d.reset()
	for _, s := range segments {
		d.subtract(b[s.at:s.at+s.n], base[s.at:])
	}
}

// compress makes one frame of parts. Each part begins another block of the frame, so
// that it has codes of its own.
func (e *encoder) compress(to *buffer, parts ...[]byte) error {
	to.b = to.b[:0]
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	e.zstd.ResetContentSize(to, int64(size))
	for i, p := range parts {
		if _, err := e.zstd.Write(p); err != nil {
			return err
		}
		if i+1 < len(parts) && len(p) > worth {
			if err := e.zstd.Flush(); err != nil {
				return err
			}
		}
	}
	return e.zstd.Close()
}

// worth is how long a part must be at least for codes of its own.
const worth = 64

// whole makes a frame of the bytes themselves.
func (e *encoder) whole(b []byte) ([]byte, error) {
	err := e.compress(&e.frame, b)
	e.entry = entry{sum: e.entry.sum, extents: e.entry.extents[:0], kind: kindPlain, frame: uint32(len(e.frame.b))}
	return e.frame.b, err
}

// copied makes the entry of a block that is equal to bytes of the base that begin at a
// unit, if it is one.
func (e *encoder) copied(b []byte, s segment) bool {
	from := e.index.from + int64(s.from)
	if s.n != len(b) || from%unit != 0 || same(b, e.index.data[s.from:]) != len(b) {
		return false
	}
	e.entry.kind = kindCopy
	e.entry.extents = append(e.entry.extents, extent{from / unit, (int64(len(b)) + unit - 1) / unit})
	return true
}

// collect makes controls and insertions of segments, and the extents of the entry. It gives
// the number of bytes that come from the base.
func (e *encoder) collect(b []byte, place int64, segments []segment) (matched int) {
	e.controls, e.inserts = e.controls[:0], e.inserts[:0]
	if len(segments) == 0 {
		return 0
	}
	x := &e.index
	if first := segments[0].at; first > 0 {
		e.controls = control(e.controls, 0, first, 0)
		e.inserts = append(e.inserts, b[:first]...)
	}
	pos := place
	for i, s := range segments {
		end := len(b)
		if i+1 < len(segments) {
			end = segments[i+1].at
		}
		from := x.from + int64(s.from)
		e.controls = control(e.controls, s.n, end-s.at-s.n, from-pos)
		pos = from + int64(s.n)
		e.inserts = append(e.inserts, b[s.at+s.n:end]...)
		matched += s.n
	}
	e.match.count(b)
	first := x.from / unit
	for u, v := range e.match.votes {
		if v == 0 {
			continue
		}
		u := first + int64(u)
		if k := len(e.entry.extents) - 1; k >= 0 && e.entry.extents[k].first+e.entry.extents[k].n == u {
			e.entry.extents[k].n++
		} else {
			e.entry.extents = append(e.entry.extents, extent{u, 1})
		}
	}
	return matched
}

func control(b []byte, n, m int, step int64) []byte {
	b = binary.AppendUvarint(b, uint64(n))
	b = binary.AppendUvarint(b, uint64(m))
	return binary.AppendVarint(b, step)
}

// Estimate encodes up to n sample blocks spread over src, against base or, if it is
// nil, as a key, and estimates how long the whole cold file would be.
func Estimate(ctx context.Context, src Source, base *Source, n int) (int64, error) {
	h := Header{Form: KeyForm, BlockSize: 1 << keyLog, Size: src.Size}
	if base != nil {
		h = Header{Version: deltaVersion, Form: DeltaForm, BlockSize: 1 << deltaLog, Size: src.Size, BaseSize: base.Size}
	}
	if err := h.take(src, base); err != nil {
		return 0, err
	}
	blocks := h.blocks()
	taken := min(blocks, int64(max(n, 1)))
	return h.estimate(ctx, src, base, taken, func(k int64) (at, n int64) {
		i := k * blocks / taken
		return i * h.BlockSize, int64(h.blockLen(i))
	})
}

const (
	// A comparison encodes compared pieces of pieceLen bytes.
	compared = 64
	pieceLen = 64 << 10
)

// Compare estimates the length of a delta of src against base, from short pieces spread over src:
// in less than half of the time of Estimate, and usually as too long by up to a half. It tells
// which of some bases is the best.
func Compare(ctx context.Context, src, base Source) (int64, error) {
	h := Header{Version: Version, Form: DeltaForm, BlockSize: 1 << deltaLog, Size: src.Size, BaseSize: base.Size}
	if err := h.take(src, &base); err != nil {
		return 0, err
	}
	size := h.UnpackedSize()
	taken := min((size+pieceLen-1)/pieceLen, compared)
	return h.estimate(ctx, src, &base, taken, func(k int64) (at, n int64) {
		at = k * pieceLen
		if taken == compared { // the middle of its part of src, at a page
			at = max(0, (2*k+1)*size/(2*compared)-pieceLen/2) &^ (1<<12 - 1)
		}
		return at, min(pieceLen, size-at)
	})
}

// estimate encodes some pieces of src, and estimates how long the whole cold file would be.
func (h *Header) estimate(ctx context.Context, src Source, base *Source, pieces int64, piece func(k int64) (at, n int64)) (int64, error) {
	e := workers.Get().(*encoder)
	defer workers.Put(e)
	e.reset(base, *h)
	defer e.release()
	var plain, cold int64
	for k := range pieces {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		at, n := piece(k)
		block := e.plain[:n]
		if err := readAll(src, block, at); err != nil {
			return 0, err
		}
		frame, err := e.block(block, at)
		if err != nil {
			return 0, err
		}
		plain += n
		cold += int64(len(frame)) + int64(entryLen+3*len(e.entry.extents))*n/h.BlockSize
	}
	if plain == 0 {
		return headLen + footLen, nil
	}
	return headLen + footLen + int64(float64(cold)/float64(plain)*float64(h.UnpackedSize())), nil
}

package cold

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"sort"
	"sync"

	"github.com/symdepot/symdepot/internal/store/deflate"
	"github.com/symdepot/symdepot/internal/store/typehash"
	"github.com/symdepot/symdepot/internal/store/zstdseq"
)

// maxStreams limits the streams of a content, and maxLayout the bytes that name them.
const (
	maxStreams = 1 << 14
	maxLayout  = 1 << 20
)

// layout is how a content is unpacked: each of its streams is replaced by the bytes
// that it stands for. Behind all come the recipes of the streams, in their order. A content
// without streams is its own unpacked form.
type layout struct {
	size    int64 // of the content
	streams []deflate.Stream
	// starts are the offsets of the streams in the unpacked form.
	starts   []int64
	unpacked int64   // length of the unpacked form, without recipes
	recipes  []int64 // where each recipe ends, counted from there
	newer    bool    // there are recipes that version 2 does not have
}

func newLayout(size int64, streams []deflate.Stream, recipes []int64) *layout {
	l := &layout{size: size, streams: streams, unpacked: size}
	end := int64(0)
	for i, s := range streams {
		l.starts = append(l.starts, s.At+l.unpacked-size)
		l.unpacked += s.Size - s.Len
		end += recipes[i]
		l.recipes = append(l.recipes, end)
	}
	return l
}

// stored is the length of the unpacked form with recipes.
func (l *layout) stored() int64 {
	if n := len(l.recipes); n > 0 {
		return l.unpacked + l.recipes[n-1]
	}
	return l.unpacked
}

// same says whether two contents of one length have the same streams.
func (l *layout) same(o *layout) bool {
	if l == nil || o == nil {
		return l == o
	}
	if l.size != o.size || len(l.streams) != len(o.streams) {
		return false
	}
	for i, s := range l.streams {
		if t := o.streams[i]; s.At != t.At || s.Len != t.Len || s.Size != t.Size || s.Kind != t.Kind {
			return false
		}
	}
	return true
}

// orNil is nil for a layout without streams.
func (l *layout) orNil() *layout {
	if len(l.streams) == 0 {
		return nil
	}
	return l
}

// version is the oldest version of the format that has the kinds of streams, and the recipes, of a layout.
func (l *layout) version() int {
	if l == nil {
		return 1
	}
	v := 2
	if l.newer {
		v = 3
	}
	for i := range l.streams {
		switch l.streams[i].Kind {
		case deflate.Deflate:
		case typeHashes:
			return 4
		default:
			v = 3
		}
	}
	return v
}

// appendLayout writes the streams, with the lengths of their recipes and, from version 3 on, their
// kinds. The recipe of hashes of types follows.
func appendLayout(b []byte, l *layout, version int) []byte {
	if l == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(l.streams)))
	end, recipes := int64(0), int64(0)
	for i, s := range l.streams {
		b = binary.AppendUvarint(b, uint64(s.At-end))
		b = binary.AppendUvarint(b, uint64(s.Len))
		b = binary.AppendUvarint(b, uint64(s.Size))
		b = binary.AppendUvarint(b, uint64(l.recipes[i]-recipes)+uint64(len(s.Recipe)))
		if version >= 3 {
			b = append(b, byte(s.Kind))
		}
		b = append(b, s.Recipe...)
		end, recipes = s.At+s.Len, l.recipes[i]
	}
	return b
}

// lastKinds are the last kinds of streams in each version of the format.
var lastKinds = [Version + 1]deflate.Kind{3: zstdFrame, 4: typeHashes}

// parseLayout reads what appendLayout has written for a content of size bytes.
func parseLayout(b []byte, size int64, version int) (l *layout, rest []byte, ok bool) {
	number := func() int64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > maxSize {
			ok = false
			return 0
		}
		b = b[n:]
		return int64(v)
	}
	ok = true
	n := number()
	if n > maxStreams {
		return nil, nil, false
	}
	var streams []deflate.Stream
	var recipes []int64
	end, unpacked := int64(0), size
	for range n {
		s := deflate.Stream{At: end + number(), Len: number(), Size: number()}
		r := number()
		if version >= 3 {
			s.Kind = deflate.Kind(min(number(), math.MaxUint8))
		}
		if !ok || s.Kind > lastKinds[version] || s.Kind == typeHashes && s.Size > 0 || s.At > size || s.Len > size-s.At || s.Len == 0 {
			return nil, nil, false
		}
		if s.Kind == typeHashes {
			if r > int64(min(len(b), typehash.MaxRecipe)) {
				return nil, nil, false
			}
			s.Recipe, b, r = b[:r:r], b[r:], 0
		}
		end = s.At + s.Len
		if unpacked += s.Size + r; unpacked > maxSize {
			return nil, nil, false
		}
		streams, recipes = append(streams, s), append(recipes, r)
	}
	return newLayout(size, streams, recipes), b, ok
}

// pieces walks over n bytes of one form at an offset, plain or unpacked, and calls visit with
// each part: the number of a stream, or -1, and an offset, in the stream's bytes in that form
// or for -1 in the other form. It ends where the form without recipes ends.
func (l *layout) pieces(plain bool, off int64, n int, visit func(stream int, off int64, n int) error) error {
	at := func(i int) (from, size, other, otherSize int64) {
		s := &l.streams[i]
		if plain {
			return s.At, s.Len, l.starts[i], s.Size
		}
		return l.starts[i], s.Size, s.At, s.Len
	}
	// i is the first stream that ends behind off.
	i := sort.Search(len(l.streams), func(i int) bool {
		from, size, _, _ := at(i)
		return from+size > off
	})
	for n > 0 {
		from, size, other := int64(1)<<62, int64(0), int64(0)
		if i < len(l.streams) {
			from, size, other, _ = at(i)
		}
		if off >= from {
			k := int(min(int64(n), from+size-off))
			if err := visit(i, off-from, k); err != nil {
				return err
			}
			off, n = off+int64(k), n-k
			if off == from+size {
				i++
			}
			continue
		}
		k := int(min(int64(n), from-off))
		to := other - (from - off)
		if i == len(l.streams) {
			to = off
			if i > 0 {
				from, size, other, otherSize := at(i - 1)
				to = off - from - size + other + otherSize
			}
		}
		if err := visit(-1, to, k); err != nil {
			return err
		}
		off, n = off+int64(k), n-k
	}
	return nil
}

// unpacker reads the unpacked form of a plain content. ReadAt may be called by several
// goroutines.
type unpacker struct {
	*layout
	r    io.ReaderAt
	tail []byte // the recipes; nil if they are not read

	mu      sync.Mutex
	current int // stream that reader is of
	reader  io.ReaderAt
	deflate *deflate.Reader // the last one, for its memory
	zstd    *zstdseq.Reader
	kept    []keptBlock // pieces of streams; block is their offset in the unpacked form
	clock   int64
}

// pieceSize is how much of a stream is decoded at once.
const pieceSize = 256 << 10

// newUnpacker keeps up to a number of decoded pieces.
func newUnpacker(r io.ReaderAt, l *layout, pieces int) *unpacker {
	u := &unpacker{layout: l, r: r, current: -1, kept: make([]keptBlock, pieces)}
	for i := range u.kept {
		u.kept[i].block = -1
	}
	return u
}

func (u *unpacker) ReadAt(b []byte, off int64) (n int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	head := int(max(0, min(int64(len(b)), u.unpacked-off)))
	err = u.pieces(false, off, head, func(stream int, off int64, k int) error {
		to := b[n : n+k]
		n += k
		if stream < 0 {
			return readFull(u.r, to, off, "the content")
		}
		return u.read(to, stream, off)
	})
	if err != nil || n == len(b) {
		return n, err
	}
	if off += int64(n); off-u.unpacked < int64(len(u.tail)) {
		n += copy(b[n:], u.tail[off-u.unpacked:])
	}
	if n < len(b) {
		err = io.EOF
	}
	return n, err
}

// read reads bytes of a stream.
func (u *unpacker) read(b []byte, stream int, off int64) error {
	for len(b) > 0 {
		from := off - off%pieceSize
		data, err := u.piece(stream, from)
		if err != nil {
			return err
		}
		k := copy(b, data[off-from:])
		b, off = b[k:], off+int64(k)
	}
	return nil
}

// piece decodes a piece of a stream.
func (u *unpacker) piece(stream int, from int64) ([]byte, error) {
	u.clock++
	s := &u.streams[stream]
	id, n := u.starts[stream]+from, int(min(pieceSize, s.Size-from))
	oldest := &u.kept[0]
	for i := range u.kept {
		k := &u.kept[i]
		if k.block == id {
			k.used = u.clock
			return k.data[:n], nil
		}
		if k.used < oldest.used {
			oldest = k
		}
	}
	if u.current != stream {
		u.reader, u.current = u.open(s), stream
	}
	oldest.block = -1
	if oldest.data == nil {
		oldest.data = make([]byte, pieceSize)
	}
	if k, err := u.reader.ReadAt(oldest.data[:n], from); k < n {
		return nil, unfit(err)
	}
	oldest.block, oldest.used = id, u.clock
	return oldest.data[:n], nil
}

// unfit is the error of a stream that is not what the layout says.
func unfit(err error) error {
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF || errors.Is(err, deflate.ErrRefused) || errors.Is(err, zstdseq.ErrRefused) {
		return damaged("a stream of the content is another one")
	}
	return err
}

// packer reads the plain content of its unpacked form. ReadAt may be called by several
// goroutines.
type packer struct {
	*layout
	r    io.ReaderAt // the unpacked form with recipes
	keep bool        // what was made of a stream, for who goes back and forth

	watched *watch // nil if nothing is

	mu      sync.Mutex
	current int       // stream that is being made; -1 if none is
	p       io.Reader // of its bytes
	at      int64
	made    []byte // of the stream so far, if it is kept
	skip    []byte
}

// maxPacked is from which length on a stream has no longer recipe: an eighth of it.
const maxPacked = 1 << 31

// maxMade is how long a stream is at most whose bytes are kept.
const maxMade = 16 << 20

func newPacker(r io.ReaderAt, l *layout, keep bool) *packer {
	return &packer{layout: l, r: r, keep: keep, current: -1}
}

func (p *packer) ReadAt(b []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, io.EOF
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	head := int(max(0, min(int64(len(b)), p.size-off)))
	err = p.pieces(true, off, head, func(stream int, off int64, k int) error {
		to := b[n : n+k]
		n += k
		if stream < 0 {
			return readFull(p.r, to, off, "the unpacked content")
		}
		return p.read(to, stream, off)
	})
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

// read makes bytes of a stream.
func (p *packer) read(b []byte, stream int, off int64) error {
	s := &p.streams[stream]
	if p.current != stream || off < p.at-int64(len(p.made)) {
		if err := p.begin(stream); err != nil {
			return err
		}
	}
	if from := p.at - int64(len(p.made)); off < p.at {
		k := copy(b, p.made[off-from:])
		b, off = b[k:], off+int64(k)
	}
	for len(b) > 0 {
		to := b
		if off > p.at {
			to = p.buffer()
			to = to[:min(int64(len(to)), off-p.at)]
		}
		k, err := io.ReadFull(p.p, to)
		if p.keep && s.Len <= maxMade {
			p.made = append(p.made, to[:k]...)
		}
		p.at += int64(k)
		if k < len(to) {
			p.current = -1
			return p.failed(err)
		}
		if p.at > off {
			b, off = b[k:], off+int64(k)
		}
	}
	return nil
}

// buffer gives bytes that may be written.
func (p *packer) buffer() []byte {
	if p.skip == nil {
		p.skip = make([]byte, 64<<10)
	}
	return p.skip
}

// failed returns the error of a stream that cannot be made.
func (p *packer) failed(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF || deflate.IsRecipe(err) || zstdseq.IsRecipe(err) ||
		err == typehash.ErrRecipe {
		return damaged("a stream cannot be made again: %v", err)
	}
	return err
}

// begin begins to make a stream.
func (p *packer) begin(stream int) error {
	s := &p.streams[stream]
	if s.Kind == typeHashes {
		b, err := p.hashes(stream)
		if err != nil {
			return err
		}
		p.current, p.at, p.made, p.p = stream, 0, p.made[:0], bytes.NewReader(b)
		return nil
	}
	from, end := int64(0), p.recipes[stream]
	if stream > 0 {
		from = p.recipes[stream-1]
	}
	if end-from > min(s.Len, maxPacked)/8+maxLayout {
		return damaged("a recipe of %d bytes for a stream of %d", end-from, s.Len)
	}
	recipe := make([]byte, end-from)
	if err := readFull(p.r, recipe, p.unpacked+from, "the recipes"); err != nil {
		return err
	}
	plain := bufio.NewReaderSize(io.NewSectionReader(p.r, p.starts[stream], s.Size), pieceSize)
	p.current, p.at, p.made = stream, 0, p.made[:0]
	switch s.Kind {
	case deflate.Folder:
		p.p = deflate.NewFolderPacker(plain, s.Size, recipe)
	case zstdFrame:
		p.p = zstdseq.NewPacker(plain, s.Size, recipe)
	default:
		p.p = deflate.NewPacker(plain, s.Size, recipe)
	}
	return nil
}

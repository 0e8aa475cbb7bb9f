package pdb

import (
	"fmt"
	"io"
	"sync"
)

// Sizes of the buffers through which streams are read, in bytes.
const (
	blockSize = 8 << 10 // a block of a stream that is read at random places
	spanSize  = 1 << 20 // a block of an MSFZ stream, which is slow at random places
	winSize   = 256 << 10
	// maxMSFZTypes is the limit of a stream of an MSFZ file that is read at random places.
	maxMSFZTypes = 256 << 20
)

// blocks reads a stream at random places. It keeps the blocks that were read
// last. It is safe for concurrent use.
type blocks struct {
	r    io.ReaderAt
	size int64 // of the stream
	each int64 // bytes of a block

	mu   sync.Mutex
	most int              // blocks to keep
	held map[int64][]byte // guarded by mu
	ring []int64          // keys of held in order of reading; guarded by mu
	next int              // oldest entry of ring; guarded by mu
}

// newBlocks returns a reader of the size bytes of r that keeps at most most
// bytes.
func newBlocks(r io.ReaderAt, size, each, most int64) *blocks {
	return &blocks{r: r, size: size, each: each, most: int(max(most/each, 2)), held: map[int64][]byte{}}
}

// bytes returns the n bytes at off. They must not be changed; they stay valid.
func (b *blocks) bytes(off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || n > b.size || off > b.size-n {
		return nil, fmt.Errorf("%d bytes at offset %d of a stream of %d bytes: %w", n, off, b.size, io.ErrUnexpectedEOF)
	}
	i, in := off/b.each, off%b.each
	p, err := b.block(i)
	if err != nil {
		return nil, err
	}
	if in+n <= int64(len(p)) {
		return p[in : in+n], nil
	}
	out := append(make([]byte, 0, n), p[in:]...)
	for int64(len(out)) < n {
		i++
		if p, err = b.block(i); err != nil {
			return nil, err
		}
		out = append(out, p[:min(int64(len(p)), n-int64(len(out)))]...)
	}
	return out, nil
}

// rest returns the bytes from off to the end of the block that has them.
func (b *blocks) rest(off int64) ([]byte, error) {
	if off < 0 || off >= b.size {
		return nil, fmt.Errorf("offset %d of a stream of %d bytes: %w", off, b.size, io.ErrUnexpectedEOF)
	}
	p, err := b.block(off / b.each)
	if err != nil {
		return nil, err
	}
	return p[off%b.each:], nil
}

// block returns block i.
func (b *blocks) block(i int64) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, ok := b.held[i]; ok {
		return p, nil
	}
	p := make([]byte, min(b.each, b.size-i*b.each))
	if err := readFull(b.r, p, i*b.each); err != nil {
		return nil, err
	}
	if len(b.ring) < b.most {
		b.ring = append(b.ring, i)
	} else {
		delete(b.held, b.ring[b.next])
		b.ring[b.next] = i
		b.next = (b.next + 1) % len(b.ring)
	}
	b.held[i] = p
	return p, nil
}

// text returns the text at off that ends with NUL, without it. Longer text is
// cut after most bytes.
func (b *blocks) text(off, most int64) ([]byte, error) {
	for n := int64(256); ; n *= 4 {
		n = min(n, most, b.size-off)
		p, err := b.bytes(off, n)
		if err != nil {
			return nil, err
		}
		if s, ok := untilNUL(p); ok || n == most || n == b.size-off {
			return s, nil
		}
	}
}

// window reads a range of a stream from front to back.
type window struct {
	r   io.ReaderAt
	off int64 // offset in the stream of the first byte of b
	end int64 // end of the range in the stream
	b   []byte
	buf []byte // reused
}

// reset starts reading at off up to end.
func (w *window) reset(r io.ReaderAt, off, end int64) {
	w.r, w.off, w.end, w.b = r, off, max(off, end), nil
}

// left returns the number of bytes that were not taken yet.
func (w *window) left() int64 { return w.end - w.off }

// peek returns at least n bytes without taking them, or all that are left if
// these are fewer.
func (w *window) peek(n int) ([]byte, error) {
	if len(w.b) >= n || int64(len(w.b)) >= w.left() {
		return w.b, nil
	}
	want := min(w.left(), max(int64(n), winSize))
	if int64(cap(w.buf)) < want {
		w.buf = make([]byte, want)
	}
	p := w.buf[:want]
	have := copy(p, w.b)
	if err := readFull(w.r, p[have:], w.off+int64(have)); err != nil {
		return nil, err
	}
	w.b = p
	return p, nil
}

// skip takes n bytes, or all that are left.
func (w *window) skip(n int64) {
	n = min(n, w.left())
	w.off += n
	w.b = w.b[min(n, int64(len(w.b))):]
}

// record returns the next record of symbols or types: a length, a kind, data.
// The data is valid until the next call. The kind is 0 at the end of the range
// and at bytes that are not a record. align is the alignment of records.
func (w *window) record(align int64) (at int64, kind uint16, data []byte, err error) {
	at = w.off
	p, err := w.peek(2 + 0xFFFF)
	if err != nil || len(p) < 4 {
		return at, 0, nil, err
	}
	n := int(u16(p, 0))
	if n < 2 || n+2 > len(p) {
		return at, 0, nil, nil
	}
	kind, data = u16(p, 2), p[4:n+2]
	w.skip((int64(n) + 2 + align - 1) &^ (align - 1))
	return at, kind, data, nil
}

// Package pagecache reads small parts of large content through a few pages of memory.
package pagecache

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// pageSize is the number of bytes that one read of the content fetches.
const pageSize = 16 << 10

// setSize is at how many places a page may be kept: with one, pages that are used by turns push each
// other out.
const setSize = 4

// Source is content of a known size. If it also has a method Bytes() []byte with
// a result that is not nil, that result is used in place of reads.
type Source interface {
	io.ReaderAt
	Size() int64
}

// Reader reads a Source. It keeps a fixed number of pages, each at one of few places that
// its offset determines. It must not be used by several goroutines at the same
// time.
type Reader struct {
	src   Source
	size  uint64
	each  uint64 // bytes of a page
	whole []byte
	pages []page
	join  []byte // the latest result that crossed a page boundary
	err   error
}

type page struct {
	off  uint64 // plus 1; 0 is an empty page
	data []byte
}

// New returns a Reader that keeps at most the given number of pages of 16 KiB.
func New(src Source, pages int) *Reader { return NewSize(src, pages, pageSize) }

// NewSize returns a Reader that keeps at most the given number of pages of the given
// size in bytes. Short pages suit content that is read here and there.
func NewSize(src Source, pages, size int) *Reader {
	r := &Reader{src: src, size: uint64(max(src.Size(), 0)), each: uint64(max(size, 64))}
	if w, ok := src.(interface{ Bytes() []byte }); ok {
		if b := w.Bytes(); b != nil {
			r.whole, r.size = b, uint64(len(b))
			return r
		}
	}
	r.pages = make([]page, max(pages, 1))
	return r
}

// Size returns the number of bytes of the content.
func (r *Reader) Size() uint64 {
	if r == nil {
		return 0
	}
	return r.size
}

// Whole returns the content if all of it is in memory, else nil.
func (r *Reader) Whole() []byte {
	if r == nil {
		return nil
	}
	return r.whole
}

// Err returns the first error of the Source. It is nil after reads beyond the end
// of the content.
func (r *Reader) Err() error {
	if r == nil {
		return nil
	}
	return r.err
}

// At returns n bytes from off, or fewer at the end of the content or after an
// error. The result is valid until the next call.
func (r *Reader) At(off uint64, n int) []byte {
	if r == nil || off >= r.size || n <= 0 {
		return nil
	}
	if uint64(n) > r.size-off {
		n = int(r.size - off)
	}
	if r.whole != nil {
		return r.whole[off : off+uint64(n)]
	}
	p := r.page(off)
	if len(p) >= n {
		return p[:n]
	}
	if n > 4*int(r.each) {
		return r.direct(off, n)
	}
	if cap(r.join) < n {
		r.join = make([]byte, 0, max(n, 256))
	}
	out := append(r.join[:0], p...)
	for len(out) < n {
		q := r.page(off + uint64(len(out)))
		if len(q) == 0 {
			break
		}
		out = append(out, q[:min(len(q), n-len(out))]...)
	}
	r.join = out
	return out
}

// direct reads a large part without the pages.
func (r *Reader) direct(off uint64, n int) []byte {
	if cap(r.join) < n {
		r.join = make([]byte, n)
	}
	out := r.join[:n]
	m, err := r.src.ReadAt(out, int64(off))
	r.fail(m, n, err)
	return out[:m]
}

// page returns the bytes from off to the end of the page that contains off.
func (r *Reader) page(off uint64) []byte {
	if off >= r.size || r.err != nil {
		return nil
	}
	at := off / r.each * r.each
	set := r.set(at / r.each)
	p := &set[0]
	if p.off != at+1 {
		i := 1
		for i < len(set)-1 && set[i].off != at+1 {
			i++
		}
		if i < len(set) { // the page, or the one that was not used for the longest time
			was := set[i]
			copy(set[1:i+1], set[:i])
			set[0] = was
		}
	}
	if p.off != at+1 {
		n := int(min(r.each, r.size-at))
		if cap(p.data) < n {
			p.data = make([]byte, n)
		}
		p.data, p.off = p.data[:n], at+1
		m, err := r.src.ReadAt(p.data, int64(at))
		r.fail(m, n, err)
		p.data = p.data[:m]
		if m < n {
			p.off = 0
		}
	}
	if off-at >= uint64(len(p.data)) {
		return nil
	}
	return p.data[off-at:]
}

// set returns the places that a page may have, that of the page used last first.
func (r *Reader) set(number uint64) []page {
	n := uint64(len(r.pages) / setSize)
	if n == 0 {
		return r.pages
	}
	first := number % n * setSize
	return r.pages[first : first+setSize]
}

func (r *Reader) fail(have, want int, err error) {
	if have == want || r.err != nil {
		return
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	r.err = fmt.Errorf("reading a section: %w", err)
}

// CString returns the bytes from off to the next NUL, without it. The result is
// nil if there is none within limit bytes. It is valid until the next call.
func (r *Reader) CString(off uint64, limit int) []byte {
	for n := min(limit, 256); ; n = min(4*n, limit) {
		p := r.At(off, n)
		if i := bytes.IndexByte(p, 0); i >= 0 {
			return p[:i:i]
		}
		if len(p) < n || n == limit {
			return nil
		}
	}
}

// ReadInto reads len(p) bytes from off into p without the pages, and returns how
// many there are.
func (r *Reader) ReadInto(p []byte, off uint64) int {
	if r == nil || off >= r.size || r.err != nil {
		return 0
	}
	p = p[:min(uint64(len(p)), r.size-off)]
	if r.whole != nil {
		return copy(p, r.whole[off:])
	}
	n, err := r.src.ReadAt(p, int64(off))
	r.fail(n, len(p), err)
	return n
}

package dump

import (
	"errors"
	"fmt"
	"io"
	"sort"
)

// Limits of one dump. The largest real dumps have some hundreds of modules, and
// full dumps of browsers about ten thousand memory regions.
const (
	readLimit  = 256 << 20 // bytes read; a read counts as leastRead at least
	leastRead  = 512
	textLimit  = 4 << 20 // bytes of names kept
	maxModules = 8192
	maxRegions = 1 << 17 // of memory, and of mapped files: 32 bytes of memory each
)

var (
	errLimit   = errors.New("reading the dump exceeds the limit")
	errText    = errors.New("the names in the dump exceed the limit")
	errOutside = errors.New("lies outside the file")
)

// source reads the dump within its limits. It records errors of the reader, in
// contrast to errors about the content.
type source struct {
	r    io.ReaderAt
	size int64
	left int64 // bytes that may still be read
	text int   // bytes of text kept so far
	err  error
}

// readAt fills p from off. It reads nothing if the range is not within the
// file.
func (s *source) readAt(p []byte, off uint64) error {
	n := uint64(len(p))
	if s.size < 0 || off > uint64(s.size) || n > uint64(s.size)-off {
		return fmt.Errorf("%d bytes at offset %#x: %w", n, off, errOutside)
	}
	if s.err != nil {
		return s.err
	}
	if s.left -= int64(max(n, leastRead)); s.left < 0 {
		return errLimit
	}
	got, err := s.r.ReadAt(p, int64(off))
	if got == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("the file shrank below %d bytes: %w", s.size, io.ErrUnexpectedEOF)
	}
	s.err = err
	return err
}

// keep counts text that the result will contain.
func (s *source) keep(text string) error {
	if s.text += len(text); s.text > textLimit {
		return errText
	}
	return nil
}

// window reads ahead, for lists of small items.
type window struct {
	s     *source
	ahead int
	off   uint64
	buf   []byte
}

// maxItems returns how many of n items of the given size the file can hold, at most
// limit. So many may be allocated before they are read.
func (s *source) maxItems(n uint64, item int64, limit int) int {
	return int(min(n, uint64(max(s.size, 0)/item), uint64(limit)))
}

// maxItem is the largest item of a window.
const maxItem = 64 << 10

// bytes returns n bytes at off. They are valid until the next call.
func (w *window) bytes(off uint64, n int) ([]byte, error) {
	if n > maxItem || n < 0 {
		return nil, fmt.Errorf("%d bytes in one piece: %w", n, errLimit)
	}
	if off >= w.off && off-w.off <= uint64(len(w.buf)) && n <= len(w.buf)-int(off-w.off) {
		at := int(off - w.off)
		return w.buf[at : at+n : at+n], nil
	}
	want := max(n, w.ahead)
	if end := uint64(max(w.s.size, 0)); off < end && uint64(want) > end-off {
		want = max(n, int(end-off))
	}
	if cap(w.buf) < want {
		w.buf = make([]byte, 0, max(want, w.ahead))
	}
	w.off, w.buf = off, w.buf[:want]
	if err := w.s.readAt(w.buf, off); err != nil {
		w.buf = w.buf[:0]
		return nil, err
	}
	return w.buf[:n:n], nil
}

// region is a part of the process's memory and its position in the dump.
type region struct {
	addr, off, size uint64
	flags           uint32 // of an ELF program header
}

// memory is the part of the process's memory that the dump has.
type memory struct {
	s       *source
	regions []region // sorted by address; may overlap in a hostile dump
	scratch []byte
}

func (m *memory) sort() {
	sort.SliceStable(m.regions, func(i, j int) bool { return m.regions[i].addr < m.regions[j].addr })
}

// find returns the region that contains addr.
func (m *memory) find(addr uint64) (region, bool) {
	i := sort.Search(len(m.regions), func(i int) bool { return m.regions[i].addr > addr })
	if i == 0 || addr-m.regions[i-1].addr >= m.regions[i-1].size {
		return region{}, false
	}
	return m.regions[i-1], true
}

// readAt reads as much of p at addr as the dump has, and returns the number of
// bytes.
func (m *memory) readAt(p []byte, addr uint64) int {
	n := 0
	for n < len(p) {
		r, ok := m.find(addr + uint64(n))
		if !ok {
			break
		}
		in := addr + uint64(n) - r.addr
		part := p[n:min(uint64(len(p)), uint64(n)+r.size-in)]
		if r.off+in < r.off || m.s.readAt(part, r.off+in) != nil {
			// A truncated dump may have a part of the region.
			if end := uint64(m.s.size); r.off+in < end && end-r.off-in < uint64(len(part)) && m.s.readAt(part[:end-r.off-in], r.off+in) == nil {
				n += int(end - r.off - in)
			}
			break
		}
		n += len(part)
	}
	return n
}

// available returns the part of the n bytes at addr that the dump has, at most
// maxSome bytes. It is valid until the next call.
func (m *memory) available(addr, n uint64) []byte {
	if m.scratch == nil {
		m.scratch = make([]byte, maxSome)
	}
	p := m.scratch[:min(n, maxSome)]
	return p[:m.readAt(p, addr)]
}

const maxSome = 32 << 10

// bytes returns all n bytes at addr, or nil. The caller limits n.
func (m *memory) bytes(addr uint64, n int) []byte {
	p := make([]byte, n)
	if m.readAt(p, addr) != n {
		return nil
	}
	return p
}

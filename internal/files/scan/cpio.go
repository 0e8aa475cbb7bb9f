package scan

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// cpioMember is the header of a member of a cpio archive.
type cpioMember struct {
	name  string
	mode  uint32
	links int64
	size  int64
	mod   time.Time
}

const (
	cpioTypeMask = 0xf000
	cpioRegular  = 0x8000
	cpioTrailer  = "TRAILER!!!"
)

// cpioReader reads the headers of a cpio archive of the "newc" format, or of
// RPM's variant for packages with files of 4 GiB or more.
type cpioReader struct {
	s     *stream
	next  int64     // offset of the next header
	files *rpmFiles // of the package, for RPM's variant
}

// header skips the rest of the current member and reads the next header. It
// returns io.EOF at the trailer. An archive without a trailer is an error.
func (c *cpioReader) header() (*cpioMember, error) {
	m, err := c.read()
	if errors.Is(err, io.EOF) && m == nil {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("cpio: %w", err)
	}
	return m, err
}

func (c *cpioReader) read() (*cpioMember, error) {
	if err := c.s.skipTo(c.next); err != nil {
		return nil, err
	}
	start := c.s.pos
	var magic [6]byte
	if err := c.s.full(magic[:]); err != nil {
		return nil, err
	}
	switch string(magic[:]) {
	case "070701", "070702":
	case "07070X":
		return c.readIndexed(start)
	default:
		return nil, errors.New("damaged member header")
	}
	var text [13 * 8]byte
	if err := c.s.full(text[:]); err != nil {
		return nil, err
	}
	var f [13]int64
	for i := range f {
		n, err := strconv.ParseUint(string(text[i*8:i*8+8]), 16, 32)
		if err != nil {
			return nil, errors.New("damaged member header")
		}
		f[i] = int64(n)
	}
	const maxName = 64 << 10
	nameLen := f[11]
	if nameLen == 0 || nameLen > maxName {
		return nil, fmt.Errorf("the name has %d bytes, which is too long", nameLen)
	}
	name := make([]byte, nameLen)
	if err := c.s.full(name); err != nil {
		return nil, err
	}
	m := &cpioMember{name: string(name[:nameLen-1]), mode: uint32(f[1]), links: f[4], size: f[6], mod: time.Unix(f[5], 0)}
	if m.name == cpioTrailer {
		return m, io.EOF
	}
	return m, c.body(start, m.size)
}

// body moves to the first byte of the member. Header and content are each
// padded to a multiple of four bytes, counted from the header.
func (c *cpioReader) body(start, size int64) error {
	pad := func(n int64) int64 { return (n + 3) &^ 3 }
	begin := start + pad(c.s.pos-start)
	c.next = begin + pad(size)
	return c.s.skipTo(begin)
}

// readIndexed reads a header of RPM's variant, which has the index of the file
// in the package only.
func (c *cpioReader) readIndexed(start int64) (*cpioMember, error) {
	var text [8]byte
	if err := c.s.full(text[:]); err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(string(text[:]), 16, 32)
	if err != nil {
		return nil, errors.New("damaged member header")
	}
	m, err := c.files.member(n)
	if err != nil {
		return nil, err
	}
	return m, c.body(start, m.size)
}

// cpio reads a cpio archive. files and signatures are those of an RPM package, or nil.
func (w *walk) cpio(in *input, s *stream, files *rpmFiles, signatures map[string]string) error {
	c := &cpioReader{s: s, next: s.pos, files: files}
	return eachMember(w, in, c.header, func(h *cpioMember) error {
		// Of several hard links only the last one has the bytes.
		if h.mode&cpioTypeMask != cpioRegular || h.size == 0 && h.links > 1 {
			return nil
		}
		w.progress(in)
		m := in.child(h.name, h.size, h.mod)
		m.signature = signatures[strings.TrimLeft(strings.TrimPrefix(h.name, "."), "/")]
		s.member(in, m)
		_ = w.visit(m) // if the stream is damaged, the next header fails
		return nil
	})
}

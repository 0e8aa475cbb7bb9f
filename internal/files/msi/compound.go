package msi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf16"
)

// An installer package is a compound file ([MS-CFB]): a file system in a file. Sectors of one size are
// linked by a table (FAT); streams below a cutoff lie in small sectors of one special stream, linked by
// a table of their own.

// Limits of a compound file.
const (
	maxEntries = 1 << 16 // streams and storages
	maxRuns    = 1 << 19 // pieces of all streams
	maxSmall   = 4 << 20 // bytes of the table of small sectors
)

// Special sector numbers: [MS-CFB], section 2.1.
const (
	lastRegular = 0xFFFFFFFA
	endOfChain  = 0xFFFFFFFE
	noEntry     = 0xFFFFFFFF
)

// Types of entries of the directory: [MS-CFB], section 2.6.1.
const (
	typeStream = 2
	typeRoot   = 5
)

const (
	headerSize = 512
	entrySize  = 128
	smallShift = 6 // small sectors have 64 bytes
	cutoff     = 4096
)

// entry is an entry of the directory.
type entry struct {
	name                       []uint16
	kind                       byte
	left, right, child, sector uint32
	size                       int64
	stream                     *stream // nil: it was not opened
}

// compound is an open compound file.
type compound struct {
	src   io.ReaderAt
	size  int64
	shift uint // base-2 logarithm of the size of a sector

	tables []uint32 // the sectors of the FAT
	table  []byte   // the sector of the FAT that was read last
	cached int      // its index in tables; -1: none

	entries []entry
	small   *stream // the small sectors; nil: there are none
	links   []byte  // the table of small sectors

	left int64 // bytes that the streams have that were not opened: at most those of the file
	runs int   // pieces of the streams that were opened
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// other turns an error about what is read first into ErrOther.
func other(err error) error {
	if errors.Is(err, ErrFormat) {
		return ErrOther
	}
	return err
}

// readAt fills p from src.
func readAt(src io.ReaderAt, p []byte, off int64) error {
	n, err := src.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("cut off at %d", off+int64(n))
	}
	return err
}

// openCompound reads the header and the directory.
func openCompound(src io.ReaderAt, size int64) (*compound, error) {
	var h [headerSize]byte
	if err := readAt(src, h[:], 0); err != nil {
		return nil, other(err)
	}
	le := binary.LittleEndian
	c := &compound{src: src, size: size, left: size, cached: -1, shift: uint(le.Uint16(h[30:]))}
	version := le.Uint16(h[26:])
	if string(h[:8]) != Magic || le.Uint16(h[28:]) != 0xFFFE || le.Uint16(h[32:]) != smallShift || le.Uint32(h[56:]) != cutoff ||
		!(version == 3 && c.shift == 9 || version == 4 && c.shift == 12) {
		return nil, ErrOther
	}
	// The class of the root tells what the file is, before it can be called damaged.
	var root [entrySize]byte
	if err := readAt(src, root[:], (int64(le.Uint32(h[48:]))+1)<<c.shift); err != nil {
		return nil, other(err)
	}
	switch string(root[80:96]) {
	case class:
	case patchClass:
		return nil, ErrPatch
	default:
		return nil, ErrOther
	}
	if err := c.readTables(h[:]); err != nil {
		return nil, err
	}
	if err := c.readDirectory(le.Uint32(h[48:]), version); err != nil {
		return nil, err
	}
	return c, c.readSmall(le.Uint32(h[60:]), int64(le.Uint32(h[64:])))
}

// sectors is the number of sectors of the file; the last one may be cut off.
func (c *compound) sectors() int64 {
	return max(0, (c.size-1)>>c.shift)
}

// readTables finds the sectors of the FAT: the first 109 in the header, the others in a chain of sectors.
func (c *compound) readTables(h []byte) error {
	le := binary.LittleEndian
	perSector := int64(1) << (c.shift - 2)
	n := int64(le.Uint32(h[44:]))
	if n > c.sectors()/perSector+1 {
		return damaged("a table of %d sectors in a file of %d", n, c.sectors())
	}
	add := func(list []byte) {
		for ; len(list) >= 4 && int64(len(c.tables)) < n; list = list[4:] {
			c.tables = append(c.tables, le.Uint32(list))
		}
	}
	add(h[76:headerSize])
	next, sector := le.Uint32(h[68:]), make([]byte, 1<<c.shift)
	for int64(len(c.tables)) < n {
		if err := c.readSector(sector, next); err != nil {
			return err
		}
		end := len(sector) - 4
		add(sector[:end])
		next = le.Uint32(sector[end:])
	}
	return nil
}

func (c *compound) readSector(p []byte, n uint32) error {
	if int64(n) >= c.sectors() {
		return damaged("sector %d of %d", n, c.sectors())
	}
	return readAt(c.src, p, (int64(n)+1)<<c.shift)
}

// next returns the sector behind one in its chain.
func (c *compound) next(n uint32) (uint32, error) {
	at := int(n >> (c.shift - 2))
	if at >= len(c.tables) {
		return 0, damaged("sector %d is in no table", n)
	}
	if at != c.cached {
		if c.table == nil {
			c.table = make([]byte, 1<<c.shift)
		}
		c.cached = -1
		if err := c.readSector(c.table, c.tables[at]); err != nil {
			return 0, err
		}
		c.cached = at
	}
	return binary.LittleEndian.Uint32(c.table[n&(1<<(c.shift-2)-1)<<2:]), nil
}

// readDirectory reads the entries of the directory, which begins in a sector.
func (c *compound) readDirectory(first uint32, version uint16) error {
	le := binary.LittleEndian
	sector := make([]byte, 1<<c.shift)
	for n := first; n != endOfChain; {
		if err := c.readSector(sector, n); err != nil {
			return err
		}
		for e := sector; len(e) > 0; e = e[entrySize:] {
			x := entry{
				kind: e[66], left: le.Uint32(e[68:]), right: le.Uint32(e[72:]), child: le.Uint32(e[76:]),
				sector: le.Uint32(e[116:]), size: int64(le.Uint64(e[120:]) & math.MaxInt64),
			}
			if version == 3 {
				x.size &= math.MaxUint32 // writers leave the upper half undefined
			}
			for i := 0; i+2 < min(int(le.Uint16(e[64:])), 64); i += 2 {
				x.name = append(x.name, le.Uint16(e[i:]))
			}
			c.entries = append(c.entries, x)
		}
		if len(c.entries) > maxEntries {
			return fmt.Errorf("%w: more than %d streams", ErrLimit, maxEntries)
		}
		var err error
		if n, err = c.next(n); err != nil {
			return err
		}
	}
	if len(c.entries) == 0 || c.entries[0].kind != typeRoot {
		return damaged("the directory has no root")
	}
	return nil
}

// readSmall reads the table of small sectors.
func (c *compound) readSmall(first uint32, sectors int64) error {
	root := &c.entries[0]
	if sectors == 0 || root.size == 0 {
		return nil
	}
	size := sectors << c.shift
	if size > maxSmall {
		return fmt.Errorf("%w: a table of small sectors of %d bytes", ErrLimit, size)
	}
	table, err := c.chain(first, size)
	if err != nil {
		return err
	}
	c.links = make([]byte, size)
	if err := readAt(table, c.links, 0); err != nil {
		return err
	}
	c.small, err = c.chain(root.sector, root.size)
	return err
}

// each calls do for the streams of the root storage. A stream of another storage belongs to something else,
// such as a transform.
func (c *compound) each(do func(e *entry) error) error {
	seen := make([]bool, len(c.entries))
	left := []uint32{c.entries[0].child}
	for len(left) > 0 {
		n := left[len(left)-1]
		left = left[:len(left)-1]
		if n == noEntry {
			continue
		}
		if int64(n) >= int64(len(seen)) || seen[n] {
			return damaged("the directory is no tree")
		}
		seen[n] = true
		e := &c.entries[n]
		left = append(left, e.left, e.right)
		if e.kind == typeStream {
			if err := do(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// open returns the content of a stream.
func (c *compound) open(e *entry) (s *stream, err error) {
	switch {
	case e.stream != nil:
		return e.stream, nil
	case e.size >= cutoff:
		s, err = c.chain(e.sector, e.size)
	default:
		s, err = c.smallChain(e.sector, e.size)
	}
	e.stream = s
	return s, err
}

// smallChain returns the stream of a size whose small sectors begin with n.
func (c *compound) smallChain(n uint32, size int64) (*stream, error) {
	if size > 0 && c.small == nil {
		return nil, damaged("a small stream, and no small sectors")
	}
	s := &stream{src: c.small, size: size}
	for at := int64(0); at < size; at += 1 << smallShift {
		if int64(n)<<2+4 > int64(len(c.links)) {
			return nil, damaged("small sector %d is in no table", n)
		}
		if err := c.add(s, at, int64(n)<<smallShift, 1<<smallShift); err != nil {
			return nil, err
		}
		n = binary.LittleEndian.Uint32(c.links[n<<2:])
	}
	return s, nil
}

// chain returns the stream of a size whose sectors begin with first.
func (c *compound) chain(first uint32, size int64) (*stream, error) {
	if size > c.left {
		return nil, damaged("streams have more bytes than the file of %d", c.size)
	}
	c.left -= size
	s := &stream{src: c.src, size: size}
	n := first
	for at := int64(0); at < size; at += 1 << c.shift {
		if n > lastRegular || int64(n) >= c.sectors() {
			return nil, damaged("a stream ends %d bytes early", size-at)
		}
		if err := c.add(s, at, (int64(n)+1)<<c.shift, 1<<c.shift); err != nil {
			return nil, err
		}
		var err error
		if n, err = c.next(n); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// add adds a sector to a stream.
func (c *compound) add(s *stream, at, off, n int64) error {
	if i := len(s.runs) - 1; i >= 0 && s.runs[i].off+s.runs[i].n == off {
		s.runs[i].n += n
		return nil
	}
	if c.runs++; c.runs > maxRuns {
		return fmt.Errorf("%w: streams in more than %d pieces", ErrLimit, maxRuns)
	}
	s.runs = append(s.runs, run{at, off, n})
	return nil
}

// stream is the content of a stream. Several goroutines may read it.
type stream struct {
	src  io.ReaderAt
	size int64
	runs []run
}

// run is a piece of a stream that lies together.
type run struct{ at, off, n int64 } // in the stream, in src, bytes

// ReadAt implements io.ReaderAt.
func (s *stream) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("msi: negative offset")
	}
	short := off+int64(len(p)) > s.size
	if short {
		p = p[:max(0, s.size-off)]
	}
	for i := s.find(off); n < len(p); i++ {
		r := s.runs[i]
		skip := off + int64(n) - r.at
		part := p[n:min(int64(len(p)), int64(n)+r.n-skip)]
		m, err := s.src.ReadAt(part, r.off+skip)
		n += m
		if m < len(part) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return n, err
		}
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}

// find returns the index of the run with an offset of the stream.
func (s *stream) find(off int64) int {
	low, high := 0, len(s.runs)
	for low+1 < high {
		if mid := (low + high) / 2; s.runs[mid].at <= off {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// decodeName returns the name of a stream in a package, and whether it is that of a table. The names use
// characters from 0x3800 on, which hold two characters of a set of 64, or one.
func decodeName(name []uint16) (text string, table bool) {
	const set = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._"
	var out []uint16
	for i, c := range name {
		switch {
		case i == 0 && c == 0x4840:
			table = true
		case c >= 0x3800 && c < 0x4800:
			c -= 0x3800
			out = append(out, uint16(set[c&63]), uint16(set[c>>6]))
		case c >= 0x4800 && c < 0x4840:
			out = append(out, uint16(set[c-0x4800]))
		default:
			out = append(out, c)
		}
	}
	return string(utf16.Decode(out)), table
}

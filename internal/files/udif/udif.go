// Package udif reads the disk in Apple's disk images (.dmg): the Universal Disk Image Format, whose blocks are
// compressed one by one, and disks that are stored as they are. It finds the partitions of the disk.
//
// A UDIF image ends with a trailer ("koly"), which leads to a property list; that has tables ("mish") which say
// where the blocks of each partition are. All numbers are big-endian.
package udif

import (
	"bytes"
	"cmp"
	"compress/bzip2"
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zlib"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/base/xz"
)

// Errors of Open and of reading.
var (
	// ErrFormat means that an image is damaged.
	ErrFormat = errors.New("udif: damaged")
	// ErrLimit means that an image is larger than what is read.
	ErrLimit = errors.New("udif: over the limit")
	// ErrEncrypted means that an image is encrypted.
	ErrEncrypted = errors.New("udif: encrypted")
	// ErrMethod means that a block is compressed with a method that is not supported: ADC or LZFSE.
	ErrMethod = errors.New("udif: compression that is not supported")
	// ErrSplit means that an image has several files.
	ErrSplit = errors.New("udif: split into several files")
)

// Limits of an image.
const (
	maxList   = 16 << 20 // bytes of the property list
	maxQuotes = 1 << 12  // in the property list
	maxBlocks = 1 << 19
	maxBlock  = 16 << 20 // bytes of a block that is compressed
	maxDisk   = 1 << 50  // bytes of the disk
	kept      = 4        // blocks that are kept decompressed
)

const (
	sector     = 512
	trailer    = 512
	tableStart = 204 // bytes in front of the blocks of a table
	blockEntry = 40
)

// Kinds of blocks.
const (
	kindZero    = 0x00000000
	kindRaw     = 0x00000001
	kindNothing = 0x00000002 // unused: reads as zeros
	kindADC     = 0x80000004
	kindZlib    = 0x80000005
	kindBzip2   = 0x80000006
	kindLZFSE   = 0x80000007
	kindXZ      = 0x80000008
	kindComment = 0x7ffffffe
	kindEnd     = 0xffffffff
)

// block is a piece of the disk.
type block struct {
	at, n       int64 // in the disk, bytes
	off, packed int64 // in the image, bytes
	kind        uint32
}

// Image is the disk in an image. Several goroutines may read it.
type Image struct {
	src    io.ReaderAt
	size   int64
	raw    bool
	blocks []block // in the order of the disk
	stored int64   // bytes of the blocks that are not compressed
	spend  func(bytes int64) error

	mu   sync.Mutex
	last []decoded // guarded by mu; the newest last
}

// decoded is a block that was decompressed.
type decoded struct {
	at   int64
	data []byte
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// readAt fills p from src.
func readAt(src io.ReaderAt, p []byte, off int64) error {
	n, err := src.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return damaged("cut off at %d", off+int64(n))
	}
	return err
}

// Open reads the tables of an image of size bytes; a file that has none is a disk as it is. It holds them in memory,
// up to 20 MiB, and some blocks while the disk is read. spend is called with the size of each block before it is
// decompressed, which may happen more than once; its error ends the reading. Errors are the ones above, or those of src.
func Open(src io.ReaderAt, size int64, spend func(bytes int64) error) (*Image, error) {
	m := &Image{src: src, size: size, raw: true, spend: spend}
	var head [8]byte
	if n, _ := src.ReadAt(head[:], 0); n == len(head) && string(head[:]) == "encrcdsa" {
		return nil, ErrEncrypted
	}
	if size < trailer {
		return m, nil
	}
	var t [trailer]byte
	if err := readAt(src, t[:], size-trailer); err != nil {
		return nil, err
	}
	be := binary.BigEndian
	switch {
	case string(t[trailer-8:]) == "cdsaencr":
		return nil, ErrEncrypted
	case string(t[:4]) != "koly":
		return m, nil
	case be.Uint32(t[4:]) != 4:
		return nil, damaged("version %d", be.Uint32(t[4:]))
	case be.Uint32(t[60:]) > 1:
		return nil, ErrSplit
	}
	m.raw = false
	off, n := be.Uint64(t[216:]), be.Uint64(t[224:])
	switch {
	case n == 0:
		return nil, damaged("no property list")
	case n > maxList:
		return nil, fmt.Errorf("%w: a property list of %d bytes", ErrLimit, n)
	case off > uint64(size) || n > uint64(size)-off:
		return nil, damaged("the property list lies outside the file")
	}
	list := make([]byte, n)
	if err := readAt(src, list, int64(off)); err != nil {
		return nil, err
	}
	tables, err := readList(list)
	if err != nil {
		return nil, err
	}
	data := be.Uint64(t[24:]) // where the offsets of blocks begin
	for _, table := range tables {
		if err := m.addTable(table, data); err != nil {
			return nil, err
		}
	}
	return m, m.order()
}

// readList returns the tables in a property list: the elements Data of the array blkx.
func readList(list []byte) (tables [][]byte, err error) {
	// The XML decoder holds all attributes of an element in memory. Each attribute needs quotes, so a limit of
	// quotes limits that memory.
	if bytes.Count(list, []byte{'"'})+bytes.Count(list, []byte{'\''}) > maxQuotes {
		return nil, fmt.Errorf("%w: a property list with more than %d quotes", ErrLimit, maxQuotes)
	}
	dec := xml.NewDecoder(bytes.NewReader(list))
	dec.Strict = true
	var key, text string
	inside, depth := false, 0 // in the array blkx, and how deep in it
	for {
		t, err := dec.RawToken()
		switch {
		case errors.Is(err, io.EOF):
			return tables, nil
		case err != nil:
			return nil, damaged("the property list: %v", err)
		}
		switch t := t.(type) {
		case xml.StartElement:
			text = ""
			if t.Name.Local == "array" && key == "blkx" {
				inside = true
			}
			if inside {
				depth++
			}
		case xml.CharData:
			text = string(t)
		case xml.EndElement:
			switch {
			case t.Name.Local == "key":
				key = text
			case t.Name.Local == "data" && inside && key == "Data":
				b, err := base64.StdEncoding.DecodeString(strings.NewReplacer(" ", "", "\t", "").Replace(text))
				if err != nil {
					return nil, damaged("a table: %v", err)
				}
				tables = append(tables, b)
			}
			if inside {
				if depth--; depth == 0 {
					inside, key = false, ""
				}
			}
		}
	}
}

// addTable adds the blocks of a table. data is where the data of the image begins.
func (m *Image) addTable(t []byte, data uint64) error {
	be := binary.BigEndian
	if len(t) < tableStart || string(t[:4]) != "mish" {
		return damaged("a table without blocks")
	}
	n := uint64(be.Uint32(t[200:]))
	first, from := be.Uint64(t[8:]), be.Uint64(t[24:])
	if n > uint64(len(t)-tableStart)/blockEntry {
		return damaged("a table of %d blocks in %d bytes", n, len(t))
	}
	if uint64(len(m.blocks))+n > maxBlocks {
		return fmt.Errorf("%w: more than %d blocks", ErrLimit, maxBlocks)
	}
	for e := t[tableStart:]; n > 0; e, n = e[blockEntry:], n-1 {
		kind := be.Uint32(e)
		if kind == kindComment || kind == kindEnd {
			continue
		}
		at, count := be.Uint64(e[8:]), be.Uint64(e[16:])
		off, packed := be.Uint64(e[24:]), be.Uint64(e[32:])
		const most = maxDisk / sector
		if first > most || at > most || count > most || first+at+count > most {
			return damaged("a block lies outside of any disk")
		}
		b := block{at: int64(first+at) * sector, n: int64(count) * sector, kind: kind}
		if b.n == 0 {
			continue
		}
		if kind != kindZero && kind != kindNothing {
			if data > uint64(m.size) || from > uint64(m.size) || off > uint64(m.size) || packed > uint64(m.size) ||
				data+from+off+packed > uint64(m.size) {
				return damaged("a block lies outside the file")
			}
			b.off, b.packed = int64(data+from+off), int64(packed)
			if err := m.check(&b); err != nil {
				return err
			}
		}
		m.blocks = append(m.blocks, b)
	}
	return nil
}

// check checks a block with data in the image. What is read of the image is in proportion to its size and to what was
// spent.
func (m *Image) check(b *block) error {
	const packer = 4 << 10 // bytes that a format may add
	switch {
	case b.kind != kindRaw && b.n > maxBlock:
		return fmt.Errorf("%w: a block of %d bytes", ErrLimit, b.n)
	case b.kind != kindRaw && b.packed > 2*b.n+packer:
		return damaged("a block of %d bytes is compressed to %d", b.n, b.packed)
	case b.kind == kindRaw && b.packed < b.n:
		return damaged("a block is shorter than its sectors")
	case b.kind == kindRaw:
		if m.stored += b.n; m.stored > m.size {
			return damaged("its blocks have more bytes than the file")
		}
	}
	return nil
}

// order sorts the blocks, and finds the size of the disk.
func (m *Image) order() error {
	sorting.By(m.blocks, func(a, b block) int { return cmp.Compare(a.at, b.at) })
	m.size = 0
	for _, b := range m.blocks {
		if b.at < m.size {
			return damaged("two blocks have the same sectors")
		}
		m.size = b.at + b.n
	}
	return nil
}

// Size is the size of the disk in bytes.
func (m *Image) Size() int64 { return m.size }

// Packed reports whether the file is a UDIF image, and not a disk as it is.
func (m *Image) Packed() bool { return !m.raw }

// ReadAt implements io.ReaderAt. Sectors that the image does not have are zeros.
func (m *Image) ReadAt(p []byte, off int64) (n int, err error) {
	switch {
	case off < 0:
		return 0, errors.New("udif: negative offset")
	case m.raw:
		return m.src.ReadAt(p, off)
	}
	short := off >= m.size || int64(len(p)) > m.size-off
	if short {
		p = p[:max(0, m.size-off)]
	}
	i, _ := slices.BinarySearchFunc(m.blocks, off, func(b block, off int64) int { return cmp.Compare(b.at+b.n-1, off) })
	for n < len(p) {
		at := off + int64(n)
		b := &m.blocks[i] // the first that ends behind at
		if at < b.at {    // a gap
			gap := p[n:min(int64(len(p)), int64(n)+b.at-at)]
			clear(gap)
			n += len(gap)
			continue
		}
		part := p[n:min(int64(len(p)), int64(n)+b.at+b.n-at)]
		if err := m.read(part, b, at-b.at); err != nil {
			return n, err
		}
		n += len(part)
		i++
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}

// read fills p with bytes of a block.
func (m *Image) read(p []byte, b *block, off int64) error {
	switch b.kind {
	case kindZero, kindNothing:
		clear(p)
		return nil
	case kindRaw:
		return readAt(m.src, p, b.off+off)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.last, func(d decoded) bool { return d.at == b.at })
	if i < 0 {
		data, err := m.decode(b)
		if err != nil {
			return err
		}
		if len(m.last) == kept {
			m.last = slices.Delete(m.last, 0, 1)
		}
		m.last = append(m.last, decoded{b.at, data})
		i = len(m.last) - 1
	}
	copy(p, m.last[i].data[off:])
	return nil
}

// decode decompresses a block.
func (m *Image) decode(b *block) ([]byte, error) {
	if err := m.spend(b.n); err != nil {
		return nil, err
	}
	in := io.NewSectionReader(m.src, b.off, b.packed)
	var r io.Reader
	switch b.kind {
	case kindZlib:
		z, err := zlib.NewReader(in)
		if err != nil {
			return nil, damaged("block at %d: %v", b.at, err)
		}
		defer z.Close()
		r = z
	case kindBzip2:
		r = bzip2.NewReader(in)
	case kindXZ:
		z, err := xz.NewReader(in, 2*maxBlock)
		if err != nil {
			return nil, damaged("block at %d: %v", b.at, err)
		}
		defer z.Close()
		r = z
	case kindADC:
		return nil, fmt.Errorf("%w: ADC", ErrMethod)
	case kindLZFSE:
		return nil, fmt.Errorf("%w: LZFSE", ErrMethod)
	default:
		return nil, fmt.Errorf("%w: number %#x", ErrMethod, b.kind)
	}
	data := make([]byte, b.n)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, damaged("block at %d: %v", b.at, err)
	}
	return data, nil
}

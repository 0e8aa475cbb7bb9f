package objfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Limits of decompressed sections.
const (
	maxSection      = 4 << 30
	maxSectionRatio = 1032 // the highest ratio of deflate
	sectionMemory   = 64 << 20
	maxZstdWindow   = 128 << 20
)

// Scratch is a file for temporary content: it is written from the beginning, and
// then read.
type Scratch interface {
	io.Writer
	io.ReaderAt
}

// SectionOptions say how compressed sections are decompressed. The zero value
// decompresses into memory, up to 4 GiB a section.
type SectionOptions struct {
	// Limit is the largest decompressed section in bytes; 0 means 4 GiB.
	Limit int64
	// Scratch makes the file for a section that is larger than Memory when it is
	// decompressed. If it is nil, all sections are decompressed into memory. The
	// caller closes and deletes the files when the sections are no longer used.
	Scratch func() (Scratch, error)
	// Memory is the size in bytes up to which a section is decompressed into
	// memory although there is a Scratch; 0 means 64 MiB.
	Memory int64
}

// SectionData is the content of a section, decompressed. It is safe for
// concurrent use if the file is.
type SectionData struct {
	r    io.ReaderAt
	off  int64
	size int64
	mem  []byte
}

// ReadAt implements io.ReaderAt.
func (d *SectionData) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= d.size {
		return 0, io.EOF
	}
	if d.mem != nil {
		n := copy(p, d.mem[off:])
		if n < len(p) {
			return n, io.EOF
		}
		return n, nil
	}
	short := int64(len(p)) > d.size-off
	if short {
		p = p[:d.size-off]
	}
	n, err := d.r.ReadAt(p, d.off+off)
	if n == len(p) {
		err = nil
		if short {
			err = io.EOF
		}
	} else if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Size returns the number of bytes.
func (d *SectionData) Size() int64 { return d.size }

// Bytes returns the content if it is in memory, else nil.
func (d *SectionData) Bytes() []byte { return d.mem }

// ReadAll returns the content if it has at most limit bytes.
func (d *SectionData) ReadAll(limit int64) ([]byte, error) {
	if d.mem != nil && d.size <= limit {
		return d.mem, nil
	}
	if d.size > limit {
		return nil, broken("a section of %d bytes where %d are allowed", d.size, limit)
	}
	p := make([]byte, d.size)
	if _, err := d.ReadAt(p, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return p, nil
}

// compression of a section.
type compression uint8

const (
	zlibSection compression = 1 // the numbers of ELF's ch_type
	zstdSection compression = 2
)

// inflate decompresses n bytes at off of a file into a section that should have
// size bytes.
func inflate(r io.ReaderAt, off, n int64, c compression, size uint64, opt SectionOptions) (*SectionData, error) {
	limit := opt.Limit
	if limit <= 0 {
		limit = maxSection
	}
	if n < 0 || size > uint64(limit) || size/maxSectionRatio > uint64(n)+1 {
		return nil, broken("a compressed section of %d bytes that claims %d decompressed bytes", n, size)
	}
	in := io.NewSectionReader(r, off, n)
	var plain io.Reader
	switch c {
	case zlibSection:
		z, err := zlib.NewReader(in)
		if err != nil {
			return nil, sectionError(err)
		}
		defer z.Close()
		plain = z
	case zstdSection:
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderMaxMemory(uint64(limit)))
		if err != nil {
			return nil, sectionError(err)
		}
		defer z.Close()
		plain = z
	default:
		return nil, broken("a section with the unknown compression %d", c)
	}
	memory := opt.Memory
	if memory <= 0 {
		memory = sectionMemory
	}
	if opt.Scratch == nil || size <= uint64(memory) {
		mem, err := readUpTo(plain, int(size))
		if err != nil {
			return nil, sectionError(err)
		}
		return &SectionData{mem: mem, size: int64(size)}, nil
	}
	s, err := opt.Scratch()
	if err != nil {
		return nil, err
	}
	w := &errWriter{w: s}
	got, err := io.CopyBuffer(w, io.LimitReader(plain, int64(size)), make([]byte, 256<<10))
	switch {
	case w.err != nil:
		return nil, w.err
	case err != nil:
		return nil, sectionError(err)
	case got != int64(size):
		return nil, sectionError(fmt.Errorf("%d bytes of %d", got, size))
	}
	return &SectionData{r: s, size: int64(size)}, nil
}

// errWriter keeps the error of a Writer apart from that of the Reader.
type errWriter struct {
	w   io.Writer
	err error
}

func (w *errWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

func sectionError(err error) error { return broken("decompressing a section: %w", err) }

// readUpTo reads n bytes. Memory grows with what is read: n is a claim.
func readUpTo(r io.Reader, n int) ([]byte, error) {
	p := make([]byte, min(n, 1<<20))
	have := 0
	for {
		m, err := io.ReadFull(r, p[have:])
		have += m
		if have == n {
			return p, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%d bytes of %d: %w", have, n, err)
		}
		q := make([]byte, min(n, 2*len(p)))
		copy(q, p)
		p = q
	}
}

// open returns the content of an ELF section, decompressed.
func (f *elfFile) open(r io.ReaderAt, s elfSection, name []byte, opt SectionOptions) (*SectionData, error) {
	off, n := int64(s.off), int64(s.size)
	if s.flags&secCompressed != 0 {
		h := make([]byte, 12)
		head := int64(12)
		if f.is64 {
			h, head = make([]byte, 24), 24
		}
		if n < head {
			return nil, broken("a compressed section of %d bytes", n)
		}
		if _, err := r.ReadAt(h, off); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		size := uint64(f.order.Uint32(h[4:]))
		if f.is64 {
			size = f.order.Uint64(h[8:])
		}
		c := f.order.Uint32(h)
		if c != uint32(zlibSection) && c != uint32(zstdSection) {
			return nil, broken("a section with the unknown compression %d", c)
		}
		return inflate(r, off+head, n-head, compression(c), size, opt)
	}
	if hasPrefix(name, ".zdebug_") {
		return oldSection(r, off, n, opt)
	}
	return &SectionData{r: r, off: off, size: n}, nil
}

// oldSection returns the content of a section in the compressed form that preceded ELF's
// SHF_COMPRESSED, of n bytes at off: "ZLIB", the size, and the compressed bytes. Go still
// writes it in images and Mach-O files. Without these letters the content is as it is.
func oldSection(r io.ReaderAt, off, n int64, opt SectionOptions) (*SectionData, error) {
	if n >= 12 {
		h := make([]byte, 12)
		if _, err := r.ReadAt(h, off); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if string(h[:4]) == "ZLIB" {
			return inflate(r, off+12, n-12, zlibSection, binary.BigEndian.Uint64(h[4:]), opt)
		}
	}
	return &SectionData{r: r, off: off, size: n}, nil
}

package pdb

import (
	"bufio"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Compression methods of chunks and of the stream directory.
const (
	plain   = 0
	zstdM   = 1
	deflate = 2
)

// Limits of decompressed data. The usual writer makes chunks of 1 MiB.
const (
	maxDir       = 8 << 20  // bytes of the stream directory
	maxDepth     = 64 << 20 // deepest offset in a chunk that is read
	maxWindow    = 8 << 20  // memory of one zstd decoder
	maxKept      = 2 << 20  // decompressed bytes kept for the next read
	maxFragments = 1 << 16  // fragments of a stream
	maxChunks    = 1 << 16  // chunks of a file
	chunkEntry   = 20       // bytes
)

// Fragments in a random order make a reader decompress the same chunks
// repeatedly. A file may decompress up to firstWork bytes, and beyond that
// eight times the bytes that were read from it. Starting on a chunk counts as
// startWork bytes.
const (
	firstWork = 1 << 30
	perByte   = 8
	startWork = 16 << 10
)

// msfz is the compressed container. Its streams consist of fragments, which are
// plain or in compressed chunks.
type msfz struct {
	r       io.ReaderAt
	end     int64 // bytes in the file
	dir     io.ReaderAt
	dirSize int64
	streams int
	chunks  int64
	table   int64 // offset of the chunk table

	mu   sync.Mutex
	last *inflater // the chunk read last; guarded by mu
	num  int64     // its number; guarded by mu
	work work      // guarded by mu
}

// work is the number of bytes that were decompressed, and of those that were
// read.
type work struct{ spent, given int64 }

// spend adds n to the cost. It returns an error if that exceeds the limit.
func (w *work) spend(n int64) error {
	if w.spent += n + startWork; w.spent > firstWork+perByte*w.given {
		return errors.New("the same chunks were decompressed over and over")
	}
	return nil
}

// openMSFZ reads the header of an MSFZ file.
func openMSFZ(r io.ReaderAt, size int64) (*msfz, error) {
	var h [80]byte
	if err := readFull(r, h[:], 0); err != nil {
		return nil, fmt.Errorf("MSFZ header: %w", err)
	}
	u32 := func(off int) int64 { return int64(binary.LittleEndian.Uint32(h[off:])) }
	u64 := func(off int) uint64 { return binary.LittleEndian.Uint64(h[off:]) }
	if v := u64(32); v != 0 {
		return nil, fmt.Errorf("MSFZ header: version %d is not supported, only 0", v)
	}
	z := &msfz{r: r, end: size, dirSize: u32(68), chunks: u32(72)}
	method, packed := u32(60), u32(64)
	if !inFile(u64(40), packed, size) {
		return nil, fmt.Errorf("MSFZ header: the stream directory, %d bytes at offset %d, lies outside the file of %d bytes",
			packed, u64(40), size)
	}
	if !inFile(u64(48), u32(76), size) || z.chunks*chunkEntry != u32(76) {
		return nil, fmt.Errorf("MSFZ header: the chunk table, %d entries in %d bytes at offset %d, does not fit a file of %d bytes",
			z.chunks, u32(76), u64(48), size)
	}
	if z.chunks > maxChunks {
		return nil, fmt.Errorf("MSFZ header: %d chunks are more than the limit of %d", z.chunks, maxChunks)
	}
	z.table = int64(u64(48))
	if z.dirSize > maxDir {
		return nil, fmt.Errorf("MSFZ header: a stream directory of %d bytes is larger than the limit of %d", z.dirSize, maxDir)
	}
	n := u32(56)
	if n > z.dirSize/4 || n > maxStreams {
		return nil, fmt.Errorf("MSFZ header: %d streams do not fit in a directory of %d bytes", n, z.dirSize)
	}
	z.streams = int(n)
	var err error
	z.dir, err = newInflater("stream directory", r, int64(u64(40)), packed, z.dirSize, method)
	return z, err
}

// inFile reports whether n bytes at off lie in a file of size bytes.
func inFile(off uint64, n, size int64) bool {
	return n >= 0 && n <= size && off <= uint64(size-n)
}

// count implements container.
func (z *msfz) count() int { return z.streams }

// missing implements container.
func (z *msfz) missing() int64 { return 0 }

// pageSize implements container.
func (z *msfz) pageSize() int { return 0 }

// fragment is a part of a stream.
type fragment struct {
	start, size int64 // in the stream
	chunk       int64 // number of the first chunk; -1 for plain bytes
	off         int64 // in the first chunk, or in the file
}

// stream implements container. It reads the directory from its start, because
// the entries differ in size.
func (z *msfz) stream(n int) (io.ReaderAt, int64, error) {
	d := bufio.NewReaderSize(io.NewSectionReader(z.dir, 0, z.dirSize), 4096)
	s := &fragments{z: z, name: fmt.Sprintf("stream %d", n)}
	var b [8]byte
	for i := 0; i <= n; {
		if _, err := io.ReadFull(d, b[:4]); err != nil {
			return nil, 0, dirError(n, err)
		}
		size := int64(binary.LittleEndian.Uint32(b[:]))
		if size == 0 || size == nilSize {
			if size == nilSize && len(s.list) > 0 {
				return nil, 0, fmt.Errorf("stream directory: stream %d is nil but has fragments", n)
			}
			i++
			continue
		}
		if _, err := io.ReadFull(d, b[:8]); err != nil {
			return nil, 0, dirError(n, err)
		}
		if i < n {
			continue
		}
		if len(s.list) == maxFragments {
			return nil, 0, fmt.Errorf("stream directory: stream %d has more than %d fragments", n, maxFragments)
		}
		f := fragment{start: s.size, size: size, chunk: -1}
		loc := binary.LittleEndian.Uint64(b[:])
		if loc>>63 == 1 {
			f.chunk, f.off = int64(loc>>32&0x7FFFFFFF), int64(loc&0xFFFFFFFF)
		} else if f.off = int64(loc & (1<<48 - 1)); !inFile(uint64(f.off), size, z.end) {
			return nil, 0, fmt.Errorf("stream directory: stream %d has %d bytes at offset %d, outside the file of %d bytes", n, size, f.off, z.end)
		}
		s.list = append(s.list, f)
		s.size += size
	}
	return s, s.size, nil
}

// dirError returns the error for a directory that is unreadable before stream
// n.
func dirError(n int, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("stream directory, looking for stream %d: %w", n, err)
}

// fragments is a stream that consists of fragments.
type fragments struct {
	z    *msfz
	name string
	size int64
	list []fragment
}

// ReadAt implements io.ReaderAt.
func (s *fragments) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 || off >= s.size {
		return 0, io.EOF
	}
	done := 0
	first := sort.Search(len(s.list), func(i int) bool { return s.list[i].start+s.list[i].size > off })
	for _, f := range s.list[first:] {
		if done == len(b) {
			return done, nil
		}
		in := off + int64(done) - f.start
		part := b[done:]
		if rest := f.size - in; int64(len(part)) > rest {
			part = part[:rest]
		}
		if err := s.z.read(f, part, in); err != nil {
			return done, fmt.Errorf("%s: %w", s.name, err)
		}
		done += len(part)
	}
	if done < len(b) {
		return done, io.EOF
	}
	return done, nil
}

// read fills b from offset in of fragment f. A fragment that exceeds its chunk
// continues in the next one.
func (z *msfz) read(f fragment, b []byte, in int64) error {
	if f.chunk < 0 {
		return readFull(z.r, b, f.off+in)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	off := f.off + in
	for i := f.chunk; len(b) > 0; i++ {
		e, err := z.entry(i)
		if err != nil {
			return err
		}
		if off >= e.size {
			off -= e.size
			continue
		}
		c, err := z.chunk(i, e)
		if err != nil {
			return err
		}
		n := min(int64(len(b)), c.size-off)
		if err := readFull(c, b[:n], off); err != nil {
			return err
		}
		z.work.given += n
		b, off = b[n:], 0
	}
	return nil
}

// chunkInfo is an entry of the chunk table.
type chunkInfo struct{ off, packed, size, method int64 }

// entry reads entry i of the chunk table. z.mu is held.
func (z *msfz) entry(i int64) (chunkInfo, error) {
	if i >= z.chunks {
		return chunkInfo{}, fmt.Errorf("chunk %d does not exist; the chunk table has %d", i, z.chunks)
	}
	var b [chunkEntry]byte
	if err := readFull(z.r, b[:], z.table+i*chunkEntry); err != nil {
		return chunkInfo{}, fmt.Errorf("chunk table: %w", err)
	}
	u32 := func(off int) int64 { return int64(binary.LittleEndian.Uint32(b[off:])) }
	off := binary.LittleEndian.Uint64(b[:])
	e := chunkInfo{off: int64(off), packed: u32(12), size: u32(16), method: u32(8)}
	if !inFile(off, e.packed, z.end) {
		return e, fmt.Errorf("chunk %d: %d bytes at offset %d lie outside the file of %d bytes", i, e.packed, off, z.end)
	}
	if e.size == 0 {
		return e, fmt.Errorf("chunk %d is empty", i)
	}
	return e, nil
}

// chunk returns chunk i, whose entry is e. z.mu is held.
func (z *msfz) chunk(i int64, e chunkInfo) (*inflater, error) {
	if z.last != nil && z.num == i {
		return z.last, nil
	}
	c, err := newInflater(fmt.Sprintf("chunk %d", i), z.r, e.off, e.packed, e.size, e.method)
	if err != nil {
		return nil, err
	}
	c.work = &z.work
	z.last, z.num = c, i
	return c, nil
}

// inflater reads compressed bytes at any offset. Decompression must start at
// the first byte. It decompresses no more than necessary, because the budget of
// the caller may be small, and keeps the last part of the output.
type inflater struct {
	name   string
	r      *io.SectionReader // the compressed bytes
	size   int64             // size in bytes after decompression, as claimed
	method int64
	work   *work // nil: no limit; guarded by the owner's lock

	mu    sync.Mutex
	start int64  // offset of kept; guarded by mu
	kept  []byte // guarded by mu
}

// newInflater returns a reader of the size bytes to which the packed bytes at
// off decompress. The caller has checked that these are within the file.
func newInflater(name string, r io.ReaderAt, off, packed, size, method int64) (*inflater, error) {
	if method != plain && method != zstdM && method != deflate {
		return nil, fmt.Errorf("%s: compression method %d is not supported", name, method)
	}
	if method == plain && packed != size {
		return nil, fmt.Errorf("%s: %d bytes without compression cannot be %d bytes", name, packed, size)
	}
	return &inflater{name: name, r: io.NewSectionReader(r, off, packed), size: size, method: method}, nil
}

// ReadAt implements io.ReaderAt.
func (f *inflater) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 || off >= f.size {
		return 0, io.EOF
	}
	short := false
	if rest := f.size - off; int64(len(b)) > rest {
		b, short = b[:rest], true
	}
	if f.method == plain {
		if err := readFull(f.r, b, off); err != nil {
			return 0, fmt.Errorf("%s: %w", f.name, err)
		}
	} else {
		f.mu.Lock()
		defer f.mu.Unlock()
		for done := 0; done < len(b); {
			at := off + int64(done)
			if at < f.start || at >= f.start+int64(len(f.kept)) {
				if err := f.fill(at, int64(len(b)-done)); err != nil {
					return done, fmt.Errorf("%s: %w", f.name, err)
				}
			}
			done += copy(b[done:], f.kept[at-f.start:])
		}
	}
	if short {
		return len(b), io.EOF
	}
	return len(b), nil
}

// fill decompresses up to the byte at off, and keeps it and those of the
// following n bytes that the limit allows. f.mu is held.
func (f *inflater) fill(off, n int64) error {
	if off > maxDepth {
		return fmt.Errorf("offset %d in compressed bytes is deeper than the limit of %d", off, maxDepth)
	}
	// As long as all bytes from the start fit, keep them, and twice as many
	// each time: sequential reading then decompresses little twice.
	start, end := int64(0), max(off+n, 2*int64(len(f.kept)))
	if off+min(n, maxKept/2) > maxKept {
		start, end = off, off+maxKept
	}
	end = min(end, start+maxKept, f.size)
	f.start, f.kept = start, nil
	if f.work != nil {
		if err := f.work.spend(end); err != nil {
			return err
		}
	}

	d, done, err := f.decoder()
	if err != nil {
		return err
	}
	defer done()
	if _, err := io.CopyN(io.Discard, d, start); err != nil {
		return f.short(err)
	}
	kept := make([]byte, end-start)
	if _, err := io.ReadFull(d, kept); err != nil {
		return f.short(err)
	}
	f.kept = kept
	return nil
}

// short returns the error for compressed bytes that are damaged or too few.
func (f *inflater) short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the compressed bytes end before the %d bytes that they should become: %w", f.size, io.ErrUnexpectedEOF)
	}
	return err
}

// decoder starts decompression at the first byte. The caller must call done.
func (f *inflater) decoder() (d io.Reader, done func(), err error) {
	src := io.NewSectionReader(f.r, 0, f.r.Size())
	if f.method == deflate {
		r := flate.NewReader(bufio.NewReaderSize(src, 4096))
		return r, func() { _ = r.Close() }, nil
	}
	// Use one goroutine and little memory, because files are many and not
	// trusted.
	z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, nil, err
	}
	return z, z.Close, nil
}

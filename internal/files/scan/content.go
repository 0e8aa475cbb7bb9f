package scan

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/symdepot/symdepot/internal/base/filestamp"
)

// Content is the content of an open File. Several goroutines may call ReadAt at
// the same time.
type Content struct {
	io.ReaderAt
	size int64
	hold *store
	crc  *uint32 // expected checksum, if it was not checked yet
	file bool    // the content is that of hold.disk
}

// Size in bytes.
func (c *Content) Size() int64 { return c.size }

// Close releases the content. Further calls do nothing.
func (c *Content) Close() error {
	if c.hold != nil {
		c.hold.drop()
		c.hold = nil
	}
	return nil
}

// Changed reports whether the file on disk, or the archive around the content,
// was written to since it was opened: its size or modification time differs.
// Call it after reading and before Close. A new file renamed to the same path
// is not a change, because the content is that of the opened file.
func (c *Content) Changed() bool {
	return c.hold == nil || c.hold.disk.changed()
}

// Reopen opens the file on disk again of which this is the whole content, so that
// the system can send it. It returns nil if there is no such file, or if it is a
// different one now. The caller closes it.
func (c *Content) Reopen() *os.File {
	if c.hold == nil || !c.file {
		return nil
	}
	was := c.hold.disk
	f, err := openFile(was.path)
	if err != nil {
		return nil
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(now, was.info) || now.Size() != was.info.Size() ||
		!now.ModTime().Equal(was.info.ModTime()) {
		_ = f.Close() // only read
		return nil
	}
	return f
}

// Stamp returns the absolute path of the file on disk of which this is the whole content, and
// its stamp now; ok is false if there is no such file.
func (c *Content) Stamp() (path string, s filestamp.Stamp, ok bool) {
	if c.hold == nil || !c.file || c.hold.disk.f == nil {
		return "", s, false
	}
	path, err := filepath.Abs(c.hold.disk.path)
	if err == nil {
		s, err = filestamp.Of(c.hold.disk.f)
	}
	return path, s, err == nil
}

// Tells reports whether the file of Stamp gets another stamp with every change: see filestamp.Tells.
func (c *Content) Tells() bool {
	return c.hold != nil && c.file && c.hold.disk.f != nil && filestamp.Tells(c.hold.disk.f)
}

// Reader reads the content once from the beginning. Unlike ReadAt it checks, at
// the end, the checksum of an uncompressed member of a zip archive.
func (c *Content) Reader() io.Reader {
	r := io.NewSectionReader(c.ReaderAt, 0, c.size)
	if c.crc == nil {
		return r
	}
	return &sumReader{r: r, want: *c.crc, left: c.size}
}

// CheckSum returns a reader of r that fails at the end if that has not size bytes with
// this CRC-32.
func CheckSum(r io.Reader, size int64, sum uint32) io.Reader {
	return &sumReader{r: r, want: sum, left: size}
}

// sumReader checks length and CRC-32 of what it reads.
type sumReader struct {
	r    io.Reader
	sum  uint32
	want uint32
	left int64
}

func (s *sumReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.sum = crc32.Update(s.sum, crc32.IEEETable, p[:n])
	s.left -= int64(n)
	switch {
	case s.left < 0:
		return n, errors.New("the member is longer than the archive says")
	case err == io.EOF && s.left > 0:
		return n, io.ErrUnexpectedEOF
	case err == io.EOF && s.sum != s.want:
		return n, errors.New("checksum does not match")
	}
	return n, err
}

// disk is the outermost file: an open file on disk, or another source of Visit.
type disk struct {
	path string
	at   io.ReaderAt
	f    *os.File     // nil in a visit, whose caller notices changes
	info fs.FileInfo  // of f, at the time of opening
	pos  atomic.Int64 // end of the last read
}

// ReadAt implements io.ReaderAt and records the offset.
func (d *disk) ReadAt(p []byte, off int64) (int, error) {
	n, err := d.at.ReadAt(p, off)
	d.pos.Store(off + int64(n))
	return n, err
}

func (d *disk) changed() bool {
	if d.f == nil {
		return false
	}
	now, err := d.f.Stat()
	return err != nil || now.Size() != d.info.Size() || !now.ModTime().Equal(d.info.ModTime())
}

// store holds bytes that several Files and Contents share. The last one to
// release it frees them.
type store struct {
	at   io.ReaderAt
	size int64
	disk *disk
	refs atomic.Int64
	free func()
}

func newStore(at io.ReaderAt, size int64, d *disk, free func()) *store {
	s := &store{at: at, size: size, disk: d, free: free}
	s.refs.Store(1)
	return s
}

// take adds a holder. The caller must hold the store.
func (s *store) take() *store {
	s.refs.Add(1)
	return s
}

func (s *store) drop() {
	if s.refs.Add(-1) == 0 {
		s.free()
	}
}

// content returns a part of the store as Content, which holds the store.
func (s *store) content(at io.ReaderAt, size int64, crc *uint32) *Content {
	return &Content{ReaderAt: at, size: size, hold: s.take(), crc: crc}
}

// openDisk opens a regular file.
func openDisk(path string) (*store, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w any more", errIrregular)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	d := &disk{path: path, at: f, f: f, info: info}
	return newStore(io.NewSectionReader(d, 0, info.Size()), info.Size(), d, func() { _ = f.Close() }), nil
}

// openPlain is File.open of a file on disk.
func openPlain(path string) func(context.Context) (*Content, error) {
	return func(context.Context) (*Content, error) {
		s, err := openDisk(path)
		if err != nil {
			return nil, err
		}
		return &Content{ReaderAt: s.at, size: s.size, hold: s, file: true}, nil
	}
}

// pool is the memory that remains for the buffers of one walk.
type pool struct{ left atomic.Int64 }

func (p *pool) take(n int64) bool {
	if p.left.Add(-n) < 0 {
		p.left.Add(n)
		return false
	}
	return true
}

func (p *pool) put(n int64) { p.left.Add(n) }

// chunkSize is the number of bytes by which a buffer grows. Memory for the size
// that an archive claims is allocated only as the bytes arrive.
const chunkSize = 64 << 10

// buffer holds the bytes of one member, in memory or in a temporary file.
type buffer struct {
	opt    *Options
	pool   *pool
	chunks [][]byte // all but the last have chunkSize bytes
	size   int64
	file   *os.File // the bytes, if not nil
	remove bool     // the file must be removed on close: see spool
}

// fill reads r to its end. size is the required length, or -1. Bytes that
// exceed the memory limit go to a temporary file. After an error nothing has to
// be freed.
func fill(ctx context.Context, opt *Options, p *pool, r io.Reader, size int64) (*buffer, error) {
	b := &buffer{opt: opt, pool: p}
	err := b.read(ctx, r, size)
	if err != nil {
		b.free()
		return nil, err
	}
	return b, nil
}

func (b *buffer) read(ctx context.Context, r io.Reader, size int64) error {
	if size > b.opt.MaxMember {
		return b.tooBig()
	}
	if size > b.opt.MemberMemory {
		if err := b.spool(); err != nil {
			return err
		}
	}
	var scratch []byte
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Read one byte before allocating memory for more.
		var first [1]byte
		n, err := readFull(r, first[:])
		if n == 0 {
			if errors.Is(err, io.EOF) && size >= 0 && b.size != size {
				err = io.ErrUnexpectedEOF
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		want := int64(chunkSize)
		if size >= 0 {
			want = min(want, size-b.size)
		}
		if want <= 0 {
			return errors.New("the member is longer than the archive says")
		}
		chunk, err := b.room(want, &scratch)
		if err != nil {
			return err
		}
		chunk[0] = first[0]
		n, err = readFull(r, chunk[1:])
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := b.keep(chunk[:1+n]); err != nil {
			return err
		}
	}
}

// room returns a slice of up to n bytes to read into: the next chunk, or
// scratch space if the bytes go to a file.
func (b *buffer) room(n int64, scratch *[]byte) ([]byte, error) {
	if b.file == nil && b.size+n <= b.opt.MemberMemory && b.pool.take(n) {
		chunk := make([]byte, n)
		b.chunks = append(b.chunks, chunk)
		return chunk, nil
	}
	if b.file == nil {
		if err := b.spool(); err != nil {
			return nil, err
		}
	}
	if *scratch == nil {
		*scratch = make([]byte, chunkSize)
	}
	return (*scratch)[:n], nil
}

// keep counts bytes that were read into room. It writes them to the file, if
// there is one.
func (b *buffer) keep(p []byte) error {
	b.size += int64(len(p))
	if b.size > b.opt.MaxMember {
		return b.tooBig()
	}
	if b.file == nil {
		return nil
	}
	if _, err := b.file.Write(p); err != nil {
		return fmt.Errorf("%w: %w", errSpool, err)
	}
	return nil
}

// readFull reads until p is full. Unlike io.ReadFull it returns the reader's
// own error: io.EOF at the end, io.ErrUnexpectedEOF within p. An error that
// only wraps io.EOF is not the end of the stream.
func readFull(r io.Reader, p []byte) (int, error) {
	n := 0
	for tries := 0; n < len(p); tries++ {
		m, err := r.Read(p[n:])
		n += m
		if errors.Is(err, io.EOF) && err != io.EOF {
			err = fmt.Errorf("%w: %s", io.ErrUnexpectedEOF, err.Error())
		}
		if err != nil {
			return n, err
		}
		if m > 0 {
			tries = 0
		} else if tries > 100 {
			return n, io.ErrNoProgress
		}
	}
	return n, nil
}

func (b *buffer) tooBig() error {
	return fmt.Errorf("%w of %d bytes for one member", errLimit, b.opt.MaxMember)
}

// spool moves the bytes to a temporary file. It unlinks the file at once if the
// system allows that for open files, otherwise on close.
func (b *buffer) spool() error {
	f, err := os.CreateTemp(b.opt.TempDir, "symdepot-member-*")
	if err != nil {
		return fmt.Errorf("%w: %w", errSpool, err)
	}
	b.remove = os.Remove(f.Name()) != nil
	b.file = f
	for _, c := range b.chunks {
		if _, err := f.Write(c); err != nil {
			return fmt.Errorf("%w: %w", errSpool, err)
		}
	}
	b.freeMemory()
	return nil
}

func (b *buffer) freeMemory() {
	for _, c := range b.chunks {
		b.pool.put(int64(len(c)))
	}
	b.chunks = nil
}

func (b *buffer) free() {
	b.freeMemory()
	if b.file != nil {
		_ = b.file.Close()
		if b.remove {
			_ = os.Remove(b.file.Name())
		}
	}
}

// ReadAt implements io.ReaderAt.
func (b *buffer) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	if b.file != nil {
		return b.file.ReadAt(p, off)
	}
	n := 0
	for n < len(p) && off < b.size {
		chunk := b.chunks[off/chunkSize]
		have := min(int64(len(chunk)), b.size-off/chunkSize*chunkSize)
		m := copy(p[n:], chunk[off%chunkSize:have])
		n += m
		off += int64(m)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

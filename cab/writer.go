package cab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/symdepot/symdepot/cab/lzx"
	"github.com/symdepot/symdepot/cab/mszip"
)

// Source is an input file of a cabinet.
type Source struct {
	// Name is the file name inside the cabinet, at most 255 bytes, with
	// backslashes as separators. A name with non-ASCII characters is stored
	// as UTF-8 and marked with AttrUTF8.
	Name string
	// Modified is stored as the wall clock time in its own zone, rounded down
	// to two seconds. Cabinets hold local times without a zone, so pass a local
	// time. A time outside the years 1980 to 2107 is stored as the nearest
	// possible time.
	Modified   time.Time
	Attributes uint16 // genuine tools write 0 or AttrArchive
	Size       int64  // in bytes; Open must yield exactly as many
	Open       func() (io.ReadCloser, error)
}

// WriteOptions selects the compression of a cabinet. The zero value stores the
// files uncompressed.
type WriteOptions struct {
	Method Method // None, MSZIP or LZX
	// Level is the deflate level of MSZIP, 1 to 9; zero means
	// mszip.DefaultLevel.
	Level int
	// Window is the base-2 logarithm of the LZX window, 15 to 21; zero means
	// 21, as in genuine symbol stores.
	Window int
	// Workers is the number of compressing goroutines; values below 2 mean one.
	// The output does not depend on it.
	Workers int
}

// errSize reports a source whose length differs from its Size.
var errSize = errors.New("cab: file length does not match its declared size")

// Create writes a cabinet of the files, in the given order, at the current
// position of w and returns the length of the cabinet in bytes. Files share a
// folder until the folder is full; a single file gives the cabinet of symbol
// stores: one folder with one file.
//
// Create returns ErrTooLarge if the format cannot hold the files. It detects a
// file of more than MaxFile bytes before it writes anything, but a compressed
// cabinet of 2 GiB or more only while writing. The header is written last, so
// the output of a failed Create is never a valid cabinet.
func Create(w io.WriteSeeker, files []Source, opt WriteOptions) (int64, error) {
	buf := freeBuffers.Get().(*[]byte)
	c := &creator{w: w, opt: opt, comp: Compression{Method: opt.Method}, buf: (*buf)[:0]}
	defer func() {
		if cap(c.buf) <= 2*writeSize { // do not keep a buffer grown by a huge header
			*buf = c.buf
			freeBuffers.Put(buf)
		}
	}()
	switch opt.Method {
	case None, MSZIP:
	case LZX:
		if c.comp.Window = opt.Window; opt.Window == 0 {
			c.comp.Window = lzx.MaxWindow
		}
	default:
		return 0, fmt.Errorf("%w: cannot write %s", ErrMethod, c.comp)
	}
	if err := c.plan(files); err != nil {
		return 0, err
	}
	base, err := w.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	if err := c.put(make([]byte, c.at)); err != nil {
		return 0, err
	}
	for i := range c.folders {
		if err := c.folder(&c.folders[i]); err != nil {
			return 0, err
		}
	}
	if err := c.flush(); err != nil {
		return 0, err
	}
	if _, err := w.Seek(base, io.SeekStart); err != nil {
		return 0, err
	}
	if _, err := w.Write(c.header(len(files))); err != nil {
		return 0, err
	}
	_, err = w.Seek(base+c.at, io.SeekStart)
	return c.at, err
}

// freeBuffers holds output buffers for reuse.
var freeBuffers = sync.Pool{New: func() any { return new([]byte) }}

// writeSize is the number of buffered bytes that triggers a write.
const writeSize = 256 << 10

// creator holds the state of one Create call.
type creator struct {
	w       io.WriteSeeker
	opt     WriteOptions
	comp    Compression
	folders []folderPlan
	names   [][]byte // encoded file entries
	at      int64    // length of the cabinet so far; after plan, of all headers
	buf     []byte   // output not yet written
}

type folderPlan struct {
	files  []Source
	size   int64
	offset int64
	blocks int
}

// plan validates the files, assigns them to folders and encodes their entries.
func (c *creator) plan(files []Source) error {
	if len(files) == 0 {
		return errors.New("cab: no files to put into the cabinet")
	}
	if len(files) > maxFiles {
		return fmt.Errorf("%w: %d files, the limit is %d", ErrTooLarge, len(files), maxFiles)
	}
	var packed int64
	for _, f := range files {
		if f.Size < 0 || f.Size > MaxFile {
			return fmt.Errorf("%w: %s has %d bytes, the limit is %d", ErrTooLarge, f.Name, f.Size, int64(MaxFile))
		}
		n := len(c.folders)
		if n == 0 || c.folders[n-1].size > MaxFile-f.Size {
			c.folders = append(c.folders, folderPlan{})
			n++
		}
		entry, err := fileEntry(f, c.folders[n-1].size, n-1)
		if err != nil {
			return err
		}
		c.names = append(c.names, entry)
		c.at += int64(len(entry))
		c.folders[n-1].files = append(c.folders[n-1].files, f)
		c.folders[n-1].size += f.Size
		packed += f.Size
	}
	c.at += headerSize + int64(len(c.folders))*folderSize
	if c.opt.Method == None && c.at+packed+(packed+blockSize-1)/blockSize*dataSize > maxCabinet {
		return fmt.Errorf("%w: %d bytes of uncompressed data", ErrTooLarge, packed)
	}
	return nil
}

// fileEntry encodes the entry of a file, including the name.
func fileEntry(f Source, offset int64, folder int) ([]byte, error) {
	name, attr := f.Name, f.Attributes&^AttrUTF8
	if name == "" || len(name) >= maxName || strings.ContainsRune(name, 0) || !utf8.ValidString(name) {
		return nil, fmt.Errorf("cab: name %q: want 1 to %d bytes of UTF-8", name, maxName-1)
	}
	for _, r := range name {
		if r >= utf8.RuneSelf {
			attr |= AttrUTF8
		}
	}
	date, clock := toDOS(f.Modified)
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 0, fileSize+len(name)+1), uint32(f.Size))
	b = le.AppendUint32(b, uint32(offset))
	for _, v := range []uint16{uint16(folder), date, clock, attr} {
		b = le.AppendUint16(b, v)
	}
	return append(append(b, name...), 0), nil
}

// header returns all headers of the cabinet. The folders must be written before.
func (c *creator) header(files int) []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, 512), magic...)
	for _, v := range []uint32{0, uint32(c.at), 0, uint32(headerSize + folderSize*len(c.folders)), 0} {
		b = le.AppendUint32(b, v)
	}
	b = append(b, versionMinor, versionMajor)
	for _, v := range []uint16{uint16(len(c.folders)), uint16(files), 0, 0, 0} {
		b = le.AppendUint16(b, v)
	}
	for _, f := range c.folders {
		b = le.AppendUint32(b, uint32(f.offset))
		b = le.AppendUint16(b, uint16(f.blocks))
		b = le.AppendUint16(b, c.comp.bits())
	}
	for _, n := range c.names {
		b = append(b, n...)
	}
	return b
}

// folder compresses and writes the files of one folder as one stream.
func (c *creator) folder(f *folderPlan) error {
	f.offset = c.at
	in := &joined{files: f.files}
	defer in.close()
	emit := func(data []byte, size int) error {
		if f.blocks++; f.blocks > maxBlocks {
			return fmt.Errorf("%w: more than %d blocks", ErrTooLarge, maxBlocks)
		}
		return c.block(data, size)
	}
	var err error
	switch c.comp.Method {
	case MSZIP:
		err = mszip.Compress(in, mszip.Options{Level: c.opt.Level, Workers: c.opt.Workers}, emit)
	case LZX:
		err = lzx.Compress(in, lzx.Options{Window: c.comp.Window, Workers: c.opt.Workers}, emit)
	default:
		err = store(in, emit)
	}
	return err
}

// store passes the bytes of r to emit uncompressed, in blocks of blockSize.
func store(r io.Reader, emit func([]byte, int) error) error {
	var b [blockSize]byte
	for {
		n, err := fill(r, b[:])
		if n > 0 {
			if err := emit(b[:n], n); err != nil {
				return err
			}
		}
		if err != nil || n < len(b) {
			return err
		}
	}
}

// fill reads until buf is full, r ends or r fails.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var k int
		k, err = r.Read(buf[n:])
		n += k
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// block writes one block with its checksum.
func (c *creator) block(data []byte, size int) error {
	if c.at+dataSize+int64(len(data)) > maxCabinet {
		return fmt.Errorf("%w: the compressed cabinet would have 2 GiB or more", ErrTooLarge)
	}
	var h [dataSize]byte
	binary.LittleEndian.PutUint16(h[4:], uint16(len(data)))
	binary.LittleEndian.PutUint16(h[6:], uint16(size))
	binary.LittleEndian.PutUint32(h[:], blockChecksum(data, h[4:]))
	c.at += dataSize + int64(len(data))
	if err := c.put(h[:]); err != nil {
		return err
	}
	return c.put(data)
}

// put buffers p and writes the buffer when it is full.
func (c *creator) put(p []byte) error {
	c.buf = append(c.buf, p...)
	if len(c.buf) < writeSize {
		return nil
	}
	return c.flush()
}

func (c *creator) flush() error {
	_, err := c.w.Write(c.buf)
	c.buf = c.buf[:0]
	return err
}

// joined reads sources one after the other. It fails if the length of a source
// differs from its Size.
type joined struct {
	files []Source
	cur   io.ReadCloser
	left  int64
}

func (j *joined) Read(p []byte) (int, error) {
	for {
		if j.cur == nil {
			if len(j.files) == 0 {
				return 0, io.EOF
			}
			var err error
			if j.cur, err = j.files[0].Open(); err != nil {
				return 0, fmt.Errorf("cab: %s: %w", j.files[0].Name, err)
			}
			j.left = j.files[0].Size
		}
		if len(p) == 0 {
			return 0, nil
		}
		if j.left > 0 {
			n, err := j.cur.Read(p[:min(int64(len(p)), j.left)])
			j.left -= int64(n)
			if errors.Is(err, io.EOF) {
				err = nil
				if j.left > 0 {
					err = fmt.Errorf("%w: %s: %d bytes are missing", errSize, j.files[0].Name, j.left)
				}
			}
			if n > 0 || err != nil {
				return n, err
			}
			continue
		}
		if err := j.atEnd(); err != nil {
			return 0, err
		}
	}
}

// atEnd checks that the current source has no more bytes, and closes it.
func (j *joined) atEnd() error {
	var one [1]byte
	n, err := fill(j.cur, one[:])
	if err == nil && n > 0 {
		err = fmt.Errorf("%w: it is longer than %d bytes", errSize, j.files[0].Size)
	}
	if cerr := j.cur.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		err = fmt.Errorf("cab: %s: %w", j.files[0].Name, err)
	}
	j.cur, j.files = nil, j.files[1:]
	return err
}

func (j *joined) close() {
	if j.cur != nil {
		_ = j.cur.Close()
	}
}

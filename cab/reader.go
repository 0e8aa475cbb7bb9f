package cab

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Options limit the output of a Reader. With the zero value only the limits of
// the format apply.
type Options struct {
	// MaxOutput limits the bytes of one file, and of one call of Walk in total.
	// Zero means the capacity of the blocks of the cabinet at 32 KiB each.
	MaxOutput int64
}

// Folder is a sequence of files that are compressed as one stream.
type Folder struct {
	Compression Compression
	Blocks      int // with at most 32 KiB of content each

	offset int64 // of the first block in the cabinet
}

// File is a member of a cabinet.
type File struct {
	// Name as stored, in UTF-8. Separators are backslashes. See Path.
	Name string
	Size int64
	// Modified is the stored wall clock as if it were UTC: the format has no
	// time zone. It is zero if the stored time is invalid.
	Modified   time.Time
	Attributes uint16
	Folder     int   // index into Folders; -1 for a file that cannot be opened because of ErrSplit
	Offset     int64 // of the content in the folder

	r *Reader
}

// Reader is an open cabinet. Several goroutines may use it.
type Reader struct {
	src     io.ReaderAt
	size    int64 // of the cabinet
	extra   int64 // number of bytes after it
	opt     Options
	folders []Folder
	files   []*File
	split   bool
	reserve int // bytes reserved in each block

	unchecked bool // for tests: do not verify checksums

	mu   sync.Mutex
	idle *stream // stream of the file that was closed last, to be continued
}

// Open reads a cabinet's headers from the size bytes of src. It holds them in
// memory, at most about 14 MiB (larger tables are ErrLimit), and nothing of the content. Bytes behind the
// cabinet's end, such as a signature, are ignored. Errors are ErrFormat or
// those of src. A cabinet of a split set opens, so that its files can be
// listed; opening one of them is ErrSplit.
func Open(src io.ReaderAt, size int64, opt Options) (*Reader, error) {
	r := &Reader{src: src, opt: opt}
	var h [headerSize]byte
	if err := readAt(src, h[:], 0, size); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	total, filesAt := int64(le.Uint32(h[8:])), int64(le.Uint32(h[16:]))
	folders, files, flags := int(le.Uint16(h[26:])), int(le.Uint16(h[28:])), le.Uint16(h[30:])
	switch {
	case string(h[:4]) != magic:
		return nil, fmt.Errorf("%w: no MSCF signature", ErrFormat)
	case h[25] != versionMajor:
		return nil, fmt.Errorf("%w: version %d.%d", ErrFormat, h[25], h[24])
	case total > size:
		return nil, fmt.Errorf("%w: cut off: %d of %d bytes", ErrFormat, size, total)
	case folders == 0 || files == 0:
		return nil, fmt.Errorf("%w: %d folders, %d files", ErrFormat, folders, files)
	}
	r.size, r.extra, r.split = total, size-total, flags&(flagPrev|flagNext) != 0
	at, folderReserve, err := r.skipHeader(flags)
	if err != nil {
		return nil, err
	}
	if err := r.readFolders(at, folders, folderReserve); err != nil {
		return nil, err
	}
	if err := r.readFiles(filesAt, files); err != nil {
		return nil, err
	}
	return r, nil
}

// readAt fills p from offset at, which must be within the first size bytes.
func readAt(src io.ReaderAt, p []byte, at, size int64) error {
	if at < 0 || at > size || int64(len(p)) > size-at {
		return fmt.Errorf("%w: cut off at %d", ErrFormat, size)
	}
	n, err := src.ReadAt(p, at)
	if n == len(p) {
		return nil // io.EOF together with all bytes is not an error
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: cut off at %d", ErrFormat, at+int64(n))
	}
	return err
}

// skipHeader skips the optional parts of the header and returns the offset of
// the folder entries.
func (r *Reader) skipHeader(flags uint16) (at int64, folderReserve int, err error) {
	at = headerSize
	if flags&flagReserve != 0 {
		var b [4]byte
		if err := readAt(r.src, b[:], at, r.size); err != nil {
			return 0, 0, err
		}
		at += 4 + int64(binary.LittleEndian.Uint16(b[:]))
		folderReserve, r.reserve = int(b[2]), int(b[3])
	}
	texts := 0
	if flags&flagPrev != 0 {
		texts += 2
	}
	if flags&flagNext != 0 {
		texts += 2
	}
	for range texts {
		b := make([]byte, min(maxName, max(r.size-at, 0)))
		if err := readAt(r.src, b, at, r.size); err != nil {
			return 0, 0, err
		}
		n := bytes.IndexByte(b, 0)
		if n < 0 {
			return 0, 0, fmt.Errorf("%w: unterminated name in the header", ErrFormat)
		}
		at += int64(n) + 1
	}
	return at, folderReserve, nil
}

func (r *Reader) readFolders(at int64, n, reserve int) error {
	entry := folderSize + reserve
	if at > r.size || int64(n)*int64(entry) > r.size-at {
		return fmt.Errorf("%w: %d folders do not fit", ErrFormat, n)
	}
	r.folders = make([]Folder, 0, n)
	in := bufio.NewReader(io.NewSectionReader(r.src, at, int64(n)*int64(entry)))
	var b [folderSize + 255]byte
	for range n {
		if err := readFull(in, b[:entry]); err != nil {
			return err
		}
		r.folders = append(r.folders, Folder{
			Compression: parseCompression(binary.LittleEndian.Uint16(b[6:])),
			Blocks:      int(binary.LittleEndian.Uint16(b[4:])),
			offset:      int64(binary.LittleEndian.Uint32(b[:])),
		})
	}
	return nil
}

// readFull is io.ReadFull, but returns ErrFormat at the end of the input.
func readFull(in io.Reader, p []byte) error {
	_, err := io.ReadFull(in, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: cut off", ErrFormat)
	}
	return err
}

func (r *Reader) readFiles(at int64, n int) error {
	if at < headerSize || at > r.size || int64(n)*(fileSize+1) > r.size-at {
		return fmt.Errorf("%w: %d files at %d do not fit", ErrFormat, n, at)
	}
	in := bufio.NewReaderSize(io.NewSectionReader(r.src, at, min(r.size-at, maxFileTable)), 16<<10)
	r.files = make([]*File, 0, n)
	names := 0
	for range n {
		var b [fileSize]byte
		if err := readFull(in, b[:]); err != nil {
			return err
		}
		raw, err := in.ReadSlice(0)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if err != nil || len(raw) > maxName || len(raw) < 2 {
			return fmt.Errorf("%w: name of file %d", ErrFormat, len(r.files))
		}
		f, err := r.newFile(b[:], raw[:len(raw)-1])
		if err != nil {
			return err
		}
		// Names may grow when they are decoded.
		if names += len(f.Name); names > maxFileTable {
			return fmt.Errorf("%w: names of more than %d bytes", ErrLimit, maxFileTable)
		}
		r.files = append(r.files, f)
	}
	return nil
}

// newFile parses a file entry and checks it against its folder.
func (r *Reader) newFile(b, name []byte) (*File, error) {
	le := binary.LittleEndian
	attr := le.Uint16(b[14:])
	f := &File{
		Name: decodeName(name, attr), Size: int64(le.Uint32(b)), Modified: dosTime(le.Uint16(b[10:]), le.Uint16(b[12:])),
		Attributes: attr, Folder: int(le.Uint16(b[8:])), Offset: int64(le.Uint32(b[4:])), r: r,
	}
	if f.Folder >= continuedFrom {
		f.Folder, r.split = -1, true
		return f, nil
	}
	if f.Folder >= len(r.folders) {
		return nil, fmt.Errorf("%w: %q is in folder %d of %d", ErrFormat, f.Name, f.Folder, len(r.folders))
	}
	if room := int64(r.folders[f.Folder].Blocks) * blockSize; f.Offset+f.Size > room && !r.split {
		return nil, fmt.Errorf("%w: %q ends at %d of a folder of at most %d bytes", ErrFormat, f.Name, f.Offset+f.Size, room)
	}
	return f, nil
}

// Files lists the files in the order of the cabinet. The caller must not change
// the slice.
func (r *Reader) Files() []*File { return r.files }

// Folders lists the folders. The caller must not change the slice.
func (r *Reader) Folders() []Folder { return r.folders }

// Size is the size in bytes of the cabinet itself.
func (r *Reader) Size() int64 { return r.size }

// Trailing is the number of bytes after the cabinet.
func (r *Reader) Trailing() int64 { return r.extra }

// Split reports whether the cabinet is one of a set and its files cannot be
// opened.
func (r *Reader) Split() bool { return r.split }

// capacity is the largest content that the blocks of all folders can hold.
func (r *Reader) capacity() int64 {
	var n int64
	for _, f := range r.folders {
		n += int64(f.Blocks) * blockSize
	}
	return n
}

// limit is the limit for one file, and for one Walk.
func (r *Reader) limit() int64 {
	if r.opt.MaxOutput > 0 {
		return r.opt.MaxOutput
	}
	return r.capacity()
}

// Open gives the content. Errors: ErrSplit, ErrQuantum, ErrMethod, ErrLimit,
// and while reading ErrFormat, ErrChecksum or those of the source. All content
// before it in the folder has to be decoded first; a file that is opened after
// the one before it was closed goes on from there. A reader that reaches the
// end has seen every byte of the file; it does not check the folder's rest.
func (f *File) Open() (io.ReadCloser, error) {
	if err := f.readable(); err != nil {
		return nil, err
	}
	s, err := f.r.streamFor(f)
	if err != nil {
		return nil, err
	}
	return &content{f: f, s: s, left: f.Size}, nil
}

func (f *File) readable() error {
	switch {
	case f.Folder < 0 || f.r.split:
		return fmt.Errorf("%w: %q", ErrSplit, f.Name)
	case f.Size > f.r.limit():
		return fmt.Errorf("%w: %q has %d bytes", ErrLimit, f.Name, f.Size)
	}
	return nil
}

// streamFor returns a stream of the folder of f that is not beyond the start of
// f: the idle one if possible, otherwise a new one.
func (r *Reader) streamFor(f *File) (*stream, error) {
	r.mu.Lock()
	s := r.idle
	if s != nil && s.folder == f.Folder && s.pos <= f.Offset {
		r.idle = nil
		r.mu.Unlock()
		return s, nil
	}
	r.mu.Unlock()
	return r.newStream(f.Folder)
}

// content reads one open file.
type content struct {
	f    *File
	s    *stream // nil after Close
	left int64
}

// errClosed is returned by reads after Close.
var errClosed = errors.New("cab: read of a closed file")

func (c *content) Read(p []byte) (int, error) {
	if c.s == nil {
		return 0, errClosed
	}
	if c.left == 0 {
		return 0, io.EOF
	}
	if err := c.s.skipTo(c.f.Offset + c.f.Size - c.left); err != nil {
		return 0, err
	}
	n, err := c.s.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// WriteTo passes decoded blocks on without copying them.
func (c *content) WriteTo(w io.Writer) (int64, error) {
	if c.s == nil {
		return 0, errClosed
	}
	var done int64
	for c.left > 0 {
		if err := c.s.skipTo(c.f.Offset + c.f.Size - c.left); err != nil {
			return done, err
		}
		p, err := c.s.next(c.left)
		if err != nil {
			return done, err
		}
		n, err := w.Write(p)
		done += int64(n)
		c.left -= int64(len(p))
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// Close keeps the stream of the folder for the next file that is opened.
func (c *content) Close() error {
	if c.s == nil {
		return nil
	}
	s := c.s
	c.s = nil
	if s.err == nil {
		c.f.r.mu.Lock()
		c.f.r.idle = s
		c.f.r.mu.Unlock()
	}
	return nil
}

// Walk calls visit with every file, folder by folder in the order of their
// content, so that each folder is decoded once at most. The reader is valid
// during the call; what is left unread is decoded only if a later file of the
// folder is read. Walk ends with the first error of visit. A file that cannot
// be opened ends it too, with the errors of File.Open; files that overlap more
// than the limit allows, with ErrLimit.
func (r *Reader) Walk(visit func(f *File, content io.Reader) error) error {
	order := slices.Clone(r.files)
	slices.SortStableFunc(order, func(a, b *File) int {
		if a.Folder != b.Folder {
			return a.Folder - b.Folder
		}
		switch {
		case a.Offset < b.Offset:
			return -1
		case a.Offset > b.Offset:
			return 1
		}
		return 0
	})
	var s *stream
	defer func() {
		if s != nil {
			s.release()
		}
	}()
	left := r.limit()
	for _, f := range order {
		if err := f.readable(); err != nil {
			return err
		}
		if left -= f.Size; left < 0 {
			return fmt.Errorf("%w: at %q", ErrLimit, f.Name)
		}
		if s == nil || s.folder != f.Folder || s.pos > f.Offset {
			next, err := r.newStream(f.Folder)
			if err != nil {
				return err
			}
			if s != nil {
				s.release()
			}
			s = next
		}
		c := &content{f: f, s: s, left: f.Size}
		err := visit(f, c)
		c.s = nil
		if err != nil {
			return err
		}
	}
	return nil
}

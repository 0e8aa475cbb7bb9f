package upstream

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/files/unpack"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Windows of zstd: 8 MiB is the largest that HTTP allows in a content coding
// (RFC 9659). Compressed files sometimes use larger ones.
const (
	encodingWindow  = 8 << 20
	containerWindow = 32 << 20
)

// errTooLarge is wrapped for a file above the limit.
var errTooLarge = errors.New("file is larger than the limit")

// plain is a decoded stream.
type plain struct {
	io.Reader
	size    int64 // declared size in bytes, -1 if none is declared
	packed  bool  // the stream was compressed
	release func()
}

// decodeContent decodes the content coding of a response. header lists codings
// in the order in which they were applied; more than one is an error.
func decodeContent(r io.Reader, header []string) (*plain, error) {
	p := &plain{Reader: r, size: -1, release: func() {}}
	var names []string
	for _, h := range header {
		for n := range strings.SplitSeq(h, ",") {
			if n = symfile.Fold(strings.TrimSpace(n)); n != "" && n != "identity" {
				names = append(names, n)
			}
		}
	}
	switch {
	case len(names) == 0:
		return p, nil
	case len(names) > 1:
		return nil, fmt.Errorf("%d content codings in one response; only one is supported", len(names))
	}
	p.packed = true
	br := bufio.NewReaderSize(r, 64<<10)
	var err error
	switch names[0] {
	case "gzip", "x-gzip":
		p.Reader, err = gzip.NewReader(br)
	case "zstd":
		err = p.zstd(br, encodingWindow)
	case "deflate":
		// The coding is zlib's format, but some servers send a raw deflate
		// stream.
		if head, _ := br.Peek(2); unpack.HasZlibHeader(head) {
			p.Reader, err = zlib.NewReader(br)
		} else {
			p.Reader = flate.NewReader(br)
		}
	default:
		err = fmt.Errorf("unsupported content coding %q", truncate.Text(names[0]))
	}
	return p, err
}

func (p *plain) zstd(r io.Reader, window uint64) error {
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	p.Reader, p.release, p.packed = d, d.Close, true
	return nil
}

// isCompressedName reports whether name is the name of a compressed file, which must
// not be decompressed when that file itself is requested.
func isCompressedName(name string) bool {
	f := symfile.Fold(name)
	for _, ext := range []string{"_", ".gz", ".zst", ".zip", ".cab", ".z", ".msi", ".jar", ".apk", ".nupkg", ".snupkg"} {
		if strings.HasSuffix(f, ext) {
			return true
		}
	}
	return false
}

// decodeContainer decompresses a file if its first bytes show a compressed
// container. length is the number of bytes in r, -1 if unknown. limit is the
// largest decompressed size; dir is for temporary files.
func decodeContainer(br *bufio.Reader, length, limit int64, dir string) (*plain, error) {
	p := &plain{Reader: br, size: -1, release: func() {}}
	head, _ := br.Peek(12) // a later read returns the error
	if unpack.HasZlibHeader(head) {
		head, _ = br.Peek(objfile.SniffLen)
	}
	var err error
	switch {
	case bytes.HasPrefix(head, []byte("MSCF\x00\x00\x00\x00")):
		err = p.cabinet(br, head, length, limit, dir)
	case bytes.HasPrefix(head, []byte("\x1f\x8b\x08")):
		p.packed = true
		p.Reader, err = gzip.NewReader(br)
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		err = p.zstd(br, containerWindow)
	case unpack.IsZlib(head):
		p.packed = true
		p.Reader, err = zlib.NewReader(br)
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		err = p.zip(br, limit)
	case bytes.HasPrefix(head, []byte("SZDD\x88\xf0\x27\x33")), bytes.HasPrefix(head, []byte("KWAJ\x88\xf0\x27\xd1")):
		err = errors.New("unsupported compression format (SZDD or KWAJ)")
	}
	return p, err
}

// cabinet decompresses a cabinet with one file while it arrives.
func (p *plain) cabinet(br *bufio.Reader, head []byte, length, limit int64, dir string) error {
	if len(head) < 12 {
		return errors.New("truncated cabinet")
	}
	if length < 0 {
		length = int64(binary.LittleEndian.Uint32(head[8:]))
	}
	s := &spool{src: br}
	var err error
	if s.f, err = os.CreateTemp(dir, "symdepot-*"); err != nil {
		return err
	}
	s.gone = os.Remove(s.f.Name()) == nil // fails on Windows
	p.release, p.packed = s.drop, true
	f, err := cab.OpenSingle(s, length, cab.Options{MaxOutput: limit})
	if err != nil {
		return err
	}
	r, err := f.Open()
	if errors.Is(err, cab.ErrLimit) {
		return fmt.Errorf("%w: %d", errTooLarge, f.Size)
	}
	if err != nil {
		return err
	}
	p.Reader, p.size = r, f.Size
	p.release = func() { _ = r.Close(); s.drop() }
	return nil
}

// spool makes a stream readable at any offset. A temporary file holds the part
// that has arrived; reads wait for the rest.
type spool struct {
	src  io.Reader
	f    *os.File
	have int64
	err  error
	gone bool // the file has been unlinked
}

// ReadAt reads the stream as far as needed.
func (s *spool) ReadAt(b []byte, at int64) (int, error) {
	if need := at + int64(len(b)) - s.have; need > 0 && s.err == nil {
		n, err := io.Copy(io.NewOffsetWriter(s.f, s.have), io.LimitReader(s.src, need))
		s.have += n
		if s.err = err; err == nil && n < need {
			s.err = io.EOF
		}
	}
	if at >= s.have {
		return 0, s.err
	}
	short := at+int64(len(b)) > s.have
	if short {
		b = b[:s.have-at]
	}
	n, err := s.f.ReadAt(b, at)
	if short && err == nil {
		err = s.err
	}
	return n, err
}

func (s *spool) drop() {
	_ = s.f.Close()
	if !s.gone {
		_ = os.Remove(s.f.Name())
	}
}

// zip decompresses an archive with one file while it arrives. It uses the local
// header in front of the file, because the central directory comes last.
func (p *plain) zip(br *bufio.Reader, limit int64) error {
	var h [30]byte
	if _, err := io.ReadFull(br, h[:]); err != nil {
		return fmt.Errorf("truncated zip archive: %w", err)
	}
	le := binary.LittleEndian
	z := &zipEntry{br: br, flags: le.Uint16(h[6:]), sum: crc32.NewIEEE(), crc: le.Uint32(h[14:]), size: int64(le.Uint32(h[22:]))}
	method, packed := le.Uint16(h[8:]), int64(le.Uint32(h[18:]))
	name, extra := int(le.Uint16(h[26:])), int(le.Uint16(h[28:]))
	if _, err := br.Discard(name); err != nil {
		return fmt.Errorf("truncated zip archive: %w", err)
	}
	more := make([]byte, extra)
	if _, err := io.ReadFull(br, more); err != nil {
		return fmt.Errorf("truncated zip archive: %w", err)
	}
	if big, ok := zip64(more); ok {
		z.wide = true
		if z.size == 0xffffffff {
			z.size = int64(min(le.Uint64(big), 1<<62))
		}
		if packed == 0xffffffff && len(big) >= 16 {
			packed = int64(min(le.Uint64(big[8:]), 1<<62))
		}
	}
	later := z.flags&8 != 0 // the sizes follow the content
	switch {
	case z.flags&1 != 0:
		return errors.New("encrypted zip archive")
	case method == 0 && !later:
		z.r = io.LimitReader(br, packed)
	case method == 8:
		z.r = flate.NewReader(br)
	default:
		return fmt.Errorf("unsupported compression method %d in a zip archive", method)
	}
	p.Reader, p.packed = z, true
	if !later {
		if p.size = z.size; p.size > limit {
			return fmt.Errorf("%w: %d", errTooLarge, p.size)
		}
	}
	return nil
}

// zip64 returns the sizes in an entry's ZIP64 extra field.
func zip64(extra []byte) ([]byte, bool) {
	for len(extra) >= 4 {
		id, n := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		if n > len(extra)-4 {
			return nil, false
		}
		if id == 1 && n >= 8 {
			return extra[4 : 4+n], true
		}
		extra = extra[4+n:]
	}
	return nil, false
}

// zipEntry is the content of the only file in an archive.
type zipEntry struct {
	br    *bufio.Reader
	r     io.Reader
	sum   hash.Hash32
	n     int64
	size  int64
	crc   uint32
	flags uint16
	wide  bool
	err   error
}

func (z *zipEntry) Read(b []byte) (int, error) {
	if z.err != nil {
		return 0, z.err
	}
	n, err := z.r.Read(b)
	z.n += int64(n)
	_, _ = z.sum.Write(b[:n])
	if err == io.EOF {
		if err = z.end(); err == nil {
			err = io.EOF
		}
	}
	z.err = err
	return n, err
}

// end checks that the central directory follows the content, and no further
// file.
func (z *zipEntry) end() error {
	le := binary.LittleEndian
	if z.flags&8 != 0 {
		if head, err := z.br.Peek(4); err == nil && string(head) == "PK\x07\x08" {
			_, _ = z.br.Discard(4)
		}
		d := make([]byte, 12)
		if z.wide {
			d = make([]byte, 20)
		}
		if _, err := io.ReadFull(z.br, d); err != nil {
			return fmt.Errorf("truncated zip archive: %w", noEOF(err))
		}
		z.crc, z.size = le.Uint32(d), int64(le.Uint32(d[len(d)-4:]))
		if z.wide {
			z.size = int64(min(le.Uint64(d[12:]), 1<<62))
		}
	}
	if z.n != z.size || z.sum.Sum32() != z.crc {
		return errors.New("damaged zip archive")
	}
	head, err := z.br.Peek(4)
	switch {
	case err != nil:
		return fmt.Errorf("truncated zip archive: %w", noEOF(err))
	case string(head) == "PK\x03\x04":
		return errors.New("zip archive with several files")
	case string(head) != "PK\x01\x02":
		return errors.New("damaged zip archive")
	}
	return nil
}

// noEOF turns a premature io.EOF into io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// MayBeFile reports whether a response that begins with head may be a file. Web
// pages, and the texts with which some servers report a miss in a response with
// status 200, are not.
func MayBeFile(head []byte) bool { return !isPage(head) && !isRefusal(head) }

// isPage reports whether a response that begins with head is a web page.
func isPage(head []byte) bool {
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	head = bytes.ToLower(bytes.TrimLeft(head, " \t\r\n"))
	for _, mark := range []string{"<!doctype html", "<html", "<head", "<body", "<title"} {
		if bytes.HasPrefix(head, []byte(mark)) {
			return true
		}
	}
	return false
}

// refusals are the first words of misses that some servers send with status 200.
var refusals = []string{"Symbol Not Found", "symbol not found", "404 Not Found", "Not Found\n", "<Error>"}

func isRefusal(head []byte) bool {
	for _, r := range refusals {
		if bytes.HasPrefix(head, []byte(r)) {
			return true
		}
	}
	return false
}

package scan

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/base/zstdpoint"
)

// archive/zip keeps an object for each entry of the directory, and reads as
// many as there are: gigabytes for a hostile file. This reader keeps one entry
// at a time, and knows the offsets of the members.

// zipDirectory is the position of the central directory in a zip archive.
type zipDirectory struct {
	off, size int64
	entries   uint64 // as claimed; may be modulo 65536
}

// zipEntry is one entry of the central directory.
type zipEntry struct {
	name               string
	method             uint16
	flags              uint16
	mode               uint32 // Unix type and permissions; 0 if unknown
	crc                uint32
	packed, size, head int64 // claims until local has checked them
	mod                time.Time
}

var errZip = errors.New("zip")

func zipError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errZip, fmt.Sprintf(format, args...))
}

// findZipDirectory searches the last 64 KiB for the end record. If its fields
// are at their maximum, the zip64 record before it counts.
func findZipDirectory(r io.ReaderAt, size int64) (zipDirectory, error) {
	const endLen, maxComment = 22, 65535
	tail := make([]byte, min(size, endLen+maxComment))
	if err := readAt(r, tail, size-int64(len(tail))); err != nil {
		return zipDirectory{}, err
	}
	i := len(tail) - endLen
	for ; i >= 0; i-- {
		if string(tail[i:i+4]) == "PK\x05\x06" && i+endLen+int(binary.LittleEndian.Uint16(tail[i+20:])) <= len(tail) {
			break
		}
	}
	if i < 0 {
		return zipDirectory{}, zipError("no end record: cut short, or not a zip archive")
	}
	le := binary.LittleEndian
	end := tail[i:]
	endOff := size - int64(len(tail)) + int64(i)
	d := zipDirectory{entries: uint64(le.Uint16(end[10:])), size: int64(le.Uint32(end[12:])), off: int64(le.Uint32(end[16:]))}
	if d.entries == 0xffff || d.size == 0xffffffff || d.off == 0xffffffff {
		var loc [20]byte
		if endOff >= 20 && readAt(r, loc[:], endOff-20) == nil && string(loc[:4]) == "PK\x06\x07" {
			var end64 [56]byte
			off := le.Uint64(loc[8:])
			if off > uint64(endOff) || readAt(r, end64[:], int64(off)) != nil || string(end64[:4]) != "PK\x06\x06" {
				return d, zipError("the zip64 end record is not where it should be")
			}
			d.entries = le.Uint64(end64[32:])
			d.size, d.off = int64(le.Uint64(end64[40:])), int64(le.Uint64(end64[48:]))
		}
	}
	if d.size < 0 || d.off < 0 || d.off > endOff || d.size > endOff-d.off {
		return d, zipError("the directory lies outside the file")
	}
	return d, nil
}

// readAt fills p or returns an error.
func readAt(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// zipReader reads the entries of a directory in order.
type zipReader struct {
	r    *bufio.Reader
	left int64 // remaining bytes of the directory
	n    uint64
	dir  zipDirectory
}

func newZipReader(r io.ReaderAt, d zipDirectory) *zipReader {
	return &zipReader{r: bufio.NewReaderSize(io.NewSectionReader(r, d.off, d.size), 64<<10), left: d.size, dir: d}
}

func (z *zipReader) next() (*zipEntry, error) {
	if z.left == 0 {
		// Without zip64 the count has 16 bits, and some writers let it
		// overflow.
		if z.n != z.dir.entries && (z.dir.entries > 0xffff || z.n&0xffff != z.dir.entries) {
			return nil, zipError("%d entries announced, %d found", z.dir.entries, z.n)
		}
		return nil, io.EOF
	}
	var h [46]byte
	if err := z.take(h[:]); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if string(h[:4]) != "PK\x01\x02" {
		return nil, zipError("the directory is damaged at entry %d", z.n)
	}
	name := make([]byte, le.Uint16(h[28:]))
	extra := make([]byte, le.Uint16(h[30:]))
	if err := z.take(name); err != nil {
		return nil, err
	}
	if err := z.take(extra); err != nil {
		return nil, err
	}
	if err := z.take(make([]byte, le.Uint16(h[32:]))); err != nil {
		return nil, err
	}
	z.n++
	e := &zipEntry{
		name: string(name), flags: le.Uint16(h[8:]), method: le.Uint16(h[10:]), crc: le.Uint32(h[16:]),
		packed: int64(le.Uint32(h[20:])), size: int64(le.Uint32(h[24:])), head: int64(le.Uint32(h[42:])),
		mod: dosTime(le.Uint16(h[14:]), le.Uint16(h[12:])),
	}
	if maker := h[5]; maker == 3 || maker == 19 { // Unix, macOS
		e.mode = le.Uint32(h[38:]) >> 16
	}
	return e, e.extra(extra)
}

func (z *zipReader) take(p []byte) error {
	z.left -= int64(len(p))
	if z.left < 0 {
		return zipError("the directory is cut short at entry %d", z.n)
	}
	if _, err := io.ReadFull(z.r, p); err != nil {
		if errors.Is(err, io.EOF) { // the file was truncated; not the end of the directory
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("%w: %w", errZip, err)
	}
	return nil
}

// extra reads two extra fields: zip64 sizes and Unix times.
func (e *zipEntry) extra(x []byte) error {
	le := binary.LittleEndian
	for len(x) >= 4 {
		tag, n := le.Uint16(x), int(le.Uint16(x[2:]))
		x = x[4:]
		if n > len(x) {
			return nil // padding of some writers; only a zip64 field would matter
		}
		field := x[:n]
		x = x[n:]
		switch tag {
		case 1: // has the fields that did not fit, in this order
			for _, p := range []*int64{&e.size, &e.packed, &e.head} {
				if *p != 0xffffffff {
					continue
				}
				if len(field) < 8 {
					return zipError("the zip64 field of %s is too short", truncate.Quoted(e.name))
				}
				*p = int64(le.Uint64(field))
				field = field[8:]
			}
		case 0x5455:
			if len(field) >= 5 && field[0]&1 != 0 {
				e.mod = time.Unix(int64(int32(le.Uint32(field[1:]))), 0)
			}
		}
	}
	return nil
}

// dosTime has no time zone; UTC is assumed.
func dosTime(date, t uint16) time.Time {
	if date == 0 {
		return time.Time{}
	}
	return time.Date(int(date>>9)+1980, time.Month(date>>5&15), int(date&31), int(t>>11), int(t>>5&63), int(t&31)*2, 0, time.UTC)
}

// local finds the first byte of a member. The header in front of it repeats the
// name and may have other extra fields. limit is the offset of the directory.
func (e *zipEntry) local(r io.ReaderAt, limit int64) (int64, error) {
	var h [30]byte
	if e.head < 0 || e.head > limit-int64(len(h)) {
		return 0, zipError("the member lies outside the file")
	}
	if err := readAt(r, h[:], e.head); err != nil {
		return 0, err
	}
	le := binary.LittleEndian
	if string(h[:4]) != "PK\x03\x04" {
		return 0, zipError("no member where the directory says")
	}
	off := e.head + 30 + int64(le.Uint16(h[26:])) + int64(le.Uint16(h[28:]))
	if e.packed < 0 || e.size < 0 || off > limit || e.packed > limit-off {
		return 0, zipError("the member lies outside the file")
	}
	return off, nil
}

// skipped reports whether an entry has no bytes of its own: a folder or a link.
func (e *zipEntry) skipped() bool {
	const typeMask, link, dir = 0xf000, 0xa000, 0x4000
	last := e.name == "" || e.name[len(e.name)-1] == '/' || e.name[len(e.name)-1] == '\\' && e.size == 0
	return last || e.mode&typeMask == link || e.mode&typeMask == dir
}

// zip reads a zip archive, which needs random access.
func (w *walk) zip(in *input, rest func() io.Reader) error {
	in, drop, err := w.seekable(in, rest)
	if err != nil {
		return err
	}
	defer drop()
	dir, err := findZipDirectory(in.at, in.size)
	if err != nil {
		return err
	}
	z := newZipReader(in.at, dir)
	left := in.size // limit for all members together if no two share bytes
	return eachMember(w, in, z.next, func(e *zipEntry) error {
		if e.skipped() {
			return nil
		}
		if left -= e.packed; left < 0 || e.packed < 0 {
			return zipError("members overlap")
		}
		return w.zipMember(in, e, dir.off)
	})
}

// eachMember visits the members of an archive, which next returns up to io.EOF,
// within the limits of the walk. An error of visit ends the archive.
func eachMember[M any](w *walk, in *input, next func() (M, error), visit func(m M) error) error {
	for !w.ended() {
		m, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = in.meter.entry()
		}
		if err == nil {
			err = visit(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// seekable returns an archive with random access, which a copy in a store has if
// the archive itself has not. drop releases the copy.
func (w *walk) seekable(in *input, rest func() io.Reader) (_ *input, drop func(), err error) {
	if in.at != nil {
		return in, func() {}, nil
	}
	s, err := w.place(in, rest)
	if err != nil {
		return nil, nil, err
	}
	placed := *in
	placed.at, placed.size, placed.base = s.at, s.size, s
	return &placed, s.drop, nil
}

// place copies an archive without random access into a store.
func (w *walk) place(in *input, rest func() io.Reader) (*store, error) {
	if in.reopen != nil {
		return w.unpack(w.ctx, in)
	}
	b, err := fill(w.ctx, &w.opt, w.pool, rest(), in.size)
	if err != nil {
		return nil, err
	}
	return w.keep(b, in.base), nil
}

// zipMember visits one member. It reports errors of the member itself; a
// returned error ends the archive.
func (w *walk) zipMember(in *input, e *zipEntry, limit int64) error {
	w.progress(in)
	m := in.child(e.name, e.size, e.mod)
	m.sum = &e.crc
	if e.flags&1 != 0 {
		w.skip(m.path, ReasonEncrypted, nil)
		return nil
	}
	off, err := e.local(in.at, limit)
	if err != nil {
		w.damaged(m, err)
		return nil
	}
	raw := io.NewSectionReader(in.at, off, e.packed)
	switch e.method {
	case 0:
		if e.packed != e.size {
			w.damaged(m, zipError("a stored member has two different sizes"))
			return nil
		}
		m.at, m.crc, m.place = raw, &e.crc, in.place.member(off, e.size)
	case 8, 93, 20: // 20 was the first number of zstd
		// Reading more than the claimed size is an error.
		if err := in.meter.add(e.size); err != nil {
			return err
		}
		if e.method != 8 {
			if err := in.meter.add(setupCost); err != nil {
				return err
			}
		}
		m.reopen = func(ctx context.Context) (io.ReadCloser, error) { return w.inflate(ctx, e, raw) }
		if m.place = in.place.member(off, e.packed).unwrap(zstdKind); e.method == 8 {
			m.place.Method = Deflate
		}
	default:
		w.skip(m.path, ReasonUnsupported, fmt.Errorf("zip method %d", e.method))
		return nil
	}
	_ = w.visit(m) // the member is not streamed, so visit has reported all errors
	return nil
}

// inflaters pools the 40 KiB of state that each inflation needs.
var inflaters sync.Pool

type inflater struct {
	io.Reader
	z io.ReadCloser
}

func (i *inflater) Close() error {
	if i.z != nil {
		inflaters.Put(i.z)
		i.z, i.Reader = nil, bytes.NewReader(nil)
	}
	return nil
}

// inflate decompresses a member and checks size and checksum at its end.
func (w *walk) inflate(ctx context.Context, e *zipEntry, raw *io.SectionReader) (io.ReadCloser, error) {
	r := bufio.NewReaderSize(io.NewSectionReader(raw, 0, raw.Size()), int(min(max(raw.Size(), 512), 32<<10)))
	if e.method != 8 {
		free := &meter{limit: 1 << 61} // zipMember has counted the claimed size
		rc, err := w.decompress(ctx, zstdKind, r, free, zstdpoint.Options{})
		if err != nil {
			return nil, err
		}
		return &closers{&sumReader{r: rc, want: e.crc, left: e.size}, []io.Closer{rc}}, nil
	}
	return e.inflate(r)
}

// inflate decompresses a deflated member and checks size and checksum at its end.
func (e *zipEntry) inflate(r io.Reader) (io.ReadCloser, error) {
	z, ok := inflaters.Get().(io.ReadCloser)
	if !ok {
		z = flate.NewReader(r)
	} else if err := z.(flate.Resetter).Reset(r, nil); err != nil {
		return nil, err
	}
	return &inflater{&sumReader{r: z, want: e.crc, left: e.size}, z}, nil
}

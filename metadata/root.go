// Package metadata reads the metadata of .NET, which assemblies and portable PDBs have: its streams, the
// rows of its tables, and the names of types and methods. Source: ECMA-335, partition II, sections 22
// to 24.
//
// Memory and time are bounded by the size of the metadata; damage gives an error, never a panic. The
// package is not yet promised: it may change in any version.
package metadata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// ErrFormat is wrapped by the error of Open for bytes that are not metadata.
var ErrFormat = errors.New("not .NET metadata")

// Magic is the signature at the start of metadata.
const Magic = "BSJB"

// Limits of the root. The standard allows a version of 255 bytes and names of 32; a portable PDB has
// six streams.
const (
	maxVersion = 256
	maxStreams = 64
	maxStream  = 32 // bytes of a name
)

// Section is a range of bytes, such as that of a stream.
type Section struct{ Offset, Size int64 }

// Root is the start of metadata: it lists the streams. Its fields are set by Open and must not be
// changed. Methods may be called from several goroutines if the ReaderAt allows that.
type Root struct {
	Version string // such as "v4.0.30319", or "PDB v1.0" in a portable PDB

	r       io.ReaderAt
	streams map[string]Section
}

// Open reads the root of metadata of size bytes. The error wraps ErrFormat if r has something else;
// others are those of r or describe the damage.
func Open(r io.ReaderAt, size int64) (*Root, error) {
	m := &Root{r: r, streams: map[string]Section{}}
	var h [16]byte
	if err := ReadFull(r, h[:4], 0); errors.Is(err, io.ErrUnexpectedEOF) || err == nil && string(h[:4]) != Magic {
		return nil, ErrFormat
	} else if err != nil {
		return nil, err
	}
	if err := ReadFull(r, h[4:], 4); err != nil {
		return nil, fmt.Errorf("metadata root: %w", err)
	}
	n := binary.LittleEndian.Uint32(h[12:])
	if n > maxVersion {
		return nil, fmt.Errorf("metadata root: version of %d bytes exceeds the limit of %d", n, maxVersion)
	}
	version := make([]byte, n+4)
	if err := ReadFull(r, version, 16); err != nil {
		return nil, fmt.Errorf("metadata root: version: %w", err)
	}
	text, _, _ := bytes.Cut(version[:n], []byte{0})
	m.Version = string(text)
	count := binary.LittleEndian.Uint16(version[n+2:])
	if err := m.readStreams(16+int64(n)+4, int(count), size); err != nil {
		return nil, fmt.Errorf("metadata root: %w", err)
	}
	return m, nil
}

// readStreams reads the count stream headers at off.
func (m *Root) readStreams(off int64, count int, size int64) error {
	if count > maxStreams {
		return fmt.Errorf("%d streams exceed the limit of %d", count, maxStreams)
	}
	for i := range count {
		var h [8 + maxStream]byte
		// The last header may be shorter than the buffer, at the end of the file.
		n := min(int64(len(h)), size-off)
		if n < 12 {
			return fmt.Errorf("header of stream %d of %d: %w", i+1, count, io.ErrUnexpectedEOF)
		}
		if err := ReadFull(m.r, h[:n], off); err != nil {
			return fmt.Errorf("header of stream %d of %d: %w", i+1, count, err)
		}
		end := bytes.IndexByte(h[8:n], 0)
		if end < 0 {
			return fmt.Errorf("header of stream %d of %d: the name has no terminating NUL", i+1, count)
		}
		name := string(h[8 : 8+end])
		s := Section{int64(binary.LittleEndian.Uint32(h[:])), int64(binary.LittleEndian.Uint32(h[4:]))}
		if s.Offset > size || s.Size > size-s.Offset {
			return fmt.Errorf("stream %q, %d bytes at offset %d, lies outside the file of %d bytes", name, s.Size, s.Offset, size)
		}
		if _, twice := m.streams[name]; twice {
			return fmt.Errorf("two streams are named %q", name)
		}
		m.streams[name] = s
		off += 8 + int64(end)/4*4 + 4
	}
	return nil
}

// Stream returns the place of a stream, such as "#Strings". It is zero, and ok is false, without one.
func (m *Root) Stream(name string) (s Section, ok bool) {
	s, ok = m.streams[name]
	return s, ok
}

// TableCount is the number of tables that metadata can have.
const TableCount = 64

// Header is the start of the table stream.
type Header struct {
	Rows    [TableCount]uint32 // rows of each table
	Present uint64             // a bit for each table
	// Wide says which columns have 4 bytes in place of 2: those that refer to the heap.
	Wide struct{ Strings, GUIDs, Blobs bool }
	// Data is the place of the rows: those of the first table and of the following ones.
	Data Section
}

// Header reads the start of the table stream. ok is false if there is no such stream. The error wraps
// io.ErrUnexpectedEOF if the stream is too short.
func (m *Root) Header() (h Header, ok bool, err error) {
	s, ok := m.streams["#~"]
	if !ok {
		if s, ok = m.streams["#-"]; !ok {
			return h, false, nil
		}
	}
	var b [24 + 4*TableCount + 4]byte
	if s.Size < 24 {
		return h, true, fmt.Errorf("header of %d bytes: %w", s.Size, io.ErrUnexpectedEOF)
	}
	n := min(s.Size, int64(len(b)))
	if err := ReadFull(m.r, b[:n], s.Offset); err != nil {
		return h, true, err
	}
	h.Wide.Strings, h.Wide.GUIDs, h.Wide.Blobs = b[6]&1 != 0, b[6]&2 != 0, b[6]&4 != 0
	h.Present = binary.LittleEndian.Uint64(b[8:])
	need := 24 + 4*int64(bits.OnesCount64(h.Present))
	if need > n {
		return h, true, fmt.Errorf("header of %d bytes in a stream of %d: %w", need, s.Size, io.ErrUnexpectedEOF)
	}
	p := b[24:]
	for i := range h.Rows {
		if h.Present>>i&1 == 1 {
			h.Rows[i] = binary.LittleEndian.Uint32(p)
			p = p[4:]
		}
	}
	if b[6]&0x40 != 0 {
		need = min(need+4, s.Size) // extra data
	}
	h.Data = Section{s.Offset + need, s.Size - need}
	return h, true, nil
}

// ReadFull reads exactly len(b) bytes at off. It returns errors of r, possibly wrapped, and wraps
// io.ErrUnexpectedEOF if r ends too early.
func ReadFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%d bytes at offset %d: %w", len(b), off, io.ErrUnexpectedEOF)
	}
	return err
}

// Blob reads compressed numbers of a blob (ECMA-335, II.23.2). The first error ends all reading.
type Blob struct {
	Rest []byte // what has not been read
	Err  error
}

var errNumber = errors.New("malformed compressed number")

// number reads a compressed number. width is how many bits the form in which it is written has for the value.
func (r *Blob) number() (v uint32, width int) {
	switch {
	case r.Err != nil:
		return 0, 0
	case len(r.Rest) >= 1 && r.Rest[0]&0x80 == 0:
		v, width = uint32(r.Rest[0]), 7
		r.Rest = r.Rest[1:]
	case len(r.Rest) >= 2 && r.Rest[0]&0xC0 == 0x80:
		v, width = uint32(binary.BigEndian.Uint16(r.Rest))&0x3FFF, 14
		r.Rest = r.Rest[2:]
	case len(r.Rest) >= 4 && r.Rest[0]&0xE0 == 0xC0:
		v, width = binary.BigEndian.Uint32(r.Rest)&0x1FFFFFFF, 29
		r.Rest = r.Rest[4:]
	default:
		r.Err = errNumber
	}
	return v, width
}

// Unsigned reads a number.
func (r *Blob) Unsigned() uint32 {
	v, _ := r.number()
	return v
}

// Signed reads a number whose lowest bit is the sign: the number was rotated left in the width that it
// is written in.
func (r *Blob) Signed() int32 {
	v, width := r.number()
	if width == 0 {
		return 0
	}
	if v&1 == 0 {
		return int32(v >> 1)
	}
	return int32(v>>1) - 1<<(width-1)
}

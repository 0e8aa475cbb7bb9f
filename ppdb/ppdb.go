// Package ppdb reads the id of a portable PDB, the debug information of .NET, and
// reports whether the file holds debug information and sources. For these it reads
// headers only. Lines gives the source lines of methods, one row at a time. The
// package reads from an io.ReaderAt and accepts untrusted input.
//
// Promised: names and behaviour that this documentation describes change only
// with a new major version of the module. Memory and time are bounded by the
// size of the file; a damaged file gives an error, never a panic.
package ppdb

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/bits"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
)

// ErrFormat is wrapped by the error of Open for a file that is not .NET
// metadata with a #Pdb stream. A damaged portable PDB gives a different
// error.
var ErrFormat = errors.New("not a portable PDB")

// Magic is the signature at the start of the file. The metadata of a .NET image
// has the same signature, but no #Pdb stream.
const Magic = "BSJB"

// Limits of the metadata root. The standard allows a version of 255 bytes and
// names of 32; a portable PDB has six streams.
const (
	maxVersion = 256
	maxStreams = 64
	maxName    = 32
	maxGUIDs   = 1 << 20 // bytes of the #GUID heap that are searched
)

// Table numbers (Portable PDB format, Metadata Tables).
const (
	tableDocument = 0x30
	tableMethod   = 0x31 // MethodDebugInformation: lines and variables
)

// Kinds of custom debug information that embed or locate sources, in the byte
// order of the #GUID heap.
var (
	// embeddedSource is 0e8a571b-6926-466e-b4ad-8ab04611f5fe.
	embeddedSource = [16]byte{0x1B, 0x57, 0x8A, 0x0E, 0x26, 0x69, 0x6E, 0x46, 0xB4, 0xAD, 0x8A, 0xB0, 0x46, 0x11, 0xF5, 0xFE}
	// sourceLink is cc110556-a091-4d38-9fec-25ab9a351a6a.
	sourceLink = [16]byte{0x56, 0x05, 0x11, 0xCC, 0x91, 0xA0, 0x38, 0x4D, 0x9F, 0xEC, 0x25, 0xAB, 0x9A, 0x35, 0x1A, 0x6A}
)

// section is the range of a metadata stream in the file, in bytes.
type section struct{ off, size int64 }

// File is an opened portable PDB. Its fields are set by Open and must not be
// changed. Methods may be called from several goroutines if the ReaderAt
// allows that.
type File struct {
	Version string       // version of the format, such as "PDB v1.0"
	GUID    debugid.GUID // first part of the id
	Stamp   uint32       // second part of the id
	// IDOffset is the offset of the 20 bytes of the id in the file.
	IDOffset int64

	r       io.ReaderAt
	streams map[string]section
}

// Open reads the metadata root and the id of a portable PDB of size bytes. The
// error wraps ErrFormat if r does not hold a portable PDB. Open also wraps errors
// of r and describes the damage of a damaged file.
func Open(r io.ReaderAt, size int64) (*File, error) {
	f, err := open(r, size)
	if err != nil {
		return nil, fmt.Errorf("ppdb: %w", err)
	}
	return f, nil
}

func open(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, streams: map[string]section{}}
	var h [16]byte
	if err := readFull(r, h[:4], 0); errors.Is(err, io.ErrUnexpectedEOF) || err == nil && string(h[:4]) != Magic {
		return nil, ErrFormat
	} else if err != nil {
		return nil, err
	}
	if err := readFull(r, h[4:], 4); err != nil {
		return nil, fmt.Errorf("metadata root: %w", err)
	}
	n := binary.LittleEndian.Uint32(h[12:])
	if n > maxVersion {
		return nil, fmt.Errorf("metadata root: version of %d bytes exceeds the limit of %d", n, maxVersion)
	}
	version := make([]byte, n+4)
	if err := readFull(r, version, 16); err != nil {
		return nil, fmt.Errorf("metadata root: version: %w", err)
	}
	text, _, _ := bytes.Cut(version[:n], []byte{0})
	f.Version = string(text)
	count := binary.LittleEndian.Uint16(version[n+2:])
	if err := f.readStreams(16+int64(n)+4, int(count), size); err != nil {
		return nil, fmt.Errorf("metadata root: %w", err)
	}
	id, ok := f.streams["#Pdb"]
	if !ok {
		return nil, fmt.Errorf("%w: metadata without a #Pdb stream", ErrFormat)
	}
	var b [20]byte
	if id.size < int64(len(b)) {
		return nil, fmt.Errorf("#Pdb stream: %d bytes are fewer than the 20 of an id", id.size)
	}
	if err := readFull(r, b[:], id.off); err != nil {
		return nil, fmt.Errorf("#Pdb stream: %w", err)
	}
	f.IDOffset = id.off
	f.GUID, f.Stamp = parseID(b)
	return f, nil
}

// readStreams reads the count stream headers at off.
func (f *File) readStreams(off int64, count int, size int64) error {
	if count > maxStreams {
		return fmt.Errorf("%d streams exceed the limit of %d", count, maxStreams)
	}
	for i := range count {
		var h [8 + maxName]byte
		// The last header may be shorter than the buffer, at the end of the file.
		n := min(int64(len(h)), size-off)
		if n < 12 {
			return fmt.Errorf("header of stream %d of %d: %w", i+1, count, io.ErrUnexpectedEOF)
		}
		if err := readFull(f.r, h[:n], off); err != nil {
			return fmt.Errorf("header of stream %d of %d: %w", i+1, count, err)
		}
		end := bytes.IndexByte(h[8:n], 0)
		if end < 0 {
			return fmt.Errorf("header of stream %d of %d: the name has no terminating NUL", i+1, count)
		}
		name := string(h[8 : 8+end])
		s := section{int64(binary.LittleEndian.Uint32(h[:])), int64(binary.LittleEndian.Uint32(h[4:]))}
		if s.off > size || s.size > size-s.off {
			return fmt.Errorf("stream %q, %d bytes at offset %d, lies outside the file of %d bytes", name, s.size, s.off, size)
		}
		if _, twice := f.streams[name]; twice {
			return fmt.Errorf("two streams are named %q", name)
		}
		f.streams[name] = s
		off += 8 + int64(end)/4*4 + 4
	}
	return nil
}

// parseID splits the 20 bytes of an id.
func parseID(b [20]byte) (debugid.GUID, uint32) {
	return debugid.FromMicrosoft([16]byte(b[:16])), binary.LittleEndian.Uint32(b[16:])
}

// ID returns the id of the file; its age is the stamp.
func (f *File) ID() debugid.ID { return debugid.ID{GUID: f.GUID, Age: f.Stamp} }

// HasDebug reports whether the file has documents or methods with line
// information.
func (f *File) HasDebug() (bool, error) {
	rows, err := f.rows()
	if err != nil {
		return false, fmt.Errorf("ppdb: tables: %w", err)
	}
	return rows[tableDocument] > 0 || rows[tableMethod] > 0, nil
}

// rows reads the row counts of all tables.
func (f *File) rows() (rows [64]uint32, err error) {
	s, ok := f.streams["#~"]
	if !ok {
		if s, ok = f.streams["#-"]; !ok {
			return rows, nil
		}
	}
	var h [24 + 4*64]byte
	if s.size < 24 {
		return rows, fmt.Errorf("header of %d bytes: %w", s.size, io.ErrUnexpectedEOF)
	}
	n := min(s.size, int64(len(h)))
	if err := readFull(f.r, h[:n], s.off); err != nil {
		return rows, err
	}
	there := binary.LittleEndian.Uint64(h[8:])
	if need := 24 + 4*int64(bits.OnesCount64(there)); need > n {
		return rows, fmt.Errorf("header of %d bytes in a stream of %d: %w", need, s.size, io.ErrUnexpectedEOF)
	}
	p := h[24:]
	for i := range rows {
		if there>>i&1 == 1 {
			rows[i] = binary.LittleEndian.Uint32(p)
			p = p[4:]
		}
	}
	return rows, nil
}

// HasSources reports whether the file has embedded sources or Source Link. It
// searches the #GUID heap for the GUIDs of these two kinds; compilers write a
// GUID there only if the file uses it.
func (f *File) HasSources() (bool, error) {
	n, err := f.findGUID(embeddedSource, sourceLink)
	if err != nil {
		return false, fmt.Errorf("ppdb: %w", err)
	}
	return n > 0, nil
}

// findGUID returns the number, from 1, of the first of some GUIDs in the #GUID heap; 0 if
// none is there.
func (f *File) findGUID(want ...[16]byte) (uint32, error) {
	s := f.streams["#GUID"]
	r := io.NewSectionReader(f.r, s.off, min(s.size, maxGUIDs))
	var b [64 * 16]byte
	for off := int64(0); off < r.Size(); off += int64(len(b)) {
		n := min(int64(len(b)), r.Size()-off)
		if err := readFull(r, b[:n], off); err != nil {
			return 0, fmt.Errorf("#GUID stream: %w", err)
		}
		for i := int64(0); i+16 <= n; i += 16 {
			if slices.Contains(want, [16]byte(b[i:])) {
				return uint32((off+i)/16) + 1, nil
			}
		}
	}
	return 0, nil
}

// Checksum returns the hash of a portable PDB of size bytes, with the 20 bytes of
// the id replaced by zeros: compilers compute the hash before the id. Images hold
// this checksum in their debug directory, and clients send it in the
// SymbolChecksum header. alg is SHA1, SHA256, SHA384 or SHA512, in any case.
func Checksum(r io.ReaderAt, size int64, alg string) ([]byte, error) {
	var h hash.Hash
	switch strings.ToUpper(alg) {
	case "SHA1":
		h = sha1.New()
	case "SHA256":
		h = sha256.New()
	case "SHA384":
		h = sha512.New384()
	case "SHA512":
		h = sha512.New()
	default:
		return nil, fmt.Errorf("ppdb: unknown checksum algorithm %.20q", alg)
	}
	f, err := Open(r, size)
	if err != nil {
		return nil, err
	}
	end := f.IDOffset + 20
	whole := io.MultiReader(
		io.NewSectionReader(r, 0, f.IDOffset),
		bytes.NewReader(make([]byte, 20)),
		io.NewSectionReader(r, end, size-end),
	)
	if n, err := io.Copy(h, whole); err != nil {
		return nil, fmt.Errorf("ppdb: checksum: %w", err)
	} else if n != size {
		return nil, fmt.Errorf("ppdb: checksum: %d of %d bytes: %w", n, size, io.ErrUnexpectedEOF)
	}
	return h.Sum(nil), nil
}

// ChecksumID returns the id that compilers derive from the checksum sum in
// deterministic builds: its first 20 bytes, with the bits set that mark the GUID
// as random and the stamp as not a time. It returns the zero ID if sum is shorter
// than 20 bytes.
func ChecksumID(sum []byte) debugid.ID {
	if len(sum) < 20 {
		return debugid.ID{}
	}
	b := [20]byte(sum)
	b[7] = b[7]&0x0F | 0x40
	b[8] = b[8]&0x3F | 0x80
	b[19] |= 0x80
	g, stamp := parseID(b)
	return debugid.ID{GUID: g, Age: stamp}
}

// readFull reads exactly len(b) bytes at off. It returns errors of r, possibly
// wrapped, and wraps io.ErrUnexpectedEOF if r ends too early.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%d bytes at offset %d: %w", len(b), off, io.ErrUnexpectedEOF)
	}
	return err
}

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
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/metadata"
)

// ErrFormat is wrapped by the error of Open for a file that is not .NET
// metadata with a #Pdb stream. A damaged portable PDB gives a different
// error.
var ErrFormat = errors.New("not a portable PDB")

// Magic is the signature at the start of the file. The metadata of a .NET image
// has the same signature, but no #Pdb stream.
const Magic = metadata.Magic

// maxGUIDs is how many bytes of the #GUID heap are searched.
const maxGUIDs = 1 << 20

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

// File is an opened portable PDB. Its fields are set by Open and must not be
// changed. Methods may be called from several goroutines if the ReaderAt
// allows that.
type File struct {
	Version string       // version of the format, such as "PDB v1.0"
	GUID    debugid.GUID // first part of the id
	Stamp   uint32       // second part of the id
	// IDOffset is the offset of the 20 bytes of the id in the file.
	IDOffset int64

	r    io.ReaderAt
	root *metadata.Root
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
	root, err := metadata.Open(r, size)
	if errors.Is(err, metadata.ErrFormat) {
		return nil, ErrFormat
	}
	if err != nil {
		return nil, err
	}
	f := &File{r: r, root: root, Version: root.Version}
	id, ok := root.Stream("#Pdb")
	if !ok {
		return nil, fmt.Errorf("%w: metadata without a #Pdb stream", ErrFormat)
	}
	var b [20]byte
	if id.Size < int64(len(b)) {
		return nil, fmt.Errorf("#Pdb stream: %d bytes are fewer than the 20 of an id", id.Size)
	}
	if err := metadata.ReadFull(r, b[:], id.Offset); err != nil {
		return nil, fmt.Errorf("#Pdb stream: %w", err)
	}
	f.IDOffset = id.Offset
	f.GUID, f.Stamp = parseID(b)
	return f, nil
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
	h, _, err := f.root.Header()
	if err != nil {
		return false, fmt.Errorf("ppdb: tables: %w", err)
	}
	return h.Rows[tableDocument] > 0 || h.Rows[tableMethod] > 0, nil
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
	s, _ := f.root.Stream("#GUID")
	r := io.NewSectionReader(f.r, s.Offset, min(s.Size, maxGUIDs))
	var b [64 * 16]byte
	for off := int64(0); off < r.Size(); off += int64(len(b)) {
		n := min(int64(len(b)), r.Size()-off)
		if err := metadata.ReadFull(r, b[:n], off); err != nil {
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

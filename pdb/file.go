package pdb

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/symdepot/symdepot/debugid"
)

// ErrFormat is wrapped by the errors of Open and OpenFile for a file that is not a PDB. The
// error for a damaged PDB does not wrap it.
var ErrFormat = errors.New("not a PDB")

// Format is the container of a PDB's streams. The zero Format means "none".
type Format uint8

// The containers of PDBs.
const (
	MSF   Format = iota + 1 // PDB 7.0, pages of 512 bytes and more
	PDB20                   // PDB 2.0, up to 65535 pages
	MSFZ                    // compressed ("PDZ"); same streams, same ids as MSF
)

// String returns the name of the format: MSF, PDB20, MSFZ, none.
func (f Format) String() string {
	switch f {
	case MSF:
		return "MSF"
	case PDB20:
		return "PDB20"
	case MSFZ:
		return "MSFZ"
	}
	return "none"
}

// The numbers of the streams in every PDB.
const (
	InfoStream = 1 // version, signature, age, GUID, named streams
	TPIStream  = 2 // types
	DBIStream  = 3 // modules and symbols
	IPIStream  = 4 // ids of types and functions
)

// maxOldInfo is the last version of the info stream without a GUID.
const maxOldInfo = 19990604

// noStream is the number that means no stream.
const noStream = 0xFFFF

// container finds the streams of a file.
type container interface {
	// count returns the number of streams.
	count() int
	// stream returns the bytes of stream n, which is less than count, and
	// their number. A nil stream has no bytes.
	stream(n int) (io.ReaderAt, int64, error)
	// missing returns the number of bytes by which the file is shorter than its
	// header requires.
	missing() int64
	// pageSize returns the size of a page in bytes, or 0 if there are no pages.
	pageSize() int
}

// infoTail is the part of the info stream after the GUID.
type infoTail struct {
	names map[string]int
	codes []uint32
}

// dbiHeader is the header of the DBI stream.
type dbiHeader struct {
	version                  uint32
	globals, publics, record int   // stream numbers
	modules                  int64 // bytes of module records, at offset 64
	contributions            int64 // bytes of section contributions, after the module records
	files, filesSize         int64 // position of the names of source files
	optional, optionalSize   int64 // position of the optional debug header
	incremental              bool  // linked incrementally: calls go through trampolines
}

// File is an open PDB. Open sets its fields, which must not be changed. Several
// goroutines may call its methods if the ReaderAt allows that.
type File struct {
	Format    Format
	Version   uint32       // of the info stream, a date such as 20000404
	Signature uint32       // of the info stream: seconds since 1970, or a hash
	GUID      debugid.GUID // zero for PDB 2.0
	// InfoAge is the age in the info stream. Tools that change the file
	// afterwards, such as source indexing, increment it.
	InfoAge uint32
	// DBIAge is the age in the DBI stream, which is also in the CodeView record
	// of the image; 0 if NoDBI or OldDBI.
	DBIAge uint32
	// NoDBI reports that there is no DBI stream, as in a PDB that a compiler
	// writes for its types.
	NoDBI bool
	// OldDBI reports that the DBI stream has the format used before 1995, which
	// has neither age nor machine.
	OldDBI bool
	// Stripped reports that the private symbols were removed.
	Stripped bool
	// Machine is the IMAGE_FILE_MACHINE number; 0 if unknown.
	Machine uint16
	// PageSize is the size of a page in bytes; 0 for MSFZ.
	PageSize int
	// Truncated is the number of bytes by which the file is shorter than its
	// header requires. Parts of a truncated file may still be readable. It is 0
	// for MSFZ, whose parts are checked when they are read.
	Truncated int64

	c   container
	dbi dbiHeader

	mu   sync.Mutex
	info *infoTail // read on first use; guarded by mu
}

// ID returns the id by which debuggers identify the file: the GUID and the age
// of the DBI stream, or of the info stream if there is no other. Files without
// a GUID, such as all PDB 2.0 files, have their signature and the age of the
// info stream.
func (f *File) ID() debugid.ID {
	if f.Version <= maxOldInfo {
		return debugid.PDB20(f.Signature, f.InfoAge)
	}
	if f.NoDBI || f.OldDBI {
		return debugid.ID{GUID: f.GUID, Age: f.InfoAge}
	}
	return debugid.ID{GUID: f.GUID, Age: f.DBIAge}
}

// Arch returns the processor as Breakpad and LLVM name it. It is empty if the
// file has none, or pure managed code.
func (f *File) Arch() string {
	switch f.Machine {
	case 0x014C:
		return "x86"
	case 0x8664:
		return "x86_64"
	case 0x01C0, 0x01C2, 0x01C4:
		return "arm"
	case 0xAA64:
		return "arm64"
	case 0xA641:
		return "arm64ec"
	case 0xA64E:
		return "arm64x"
	case 0x0200:
		return "ia64"
	case 0x0162, 0x0166, 0x0168, 0x0169, 0x0266, 0x0366, 0x0466:
		return "mips"
	case 0x01F0, 0x01F1:
		return "ppc"
	case 0x5032:
		return "riscv32"
	case 0x5064:
		return "riscv64"
	case 0x6264:
		return "loongarch64"
	}
	return ""
}

// Streams returns the number of streams.
func (f *File) Streams() int { return f.c.count() }

// Stream returns stream n; one that is nil has no bytes. The error of a number
// that no stream has wraps fs.ErrNotExist.
//
// Reads of MSF and PDB20 go to the file each time. Those of MSFZ inflate what
// they need and keep up to 2 MiB of the last chunk, so that a stream is best
// read from front to back; reads here and there that come to more than 1 GiB
// of inflated bytes fail.
func (f *File) Stream(n int) (*io.SectionReader, error) {
	s, err := f.section(n)
	if err != nil {
		return nil, fmt.Errorf("pdb: %w", err)
	}
	return s, nil
}

// section works like Stream, for errors that callers wrap.
func (f *File) section(n int) (*io.SectionReader, error) {
	if n < 0 || n >= f.c.count() {
		return nil, fmt.Errorf("stream %d of %d: %w", n, f.c.count(), fs.ErrNotExist)
	}
	r, size, err := f.c.stream(n)
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(r, 0, size), nil
}

// hasBytes reports whether stream n exists and is not empty. The number 0xFFFF
// usually means no stream, and counts as none.
func (f *File) hasBytes(n int) (bool, error) {
	if n < 0 || n >= f.c.count() || n == 0xFFFF {
		return false, nil
	}
	s, err := f.Stream(n)
	return err == nil && s.Size() > 0, err
}

// The first bytes of each format.
const (
	MagicMSF   = "Microsoft C/C++ MSF 7.00\r\n\x1aDS\x00\x00\x00"
	MagicPDB20 = "Microsoft C/C++ program database 2.00\r\n\x1aJG\x00\x00"
	MagicMSFZ  = "Microsoft MSFZ Container\r\n\x1aALD\x00\x00"
)

// Package cab reads and writes Microsoft cabinets: the .cab files of
// installers and the .pd_, .dl_ and .ex_ files of symbol stores.
//
// It reads stored, MSZIP and LZX folders. Cabinets of a split set and Quantum
// folders are recognised and refused. Decoding needs memory for the window of
// the compression only.
//
// Promised: names and behaviour that this documentation describes change only
// with a new major version of the module. Any input is decoded or refused with
// one of the errors below, in bounded memory, and every cabinet that [Create]
// writes is read by cabextract and by Microsoft's tools. The compressed bytes
// themselves may differ from one version to the next.
package cab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Errors of reading and writing, for errors.Is.
var (
	// ErrFormat means that the data is not a cabinet, or is damaged.
	ErrFormat = errors.New("cab: not a cabinet, or damaged")
	// ErrChecksum means that the checksum of a block does not match. It wraps
	// ErrFormat.
	ErrChecksum = fmt.Errorf("%w: checksum mismatch", ErrFormat)
	// ErrSplit means that the cabinet, or a file in it, continues in or from
	// another cabinet.
	ErrSplit = errors.New("cab: part of a set that is split over several cabinets")
	// ErrQuantum means that the folder is compressed with Quantum, which is not
	// supported.
	ErrQuantum = errors.New("cab: Quantum compression is not supported")
	// ErrMethod means that the folder is compressed with a method that the
	// format does not define.
	ErrMethod = errors.New("cab: unknown compression")
	// ErrLimit means that the content exceeds a limit of Options.
	ErrLimit = errors.New("cab: content exceeds the limit")
	// ErrTooLarge means that the input does not fit into a cabinet: a file of
	// more than MaxFile bytes, or a cabinet of 2 GiB or more.
	ErrTooLarge = errors.New("cab: too large for a cabinet")
)

// MaxFile is the maximum size in bytes of a folder, and so of a file: 65,535
// blocks of 32 KiB.
const MaxFile = maxBlocks * blockSize

const (
	magic         = "MSCF"
	headerSize    = 36
	folderSize    = 8
	fileSize      = 16
	dataSize      = 8
	blockSize     = 32768
	maxBlock      = 32768 + 6144
	maxBlocks     = 65535
	maxFiles      = 65535
	maxName       = 256 // bytes of a name with its terminator
	maxCabinet    = 1<<31 - 1
	maxFileTable  = 6 << 20 // limit for the bytes of file entries
	versionMinor  = 3
	versionMajor  = 1
	flagPrev      = 1
	flagNext      = 2
	flagReserve   = 4
	continuedFrom = 0xFFFD
)

// Attributes of a file in a cabinet.
const (
	AttrReadOnly = 0x01
	AttrHidden   = 0x02
	AttrSystem   = 0x04
	AttrArchive  = 0x20
	AttrExecute  = 0x40 // to be run after extraction
	AttrUTF8     = 0x80 // the name is stored as UTF-8
)

// Method is a compression method.
type Method uint8

// The methods of the format, with its numbers.
const (
	None Method = iota
	MSZIP
	Quantum
	LZX
)

// String returns the usual spelling: "none", "MSZIP", "LZX", "Quantum".
func (m Method) String() string {
	switch m {
	case None:
		return "none"
	case MSZIP:
		return "MSZIP"
	case Quantum:
		return "Quantum"
	case LZX:
		return "LZX"
	}
	return fmt.Sprintf("unknown:%d", uint8(m))
}

// Compression is the method of a folder and, for LZX and Quantum, the base-2
// logarithm of its window size.
type Compression struct {
	Method Method
	Window int
}

// String returns the usual spelling: "none", "MSZIP", "LZX:21", "Quantum:18".
func (c Compression) String() string {
	if c.Method == LZX || c.Method == Quantum {
		return fmt.Sprintf("%s:%d", c.Method, c.Window)
	}
	return c.Method.String()
}

func parseCompression(v uint16) Compression {
	c := Compression{Method: Method(v & 15)}
	if c.Method == LZX || c.Method == Quantum {
		c.Window = int(v >> 8 & 31)
	}
	return c
}

func (c Compression) bits() uint16 { return uint16(c.Method) | uint16(c.Window)<<8 }

// checksum computes the checksum of the format: seed XOR each little-endian
// 32-bit word. The remaining bytes at the end form a big-endian word.
func checksum(seed uint32, p []byte) uint32 {
	var wide uint64
	for len(p) >= 8 {
		wide ^= binary.LittleEndian.Uint64(p)
		p = p[8:]
	}
	sum := seed ^ uint32(wide) ^ uint32(wide>>32)
	if len(p) >= 4 {
		sum ^= binary.LittleEndian.Uint32(p)
		p = p[4:]
	}
	var tail uint32
	for _, b := range p {
		tail = tail<<8 | uint32(b)
	}
	return sum ^ tail
}

// blockChecksum covers the data first, then the two lengths and the reserved
// area.
func blockChecksum(data, lengths []byte) uint32 { return checksum(checksum(0, data), lengths) }

// dosTime converts date and time of the format, a wall clock without a time
// zone, to the same wall clock in UTC. It returns the zero time for an invalid
// date.
func dosTime(date, clock uint16) time.Time {
	year, month, day := 1980+int(date>>9), time.Month(date>>5&15), int(date&31)
	t := time.Date(year, month, day, int(clock>>11), int(clock>>5&63), int(clock&31)*2, 0, time.UTC)
	if t.Month() != month || t.Day() != day {
		return time.Time{}
	}
	return t
}

// toDOS returns the wall clock of t in its own zone, rounded down to two
// seconds. Times outside 1980 to 2107 become the nearest valid time.
func toDOS(t time.Time) (date, clock uint16) {
	switch y := t.Year(); {
	case y < 1980:
		return 1<<5 | 1, 0
	case y > 2107:
		return 127<<9 | 12<<5 | 31, 23<<11 | 59<<5 | 29
	default:
		return uint16(y-1980)<<9 | uint16(t.Month())<<5 | uint16(t.Day()),
			uint16(t.Hour())<<11 | uint16(t.Minute())<<5 | uint16(t.Second()/2)
	}
}

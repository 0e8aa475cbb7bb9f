// Package dump reads crash dumps: Windows minidumps, those that Breakpad and
// Crashpad write on every system, and ELF core files. Microdumps, which are
// lines of a log, are not read.
//
// Read lists the modules that a dump needs symbols for. Open reads the process
// too: threads, registers, exception and memory, for a walk of the stacks. Both
// read lists and headers only, within fixed limits of bytes read and memory
// used, and survive any input. The memory of a Process is read when it is asked
// for.
//
// Promised: names and behaviour that this documentation describes change only
// with a new major version of the module. Memory and time are bounded; a
// truncated dump yields the modules that can be read, with Problems that say
// what is lost.
package dump

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
)

// Kind is the format of a dump.
type Kind string

// The kinds.
const (
	Minidump Kind = "minidump"
	ELFCore  Kind = "elfcore"
)

// Dump describes the process of a crash dump.
type Dump struct {
	Kind Kind
	// Arch is the processor as Breakpad and LLVM name it (x86, x86_64, arm64…);
	// empty if the dump does not have it.
	Arch string
	// OS is windows, linux, android, macos, ios, freebsd…; empty if the dump
	// does not have it.
	OS string
	// BigEndian is the byte order of a core's processor. The debug id that
	// Breakpad derives from a build-id depends on it.
	BigEndian bool
	// Time is the time of the dump, in UTC; zero if the dump does not have it.
	Time time.Time
	// Modules are in the order of the dump. Unloaded modules are last.
	Modules []Module
	// Problems describe the parts of a damaged or truncated dump that could not
	// be read. The listed modules are still valid.
	Problems []string
}

// Module is one loaded image with its ids and those of its debug information.
// The names come from the dump unchanged. They are not paths on this machine.
type Module struct {
	// Path is the path of the file on the machine of the dump. It is empty if
	// the image was found in memory only and has no name in it.
	Path string
	// Name is the last part of Path.
	Name       string
	Base, Size uint64 // in the process, in bytes
	// Code names a PE image; zero for others.
	Code debugid.PE
	// Debug lists the debug information of the image: its PDBs, usually one. A
	// precompiled .NET image has two. Old versions of Breakpad for Linux store
	// the debug id of the ELF file here.
	Debug []Debug
	// BuildID names an ELF image.
	BuildID debugid.BuildID
	// UUID names a Mach-O image.
	UUID debugid.GUID
	// Unloaded reports whether the image had been unloaded before the dump was
	// made. Windows keeps no debug information for such images.
	Unloaded bool
}

// Debug is one CodeView record.
type Debug struct {
	Path string // as the linker wrote it
	Name string // the last part of Path
	// ID is the GUID and age, or the signature and age of an NB10 record.
	ID debugid.ID
	// Portable reports that the record is of a portable PDB, whose ID.Age is a
	// stamp. This is known only if the dump has the debug directory of the
	// image; otherwise a portable PDB looks like any other.
	Portable bool
}

// HasID reports whether the module has any id.
func (m *Module) HasID() bool {
	return !m.Code.IsZero() || len(m.Debug) > 0 || m.BuildID != "" || !m.UUID.IsZero()
}

// ErrNotDump is wrapped by the error for a file that is not a supported dump.
// The text names the format of the file if it is known.
var ErrNotDump = errors.New("not a supported dump")

// ErrBroken is wrapped by the error for a dump whose list of modules is
// unreadable: truncated, inconsistent or hostile.
var ErrBroken = errors.New("broken dump")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrBroken, fmt.Errorf(format, args...))
}

// others are the first bytes of dumps that are recognized but not supported.
var others = []struct{ magic, is string }{
	{"PAGEDU64", "a dump of the Windows kernel (64 bit)"},
	{"PAGEDUMP", "a dump of the Windows kernel (32 bit)"},
	{"USERDU64", "a full user dump of the time before minidumps (64 bit)"},
	{"USERDUMP", "a full user dump of the time before minidumps (32 bit)"},
	{"PMDM", "a minidump in big-endian byte order"},
	{"KDUMP   ", "a dump of the Linux kernel (kdump)"},
	{"DISKDUMP", "a dump of the Linux kernel (diskdump)"},
	{"makedumpfile\x00", "a dump of the Linux kernel (makedumpfile)"},
	{"\x1f\x8b", "compressed with gzip; unpack it first"},
	{"\x28\xb5\x2f\xfd", "compressed with zstd; unpack it first"},
	{"\x04\x22\x4d\x18", "compressed with lz4; unpack it first"},
	{"\xfd7zXZ\x00", "compressed with xz; unpack it first"},
	{"MSCF", "a cabinet; unpack it first"},
	{"PK\x03\x04", "a zip archive; unpack it first"},
}

// SniffLen is the number of bytes from the start of a file that Detect needs.
const SniffLen = 20

// Detect returns the kind of the dump that begins with head, its first SniffLen
// bytes. It returns "" for anything except a minidump or an ELF core file.
func Detect(head []byte) Kind {
	if len(head) >= 4 && string(head[:4]) == "MDMP" {
		return Minidump
	}
	if len(head) < SniffLen || string(head[:4]) != "\x7fELF" {
		return ""
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if head[5] == 2 {
		order = binary.BigEndian
	}
	if order.Uint16(head[16:]) == elfTypeCore {
		return ELFCore
	}
	return ""
}

// Read lists the modules of the dump of size bytes in r. The error wraps
// ErrNotDump, ErrBroken, or the error of r.
func Read(r io.ReaderAt, size int64) (*Dump, error) {
	s := &source{r: r, size: size, left: readLimit}
	d, err := s.dump()
	if s.err != nil {
		return nil, fmt.Errorf("read a dump: %w", s.err)
	}
	return d, err
}

// ReadFile is Read for a file on disk, which it opens and closes. Its errors name the file;
// that for a folder, a device or a pipe wraps ErrNotDump.
func ReadFile(path string) (*Dump, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, err := Read(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// openRegular opens a file on disk. A folder, a device or a pipe is not a dump.
func openRegular(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: %w: it is not a regular file", path, ErrNotDump)
	}
	f, err := os.Open(path)
	return f, info.Size(), err
}

func (s *source) dump() (*Dump, error) {
	kind, err := s.kind()
	if err != nil {
		return nil, err
	}
	if kind == Minidump {
		return readMinidump(s)
	}
	return readCore(s)
}

// kind detects the kind of the dump. Its error says what another file is, if
// that is known.
func (s *source) kind() (Kind, error) {
	head := make([]byte, min(max(s.size, 0), 64))
	if err := s.readAt(head, 0); err != nil {
		return "", err
	}
	if kind := Detect(head); kind != "" {
		return kind, nil
	}
	for _, o := range others {
		if strings.HasPrefix(string(head), o.magic) {
			return "", fmt.Errorf("%w: %s", ErrNotDump, o.is)
		}
	}
	switch {
	case strings.HasPrefix(string(head), "\x7fELF"):
		return "", fmt.Errorf("%w: an ELF file, but not a core file", ErrNotDump)
	case isMachCore(head):
		return "", fmt.Errorf("%w: a Mach-O core file", ErrNotDump)
	}
	return "", ErrNotDump
}

// isMachCore recognizes a core file by its type, 4, in a Mach-O header of
// either word size.
func isMachCore(head []byte) bool {
	return len(head) >= 16 && (head[0] == 0xce || head[0] == 0xcf) && string(head[1:4]) == "\xfa\xed\xfe" &&
		binary.LittleEndian.Uint32(head[12:]) == 4
}

// maxProblems limits Dump.Problems: a hostile dump may have a problem in each
// of ten thousand modules.
const maxProblems = 20

func (d *Dump) problem(format string, args ...any) {
	if len(d.Problems) < maxProblems {
		d.Problems = append(d.Problems, fmt.Sprintf(format, args...))
	}
}

// setPath sets the path of m and the name that is its last part. Only Windows
// separates with backslashes; on other systems a name may contain them.
func (m *Module) setPath(path, os string) {
	separators := "/"
	if os == "windows" || os == "" {
		separators = `/\`
	}
	m.Path, m.Name = path, path[strings.LastIndexAny(path, separators)+1:]
}

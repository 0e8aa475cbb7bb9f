// Package pdb reads the program databases of Microsoft's and LLVM's linkers:
// their ids, their features and their functions. It reads the pages it
// needs and no more, from an io.ReaderAt, and survives any input. CopyWith copies a
// PDB with another named stream. WritePublic makes the public form of a PDB, which
// outsiders may have, and PrivateStrings proves that nothing private is left.
//
// Promised: names and behaviour that this documentation describes change only
// with a new major version of the module. Exempt are Functions, Module, WritePublic,
// PrivateStrings and their types, which may change in any version. Memory and time
// are bounded by the size of the file; a damaged file gives an error, never a panic.
package pdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/symdepot/symdepot/debugid"
)

// SniffLen is the number of bytes that Detect needs.
const SniffLen = len(MagicPDB20)

// Detect returns the format of the file that starts with prefix, or zero for
// none. prefix should have SniffLen bytes.
func Detect(prefix []byte) Format {
	for _, m := range []struct {
		magic  string
		format Format
	}{{MagicMSF, MSF}, {MagicPDB20, PDB20}, {MagicMSFZ, MSFZ}} {
		if bytes.HasPrefix(prefix, []byte(m.magic)) {
			return m.format
		}
	}
	return 0
}

// Open reads the headers of a PDB of size bytes: a few hundred bytes, whatever
// its size. The error wraps ErrFormat if r is not a PDB, or wraps an error of
// r; for a damaged file it describes the damage.
func Open(r io.ReaderAt, size int64) (*File, error) {
	f, err := open(r, size)
	if err != nil {
		return nil, fmt.Errorf("pdb: %w", err)
	}
	return f, nil
}

// OpenFile is Open for a file on disk. The caller closes the io.Closer when it does not use
// the File any more. The errors name the file; that for a folder, a device or a pipe wraps
// ErrFormat.
func OpenFile(path string) (*File, io.Closer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: %w: it is not a regular file", path, ErrFormat)
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	f, err := Open(in, info.Size())
	if err != nil {
		_ = in.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, in, nil
}

func open(r io.ReaderAt, size int64) (*File, error) {
	size = max(size, 0)
	var magic [SniffLen]byte
	if _, err := r.ReadAt(magic[:min(int64(SniffLen), size)], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	f := &File{Format: Detect(magic[:])}
	var err error
	switch f.Format {
	case MSF:
		f.c, err = openMSF(r, size)
	case PDB20:
		f.c, err = openJG(r, size)
	case MSFZ:
		f.c, err = openMSFZ(r, size)
	default:
		return nil, ErrFormat
	}
	if err != nil {
		return nil, err
	}
	f.PageSize, f.Truncated = f.c.pageSize(), f.c.missing()
	if err := f.readInfo(); err != nil {
		return nil, fmt.Errorf("PDB info stream: %w", err)
	}
	if err := f.readDBI(); err != nil {
		return nil, fmt.Errorf("DBI stream: %w", err)
	}
	return f, nil
}

// readInfo reads the start of the info stream.
func (f *File) readInfo() error {
	s, err := f.section(InfoStream)
	if err != nil {
		return err
	}
	var h [28]byte
	if err := readFull(s, h[:12], 0); err != nil {
		return err
	}
	f.Version = binary.LittleEndian.Uint32(h[:])
	f.Signature = binary.LittleEndian.Uint32(h[4:])
	f.InfoAge = binary.LittleEndian.Uint32(h[8:])
	// Versions are dates.
	if f.Version < 19900000 || f.Version > 20991231 {
		return fmt.Errorf("version %d is not known", f.Version)
	}
	if f.Version > maxOldInfo {
		if err := readFull(s, h[12:], 12); err != nil {
			return err
		}
		f.GUID = debugid.FromMicrosoft([16]byte(h[12:]))
	}
	return nil
}

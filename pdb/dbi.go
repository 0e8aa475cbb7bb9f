package pdb

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Flavor is the purpose of a PDB; empty if it is unknown.
type Flavor string

// The flavors.
const (
	Private  Flavor = "private"   // as written by the linker: types, lines, locals
	Public   Flavor = "public"    // names and addresses of functions only
	TypeOnly Flavor = "type-only" // written by a compiler, without symbols of an image
)

// maxModules limits the bytes of module records that are read. The largest
// programs have about 20 MiB of them.
const maxModules = 32 << 20

// maxFileName limits the name of a module or an object file. Windows allows
// 32767 characters.
const maxFileName = 1 << 17

// readDBI reads the header of the DBI stream.
func (f *File) readDBI() error {
	if f.c.count() <= DBIStream {
		f.NoDBI = true
		return nil
	}
	s, err := f.section(DBIStream)
	if err != nil {
		return err
	}
	if s.Size() == 0 {
		f.NoDBI = true
		return nil
	}
	var h [64]byte
	if err := readFull(s, h[:4], 0); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(h[:]) != 0xFFFFFFFF {
		f.OldDBI = true
		return nil
	}
	if err := readFull(s, h[4:], 4); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	u16 := func(off int) uint16 { return binary.LittleEndian.Uint16(h[off:]) }
	u32 := func(off int) uint32 { return binary.LittleEndian.Uint32(h[off:]) }
	f.DBIAge = u32(8)
	f.Stripped = u16(56)&2 != 0
	f.Machine = u16(58)
	f.dbi = dbiHeader{version: u32(4), globals: int(u16(12)), publics: int(u16(16)), record: int(u16(20)), modules: int64(int32(u32(24))),
		contributions: int64(int32(u32(28))), incremental: u16(56)&1 != 0}

	// The parts follow in this order. Their sizes are signed.
	end := int64(64)
	for _, off := range []int{24, 28, 32, 36, 40, 52} {
		n := int64(int32(u32(off)))
		if n < 0 || n > s.Size()-end {
			return fmt.Errorf("header: a part of %d bytes at offset %d of a stream of %d bytes", n, end, s.Size())
		}
		if off == 36 {
			f.dbi.files, f.dbi.filesSize = end, n
		}
		end += n
	}
	f.dbi.optional, f.dbi.optionalSize = end, int64(int32(u32(48)))
	if n := f.dbi.optionalSize; n < 0 || n > s.Size()-end {
		return fmt.Errorf("header: an optional debug header of %d bytes at offset %d of a stream of %d bytes", n, end, s.Size())
	}
	return nil
}

// Flavor distinguishes private, public and type-only PDBs, as SymStore does. It
// reads the head of the type stream and, if that does not decide, module
// records up to the first that has symbols or lines. The sort is empty for
// files of before 1997 that do not show it, and where tens of megabytes of
// module records do not.
func (f *File) Flavor() (Flavor, error) {
	if f.NoDBI {
		return TypeOnly, nil
	}
	if f.Stripped {
		return Public, nil
	}
	types, err := f.types()
	if err != nil {
		return "", fmt.Errorf("pdb: TPI stream: %w", err)
	}
	if types > 0 {
		return Private, nil
	}
	if f.OldDBI || f.dbi.version < dbiV60 {
		return "", nil
	}
	private, err := f.privateModules()
	if err != nil {
		return "", fmt.Errorf("pdb: DBI stream: module records: %w", err)
	}
	if private {
		return Private, nil
	}
	if f.dbi.modules > maxModules {
		return "", nil
	}
	return Public, nil
}

// types returns the number of records in the type stream.
func (f *File) types() (int64, error) {
	if f.c.count() <= TPIStream {
		return 0, nil
	}
	s, err := f.section(TPIStream)
	if err != nil || s.Size() == 0 {
		return 0, err
	}
	var h [16]byte
	if err := readFull(s, h[:], 0); err != nil {
		return 0, err
	}
	// Until 1996 type indexes had 16 bits and the header had no size.
	const lastNarrow = 19960307
	if binary.LittleEndian.Uint32(h[:]) <= lastNarrow {
		return int64(binary.LittleEndian.Uint16(h[6:])) - int64(binary.LittleEndian.Uint16(h[4:])), nil
	}
	return int64(binary.LittleEndian.Uint32(h[12:])) - int64(binary.LittleEndian.Uint32(h[8:])), nil
}

// privateModules reports whether any module has symbols or line numbers. It
// reads the records in order and keeps none of them.
func (f *File) privateModules() (bool, error) {
	s, err := f.section(DBIStream)
	if err != nil {
		return false, err
	}
	r := bufio.NewReaderSize(io.NewSectionReader(s, 64, f.dbi.modules), 4096)
	var h [64]byte
	for done := int64(0); done < maxModules && f.dbi.modules-done >= int64(len(h)); {
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return false, err
		}
		u32 := func(off int) uint32 { return binary.LittleEndian.Uint32(h[off:]) }
		// A module with four bytes of symbols has only their signature.
		if u32(36) > 4 || u32(40) > 0 || u32(44) > 0 {
			return true, nil
		}
		done += int64(len(h))
		for range 2 { // the names of the module and of its object file
			n, err := skipName(r)
			if err != nil {
				return false, err
			}
			done += n
		}
		pad := min(-done&3, f.dbi.modules-done)
		if _, err := r.Discard(int(pad)); err != nil {
			return false, err
		}
		done += pad
	}
	return false, nil
}

// skipName skips a NUL-terminated name and returns its length, including the
// NUL.
func skipName(r *bufio.Reader) (int64, error) {
	n := int64(0)
	for {
		p, err := r.ReadSlice(0)
		n += int64(len(p))
		switch {
		case n > maxFileName:
			return n, fmt.Errorf("a file name of more than %d bytes", maxFileName)
		case err == nil:
			return n, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return n, io.ErrUnexpectedEOF
		}
		return n, err
	}
}

// HasSymtab reports whether the PDB can resolve addresses to functions: it has
// symbol records and an index of the public or the global ones.
func (f *File) HasSymtab() (bool, error) {
	if f.NoDBI || f.OldDBI {
		return false, nil
	}
	if has, err := f.hasBytes(f.dbi.record); err != nil || !has {
		return false, err
	}
	has, err := f.hasBytes(f.dbi.publics)
	if err == nil && !has {
		has, err = f.hasBytes(f.dbi.globals)
	}
	return has, err
}

// HasUnwind reports whether the PDB holds frame data: FPO records of either
// form, which x86 needs. Other processors unwind with tables in the image.
func (f *File) HasUnwind() (bool, error) {
	if f.NoDBI || f.OldDBI {
		return false, nil
	}
	s, err := f.Stream(DBIStream)
	if err != nil {
		return false, err
	}
	for _, i := range []int{optFPO, optNewFPO} {
		n, err := f.optionalNumber(s, i)
		if err != nil {
			return false, fmt.Errorf("pdb: DBI stream: %w", err)
		}
		if has, err := f.hasBytes(n); err != nil || has {
			return has, err
		}
	}
	return false, nil
}

// optionalNumber returns the stream in entry i of the optional debug header of
// the DBI stream s, or noStream.
func (f *File) optionalNumber(s io.ReaderAt, i int) (int, error) {
	if f.dbi.optionalSize < 2*int64(i)+2 {
		return noStream, nil
	}
	var b [2]byte
	if err := readFull(s, b[:], f.dbi.optional+2*int64(i)); err != nil {
		return 0, fmt.Errorf("optional debug header: %w", err)
	}
	return int(binary.LittleEndian.Uint16(b[:])), nil
}

// optionalStream reads the records, each of n bytes, of the stream in entry i
// of the optional debug header. There are none if there is no such stream.
func (f *File) optionalStream(i int, n, most int64) ([]byte, error) {
	s, err := f.section(DBIStream)
	if err != nil {
		return nil, err
	}
	number, err := f.optionalNumber(s, i)
	if err != nil || number == noStream {
		return nil, err
	}
	if s, err = f.section(number); err != nil {
		return nil, err
	}
	if s.Size()/n > most {
		return nil, fmt.Errorf("%d records are more than the limit of %d", s.Size()/n, most)
	}
	b := make([]byte, s.Size()/n*n)
	return b, readFull(s, b, 0)
}

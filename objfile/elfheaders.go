package objfile

import "slices"

// ELFSectionHeader is the header of a section of an ELF file.
type ELFSectionHeader struct {
	Name                    string
	Type, Link, Info        uint32
	Flags, Address          uint64
	Offset, Size, EntrySize uint64
	Align                   uint64
}

// InFile reports whether the file has bytes of the section.
func (s ELFSectionHeader) InFile() bool { return elfSection{typ: s.Type, size: s.Size}.hasContents() }

// ELFProgramHeader is a program header of an ELF file.
type ELFProgramHeader struct {
	Type, Flags         uint32
	Offset, FileSize    uint64
	Address, MemorySize uint64
	Align               uint64
}

// Type returns the type of the file, such as 2 for a program that is not relocatable, as the gABI
// numbers them.
func (e *ELFFile) Type() uint16 { return e.f.typ }

// Core reports whether the file is a core dump.
func (e *ELFFile) Core() bool { return e.f.typ == elfCore }

// ProgramHeaders returns the program headers in the order of the file.
func (e *ELFFile) ProgramHeaders() []ELFProgramHeader {
	out := make([]ELFProgramHeader, len(e.f.segs))
	for i, s := range e.f.segs {
		out[i] = ELFProgramHeader{s.typ, s.flags, s.off, s.filesize, s.vaddr, s.memsize, s.align}
	}
	return out
}

// SectionHeaders returns the headers of all sections, also of section 0, by their numbers. Sections
// with bytes in the file are within it.
func (e *ELFFile) SectionHeaders() []ELFSectionHeader {
	out := make([]ELFSectionHeader, 0, len(e.f.secs))
	for _, s := range e.f.secs {
		out = append(out, ELFSectionHeader{
			Name: string(e.f.name(s)), Type: s.typ, Link: s.link, Info: s.info, Flags: s.flags, Address: s.addr,
			Offset: s.off, Size: s.size, EntrySize: s.entsize, Align: s.align,
		})
	}
	return slices.Clip(out)
}

// SectionNames returns the number of the section that has the names of the sections, or 0.
func (e *ELFFile) SectionNames() uint64 { return e.f.shstrndx }

// IsMappingSymbol reports whether a symbol of an ELF file marks code and data for disassemblers: $a,
// $d, $t, $x.
func IsMappingSymbol(name []byte) bool { return isMappingSymbol(name) }

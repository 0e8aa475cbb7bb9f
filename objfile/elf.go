package objfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/dwarf"
	"github.com/symdepot/symdepot/symfile"
)

// Numbers of the ELF format (System V gABI) and of the PlayStation toolchain.
const (
	elfRel, elfExec, elfDyn, elfCore = 1, 2, 3, 4
	elfPSExec, elfPSDynExec          = 0xfe00, 0xfe10
	elfPSDyn                         = 0xfe18

	segLoad, segInterp, segNote = 1, 3, 4
	segEHFrame                  = 0x6474e550
	segPSDynlibData             = 0x61000000

	secNull, secProgbits, secSymtab, secNote = 0, 1, 2, 7
	secNobits, secDynsym                     = 8, 11

	secAlloc      = 0x2
	secCompressed = 0x800

	symFunc, symIFunc = 2, 10
)

// Limits of the ELF reader.
const (
	maxELFSegments  = 1 << 13
	maxELFSections  = 1 << 17 // 64 bytes of memory each
	maxELFNames     = 2 << 20 // bytes of section names
	maxInterp       = 4096
	minBuildID      = 2
	textHashLength  = 4096
	elfChunk        = 64 << 10
	maxInflateRatio = 1032 // the highest ratio of deflate; limits the claimed sizes of sections
)

type elfSegment struct {
	typ, flags     uint32
	off, filesize  uint64
	vaddr, memsize uint64
	align          uint64
}

type elfSection struct {
	name, typ, link, info uint32
	flags, addr           uint64
	off, size, entsize    uint64
	align                 uint64
}

// elfFile has the headers of an ELF file. Sections and their names are read on
// demand.
type elfFile struct {
	b            *budget
	order        binary.ByteOrder
	is64         bool
	typ, machine uint16
	eflags       uint32
	shoff        uint64
	shnum        uint64 // 0: no section headers
	shstrndx     uint64
	segs         []elfSegment
	secs         []elfSection // nil until loadSections
	names        []byte       // nil until loadNames
}

// identifyELF returns the object of an ELF file. Reading the ids is charged to
// the given budget, reading sections to the feature budget.
func identifyELF(b *budget, name string) ([]Object, error) {
	f, err := openELF(b)
	if err != nil {
		return nil, err
	}
	if f.typ == elfCore {
		return nil, notSymbol("an ELF core dump")
	}
	o := Object{Arch: f.arch(), Size: b.size}
	o.Kind, o.Name = symfile.ELF, name
	id, err := f.buildID()
	if err != nil {
		return nil, f.fail(err)
	}
	o.BuildID, o.CodeID = id, string(id)
	o.DebugID = id.DebugID(f.order == binary.LittleEndian)
	if id == "" {
		if o.DebugID, err = f.textID(); err != nil {
			return nil, f.fail(err)
		}
	}
	b.allowFeatures()
	if err := f.describe(&o); err != nil {
		return nil, f.fail(err)
	}
	return []Object{o}, nil
}

// fail converts a parse error into one about the file, unless reading itself
// failed.
func (f *elfFile) fail(err error) error {
	if errors.Is(err, ErrBroken) || f.b.err != nil {
		return err
	}
	return broken("ELF: %w", err)
}

// openELF reads the file header and the program headers.
func openELF(b *budget) (*elfFile, error) {
	f := &elfFile{b: b, order: binary.LittleEndian}
	ident, err := b.bytes(0, 16)
	if err != nil {
		return nil, f.fail(err)
	}
	if string(ident[:4]) != "\x7fELF" {
		return nil, notSymbol("no ELF magic")
	}
	if ident[4] != 1 && ident[4] != 2 {
		return nil, broken("ELF: class %d is neither 1 (32-bit) nor 2 (64-bit)", ident[4])
	}
	if ident[5] != 1 && ident[5] != 2 {
		return nil, broken("ELF: unknown byte order %d", ident[5])
	}
	f.is64 = ident[4] == 2
	if ident[5] == 2 {
		f.order = binary.BigEndian
	}
	headerSize := int64(52)
	if f.is64 {
		headerSize = 64
	}
	h, err := b.bytes(0, headerSize)
	if err != nil {
		return nil, f.fail(err)
	}
	f.typ, f.machine = f.order.Uint16(h[16:]), f.order.Uint16(h[18:])
	var phoff uint64
	if f.is64 {
		phoff, f.shoff = f.order.Uint64(h[32:]), f.order.Uint64(h[40:])
		f.eflags = f.order.Uint32(h[48:])
		h = h[54:]
	} else {
		phoff, f.shoff = uint64(f.order.Uint32(h[28:])), uint64(f.order.Uint32(h[32:]))
		f.eflags = f.order.Uint32(h[36:])
		h = h[42:]
	}
	phentsize, phnum := f.order.Uint16(h), uint64(f.order.Uint16(h[2:]))
	shentsize := f.order.Uint16(h[4:])
	f.shnum, f.shstrndx = uint64(f.order.Uint16(h[6:])), uint64(f.order.Uint16(h[8:]))
	if err := f.fixCounts(shentsize, &phnum); err != nil {
		return nil, f.fail(err)
	}
	if err := f.readSegments(phoff, phentsize, phnum); err != nil {
		return nil, f.fail(err)
	}
	return f, nil
}

// fixCounts checks the position of the section headers, and reads from section
// 0 the counts that exceed the fields of the file header.
func (f *elfFile) fixCounts(shentsize uint16, phnum *uint64) error {
	if f.shoff == 0 {
		f.shnum = 0
		return nil
	}
	if f.shnum == 0 || *phnum == 0xffff || f.shstrndx == 0xffff {
		if f.shnum == 0 && int(shentsize) != f.shentsize() {
			return nil // a file without sections and a stale offset
		}
		p := make([]byte, f.shentsize())
		if err := f.fill(p, f.shoff); err != nil {
			return fmt.Errorf("section header 0: %w", err)
		}
		first := f.section(p)
		if f.shnum == 0 {
			f.shnum = first.size
		}
		if *phnum == 0xffff {
			*phnum = uint64(first.info)
		}
		if f.shstrndx == 0xffff {
			f.shstrndx = uint64(first.link)
		}
	}
	if f.shnum == 0 {
		return nil
	}
	if int(shentsize) != f.shentsize() {
		return broken("ELF: section headers of %d bytes", shentsize)
	}
	if f.shnum > maxELFSections {
		return broken("ELF: %d sections", f.shnum)
	}
	if !f.inFile(f.shoff, f.shnum*uint64(shentsize)) {
		return broken("ELF: the section headers lie outside the file of %d bytes", f.b.size)
	}
	return nil
}

func (f *elfFile) shentsize() int {
	if f.is64 {
		return 64
	}
	return 40
}

func (f *elfFile) readSegments(phoff uint64, phentsize uint16, phnum uint64) error {
	if phoff == 0 || phnum == 0 {
		return nil
	}
	size := 32
	if f.is64 {
		size = 56
	}
	if int(phentsize) != size {
		return broken("ELF: program headers of %d bytes", phentsize)
	}
	if phnum > maxELFSegments {
		return broken("ELF: %d program headers", phnum)
	}
	p, err := f.b.bytes(int64(min(phoff, math.MaxInt64)), int64(phnum)*int64(size))
	if err != nil {
		return fmt.Errorf("program headers: %w", err)
	}
	f.segs = make([]elfSegment, phnum)
	for i := range f.segs {
		h, s := p[i*size:], &f.segs[i]
		s.typ = f.order.Uint32(h)
		if f.is64 {
			s.flags, s.vaddr, s.memsize = f.order.Uint32(h[4:]), f.order.Uint64(h[16:]), f.order.Uint64(h[40:])
			s.off, s.filesize, s.align = f.order.Uint64(h[8:]), f.order.Uint64(h[32:]), f.order.Uint64(h[48:])
		} else {
			s.flags, s.vaddr, s.memsize = f.order.Uint32(h[24:]), uint64(f.order.Uint32(h[8:])), uint64(f.order.Uint32(h[20:]))
			s.off, s.filesize, s.align = uint64(f.order.Uint32(h[4:])), uint64(f.order.Uint32(h[16:])), uint64(f.order.Uint32(h[28:]))
		}
	}
	return nil
}

// section decodes one section header.
func (f *elfFile) section(h []byte) elfSection {
	u := f.order.Uint32
	s := elfSection{name: u(h), typ: u(h[4:])}
	if f.is64 {
		q := f.order.Uint64
		s.flags, s.addr, s.off, s.size, s.link, s.info, s.entsize = q(h[8:]), q(h[16:]), q(h[24:]), q(h[32:]), u(h[40:]), u(h[44:]), q(h[56:])
		s.align = q(h[48:])
	} else {
		s.flags, s.addr, s.off, s.size = uint64(u(h[8:])), uint64(u(h[12:])), uint64(u(h[16:])), uint64(u(h[20:]))
		s.link, s.info, s.align, s.entsize = u(h[24:]), u(h[28:]), uint64(u(h[32:])), uint64(u(h[36:]))
	}
	return s
}

// loadSections reads all section headers, once. A section outside the file
// means that the file is broken, for example by an interrupted download.
func (f *elfFile) loadSections() error {
	if f.secs != nil || f.shnum == 0 {
		return nil
	}
	size := uint64(f.shentsize())
	if int64(f.shnum*size) > f.b.left {
		return fmt.Errorf("%d section headers: %w", f.shnum, errBudget)
	}
	secs := make([]elfSection, 0, f.shnum)
	buf := make([]byte, min(f.shnum, elfChunk/size)*size)
	for i := uint64(0); i < f.shnum; {
		n := min(f.shnum-i, elfChunk/size)
		p := buf[:n*size]
		if err := f.fill(p, f.shoff+i*size); err != nil {
			return fmt.Errorf("section headers: %w", err)
		}
		for ; len(p) > 0; p = p[size:] {
			s := f.section(p)
			if s.hasContents() && !f.inFile(s.off, s.size) {
				return broken("ELF: section %d of %d bytes at offset %d lies outside the file of %d bytes", len(secs), s.size, s.off, f.b.size)
			}
			secs = append(secs, s)
		}
		i += n
	}
	f.secs = secs
	return nil
}

// hasContents reports whether the section has bytes in the file.
func (s elfSection) hasContents() bool {
	return s.typ != secNull && s.typ != secNobits && s.size > 0
}

// loadNames reads the table of section names, once. The sections must be
// loaded. Without that table all names are empty.
func (f *elfFile) loadNames() error {
	if f.names != nil || f.shstrndx == 0 || f.shstrndx >= uint64(len(f.secs)) {
		return nil
	}
	s := f.secs[f.shstrndx]
	if !s.hasContents() {
		return nil
	}
	if s.size > maxELFNames {
		return fmt.Errorf("%d bytes of section names: %w", s.size, errBudget)
	}
	var err error
	f.names, err = f.b.bytes(int64(s.off), int64(s.size))
	return err
}

// name returns the name of a section, or nothing if the file has none. It
// avoids a string because hostile files have 100,000 sections with long names.
func (f *elfFile) name(s elfSection) []byte {
	if uint64(s.name) >= uint64(len(f.names)) {
		return nil
	}
	n := f.names[s.name:]
	n = n[:min(len(n), 256)]
	if i := bytes.IndexByte(n, 0); i >= 0 {
		n = n[:i]
	}
	return n
}

// inFile reports whether n bytes at off are within the file.
func (f *elfFile) inFile(off, n uint64) bool {
	size := uint64(f.b.size)
	return off <= size && n <= size-off
}

// fill reads all of p from off.
func (f *elfFile) fill(p []byte, off uint64) error {
	if !f.inFile(off, uint64(len(p))) {
		return broken("ELF: %d bytes at offset %d lie outside the file of %d bytes", len(p), off, f.b.size)
	}
	_, err := f.b.ReadAt(p, int64(off))
	return err
}

// buildID returns the GNU build-id. It searches the note segments, which remain
// when section headers are stripped, then the note sections, where relocatable
// files have it, then the segment of the PlayStation. The id of a supplementary
// file of DWARF 5, which has no notes, is its checksum.
func (f *elfFile) buildID() (debugid.BuildID, error) {
	for _, s := range f.segs {
		if s.typ == segNote && f.inFile(s.off, s.filesize) {
			if id, err := f.findNote(s.off, s.filesize, s.align); id != "" || err != nil {
				return id, err
			}
		}
	}
	if err := f.loadSections(); err != nil {
		return "", err
	}
	for _, s := range f.secs {
		if s.typ == secNote && s.hasContents() {
			// Only .note.gnu.property is aligned to 8 bytes, and it has no id.
			if id, err := f.findNote(s.off, s.size, 4); id != "" || err != nil {
				return id, err
			}
		}
	}
	for _, s := range f.segs {
		if s.typ == segPSDynlibData && s.filesize >= 20 && f.inFile(s.off, 20) {
			p := make([]byte, 20)
			err := f.fill(p, s.off)
			return debugid.NewBuildID(p), err
		}
	}
	if len(f.segs) > 0 {
		return "", nil
	}
	sup, _, id, err := f.supplementary()
	if errors.Is(err, errBudget) || errors.Is(err, fs.ErrNotExist) || !sup {
		return "", nil // more names than the limit, or no such file
	}
	return id, err
}

// maxSup is the largest .debug_sup that is read: a path and a checksum.
const maxSup = 4096

// supplementary reads .debug_sup (DWARF 5, section 7.3.6): whether the file is a
// supplementary one, or else the path of the one that it needs, and in both cases the
// checksum. The error wraps fs.ErrNotExist if there is none that can be used.
func (f *elfFile) supplementary() (sup bool, path string, id debugid.BuildID, err error) {
	if err := f.loadNames(); err != nil {
		return false, "", "", err
	}
	i := slices.IndexFunc(f.secs, func(s elfSection) bool { return s.hasContents() && string(f.name(s)) == ".debug_sup" })
	if i < 0 || f.secs[i].size < 5 || f.secs[i].size > maxSup {
		return false, "", "", fs.ErrNotExist
	}
	p := make([]byte, f.secs[i].size)
	if err := f.fill(p, f.secs[i].off); err != nil {
		return false, "", "", err
	}
	name, rest, ok := bytes.Cut(p[3:], []byte{0})
	n, used := binary.Uvarint(rest)
	if !ok || used <= 0 || n < minBuildID || n > debugid.MaxBuildID || n > uint64(len(rest)-used) {
		return false, "", "", fs.ErrNotExist
	}
	return p[2] != 0, string(name), debugid.NewBuildID(rest[used : used+int(n)]), nil
}

// findNote searches the notes in size bytes at off for the GNU build-id.
// Linkers omit the padding of the last note. Ids of a length that no client can
// send do not count.
func (f *elfFile) findNote(off, size, align uint64) (debugid.BuildID, error) {
	if align != 8 {
		align = 4
	}
	var h [16]byte // the header and the name "GNU\0"
	for end := off + size; end-off >= uint64(len(h)); {
		if err := f.fill(h[:], off); err != nil {
			return "", err
		}
		namesz, descsz := uint64(f.order.Uint32(h[0:])), uint64(f.order.Uint32(h[4:]))
		desc := alignUp(12+namesz, align)
		if desc+descsz > end-off {
			return "", nil
		}
		if namesz == 4 && f.order.Uint32(h[8:]) == 3 && string(h[12:]) == "GNU\x00" && descsz >= minBuildID && descsz <= debugid.MaxBuildID {
			id := make([]byte, descsz)
			err := f.fill(id, off+desc)
			return debugid.NewBuildID(id), err
		}
		next := alignUp(desc+descsz, align)
		if next > end-off {
			return "", nil
		}
		off += next
	}
	return "", nil
}

func alignUp(n, align uint64) uint64 { return (n + align - 1) / align * align }

// textID returns the debug id of a file without a build-id: the XOR of the
// first bytes of its code, as symbolic computes it. (Breakpad reads beyond a
// section whose size is not a multiple of 16.) It is zero for a file without
// code, such as separate debug information.
func (f *elfFile) textID() (debugid.ID, error) {
	if err := f.loadNames(); errors.Is(err, errBudget) {
		return debugid.ID{}, nil // an object file with more names than the limit; it has no id anyway
	} else if err != nil {
		return debugid.ID{}, err
	}
	s, ok := f.text()
	if !ok {
		return debugid.ID{}, nil
	}
	p := make([]byte, min(s.size, textHashLength))
	if err := f.fill(p, s.off); err != nil {
		return debugid.ID{}, err
	}
	var hash [16]byte
	for i, c := range p {
		hash[i%16] ^= c
	}
	return debugid.NewBuildID(hash[:]).DebugID(f.order == binary.LittleEndian), nil
}

// text returns the section .text if it has bytes in the file.
func (f *elfFile) text() (elfSection, bool) {
	for _, s := range f.secs {
		if s.typ != secNobits && s.off != 0 && string(f.name(s)) == ".text" {
			return s, true
		}
	}
	return elfSection{}, false
}

// describe sets the roles and the features of an object.
func (f *elfFile) describe(o *Object) error {
	interp, err := f.hasInterp()
	if err != nil {
		return err
	}
	program := f.typ == elfExec || f.typ == elfPSExec || f.typ == elfPSDynExec
	library := f.typ == elfDyn || f.typ == elfPSDyn
	o.Main = program || library && interp
	err = f.loadSections()
	if err == nil {
		err = f.loadNames()
	}
	var hasText bool
	switch {
	case errors.Is(err, errBudget):
		o.Features.Unknown = true
		err = f.describeSegments(o, program || library)
		hasText = o.Role&symfile.Executable != 0
	case err != nil:
	case len(f.secs) == 0:
		err = f.describeSegments(o, program || library)
		o.Features.NoSections = o.Role&symfile.Executable != 0
	default:
		f.describeSections(o, program || library)
		_, hasText = f.text()
	}
	// This is how symbolic recognizes a debug companion: an executable without
	// its interpreter, or a library without code. It counts static programs and
	// files without section headers, too.
	o.DebugCompanion = program && !interp || library && !hasText
	return err
}

// hasInterp reports whether the file has an interpreter, by the rule of
// symbolic: in a separate debug file the segment is empty or covers other
// bytes.
func (f *elfFile) hasInterp() (bool, error) {
	for _, s := range f.segs {
		if s.typ != segInterp || s.filesize == 0 || !f.inFile(s.off, s.filesize) {
			continue
		}
		p := make([]byte, min(s.filesize-1, maxInterp))
		if err := f.fill(p, s.off); err != nil {
			return false, err
		}
		return utf8.Valid(p), nil
	}
	return false, nil
}

// describeSegments sets the features of a file without section headers.
func (f *elfFile) describeSegments(o *Object, image bool) error {
	for _, s := range f.segs {
		if s.filesize == 0 || s.typ != segLoad && s.typ != segEHFrame {
			continue
		}
		if !f.inFile(s.off, s.filesize) {
			return broken("ELF: a segment of %d bytes at offset %d lies outside the file of %d bytes", s.filesize, s.off, f.b.size)
		}
		if s.typ == segEHFrame {
			o.Features.Unwind = true
		} else if image {
			o.Role |= symfile.Executable
		}
	}
	return nil
}

// describeSections sets the features of a file from its sections.
func (f *elfFile) describeSections(o *Object, image bool) {
	var found sectionKinds
	for _, s := range f.secs {
		if !s.hasContents() {
			continue
		}
		if s.flags&secAlloc != 0 {
			found.code = found.code || s.typ == secProgbits
			found.contents = found.contents || s.typ != secNote
		}
		name := f.name(s)
		if hasPrefix(name, ".debug_") || hasPrefix(name, ".zdebug_") {
			found.debug = true
			found.split = found.split || bytes.HasSuffix(name, []byte(".dwo"))
			o.DebugSize = addSize(o.DebugSize, f.inflatedSize(s, name, &o.Features))
		}
		switch string(name) {
		case ".debug_info", ".zdebug_info", ".debug_info.dwo", ".zdebug_info.dwo":
			o.Features.Debug = true
		case ".eh_frame", ".debug_frame", ".zdebug_frame", ".ARM.exidx":
			o.Features.Unwind = true
		case ".gnu_debugdata": // a compressed ELF file with a symbol table
			o.Features.Symtab = true
		}
		if s.typ == secSymtab || s.typ == secDynsym {
			found.symtab = found.symtab || s.typ == secSymtab
			if !o.Features.Symtab && !o.Features.Unknown {
				functions, err := f.hasFunctions(s)
				o.Features.Symtab = functions
				o.Features.Unknown = err != nil
			}
		}
	}
	f.setRole(o, image, found)
}

// sectionKinds says which sections a file has.
type sectionKinds struct {
	code, contents bool // in memory: code, anything but notes
	debug, split   bool // DWARF, split DWARF
	symtab         bool // the full symbol table
}

// setRole sets the role of a file from the sections that were found.
func (f *elfFile) setRole(o *Object, image bool, found sectionKinds) {
	if image && found.code {
		o.Role |= symfile.Executable
	}
	// A separate file may contain the symbol table only.
	if found.debug || found.symtab && !found.contents {
		o.Role |= symfile.Debug
	}
	if f.typ == elfRel && o.BuildID == "" && !found.split {
		o.Role = 0 // compiler output before linking: no client asks for it
	}
	if found.split && o.Role == symfile.Debug {
		o.Hash = f.splitID()
	}
}

// maxSplitSection is the largest compressed section that splitID decompresses.
const maxSplitSection = 16 << 20

// splitID returns the key of a file with split DWARF: the lowest id of its units,
// as the programs have them. It is empty if the file has none within the limits.
func (f *elfFile) splitID() string {
	get := func(name string) (dwarf.Section, error) {
		switch name {
		case "debug_info.dwo", "debug_abbrev.dwo", "debug_str.dwo", "debug_str_offsets.dwo", "debug_cu_index":
		default:
			return nil, fs.ErrNotExist
		}
		for _, s := range f.secs {
			if s.hasContents() && string(f.name(s)) == "."+name {
				d, err := f.open(f.b, s, nil, SectionOptions{Limit: maxSplitSection})
				if err != nil {
					return nil, err
				}
				return d, nil
			}
		}
		return nil, fs.ErrNotExist
	}
	ids, packed, err := dwarf.SplitIDs(context.Background(), get, f.order, 1)
	switch {
	case err != nil:
		return ""
	case packed:
		return symfile.PackageID(ids[0])
	}
	return symfile.SplitID(ids[0])
}

// hasFunctions reports whether a symbol table defines a function. That of a
// .dwo file, for example, has section symbols only.
func (f *elfFile) hasFunctions(s elfSection) (bool, error) {
	size := uint64(16)
	if f.is64 {
		size = 24
	}
	end := s.size / size * size
	buf := make([]byte, min(elfChunk/size*size, end))
	for off := uint64(0); off < end; off += uint64(len(buf)) {
		buf = buf[:min(uint64(len(buf)), end-off)]
		if err := f.fill(buf, s.off+off); err != nil {
			return false, err
		}
		for p := buf; len(p) > 0; p = p[size:] {
			info, shndx := p[12], f.order.Uint16(p[14:])
			if f.is64 {
				info, shndx = p[4], f.order.Uint16(p[6:])
			}
			if t := info & 0xf; (t == symFunc || t == symIFunc) && shndx != 0 {
				return true, nil
			}
		}
	}
	return false, nil
}

// inflatedSize returns the size of a debug section after decompression. For a
// compressed section this is a claim of its header, and so it is capped.
func (f *elfFile) inflatedSize(s elfSection, name []byte, features *Features) uint64 {
	claim := s.size
	switch {
	case s.flags&secCompressed != 0:
		p := make([]byte, 16)
		if s.size < 24 {
			return s.size
		}
		if err := f.fill(p, s.off); err != nil {
			features.Unknown = true
			return s.size
		}
		claim = uint64(f.order.Uint32(p[4:]))
		if f.is64 {
			claim = f.order.Uint64(p[8:])
		}
	case hasPrefix(name, ".zdebug_"):
		p := make([]byte, 12)
		if s.size < 12 {
			return s.size
		}
		if err := f.fill(p, s.off); err != nil {
			features.Unknown = true
			return s.size
		}
		claim = zdebugSize(p, s.size)
	}
	return capInflated(claim, s.size)
}

// zdebugSize returns the inflated size of a section in GNU's old compressed
// form. h is its beginning. The result is size if the section is not
// compressed.
func zdebugSize(h []byte, size uint64) uint64 {
	if len(h) < 12 || string(h[:4]) != "ZLIB" {
		return size
	}
	return capInflated(binary.BigEndian.Uint64(h[4:]), size)
}

// capInflated limits a claimed size to what size bytes can inflate to.
func capInflated(claim, size uint64) uint64 {
	if size > math.MaxInt64/maxInflateRatio {
		return size
	}
	return min(claim, size*maxInflateRatio)
}

func hasPrefix(name []byte, prefix string) bool {
	return len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix
}

// addSize adds without overflow, because sections may overlap.
func addSize(sum int64, n uint64) int64 {
	if n > uint64(math.MaxInt64-sum) {
		return math.MaxInt64
	}
	return sum + int64(n)
}

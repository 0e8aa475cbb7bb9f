package dump

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/symdepot/symdepot/debugid"
)

// identify reads the ids in the image at m.Base in memory. It reports whether
// there is an image of a known kind.
func (mem *memory) identify(m *Module) bool {
	var magic [4]byte
	if mem.readAt(magic[:], m.Base) < len(magic) {
		return false
	}
	switch {
	case string(magic[:]) == "\x7fELF":
		return mem.elf(m)
	case string(magic[:2]) == "MZ":
		return mem.pe(m)
	}
	return false
}

// Limits of one image in memory. Real images have about ten of each.
const (
	maxImageSegments = 256
	maxOptional      = 1024 // bytes of a PE optional header
	maxDynamic       = 512
	maxDebugEntries  = 32
	maxSections      = 96
)

// Numbers of the ELF format (System V gABI).
const (
	elfTypeExec, elfTypeDyn, elfTypeCore        = 2, 3, 4
	segLoad, segDynamic, segNote                = 1, 2, 4
	noteBuildID                                 = 3
	dynStrtab, dynStrsz, dynSoname              = 5, 10, 14
	segExecutable                        uint32 = 1
)

// elfHeader has the needed fields of an ELF file header.
type elfHeader struct {
	order    binary.ByteOrder
	is64     bool
	osabi    byte
	typ      uint16
	machine  uint16
	phoff    uint64
	phnum    uint16
	shoff    uint64
	phentlen int // expected size of an entry; e_phentsize must be equal
}

// parseELF parses the file header. p has at least 64 bytes, or 52 for a small
// file.
func parseELF(p []byte) (h elfHeader, ok bool) {
	if len(p) < 52 || string(p[:4]) != "\x7fELF" || p[4] != 1 && p[4] != 2 || p[5] != 1 && p[5] != 2 {
		return h, false
	}
	h.is64, h.osabi, h.order = p[4] == 2, p[7], binary.LittleEndian
	if p[5] == 2 {
		h.order = binary.BigEndian
	}
	h.typ, h.machine = h.order.Uint16(p[16:]), h.order.Uint16(p[18:])
	var entry uint16
	if h.is64 {
		if len(p) < 64 {
			return h, false
		}
		h.phoff, h.shoff, h.phentlen = h.order.Uint64(p[32:]), h.order.Uint64(p[40:]), 56
		entry, h.phnum = h.order.Uint16(p[54:]), h.order.Uint16(p[56:])
	} else {
		h.phoff, h.shoff, h.phentlen = uint64(h.order.Uint32(p[28:])), uint64(h.order.Uint32(p[32:])), 32
		entry, h.phnum = h.order.Uint16(p[42:]), h.order.Uint16(p[44:])
	}
	return h, h.phnum == 0 || int(entry) == h.phentlen
}

// word reads an address or a size.
func (h *elfHeader) word(p []byte) uint64 {
	if h.is64 {
		return h.order.Uint64(p)
	}
	return uint64(h.order.Uint32(p))
}

// wordSize is the length of an address in bytes.
func (h *elfHeader) wordSize() int {
	if h.is64 {
		return 8
	}
	return 4
}

// segment is one program header.
type segment struct {
	typ, flags                        uint32
	off, vaddr, filesz, memsz, aligns uint64
}

func (h *elfHeader) segment(p []byte) segment {
	s := segment{typ: h.order.Uint32(p)}
	if h.is64 {
		s.flags = h.order.Uint32(p[4:])
		s.off, s.vaddr = h.order.Uint64(p[8:]), h.order.Uint64(p[16:])
		s.filesz, s.memsz, s.aligns = h.order.Uint64(p[32:]), h.order.Uint64(p[40:]), h.order.Uint64(p[48:])
		return s
	}
	s.off, s.vaddr, s.filesz, s.memsz, s.aligns = h.word(p[4:]), h.word(p[8:]), h.word(p[16:]), h.word(p[20:]), h.word(p[28:])
	s.flags = h.order.Uint32(p[24:])
	return s
}

// elf reads the build-id of the ELF image at m.Base, its size and, if the
// module has no path, its soname.
func (mem *memory) elf(m *Module) bool {
	p := make([]byte, 64)
	h, ok := parseELF(p[:mem.readAt(p, m.Base)])
	if !ok || h.typ != elfTypeExec && h.typ != elfTypeDyn || h.phnum == 0 || h.phnum > maxImageSegments {
		return false
	}
	table := mem.bytes(m.Base+h.phoff, int(h.phnum)*h.phentlen)
	if table == nil {
		return false
	}
	var segs []segment
	low, high := ^uint64(0), uint64(0)
	for ; len(table) > 0; table = table[h.phentlen:] {
		s := h.segment(table)
		segs = append(segs, s)
		if s.typ == segLoad && s.vaddr+s.memsz >= s.vaddr {
			// The header is at the start of the page of the first segment.
			low, high = min(low, s.vaddr-s.off%4096), max(high, s.vaddr+s.memsz)
		}
	}
	if low >= high {
		return false
	}
	if m.Size == 0 {
		m.Size = high - low
	}
	bias := m.Base - low
	for _, s := range segs {
		if s.typ == segNote && m.BuildID == "" {
			m.BuildID = mem.note(&h, bias+s.vaddr, s)
		}
	}
	for _, s := range segs {
		if s.typ == segDynamic && m.Path == "" {
			m.setPath(mem.soname(&h, bias, s), "linux")
		}
	}
	return true
}

// note searches the notes at addr for the build-id.
func (mem *memory) note(h *elfHeader, addr uint64, s segment) debugid.BuildID {
	p := mem.available(addr, s.filesz)
	align := uint64(4)
	if s.aligns == 8 {
		align = 8
	}
	for len(p) >= 12 {
		nameLen, descLen, typ := uint64(h.order.Uint32(p)), uint64(h.order.Uint32(p[4:])), h.order.Uint32(p[8:])
		desc := alignUp(12+nameLen, align)
		if end := desc + descLen; end > uint64(len(p)) {
			break
		}
		if typ == noteBuildID && string(p[12:12+nameLen]) == "GNU\x00" && descLen > 0 {
			return debugid.NewBuildID(p[desc : desc+min(descLen, debugid.MaxBuildID)])
		}
		p = p[min(alignUp(desc+descLen, align), uint64(len(p))):]
	}
	return ""
}

func alignUp(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }

// soname reads DT_SONAME of an image without a path: the kernel's code page,
// and all libraries in a core without a list of files.
func (mem *memory) soname(h *elfHeader, bias uint64, s segment) string {
	w := h.wordSize()
	p := mem.available(bias+s.vaddr, min(s.memsz, uint64(maxDynamic*2*w)))
	var table, size, name uint64
	var named bool
	for ; len(p) >= 2*w; p = p[2*w:] {
		switch v := h.word(p[w:]); h.word(p) {
		case dynStrtab:
			table = v
		case dynStrsz:
			size = v
		case dynSoname:
			name, named = v, true
		}
	}
	if !named || name >= size {
		return ""
	}
	// The loader makes the address absolute, except in the kernel's code page.
	for _, at := range [2]uint64{table, table + bias} {
		if text := mem.available(at+name, min(size-name, 256)); bytes.IndexByte(text, 0) > 0 {
			s := cString(text)
			if mem.s.keep(s) != nil {
				return ""
			}
			return s
		}
	}
	return ""
}

// pe reads the PE image at m.Base: its code id and, from its debug directory,
// the PDBs. A .NET assembly may have the layout of its file in memory instead
// of that in its headers.
func (mem *memory) pe(m *Module) bool { return mem.peHeaders(m, m.Base, false) }

// peSection reads the PE image at m.Base, of which the dump has the first page only where a section
// at addr begins: the loader of .NET on other systems than Windows maps whole pages of the file, and
// the kernel leaves out those that were not written to. It reports whether addr is that of a section
// of this image.
func (mem *memory) peSection(m *Module, addr uint64) bool { return mem.peHeaders(m, addr, true) }

// peHeaders reads the PE image at m.Base, whose headers are at head: those of its first page, or of a
// section.
func (mem *memory) peHeaders(m *Module, head uint64, section bool) bool {
	p := mem.bytes(head, 64)
	if p == nil {
		return false
	}
	at := head + uint64(binary.LittleEndian.Uint32(p[60:]))
	p = mem.bytes(at, 24)
	if p == nil || string(p[:4]) != "PE\x00\x00" {
		return false
	}
	le := binary.LittleEndian
	sections, stamp, optSize := int(le.Uint16(p[6:])), le.Uint32(p[8:]), int(le.Uint16(p[20:]))
	if optSize < 96 || optSize > maxOptional || sections > maxSections {
		return false
	}
	opt := mem.bytes(at+24, optSize)
	if opt == nil {
		return false
	}
	dirs := 96
	switch le.Uint16(opt) {
	case 0x10b:
	case 0x20b:
		dirs = 112
	default:
		return false
	}
	table := at + 24 + uint64(optSize)
	if section && !mem.mapsHeaders(table, sections, head-m.Base) {
		return false
	}
	if m.Code.IsZero() {
		m.Code = debugid.PE{TimeDateStamp: stamp, SizeOfImage: le.Uint32(opt[56:])}
	}
	if m.Size == 0 {
		m.Size = uint64(le.Uint32(opt[56:]))
	}
	if len(opt) < dirs+7*8 || le.Uint32(opt[dirs-4:]) < 7 {
		return true
	}
	rva, size := le.Uint32(opt[dirs+48:]), le.Uint32(opt[dirs+52:])
	found := mem.debugDirectory(m.Base, uint64(rva), size)
	if len(found) == 0 && !section {
		if off, ok := mem.fileOffset(table, sections, rva); ok {
			found = mem.debugDirectory(m.Base, off, size)
		}
	}
	m.merge(found)
	return true
}

// mapsHeaders reports whether a section, by the section table at addr, is mapped with what is before it
// in the file, so that the file begins at an address from the start of the image.
func (mem *memory) mapsHeaders(addr uint64, sections int, at uint64) bool {
	table := mem.bytes(addr, sections*40)
	for ; len(table) > 0; table = table[40:] {
		start, off := binary.LittleEndian.Uint32(table[12:]), binary.LittleEndian.Uint32(table[20:])
		if start >= off && at == uint64(start-off) {
			return true
		}
	}
	return false
}

// merge adds the records of an image's debug directory, which is more complete
// than the list in a minidump.
func (m *Module) merge(found []Debug) {
	for _, d := range m.Debug {
		if !slices.ContainsFunc(found, func(f Debug) bool { return f.ID.GUID == d.ID.GUID }) {
			found = append(found, d)
		}
	}
	m.Debug = found
}

// fileOffset converts rva to an offset in the file by the section table at
// addr.
func (mem *memory) fileOffset(addr uint64, sections int, rva uint32) (uint64, bool) {
	table := mem.bytes(addr, sections*40)
	for ; len(table) > 0; table = table[40:] {
		start, size, off := binary.LittleEndian.Uint32(table[12:]), binary.LittleEndian.Uint32(table[16:]), binary.LittleEndian.Uint32(table[20:])
		if rva >= start && rva-start < size {
			return uint64(off) + uint64(rva-start), true
		}
	}
	return 0, false
}

// debugDirectory reads the CodeView records in the directory at base+at.
func (mem *memory) debugDirectory(base, at uint64, size uint32) []Debug {
	const entry, typeCodeView, portable = 28, 2, 0x504d
	le := binary.LittleEndian
	table := mem.bytes(base+at, int(min(size/entry, maxDebugEntries))*entry)
	var found []Debug
	for ; len(table) > 0; table = table[entry:] {
		if le.Uint32(table[12:]) != typeCodeView {
			continue
		}
		for _, at := range [2]uint32{le.Uint32(table[20:]), le.Uint32(table[24:])} {
			d, ok := parseCodeView(mem.available(base+uint64(at), uint64(min(le.Uint32(table[16:]), 4096))))
			if !ok || mem.s.keep(d.Path) != nil {
				continue
			}
			if le.Uint16(table[10:]) == portable {
				d.Portable, d.ID.Age = true, le.Uint32(table[4:])
			}
			found = append(found, d)
			break
		}
	}
	return found
}

package public

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/objfile"
)

// Numbers of the ELF format (System V gABI).
const (
	shtProgbits, shtSymtab, shtStrtab, shtRela, shtNote, shtRel = 1, 2, 3, 4, 7, 9
	shtAttributes                                               = 0x70000003 // of ARM and RISC-V

	shfAlloc, shfExec, shfInfoLink = 0x2, 0x4, 0x40
	ptLoad                         = 1

	sttNone, sttObject, sttFunc, sttCommon, sttTLS, sttIFunc = 0, 1, 2, 5, 6, 10

	shnUndefined, shnReserved, shnAbsolute, shnExtended = 0, 0xff00, 0xfff1, 0xffff

	maxELFSymbols = 16 << 20
)

// elfForm makes the public form of an ELF file.
type elfForm struct {
	*form
	e     *objfile.ELFFile
	r     io.ReaderAt
	size  int64
	order binary.ByteOrder
	wide  bool // 64 bits
	secs  []objfile.ELFSectionHeader
	segs  []objfile.ELFProgramHeader

	program bool // the file has code, in contrast to a separate debug file
	ships   bool // nothing has to go
	private []span
	index   []uint32 // new numbers of sections; 0: gone
	symtab  int      // number of the symbol table; 0: none
	table   []byte   // program headers of the output
	out     pieces
	heads   []elfHead
}

// elfHead is a section header of the output.
type elfHead struct {
	objfile.ELFSectionHeader
	name string
}

// elf examines an ELF file. A program keeps what is loaded, as it is: that is what ships. A separate
// debug file keeps the headers of its sections, and their addresses.
func (f *form) elf(r io.ReaderAt, size int64, n *namer) error {
	x, err := f.openELF(r, size, n.opt)
	if err != nil {
		return err
	}
	if x.ships {
		f.removed = map[RemovedKind]*Removed{}
		f.write = func(w io.Writer) error { return copyRange(w, r, 0, size) }
		return nil
	}
	if err := x.loaded(); err != nil {
		return err
	}
	at := x.out.end()
	if at, err = x.kept(at); err != nil {
		return err
	}
	if at, err = x.symbols(at, n); err != nil {
		return err
	}
	if !x.program && f.names == 0 && !slices.ContainsFunc(x.heads, func(h elfHead) bool { return isFrames(h.name) }) {
		return ErrNothingPublic
	}
	if err := x.headers(at); err != nil {
		return err
	}
	if err := x.out.check(); err != nil {
		return err
	}
	f.write = x.out.write
	return nil
}

// openELF reads the headers of an ELF file, and decides what becomes of each section.
func (f *form) openELF(r io.ReaderAt, size int64, o Options) (*elfForm, error) {
	e, err := objfile.OpenELF(r, size)
	if err != nil {
		return nil, err
	}
	x := &elfForm{form: f, e: e, r: r, size: size, order: e.Order(), wide: e.Is64(), secs: e.SectionHeaders(), segs: e.ProgramHeaders()}
	x.out.r = r
	switch {
	case e.Core():
		return nil, private("an ELF core dump")
	case e.Relocatable():
		return nil, private("a relocatable ELF file, whose relocations need all of its symbols")
	}
	x.classify()
	x.ships = x.isStripped(o)
	return x, nil
}

// isStripped reports whether a program is as it ships: without symbols and debug information, and
// without any section that is neither loaded nor known to be public.
func (x *elfForm) isStripped(o Options) bool {
	end := int64(0)
	for i, s := range x.secs {
		if i == 0 || !s.InFile() {
			continue
		}
		end = max(end, int64(s.Offset)+int64(s.Size))
		all := !o.Exported && !o.Undecorated && len(o.Hide) == 0
		switch {
		case isLoaded(s) || isKept(s) || s.Type == shtNote || uint64(i) == x.e.SectionNames():
		case s.Name == ".comment" || s.Name == ".gnu_debugaltlink": // versions of compilers; the name of another file
		case s.Name == ".gnu_debugdata" && all: // names of functions, which distributions ship
		default:
			return false
		}
	}
	// Only the section headers and what aligns them may follow.
	return x.program && len(x.secs) > 0 && x.size-end <= int64(len(x.secs))*64+64
}

// isDebugSection reports whether a section has debug information.
func isDebugSection(name string) bool {
	return strings.HasPrefix(name, ".debug_") || strings.HasPrefix(name, ".zdebug_") || strings.HasPrefix(name, ".stab") ||
		strings.HasPrefix(name, ".gnu.debuglto_") || name == ".gdb_index" || name == ".gnu_debugaltlink" ||
		name == ".llvmbc" || name == ".llvmcmd"
}

// isFrames reports whether a section has only rules for walking stacks.
func isFrames(name string) bool { return name == ".debug_frame" || name == ".zdebug_frame" }

// isLoaded reports whether a section is part of the program in memory. Debug sections never are,
// whatever their flags say, except the names of scripts for gdb that Rust loads.
func isLoaded(s objfile.ELFSectionHeader) bool {
	return s.Flags&shfAlloc != 0 && (!isDebugSection(s.Name) || s.Name == ".debug_gdb_scripts")
}

// isKept reports whether a section that is not loaded is public as it is.
func isKept(s objfile.ELFSectionHeader) bool {
	switch s.Name {
	case ".gnu_debuglink":
		return true
	case ".note.gnu.build-id":
		return s.Type == shtNote
	}
	return isFrames(s.Name) || s.Type == shtAttributes
}

// classify decides what becomes of each section, and gives new numbers.
func (x *elfForm) classify() {
	x.index = make([]uint32, len(x.secs))
	x.heads = []elfHead{{}}
	x.program = len(x.secs) == 0
	for i, s := range x.secs {
		if i == 0 {
			continue
		}
		if isLoaded(s) {
			x.program = x.program || s.InFile() && s.Flags&shfExec != 0
			x.add(i)
			continue
		}
		x.private = append(x.private, span{int64(s.Offset), int64(s.Offset)})
		if s.InFile() {
			x.private[len(x.private)-1].to += int64(s.Size)
		}
		switch {
		case s.Type == shtSymtab && x.symtab == 0 && s.InFile():
			x.symtab = i
		case isKept(s) && s.InFile():
			x.add(i)
		case s.Type == shtStrtab && (strings.HasPrefix(s.Name, ".strtab") || strings.HasPrefix(s.Name, ".shstrtab")):
		case isDebugSection(s.Name):
			x.take(RemovedDebug, 1, int64(s.Size))
		case s.InFile():
			x.take(RemovedSections, 1, int64(s.Size))
		}
	}
	x.private = join(x.private)
}

// add gives a section the next number.
func (x *elfForm) add(i int) {
	x.index[i] = uint32(len(x.heads))
	x.heads = append(x.heads, elfHead{ELFSectionHeader: x.secs[i], name: x.secs[i].Name})
}

// loaded keeps the headers and what is loaded at its place in the file.
func (x *elfForm) loaded() error {
	at, table, err := x.programHeaders()
	if err != nil {
		return err
	}
	x.table = table
	head := join([]span{{0, x.headSize()}, {at, at + int64(len(table))}})
	must := join(append(x.loadedSections(), head...))
	if total(subtract(must, x.private)) != total(must) {
		return broken("ELF: a section that is loaded overlaps one that is not")
	}
	if !x.program {
		x.emptySegments(must)
	}
	x.out.memory(at, table)
	for _, s := range subtract(join(append(must, x.segments()...)), head) {
		x.out.input(s.from, s.from, s.to-s.from)
	}
	return nil
}

// loadedSections returns the places of the sections that are loaded.
func (x *elfForm) loadedSections() []span {
	var list []span
	for i, s := range x.secs {
		if i > 0 && isLoaded(s) && s.InFile() {
			list = append(list, span{int64(s.Offset), int64(s.Offset) + int64(s.Size)})
		}
	}
	return list
}

// segments returns the places of the segments of a program, without what is private.
func (x *elfForm) segments() []span {
	if !x.program {
		return nil
	}
	var list []span
	for _, s := range x.segs {
		if s.FileSize > 0 && s.Offset <= uint64(x.size) && s.FileSize <= uint64(x.size)-s.Offset {
			list = append(list, span{int64(s.Offset), int64(s.Offset + s.FileSize)})
		}
	}
	return subtract(join(list), x.private)
}

// headSize returns the size of the file header.
func (x *elfForm) headSize() int64 {
	if x.wide {
		return 64
	}
	return 52
}

// entrySize returns the size of a program header.
func (x *elfForm) entrySize() int {
	if x.wide {
		return 56
	}
	return 32
}

// programHeaders returns the program headers and their place.
func (x *elfForm) programHeaders() (at int64, table []byte, err error) {
	if len(x.segs) == 0 {
		return 0, nil, nil
	}
	head, err := readPart(x.r, x.size, 0, uint64(x.headSize()))
	if err != nil {
		return 0, nil, err
	}
	if at = int64(x.order.Uint32(head[28:])); x.wide {
		at = int64(x.order.Uint64(head[32:]))
	}
	table, err = readPart(x.r, x.size, uint64(at), uint64(len(x.segs)*x.entrySize()))
	return at, table, err
}

// emptySegments cuts the segments of a separate debug file after the last bytes that stay. One of
// which nothing stays has no bytes, at an offset that suits its address.
func (x *elfForm) emptySegments(stay []span) {
	for i, s := range x.segs {
		from, n := s.Offset, uint64(0)
		for _, k := range stay {
			if end := min(uint64(k.to), s.Offset+s.FileSize); uint64(k.from) < end && end > s.Offset {
				n = max(n, end-s.Offset)
			}
		}
		if n == 0 {
			from = 0
			if s.Align > 1 {
				from = s.Address % s.Align
			}
		}
		x.setSegment(i, from, n)
	}
}

// setSegment changes the place of a segment in the file.
func (x *elfForm) setSegment(i int, offset, size uint64) {
	h := x.table[i*x.entrySize():]
	if x.wide {
		x.order.PutUint64(h[8:], offset)
		x.order.PutUint64(h[32:], size)
	} else {
		x.order.PutUint32(h[4:], uint32(offset))
		x.order.PutUint32(h[16:], uint32(size))
	}
}

// moveSegments gives segments that are not loaded the place of the section that they are: such as the
// attributes of RISC-V. Those of sections that are gone have no bytes.
func (x *elfForm) moveSegments() {
	for i, s := range x.segs {
		if s.Type == ptLoad || s.FileSize == 0 || s.Offset > uint64(x.size) || s.FileSize > uint64(x.size)-s.Offset {
			continue
		}
		place := []span{{int64(s.Offset), int64(s.Offset + s.FileSize)}}
		if total(subtract(place, x.private)) == int64(s.FileSize) {
			continue
		}
		x.setSegment(i, 0, 0)
		for k, was := range x.secs {
			if k > 0 && was.Offset == s.Offset && was.Size == s.FileSize && x.index[k] != 0 {
				x.setSegment(i, x.heads[x.index[k]].Offset, s.FileSize)
			}
		}
	}
}

// kept puts sections that are not loaded, and are public as they are, behind at.
func (x *elfForm) kept(at int64) (int64, error) {
	for i := range x.heads {
		h := &x.heads[i]
		if i == 0 || isLoaded(h.ELFSectionHeader) {
			continue
		}
		at = alignUp(at, h.Align)
		x.out.input(at, int64(h.Offset), int64(h.Size))
		h.Offset = uint64(at)
		at += int64(h.Size)
	}
	x.moveSegments()
	return at, nil
}

// elfSymbol is a symbol of .symtab.
type elfSymbol struct {
	name        uint32 // offset of the name
	info, other byte
	section     uint16
	value, size uint64
}

func (x *elfForm) symbolSize() int {
	if x.wide {
		return 24
	}
	return 16
}

// decode decodes a symbol.
func (x *elfForm) decode(p []byte) elfSymbol {
	o := x.order
	if x.wide {
		return elfSymbol{o.Uint32(p), p[4], p[5], o.Uint16(p[6:]), o.Uint64(p[8:]), o.Uint64(p[16:])}
	}
	return elfSymbol{o.Uint32(p), p[12], p[13], o.Uint16(p[14:]), uint64(o.Uint32(p[4:])), uint64(o.Uint32(p[8:]))}
}

// encode appends a symbol.
func (x *elfForm) encode(p []byte, s elfSymbol) []byte {
	at := len(p)
	p = append(p, make([]byte, x.symbolSize())...)
	q, o := p[at:], x.order
	o.PutUint32(q, s.name)
	if x.wide {
		q[4], q[5] = s.info, s.other
		o.PutUint16(q[6:], s.section)
		o.PutUint64(q[8:], s.value)
		o.PutUint64(q[16:], s.size)
		return p
	}
	o.PutUint32(q[4:], uint32(s.value))
	o.PutUint32(q[8:], uint32(s.size))
	q[12], q[13] = s.info, s.other
	o.PutUint16(q[14:], s.section)
	return p
}

// public reports whether a symbol is one of a function or an object of this file.
func (x *elfForm) public(s elfSymbol, name []byte, o Options) bool {
	if s.section == shnUndefined || len(name) == 0 {
		return false
	}
	code := false
	if s.section < shnReserved {
		if int(s.section) >= len(x.index) || x.index[s.section] == 0 {
			return false
		}
		code = x.secs[s.section].Flags&shfExec != 0
	} else if s.section != shnAbsolute {
		return false
	}
	local := s.info>>4 == 0
	switch s.info & 0xf {
	case sttObject, sttFunc, sttCommon, sttTLS, sttIFunc:
		return !local || !o.Exported
	case sttNone: // labels of assembly language, and the marks of instruction sets
		return code && (!local || objfile.IsMappingSymbol(name))
	}
	return false
}

// symbols puts the symbol table and its names behind at.
func (x *elfForm) symbols(at int64, n *namer) (int64, error) {
	if x.symtab == 0 {
		return at, nil
	}
	table := x.secs[x.symtab]
	list, names, err := x.readSymbols(n.opt)
	if err != nil {
		return 0, err
	}
	text := x.name(list, names, n)
	if err := names.err(); err != nil {
		return 0, err
	}
	out := x.encode(make([]byte, 0, (len(list)+1)*x.symbolSize()), elfSymbol{})
	local := 1
	for _, s := range list {
		if s.section < shnReserved {
			s.section = uint16(x.index[s.section])
		}
		if s.info>>4 == 0 {
			local++
		}
		out = x.encode(out, s)
	}
	before := int64(table.Size) + int64(x.secs[table.Link].Size)
	gone := int64(table.Size)/int64(x.symbolSize()) - 1 - int64(len(list))
	x.take(RemovedSymbols, max(gone, 0), max(before-int64(len(out)+len(text)), 0))
	at = alignUp(at, 8)
	x.index[x.symtab], x.index[table.Link] = uint32(len(x.heads)), uint32(len(x.heads)+1)
	x.section(".symtab", at, out, objfile.ELFSectionHeader{
		Type: shtSymtab, Link: table.Link, Info: uint32(local), EntrySize: uint64(x.symbolSize()), Align: uint64(x.symbolSize() & 8),
	})
	if !x.wide {
		x.heads[len(x.heads)-1].Align = 4
	}
	at += int64(len(out))
	x.section(".strtab", at, text, objfile.ELFSectionHeader{Type: shtStrtab, Align: 1})
	return at + int64(len(text)), nil
}

// section adds a section of the output.
func (x *elfForm) section(name string, at int64, data []byte, h objfile.ELFSectionHeader) {
	h.Offset, h.Size = uint64(at), uint64(len(data))
	x.out.memory(at, data)
	x.heads = append(x.heads, elfHead{h, name})
}

// readSymbols returns the public symbols, local ones first, and the string table.
func (x *elfForm) readSymbols(o Options) (list []elfSymbol, names *stringTable, err error) {
	table := x.secs[x.symtab]
	if int(table.Link) >= len(x.secs) || !x.secs[table.Link].InFile() {
		return nil, nil, broken("ELF: a symbol table without names")
	}
	texts, err := readPart(x.r, x.size, x.secs[table.Link].Offset, x.secs[table.Link].Size)
	if err != nil {
		return nil, nil, err
	}
	size := int64(x.symbolSize())
	count := int64(table.Size) / size
	if count > maxELFSymbols {
		return nil, nil, private("%d symbols are above the limit of %d", count, maxELFSymbols)
	}
	names = newStringTable(texts, 2*count)
	var global []elfSymbol
	buf := make([]byte, 4096*size)
	for i := int64(0); i < count; {
		p := buf[:min(4096, count-i)*size]
		if err := readFull(x.r, p, int64(table.Offset)+i*size); err != nil {
			return nil, nil, err
		}
		i += int64(len(p)) / size
		for ; len(p) > 0; p = p[size:] {
			s := x.decode(p)
			if s.section == shnExtended {
				return nil, nil, private("an ELF file of more than %d sections", shnReserved)
			}
			if !x.public(s, names.at(s.name), o) {
				continue
			}
			if s.info>>4 == 0 {
				list = append(list, s)
			} else {
				global = append(global, s)
			}
		}
	}
	return append(list, global...), names, names.err()
}

// name gives the symbols new names, and returns the table of these.
func (x *elfForm) name(list []elfSymbol, names *stringTable, n *namer) []byte {
	t := newTexts(names.table)
	base := x.e.Base()
	for i, s := range list {
		raw := names.at(s.name)
		if n.keepsAll() || s.info&0xf == sttNone && s.info>>4 == 0 {
			n.form.names++
			t.keep(s.name)
			continue
		}
		rva := s.value - base
		if s.info&0xf == sttTLS || s.section == shnAbsolute {
			rva = s.value
		}
		if name := n.at(string(raw), rva); name != string(raw) {
			list[i].name = t.add(name)
		} else {
			t.keep(s.name)
		}
	}
	return t.place(func(move func(uint32) uint32) {
		for i := range list {
			list[i].name = move(list[i].name)
		}
	})
}

// headers puts the names of the sections, the section headers and the file header into the output.
func (x *elfForm) headers(at int64) error {
	head, err := readPart(x.r, x.size, 0, uint64(x.headSize()))
	if err != nil {
		return err
	}
	if len(x.secs) == 0 {
		x.patch(head, 0, 0, 0)
		x.out.memory(0, head)
		return nil
	}
	if len(x.heads)+1 >= shnReserved {
		return private("an ELF file of more than %d sections", shnReserved)
	}
	names := []byte{0}
	last := len(x.heads)
	x.heads = append(x.heads, elfHead{objfile.ELFSectionHeader{Type: shtStrtab, Align: 1}, ".shstrtab"})
	table := make([]byte, 0, len(x.heads)*64)
	offsets := make([]uint32, len(x.heads))
	for i, h := range x.heads {
		if h.name != "" {
			offsets[i] = uint32(len(names))
			names = append(append(names, h.name...), 0)
		}
	}
	x.heads[last].Offset, x.heads[last].Size = uint64(at), uint64(len(names))
	x.out.memory(at, names)
	if old := x.e.SectionNames(); old < uint64(len(x.index)) && x.index[old] == 0 {
		x.index[old] = uint32(last)
	}
	for i, h := range x.heads {
		if i > 0 {
			x.link(&h.ELFSectionHeader)
		}
		table = x.encodeHead(table, h.ELFSectionHeader, offsets[i])
	}
	at = alignUp(at+int64(len(names)), 8)
	x.out.memory(at, table)
	x.patch(head, uint64(at), len(x.heads), last)
	x.out.memory(0, head)
	return nil
}

// link gives a header the new numbers of the sections to which it refers.
func (x *elfForm) link(h *objfile.ELFSectionHeader) {
	move := func(n uint32) uint32 {
		if int64(n) < int64(len(x.index)) {
			return x.index[n]
		}
		return 0
	}
	h.Link = move(h.Link)
	if h.Flags&shfInfoLink != 0 || h.Type == shtRel || h.Type == shtRela {
		h.Info = move(h.Info)
	}
}

// encodeHead appends a section header.
func (x *elfForm) encodeHead(p []byte, h objfile.ELFSectionHeader, name uint32) []byte {
	o := x.order
	if x.wide {
		q := make([]byte, 64)
		o.PutUint32(q, name)
		o.PutUint32(q[4:], h.Type)
		for i, v := range []uint64{h.Flags, h.Address, h.Offset, h.Size} {
			o.PutUint64(q[8+8*i:], v)
		}
		o.PutUint32(q[40:], h.Link)
		o.PutUint32(q[44:], h.Info)
		o.PutUint64(q[48:], h.Align)
		o.PutUint64(q[56:], h.EntrySize)
		return append(p, q...)
	}
	q := make([]byte, 40)
	for i, v := range []uint32{
		name, h.Type, uint32(h.Flags), uint32(h.Address), uint32(h.Offset), uint32(h.Size), h.Link, h.Info, uint32(h.Align), uint32(h.EntrySize),
	} {
		o.PutUint32(q[4*i:], v)
	}
	return append(p, q...)
}

// patch writes the place and the number of the section headers into the file header.
func (x *elfForm) patch(head []byte, at uint64, count, names int) {
	if x.wide {
		x.order.PutUint64(head[40:], at)
		head = head[58:]
	} else {
		x.order.PutUint32(head[32:], uint32(at))
		head = head[46:]
	}
	if count > 0 {
		size := uint16(40)
		if x.wide {
			size = 64
		}
		x.order.PutUint16(head, size)
	}
	x.order.PutUint16(head[2:], uint16(count))
	x.order.PutUint16(head[4:], uint16(names))
}

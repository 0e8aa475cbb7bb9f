package public

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"github.com/symdepot/symdepot/objfile"
)

// Numbers of the Mach-O format (mach-o/loader.h, mach-o/nlist.h).
const (
	machObject, machCore, machDSYM = 1, 4, 10

	lcSegment, lcSymtab, lcThread, lcUnixThread  = 0x1, 0x2, 0x4, 0x5
	lcDysymtab, lcLoadDylib, lcIDDylib           = 0xb, 0xc, 0xd
	lcLoadDylinker, lcIDDylinker                 = 0xe, 0xf
	lcRoutines, lcSubFramework, lcSubUmbrella    = 0x11, 0x12, 0x13
	lcSubClient, lcSubLibrary, lcPrebindChecksum = 0x14, 0x15, 0x17
	lcLoadWeakDylib, lcSegment64, lcRoutines64   = 0x80000018, 0x19, 0x1a
	lcUUID, lcReexportDylib, lcLazyLoadDylib     = 0x1b, 0x8000001f, 0x20
	lcEncryptionInfo, lcDyldInfo, lcDyldInfoOnly = 0x21, 0x22, 0x80000022
	lcLoadUpwardDylib                            = 0x80000023
	lcVersionMacOS, lcVersionIOS                 = 0x24, 0x25
	lcFunctionStarts, lcMain, lcDataInCode       = 0x26, 0x80000028, 0x29
	lcSourceVersion, lcEncryptionInfo64          = 0x2a, 0x2c
	lcVersionTVOS, lcVersionWatchOS, lcBuild     = 0x2f, 0x30, 0x32
	lcExportsTrie, lcChainedFixups, lcFileset    = 0x80000033, 0x80000034, 0x80000035

	nStab, nType, nExternal                     = 0xe0, 0x0e, 0x01
	nUndefined, nAbsolute, nPrebound, nSection  = 0x0, 0x2, 0xc, 0xe
	indirectLocal, indirectAbsolute             = 0x80000000, 0x40000000
	maxMachSections, maxMachSymbols, maxIndices = 255, 16 << 20, 16 << 20
)

// machKept are the load commands that are kept as they are: what the image needs, and what it is for.
// Their texts are names of libraries, which ship with the image.
var machKept = []uint32{
	lcThread, lcUnixThread, lcLoadDylib, lcIDDylib, lcLoadDylinker, lcIDDylinker, lcRoutines, lcSubFramework, lcSubUmbrella,
	lcSubClient, lcSubLibrary, lcPrebindChecksum, lcLoadWeakDylib, lcRoutines64, lcUUID, lcReexportDylib, lcLazyLoadDylib,
	lcLoadUpwardDylib, lcVersionMacOS, lcVersionIOS, lcMain, lcSourceVersion, lcVersionTVOS, lcVersionWatchOS, lcBuild,
	lcEncryptionInfo, lcEncryptionInfo64,
}

// machBlobs has the places in a load command of offsets and sizes of contents that the segment
// __LINKEDIT has and that are kept.
func machBlobs(cmd uint32) []int {
	switch cmd {
	case lcDyldInfo, lcDyldInfoOnly:
		return []int{8, 16, 24, 32, 40}
	case lcFunctionStarts, lcDataInCode, lcExportsTrie, lcChainedFixups:
		return []int{8}
	}
	return nil
}

// machForm makes the public form of a thin Mach-O image.
type machForm struct {
	*form
	r        io.ReaderAt
	size     int64
	order    binary.ByteOrder
	wide     bool
	filetype uint32
	head     []byte
	commands [][]byte // those that are kept, changed in place
	places   []span   // of these in the input
	linkedit []byte   // its command; nil: none
	symtab   []byte
	dysymtab []byte
	sections []byte // new numbers of the sections; 0: gone
	kept     int    // sections
	base     uint64 // of __TEXT
	contents []span // of the segments that are kept
	private  []span // of those that are not
	edit     []byte // the new contents of __LINKEDIT
	editAt   int64
	out      pieces
}

// macho examines a thin Mach-O image. It keeps the segments but those of DWARF and bitcode, and of
// __LINKEDIT what the loader and stack walkers need. Signatures do not fit any more, and go.
func (f *form) macho(r io.ReaderAt, size int64, n *namer) error {
	out, err := f.thin(r, size, n)
	if err != nil {
		return err
	}
	f.write = out.write
	return nil
}

// thin returns the public form of a thin image.
func (f *form) thin(r io.ReaderAt, size int64, n *namer) (*pieces, error) {
	x, err := f.openMachO(r, size)
	if err != nil {
		return nil, err
	}
	if err := x.place(); err != nil {
		return nil, err
	}
	names := f.names
	if err := x.fillLinkedit(n); err != nil {
		return nil, err
	}
	if x.filetype == machDSYM && f.names == names {
		return nil, ErrNothingPublic
	}
	return &x.out, x.finish()
}

// openMachO reads the headers of a thin image, and decides what becomes of each load command.
func (f *form) openMachO(r io.ReaderAt, size int64) (*machForm, error) {
	x := &machForm{form: f, r: r, size: size, order: binary.LittleEndian, sections: []byte{0}}
	x.out.r = r
	if err := x.readHead(); err != nil {
		return nil, err
	}
	switch x.filetype {
	case machObject:
		return nil, private("a relocatable Mach-O image, whose relocations need all of its symbols")
	case machCore:
		return nil, private("a Mach-O core dump")
	}
	return x, x.readCommands()
}

// readHead reads the header.
func (x *machForm) readHead() error {
	magic, err := readPart(x.r, x.size, 0, 4)
	if err != nil {
		return err
	}
	if magic[0] == 0xfe {
		x.order = binary.BigEndian
	}
	x.wide = x.order.Uint32(magic)&1 == 1
	n := uint64(28)
	if x.wide {
		n = 32
	}
	if x.head, err = readPart(x.r, x.size, 0, n); err != nil {
		return err
	}
	x.filetype = x.order.Uint32(x.head[12:])
	return nil
}

// readCommands decides what becomes of each load command.
func (x *machForm) readCommands() error {
	u := x.order.Uint32
	p, err := readPart(x.r, x.size, uint64(len(x.head)), uint64(u(x.head[20:])))
	if err != nil {
		return err
	}
	at := int64(len(x.head))
	for range u(x.head[16:]) {
		if len(p) < 8 || u(p[4:]) < 8 || uint64(u(p[4:])) > uint64(len(p)) {
			return broken("Mach-O: load commands end after the place for them")
		}
		c := p[:u(p[4:])]
		p = p[len(c):]
		before := len(x.commands)
		if err := x.command(u(c), c); err != nil {
			return err
		}
		if len(x.commands) > before {
			x.places = append(x.places, span{at, at + int64(len(c))})
		}
		at += int64(len(c))
	}
	return nil
}

// command keeps a load command, or not.
func (x *machForm) command(cmd uint32, c []byte) error {
	need := map[uint32]int{lcSymtab: 24, lcDysymtab: 80, lcDyldInfo: 48, lcDyldInfoOnly: 48}[cmd]
	if blobs := machBlobs(cmd); len(blobs) > 0 {
		need = max(need, blobs[0]+8)
	}
	if len(c) < need {
		return broken("Mach-O: a load command of %d bytes", len(c))
	}
	switch {
	case cmd == lcSegment || cmd == lcSegment64:
		return x.segment(cmd == lcSegment64, c)
	case cmd == lcSymtab && x.symtab == nil:
		x.symtab = c
	case cmd == lcDysymtab && x.dysymtab == nil && x.filetype != machDSYM:
		x.dysymtab = c
	case cmd == lcFileset:
		return private("a set of kernel extensions")
	case slices.Contains(machKept, cmd) || len(machBlobs(cmd)) > 0:
	default:
		x.take(RemovedCommands, 1, int64(len(c)))
		return nil
	}
	x.commands = append(x.commands, c)
	return nil
}

// machSegment has the fields of a segment command.
type machSegment struct {
	name             string
	address          uint64
	offset, filesize uint64
	sections         [][]byte
}

// parseSegment reads a segment command.
func (x *machForm) parseSegment(wide bool, c []byte) (machSegment, error) {
	u, head, entry := x.order.Uint32, 56, 68
	if wide {
		head, entry = 72, 80
	}
	if len(c) < head {
		return machSegment{}, broken("Mach-O: a segment command of %d bytes", len(c))
	}
	s := machSegment{name: machText(c[8:24])}
	if wide {
		s.address, s.offset, s.filesize = x.order.Uint64(c[24:]), x.order.Uint64(c[40:]), x.order.Uint64(c[48:])
	} else {
		s.address, s.offset, s.filesize = uint64(u(c[24:])), uint64(u(c[32:])), uint64(u(c[36:]))
	}
	n := u(c[head-8:])
	if uint64(n)*uint64(entry) > uint64(len(c)-head) {
		return machSegment{}, broken("Mach-O: %d sections in a segment command of %d bytes", n, len(c))
	}
	for i := range int(n) {
		s.sections = append(s.sections, c[head+i*entry:head+(i+1)*entry])
	}
	if s.filesize > 0 && (s.offset > uint64(x.size) || s.filesize > uint64(x.size)-s.offset) {
		return machSegment{}, broken("Mach-O: the segment %s lies outside the image of %d bytes", s.name, x.size)
	}
	return s, nil
}

// machText returns a name in a field of fixed size.
func machText(p []byte) string {
	text, _, _ := bytes.Cut(p, []byte{0})
	return string(text)
}

// isPrivateSegment reports whether a segment has debug information or bitcode.
func isPrivateSegment(name string) bool {
	return name == "__DWARF" || name == "__LLVM" || name == "__CTF" || name == "__LLVM_COV"
}

// segment keeps a segment, or not.
func (x *machForm) segment(wide bool, c []byte) error {
	s, err := x.parseSegment(wide, c)
	if err != nil {
		return err
	}
	if len(x.sections)+len(s.sections) > maxMachSections+1 {
		return private("a Mach-O image of more than %d sections", maxMachSections)
	}
	place := span{int64(s.offset), int64(s.offset + s.filesize)}
	if isPrivateSegment(s.name) {
		x.sections = append(x.sections, make([]byte, len(s.sections))...)
		x.take(RemovedDebug, int64(len(s.sections)), int64(s.filesize))
		x.private = append(x.private, place)
		return nil
	}
	for _, sect := range s.sections {
		if name := machText(sect[:16]); machText(sect[16:32]) == "__DWARF" || bytes.HasPrefix(sect, []byte("__debug_")) || name == "__bitcode" {
			return private("the section %s in the segment %s", name, s.name)
		}
		x.kept++
		x.sections = append(x.sections, byte(x.kept))
	}
	switch {
	case s.name == "__LINKEDIT" && x.linkedit != nil:
		return broken("Mach-O: two segments __LINKEDIT")
	case s.name == "__LINKEDIT":
		x.linkedit = c
	case s.name == "__TEXT":
		x.base = s.address
		fallthrough
	default:
		if s.filesize > 0 {
			x.contents = append(x.contents, place)
		}
	}
	x.commands = append(x.commands, c)
	return nil
}

// place puts the contents of the segments that are kept into the output, where they were. __LINKEDIT
// follows them.
func (x *machForm) place() error {
	head := int64(len(x.head)) + int64(x.order.Uint32(x.head[20:]))
	x.contents = join(x.contents)
	x.private = join(x.private)
	if total(subtract(x.contents, x.private)) != total(x.contents) {
		return broken("Mach-O: the segments of debug information overlap others")
	}
	end := head
	for _, s := range x.contents {
		x.out.input(max(s.from, head), max(s.from, head), s.to-max(s.from, head))
		end = max(end, s.to)
	}
	if x.linkedit == nil {
		x.editAt = alignUp(end, 8)
		return nil
	}
	s, err := x.parseSegment(x.order.Uint32(x.linkedit) == lcSegment64, x.linkedit)
	if err != nil {
		return err
	}
	if total(subtract(x.contents, []span{{int64(s.offset), int64(s.offset + s.filesize)}})) != total(x.contents) {
		return broken("Mach-O: __LINKEDIT overlaps other segments")
	}
	// A page of the processor is 16 KiB at most; an image that is not loaded needs none.
	x.editAt = min(alignUp(end, 16<<10), max(int64(s.offset), end))
	return nil
}

// append puts data into __LINKEDIT, and returns its offset in the output.
func (x *machForm) append(data []byte) uint32 {
	x.edit = append(x.edit, make([]byte, -len(x.edit)&7)...)
	at := x.editAt + int64(len(x.edit))
	x.edit = append(x.edit, data...)
	return uint32(at)
}

// fillLinkedit makes the new contents of __LINKEDIT: what the loader needs, then the symbols.
func (x *machForm) fillLinkedit(n *namer) error {
	o := x.order
	for _, c := range x.commands {
		for _, at := range machBlobs(o.Uint32(c)) {
			off, size := o.Uint32(c[at:]), o.Uint32(c[at+4:])
			if size == 0 {
				o.PutUint32(c[at:], 0)
				continue
			}
			data, err := readPart(x.r, x.size, uint64(off), uint64(size))
			if err != nil {
				return err
			}
			place := span{int64(off), int64(off) + int64(size)}
			if total(subtract([]span{place}, x.private)) != int64(size) {
				return broken("Mach-O: a table of the loader overlaps the debug information")
			}
			if int64(len(x.edit)) > x.size {
				return broken("Mach-O: tables of the loader of more bytes than the image has")
			}
			o.PutUint32(c[at:], x.append(data))
		}
	}
	if x.symtab == nil {
		return nil
	}
	return x.symbols(n)
}

// machSymbol is an entry of the symbol table.
type machSymbol struct {
	name      uint32
	typ, sect byte
	desc      uint16
	value     uint64
	was       uint32 // number in the input
}

// class orders symbols as the loader wants them: local, external, undefined.
func (s machSymbol) class() int {
	switch {
	case s.typ&nType == nUndefined || s.typ&nType == nPrebound:
		return 2
	case s.typ&nExternal != 0:
		return 1
	}
	return 0
}

func (x *machForm) symbolSize() int {
	if x.wide {
		return 16
	}
	return 12
}

// decode decodes a symbol.
func (x *machForm) decode(p []byte) machSymbol {
	s := machSymbol{name: x.order.Uint32(p), typ: p[4], sect: p[5], desc: x.order.Uint16(p[6:])}
	if s.value = uint64(x.order.Uint32(p[8:])); x.wide {
		s.value = x.order.Uint64(p[8:])
	}
	return s
}

// public reports whether a symbol is one of a function or an object of this image, or an import.
func (x *machForm) public(s machSymbol, o Options) bool {
	if s.typ&nStab != 0 || s.name == 0 {
		return false
	}
	switch s.typ & nType {
	case nUndefined, nPrebound:
		return x.filetype != machDSYM && s.typ&nExternal != 0
	case nAbsolute:
		return s.typ&nExternal != 0
	case nSection:
		return int(s.sect) < len(x.sections) && x.sections[s.sect] != 0 && (s.typ&nExternal != 0 || !o.Exported)
	}
	return false
}

// readSymbols returns the public symbols in the order of the output, and the string table.
func (x *machForm) readSymbols(o Options) (list []machSymbol, names *stringTable, err error) {
	u, size := x.order.Uint32, x.symbolSize()
	count := u(x.symtab[12:])
	if count > maxMachSymbols {
		return nil, nil, private("%d symbols are above the limit of %d", count, maxMachSymbols)
	}
	table, err := readPart(x.r, x.size, uint64(u(x.symtab[8:])), uint64(count)*uint64(size))
	if err != nil {
		return nil, nil, err
	}
	texts, err := readPart(x.r, x.size, uint64(u(x.symtab[16:])), uint64(u(x.symtab[20:])))
	if err != nil {
		return nil, nil, err
	}
	names = newStringTable(texts, 2*int64(count))
	for i := range count {
		s := x.decode(table[int(i)*size:])
		if s.was = i; x.public(s, o) && len(names.at(s.name)) > 0 {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b machSymbol) int { return a.class() - b.class() })
	return list, names, names.err()
}

// symbols puts the symbols, the indirect symbols and the names into __LINKEDIT.
func (x *machForm) symbols(n *namer) error {
	list, names, err := x.readSymbols(n.opt)
	if err != nil {
		return err
	}
	n.underscore = true
	t := newTexts(names.table)
	for i, s := range list {
		raw := names.at(s.name)
		name := string(raw)
		if s.class() != 2 {
			name = n.at(name, s.value-x.base)
		}
		if name == string(raw) {
			t.keep(s.name)
		} else {
			list[i].name = t.add(name)
		}
	}
	if err := names.err(); err != nil {
		return err
	}
	text := t.place(func(move func(uint32) uint32) {
		for i := range list {
			list[i].name = move(list[i].name)
		}
	})
	table := make([]byte, len(list)*x.symbolSize())
	var classes [3]uint32
	for i, s := range list {
		classes[s.class()]++
		x.encode(table[i*x.symbolSize():], s)
	}
	o, c := x.order, x.symtab
	before := int64(o.Uint32(c[12:]))*int64(x.symbolSize()) + int64(o.Uint32(c[20:]))
	x.take(RemovedSymbols, int64(o.Uint32(c[12:]))-int64(len(list)), max(before-int64(len(table)+len(text)), 0))
	o.PutUint32(c[8:], x.append(table))
	o.PutUint32(c[12:], uint32(len(list)))
	if err := x.indirect(list, classes); err != nil {
		return err
	}
	o.PutUint32(c[16:], x.append(text))
	o.PutUint32(c[20:], uint32(len(text)))
	return nil
}

// encode writes a symbol.
func (x *machForm) encode(p []byte, s machSymbol) {
	sect := s.sect
	if s.typ&nType == nSection {
		sect = x.sections[s.sect]
	}
	x.order.PutUint32(p, s.name)
	p[4], p[5] = s.typ, sect
	x.order.PutUint16(p[6:], s.desc)
	if x.wide {
		x.order.PutUint64(p[8:], s.value)
	} else {
		x.order.PutUint32(p[8:], uint32(s.value))
	}
}

// indirect writes the numbers of symbols by class, and the indirect symbols, which are numbers of
// symbols too. Tables of libraries of before 2001 and relocations go.
func (x *machForm) indirect(list []machSymbol, classes [3]uint32) error {
	c, o := x.dysymtab, x.order
	if c == nil {
		return nil
	}
	at, count := o.Uint32(c[56:]), o.Uint32(c[60:])
	if count > maxIndices {
		return private("%d indirect symbols are above the limit of %d", count, maxIndices)
	}
	table, err := readPart(x.r, x.size, uint64(at), uint64(count)*4)
	if err != nil {
		return err
	}
	number := make(map[uint32]uint32, len(list))
	for i, s := range list {
		number[s.was] = uint32(i)
	}
	for p := table; len(p) > 0; p = p[4:] {
		was := o.Uint32(p)
		if was&(indirectLocal|indirectAbsolute) != 0 {
			continue
		}
		if now, ok := number[was]; ok {
			o.PutUint32(p, now)
		} else {
			o.PutUint32(p, indirectLocal)
		}
	}
	clear(c[8:])
	first := uint32(0)
	for i, n := range classes {
		o.PutUint32(c[8+8*i:], first)
		o.PutUint32(c[12+8*i:], n)
		first += n
	}
	if count > 0 {
		o.PutUint32(c[56:], x.append(table))
		o.PutUint32(c[60:], count)
	}
	return nil
}

// finish puts __LINKEDIT, the header and the load commands into the output.
func (x *machForm) finish() error {
	if x.editAt+int64(len(x.edit)) > 1<<32-1 {
		return private("a Mach-O image in which the symbols begin after 4 GiB")
	}
	o := x.order
	if c := x.linkedit; c != nil && o.Uint32(c) == lcSegment64 {
		o.PutUint64(c[40:], uint64(x.editAt))
		o.PutUint64(c[48:], uint64(len(x.edit)))
	} else if c != nil {
		o.PutUint32(c[32:], uint32(x.editAt))
		o.PutUint32(c[36:], uint32(len(x.edit)))
	}
	commands := bytes.Join(x.commands, nil)
	place := int64(o.Uint32(x.head[20:]))
	o.PutUint32(x.head[16:], uint32(len(x.commands)))
	o.PutUint32(x.head[20:], uint32(len(commands)))
	x.out.memory(0, x.head)
	x.out.memory(int64(len(x.head)), append(commands, make([]byte, place-int64(len(commands)))...))
	x.out.memory(x.editAt, x.edit)
	return x.out.check()
}

// fat examines a fat Mach-O file: it has the public form of each image. Slices that are no images
// go.
func (f *form) fat(r io.ReaderAt, size int64, n *namer) error {
	objects, err := objfile.Identify(r, size, "", objfile.Options{IDs: true})
	if err != nil {
		return err
	}
	head, err := readPart(r, size, 0, 8)
	if err != nil {
		return err
	}
	wide, entry, be := head[3] == 0xbf, 20, binary.BigEndian
	if wide {
		entry = 32
	}
	count := int(be.Uint32(head[4:]))
	table, err := readPart(r, size, 8, uint64(count*entry))
	if err != nil {
		return err
	}
	out := &pieces{r: r}
	at := int64(8 + len(objects)*entry)
	list := head
	be.PutUint32(list[4:], uint32(len(objects)))
	for i := range count {
		e := table[i*entry : (i+1)*entry]
		place := int64(be.Uint32(e[8:]))
		if wide {
			place = int64(be.Uint64(e[8:]))
		}
		k := slices.IndexFunc(objects, func(o objfile.Object) bool { return o.Offset == place && o.Kind != 0 })
		if k < 0 {
			f.take(RemovedSections, 1, 0)
			continue
		}
		part, err := f.thin(io.NewSectionReader(r, objects[k].Offset, objects[k].Size), objects[k].Size, n)
		if err != nil {
			return err
		}
		power := be.Uint32(e[16:])
		if wide {
			power = be.Uint32(e[24:])
		}
		at = alignUp(at, 1<<min(power, 16))
		for _, x := range part.list {
			x.at += at
			x.from += objects[k].Offset
			out.list = append(out.list, x)
		}
		length := part.end()
		if !wide && at+length > 1<<32-1 {
			return errors.New("the public form of a fat file is above 4 GiB")
		}
		if wide {
			be.PutUint64(e[8:], uint64(at))
			be.PutUint64(e[16:], uint64(length))
		} else {
			be.PutUint32(e[8:], uint32(at))
			be.PutUint32(e[12:], uint32(length))
		}
		list = append(list, e...)
		at += length
	}
	out.memory(0, list)
	f.write = out.write
	return out.check()
}

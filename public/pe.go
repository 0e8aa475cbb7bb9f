package public

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/objfile"
)

// Numbers of the PE format and of its COFF symbols.
const (
	peSectionHead, peDebugEntry, coffSymbol = 40, 28, 18

	peDirSecurity, peDirDebug = 4, 6
	peDebugEmbedded           = 17

	peGone         = 0x42000080 // uninitialised, discardable, readable
	coffExternal   = 2
	coffStatic     = 3
	coffFunction   = 0x20
	maxCOFFSymbols = 16 << 20
)

// peForm makes the public form of a PE image.
type peForm struct {
	*form
	r        io.ReaderAt
	size     int64
	head     []byte // up to the end of the section headers
	optional int64  // offset of the optional header in it
	table    int64  // offset of the section headers in it
	dirs     int64  // offset of the data directories in it; 0: none
	sections []objfile.PESection
	stored   []span // of the sections in the file, with what fills them up
	gone     []bool // sections of debug information
	holes    []span // embedded PDBs
	ships    bool   // nothing has to go
	x86      bool
	out      pieces
}

// pe examines a PE image. One without DWARF, embedded PDB and symbols is what ships: it stays as it is. Of
// others, what is loaded stays, at its place in the file and in memory: the time stamp and the
// size of the image are its id. Signatures do not fit any more, and go.
func (f *form) pe(r io.ReaderAt, size int64, n *namer) error {
	x, err := f.openPE(r, size)
	if err != nil {
		return err
	}
	if x.ships {
		f.write = func(w io.Writer) error { return copyRange(w, r, 0, size) }
		return nil
	}
	x.copySections()
	n.underscore = x.x86
	if err := x.symbols(n); err != nil {
		return err
	}
	if f.names == 0 && x.out.size == 0 {
		return ErrNothingPublic // a separate file of debug information
	}
	x.out.memory(0, x.head)
	f.write = x.out.write
	return x.out.check()
}

// openPE reads the headers of an image, and decides what has to go.
func (f *form) openPE(r io.ReaderAt, size int64) (*peForm, error) {
	image, err := objfile.OpenPE(r, size)
	if err != nil {
		return nil, err
	}
	x := &peForm{form: f, r: r, size: size, sections: image.Sections(), x86: image.Arch() == "x86"}
	x.out.r = r
	if err := x.readHead(); err != nil {
		return nil, err
	}
	changed := x.removeSections()
	embedded, err := x.removeEmbedded(image)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	symbols := le.Uint32(x.head[x.optional-12:]) != 0 && le.Uint32(x.head[x.optional-8:]) != 0
	x.ships = !changed && !embedded && !symbols
	return x, nil
}

// readHead reads the headers. Package objfile has checked that they are there.
func (x *peForm) readHead() error {
	dos, err := readPart(x.r, x.size, 0, 64)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	at := int64(le.Uint32(dos[60:]))
	coff, err := readPart(x.r, x.size, uint64(at), 24)
	if err != nil {
		return err
	}
	x.optional = at + 24
	length := int64(le.Uint16(coff[20:]))
	x.table = x.optional + length
	x.head, err = readPart(x.r, x.size, 0, uint64(x.table)+uint64(len(x.sections))*peSectionHead)
	if err != nil {
		return err
	}
	for i := range x.sections {
		h := x.sectionHead(i)
		from := int64(le.Uint32(h[20:]))
		x.stored = append(x.stored, span{from, from + int64(le.Uint32(h[16:]))})
		if x.sections[i].Stored == 0 {
			x.stored[i] = span{}
		}
	}
	dirs := int64(96)
	if length >= 2 && le.Uint16(x.head[x.optional:]) == 0x20b {
		dirs = 112
	}
	if length >= dirs+8*(peDirDebug+1) && le.Uint32(x.head[x.optional+dirs-4:]) > peDirDebug {
		x.dirs = x.optional + dirs
	}
	return nil
}

// sectionHead returns the header of a section.
func (x *peForm) sectionHead(i int) []byte {
	return x.head[x.table+int64(i)*peSectionHead:][:peSectionHead]
}

// removeSections takes the contents of debug sections away. Their addresses stay, because the size of
// the image is part of its id.
func (x *peForm) removeSections() bool {
	x.gone = make([]bool, len(x.sections))
	le := binary.LittleEndian
	for i, s := range x.sections {
		if !isDebugSection(s.Name) || isFrames(s.Name) {
			continue
		}
		x.gone[i] = true
		x.take(RemovedDebug, 1, s.Stored)
		h := x.sectionHead(i)
		copy(h[:8], ".removed")
		clear(h[16:36])
		le.PutUint32(h[36:], peGone)
	}
	return slices.Contains(x.gone, true)
}

// fileOffset returns the place in the file of n bytes at an address.
func (x *peForm) fileOffset(rva uint32, n int64) (int64, bool) {
	for _, s := range x.sections {
		if rva >= s.RVA && int64(rva-s.RVA)+n <= s.Stored {
			return s.Offset + int64(rva-s.RVA), true
		}
	}
	return 0, false
}

// removeEmbedded takes embedded portable PDBs away: their entries of the debug directory and their
// contents.
func (x *peForm) removeEmbedded(image *objfile.PEImage) (bool, error) {
	rva, size := image.Directory(peDirDebug)
	n := int64(size) / peDebugEntry * peDebugEntry
	if n == 0 || x.dirs == 0 {
		return false, nil
	}
	at, ok := x.fileOffset(rva, n)
	if !ok {
		return false, nil
	}
	table, err := readPart(x.r, x.size, uint64(at), uint64(n))
	if err != nil {
		return false, err
	}
	le := binary.LittleEndian
	kept := make([]byte, 0, n)
	for e := range slices.Chunk(table, peDebugEntry) {
		if le.Uint32(e[12:]) != peDebugEmbedded {
			kept = append(kept, e...)
			continue
		}
		length := int64(le.Uint32(e[16:]))
		from := int64(le.Uint32(e[24:]))
		if from > x.size || length > x.size-from {
			return false, broken("PE: the embedded PDB lies outside the file of %d bytes", x.size)
		}
		x.holes = append(x.holes, span{from, from + length})
		if place, ok := x.fileOffset(le.Uint32(e[20:]), length); ok && place != from {
			x.holes = append(x.holes, span{place, place + length})
		}
		x.take(RemovedEmbedded, 1, length)
	}
	if len(x.holes) == 0 {
		return false, nil
	}
	le.PutUint32(x.head[x.dirs+8*peDirDebug+4:], uint32(len(kept)))
	x.holes = append(x.holes, span{at, at + n})
	x.out.memory(at, append(kept, make([]byte, n-int64(len(kept)))...))
	return true, nil
}

// copySections puts the sections into the output, where they were, and takes signatures and the
// checksum out of the headers.
func (x *peForm) copySections() {
	for _, s := range subtract(x.contents(), []span{{0, int64(len(x.head))}}) {
		x.out.input(s.from, s.from, s.to-s.from)
	}
	le := binary.LittleEndian
	if x.dirs > 0 {
		at := x.dirs + 8*peDirSecurity
		if n := le.Uint32(x.head[at+4:]); n > 0 {
			x.take(RemovedSections, 1, int64(n))
		}
		clear(x.head[at : at+8])
		clear(x.head[x.optional+64 : x.optional+68]) // the checksum
	}
}

// contents returns the places of what is kept of the sections.
func (x *peForm) contents() []span {
	var keep, gone []span
	for i, s := range x.sections {
		if x.gone[i] {
			gone = append(gone, x.stored[i])
			continue
		}
		keep = append(keep, span{s.Offset, s.Offset + s.Stored})
		x.out.size = max(x.out.size, x.stored[i].to)
	}
	return subtract(subtract(join(keep), join(gone)), join(x.holes))
}

// coffEntry is a COFF symbol without the records that follow it.
type coffEntry struct {
	head []byte // of 18 bytes
	name uint32 // offset in the string table, if long
	long bool
}

// parseName returns the name of the symbol, and where it is.
func (e *coffEntry) parseName(texts *stringTable) []byte {
	if binary.LittleEndian.Uint32(e.head) == 0 {
		e.name, e.long = binary.LittleEndian.Uint32(e.head[4:]), true
		return texts.at(e.name)
	}
	name, _, _ := bytes.Cut(e.head[:8], []byte{0})
	return name
}

// readSymbols returns the COFF symbols that are public, and the string table.
func (x *peForm) readSymbols(o Options) (list []coffEntry, texts *stringTable, err error) {
	le := binary.LittleEndian
	at, count := int64(le.Uint32(x.head[x.optional-12:])), int64(le.Uint32(x.head[x.optional-8:]))
	if at == 0 {
		return nil, newStringTable(nil, 0), nil
	}
	if count > maxCOFFSymbols {
		return nil, nil, private("%d symbols are above the limit of %d", count, maxCOFFSymbols)
	}
	table, err := readPart(x.r, x.size, uint64(at), uint64(count)*coffSymbol)
	if err != nil {
		return nil, nil, err
	}
	var strings []byte
	if end := at + int64(len(table)); x.size-end >= 4 {
		length, err := readPart(x.r, x.size, uint64(end), 4)
		if err != nil {
			return nil, nil, err
		}
		if n := int64(le.Uint32(length)); n >= 4 {
			if strings, err = readPart(x.r, x.size, uint64(end), uint64(min(n, x.size-end))); err != nil {
				return nil, nil, err
			}
		}
	}
	texts = newStringTable(strings, 2*count)
	for i := int64(0); i < count; i++ {
		e := coffEntry{head: table[i*coffSymbol:][:coffSymbol]}
		i += int64(e.head[17])
		if x.public(e.head, e.parseName(texts), o) {
			list = append(list, e)
		}
	}
	return list, texts, texts.err()
}

// public reports whether a COFF symbol is one of a function or an object of this image.
func (x *peForm) public(e, name []byte, o Options) bool {
	section := int(int16(binary.LittleEndian.Uint16(e[12:])))
	if section < 1 || section > len(x.sections) || x.gone[section-1] || len(name) == 0 {
		return false
	}
	switch e[16] {
	case coffExternal:
		return true
	case coffStatic: // also sections and parts of them, which begin with a dot
		return !o.Exported && (binary.LittleEndian.Uint16(e[14:]) == coffFunction || e[17] == 0 && name[0] != '.')
	}
	return false
}

// longName returns the place in the string table of the name of a section that is longer than its field.
func longName(head []byte) (uint32, bool) {
	digits, ok := strings.CutPrefix(strings.TrimRight(string(head[:8]), "\x00"), "/")
	at, err := strconv.ParseUint(digits, 10, 32)
	return uint32(at), ok && err == nil
}

// symbols puts the COFF symbols, and the names of them and of sections, after the sections.
func (x *peForm) symbols(n *namer) error {
	list, old, err := x.readSymbols(n.opt)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	t := newTexts(old.table)
	t.head = 4
	for i := range list {
		e := &list[i]
		raw := string(e.parseName(old))
		section := x.sections[le.Uint16(e.head[12:])-1]
		name := n.at(raw, uint64(section.RVA)+uint64(le.Uint32(e.head[8:])))
		switch {
		case name == raw && e.long:
			t.keep(e.name)
		case name != raw && len(name) > 8:
			e.name, e.long = t.add(name), true
		case name != raw:
			e.long = false
			clear(e.head[:8])
			copy(e.head, name)
		}
		e.head[17] = 0
	}
	if err := old.err(); err != nil {
		return err
	}
	long := map[int]uint32{} // sections with long names
	for i := range x.sections {
		if at, ok := longName(x.sectionHead(i)); ok && int64(at) < int64(len(old.table)) {
			long[i] = at
			t.keep(at)
		}
	}
	var table []byte
	text := t.place(func(move func(uint32) uint32) {
		for _, e := range list {
			if e.long {
				le.PutUint32(e.head, 0)
				le.PutUint32(e.head[4:], move(e.name))
			}
			table = append(table, e.head...)
		}
		for i, at := range long {
			h := x.sectionHead(i)
			clear(h[:8])
			copy(h, "/"+strconv.FormatUint(uint64(move(at)), 10))
		}
	})
	le.PutUint32(text, uint32(len(text)))
	count := int64(le.Uint32(x.head[x.optional-8:]))
	x.take(RemovedSymbols, count-int64(len(list)), max(count*coffSymbol+int64(len(old.table))-int64(len(table)+len(text)), 0))
	clear(x.head[x.optional-12 : x.optional-4])
	if len(list) == 0 && len(long) == 0 {
		return nil
	}
	at := alignUp(max(x.out.end(), int64(len(x.head))), 4)
	le.PutUint32(x.head[x.optional-12:], uint32(at))
	le.PutUint32(x.head[x.optional-8:], uint32(len(list)))
	x.out.memory(at, append(table, text...))
	return nil
}

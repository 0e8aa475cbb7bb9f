package dump

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf16"

	"github.com/symdepot/symdepot/debugid"
)

// miniModule is one module as a test wants it in a minidump.
type miniModule struct {
	base        uint64
	size, stamp uint32
	path        string
	cv          []byte
	unloaded    bool
}

// miniFile builds minidumps: modules, system, and memory in either list.
type miniFile struct {
	arch     uint16
	platform uint32
	noSystem bool
	padded   bool // lists aligned to eight bytes
	time     uint32
	modules  []miniModule
	memory   map[uint64][]byte
	full     bool // memory as a full dump has it
}

func u16(v uint16) []byte { return binary.LittleEndian.AppendUint16(nil, v) }
func u32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
func u64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

func rsds(guid debugid.GUID, age uint32, name string) []byte {
	m := guid.Microsoft()
	return slices.Concat([]byte("RSDS"), m[:], u32(age), []byte(name), []byte{0})
}

func (f miniFile) bytes() []byte {
	var streams [][]byte
	var types []uint32
	var loose []byte // names, records and memory, behind the streams
	const room = 1 << 16
	at := func(p []byte) uint32 {
		rva := room + len(loose)
		loose = append(loose, p...)
		for len(loose)%4 != 0 {
			loose = append(loose, 0)
		}
		return uint32(rva)
	}
	name := func(s string) uint32 {
		var text []byte
		for _, u := range utf16.Encode([]rune(s)) {
			text = append(text, u16(u)...)
		}
		return at(slices.Concat(u32(uint32(len(text))), text, []byte{0, 0}))
	}
	add := func(typ uint32, p []byte) { types, streams = append(types, typ), append(streams, p) }
	list := func(n int) []byte {
		if f.padded {
			return slices.Concat(u32(uint32(n)), make([]byte, 4))
		}
		return u32(uint32(n))
	}
	if !f.noSystem {
		add(streamSystem, slices.Concat(u16(f.arch), make([]byte, 18), u32(f.platform), make([]byte, 32)))
	}
	var loaded, gone []byte
	var nLoaded, nGone int
	for _, m := range f.modules {
		if m.unloaded {
			nGone++
			gone = slices.Concat(gone, u64(m.base), u32(m.size), u32(0), u32(m.stamp), u32(name(m.path)))
			continue
		}
		nLoaded++
		cv := make([]byte, 8)
		if m.cv != nil {
			cv = slices.Concat(u32(uint32(len(m.cv))), u32(at(m.cv)))
		}
		loaded = slices.Concat(loaded, u64(m.base), u32(m.size), u32(0), u32(m.stamp), u32(name(m.path)), make([]byte, 52), cv, make([]byte, 24))
	}
	add(streamModules, slices.Concat(list(nLoaded), loaded))
	if nGone > 0 {
		add(streamUnloaded, slices.Concat(u32(12), u32(unloadedSize), u32(uint32(nGone)), gone))
	}
	addrs := make([]uint64, 0, len(f.memory))
	for a := range f.memory {
		addrs = append(addrs, a)
	}
	slices.Sort(addrs)
	if f.full && len(addrs) > 0 {
		var p, all []byte
		for _, a := range addrs {
			p, all = slices.Concat(p, u64(a), u64(uint64(len(f.memory[a])))), append(all, f.memory[a]...)
		}
		add(streamMemory64, slices.Concat(u64(uint64(len(addrs))), u64(uint64(at(all))), p))
	} else if len(addrs) > 0 {
		p := list(len(addrs))
		for _, a := range addrs {
			p = slices.Concat(p, u64(a), u32(uint32(len(f.memory[a]))), u32(at(f.memory[a])))
		}
		add(streamMemory, p)
	}
	out := slices.Concat([]byte("MDMP"), u32(minidumpVersion), u32(uint32(len(streams))), u32(headerSize), u32(0), u32(f.time), u64(0))
	off := headerSize + directorySize*len(streams)
	for i, p := range streams {
		out = slices.Concat(out, u32(types[i]), u32(uint32(len(p))), u32(uint32(off)))
		off += len(p)
	}
	out = append(out, slices.Concat(streams...)...)
	return append(append(out, make([]byte, room-len(out))...), loose...)
}

// elfBuilder writes ELF structures of one class and byte order.
type elfBuilder struct {
	order binary.ByteOrder
	is64  bool
}

func (e elfBuilder) word(v uint64) []byte {
	if !e.is64 {
		return e.put(4, v)
	}
	return e.put(8, v)
}

func (e elfBuilder) put(n int, v uint64) []byte {
	p := make([]byte, n)
	switch n {
	case 2:
		e.order.PutUint16(p, uint16(v))
	case 4:
		e.order.PutUint32(p, uint32(v))
	case 8:
		e.order.PutUint64(p, v)
	}
	return p
}

func (e elfBuilder) note(owner string, typ uint32, desc []byte) []byte {
	name := append([]byte(owner), 0)
	pad := func(p []byte) []byte { return append(p, make([]byte, -len(p)&3)...) }
	return slices.Concat(e.put(4, uint64(len(name))), e.put(4, uint64(len(desc))), e.put(4, uint64(typ)), pad(name), pad(slices.Clone(desc)))
}

func (e elfBuilder) header(typ, machine uint16, phnum int) []byte {
	class, data := byte(1), byte(1)
	size, entry := 52, 32
	if e.is64 {
		class, size, entry = 2, 64, 56
	}
	if e.order == binary.BigEndian {
		data = 2
	}
	return slices.Concat([]byte{0x7f, 'E', 'L', 'F', class, data, 1, 0}, make([]byte, 8), e.put(2, uint64(typ)), e.put(2, uint64(machine)), e.put(4, 1),
		e.word(0), e.word(uint64(size)), e.word(0), e.put(4, 0), e.put(2, uint64(size)), e.put(2, uint64(entry)), e.put(2, uint64(phnum)), make([]byte, 6))
}

func (e elfBuilder) segment(typ, flags uint32, off, vaddr, filesz, memsz, align uint64) []byte {
	if e.is64 {
		return slices.Concat(e.put(4, uint64(typ)), e.put(4, uint64(flags)), e.word(off), e.word(vaddr), e.word(vaddr), e.word(filesz), e.word(memsz), e.word(align))
	}
	return slices.Concat(e.put(4, uint64(typ)), e.word(off), e.word(vaddr), e.word(vaddr), e.word(filesz), e.word(memsz), e.put(4, uint64(flags)), e.word(align))
}

// image is the first page of a shared library that spans four pages. Its notes
// stand behind another one, as those of real files do.
func (e elfBuilder) image(id []byte, soname string) []byte {
	const link = 0x10000 // linked there, loaded elsewhere
	notes := slices.Concat(e.note("GNU", 1, make([]byte, 16)), e.note("GNU", noteBuildID, id))
	strings := append([]byte{0}, append([]byte(soname), 0)...)
	const notesAt, stringsAt, dynAt = 0x200, 0x400, 0x500
	dyn := slices.Concat(e.word(dynStrtab), e.word(link+stringsAt), e.word(dynStrsz), e.word(uint64(len(strings))), e.word(dynSoname), e.word(1), e.word(0), e.word(0))
	p := slices.Concat(e.header(elfTypeDyn, 62, 4),
		e.segment(segLoad, 5, 0, link, 0x1000, 0x1000, 0x1000),
		e.segment(segLoad, 6, 0x1000, link+0x2000, 0x1000, 0x2000, 0x1000),
		e.segment(segNote, 4, notesAt, link+notesAt, uint64(len(notes)), uint64(len(notes)), 4),
		e.segment(segDynamic, 4, dynAt, link+dynAt, uint64(len(dyn)), uint64(len(dyn)), 4))
	p = append(p, make([]byte, 0x1000-len(p))...)
	copy(p[notesAt:], notes)
	copy(p[stringsAt:], strings)
	copy(p[dynAt:], dyn)
	return p
}

// coreMap is one mapping of a core: its memory may be left out of the dump.
type coreMap struct {
	addr, size uint64
	flags      uint32
	path       string // "" for what is no file
	page       uint64 // the file's page that it begins with
	memory     []byte
}

// coreFile builds a core file with those mappings.
type coreFile struct {
	elfBuilder
	machine uint16
	noList  bool
	notes   []byte // the first; nil: a thread without registers
	maps    []coreMap
}

func (f coreFile) bytes() []byte {
	var list, names []byte
	n := 0
	for _, m := range f.maps {
		if m.path != "" {
			n++
			list = append(list, slices.Concat(f.word(m.addr), f.word(m.addr+m.size), f.word(m.page))...)
			names = append(append(names, m.path...), 0)
		}
	}
	notes := slices.Clone(f.notes)
	if notes == nil {
		notes = f.note("CORE", 1, make([]byte, 100))
	}
	if !f.noList {
		notes = append(notes, f.note("CORE", noteFiles, slices.Concat(f.word(uint64(n)), f.word(4096), list, names))...)
	}
	notes = append(notes, f.note("LINUX", 0x202, make([]byte, 7))...)
	head := f.header(elfTypeCore, f.machine, len(f.maps)+1)
	at := uint64(len(head)) + uint64(len(f.maps)+1)*uint64(len(f.segment(0, 0, 0, 0, 0, 0, 0)))
	head = append(head, f.segment(segNote, 0, at, 0, uint64(len(notes)), 0, 4)...)
	at += uint64(len(notes))
	body := notes
	for _, m := range f.maps {
		head = append(head, f.segment(segLoad, m.flags, at, m.addr, uint64(len(m.memory)), m.size, 4096)...)
		body = append(body, m.memory...)
		at += uint64(len(m.memory))
	}
	return append(head, body...)
}

// peImage is a PE image with one section of which the debug directory is a
// part; loaded as its headers say, or flat as it lies in its file.
func peImage(stamp, sizeOfImage uint32, flat bool, records ...peRecord) []byte {
	const rva, off, peAt, optSize = 0x2000, 0x400, 0x80, 240
	p := make([]byte, 0x3000)
	copy(p, "MZ")
	copy(p[60:], u32(peAt))
	copy(p[peAt:], slices.Concat([]byte("PE\x00\x00"), u16(0x8664), u16(1), u32(stamp), u32(0), u32(0), u16(optSize), u16(0x2022)))
	opt := p[peAt+24:]
	copy(opt, u16(0x20b))
	copy(opt[56:], u32(sizeOfImage))
	copy(opt[108:], u32(16))
	copy(opt[112+48:], slices.Concat(u32(rva), u32(uint32(28*len(records)))))
	copy(opt[optSize:], slices.Concat([]byte(".rdata\x00\x00"), u32(0x1000), u32(rva), u32(0x1000), u32(off)))
	section := p[rva:]
	if flat {
		section = p[off:rva]
	}
	at := 28 * len(records)
	for i, r := range records {
		copy(section[28*i:], slices.Concat(u32(0), u32(r.stamp), u16(0), u16(r.minor), u32(r.typ), u32(uint32(len(r.data))), u32(uint32(rva+at)), u32(uint32(off+at))))
		copy(section[at:], r.data)
		at += (len(r.data) + 3) &^ 3
	}
	return p
}

type peRecord struct {
	typ, stamp uint32
	minor      uint16
	data       []byte
}

func read(p []byte) (*Dump, error) { return Read(bytes.NewReader(p), int64(len(p))) }

package objfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/pagecache"
)

// Load commands and bits of the Mach-O format (mach-o/loader.h, mach-o/nlist.h).
const (
	cmdDyldInfo, cmdDyldInfoOnly = 0x22, 0x80000022
	cmdFunctionStarts            = 0x26
	cmdExportsTrie               = 0x80000033

	machPureCode, machSomeCode = 0x80000000, 0x00000400
	machTypeMask, machZerofill = 0xff, 1
	machGBZerofill, machTLZero = 0xc, 0x12

	nStab, nTypeMask, nSect, nExt = 0xe0, 0x0e, 0x0e, 0x01
	nWeakDef                      = 0x80

	maxMachSections  = 1 << 14
	maxLinkedit      = 256 << 20 // bytes of an exports trie or of function starts
	maxTrieDepth     = 512
	maxFunctionStart = 16 << 20

	cpuARM = 12
)

type machSection struct {
	segment, name string
	addr, size    uint64
	off           uint32
	flags         uint32
}

func (s *machSection) code() bool { return s.flags&(machPureCode|machSomeCode) != 0 }

type machPart struct{ off, size uint32 }

// MachOFile gives access to the sections and symbols of a thin Mach-O image. It is
// safe for concurrent use if the reader of the file is.
type MachOFile struct {
	r        io.ReaderAt
	size     int64
	order    binary.ByteOrder
	is64     bool
	cpu, sub uint32
	filetype uint32
	uuid     debugid.GUID
	base     uint64 // of __TEXT
	hasText  bool
	secs     []machSection
	sym, str machPart // sym.size counts symbols
	starts   machPart
	exports  machPart
}

// OpenMachO reads the headers of the thin image of size bytes at r; the slices of
// a fat file are those that Identify returns. The error wraps ErrNotSymbolFile if
// the file is not a thin Mach-O image, and ErrBroken if it is malformed.
func OpenMachO(r io.ReaderAt, size int64) (*MachOFile, error) {
	b := newBudget(r, size, IDBudget+FeatureBudget)
	h, err := b.bytes(0, 28)
	if err != nil {
		return nil, machFail(b, err)
	}
	if !isMachO(h) {
		return nil, notSymbol("no Mach-O magic")
	}
	m := &MachOFile{r: r, size: size, order: binary.LittleEndian}
	if h[0] == 0xfe {
		m.order = binary.BigEndian
	}
	head := int64(28)
	if m.order.Uint32(h) == machMagic64 {
		m.is64, head = true, 32
	}
	m.cpu, m.sub, m.filetype = m.order.Uint32(h[4:]), m.order.Uint32(h[8:]), m.order.Uint32(h[12:])
	p, err := b.bytes(head, int64(m.order.Uint32(h[20:])))
	if err != nil {
		return nil, machFail(b, fmt.Errorf("load commands: %w", err))
	}
	n := m.order.Uint32(h[16:])
	for i := range n {
		if len(p) < 8 {
			return nil, broken("Mach-O: %d load commands, room for %d", n, i)
		}
		k := m.order.Uint32(p[4:])
		if k < 8 || uint64(k) > uint64(len(p)) {
			return nil, broken("Mach-O: load command %d of %d bytes", i, k)
		}
		if err := m.command(p[:k]); err != nil {
			return nil, err
		}
		p = p[k:]
	}
	return m, nil
}

func (m *MachOFile) command(c []byte) error {
	u := m.order.Uint32
	part := func(at int) machPart { return machPart{u(c[at:]), u(c[at+4:])} }
	switch cmd := u(c); {
	case cmd == cmdUUID && len(c) >= 24 && m.uuid.IsZero():
		m.uuid = debugid.GUID(c[8:24])
	case cmd == cmdSymtab && len(c) >= 24:
		m.sym, m.str = part(8), part(16)
	case cmd == cmdFunctionStarts && len(c) >= 16:
		m.starts = part(8)
	case cmd == cmdExportsTrie && len(c) >= 16:
		m.exports = part(8)
	case (cmd == cmdDyldInfo || cmd == cmdDyldInfoOnly) && len(c) >= 48 && m.exports.size == 0:
		m.exports = part(40)
	case cmd == cmdSegment:
		return m.segment(c, false)
	case cmd == cmdSegment64:
		return m.segment(c, true)
	}
	return nil
}

func (m *MachOFile) segment(c []byte, wide bool) error {
	u, q := m.order.Uint32, m.order.Uint64
	head, sect := 56, 68
	if wide {
		head, sect = 72, 80
	}
	if len(c) < head {
		return broken("Mach-O: a segment command of %d bytes", len(c))
	}
	name := machName(c[8:24])
	vmaddr := uint64(u(c[24:]))
	if wide {
		vmaddr = q(c[24:])
	}
	if name == "__TEXT" && !m.hasText {
		m.base, m.hasText = vmaddr, true
	}
	n := u(c[head-8:])
	if uint64(n)*uint64(sect) > uint64(len(c)-head) || len(m.secs)+int(n) > maxMachSections {
		return broken("Mach-O: %d sections in a segment command of %d bytes", n, len(c))
	}
	for c = c[head:]; n > 0; n-- {
		s := machSection{segment: machName(c[16:32]), name: machName(c)}
		if wide {
			s.addr, s.size, s.off, s.flags = q(c[32:]), q(c[40:]), u(c[48:]), u(c[64:])
		} else {
			s.addr, s.size, s.off, s.flags = uint64(u(c[32:])), uint64(u(c[36:])), u(c[40:]), u(c[56:])
		}
		m.secs = append(m.secs, s)
		c = c[sect:]
	}
	return nil
}

// inFile reports whether the section has all of its content in the file.
func (m *MachOFile) inFile(s *machSection) bool {
	if t := s.flags & machTypeMask; t == machZerofill || t == machGBZerofill || t == machTLZero {
		return false
	}
	// A dSYM keeps the offsets of sections that it does not have as 0.
	return s.off != 0 && s.size > 0 && s.size <= uint64(m.size) && uint64(s.off) <= uint64(m.size)-s.size
}

// Arch returns the processor, spelled as in Object.Arch.
func (m *MachOFile) Arch() string { return machArch(m.cpu, m.sub) }

// Order returns the byte order.
func (m *MachOFile) Order() binary.ByteOrder { return m.order }

// Is64 reports whether the image is of the 64-bit format.
func (m *MachOFile) Is64() bool { return m.is64 }

// UUID returns the UUID, which is zero if the image has none.
func (m *MachOFile) UUID() debugid.GUID { return m.uuid }

// Debug reports whether the image is the companion file of a dSYM.
func (m *MachOFile) Debug() bool { return m.filetype == machDSYM }

// Relocatable reports whether the image is compiler output before linking.
func (m *MachOFile) Relocatable() bool { return m.filetype == 1 }

// Base returns the preferred address of the segment __TEXT.
func (m *MachOFile) Base() uint64 { return m.base }

// Code returns the addresses of sections with instructions, sorted and without
// overlaps.
func (m *MachOFile) Code() []AddressRange {
	var out []AddressRange
	for i := range m.secs {
		if s := &m.secs[i]; s.code() && s.size > 0 && s.addr+s.size > s.addr {
			out = append(out, AddressRange{s.addr, s.addr + s.size})
		}
	}
	return mergeRanges(out)
}

// Sections returns the sections in the order of the file.
func (m *MachOFile) Sections() iter.Seq[Section] {
	return func(yield func(Section) bool) {
		for i := range m.secs {
			s := &m.secs[i]
			if !yield(Section{Segment: s.segment, Name: s.name, Address: s.addr, Size: s.size, InFile: m.inFile(s), Code: s.code()}) {
				return
			}
		}
	}
}

// Section returns the content of the first section with a name, such as
// "__debug_info", decompressed. Names have at most 16 bytes. A name that begins
// with "__debug_" stands for the compressed form "__zdebug_", too. The errors are
// those of ELFFile.Section.
func (m *MachOFile) Section(name string, opt SectionOptions) (*SectionData, error) {
	name = name[:min(len(name), maxMachName)]
	old := ""
	if rest, ok := strings.CutPrefix(name, "__debug_"); ok {
		old = "__zdebug_" + rest
		old = old[:min(len(old), maxMachName)]
	}
	for i := range m.secs {
		s := &m.secs[i]
		if s.name != name && (old == "" || s.name != old) || !m.inFile(s) {
			continue
		}
		if s.name != old {
			return &SectionData{r: m.r, off: int64(s.off), size: int64(s.size)}, nil
		}
		d, err := oldSection(m.r, int64(s.off), int64(s.size), opt)
		if err != nil {
			return nil, fmt.Errorf("Mach-O section %q: %w", name, err)
		}
		return d, nil
	}
	return nil, fmt.Errorf("Mach-O section %q: %w", name, fs.ErrNotExist)
}

// SectionAddress returns the address of the first section with a name, or 0.
func (m *MachOFile) SectionAddress(name string) uint64 {
	for i := range m.secs {
		if m.secs[i].name == name {
			return m.secs[i].addr
		}
	}
	return 0
}

// ReadCode reads the bytes of a section with instructions from an address on. At
// the end of the section, and where there is none, the error is io.EOF.
func (m *MachOFile) ReadCode(p []byte, address uint64) (int, error) {
	for i := range m.secs {
		s := &m.secs[i]
		if s.code() && m.inFile(s) && address >= s.addr && address-s.addr < s.size {
			d := SectionData{r: m.r, off: int64(s.off), size: int64(s.size)}
			return d.ReadAt(p, int64(address-s.addr))
		}
	}
	return 0, io.EOF
}

// part returns the content of a part of __LINKEDIT.
func (m *MachOFile) part(p machPart, size uint64) (*SectionData, error) {
	if uint64(p.off) > uint64(m.size) || size > uint64(m.size)-uint64(p.off) {
		return nil, broken("Mach-O: a table of %d bytes at offset %d lies outside the image of %d bytes", size, p.off, m.size)
	}
	return &SectionData{r: m.r, off: int64(p.off), size: int64(size)}, nil
}

// CodeSymbols yields the symbols in sections with instructions. Debugger symbols
// (stabs) are omitted. One leading underscore, which the C compiler adds, is
// removed. At most 8 Mi symbols are read.
func (m *MachOFile) CodeSymbols(yield func(CodeSymbol) error) error {
	if m.sym.size == 0 {
		return nil
	}
	size := 12
	if m.is64 {
		size = 16
	}
	table, err := m.part(m.sym, uint64(m.sym.size)*uint64(size))
	if err != nil {
		return err
	}
	strtab, err := m.part(m.str, uint64(m.str.size))
	if err != nil {
		return err
	}
	names := pagecache.New(strtab, 256)
	code := m.Code()
	n := min(int64(m.sym.size), maxSymbols)
	buf := make([]byte, elfChunk/size*size)
	for at := int64(0); at < n; {
		p := buf[:min(int64(len(buf)), (n-at)*int64(size))]
		if _, err := table.ReadAt(p, at*int64(size)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		at += int64(len(p) / size)
		for ; len(p) > 0; p = p[size:] {
			kind, desc := p[4], m.order.Uint16(p[6:])
			if kind&nStab != 0 || kind&nTypeMask != nSect {
				continue
			}
			x := CodeSymbol{Address: uint64(m.order.Uint32(p[8:]))}
			if m.is64 {
				x.Address = m.order.Uint64(p[8:])
			}
			if m.cpu == cpuARM {
				x.Address &^= 1
			}
			if !inRanges(code, x.Address) {
				continue
			}
			name := names.CString(uint64(m.order.Uint32(p)), maxSymbolName)
			if len(name) == 0 {
				continue
			}
			x.Name = strings.TrimPrefix(string(name), "_")
			switch {
			case kind&nExt == 0:
				x.Rank = 2
			case desc&nWeakDef != 0:
				x.Rank = 1
			}
			if err := yield(x); err != nil {
				return err
			}
		}
	}
	return names.Err()
}

// FunctionStarts yields the addresses at which functions start, from
// LC_FUNCTION_STARTS.
func (m *MachOFile) FunctionStarts(yield func(address uint64) error) error {
	if m.starts.size == 0 {
		return nil
	}
	d, err := m.part(m.starts, uint64(m.starts.size))
	if err != nil {
		return err
	}
	p, err := d.ReadAll(maxLinkedit)
	if err != nil {
		return err
	}
	at := m.base
	for i, n := 0, 0; i < len(p) && n < maxFunctionStart; n++ {
		delta, k := uleb(p[i:])
		if k == 0 || delta == 0 {
			break // 0 ends the list, which is padded with zeros
		}
		i += k
		at += delta
		a := at
		if m.cpu == cpuARM {
			a &^= 1
		}
		if err := yield(a); err != nil {
			return err
		}
	}
	return nil
}

// uleb decodes an unsigned LEB128 number and returns its length, or 0.
func uleb(p []byte) (v uint64, n int) {
	for i, c := range p {
		if i == 10 {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// Exports yields the exported symbols in sections with instructions, from the
// exports trie (Apple's dyld, "export info"). One leading underscore is removed. An
// image has an exports trie also if its symbol table was stripped.
func (m *MachOFile) Exports(yield func(CodeSymbol) error) error {
	if m.exports.size == 0 {
		return nil
	}
	d, err := m.part(m.exports, uint64(m.exports.size))
	if err != nil {
		return err
	}
	p, err := d.ReadAll(maxLinkedit)
	if err != nil {
		return err
	}
	t := &trie{m: m, p: p, code: m.Code(), yield: yield, seen: make([]uint64, len(p)/64+1)}
	return t.walk()
}

// trie is a walk over an exports trie. Each node is visited once at most.
type trie struct {
	m     *MachOFile
	p     []byte
	code  []AddressRange
	yield func(CodeSymbol) error
	seen  []uint64
	name  []byte
	read  int // bytes of labels, which overlap in hostile files only
}

// node is a node that is being visited.
type node struct {
	at       int // of the next child
	children int // left
	length   int // of the name of the node
}

func (t *trie) walk() error {
	var stack []node
	enter := func(off uint64) error {
		if off >= uint64(len(t.p)) || t.seen[off/64]&(1<<(off%64)) != 0 {
			return broken("Mach-O: an exports trie with a wrong child")
		}
		t.seen[off/64] |= 1 << (off % 64)
		size, k := uleb(t.p[off:])
		at := int(off) + k
		if k == 0 || size > uint64(len(t.p)-at) {
			return broken("Mach-O: an exports trie with a wrong node")
		}
		if size > 0 {
			if err := t.export(t.p[at : at+int(size)]); err != nil {
				return err
			}
		}
		if at += int(size); at >= len(t.p) {
			return broken("Mach-O: an exports trie with a wrong node")
		}
		if len(stack) >= maxTrieDepth {
			return broken("Mach-O: an exports trie of more than %d levels", maxTrieDepth)
		}
		stack = append(stack, node{at + 1, int(t.p[at]), len(t.name)})
		return nil
	}
	if err := enter(0); err != nil {
		return err
	}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if top.children == 0 {
			stack = stack[:len(stack)-1]
			continue
		}
		top.children--
		t.name = t.name[:top.length]
		label, _, ok := bytes.Cut(t.p[min(len(t.p), top.at):min(len(t.p), top.at+maxSymbolName)], []byte{0})
		if !ok || len(t.name)+len(label) > maxSymbolName {
			return broken("Mach-O: an exports trie with a wrong label")
		}
		if t.read += len(label); t.read > 4*len(t.p) {
			return broken("Mach-O: an exports trie with labels that overlap")
		}
		t.name = append(t.name, label...)
		child, k := uleb(t.p[min(len(t.p), top.at+len(label)+1):])
		if k == 0 {
			return broken("Mach-O: an exports trie with a wrong child")
		}
		top.at += len(label) + 1 + k
		if err := enter(child); err != nil {
			return err
		}
	}
	return nil
}

// export reads the end of a name: its flags and its address. Re-exported and
// absolute symbols have none.
func (t *trie) export(p []byte) error {
	flags, k := uleb(p)
	const kindMask, reexport, weak = 3, 8, 4
	if k == 0 || flags&kindMask != 0 || flags&reexport != 0 {
		return nil
	}
	off, n := uleb(p[k:])
	a := t.m.base + off
	if t.m.cpu == cpuARM {
		a &^= 1
	}
	if n == 0 || !inRanges(t.code, a) {
		return nil
	}
	x := CodeSymbol{Name: strings.TrimPrefix(string(t.name), "_"), Address: a}
	if flags&weak != 0 {
		x.Rank = 1
	}
	return t.yield(x)
}

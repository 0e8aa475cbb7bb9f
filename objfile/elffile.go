package objfile

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/pagecache"
	"github.com/symdepot/symdepot/internal/base/xz"
)

const (
	secExec  = 0x4 // SHF_EXECINSTR
	segExec  = 1   // PF_X
	pageSize = 4096

	maxMiniDebug     = 256 << 20 // bytes of a decompressed .gnu_debugdata
	maxMiniDict      = 64 << 20
	maxSymbols       = 8 << 20 // of one table
	maxSymbolName    = 64 << 10
	machinePPC64     = 21
	machineARM       = 40
	sectionUndefined = 0
	sectionAbsolute  = 0xfff1
)

// Section describes a section of an ELF or Mach-O file.
type Section struct {
	Segment string // Mach-O: the name of its segment
	Name    string
	Address uint64 // in memory; 0 for a section that is not loaded
	Size    uint64 // bytes in memory, or in the file if it is not loaded
	InFile  bool   // the file has its content
	Code    bool   // has executable instructions
}

// AddressRange is a range of addresses from Start up to, but not including, End.
type AddressRange struct{ Start, End uint64 }

// CodeSymbol is a name of an address of code in a symbol table.
type CodeSymbol struct {
	Name    string
	Address uint64
	Size    uint64 // bytes; 0: unknown
	// Rank orders the symbols of one address: the lower one is the better name. Functions come
	// before labels, global symbols before weak and local ones.
	Rank uint8
}

// ELFFile gives access to the sections and symbols of an ELF file. It is safe for
// concurrent use if the reader of the file is.
type ELFFile struct {
	f    *elfFile
	r    io.ReaderAt
	size int64
}

// OpenELF reads the headers of the ELF file of size bytes at r, within the limits
// of Identify. The error wraps ErrNotSymbolFile if the file is not an ELF file,
// and ErrBroken if it is malformed.
func OpenELF(r io.ReaderAt, size int64) (*ELFFile, error) {
	f, err := openELF(newBudget(r, size, IDBudget+FeatureBudget))
	if err != nil {
		return nil, err
	}
	if err := f.loadSections(); err != nil {
		return nil, f.fail(err)
	}
	if err := f.loadNames(); err != nil {
		return nil, f.fail(err)
	}
	return &ELFFile{f, r, size}, nil
}

// Arch returns the processor, spelled as in Object.Arch.
func (e *ELFFile) Arch() string { return e.f.arch() }

// Order returns the byte order.
func (e *ELFFile) Order() binary.ByteOrder { return e.f.order }

// Is64 reports whether the file is of the 64-bit class.
func (e *ELFFile) Is64() bool { return e.f.is64 }

// Relocatable reports whether the file is compiler output before linking: its
// sections have no addresses.
func (e *ELFFile) Relocatable() bool { return e.f.typ == elfRel }

// BuildID returns the GNU build-id, or the checksum of a supplementary file of DWARF 5.
// It is empty if the file has neither.
func (e *ELFFile) BuildID() (debugid.BuildID, error) {
	e.f.b.left = IDBudget + FeatureBudget
	id, err := e.f.buildID()
	if err != nil {
		return "", e.f.fail(err)
	}
	return id, nil
}

// Base returns the preferred load address: the address of the lowest loaded
// segment, rounded down to a page.
func (e *ELFFile) Base() uint64 {
	base, found := uint64(0), false
	for _, s := range e.f.segs {
		if s.typ != segLoad || found && s.vaddr >= base {
			continue
		}
		base, found = s.vaddr, true
		if s.off != 0 && s.align > 1 {
			base &^= min(pageSize, s.align&-s.align) - 1
		}
	}
	return base
}

// Code returns the addresses of executable code, sorted and without overlaps: of
// the executable sections, or of the segments if the file has no such sections.
func (e *ELFFile) Code() []AddressRange {
	var out []AddressRange
	for _, s := range e.f.secs {
		if s.flags&(secExec|secAlloc) == secExec|secAlloc && s.size > 0 && s.addr+s.size > s.addr {
			out = append(out, AddressRange{s.addr, s.addr + s.size})
		}
	}
	if len(out) == 0 {
		for _, s := range e.f.segs {
			if s.typ == segLoad && s.flags&segExec != 0 && s.memsize > 0 && s.vaddr+s.memsize > s.vaddr {
				out = append(out, AddressRange{s.vaddr, s.vaddr + s.memsize})
			}
		}
	}
	return mergeRanges(out)
}

func mergeRanges(in []AddressRange) []AddressRange {
	slices.SortFunc(in, func(a, b AddressRange) int { return cmp.Compare(a.Start, b.Start) })
	out := in[:0]
	for _, r := range in {
		if n := len(out); n > 0 && r.Start <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, r.End)
			continue
		}
		out = append(out, r)
	}
	return out
}

func inRanges(ranges []AddressRange, a uint64) bool {
	i, found := slices.BinarySearchFunc(ranges, a, func(r AddressRange, a uint64) int { return cmp.Compare(r.Start, a) })
	return found || i > 0 && a < ranges[i-1].End
}

// Sections returns the sections in the order of the file.
func (e *ELFFile) Sections() iter.Seq[Section] {
	return func(yield func(Section) bool) {
		for _, s := range e.f.secs {
			if s.typ == secNull {
				continue
			}
			x := Section{Name: string(e.f.name(s)), Size: s.size, InFile: s.hasContents(), Code: s.flags&(secExec|secAlloc) == secExec|secAlloc}
			if s.flags&secAlloc != 0 {
				x.Address = s.addr
			}
			if !yield(x) {
				return
			}
		}
	}
}

// Section returns the content of the section with a name, decompressed. A name that
// begins with ".debug_" stands for the older compressed form ".zdebug_", too. The
// error wraps fs.ErrNotExist if the section is missing, empty or has no bytes in
// the file, and ErrBroken if it cannot be decompressed.
func (e *ELFFile) Section(name string, opt SectionOptions) (*SectionData, error) {
	old := ""
	if rest, ok := strings.CutPrefix(name, ".debug_"); ok {
		old = ".zdebug_" + rest
	}
	for _, s := range e.f.secs {
		if !s.hasContents() {
			continue
		}
		have := e.f.name(s)
		if string(have) == name || old != "" && string(have) == old {
			d, err := e.f.open(e.r, s, have, opt)
			if err != nil {
				return nil, fmt.Errorf("ELF section %q: %w", name, err)
			}
			return d, nil
		}
	}
	return nil, fmt.Errorf("ELF section %q: %w", name, fs.ErrNotExist)
}

// SectionAddress returns the address of a section in memory. It is 0 if the
// section is missing or not loaded.
func (e *ELFFile) SectionAddress(name string) uint64 {
	for _, s := range e.f.secs {
		if s.flags&secAlloc != 0 && string(e.f.name(s)) == name {
			return s.addr
		}
	}
	return 0
}

// DebugLink returns the name and the CRC-32 of the separate debug file in
// .gnu_debuglink. The error wraps fs.ErrNotExist if there is none.
func (e *ELFFile) DebugLink() (name string, crc uint32, err error) {
	p, err := e.small(".gnu_debuglink")
	if err != nil {
		return "", 0, err
	}
	name, _, ok := strings.Cut(string(p), "\x00")
	at := alignUp(uint64(len(name))+1, 4)
	if !ok || at+4 > uint64(len(p)) {
		return "", 0, broken("ELF: .gnu_debuglink of %d bytes", len(p))
	}
	return name, e.f.order.Uint32(p[at:]), nil
}

// AltLink returns the name and the build-id of the supplementary file that dwz
// made, from .gnu_debugaltlink, or .debug_sup of DWARF 5, which has a checksum in the
// place of the build-id. The error wraps fs.ErrNotExist if there is none.
func (e *ELFFile) AltLink() (name string, id debugid.BuildID, err error) {
	p, err := e.small(".gnu_debugaltlink")
	if errors.Is(err, fs.ErrNotExist) {
		e.f.b.left = IDBudget + FeatureBudget
		sup, name, id, serr := e.f.supplementary()
		if serr == nil && !sup {
			return name, id, nil
		}
		if serr != nil && !errors.Is(serr, fs.ErrNotExist) && !errors.Is(serr, errBudget) {
			err = e.f.fail(serr)
		}
	}
	if err != nil {
		return "", "", err
	}
	name, rest, ok := strings.Cut(string(p), "\x00")
	if !ok || len(rest) > debugid.MaxBuildID {
		return "", "", broken("ELF: .gnu_debugaltlink of %d bytes", len(p))
	}
	return name, debugid.NewBuildID([]byte(rest)), nil
}

func (e *ELFFile) small(name string) ([]byte, error) {
	d, err := e.Section(name, SectionOptions{})
	if err != nil {
		return nil, err
	}
	return d.ReadAll(pageSize)
}

// HasSymbols reports whether the file has the table .symtab.
func (e *ELFFile) HasSymbols() bool {
	return slices.ContainsFunc(e.f.secs, func(s elfSection) bool { return s.typ == secSymtab && s.hasContents() })
}

// CodeSymbols yields the names of functions and labels in executable sections: of
// .symtab, or of .dynsym if dynamic. Mapping symbols ($a, $d, $t, $x) and local
// labels (.L) are omitted, the Thumb bit is cleared, and descriptors of PowerPC
// (.opd) are resolved. At most 8 Mi symbols are read. The error is that of yield,
// of reading, or wraps ErrBroken.
func (e *ELFFile) CodeSymbols(dynamic bool, yield func(CodeSymbol) error) error {
	want := uint32(secSymtab)
	if dynamic {
		want = secDynsym
	}
	code := e.Code()
	for _, s := range e.f.secs {
		if s.typ != want || !s.hasContents() {
			continue
		}
		if uint64(s.link) >= uint64(len(e.f.secs)) || !e.f.secs[s.link].hasContents() {
			return broken("ELF: a symbol table without names")
		}
		if err := e.codeSymbols(s, e.f.secs[s.link], code, yield); err != nil {
			return err
		}
	}
	return nil
}

func (e *ELFFile) codeSymbols(s, names elfSection, code []AddressRange, yield func(CodeSymbol) error) error {
	table, err := e.f.open(e.r, s, nil, SectionOptions{})
	if err != nil {
		return err
	}
	strtab, err := e.f.open(e.r, names, nil, SectionOptions{})
	if err != nil {
		return err
	}
	opd := e.descriptors()
	size := 16
	if e.f.is64 {
		size = 24
	}
	strings := pagecache.New(strtab, 256)
	n := min(table.Size()/int64(size), maxSymbols)
	buf := make([]byte, elfChunk/size*size)
	for at := int64(0); at < n; {
		p := buf[:min(int64(len(buf)), (n-at)*int64(size))]
		if _, err := table.ReadAt(p, at*int64(size)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		at += int64(len(p) / size)
		for ; len(p) > 0; p = p[size:] {
			x, ok := e.codeSymbol(p, strings, code, opd)
			if !ok {
				continue
			}
			if err := yield(x); err != nil {
				return err
			}
		}
	}
	return strings.Err()
}

// codeSymbol decodes a symbol. It is not ok if the symbol names no code.
func (e *ELFFile) codeSymbol(p []byte, names *pagecache.Reader, code []AddressRange, opd *opdTable) (CodeSymbol, bool) {
	u32, u64 := e.f.order.Uint32, e.f.order.Uint64
	var x CodeSymbol
	var info byte
	var shndx uint16
	if e.f.is64 {
		info, shndx, x.Address, x.Size = p[4], e.f.order.Uint16(p[6:]), u64(p[8:]), u64(p[16:])
	} else {
		x.Address, x.Size, info, shndx = uint64(u32(p[4:])), uint64(u32(p[8:])), p[12], e.f.order.Uint16(p[14:])
	}
	kind, bind := info&0xf, info>>4
	if shndx == sectionUndefined || shndx == sectionAbsolute || kind != 0 && kind != symFunc && kind != symIFunc {
		return x, false
	}
	if kind != 0 && e.f.machine == machineARM {
		x.Address &^= 1
	}
	if opd != nil {
		x.Address = opd.entry(x.Address)
	}
	if !inRanges(code, x.Address) {
		return x, false
	}
	name := names.CString(uint64(u32(p)), maxSymbolName)
	if len(name) == 0 || hasPrefix(name, ".L") || isMappingSymbol(name) && kind == 0 {
		return x, false
	}
	x.Name = string(name)
	switch bind {
	case 0: // local
		x.Rank = 2
	case 2: // weak
		x.Rank = 1
	}
	if kind == 0 {
		x.Rank += 4
	}
	return x, true
}

// isMappingSymbol reports whether a symbol marks code and data for disassemblers:
// $a, $d, $t, $x, with anything behind a dot ("ELF for the Arm Architecture",
// section 5.5.5; RISC-V's have the instruction set behind $x).
func isMappingSymbol(name []byte) bool {
	if len(name) < 2 || name[0] != '$' {
		return false
	}
	switch name[1] {
	case 'a', 'd', 't':
		return len(name) == 2 || name[2] == '.'
	case 'x':
		return len(name) == 2 || name[2] == '.' || hasPrefix(name, "$xrv")
	}
	return false
}

// opdTable are the function descriptors of 64-bit PowerPC (ELF ABI version 1).
type opdTable struct {
	r     *pagecache.Reader
	order binary.ByteOrder
	addr  uint64
}

// descriptors returns nil if the file has no function descriptors.
func (e *ELFFile) descriptors() *opdTable {
	if e.f.machine != machinePPC64 || e.f.eflags&3 > 1 {
		return nil
	}
	for _, s := range e.f.secs {
		if string(e.f.name(s)) == ".opd" && s.hasContents() {
			return &opdTable{pagecache.New(&SectionData{r: e.r, off: int64(s.off), size: int64(s.size)}, 16), e.f.order, s.addr}
		}
	}
	return nil
}

// entry returns the code address in the descriptor at a, or a itself.
func (t *opdTable) entry(a uint64) uint64 {
	if a < t.addr || a-t.addr >= t.r.Size() {
		return a
	}
	if p := t.r.At(a-t.addr, 8); len(p) == 8 {
		return t.order.Uint64(p)
	}
	return a
}

// MiniDebugInfo returns the ELF file in .gnu_debugdata, which has a symbol table
// of functions that are not in .dynsym. The error wraps fs.ErrNotExist if there is
// none.
func (e *ELFFile) MiniDebugInfo() (*ELFFile, error) {
	d, err := e.Section(".gnu_debugdata", SectionOptions{Limit: maxMiniDebug})
	if err != nil {
		return nil, err
	}
	z, err := xz.NewReader(io.NewSectionReader(d, 0, d.Size()), maxMiniDict)
	if err != nil {
		return nil, broken(".gnu_debugdata: %w", err)
	}
	defer func() { _ = z.Close() }()
	var p []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := z.Read(buf)
		if p = append(p, buf[:n]...); len(p) > maxMiniDebug {
			return nil, broken(".gnu_debugdata decompresses to more than %d bytes", maxMiniDebug)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, broken(".gnu_debugdata: %w", err)
		}
	}
	m := memoryFile(p)
	x, err := OpenELF(m, int64(len(p)))
	if err != nil {
		return nil, fmt.Errorf(".gnu_debugdata: %w", err)
	}
	return x, nil
}

// memoryFile is content in memory.
type memoryFile []byte

func (m memoryFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(m)) {
		return 0, io.EOF
	}
	n := copy(p, m[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

package objfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

// Limits of the readers of a PEImage.
const (
	maxPEExports    = 1 << 18 // names; ordinals have 16 bits, several names may share one
	maxPEExportName = 64 << 10
	peNameChunk     = 4 << 10
	maxPENameBytes  = 256 << 20 // read for the names of one image
)

// PEImage reads a PE image by address, as the loader maps it. It holds the
// headers only. It is safe for concurrent use if its reader is.
type PEImage struct {
	f        *peFile
	r        io.ReaderAt
	sections []PESection
	ids      []debugid.ID
}

// PESection is one section of a PE image.
type PESection struct {
	// Name is the full name: a long name is resolved in the string table.
	Name string
	// RVA is the address relative to the image base, Size the number of bytes
	// in memory.
	RVA, Size uint32
	// Offset and Stored are the position and the number of bytes in the file.
	// Stored is 0 if the file has no bytes of the section.
	Offset, Stored int64
	// Code reports that the section has instructions.
	Code bool
}

// PEExport is one named export of a PE image.
type PEExport struct {
	Name string
	RVA  uint32
}

// OpenPE reads the headers of the PE image of size bytes. The error wraps
// ErrNotSymbolFile if the file is not a PE image, and ErrBroken if it is
// malformed.
func OpenPE(r io.ReaderAt, size int64) (*PEImage, error) {
	b := newBudget(r, size, IDBudget+FeatureBudget)
	head, err := b.bytes(0, min(size, 64))
	if err != nil {
		return nil, err
	}
	if len(head) < 2 || string(head[:2]) != "MZ" {
		return nil, notSymbol("no PE image: it does not begin with MZ")
	}
	off, err := peOffset(b, head)
	if err != nil {
		return nil, err
	}
	f, err := openPE(b, off)
	if err != nil {
		return nil, err
	}
	p := &PEImage{f: f, r: r}
	if err := p.readSections(); err != nil {
		return nil, err
	}
	return p, p.readIDs()
}

func (p *PEImage) readSections() error {
	le := binary.LittleEndian
	strtab := int64(0)
	symbols, count := int64(le.Uint32(p.f.coff[8:])), int64(le.Uint32(p.f.coff[12:]))
	if end := symbols + count*coffSymbolSize; symbols > 0 && end <= p.f.b.size {
		strtab = end
	}
	for _, s := range p.f.sections {
		name, err := p.f.sectionName(s, strtab)
		if err != nil {
			return err
		}
		e := PESection{Name: name, RVA: s.rva, Size: s.vsize, Code: s.flags&(sectionCode|sectionExecute) != 0}
		if e.Size == 0 {
			e.Size = s.size
		}
		if off, n := p.f.offset(s.rva); s.stored() && n > 0 {
			e.Offset, e.Stored = off, min(n, int64(e.Size))
		}
		p.sections = append(p.sections, e)
	}
	return nil
}

// readIDs collects the debug ids of the CodeView records.
func (p *PEImage) readIDs() error {
	entries, err := p.f.debugEntries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.kind != debugCodeView || !e.inFile || len(p.ids) == maxRecords {
			continue
		}
		want, _, err := codeView(p.f.b, e)
		if err != nil {
			return err
		}
		if want.Kind != symfile.KindUnknown && !slices.Contains(p.ids, want.DebugID) {
			p.ids = append(p.ids, want.DebugID)
		}
	}
	return nil
}

// Arch returns the processor as Object.Arch does.
func (p *PEImage) Arch() string { return peArch(binary.LittleEndian.Uint16(p.f.coff[:])) }

// Base returns the preferred address of the image.
func (p *PEImage) Base() uint64 {
	le := binary.LittleEndian
	switch o := p.f.optional; {
	case len(o) >= 32 && le.Uint16(o) == 0x20b:
		return le.Uint64(o[24:])
	case len(o) >= 32 && le.Uint16(o) == 0x10b:
		return uint64(le.Uint32(o[28:]))
	}
	return 0
}

// CodeID returns the time stamp and the size of the image as one key, or "" if
// the image has neither.
func (p *PEImage) CodeID() string {
	if len(p.f.optional) < 60 {
		return ""
	}
	id := debugid.PE{TimeDateStamp: p.f.timeStamp(), SizeOfImage: binary.LittleEndian.Uint32(p.f.optional[56:])}
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// DebugIDs returns the debug ids of the PDBs that the image refers to, in the
// order of the debug directory.
func (p *PEImage) DebugIDs() []debugid.ID { return slices.Clone(p.ids) }

// Sections returns the sections in the order of the file.
func (p *PEImage) Sections() []PESection { return slices.Clone(p.sections) }

// Section returns the content of the first section with a name, such as ".debug_info",
// decompressed. A name that begins with ".debug_" stands for the compressed form
// ".zdebug_", too. The errors are those of ELFFile.Section.
func (p *PEImage) Section(name string, opt SectionOptions) (*SectionData, error) {
	old := ""
	if rest, ok := strings.CutPrefix(name, ".debug_"); ok {
		old = ".zdebug_" + rest
	}
	for _, s := range p.sections {
		n := min(int64(s.Size), s.Stored)
		switch {
		case n == 0:
		case s.Name == name:
			return &SectionData{r: p.r, off: s.Offset, size: n}, nil
		case old != "" && s.Name == old:
			d, err := oldSection(p.r, s.Offset, n, opt)
			if err != nil {
				return nil, fmt.Errorf("PE section %q: %w", name, err)
			}
			return d, nil
		}
	}
	return nil, fmt.Errorf("PE section %q: %w", name, fs.ErrNotExist)
}

// SectionAddress returns the address of the first section with a name, relative to the
// base, or 0.
func (p *PEImage) SectionAddress(name string) uint32 {
	for _, s := range p.sections {
		if s.Name == name {
			return s.RVA
		}
	}
	return 0
}

// CodeSections calls yield with each section that has instructions until yield
// returns false.
func (p *PEImage) CodeSections(yield func(name string, rva, size uint32) bool) {
	for _, s := range p.sections {
		if s.Code && !yield(s.Name, s.RVA, s.Size) {
			return
		}
	}
}

// Directory returns the address and the size of a data directory, by its number
// in the PE format. Both are 0 if the image does not have it.
func (p *PEImage) Directory(i int) (rva, size uint32) {
	if i < 0 || i >= 16 {
		return 0, 0
	}
	return p.f.directory(i)
}

// ExceptionTable returns the address and the size of the table of functions
// with unwind data (.pdata). Both are 0 if the image has none.
func (p *PEImage) ExceptionTable() (rva, size uint32) { return p.f.directory(dirException) }

// ReadAt implements io.ReaderAt; the offset is an address relative to the image
// base. It reads the headers and the stored bytes of sections, one section at
// most: at the end of the stored bytes the error is io.EOF.
func (p *PEImage) ReadAt(b []byte, rva int64) (int, error) {
	if rva < 0 || rva > 1<<32-1 {
		return 0, io.EOF
	}
	off, n := p.f.offset(uint32(rva))
	if n = min(n, p.f.b.size-off); n <= 0 {
		return 0, io.EOF
	}
	short := int64(len(b)) > n
	if short {
		b = b[:n]
	}
	got, err := p.r.ReadAt(b, off)
	if got == len(b) {
		err = nil
		if short {
			err = io.EOF
		}
	}
	return got, err
}

// read returns n bytes at an address. The caller limits n.
func (p *PEImage) read(rva uint32, n int64) ([]byte, error) {
	if _, have := p.f.offset(rva); have < n {
		return nil, broken("%d bytes at address %#x have %d bytes in the file", n, rva, have)
	}
	b := make([]byte, n)
	if _, err := p.ReadAt(b, int64(rva)); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b, nil
}

// Exports calls yield with each named export of the image's own code and data
// until yield returns false. It omits forwarders to other images and names that
// are empty or longer than 64 KiB. The error wraps ErrBroken if the export
// directory is malformed. Source of the layout: the PE format, section "The
// .edata Section".
func (p *PEImage) Exports(yield func(name string, rva uint32) bool) error {
	dir, size := p.f.directory(dirExport)
	if size < 40 || dir == 0 {
		return nil
	}
	if _, n := p.f.offset(dir); n == 0 {
		return nil // debug companions have the directory without its bytes
	}
	h, err := p.read(dir, 40)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	functions, names := int64(le.Uint32(h[20:])), int64(le.Uint32(h[24:]))
	if names == 0 || functions == 0 {
		return nil
	}
	if functions > 1<<16 || names > maxPEExports {
		return broken("the export directory claims %d functions and %d names", functions, names)
	}
	addresses, err := p.read(le.Uint32(h[28:]), 4*functions)
	if err != nil {
		return fmt.Errorf("export addresses: %w", err)
	}
	pointers, err := p.read(le.Uint32(h[32:]), 4*names)
	if err != nil {
		return fmt.Errorf("export names: %w", err)
	}
	ordinals, err := p.read(le.Uint32(h[36:]), 2*names)
	if err != nil {
		return fmt.Errorf("export ordinals: %w", err)
	}
	text := exportNames{p: p, left: maxPENameBytes}
	for i := range names {
		ordinal := int64(le.Uint16(ordinals[2*i:]))
		if ordinal >= functions {
			continue
		}
		rva := le.Uint32(addresses[4*ordinal:])
		if rva == 0 || rva >= dir && rva-dir < size {
			continue
		}
		name, err := text.at(le.Uint32(pointers[4*i:]))
		if err != nil {
			return err
		}
		if name != "" && !yield(name, rva) {
			return nil
		}
	}
	return nil
}

// exportNames reads zero-terminated texts that mostly follow one another.
type exportNames struct {
	p     *PEImage
	left  int64 // bytes that may still be read
	start uint32
	chunk []byte
}

// at returns the text at an address, or "" if it has no end within the limit.
func (t *exportNames) at(rva uint32) (string, error) {
	for want := int64(peNameChunk); ; want *= 4 {
		if rva >= t.start && rva-t.start < uint32(len(t.chunk)) {
			if s := t.chunk[rva-t.start:]; bytes.IndexByte(s, 0) >= 0 {
				return string(s[:bytes.IndexByte(s, 0)]), nil
			}
		}
		_, have := t.p.f.offset(rva)
		if want > maxPEExportName || have == 0 || rva == t.start && int64(len(t.chunk)) >= have {
			return "", nil
		}
		if t.left -= min(want, have); t.left < 0 {
			return "", broken("the names of the exports have more than %d bytes", maxPENameBytes)
		}
		b, err := t.p.read(rva, min(want, have))
		if err != nil {
			return "", err
		}
		t.start, t.chunk = rva, b
	}
}

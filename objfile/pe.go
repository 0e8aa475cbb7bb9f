package objfile

import (
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

// Limits of the PE reader. The counts in the format have 16 bits. Windows loads
// at most 96 sections; GNU tools write a few more.
const (
	maxPESections   = 8192
	maxDebugEntries = 128
	maxRecords      = 16       // of CodeView and the like, in one image
	maxRecordName   = 32 << 10 // longest path of Windows, in bytes
)

// Data directories and debug types of the PE format.
const (
	dirExport, dirException, dirDebug, dirCOM = 0, 3, 6, 14

	debugCOFF, debugCodeView, debugFPO, debugMisc = 1, 2, 3, 4
	debugEmbedded, debugPerfMap                   = 17, 21

	debugEntrySize   = 28
	portableMinor    = 0x504d // the CodeView entry is of a portable PDB
	peSectionSize    = 40
	coffSymbolSize   = 18
	coffDLL          = 0x2000
	coffStripped     = 0x0200 // debug information was moved to a .DBG file
	sectionNoContent = 0x80   // uninitialised data
	sectionCode      = 0x20
	sectionExecute   = 0x20000000
	comILOnly        = 1
	subsystemNative  = 1
)

// peArchs names the processors by IMAGE_FILE_MACHINE.
var peArchs = map[uint16]string{
	0x014c: "x86", 0x8664: "x86_64", 0xaa64: "arm64", 0xa641: "arm64ec", 0xa64e: "arm64x",
	0x01c0: "arm", 0x01c2: "arm", 0x01c4: "arm", 0x0200: "ia64",
	0x0162: "mips", 0x0160: "mips", 0x0166: "mips", 0x0168: "mips", 0x0169: "mips", 0x0266: "mips", 0x0366: "mips", 0x0466: "mips",
	0x0184: "alpha", 0x0284: "alpha64", 0x01f0: "ppc", 0x01f1: "ppc", 0x01f2: "ppc",
	0x01a2: "sh3", 0x01a3: "sh3", 0x01a4: "sh3", 0x01a6: "sh4", 0x01a8: "sh5",
	0x5032: "riscv32", 0x5064: "riscv64", 0x5128: "riscv128", 0x6232: "loongarch32", 0x6264: "loongarch64", 0x0ebc: "ebc",
}

// readyToRunSystems are combined by XOR with the machine of ready-to-run .NET
// images for Linux, Apple's systems, FreeBSD, NetBSD and SunOS.
var readyToRunSystems = []uint16{0x7b79, 0x4644, 0xadc4, 0x1993, 0x1992}

func peArch(machine uint16) string {
	if a, ok := peArchs[machine]; ok {
		return a
	}
	for _, system := range readyToRunSystems {
		if a, ok := peArchs[machine^system]; ok {
			return a
		}
	}
	return ""
}

// peSection is one section header.
type peSection struct {
	name          string // at most 8 bytes; "/123" refers to the string table
	vsize, rva    uint32
	size, off     uint32 // in the file
	flags         uint32
	offAligned512 int64
}

// peFile has the headers of an image.
type peFile struct {
	b        *budget
	coff     [20]byte // COFF header
	optional []byte
	dirs     []byte // data directories, 8 bytes each
	sections []peSection
}

func (f *peFile) timeStamp() uint32 { return binary.LittleEndian.Uint32(f.coff[4:]) }

func (f *peFile) flags() uint16 { return binary.LittleEndian.Uint16(f.coff[18:]) }

// identifyPE returns the image and the portable PDB that is embedded in it, if
// any.
func identifyPE(b *budget, head []byte, name string) ([]Object, error) {
	off, err := peOffset(b, head)
	if err != nil {
		return nil, err
	}
	f, err := openPE(b, off)
	if err != nil {
		return nil, err
	}
	o := b.whole(symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: name})
	o.Arch = peArch(binary.LittleEndian.Uint16(f.coff[:]))
	if len(f.optional) >= 60 {
		id := debugid.PE{TimeDateStamp: f.timeStamp(), SizeOfImage: binary.LittleEndian.Uint32(f.optional[56:])}
		if !id.IsZero() {
			o.CodeID = id.String()
		}
	}
	o.ResourceOnly = len(f.sections) == 1 && f.sections[0].name == ".rsrc"
	embedded, err := f.debugDirectory(&o)
	if err != nil {
		return nil, err
	}
	o.Main = f.flags()&coffDLL == 0 && !f.driver() && !f.ilOnly()
	b.allowFeatures()
	if err := f.features(&o); errors.Is(err, errBudget) {
		o.Features.Unknown = true
	} else if err != nil {
		return nil, err
	}
	objects := []Object{o}
	if embedded != nil {
		if err := describeEmbedded(b, embedded); err != nil {
			return nil, err
		}
		objects = append(objects, *embedded)
	}
	return objects, nil
}

// peOffset finds the PE header after the DOS header. It distinguishes the other
// formats that begin with "MZ".
func peOffset(b *budget, head []byte) (int64, error) {
	if len(head) < 64 {
		return 0, notSymbol("a DOS program, or the first %d bytes of an image", len(head))
	}
	le := binary.LittleEndian
	off := int64(le.Uint32(head[60:]))
	if off+24 > b.size {
		// In new-style programs the relocations follow the offset of the new
		// header. In plain DOS programs the field can have any value.
		if le.Uint16(head[24:]) >= 64 && off >= 64 && off < 1<<20 {
			return 0, broken("the PE header at offset %d lies outside the file of %d bytes", off, b.size)
		}
		return 0, notSymbol("a DOS program")
	}
	sig, err := b.bytes(off, 4)
	if err != nil {
		return 0, err
	}
	switch string(sig[:2]) {
	case "PE":
		if sig[2] == 0 && sig[3] == 0 {
			return off, nil
		}
	case "NE":
		return 0, notSymbol("a 16-bit Windows or OS/2 program (NE)")
	case "LE":
		return 0, notSymbol("a virtual device driver (LE)")
	case "LX":
		return 0, notSymbol("an OS/2 program (LX)")
	case "W3", "W4":
		return 0, notSymbol("a library of virtual device drivers (%s)", sig[:2])
	}
	return 0, notSymbol("a DOS program")
}

// openPE reads the headers and checks that the sections are within the file.
func openPE(b *budget, off int64) (*peFile, error) {
	f := &peFile{b: b}
	h, err := b.bytes(off+4, 20)
	if err != nil {
		return nil, err
	}
	copy(f.coff[:], h)
	le := binary.LittleEndian
	sections, optional := int64(le.Uint16(h[2:])), int64(le.Uint16(h[16:]))
	// The 16 data directories are the last useful part.
	if f.optional, err = b.bytes(off+24, min(optional, 240)); err != nil {
		return nil, err
	}
	f.findDirectories()
	if sections > maxPESections {
		return nil, broken("the image claims %d sections", sections)
	}
	table, err := b.bytes(off+24+optional, sections*peSectionSize)
	if err != nil {
		return nil, err
	}
	for ; len(table) > 0; table = table[peSectionSize:] {
		s := peSection{
			name:  strings.TrimRight(string(table[:8]), "\x00"),
			vsize: le.Uint32(table[8:]), rva: le.Uint32(table[12:]),
			size: le.Uint32(table[16:]), off: le.Uint32(table[20:]), flags: le.Uint32(table[36:]),
		}
		// The loader rounds the offset of a section down to a disk sector.
		s.offAligned512 = int64(s.off) &^ 511
		if s.stored() && int64(s.off)+int64(s.size) > b.size {
			return nil, broken("section %q ends at %d, outside the file of %d bytes", s.name, int64(s.off)+int64(s.size), b.size)
		}
		f.sections = append(f.sections, s)
	}
	return f, nil
}

// stored reports whether the section has bytes in the file.
func (s peSection) stored() bool { return s.off != 0 && s.size != 0 && s.flags&sectionNoContent == 0 }

// findDirectories finds the data directories in the optional header.
func (f *peFile) findDirectories() {
	le := binary.LittleEndian
	at := 0
	if len(f.optional) >= 2 {
		switch le.Uint16(f.optional) {
		case 0x10b:
			at = 96
		case 0x20b:
			at = 112
		}
	}
	if at == 0 || len(f.optional) < at {
		return
	}
	n := min(int64(le.Uint32(f.optional[at-4:])), 16, int64(len(f.optional)-at)/8)
	f.dirs = f.optional[at : at+int(n)*8]
}

// directory returns a data directory, or zeros.
func (f *peFile) directory(i int) (rva, size uint32) {
	if len(f.dirs) < 8*(i+1) {
		return 0, 0
	}
	return binary.LittleEndian.Uint32(f.dirs[8*i:]), binary.LittleEndian.Uint32(f.dirs[8*i+4:])
}

// offset converts an address to a file offset and the number of bytes that
// follow in the same section. n is 0 if the file has no bytes for the address.
func (f *peFile) offset(rva uint32) (off, n int64) {
	for _, s := range f.sections {
		if !s.stored() || rva < s.rva || uint64(rva) >= uint64(s.rva)+uint64(max(s.vsize, s.size)) {
			continue
		}
		skip := int64(rva - s.rva)
		if skip >= int64(s.size) {
			return 0, 0
		}
		base := int64(s.off)
		if len(f.optional) >= 36 && binary.LittleEndian.Uint32(f.optional[32:]) >= 4096 {
			base = s.offAligned512 // the loader rounds the offsets of images that are aligned to pages on disk
		}
		return base + skip, int64(s.size) - skip
	}
	if len(f.optional) >= 64 {
		if headers := binary.LittleEndian.Uint32(f.optional[60:]); rva < headers && int64(headers) <= f.b.size {
			return int64(rva), int64(headers - rva)
		}
	}
	return 0, 0
}

// driver reports whether the image runs without a subsystem.
func (f *peFile) driver() bool {
	return len(f.optional) >= 70 && binary.LittleEndian.Uint16(f.optional[68:]) == subsystemNative
}

// ilOnly reports whether the image is a .NET assembly without native code.
func (f *peFile) ilOnly() bool {
	rva, size := f.directory(dirCOM)
	if size < 20 {
		return false
	}
	off, n := f.offset(rva)
	if n < 20 {
		return false
	}
	h, err := f.b.bytes(off, 20)
	return err == nil && binary.LittleEndian.Uint32(h[16:])&comILOnly != 0
}

// debugEntry is one entry of a debug directory.
type debugEntry struct {
	stamp  uint32
	minor  uint16
	kind   uint32
	size   int64
	rva    uint32
	off    int64
	inFile bool // the data is within the file
}

func parseDebugEntry(p []byte, size int64) debugEntry {
	le := binary.LittleEndian
	e := debugEntry{
		stamp: le.Uint32(p[4:]), minor: le.Uint16(p[10:]), kind: le.Uint32(p[12:]), size: int64(le.Uint32(p[16:])),
		rva: le.Uint32(p[20:]), off: int64(le.Uint32(p[24:])),
	}
	e.inFile = e.off > 0 && e.size > 0 && e.off <= size-e.size
	return e
}

// debugEntries reads the table of the debug directory.
func (f *peFile) debugEntries() ([]debugEntry, error) {
	rva, size := f.directory(dirDebug)
	off, n := f.offset(rva)
	n = min(n, int64(size)) / debugEntrySize
	if n > maxDebugEntries {
		return nil, broken("the debug directory claims %d entries", n)
	}
	table, err := f.b.bytes(off, n*debugEntrySize)
	if err != nil {
		return nil, err
	}
	var list []debugEntry
	for ; len(table) > 0; table = table[debugEntrySize:] {
		e := parseDebugEntry(table, f.b.size)
		if !e.inFile && e.size > 0 && e.rva != 0 {
			// Tools that move sections may leave the file offset unchanged.
			if at, room := f.offset(e.rva); room >= e.size {
				e.off, e.inFile = at, true
			}
		}
		list = append(list, e)
	}
	return list, nil
}

// debugDirectory reads the debug directory: the debug id, the companion files,
// and an embedded portable PDB, which it returns. It omits entries whose data
// was stripped.
func (f *peFile) debugDirectory(o *Object) (*Object, error) {
	entries, err := f.debugEntries()
	if err != nil {
		return nil, err
	}
	var embedded *Object
	portable := symfile.Object{}
	records := 0
	for _, e := range entries {
		if records == maxRecords {
			break
		}
		if !e.inFile {
			continue
		}
		switch e.kind {
		case debugCodeView:
			records++
			want, id, err := codeView(f.b, e)
			if err != nil {
				return nil, err
			}
			if want.Kind == symfile.KindUnknown {
				o.Features.Debug = o.Features.Debug || id.embeddedInImage
				continue
			}
			if o.DebugID.IsZero() {
				o.DebugID = want.DebugID
			}
			if want.Kind == symfile.PortablePDB && portable.Kind == symfile.KindUnknown {
				portable = want
			}
			o.addCompanion(want)
		case debugMisc:
			records++
			if err := f.misc(o, e); err != nil {
				return nil, err
			}
		case debugPerfMap:
			records++
			if err := perfMapRecord(f.b, o, e); err != nil {
				return nil, err
			}
		case debugEmbedded:
			records++
			if embedded != nil {
				return nil, broken("the image embeds two portable PDBs")
			}
			if embedded, err = embeddedPDB(f.b, e); err != nil {
				return nil, err
			}
		case debugCOFF:
			o.Features.Symtab = true
		}
	}
	if embedded != nil {
		embedded.Name, embedded.DebugID = portable.Name, portable.DebugID
		if embedded.Name == "" {
			embedded.Name = imageStem(o.Name) + ".pdb"
		}
	}
	return embedded, nil
}

// imageStem removes the last extension of an image's name.
func imageStem(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}

// addCompanion adds a companion file, unless no client can ask for its name.
func (o *Object) addCompanion(w symfile.Object) {
	if !isRequestable(w.Name) {
		return
	}
	for _, have := range o.PDBs {
		if have == w {
			return
		}
	}
	o.PDBs = append(o.PDBs, w)
}

// codeViewInfo has the facts in a CodeView record besides the link to a PDB.
type codeViewInfo struct{ embeddedInImage bool }

// codeView reads a record with the name of a PDB: RSDS for PDB 7.0 and portable
// PDBs, NB10 for PDB 2.0. The kind of any other record is unknown.
func codeView(b *budget, e debugEntry) (symfile.Object, codeViewInfo, error) {
	rec, err := b.bytes(e.off, min(e.size, 24+maxRecordName))
	if err != nil {
		return symfile.Object{}, codeViewInfo{}, err
	}
	le := binary.LittleEndian
	switch {
	case len(rec) >= 24 && string(rec[:4]) == "RSDS":
		w := symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: symfile.BaseName(cString(rec[24:]))}
		w.DebugID = debugid.ID{GUID: debugid.FromMicrosoft([16]byte(rec[4:20])), Age: le.Uint32(rec[20:])}
		if e.minor == portableMinor {
			w.Kind, w.DebugID.Age = symfile.PortablePDB, e.stamp
		}
		return w, codeViewInfo{}, nil
	case len(rec) >= 16 && string(rec[:4]) == "NB10":
		w := symfile.Object{Kind: symfile.PDB20, Role: symfile.Debug, Name: symfile.BaseName(cString(rec[16:]))}
		w.DebugID = debugid.PDB20(le.Uint32(rec[8:]), le.Uint32(rec[12:]))
		return w, codeViewInfo{}, nil
	}
	// Records NB05 to NB11, except NB10, contain the debug information itself.
	old := len(rec) >= 4 && (string(rec[:3]) == "NB0" || string(rec[:4]) == "NB11")
	return symfile.Object{}, codeViewInfo{old}, nil
}

// misc reads a record with a file name: that of the image, or of the .DBG file
// with its debug information. Debuggers ask for a .DBG file with the key of the
// image.
func (f *peFile) misc(o *Object, e debugEntry) error {
	rec, err := f.b.bytes(e.off, min(e.size, 12+maxRecordName))
	if err != nil {
		return err
	}
	if len(rec) < 13 || binary.LittleEndian.Uint32(rec) != 1 || rec[8] != 0 {
		return nil
	}
	name := symfile.BaseName(cString(rec[12:]))
	if name == "" {
		return nil
	}
	if !strings.HasSuffix(symfile.Fold(name), ".dbg") {
		if f.flags()&coffStripped == 0 {
			return nil
		}
		name = imageStem(name) + ".dbg"
	}
	o.addCompanion(symfile.Object{Kind: symfile.DBG, Role: symfile.Debug, Name: name, CodeID: o.CodeID})
	return nil
}

// perfMapRecord reads the record with the name of a ready-to-run perf map.
func perfMapRecord(b *budget, o *Object, e debugEntry) error {
	rec, err := b.bytes(e.off, min(e.size, 24+maxRecordName))
	if err != nil {
		return err
	}
	if len(rec) < 24 || string(rec[:4]) != "R2RM" {
		return nil
	}
	version := binary.LittleEndian.Uint32(rec[20:])
	if version == 0 || version > 1<<30 {
		return nil
	}
	o.addCompanion(symfile.Object{
		Kind: symfile.R2RMap, Role: symfile.Other, Name: symfile.BaseName(cString(rec[24:])),
		Version: int(version), Hash: debugid.GUID(rec[4:20]).Lower(),
	})
	return nil
}

// features reads sections, symbols and tables.
func (f *peFile) features(o *Object) error {
	le := binary.LittleEndian
	if rva, size := f.directory(dirException); size > 0 {
		_, n := f.offset(rva)
		o.Features.Unwind = n > 0
	}
	if rva, size := f.directory(dirExport); size > 0 {
		_, n := f.offset(rva)
		o.Features.Symtab = o.Features.Symtab || n > 0
	}
	symbols, count := int64(le.Uint32(f.coff[8:])), int64(le.Uint32(f.coff[12:]))
	strtab := int64(0)
	if end := symbols + count*coffSymbolSize; symbols > 0 && end <= f.b.size {
		strtab = end
		o.Features.Symtab = o.Features.Symtab || count > 0
	}
	code := false
	for _, s := range f.sections {
		code = code || s.stored() && s.flags&sectionCode != 0
		name, err := f.sectionName(s, strtab)
		if err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(name, ".debug_"), strings.HasPrefix(name, ".zdebug_"):
			n := int64(s.size)
			if s.vsize > 0 {
				n = min(n, int64(s.vsize))
			}
			if !s.stored() {
				continue
			}
			o.DebugSize += n
			// Unwind tables alone do not count as debug information.
			if strings.HasSuffix(name, "debug_frame") {
				o.Features.Unwind = true
			} else if !strings.HasSuffix(name, "debug_gdb_scripts") {
				o.Features.Debug = true
			}
		case name == ".eh_frame":
			o.Features.Unwind = o.Features.Unwind || s.stored()
		}
	}
	if o.Features.Debug && o.DebugSize > 0 {
		o.Role |= symfile.Debug
		if !code {
			// The output of "objcopy --only-keep-debug" has no code to run.
			o.Role &^= symfile.Executable
			o.Main, o.DebugCompanion = false, true
		}
	}
	return nil
}

// cutEHFrame is .eh_frame in the header of an image without debug information: GNU
// ld then writes no string table, and cuts names after 8 bytes.
const cutEHFrame = ".eh_fram"

// sectionName resolves a name of more than 8 bytes: "/" and the decimal offset
// in the string table, which follows the COFF symbols.
func (f *peFile) sectionName(s peSection, strtab int64) (string, error) {
	if s.name == cutEHFrame {
		return ".eh_frame", nil
	}
	digits, ok := strings.CutPrefix(s.name, "/")
	if !ok || strtab == 0 {
		return s.name, nil
	}
	at, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return s.name, nil //nolint:nilerr // not a reference
	}
	p := make([]byte, 32)
	n, err := f.b.ReadAt(p, strtab+int64(at))
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return cString(p[:n]), nil
}

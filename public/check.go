package public

import (
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/symdepot/symdepot/breakpad"
	"github.com/symdepot/symdepot/gsym"
	"github.com/symdepot/symdepot/internal/base/sharedtext"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// PrivateText is a text of a private file that its public form has too.
type PrivateText struct {
	Text  string
	Place string // in the public file: an offset, such as 0x39c
}

// maxInflated is the largest compressed section in bytes that PrivateTexts decompresses.
const maxInflated = 1 << 30

// PrivateTexts proves that a file is a public form. It returns the texts of eight printable
// characters and more, of one or two bytes each, that a private file and the public one have, and that
// the public one may not have. It may have names of functions and objects that the options allow, the
// program as it is loaded, and unwind rules. There are none if all is well.
//
// PrivateTexts reads the public file by its format, not as Write made it. It reads the private file
// only if the public one has texts at all that it may not have; compressed sections of the private
// file are decompressed. The error wraps ErrPrivate if the public file is of a kind that has no
// public form, or says that a file is damaged.
func PrivateTexts(private io.ReaderAt, privateSize int64, public io.ReaderAt, publicSize int64, o Options) ([]PrivateText, error) {
	kind, _, err := kindOf(public, publicSize)
	if err != nil {
		return nil, fmt.Errorf("public file: %w", err)
	}
	if isPDB(kind) {
		return privateInPDB(private, privateSize, public, publicSize, o)
	}
	allowed, err := allowedSpans(public, publicSize, o)
	if err != nil {
		return nil, fmt.Errorf("public file: %w", err)
	}
	var s sharedtext.Search
	parts := subtract([]span{{0, publicSize}}, join(allowed))
	for i, part := range parts {
		if _, err := io.Copy(s.Suspects(i), io.NewSectionReader(public, part.from, part.to-part.from)); err != nil {
			return nil, fmt.Errorf("public file: %w", err)
		}
	}
	if !s.HasSuspects() {
		return nil, nil
	}
	if _, err := io.Copy(s.Compare(), io.NewSectionReader(private, 0, privateSize)); err != nil {
		return nil, fmt.Errorf("private file: %w", err)
	}
	if err := compareInflated(&s, private, privateSize); err != nil {
		return nil, fmt.Errorf("private file: %w", err)
	}
	texts, err := s.Texts()
	if err != nil {
		return nil, fmt.Errorf("public file: %w", err)
	}
	list := make([]PrivateText, 0, len(texts))
	for _, t := range texts {
		list = append(list, PrivateText{t.Text, fmt.Sprintf("%#x", parts[t.Part].from+t.Offset)})
	}
	return list, nil
}

// sectioned is a file with sections that may be compressed.
type sectioned interface {
	Section(name string, opt objfile.SectionOptions) (*objfile.SectionData, error)
}

// compareInflated compares what is compressed in the private file: debug sections and embedded PDBs.
func compareInflated(s *sharedtext.Search, r io.ReaderAt, size int64) error {
	objects, err := objfile.Identify(r, size, "", objfile.Options{IDs: true})
	if err != nil {
		return nil //nolint:nilerr // its bytes are compared as they are
	}
	for _, o := range objects {
		part := io.NewSectionReader(r, o.Offset, max(o.Size, o.Deflated))
		if o.Deflated > 0 {
			inflated := flate.NewReader(io.NewSectionReader(r, o.Offset, o.Deflated))
			if _, err := io.Copy(s.Compare(), io.LimitReader(inflated, o.Size)); err != nil {
				return err
			}
			continue
		}
		file, names, err := openSections(part, o)
		if err != nil {
			return err
		}
		for _, name := range names {
			if !isDebugSection(name) && !strings.HasPrefix(name, "__zdebug_") {
				continue
			}
			d, err := file.Section(name, objfile.SectionOptions{Limit: maxInflated})
			if err != nil {
				return fmt.Errorf("section %s: %w", name, err)
			}
			if d.Bytes() == nil {
				continue // it is not compressed
			}
			if _, err := s.Compare().Write(d.Bytes()); err != nil {
				return err
			}
		}
	}
	return nil
}

// openSections returns the sections with content in an object.
func openSections(r io.ReaderAt, o objfile.Object) (file sectioned, names []string, err error) {
	switch o.Kind {
	case symfile.ELF:
		e, err := objfile.OpenELF(r, o.Size)
		if err != nil {
			return nil, nil, err
		}
		for s := range e.Sections() {
			if s.InFile && s.Size > 0 {
				names = append(names, s.Name)
			}
		}
		return e, names, nil
	case symfile.PE:
		p, err := objfile.OpenPE(r, o.Size)
		if err != nil {
			return nil, nil, err
		}
		for _, s := range p.Sections() {
			if s.Stored > 0 {
				names = append(names, s.Name)
			}
		}
		return p, names, nil
	case symfile.MachO:
		m, err := objfile.OpenMachO(r, o.Size)
		if err != nil {
			return nil, nil, err
		}
		for s := range m.Sections() {
			if s.InFile && s.Segment == "__DWARF" && s.Name != "" {
				names = append(names, s.Name)
			}
		}
		return m, names, nil
	}
	return nil, nil, nil
}

// allowedSpans returns the parts of a file in which a public form may have any text.
func allowedSpans(r io.ReaderAt, size int64, o Options) ([]span, error) {
	kind, fat, err := kindOf(r, size)
	if err != nil {
		return nil, err
	}
	f := &form{kind: kind, removed: map[RemovedKind]*Removed{}}
	n := &namer{opt: o, form: f}
	switch {
	case kind == symfile.ELF:
		return f.allowedELF(r, size, n)
	case kind == symfile.MachO && fat:
		return f.allowedFat(r, size, n)
	case kind == symfile.MachO:
		return f.allowedMachO(r, size, n)
	case kind == symfile.Breakpad:
		return allowedBreakpad(r, size, n)
	case kind == kindGSYM:
		return allowedGSYM(r, size, n)
	case kind == symfile.WASM:
		return f.allowedWASM(r, size, n)
	case kind == symfile.PE:
		return f.allowedPE(r, size, n)
	}
	return nil, private("a file of the kind %s", kind)
}

// allowedText returns the place of a text in a string table at an offset of the file.
func allowedText(table int64, at uint32, text []byte) span {
	from := table + int64(at)
	return span{from, from + int64(len(text))}
}

func (f *form) allowedELF(r io.ReaderAt, size int64, n *namer) ([]span, error) {
	x, err := f.openELF(r, size, n.opt)
	if err != nil {
		return nil, err
	}
	if x.ships {
		return []span{{0, size}}, nil
	}
	at, table, err := x.programHeaders()
	if err != nil {
		return nil, err
	}
	heads, err := x.sectionTable()
	if err != nil {
		return nil, err
	}
	list := append([]span{{0, x.headSize()}, {at, at + int64(len(table))}, heads}, x.loadedSections()...)
	list = append(list, x.segments()...)
	known := map[string]bool{".symtab": true, ".strtab": true, ".shstrtab": true}
	for _, h := range x.heads[1:] {
		known[h.name] = true
		if !isLoaded(h.ELFSectionHeader) && h.InFile() {
			list = append(list, span{int64(h.Offset), int64(h.Offset + h.Size)})
		}
	}
	if i := x.e.SectionNames(); i > 0 && i < uint64(len(x.secs)) && x.secs[i].InFile() {
		names, err := readPart(r, size, x.secs[i].Offset, x.secs[i].Size)
		if err != nil {
			return nil, err
		}
		for at, text := range eachText(names) {
			if known[string(text)] {
				list = append(list, allowedText(int64(x.secs[i].Offset), uint32(at), text))
			}
		}
	}
	if x.symtab == 0 {
		return list, nil
	}
	symbols, names, err := x.readSymbols(n.opt)
	if err != nil {
		return nil, err
	}
	symtab := x.secs[x.symtab]
	list = append(list, span{int64(symtab.Offset), int64(symtab.Offset + symtab.Size)})
	for _, s := range symbols {
		if text := names.at(s.name); n.isPublic(string(text)) {
			list = append(list, allowedText(int64(x.secs[symtab.Link].Offset), s.name, text))
		}
	}
	return list, nil
}

// sectionTable returns the place of the section headers, which are numbers.
func (x *elfForm) sectionTable() (span, error) {
	head, err := readPart(x.r, x.size, 0, uint64(x.headSize()))
	if err != nil {
		return span{}, err
	}
	at, size := uint64(x.order.Uint32(head[32:])), 40
	if x.wide {
		at, size = x.order.Uint64(head[40:]), 64
	}
	from := int64(min(at, uint64(x.size)))
	return span{from, from + int64(len(x.secs)*size)}, nil
}

func (f *form) allowedFat(r io.ReaderAt, size int64, n *namer) ([]span, error) {
	objects, err := objfile.Identify(r, size, "", objfile.Options{IDs: true})
	if err != nil {
		return nil, err
	}
	var list []span
	for _, o := range objects {
		part, err := f.allowedMachO(io.NewSectionReader(r, o.Offset, o.Size), o.Size, n)
		if err != nil {
			return nil, err
		}
		for _, s := range part {
			list = append(list, span{s.from + o.Offset, s.to + o.Offset})
		}
	}
	return list, nil
}

func (f *form) allowedMachO(r io.ReaderAt, size int64, n *namer) ([]span, error) {
	x, err := f.openMachO(r, size)
	if err != nil {
		return nil, err
	}
	n.underscore = true
	u := x.order.Uint32
	part := func(at, n uint32) span { return span{int64(at), int64(at) + int64(n)} }
	list := append([]span{{0, int64(len(x.head))}}, x.places...)
	for _, c := range x.commands {
		for _, at := range machBlobs(u(c)) {
			list = append(list, part(u(c[at:]), u(c[at+4:])))
		}
	}
	if c := x.dysymtab; c != nil {
		list = append(list, part(u(c[56:]), 4*u(c[60:])))
	}
	list = subtract(join(append(list, x.contents...)), join(x.private))
	if x.symtab == nil {
		return list, nil
	}
	symbols, names, err := x.readSymbols(n.opt)
	if err != nil {
		return nil, err
	}
	list = append(list, part(u(x.symtab[8:]), u(x.symtab[12:])*uint32(x.symbolSize())))
	for _, s := range symbols {
		if text := names.at(s.name); s.class() == 2 || n.isPublic(string(text)) {
			list = append(list, allowedText(int64(u(x.symtab[16:])), s.name, text))
		}
	}
	return list, nil
}

func allowedBreakpad(r io.ReaderAt, size int64, n *namer) ([]span, error) {
	var list []span
	err := eachLine(r, size, func(number int, at int64, line []byte) error {
		switch record := breakpad.ParseRecord(line); record.Kind {
		case breakpad.FuncRecord, breakpad.PublicRecord:
			if !n.isPublic(string(line[record.Name:])) {
				return nil
			}
		case breakpad.CodeIDRecord, breakpad.StackRecord:
		case breakpad.ModuleRecord:
			if number > 1 {
				return nil
			}
		default:
			return nil
		}
		s := span{at, at + int64(len(line)) + 1}
		if k := len(list) - 1; k >= 0 && list[k].to == s.from {
			list[k].to = s.to
		} else {
			list = append(list, s)
		}
		return nil
	})
	return list, err
}

func allowedGSYM(r io.ReaderAt, size int64, n *namer) ([]span, error) {
	file, err := gsym.NewFile(r, size, 0)
	if err != nil {
		return nil, gsymError(err)
	}
	known := map[string]bool{}
	if _, err := file.WriteNames(io.Discard, func(shown, raw string, _ uint64) (string, string) {
		for _, name := range []string{shown, raw} {
			if n.isPublic(name) {
				known[name] = true
			}
		}
		return shown, raw
	}); err != nil {
		return nil, gsymError(err)
	}
	head, err := readPart(r, size, 0, 28)
	if err != nil {
		return nil, err
	}
	at, length := binary.LittleEndian.Uint32(head[20:]), binary.LittleEndian.Uint32(head[24:])
	table, err := readPart(r, size, uint64(at), uint64(length))
	if err != nil {
		return nil, err
	}
	// Only the string table has texts.
	list := []span{{0, int64(at)}, {int64(at) + int64(length), size}}
	for i, text := range eachText(table) {
		if known[string(text)] {
			list = append(list, allowedText(int64(at), uint32(i), text))
		}
	}
	return list, nil
}

func (f *form) allowedWASM(r io.ReaderAt, size int64, n *namer) ([]span, error) {
	sections, err := wasmSections(r, size)
	if err != nil {
		return nil, err
	}
	exported := map[uint64]bool{}
	if n.opt.Exported {
		if exported, err = wasmExports(r, size, sections); err != nil {
			return nil, err
		}
	}
	list := []span{{0, 8}}
	for _, s := range sections {
		if s.id != wasmCustom || isLoadedWASM(s.name) {
			list = append(list, span{s.at, s.end})
		}
		if s.id != wasmCustom || s.name != "name" {
			continue
		}
		p, err := readPart(r, size, uint64(s.start), uint64(s.end-s.start))
		if err != nil {
			return nil, err
		}
		if err := eachNames(p, func(id byte, part []byte, at int) error {
			if id == wasmNamesModule {
				list = append(list, span{s.start + int64(at), s.start + int64(at+len(part))})
			}
			if id != wasmNamesFunctions && id != wasmNamesGlobals {
				return nil
			}
			return eachName(part, func(index uint64, name []byte, in int) {
				if n.opt.Exported && (id != wasmNamesFunctions || !exported[index]) || !n.isPublic(string(name)) {
					return
				}
				from := s.start + int64(at+in)
				list = append(list, span{from, from + int64(len(name))})
			})
		}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (f *form) allowedPE(r io.ReaderAt, size int64, n *namer) ([]span, error) {
	x, err := f.openPE(r, size)
	if err != nil {
		return nil, err
	}
	if x.ships {
		return []span{{0, size}}, nil
	}
	n.underscore = x.x86
	list := append(x.contents(), span{0, int64(len(x.head))})
	symbols, texts, err := x.readSymbols(n.opt)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	at, count := int64(le.Uint32(x.head[x.optional-12:])), int64(le.Uint32(x.head[x.optional-8:]))
	end := at + count*coffSymbol
	list = append(list, span{at, end})
	for _, e := range symbols {
		if text := e.parseName(texts); e.long && n.isPublic(string(text)) {
			list = append(list, allowedText(end, e.name, text))
		}
	}
	for i, s := range x.sections {
		if number, ok := longName(x.sectionHead(i)); ok && !x.gone[i] {
			list = append(list, allowedText(end, number, []byte(s.Name)))
		}
	}
	return list, nil
}

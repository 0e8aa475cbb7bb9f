package objfile

import (
	"encoding/binary"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

// dbgHeaderSize is the size of an IMAGE_SEPARATE_DEBUG_HEADER.
const dbgHeaderSize = 48

// looksLikeDBG distinguishes a .DBG file from a text that begins with "DI".
func looksLikeDBG(head []byte) bool {
	if len(head) < dbgHeaderSize {
		return false
	}
	_, known := peArchs[binary.LittleEndian.Uint16(head[4:])]
	return known
}

// identifyDBG reads a .DBG file: debug information that was moved out of an
// image. It has the key of the image.
func identifyDBG(b *budget, name string) ([]Object, error) {
	h, err := b.bytes(0, dbgHeaderSize)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	id := debugid.PE{TimeDateStamp: le.Uint32(h[8:]), SizeOfImage: le.Uint32(h[20:])}
	sections, names, dirs := int64(le.Uint32(h[24:])), int64(le.Uint32(h[28:])), int64(le.Uint32(h[32:]))
	if sections > maxPESections || dirs > maxDebugEntries*debugEntrySize || dirs%debugEntrySize != 0 {
		return nil, broken("the DBG header claims %d sections and %d bytes of debug directory", sections, dirs)
	}
	o := b.whole(symfile.Object{Kind: symfile.DBG, Role: symfile.Debug, Name: name})
	o.Arch = peArch(le.Uint16(h[4:]))
	if !id.IsZero() {
		o.CodeID = id.String()
	}
	o.Features.Symtab = names > 0
	table, err := b.bytes(dbgHeaderSize+sections*peSectionSize+names, dirs)
	if err != nil {
		return nil, err
	}
	for records := 0; len(table) > 0; table = table[debugEntrySize:] {
		e := parseDebugEntry(table, b.size)
		if e.size > 0 && !e.inFile {
			return nil, broken("debug data of %d bytes at offset %d lie outside the file of %d bytes", e.size, e.off, b.size)
		}
		switch e.kind {
		case debugCOFF:
			o.Features.Symtab = true
		case debugFPO:
			o.Features.Unwind = true
		case debugCodeView:
			if records++; records > maxRecords || e.size == 0 {
				continue
			}
			want, info, err := codeView(b, e)
			if err != nil {
				return nil, err
			}
			if want.Kind != symfile.KindUnknown {
				o.addCompanion(want)
			}
			if info.embeddedInImage {
				o.Features.Debug = true
				o.DebugSize += e.size
			}
		}
	}
	return []Object{o}, nil
}

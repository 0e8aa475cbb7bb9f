package pdb

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// Limits of the tables that translate addresses.
const (
	maxSections = 1 << 16
	maxOMAP     = 1 << 24 // records
)

// header is a section header.
type header struct {
	name string
	extent
	code bool
}

// omapEntry says where the code from source on, up to the next entry, is in the
// image. Code with the target 0 is not in the image.
type omapEntry struct{ source, target uint32 }

// addresses translates segments and offsets of a PDB. Internal addresses are
// those before a tool such as BBT reordered the image; they equal the addresses
// in the image unless there is an OMAP.
type addresses struct {
	sections []header // that offsets refer to: the original ones if there is an OMAP
	image    []header
	omap     []omapEntry // from internal to image addresses, sorted by source
}

// readAddresses reads the section headers and the OMAP.
func (f *File) readAddresses() (*addresses, error) {
	a := &addresses{}
	var err error
	if a.image, err = f.sectionHeaders(optSections); err != nil {
		return nil, fmt.Errorf("section headers: %w", err)
	}
	a.sections = a.image
	if a.omap, err = f.readOMAP(); err != nil {
		return nil, fmt.Errorf("OMAP: %w", err)
	}
	if len(a.omap) == 0 {
		return a, nil
	}
	original, err := f.sectionHeaders(optOriginal)
	if err != nil {
		return nil, fmt.Errorf("original section headers: %w", err)
	}
	if len(original) > 0 {
		a.sections = original
	}
	return a, nil
}

// sectionHeaders reads the section headers in entry i of the optional debug
// header.
func (f *File) sectionHeaders(i int) ([]header, error) {
	b, err := f.optionalStream(i, 40, maxSections)
	if err != nil {
		return nil, err
	}
	var list []header
	for p := range slices.Chunk(b, 40) {
		name, _ := untilNUL(p[:8])
		start := uint64(u32(p, 12))
		size := uint64(max(u32(p, 8), u32(p, 16)))
		// Sections of code have the code or the execute bit.
		list = append(list, header{string(name), extent{start, start + size}, u32(p, 36)&0x20000020 != 0})
	}
	return list, nil
}

// readOMAP reads the OMAP from internal to image addresses.
func (f *File) readOMAP() ([]omapEntry, error) {
	b, err := f.optionalStream(optOMAP, 8, maxOMAP)
	if err != nil {
		return nil, err
	}
	list := make([]omapEntry, 0, len(b)/8)
	for p := range slices.Chunk(b, 8) {
		list = append(list, omapEntry{u32(p, 0), u32(p, 4)})
	}
	slices.SortStableFunc(list, func(x, y omapEntry) int { return cmp.Compare(x.source, y.source) })
	return list, nil
}

// section returns the section with the 1-based number seg, or nil.
func (a *addresses) section(seg uint16) *header {
	if seg == 0 || int(seg) > len(a.sections) {
		return nil
	}
	return &a.sections[seg-1]
}

// code returns the internal address of an offset in a section of code.
func (a *addresses) code(seg uint16, off uint32) (uint64, bool) {
	h := a.section(seg)
	if h == nil || !h.code {
		return 0, false
	}
	return h.start + uint64(off), true
}

// codeRange returns n bytes at an offset in a section of code as internal
// addresses. The range is cut at the end of the section.
func (a *addresses) codeRange(seg uint16, off, n uint32) (extent, bool) {
	h := a.section(seg)
	if h == nil || !h.code {
		return extent{}, false
	}
	e := extent{h.start + uint64(off), h.start + uint64(off) + uint64(n)}
	e.end = min(e.end, h.end)
	return e, e.start < e.end
}

// piece is code that is contiguous in both address spaces.
type piece struct {
	extent        // internal addresses
	image  uint64 // address of start in the image
}

// continues reports whether next lies behind p, inside the PDB and in the image.
func (p piece) continues(next piece) bool {
	return p.end == next.start && p.image+p.end-p.start == next.image
}

// pieces appends the parts of e that are in the image to list, in the order of
// internal addresses.
func (a *addresses) pieces(list []piece, e extent) []piece {
	if e.start >= e.end {
		return list
	}
	if len(a.omap) == 0 {
		return append(list, piece{e, e.start})
	}
	first := len(list)
	i := sort.Search(len(a.omap), func(i int) bool { return uint64(a.omap[i].source) > e.start })
	for i--; i < len(a.omap) && e.start < e.end; i++ {
		stop := e.end
		if i+1 < len(a.omap) {
			stop = min(stop, uint64(a.omap[i+1].source))
		}
		if i < 0 || stop <= e.start {
			e.start = max(e.start, stop)
			continue
		}
		if o := a.omap[i]; o.target != 0 {
			p := piece{extent{e.start, stop}, uint64(o.target) + e.start - uint64(o.source)}
			if last := len(list) - 1; last >= first && list[last].end == p.start && list[last].image+list[last].end-list[last].start == p.image {
				list[last].end = p.end
			} else {
				list = append(list, p)
			}
		}
		e.start = stop
	}
	return list
}

// toImage returns the address in the image of one internal address.
func (a *addresses) toImage(internal uint64) (uint64, bool) {
	var buf [1]piece
	p := a.pieces(buf[:0], extent{internal, internal + 1})
	if len(p) == 0 {
		return 0, false
	}
	return p[0].image, true
}

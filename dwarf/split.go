package dwarf

import (
	"errors"
	"fmt"
	"io/fs"
)

// Sections of a package index (DWARF 5, table 7.1; the older numbers are GNU's).
const (
	sectInfo       = 1
	sectAbbrev     = 3
	sectLine       = 4
	sectStrOffsets = 6
	sectRnglists   = 8 // version 5 only
)

const maxIndexSlots = 1 << 26

// packageIndex is the header of .debug_cu_index (DWARF 5, section 7.3.5).
type packageIndex struct {
	version            uint32
	sections, units    uint32
	slots              uint64
	rows, ids, offsets uint64 // where the tables begin
	columns            []uint32
}

// readPackageIndex reads the header of the index of a package.
func (w *worker) readPackageIndex(v *view) (*packageIndex, error) {
	c := cursor{b: v.index.At(0, 16), be: v.im.be}
	x := &packageIndex{}
	x.version = c.u32()
	if x.version != 2 { // version 5 has 16 bits of it and 16 of padding
		c.i = 0
		x.version = uint32(c.u16())
		c.u16()
	}
	x.sections, x.units = c.u32(), c.u32()
	x.slots = uint64(c.u32())
	if c.short || x.version != 2 && x.version != 5 {
		return nil, fmt.Errorf("%w: no index of units", errBad)
	}
	size := v.index.Size()
	if x.sections == 0 || x.sections > 32 || x.slots == 0 || x.slots > maxIndexSlots || x.slots&(x.slots-1) != 0 {
		return nil, fmt.Errorf("%w: an index of %d sections and %d slots", errBad, x.sections, x.slots)
	}
	x.ids = 16
	x.rows = x.ids + 8*x.slots
	x.offsets = x.rows + 4*x.slots
	if x.offsets+4*uint64(x.sections)*(1+2*uint64(x.units)) > size {
		return nil, fmt.Errorf("%w: an index of %d units in %d bytes", errBad, x.units, size)
	}
	c = cursor{b: v.index.At(x.offsets, int(4*x.sections)), be: v.im.be}
	for range x.sections {
		x.columns = append(x.columns, c.u32())
	}
	return x, nil
}

// find returns where the parts of a unit are.
func (x *packageIndex) find(v *view, id uint64) (contribution, bool) {
	mask := x.slots - 1
	slot, step := id&mask, (id>>32)&mask|1
	for range x.slots {
		c := cursor{b: v.index.At(x.ids+8*slot, 8), be: v.im.be}
		have := c.u64()
		c = cursor{b: v.index.At(x.rows+4*slot, 4), be: v.im.be}
		row := c.u32()
		if row == 0 {
			return contribution{}, false
		}
		if have == id {
			if row > x.units {
				return contribution{}, false
			}
			c = cursor{b: v.index.At(x.offsets+4*uint64(x.sections)*uint64(row), int(4*x.sections)), be: v.im.be}
			var at contribution
			for _, column := range x.columns {
				off := uint64(c.u32())
				switch column {
				case sectInfo:
					at.info = off
				case sectAbbrev:
					at.abbrev = off
				case sectLine:
					at.line = off
				case sectStrOffsets:
					at.strOffsets = off
				case sectRnglists:
					if x.version == 5 {
						at.rnglists = off
					}
				}
			}
			return at, true
		}
		slot = (slot + step) & mask
	}
	return contribution{}, false
}

// splitUnit returns the unit in a package or a .dwo file that belongs to a
// skeleton, or nil if there is none.
func (w *worker) splitUnit(skeleton *unit) (*unit, error) {
	if w.r.pkgIdx != nil {
		v := w.view(w.r.pkg)
		if at, ok := w.r.pkgIdx.find(v, skeleton.dwoID); ok {
			h, err := v.header(at.info)
			if err == nil && !h.unsupported {
				return w.openSplit(v, h, skeleton, at)
			}
		}
	}
	im, err := w.object(skeleton)
	if err != nil {
		return nil, err
	}
	if im == nil {
		w.lack(skeleton)
		return nil, nil
	}
	v := w.view(im)
	defer delete(w.views, im)
	off := uint64(0)
	for range 1 << 16 {
		h, err := v.header(off)
		if err != nil {
			break
		}
		if off = h.end; h.unsupported || h.typ == unitType || h.typ == unitSplitType {
			continue
		}
		u, err := w.openSplit(v, h, skeleton, contribution{})
		if w.fatal(err) {
			return nil, err
		}
		if err == nil && u.dwoID == skeleton.dwoID {
			return u, nil
		}
	}
	w.lack(skeleton)
	w.r.warn("DWARF: %s has no unit with the id %016x of the program", skeleton.dwo, skeleton.dwoID)
	return nil, nil
}

func (w *worker) openSplit(v *view, h header, skeleton *unit, at contribution) (*unit, error) {
	if h.addrSize != skeleton.addrSize {
		return nil, fmt.Errorf("%w: a split unit with addresses of %d bytes", errBad, h.addrSize)
	}
	return w.openUnit(v, h, skeleton, at)
}

// object returns the .dwo file of a skeleton, or nil.
func (w *worker) object(skeleton *unit) (*image, error) {
	r := w.r
	if r.data.Object == nil || skeleton.dwo == "" {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	get, err := r.data.Object(skeleton.dwo, skeleton.compDir, skeleton.dwoID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	im := &image{name: "file " + skeleton.dwo, be: r.main.be, split: true, get: get}
	r.steps.Add(stepsPerByte * im.bytes())
	return im, nil
}

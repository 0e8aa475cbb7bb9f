package dwarf

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Types of units (DWARF 5, table 7.2).
const (
	unitCompile      = 1
	unitType         = 2
	unitPartial      = 3
	unitSkeleton     = 4
	unitSplitCompile = 5
	unitSplitType    = 6
)

// header is the header of a unit in .debug_info.
type header struct {
	encoding
	typ           uint8
	off, die, end uint64 // of the unit, of its first entry, of what follows
	abbrev, dwoID uint64
	unsupported   bool // an unknown version; the length is right
}

// header reads the header of the unit at off. At the end of the section the error
// is fs.ErrNotExist.
func (v *view) header(off uint64) (header, error) {
	size := v.info.Size()
	if off >= size {
		return header{}, fs.ErrNotExist
	}
	c := cursor{b: v.info.At(off, 48), be: v.im.be}
	h := header{off: off}
	n := uint64(c.u32())
	if n == 0xffffffff {
		h.is64, n = true, c.u64()
	} else if n >= 0xfffffff0 {
		return h, fmt.Errorf("%w: a unit of length %#x at %#x", errBad, n, off)
	}
	start := off + uint64(c.i)
	if c.short || n > size-start {
		return h, fmt.Errorf("%w: the unit of %d bytes at %#x exceeds the section of %d bytes", errBad, n, off, size)
	}
	h.end = start + n
	h.version = c.u16()
	switch {
	case h.version >= 2 && h.version <= 4:
		h.typ = unitCompile
		h.abbrev, h.addrSize = c.offset(h.is64), c.u8()
	case h.version == 5:
		h.typ, h.addrSize = c.u8(), c.u8()
		h.abbrev = c.offset(h.is64)
		switch h.typ {
		case unitSkeleton, unitSplitCompile:
			h.dwoID = c.u64()
		case unitType, unitSplitType:
			c.u64()
			c.offset(h.is64)
		}
	default:
		h.unsupported = true
		return h, nil
	}
	h.die = off + uint64(c.i)
	if c.short || h.die > h.end {
		h.unsupported = true
	}
	return h, nil
}

// mark lists the units of an image, once.
func (w *worker) mark(v *view) error {
	im := v.im
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.marked {
		return nil
	}
	im.marked, im.step = true, 1
	off := uint64(0)
	for n := 0; ; n++ {
		h, err := v.header(off)
		if errors.Is(err, fs.ErrNotExist) {
			return v.info.Err()
		}
		if err != nil {
			if v.info.Err() != nil {
				return v.info.Err()
			}
			im.damage = err
			im.errs = append(im.errs, err)
			return nil
		}
		if n%im.step == 0 {
			im.mark(off)
		}
		if err := w.spend(1); err != nil {
			return err
		}
		off = h.end
	}
}

// mark notes the offset of a unit. When there are many, every other mark is let go.
func (im *image) mark(off uint64) {
	im.marks = append(im.marks, off)
	if len(im.marks) <= singleMarks || im.step == unitsPerMark {
		return
	}
	n := (len(im.marks) + 1) / 2
	for i := range n {
		im.marks[i] = im.marks[2*i]
	}
	im.marks, im.step = im.marks[:n], 2*im.step
}

// unit is a unit with the attributes of its first entry.
type unit struct {
	header
	v       *view
	abbrevs *abbrevs
	tag     uint16

	lang               uint64
	name, compDir, dwo string
	hasLines, hasCode  bool
	lines              uint64 // offset in .debug_line
	base               uint64 // of its range lists
	strOffsets, addr   uint64 // bases
	rnglists, ranges   uint64
	skeleton           *unit // of a split unit: whose addresses it uses
	top                die   // the first entry
}

// addresses returns the unit whose base and view of .debug_addr apply.
func (u *unit) addresses() *unit {
	if u.skeleton != nil {
		return u.skeleton
	}
	return u
}

// dieKey names an entry or a unit by its offset in .debug_info.
type dieKey struct {
	im  *image
	off uint64
}

// cachedUnits is the number of units that a worker keeps for references from
// others.
const cachedUnits = 64

// unitAt returns the unit that contains an offset of .debug_info.
func (w *worker) unitAt(v *view, off uint64) (*unit, error) {
	if v == nil {
		return nil, fmt.Errorf("%w: a reference to a supplementary file that is not there", errBad)
	}
	if err := w.mark(v); err != nil {
		return nil, err
	}
	i, found := slices.BinarySearch(v.im.marks, off)
	if !found {
		i--
	}
	if i < 0 {
		return nil, fmt.Errorf("%w: a reference to %#x, before all units", errBad, off)
	}
	at := v.im.marks[i]
	for range v.im.step {
		if err := w.spend(8); err != nil {
			return nil, err
		}
		h, err := v.header(at)
		if err != nil {
			break
		}
		if off < h.end {
			if off < h.die || h.unsupported {
				break
			}
			return w.openCached(v, h)
		}
		at = h.end
	}
	return nil, fmt.Errorf("%w: a reference to %#x, where no unit is", errBad, off)
}

func (w *worker) openCached(v *view, h header) (*unit, error) {
	key := dieKey{v.im, h.off}
	if u := w.units[key]; u != nil {
		return u, nil
	}
	u, err := w.openUnit(v, h, nil, contribution{})
	if err != nil {
		return nil, err
	}
	if len(w.units) >= cachedUnits {
		clear(w.units)
	}
	w.units[key] = u
	return u, nil
}

// contribution is where the parts of a split unit begin in the sections of a
// package. It is zero for other files.
type contribution struct{ info, abbrev, line, strOffsets, rnglists uint64 }

// openUnit reads the first entry of a unit.
func (w *worker) openUnit(v *view, h header, skeleton *unit, at contribution) (*unit, error) {
	if h.addrSize != 8 && h.addrSize != 4 && h.addrSize != 2 {
		return nil, fmt.Errorf("%w: addresses of %d bytes", errBad, h.addrSize)
	}
	if err := w.spend(64); err != nil {
		return nil, err
	}
	t, err := w.unitAbbrevs(v, h, at)
	if err != nil {
		return nil, err
	}
	u := &unit{header: h, v: v, abbrevs: t, skeleton: skeleton}
	if v.im.split {
		u.strOffsets, u.rnglists = at.bases(h.encoding)
	}
	d, err := w.dieAt(u, h.die)
	if err != nil {
		return nil, err
	}
	if d.ab == nil {
		return nil, fmt.Errorf("%w: a unit without an entry", errBad)
	}
	u.tag, u.top = d.ab.tag, d
	if err := w.readUnit(u); err != nil {
		return nil, err
	}
	return u, nil
}

// unitAbbrevs returns the abbreviations of a unit. A survey needs only that of the first
// entry.
func (w *worker) unitAbbrevs(v *view, h header, at contribution) (*abbrevs, error) {
	off := at.abbrev + h.abbrev
	if !w.survey {
		return w.abbrevTable(v, off, h.encoding)
	}
	c := cursor{b: v.info.At(h.die, 10)}
	code := c.uleb()
	enc := h.encoding
	if enc.version > 2 {
		enc.version = 5 // as abbrevTable has it
	}
	p := v.abbrev.At(off, 4096)
	if t, err := parseAbbrevs(p, enc, code); err == nil && code != 0 {
		return t, w.spend(int64(t.specs + 8*len(t.dense)))
	}
	return w.abbrevTable(v, off, h.encoding)
}

// bases returns where the string offsets and the range lists of a split unit begin, behind
// the headers of their contributions (DWARF 5, sections 7.26 and 7.28).
func (at contribution) bases(enc encoding) (strOffsets, rnglists uint64) {
	if enc.version < 5 {
		return at.strOffsets, at.rnglists
	}
	header := uint64(8)
	if enc.is64 {
		header = 16
	}
	return at.strOffsets + header, at.rnglists + header + 4
}

// readUnit reads the attributes of a unit's first entry. The bases come first: other
// attributes depend on them.
func (w *worker) readUnit(u *unit) error {
	c := cursor{be: u.v.im.be}
	var low, name, dir, dwo, ranges value
	if _, err := w.entry(u, u.die, &c, func(attr uint16, x value) {
		switch attr {
		case atStrOffsetsBase:
			u.strOffsets = x.u
		case atAddrBase, atGNUAddrBase:
			u.addr = x.u
		case atRnglistsBase:
			u.rnglists = x.u
		case atGNURangesBase:
			u.ranges = x.u
		case atLanguage:
			u.lang = x.u
		case atStmtList:
			u.hasLines, u.lines = true, x.u
		case atGNUDwoID:
			u.dwoID = x.u
		case atLowPC:
			low = x
		case atRanges:
			ranges = x
		case atName:
			name = x
		case atCompDir:
			dir = x
		case atDwoName, atGNUDwoName:
			dwo = x
		}
	}); err != nil {
		return err
	}
	u.name, u.compDir, u.dwo = string(w.str(u, name)), string(w.str(u, dir)), string(w.str(u, dwo))
	if u.skeleton != nil {
		u.base = u.skeleton.base
	}
	u.hasCode = ranges.form != 0
	if low.form != 0 {
		u.base, u.hasCode = w.address(u, low), true
	}
	return nil
}

// entry reads all attributes of one entry and returns its abbreviation, which is nil for a
// null entry.
func (w *worker) entry(u *unit, off uint64, c *cursor, attr func(uint16, value)) (*abbrev, error) {
	for n := 512; ; n *= 4 {
		*c = cursor{b: u.v.info.At(off, int(min(uint64(n), u.end-off))), be: u.v.im.be}
		complete := uint64(len(c.b)) == u.end-off || n >= maxWindow
		if len(c.b) == 0 || c.b[0] == 0 {
			return nil, nil
		}
		code := c.uleb()
		ab := u.abbrevs.get(code)
		if !c.short && ab == nil {
			return nil, fmt.Errorf("%w: entry at %#x with unknown abbreviation %d", errBad, off, code)
		}
		if !c.short {
			for _, s := range ab.specs {
				v, err := u.read(c, s.form, s.implicit)
				if c.short {
					break
				}
				if err != nil {
					return nil, err
				}
				if v.form == formString {
					v.u += off
				}
				attr(s.name, v)
			}
		}
		if !c.short {
			return ab, w.spend(int64(len(ab.specs)))
		}
		if complete || len(c.b) < n {
			return nil, fmt.Errorf("%w: the entry at %#x is cut off", errBad, off)
		}
	}
}

// die is an entry with the attributes that functions need. A value with form 0 is
// not there.
type die struct {
	ab                 *abbrev
	off                uint64
	low, high, ranges  value
	origin, spec       value
	name, linkage      value
	callFile, callLine uint64
}

func (d *die) set(attr uint16, v value) {
	switch attr {
	case atLowPC:
		d.low = v
	case atHighPC:
		d.high = v
	case atRanges:
		d.ranges = v
	case atAbstractOrigin:
		d.origin = v
	case atSpecification:
		d.spec = v
	case atName:
		d.name = v
	case atLinkageName, atMIPSLinkage:
		d.linkage = v
	case atCallFile:
		d.callFile = v.u
	case atCallLine:
		d.callLine = v.u
	}
}

// wanted reports whether set uses an attribute.
func wanted(attr uint16) bool {
	switch attr {
	case atLowPC, atHighPC, atRanges, atAbstractOrigin, atSpecification, atName, atLinkageName, atMIPSLinkage, atCallFile, atCallLine:
		return true
	}
	return false
}

// dieAt reads the entry at off in .debug_info. The result has no abbreviation if
// the entry is a null entry.
func (w *worker) dieAt(u *unit, off uint64) (die, error) {
	if off < u.die || off >= u.end {
		return die{}, fmt.Errorf("%w: a reference to %#x, outside of its unit", errBad, off)
	}
	d := die{off: off}
	var c cursor
	ab, err := w.entry(u, off, &c, d.set)
	if err != nil || ab == nil {
		return die{}, err
	}
	d.ab = ab
	return d, nil
}

// target returns the unit and the offset that a reference means.
func (w *worker) target(u *unit, v value) (*unit, uint64, error) {
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		if v.u >= u.end-u.off {
			return nil, 0, fmt.Errorf("%w: a reference to %#x, outside of its unit", errBad, v.u)
		}
		return u, u.off + v.u, nil
	case formRefAddr:
		if v.u >= u.die && v.u < u.end {
			return u, v.u, nil
		}
		if u.v.im.split {
			break
		}
		t, err := w.unitAt(u.v, v.u)
		return t, v.u, err
	case formGNURefAlt, formRefSup4, formRefSup8:
		t, err := w.unitAt(w.view(w.r.alt), v.u)
		return t, v.u, err
	}
	return nil, 0, fmt.Errorf("%w: a reference of form %#x", errBad, v.form)
}

// str returns the string of an attribute, or nil. It is valid until the next call.
func (w *worker) str(u *unit, v value) []byte {
	switch v.form {
	case formString:
		return u.v.info.CString(v.u, maxName)
	case formStrp:
		return u.v.str.CString(v.u, maxName)
	case formLineStrp:
		return u.v.lineStr.CString(v.u, maxName)
	case formStrpSup, formGNUStrpAlt:
		if alt := w.view(w.r.alt); alt != nil {
			return alt.str.CString(v.u, maxName)
		}
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIndex:
		if off, ok := u.strx(v.u); ok {
			return u.v.str.CString(off, maxName)
		}
	}
	return nil
}

// strx returns the offset in .debug_str of a string by its index.
func (u *unit) strx(i uint64) (uint64, bool) {
	n := u.offsetSize()
	if i >= u.v.strOffsets.Size() {
		return 0, false
	}
	c := cursor{b: u.v.strOffsets.At(u.strOffsets+i*uint64(n), n), be: u.v.im.be}
	off := c.offset(u.is64)
	return off, !c.short
}

// address returns the address of an attribute; addresses by index are those of
// .debug_addr. A wrong index gives the highest address, which is never code.
func (w *worker) address(u *unit, v value) uint64 {
	if v.form == formAddr {
		return v.u
	}
	if v.form == formLLVMAddrxOff {
		return w.addrx(u, v.u&0xffffffff) + v.u>>32
	}
	return w.addrx(u, v.u)
}

func (w *worker) addrx(u *unit, i uint64) uint64 {
	a := u.addresses()
	n := int(a.addrSize)
	if i >= a.v.addr.Size() {
		return a.maxAddress()
	}
	c := cursor{b: a.v.addr.At(a.addr+i*uint64(n), n), be: a.v.im.be}
	x := c.uint(n)
	if c.short {
		return a.maxAddress()
	}
	return x
}

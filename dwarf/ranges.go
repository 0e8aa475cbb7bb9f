package dwarf

import (
	"cmp"
	"fmt"
	"slices"
)

// Entries of .debug_rnglists (DWARF 5, table 7.30).
const (
	rleEnd          = 0
	rleBaseAddrx    = 1
	rleStartxEndx   = 2
	rleStartxLength = 3
	rleOffsetPair   = 4
	rleBaseAddress  = 5
	rleStartEnd     = 6
	rleStartLength  = 7
)

// entryRanges appends the ranges of code that an entry covers. Dead code is left
// out.
func (w *worker) entryRanges(u *unit, d *die, out []Range) ([]Range, error) {
	if d.ranges.form != 0 {
		return w.rangeList(u, d.ranges, out)
	}
	if d.low.form == 0 || d.high.form == 0 {
		return out, nil
	}
	low := w.address(u, d.low)
	var high uint64
	if isAddress(d.high.form) {
		high = w.address(u, d.high)
	} else {
		high = low + d.high.u
	}
	if w.alive(u, low, high) {
		out = append(out, Range{low, high})
	}
	return out, nil
}

// alive reports whether a range has code of the module. Linkers set the ranges
// of code that they discard to 0, or to the highest or the second highest address.
func (w *worker) alive(u *unit, low, high uint64) bool {
	if low >= high || low >= u.maxAddress()-1 {
		return false
	}
	code := w.r.opt.Code
	if len(code) == 0 {
		return low != 0
	}
	i, found := slices.BinarySearchFunc(code, low, func(r Range, a uint64) int { return cmp.Compare(r.Start, a) })
	if !found {
		i--
	}
	return i >= 0 && low < code[i].End
}

// rangeList appends the ranges of a list.
func (w *worker) rangeList(u *unit, v value, out []Range) ([]Range, error) {
	if u.version < 5 {
		off := v.u
		if u.skeleton != nil {
			off += u.skeleton.ranges
		}
		return w.oldRanges(u, off, out)
	}
	off := v.u
	if v.form == formRnglistx {
		n := u.offsetSize()
		if v.u >= u.v.rnglists.Size() {
			return out, fmt.Errorf("%w: range list %d", errBad, v.u)
		}
		c := cursor{b: u.v.rnglists.At(u.rnglists+v.u*uint64(n), n), be: u.v.im.be}
		off = u.rnglists + c.offset(u.is64)
		if c.short {
			return out, fmt.Errorf("%w: range list %d", errBad, v.u)
		}
	}
	return w.newRanges(u, off, out)
}

// oldRanges reads a list of .debug_ranges (DWARF 4, section 2.17.3).
func (w *worker) oldRanges(u *unit, off uint64, out []Range) ([]Range, error) {
	a := u.addresses()
	n := int(a.addrSize)
	base, limit := a.base, a.maxAddress()
	for range maxRanges {
		if err := w.spend(1); err != nil {
			return out, err
		}
		c := cursor{b: a.v.ranges.At(off, 2*n), be: a.v.im.be}
		low, high := c.uint(n), c.uint(n)
		if c.short {
			return out, fmt.Errorf("%w: a range list at %#x has no end", errBad, off)
		}
		off += uint64(2 * n)
		switch {
		case low == 0 && high == 0:
			return out, nil
		case low == limit:
			base = high
		case base < limit-1 && low < limit-1 && w.alive(u, base+low, base+high):
			out = append(out, Range{base + low, base + high})
		}
	}
	return out, fmt.Errorf("%w: a list of more than %d ranges", errBad, maxRanges)
}

// newRanges reads a list of .debug_rnglists (DWARF 5, section 2.17.3).
func (w *worker) newRanges(u *unit, off uint64, out []Range) ([]Range, error) {
	base, limit := u.addresses().base, u.maxAddress()
	n := int(u.addrSize)
	for range maxRanges {
		if err := w.spend(1); err != nil {
			return out, err
		}
		c := cursor{b: u.v.rnglists.At(off, 32), be: u.v.im.be}
		kind := c.u8()
		var low, high uint64
		switch kind {
		case rleEnd:
			if c.short {
				return out, fmt.Errorf("%w: a range list at %#x has no end", errBad, off)
			}
			return out, nil
		case rleBaseAddrx:
			base = w.addrx(u, c.uleb())
		case rleBaseAddress:
			base = c.uint(n)
		case rleStartxEndx:
			low, high = w.addrx(u, c.uleb()), w.addrx(u, c.uleb())
		case rleStartxLength:
			low = w.addrx(u, c.uleb())
			high = low + c.uleb()
		case rleOffsetPair:
			low, high = c.uleb(), c.uleb()
			if base >= limit-1 {
				low, high = 0, 0
			}
			low, high = base+low, base+high
		case rleStartEnd:
			low, high = c.uint(n), c.uint(n)
		case rleStartLength:
			low = c.uint(n)
			high = low + c.uleb()
		default:
			return out, fmt.Errorf("%w: entry %#x in a range list", errBad, kind)
		}
		if c.short {
			return out, fmt.Errorf("%w: a range list at %#x is cut off", errBad, off)
		}
		off += uint64(c.i)
		if w.alive(u, low, high) {
			out = append(out, Range{low, high})
		}
	}
	return out, fmt.Errorf("%w: a list of more than %d ranges", errBad, maxRanges)
}

package pdb

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/symdepot/symdepot/functab"
)

// Limits of line numbers.
const (
	maxC13Whole  = 4 << 20 // bytes of line numbers of a module that are read at once
	maxSiteRows  = 1 << 20 // rows of the inlined calls of a function
	maxOverlap   = 64      // contributions with line numbers that begin earlier and reach into a function
	firstNoLine  = 0xF00000
	badInlineEnd = 1 // bytes of a last row whose length is unknown
)

// row is a source position of the code from start to end. Addresses are
// internal.
type row struct {
	extent
	file functab.FileID
	line uint32
}

// contribution is a subsection of line numbers: those of a range of code.
type contribution struct {
	extent
	reach uint64 // largest end of this and of all earlier contributions
	at, n int64  // position of the blocks
	wide  bool   // with columns
}

// source is where an inlined function is defined.
type source struct{ id, file, line uint32 }

// checksum is an entry of the file table of a module.
type checksum struct {
	off, name uint32
	id        functab.FileID
	known     bool // id is set
}

// imported lists the ids that a module imports from another module.
type imported struct {
	name  uint32 // offset in the string table
	at    int64  // position of the ids
	count uint32
}

// moduleLines are the line numbers of one module.
type moduleLines struct {
	r        *reader
	b        *blocks
	whole    []byte // if not nil, all of the bytes
	base     int64  // offset of the line numbers in the stream
	size     int64
	contribs []contribution
	files    []checksum
	inlinees []source
	imports  []imported

	last int // contribution that rows has; -1 for none
	rows []row
}

// bytes returns n bytes at an offset in the line numbers.
func (l *moduleLines) bytes(off, n int64) ([]byte, error) {
	if l.whole == nil {
		return l.b.bytes(l.base+off, n)
	}
	if off < 0 || n < 0 || off > l.size || n > l.size-off {
		return nil, fmt.Errorf("%d bytes at offset %d of %d", n, off, l.size)
	}
	return l.whole[off : off+n], nil
}

// reset clears l for the next module.
func (l *moduleLines) reset() {
	l.contribs, l.files, l.inlinees, l.imports = l.contribs[:0], l.files[:0], l.inlinees[:0], l.imports[:0]
	l.last, l.rows, l.size = -1, l.rows[:0], 0
}

// open puts l at the line numbers of the module m in its stream s. At most whole bytes
// are read at once.
func (l *moduleLines) open(s sized, m compiland, whole int64) error {
	l.reset()
	l.base = m.symbols + m.c11
	l.size = max(min(m.c13, s.Size()-l.base), 0)
	if l.size > whole {
		l.whole = nil
		l.b = newBlocks(s, l.base+l.size, blockSize, maxC13Whole)
		return nil
	}
	if int64(cap(l.whole)) < l.size || l.whole == nil {
		l.whole = make([]byte, l.size, l.size+l.size/4)
	}
	l.whole = l.whole[:l.size]
	if err := readFull(s, l.whole, l.base); err != nil {
		l.size = 0
		return err
	}
	return nil
}

// each visits the subsections. An error of visit is returned after the last one.
func (l *moduleLines) each(visit func(kind uint32, at, n int64) error) error {
	var fault error
	for at := int64(0); l.size-at >= 8; {
		h, err := l.bytes(at, 8)
		if err != nil {
			return err
		}
		kind, n := u32(h, 0), int64(u32(h, 4))
		at += 8
		if n > l.size-at {
			fault = fmt.Errorf("a subsection of %d bytes at offset %d of %d bytes of line numbers", n, at, l.size)
			n = l.size - at
		}
		if err := visit(kind, at, n); err != nil {
			fault = err
		}
		at += (n + 3) &^ 3
	}
	return fault
}

// read finds the subsections of the module m in its stream s. An error leaves
// what was found before.
func (l *moduleLines) read(s sized, m compiland) error {
	if err := l.open(s, m, maxC13Whole); err != nil || l.size == 0 {
		return err
	}
	fault := l.each(func(kind uint32, at, n int64) error {
		switch kind {
		case c13Lines:
			return l.addLines(at, n)
		case c13Checksums:
			return l.addChecksums(at, n)
		case c13Inlinees:
			return l.addInlinees(at, n)
		case c13Imports:
			return l.addImports(at, n)
		}
		return nil
	})
	slices.SortStableFunc(l.contribs, func(x, y contribution) int { return cmp.Compare(x.start, y.start) })
	reach := uint64(0)
	for i := range l.contribs {
		reach = max(reach, l.contribs[i].end)
		l.contribs[i].reach = reach
	}
	slices.SortFunc(l.inlinees, func(x, y source) int {
		return cmp.Or(cmp.Compare(x.id, y.id), cmp.Compare(x.file, y.file), cmp.Compare(x.line, y.line))
	})
	return fault
}

// addLines notes a subsection of line numbers.
func (l *moduleLines) addLines(at, n int64) error {
	h, err := l.bytes(at, min(n, 12))
	if err != nil || n < 12 {
		return err
	}
	if e, ok := l.r.addr.codeRange(u16(h, 4), u32(h, 0), u32(h, 8)); ok {
		l.contribs = append(l.contribs, contribution{extent: e, at: at + 12, n: n - 12, wide: u16(h, 6)&1 != 0})
	}
	return nil
}

// addChecksums reads the file table of the module.
func (l *moduleLines) addChecksums(at, n int64) error {
	if len(l.files) > 0 {
		return nil
	}
	return l.eachFile(at, n, func(c checksum, _ uint8, _ int64) error {
		l.files = append(l.files, c)
		return nil
	})
}

// eachFile visits the entries of a file table: with the kind of the checksum, and the
// position of its size and bytes.
func (l *moduleLines) eachFile(at, n int64, visit func(c checksum, kind uint8, sum int64) error) error {
	for off := int64(0); n-off >= 6; {
		p, err := l.bytes(at+off, 6)
		if err != nil {
			return err
		}
		size := int64(p[4])
		if err := visit(checksum{off: uint32(off), name: u32(p, 0)}, p[5], at+off+4); err != nil {
			return err
		}
		off += (6 + size + 3) &^ 3
	}
	return nil
}

// addInlinees reads where inlined functions are defined.
func (l *moduleLines) addInlinees(at, n int64) error {
	if n < 4 {
		return nil
	}
	p, err := l.bytes(at, 4)
	if err != nil {
		return err
	}
	extended := u32(p, 0) == 1
	for off := int64(4); n-off >= 12; {
		if p, err = l.bytes(at+off, 12); err != nil {
			return err
		}
		l.inlinees = append(l.inlinees, source{u32(p, 0), u32(p, 4), u32(p, 8)})
		off += 12
		if extended && n-off >= 4 {
			if p, err = l.bytes(at+off, 4); err != nil {
				return err
			}
			off += 4 + 4*int64(u32(p, 0))
		}
	}
	return nil
}

// addImports records the ids that the module imports from other modules.
func (l *moduleLines) addImports(at, n int64) error {
	for off := int64(0); n-off >= 8; {
		p, err := l.bytes(at+off, 8)
		if err != nil {
			return err
		}
		i := imported{u32(p, 0), at + off + 8, u32(p, 4)}
		off += 8
		i.count = uint32(min(int64(i.count), (n-off)/4))
		off += 4 * int64(u32(p, 4))
		l.imports = append(l.imports, i)
	}
	return nil
}

// resolve returns the index that a reference into another module means.
func (l *moduleLines) resolve(index uint32) (uint32, bool) {
	module, item := int(index&^crossScope>>20), index&(1<<20-1)
	if module >= len(l.imports) || item >= l.imports[module].count {
		return 0, false
	}
	i := l.imports[module]
	p, err := l.bytes(i.at+4*int64(item), 4)
	if err != nil {
		return 0, false
	}
	return l.r.exports.global(l.r.names.text(i.name, maxStringLength), u32(p, 0))
}

// inlinee returns where the inlined function with an id is defined.
func (l *moduleLines) inlinee(id uint32) (source, bool) {
	i, ok := slices.BinarySearchFunc(l.inlinees, id, func(s source, id uint32) int { return cmp.Compare(s.id, id) })
	if !ok {
		return source{}, false
	}
	return l.inlinees[i], true
}

// file returns the file with an offset in the file table. Compilers have
// written offsets that are not those of an entry; such a file is unknown.
func (l *moduleLines) file(off uint32) functab.FileID {
	i, ok := slices.BinarySearchFunc(l.files, off, func(c checksum, off uint32) int { return cmp.Compare(c.off, off) })
	if !ok {
		return 0
	}
	c := &l.files[i]
	if !c.known {
		c.id, c.known = l.r.file(c.name), true
	}
	return c.id
}

// load decodes contribution i into l.rows.
func (l *moduleLines) load(i int) {
	if l.last == i {
		return
	}
	l.last, l.rows = i, l.rows[:0]
	c := l.contribs[i]
	base := c.start
	sorted := true
	for at := int64(0); c.n-at >= 12; {
		h, err := l.bytes(c.at+at, 12)
		if err != nil {
			return
		}
		file, count, size := l.file(u32(h, 0)), int64(u32(h, 4)), int64(u32(h, 8))
		count = min(count, (c.n-at-12)/8)
		p, err := l.bytes(c.at+at+12, 8*count)
		if err != nil {
			return
		}
		for ; len(p) >= 8; p = p[8:] {
			// Code that belongs to no line continues the line before it.
			line := u32(p, 4) & 0xFFFFFF
			if line >= firstNoLine {
				continue
			}
			start := base + uint64(u32(p, 0))
			if n := len(l.rows); n > 0 && l.rows[n-1].start > start {
				sorted = false
			}
			l.rows = append(l.rows, row{extent{start, 0}, file, line})
		}
		// A block that states too small a size would repeat its rows.
		at += max(size, 12+8*count)
	}
	if !sorted {
		slices.SortStableFunc(l.rows, func(x, y row) int { return cmp.Compare(x.start, y.start) })
	}
	for i := range l.rows {
		l.rows[i].end = c.end
		if i+1 < len(l.rows) {
			l.rows[i].end = min(c.end, l.rows[i+1].start)
		}
	}
}

// at returns the numbers of the first contribution that starts at addr, and of
// the first one after it.
func (l *moduleLines) at(addr uint64) (first, end int) {
	end = sort.Search(len(l.contribs), func(i int) bool { return l.contribs[i].start > addr })
	for first = end; first > 0 && l.contribs[first-1].start == addr; first-- {
	}
	return first, end
}

// within appends the rows of the code of e to list, in order and without
// overlap. Functions that the linker folded have contributions of one address;
// nth says which of them e is.
func (l *moduleLines) within(list []row, e extent, nth int) []row {
	first, end := l.at(e.start)
	i, skip := end, 0
	if nth < end-first {
		i, skip = first+nth, end-first-nth-1
	} else if first < end {
		i, skip = first, end-first-1
	}
	for n := 0; i == end && i > 0 && l.contribs[i-1].reach > e.start && n < maxOverlap; n++ {
		i, end = i-1, end-1
	}
	pos := e.start
	for ; i < len(l.contribs) && l.contribs[i].start < e.end; i, skip = i+1+skip, 0 {
		c := l.contribs[i]
		if c.end <= pos {
			continue
		}
		l.load(i)
		first := sort.Search(len(l.rows), func(i int) bool { return l.rows[i].end > pos })
		for _, r := range l.rows[first:] {
			if r.start >= e.end {
				break
			}
			r.start, r.end = max(r.start, pos), min(r.end, e.end)
			if r.start < r.end {
				list = append(list, r)
			}
		}
		pos = min(c.end, e.end)
	}
	return list
}

// The operations of binary annotations.
const (
	baEnd = iota
	baCodeOffset
	baChangeCodeOffsetBase
	baChangeCodeOffset
	baChangeCodeLength
	baChangeFile
	baChangeLineOffset
	baChangeLineEndDelta
	baChangeRangeKind
	baChangeColumnStart
	baChangeColumnEndDelta
	baChangeCodeOffsetAndLineOffset
	baChangeCodeLengthAndCodeOffset
	baChangeColumnEnd
)

// compressed returns the next compressed number of b and its size in bytes; 0
// at the end and for other bytes.
func compressed(b []byte) (v uint32, n int) {
	switch {
	case len(b) == 0:
	case b[0]&0x80 == 0:
		return uint32(b[0]), 1
	case b[0]&0xC0 == 0x80 && len(b) >= 2:
		return uint32(b[0]&0x3F)<<8 | uint32(b[1]), 2
	case b[0]&0xE0 == 0xC0 && len(b) >= 4:
		return uint32(b[0]&0x1F)<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3]), 4
	}
	return 0, 0
}

// signed converts a compressed number whose lowest bit is its sign.
func signed(v uint32) int32 {
	if v&1 != 0 {
		return -int32(v >> 1)
	}
	return int32(v >> 1)
}

// annotated appends the rows of an inlined call to list: those that its binary
// annotations describe, in order and without overlap. base is the start of the
// procedure. At most most rows are appended.
func (l *moduleLines) annotated(list []row, b []byte, base uint64, from source, known bool, most int) []row {
	first := len(list)
	offset, line := uint32(0), int32(from.line)
	fileAt := from.file
	var file functab.FileID
	fileKnown := false
	sorted := true
	emit := func(length uint32) {
		if !fileKnown {
			file, fileKnown = 0, true
			if known {
				file = l.file(fileAt)
			}
		}
		r := row{extent{base + uint64(offset), 0}, file, uint32(max(line, 0))}
		if !known {
			r.line = 0
		}
		if length > 0 {
			r.end = r.start + uint64(length)
		}
		if len(list) > first && list[len(list)-1].start > r.start {
			sorted = false
		}
		list = append(list, r)
	}
	for len(list)-first < most {
		op, n := compressed(b)
		if n == 0 || op == baEnd || op > baChangeColumnEnd {
			break
		}
		b = b[n:]
		v, n := compressed(b)
		if n == 0 {
			break
		}
		b = b[n:]
		switch op {
		case baCodeOffset:
			offset = v
		case baChangeCodeOffset:
			offset += v
			emit(0)
		case baChangeCodeLength:
			if len(list) > first && list[len(list)-1].end == 0 {
				list[len(list)-1].end = list[len(list)-1].start + uint64(v)
			}
			offset += v
		case baChangeFile:
			fileAt, fileKnown = v, false
		case baChangeLineOffset:
			line += signed(v)
		case baChangeCodeOffsetAndLineOffset:
			offset += v & 0xF
			line += signed(v >> 4)
			emit(0)
		case baChangeCodeLengthAndCodeOffset:
			delta, n := compressed(b)
			if n == 0 {
				b = nil
				continue
			}
			b = b[n:]
			offset += delta
			emit(v)
		}
	}
	rows := list[first:]
	if !sorted {
		slices.SortStableFunc(rows, func(x, y row) int { return cmp.Compare(x.start, y.start) })
	}
	endRows(rows)
	return slices.DeleteFunc(list, func(r row) bool { return r.start >= r.end })
}

// endRows ends each of the rows of an inlined call at the next, and the last one after
// badInlineEnd bytes if its end is not known.
func endRows(rows []row) {
	for i := range rows {
		r := &rows[i]
		next := r.start + badInlineEnd
		if i+1 < len(rows) {
			next = rows[i+1].start
		}
		if r.end == 0 || i+1 < len(rows) && r.end > next {
			r.end = next
		}
	}
}
